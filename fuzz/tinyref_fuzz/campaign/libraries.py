"""The numbered programs of a campaign on a library: made, judged and examined.

A library that compiles is given several programs as one function: most of a compile is its start.
"""

from __future__ import annotations

import time
from dataclasses import replace

from tinyref.errors import explain_error
from tinyref.runtimes.identity import surroundings
from tinyref_fuzz.campaign.cases import judged_result, tape_seed
from tinyref_fuzz.campaign.history import dependence
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import Examination, Setup
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_fuzz.findings.bucket import DEATHS
from tinyref_fuzz.findings.isolated import HOPELESS
from tinyref_fuzz.findings.one_line import fault_line, wrapped
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import ProgramFinding
from tinyref_fuzz.programs.isolated import IsolatedProgramJudge, examine_any
from tinyref_fuzz.programs.library.examine import script_of_library
from tinyref_fuzz.programs.library.generator import generate_pure
from tinyref_fuzz.programs.library.judge import LibraryJudge, joined
from tinyref_fuzz.programs.record import ProgramRecord, record_to_json
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelVerdict

# Programs that are compiled as one function.
BATCH = 5
# With which a finding begins that shows only in the function of several programs.
TOGETHER = "only together with other programs: "


class LibraryPrograms:
    """What a campaign on a library does with a number."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.judge = LibraryJudge(setup.device, setup.known)
        self._answers: dict[int, CampaignCase] = {}

    @property
    def identity(self) -> dict[str, str]:
        """What decides the results: the library, and what every device depends on."""
        return {**surroundings(), "library": self.judge.library.about}

    def program_at(self, number: int) -> TensorProgram:
        """Program `number` of the seed, in the words and types of the library."""
        library = self.judge.library
        tape = Tape(seed=tape_seed(self.setup.seed, number))
        return generate_pure(tape, library.spelling, library.dtypes)

    def judge_case(self, number: int) -> CampaignCase:
        """Make and judge a program; of a library that compiles, with those after it."""
        if not self.judge.library.compiles:
            return self._alone(number)
        if number not in self._answers:
            self._answers = self._judge_batch(range(number, _end_of_batch(number)))
        return self._answers.pop(number)

    def _alone(self, number: int) -> CampaignCase:
        return judged_result(
            number,
            lambda: self.program_at(number),
            lambda program: guarded_verdict(lambda: self.judge.verdict(program)),
        )

    def _judge_batch(self, numbers: range) -> dict[int, CampaignCase]:
        """The results of several programs; each is judged alone if not all of them agree."""
        began = time.perf_counter()
        try:
            together = self.judge.verdict(joined([self.program_at(each) for each in numbers]))
        except Exception:  # a program that cannot be made is the finding of its number
            return {number: self._alone(number) for number in numbers}
        seconds = round((time.perf_counter() - began) / len(numbers), 4)
        if together.judged and together.agrees:
            return {number: CampaignCase(number, seconds, 1) for number in numbers}
        alone = {number: self._alone(number) for number in numbers}
        if together.agrees or any(each.verdict is not None for each in alone.values()):
            return alone
        verdict = replace(together, detail=f"{TOGETHER}{together.detail}")
        first = numbers[0]
        return {**alone, first: replace(alone[first], verdict=verdict)}

    def examine(self, number: int, verdict: KernelVerdict, attempt: int) -> Examination:
        """Reduce and blame a program that the library gets wrong, and write its script."""
        try:
            program = self._program_of(number, verdict)
        except Exception as error:  # the finding may be that it cannot be made
            problem = f"the program cannot be made: {explain_error(error)}"
            blame = self.judge.blame(TensorProgram(()), verdict)
            return Examination(number, signature(verdict), blame, verdict.detail, problem=problem)
        began = time.monotonic()
        finding = self._finding(number, program, verdict, attempt)
        is_named = attempt == 1 and verdict.symptom not in DEATHS
        bucket = finding.bucket if is_named else signature(verdict)
        script = script_of_library(self.judge, finding.program, finding.verdict)
        note = (
            f"{fault_line(finding.verdict, finding.blame)}; tinyref fuzz {self.setup.code} on "
            f"{self.judge.library.about}: seed {self.setup.seed}, program {number}"
        )
        record = ProgramRecord(
            finding.program, note, finding.verdict, finding.blame, self.setup.device
        )
        return Examination(
            number=number,
            bucket=bucket,
            blame=finding.blame,
            detail=finding.verdict.detail,
            case=record_to_json(record),
            nodes=sum(step.op not in ("data", "read") for step in finding.program.steps),
            lines=_lines(finding, script),
            seconds=time.monotonic() - began,
            problem=finding.problem,
            script=script,
        )

    def _program_of(self, number: int, verdict: KernelVerdict) -> TensorProgram:
        """The program of a number, or its batch as one if the fault may show only there."""
        is_batch = self.judge.library.compiles and verdict.symptom in DEATHS
        if not is_batch and not verdict.detail.startswith(TOGETHER):
            return self.program_at(number)
        numbers = range(number, _end_of_batch(number))
        return joined([self.program_at(each) for each in numbers])

    def _finding(
        self, number: int, program: TensorProgram, verdict: KernelVerdict, attempt: int
    ) -> ProgramFinding:
        setup = self.setup
        if attempt > 1 or verdict.symptom in HOPELESS:
            problem = "its examination ended the process" if attempt > 1 else ""
            return ProgramFinding(program, verdict, self.judge.blame(program, verdict), problem)
        finding = examine_any(self.judge, program, verdict, setup.examine_seconds, setup.timeout)
        if verdict.symptom in DEATHS:
            return finding
        alone = dependence(
            finding.program,
            number,
            self.program_at,
            lambda: IsolatedProgramJudge(setup.device, setup.timeout),
            setup.examine_seconds,
        )
        return replace(finding, problem=alone or finding.problem)


def _end_of_batch(number: int) -> int:
    return (number // BATCH + 1) * BATCH


def _lines(finding: ProgramFinding, script: str) -> tuple[str, ...]:
    """Fault and script, for a report."""
    fault = wrapped("fault", fault_line(finding.verdict, finding.blame), 97)
    return (*fault, *(f"        {line}" for line in script.splitlines()))
