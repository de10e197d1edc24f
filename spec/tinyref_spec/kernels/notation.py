"""How kernel ASTs are written down: loads and stores of numbered buffers, and what lies between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyref.dtype import DType
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker

# How a buffer is shown: by a view, or row-major in a shape.
Shown = ShapeTracker | Sequence[sint]


def shaped(*shape: sint) -> ShapeTracker:
    """A buffer seen row-major."""
    return ShapeTracker.from_shape(shape)


def view(slot: int, dtype: DType, shown: Shown, size: int | None = None) -> UOp:
    """Buffer `slot` as `shown`; `size` is that of the buffer, by default what the view needs."""
    tracker = shown if isinstance(shown, ShapeTracker) else shaped(*shown)
    have = tracker.real_size() if size is None else size
    return build.view(build.define_global(slot, dtype, have), tracker)


def load(slot: int, dtype: DType, shown: Shown, size: int | None = None) -> UOp:
    """What buffer `slot` holds, as `view` shows it."""
    return build.load(view(slot, dtype, shown, size))


def store(slot: int, value: UOp, shown: Shown, size: int | None = None) -> UOp:
    """Writes a value to buffer `slot`, as `view` shows it."""
    return build.store(view(slot, value.dtype, shown, size), value)


def kernel_of(value: UOp, *shape: sint) -> UOp:
    """The kernel that stores one value, row-major, to slot 0."""
    return build.sink(store(0, value, shape))


def total(x: UOp, *axes: int) -> UOp:
    """The sum over axes, which stay as size 1."""
    return build.reduce(Ops.ADD, x, axes)


def product(x: UOp, *axes: int) -> UOp:
    """The product over axes, which stay as size 1."""
    return build.reduce(Ops.MUL, x, axes)


def largest(x: UOp, *axes: int) -> UOp:
    """The maximum over axes, which stay as size 1."""
    return build.reduce(Ops.MAX, x, axes)


def left(*sizes: sint, is_transposed: bool = False) -> ShapeTracker:
    """The first operand of matrix products, its axes (*batch, rows, columns, inner).

    Its buffer has the axes (*batch, rows, inner), or transposed (*batch, inner, rows).
    """
    *batch, rows, _, inner = sizes
    held = _swapped(*batch, inner, rows) if is_transposed else shaped(*batch, rows, inner)
    return held.reshape((*batch, rows, 1, inner)).expand(sizes)


def right(*sizes: sint, is_transposed: bool = False) -> ShapeTracker:
    """The second operand, its axes (*batch, rows, columns, inner).

    Its buffer has the axes (*batch, inner, columns), or transposed (*batch, columns, inner).
    """
    *batch, _, columns, inner = sizes
    held = shaped(*batch, columns, inner) if is_transposed else _swapped(*batch, inner, columns)
    return held.reshape((*batch, 1, columns, inner)).expand(sizes)


def _swapped(*shape: sint) -> ShapeTracker:
    last = len(shape) - 1
    return shaped(*shape).permute((*range(last - 1), last, last - 1))


def below_diagonal(size: int) -> ShapeTracker:
    """A square view, valid at column < row: a row of both, read at a period of one less."""
    period = 2 * size - 1
    row = shaped(1).expand((size - 1,)).pad(((size, 0),))
    rows = row.reshape((1, period)).expand((size, period)).reshape((size * period,))
    shifted = rows.shrink(((0, size * (period - 1)),)).reshape((size, period - 1))
    return shifted.shrink(((0, size), (0, size)))


@dataclass
class Sketch:
    """A kernel in the making: its outputs have the first slots, each load has a slot of its own.

    Every buffer is as large as its view reaches, and has at least one element.
    """

    outputs: int = 1
    slots: int = 0
    stores: list[UOp] = field(default_factory=list)

    def load(self, dtype: DType, tracker: ShapeTracker) -> UOp:
        """A load of a new input."""
        slot = self.outputs + self.slots
        self.slots += 1
        return load(slot, dtype, tracker, max(1, tracker.real_size()))

    def input(self, dtype: DType, *shape: sint) -> UOp:
        """A load of a new input of this shape, row-major."""
        return self.load(dtype, shaped(*shape))

    def store(self, value: UOp, *shape: sint) -> None:
        """Stores to the next output, row-major."""
        self.store_to(value, shaped(*shape))

    def store_to(self, value: UOp, tracker: ShapeTracker) -> None:
        """Stores to the next output through a view."""
        self.stores.append(store(len(self.stores), value, tracker, max(1, tracker.real_size())))
