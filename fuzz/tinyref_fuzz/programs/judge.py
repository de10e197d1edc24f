"""Runs a program and says between which of its values the first difference is.

The values are those of kernels, one floor higher: what the eager evaluator gives, the plain
schedule (results computed at once by evaluated kernels, no memory plan, no replay), the schedule as
everybody has it (by evaluated kernels), and the device.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.device import Device
from tinyref.runtimes.host.memory import HostAllocator
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.oracle import Environment, evaluate
from tinyref_fuzz.programs.refusals import is_foreseen
from tinyref_fuzz.programs.run import NORMAL, PLAIN, ProgramOutcome, Way, run
from tinyref_fuzz.programs.script import Places
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.bits import Array
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom
from tinyref_spec.reproducer import wanted_read

# Besides the normal way every so manieth program is run the plain way too.
PLAIN_EVERY = 8
# On the reference interpreter, which kernels are fuzzed with, every so manieth program is compiled;
# the others are about what is around kernels, and are run with evaluated ones in half the time.
COMPILED_EVERY = 4
# Numpy arrays: what the evaluator of kernels works on.
_HOST = "PYTHON"
EVALUATED = Way(evaluates=True)


class ProgramJudge:
    """Judges programs on one device. Raises what opening the device raises."""

    environment = Environment

    def __init__(self, device: str) -> None:
        self.device = device
        self.places = Places.of(device).opened()
        has_memory = all(_is_host(name) for name in self.places.names)
        # Where kernels are evaluated, memory has to be arrays.
        self.host = self.places if has_memory else Places.of(_HOST).opened()

    def verdict(
        self, program: TensorProgram, thorough: bool = False, evaluates: bool = False
    ) -> KernelVerdict:
        """What a program does; `judged` is 0 of one that the oracle or tinyref refuses.

        thorough: the plain way is run even where the normal one agrees. evaluates: kernels are
        evaluated, in half the time, instead of run on the device.
        """
        wanted = wanted_reads(program)
        if wanted is None:
            return KernelVerdict()
        ways = [EVALUATED if evaluates else NORMAL, *([PLAIN] if thorough else [])]
        for judged, way in enumerate(ways, 1):
            outcome = run(program, self._places(way), way)
            problem = difference(program, wanted, outcome)
            if problem:
                symptom = Symptom.ERROR if outcome.error else Symptom.VALUE
                if not self.fails(program, wanted, way):
                    symptom = Symptom.UNSTABLE
                return KernelVerdict(self._pair(program, wanted), symptom, problem, judged=judged)
            if outcome.error:
                return KernelVerdict(judged=judged - 1)
        return KernelVerdict(judged=len(ways))

    def fails(self, program: TensorProgram, wanted: Sequence[Array], way: Way) -> str:
        """How a program, run in another way, differs from what is wanted; empty if it does not."""
        return difference(program, wanted, run(program, self._places(way), way))

    def _places(self, way: Way) -> Places:
        return self.host if way.evaluates else self.places

    def _pair(self, program: TensorProgram, wanted: Sequence[Array]) -> Pair:
        if self.fails(program, wanted, PLAIN):
            return Pair.PLAIN
        return Pair.OPTIMISED if self.fails(program, wanted, EVALUATED) else Pair.DEVICE


def default_compiled_every(device: str) -> int:
    """Of how many programs one is compiled for `device`, where nobody says."""
    return COMPILED_EVERY if Device.canonical(device).partition(":")[0] == _HOST else 1


def _is_host(name: str) -> bool:
    return isinstance(Device[name].allocator, HostAllocator)


def wanted_reads(program: TensorProgram) -> list[Array] | None:
    """What the oracle reads; None for a program that has no exact result."""
    try:
        return evaluate(program)
    except (InexactError, UndefinedError):
        return None


def difference(program: TensorProgram, wanted: Sequence[Array], found: ProgramOutcome) -> str:
    """The first read that is not as wanted, or the error, in one line; empty where all agree.

    That tinyref does not do this is no error where the steps of the program let one expect it.
    """
    numbers = [number for number, step in enumerate(program.steps) if step.op == "read"]
    for number, want, got in zip(numbers, wanted, found.reads, strict=False):
        words = wanted_read(number, want).problem(got)
        if words:
            return f"step {number}: t{program.steps[number].args[0]}: {words}"
    if found.refusal and is_foreseen(program, found.step, found.refusal):
        return ""
    if found.error:
        op = program.steps[found.step].op if found.step >= 0 else "end"
        return f"step {found.step} ({op}): {found.error}"
    if len(found.reads) != len(wanted):
        return f"{len(found.reads)} reads instead of {len(wanted)}"
    return ""
