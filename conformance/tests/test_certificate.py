"""Capabilities in the certificate: what is written is what the runner reads."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref_conformance.certificate import capabilities_from_json, capabilities_to_json


def test_every_capability_reads_back() -> None:
    """Use values that are not the default: a missing value would read back as the default."""
    plain = Device["CPU"].capabilities
    changes: dict[str, object] = {}
    for field in dataclasses.fields(plain):
        value = getattr(plain, field.name)
        if isinstance(value, bool):
            changes[field.name] = field.default is False
        elif isinstance(value, int):
            changes[field.name] = value + 1
    changes |= {"vector_lanes": (1, 3), "grid_limit": (1, 2, 3), "group_limit": (4, 5, 6)}
    declared = dataclasses.replace(plain, **changes)  # type: ignore[arg-type]
    written = json.loads(json.dumps(capabilities_to_json(declared)))
    assert capabilities_from_json(written) == declared


def test_a_tile_that_is_none_is_refused() -> None:
    written = capabilities_to_json(Device["PYTHON"].capabilities)
    written["matrix_tiles"][0]["a"] = [["k1"], []]
    with pytest.raises(UserError, match="the layout of A loses"):
        capabilities_from_json(written)
    written["matrix_tiles"] = ["nvidia"]
    with pytest.raises(UserError, match="tile"):
        capabilities_from_json(written)
