"""Composition of views: one view for what two show, wherever there is one; reshape is a case."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tinyref.algebra.symbolic import (
    Extent,
    Undecided,
    at_most,
    describe,
    describe_shape,
    highest,
    largest,
    lift,
    lower,
    lowest,
    product,
    smallest,
    split,
)
from tinyref.errors import UserError
from tinyref.uops.node import sint
from tinyref.views.view import CACHE, Shape, View, check_sizes, nowhere, sizes_of

# A box of plain sizes settles in two or three rounds.
MAX_ROUNDS = 16


def reshape(view: View, shape: Sequence[sint]) -> View | None:
    """The positions of `view`, row-major, seen as `shape`; None if that takes a second view.

    Raises `UserError` for negative sizes and for another number of elements.
    """
    return _reshape(view, sizes_of("reshape", shape))


@functools.lru_cache(maxsize=CACHE)
def _reshape(view: View, shape: Shape) -> View | None:
    check_sizes("reshape", shape)
    have, want = product(view.shape), product(shape)
    if have != want:
        raise UserError(
            f"reshape: cannot view {describe_shape(view.shape)} as {describe_shape(shape)}: "
            f"{describe(have)} elements against {describe(want)}"
        )
    return compose(View.contiguous(shape), view)


@dataclass
class _Run:
    """Neighbouring axes that act as one: `begin` and `end` are its mask."""

    size: Extent
    stride: Extent
    begin: Extent
    end: Extent


def _runs(view: View) -> tuple[list[_Run], Extent]:
    """The axes of `view`, outermost first, merged where they can be, and the offset that fits."""
    runs: list[_Run] = []
    offset = lift(view.offset)
    for size, stride, (low, high) in view.axes():
        if size == 1:
            continue
        axis = _Run(lift(size), lift(stride), lift(low), lift(high))
        if not runs:
            runs.append(axis)
            continue
        outer = runs[-1]
        if outer.end - outer.begin == 1:
            # One valid row: its stride is 0 in normal form, so the inner axis alone moves.
            skipped = outer.begin * axis.size
            offset = offset - axis.stride * skipped
            begin, end = skipped + axis.begin, skipped + axis.end
        elif outer.stride == axis.size * axis.stride and axis.end - axis.begin == axis.size:
            begin, end = outer.begin * axis.size, outer.end * axis.size
        else:
            runs.append(axis)
            continue
        runs[-1] = _Run(outer.size * axis.size, axis.stride, begin, end)
    return runs, offset


def _digits(position: Extent, runs: list[_Run]) -> list[Extent]:
    """The position in each run of the flat `position`; the outermost takes what is left."""
    digits: list[Extent] = []
    for run in reversed(runs[1:]):
        position, digit = split(position, run.size)
        digits.append(digit)
    digits.append(position)
    return digits[::-1]


@dataclass
class _Line:
    """`base + sum(steps[i] * (p[i] - start[i]))` over the positions p of the outer view."""

    base: Extent
    steps: list[Extent]

    def span(self, start: list[Extent], box: list[tuple[Extent, Extent]]) -> tuple[Extent, Extent]:
        """Its lowest and highest value in `box`."""
        low = high = self.base
        for step, first, (begin, end) in zip(self.steps, start, box, strict=True):
            if step == 0:
                continue
            ends = (step * (begin - first), step * (end - 1 - first))
            if lowest(step) >= 0:
                low, high = low + ends[0], high + ends[1]
            elif highest(step) <= 0:
                low, high = low + ends[1], high + ends[0]
            else:
                raise Undecided
        return low, high

    def misses(self, run: _Run, start: list[Extent], box: list[tuple[Extent, Extent]]) -> bool:
        """Whether all of `box` is certain to be on one side of the mask of `run`."""
        low, high = self.span(start, box)
        return at_most(high + 1, run.begin) or at_most(run.end, low)


@functools.lru_cache(maxsize=CACHE)
def compose(outer: View, inner: View) -> View | None:
    """The one view that shows through `inner` what `outer` shows of its flat positions.

    None if there is no such view, or none can be proved right for all values of the variables.

    Within the mask of `outer`, the position in each run of `inner` must be a linear function of
    the position in `outer`. If it is, its coefficients are the differences between the first
    position and its neighbours, so those are tried, and they are right if and only if no run
    is left anywhere: then they are the digits of a mixed radix number, and digits are unique.
    """
    if outer.touches_nothing:
        return outer
    if inner.touches_nothing:
        return nowhere(outer.shape)
    if inner.is_contiguous:
        return outer
    if outer.is_contiguous and outer.shape == inner.shape:
        return inner
    try:
        return _through(outer, inner)
    except Undecided:
        return None


def _through(outer: View, inner: View) -> View | None:
    runs, start = _runs(inner)
    axes = outer.axes()
    first = [lift(begin) for _, _, (begin, _) in axes]
    box = [(lift(begin), lift(end)) for _, _, (begin, end) in axes]
    flat = lift(outer.offset)
    for (_, stride, _), begin in zip(axes, first, strict=True):
        flat = flat + lift(stride) * begin
    lines = [_Line(digit, [0] * len(axes)) for digit in _digits(flat, runs)] if runs else []
    for axis, (_, stride, _) in enumerate(axes):
        if stride == 0 or not runs:
            continue
        for line, digit in zip(lines, _digits(flat + lift(stride), runs), strict=True):
            line.steps[axis] = digit - line.base
    for line, run in zip(lines, runs, strict=True):
        low, high = line.span(first, box)
        if lowest(low) < 0 or not at_most(high + 1, run.size):
            return None
    if any(line.misses(run, first, box) for line, run in zip(lines, runs, strict=True)):
        return nowhere(outer.shape)
    strides: list[Extent] = [0] * len(axes)
    for line, run in zip(lines, runs, strict=True):
        start = start + run.stride * line.base
        strides = [
            total + run.stride * step for total, step in zip(strides, line.steps, strict=True)
        ]
    for total, begin in zip(strides, first, strict=True):
        start = start - total * begin
    masked = _box_of_masks(lines, runs, first, box)
    if masked is None:
        return None
    if any(at_most(end, begin) for begin, end in masked):
        return nowhere(outer.shape)
    mask = tuple((lower(begin), lower(end)) for begin, end in masked)
    return View(outer.shape, tuple(map(lower, strides)), lower(start), mask)


def _box_of_masks(
    lines: list[_Line], runs: list[_Run], first: list[Extent], box: list[tuple[Extent, Extent]]
) -> list[tuple[Extent, Extent]] | None:
    """The box of positions, maybe none, that the masks of all runs leave over; None if no box is.

    Each run cuts the box down to what it can possibly leave; if nothing in the last box is
    outside a mask, then that box is exactly what is left.
    """
    limits = [
        (line, run)
        for line, run in zip(lines, runs, strict=True)
        if not (run.begin == 0 and run.end == run.size)
    ]
    # A cut by symbolic sizes may grow an expression in every round, and never settle.
    for _ in range(MAX_ROUNDS):
        changed = False
        for line, run in limits:
            for axis, step in enumerate(line.steps):
                if step == 0:
                    continue
                begin, end = _bounds_from_mask(line, run, first, box, axis)
                changed = changed or (begin, end) != box[axis]
                box[axis] = (begin, end)
                if at_most(end, begin):
                    return box
        if not changed:
            break
    else:
        return None
    for line, run in limits:
        low, high = line.span(first, box)
        if not at_most(run.begin, low) or not at_most(high + 1, run.end):
            return None
    return box


def _bounds_from_mask(
    line: _Line, run: _Run, first: list[Extent], box: list[tuple[Extent, Extent]], axis: int
) -> tuple[Extent, Extent]:
    """What the mask of `run` can leave of one axis, whatever the other axes are."""
    step = line.steps[axis]
    others = _Line(line.base, [*line.steps])
    others.steps[axis] = 0
    low, high = others.span(first, box)
    # The whole line must lie from run.begin to run.end, and the others lie from low to high.
    if lowest(step) > 0:
        begin = first[axis] - split(high - run.begin, step)[0]
        end = first[axis] + split(run.end - 1 - low, step)[0] + 1
    elif highest(step) < 0:
        begin = first[axis] - split(run.end - 1 - low, -step)[0]
        end = first[axis] + split(high - run.begin, -step)[0] + 1
    else:
        raise Undecided
    return largest(begin, box[axis][0]), smallest(end, box[axis][1])
