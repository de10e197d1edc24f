"""Run the programs of a campaign on a library.

A library that compiles slowly runs several programs as one function, in its own process. If the
process dies or exceeds its time, each half is compiled again, down to one program.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

from tinyref.runtimes.identity import surroundings
from tinyref_fuzz.campaign.cases import judged_result, tape_seed
from tinyref_fuzz.campaign.programs import ProgramCases
from tinyref_fuzz.campaign.results import CampaignCase
from tinyref_fuzz.campaign.task import Setup
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import ProgramFinding
from tinyref_fuzz.programs.isolated import IsolatedProgramJudge
from tinyref_fuzz.programs.library.examine import script_of_library
from tinyref_fuzz.programs.library.generator import generate_pure
from tinyref_fuzz.programs.library.judge import LibraryJudge, joined
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelVerdict

# A compiler leaks memory: its process is replaced after this many functions.
MAX_COMPILES = 100
_TOGETHER = re.compile(r"only in one function of (\d+) programs: ")


class LibraryPrograms(ProgramCases):
    """The programs of a campaign on a library."""

    def __init__(self, setup: Setup) -> None:
        self.judge = LibraryJudge(setup.device)
        super().__init__(setup, self.judge)
        self.known = [query.strip() for query in setup.known.split(",") if query.strip()]
        self.together = self.judge.library.spelling.together
        self._compiler = IsolatedProgramJudge(setup.device, setup.timeout)
        self.compiles = 0
        self._results: dict[int, CampaignCase] = {}

    @property
    def identity(self) -> dict[str, str]:
        """Return the identity of the library and its surroundings, on which results depend."""
        return {**surroundings(), "library": self.judge.library.about}

    def program_at(self, number: int) -> TensorProgram:
        """Return program `number` of the seed, in the operations and types of the library."""
        library = self.judge.library
        tape = Tape(seed=tape_seed(self.setup.seed, number))
        return generate_pure(tape, library.spelling, library.dtypes, self.known)

    def judge_case(self, number: int) -> CampaignCase:
        """Generate and judge a program; with a compiler, also the programs after it."""
        if self.together == 1:
            return self._judge_alone(number, self.judge.verdict)
        if number not in self._results:
            stop = (number // self.together + 1) * self.together
            self._results = self._judge_together(range(number, stop))
        return self._results.pop(number)

    def _judge_alone(
        self, number: int, judge: Callable[[TensorProgram], KernelVerdict]
    ) -> CampaignCase:
        return judged_result(
            number,
            lambda: self.program_at(number),
            lambda program: guarded_verdict(lambda: judge(program)),
        )

    def _judge_together(self, numbers: range) -> dict[int, CampaignCase]:
        """Judge programs as one function; if they do not agree, judge each half again."""
        if len(numbers) == 1:
            return {numbers[0]: self._judge_alone(numbers[0], self._compiled_verdict)}
        began = time.perf_counter()
        try:
            together = self._compiled_verdict(self._joined(numbers), len(numbers))
        except Exception:  # a program that cannot be generated is judged alone later
            together = KernelVerdict()
        if together.judged and together.agrees:
            seconds = round((time.perf_counter() - began) / len(numbers), 4)
            return {number: CampaignCase(number, seconds, 1) for number in numbers}
        middle = len(numbers) // 2
        results = self._judge_together(numbers[:middle]) | self._judge_together(numbers[middle:])
        if not together.agrees and all(result.verdict is None for result in results.values()):
            detail = f"only in one function of {len(numbers)} programs: {together.detail}"
            first = numbers[0]
            results[first] = replace(results[first], verdict=replace(together, detail=detail))
        return results

    def _compiled_verdict(self, program: TensorProgram, programs: int = 1) -> KernelVerdict:
        """Return the verdict of the other process, within its share of the time limit."""
        if self.compiles % MAX_COMPILES == MAX_COMPILES - 1:
            self._compiler.close()
        self.compiles += 1
        self._compiler.seconds = self.setup.timeout * programs / self.together
        return self._compiler.verdict(program)

    def _joined(self, numbers: range) -> TensorProgram:
        return joined([self.program_at(number) for number in numbers])

    def failing_program(self, number: int, verdict: KernelVerdict) -> TensorProgram:
        """Return the program of a number, or several as one if only these may show the fault."""
        several = _TOGETHER.match(verdict.detail)
        if several:
            return self._joined(range(number, number + int(several[1])))
        return self.program_at(number)

    def script(self, finding: ProgramFinding) -> str:
        """Return the script of a finding for the maintainers of the library."""
        return script_of_library(self.judge, finding.program, finding.verdict)
