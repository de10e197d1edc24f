"""Where packages come from, and which sessions of nox share them.

uv reads no settings of pip, so it is given those of this machine.

Nothing but the standard library is imported here.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The setting of pip, the variable of uv, and what separates its values.
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
}


def uv_variables(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that make uv look where pip looks, but for those that are set already."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    translated = translate(done.stdout) if done.returncode == 0 else {}
    return {name: value for name, value in translated.items() if name not in variables}


def translate(listed: str) -> dict[str, str]:
    """The variables for what `pip config list` printed: lines such as global.find-links='/wheels'.

    pip lists its environment first: that is the index which it takes, while links add up.
    """
    values: dict[str, list[str]] = {}
    for line in listed.splitlines():
        key, _, text = line.partition("=")
        setting = key.rpartition(".")[2]
        if setting in SETTINGS:
            values.setdefault(setting, []).extend(ast.literal_eval(text).split())
    variables = {}
    for setting, words in values.items():
        name, separator = SETTINGS[setting]
        chosen = words[:1] if setting == "index-url" else list(dict.fromkeys(words))
        variables[name] = separator.join(chosen)
    return variables


# Where this run of nox installed something, and what.
_INSTALLED: set[tuple[str, ...]] = set()


def share_environment(session: Any, name: str) -> None:
    """Makes a session of nox work in the environment `name`, as other sessions of the run do.

    To make one of its own takes seconds, and then its first processes compile all that they import.
    """
    environment = session.virtualenv
    own, shared = environment.location, str(Path(environment.location).with_name(name))
    for variable, value in list(environment.env.items()):
        if value == own:
            environment.env[variable] = shared
    environment.location = environment.location_name = shared
    if environment.create():
        # It is new and empty, for each session where nox is told to reuse none.
        _INSTALLED.difference_update([each for each in _INSTALLED if each[0] == shared])


def install_once(session: Any, *words: str, **options: Any) -> None:
    """Installs in a session's environment what no session of this run has installed there."""
    installed = (session.virtualenv.location, *words)
    if installed not in _INSTALLED:
        session.install(*words, **options)
        _INSTALLED.add(installed)
