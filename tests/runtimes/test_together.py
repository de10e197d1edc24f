"""Sources that are compiled in one call: what the caches take of it, and what a vendor owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.contract import BatchCompiler
from tinyref.errors import BackendError, DeviceError
from tinyref.guarded import guarded_backend
from tinyref.runtimes.cache import cached_binary, compile_anew, compile_together


class UpperCompiler:
    """Upper-cases sources, and notes those that it was called with."""

    key = "upper 1"

    def __init__(self) -> None:
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


class Toy:
    """A backend of nobody, as far as the cache asks one."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler


def toy(compiler: Any) -> Any:
    return Toy(compiler)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    with Context(CACHE_DIR=str(tmp_path)):
        yield
    compile_together(toy(UpperCompiler()), [])


@pytest.mark.parametrize("flag", [0, 1])
def test_what_was_compiled_together_is_not_compiled_again(flag: int) -> None:
    backend = toy(UpperCompiler())
    with Context(CACHE=flag):
        assert compile_together(backend, ["a", "b", "a"]) == 2
        assert [cached_binary(backend, text) for text in ("b", "a")] == [b"B", b"A"]
    assert backend.compiler.calls == [["a", "b"]]


def test_without_a_cache_each_result_is_given_once() -> None:
    backend = toy(UpperCompiler())
    with Context(CACHE=0):
        compile_together(backend, ["a"])
        assert cached_binary(backend, "a") == b"A"
        assert cached_binary(backend, "a") is None


def test_what_the_disk_has_is_not_compiled_together() -> None:
    backend = toy(UpperCompiler())
    compile_anew(backend, "a")
    assert compile_together(backend, ["a", "b"]) == 1
    assert backend.compiler.calls == [["a"], ["b"]]


def test_a_binary_that_is_its_source_says_nothing_of_what_is_compiled() -> None:
    class Same(UpperCompiler):
        def compile(self, source: str) -> bytes:
            super().compile(source)
            return source.encode()

    backend = toy(Same())
    compile_anew(backend, "a")
    assert compile_together(backend, ["a", "b"]) == 2
    assert backend.compiler.calls == [["a"], ["a", "b"]]


def test_a_source_that_does_not_compile_has_its_own_error_when_it_is_asked_for() -> None:
    backend = toy(UpperCompiler())
    assert compile_together(backend, ["a", "an error", "b"]) == 3
    assert cached_binary(backend, "b") == b"B"
    assert cached_binary(backend, "an error") is None
    with pytest.raises(DeviceError, match="syntax error"):
        compile_anew(backend, "an error")


def test_a_compiler_of_single_sources_is_not_called() -> None:
    class Single:
        key = "single 1"

        def compile(self, source: str) -> bytes:
            raise AssertionError("nobody asked for it")

    assert compile_together(toy(Single()), ["a"]) == 0


def _too_few(sources: Sequence[str]) -> Any:
    return [text.encode() for text in sources[1:]]


def _texts(sources: Sequence[str]) -> Any:
    return sources


def _nothing(sources: Sequence[str]) -> Any:
    return None


def _raises(sources: Sequence[str]) -> Any:
    raise KeyError("kernel")


@pytest.mark.parametrize(
    ("many", "words"),
    [
        (_too_few, r"compiler.compile_many: gives \[b'b'\], accepted is 2 results, each bytes or"),
        (_texts, "accepted is 2 results, each bytes or a DeviceError"),
        (_nothing, "compiler.compile_many: gives None, accepted is 2 results"),
        (_raises, "compiler.compile_many: raises KeyError"),
    ],
)
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


def test_a_vendors_compiler_of_single_sources_is_no_batch_compiler() -> None:
    class Single:
        key = "single 1"

        def compile(self, source: str) -> bytes:
            return source.encode()

    backend: Any = guarded_backend("MINE", toy(Single()), Capabilities)
    assert not isinstance(backend.compiler, BatchCompiler)
