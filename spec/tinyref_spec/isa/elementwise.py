"""Rows of elementwise operations: one kernel of 1,024 lanes, and its batches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType
from tinyref.optimise.opt import Opt, OptOp
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_spec import samples
from tinyref_spec.bits import Array, bits_dtype, from_bits, to_bits
from tinyref_spec.case import Case, CaseNeeds, Measurement, Profile, Row, Rung
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised
from tinyref_spec.error_rules import Bounded, Rule, SameBits, Ulp, smallest_normal, ulp_limit
from tinyref_spec.isa.specials import Special
from tinyref_spec.kernels.named import elementwise
from tinyref_spec.kernels.notation import Sketch
from tinyref_spec.ladder import foundations
from tinyref_spec.literals import NotRepresentableError, is_subnormal, literal
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected
from tinyref_spec.styles import VECTOR_LANES

Reference = Callable[[Sequence[Array]], Expected]


# Elements of every elementwise kernel of the tables: one launch of an exhaustive slice.
LANES = 1024
# Vector widths in addition to the rung's own.
OTHER_LANES = (2, 8, 16)


@dataclass(frozen=True, eq=False)
class Operation:
    """An elementwise operation on some dtypes: how it is built, and its expected results.

    literals: the special cases whose values the dtypes have. The id is unique in the suite.
    contracted, reassociated: the expected results, with a tolerance, of a device that declares
    `contracts_floats` or `reassociates_floats`; None if they are the same. partial: the result of
    the first of two operations, unrounded: if it is subnormal, the result of a device that flushes
    is not specified. None for one operation. advice: as in `Row`.
    """

    id: str
    op: str
    dtype: str
    sentence: str
    clauses: tuple[str, ...]
    rung: Rung
    sources: tuple[DType, ...]
    result: DType
    build: Callable[..., UOp]
    reference: Reference
    rule: Rule
    specials: tuple[Special, ...]
    contracted: Reference | None = None
    reassociated: Reference | None = None
    partial: Callable[[Sequence[Array]], Array] | None = None
    advice: Mapping[str, str] = field(default_factory=dict)

    def expectation(
        self, capabilities: Capabilities, inputs: Sequence[Array], expected: Expected, rule: Rule
    ) -> tuple[Expected, Rule]:
        """Return what a device with these capabilities must give, instead of the strict result."""
        reassociates = capabilities.reassociates_floats
        contracted = None if capabilities.rounds_each_operation else self.contracted
        relaxed = self.reassociated if reassociates and self.reassociated else contracted
        if relaxed is not None:
            expected, rule = relaxed(inputs), Bounded()
        elif isinstance(rule, Ulp) and not capabilities.rounds_each_operation:
            limit = ulp_limit(self.op, self.result, False, reassociates)
            rule = dataclasses.replace(rule, limit=max(rule.limit, limit))
        if not capabilities.keeps_subnormals:
            expected = without_subnormals(self, inputs, expected)
        return expected, rule

    @property
    def kernel(self) -> UOp:
        """Return the AST, which is interned."""
        return elementwise(self.build, self.sources, LANES)

    @functools.cached_property
    def needs(self) -> CaseNeeds:
        dtypes = frozenset({*self.sources, self.result})
        return CaseNeeds(dtypes, frozenset({"kernels"}))

    @functools.cached_property
    def applicable(self) -> tuple[Special, ...]:
        """Return the literal cases whose values the operation's dtypes have."""
        return tuple(special for special in self.specials if _fits(self, special))

    @property
    def literals(self) -> tuple[Special, ...]:
        """Return the applicable cases with a specified result; the others are among the edges."""
        return tuple(special for special in self.applicable if special.result != "?")


def row_of(operation: Operation) -> Row:
    """Return the row of the tables for one operation."""
    return Row(
        operation.id,
        operation.sentence,
        operation.clauses,
        operation.rung,
        "isa",
        operation.op,
        operation.dtype,
        operation.rule.sentence,
        operation.needs,
        functools.partial(_cases, operation),
        tuple(special.text for special in operation.applicable),
        operation.advice,
    )


def vector_row_of(operation: Operation) -> Row:
    """Return the row of the same operation on vectors: one batch, with the edges of its dtypes."""
    vectors = dataclasses.replace(
        operation,
        id=f"isa.vector.{operation.id.removeprefix('isa.')}",
        sentence=f"{operation.sentence.rstrip('.')}, in vectors.",
        clauses=(*operation.clauses, "kernel.vector"),
        rung=Rung.VECTOR,
        specials=(),
    )
    needs = _with_lanes(vectors, VECTOR_LANES)
    make_cases = functools.partial(_vector_cases, vectors)
    return dataclasses.replace(row_of(vectors), needs=needs, make_cases=make_cases)


