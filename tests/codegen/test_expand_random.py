"""Random indexed kernels with lane ranges write the bits that they write as loops.

Strides, offsets, gates, kinds of axes and types are drawn; buffers end where the accesses do, so
that the sanitizer of the interpreter sees every element touched beyond what the kernel asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from expand_cases import VECTORS, agree, at, numbers, zeros
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import exact
from tinyref.algebra.simplify import simplify
from tinyref.codegen.expand import accesses, copies, expand
from tinyref.dtype import DType, dtypes
from tinyref.errors import TinyrefError
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


@pytest.mark.slow
@settings(RANDOM, max_examples=60)
@given(kernels())
def test_more_random_kernels_agree_with_their_loops(kernel: Kernel) -> None:
    agree(kernel.root, kernel.buffers)


# --- what the tests would notice ------------------------------------------------------------------


def no_proof(position: UOp) -> int:
    """Every position is called aligned."""
    return 0


def forgets_the_stride(position: UOp) -> int:
    """Alignment by the constant alone."""
    linear = exact(position)
    return 0 if linear is None else linear.constant


def swapped(vector: UOp, *lanes: int) -> UOp:
    """The lanes in reverse order."""
    if lanes == tuple(range(vector.dtype.lanes)) or vector.op in (Ops.CONST, Ops.VECTORIZE):
        return taken(vector, *lanes)
    return taken(vector, *reversed([vector.dtype.lanes - 1 - lane for lane in reversed(lanes)]))


taken = copies.take


def lost_iteration(op: Ops, values: list[UOp]) -> UOp:
    """A reduce that leaves out its last copy."""
    return combined(op, values[:-1] or values)


combined = copies.combine


def gate_of_lane_zero(self: accesses.Accesses, access: UOp, copy: int, lane: int) -> UOp | None:
    """Every lane under the gate of the first."""
    return gate_of(self, access, copy, 0)


gate_of = accesses.Accesses.gate


def no_gate(self: accesses.Accesses, access: UOp, copy: int, lane: int) -> UOp | None:
    """Every access goes ahead."""
    return None


def widest_window(self: accesses.Run, divisor: int, widths: tuple[int, ...]) -> None:
    """Windows that start anywhere and reach beyond what is wanted."""
    for distance in self.wanted:
        self.windows[distance] = (distance // 4 * 4, 4) if divisor % 4 == 0 else (distance, 1)


@contextmanager
def replaced(target: object, name: str, mutant: object) -> Iterator[None]:
    original = getattr(target, name)
    setattr(target, name, mutant)
    try:
        yield
    finally:
        setattr(target, name, original)


MUTANTS: list[tuple[object, str, Callable[..., object]]] = [
    (accesses, "divisor_of", no_proof),
    (accesses, "divisor_of", forgets_the_stride),
    (copies, "take", swapped),
    (copies, "combine", lost_iteration),
    (accesses.Accesses, "gate", gate_of_lane_zero),
    (accesses.Accesses, "gate", no_gate),
    (accesses.Run, "cover", widest_window),
]


@pytest.mark.long
@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("target", "name", "mutant"), MUTANTS, ids=[mutant.__name__ for _, _, mutant in MUTANTS]
)
def test_a_broken_expansion_is_noticed(
    target: object, name: str, mutant: Callable[..., object]
) -> None:
    """By other bits, a fault of the sanitizer, or a rule of the verifiers."""

    @settings(RANDOM, max_examples=150, phases=[Phase.generate], report_multiple_bugs=False)
    @given(kernels())
    def search(kernel: Kernel) -> None:
        agree(kernel.root, kernel.buffers)

    with (
        replaced(target, name, mutant),
        pytest.raises((AssertionError, TinyrefError, BaseExceptionGroup, KeyError)),
    ):
        search()


@pytest.mark.long
@settings(RANDOM, max_examples=25)
@given(kernels())
def test_no_lane_range_is_left(kernel: Kernel) -> None:
    left = expand(simplify(kernel.root), VECTORS).toposort()
    kinds = {node.arg.kind for node in left if isinstance(node.arg, RangeArg)}
    assert not kinds & {AxisKind.UPCAST, AxisKind.UNROLL}
