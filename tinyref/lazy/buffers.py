"""Which memory stands behind a BUFFER node: freed when the node dies."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn
from weakref import WeakKeyDictionary, WeakSet

from tinyref.device import Buffer, Device
from tinyref.dtype import DType
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.uops.node import UOp, node_fact, substitute, toposort
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import BufferArg

_memory: WeakKeyDictionary[UOp, Buffer] = WeakKeyDictionary()
_lost: WeakSet[UOp] = WeakSet()
_numbers = itertools.count()


def new_buffer_node(device: str, size: int, dtype: DType) -> UOp:
    """A fresh BUFFER of `size` elements on `device`; nothing is allocated yet.

    Raises `UserError` for a negative size or an unknown device.
    """
    if size < 0:
        raise UserError(f"buffer: size {size} is negative: accepted are 0 and more elements")
    argument = BufferArg(Device.canonical(device), size, next(_numbers))
    return UOp(Ops.BUFFER, dtype, (), argument)


def new_number() -> int:
    """A number that no BUFFER has."""
    return next(_numbers)


def new_buffer_like(argument: BufferArg, dtype: DType) -> tuple[UOp, Buffer]:
    """A fresh BUFFER like another one, and its memory, not yet allocated."""
    fresh = BufferArg(argument.device, argument.size, next(_numbers))
    node = UOp(Ops.BUFFER, dtype, (), fresh)
    memory = _memory[node] = Buffer(fresh.device, fresh.size, dtype)
    return node, memory


def buffer_of(node: UOp) -> Buffer:
    """The memory of a BUFFER node: always the same object while the node lives.

    It is allocated when its handle is first asked for. Raises `UserError` for any other node.
    """
    if node.op is not Ops.BUFFER or not isinstance(node.arg, BufferArg):
        raise UserTypeError(
            f"buffer_of: got {node.op.name}, accepted is a BUFFER: realise it first"
        )
    found = _memory.get(node)
    if found is None:
        # Another thread may be the first.
        fresh = Buffer(node.arg.device, node.arg.size, node.dtype)
        found = _memory.setdefault(node, fresh)
    return found


def set_buffer(node: UOp, memory: Buffer) -> None:
    """Puts existing memory behind a BUFFER node. Raises `UserError` where the two do not match."""
    argument = node.arg
    if node.op is not Ops.BUFFER or not isinstance(argument, BufferArg):
        raise UserTypeError(f"set_buffer: got {node.op.name}, accepted is a BUFFER")
    have = (memory.device, memory.size, memory.dtype.name)
    want = (argument.device, argument.size, node.dtype.name)
    if have != want:
        raise UserError(f"set_buffer: memory is {have}, the node is {want}: they must be equal")
    _memory[node] = memory


@dataclass(eq=False)
class LostBuffer(Buffer):
    """Memory whose contents nobody has any more: it is refused to whoever asks for it.

    why: what became of the elements, in words that go on from them.
    """

    why: str = ""

    def allocate(self) -> NoReturn:
        """Raises `UserStateError`."""
        raise UserStateError(
            f"tensor: {self.size} elements of {self.dtype.name} on {self.device} are lost: they "
            f"{self.why}: give the tensor new ones with assign()"
        )


def lost_buffer_like(node: UOp, why: str) -> UOp:
    """A fresh BUFFER that stands for the contents of another, which are lost: see `LostBuffer`."""
    assert isinstance(node.arg, BufferArg), "a BUFFER has a size"
    lost, memory = new_buffer_like(node.arg, node.dtype)
    _memory[lost] = LostBuffer(memory.device, memory.size, memory.dtype, why=why)
    _lost.add(lost)
    return lost


def lost_graph_like(root: UOp, why: str) -> UOp:
    """Return a graph like `root` in which the contents of all BUFFERs are lost."""
    buffers = [node for node in toposort([root]) if node.op is Ops.BUFFER]
    return substitute(root, {node: lost_buffer_like(node, why) for node in buffers})


def refuse_lost(roots: Iterable[UOp]) -> None:
    """Raises `UserStateError` for graphs that need contents which are lost."""
    for node in toposort(roots) if _lost else ():
        if node in _lost:
            buffer_of(node).allocate()


def assigned_buffer(node: UOp) -> UOp:
    """The BUFFER that an ASSIGN writes, or that a view of one shows."""
    found = node if node.op is Ops.BUFFER else shown_buffer(node)
    if found is None:
        raise TypeError(f"{node.op.name} shows no buffer")
    return found


@node_fact
def shown_buffer(node: UOp) -> UOp | None:
    """The BUFFER below views and ASSIGNs; None for a BUFFER, which would keep itself alive."""
    if node.op is not Ops.ASSIGN and node.op not in MOVEMENT:
        return None
    below = node.src[0]
    return below if below.op is Ops.BUFFER else shown_buffer(below)


def is_lost(node: UOp) -> bool:
    """Whether a node cannot be computed, as it needs contents that are lost."""
    return node in lost_below([node])


def lost_below(roots: Iterable[UOp]) -> set[UOp]:
    """Those nodes of graphs that cannot be computed, as they need contents that are lost."""
    found: set[UOp] = set()
    # There are hardly ever any.
    for node in toposort(roots) if _lost else ():
        if node in _lost or not found.isdisjoint(node.src):
            found.add(node)
    return found


def has_memory(node: UOp) -> bool:
    """Whether a BUFFER node has been given memory: whether `buffer_of` was asked for it before."""
    return node in _memory


def live_buffers() -> Sequence[UOp]:
    """The BUFFER nodes that have memory now, oldest first."""
    return sorted(_memory, key=_number)


def _number(node: UOp) -> int:
    return node.arg.number if isinstance(node.arg, BufferArg) else -1
