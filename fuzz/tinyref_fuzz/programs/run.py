"""Runs a program as the Tensor calls that its script has, in one of several ways.

The ways differ in what is switched off: kernels may be evaluated as the schedule has them instead
of compiled, results computed at once, memory not planned, captured functions not replayed. Two ways
that differ in one switch and give other values blame what the switch is of.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinyref import Tensor, TinyJit, Variable
from tinyref.config import Context
from tinyref.contract import Allocator
from tinyref.device import Device
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.host.memory import HostAllocator, HostHandle
from tinyref.runtimes.kernel import making_kernels
from tinyref_fuzz.programs.arithmetic import Elements
from tinyref_fuzz.programs.evaluated import evaluated_kernel
from tinyref_fuzz.programs.refusals import REASONS
from tinyref_fuzz.programs.script import Places, ScriptLine, script_lines
from tinyref_fuzz.programs.steps import TensorProgram

_FILE = "<program>"
_POISON = 0x5B


@dataclass(frozen=True)
class Way:
    """How a program is run: `NORMAL` is what everybody does, `PLAIN` has everything switched off.

    at_once: each result is computed before the next is built. evaluates: kernels are evaluated with
    numpy, as the schedule has them; nothing is compiled.
    """

    at_once: bool = False
    evaluates: bool = False
    plans_memory: bool = True
    replays: bool = True


NORMAL = Way()
PLAIN = Way(at_once=True, evaluates=True, plans_memory=False, replays=False)


@dataclass(frozen=True)
class ProgramOutcome:
    """What a run gave.

    reads: what was read, up to an error. error: its words, empty where there was none. step: the
    number of the step that raised it. refusal: a text of `REASONS`, where it says that tinyref does
    not do this.
    """

    reads: tuple[Elements, ...] = ()
    error: str = ""
    step: int = -1
    refusal: str = ""


def run(program: TensorProgram, places: Places, way: Way = NORMAL) -> ProgramOutcome:
    """Runs a program in this process, where errors that tinyref raises are part of the outcome.

    Raises `UserError` for steps that cannot be printed.
    """
    lines = script_lines(program, places, way.at_once)
    code = compile("\n".join(line.text for line in lines), _FILE, "exec", dont_inherit=True)
    reads: list[Elements] = []

    names: dict[str, Any] = {
        "np": np,
        "Tensor": Tensor,
        "TinyJit": TinyJit,
        "Variable": Variable,
        "check": lambda tensor: reads.append(np.array(tensor.numpy())),
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(Context(MEMORY_PLAN=int(way.plans_memory), JIT=int(way.replays)))
        for name in places.names:
            stack.enter_context(_poisoned(Device[name].allocator))
        if way.evaluates:
            stack.enter_context(making_kernels(evaluated_kernel))
        try:
            exec(code, names)
        except Exception as error:
            return _failed(error, tuple(reads), lines)
        return ProgramOutcome(tuple(reads))


@contextlib.contextmanager
def _poisoned(allocator: Allocator) -> Iterator[None]:
    """Fresh memory of the host holds a pattern, so that what nobody wrote is wrong in each run."""
    if not isinstance(allocator, HostAllocator):
        yield
        return
    allocate = allocator.allocate

    def filled(nbytes: int) -> HostHandle:
        memory = allocate(nbytes)
        memory.fill(_POISON)
        return memory

    vars(allocator)["allocate"] = filled
    try:
        yield
    finally:
        vars(allocator).pop("allocate", None)


def _failed(
    error: Exception, reads: tuple[Elements, ...], lines: list[ScriptLine]
) -> ProgramOutcome:
    frames = traceback.extract_tb(error.__traceback__)
    numbers = [frame.lineno for frame in frames if frame.filename == _FILE and frame.lineno]
    step = lines[numbers[0] - 1].step if numbers else -1
    words = str(error).partition("\n")[0]
    is_said = isinstance(error, UserError) and not isinstance(error, DeviceError)
    refusal = next((each for each in REASONS if is_said and each in words), "")
    text = f"{type(error).__name__}: {words}"
    error.__traceback__ = None
    return ProgramOutcome(reads, text, step, refusal)
