"""The NPY device: arrays of the host that hold data and run nothing."""

from __future__ import annotations

import numpy as np

from tinyref.contract import Availability
from tinyref.runtimes.data.data_only import DataOnlyBackend
from tinyref.runtimes.host.memory import HostAllocator


class NpyBackend(DataOnlyBackend):
    """Host arrays as a device: allocate, copy in, copy out. Every kernel is refused."""

    title = "arrays of the host, no kernels"

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.name = f"NPY:{index}" if index else "NPY"
        self._allocator = HostAllocator(self.name)

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True, f"numpy {np.__version__}")

    @property
    def allocator(self) -> HostAllocator:
        return self._allocator

    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}
