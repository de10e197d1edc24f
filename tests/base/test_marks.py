"""Which cases the root conftest.py marks as slow and as quick."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Item:
    """A case with marks, as far as the hook looks at it."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = nodeid
        self.marks = {mark.name: mark.mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks[mark.name] = mark.mark


def marked(*items: Item) -> dict[str, set[str]]:
    """The names of the marks of each case, after the hook."""
    spec = importlib.util.spec_from_file_location("root_conftest", ROOT / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.pytest_collection_modifyitems(list(items))
    return {item.nodeid: set(item.marks) - {"sampled"} for item in items}


def test_the_first_case_of_a_test_is_quick():
    found = marked(Item("a.py::x[1]"), Item("a.py::x[2]"), Item("b.py::x[1]"), Item("b.py::y"))
    assert found == {
        "a.py::x[1]": {"quick"},
        "a.py::x[2]": set(),
        "b.py::x[1]": {"quick"},
        "b.py::y": {"quick"},
    }


def test_what_is_slow_or_long_is_not_quick():
    slow, long = pytest.mark.slow, pytest.mark.long
    found = marked(Item("x[1]", slow), Item("x[2]"), Item("y[1]", long), Item("y[2]", long))
    assert found == {"x[1]": {"slow"}, "x[2]": {"quick"}, "y[1]": {"long"}, "y[2]": {"long"}}


def test_of_what_is_sampled_the_first_of_every_so_many_is_not_slow():
    thirds = pytest.mark.sampled(3)
    found = marked(*(Item(f"x[{number}]", thirds) for number in range(7)))
    assert [found[f"x[{number}]"] for number in range(7)] == [
        *({"quick"}, {"slow"}, {"slow"}, set(), {"slow"}, {"slow"}, set())
    ]
