"""Join kernels that read each other's results at the same positions into one with several stores.

A reduce and the operations after it often have two outputs: a mean and a variance, the moments and
the weight of an optimiser. The second kernel has the axes of the first. At each position, it needs
the element that the first computes there, so it uses this value without a load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.algebra.shapes import kernel_shape, reduced_axes
from tinyref.algebra.symbolic import product
from tinyref.schedule.kernel_ast import Read, Shape
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg, SlotArg, ViewArg
from tinyref.views.shape_tracker import ShapeTracker, tracker_of

# Each join visits both kernels, so a kernel that is joined repeatedly must stay short.
MAX_JOINED = 500
# The largest row that is still in a small cache when it is read again.
MAX_ROW = 1 << 14


@dataclass(frozen=True)
class KernelDraft:
    """A kernel that may still be joined with others.

    root: its SINK.
    buffers: BUFFER nodes by slot, the buffer of each store first.
    reads: its loads.
    outer, inner: the axes T and R of `kernel_ast`.
    names, lines: the user's functions that it computes, and the lines of their calls.
    folded: the number of its axes F.
    is_alone: it must not be joined with others.
    has_product: it computes a large product of matrices; no other such kernel is joined with it.
    """

    root: UOp
    buffers: tuple[UOp, ...]
    reads: tuple[Read, ...]
    outer: Shape
    inner: Shape
    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    folded: int = 0
    is_alone: bool = False
    has_product: bool = False

    @property
    def written_buffers(self) -> tuple[UOp, ...]:
        """Return the BUFFER nodes that the kernel writes."""
        return self.buffers[: len(self.root.src)]


def join(first: KernelDraft, second: KernelDraft, dropped: set[UOp]) -> KernelDraft | None:
    """Return one kernel that does the work of `first`, then of `second`; None if impossible.

    Results of `first` that are in `dropped` are not stored.
    """
    if first.outer != second.outer or set(first.written_buffers) & set(second.written_buffers):
        return None
    if first.inner and second.inner and first.inner != second.inner:
        return None
    joined = _joined(first, second, dropped, first.inner or second.inner)
    return joined if joined is not None and _writes_in_place(joined) else None


def join_rows(first: KernelDraft, second: KernelDraft, dropped: set[UOp]) -> KernelDraft | None:
    """Return one kernel that reduces each row and then computes along it; None if impossible.

    So a softmax computes the maximum and the sum of a row, and divides while the row is in the
    cache. The last axes of `second` are the axes that `first` reduces. Only `second` reads the
    results of `first`, which do not change along these axes. This is faster if kernels run as
    loops, the last axis innermost: a value that does not change along it is computed once.
    """
    row = product(first.inner)
    if not first.inner or not isinstance(row, int) or row > MAX_ROW:
        return None
    if second.inner or first.folded or second.folded or second.outer != first.outer + first.inner:
        return None
    read = {buffer for draft in (first, second) for buffer in _buffers_read(draft)}
    # A row that is overwritten in place must not be reduced again.
    if not dropped.issuperset(first.written_buffers) or read & set(second.written_buffers):
        return None
    return _joined(first, second, dropped, ())


def _joined(
    first: KernelDraft, second: KernelDraft, dropped: set[UOp], inner: Shape
) -> KernelDraft | None:
    """Return the stores of both in one kernel, with axes R that are `inner`.

    Return None if it is too long, or if a value that replaces a load has other elements.
    """
    if len(first.root.toposort()) + len(second.root.toposort()) > MAX_JOINED:
        return None
    written = [buffer for buffer in first.written_buffers if buffer not in dropped]
    folded = max(first.folded, second.folded)
    joiner = _Joiner([*written, *second.written_buffers], dropped, len(inner), folded)
    results = dict(zip(first.written_buffers, joiner.rewrite(first, {}), strict=True))
    stores = joiner.rewrite(second, results)
    if joiner.is_impossible:
        return None
    root = build.sink(*(results[buffer] for buffer in written), *stores)
    reads = (read for read in second.reads if read.location.buffer not in results)
    names = tuple(dict.fromkeys((*first.names, *second.names)))
    lines = tuple(dict.fromkeys((*first.lines, *second.lines)))
    has_product = first.has_product or second.has_product
    about = (second.outer, inner, names, lines, folded)
    read = (*first.reads, *reads)
    joined = KernelDraft(root, tuple(joiner.buffers), read, *about, has_product=has_product)
    return joined if _reduces_in_full(joined) else None


class _Joiner:
    """A rewriter of kernels to one numbering of slots and one rank."""

    def __init__(self, written: list[UOp], dropped: set[UOp], inner_rank: int, folded: int) -> None:
        self.buffers = written
        self.dropped = dropped
        self.inner_rank = inner_rank
        self.folded = folded
        self.is_impossible = False

    def rewrite(self, draft: KernelDraft, results: Mapping[UOp, UOp]) -> tuple[UOp, ...]:
        """Return the stores of `draft`; the values of the stores `results` replace loads."""
        added = 0 if draft.inner else self.inner_rank
        extra = Extra(len(draft.outer), added, self.folded - draft.folded)

        def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
            buffer = _buffer_of_load(node, draft)
            if buffer is not None and buffer in results:
                return self._value(node, results[buffer], extra)
            match node.arg:
                case SlotArg(slot):
                    return self._define(node, draft.buffers[slot])
                case ViewArg():
                    return node.replace(src=src, arg=ViewArg(extra.extend_view(tracker_of(node))))
                case ReduceArg(op, axes):
                    return node.replace(src=src, arg=ReduceArg(op, extra.renumber_axes(axes)))
            return None

        return rebuild(draft.root, change).src

    def _define(self, node: UOp, buffer: UOp) -> UOp:
        if buffer in self.dropped:
            # Only the removed store, and the loads that its value replaces, name this buffer.
            return node
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        return node.replace(arg=SlotArg(self.buffers.index(buffer)))

    def _value(self, load: UOp, store: UOp, extra: Extra) -> UOp:
        loaded = extra.extend_view(tracker_of(load.src[0]))
        stored = tracker_of(store.src[0])
        if loaded is not stored and loaded is not stored.expand(loaded.shape):
            self.is_impossible = True
        return store.src[1]


@dataclass(frozen=True)
class Extra:
    """Axes of size 1 that a kernel gets: `added` after the first `rank`, `last` at the end."""

    rank: int
    added: int
    last: int

    def extend_view(self, tracker: ShapeTracker) -> ShapeTracker:
        """Return a view with these axes."""
        shape = tracker.shape
        ones, more = (1,) * self.added, (1,) * self.last
        return tracker.reshape((*shape[: self.rank], *ones, *shape[self.rank :], *more))

    def renumber_axes(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the new numbers of axes."""
        return tuple(axis if axis < self.rank else axis + self.added for axis in axes)


def _buffer_of_load(node: UOp, draft: KernelDraft) -> UOp | None:
    return draft.buffers[slot_of(node)] if node.op is Ops.LOAD else None


def _buffers_read(draft: KernelDraft) -> set[UOp]:
    return {read.location.buffer for read in draft.reads}


def _reduces_in_full(draft: KernelDraft) -> bool:
    """Return True if every reduce still loops: a value that replaced a load may lack the axes R.

    If the value is a constant, it has no shape at all.
    """
    for node in draft.root.toposort():
        if node.op is Ops.REDUCE:
            shape = kernel_shape(node.src[0])
            if not shape or any(shape[axis] == 1 for axis in reduced_axes(node)):
                return False
    return True


def _writes_in_place(draft: KernelDraft) -> bool:
    """Return True if elements that are loaded and stored are loaded at the same positions."""
    stored = dict(
        zip(draft.written_buffers, (tracker_of(s.src[0]) for s in draft.root.src), strict=True)
    )
    for node in draft.root.toposort():
        buffer = _buffer_of_load(node, draft)
        if buffer in stored and tracker_of(node.src[0]) is not stored[buffer]:
            return False
    return True
