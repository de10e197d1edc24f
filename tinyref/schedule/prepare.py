"""The first pass: a tensor graph rewritten into the form that the rest of scheduling reads.

DETACH disappears, bound variables lose their values (which `bindings` collects), reduces take the
form that computes best (see `reduces`), and what a COPY copies gets memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tinyref.algebra.sizes import is_certain
from tinyref.algebra.symbolic import highest, lift, lower, normalise, product
from tinyref.device import Device
from tinyref.lazy import graph
from tinyref.lazy.buffers import assigned_buffer, shown_buffer
from tinyref.lazy.names import keep_name
from tinyref.lazy.node_builder import build_node
from tinyref.lazy.shape import device_of, shape_of
from tinyref.schedule.reduces import simplify_reduce
from tinyref.schedule.variables import Variables
from tinyref.uops.node import UOp, rebuild, sint, substitute, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import (
    BoundsArg,
    CopyArg,
    Payload,
    ShapeArg,
)


class Prepared:
    """The rewritten graph: `new` maps each node of the original to its successor."""

    def __init__(self) -> None:
        self.new: dict[UOp, UOp] = {}
        self.variables = Variables()
        self._users: Counter[UOp] = Counter()

    def add(self, roots: Sequence[UOp]) -> None:
        """Rewrites everything that `roots` need: give them together, as each call walks all.

        What was rewritten before is forgotten where these graphs allow a variable fewer values.
        """
        order = toposort(roots)
        if self.variables.add(order):
            self.new.clear()
        self._users = Counter(roots)
        for node in order:
            self._users.update(dict.fromkeys(node.src, 1))
        for root in roots:
            rebuild(root, self._change, self.new)

    def _change(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        new = self._rewrite(node, src)
        keep_name(node, new)
        return new

    def _rewrite(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op is Ops.BIND:
            return self.variables.number(node)
        if node.op is Ops.DETACH:
            return src[0]
        if node.op is Ops.COPY:
            return _copy(node, src[0])
        stacked = node.op is Ops.REDUCE and self._is_stacked(node)
        argument = self._unbound_payload(node.arg)
        if node.op is Ops.RESHAPE and not is_certain(node) and isinstance(argument, ShapeArg):
            return _reshape_symbolic(src[0], argument.shape)
        if src != node.src or argument != node.arg:
            node = _rebuild(node, src, argument)
        if node.op is Ops.REDUCE:
            return simplify_reduce(node, stacked=stacked)
        return _copy_own_elements(node) if node.op is Ops.ASSIGN else node

    def _unbound_payload(self, argument: Payload) -> Payload:
        size = self.variables.size
        if isinstance(argument, ShapeArg):
            return ShapeArg(tuple(map(size, argument.shape)))
        if isinstance(argument, BoundsArg):
            return BoundsArg(tuple((size(a), size(b)) for a, b in argument.bounds))
        return argument

    def _is_stacked(self, node: UOp) -> bool:
        """Whether a REDUCE is all that reads another one, but for movement in between."""
        below = node.src[0]
        while self._users[below] == 1 and (below.op in MOVEMENT or below.op is Ops.DETACH):
            below = below.src[0]
        return below.op is Ops.REDUCE and self._users[below] == 1


def _copy_own_elements(assign: UOp) -> UOp:
    """Return `assign` with its value in memory of its own, if that shows the memory written to."""
    target, value = assign.src
    memory = value if value.op is Ops.BUFFER else shown_buffer(value)
    if memory is not assigned_buffer(assign) or peel(value) is peel(target):
        return assign
    return assign.replace(src=(target, UOp(Ops.CONTIGUOUS, value.dtype, (value,))))


def _reshape_symbolic(node: UOp, shape: Sequence[sint]) -> UOp:
    """`node` in a shape of as many elements now, though not for all values of the variables."""
    have, want = lift(product(shape_of(node))), lift(product(shape))
    room = max(highest(have), highest(want))
    flat = graph.reshape(node, (lower(have),))
    flat = graph.pad(flat, ((0, lower(room - have)),))
    return graph.reshape(graph.shrink(flat, ((0, lower(want)),)), shape)


def unbound(size: sint) -> sint:
    """`size` with each bound variable in it replaced by the variable."""
    if isinstance(size, int):
        return size
    bound = {part: part.src[0] for part in size.toposort() if part.op is Ops.BIND}
    return normalise(substitute(size, bound))


def _copy(node: UOp, source: UOp) -> UOp:
    """COPY moves whole buffers, so a computed source or a part of a buffer is stored first."""
    if not isinstance(node.arg, CopyArg):
        return source
    if device_of(source) is None and Device.runs_kernels(node.arg.device):
        return source
    base = peel(source)
    if base.op not in (Ops.BUFFER, Ops.COPY, Ops.CONTIGUOUS):
        base = UOp(Ops.CONTIGUOUS, base.dtype, (base,))
    moved = UOp(Ops.COPY, base.dtype, (base,), node.arg)
    return graph.reshape(moved, shape_of(source))


def peel(node: UOp) -> UOp:
    """The node under reshapes: its elements are the same, in the same order."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node


def _rebuild(node: UOp, src: tuple[UOp, ...], argument: Payload) -> UOp:
    """`node` with other sources, through its builder, so that what became a no-op goes.

    A CONTIGUOUS stays: it may have been made to read memory before that is written.
    """
    if node.op is Ops.CONTIGUOUS:
        return node.replace(src=src)
    found = build_node(node.op, argument, node.dtype, src)
    return node.replace(src=src, arg=argument) if found is None else found
