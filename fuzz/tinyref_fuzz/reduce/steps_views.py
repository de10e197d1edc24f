"""Steps on views: row-major ones, else less of masks, offsets, strides and views of views."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from tinyref.algebra.kernel_shape import positions_of
from tinyref.dtype import PtrDType
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, rebuild, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, ViewArg
from tinyref.views.build import tracker_of
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import Mask, Shape, View, full_mask
from tinyref_fuzz.reduce.kernel import (
    Fresh,
    loads_of_written,
    scatter,
    values_of,
)
from tinyref_fuzz.reduce.measure import tracker_cost
from tinyref_fuzz.reduce.search import Search
from tinyref_spec.kernel_case import Case


def plain_loads(search: Search) -> None:
    """Every load row-major, of a buffer of its own that holds the same values."""
    search.offer(_all_plain)
    _each(search, _loads, _load_through)


def plain_stores(search: Search) -> None:
    """Every output row-major, with the loads of it."""
    _each(search, lambda case: list(case.ast.src), _store_through)


def plain_masks(search: Search) -> None:
    """Validities and numbers of elements through simpler views."""
    _each(search, _masks, _mask_through)


def _each(
    search: Search,
    nodes: Callable[[Case], list[UOp]],
    through: Callable[[Case, UOp, ShapeTracker], Case],
) -> None:
    """Each of the nodes through the simplest view with which the case still fails."""
    at = 0
    while at < len(nodes(search.case)):
        node = nodes(search.case)[at]
        view = node if isinstance(node.arg, ViewArg) else node.src[0]
        for tracker in _simpler(view):
            if search.offer(through, node, tracker):
                break
        at += 1


def _loads(case: Case) -> list[UOp]:
    fixed = loads_of_written(case.ast)
    return [node for node in case.ast.toposort() if node.op is Ops.LOAD and node not in fixed]


def _masks(case: Case) -> list[UOp]:
    return [node for node in case.ast.toposort() if node.op in (Ops.VALID, Ops.IOTA)]


def _simpler(view: UOp) -> list[ShapeTracker]:
    """Trackers of the same shape, the simplest first, that are simpler than that of the view."""
    assert isinstance(view.arg, ViewArg)
    tracker = tracker_of(view)
    wanted = [] if positions_of(view) else [lambda: ShapeTracker.from_shape(tracker.shape)]
    found = []
    for make in (*wanted, *_pieces(tracker)):
        # A view of views may not fit without those between, and movements may be what is broken.
        with contextlib.suppress(Exception):
            found.append(make())
    simpler = [each for each in dict.fromkeys(found) if _cost(each) < _cost(tracker)]
    return sorted(simpler, key=_cost)


def _cost(tracker: ShapeTracker) -> tuple[int, int]:
    return tracker_cost(tracker), tracker.real_size()


def _pieces(tracker: ShapeTracker) -> Iterator[Callable[[], ShapeTracker]]:
    """Trackers of the same shape with only some of what this one does."""
    views, shape = tracker.views, tracker.shape
    last = views[-1]
    if len(views) > 1:
        yield lambda: ShapeTracker((last,))
        yield lambda: ShapeTracker(views[1:])
        yield lambda: ShapeTracker((*views[:-2], last))
    ones = tuple(1 if s == 0 else n for n, s in zip(shape, last.strides, strict=True))
    yield lambda: ShapeTracker.from_shape(ones).expand(shape)
    backward = [axis for axis, stride in enumerate(last.strides) if _is_negative(stride)]
    yield lambda: ShapeTracker.from_shape(shape).flip(backward)
    order = sorted(range(len(shape)), key=lambda axis: -_size(last.strides[axis]))
    turned = tuple(shape[axis] for axis in order)
    back = tuple(order.index(axis) for axis in range(len(shape)))
    yield lambda: ShapeTracker.from_shape(turned).permute(back)
    yield lambda: _pad_by_mask(shape, last.mask or full_mask(shape))
    for axis, bound in enumerate(last.mask or ()):
        kept = list(full_mask(shape))
        kept[axis] = bound
        yield lambda kept=tuple(kept): _pad_by_mask(shape, kept)  # type: ignore[misc]
    yield lambda: _without_offset(last)


def _is_negative(stride: object) -> bool:
    return isinstance(stride, int) and stride < 0


def _size(stride: object) -> int:
    return abs(stride) if isinstance(stride, int) else 0


def _pad_by_mask(shape: Shape, mask: Mask) -> ShapeTracker:
    """Row-major inside of the mask, nothing outside of it."""
    inner = tuple(end - begin for begin, end in mask)
    bounds = tuple((begin, size - end) for (begin, end), size in zip(mask, shape, strict=True))
    return ShapeTracker.from_shape(inner).pad(bounds)


def _without_offset(view: View) -> ShapeTracker:
    """The view from the first element of the buffer on."""
    ends = View(view.shape, view.strides, 0, view.mask).reach()
    return ShapeTracker((View(view.shape, view.strides, -ends[0] if ends else 0, view.mask),))


def _load_through(case: Case, load: UOp, tracker: ShapeTracker) -> Case:
    view = load.src[0]
    if positions_of(view):
        return _gather_through(case, load, tracker)
    value = values_of(case, (load,))[load]
    fresh = Fresh(case)
    content = scatter(value, tracker, case.bindings)
    new = fresh.load(tracker, load.dtype, content)
    return fresh.with_kernel(substitute(case.ast, {load: new}), content)


def _gather_through(case: Case, load: UOp, tracker: ShapeTracker) -> Case:
    """A load at positions that are values, through another view of a buffer of its own."""
    view = load.src[0]
    slot = slot_of(load)
    fresh = Fresh(case)
    content = np.resize(case.buffers[slot], max(1, tracker.real_size()))
    plain = fresh.load(tracker, load.dtype, content)
    new = plain.replace(src=(plain.src[0].replace(src=(*plain.src[0].src, *positions_of(view))),))
    return fresh.with_kernel(substitute(case.ast, {load: new}), content)


def _all_plain(case: Case) -> Case:
    """All loads at once, row-major."""
    loads = [node for node in _loads(case) if not positions_of(node.src[0])]
    values = values_of(case, loads)
    ast, mapping = case.ast, {}
    for load in loads:
        tracker = ShapeTracker.from_shape(load.src[0].arg.tracker.shape)  # type: ignore[union-attr]
        fresh = Fresh(case)
        content = scatter(values[load], tracker, case.bindings)
        mapping[load] = fresh.load(tracker, load.dtype, content)
        case = fresh.with_kernel(ast, content)
    return replace(case, ast=substitute(ast, mapping))


def _store_through(case: Case, store: UOp, tracker: ShapeTracker) -> Case:
    """The output through another view, in a buffer that is large enough, with its loads."""
    slot = slot_of(store)
    size = max(1, tracker.real_size(), case.buffers[slot].size)

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if isinstance(node.arg, SlotArg) and node.arg.slot == slot:
            assert isinstance(node.dtype, PtrDType)
            return build.define_global(slot, node.dtype.base, size)
        if node.op is Ops.VIEW and src[0].arg == SlotArg(slot):
            return node.with_sources(src).replace(arg=ViewArg(tracker))
        return None

    grown = np.resize(case.buffers[slot], size)
    buffers = (*case.buffers[:slot], grown, *case.buffers[slot + 1 :])
    return replace(case, ast=rebuild(case.ast, change), buffers=buffers)


def _mask_through(case: Case, node: UOp, tracker: ShapeTracker) -> Case:
    return replace(case, ast=substitute(case.ast, {node: node.replace(arg=ViewArg(tracker))}))
