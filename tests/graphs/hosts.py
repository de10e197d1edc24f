"""The devices that work on this processor, and a fixture that runs a test on each of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tinyref.device import Device

HOSTS = [name for name in ("CPU", "CLANG") if Device.availability(name).works]


def each_device(names: Sequence[str]) -> Any:
    """Return a fixture that runs a test on each of `names`: `device = each_device(HOSTS)`."""

    @pytest.fixture(params=names)
    def device(request: pytest.FixtureRequest) -> str:
        name: str = request.param
        return name

    return device
