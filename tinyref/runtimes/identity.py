"""What ran: all that decides the results of a device, so that a later run can be compared with it.

A name stands for one fact, such as "compiler" or "flag NOOPT"; its value is a short text.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from tinyref import __version__, config, reproduce
from tinyref.device import Device
from tinyref.sources import package_hash, source_hash

Identity = dict[str, str]

# The libraries whose version may change a result.
LIBRARIES = ("numpy", "ml-dtypes", "llvmlite", "mpmath")


def identity(backend: Any) -> Identity:
    """The identity of an open backend in this process: its code, versions, and flags that matter.

    A member of the backend that raises an error is no reason not to go on: the error is its value.
    """
    found = {
        **surroundings(),
        **{f"environment {name}": value for name, value in environment(backend).items()},
        "compiler": _answer_of_driver(lambda: backend.compiler.key),
        "sources of the backend": _answer_of_driver(lambda: source_hash(backend.__class__)),
    }
    for kind, question in (
        ("version", lambda: dict(backend.versions())),
        ("capability", lambda: _plain(backend.capabilities)),
    ):
        found |= {f"{kind} {name}": value for name, value in _asked_mapping(question)}
    return found


def settings_of(identity: Mapping[str, str]) -> dict[str, str]:
    """The variables that set the flags and the environment of an identity."""
    prefixes = {"flag": "TINYREF_", "environment": ""}
    found = {}
    for name, value in identity.items():
        kind, _, rest = name.partition(" ")
        if kind in prefixes:
            found[prefixes[kind] + rest] = value
    return found


def surroundings() -> Identity:
    """The part of an identity that no device has a part in."""
    return {
        "python": platform.python_version(),
        "tinyref": f"{__version__} {package_hash('tinyref')}",
        **{f"library {name}": version for name, version in library_versions().items()},
        **{
            f"flag {name}": str(value)
            for name, value in config.changed_flags().items()
            # Which device it is goes by its name, whether that is the default or not.
            if name != "DEVICE" and config.FLAGS[name].effect is not config.Effect.OUTPUT
        },
    }


def environment(backend: Any) -> dict[str, str]:
    """The variables that the backend says it reads, as far as they are set."""
    names = getattr(backend, "environment", ())
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def device_settings(name: str) -> dict[str, str]:
    """What another process must set to compute on this device as this one does: flags, variables.

    Raises as `Device.backend_class`.
    """
    return reproduce.settings(environment(Device.backend_class(name)))


def library_versions() -> dict[str, str]:
    """The libraries whose version may change a result, as far as they are installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _answer_of_driver(question: Callable[[], Any]) -> str:
    try:
        return str(question())
    except Exception as error:  # of a vendor's code, which may raise anything
        return f"raises {type(error).__name__}"


def _asked_mapping(question: Callable[[], Any]) -> list[tuple[str, str]]:
    try:
        return [(str(name), str(value)) for name, value in sorted(question().items())]
    except Exception as error:  # of a vendor's code, which may raise anything
        return [("(all)", f"raises {type(error).__name__}")]


def _plain(capabilities: Any) -> dict[str, str]:
    found = {}
    for field in dataclasses.fields(capabilities):
        value = getattr(capabilities, field.name)
        if isinstance(value, frozenset):
            value = ", ".join(sorted(str(getattr(member, "name", member)) for member in value))
        found[field.name] = str(value)
    return found
