"""`tinyref devices`: what works here, what is missing, and what each device declares."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tinyref.device import Capabilities


def devices(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these devices.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Say for each known device whether it works here, and if not, what is missing.

    \b
    Examples:
      tinyref devices
      tinyref devices --json
      tinyref devices CLANG my_package.backend:MyBackend

    Backends are found through the entry-point group tinyref.backends. Exit code 1 when a device
    that was named does not work here.
    """
    from tinyref.device import Device

    found = [_describe(Device.canonical(name)) for name in names or Device.names()]
    if as_json:
        print(json.dumps({"default": Device.default, "devices": found}, indent=1))
    else:
        for device in found:
            _print(device, Device.default)
        print("\nTest one with: tinyref conform --device NAME")
    if names and not all(device["works"] for device in found):
        raise typer.Exit(1)


def _describe(name: str) -> dict[str, Any]:
    from tinyref.device import Device
    from tinyref.errors import TinyrefError

    available = Device.availability(name)
    described: dict[str, Any] = {
        "name": name,
        "works": available.works,
        "reason": available.reason,
        "title": "",
    }
    try:
        described["title"] = Device.backend_class(name).title
        if available.works:
            backend = Device[name]
            described["versions"] = backend.versions()
            described["capabilities"] = _capabilities(backend.capabilities)
    except TinyrefError as error:
        # Available by its own word, and yet it does not open: the word counts for nothing.
        described["works"] = False
        described["reason"] = str(error)
    return described


def _capabilities(capabilities: Capabilities) -> dict[str, Any]:
    from tinyref.dtype import dtypes

    return {
        "dtypes": [d.name for d in dtypes.all if d in capabilities.dtypes],
        "emulated": [d.name for d in dtypes.all if d in capabilities.emulated],
        "ops": sorted(capabilities.ops),
        "vector_lanes": list(capabilities.vector_lanes),
        "grid": capabilities.has_grid,
        "groups": capabilities.has_groups,
        "shared_bytes": capabilities.shared_bytes,
        "threads": capabilities.threads,
        "buffer_limit": capabilities.buffer_limit,
        "images": capabilities.images,
        "matrix_tiles": [tile.name for tile in capabilities.matrix_tiles],
        "keeps_subnormals": capabilities.keeps_subnormals,
    }


def _print(device: dict[str, Any], default: str) -> None:
    mark = "works" if device["works"] else "missing"
    title = device["title"] + (" (default)" if device["name"] == default else "")
    print(f"{device['name']:8} {mark:8} {title}")
    if device["reason"]:
        label = "with" if device["works"] else "why not"
        print(f"{'':17} {label}: {device['reason'].splitlines()[0]}")
    found = device.get("capabilities")
    if found is None:
        return
    if not found["ops"]:
        print(f"{'':17} holds data, runs no kernels")
        return
    print(f"{'':17} dtypes: {' '.join(found['dtypes'])}")
    if found["emulated"]:
        print(f"{'':17} emulated: {' '.join(found['emulated'])}")
    if found["matrix_tiles"]:
        print(f"{'':17} tiles: {' '.join(found['matrix_tiles'])}")
    print(f"{'':17} {_features(found)}")


def _features(found: dict[str, Any]) -> str:
    parts = [f"{len(found['ops'])} ops"]
    lanes = [str(width) for width in found["vector_lanes"] if width > 1]
    parts.append(f"vectors of {', '.join(lanes)}" if lanes else "no vectors")
    parts.append("launch grid" if found["grid"] else "no launch grid")
    if found["groups"]:
        parts.append(f"groups sharing {found['shared_bytes'] // 1024} KiB")
    elif found["shared_bytes"]:
        parts.append(f"{found['shared_bytes'] // 1024} KiB of scratch memory")
    if found["threads"] > 1:
        parts.append(f"{found['threads']} threads")
    if found["images"]:
        parts.append("images")
    if not found["keeps_subnormals"]:
        parts.append("flushes subnormals")
    return ", ".join(parts)
