"""`tinyref devices`: print which devices work here, what others lack, and what each declares."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tinyref.cli.options import flag, json_option, write_json
from tinyref.cli.terminal import print_styled

if TYPE_CHECKING:
    from tinyref.probe import Probed


COLUMNS, INDENT = 100, 18


def devices(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these devices.")
    ] = None,
    verbose: Annotated[bool, flag("--verbose", "List every matrix tile.")] = False,
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
            _print(device, Device.default, verbose)
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
    members: dict[str, Any] = {
        "name": device.name,
        "works": device.works,
        "reason": device.reason,
        "title": device.title,
    }
    if device.capabilities is not None:
        members |= {"versions": device.versions, "capabilities": device.capabilities}
    return members


def _print(device: Probed, default: str, verbose: bool) -> None:
    from tinyref.capabilities import reason_without_values

    mark = "works" if device.works else "missing"
    title = device.title + (" (default)" if device.name == default else "")
    print_styled(f"{device.name:8} {mark:8} {title}", "green" if device.works else "dim")
    if device.reason:
        label = "with" if device.works else "why not"
        first, _, rest = device.reason.partition("\n")
        _print_fact(f"{label}: {first}{' (--json shows all of it)' if rest else ''}")
    capabilities = device.capabilities
    if capabilities is None:
        return
    if reason := reason_without_values(capabilities["ops"], capabilities["keeps_values"]):
        _print_fact(reason)
    if not capabilities["ops"]:
        return
    _print_fact(f"dtypes: {' '.join(capabilities['dtypes'])}")
    if capabilities["emulated"]:
        _print_fact(f"emulated: {' '.join(capabilities['emulated'])}")
    if tiles := capabilities["matrix_tiles"]:
        _print_fact(f"tiles: {' '.join(tiles) if verbose else _counts_of(tiles)}")
    _print_fact(_features(capabilities))


def _print_fact(text: str) -> None:
    """Print what is known of a device, below its name."""
    lines = textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=" " * INDENT,
        subsequent_indent=" " * (INDENT + 2),
        break_on_hyphens=False,
        break_long_words=False,
    )
    print("\n".join(lines))


def _counts_of(tiles: Sequence[str]) -> str:
    """Return the number of matrix tiles of each architecture."""
    counts = Counter(tile.partition("_")[0] for tile in tiles)
    return ", ".join(f"{count} of {name}" for name, count in counts.items())


def _size(nbytes: int) -> str:
    if not nbytes:
        return "no memory"
    return f"{nbytes // 1024} KiB" if nbytes >= 1024 else f"{nbytes} bytes"


def _features(capabilities: Mapping[str, Any]) -> str:
    parts = [f"{len(capabilities['ops'])} ops"]
    lanes = [str(width) for width in capabilities["vector_lanes"] if width > 1]
    parts.append(f"vectors of {', '.join(lanes)}" if lanes else "no vectors")
    parts.append("launch grid" if capabilities["grid"] else "no launch grid")
    if capabilities["groups"]:
        parts.append(f"groups sharing {_size(capabilities['shared_bytes'])}")
    elif capabilities["shared_bytes"]:
        parts.append(f"{_size(capabilities['shared_bytes'])} of scratch memory")
    if capabilities["threads"] > 1:
        parts.append(f"{capabilities['threads']} threads")
    if capabilities["images"]:
        parts.append("images")
    if not capabilities["keeps_subnormals"]:
        parts.append("flushes subnormals")
    if capabilities["contracts_floats"]:
        parts.append("contracts floats")
    if capabilities["reassociates_floats"]:
        parts.append("reassociates floats")
    if capabilities["view_alignment"] > 1:
        parts.append(f"views at multiples of {capabilities['view_alignment']} bytes")
    return ", ".join(parts)
