"""Test PADTO of reduces: values that are computed from added zeros are no terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import GRID, LOOPS, same

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.notation import kernel_of, load, shaped, total

i32, u32, f32 = dtypes.int32, dtypes.uint32, dtypes.float32
ROWS, LENGTH = 3, 5
PAD = Opt(OptOp.PADTO, 1, 4)
GROUPS = replace(GRID, shared_bytes=1 << 16)

# Builds the terms of the sum from x[i, k], y[i, k] and s[i].
Terms = Callable[[UOp, UOp, UOp], UOp]


def const(value: float, dtype: DType) -> UOp:
    return build.const(dtype, value)


def kernel(terms: Terms, dtype: DType, op: Ops = Ops.ADD) -> UOp:
    """Return the reduce of the terms over k; x, y and s are in the slots from 1 on."""
    read = {node.arg.slot for node in terms(*loads(dtype, (1, 2, 3))).toposort() if is_memory(node)}
    slots = [sum(other <= slot for other in read) or 9 for slot in (1, 2, 3)]
    return kernel_of(build.reduce(op, terms(*loads(dtype, slots)), (1,)), ROWS, 1)


def loads(dtype: DType, slots: Sequence[int]) -> list[UOp]:
    """Return x, y and s."""
    shapes = ((ROWS, LENGTH), (ROWS, LENGTH), (ROWS, 1))
    return [load(slot, dtype, shape) for slot, shape in zip(slots, shapes, strict=True)]


def is_memory(node: UOp) -> bool:
    return node.op is Ops.DEFINE_GLOBAL


def padded(ast: UOp, opt: Opt = PAD) -> None:
    """Check a padded kernel on loops and on a grid against the evaluator."""
    memory = sorted(filter(is_memory, ast.toposort()), key=lambda node: node.arg.slot)
    kinds = [(node.dtype.size, numpy_dtype(node.dtype.base)) for node in memory]
    contents = [-np.arange(1, 1 + size).astype(kind) for size, kind in kinds]
    for capabilities in (GROUPS, LOOPS):
        program = compile_kernel(ast, capabilities, opts=(opt,))
        buffers = [values.copy() for values in contents]
        run_program(program, buffers)
        same(buffers[0], evaluate(ast, dict(enumerate(contents)))[0], 1e-6, str(opt))


def bits(x: UOp, to: DType) -> UOp:
    return UOp(Ops.BITCAST, to, (x,))


def unary(op: Ops) -> Terms:
    return lambda x, y, s: UOp(op, x.dtype, (x,))


def as_int(condition: UOp) -> UOp:
    return build.cast(condition, i32)


TERMS: dict[str, tuple[Terms, DType]] = {
    "load": (lambda x, y, s: x, f32),
    "neg": (unary(Ops.NEG), f32),
    "sqrt": (unary(Ops.SQRT), f32),
    "sin": (unary(Ops.SIN), f32),
    "trunc": (unary(Ops.TRUNC), f32),
    "cast": (lambda x, y, s: build.cast(x, f32), i32),
    "cast_to_bool": (lambda x, y, s: as_int(build.cast(x, dtypes.bool)), f32),
    "bits_of_a_load": (lambda x, y, s: bits(x, i32), f32),
    "bits_of_integers": (lambda x, y, s: bits(build.add(x, y), f32), i32),
    "add": (lambda x, y, s: build.add(x, y), f32),
    "sub": (lambda x, y, s: build.sub(x, y), f32),
    "maximum": (lambda x, y, s: build.maximum(x, y), i32),
    "or": (lambda x, y, s: build.either(x, y), i32),
    "xor": (lambda x, y, s: UOp(Ops.XOR, i32, (x, y)), i32),
    "and_with_what_is_not_0": (lambda x, y, s: UOp(Ops.AND, i32, (x, s)), i32),
    "less": (lambda x, y, s: as_int(build.less(x, y)), i32),
    "not_equal": (lambda x, y, s: as_int(build.not_equal(x, y)), i32),
    "product": (lambda x, y, s: build.mul(x, y), f32),
    "integer_product": (lambda x, y, s: build.mul(x, s), i32),
    "product_with_a_constant": (lambda x, y, s: build.mul(x, const(2.5, f32)), f32),
    "multiply_accumulate": (lambda x, y, s: UOp(Ops.MULACC, f32, (x, const(3, f32), y)), f32),
    "quotient_by_a_constant": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, const(4, f32))), f32),
    "integer_quotient": (lambda x, y, s: build.idiv(x, 3), i32),
    "rest": (lambda x, y, s: build.mod(x, 3), i32),
    "shift_left": (lambda x, y, s: UOp(Ops.SHL, u32, (x, const(3, u32))), u32),
    "shift_right": (lambda x, y, s: UOp(Ops.SHR, u32, (x, const(1, u32))), u32),
    "choice_of_zeros": (lambda x, y, s: build.where(build.less(s, 3), x, y), i32),
    "choice_by_a_zero": (lambda x, y, s: build.where(build.less(y, x), s, const(0, i32)), i32),
    # These are not 0 where their loads are.
    "constant": (lambda x, y, s: build.add(x, const(1, f32)), f32),
    "not_along_the_axis": (lambda x, y, s: build.add(x, s), i32),
    "zero_times_infinity": (lambda x, y, s: build.mul(x, s), f32),
    "zero_times_constant_infinity": (lambda x, y, s: build.mul(x, const(float("inf"), f32)), f32),
    "multiply_accumulate_of_another": (lambda x, y, s: UOp(Ops.MULACC, f32, (x, y, s)), f32),
    "quotient_of_zeros": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, y)), f32),
    "quotient_by_a_load": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, s)), f32),
    "quotient_by_zero": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, const(0, f32))), f32),
    "quotient_by_nan": (lambda x, y, s: UOp(Ops.FDIV, f32, (x, const(float("nan"), f32))), f32),
    "quotient_of_a_constant": (lambda x, y, s: UOp(Ops.FDIV, f32, (const(1, f32), x)), f32),
    "reciprocal": (unary(Ops.RECIP), f32),
    "power_of_two": (unary(Ops.EXP2), f32),
    "logarithm": (unary(Ops.LOG2), f32),
    "power": (lambda x, y, s: UOp(Ops.POW, f32, (x, y)), f32),
    "maximum_with_a_constant": (lambda x, y, s: build.maximum(x, const(2, i32)), i32),
    "not_equal_to_one": (lambda x, y, s: as_int(build.not_equal(x, 1)), i32),
    "less_than_one": (lambda x, y, s: as_int(build.less(x, 1)), i32),
    "choice_by_a_load": (lambda x, y, s: build.where(build.less(3, y), x, s), i32),
    "choice_of_the_wrong_side": (
        lambda x, y, s: build.where(build.less(x, 3), s, const(0, i32)),
        i32,
    ),
    "bits_of_minus_zero": (lambda x, y, s: bits(UOp(Ops.NEG, f32, (x,)), i32), f32),
    "bits_of_a_product": (lambda x, y, s: bits(build.mul(x, const(-1, f32)), i32), f32),
    "either_with_what_is_not_0": (lambda x, y, s: build.either(x, s), i32),
}


@pytest.mark.table
@pytest.mark.parametrize("name", TERMS)
def test_terms_may_be_padded(name: str) -> None:
    terms, dtype = TERMS[name]
    padded(kernel(terms, dtype))


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MUL])
@pytest.mark.parametrize("dtype", [i32, u32, f32, dtypes.float16, dtypes.int8])
def test_other_reduces_may_be_padded(op: Ops, dtype: DType) -> None:
    padded(kernel(lambda x, y, s: x, dtype, op))


def test_every_reduce_over_the_axis_is_masked() -> None:
    x = load(1, i32, (ROWS, LENGTH))
    both = build.add(total(x, 1), build.reduce(Ops.MAX, x, (1,)))
    padded(kernel_of(both, ROWS, 1))


@pytest.mark.parametrize(("inside", "outside"), [(1, 0), (0, 1)])
def test_a_mask_counts_no_added_position(inside: int, outside: int) -> None:
    mask = build.valid(shaped(ROWS, 3).pad(((0, 0), (0, 2))))
    counted = total(build.where(mask, const(inside, i32), const(outside, i32)), 1)
    ast = kernel_of(counted, ROWS, 1)
    axes = Plan.of(ast, GROUPS).axes
    padded(ast, Opt(OptOp.PADTO, [axis.extent for axis in axes].index(5), 4))


@pytest.mark.parametrize("inner", [Ops.MAX, Ops.MUL, Ops.ADD])
def test_a_reduce_may_be_the_term_of_a_padded_one(inner: Ops) -> None:
    value = load(1, i32, (ROWS, LENGTH, 4))
    padded(kernel_of(total(build.reduce(inner, value, (2,)), 1), ROWS, 1, 1))


def test_padding_that_needs_a_longer_index_than_the_device_has_is_refused() -> None:
    # 13 and 14 steps of 153,846,154 end below 2**31; 16 steps do not.
    inner = View((2, 1_000_000_007), (4, 0), 5)
    steps = ShapeTracker((inner, View((13,), (153_846_154,))))
    ast = kernel_of(load(1, i32, steps, 10), 13)
    short = replace(GRID, dtypes=GRID.dtypes - {dtypes.int64})
    two, eight = Opt(OptOp.PADTO, 0, 2), Opt(OptOp.PADTO, 0, 8)
    compile_kernel(ast, short, opts=(two,))
    with pytest.raises(KernelOptError, match="an index of 2307692310 would need int64"):
        compile_kernel(ast, short, opts=(eight,))
    assert Plan.of(ast, GRID).apply(eight)
