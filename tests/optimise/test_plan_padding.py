"""PADTO of reduces: which terms are 0 where what they load is 0, op by op, and what if not.

A legal padding is run and must give what the AST evaluator gives, NaN and infinities included; a
refused one is forced, and must be seen to change the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_cases import GRID

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise import legality
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.notation import kernel_of, load, shaped, store

i32, u32, f32 = dtypes.int32, dtypes.uint32, dtypes.float32
ROWS, LENGTH = 3, 5
PAD = Opt(OptOp.PADTO, 1, 4)
INF, NAN = float("inf"), float("nan")
GROUPS = replace(GRID, shared_bytes=1 << 16)

# Builds the terms of the sum from x[i, k], y[i, k] (both end with the axis) and s[i].
Terms = Callable[[UOp, UOp, UOp], UOp]


def const(value: float, dtype: DType) -> UOp:
    return build.const(dtype, value)


def kernel(terms: Terms, dtype: DType, op: Ops = Ops.ADD) -> UOp:
    """Slot 0 is the reduce of the terms over k; slot 1 reads x, y and s, slots 2, 3 and 4."""
    shape = (ROWS, LENGTH)
    x, y = (load(slot, dtype, shape) for slot in (2, 3))
    s = load(4, dtype, (ROWS, 1))
    first = shaped(*shape).shrink(((0, ROWS), (0, 1)))
    read = build.add(s, build.add(*[load(slot, dtype, first, ROWS * LENGTH) for slot in (2, 3)]))
    total = build.reduce(op, terms(x, y, s), (1,))
    column = shaped(ROWS, 1)
    return build.sink(store(0, total, column), store(1, read, column))


def data(dtype: DType, **given: Any) -> dict[int, np.ndarray]:
    """Inputs by slot, none of them 0; `given` x, y and s instead."""
    kind = numpy_dtype(dtype)
    x = np.arange(1, 1 + ROWS * LENGTH).astype(kind)
    found = {2: x, 3: (x[::-1] + kind.type(1)).astype(kind), 4: np.array([2, 3, 4], kind)}
    for name, slot in (("x", 2), ("y", 3), ("s", 4)):
        if name in given:
            found[slot] = np.resize(np.array(given[name], kind), found[slot].shape)
    return found


def run(plan_of: UOp, opts: tuple[Opt, ...], inputs: Mapping[int, np.ndarray]) -> np.ndarray:
    program = compile_kernel(plan_of, GROUPS, opts=opts)
    buffers = []
    for parameter in program.parameters:
        given = inputs.get(parameter.slot)
        kind = numpy_dtype(parameter.dtype)
        buffers.append(np.zeros(parameter.size, kind) if given is None else given.copy())
    slots = {parameter.slot: number for number, parameter in enumerate(program.parameters)}
    run_program(program, _by_slot(buffers, slots))
    return buffers[slots[0]]


def _by_slot(buffers: list[np.ndarray], slots: Mapping[int, int]) -> list[np.ndarray]:
    return [buffers[slots[slot]] for slot in sorted(slots)]


def expected(ast: UOp, inputs: Mapping[int, np.ndarray]) -> np.ndarray:
    found = {}
    for node in ast.toposort():
        if node.op is Ops.DEFINE_GLOBAL:
            zeros = np.zeros(node.dtype.size, numpy_dtype(node.dtype.base))
            found[node.arg.slot] = inputs.get(node.arg.slot, zeros)
    return evaluate(ast, found)[0]


def is_legal(ast: UOp) -> bool:
    return Plan.of(ast, GROUPS).legal(PAD) is not None


def bits(x: UOp, to: DType) -> UOp:
    return UOp(Ops.BITCAST, to, (x,))


def unary(op: Ops) -> Terms:
    return lambda x, y, s: UOp(op, x.dtype, (x,))


def as_int(condition: UOp, dtype: DType = i32) -> UOp:
    return build.cast(condition, dtype)


LEGAL: dict[str, tuple[Terms, DType, dict[str, Any]]] = {
    "load": (lambda x, y, s: x, f32, {"x": [1, NAN, INF, -INF, 2]}),
    "neg": (unary(Ops.NEG), f32, {}),
    "sqrt": (unary(Ops.SQRT), f32, {"x": [4, 9, INF, 16, 1]}),
    "sin": (unary(Ops.SIN), f32, {"x": [0.0, 0.0, 0.0, NAN, 0.0]}),
    "trunc": (unary(Ops.TRUNC), f32, {"x": [1.5, -2.5, 3.0, 4.0, 0.5]}),
    "cast": (lambda x, y, s: build.cast(x, f32), i32, {}),
    "cast_to_bool": (lambda x, y, s: as_int(build.cast(x, dtypes.bool)), f32, {}),
    "bits_of_a_load": (lambda x, y, s: bits(x, i32), f32, {}),
    "bits_of_integers": (lambda x, y, s: bits(build.add(x, y), f32), i32, {"x": [0], "y": [0]}),
    "add": (lambda x, y, s: build.add(x, y), f32, {"x": [INF], "y": [1]}),
    "sub": (lambda x, y, s: build.sub(x, y), f32, {}),
    "maximum": (lambda x, y, s: build.maximum(x, y), i32, {"x": [-5], "y": [-7]}),
    "or": (lambda x, y, s: build.either(x, y), i32, {}),
    "xor": (lambda x, y, s: UOp(Ops.XOR, i32, (x, y)), i32, {}),
    "and_with_what_is_not_0": (lambda x, y, s: UOp(Ops.AND, i32, (x, s)), i32, {}),
    "less": (lambda x, y, s: as_int(build.less(x, y)), i32, {}),
    "not_equal": (lambda x, y, s: as_int(build.not_equal(x, y)), i32, {}),
    "product": (lambda x, y, s: build.mul(x, y), f32, {"x": [INF, 1], "y": [1, NAN]}),
    "integer_product": (lambda x, y, s: build.mul(x, s), i32, {}),
    "product_with_a_constant": (lambda x, y, s: build.mul(x, const(2.5, f32)), f32, {}),
    "multiply_accumulate": (
        lambda x, y, s: UOp(Ops.MULACC, f32, (x, const(3, f32), y)),
        f32,
        {},
    ),
    "quotient_by_a_constant": (
        lambda x, y, s: UOp(Ops.FDIV, f32, (x, const(4, f32))),
        f32,
        {"x": [INF, 1]},
    ),
    "integer_quotient": (lambda x, y, s: build.idiv(x, 3), i32, {}),
    "rest": (lambda x, y, s: build.mod(x, 3), i32, {}),
    "shift_left": (lambda x, y, s: UOp(Ops.SHL, u32, (x, const(3, u32))), u32, {}),
    "shift_right": (lambda x, y, s: UOp(Ops.SHR, u32, (x, const(1, u32))), u32, {}),
    "choice_of_zeros": (lambda x, y, s: build.where(build.less(s, 3), x, y), i32, {}),
    "choice_by_a_zero": (
        lambda x, y, s: build.where(build.less(y, x), s, const(0, i32)),
        i32,
        {},
    ),
}
# Terms, dtype, and inputs on which padding would be seen.
REFUSED: dict[str, tuple[Terms, DType, dict[str, Any]]] = {
    "constant": (lambda x, y, s: build.add(x, const(1, f32)), f32, {}),
    "not_along_the_axis": (lambda x, y, s: build.add(x, s), i32, {}),
    "zero_times_infinity": (lambda x, y, s: build.mul(x, s), f32, {"s": [INF, 1, NAN]}),
    "zero_times_constant_infinity": (
        lambda x, y, s: build.mul(x, const(INF, f32)),
        f32,
        {"x": [1]},
    ),
    "multiply_accumulate": (lambda x, y, s: UOp(Ops.MULACC, f32, (x, y, s)), f32, {}),
    "quotient_of_zeros": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, y)), f32, {"y": [1, 2, 4]}),
    "quotient_by_a_load": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, s)), f32, {"s": [0, 1, NAN]}),
    "quotient_by_zero": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, const(0, f32))), f32, {"x": [1]}),
    "quotient_of_a_constant": (
        lambda x, y, s: UOp(Ops.FDIV, f32, (const(1, f32), x)),
        f32,
        {"x": [1, 2, 4]},
    ),
    "reciprocal": (unary(Ops.RECIP), f32, {"x": [1, 2, 4]}),
    "power_of_two": (unary(Ops.EXP2), f32, {}),
    "logarithm": (unary(Ops.LOG2), f32, {}),
    "power": (lambda x, y, s: UOp(Ops.POW, f32, (x, y)), f32, {}),
    "maximum_with_a_constant": (lambda x, y, s: build.maximum(x, const(2, i32)), i32, {}),
    "not_equal_to_one": (lambda x, y, s: as_int(build.not_equal(x, 1)), i32, {"x": [1]}),
    "less_than_one": (lambda x, y, s: as_int(build.less(x, 1)), i32, {}),
    "choice_by_a_load": (lambda x, y, s: build.where(build.less(3, y), x, s), i32, {}),
    "choice_of_the_wrong_side": (
        lambda x, y, s: build.where(build.less(x, 3), s, const(0, i32)),
        i32,
        {},
    ),
    "bits_of_minus_zero": (lambda x, y, s: bits(UOp(Ops.NEG, f32, (x,)), i32), f32, {}),
    "bits_of_a_product": (
        lambda x, y, s: bits(build.mul(x, const(-1, f32)), i32),
        f32,
        {},
    ),
    "either_with_what_is_not_0": (lambda x, y, s: build.either(x, s), i32, {}),
}


@pytest.mark.table
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", LEGAL)
def test_terms_that_are_zero_may_be_padded(name: str) -> None:
    terms, dtype, given = LEGAL[name]
    ast = kernel(terms, dtype)
    assert is_legal(ast)
    inputs = data(dtype, **given)
    wanted = expected(ast, inputs)
    for opts in ((PAD,), (PAD, Opt(OptOp.UNROLL, 1, 4)), (PAD, Opt(OptOp.GROUP, 1, 4))):
        found = run(ast, opts, inputs)
        np.testing.assert_array_equal(found, wanted, err_msg=str(opts))


@pytest.mark.table
@pytest.mark.parametrize("name", REFUSED)
def test_terms_that_may_not_be_zero_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terms, dtype, given = REFUSED[name]
    ast = kernel(terms, dtype)
    with pytest.raises(KernelOptError, match="terms that are not 0 where what they load is 0"):
        Plan.of(ast, GROUPS).apply(PAD)
    inputs = data(dtype, **given)
    wanted = expected(ast, inputs)
    np.testing.assert_array_equal(run(ast, (), inputs), wanted)
    monkeypatch.setattr(legality, "padding_problem", lambda reduce, axis: None)
    with np.errstate(all="ignore"):
        assert not np.array_equal(run(ast, (PAD,), inputs), wanted, equal_nan=dtype.is_float)


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MUL])
def test_other_reduces_are_refused(monkeypatch: pytest.MonkeyPatch, op: Ops) -> None:
    ast = kernel(lambda x, y, s: x, i32, op)
    with pytest.raises(KernelOptError, match=f"a reduce by {op.name}: accepted are sums"):
        Plan.of(ast, GROUPS).apply(PAD)
    inputs = data(i32, x=[-3, -1])
    monkeypatch.setattr(legality, "padding_problem", lambda reduce, axis: None)
    assert not np.array_equal(run(ast, (PAD,), inputs), expected(ast, inputs))


def test_a_mask_is_false_past_the_end() -> None:
    """VALID counts for what it is: a condition that is 0 at padded positions."""
    mask = build.valid(shaped(ROWS, 3).pad(((0, 0), (0, 2))))
    counted = build.reduce(Ops.ADD, build.where(mask, const(1, i32), const(0, i32)), (1,))
    ast = kernel_of(counted, ROWS, 1)
    number = next(n for n, axis in enumerate(Plan.of(ast, GROUPS).axes) if axis.extent == 5)
    found = run(ast, (Opt(OptOp.PADTO, number, 4),), {})
    assert found.tolist() == [3, 3, 3]


def test_a_choice_where_the_mask_is_false_is_refused() -> None:
    mask = build.valid(shaped(ROWS, 3).pad(((0, 0), (0, 2))))
    counted = build.reduce(Ops.ADD, build.where(mask, const(0, i32), const(1, i32)), (1,))
    ast = kernel_of(counted, ROWS, 1)
    plan = Plan.of(ast, GROUPS)
    number = next(n for n, axis in enumerate(plan.axes) if axis.extent == 5)
    assert plan.legal(Opt(OptOp.PADTO, number, 4)) is None


def nested(inner: Ops, outer: Ops, shown: Any = (ROWS, LENGTH, 4)) -> UOp:
    value = load(1, i32, shown)
    total = build.reduce(outer, build.reduce(inner, value, (2,)), (1,))
    return kernel_of(total, ROWS, 1, 1)


@pytest.mark.table
@pytest.mark.parametrize("inner", [Ops.ADD, Ops.MAX, Ops.MUL])
def test_an_inner_reduce_of_zeros_is_zero(inner: Ops) -> None:
    ast = nested(inner, Ops.ADD)
    inputs = {1: (np.arange(60) % 5 - 7).astype(np.int32)}
    plan = Plan.of(ast, GROUPS)
    number = next(n for n, axis in enumerate(plan.axes) if axis.extent == LENGTH)
    np.testing.assert_array_equal(
        run(ast, (Opt(OptOp.PADTO, number, 4),), inputs), expected(ast, inputs)
    )


def test_an_inner_maximum_that_may_be_of_nothing_is_not_zero() -> None:
    """The maximum of nothing is MIN, in a padded iteration of the loop around it too."""
    extent = build.variable("n", 0, 4)
    value = load(1, i32, (ROWS, LENGTH, extent))
    for inner, is_accepted in ((Ops.MAX, False), (Ops.MUL, False), (Ops.ADD, True)):
        total = build.reduce(Ops.ADD, build.reduce(inner, value, (2,)), (1,))
        ast = kernel_of(total, ROWS, 1, 1)
        assert is_legal(ast) is is_accepted


def test_every_reduce_over_the_axis_is_asked() -> None:
    def both(x: UOp, y: UOp, s: UOp) -> UOp:
        return x

    shape = (ROWS, LENGTH)
    x = load(1, i32, shape)
    total = build.add(build.reduce(Ops.ADD, x, (1,)), build.reduce(Ops.MAX, x, (1,)))
    assert not is_legal(kernel_of(total, ROWS, 1))
    assert is_legal(kernel(both, i32))


def test_padding_that_needs_a_longer_index_than_the_device_has_is_refused():
    """13 steps of 153,846,154 end below 2**31, and so do 14; 16 do not."""
    inner = View((2, 1_000_000_007), (4, 0), 5)
    steps = ShapeTracker((inner, View((13,), (153_846_154,))))
    ast = kernel_of(load(1, i32, steps, 10), 13)
    short = replace(GRID, dtypes=GRID.dtypes - {dtypes.int64})
    two, eight = Opt(OptOp.PADTO, 0, 2), Opt(OptOp.PADTO, 0, 8)
    compile_kernel(ast, short, opts=(two,))
    with pytest.raises(KernelOptError, match="an index of 2307692310 would need int64"):
        compile_kernel(ast, short, opts=(eight,))
    assert Plan.of(ast, GRID).apply(eight)
