"""Run a program, and compare the values of its reads.

Four values are compared, as for kernels: the eager evaluator's, the plain schedule's, the normal
schedule's with evaluated kernels, and the device's. The plain schedule computes results at once by
evaluated kernels, without memory plan and replay.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.device import Device
from tinyref.runtimes.host.memory import HostAllocator
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.oracle import Environment, evaluate
from tinyref_fuzz.programs.refusals import is_foreseen
from tinyref_fuzz.programs.run import NORMAL, PLAIN, ProgramOutcome, Way, run
from tinyref_fuzz.programs.script import ProgramDevices
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.bits import Array
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom
from tinyref_spec.reproducer import wanted_read

# One of this many programs also runs the plain way.
PLAIN_EVERY = 8
# On the reference interpreter, one of this many programs is compiled. The others run with evaluated
# kernels, in half of the time: kernel cases test the interpreter's kernels anyway.
COMPILED_EVERY = 4
# A device whose memory is numpy arrays, as the evaluator of kernels requires.
_HOST = "PYTHON"
EVALUATED = Way(evaluates=True)


class ProgramJudge:
    """Judge of programs on one device. Raises the errors of opening the device."""

    environment = Environment

    def __init__(self, device: str) -> None:
        self.device = device
        self.devices = ProgramDevices.of(device).opened()
        has_memory = all(_is_host(name) for name in self.devices.names)
        # Evaluated kernels need memory that is numpy arrays.
        self.host = self.devices if has_memory else ProgramDevices.of(_HOST).opened()

    def verdict(
        self, program: TensorProgram, thorough: bool = False, evaluates: bool = False
    ) -> KernelVerdict:
        """Return the verdict on a program; `judged` is 0 if the oracle or tinyref refuses it.

        Args:
            thorough: True to run the plain way even if the normal one agrees.
            evaluates: True to evaluate kernels, in half of the time, instead of running them on the
                device.
        """
        expected = expected_reads(program)
        if expected is None:
            return KernelVerdict()
        ways = [EVALUATED if evaluates else NORMAL, *([PLAIN] if thorough else [])]
        for judged, way in enumerate(ways, 1):
            outcome = run(program, self._devices(way), way)
            problem = difference(program, expected, outcome)
            if problem:
                symptom = Symptom.ERROR if outcome.error else Symptom.VALUE
                if not self.fails(program, expected, way):
                    symptom = Symptom.UNSTABLE
                return KernelVerdict(self._pair(program, expected), symptom, problem, judged=judged)
            if outcome.error:
                return KernelVerdict(judged=judged - 1)
        return KernelVerdict(judged=len(ways))

    def fails(self, program: TensorProgram, expected: Sequence[Array], way: Way) -> str:
        """Describe how a program, run in another way, differs from `expected`, or return ""."""
        return difference(program, expected, run(program, self._devices(way), way))

    def _devices(self, way: Way) -> ProgramDevices:
        return self.host if way.evaluates else self.devices

    def _pair(self, program: TensorProgram, expected: Sequence[Array]) -> Pair:
        if self.fails(program, expected, PLAIN):
            return Pair.PLAIN
        return Pair.OPTIMISED if self.fails(program, expected, EVALUATED) else Pair.DEVICE


def default_compiled_every(device: str) -> int:
    """Return the default for `device`: one of this many programs is compiled."""
    return COMPILED_EVERY if Device.canonical(device).partition(":")[0] == _HOST else 1


def _is_host(name: str) -> bool:
    return isinstance(Device[name].allocator, HostAllocator)


def expected_reads(program: TensorProgram) -> list[Array] | None:
    """Return what the oracle reads; None for a program that has no exact result."""
    try:
        return evaluate(program)
    except (InexactError, UndefinedError):
        return None


def difference(program: TensorProgram, expected: Sequence[Array], outcome: ProgramOutcome) -> str:
    """Describe the first read that is wrong, or the error, in one line; "" if all agree.

    A refusal of tinyref is no error if it is foreseeable from the steps of the program.
    """
    numbers = [number for number, step in enumerate(program.steps) if step.op == "read"]
    for number, elements, actual in zip(numbers, expected, outcome.reads, strict=False):
        words = wanted_read(number, elements).problem(actual)
        if words:
            return f"step {number}: t{program.steps[number].args[0]}: {words}"
    if outcome.refusal and is_foreseen(program, outcome.step, outcome.refusal):
        return ""
    if outcome.error:
        op = program.steps[outcome.step].op if outcome.step >= 0 else "end"
        return f"step {outcome.step} ({op}): {outcome.error}"
    if len(outcome.reads) != len(expected):
        return f"{len(outcome.reads)} reads instead of {len(expected)}"
    return ""
