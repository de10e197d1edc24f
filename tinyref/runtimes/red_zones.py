"""Buffers between red zones, which reveal that a kernel writes where it must not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.runtimes.kernel import compile_program
from tinyref.uops.program import Program

# Least bytes before and after each buffer that no kernel may touch; an aligned view needs more.
GUARD = 256
# Content of outputs before a launch. A result that equals one is computed again over the other.
POISONS = (0xA5, 0x5A)
_GUARD_BYTE = 0xC3

Array = npt.NDArray[Any]


class MemoryDamageError(TinyrefError):
    """A kernel wrote where it must not: a red zone, or a buffer that it only reads."""


class GuardedBuffer:
    """A buffer of `size` elements of device memory between two red zones.

    unaligned: the elements begin one element after a multiple of every access's alignment. A
    device that declares an alignment of views gets the next offset that it allows.
    """

    def __init__(self, device: str, dtype: DType, size: int, unaligned: bool = False) -> None:
        self.dtype = dtype
        self.size = size
        self.nbytes = size * dtype.itemsize
        alignment = Device[device].capabilities.view_alignment
        self.guard = max(GUARD, alignment)
        start = self.guard + (max(dtype.itemsize, alignment) if unaligned else 0)
        self.middle = slice(start, start + self.nbytes)
        whole = start + self.nbytes + self.guard
        self.base = Buffer(device, whole + -whole % 16, dtypes.uint8)
        self.view = self.base.view(start, size, dtype)
        self._written = np.full(self.base.nbytes, _GUARD_BYTE, dtype=np.uint8)

    def fill(self, data: Array | int) -> None:
        """Write data bytes (or one byte repeated) and fresh red zones to the device."""
        middle = self._written[self.middle]
        middle[:] = data if isinstance(data, int) else data.reshape(-1).view(np.uint8)
        self.base.copy_in(self._written.data)

    def read(self) -> Array:
        """Return the elements. Raises `MemoryDamageError` if a red zone has changed."""
        data = np.frombuffer(self.base.copy_out(), dtype=np.uint8)
        self._check_zones(data)
        return data[self.middle].view(numpy_dtype(self.dtype))

    def check_unchanged(self) -> None:
        """Raise `MemoryDamageError` if the data or a red zone is not what was written."""
        data = np.frombuffer(self.base.copy_out(), dtype=np.uint8)
        self._check_zones(data)
        self._check(data, self.middle, "in")

    def _check_zones(self, data: Array) -> None:
        self._check(data, slice(0, self.middle.start), "before")
        self._check(data, slice(self.middle.stop, None), "after")

    def _check(self, data: Array, part: slice, where: str) -> None:
        if np.array_equal(data[part], self._written[part]):
            return
        changed = np.flatnonzero(data[part] != self._written[part])
        is_input = where == "in"
        what = "an input was overwritten" if is_input else "a red zone was written"
        # Outside of the buffer, the byte next to it is number 1.
        last_before = self.middle.start - changed[-1]
        number = {"before": last_before, "in": changed[0], "after": changed[0] + 1}
        error = MemoryDamageError(
            f"{what}: byte {number[where]} {where} the buffer of {self.size} {self.dtype.name}"
        )
        error.fault = "input-written" if is_input else "red-zone"
        raise error


class RedZoneKernel:
    """A program loaded on a device with a buffer for each parameter, for repeated launches.

    unaligned: the slots of buffers whose start is not aligned for vectors.
    """

    def __init__(self, device: str, program: Program, unaligned: Collection[int] = ()) -> None:
        self.parameters = program.parameters
        self.kernel = compile_program(device, program)
        self.buffers = [
            GuardedBuffer(device, item.dtype, item.size, item.slot in unaligned)
            for item in self.parameters
        ]

    def launch(
        self,
        inputs: Sequence[Array | None],
        bindings: Mapping[str, int],
        poison: int = POISONS[0],
    ) -> list[Array]:
        """Launch once and return the buffers by parameter; outputs without input are poisoned.

        Raises `MemoryDamageError` for a write outside of the outputs, else as the device raises.
        """
        for parameter, buffer in zip(self.parameters, self.buffers, strict=True):
            data = inputs[parameter.slot]
            buffer.fill(poison if data is None else data.view(numpy_dtype(parameter.dtype)))
        self.kernel([buffer.view for buffer in self.buffers], bindings)
        results = []
        # In the order of the slots: a device may wait for its launch only at the second read.
        for parameter, buffer in zip(self.parameters, self.buffers, strict=True):
            if not parameter.is_written:
                buffer.check_unchanged()
            results.append(buffer.read())
        return results
