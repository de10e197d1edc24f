"""Programs on disk: equal to what lowering gives, for these arguments only, and only if asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tinyref.algebra.rewrite import listening
from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.optimise.opt import Opt, OptOp
from tinyref.runtimes import stored_programs
from tinyref.runtimes.cache import default_cache
from tinyref.runtimes.stored_programs import store_programs, stored_program
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.named import reduction

AST = reduction(Ops.ADD, dtypes.float32, (8, 16), 1)
WRONG = Program("wrong", (), ())


@pytest.fixture
def storing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store programs in a folder of the test."""
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(stored_programs, "_storing", threading.Event())
    store_programs()


def never() -> Program:
    raise AssertionError("it is lowered again")


def capabilities(device: str = "CPU") -> Capabilities:
    return Device[device].capabilities


def stored(
    lower: Callable[[], Program],
    declared: Capabilities | None = None,
    opts: tuple[Opt, ...] | None = None,
    flags: int = 0,
) -> Program:
    return stored_program(AST, declared or capabilities(), opts, flags, lower)


@pytest.mark.usefixtures("storing")
@pytest.mark.parametrize("device", ["CPU", "GPU_EMU"])
def test_every_kernel_of_the_corpus_comes_back_equal(device: str) -> None:
    declared = capabilities(device)
    for kernel in corpus_kernels().values():
        program = compile_kernel(kernel.ast, declared)
        arguments = kernel.ast, declared, None, 0
        assert stored_program(*arguments, lambda program=program: program) is program
        assert stored_program(*arguments, never) == program


@pytest.mark.usefixtures("storing")
def test_other_arguments_are_lowered_for_themselves() -> None:
    stored(lambda: WRONG)
    opts = (Opt(OptOp.UPCAST, 0, 4),)
    narrow = replace(capabilities(), vector_lanes=(1,))
    program = compile_kernel(AST, capabilities())
    assert stored(never) == WRONG
    assert stored(lambda: program, opts=opts) is program
    assert stored(lambda: program, narrow) is program
    assert stored(lambda: program, flags=1) is program
    with Context(VERIFY=0):
        assert stored(lambda: program) is program


@pytest.mark.usefixtures("storing")
def test_a_lowering_that_somebody_watches_takes_place() -> None:
    stored(lambda: WRONG)
    program = compile_kernel(AST, capabilities())
    with listening(stages=lambda *stage: None):
        assert stored(lambda: program) is program
    with Context(CHECK_BOUNDS=1):
        assert stored(lambda: program) is program
    with Context(CACHE=0):
        assert stored(lambda: program) is program


@pytest.mark.usefixtures("storing")
@pytest.mark.parametrize("text", ["", "damaged"])
def test_what_cannot_be_read_is_lowered_again(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_programs, "program_to_text", lambda program: text)
    stored(lambda: WRONG)
    program = compile_kernel(AST, capabilities())
    assert stored(lambda: program) is program


def test_nothing_is_stored_unless_the_process_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYREF_CACHE_DIR", str(tmp_path))
    program = compile_kernel(AST, capabilities())
    assert stored(lambda: WRONG) is WRONG
    assert stored(lambda: program) is program
    assert not default_cache().path.exists()
