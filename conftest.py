"""Helpers that all tests share; which cases are slow, by the mark `sampled`, and which `quick`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

# What tests of several rooms build and check: importable by their names.
sys.path.insert(0, str(Path(__file__).parent / "tests" / "graphs"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sets marks before `-m` selects; cases count in the order of their collection.

    `sampled(every)`: but for the first of every `every` cases of a test function, they are slow.
    `quick`: the first case of each function that is neither slow nor `long`.
    """
    seen: Counter[str] = Counter()
    begun: set[str] = set()
    for item in items:
        function = item.nodeid.split("[", maxsplit=1)[0]
        mark = item.get_closest_marker("sampled")
        if mark is not None:
            (every,) = mark.args
            if seen[function] % every:
                item.add_marker(pytest.mark.slow)
            seen[function] += 1
        takes_long = any(item.get_closest_marker(name) for name in ("slow", "long"))
        if function not in begun and not takes_long:
            item.add_marker(pytest.mark.quick)
            begun.add(function)
