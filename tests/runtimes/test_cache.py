"""The compile cache: shared, bounded, and never the reason for a failure."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from tinyref import Tensor
from tinyref.config import Context
from tinyref.errors import DeviceError
from tinyref.runtimes import cache as cache_module
from tinyref.runtimes.cache import (
    CompileCache,
    cache_folder,
    cache_key,
    cached_binary,
    compile_anew,
)


class CountingCompiler:
    """Upper-cases the source, and counts how often it had to."""

    def __init__(self, key: str = "compiler 1") -> None:
        self.key = key
        self.runs = 0

    def compile(self, source: str) -> bytes:
        self.runs += 1
        if "error" in source:
            raise DeviceError("TEST", "syntax error", source)
        return source.upper().encode()


class Toy:
    """A backend of nobody, as far as the cache asks one."""

    def __init__(self, compiler: CountingCompiler) -> None:
        self.compiler = compiler


def compile_cached(compiler: CountingCompiler, source: str) -> bytes:
    toy: Any = Toy(compiler)
    found = cached_binary(toy, source)
    return compile_anew(toy, source) if found is None else found


def quiet_cache(folder: Path, size_limit: int = 1 << 20) -> CompileCache:
    return CompileCache(folder, size_limit)


def test_a_binary_comes_back(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    assert cache.get("a") is None
    cache.put("a", b"\x00binary")
    assert cache.get("a") == b"\x00binary"
    cache.close()
    assert quiet_cache(tmp_path).get("a") == b"\x00binary"


def test_the_second_compilation_is_a_fetch(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    with Context(CACHE_DIR=str(tmp_path)):
        assert compile_cached(compiler, "x") == b"X"
        assert compile_cached(compiler, "x") == b"X"
    assert compiler.runs == 1


def test_the_key_holds_source_and_compiler(tmp_path: Path) -> None:
    toys: list[Any] = [Toy(CountingCompiler(key)) for key in ("a", "b")]
    keys = {cache_key(toy, source) for toy in toys for source in ("x", "y")}
    assert len(keys) == 4


MINE = """
from tinyref.runtimes.python import TextBackend
from my_kernels import WORD
class Mine(TextBackend):
    pass
