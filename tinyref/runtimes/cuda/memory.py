"""Memory of a CUDA device: addresses, parts by their offsets, copies through pinned memory.

A copy from or to memory of the host that is not pinned would wait for the stream first (CUDA Driver
API, "API synchronization behavior"): bytes go through two pinned pieces in turn, so that the
device copies one while the host fills or empties the other.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.runtimes.cuda.driver import Session
from tinyref.runtimes.drivers import check_copy_in, check_copy_out, check_part, check_size

# Bytes of a pinned piece: enough that starting a copy counts little.
STAGE_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """`nbytes` bytes of the device from `address` on."""

    address: int
    nbytes: int


class _Stage:
    """A pinned piece of host memory, and the event after which it is free again."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.address = int(session.call("cannot pin host memory", "cuMemHostAlloc", STAGE_BYTES, 0))
        self.event = session.new_event()
        raw = (ctypes.c_uint8 * STAGE_BYTES).from_address(self.address)
        self.bytes: npt.NDArray[np.uint8] = np.ctypeslib.as_array(raw)

    def wait(self) -> None:
        """Until the device has read or written it."""
        self.session.call("a copy failed", "cuEventSynchronize", self.event)


class CudaAllocator:
    """Memory of one session; sizes and offsets are in bytes, size 0 is fine.

    To allocate and to free takes the driver long: what is freed should be kept.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._stages: list[_Stage] = []
        self._lock = threading.Lock()

    def allocate(self, nbytes: int) -> Memory:
        """Raises `UserError` for a negative size, `DeviceError` where there is not so much."""
        check_size(nbytes)
        what = f"cannot allocate {nbytes} bytes"
        address = self.session.call(what, "cuMemAlloc", max(nbytes, 1))
        return Memory(int(address), nbytes)

    def free(self, handle: Memory) -> None:
        """The driver waits for what is queued first."""
        self.session.release("cuMemFree", handle.address)

    def view(self, handle: Memory, offset: int, nbytes: int) -> Memory:
        """Raises `UserError` when not all of it is inside."""
        check_part(offset, nbytes, handle.nbytes)
        return Memory(handle.address + offset, nbytes)

    def copy_in(self, handle: Memory, source: memoryview) -> None:
        """Raises `UserError` when there are more bytes than fit."""
        check_copy_in(source, handle.nbytes)
        if not source.nbytes:
            return
        data = np.frombuffer(source, np.uint8)
        session = self.session
        with self._lock:
            for number, start in enumerate(range(0, len(data), STAGE_BYTES)):
                stage = self._stage(number)
                stage.wait()
                piece = data[start : start + STAGE_BYTES]
                stage.bytes[: len(piece)] = piece
                place = handle.address + start
                copy = ("cuMemcpyHtoDAsync", place, stage.address, len(piece), session.stream)
                session.call("copy_in", *copy)
                session.record(stage.event)

    def copy_out(self, destination: memoryview, handle: Memory) -> None:
        """Raises `UserError` when it wants more bytes than there are."""
        check_copy_out(destination, handle.nbytes)
        if not destination.nbytes:
            self.session.finish()
            return
        data = np.frombuffer(destination, np.uint8)
        with self._lock:
            starts = range(0, len(data), STAGE_BYTES)
            for number, start in enumerate(starts):
                self._fetch(number, handle.address + start, len(data) - start)
                if number:
                    self._empty(number - 1, data)
            self._empty(len(starts) - 1, data)

    def _fetch(self, number: int, address: int, nbytes: int) -> None:
        """Has the device copy the next bytes to a piece of the host, all of them if they fit.

        What was copied from that piece before comes first in the stream.
        """
        stage, session = self._stage(number), self.session
        copy = ("cuMemcpyDtoHAsync", stage.address, address, min(nbytes, STAGE_BYTES))
        session.call("copy_out", *copy, session.stream)
        session.record(stage.event)

    def _empty(self, number: int, data: npt.NDArray[np.uint8]) -> None:
        """Takes what `_fetch` has fetched as its piece of that number."""
        stage = self._stage(number)
        stage.wait()
        piece = data[number * STAGE_BYTES : (number + 1) * STAGE_BYTES]
        piece[:] = stage.bytes[: len(piece)]

    def _stage(self, number: int) -> _Stage:
        """The pieces in turn; the second one is taken when it is wanted first."""
        place = number % 2
        if place == len(self._stages):
            self._stages.append(_Stage(self.session))
        return self._stages[place]

    def transfer(self, target: Memory, source: Memory, origin: Any) -> None:
        """All of `source`, of the allocator `origin`, into `target`, by the driver.

        Each of the two streams waits for the other: what either device is given later finds it
        done. Where the devices reach each other, the bytes take no way through the host.
        """
        session, other = self.session, origin.session
        if other is session:
            copy = ("cuMemcpyDtoDAsync", target.address, source.address, source.nbytes)
            session.call("transfer", *copy, session.stream)
            return
        written = other.new_event()
        other.record(written)
        session.wait_for(written)
        session.open_peer(other)
        places = (target.address, session.context, source.address, other.context)
        session.call("transfer", "cuMemcpyPeerAsync", *places, source.nbytes, session.stream)
        copied = session.new_event()
        session.record(copied)
        other.wait_for(copied)
        # The driver keeps what a stream still waits for.
        other.release("cuEventDestroy", written)
        session.release("cuEventDestroy", copied)
