"""Reduce the iteration space: symbolic sizes, axes and extents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import kernel_shape
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.payload import VarArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref_fuzz.generate.equivalent.moving import cut_axis, move_all_views, rank_of
from tinyref_fuzz.reduce.measure import variables
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.kernel_case import KernelCase

_SMALL = (1, 2, 3, 4, 8, 16, 32)


def constant_sizes(search: Search) -> None:
    """Replace variables by constants: all of them, else one by one; else use smaller values."""
    names = sorted(variables(search.case.ast), key=_name)
    if not names:
        return
    for chosen in (names, *([name] for name in names if len(names) > 1)):
        values = {variable: search.case.bindings[_name(variable)] for variable in chosen}
        search.offer(_bind_variables, values)
    for variable in sorted(variables(search.case.ast), key=_name):
        low = variable.arg.minimum if isinstance(variable.arg, VarArg) else 0
        for value in range(low, search.case.bindings[_name(variable)]):
            bindings = {**search.case.bindings, _name(variable): value}
            if search.offer(replace, bindings=bindings):
                break


def _name(variable: UOp) -> str:
    return variable.arg.name if isinstance(variable.arg, VarArg) else ""


def _bind_variables(case: KernelCase, values: Mapping[UOp, int]) -> KernelCase:
    """Return the case with numbers instead of variables."""
    sizes = {variable: build.const(dtypes.index, value) for variable, value in values.items()}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if node in values:
            return build.const(node.dtype, values[node])
        if isinstance(node.arg, ViewArg):
            tracker = tracker_of(node).substitute(sizes)
            return node.replace(src=src, arg=ViewArg(tracker))
        return None

    return replace(case, ast=rebuild(case.ast, change))


def fewer_axes(search: Search) -> None:
    """Remove each axis: of what varies along it, keep only the first elements, or the last."""
    for axis in reversed(range(rank_of(search.case.ast))):
        if axis < rank_of(search.case.ast):
            size = _size_along(search.case, axis)
            for begin in sorted({0, max(0, size - 1)}):
                if search.offer(_without_axis, axis, begin):
                    break


def _size_along(case: KernelCase, axis: int) -> int:
    """Return the largest size of any view along an axis."""
    views = (node for node in case.ast.toposort() if isinstance(node.arg, ViewArg))
    return max(value_of(kernel_shape(view)[axis], case.bindings) for view in views)


def _without_axis(case: KernelCase, axis: int, begin: int) -> KernelCase:
    def move(tracker: ShapeTracker) -> ShapeTracker:
        part = _window(tracker, axis, begin, begin + 1)
        return part.reshape((*part.shape[:axis], *part.shape[axis + 1 :]))

    def without(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at - (at > axis) for at in axes if at != axis)

    return replace(case, ast=move_all_views(case.ast, move, without))


def _window(tracker: ShapeTracker, axis: int, begin: int, end: int) -> ShapeTracker:
    """Cut some positions out of an axis; keep all if the view does not vary along it."""
    size = tracker.shape[axis]
    return tracker if isinstance(size, int) and size == 1 else cut_axis(tracker, axis, begin, end)


def smaller_extents(search: Search) -> None:
    """Keep fewer positions of each axis, at its beginning or end; try all axes at once first."""
    for limit in (2, 4):
        search.offer(_all_below, limit)
    for axis in range(rank_of(search.case.ast)):
        _shrink_axis(search, axis)


def _shrink_axis(search: Search, axis: int) -> None:
    size = _size_along(search.case, axis)
    for extent in sorted({*_SMALL, size // 2, size - 1}):
        if not 0 < extent < size:
            continue
        for begin in (0, size - extent):
            end = begin + extent
            if search.offer(_cut_along, axis, begin, end):
                return


def _cut_along(case: KernelCase, axis: int, begin: int, end: int) -> KernelCase:
    ast = move_all_views(
        case.ast, lambda tracker: _window(tracker, axis, begin, end), lambda axes: axes
    )
    return replace(case, ast=ast)


def _all_below(case: KernelCase, limit: int) -> KernelCase:
    """Cut every axis to `limit` positions."""
    for axis in range(rank_of(case.ast)):
        if _size_along(case, axis) > limit:
            case = _cut_along(case, axis, 0, limit)
    return case
