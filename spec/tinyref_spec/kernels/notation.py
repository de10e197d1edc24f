"""The notation of kernel ASTs: loads and stores of numbered buffers, and values between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker

# The view of a buffer: a tracker, or a shape for row-major order.
Layout = ShapeTracker | Sequence[sint]


def shaped(*shape: sint) -> ShapeTracker:
    """Return the view of a buffer in row-major order."""
    return ShapeTracker.from_shape(shape)


def view(slot: int, dtype: DType, layout: Layout, size: int | None = None) -> UOp:
    """Return buffer `slot` with a layout; `size` is the buffer's, by default as the view needs."""
    tracker = layout if isinstance(layout, ShapeTracker) else shaped(*layout)
    have = tracker.real_size() if size is None else size
    return build.view(build.define_global(slot, dtype, have), tracker)


def load(slot: int, dtype: DType, layout: Layout, size: int | None = None) -> UOp:
    """Return the contents of buffer `slot`, seen as by `view`."""
    return build.load(view(slot, dtype, layout, size))


def store(slot: int, value: UOp, layout: Layout, size: int | None = None) -> UOp:
    """Return a store of a value to buffer `slot`, seen as by `view`."""
    return build.store(view(slot, value.dtype, layout, size), value)


def kernel_of(value: UOp, *shape: sint) -> UOp:
    """Return the kernel that stores one value, row-major, to slot 0."""
    return build.sink(store(0, value, shape))


def total(x: UOp, *axes: int) -> UOp:
    """Return the sum over axes, which stay as size 1."""
    return build.reduce(Ops.ADD, x, axes)


def product(x: UOp, *axes: int) -> UOp:
    """Return the product over axes, which stay as size 1."""
    return build.reduce(Ops.MUL, x, axes)


def largest(x: UOp, *axes: int) -> UOp:
    """Return the maximum over axes, which stay as size 1."""
    return build.reduce(Ops.MAX, x, axes)


def left(*sizes: sint, is_transposed: bool = False) -> ShapeTracker:
    """Return the first operand of matrix products, with axes (*batch, rows, columns, inner).

    Its buffer has the axes (*batch, rows, inner), or transposed (*batch, inner, rows).
    """
    *batch, rows, _, inner = sizes
    held = _swapped(*batch, inner, rows) if is_transposed else shaped(*batch, rows, inner)
    return held.reshape((*batch, rows, 1, inner)).expand(sizes)


def right(*sizes: sint, is_transposed: bool = False) -> ShapeTracker:
    """Return the second operand, with axes (*batch, rows, columns, inner).

    Its buffer has the axes (*batch, inner, columns), or transposed (*batch, columns, inner).
    """
    *batch, _, columns, inner = sizes
    held = shaped(*batch, columns, inner) if is_transposed else _swapped(*batch, inner, columns)
    return held.reshape((*batch, 1, columns, inner)).expand(sizes)


def _swapped(*shape: sint) -> ShapeTracker:
    last = len(shape) - 1
    return shaped(*shape).permute((*range(last - 1), last, last - 1))


def below_diagonal(size: int) -> ShapeTracker:
    """Return a square view, valid at column < row: a row read at a period of one less."""
    period = 2 * size - 1
    row = shaped(1).expand((size - 1,)).pad(((size, 0),))
    rows = row.reshape((1, period)).expand((size, period)).reshape((size * period,))
    shifted = rows.shrink(((0, size * (period - 1)),)).reshape((size, period - 1))
    return shifted.shrink(((0, size), (0, size)))


@dataclass
class Sketch:
    """A kernel under construction: outputs have the first slots, and each load has its own slot.

    Every buffer is as large as its view reaches, and has at least one element.
    """

    outputs: int = 1
    slots: int = 0
    stores: list[UOp] = field(default_factory=list)

    def load(self, dtype: DType, tracker: ShapeTracker) -> UOp:
        """Return a load of a new input."""
        slot = self.outputs + self.slots
        self.slots += 1
        return load(slot, dtype, tracker, max(1, tracker.real_size()))

    def input(self, dtype: DType, *shape: sint) -> UOp:
        """Return a load of a new input of this shape, row-major."""
        return self.load(dtype, shaped(*shape))

    def store(self, value: UOp, *shape: sint) -> None:
        """Store to the next output, row-major."""
        self.store_to(value, shaped(*shape))

    def store_to(self, value: UOp, tracker: ShapeTracker) -> None:
        """Store to the next output through a view."""
        self.stores.append(store(len(self.stores), value, tracker, max(1, tracker.real_size())))
