"""Package indexes for uv, and environments that several sessions of nox share.

uv does not read the settings of pip, so this module passes them on. Import only the standard
library here.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Settings of pip, with the variable of uv and the separator of its values.
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
}


def uv_variables(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that make uv use the indexes of pip, without those that are set."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    translated = translate(done.stdout) if done.returncode == 0 else {}
    return {name: value for name, value in translated.items() if name not in variables}


def translate(listed: str) -> dict[str, str]:
    """Return the variables for lines of `pip config list`, such as global.find-links='/wheels'.

    pip lists its environment first: this index wins, while links add up.
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


# The environments and packages that this run of nox installed.
_INSTALLED: set[tuple[str, ...]] = set()


def share_environment(session: Any, name: str) -> None:
    """Make a session of nox work in the environment `name`, which other sessions share.

    An environment of its own takes seconds, and its first processes compile all imports.
    """
    environment = session.virtualenv
    own, shared = environment.location, str(Path(environment.location).with_name(name))
    for variable, value in list(environment.env.items()):
        if value == own:
            environment.env[variable] = shared
    environment.location = environment.location_name = shared
    if environment.create():
        # The environment is new and empty, in each session if nox reuses none.
        _INSTALLED.difference_update([words for words in _INSTALLED if words[0] == shared])


def install_once(session: Any, *words: str, **options: Any) -> None:
    """Install in a session's environment unless a session of this run did so already."""
    installed = (session.virtualenv.location, *words)
    if installed not in _INSTALLED:
        session.install(*words, **options)
        _INSTALLED.add(installed)
