"""The numbered programs of a campaign: made, judged and examined as its kernels are.

Program `number` of `seed` is one tape: nothing of another one goes into it.
"""

from __future__ import annotations

import time
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
from tinyref_fuzz.findings.one_line import fault_line
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import (
    ProgramFinding,
    blame_of_pair,
    finding_lines,
)
from tinyref_fuzz.programs.generator import generate, opening_steps
from tinyref_fuzz.programs.isolated import IsolatedProgramJudge, examine_any
from tinyref_fuzz.programs.judge import PLAIN_EVERY, ProgramJudge, default_compiled_every
from tinyref_fuzz.programs.record import ProgramRecord, record_to_json
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelVerdict


def program_at(judge: ProgramJudge, seed: int, number: int) -> TensorProgram:
    """Program `number`, for the devices of the judge."""
    tape = Tape(seed=tape_seed(seed, number))
    return generate(tape, len(judge.places.names), opening_steps(number))


def program_result_of(
    judge: ProgramJudge, seed: int, number: int, compiled_every: int = 1
) -> CampaignCase:
    """Make and judge program `number`.

    compiled_every: one program in so many is compiled for the device, kernels of others evaluated.
    """
    evaluates = number % compiled_every != 0
    return judged_result(
        number,
        lambda: program_at(judge, seed, number),
        lambda program: guarded_verdict(
            lambda: judge.verdict(program, number % PLAIN_EVERY == 0, evaluates)
        ),
    )


def examine_program_case(
    setup: Setup, judge: ProgramJudge, number: int, verdict: KernelVerdict, attempt: int
) -> Examination:
    """Return the examination of a program; of a second attempt only the program as it is."""
    try:
        program = program_at(judge, setup.seed, number)
    except Exception as error:  # the finding may be that it cannot be made
        problem = f"the program cannot be made: {explain_error(error)}"
        blame = blame_of_pair(verdict)
        return Examination(number, signature(verdict), blame, verdict.detail, problem=problem)
    began = time.monotonic()
    if attempt > 1 or verdict.symptom in HOPELESS:
        problem = "its examination ended the process" if attempt > 1 else ""
        found = ProgramFinding(program, verdict, blame_of_pair(verdict), problem)
    else:
        found = examine_any(judge, program, verdict, setup.examine_seconds, setup.timeout)
    if attempt == 1 and verdict.symptom not in DEATHS:
        alone = dependence(
            found.program,
            number,
            lambda each: program_at(judge, setup.seed, each),
            lambda: IsolatedProgramJudge(setup.device, setup.timeout),
            setup.examine_seconds,
        )
        found = replace(found, problem=alone or found.problem)
    # What ends a process says the same whatever operations are left.
    is_named = attempt == 1 and verdict.symptom not in DEATHS
    bucket = found.bucket if is_named else signature(verdict)
    return _examination_of(setup, number, found, bucket, time.monotonic() - began)


def _examination_of(
    setup: Setup, number: int, found: ProgramFinding, bucket: str, seconds: float
) -> Examination:
    note = f"{fault_line(found.verdict, found.blame)}; {note_of(setup, f'program {number}')}"
    record = ProgramRecord(found.program, note, found.verdict, found.blame, setup.device)
    return Examination(
        number=number,
        bucket=bucket,
        blame=found.blame,
        detail=found.verdict.detail,
        case=record_to_json(record),
        nodes=found.program.size,
        lines=finding_lines(found.program, found.verdict, found.blame, setup.device),
        seconds=seconds,
        problem=found.problem,
    )


class Programs:
    """What a campaign of tensor programs does with a number."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.judge = ProgramJudge(setup.device)
        self.compiled_every = setup.compiled_every or default_compiled_every(setup.device)

    def judge_case(self, number: int) -> CampaignCase:
        """Make and judge a program, which no program before it sways."""
        # A seed writes to the streams that are there already: that is two kernels more.
        streams.forget()
        return program_result_of(self.judge, self.setup.seed, number, self.compiled_every)

    def examine(self, number: int, verdict: KernelVerdict, attempt: int) -> Examination:
        """Reduce and blame a program that does not agree."""
        return examine_program_case(self.setup, self.judge, number, verdict, attempt)
