"""The compile cache: shared, bounded, and never the reason for a failure."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from state_machines import run_machine

from tinyref import Tensor
from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.contract import BatchCompiler
from tinyref.device import Device
from tinyref.errors import BackendError, DeviceError
from tinyref.guarded import guarded_backend
from tinyref.runtimes import cache as cache_module
from tinyref.runtimes.cache import (
    CompileCache,
    cache_folder,
    cache_key,
    cached_binary,
    compile_together,
    recompile,
)


class UpperCompiler:
    """Upper-cases sources, and notes those that it was called with."""

    def __init__(self, key: str = "upper 1") -> None:
        self.key = key
        self.calls: list[list[str]] = []

    def compile(self, source: str) -> bytes:
        self.calls.append([source])
        if "error" in source:
            raise DeviceError("TEST", "syntax error", source)
        return source.upper().encode()

    def compile_many(self, sources: Sequence[str]) -> list[bytes | DeviceError]:
        self.calls.append(list(sources))
        return [
            DeviceError("TEST", "no", text) if "error" in text else text.upper().encode()
            for text in sources
        ]


def toy(compiler: Any) -> Any:
    """Return a backend, as far as the cache asks one."""
    return SimpleNamespace(compiler=compiler)


def compile_cached(compiler: UpperCompiler, source: str) -> bytes:
    actual = cached_binary(toy(compiler), source)
    return recompile(toy(compiler), source) if actual is None else actual


def test_the_second_compilation_is_a_fetch(tmp_path: Path) -> None:
    compiler = UpperCompiler()
    with Context(CACHE_DIR=str(tmp_path)):
        assert compile_cached(compiler, "x") == b"X"
        assert compile_cached(compiler, "x") == b"X"
    assert compiler.calls == [["x"]]


def test_the_key_holds_source_and_compiler(tmp_path: Path) -> None:
    toys = [toy(UpperCompiler(key)) for key in ("a", "b")]
    keys = {cache_key(item, source) for item in toys for source in ("x", "y")}
    assert len(keys) == 4


def test_the_key_holds_the_sources_of_a_backend_that_is_worked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without what is remembered of a class.
    monkeypatch.setattr(cache_module, "_sources_of", cache_module._sources_of.__wrapped__)
    mine, ours = toy(UpperCompiler()), Device["PYTHON"]
    before = [cache_key(backend, "x") for backend in (mine, ours)]
    monkeypatch.setattr(cache_module, "source_hash", lambda backend: "another")
    after = [cache_key(backend, "x") for backend in (mine, ours)]
    assert after[0] != before[0]
    # Ours has versions: its sources are not read for each kernel.
    assert after[1] == before[1]


def test_the_cache_flag_turns_it_off(tmp_path: Path) -> None:
    compiler = UpperCompiler()
    with Context(CACHE=0, CACHE_DIR=str(tmp_path / "never")):
        compile_cached(compiler, "x")
        compile_cached(compiler, "x")
    assert len(compiler.calls) == 2
    assert not (tmp_path / "never").exists()


def test_the_longest_unused_entries_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(cache_module.time, "time", lambda: now)
    cache = CompileCache(tmp_path, size_limit=120_000)
    for name in ("old", "used", "young"):
        cache.put(name, bytes(30_000))
        now += 1
    now += cache_module.TOUCH_SECONDS
    assert cache.get("used") is not None
    now += 1
    cache.put("new", bytes(30_000))
    stored = [name for name in ("old", "used", "young", "new") if cache.get(name)]
    assert stored == ["used", "new"]


def torn(content: bytes) -> bytes:
    return b"this was a database once" * 1000


def undecodable(content: bytes) -> bytes:
    """SQLite quotes the torn text, and Python cannot decode that."""
    assert b"CREATE TABLE programs" in content
    return content.replace(b"CREATE TABLE programs", b"CREATE TABL\xff programs")


@pytest.mark.parametrize("damage", [torn, undecodable])
def test_a_torn_file_is_rebuilt_with_one_warning(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    cache.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{cache.path}{suffix}").unlink(missing_ok=True)
    cache.path.write_bytes(damage(cache.path.read_bytes()))
    again = CompileCache(tmp_path)
    with pytest.warns(UserWarning, match="is rebuilt") as caught:
        assert again.get("a") is None
    assert len(caught) == 1
    again.put("a", b"2")
    assert again.get("a") == b"2"


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_folder_that_no_file_system_has_is_not_used(folder: str) -> None:
    cache = CompileCache(Path(folder))
    with pytest.warns(UserWarning, match="is not used"):
        assert cache.get("a") is None
    cache.put("a", b"1")
    with Context(CACHE_DIR=folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (Tensor([1, 2, 3]) + 39).tolist() == [40, 41, 42]


def change(cache: CompileCache, *statements: str) -> None:
    cache.close()
    with contextlib.closing(sqlite3.connect(cache.path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_the_binary_of_another_key_is_not_loaded(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"of a")
    cache.put("b", b"of b")
    change(cache, "DELETE FROM programs WHERE key = 'b'", "UPDATE programs SET key = 'b'")
    assert cache.get("b") is None


@pytest.mark.parametrize(
    ("column", "value"), [("used", "'never'"), ("digest", "7"), ("binary", "'text'")]
)
def test_values_of_another_type_do_not_reach_the_caller(
    tmp_path: Path, column: str, value: str
) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    change(cache, f"UPDATE programs SET {column} = {value}")
    assert cache.get("a") == (b"1" if column == "used" else None)


def test_a_folder_may_begin_with_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Context(CACHE_DIR="~/kernels"):
        assert cache_folder() == tmp_path / "kernels"


def test_a_folder_that_is_a_file_is_bypassed_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    compiler = UpperCompiler()
    with (
        Context(CACHE_DIR=str(tmp_path / "file")),
        pytest.warns(UserWarning, match="is not used") as caught,
    ):
        binaries = [compile_cached(compiler, "x") for _ in range(2)]
    assert binaries == [b"X", b"X"]
    assert len(caught) == 1
    assert len(compiler.calls) == 2


def untrusted(folder: Path, says: str) -> None:
    """Refuse the cache in the folder, with one warning."""
    cache = CompileCache(folder)
    with pytest.warns(UserWarning, match=f"is not used: .*{says}"):
        cache.put("a", b"2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get("a") is None


@pytest.mark.parametrize(
    ("suffix", "mode"),
    [
        *[(None, mode) for mode in (0o777, 0o1777, 0o770, 0o702)],
        ("", 0o666),
        ("-wal", 0o666),
    ],
)
def test_what_others_may_write_is_not_used(tmp_path: Path, suffix: str | None, mode: int) -> None:
    """Test the folder itself, and a file in it."""
    folder = tmp_path / "open"
    cache = CompileCache(folder)
    cache.put("a", b"1")
    path = folder if suffix is None else Path(f"{cache.path}{suffix}")
    before = path.stat().st_mode & 0o777
    path.chmod(mode)
    untrusted(folder, f"{path.name} may be written by others: chmod go-w")
    path.chmod(before)
    assert CompileCache(folder).get("a") == b"1"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    quiet = CompileCache(real)
    quiet.put("a", b"1")
    quiet.close()
    (tmp_path / "link").symlink_to(real)
    untrusted(tmp_path / "link", "link is a symbolic link")
    other = tmp_path / "other"
    other.mkdir()
    CompileCache(other).path.symlink_to(quiet.path)
    untrusted(other, "is a symbolic link")
    dangling = tmp_path / "dangling"
    dangling.mkdir()
    CompileCache(dangling).path.symlink_to(tmp_path / "elsewhere")
    untrusted(dangling, "is a symbolic link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_another_user_owns_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    cache.close()
    if os.geteuid() == 0:
        os.chown(tmp_path if which == "folder" else cache.path, 12345, -1)
    else:
        me = os.geteuid()
        monkeypatch.setattr(cache_module.os, "geteuid", lambda: me + 1)
    untrusted(tmp_path, "belongs to another user")
    if os.geteuid() == 0:
        os.chown(tmp_path, 0, -1)


def test_what_the_cache_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        cache = CompileCache(tmp_path / "new")
        cache.put("a", b"1")
        made = [tmp_path / "new", *(tmp_path / "new").iterdir()]
        assert len(made) >= 3
        assert {path.stat().st_mode & 0o777 for path in made} == {0o700, 0o600}
        cache.close()
        assert CompileCache(tmp_path / "new").get("a") == b"1"
    finally:
        os.umask(before)


def test_a_full_disk_is_bypassed(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    assert cache._connection is not None
    cache._connection.execute("PRAGMA max_page_count = 9")
    with pytest.warns(UserWarning, match="full"):
        cache.put("b", bytes(1 << 18))
    cache.put("c", b"2")


def test_a_lock_that_another_holds_is_waited_for_then_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "LOCK_SECONDS", 0.05)
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    holder = sqlite3.connect(cache.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    cache.put("b", b"2")
    assert cache.get("a") == b"1"
    holder.execute("ROLLBACK")
    holder.close()
    cache.put("b", b"3")
    assert cache.get("b") == b"3"


def test_a_forked_child_opens_the_file_itself(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.put("a", b"1")
    with warnings.catch_warnings():
        # Python warns of forking with threads; the child does nothing but look and leave.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        actual = cache.get("a") == b"1"
        cache.put("child", b"2")
        os._exit(0 if actual else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get("child") == b"2"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_forked_while_a_thread_uses_the_cache_has_its_own(tmp_path: Path) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with cache_module.default_cache()._lock:
            held.set()
            done.wait()

    with Context(CACHE_DIR=str(tmp_path)):
        cache_module.default_cache().put("a", b"1")
        holder = threading.Thread(target=hold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            holder.start()
            held.wait()
            child = os.fork()
        if child == 0:
            signal.alarm(10)
            actual = cache_module.default_cache().get("a")
            os._exit(0 if actual == b"1" else 1)
        done.set()
        holder.join()
        assert os.waitpid(child, 0) == (child, 0)
        assert cache_module.default_cache().get("a") == b"1"


# --- a cache against a dictionary -----------------------------------------------------------------

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
        actual = self.caches[which].get(key)
        if key in self.damaged:
            assert actual is None
            del self.stored[key]
            self.damaged.discard(key)
        assert actual == self.stored.get(key)

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

    @invariant()
    def nothing_else_is_there(self) -> None:
        assert {path.name for path in self.folder.iterdir()} <= {
            self.caches[0].path.name + suffix for suffix in ("", "-wal", "-shm")
        }


@pytest.mark.hypothesis
@pytest.mark.long
def test_a_cache_is_a_dictionary_that_may_forget_what_was_damaged() -> None:
    run_machine(Caches, 20, 20)


# --- sources that are compiled in one call --------------------------------------------------------


@pytest.fixture
def together(tmp_path: Path) -> Iterator[None]:
    with Context(CACHE_DIR=str(tmp_path)):
        yield
    compile_together(toy(UpperCompiler()), [])


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.usefixtures("together")
def test_what_was_compiled_together_is_not_compiled_again(flag: int) -> None:
    backend = toy(UpperCompiler())
    with Context(CACHE=flag):
        assert compile_together(backend, ["a", "b", "a"]) == 2
        assert [cached_binary(backend, text) for text in ("b", "a")] == [b"B", b"A"]
    assert backend.compiler.calls == [["a", "b"]]


@pytest.mark.usefixtures("together")
def test_without_a_cache_each_result_is_given_once() -> None:
    backend = toy(UpperCompiler())
    with Context(CACHE=0):
        compile_together(backend, ["a"])
        assert cached_binary(backend, "a") == b"A"
        assert cached_binary(backend, "a") is None


@pytest.mark.usefixtures("together")
def test_what_the_disk_has_is_not_compiled_together() -> None:
    backend = toy(UpperCompiler())
    recompile(backend, "a")
    assert compile_together(backend, ["a", "b"]) == 1
    assert backend.compiler.calls == [["a"], ["b"]]


@pytest.mark.usefixtures("together")
def test_a_binary_that_is_its_source_says_nothing_of_what_is_compiled() -> None:
    class Same(UpperCompiler):
        def compile(self, source: str) -> bytes:
            super().compile(source)
            return source.encode()

    backend = toy(Same())
    recompile(backend, "a")
    assert compile_together(backend, ["a", "b"]) == 2
    assert backend.compiler.calls == [["a"], ["a", "b"]]


@pytest.mark.usefixtures("together")
def test_a_source_that_does_not_compile_has_its_own_error_when_it_is_asked_for() -> None:
    backend = toy(UpperCompiler())
    assert compile_together(backend, ["a", "an error", "b"]) == 3
    assert cached_binary(backend, "b") == b"B"
    assert cached_binary(backend, "an error") is None
    with pytest.raises(DeviceError, match="syntax error"):
        recompile(backend, "an error")


@pytest.mark.usefixtures("together")
def test_a_compiler_of_single_sources_is_not_called() -> None:
    class Single:
        key = "single 1"

        def compile(self, source: str) -> bytes:
            raise AssertionError("nobody asked for it")

    assert compile_together(toy(Single()), ["a"]) == 0
    vendors: Any = guarded_backend("MINE", toy(Single()), Capabilities)
    assert not isinstance(vendors.compiler, BatchCompiler)


def _raises(sources: Sequence[str]) -> Any:
    raise KeyError("kernel")


@pytest.mark.parametrize(
    ("many", "words"),
    [
        (
            lambda sources: [b"b"],
            r"compiler.compile_many: gives \[b'b'\], accepted is 2 results, each bytes or",
        ),
        (list, "accepted is 2 results, each bytes or a DeviceError"),
        (lambda sources: None, "compiler.compile_many: gives None, accepted is 2 results"),
        (_raises, "compiler.compile_many: raises KeyError"),
    ],
)
@pytest.mark.usefixtures("together")
def test_what_a_vendors_compiler_gives_wrongly_is_named_as_theirs(
    many: Callable[[Sequence[str]], Any], words: str
) -> None:
    class Vendors(UpperCompiler):
        def compile_many(self, sources: Sequence[str]) -> Any:
            return many(sources)

    backend: Any = guarded_backend("MINE", toy(Vendors()), Capabilities)
    assert isinstance(backend.compiler, BatchCompiler)
    with pytest.raises(BackendError, match=words):
        compile_together(backend, ["a", "b"])
