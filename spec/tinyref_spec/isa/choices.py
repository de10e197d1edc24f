"""Choices and branches by comparisons, and comparisons of a number with a function of itself.

A compiler turns a choice into a maximum, negates a joined condition by De Morgan, and drops a
comparison whose result it can derive. NaN, zeros and numbers that wrap break such rules. The
programs are rendered as they are, and the reference is numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.uops import build
from tinyref.uops.build import branch, close
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.isa.elementwise import LANES
from tinyref_spec.isa.families import (
    OF_FLOATS,
    Condition,
    Unary,
    beside,
    bits_type,
    check_of,
    checks_of,
    data_of,
    functions_of_itself,
    negated_maximum,
    row_of,
)
from tinyref_spec.isa.widths import Output, evaluate
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.measure import run_exact

# Joined conditions: those that a compiler rewrites by De Morgan, and exclusive ones.
JOINED: Mapping[str, Condition] = {
    "not (a and b)": lambda a, b: build.logical_not(build.both(a, b)),
    "not (a or b)": lambda a, b: build.logical_not(build.either(a, b)),
    "not a and not b": lambda a, b: build.both(build.logical_not(a), build.logical_not(b)),
    "not a or not b": lambda a, b: build.either(build.logical_not(a), build.logical_not(b)),
    "not (not a and b)": lambda a, b: build.logical_not(build.both(build.logical_not(a), b)),
    "not (a or not b)": lambda a, b: build.logical_not(build.either(a, build.logical_not(b))),
    "a and b": build.both,
    "a or b": build.either,
    "a xor b": functools.partial(build.binary, Ops.XOR),
    "not (a xor b)": lambda a, b: build.logical_not(build.binary(Ops.XOR, a, b)),
    "not a xor b": lambda a, b: build.binary(Ops.XOR, build.logical_not(a), b),
    "a != b": build.not_equal,
    "a < b": build.less,
    "a ? not b : b": lambda a, b: build.where(a, build.logical_not(b), b),
    "(a and b) xor True": lambda a, b: build.binary(Ops.XOR, build.both(a, b), True),
}


def _differs(x: UOp, y: UOp) -> UOp:
    return UOp(Ops.CMPNE, dtypes.bool.vec(x.dtype.lanes), (x, y))


def _not(condition: Condition) -> Condition:
    return lambda x, y: build.logical_not(condition(x, y))


_ORDERS: Mapping[str, Condition] = {
    "x < k": build.less,
    "k < x": lambda x, k: build.less(k, x),
    "x != k": _differs,
}
_COMPARISONS: Mapping[str, Condition] = {
    **_ORDERS,
    **{f"not ({text})": _not(condition) for text, condition in _ORDERS.items()},
    # True for all numbers except k, and false for NaN.
    "x < k or k < x": lambda x, k: build.either(build.less(x, k), build.less(k, x)),
}


def _choice(condition: Condition, constant: ConstType | None, branches: str, x: UOp, y: UOp) -> UOp:
    """Choose by a comparison of x with k, which is y if there is no constant."""
    bound = y if constant is None else build.const(x.dtype, constant)
    operands = {"x": x, "y": y, "k": bound}
    if x.dtype.is_int and constant is not None:
        operands["<"] = build.const(x.dtype, int(constant) - 1)
        operands[">"] = build.const(x.dtype, int(constant) + 1)
    return build.where(condition(x, bound), operands[branches[0]], operands[branches[1]])


def _choice_of_bits(condition: Condition, constant: ConstType, x: UOp, y: UOp) -> UOp:
    bound = build.const(x.dtype, constant)
    bits = bits_type(x.dtype.scalar)
    return build.where(condition(x, bound), build.bitcast(x, bits), build.bitcast(bound, bits))


def _joined(join: Condition, constant: ConstType, is_second: bool, x: UOp, y: UOp) -> UOp:
    """Join two comparisons of x, y and a constant."""
    bound = build.const(x.dtype, constant)
    if is_second:
        return join(_differs(x, bound), build.less(y, bound))
    return join(build.less(x, y), build.less(bound, x))


def _joined_choice(condition: Condition, x: UOp, y: UOp) -> UOp:
    return build.where(condition(x, y), x, y)


def joined_conditions(dtype: DType) -> Iterator[tuple[str, Condition]]:
    """Yield two comparisons that are joined in each way, with their texts."""
    constant = _bounds(dtype)[0]
    for text, join in JOINED.items():
        for is_second in (False, True):
            meaning = "a is x != k, b is y < k" if is_second else "a is x < y, b is k < x"
            condition = functools.partial(_joined, join, constant, is_second)
            yield f"{text}, where {meaning}, k = {constant}", condition


_ZEROS = (0.0, -0.0)


def _bounds(dtype: DType) -> tuple[ConstType, ...]:
    """Return the constants of comparisons, an ordinary one first."""
    if dtype.is_float:
        return 1.5, math.inf, -math.inf, math.nan
    below = int(dtype.maximum) - 1 if dtype.is_unsigned else -1
    return tuple(dict.fromkeys((7, 0, below, int(dtype.maximum), int(dtype.minimum))))


def choices(dtype: DType, bounds: Iterable[ConstType | None]) -> Iterator[Output]:
    """Yield choices by each comparison with constants, or with y for None."""
    for constant in bounds:
        forms = ["xk", "kx"]
        if constant == _bounds(dtype)[0]:
            forms += ["xy", "yx", "ky", "yk"]
            forms += ["x<", "<x", "x>", ">x"] if dtype.is_int else []
        for text, condition in _COMPARISONS.items():
            name = text if constant is None else text.replace("k", str(constant))
            for form in forms:
                chain = functools.partial(_choice, condition, constant, form)
                yield Output(f"{name} ? {form[0]} : {form[1]}, k = {constant}", chain)
            if dtype.is_float and constant is not None:
                chain = functools.partial(_choice_of_bits, condition, constant)
                yield Output(f"{name} ? bits of x : bits of {constant}", chain)


def zeros(dtype: DType, device: DeviceUnderTest, is_quick: bool) -> Iterator[Output]:
    """Yield choices by comparisons of a float with zeros of both signs."""
    yield from choices(dtype, _ZEROS)


def comparisons(dtype: DType, device: DeviceUnderTest, is_quick: bool) -> Iterator[Output]:
    """Yield choices and comparisons of a type, with functions of the same number as well."""
    yield from choices(dtype, (None, *_bounds(dtype)))
    for text, condition in joined_conditions(dtype):
        yield Output(f"x if {text}, else y", functools.partial(_joined_choice, condition))
    if dtype.is_int:
        yield from beside(functions_of_itself(dtype), ("<",), "fx xf")
        yield from beside(functions_of_itself(dtype), ("!=",), "xf" if is_quick else "fx xf")
        return
    yield Output("-max(-x, -y)", negated_maximum)
    yield from beside(OF_FLOATS, ("max", "min"), "fy yf fx xf")
    functions: dict[str, Unary] = {"x": lambda x: x, **OF_FLOATS}
    if device.capabilities.rounds_each_operation:
        functions["x + 1"] = lambda x: build.add(x, 1)
    yield from beside(functions, ("<", "!="), "fx xf")


# --- branches -------------------------------------------------------------------------------------

_OLD = 42


def _branches(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Store x if joined conditions are true: in an IF, and by a store with a gate."""
    x_data, y_data = data_of(dtype, device)
    conditions = [*joined_conditions(dtype)]
    size = 2 * len(conditions) * LANES
    out, *memories = (
        build.define_global(slot, dtype, count) for slot, count in enumerate((size, LANES, LANES))
    )
    i = loop(LANES, 0)
    x, y = (build.load(at(memory, i)) for memory in memories)
    loaded = {x: x_data, y: y_data}
    nodes: list[UOp] = [i, x, y]
    names: list[str] = []
    expected: list[Array] = []
    for text, condition in conditions:
        holds = condition(x, y)
        block = branch(holds)
        first = len(names) * LANES
        in_block = build.store(at(out, build.add(i, first)), x)
        gated = build.store(at(out, build.add(i, first + LANES)), x, holds)
        nodes += [holds, block, in_block, close(block), gated]
        names += [f"IF {text}", f"store with the gate {text}"]
        with np.errstate(invalid="ignore"):
            is_stored = evaluate(holds, loaded)
        expected += [np.where(is_stored, x_data, x_data.dtype.type(_OLD))] * 2
    old = np.full(size, _OLD, x_data.dtype)
    subject = program("branches", *nodes, close(i))
    joined = [np.concatenate(expected)]
    measured = run_exact(case_id, device, subject, [old, x_data, y_data], joined)
    if measured.details is not None and measured.details.index >= 0:
        name = names[measured.details.index // LANES]
        measured.message = f"{name}: {measured.message}"
    return measured


def _comparison_checks(dtype: DType) -> Iterator[Check]:
    yield from checks_of(dtype, comparisons)
    if dtype.is_float:
        yield check_of("zeros", dtype, zeros)


def _branch_checks(dtype: DType) -> Iterator[Check]:
    yield Check("joined", functools.partial(_branches, dtype))


def rows() -> Iterator[Row]:
    """Yield the rows of comparisons and of branches for each type of numbers."""
    for dtype in (*dtypes.ints, *dtypes.floats):
        yield row_of(
            "comparison",
            dtype,
            "Choices by a comparison, and comparisons of a number with a function of itself, give "
            "what their operations give, for NaN, infinities and zeros too.",
            functools.partial(_comparison_checks, dtype),
            ("isa.cmplt", "isa.cmpne", "isa.where", "isa.max", "isa.neg"),
        )
        yield row_of(
            "branch",
            dtype,
            "Branches and gates follow their joined comparisons, negated ones too.",
            functools.partial(_branch_checks, dtype),
            ("kernel.if", "memory.gate.store", "isa.and", "isa.or", "isa.xor"),
            rung=Rung.GATE,
            advice="look at how the condition in the message is negated or inverted: by De Morgan "
            "an AND becomes an OR, and a comparison with NaN becomes its unordered negation",
        )
