"""Run a program as the Tensor calls of its script, in one of several ways.

A way may evaluate kernels instead of compiling them, compute results at once, skip the memory plan,
or skip replays. If two ways differ in one feature and give different values, this feature is to
blame.
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
from tinyref_fuzz.programs.script import ProgramDevices, ScriptLine, script_lines
from tinyref_fuzz.programs.steps import TensorProgram

_FILE = "<program>"
_POISON = 0x5B


@dataclass(frozen=True)
class Way:
    """A way to run a program: `NORMAL` is the usual one, and `PLAIN` turns everything off."""

    at_once: bool = False
    """True to compute each result before the next is built."""
    evaluates: bool = False
    """True to evaluate the schedule's kernels with numpy instead of compiling them."""
    plans_memory: bool = True
    replays: bool = True


NORMAL = Way()
PLAIN = Way(at_once=True, evaluates=True, plans_memory=False, replays=False)


@dataclass(frozen=True)
class ProgramOutcome:
    """The result of a run."""

    reads: tuple[Elements, ...] = ()
    """The reads before an error."""
    error: str = ""
    """The message of the error, if there was one."""
    step: int = -1
    """The number of the step that raised it."""
    refusal: str = ""
    """The text of `REASONS` in the error, if tinyref refused the step."""


def run(program: TensorProgram, devices: ProgramDevices, way: Way = NORMAL) -> ProgramOutcome:
    """Run a program in this process; errors of tinyref are part of the outcome.

    Raises `UserError` for steps that cannot be printed.
    """
    lines = script_lines(program, devices, way.at_once)
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
        for name in devices.names:
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
    """Fill new host memory with a pattern, so that a missing write is wrong in every run."""
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
    is_message = isinstance(error, UserError) and not isinstance(error, DeviceError)
    refusal = next((reason for reason in REASONS if is_message and reason in words), "")
    text = f"{type(error).__name__}: {words}"
    error.__traceback__ = None
    return ProgramOutcome(reads, text, step, refusal)
