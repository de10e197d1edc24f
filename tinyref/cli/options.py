"""What several commands ask of their options."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import typer

from tinyref.errors import UserError

MAX_JOBS = 1024


def path(value: str | Path) -> Path:
    """A path of a file or folder; an empty text, as of an unset variable, is none."""
    if not str(value):
        raise typer.BadParameter("the path is empty: accepted is that of a file or a folder")
    return Path(value)


def check_finite(**options: float | None) -> None:
    """Raises `UserError` for infinite seconds, and for NaN, which a range admits."""
    for option, value in options.items():
        if value is not None and not math.isfinite(value):
            raise UserError(f"{option}: expected a number of seconds, got {value}")


def say_bounded(asked: int, workers: int) -> None:
    """Says on standard error that fewer workers run than were asked for."""
    if workers < asked:
        print(f"tinyref: {workers} workers instead of {asked}: memory is short", file=sys.stderr)


def device_name(name: str | None) -> str:
    """The canonical name of a device, the default one if empty; its package is not imported here.

    Raises `UserError` for one that nothing declares.
    """
    from tinyref import config
    from tinyref.device import Device
    from tinyref.probe import probe

    name = name or config.text("DEVICE")
    if not Device.asks_package(name):
        return Device.canonical(name)
    (found,) = probe([name])
    if found.is_misnamed:
        raise UserError(found.reason)
    return found.name


def check_gives_values(device: str) -> None:
    """Raises `UserError` for a device of which there is nothing to measure: it computes nothing.

    And for a name that no backend has. What else does not open passes: it is reported later.
    """
    from tinyref.capabilities import reason_without_values
    from tinyref.probe import probe

    (found,) = probe([device])
    if found.is_misnamed:
        raise UserError(found.reason)
    declared = found.capabilities
    if declared is None:
        return
    if reason := reason_without_values(declared["ops"], declared["keeps_values"]):
        raise UserError(f"device: {device} {reason}: this command looks at what is computed")


def opening_device(name: str | None) -> str:
    """The canonical name of a device that this process may open, the default one if empty.

    A vendor's has been opened before in another process, which it may end, hang or confuse. Raises
    `UserError` where no backend has the name, `DeviceError` where the device does not open.
    """
    from tinyref.device import Device
    from tinyref.errors import DeviceError
    from tinyref.probe import probe

    found = device_name(name)
    if Device.is_ours(found):
        return found
    (probed,) = probe([found])
    if probed.is_misnamed:
        raise UserError(probed.reason)
    if not probed.works:
        raise DeviceError(found, f"does not open: {probed.reason}")
    return found
