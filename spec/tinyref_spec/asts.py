"""Kernel ASTs by hand: the few builders with which the tables write their kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.views.build import view
from tinyref.views.shape_tracker import ShapeTracker

# Elements of every elementwise kernel of the tables: one launch of an exhaustive slice.
LANES = 1024


def load(slot: int, dtype: DType, shape: Sequence[sint], size: int | None = None) -> UOp:
    """All of a row-major buffer as a value of `shape`."""
    return load_view(slot, dtype, ShapeTracker.from_shape(tuple(shape)), size)


def load_view(slot: int, dtype: DType, tracker: ShapeTracker, size: int | None = None) -> UOp:
    """A buffer through a view; `size` is that of the buffer, by default what the view needs."""
    have = tracker.real_size() if size is None else size
    return UOp(Ops.LOAD, dtype, (view(slot, dtype, have, tracker),))


def store(slot: int, value: UOp, shape: Sequence[sint], size: int | None = None) -> UOp:
    """Writes a value of `shape` to a row-major buffer."""
    return store_view(slot, value, ShapeTracker.from_shape(tuple(shape)), size)


def store_view(slot: int, value: UOp, tracker: ShapeTracker, size: int | None = None) -> UOp:
    """Writes a value through a view."""
    have = tracker.real_size() if size is None else size
    return UOp(Ops.STORE, dtypes.void, (view(slot, value.dtype, have, tracker), value))


def elementwise(compute: Callable[..., UOp], sources: Sequence[DType], lanes: int = LANES) -> UOp:
    """The kernel out[i] = compute(in1[i], in2[i], ...) over `lanes` elements; slot 0 is out."""
    operands = [load(slot, dtype, (lanes,)) for slot, dtype in enumerate(sources, start=1)]
    return build.sink(store(0, compute(*operands), (lanes,)))


def constant_kernel(dtype: DType, value: ConstType, size: int) -> UOp:
    """The kernel that writes one constant to all of its output."""
    return build.sink(store(0, build.const(dtype, value), (size,)))
