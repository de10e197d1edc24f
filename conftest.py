"""The lanes of the suite: `quick`, slow (the thorough lane), and the shards of any of them."""

from __future__ import annotations

import gc
import sys
import zlib
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tinyref.workers.machine import GARBAGE_THRESHOLD
from tinyref_conformance.plan import Shard

# What tests of several rooms build and check, and the browser: importable by their names.
for room in ("tests/graphs", "conformance/tests"):
    sys.path.insert(0, str(Path(__file__).parent / room))

# The same examples in each run; `--hypothesis-profile random` draws fresh ones and keeps failures.
# How soon examples are drawn is no check: a machine may be busy.
TOO_SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=TOO_SLOW
)
settings.register_profile(
    "random",
    # Explicit, because hypothesis draws fixed examples if the variable CI is set.
    derandomize=False,
    deadline=None,
    suppress_health_check=TOO_SLOW,
    print_blob=True,
    database=DirectoryBasedExampleDatabase(Path(__file__).parent / "report" / "hypothesis"),
)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--shard`."""
    parser.addoption(
        "--shard",
        type=Shard.parse,
        help="only part i of n of the tests, such as 3/12: by a hash of their ids",
    )


def shard_number(node_id: str, count: int) -> int:
    """Return which of `count` shards (from 1) has a test: the same on every machine and Python."""
    return zlib.crc32(node_id.encode()) % count + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would walk over all tests many times.

    Collected tests stay to the end, so later collections of garbage skip them too.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GARBAGE_THRESHOLD)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set marks before `-m` selects; cases count in the order of their collection.

    `sampled(every)`: of every `every` cases of a test function, all except the first are slow.
    `quick`: the first case of each function that is neither slow nor `long`, and every case of a
    `table`. Quick tests measure the coverage: the others run the same code on more cases.
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
        is_first = function not in begun or item.get_closest_marker("table") is not None
        if is_first and not takes_long:
            item.add_marker(pytest.mark.quick)
            begun.add(function)
    shard = config.getoption("--shard")
    if shard is not None:
        _keep_shard(config, items, shard)


def _keep_shard(config: pytest.Config, items: list[pytest.Item], shard: Shard) -> None:
    others = [item for item in items if shard_number(item.nodeid, shard.count) != shard.number]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if shard_number(item.nodeid, shard.count) == shard.number]