def _with_lanes(operation: Operation, lanes: int) -> CaseNeeds:
    needs = operation.needs
    return CaseNeeds(needs.dtypes, needs.features | {f"vectors:{lanes}"})


def _vector_cases(operation: Operation, profile: Profile) -> list[Case]:
    """Return the case with the lane count of the rung; in the full profile with all counts.

    Pairs of floats are cast in the quick profile too, because GPUs have special instructions for
    them.
    """
    (case,) = _edge_cases(operation, profile)
    cases = [dataclasses.replace(case, needs=_with_lanes(operation, VECTOR_LANES))]
    kind = case.id.rpartition(".")[2].partition(":")[0]
    is_float_cast = operation.op == "CAST" and operation.result.is_float
    some = (2,) if is_float_cast and operation.sources[0].is_float else ()
    for lanes in OTHER_LANES if profile is Profile.FULL else some:
        opts = (Opt(OptOp.UPCAST, 0, lanes),)
        run = functools.partial(_run_batch, kind, 0, opts=opts)
        needs = _with_lanes(operation, lanes)
        cases.append(dataclasses.replace(_case(operation, f"lanes:{lanes}", run), needs=needs))
    return cases


def edge_row_of(operation: Operation) -> Row:
    """Return the row of an operation that runs one batch: the edges of its dtypes."""
    make_cases = functools.partial(_edge_cases, operation)
    return dataclasses.replace(row_of(operation), make_cases=make_cases)


def _edge_cases(operation: Operation, profile: Profile) -> list[Case]:
    kind = next(iter(batches(operation, Profile.QUICK)))
    return [_case(operation, f"{kind}:0", functools.partial(_run_batch, kind, 0))]


def _fits(operation: Operation, special: Special) -> bool:
    try:
        operand_values(operation, special)
        result_value(operation, special)
    except NotRepresentableError:
        return False
    return True


def _has_subnormal(operation: Operation, special: Special) -> bool:
    """Return True if an operand or the result is subnormal by value: 0x1p-24 is, as float16."""
    pairs = [*zip(operand_values(operation, special), operation.sources, strict=True)]
    result = result_value(operation, special)
    if result is not None:
        pairs.append((result, operation.result))
    return any(bool(is_subnormal(values, dtype).any()) for values, dtype in pairs)


def operand_values(operation: Operation, special: Special) -> tuple[Array, ...]:
    """Return the operands of a literal case, one element each."""
    pairs = zip(special.operands, operation.sources, strict=True)
    return tuple(literal(text, dtype) for text, dtype in pairs)


def result_value(operation: Operation, special: Special) -> Array | None:
    """Return the result of a literal case, one element; None if it is unspecified."""
    return None if special.result == "?" else literal(special.result, operation.result)


Run = Callable[[DeviceUnderTest], Measurement]


def _cases(operation: Operation, profile: Profile) -> list[Case]:
    cases = [
        _case(operation, f"special:{number}", functools.partial(_run_special, special), special)
        for number, special in enumerate(operation.literals)
    ]
    for kind, count in batches(operation, profile).items():
        cases += [
            _case(operation, f"{kind}:{number}", functools.partial(_run_batch, kind, number))
            for number in range(count)
        ]
    return cases


def _case(
    operation: Operation,
    name: str,
    run: Callable[..., Measurement],
    special: Special | None = None,
) -> Case:
    case_id = f"{operation.id}.{name}"
    needs = operation.needs
    if special is not None and _has_subnormal(operation, special):
        needs = CaseNeeds(needs.dtypes, needs.features | {"subnormals"})
    if special is not None and (operation.contracted or operation.reassociated):
        needs = CaseNeeds(needs.dtypes, needs.features | {"strict floats"})
    return Case(
        case_id,
        operation.id,
        "isa",
        operation.rung,
        operation.op,
        operation.dtype,
        operation.clauses,
        needs,
        foundations(operation.rung, operation.dtype),
        functools.partial(run, operation, case_id),
    )


