"""A driver in a forked process: its contexts and threads are those of the parent."""

from __future__ import annotations

import os

from tinyref.errors import DeviceError


class DriverProcess:
    """Whether this process opened a driver, or was forked off one that had.

    One for each library of drivers, such as "OpenCL", made as its module is imported.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self.is_started = False
        self.is_forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        self.is_forked = self.is_started

    def check(self, device: str) -> None:
        """Raises `DeviceError` of a device where the driver was opened before a fork."""
        if self.is_forked:
            raise DeviceError(
                device,
                f"{self.library} was opened before this process was forked, which no driver "
                "survives: open it in the child alone, or start the child anew (spawn)",
            )
