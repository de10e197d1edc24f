"""Guarded memory: all buffers of a case in one allocation, with red zones and poison.

Memory that a kernel may not touch is filled with a pattern, and must hold it afterwards. A buffer
that is written but not read holds the pattern before, so that no old value can look right.
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

# Byte patterns that are neither zero nor all ones in any type. They are complements, so that no
# result equals both by chance.
PATTERNS = (0x5A, 0xA5)
# Alignment of buffers, unless the device requires a larger one, and the smallest number of bytes
# before and after each.
ZONE = 256


@dataclass(frozen=True)
class WrittenElements:
    """The elements that a kernel AST writes, according to its views."""

    masks: Mapping[int, npt.NDArray[np.bool_] | None]
    """For each written slot the elements that are written; None for all."""
    poisoned: frozenset[int]
    """The written slots that are never read, so that any old contents are allowed."""
    is_scattered: bool = False
    """True if a slot is written at computed positions. Such a slot is not poisoned."""

    @classmethod
    def of(cls, ast: UOp, buffers: Sequence[Array], bindings: Mapping[str, int]) -> WrittenElements:
        """Return the written elements of the kernel `ast` on these buffers."""
        masks: dict[int, npt.NDArray[np.bool_] | None] = {}
        preserved = set()
        is_scattered = False
        for node in ast.toposort():
            if node.op is Ops.LOAD:
                preserved.add(slot_of(node.src[0]))
            if node.op is not Ops.STORE:
                continue
            view = node.src[0]
            slot = slot_of(view)
            if positions_of(view):
                preserved.add(slot)
                masks[slot] = None
                is_scattered = True
                continue
            mask = _written_mask(view, buffers[slot].size, bindings)
            before = masks.get(slot, mask)
            masks[slot] = None if mask is None or before is None else mask | before
        return cls(masks, frozenset(masks) - preserved, is_scattered)


def _written_mask(
    view: UOp, size: int, bindings: Mapping[str, int]
) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the `size` elements that a STORE through `view` writes; None for all."""
    mask = np.zeros(size, np.bool_)
    if isinstance(view.arg, ViewArg):
        positions, valid = tracker_of(view).numpy_indices(bindings)
        mask[positions[valid]] = True
    return None if mask.all() else mask


class GuardedMemory:
    """The buffers of one launch in one piece of host memory, with zones filled by `pattern`.

    Every other buffer starts one element further, or `alignment` bytes if that is more; with
    `shifted` it is the buffers between them. So buffers start at any allowed element. `on_device`
    copies the memory to a device.
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
        """Start again with other contents, in the same memory."""
        self.memory[:] = self.pattern
        for slot, content in enumerate(contents):
            if slot not in self.outputs.poisoned:
                self.part(slot)[:] = np.ascontiguousarray(content).view(np.uint8)
        self._before = self.memory.copy()

    def part(self, slot: int) -> Bytes:
        """Return the bytes of one buffer, in place."""
        start = self.starts[slot]
        return self.memory[start : start + self.contents[slot].nbytes]

    def arrays(self) -> list[Array]:
        """Return the buffers by slot, in place, for the interpreter."""
        return [self.part(slot).view(content.dtype) for slot, content in enumerate(self.contents)]

    def on_device(self, device: str) -> list[Buffer]:
        """Return the buffers by slot in memory of `device`, with the current contents."""
        self._base = self._base or Buffer(device, self.nbytes, _BYTE).allocate()
        self._base.copy_in(self.memory.data)
        return [
            self._base.view(start, content.size, from_numpy_dtype(content.dtype))
            for start, content in zip(self.starts, self.contents, strict=True)
        ]

    def fetch(self) -> None:
        """Copy the memory of the device to the host."""
        if self._base is not None:
            self.memory[:] = np.frombuffer(self._base.copy_out(), np.uint8)

    def problem(self) -> str:
        """Describe the first byte that changed and must not, or return ""."""
        changed = self.memory != self._before
        for slot in self.outputs.masks:
            start = self.starts[slot]
            changed[start : start + self.contents[slot].nbytes] = False
        if not changed.any():
            return ""
        at = int(np.flatnonzero(changed)[0])
        byte = self._describe_byte(at)
        return f"{byte} changed from {self._before[at]:#04x} to {self.memory[at]:#04x}"

    def _describe_byte(self, at: int) -> str:
        for slot, (start, content) in enumerate(zip(self.starts, self.contents, strict=True)):
            if at < start:
                return f"the byte {start - at} before b{slot}"
            if at < start + content.nbytes:
                return f"element {(at - start) // content.itemsize} of input b{slot}"
        end = self.starts[-1] + self.contents[-1].nbytes if self.starts else 0
        return f"the byte {at - end + 1} after b{len(self.starts) - 1}"

    def results(self) -> dict[int, Array]:
        """Return copies of all written slots; elements that are not written are as given."""
        results = {}
        for slot, mask in self.outputs.masks.items():
            values = self.part(slot).view(self.contents[slot].dtype).copy()
            if mask is not None and slot in self.outputs.poisoned:
                values[~mask] = self.contents[slot][~mask]
            results[slot] = values
        return results

    def stray(self) -> str:
        """Describe a changed element of a poisoned slot that no store writes, or return ""."""
        for slot in self.outputs.poisoned:
            mask = self.outputs.masks[slot]
            if mask is None:
                continue
            size = self.contents[slot].itemsize
            rest = self.part(slot).reshape(-1, size)[~mask]
            changed = (rest != self.pattern).any(axis=1)
            if changed.any():
                element = int(np.flatnonzero(~mask)[np.flatnonzero(changed)[0]])
                return f"output b{slot}: element {element} is written, but no store includes it"
        return ""


def _is_unaligned(slot: int, shifted: bool) -> bool:
    return shifted == (slot % 2 == 0)


_BYTE = from_numpy_dtype(np.dtype(np.uint8))
_allocator = HostAllocator("the judge")
