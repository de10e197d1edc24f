"""Integers of several widths in one kernel: narrow results that are used, operands of few bits.

A kernel of one operation stores its result, and the store drops extra bits of the register. They
show only if the result is widened, compared, divided or shifted first. A compiler that knows that
an operand has few bits may choose a shorter instruction, which some operands do not fit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.data_kinds import of_all_kinds
from tinyref_spec.device_under_test import DeviceUnderTest, Runnable
from tinyref_spec.error_rules import Ulp, identical
from tinyref_spec.isa.elementwise import LANES
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.kernels.notation import Sketch, load
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected


@dataclass(frozen=True)
class Output:
    """One result of a kernel.

    name: identifies the result in a failure.
    node: makes it from the loaded operands; `evaluate` computes its values.
    """

    name: str
    node: Callable[..., UOp]


def quotient(x: Array, y: Array) -> Array:
    """Return x / y towards zero, in the type of both."""
    return np.asarray((x - np.fmod(x, y)) // y)


def _larger(x: Array, y: Array) -> Array:
    """Return the larger one; x if both are zeros, or if one is NaN."""
    return np.asarray(np.where(x < y, y, x))


def _other_larger(x: Array, y: Array) -> Array:
    return np.asarray(np.where(y < x, x, y))


# All are exact in numpy, and wrap.
REFERENCES: Mapping[Ops, Callable[..., Array]] = {
    Ops.NEG: np.negative,
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.IDIV: quotient,
    Ops.MOD: np.fmod,
    Ops.MAX: _larger,
    Ops.AND: np.bitwise_and,
    Ops.OR: np.bitwise_or,
    Ops.XOR: np.bitwise_xor,
    Ops.SHL: np.left_shift,
    Ops.SHR: np.right_shift,
    Ops.CMPLT: np.less,
    Ops.CMPNE: np.not_equal,
}
# For two zeros, or a NaN and a number, MAX may give either.
_OTHER_REFERENCES: Mapping[Ops, Callable[..., Array]] = {**REFERENCES, Ops.MAX: _other_larger}
_SHIFTS = (Ops.SHL, Ops.SHR)
# Number of outputs of one program.
_TOGETHER = 128


def apply_op(op: Ops, *operands: UOp) -> UOp:
    """Return the node of an operation, whose operands stay in order: the builder may swap them."""
    first = operands[0].dtype
    dtype = dtypes.bool.vec(first.lanes) if op is Ops.CMPLT else first
    return UOp(op, dtype, operands)


References = Mapping[Ops, Callable[..., Array]]


def evaluate(node: UOp, data: dict[UOp, Array], references: References = REFERENCES) -> Array:
    """Return the values of `node` by numpy, from the values of its loads in `data`.

    The values of all nodes are added to `data`.
    """
    if node not in data:
        data[node] = _compute(node, data, references)
    return data[node]


def _compute(node: UOp, data: dict[UOp, Array], references: References) -> Array:
    dtype = numpy_dtype(node.dtype)
    if isinstance(node.arg, ConstArg):
        return np.full(LANES, node.arg.value, dtype)
    operands = [evaluate(source, data, references) for source in node.src]
    if node.op is Ops.CAST:
        return operands[0].astype(dtype)
    if node.op is Ops.BITCAST:
        return operands[0].view(dtype)
    if node.op is Ops.WHERE:
        return np.where(*operands)
    return references[node.op](*operands)


def measure_outputs(
    case_id: str,
    device: DeviceUnderTest,
    dtype: DType,
    data: Sequence[Array],
    outputs: Sequence[Output],
    lanes: int = 0,
) -> Measurement:
    """Measure kernels that compute the outputs from inputs of `dtype`, several in each kernel.

    A failure names the output: its kernel is run again for each output alone. If none fails alone,
    the failure names the outputs that the wrong element may belong to.

    lanes: vector width of a program that is rendered as it is. If it is 0, the compiler lowers a
    kernel, which has a buffer for each output.
    """
    several = _TOGETHER if lanes else max(1, device.capabilities.buffer_limit - len(data))
    compared = 0
    for first in range(0, len(outputs), several):
        part = outputs[first : first + several]
        measured = _measure_part(case_id, device, dtype, data, part, lanes)
        if not measured.passed:
            return _name_output(case_id, device, dtype, data, part, lanes) or measured
        compared += measured.compared
    measured.compared = compared
    return measured


def _name_output(
    case_id: str,
    device: DeviceUnderTest,
    dtype: DType,
    data: Sequence[Array],
    outputs: Sequence[Output],
    lanes: int,
) -> Measurement | None:
    for output in outputs:
        measured = _measure_part(case_id, device, dtype, data, [output], lanes)
        if not measured.passed:
            return measured
    return None


def _measure_part(
    case_id: str,
    device: DeviceUnderTest,
    dtype: DType,
    data: Sequence[Array],
    outputs: Sequence[Output],
    lanes: int,
) -> Measurement:
    drafts = [load(number, dtype, (LANES,)) for number in range(len(data))]
    results = [output.node(*drafts) for output in outputs]
    # Slots have no gaps: an input that no output uses is no parameter.
    is_used = [any(draft in result.toposort() for result in results) for draft in drafts]
    expected = _expected(results, dict(zip(drafts, data, strict=True)))
    inputs = [array for array, used in zip(data, is_used, strict=True) if used]
    names = [[output.name] for output in outputs]
    kernel: Runnable
    if not lanes:
        kernel = _kernel(dtype, is_used, outputs)
    else:
        of_type: dict[DType, list[int]] = {}
        for number, result in enumerate(results):
            of_type.setdefault(result.dtype, []).append(number)
        names = [[outputs[number].name for number in numbers] for numbers in of_type.values()]
        expected = [_joined([expected[number] for number in part]) for part in of_type.values()]
        sizes = {to: LANES * len(numbers) for to, numbers in of_type.items()}
        kernel = _program(lanes, dtype, is_used, outputs, sizes)
    every = [*[None] * len(expected), *inputs]
    rules = [Ulp(0)] * len(expected)
    measured = measure(device, Experiment(case_id, kernel, every, expected, rules))
    if not measured.passed:
        measured.message = f"{_names_at(measured, names)}: {measured.message}"
    return measured


def _names_at(measured: Measurement, names: Sequence[Sequence[str]]) -> str:
    """Return the outputs that the first wrong element may belong to; `names` are by buffer."""
    index = measured.details.index if measured.details is not None else -1
    number = max(index, 0) // LANES
    return " or ".join(buffer[number] for buffer in names if number < len(buffer))


def _expected(results: Sequence[UOp], loaded: Mapping[UOp, Array]) -> list[Expected]:
    """Return the values of nodes; floats are specified where either form of MAX gives the same."""
    values, others = dict(loaded), dict(loaded)
    items = []
    with np.errstate(all="ignore"):
        for result in results:
            item = Expected(evaluate(result, values))
            if result.dtype.is_float:
                other = evaluate(result, others, _OTHER_REFERENCES)
                item.specified = identical(item.values, other)
            items.append(item)
    return items


def _joined(items: Sequence[Expected]) -> Expected:
    values = np.concatenate([item.values for item in items])
    if items[0].specified is None:
        return Expected(values)
    return Expected(values, np.concatenate([item.specified for item in items]))


def _kernel(dtype: DType, is_used: Sequence[bool], outputs: Sequence[Output]) -> UOp:
    """Return a kernel of the outputs. A constant replaces an input that none uses."""
    sketch = Sketch(outputs=len(outputs))
    unused = build.const(dtype, 0)
    loads = [sketch.input(dtype, LANES) if used else unused for used in is_used]
    for output in outputs:
        sketch.store(output.node(*loads), LANES)
    return build.sink(*sketch.stores)


def _program(
    lanes: int,
    dtype: DType,
    is_used: Sequence[bool],
    outputs: Sequence[Output],
    sizes: Mapping[DType, int],
) -> Program:
    """Return a loop over all elements that computes the outputs, `lanes` elements at a time.

    sizes: of the buffers that hold the outputs of each type, one after another.
    """
    counter = loop(LANES // lanes, 0)
    position = build.mul(counter, lanes)
    slot = len(sizes)
    loads = []
    for used in is_used:
        memory = build.define_global(slot, dtype, LANES)
        loads.append(build.load(at(memory, position), lanes=lanes))
        slot += used
    results = {
        to: build.define_global(number, to, size) for number, (to, size) in enumerate(sizes.items())
    }
    firsts = dict.fromkeys(sizes, 0)
    stores = []
    for output in outputs:
        value = output.node(*loads)
        to = value.dtype.scalar
        stores.append(build.store(at(results[to], build.add(position, firsts[to])), value))
        firsts[to] += LANES
    return program("chains", counter, *stores, build.close(counter))


def integers(dtype: DType, seed: int) -> Array:
    """Return integers of all kinds: the edges, the limits, powers of two, random bits."""
    parts = [samples.edges(dtype), of_all_kinds(dtype, 100), samples.random_bits(dtype, 500, seed)]
    values = np.resize(np.concatenate(parts), LANES)
    return np.asarray(np.random.default_rng(seed).permutation(values))


def is_divisor(values: Array) -> Array:
    """Return True for integers that neither trap nor overflow as divisors: neither 0 nor -1."""
    return np.asarray((values != 0) & (values != np.array([-1]).astype(values.dtype)))


def divisors(dtype: DType, seed: int) -> Array:
    """Return integers of all kinds for which `is_divisor` holds."""
    values = integers(dtype, seed)
    return np.where(is_divisor(values), values, 3).astype(values.dtype)


# --- narrow results -------------------------------------------------------------------------------

NARROW = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)
# Their results have more bits than the type. For others, the quick profile runs two types.
_OVERFLOWING = (Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.SHL)
_QUICK = (dtypes.int8, dtypes.uint16)


def _cast(wide: DType, result: UOp, other: UOp) -> UOp:
    return build.cast(result, wide)


def _consumers(op: Ops, device: DeviceUnderTest) -> Iterator[Output]:
    """Yield uses of x op y: comparisons and divisions by z, shifts and casts."""
    arity = 1 if op is Ops.NEG else 2

    def output(name: str, use: Callable[[UOp, UOp], UOp]) -> Output:
        return Output(
            f"{op.name}, then {name}",
            lambda *loaded: use(apply_op(op, *loaded[:arity]), loaded[2]),
        )

    yield output("CMPLT", build.less)
    yield output("IDIV", build.idiv)
    yield output("SHR", lambda result, _: build.binary(Ops.SHR, result, 1))
    for wide in filter(device.capabilities.supports, (dtypes.int32, dtypes.int64)):
        yield output(f"CAST to {wide.name}", functools.partial(_cast, wide))


def _narrow(op: Ops, dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    x, y, z = integers(dtype, 1), integers(dtype, 2), divisors(dtype, 3)
    if op in _SHIFTS:
        y = (np.arange(LANES) % dtype.bits).astype(x.dtype)
    elif op in (Ops.IDIV, Ops.MOD):
        y = divisors(dtype, 2)
    return measure_outputs(case_id, device, dtype, [x, y, z], [*_consumers(op, device)])


def _narrow_row(op: Ops, dtype: DType) -> Row:
    is_quick = op in _OVERFLOWING or (dtype in _QUICK and op not in (Ops.AND, Ops.OR))
    check = Check("used", functools.partial(_narrow, op, dtype), full_only=not is_quick)
    return make_row(
        f"isa.narrow.{op.name.lower()}.{dtype.name}",
        f"A {dtype.name} result of {op.name} is cut to {dtype.bits} bits before it is used.",
        clauses=("int.wrap", "isa.cast", f"isa.{op.name.lower()}"),
        rung=Rung.CAST,
        op=op.name,
        dtype=dtype,
        uses=(dtype, dtypes.int32, dtypes.bool),
        checks=lambda: [check],
        advice=f"cut the result of {op.name} to {dtype.bits} bits, by its sign, before it is "
        "widened, compared, divided or shifted: its register has more",
    )


# --- operands with few bits -----------------------------------------------------------------------

FEW_BITS_OPS = (
    Ops.IDIV,
    Ops.MOD,
    Ops.MUL,
    Ops.SHR,
    Ops.ADD,
    Ops.SUB,
    Ops.MAX,
    Ops.CMPLT,
)


@dataclass(frozen=True)
class Narrowing:
    """A way to make an operand of few bits: `node` applies it to a load; `one` gives a 1."""

    name: str
    node: Callable[[UOp], UOp]
    one: int = 1


def _widening(target: DType) -> Narrowing:
    return Narrowing(target.name, lambda x: build.cast(x, target))


def _masked(bits: int) -> Narrowing:
    return Narrowing(f"low_{bits}", lambda x: build.binary(Ops.AND, x, (1 << bits) - 1))


def _shifted(dtype: DType, bits: int) -> Narrowing:
    count = dtype.bits - bits
    return Narrowing(f"high_{bits}", lambda x: build.binary(Ops.SHR, x, count), 1 << count)


def _few_bits_output(op: Ops, narrowing: Narrowing) -> Output:
    def node(x: UOp, y: UOp) -> UOp:
        first, second = narrowing.node(x), narrowing.node(y)
        if op is Ops.SHR:
            second = build.binary(Ops.AND, second, 7)
        return apply_op(op, first, second)

    return Output(op.name, node)


def _constant_dividend(op: Ops, narrowing: Narrowing) -> Output:
    """Return the output of the largest number of the type, divided by the second operand."""

    def node(x: UOp, y: UOp) -> UOp:
        divisor = narrowing.node(y)
        return apply_op(op, build.const(divisor.dtype, int(divisor.dtype.maximum)), divisor)

    return Output(f"{op.name} of a constant", node)


def _few_bits(
    source: DType, narrowing: Narrowing, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Measure each operation on two operands with few bits; half of the dividends are multiples."""
    x, y = integers(source, 4), integers(source, 5)
    # Pairs of edges in every combination come first, with the least integer and -1.
    edges = samples.edges(source)[:20]
    pairs = len(edges) ** 2
    x[:pairs], y[:pairs] = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    operand = load(0, source, (LANES,))
    y[evaluate(narrowing.node(operand), {operand: y}) == 0] = narrowing.one
    near = slice(pairs, None, 2)
    half, one = x.dtype.type(source.bits // 2), x.dtype.type(1)
    x[near] = y[near] * (x[near] >> half) - (x[near] & one)
    outputs = [_few_bits_output(op, narrowing) for op in FEW_BITS_OPS]
    outputs += [_constant_dividend(op, narrowing) for op in (Ops.IDIV, Ops.MOD)]
    return measure_outputs(case_id, device, source, [x, y], outputs)


_FEW_BITS_ADVICE = (
    "look at which instruction is chosen for operands with few bits: a shorter division or product "
    "must hold each quotient, product and sign that they have"
)


def _few_bits_row(
    name: str,
    sentence: str,
    source: DType,
    target: DType,
    narrowing: Narrowing,
    is_quick: bool,
) -> Row:
    return make_row(
        f"isa.{name}",
        sentence,
        clauses=("isa.cast", "int.wrap", "isa.idiv", "isa.mod", "isa.mul", "isa.shr"),
        rung=Rung.CAST,
        op="IDIV",
        dtype=source,
        uses=(source, target, dtypes.bool),
        checks=lambda: [
            Check("pairs", functools.partial(_few_bits, source, narrowing), full_only=not is_quick)
        ],
        advice=_FEW_BITS_ADVICE,
    )


def rows() -> Iterator[Row]:
    """Yield the rows of narrow results and of operands with few bits."""
    for op in REFERENCES:
        if op not in (Ops.CMPLT, Ops.CMPNE):
            for dtype in NARROW:
                yield _narrow_row(op, dtype)
    for source in dtypes.ints:
        for target in dtypes.ints:
            if source.bits < target.bits:
                yield _few_bits_row(
                    f"widened.{source.name}.to_{target.name}",
                    f"Integer arithmetic of {target.name} on two {source.name} that are widened.",
                    source,
                    target,
                    _widening(target),
                    source.is_unsigned or not target.is_unsigned,
                )
    for dtype in dtypes.ints:
        if dtype.bits >= 32:
            for narrowing in (_masked(8), _masked(24), _shifted(dtype, 8), _shifted(dtype, 24)):
                yield _few_bits_row(
                    f"few_bits.{narrowing.name}.{dtype.name}",
                    f"Arithmetic on two {dtype.name} of few bits, after a mask or a shift.",
                    dtype,
                    dtype,
                    narrowing,
                    dtype.bits == 32,
                )
