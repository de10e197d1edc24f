"""What is done with a program that differs: reduce it, blame a stage, name its bucket."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.errors import explain_error
from tinyref_fuzz.programs.arithmetic import VIEWS
from tinyref_fuzz.programs.blame import blame
from tinyref_fuzz.programs.judge import ProgramJudge, wanted_reads
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.script import Places, script_lines
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_fuzz.reduce.fault import error_words
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom
from tinyref_spec.reproducer import program_script

# The stage that a pair of values is about, where nothing more can be said.
STAGE_OF = {Pair.PLAIN: "graph", Pair.OPTIMISED: "schedule", Pair.DEVICE: "kernel"}
# What every program has: they say nothing of a cause.
_SILENT = frozenset({"data", "read", "seed", "bind", "realize", "drop"})


@dataclass(frozen=True)
class ProgramFinding:
    """A program that fails, reduced and blamed. problem: why it could not be, empty if it could."""

    program: TensorProgram
    verdict: KernelVerdict
    blame: Blame
    problem: str = ""

    @property
    def bucket(self) -> str:
        """The key under which findings of one cause meet: stage and cause, or how they show.

        For an error its words; for a wrong value in a graph the operations that are left.
        """
        stage = self.blame.stage
        if self.blame.cause:
            return f"{stage}/{self.blame.cause}"
        if self.verdict.symptom is Symptom.ERROR:
            return f"{stage} error {{{error_words(self.verdict.detail)}}}"
        if stage != "graph":
            return stage
        ops = {"view" if step.op in VIEWS else step.op for step in self.program.all_steps()}
        return f"{stage} {{{' '.join(sorted(ops - _SILENT))}}}"


def examine_program(
    judge: ProgramJudge, program: TensorProgram, verdict: KernelVerdict, seconds: float = 10.0
) -> ProgramFinding:
    """The finding that a program with its verdict is. Whatever fails is said as its problem."""
    problem = ""
    # One that only the plain way shows is looked for there.
    is_plain = verdict.judged > 1
    try:
        reduced = reduce_program(
            program, verdict, lambda each: judge.verdict(each, is_plain), seconds
        )
    except Exception as error:  # a bug of the reducer must not hide the finding
        reduced, problem = (program, verdict), f"not reduced: {explain_error(error)}"
    program, verdict = reduced
    try:
        found = blame(judge, program, verdict)
    except Exception as error:
        found, problem = blame_of_pair(verdict), f"not blamed: {explain_error(error)}"
    return ProgramFinding(program, verdict, found, problem)


def blame_of_pair(verdict: KernelVerdict) -> Blame:
    """The stage that the pair of values is about, without a look at the program."""
    return Blame(STAGE_OF.get(verdict.pair, "") if verdict.pair is not None else "")


def script_of(program: TensorProgram, device: str) -> str:
    """The program as a script that fails where a read is not what the oracle says."""
    text = "\n".join(call_lines(program, device))
    return program_script("a program of tensors", device, text, wanted_reads(program) or ())


def call_lines(program: TensorProgram, device: str) -> list[str]:
    """Return the calls of a program, one a line."""
    return [line.text for line in script_lines(program, Places.of(device))]
