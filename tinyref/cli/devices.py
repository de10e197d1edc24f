"""`tinyref devices`: print which devices work here, what others lack, and what each declares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinyref.cli.options import json_option, write_json

if TYPE_CHECKING:
    from tinyref.probe import Probed


def devices(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these devices.")
    ] = None,
    json: Annotated[Path | None, json_option()] = None,
) -> None:
    """Show which devices work here, and what the others lack.

    \b
    Examples:
      tinyref devices
      tinyref devices --json
      tinyref devices CLANG my_package.backend:MyBackend

    Backends are found through the entry-point group tinyref.backends. Without a name, the libraries
    of `tinyref conform --subject` follow. Exit code 1: a named device does not work here.
    """
    from tinyref.device import Device
    from tinyref.errors import UserError
    from tinyref.probe import probe

    probed = probe(names or Device.names())
    for device in probed:
        if device.is_misnamed:
            raise UserError(device.reason)
    if json is not None:
        described = [_as_json(device) for device in probed]
        data = {"default": Device.default, "devices": described, "subjects": _subjects(names)}
        write_json(json, data, "devices")
    else:
        for device in probed:
            _print(device, Device.default)
        print("\nTest one with: tinyref conform --device NAME")
        _print_subjects(_subjects(names))
    if names and not all(device.works for device in probed):
        raise typer.Exit(1)


def _subjects(names: list[str] | None) -> list[dict[str, str]]:
    """Describe the libraries that can be tested; none if devices were named."""
    from tinyref_spec.subjects.name import LIBRARIES

    if names:
        return []
    return [
        {"name": name, "title": library.title, "version": library.version}
        for name, library in LIBRARIES.items()
    ]


def _print_subjects(subjects: list[dict[str, str]]) -> None:
    if not subjects:
        return
    print("\nLibraries:")
    for subject in subjects:
        state = subject["version"] or "missing"
        print(f"{subject['name']:14} {state:14} {subject['title']}")
    print(f"{'PACKAGE:CLASS':14} {'':14} a subject of your own: docs/subjects.md")
    print("\nTest one with: tinyref conform --subject NAME")


def _as_json(device: Probed) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": device.name,
        "works": device.works,
        "reason": device.reason,
        "title": device.title,
    }
    if device.capabilities is not None:
        found |= {"versions": device.versions, "capabilities": device.capabilities}
    return found


def _print(device: Probed, default: str) -> None:
    from tinyref.capabilities import reason_without_values

    mark = "works" if device.works else "missing"
    title = device.title + (" (default)" if device.name == default else "")
    print(f"{device.name:8} {mark:8} {title}")
    if device.reason:
        label = "with" if device.works else "why not"
        first, _, rest = device.reason.partition("\n")
        print(f"{'':17} {label}: {first}{' (--json shows all of it)' if rest else ''}")
    found = device.capabilities
    if found is None:
        return
    if reason := reason_without_values(found["ops"], found["keeps_values"]):
        print(f"{'':17} {reason}")
    if not found["ops"]:
        return
    print(f"{'':17} dtypes: {' '.join(found['dtypes'])}")
    if found["emulated"]:
        print(f"{'':17} emulated: {' '.join(found['emulated'])}")
    if found["matrix_tiles"]:
        print(f"{'':17} tiles: {' '.join(found['matrix_tiles'])}")
    print(f"{'':17} {_features(found)}")


def _size(nbytes: int) -> str:
    if not nbytes:
        return "no memory"
    return f"{nbytes // 1024} KiB" if nbytes >= 1024 else f"{nbytes} bytes"


def _features(found: Mapping[str, Any]) -> str:
    parts = [f"{len(found['ops'])} ops"]
    lanes = [str(width) for width in found["vector_lanes"] if width > 1]
    parts.append(f"vectors of {', '.join(lanes)}" if lanes else "no vectors")
    parts.append("launch grid" if found["grid"] else "no launch grid")
    if found["groups"]:
        parts.append(f"groups sharing {_size(found['shared_bytes'])}")
    elif found["shared_bytes"]:
        parts.append(f"{_size(found['shared_bytes'])} of scratch memory")
    if found["threads"] > 1:
        parts.append(f"{found['threads']} threads")
    if found["images"]:
        parts.append("images")
    if not found["keeps_subnormals"]:
        parts.append("flushes subnormals")
    if found["contracts_floats"]:
        parts.append("contracts floats")
    if found["reassociates_floats"]:
        parts.append("reassociates floats")
    if found["view_alignment"] > 1:
        parts.append(f"views at multiples of {found['view_alignment']} bytes")
    return ", ".join(parts)
