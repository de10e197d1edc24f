"""Guarded memory: the buffers of a case in one allocation, with red zones and poison around them.

What a kernel may not touch is filled with a pattern and must hold it afterwards; what it writes
without reading it holds the pattern before, so that no result is right because of what was there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tinyref.algebra.shapes import positions_of
from tinyref.device import Buffer
from tinyref.dtype import from_numpy_dtype
from tinyref.runtimes.host.memory import HostAllocator
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.shape_tracker import tracker_of

Array = npt.NDArray[np.generic]
Bytes = npt.NDArray[np.uint8]

# Neither zero nor all ones, as bytes, integers and floats of any width; each is the other's
# complement, so that no result agrees with both by luck.
PATTERNS = (0x5A, 0xA5)
# Buffers start at multiples of this, or of what the device asks for, and have at least so many
# bytes before and after them.
ZONE = 256


@dataclass(frozen=True)
class WrittenElements:
    """What a kernel AST writes, as its views say.

    masks: by written slot, which elements are written, or None for all. poisoned: the written
    slots that are never read, so that they may hold anything before; a slot that is written at
    computed places is none of them. is_scattered: whether there is such a slot.
    """

    masks: Mapping[int, npt.NDArray[np.bool_] | None]
    poisoned: frozenset[int]
    is_scattered: bool = False

    @classmethod
    def of(cls, ast: UOp, buffers: Sequence[Array], bindings: Mapping[str, int]) -> WrittenElements:
        """The outputs of the kernel `ast` on these buffers."""
        masks: dict[int, npt.NDArray[np.bool_] | None] = {}
        kept = set()
        is_scattered = False
        for node in ast.toposort():
            if node.op is Ops.LOAD:
                kept.add(slot_of(node.src[0]))
            if node.op is not Ops.STORE:
                continue
            view = node.src[0]
            slot = slot_of(view)
            if positions_of(view):
                kept.add(slot)
                masks[slot] = None
                is_scattered = True
                continue
            mask = _written_mask(view, buffers[slot].size, bindings)
            before = masks.get(slot, mask)
            masks[slot] = None if mask is None or before is None else mask | before
        return cls(masks, frozenset(masks) - kept, is_scattered)


def _written_mask(
    view: UOp, size: int, bindings: Mapping[str, int]
) -> npt.NDArray[np.bool_] | None:
    """Which of `size` elements a STORE through `view` writes; None for all."""
    mask = np.zeros(size, np.bool_)
    if isinstance(view.arg, ViewArg):
        positions, valid = tracker_of(view).numpy_indices(bindings)
        mask[positions[valid]] = True
    return None if mask.all() else mask


class Guarded:
    """The buffers of one launch in one piece of memory, red zones and poison filled by `pattern`.

    Every other buffer starts one element further, or `alignment` bytes where those are more, and
    with `shifted` those between them: buffers may start at any element that is so aligned. The
    memory is of the host; `on_device` gives the same on a device.
    """

    def __init__(
        self,
        contents: Sequence[Array],
        outputs: WrittenElements,
        pattern: int = PATTERNS[0],
        shifted: bool = False,
        alignment: int = 1,
    ) -> None:
        self.contents = contents
        self.outputs = outputs
        self.pattern = pattern
        self.starts: list[int] = []
        end = 0
        zone = max(ZONE, alignment)
        for slot, content in enumerate(contents):
            further = max(content.itemsize, alignment) if _is_unaligned(slot, shifted) else 0
            start = -(-(end + ZONE) // zone) * zone + further
            self.starts.append(start)
            end = start + content.nbytes
        self.nbytes = -(-(end + ZONE) // ZONE) * ZONE
        self.memory = _allocator.allocate(self.nbytes)
        self._base: Buffer | None = None
        self.fill(contents)

    def fill(self, contents: Sequence[Array]) -> None:
        """Begin again with other contents, in the same memory."""
        self.memory[:] = self.pattern
        for slot, content in enumerate(contents):
            if slot not in self.outputs.poisoned:
                self.part(slot)[:] = np.ascontiguousarray(content).view(np.uint8)
        self._before = self.memory.copy()

    def part(self, slot: int) -> Bytes:
        """The bytes of one buffer, in place."""
        start = self.starts[slot]
        return self.memory[start : start + self.contents[slot].nbytes]

    def arrays(self) -> list[Array]:
        """The buffers by slot, in place: what the interpreter takes."""
        return [self.part(slot).view(content.dtype) for slot, content in enumerate(self.contents)]

    def on_device(self, device: str) -> list[Buffer]:
        """The buffers by slot in memory of `device`, as they are here now."""
        self._base = self._base or Buffer(device, self.nbytes, _BYTE).allocate()
        self._base.copy_in(self.memory.data)
        return [
            self._base.view(start, content.size, from_numpy_dtype(content.dtype))
            for start, content in zip(self.starts, self.contents, strict=True)
        ]

    def fetch(self) -> None:
        """Brings what the device holds now to the host."""
        if self._base is not None:
            self.memory[:] = np.frombuffer(self._base.copy_out(), np.uint8)

    def problem(self) -> str:
        """What changed that had to stay, in words; nothing where all is as it was."""
        changed = self.memory != self._before
        for slot in self.outputs.masks:
            start = self.starts[slot]
            changed[start : start + self.contents[slot].nbytes] = False
        if not changed.any():
            return ""
        at = int(np.flatnonzero(changed)[0])
        return f"{self._place(at)} changed from {self._before[at]:#04x} to {self.memory[at]:#04x}"

    def _place(self, at: int) -> str:
        for slot, (start, content) in enumerate(zip(self.starts, self.contents, strict=True)):
            if at < start:
                return f"the byte {start - at} before b{slot}"
            if at < start + content.nbytes:
                return f"element {(at - start) // content.itemsize} of input b{slot}"
        end = self.starts[-1] + self.contents[-1].nbytes if self.starts else 0
        return f"the byte {at - end + 1} after b{len(self.starts) - 1}"

    def results(self) -> dict[int, Array]:
        """What each written slot holds: new arrays; elements that are not written are as given."""
        found = {}
        for slot, mask in self.outputs.masks.items():
            values = self.part(slot).view(self.contents[slot].dtype).copy()
            if mask is not None and slot in self.outputs.poisoned:
                values[~mask] = self.contents[slot][~mask]
            found[slot] = values
        return found

    def stray(self) -> str:
        """An element of a poisoned slot that changed though nothing is to be written there."""
        for slot in self.outputs.poisoned:
            mask = self.outputs.masks[slot]
            if mask is None:
                continue
            size = self.contents[slot].itemsize
            left = self.part(slot).reshape(-1, size)[~mask]
            changed = (left != self.pattern).any(axis=1)
            if changed.any():
                element = int(np.flatnonzero(~mask)[np.flatnonzero(changed)[0]])
                return f"output b{slot}: element {element} is written, which must stay as it is"
        return ""


def _is_unaligned(slot: int, shifted: bool) -> bool:
    return shifted == (slot % 2 == 0)


_BYTE = from_numpy_dtype(np.dtype(np.uint8))
_allocator = HostAllocator("the judge")
