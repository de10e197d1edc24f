"""The numbered programs of a campaign: made, judged and examined as its kernels are.

Program `number` of `seed` is one tape: nothing of another one goes into it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import replace

from tinyref import reproduce
from tinyref.algebra.rewrite import counting_rules
from tinyref.errors import explain_error
from tinyref.runtimes.identity import device_settings
from tinyref_fuzz.campaign.cases import CaseResult, tape_seed
from tinyref_fuzz.campaign.examination import signature
from tinyref_fuzz.campaign.task import Examination, Setup, Task
from tinyref_fuzz.findings.isolated import HOPELESS
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.examine import (
    ProgramFinding,
    blame_of_pair,
    examine_program,
    finding_lines,
)
from tinyref_fuzz.programs.generator import generate
from tinyref_fuzz.programs.judge import COMPILED_EVERY, PLAIN_EVERY, ProgramJudge
from tinyref_fuzz.programs.record import ProgramRecord, record_to_json
from tinyref_fuzz.programs.steps import Program
from tinyref_spec.kernel_case import Pair, Symptom, Verdict


def program_at(judge: ProgramJudge, seed: int, number: int) -> Program:
    """Program `number`, for the devices of the judge."""
    return generate(Tape(seed=tape_seed(seed, number)), len(judge.places.names))


def program_result_of(judge: ProgramJudge, seed: int, number: int) -> CaseResult:
    """Makes and judges program `number`; counts rules that fired, and operations in a row."""
    began = time.perf_counter()
    pairs: Counter[str] = Counter()
    with counting_rules() as fired:
        try:
            program = program_at(judge, seed, number)
            pairs = pairs_of(program)
            evaluates = judge.is_interpreted and number % COMPILED_EVERY != 0
            verdict = judge.verdict(program, number % PLAIN_EVERY == 0, evaluates)
        except Exception as error:  # a generator that fails is a bug as well, and costs one case
            detail = f"while generating: {explain_error(error)}"
            verdict = Verdict(Pair.PLAIN, Symptom.ERROR, detail)
    return CaseResult(
        number=number,
        seconds=round(time.perf_counter() - began, 4),
        judged=verdict.judged,
        rules=dict(fired),
        pairs=dict(pairs),
        verdict=None if verdict.agrees else verdict,
    )


def pairs_of(program: Program) -> Counter[str]:
    """How often one operation comes right after another: `assign flip`."""
    ops = [step.op for step in program.all_steps()]
    return Counter(f"{first} {second}" for first, second in itertools.pairwise(ops))


def examine_program_task(
    setup: Setup, judge: ProgramJudge, task: Task, attempt: int
) -> Examination:
    """The examination of program `task.first`; of a second attempt only the program as it is."""
    verdict = task.verdict
    assert verdict is not None, "an examination has a verdict"
    try:
        program = program_at(judge, setup.seed, task.first)
    except Exception as error:  # the finding may be that it cannot be made
        problem = f"the program cannot be made: {explain_error(error)}"
        blame = blame_of_pair(verdict)
        return Examination(task.first, signature(verdict), blame, verdict.detail, problem=problem)
    began = time.monotonic()
    # What ends the process cannot be reduced in it.
    if attempt > 1 or verdict.symptom in (*HOPELESS, Symptom.CRASH):
        problem = "its examination ended the process" if attempt > 1 else ""
        found = ProgramFinding(program, verdict, blame_of_pair(verdict), problem)
        found_bucket = signature(verdict)
    else:
        found = examine_program(judge, program, verdict, setup.examine_seconds)
        found_bucket = found.bucket
    return _examination_of(setup, task, found, found_bucket, time.monotonic() - began)


def _examination_of(
    setup: Setup, task: Task, found: ProgramFinding, bucket: str, seconds: float
) -> Examination:
    record = ProgramRecord(found.program, "", found.verdict, found.blame, setup.device)
    return Examination(
        number=task.first,
        bucket=bucket,
        blame=found.blame,
        detail=found.verdict.detail,
        case=record_to_json(replace(record, note=_note(setup, task))),
        nodes=found.program.size,
        lines=finding_lines(found.program, found.verdict, setup.device),
        seconds=seconds,
        problem=found.problem,
    )


def _note(setup: Setup, task: Task) -> str:
    words = f"tinyref fuzz {setup.code} on {setup.device}: seed {setup.seed}, program {task.first}"
    found = device_settings(setup.device)
    return f"{words}, {reproduce.assignments(found)}" if found else words
