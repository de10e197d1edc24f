"""Examine a program that differs: reduce it, blame a stage, and name its bucket."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.errors import explain_error
from tinyref_fuzz.programs.arithmetic import VIEWS
from tinyref_fuzz.programs.blame import blame
from tinyref_fuzz.programs.judge import ProgramJudge, expected_reads
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.script import ProgramDevices, script_lines
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_fuzz.reduce.fault import error_words
from tinyref_spec.kernel_case import Blame, KernelVerdict, Pair, Symptom
from tinyref_spec.reproducer import program_script

# The stage of a pair of values, if nothing more is known.
STAGE_OF = {Pair.PLAIN: "graph", Pair.OPTIMISED: "schedule", Pair.DEVICE: "kernel"}
# Operations of every program, which say nothing about a cause.
_SILENT = frozenset({"data", "read", "seed", "bind", "realize", "drop"})


@dataclass(frozen=True)
class ProgramFinding:
    """A program that fails, reduced and blamed."""

    program: TensorProgram
    verdict: KernelVerdict
    blame: Blame
    problem: str = ""
    """Why it could not be examined; empty if it could."""

    @property
    def bucket(self) -> str:
        """Return the key of findings with one cause: stage and cause, or else how they fail.

        For an error that is its message; for a wrong value in a graph, the remaining operations.
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
    """Examine a program and its verdict. A failed examination is reported as a problem."""
    problem = ""
    # If only the plain way fails, it alone is judged during reduction.
    is_plain = verdict.judged > 1
    try:
        reduced = reduce_program(
            program, verdict, lambda candidate: judge.verdict(candidate, is_plain), seconds
        )
    except Exception as error:  # a bug of the reducer must not hide the finding
        reduced, problem = (program, verdict), f"not reduced: {explain_error(error)}"
    program, verdict = reduced
    try:
        result = blame(judge, program, verdict)
    except Exception as error:
        result, problem = blame_of_pair(verdict), f"not blamed: {explain_error(error)}"
    return ProgramFinding(program, verdict, result, problem)


def blame_of_pair(verdict: KernelVerdict) -> Blame:
    """Return the stage of the verdict's pair of values, without examining the program."""
    return Blame(STAGE_OF.get(verdict.pair, "") if verdict.pair is not None else "")


def script_of(program: TensorProgram, device: str) -> str:
    """Return the program as a script that fails if a read differs from the oracle."""
    text = "\n".join(call_lines(program, device))
    return program_script("a program of tensors", device, text, expected_reads(program) or ())


def call_lines(program: TensorProgram, device: str) -> list[str]:
    """Return the calls of a program, one for each line."""
    return [line.text for line in script_lines(program, ProgramDevices.of(device))]
