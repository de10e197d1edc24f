"""Test the hash of a backend's sources: changes that affect it, and changes that do not."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tinyref.sources import package_hash, source_hash

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Return a function that writes a file below a folder of importable modules."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def class_of(module: str) -> type:
    importlib.invalidate_caches()
    result: type = importlib.import_module(module).Mine
    return result


CLASS = "class Mine: ...\n"


@pytest.mark.parametrize(
    ("module", "files", "changed", "differs"),
    [
        ("alone", {"alone.py": CLASS}, "alone.py", True),
        ("alone", {"alone.py": CLASS, "other.py": ""}, "other.py", False),
        ("user", {"user.py": f"import helper\n{CLASS}", "helper.py": ""}, "helper.py", True),
        ("card.dev", {"card/__init__.py": "", "card/dev.py": CLASS}, "card/dev.py", True),
        ("card.dev", {"card/__init__.py": "", "card/dev.py": CLASS}, "card/lazy/more.py", True),
        ("card.dev", {"card/__init__.py": "", "card/dev.py": CLASS}, "card/kernel.cl", True),
        ("card.dev", {"card/__init__.py": "", "card/dev.py": CLASS}, "card/driver.log", False),
        ("card.dev", {"card/__init__.py": "", "card/dev.py": CLASS}, "card/.cache/a.py", False),
        ("card", {"card/__init__.py": CLASS}, "card/__init__.py", True),
        ("space.dev", {"space/dev.py": CLASS}, "space/dev.py", True),
        (
            "card.dev",
            {"card/__init__.py": "", "card/dev.py": f"import beside\n{CLASS}", "beside.py": ""},
            "beside.py",
            True,
        ),
    ],
)
def test_what_changes_the_hash(
    write: Write, module: str, files: dict[str, str], changed: str, differs: bool
) -> None:
    for name, text in files.items():
        write(name, text)
    cls = class_of(module)
    before = source_hash(cls)
    assert len(before) == 24
    assert source_hash(cls) == before
    write(changed, "CHANGED = 1\n")
    assert (source_hash(cls) != before) is differs


def test_a_class_without_a_file_has_no_hash() -> None:
    assert source_hash(int) == ""


def test_the_hash_of_a_package_is_taken_once() -> None:
    assert len(package_hash("tinyref")) == 24
    assert package_hash("tinyref") == package_hash("tinyref")
