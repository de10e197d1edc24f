"""The identity of a device: all that decides its results, to compare a later run with this one.

A name stands for one fact, such as "compiler" or "flag NOOPT"; its value is a short text.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any

from tinyref import __version__, config, reproduce
from tinyref.capabilities import plain_capabilities
from tinyref.device import Device
from tinyref.sources import package_hash, source_hash

Identity = dict[str, str]

# Libraries whose version may change a result.
LIBRARIES = ("numpy", "ml-dtypes", "llvmlite", "mpmath")


def identity(backend: Any) -> Identity:
    """Return the identity of an open backend: its code, versions, and flags that matter.

    If a member of the backend raises an error, the error is its value.
    """
    facts = {
        **surroundings(),
        **{f"environment {name}": value for name, value in environment(backend).items()},
        "compiler": _answer_of_driver(lambda: backend.compiler.key),
        "sources of the backend": _answer_of_driver(lambda: source_hash(backend.__class__)),
    }
    for kind, question in (
        ("version", lambda: dict(backend.versions())),
        ("capability", lambda: plain_capabilities(backend.capabilities)),
    ):
        facts |= {f"{kind} {name}": value for name, value in _asked_mapping(question)}
    return facts


def settings_of(identity: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that set the flags and the environment of an identity."""
    prefixes = {"flag": "TINYREF_", "environment": ""}
    variables = {}
    for name, value in identity.items():
        kind, _, rest = name.partition(" ")
        if kind in prefixes:
            variables[prefixes[kind] + rest] = value
    return variables


def surroundings() -> Identity:
    """Return the part of an identity that does not depend on a device."""
    return {
        "python": platform.python_version(),
        "tinyref": f"{__version__} {package_hash('tinyref')}",
        **{f"library {name}": version for name, version in library_versions().items()},
        **{
            f"flag {name}": str(value)
            for name, value in config.changed_flags().items()
            # The name of the device identifies it, whether or not it is the default.
            if name != "DEVICE" and config.FLAGS[name].effect is not config.Effect.OUTPUT
        },
    }


def environment(backend: Any) -> dict[str, str]:
    """Return the variables that the backend reads, as far as they are set."""
    names = getattr(backend, "environment", ())
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def device_settings(name: str) -> dict[str, str]:
    """Return flags and variables that another process must set to compute as this one does.

    Raises as `Device.backend_class` does.
    """
    return reproduce.settings(environment(Device.backend_class(name)))


def library_versions() -> dict[str, str]:
    """Return the versions of libraries that may change a result, if they are installed."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _answer_of_driver(question: Callable[[], Any]) -> str:
    try:
        return str(question())
    except Exception as error:  # a vendor's code may raise anything
        return f"raises {type(error).__name__}"


def _asked_mapping(question: Callable[[], Any]) -> list[tuple[str, str]]:
    try:
        return [(str(name), str(value)) for name, value in sorted(question().items())]
    except Exception as error:  # a vendor's code may raise anything
        return [("(all)", f"raises {type(error).__name__}")]
