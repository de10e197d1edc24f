"""Spans are sound: for any operands in spans, the result is in the span of the result.

Any two numbers of a grid of special and plain values are the ends of a span. Members of it, from
the same grid, are operands of an op, or of a sum in a random order.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from tinyref.algebra.semantics import kernel_for
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops.ops import BINARY, UNARY, Ops
from tinyref_fuzz.judge.oracles.arithmetic import apply
from tinyref_fuzz.judge.oracles.oracle import AllowedElements
from tinyref_fuzz.judge.oracles.reduces import reduce_spans
from tinyref_fuzz.judge.oracles.span import Span, point, span

F32, F16, BOOL = dtypes.float32, dtypes.float16, dtypes.bool
I8, U8, I32, I64 = dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64
MAGNITUDES = (0.0, 1e-44, 1e-20, 0.7, 1.0, 3.0, 255.5, 2e19, 3.3e38, math.inf)
NUMBERS = (*(-number for number in reversed(MAGNITUDES)), *MAGNITUDES)
# Ends and members are indices into the grid; the last one is NaN.
NAN = len(NUMBERS)
PAIRS = (*itertools.combinations_with_replacement(range(NAN), 2), (NAN, NAN))
# The ends, their neighbours, and the middle.
MEMBERS = (
    lambda low, high: low,
    lambda low, high: np.minimum(low + 1, high),
    lambda low, high: (low + high) // 2,
    lambda low, high: np.maximum(high - 1, low),
    lambda low, high: high,
)
INTEGER_OPS = {Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.THREEFRY}
OPS = sorted((UNARY | BINARY) - INTEGER_OPS - {Ops.CAST, Ops.BITCAST}, key=lambda op: op.name)
FLOATS = pytest.mark.parametrize("dtype", [F32, F16], ids=lambda dtype: dtype.name)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def grid(dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array([*NUMBERS, math.nan]).astype(numpy_dtype(dtype))


@functools.cache
def everything(dtype: DType) -> tuple[Span, tuple[np.ndarray, ...]]:
    """Return all pairs of ends as one span, and arrays of members of each."""
    numbers, (low, high) = grid(dtype), np.array(PAIRS).T
    members = tuple(numbers[choose(low, high)] for choose in MEMBERS)
    return span_of(numbers[low], numbers[high]), members


def span_of(low: np.ndarray, high: np.ndarray) -> Span:
    return span(low, high, None, low != high)


def rejected(result: Span, values: np.ndarray) -> str:
    """Describe the first of `values` that the span does not allow."""
    low, high = (np.broadcast_to(end, values.shape).ravel() for end in (result.low, result.high))
    unknown = None
    if result.unknown is not None:
        unknown = np.broadcast_to(result.unknown, values.shape).ravel()
    limits = AllowedElements(low, high, unknown)
    wrong = np.flatnonzero(limits.rejected_elements(values.ravel()))
    if not wrong.size:
        return ""
    index = np.unravel_index(wrong[0], values.shape)
    pairs = [PAIRS[number] for number in index if number < len(PAIRS)]
    ends = [tuple([*NUMBERS, math.nan][end] for end in pair) for pair in pairs]
    return f"{limits.sentence(int(wrong[0]), values.ravel())}, of {ends}"


@FLOATS
@pytest.mark.parametrize("op", [op for op in OPS if op in UNARY], ids=lambda op: op.name)
def test_the_result_of_any_member_is_allowed(op, dtype):
    operand, members = everything(dtype)
    result = apply(op, dtype, [dtype], [operand])
    for member in members:
        assert rejected(result, kernel_for(op, dtype, [dtype])(member)) == ""


@FLOATS
@pytest.mark.parametrize("op", [op for op in OPS if op in BINARY], ids=lambda op: op.name)
def test_the_result_of_any_two_members_is_allowed(op, dtype):
    out = BOOL if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    right, members = everything(dtype)
    left = Span(right.low[:, None], right.high[:, None])
    result = apply(op, out, [dtype] * 2, [left, right])
    kernel = kernel_for(op, out, [dtype] * 2)
    for first, second in itertools.product(members[::2], members):
        assert rejected(result, kernel(first[:, None], second)) == ""


@pytest.mark.parametrize("out", [F16, dtypes.bfloat16, BOOL, I8, U8, I32, I64], ids=str)
def test_the_conversion_of_any_member_is_allowed(out):
    operand, members = everything(F32)
    ops = (Ops.CAST, Ops.BITCAST) if out is I32 else (Ops.CAST,)
    for op, member in itertools.product(ops, members):
        result = apply(op, out, [F32], [operand])
        assert rejected(result, kernel_for(op, out, [F32])(member)) == ""


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX], ids=lambda op: op.name)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_any_members_in_any_order_are_allowed(op, share):
    """Reduce rows of terms in random orders; a `share` of the terms is uncertain."""
    draws = np.random.Generator(np.random.PCG64(1))
    numbers, shape = grid(F32), (1500, 5)
    pairs = np.array(PAIRS)[draws.integers(0, len(PAIRS), shape)]
    low, high = pairs[..., 0], pairs[..., 1]
    high = np.where(draws.random(shape) < share, high, low)
    result = reduce_spans(op, F32, span_of(numbers[low], numbers[high]), (1,))
    step = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    for _ in range(20):
        terms = numbers[draws.integers(low, high + 1)]
        terms = draws.permuted(terms, axis=1)
        assert rejected(result, functools.reduce(step, terms.T).reshape(-1, 1)) == ""


def test_a_member_that_is_not_allowed_is_noticed():
    result = apply(Ops.ADD, F32, [F32, F32], [point(np.float32([[1], [2]])), everything(F32)[0]])
    wrong = np.array(result.high)
    assert rejected(result, wrong) == ""
    wrong[1, PAIRS.index((13, 14))] = 7.0
    assert rejected(result, wrong).startswith("element ")
