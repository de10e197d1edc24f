"""Flags and environment in commands and scripts, so that a second run has the same settings."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence

from tinyref.config import FLAGS, Effect, FlagValue, changed_flags


def settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables that set the flags to their current values, and `environment`."""
    return settings_of(changed_flags(), environment)


def settings_of(
    flags: Mapping[str, FlagValue], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return variables that set these flags, and `environment`, by name."""
    return {**{f"TINYREF_{name}": str(flags[name]) for name in flags}, **(environment or {})}


def command(words: Sequence[str], settings: Mapping[str, str]) -> str:
    """Return a shell command that runs `words` with `settings`."""
    return " ".join([*filter(None, [assignments(settings)]), shlex.join(words)])


def assignments(settings: Mapping[str, str]) -> str:
    """Return `settings` as a shell expects them before a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


def script(text: str, settings: Mapping[str, str]) -> str:
    """Return a Python script that sets `settings` after its first comments.

    Flags that cannot change results are left out. Paths of this machine become comments.
    """
    deciding = {name: value for name, value in settings.items() if _decides_results(name)}
    local = [name for name, value in deciding.items() if value != without_local_folders(value)]
    added = [
        f"# Found with {name}={without_local_folders(deciding[name])!r}, a path: set it yourself.\n"
        for name in local
    ]
    portable = {name: value for name, value in deciding.items() if name not in local}
    if portable:
        added += ["import os\n", f"os.environ.update({portable!r})\n"]
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join([*lines[:start], *added, *lines[start:]])


def _decides_results(variable: str) -> bool:
    flag = FLAGS.get(variable.removeprefix("TINYREF_"))
    return flag is None or flag.effect is not Effect.OUTPUT


def without_local_folders(text: str) -> str:
    """Replace the working, temporary and home folder of this machine in a text."""
    folders = {os.path.expanduser("~"): "~", tempfile.gettempdir(): "<temporary folder>"}
    with contextlib.suppress(OSError):
        folders[os.getcwd()] = "."
    # The longest first: one folder may contain another.
    for folder in sorted(set(folders) - {"/", "~"}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./]){re.escape(folder)}(?![\w.-])", folders[folder], text)
    return text


def reasons(flags: Mapping[str, FlagValue]) -> list[str]:
    """Return why a run with these flags does not prove conformance; empty if it does."""
    return [
        f"TINYREF_{name}={value} {FLAGS[name].effect.value}"
        for name, value in flags.items()
        if FLAGS[name].effect in (Effect.NUMBERS, Effect.CHECKS)
    ]
