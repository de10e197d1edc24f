"""Draw expressions: trees of operations over loads, including reduces."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinyref.dtype import DType, dtypes, sum_dtype
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.arithmetic import MAKERS, choose, convert, makers, weight
from tinyref_fuzz.generate.kernel import MAX_REDUCES, MAX_TERMS, DrawnKernel
from tinyref_fuzz.generate.values import (
    DrawnValue,
    Shape,
    float_limit,
    full_range,
    is_one,
    magnitude,
    most,
    positions,
    value_in_range,
)
from tinyref_spec.kernel_case import Mode

# Percentage of operands that are expressions themselves.
DEEP = 25
# Percentage of loads of another type, which are cast.
CAST_LOADS = 15
# Largest number of ops to draw until one fits.
TRIES = 3
MAX_FACTORS = 16


JOINING = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.CMPLT)


def _joins(dtype: DType) -> bool:
    return not dtype.is_bool and dtype not in dtypes.storage_only


class Expressions:
    """Expressions of a kernel: each has a shape of its space, and is exact or specified."""

    def __init__(self, kernel: DrawnKernel) -> None:
        self.kernel = kernel
        self.tape = kernel.tape
        self.policy = kernel.policy
        # The remaining depth of operands, and the operand that the next operation must use.
        self.depth = 0
        self._next_operand: DrawnValue | None = None

    def tree(self, axes: Sequence[int], dtype: DType, depth: int | None = None) -> DrawnValue:
        """Draw an expression over these axes, with at least one load."""
        depth = self.tape.between(0, self.policy.depth) if depth is None else depth
        value = self.load(self.kernel.shape(axes), dtype)
        for remaining in range(depth - 1, -1, -1):
            self.depth = remaining
            value = self.grow(value)
        return value

    def load(self, shape: Shape, dtype: DType) -> DrawnValue:
        """Draw a load of `dtype`, or a load of another type, cast to `dtype`."""
        if self.tape.chance(CAST_LOADS) or dtype in dtypes.storage_only:
            source = self.tape.pick(self.kernel.dtypes)
            cast = convert(self, self.kernel.load(shape, source), dtype)
            if cast is not None:
                return cast
        return self.kernel.load(shape, dtype)

    def grow(self, x: DrawnValue) -> DrawnValue:
        """Apply one more operation to `x`; return `x` if none fits."""
        ops = makers(x.dtype, self.kernel.mode)
        weights = [weight(op, self.policy.ops) for op in ops]
        for _ in range(TRIES):
            result = MAKERS[self.tape.pick(ops, weights)](self, x)
            if result is not None:
                return result
        return x

    def operand(self, x: DrawnValue) -> DrawnValue:
        """Draw another value of the type of `x`, with a shape that broadcasts with `x`."""
        if self._next_operand is not None:
            operand, self._next_operand = self._next_operand, None
            return operand
        shape = self._near(x.shape)
        if self.depth > 0 and self.tape.chance(DEEP):
            self.depth -= 1
            return self.grow(self.load(shape, x.dtype))
        return self.kernel.leaf(shape, x.dtype)

    def join(self, x: DrawnValue, y: DrawnValue) -> DrawnValue:
        """Apply a binary operation to two values of one type; if none fits, choose by a mask."""
        for _ in range(TRIES):
            result = self.apply(self.tape.pick(JOINING), x, y) if _joins(x.dtype) else None
            if result is not None:
                return result
        condition = self.kernel.mask(x.shape)
        return choose(self, condition, x, y) or x

    def apply(self, op: Ops, x: DrawnValue, y: DrawnValue) -> DrawnValue | None:
        """Apply `op` to two values of one type; return None if it does not fit."""
        self._next_operand = y
        result = MAKERS[op](self, x)
        self._next_operand = None
        return result

    def constant(self, dtype: DType) -> DrawnValue:
        """Return a constant that fits every shape."""
        return self.kernel.constant(dtype)

    def zero(self, dtype: DType) -> DrawnValue:
        """Return a zero that fits every shape."""
        node = build.const(dtype, 0.0 if dtype.is_float else 0)
        return DrawnValue(node, (1,) * len(self.kernel.space), 0, 0, 0)

    def _near(self, shape: Shape) -> Shape:
        """Return `shape`, rarely with an axis removed, or an axis of the outputs added."""
        if not shape or not self.tape.chance(20):
            return shape
        axis = self.tape.below(len(shape))
        size = self.kernel.space[axis]
        if is_one(shape[axis]) and axis not in self.kernel.outer:
            return shape
        other = size if is_one(shape[axis]) else 1
        return (*shape[:axis], other, *shape[axis + 1 :])

    def condition(self, shape: Shape) -> DrawnValue | None:
        """Draw a bool: a comparison with a constant, a mask, or a load."""
        choice = self.tape.below(4)
        if choice == 0:
            return self.kernel.mask(shape)
        if choice == 1 and self.kernel.has(dtypes.bool):
            return self.kernel.load(shape, dtypes.bool)
        dtype = self.kernel.number()
        x = self.kernel.reused_load(shape, dtype)
        if x.is_rough:
            return None
        if dtype.is_float:
            number: float | int = float(self.tape.between(-1, 1))
        else:
            # About half of the elements are below the number.
            number = self.tape.pick((int(x.low + x.high) // 2, 0, 1))
        op = self.tape.pick((Ops.CMPLT, Ops.CMPNE))
        return DrawnValue(build.binary(op, x.node, number), x.shape, 0, 1, 1)

    # --- reduces ----------------------------------------------------------------------------------

    def reduce(self, x: DrawnValue, axes: Sequence[int], op: Ops | None = None) -> DrawnValue:
        """Reduce `x` by a sum, product or maximum over those of `axes` along which it varies.

        Returns `x` itself if no reduce is exact, or if the kernel has enough of them.
        """
        over = tuple(axis for axis in axes if not is_one(x.shape[axis]))
        if not over or self.kernel.reduces >= MAX_REDUCES or positions(x.shape) > MAX_TERMS:
            return x
        op = self._reducing(x) if op is None else op
        maker = {Ops.ADD: self._sum, Ops.MAX: self._largest, Ops.MUL: self._product}[op]
        result = maker(x, over) or self._largest(x, over)
        if result is None:
            return x
        self.kernel.reduces += 1
        return result

    def _reducing(self, x: DrawnValue) -> Ops:
        ops = (Ops.ADD, Ops.MAX, Ops.MUL)
        if x.dtype.is_bool:
            return Ops.MAX
        weights = [
            share * self.policy.ops.get(op, 1) for share, op in zip((6, 3, 1), ops, strict=True)
        ]
        return self.tape.pick(ops, weights)

    def _shape(self, x: DrawnValue, over: Sequence[int]) -> tuple[Shape, int]:
        """Return the shape of a reduce, and the number of terms of each of its elements."""
        shape = tuple(1 if axis in over else size for axis, size in enumerate(x.shape))
        return shape, math.prod(most(x.shape[axis]) for axis in over)

    def _sum(self, x: DrawnValue, over: tuple[int, ...]) -> DrawnValue | None:
        shape, count = self._shape(x, over)
        mode = self.kernel.mode
        if x.dtype.is_bool or (mode is Mode.EDGE and x.dtype.is_float and self.tape.chance(80)):
            return None
        if x.bound * count > (float_limit(mode, x.dtype) if x.dtype.is_float else math.inf):
            wide = convert(self, x, sum_dtype(x.dtype))
            if wide is None or wide.bound * count > float_limit(mode, wide.dtype):
                return None
            x = wide
        node = build.reduce(Ops.ADD, x.node, over)
        rough = x.is_rough or (x.dtype.is_float and mode is not Mode.EXACT)
        low, high = min(0, x.low * count), max(0, x.high * count)
        return value_in_range(mode, node, shape, low, high, bound=x.bound * count, is_rough=rough)

    def _largest(self, x: DrawnValue, over: tuple[int, ...]) -> DrawnValue | None:
        shape, count = self._shape(x, over)
        mode = self.kernel.mode
        node = build.reduce(Ops.MAX, x.node, over)
        if x.dtype in dtypes.storage_only:
            return None
        if count == 0:
            # The maximum of no terms is -inf or MIN.
            if x.dtype.is_float and mode is not Mode.EDGE:
                return None
            return value_in_range(mode, node, shape, *full_range(x.dtype))
        rough = x.is_rough or (x.dtype.is_float and mode is Mode.EDGE)
        return value_in_range(mode, node, shape, x.low, x.high, bound=x.bound, is_rough=rough)

    def _product(self, x: DrawnValue, over: tuple[int, ...]) -> DrawnValue | None:
        shape, count = self._shape(x, over)
        mode, dtype = self.kernel.mode, x.dtype
        if dtype.is_bool or (dtype.is_float and (mode is Mode.EDGE or count > MAX_FACTORS)):
            return None
        if dtype.is_int:
            # With even factors, every product would soon be 0.
            node = build.reduce(Ops.MUL, build.either(x.node, 1), over)
            return value_in_range(mode, node, shape, *full_range(dtype), is_rough=x.is_rough)
        factors = x
        if magnitude(x) > 2:
            if x.is_rough:
                return None
            small = build.where(build.less(x.node, 1.0), -1.0, build.const(dtype, 2.0))
            factors = DrawnValue(small, x.shape, -1.0, 2.0, 2.0)
        largest = max(1.0, factors.bound) ** count
        node = build.reduce(Ops.MUL, factors.node, over)
        rough = x.is_rough or mode is Mode.FLOAT
        return value_in_range(mode, node, shape, -largest, largest, is_rough=rough)
