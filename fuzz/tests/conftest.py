"""Make the modules next to the tests importable: by name, and devices also by path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)


@pytest.fixture
def workers_import_test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes that the test starts import the modules next to the tests."""
    path = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.syspath_prepend(HERE)
