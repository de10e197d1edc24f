"""The certificate of a run: the cases, the device, and the versions of everything."""

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
from tinyref.runtimes.host.description import processor_name
from tinyref.runtimes.identity import library_versions

# Functions that write and read a field of the capabilities, by its declared type.
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
    """Return the capabilities in a form that sorts and compares."""
    return {
        field.name: _FORMATS[str(field.type)][0](getattr(capabilities, field.name))
        for field in dataclasses.fields(Capabilities)
    }


def capabilities_from_json(data: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities. Raises `UserError` for an invalid matrix tile."""
    return Capabilities(
        **{
            field.name: _FORMATS[str(field.type)][1](data[field.name])
            for field in dataclasses.fields(Capabilities)
        }
    )


def device_versions(name: str, device: Any) -> dict[str, str]:
    """Return names and versions of device, driver and compiler, as the backend states them."""
    own = getattr(device, "versions", None)
    try:
        versions = own() if callable(own) else Device[name].versions()
    except (TinyrefError, UserError):
        return {}
    return {str(key): str(value) for key, value in sorted(versions.items())}


def surroundings() -> dict[str, Any]:
    """Return the part of the certificate about the machine and the version of tinyref."""
    revision = commit()
    return {
        "tinyref": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": processor_name(),
        "libraries": library_versions(),
        "git": None if revision is None else revision.to_json(),
    }


def facts_of(certificate: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts of a certificate in words; for its capabilities, see `capabilities_of`."""
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
    """Yield the capabilities of a certificate's device, in words."""
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
