"""Random indexed kernels with lane ranges write the bits that they write as loops.

Strides, offsets, gates, kinds of axes and types are drawn; buffers end where the accesses do, so
that the sanitizer of the interpreter sees every element touched beyond what the kernel asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from expand_cases import agree, at, numbers, zeros
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinyref.algebra.bounds import bounds
from tinyref.algebra.simplify import simplify
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, RangeArg

TYPES = (dtypes.int32, dtypes.float32, dtypes.uint8, dtypes.int64, dtypes.bool, dtypes.bfloat16)
KINDS = (AxisKind.LOOP, AxisKind.UPCAST, AxisKind.UPCAST, AxisKind.REDUCE, AxisKind.UNROLL)
RANDOM = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass(frozen=True)
class Kernel:
    """A kernel and its buffers."""

    root: UOp
    buffers: list[np.ndarray]


def is_outside(axis: UOp) -> bool:
    return isinstance(axis.arg, RangeArg) and axis.arg.kind in (AxisKind.LOOP, AxisKind.UPCAST)


@st.composite
def positions(draw: st.DrawFn, axes: list[UOp]) -> UOp:
    """A sum of counters, likely with a unit stride, or now and then a part of such a sum."""
    strides = draw(st.permutations([1, 4, 8, 16, 2, 3, 5]))
    parts: list[UOp | int | tuple[UOp, int]] = []
    for axis, stride in zip(axes, strides, strict=False):
        if draw(st.integers(0, 4)):
            parts.append((axis, stride if draw(st.integers(0, 5)) else -stride))
    where = at(build.define_global(0, dtypes.int32, 1), *parts).src[1]
    shape = draw(st.integers(0, 7))
    if shape == 0:
        where = build.idiv(where, draw(st.integers(2, 5)))
    elif shape == 1:
        where = build.mod(where, draw(st.integers(2, 9)))
    return simplify(build.add(where, draw(st.sampled_from([0, 0, 0, 4, 1, 2, 3]))))


@st.composite
def gated(draw: st.DrawFn, where: UOp) -> tuple[UOp, UOp | None, int]:
    """A position that starts at 0 where its gate holds, and the elements that it needs."""
    low, high = bounds(where)
    if not draw(st.integers(0, 3)):
        # Cut off at both ends: the buffer holds what is left.
        cut_low, cut_high = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        if high - low > cut_low + cut_high:
            inside = build.both(
                build.less(low + cut_low - 1, where), build.less(where, high - cut_high + 1)
            )
            size = high - low + 1 - cut_low - cut_high
            return simplify(build.sub(where, low + cut_low)), simplify(inside), size
    return simplify(build.sub(where, low)), None, high - low + 1


def unit_rows(axes: list[UOp]) -> UOp:
    """Every element of the output once: the positions in row-major order."""
    where: UOp = build.const(dtypes.index, 0)
    for axis in axes:
        where = build.add(build.mul(where, int(bounds(axis)[1]) + 1), axis)
    return simplify(where)


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    dtype = draw(st.sampled_from(TYPES))
    kinds = sorted(
        draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=4)),
        key=lambda kind: kind in (AxisKind.REDUCE, AxisKind.UNROLL),
    )
    axes = [
        build.counter(draw(st.sampled_from([2, 3, 4, 4, 8])), number, kind)
        for number, kind in enumerate(kinds)
    ]
    outer = [axis for axis in axes if is_outside(axis)]
    buffers = [zeros(1)]
    value = draw(loads(buffers, axes, dtype))
    if draw(st.booleans()):
        other = draw(loads(buffers, axes, dtype))
        value = draw(combinations(value, other, axes))
    inner = [axis for axis in axes if not is_outside(axis)]
    if inner:
        ops = [Ops.MAX] if dtype.is_bool else [Ops.ADD, Ops.MAX]
        value = build.reduce_over(draw(st.sampled_from(ops)), value, *inner)
        if draw(st.booleans()):
            value = draw(combinations(value, draw(loads(buffers, outer, dtype)), outer))
    where = unit_rows(draw(st.permutations(outer)))
    size = bounds(where)[1] + 1
    stores_at, gate, size = draw(gated(where)) if outer else (where, None, size)
    buffers[0] = zeros(size, dtype)
    out = build.index(build.define_global(0, dtype, size), stores_at)
    return Kernel(build.sink(build.store(out, value, gate)), buffers)


@st.composite
def loads(draw: st.DrawFn, buffers: list[np.ndarray], axes: list[UOp], dtype: DType) -> UOp:
    where, gate, size = draw(gated(draw(positions(axes))))
    memory = build.define_global(len(buffers), dtype, size)
    buffers.append(numbers(size, dtype, seed=len(buffers)))
    return build.load(build.index(memory, where), gate, 1)


@st.composite
def combinations(draw: st.DrawFn, x: UOp, y: UOp, axes: list[UOp]) -> UOp:
    if x.dtype.is_bool:
        return build.both(x, y)
    kind = draw(st.integers(0, 3))
    if kind == 0 and axes:
        counter = draw(st.sampled_from(axes))
        chosen = build.less(counter, draw(st.integers(0, 4)))
        return build.where(chosen, x, build.add(y, build.cast(counter, x.dtype)))
    if kind == 1:
        return build.where(build.less(x, y), x, build.cast(build.cast(y, dtypes.int32), x.dtype))
    return build.mul(x, y) if kind == 2 else build.add(x, y)


@pytest.mark.slow
@settings(RANDOM, max_examples=10)
@given(kernels())
def test_random_kernels_agree_with_their_loops(kernel: Kernel) -> None:
    agree(kernel.root, kernel.buffers)


# --- what the tests would notice ------------------------------------------------------------------
