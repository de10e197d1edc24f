"""Which element of a buffer a view shows at each position, as the evaluator reads it.

By the definition alone: position p of a view is element `offset + sum(p * strides)`, where p lies
within the mask; of several views the element of one, row-major, is the position in the one before.
Sizes are computed by Python's integers. Nothing is shared with `index_and_valid`, which is what the
compiler lowers, nor with `numpy_indices` and `algebra.evaluate`: an oracle that read views as the
compiler does would be wrong wherever the compiler is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.evaluate import bound_value
from tinyref.errors import UserError
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View

Array = npt.NDArray[Any]
Bindings = Mapping[str, int]


def _quotient(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


# Sizes are `index` nodes, which never wrap.
_EXACT: dict[Ops, Callable[..., int]] = {
    Ops.ADD: operator.add,
    Ops.SUB: operator.sub,
    Ops.MUL: operator.mul,
    Ops.NEG: operator.neg,
    Ops.IDIV: _quotient,
    Ops.MOD: lambda x, y: 0 if y == 0 else x - y * _quotient(x, y),
    Ops.MAX: max,
    Ops.CMPLT: operator.lt,
    Ops.CMPNE: operator.ne,
    Ops.AND: operator.and_,
    Ops.OR: operator.or_,
    Ops.XOR: operator.xor,
    Ops.WHERE: lambda condition, x, y: x if condition else y,
    Ops.CAST: int,
    Ops.BIND: lambda variable, value: value,
}


def size_value(size: sint, bindings: Bindings) -> int:
    """The value of a size. Raises `UserError` for a variable without value, or another node."""
    if isinstance(size, int):
        return size
    values: dict[UOp, int] = {}
    for node in size.toposort():
        if isinstance(node.arg, ConstArg):
            values[node] = int(node.arg.value)
        elif isinstance(node.arg, VarArg):
            values[node] = bound_value(node.arg, bindings)
        elif node.op in _EXACT:
            values[node] = int(_EXACT[node.op](*(values[source] for source in node.src)))
        else:
            raise UserError(f"evaluate: {node.op.name} does not belong in a size")
    return values[size]


def view_elements(
    tracker: ShapeTracker, bindings: Bindings, places: Sequence[Array] = ()
) -> tuple[Array, Array]:
    """The element (0 where there is none) at each position, and whether there is one.

    places: positions along the last axes, where they are computed: integer arrays that broadcast
    with the positions along the others; out of an axis there is no element. Both results have the
    shape that all broadcast to. Raises `UserError` as `size_value` does.
    """
    shape = [size_value(size, bindings) for size in tracker.shape]
    own = shape[: len(shape) - len(places)]
    at = [*np.ix_(*map(np.arange, own)), *(np.asarray(place, np.int64) for place in places)]
    full = np.broadcast_shapes(tuple(own), *(place.shape for place in places))
    valid = np.array(True)
    for number in range(len(own), len(shape)):
        is_there = (at[number] >= 0) & (at[number] < shape[number])
        at[number] = np.where(is_there, at[number], 0)
        valid = valid & is_there
    for depth in reversed(range(len(tracker.views))):
        view = tracker.views[depth]
        element, is_shown = _element(view, at, bindings)
        valid = valid & is_shown
        element = np.where(valid, element, 0)
        if depth:
            at = _digits(element, tracker.views[depth - 1], bindings)
    return np.broadcast_to(element, full), np.broadcast_to(valid, full)


def _element(view: View, at: Sequence[Array], bindings: Bindings) -> tuple[Array, Array]:
    """The element of one view at these positions, and whether its mask shows it."""
    element = np.array(size_value(view.offset, bindings), np.int64)
    is_shown = np.array(True)
    for axis, place in enumerate(at):
        element = element + place * size_value(view.strides[axis], bindings)
        if view.mask is not None:
            begin, end = (size_value(bound, bindings) for bound in view.mask[axis])
            is_shown = is_shown & (place >= begin) & (place < end)
    return element, is_shown


def _digits(element: Array, view: View, bindings: Bindings) -> list[Array]:
    """The position along each axis of `view` of a row-major number."""
    found: list[Array] = []
    for size in reversed(view.shape):
        # Of an axis of no positions nothing is shown.
        extent = max(size_value(size, bindings), 1)
        found.append(element % extent)
        element = element // extent
    return found[::-1]
