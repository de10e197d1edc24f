"""The device matrix: carries out a row of ci/devices.toml for nox.

Nothing but the standard library is imported here: it runs before anything is installed.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "ci"), str(ROOT / "conformance")]
import packages  # noqa: E402 - found by the line above

from tinyref_conformance import device_table  # noqa: E402 - found by the line above
from tinyref_conformance.device_table import DeviceRow, DeviceTableError  # noqa: E402

__all__ = [
    "DEVICES",
    "DeviceRow",
    "DeviceTableError",
    "conform",
    "expectations",
    "missing",
    "note_unavailable",
    "read",
]

DEVICES = ROOT / "ci" / "devices.toml"
EXPECTATIONS = ROOT / "ci" / "expectations"
# In the report folder of a device or a library that is missing: why.
UNAVAILABLE = "unavailable.txt"


def read(path: Path = DEVICES) -> list[DeviceRow]:
    """The rows of a matrix. Raises `DeviceTableError`."""
    return device_table.read(path)


def conform(
    session: Any,
    row: DeviceRow,
    report: Path,
    options: list[str],
    command_failed: type[Exception],
) -> None:
    """Runs the suite on the device of a row in a nox session, with options of `tinyref conform`.

    If the device is missing, the session is skipped, with the reason there and in the report
    folder. For a row that is required it ends with an error, if the variable CI is set: CI has
    installed what such rows need. A failed `install` or `setup`, a `command_failed` of nox, is a
    missing device too. A run of the default lane that is beyond its budget is reported; a slow
    machine fails no check.
    """
    environment = {**os.environ, **dict(row.environment)}
    (report / UNAVAILABLE).unlink(missing_ok=True)
    reason = _without_driver(row)
    if not reason:
        packages.install_once(session, ".", env=environment)
        reason = _installed(session, row, environment, command_failed)
    if not reason:
        described = session.run(
            "tinyref",
            "devices",
            "--json",
            *row.devices,
            env=environment,
            success_codes=[0, 1],
            silent=True,
        )
        reason = missing(row, str(described))
    if reason:
        text = note_unavailable(report, row.id, f"{reason}; it needs {row.needs}{_help(row)}")
        (session.error if row.required and _is_ci() else session.skip)(text)
    words = ["tinyref", "conform", "--device", row.device, "--out", str(report), *options]
    if row.second:
        words += ["--second", row.second]
    words += expectations(row.id)
    began = time.monotonic()
    session.run(*words, env=environment)
    taken = round(time.monotonic() - began)
    if options == row.default_options and taken > row.budget:
        session.warn(f"{row.id} took {taken} s, beyond its budget of {row.budget} s")


def note_unavailable(report: Path, name: str, reason: str) -> str:
    """Write why a device or a library is missing into its report folder, and return it."""
    text = f"{name} is unavailable: {reason}"
    report.mkdir(parents=True, exist_ok=True)
    (report / UNAVAILABLE).write_text(f"{text}\n", encoding="utf-8")
    return text


def expectations(name: str) -> list[str]:
    """Return the option that names the known failures of a device or a library, if it has any."""
    known = EXPECTATIONS / f"{name}.toml"
    return ["--expectations", str(known)] if known.exists() else []


def _is_ci() -> bool:
    """Return True where the variable CI is set, as providers of CI and .ci/run set it."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _without_driver(row: DeviceRow) -> str:
    """Why a row need not be installed; empty where a driver is there, or none is asked for."""
    for name in row.driver:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return ""
    return f"there is no {' or '.join(row.driver)}" if row.driver else ""


def _installed(
    session: Any, row: DeviceRow, environment: dict[str, str], command_failed: type[Exception]
) -> str:
    """Installs and sets up what a row asks for; why that failed, empty where it did not."""
    try:
        if row.pip:
            session.install(*row.pip, env=environment)
        for line in row.setup:
            session.run(*shlex.split(line), env=environment, external=True)
    except command_failed as error:
        return " ".join(str(error).split())
    return ""


def missing(row: DeviceRow, described: str) -> str:
    """Why a device of a row is not there, by what `tinyref devices --json` said; else empty."""
    for place, name in enumerate(row.devices):
        try:
            found = json.loads(described)["devices"][place]
            works, reason = found["works"], found["reason"]
        except (ValueError, KeyError, IndexError, TypeError):
            return f"tinyref devices says nothing of {name}: {described[:200]!r}"
        if works is not True:
            return f"{name} does not work here: {reason}"
    return ""


def _help(row: DeviceRow) -> str:
    return f" (apt-get install {' '.join(row.apt)})" if row.apt else ""
