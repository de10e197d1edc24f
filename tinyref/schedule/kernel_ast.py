"""The AST of one kernel: views pushed down to the loads, one slot for each buffer.

A kernel has axes T + R + F: T is the shape of what it stores, R what its reduces loop over. Outside
a reduce every value has shape T + (1, ...), inside it T + R. A node is computed at a tracker that
says which of its elements each position of the kernel wants; movement changes the tracker, a reduce
puts R into it, and at a load the tracker becomes the view. F are axes of one-hot reduces, which
choose one element and so are no loops (`optimise.one_hot`): one after the other where such reduces
are nested, while those side by side share them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
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
    """Where a stored node lies: elements of a BUFFER through `tracker`.

    `version` is the ASSIGN that wrote them, None for what the buffer held before the schedule.
    """

    buffer: UOp
    tracker: ShapeTracker
    version: UOp | None = None


@dataclass(frozen=True)
class Read:
    """A load of a kernel, in the kernel's own axes."""

    location: Location
    tracker: ShapeTracker


class TooLarge(Exception):  # noqa: N818  caught by the scheduler, which stores more and tries again
    """A kernel has more values than it may; `node` is computed in the most ways."""

    def __init__(self, node: UOp) -> None:
        self.node = node
        super().__init__(node.op.name)


class InternalError(TinyrefError):
    """The scheduler met a graph that it should have cut up before: a bug of tinyref."""


Locate = Callable[[UOp], Location | None]


class KernelBuilder:
    """Builds the AST of the kernel that stores `root` at `target`.

    `locate` gives the location of a stored node, None for one that is computed in place. After
    `build`, `buffers` are the BUFFER nodes by slot and `reads` the loads; `members` are the nodes
    that the kernel computes itself.
    """

    def __init__(self, root: UOp, target: Location, locate: Locate) -> None:
        self.root = root
        self.target = target
        self.locate = locate
        self.value = content(root)
        self.slots: dict[UOp, int] = {target.buffer: 0}
        self.reads: list[Read] = []
        self.outer: Shape = tuple(size for size in shape_of(root) if size != 1)
        self.members = self._find_members()
        self.inner: Shape = self._reduced_axes()
        self.first_axes: dict[UOp, int] = {}
        self.folded = self._place_one_hots()
        self._zero: dict[UOp, ConstArg | None] = {}

    def build(self) -> UOp:
        """The SINK of the kernel. Raises `TooLarge` where too much would be computed twice."""
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
        """The BUFFER nodes by slot."""
        return list(self.slots)

    def count_buffers(self) -> int:
        """How many buffers the kernel takes, before it is built."""
        found = {self.target.buffer}
        for node in self.members:
            for source in node.src:
                location = self.locate(source) if self._is_leaf(source) else None
                if location is not None:
                    found.add(location.buffer)
        return len(found)

    def _find_members(self) -> list[UOp]:
        """The nodes that this kernel computes itself, users before sources."""
        found: list[UOp] = []
        seen: set[UOp] = set()
        stack = [self.value]
        while stack:
            node = stack.pop()
            if node in seen or self._is_leaf(node):
                continue
            seen.add(node)
            found.append(node)
            stack.extend(reversed(node.src))
        return found

    def _reduced_axes(self) -> Shape:
        found: Shape | None = None
        for node in self.members:
            if node.op is not Ops.REDUCE or is_one_hot_reduce(node):
                continue
            axes = reduce_axes(node)
            if found not in (None, axes):
                raise InternalError(f"kernel: reduces over {found} and {axes} share one kernel")
            found = axes
        return found or ()

    def _place_one_hots(self) -> int:
        """Finds the first axis of each REDUCE that chooses; gives the number of all such axes."""
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
        """Raises `TooLarge` if some value is computed at several places of the same kernel."""
        counts: dict[UOp, int] = {}
        for node, _ in keys:
            if node.op in ALU and node is not self.value and not self._is_leaf(node):
                counts[node] = counts.get(node, 0) + 1
        repeated = [node for node, count in counts.items() if count > 1]
        if repeated:
            # In the middle, so that neither the rest nor the stored part stays too large.
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
        """The axes of the kernel that a REDUCE goes over."""
        first = self.first_axes.get(node, len(self.outer))
        return tuple(range(first, first + len(reduce_axes(node))))

    def _inside(self, node: UOp, tracker: ShapeTracker) -> ShapeTracker:
        """What a REDUCE at `tracker` reads of its source."""
        axes = self._axes_of(node)
        order = [axis for axis in range(len(tracker.shape)) if axis not in axes] + list(axes)
        inside = reduced_tracker(node, tracker.permute(order), reduce_axes(node))
        return inside.permute(sorted(range(len(order)), key=order.__getitem__))

    # --- padding --------------------------------------------------------------------------------

    def _zero_outside(self, node: UOp, tracker: ShapeTracker, value: UOp) -> UOp:
        """`value` with zeros outside, which loads give by themselves if the value keeps zero."""
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
        """What `root` is where all its loads give 0; None where that is not known."""

        def is_known(node: UOp) -> bool:
            kept = node in self._zero or node.op in (Ops.PAD, Ops.CONST, Ops.IOTA)
            return kept or self._is_leaf(node)

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


def _sources_but(is_leaf: Callable[[UOp], bool], node: UOp) -> tuple[UOp, ...]:
    """The sources of `node`; none of a leaf."""
    return () if is_leaf(node) else node.src


def movement_tracker(node: UOp) -> ShapeTracker:
    """How the elements of a movement node lie in its source, row-major."""
    return apply_movement(ShapeTracker.from_shape(shape_of(node.src[0])), node.op, node.arg)


def reduced_tracker(node: UOp, tracker: ShapeTracker, inner: Shape) -> ShapeTracker:
    """What a REDUCE at `tracker`, of shape T + (1, ...), reads of its source, of shape T + R.

    The axes that are reduced go last; then every step of `tracker` moves by whole blocks of R.
    """
    source = shape_of(node.src[0])
    axes = reduced_axes(node)
    order = [axis for axis in range(len(source)) if axis not in axes] + list(axes)
    kept = tuple(source[axis] for axis in order[: len(source) - len(axes)])
    base = ShapeTracker.from_shape(source).permute(order).reshape((*kept, *inner))
    last = len(tracker.views) - 1
    views = [
        _in_blocks(view, inner, len(inner) if number == last else 0)
        for number, view in enumerate(tracker.views)
    ]
    return ShapeTracker((*base.views, *views)).simplify()


def _in_blocks(view: View, inner: Shape, dropped: int) -> View:
    """`view` over blocks of shape `inner` in place of elements; `dropped` last axes make room."""
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