def batches(operation: Operation, profile: Profile) -> dict[str, int]:
    """Return the number of batches of 1,024 elements by kind that `profile` runs."""
    full = profile is Profile.FULL
    sources = operation.sources
    total = sum(dtype.bits for dtype in sources)
    if total <= 10:
        return {"exhaustive": 1}
    counts = {"edge": -(-_edge_count(operation) // LANES), "random": 64 if full else 2}
    if operation.op in ("CAST", "BITCAST"):
        counts["random"] = 64 if full else 1
    if total == 16 and _is_quick_table(operation):
        return {"edge": counts["edge"], "exhaustive": (1 << 16) // LANES}
    if total == 16 and full:
        # The whole table, and what the quick profile runs.
        return {**batches(operation, Profile.QUICK), "exhaustive": (1 << 16) // LANES}
    counts["moderate"] = 48 if full else 1
    if len(sources) == 1:
        counts["spaced"] = 64 if full else 1
    return counts


def _is_quick_table(operation: Operation) -> bool:
    """Return True for unary operations on 16 bits: every profile runs all of their values."""
    return len(operation.sources) == 1 and operation.op not in ("CAST", "BITCAST")


def _edge_count(operation: Operation) -> int:
    count = 1
    for dtype in operation.sources:
        count *= len(samples.edges(dtype))
    return min(count, 4 * LANES) if len(operation.sources) > 2 else count


def columns(operation: Operation, kind: str, number: int) -> tuple[Array, ...]:
    """Return the operands of one batch: 1,024 elements each."""
    sources = operation.sources
    if kind == "exhaustive":
        return _table(sources, number)
    if kind == "edge":
        if isinstance(operation.rule, SameBits) and len(sources) == 1:
            return _bits_batch(sources[0], operation.result)
        # An expression that ends in a cast has operands of its own.
        is_cast = operation.op == "CAST" and len(sources) == 1
        return _cast_batch(operation) if is_cast else _edge_batch(sources, number)
    if operation.op in ("SHL", "SHR"):
        return _shift_batch(sources[0], number, kind)
    maker = {"random": samples.random_bits, "moderate": samples.moderate}.get(kind)
    if maker is None:
        return (samples.spaced_patterns(sources[0], LANES, offset=number * 7919 + number),)
    return tuple(
        maker(dtype, LANES, 1000 * number + position) for position, dtype in enumerate(sources)
    )


def _shift_batch(dtype: DType, number: int, kind: str) -> tuple[Array, ...]:
    """Return any values, and counts below the width."""
    maker = samples.random_bits if kind == "random" else samples.moderate
    counts = np.random.default_rng([number, dtype.bits]).integers(0, dtype.bits, LANES)
    return maker(dtype, LANES, 1000 * number), counts.astype(samples.edges(dtype).dtype)


def _table(sources: tuple[DType, ...], number: int) -> tuple[Array, ...]:
    if len(sources) == 1:
        # Slices interleave: a block of neighbours could be all NaN, or all out of range.
        numbers = number + np.arange(LANES) * ((1 << 16) // LANES)
        return (samples.quiet(_patterns(sources[0], numbers), sources[0]),)
    if sum(dtype.bits for dtype in sources) <= 10:
        grids = [samples.edges(dtype) if dtype.is_bool else _all(dtype) for dtype in sources]
        mesh = np.meshgrid(*[np.arange(len(grid)) for grid in grids], indexing="ij")
        picked = [grid[index.ravel()] for grid, index in zip(grids, mesh, strict=True)]
        return samples.fit_columns(picked, LANES)
    # A block of pairs has every value on the right.
    return samples.pair_table(sources[0], sources[1], number * LANES + np.arange(LANES))


def _patterns(dtype: DType, numbers: Array) -> Array:
    if dtype.bits < 16:
        numbers = np.arange(LANES) % (1 << dtype.bits)
    return numbers.astype(bits_dtype(dtype))


def _all(dtype: DType) -> Array:
    return samples.table(dtype)


def _bits_batch(source: DType, target: DType) -> tuple[Array, ...]:
    """Return the edge grid, and the bits of NaNs of either type."""
    nans = [samples.nan_payloads(source)]
    if source.itemsize == target.itemsize:
        nans.append(from_bits(to_bits(samples.nan_payloads(target)), source))
    return samples.fit_columns([np.concatenate([*nans, samples.edges(source)])], LANES)


def _cast_batch(operation: Operation) -> tuple[Array, ...]:
    """Return the edge grid, NaNs, and the limits and ties of the result type of a cast."""
    (source,) = operation.sources
    parts = (samples.limits_between, samples.ties_between)
    beyond = [values_between(source, operation.result) for values_between in parts]
    grid = np.concatenate([samples.nan_payloads(source), samples.edges(source), *beyond])
    assert len(grid) <= LANES, "one batch has all of them"
    return samples.fit_columns([grid], LANES)


def _edge_batch(sources: tuple[DType, ...], number: int) -> tuple[Array, ...]:
    """Return the edge grid crossed with itself; of three operands a random part of the cube."""
    grids = [samples.edges(dtype) for dtype in sources]
    total = 1
    for grid in grids:
        total *= len(grid)
    indices = np.arange(number * LANES, (number + 1) * LANES) % total
    if len(sources) > 2:
        indices = np.random.default_rng([number, total]).integers(0, total, LANES)
    chosen: list[Array] = []
    for grid in reversed(grids):
        chosen.append(grid[indices % len(grid)])
        indices = indices // len(grid)
    return tuple(reversed(chosen))


def _run_special(
    special: Special, operation: Operation, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Run a literal case: every lane has the same literals and the same result."""
    operands = operand_values(operation, special)
    result = result_value(operation, special)
    assert result is not None
    expected = Expected(np.repeat(result, LANES))
    inputs = [np.repeat(operand, LANES) for operand in operands]
    return run_operation(
        operation, case_id, inputs, expected, _special_rule(operation, result), device
    )


def _special_rule(operation: Operation, result: Array) -> Rule:
    """Return the rule for a literal: exact for zeros, infinities and NaN, else the row's own."""
    if not operation.result.is_float or isinstance(operation.rule, SameBits):
        return operation.rule
    wide = float(result.astype(np.float64)[0])
    return operation.rule if np.isfinite(wide) and wide != 0 else Ulp(0)


def _run_batch(
    kind: str,
    number: int,
    operation: Operation,
    case_id: str,
    device: DeviceUnderTest,
    opts: tuple[Opt, ...] = (),
) -> Measurement:
    inputs = columns(operation, kind, number)
    expected = operation.reference(inputs)
    return run_operation(operation, case_id, inputs, expected, operation.rule, device, opts)


def without_subnormals(
    operation: Operation, inputs: Sequence[Array], expected: Expected
) -> Expected:
    """Leave subnormals unspecified, for a device that flushes them.

    So are results rounded up to a normal number: many units check before they round.
    """
    specifiable = ~is_subnormal(expected.values, operation.result)
    if expected.wide is not None and operation.result.is_float:
        specifiable &= _is_zero_or_normal(expected.wide, operation.result)
    for values, dtype in zip(inputs, operation.sources, strict=True):
        specifiable &= ~is_subnormal(values, dtype)
    if operation.partial is not None:
        specifiable &= _is_zero_or_normal(operation.partial(inputs), operation.result)
    specified = specifiable if expected.specified is None else expected.specified & specifiable
    return dataclasses.replace(expected, specified=specified)


def _is_zero_or_normal(unrounded: Array, dtype: DType) -> Array:
    magnitude = np.abs(unrounded)
    return np.asarray((magnitude == 0) | ~(magnitude < smallest_normal(dtype)))


def run_operation(
    operation: Operation,
    case_id: str,
    inputs: Sequence[Array],
    expected: Expected,
    rule: Rule,
    device: DeviceUnderTest,
    opts: tuple[Opt, ...] = (),
) -> Measurement:
    """Run an operation on `LANES` values of each source, and judge it by the device's declaration.

    opts: replace those of the rung, if there are any.
    """
    expected, rule = operation.expectation(device.capabilities, inputs, expected, rule)
    kernel = Optimised(operation.kernel, opts) if opts else operation.kernel
    experiment = Experiment(case_id, kernel, [None, *inputs], [expected], [rule])
    return measure(device.on_rung(operation.rung), experiment)


def run_operations(
    case_id: str, operations: Sequence[tuple[Operation, Sequence[Array]]], device: DeviceUnderTest
) -> Measurement:
    """Measure one kernel of several operations of a rung, each with its inputs.

    Equal inputs of one type share a buffer.
    """
    sketch = Sketch(outputs=len(operations))
    loads: dict[tuple[DType, bytes], UOp] = {}
    data: list[Array] = []
    expected, rules = [], []
    for operation, inputs in operations:
        operands = []
        for dtype, array in zip(operation.sources, inputs, strict=True):
            key = dtype, array.tobytes()
            if key not in loads:
                loads[key] = sketch.input(dtype, LANES)
                data.append(array)
            operands.append(loads[key])
        sketch.store(operation.build(*operands), LANES)
        reference = operation.reference(inputs)
        values, rule = operation.expectation(device.capabilities, inputs, reference, operation.rule)
        expected.append(values)
        rules.append(rule)
    kernel = build.sink(*sketch.stores)
    every = [*[None] * len(operations), *data]
    rung = operations[0][0].rung
    return measure(device.on_rung(rung), Experiment(case_id, kernel, every, expected, rules))
