"""The AST of one kernel: views are moved to the loads, and each buffer has one slot.

A kernel has axes T + R + F: T is the shape of its result, R are the axes of its reduce loops.
Outside a reduce every value has shape T + (1, ...), inside it T + R. A node is computed at a
tracker, which says which element each position of the kernel needs. Movement changes the tracker,
and a reduce adds R to it. At a load, the tracker becomes the view. F are the axes of one-hot
reduces, which select one element and so are no loops (`optimise.one_hot`). Nested one-hot reduces
have axes one after the other; independent ones share axes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tinyref.algebra.shapes import kernel_shape, reduced_axes
from tinyref.algebra.symbolic import lift, lower, product
from tinyref.dtype import as_const, dtypes
from tinyref.errors import TinyrefError
from tinyref.lazy.shape import shape_of
from tinyref.optimise.fold_ranges import fold_known
from tinyref.optimise.one_hot import is_one_hot_reduce
from tinyref.schedule.fusion import content, reduce_axes
from tinyref.uops import build
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import ALU, MOVEMENT, Ops
from tinyref.uops.payload import BufferArg, ConstArg, ReduceArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, apply_movement
from tinyref.views.view import View, contiguous_strides

Shape = tuple[sint, ...]
Key = tuple[UOp, ShapeTracker]

# A kernel with more distinct values than this is not fused further.
MAX_VALUES = 3000


@dataclass(frozen=True)
class Location:
    """The location of a stored node: elements of a BUFFER through `tracker`.

    `version` is the ASSIGN that wrote them; None for the contents before the schedule.
    """

    buffer: UOp
    tracker: ShapeTracker
    version: UOp | None = None


@dataclass(frozen=True)
class Read:
    """A load of a kernel, in the axes of the kernel."""

    location: Location
    tracker: ShapeTracker


class TooLarge(Exception):  # noqa: N818  caught by the scheduler, which stores more and tries again
    """The error for a kernel with too many values; `node` is computed at the most trackers."""

    def __init__(self, node: UOp) -> None:
        self.node = node
        super().__init__(node.op.name)


class InternalError(TinyrefError):
    """The error for a graph that the scheduler should have cut before: a bug of tinyref."""


Locate = Callable[[UOp], Location | None]


class KernelBuilder:
    """A builder of the AST of the kernel that stores `root` at `target`.

    locate: returns the location of a stored node, None for a node that is computed in place.
    members: the nodes that the kernel computes itself.
    buffers, reads: after `build`, the BUFFER nodes by slot and the loads.
    """

    def __init__(self, root: UOp, target: Location, locate: Locate) -> None:
        self.root = root
        self.target = target
        self.locate = locate
        self.value = content(root)
        self.slots: dict[UOp, int] = {target.buffer: 0}
        self.reads: list[Read] = []
        self.members = self._find_members()
        self.outer: Shape = self._outer_axes()
        self.inner: Shape = self._reduced_axes()
        self.first_axes: dict[UOp, int] = {}
        self.folded = self._place_one_hots()
        self._zero: dict[UOp, ConstArg | None] = {}

    def build(self) -> UOp:
        """Return the SINK of the kernel. Raises `TooLarge` if it would compute too much twice."""
        shape = (*self.outer, *(1,) * (len(self.inner) + self.folded))
        start = ShapeTracker.from_shape(shape_of(self.root)).reshape(shape)
        self.store_view = self.target.tracker.reshape(shape)
        value = self._compute((self.value, start))
        view = self._view(self.target.buffer, self.store_view)
        return build.sink(UOp(Ops.STORE, dtypes.void, (view, value)))

    # --- which nodes the kernel computes --------------------------------------------------------

    def _is_leaf(self, node: UOp) -> bool:
        return node.op is Ops.BUFFER or (node is not self.root and self.locate(node) is not None)

    @property
    def buffers(self) -> list[UOp]:
        """Return the BUFFER nodes by slot."""
        return list(self.slots)

    def count_buffers(self) -> int:
        """Return the number of buffers that the kernel takes, before it is built."""
        buffers = {self.target.buffer}
        for node in self.members:
            for source in node.src:
                location = self.locate(source) if self._is_leaf(source) else None
                if location is not None:
                    buffers.add(location.buffer)
        return len(buffers)

    def _find_members(self) -> list[UOp]:
        """Return the nodes that this kernel computes itself, users before sources."""
        members: list[UOp] = []
        seen: set[UOp] = set()
        stack = [self.value]
        while stack:
            node = stack.pop()
            if node in seen or self._is_leaf(node):
                continue
            seen.add(node)
            members.append(node)
            stack.extend(reversed(node.src))
        return members

    def _outer_axes(self) -> Shape:
        """Return the axes of the result, cut at the borders of the axes that reshapes merge.

        The channels of a convolution whose result is reshaped into groups stay axes of the kernel:
        a position along merged axes needs divisions in every index.
        """
        whole = tuple(size for size in shape_of(self.root) if size != 1)
        elementwise = {node for node in self.members if node.op in ALU or node.op is Ops.RESHAPE}
        order = list(toposort((self.value,), lambda node: node.src if node in elementwise else ()))
        axes = whole
        for node in reversed(order):
            axes = _cut_axes(axes, shape_of(node))
        tracker = self.target.tracker
        return axes if len(tracker.reshape(axes).views) <= len(tracker.views) else whole

    def _reduced_axes(self) -> Shape:
        result: Shape | None = None
        for node in self.members:
            if node.op is not Ops.REDUCE or is_one_hot_reduce(node):
                continue
            axes = reduce_axes(node)
            if result not in (None, axes):
                raise InternalError(f"kernel: reduces over {result} and {axes} share one kernel")
            result = axes
        return result or ()

    def _place_one_hots(self) -> int:
        """Set the first axis of each one-hot REDUCE; return the number of all such axes."""
        ends: dict[UOp, int] = {}
        needs = functools.partial(_sources_but, self._is_leaf)
        for node in toposort((self.value,), needs):
            below = max((ends[source] for source in needs(node)), default=0)
            if is_one_hot_reduce(node) and not self._is_leaf(node):
                self.first_axes[node] = len(self.outer) + len(self.inner) + below
                below += len(reduce_axes(node))
            ends[node] = below
        return ends[self.value]

    # --- values ---------------------------------------------------------------------------------

    def _compute(self, start: Key) -> UOp:
        needs: dict[Key, list[Key]] = {}

        def sources(key: Key) -> list[Key]:
            needs[key] = self._sources(key)
            if len(needs) == MAX_VALUES:
                self._refuse_repetition(needs)
            return needs[key]

        done: dict[Key, UOp] = {}
        for key in toposort((start,), sources):
            done[key] = self._combine(key, [done[need] for need in needs[key]])
        return done[start]

    def _refuse_repetition(self, keys: Iterable[Key]) -> None:
        """Raise `TooLarge` if a value is computed at several trackers in the same kernel."""
        counts: dict[UOp, int] = {}
        for node, _ in keys:
            if node.op in ALU and node is not self.value and not self._is_leaf(node):
                counts[node] = counts.get(node, 0) + 1
        repeated = [node for node, count in counts.items() if count > 1]
        if repeated:
            # The middle one leaves neither the rest nor the stored part too large.
            raise TooLarge(repeated[len(repeated) // 2])

    def _sources(self, key: Key) -> list[Key]:
        node, tracker = key
        if self._is_leaf(node) or not node.src or node.op is Ops.BIND:
            return []
        if node.op in MOVEMENT:
            return [(node.src[0], movement_tracker(node).followed_by(tracker))]
        if node.op is Ops.REDUCE:
            return [(node.src[0], self._inside(node, tracker))]
        return [(source, tracker) for source in node.src]

    def _combine(self, key: Key, values: Sequence[UOp]) -> UOp:
        node, tracker = key
        if self._is_leaf(node):
            return self._load(node, tracker)
        if node.op is Ops.PAD:
            return self._zero_outside(node, tracker, values[0])
        if node.op in MOVEMENT:
            return values[0]
        if node.op is Ops.REDUCE:
            return self._reduce(node, tracker, values[0])
        if node.op in ALU:
            return UOp(node.op, node.dtype, tuple(values))
        if node.op in (Ops.CONST, Ops.DEFINE_VAR):
            return node
        if node.op is Ops.IOTA:
            return node.replace(arg=ViewArg(tracker))
        raise InternalError(f"kernel: {node.op.name} cannot be computed inside a kernel")

    def _load(self, node: UOp, tracker: ShapeTracker) -> UOp:
        location = self.locate(node)
        if location is None:
            raise InternalError(f"kernel: {node.op.name} has no memory")
        view = location.tracker.followed_by(tracker)
        self.reads.append(Read(location, view))
        return build.load(self._view(location.buffer, view))

    def _view(self, buffer: UOp, tracker: ShapeTracker) -> UOp:
        slot = self.slots.setdefault(buffer, len(self.slots))
        assert isinstance(buffer.arg, BufferArg), "a BUFFER has its payload"
        memory = build.define_global(slot, buffer.dtype, buffer.arg.size)
        return build.view(memory, tracker)

    def _reduce(self, node: UOp, tracker: ShapeTracker, value: UOp) -> UOp:
        assert isinstance(node.arg, ReduceArg), "a REDUCE has its payload"
        inside = self._inside(node, tracker)
        if kernel_shape(value) == ():
            # A value without loads has no shape of its own, and a reduce needs one.
            valid = build.valid(ShapeTracker.from_shape(inside.shape))
            value = UOp(Ops.WHERE, value.dtype, (valid, value, build.const(value.dtype, 0)))
        return UOp(Ops.REDUCE, node.dtype, (value,), ReduceArg(node.arg.op, self._axes_of(node)))

    def _axes_of(self, node: UOp) -> tuple[int, ...]:
        """Return the axes of the kernel that a REDUCE loops over."""
        first = self.first_axes.get(node, len(self.outer))
        return tuple(range(first, first + len(reduce_axes(node))))

    def _inside(self, node: UOp, tracker: ShapeTracker) -> ShapeTracker:
        """Return the tracker of the source of a REDUCE at `tracker`."""
        axes = self._axes_of(node)
        order = [axis for axis in range(len(tracker.shape)) if axis not in axes] + list(axes)
        inside = reduced_tracker(node, tracker.permute(order), reduce_axes(node))
        return inside.permute(sorted(range(len(order)), key=order.__getitem__))

    # --- padding --------------------------------------------------------------------------------

    def _zero_outside(self, node: UOp, tracker: ShapeTracker, value: UOp) -> UOp:
        """Return `value` with zeros outside; loads give them themselves if the value keeps zero."""
        source = node.src[0]
        zero = ConstArg(as_const(0, node.dtype))
        if self._value_at_zero(source) == zero:
            return value
        inside = movement_tracker(node).followed_by(tracker)
        if not inside.is_masked:
            return value
        valid = build.valid(inside)
        return UOp(Ops.WHERE, node.dtype, (valid, value, build.const(node.dtype, 0)))

    def _value_at_zero(self, root: UOp) -> ConstArg | None:
        """Return the value of `root` where all its loads give 0; None if it is unknown."""

        def is_known(node: UOp) -> bool:
            is_simple = node in self._zero or node.op in (Ops.PAD, Ops.CONST, Ops.IOTA)
            return is_simple or self._is_leaf(node)

        for node in toposort((root,), functools.partial(_sources_but, is_known)):
            if node not in self._zero:
                self._zero[node] = self._at_zero(node)
        return self._zero[root]

    def _at_zero(self, node: UOp) -> ConstArg | None:
        zero = ConstArg(as_const(0, node.dtype))
        if isinstance(node.arg, ConstArg):
            return node.arg
        if self._is_leaf(node) or node.op in (Ops.PAD, Ops.IOTA):
            return zero
        sources = [self._zero[source] for source in node.src]
        if node.op in MOVEMENT:
            return sources[0]
        if isinstance(node.arg, ReduceArg):
            keeps = sources[0] is not None and (node.arg.op is Ops.MAX or sources[0] == zero)
            return sources[0] if keeps else None
        return fold_known(node, sources)


def _cut_axes(axes: Shape, shape: Shape) -> Shape:
    """Return `axes` with a cut at each border of `shape`; `axes` itself if one does not divide."""
    sizes = [size for size in (*axes, *shape) if isinstance(size, int)]
    if len(sizes) < len(axes) + len(shape) or product(axes) != product(shape) or 0 in sizes:
        return axes
    borders = sorted({1, *_borders(axes), *_borders(shape)})
    pairs = list(itertools.pairwise(borders))
    if any(large % small for small, large in pairs):
        return axes
    return tuple(large // small for small, large in reversed(pairs))


def _borders(shape: Shape) -> Iterator[int]:
    """Yield the number of elements in one step along each axis, from the last one, and in all."""
    elements = 1
    for size in reversed(shape):
        assert isinstance(size, int), "the caller checks that all sizes are known"
        elements *= size
        yield elements


def _sources_but(is_leaf: Callable[[UOp], bool], node: UOp) -> tuple[UOp, ...]:
    """Return the sources of `node`; none for a leaf."""
    return () if is_leaf(node) else node.src


def movement_tracker(node: UOp) -> ShapeTracker:
    """Return the tracker from the elements of a movement node to its source, row-major."""
    return apply_movement(ShapeTracker.from_shape(shape_of(node.src[0])), node.op, node.arg)


def reduced_tracker(node: UOp, tracker: ShapeTracker, inner: Shape) -> ShapeTracker:
    """Return the tracker of the source, of shape T + R, of a REDUCE at `tracker`, T + (1, ...).

    The reduced axes go last. Then every step of `tracker` moves by whole blocks of R.
    """
    source = shape_of(node.src[0])
    axes = reduced_axes(node)
    order = [axis for axis in range(len(source)) if axis not in axes] + list(axes)
    rest = tuple(source[axis] for axis in order[: len(source) - len(axes)])
    base = ShapeTracker.from_shape(source).permute(order).reshape((*rest, *inner))
    last = len(tracker.views) - 1
    views = [
        _in_blocks(view, inner, len(inner) if number == last else 0)
        for number, view in enumerate(tracker.views)
    ]
    return ShapeTracker((*base.views, *views)).simplify()


def _in_blocks(view: View, inner: Shape, dropped: int) -> View:
    """Return `view` over blocks of shape `inner` instead of elements, without `dropped` axes."""
    rank = len(view.shape) - dropped
    block = lift(product(inner))
    mask = None
    if view.mask is not None:
        nowhere = any(begin == end for begin, end in view.mask)
        ends = tuple((0, 0 if nowhere else size) for size in inner)
        mask = (*view.mask[:rank], *ends)
    return View(
        (*view.shape[:rank], *inner),
        (
            *(lower(lift(stride) * block) for stride in view.strides[:rank]),
            *contiguous_strides(inner),
        ),
        lower(lift(view.offset) * block),
        mask,
    )
