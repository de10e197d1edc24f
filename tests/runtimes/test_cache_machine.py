"""The compile cache against a dictionary, in any order of what two users and a disk do to it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from state_machines import run_machine

from tinyref.runtimes.cache import CompileCache

KEYS = st.sampled_from("abc")
BINARIES = st.binary(min_size=1, max_size=40)


class Caches(RuleBasedStateMachine):
    """Two caches of one folder, as two processes have. stored: what was put last under each key.

    What a damaged entry had may be lost, and is never given in another form.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.caches = [CompileCache(self.folder) for _ in range(2)]
        self.stored: dict[str, bytes] = {}
        self.damaged: set[str] = set()

    def teardown(self) -> None:
        for cache in self.caches:
            cache.close()
        shutil.rmtree(self.folder)

    @rule(which=st.integers(0, 1), key=KEYS, binary=BINARIES)
    def put(self, which: int, key: str, binary: bytes) -> None:
        self.caches[which].put(key, binary)
        self.stored[key] = binary
        self.damaged.discard(key)

    @rule(which=st.integers(0, 1), key=KEYS)
    def get(self, which: int, key: str) -> None:
        found = self.caches[which].get(key)
        if key in self.damaged:
            assert found is None
            del self.stored[key]
            self.damaged.discard(key)
        assert found == self.stored.get(key)

    @rule(which=st.integers(0, 1))
    def close(self, which: int) -> None:
        self.caches[which].close()

    @rule(key=KEYS, binary=BINARIES)
    def damage(self, key: str, binary: bytes) -> None:
        """As a disk does: other bytes under the key."""
        if binary == self.stored.get(key, binary):
            return
        with sqlite3.connect(self.caches[0].path) as connection:
            connection.execute("update programs set binary = ? where key = ?", (binary, key))
        connection.close()
        self.damaged.add(key)

    @rule(key=KEYS, other=KEYS)
    def swap(self, key: str, other: str) -> None:
        """The row of another key, digest and all, in the place of this one."""
        if self.damaged or key == other or not {key, other} <= self.stored.keys():
            return
        with sqlite3.connect(self.caches[0].path) as connection:
            connection.execute("delete from programs where key = ?", (key,))
            connection.execute("update programs set key = ? where key = ?", (key, other))
        connection.close()
        self.damaged.add(key)
        del self.stored[other]

    @invariant()
    def nothing_else_is_there(self) -> None:
        assert {path.name for path in self.folder.iterdir()} <= {
            self.caches[0].path.name + suffix for suffix in ("", "-wal", "-shm")
        }


@pytest.mark.hypothesis
@pytest.mark.long
def test_a_cache_is_a_dictionary_that_may_forget_what_was_damaged() -> None:
    run_machine(Caches, 20, 20)
