"""Generate, judge and examine the numbered programs of a campaign.

Program `number` of `seed` is one tape, and does not depend on other programs.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace

from tinyref.errors import explain_error
from tinyref.tensor.creation import streams
from tinyref_fuzz.campaign.cases import judged_result, tape_seed
from tinyref_fuzz.campaign.examination import note_of
from tinyref_fuzz.campaign.history import dependence
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import Examination, Setup
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_fuzz.findings.bucket import DEATHS
from tinyref_fuzz.findings.isolated import HOPELESS
from tinyref_fuzz.findings.one_line import fault_line, wrapped
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import ProgramFinding, blame_of_pair, call_lines
from tinyref_fuzz.programs.generator import generate, opening_steps
from tinyref_fuzz.programs.isolated import (
    AnyJudge,
    IsolatedProgramJudge,
    examine_any,
    unreduced,
)
from tinyref_fuzz.programs.judge import PLAIN_EVERY, ProgramJudge, default_compiled_every
from tinyref_fuzz.programs.record import ProgramRecord, record_to_json
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelVerdict


def program_at(judge: ProgramJudge, seed: int, number: int) -> TensorProgram:
    """Return program `number`, for the devices of the judge."""
    tape = Tape(seed=tape_seed(seed, number))
    return generate(tape, len(judge.devices.names), opening_steps(number))


def program_result_of(
    judge: ProgramJudge, seed: int, number: int, compiled_every: int = 1
) -> CampaignCase:
    """Generate and judge program `number`.

    One of `compiled_every` programs is compiled for the device; others run evaluated kernels.
    """
    evaluates = number % compiled_every != 0
    return judged_result(
        number,
        lambda: program_at(judge, seed, number),
        lambda program: guarded_verdict(
            lambda: judge.verdict(program, number % PLAIN_EVERY == 0, evaluates)
        ),
    )


class ProgramCases(ABC):
    """The cases of a campaign of tensor programs, for any judge of programs."""

    def __init__(self, setup: Setup, judge: AnyJudge) -> None:
        self.setup = setup
        self._judge = judge

    @abstractmethod
    def program_at(self, number: int) -> TensorProgram:
        """Return program `number` of the seed."""

    @abstractmethod
    def judge_case(self, number: int) -> CampaignCase:
        """Generate and judge a program."""

    def failing_program(self, number: int, verdict: KernelVerdict) -> TensorProgram:
        """Return the program of a verdict."""
        return self.program_at(number)

    def script(self, finding: ProgramFinding) -> str:
        """Return a script of a finding that does not need tinyref; "" if there is none."""
        return ""

    def examine(self, number: int, verdict: KernelVerdict, attempt: int) -> Examination:
        """Reduce and blame a program that differs; a second attempt leaves it unreduced."""
        try:
            program = self.failing_program(number, verdict)
        except Exception as error:  # the finding may be that it cannot be generated
            problem = f"the program cannot be generated: {explain_error(error)}"
            blame = blame_of_pair(verdict)
            return Examination(number, signature(verdict), blame, verdict.detail, problem=problem)
        began = time.monotonic()
        finding = self._finding(number, program, verdict, attempt)
        # The death of a process says the same, whatever operations remain.
        is_named = attempt == 1 and verdict.symptom not in DEATHS
        bucket = finding.bucket if is_named else signature(verdict)
        return self._examination(number, finding, bucket, time.monotonic() - began)

    def _finding(
        self, number: int, program: TensorProgram, verdict: KernelVerdict, attempt: int
    ) -> ProgramFinding:
        setup = self.setup
        if attempt > 1 or verdict.symptom in HOPELESS:
            problem = "the examination ended its process" if attempt > 1 else ""
            return unreduced(self._judge, program, verdict, problem)
        finding = examine_any(self._judge, program, verdict, setup.examine_seconds, setup.timeout)
        if verdict.symptom in DEATHS:
            return finding
        dependent = dependence(
            finding.program,
            number,
            self.program_at,
            lambda: IsolatedProgramJudge(setup.device, setup.timeout),
            setup.examine_seconds,
        )
        return replace(finding, problem=dependent or finding.problem)

    def _examination(
        self, number: int, finding: ProgramFinding, bucket: str, seconds: float
    ) -> Examination:
        fault = fault_line(finding.verdict, finding.blame)
        note = f"{fault}; {note_of(self.setup, f'program {number}')}"
        record = ProgramRecord(
            finding.program, note, finding.verdict, finding.blame, self.setup.device
        )
        script = self.script(finding)
        calls = script.splitlines() or call_lines(finding.program, self.setup.device)
        return Examination(
            number=number,
            bucket=bucket,
            blame=finding.blame,
            detail=finding.verdict.detail,
            case=record_to_json(record),
            nodes=finding.program.size,
            lines=(*wrapped("fault", fault, 97), *(f"        {text}" for text in calls)),
            seconds=seconds,
            problem=finding.problem,
            script=script,
        )


class Programs(ProgramCases):
    """The programs of a campaign on a device."""

    def __init__(self, setup: Setup) -> None:
        self.judge = ProgramJudge(setup.device)
        super().__init__(setup, self.judge)
        self.compiled_every = setup.compiled_every or default_compiled_every(setup.device)

    def program_at(self, number: int) -> TensorProgram:
        """Return program `number` of the seed."""
        return program_at(self.judge, self.setup.seed, number)

    def judge_case(self, number: int) -> CampaignCase:
        """Generate and judge a program, independently of earlier programs."""
        # With existing streams, a seed would write to them by two more kernels.
        streams.forget()
        return program_result_of(self.judge, self.setup.seed, number, self.compiled_every)
