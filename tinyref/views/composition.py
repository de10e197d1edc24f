"""Composition: merge two views into one view if one exists; reshape is a special case."""

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

# With plain sizes the box is stable after two or three rounds.
MAX_ROUNDS = 16


def reshape(view: View, shape: Sequence[sint]) -> View | None:
    """Return `view` in another shape, in row-major order; None if that needs a second view.

    Raises `UserError` for negative sizes and for a different number of elements.
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
    """Neighbouring axes that act as one axis with the mask from `begin` to `end`."""

    size: Extent
    stride: Extent
    begin: Extent
    end: Extent


def _runs(view: View) -> tuple[list[_Run], Extent]:
    """Merge the axes of `view` where possible; return them outermost first, and their offset."""
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
    """Split the flat `position` into a position in each run; the outermost takes the rest."""
    digits: list[Extent] = []
    for run in reversed(runs[1:]):
        position, digit = split(position, run.size)
        digits.append(digit)
    digits.append(position)
    return digits[::-1]


@dataclass
class _Line:
    """The function `base + sum(steps[i] * (p[i] - start[i]))` of a position p of the outer view."""

    base: Extent
    steps: list[Extent]

    def span(self, start: list[Extent], box: list[tuple[Extent, Extent]]) -> tuple[Extent, Extent]:
        """Return the lowest and the highest value in `box`."""
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
        """Return True if all of `box` is certainly on one side of the mask of `run`."""
        low, high = self.span(start, box)
        return at_most(high + 1, run.begin) or at_most(run.end, low)


@functools.lru_cache(maxsize=CACHE)
def compose(outer: View, inner: View) -> View | None:
    """Return one view that maps a position through `outer` and then through `inner`.

    Return None if no such view exists, or if none can be proved right for all values of variables.

    Within the mask of `outer`, the position in each run of `inner` must be a linear function of
    the position in `outer`. Its coefficients can only be the differences between the values at the
    first position and at its neighbours. They are right if and only if the function never leaves a
    run: then its values are the digits of a mixed radix number, and digits are unique.
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
    """Return the box of positions that all masks admit; None if these positions form no box.

    The mask of each run shrinks the box to the positions that it can admit. If no position of the
    last box is outside a mask, this box is the result; it may be empty.
    """
    limits = [
        (line, run)
        for line, run in zip(lines, runs, strict=True)
        if not (run.begin == 0 and run.end == run.size)
    ]
    # With symbolic sizes an expression may grow in every round and never become stable.
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
    """Return the bounds of an axis that the mask of `run` admits for any position on the others."""
    step = line.steps[axis]
    others = _Line(line.base, [*line.steps])
    others.steps[axis] = 0
    low, high = others.span(first, box)
    # The value must be between run.begin and run.end; the other axes contribute low to high.
    if lowest(step) > 0:
        begin = first[axis] - split(high - run.begin, step)[0]
        end = first[axis] + split(run.end - 1 - low, step)[0] + 1
    elif highest(step) < 0:
        begin = first[axis] - split(run.end - 1 - low, -step)[0]
        end = first[axis] + split(high - run.begin, -step)[0] + 1
    else:
        raise Undecided
    return largest(begin, box[axis][0]), smallest(end, box[axis][1])
