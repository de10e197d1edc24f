from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tinyref_conformance.conform import ConformRequest, Finished, conform
from tinyref_conformance.report import Report
from tinyref_conformance.settings import RunSettings

HERE = Path(__file__).parent
# Modules that several tests share, and that worker processes import too.
sys.path.insert(0, str(HERE))


class Fake:
    """Runs the fake catalogue in `tmp_path`."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path / "report"
        self.log = tmp_path / "log"
        self.monkeypatch = monkeypatch
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        monkeypatch.setenv("PYTHONPATH", path)
        monkeypatch.setenv("FAKE_LOG", str(self.log))

    def scenario(self, *names: str) -> Fake:
        self.monkeypatch.setenv("FAKE_SCENARIO", ",".join(names))
        return self

    def request(self, **members: Any) -> ConformRequest:
        names = RunSettings.__dataclass_fields__
        settings = {key: members.pop(key) for key in list(members) if key in names}
        settings = {"jobs": 1, "timeout": 20.0, **settings}
        return ConformRequest(
            RunSettings("FAKE", self.folder, catalogue="fake_catalogue", **settings), **members
        )

    def run(self, **members: Any) -> Finished:
        return conform(self.request(**members))

    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return Fake(tmp_path, monkeypatch)


@pytest.fixture
def conformed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Return a function that runs a query on a device, which may be of these modules."""
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)

    def conformed(device: str, query: str, **members: Any) -> Report:
        folder = members.pop("folder", tmp_path / device.rpartition(":")[2])
        members.setdefault("jobs", 1)
        settings = RunSettings(device, folder, **members)
        return conform(ConformRequest(settings, query=query)).report

    return conformed
