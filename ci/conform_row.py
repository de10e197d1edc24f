"""The device matrix: run a row of ci/devices.toml in nox.

Import only the standard library here: nox loads this file before it installs anything.
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
# The reason why a device or a library is missing, in its report folder.
UNAVAILABLE = "unavailable.txt"


def read(path: Path = DEVICES) -> list[DeviceRow]:
    """Return the rows of a matrix. Raises `DeviceTableError`."""
    return device_table.read(path)


def conform(
    session: Any,
    row: DeviceRow,
    report: Path,
    options: list[str],
    command_failed: type[Exception],
) -> None:
    """Run the suite on the device of a row in a nox session, with options of `tinyref conform`.

    If the device is missing, skip the session, with the reason there and in the report folder.
    For a required row, fail if the variable CI is set, because CI has installed what such rows
    need. A failed `install` or `setup` (a `command_failed` of nox) counts as a missing device. Warn
    if a default run exceeds its budget; a slow machine fails no check.
    """
    environment = {**os.environ, **dict(row.environment)}
    (report / UNAVAILABLE).unlink(missing_ok=True)
    reason = _missing_driver(row)
    if not reason:
        packages.install_once(session, ".", env=environment)
        reason = _install(session, row, environment, command_failed)
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
    start = time.monotonic()
    session.run(*words, env=environment)
    taken = round(time.monotonic() - start)
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
    """Return True if the variable CI is set, as providers of CI and .ci/run set it."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def _missing_driver(row: DeviceRow) -> str:
    """Return why a row cannot run; empty if it needs no driver, or a driver is there."""
    for name in row.driver:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return ""
    return f"there is no {' or '.join(row.driver)}" if row.driver else ""


def _install(
    session: Any, row: DeviceRow, environment: dict[str, str], command_failed: type[Exception]
) -> str:
    """Install and set up what a row needs. Return why it failed; empty if it succeeded."""
    try:
        if row.pip:
            session.install(*row.pip, env=environment)
        for line in row.setup:
            session.run(*shlex.split(line), env=environment, external=True)
    except command_failed as error:
        return " ".join(str(error).split())
    return ""


def missing(row: DeviceRow, described: str) -> str:
    """Return why a device of a row does not work, from `tinyref devices --json`; else empty."""
    for index, name in enumerate(row.devices):
        try:
            device = json.loads(described)["devices"][index]
            works, reason = device["works"], device["reason"]
        except (ValueError, KeyError, IndexError, TypeError):
            return f"tinyref devices does not list {name}: {described[:200]!r}"
        if works is not True:
            return f"{name} does not work here: {reason}"
    return ""


def _help(row: DeviceRow) -> str:
    return f" (apt-get install {' '.join(row.apt)})" if row.apt else ""
