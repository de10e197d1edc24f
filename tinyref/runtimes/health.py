"""Whether an open device still answers: a driver may lose it while the process goes on."""

from __future__ import annotations

from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import explain_error

_PATTERN = bytes(range(64))


class Health:
    """A device that answers now, or never did; what is lost later is opened anew elsewhere.

    A device that copies wrongly from the beginning is broken, not lost.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._answered = not _problem_of(device)

    def problem_since(self) -> str:
        """Why a copy to the device and back fails that was right before; else empty."""
        return _problem_of(self.device) if self._answered else ""


def _problem_of(device: str) -> str:
    try:
        Device[device].synchronize()
        buffer = Buffer(device, len(_PATTERN), dtypes.uint8).copy_in(memoryview(_PATTERN))
        found = bytes(buffer.copy_out())
    except MemoryError:
        return ""
    except Exception as error:  # a driver may raise anything
        return explain_error(error).partition("\n")[0]
    return "" if found == _PATTERN else "a copy comes back with other bytes"
