"""Kernel ASTs that are valid by construction, with inputs on which every answer is exact.

Values are small integers and every node carries a bound on their size, so no float operation
rounds and no sum depends on its order: whatever differs is a bug.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.uops.shape_tracker import ShapeTracker
from tinyref_fuzz.case import Case
from tinyref_fuzz.equivalent import Equivalent, equivalents
from tinyref_fuzz.tape import Tape

Shape = tuple[int, ...]

DTYPES = (
    *(dtypes.float32, dtypes.int32, dtypes.float16, dtypes.bfloat16, dtypes.float64),
    *(dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.uint32),
    *(dtypes.int64, dtypes.uint64, dtypes.bool),
)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16)
LARGEST_INPUT = 3
MOST_ELEMENTS = 4096
# Percent of the kernels that get an equivalent one, and the most transformations of one.
WITH_EQUIVALENT = 25
MOST_STEPS = 4


@dataclass(frozen=True)
class Value:
    """A node with its shape and a bound on the absolute value of its elements."""

    node: UOp
    shape: Shape
    bound: int


def exact_bound(dtype: DType) -> int:
    """The largest integer up to which `dtype` holds every integer of either sign it can have."""
    if dtype.is_bool:
        return 1
    if dtype.is_float:
        return int(2 ** (dtype.mantissa_bits + 1))
    return int(dtype.maximum)


class Generator:
    """Builds one kernel from a tape: an elementwise tree, perhaps a reduce, and more of a tree."""

    def __init__(self, tape: Tape, supported: frozenset[DType]) -> None:
        self.tape = tape
        self.dtypes = tuple(dtype for dtype in DTYPES if dtype in supported)
        self.buffers: list[npt.NDArray[np.generic]] = []

    def case(self) -> Case:
        """The whole kernel: one output, one store."""
        shape = self.shape()
        axes = tuple(axis for axis in range(len(shape)) if self.tape.chance(40))
        value = self.tree(shape, self.tape.pick(self.dtypes), self.tape.between(0, 3))
        value = self.reduce(value, axes)
        value = self.tree_over(value, self.tape.between(0, 2))
        tracker = ShapeTracker.from_shape(value.shape)
        size = math.prod(value.shape)
        output = build.define_global(0, value.node.dtype, size)
        stored = build.store(view(output, tracker), value.node)
        poison = np.full(size, 0x5A, np.uint8).astype(numpy_dtype(value.node.dtype))
        ast, contents = without_gaps(build.sink(stored), [poison, *self.buffers])
        # Drawn last: a tape from before there were any still gives its kernel.
        equivalent = self.equivalent(ast) if self.tape.chance(WITH_EQUIVALENT) else None
        return Case(ast, contents, tuple(self.tape.choices), equivalent)

    def equivalent(self, ast: UOp) -> Equivalent:
        """A kernel that computes the same, in the types that the device has."""
        steps = self.tape.between(1, MOST_STEPS)
        return equivalents(ast, self.tape, steps, frozenset(self.dtypes))

    def shape(self) -> Shape:
        shape: Shape = ()
        for _ in range(self.tape.below(5)):
            extent = 0 if self.tape.chance(1) else self.tape.pick(EXTENTS)
            if math.prod(shape) * extent <= MOST_ELEMENTS:
                shape = (*shape, extent)
        return shape

    def tree(self, shape: Shape, dtype: DType, depth: int) -> Value:
        """An elementwise expression of `shape` and `dtype`, with at least one load in it."""
        if depth == 0:
            return self.loaded(shape, dtype)
        value = self.tree(shape, dtype, depth - 1)
        if self.tape.chance(30):
            return self.combine(value, self.leaf(shape, dtype))
        return self.combine(value, self.tree(shape, dtype, self.tape.below(depth)))

    def tree_over(self, value: Value, depth: int) -> Value:
        """More elementwise operations on top of `value`."""
        for _ in range(depth):
            value = self.combine(value, self.leaf(value.shape, value.node.dtype))
        return value

    def leaf(self, shape: Shape, dtype: DType) -> Value:
        """A constant, a load, or the numbers of elements."""
        choice = self.tape.below(20)
        if choice < 3:
            return self.numbered(shape, dtype)
        if choice < 10:
            number = self.tape.between(0, 1 if dtype.is_bool else LARGEST_INPUT)
            return Value(build.const(dtype, number), shape, number)
        return self.loaded(shape, dtype)

    def loaded(self, shape: Shape, dtype: DType) -> Value:
        """A load of a buffer of its own, through a drawn view, cast to `dtype`."""
        source = self.tape.pick(self.dtypes) if self.tape.chance(15) else dtype
        tracker = self.tracker(shape)
        size = max(1, tracker.real_size())
        slot = len(self.buffers) + 1
        signed = not (source.is_unsigned or source.is_bool or dtype.is_unsigned)
        low, high = (-LARGEST_INPUT if signed else 0), (1 if source.is_bool else LARGEST_INPUT)
        random = np.random.default_rng(self.tape.below(2**32))
        self.buffers.append(
            random.integers(low, high, size, endpoint=True).astype(numpy_dtype(source))
        )
        loaded = build.load(view(build.define_global(slot, source, size), tracker))
        return Value(build.cast(loaded, dtype), shape, 1 if dtype.is_bool else LARGEST_INPUT)

    def numbered(self, shape: Shape, dtype: DType) -> Value:
        """The numbers of elements through a drawn view, small enough for every type."""
        numbers = UOp(Ops.IOTA, dtypes.int32, (), ViewArg(self.tracker(shape)))
        period = self.tape.between(1, LARGEST_INPUT) + 1
        small = build.cast(build.mod(numbers, period), dtype)
        return Value(small, shape, 1 if dtype.is_bool else period - 1)

    def tracker(self, shape: Shape) -> ShapeTracker:
        """A view of some buffer that has `shape`: movements drawn backward from the result."""
        steps = [self.tape.below(7) for _ in range(self.tape.below(4))]
        return self.moved(shape, steps)

    def moved(self, shape: Shape, steps: list[int]) -> ShapeTracker:
        if not steps:
            return ShapeTracker.from_shape(shape)
        step, rest = steps[0], steps[1:]
        axes = range(len(shape))
        if step == 1 and shape:
            axis = self.tape.below(len(shape))
            expanded = (*shape[:axis], 1, *shape[axis + 1 :])
            return self.moved(expanded, rest).expand(shape)
        if step == 2:
            order = sorted(axes, key=lambda axis: self.tape.below(100))
            inner = tuple(shape[order.index(axis)] for axis in axes)
            return self.moved(inner, rest).permute(tuple(order))
        if step == 3 and shape:
            return self.moved(shape, rest).flip((self.tape.below(len(shape)),))
        if step == 4:
            bounds = tuple((self.tape.below(3), self.tape.below(3)) for _ in axes)
            padded = tuple(n + low + high for n, (low, high) in zip(shape, bounds, strict=True))
            kept = tuple((low, low + n) for n, (low, _) in zip(shape, bounds, strict=True))
            return self.moved(padded, rest).shrink(kept)
        if step == 5:
            pads = tuple(self.pad_of(extent) for extent in shape)
            inner = tuple(n - low - high for n, (low, high) in zip(shape, pads, strict=True))
            return self.moved(inner, rest).pad(pads)
        if step == 6 and shape:
            return self.moved((math.prod(shape),), rest).reshape(shape)
        return self.moved(shape, rest)

    def pad_of(self, extent: int) -> tuple[int, int]:
        low = self.tape.below(min(2, extent) + 1)
        return low, self.tape.below(min(2, extent - low) + 1)

    def combine(self, x: Value, y: Value) -> Value:
        """One binary operation on two values of one type, or `x` where it would not be exact."""
        dtype = x.node.dtype
        if dtype.is_bool:
            op = self.tape.pick((Ops.AND, Ops.OR, Ops.XOR, Ops.CMPNE, Ops.MAX))
            return Value(build.binary(op, x.node, y.node), x.shape, 1)
        choice = self.tape.below(6)
        if choice == 1 and x.bound * y.bound <= exact_bound(dtype):
            return Value(build.mul(x.node, y.node), x.shape, x.bound * y.bound)
        if choice == 2:
            return Value(build.maximum(x.node, y.node), x.shape, max(x.bound, y.bound))
        if choice == 3 and not dtype.is_unsigned and x.bound + y.bound <= exact_bound(dtype):
            return Value(build.sub(x.node, y.node), x.shape, x.bound + y.bound)
        if choice == 4:
            op = self.tape.pick((Ops.CMPLT, Ops.CMPNE))
            condition = build.binary(op, x.node, y.node)
            chosen = build.where(condition, x.node, y.node)
            return Value(chosen, x.shape, max(x.bound, y.bound))
        if choice == 5 and dtype.is_int:
            return self.divide(x)
        if x.bound + y.bound <= exact_bound(dtype):
            return Value(build.add(x.node, y.node), x.shape, x.bound + y.bound)
        return x

    def divide(self, x: Value) -> Value:
        divisor = self.tape.between(1, 5)
        op = self.tape.pick((Ops.IDIV, Ops.MOD))
        return Value(build.binary(op, x.node, divisor), x.shape, x.bound)

    def reduce(self, value: Value, axes: tuple[int, ...]) -> Value:
        if not axes:
            return value
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(value.shape))
        count = math.prod(value.shape[axis] for axis in axes)
        dtype = value.node.dtype
        # The maximum of nothing is -inf or MIN, which the bound does not cover.
        can_add = value.bound * count <= exact_bound(dtype) and not dtype.is_bool
        if not can_add and count == 0:
            return value
        op = Ops.ADD if can_add and (count == 0 or self.tape.chance(75)) else Ops.MAX
        bound = value.bound * count if op is Ops.ADD else value.bound
        return Value(build.reduce(op, value.node, axes), shape, bound)


def without_gaps(
    ast: UOp, buffers: list[npt.NDArray[np.generic]]
) -> tuple[UOp, tuple[npt.NDArray[np.generic], ...]]:
    """The kernel with the slots that it still uses numbered from 0, and their contents."""
    used: dict[int, UOp] = {}
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg):
            used[node.arg.slot] = node
    slots = sorted(used)
    renumbered = {used[slot]: used[slot].replace(arg=SlotArg(at)) for at, slot in enumerate(slots)}
    return substitute(ast, renumbered), tuple(buffers[slot] for slot in slots)


def view(buffer: UOp, tracker: ShapeTracker) -> UOp:
    """The view of `buffer` through `tracker`."""
    return UOp(Ops.VIEW, buffer.dtype, (buffer,), ViewArg(tracker))


def generate(tape: Tape, supported: frozenset[DType]) -> Case:
    """One case of a tape, using only the types in `supported`."""
    return Generator(tape, supported).case()
