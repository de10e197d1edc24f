"""The certificate of a run: what was asked, of which device, with which versions of everything."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from collections.abc import Callable, Mapping
from typing import Any

from tinyref.capabilities import Capabilities
from tinyref.commit import commit
from tinyref.device import Device
from tinyref.dtype import dtype_from_name
from tinyref.errors import TinyrefError, UserError
from tinyref.formats.json_format import tile_from_json, tile_to_json
from tinyref.machine import Machine
from tinyref.runtimes.identity import library_versions

# How a field of the capabilities is written and read back, by its declared type.
_FORMATS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bool": (bool, bool),
    "int": (int, int),
    "tuple[int, ...]": (list, tuple),
    "tuple[int, int, int]": (list, tuple),
    "frozenset[str]": (sorted, frozenset),
    "frozenset[DType]": (
        lambda types: sorted(dtype.name for dtype in types),
        lambda names: frozenset(map(dtype_from_name, names)),
    ),
    "tuple[MatrixTile, ...]": (
        lambda tiles: [tile_to_json(tile) for tile in tiles],
        lambda texts: tuple(map(tile_from_json, texts)),
    ),
    "Machine": (Machine.to_json, Machine.from_json),
}


def capabilities_to_json(capabilities: Capabilities) -> dict[str, Any]:
    """What the device declares, in a form that sorts and compares."""
    return {
        field.name: _FORMATS[str(field.type)][0](getattr(capabilities, field.name))
        for field in dataclasses.fields(Capabilities)
    }


def capabilities_from_json(data: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities. Raises `UserError` for a matrix tile that is none."""
    return Capabilities(
        **{
            field.name: _FORMATS[str(field.type)][1](data[field.name])
            for field in dataclasses.fields(Capabilities)
        }
    )


def device_versions(name: str, device: Any) -> dict[str, str]:
    """Names and versions of device, driver and compiler, as far as the backend gives them."""
    own = getattr(device, "versions", None)
    try:
        found = own() if callable(own) else Device[name].versions()
    except (TinyrefError, UserError):
        return {}
    return {str(key): str(value) for key, value in sorted(found.items())}


def tinyref_version() -> str:
    """The version of the installed distribution."""
    try:
        return importlib.metadata.version("tinyref")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def surroundings() -> dict[str, Any]:
    """The part of the certificate that says where the run took place, and by which tinyref."""
    found = commit()
    return {
        "tinyref": tinyref_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "libraries": library_versions(),
        "git": None if found is None else found.to_json(),
    }
