"""The device of a command on a file, which may not choose what code runs."""

from __future__ import annotations

import shlex
from pathlib import Path

from tinyref.cli.options import device_name
from tinyref.errors import UserError


def device_of(asked: str, named: str, command: str, case: Path) -> str:
    """The canonical name of what was asked for, else of the one that the file names.

    Raises `UserError` where it is unknown, and for one of a file that is not installed.
    """
    return device_name(asked or _installed(named, command, case))


def _installed(named: str, command: str, case: Path) -> str:
    """The installed device that a file names; files come from anywhere, and may not import."""
    from tinyref.device import Device

    head, colon, number = named.partition(":")
    is_numbered = number.isascii() and number.isdigit()
    if not colon or (is_numbered and head.upper() in Device.names()):
        return named
    again = f"tinyref fuzz {command} {shlex.quote(str(case))} --device {shlex.quote(named)}"
    raise UserError(
        f"device: {case} names {named!r}, which is not the name of an installed device: "
        f"a file may not choose what code runs; if you trust it: {again}"
    )
