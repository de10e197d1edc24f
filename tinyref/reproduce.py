"""Flags and environment in commands and scripts, so that what is run again runs as before."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence

from tinyref.config import FLAGS, Effect, FlagValue, changed_flags


def settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that set the flags as they are now, and `environment`, by name."""
    return settings_of(changed_flags(), environment)


def settings_of(
    flags: Mapping[str, FlagValue], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Variables that set these flags, and `environment`, by name."""
    return {**{f"TINYREF_{name}": str(flags[name]) for name in flags}, **(environment or {})}


def command(words: Sequence[str], settings: Mapping[str, str]) -> str:
    """A line for a shell that sets `settings` for one command."""
    return " ".join([*filter(None, [assignments(settings)]), shlex.join(words)])


def assignments(settings: Mapping[str, str]) -> str:
    """`settings` as a shell takes them before a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())


def script(text: str, settings: Mapping[str, str]) -> str:
    """Return a Python script that sets `settings` after the comments that it begins with.

    Flags that decide no result are left out; what names a folder of this machine is a comment.
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
    place = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join([*lines[:place], *added, *lines[place:]])


def _decides_results(variable: str) -> bool:
    flag = FLAGS.get(variable.removeprefix("TINYREF_"))
    return flag is None or flag.effect is not Effect.OUTPUT


def without_local_folders(text: str) -> str:
    """Return a text that names no working, temporary or home folder of this machine."""
    folders = {os.path.expanduser("~"): "~", tempfile.gettempdir(): "<temporary folder>"}
    with contextlib.suppress(OSError):
        folders[os.getcwd()] = "."
    # The longest first: one may lie in another.
    for folder in sorted(set(folders) - {"/", "~"}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./]){re.escape(folder)}(?![\w.-])", folders[folder], text)
    return text


def reasons(flags: Mapping[str, FlagValue]) -> list[str]:
    """Why a run with these flags does not show that a device conforms; empty where it does."""
    return [
        f"TINYREF_{name}={value} {FLAGS[name].effect.value}"
        for name, value in flags.items()
        if FLAGS[name].effect in (Effect.NUMBERS, Effect.CHECKS)
    ]
