"""Test the module that vendors import, and the supported versions of the contract."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from tests.base.test_device import Toy
from tinyref import backend, device
from tinyref.device import Device
from tinyref.dtype import AddressSpace, DType, Kind
from tinyref.errors import DeviceError

PAGE = Path(__file__).parents[2] / "docs" / "backend.md"
HERE = "tests.base.test_backend"


def names_of(page: str) -> set[str]:
    """Return the names in the table of the section "Names"."""
    section = page.partition("\n## Names\n")[2].partition("\n## ")[0]
    rows = [line.rpartition(" | ")[2] for line in section.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_lists_every_name_that_a_backend_gets() -> None:
    assert names_of(PAGE.read_text()) == set(backend.__all__)


def test_the_page_has_every_field_of_the_capabilities() -> None:
    section = PAGE.read_text().partition("\n## What is declared\n")[2].partition("\n### ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    fields = [field.name for field in dataclasses.fields(backend.Capabilities)]
    assert sorted(named) == sorted(fields)


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("CORE_DTYPES", {dtype.name for dtype in backend.CORE_DTYPES}),
        ("CORE_OPS", set(backend.CORE_OPS)),
    ],
)
def test_the_page_lists_the_core_in_full(name: str, members: set[str]) -> None:
    (line,) = re.findall(rf"^\* `{name}`: (.*)\.$", PAGE.read_text(), re.M)
    listed = line.split(", ")
    assert len(listed) == len(members)
    assert set(listed) == members


def test_the_sample_of_the_page_imports_what_there_is() -> None:
    text = PAGE.read_text().partition("## The parts")[2]
    sample = text.partition("```python\n")[2].partition("```")[0]
    tree = ast.parse(sample)
    (imported,) = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {name.name for name in imported.names} <= set(backend.__all__)
    (written,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    members = {
        getattr(node, "name", None) or node.targets[0].id  # type: ignore[attr-defined]
        for node in written.body
    }
    assert members >= backend.Backend.__abstractmethods__


def test_every_name_is_there_and_has_one_spelling() -> None:
    assert len(set(backend.__all__)) == len(backend.__all__)
    assert all(hasattr(backend, name) for name in backend.__all__)


class SilentToy(Toy):
    """Device that states no version of the contract, as the first backends."""


class FirstToy(Toy):
    contract = 1


class SecondToy(Toy):
    contract = 2


class WordyToy(Toy):
    contract = "one"  # type: ignore[assignment]


def test_the_contract_is_of_version_one() -> None:
    assert backend.CONTRACT == 1
    assert SilentToy.contract == 1


@pytest.mark.parametrize(
    ("name", "oldest", "newest"),
    [("SilentToy", 1, 1), ("FirstToy", 1, 1), ("FirstToy", 1, 3), ("SecondToy", 1, 2)],
)
def test_a_served_version_opens(
    name: str, oldest: int, newest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "OLDEST_CONTRACT", oldest)
    monkeypatch.setattr(device, "CONTRACT", newest)
    assert Device.availability(f"{HERE}:{name}").works
    assert Device.backend_class(f"{HERE}:{name}").__name__ == name


@pytest.mark.parametrize(
    ("name", "oldest", "newest", "says"),
    [
        ("SecondToy", 1, 1, r"version 2 of the contract: .* from 1 to 1; update tinyref$"),
        ("FirstToy", 2, 3, r"version 1 of the contract: .* from 2 to 3; update the backend$"),
        ("SilentToy", 2, 2, r"version 1 of the contract: .* from 2 to 2; update the backend$"),
        ("WordyToy", 1, 1, r"contract is 'one': accepted are integers from 1 to 1$"),
    ],
)
def test_a_version_that_is_not_served_does_not_open(
    name: str, oldest: int, newest: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "OLDEST_CONTRACT", oldest)
    monkeypatch.setattr(device, "CONTRACT", newest)
    path = f"{HERE}:{name}"
    with pytest.raises(DeviceError, match=says):
        Device[path]
    available = Device.availability(path)
    assert not available.works
    assert "contract" in available.reason


def test_the_members_of_types_are_on_the_page() -> None:
    # A renderer needs the members of types. `__weakref__` belongs to Python.
    page = PAGE.read_text(encoding="utf-8")
    members = [name for name in vars(DType) if not name.startswith("_")]
    assert {"kind", "lanes", "vec"} <= set(members)
    assert [name for name in members if not re.search(rf"`{name}(\(|`)", page)] == []
    assert [kind.name for kind in Kind if f"`{kind.name}`" not in page] == []
    assert [space.name for space in AddressSpace if f"`{space.name}`" not in page] == []
