"""The certificate of a run: what was asked, of which device, with which versions of everything."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinyref import __version__
from tinyref.capabilities import Capabilities
from tinyref.commit import commit
from tinyref.device import Device
from tinyref.dtype import dtype_from_name
from tinyref.errors import TinyrefError, UserError
from tinyref.formats.payload_fields import tile_from_json, tile_to_json
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


def surroundings() -> dict[str, Any]:
    """The part of the certificate that says where the run took place, and by which tinyref."""
    found = commit()
    return {
        "tinyref": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "libraries": library_versions(),
        "git": None if found is None else found.to_json(),
    }


def facts_of(certificate: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a certificate says, in words; its capabilities are `capabilities_of` it."""
    git = certificate["git"]
    commit = "commit unknown"
    if git:
        commit = git["commit"] + (", with uncommitted changes" if git["dirty"] else "")
    planned, whole = certificate["cases_planned"], certificate["cases_in_profile"]
    yield "Device", _with_versions(certificate["device"], certificate["device_versions"])
    if certificate.get("second"):
        yield "With", _with_versions(certificate["second"], certificate["second_versions"])
    yield "Profile", f"{certificate['profile']}: {planned:,} of its {whole:,} cases"
    yield "Flags", _settings(certificate.get("flags", {}), "TINYREF_") or "all at their default"
    if certificate.get("environment"):
        yield "Environment", _settings(certificate["environment"])
    if certificate.get("compiler"):
        yield "Compiler", certificate["compiler"]
    if certificate.get("backend_sources"):
        yield "Backend", f"sources with hash {certificate['backend_sources']}"
    yield "Suite", f"{certificate['suite']}, hash {certificate['suite_hash']}"
    yield "Seed", str(certificate["seed"])
    yield "tinyref", f"{certificate['tinyref']}, {commit}"
    yield "Python", f"{certificate['python']} on {certificate['platform']}"
    yield "Libraries", ", ".join(f"{k} {v}" for k, v in certificate["libraries"].items())
    yield "Time", f"{certificate['seconds']:.1f} s from {certificate['started']}"
    if certificate.get("shards"):
        yield "Shards", f"{len(certificate['shards'])}, each with its own hash in report.json"
    if certificate["resumed_cases"]:
        yield "Resumed", f"{certificate['resumed_cases']:,} cases were measured before"


def capabilities_of(certificate: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the device of a certificate declares, in words."""
    for name, value in sorted((certificate["capabilities"] or {}).items()):
        yield f"Declares {name}", _plain(value)


def _settings(values: Mapping[str, Any], prefix: str = "") -> str:
    return " ".join(f"{prefix}{name}={value}" for name, value in values.items())


def _with_versions(device: str, versions: Mapping[str, str]) -> str:
    return ", ".join([device, *(f"{name} {value}" for name, value in versions.items())])


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if type(value) is bool else str(value)