"""


@pytest.mark.long
def test_the_key_holds_the_sources_of_a_backend_that_is_worked_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    keys = []
    for word in ("one", "two", "two"):
        (tmp_path / "my_kernels.py").write_text(f"WORD = {word!r}\n")
        script = (
            "from tinyref.device import Device\n"
            "from tinyref.runtimes.cache import cache_key\n"
            "print(cache_key(Device['mine:Mine'], 'x'), cache_key(Device['PYTHON'], 'x'))\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        keys.append(done.stdout.split())
    (first, ours), *others = keys
    assert others[0] == others[1]
    assert others[0][0] != first
    # Ours has versions: its sources are not read for each kernel.
    assert {each[1] for each in keys} == {ours}


def test_the_cache_flag_turns_it_off(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    with Context(CACHE=0, CACHE_DIR=str(tmp_path / "never")):
        compile_cached(compiler, "x")
        compile_cached(compiler, "x")
    assert compiler.runs == 2
    assert not (tmp_path / "never").exists()


def test_an_error_is_not_kept(tmp_path: Path) -> None:
    compiler = CountingCompiler()
    with Context(CACHE_DIR=str(tmp_path)):
        for _ in range(2):
            with pytest.raises(DeviceError, match="syntax error"):
                compile_cached(compiler, "error")
    assert compiler.runs == 2


def test_the_folder_defaults_to_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYREF_CACHE_DIR")
    assert "tinyref" in str(cache_folder())


def test_the_longest_unused_entries_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(cache_module.time, "time", lambda: now)
    cache = quiet_cache(tmp_path, size_limit=120_000)
    for name in ("old", "used", "young"):
        cache.put(name, bytes(30_000))
        now += 1
    now += cache_module.TOUCH_SECONDS
    assert cache.get("used") is not None
    now += 1
    cache.put("new", bytes(30_000))
    kept = [name for name in ("old", "used", "young", "new") if cache.get(name)]
    assert kept == ["used", "new"]


def test_a_torn_file_is_rebuilt_with_one_warning(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    cache.put("a", b"1")
    cache.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{cache.path}{suffix}").unlink(missing_ok=True)
    cache.path.write_bytes(b"this was a database once" * 1000)
    again = quiet_cache(tmp_path)
    with pytest.warns(UserWarning, match="is rebuilt") as caught:
        assert again.get("a") is None
    assert len(caught) == 1
    again.put("a", b"2")
    assert again.get("a") == b"2"


def test_a_file_torn_in_the_middle_is_rebuilt(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    for number in range(50):
        cache.put(str(number), bytes(4000))
    cache.close()
    content = bytearray(cache.path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    cache.path.write_bytes(bytes(content))
    again = quiet_cache(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(50):
            assert again.get(str(number)) in (None, bytes(4000))
        again.put("new", b"1")
    assert again.get("new") == b"1"


def test_a_file_of_which_the_error_is_no_text_is_rebuilt(tmp_path: Path) -> None:
    """SQLite quotes the torn text, and Python cannot decode that."""
    cache = quiet_cache(tmp_path)
    cache.put("a", b"1")
    cache.close()
    content = cache.path.read_bytes()
    assert b"CREATE TABLE programs" in content
    cache.path.write_bytes(content.replace(b"CREATE TABLE programs", b"CREATE TABL\xff programs"))
    again = quiet_cache(tmp_path)
    with pytest.warns(UserWarning, match="is rebuilt"):
        assert again.get("a") is None
    again.put("a", b"2")
    assert again.get("a") == b"2"


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_folder_that_no_file_system_has_is_not_used(folder: str) -> None:
    cache = quiet_cache(Path(folder))
    with pytest.warns(UserWarning, match="is not used"):
        assert cache.get("a") is None
    cache.put("a", b"1")
    with Context(CACHE_DIR=folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (Tensor([1, 2, 3]) + 39).tolist() == [40, 41, 42]


def test_a_torn_binary_is_not_loaded(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    cache.put("a", b"good")
    cache.close()
    with sqlite3.connect(cache.path) as connection:
        connection.execute("UPDATE programs SET binary = ?", (b"evil",))
    connection.close()
    assert quiet_cache(tmp_path).get("a") is None


def change(cache: CompileCache, statement: str) -> None:
    cache.close()
    with sqlite3.connect(cache.path) as connection:
        connection.execute(statement)
    connection.close()


def test_the_binary_of_another_key_is_not_loaded(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    cache.put("a", b"of a")
    cache.put("b", b"of b")
    change(cache, "DELETE FROM programs WHERE key = 'b'")
    change(cache, "UPDATE programs SET key = 'b'")
    assert cache.get("b") is None


@pytest.mark.parametrize(
    ("column", "value"), [("used", "'never'"), ("digest", "7"), ("binary", "'text'")]
)
def test_values_of_another_type_do_not_reach_the_caller(
    tmp_path: Path, column: str, value: str
) -> None:
    cache = quiet_cache(tmp_path)
    cache.put("a", b"1")
    change(cache, f"UPDATE programs SET {column} = {value}")
    assert cache.get("a") == (b"1" if column == "used" else None)


def test_a_folder_may_begin_with_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Context(CACHE_DIR="~/kernels"):
        assert cache_folder() == tmp_path / "kernels"


def test_a_table_of_another_shape_is_rebuilt_or_bypassed(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
    with sqlite3.connect(cache.path) as connection:
        connection.execute("CREATE TABLE programs (something INTEGER)")
    connection.close()
    with pytest.warns(UserWarning, match="compile cache"):
        cache.put("a", b"1")
    assert cache.get("a") in (None, b"1")


def test_a_folder_that_is_a_file_is_bypassed_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    compiler = CountingCompiler()
    with (
        Context(CACHE_DIR=str(tmp_path / "file")),
        pytest.warns(UserWarning, match="is not used") as caught,
    ):
        binaries = [compile_cached(compiler, "x") for _ in range(2)]
    assert binaries == [b"X", b"X"]
    assert len(caught) == 1
    assert compiler.runs == 2


def test_a_read_only_file_is_bypassed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The super-user may write anywhere, so the refusal of the system is played.
    def refuse(*arguments: object) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(cache_module, "_insert", refuse)
    cache = quiet_cache(tmp_path)
    with pytest.warns(UserWarning, match="readonly"):
        cache.put("a", b"1")
    assert cache.get("a") is None


def test_a_read_only_folder_is_bypassed(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write to read-only folders")
        with pytest.warns(UserWarning, match="is not used"):
            quiet_cache(folder).put("a", b"1")
    finally:
        folder.chmod(0o700)


def untrusted(folder: Path, says: str) -> None:
    """The cache in the folder is not used, and says so once."""
    cache = quiet_cache(folder)
    with pytest.warns(UserWarning, match=f"is not used: .*{says}"):
        cache.put("a", b"2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get("a") is None


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    quiet_cache(folder).put("a", b"1")
    folder.chmod(mode)
    untrusted(folder, "open may be written by others: chmod go-w")
    folder.chmod(0o755)
    assert quiet_cache(folder).get("a") == b"1"


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_file_that_others_may_write_is_not_used(tmp_path: Path, suffix: str) -> None:
    cache = quiet_cache(tmp_path)
    cache.put("a", b"1")
    path = Path(f"{cache.path}{suffix}")
    path.chmod(0o666)
    untrusted(tmp_path, "may be written by others")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    quiet = quiet_cache(real)
    quiet.put("a", b"1")
    quiet.close()
    (tmp_path / "link").symlink_to(real)
    untrusted(tmp_path / "link", "link is a symbolic link")
    other = tmp_path / "other"
    other.mkdir()
    quiet_cache(other).path.symlink_to(quiet.path)
    untrusted(other, "is a symbolic link")
    dangling = tmp_path / "dangling"
    dangling.mkdir()
    quiet_cache(dangling).path.symlink_to(tmp_path / "elsewhere")
    untrusted(dangling, "is a symbolic link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_another_user_owns_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    cache = quiet_cache(tmp_path)
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
        cache = quiet_cache(tmp_path / "new")
        cache.put("a", b"1")
        made = [tmp_path / "new", *(tmp_path / "new").iterdir()]
        assert len(made) >= 3
        assert {path.stat().st_mode & 0o777 for path in made} == {0o700, 0o600}
        cache.close()
        assert quiet_cache(tmp_path / "new").get("a") == b"1"
    finally:
        os.umask(before)


def test_a_full_disk_is_bypassed(tmp_path: Path) -> None:
    cache = quiet_cache(tmp_path)
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
    cache = quiet_cache(tmp_path)
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
    cache = quiet_cache(tmp_path)
    cache.put("a", b"1")
    with warnings.catch_warnings():
        # Python warns of forking with threads; the child does nothing but look and leave.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        found = cache.get("a") == b"1"
        cache.put("child", b"2")
        os._exit(0 if found else 1)
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
            found = cache_module.default_cache().get("a")
            os._exit(0 if found == b"1" else 1)
        done.set()
        holder.join()
        assert os.waitpid(child, 0) == (child, 0)
        assert cache_module.default_cache().get("a") == b"1"


WORKER = """
import sys, warnings
from pathlib import Path
from typing import Any
from tinyref.runtimes.cache import CompileCache
warnings.simplefilter("error")
cache = CompileCache(Path(sys.argv[1]))
for number in range(60):
    cache.put(f"{sys.argv[2]} {number}", bytes([number]) * 500)
    cache.put(f"shared {number}", bytes([number]) * 500)
    assert cache.get(f"shared {number}") == bytes([number]) * 500
"""


@pytest.mark.slow
def test_many_processes_share_one_file(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(number)])
        for number in range(4)
    ]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0, 0]
    cache = quiet_cache(tmp_path)
    for worker in range(4):
        assert all(cache.get(f"{worker} {number}") for number in range(60))


@pytest.mark.slow
def test_many_processes_meet_a_torn_file(tmp_path: Path) -> None:
    torn = quiet_cache(tmp_path).path
    torn.write_bytes(b"torn" * 5000)
    calm = WORKER.replace('"error"', '"ignore"').replace("    assert", "    #")
    workers = [
        subprocess.Popen([sys.executable, "-c", calm, str(tmp_path), str(number)])
        for number in range(4)
    ]
    assert [worker.wait(timeout=60) for worker in workers] == [0, 0, 0, 0]
