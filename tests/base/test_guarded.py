"""Test that the error for an unusable result of a vendor's backend names the vendor."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tinyref.capabilities import Capabilities
from tinyref.errors import BackendError
from tinyref.guarded import guarded_backend


def guarded(**members: object) -> Any:
    return guarded_backend("MINE", SimpleNamespace(**members), Capabilities)


@pytest.mark.table
@pytest.mark.parametrize("text", ["driver \udcff", 7, None])
def test_a_key_that_no_file_can_hold_is_refused(text: object) -> None:
    compiler = guarded(compiler=SimpleNamespace(key=text)).compiler
    with pytest.raises(BackendError, match=r"compiler.key: gives .*, accepted is str") as raised:
        _ = compiler.key
    assert raised.value.member == "compiler.key"


def test_a_source_that_no_file_can_hold_is_refused() -> None:
    renderer = guarded(renderer=SimpleNamespace(render=lambda program: "int \ud800;")).renderer
    with pytest.raises(BackendError, match=r"renderer.render of k: gives 'int \\ud800;'"):
        renderer.render(SimpleNamespace(name="k"))


class Launch:
    def __call__(self) -> None:
        pass

    def rebind(self, place: int, handle: object) -> None:
        pass


class Kernel(Launch):
    def prepare(self, *arguments: object) -> Launch:
        return Launch()


def test_what_a_launch_holds_is_freed_with_it() -> None:
    bound = guarded(load=lambda entry, binary: Kernel()).load("k", b"").prepare([], (), (), [])
    bound.rebind(0, "a handle")
    gone = weakref.ref(bound._inner)
    gc.disable()
    try:
        del bound
        assert gone() is None
    finally:
        gc.enable()


def test_a_member_that_is_missing_is_the_vendors_error() -> None:
    allocator = guarded(allocator=SimpleNamespace(allocate=lambda nbytes: None)).allocator
    assert not hasattr(allocator, "transfer")
    with pytest.raises(BackendError, match=r"allocator\.free: raises AttributeError"):
        allocator.free(3)
    with pytest.raises(
        BackendError, match=r"allocator\.allocate: gives None, accepted is a handle"
    ):
        allocator.allocate(8)


def test_texts_of_any_language_are_taken() -> None:
    assert guarded(compiler=SimpleNamespace(key="Größe 😀")).compiler.key == "Größe 😀"
