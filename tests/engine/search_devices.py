"""Devices that fail on some candidates of a search: they crash, hang or refuse."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import replace

from tinyref.device import Capabilities
from tinyref.errors import DeviceError
from tinyref.runtimes.python import InterpretedKernel, TextBackend


class FragileBackend(TextBackend):
    """Crashes on vectors of 2 lanes, hangs on those of 4, refuses those of 8."""

    @functools.cached_property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, has_groups=False, shared_bytes=0, matrix_tiles=())

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        if b"float32x2" in binary:
            os.abort()
        if b"float32x4" in binary:
            time.sleep(1000)
        if b"float32x8" in binary:
            raise DeviceError(self.name, "no vectors of 8 lanes today")
        return super().load(entry, binary)
