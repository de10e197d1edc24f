"""The certificate of a run: what was asked, of which device, with which versions of everything."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tinyref
from tinyref.device import Capabilities, Device
from tinyref.dtype import dtype_from_name
from tinyref.errors import TinyrefError, UserError
from tinyref.formats.json_format import tile_from_json, tile_to_json
from tinyref.runtimes.identity import library_versions

_PLAIN = (
    *("has_grid", "has_groups", "shared_bytes", "group_size_limit", "buffer_limit", "images"),
    *("keeps_subnormals", "division_traps", "slow_division", "threads", "tiles_pay"),
    *("is_single", "is_interpreted"),
)
_TUPLES = ("vector_lanes", "grid_limit", "group_limit")


def capabilities_to_json(capabilities: Capabilities) -> dict[str, Any]:
    """What the device declares, in a form that sorts and compares."""
    return {
        "dtypes": sorted(dtype.name for dtype in capabilities.dtypes),
        "emulated": sorted(dtype.name for dtype in capabilities.emulated),
        "ops": sorted(capabilities.ops),
        **{name: list(getattr(capabilities, name)) for name in _TUPLES},
        **{name: getattr(capabilities, name) for name in _PLAIN},
        "matrix_tiles": [tile_to_json(tile) for tile in capabilities.matrix_tiles],
    }


def capabilities_from_json(data: Mapping[str, Any]) -> Capabilities:
    """The capabilities again. Raises `UserError` for a matrix tile that is none."""
    limits: dict[str, Any] = {name: tuple(data[name]) for name in _TUPLES}
    plain: dict[str, Any] = {name: data[name] for name in _PLAIN}
    return Capabilities(
        dtypes=frozenset(dtype_from_name(name) for name in data["dtypes"]),
        emulated=frozenset(dtype_from_name(name) for name in data["emulated"]),
        ops=frozenset(data["ops"]),
        matrix_tiles=tuple(tile_from_json(tile) for tile in data["matrix_tiles"]),
        **limits,
        **plain,
    )


def device_versions(name: str, device: Any) -> dict[str, str]:
    """Names and versions of device, driver and compiler, as far as the backend gives them."""
    own = getattr(device, "versions", None)
    try:
        found = own() if callable(own) else Device[name].versions()
    except (TinyrefError, UserError):
        return {}
    return {str(key): str(value) for key, value in sorted(found.items())}


def git_state() -> dict[str, Any] | None:
    """Commit and whether the tree has changes; None where tinyref does not run from a checkout."""
    folder = Path(tinyref.__file__).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    # A virtual environment inside somebody else's checkout is not ours to report.
    if commit is None or _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain", "--", "."))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def tinyref_version() -> str:
    """The version of the installed distribution."""
    try:
        return importlib.metadata.version("tinyref")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def surroundings() -> dict[str, Any]:
    """The part of the certificate that says where the run took place."""
    return {
        "tinyref": tinyref_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "libraries": library_versions(),
        "git": git_state(),
    }
