"""Which cases of the suite are quick: the mark `sampled` leaves some cases of a test unmarked."""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`sampled(every)`: the first of every `every` cases of a test is quick, the others are slow.

    The whole suite runs all of them. The cases count in the order of their collection, for each
    test function by itself, before `-m` selects.
    """
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        function = item.nodeid.split("[", maxsplit=1)[0]
        (every,) = mark.args
        if seen[function] % every:
            item.add_marker(pytest.mark.slow)
        seen[function] += 1
