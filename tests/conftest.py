"""Options of the whole suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tinyref.device import Device


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files after a wanted change",
    )
    parser.addoption(
        "--screenshots",
        type=Path,
        help="where to keep pictures of the pages that a day of docs/tests opens",
    )


@pytest.fixture
def needs_device() -> Callable[[str], None]:
    """Return a function that skips a test, with the reason, if a device does not work here."""

    def check(device: str) -> None:
        available = Device.availability(device)
        if not available.works:
            pytest.skip(f"{device} is not available here: {available.reason}")

    return check


@pytest.fixture
def c_compiler(needs_device: Callable[[str], None]) -> None:
    """Skip a test, with the reason, on a machine without a C compiler."""
    needs_device("CLANG")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a comparison of a text with a file in the folder `golden` next to the test."""
    folder = Path(request.path).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path}: write it with --update-golden"
        assert text == path.read_text(), f"{path} differs: --update-golden rewrites it"

    return compare
