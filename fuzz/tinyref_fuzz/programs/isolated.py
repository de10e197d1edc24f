"""Judge programs in a separate process, as they may crash it or never end.

python -m tinyref_fuzz.programs.isolated

The commands on program files use it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.workers.processes import Death, Message
from tinyref_fuzz.findings.isolated import HOPELESS
from tinyref_fuzz.findings.service import JudgeService, judge_in_fork, serve_judge
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE, verdict_of_death
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import ProgramFinding, blame_of_pair, examine_program, script_of
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.library.examine import examine_library, script_of_library
from tinyref_fuzz.programs.library.judge import LibraryJudge
from tinyref_fuzz.programs.record import ProgramRecord
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelVerdict, Symptom
from tinyref_spec.subjects.name import is_subject

AnyJudge = ProgramJudge | LibraryJudge


def judge_isolated(
    record: ProgramRecord, device: str, seconds: float, reducing: float = 0.0
) -> ProgramRecord:
    """Return the record with the verdict on `device`, and with the blame if it fails.

    Args:
        seconds: The time limit of judging.
        reducing: The time limit of reduction; 0 turns it off.

    The death of the process is a verdict too. Raises `UserError` if the device does not open.
    """
    with IsolatedProgramJudge(device, seconds) as judge:
        verdict = judge.verdict(record.program)
        if verdict.agrees:
            return replace(record, verdict=None, blame=None, device=device)
        finding = judge.finding(record.program, verdict, reducing)
    return replace(
        record, program=finding.program, verdict=finding.verdict, blame=finding.blame, device=device
    )


class IsolatedProgramJudge(JudgeService):
    """Judge of programs on one device, with a limit of `seconds` for each program."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__("tinyref_fuzz.programs.isolated", device)
        self.seconds = seconds

    def verdict(self, program: TensorProgram) -> KernelVerdict:
        """Return the verdict of all ways to run the program, or on how the process ended."""
        answer = self._call(self.seconds, thorough_verdict, program)
        return verdict_of_death(answer) if isinstance(answer, Death) else answer

    def finding(
        self, program: TensorProgram, verdict: KernelVerdict, seconds: float
    ) -> ProgramFinding:
        """Examine a program that may kill a process; if that fails, return it unreduced."""
        unreduced = ProgramFinding(program, verdict, blame_of_pair(verdict))
        if verdict.symptom in HOPELESS:
            return unreduced
        within = self.seconds + seconds + EXAMINATION_GRACE
        answer = self._call(within, examine_any, program, verdict, seconds, self.seconds)
        return replace(unreduced, problem=answer.words) if isinstance(answer, Death) else answer

    def script(self, program: TensorProgram, device: str) -> str:
        """Return the text of `script_of` for any device. Raises `UserError` if the process ends."""
        answer = self._call(self.seconds, any_script, program, device)
        if isinstance(answer, Death):
            raise UserError(f"script: the program cannot be evaluated: {answer.words}")
        return str(answer)

    def _call(self, within: float, function: Callable[..., Any], *args: object) -> Any:
        """Call a function of the judge in the process; return a `Death` if the process ends."""
        answer = self.ask({"call": pickle.dumps((function, args)).hex()}, within)
        if isinstance(answer, Death):
            return answer
        return pickle.loads(bytes.fromhex(answer["result"]))


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Receive a device, then answer one call after another."""
    serve_judge(open_judge, _reply)


def open_judge(device: str) -> AnyJudge:
    """Return the judge of a device, or of a library."""
    return LibraryJudge(device) if is_subject(device) else ProgramJudge(device)


def _reply(judge: AnyJudge, request: Message) -> Message:
    function, args = pickle.loads(bytes.fromhex(request["call"]))
    return {"result": pickle.dumps(function(judge, *args)).hex()}


def thorough_verdict(judge: AnyJudge, program: TensorProgram) -> KernelVerdict:
    """Return the verdict of all ways to run a program."""
    return guarded_verdict(lambda: judge.verdict(program, thorough=True))


def examine_any(
    judge: AnyJudge,
    program: TensorProgram,
    verdict: KernelVerdict,
    seconds: float,
    limit: float,
) -> ProgramFinding:
    """Run `examine_program`; if the program kills the process, judge each candidate in another.

    `limit` is the number of seconds for judging one. The processes are forks of this one if all
    devices of the judge survive a fork.
    """
    if verdict.symptom is not Symptom.CRASH:
        if isinstance(judge, LibraryJudge):
            return examine_library(judge, program, verdict, seconds)
        return examine_program(judge, program, verdict, seconds)
    if _survives_fork(judge):

        def judged(candidate: TensorProgram) -> KernelVerdict:
            return judge_in_fork(lambda: judge.verdict(candidate, thorough=True), verdict, limit)

        small = reduce_program(program, verdict, judged, seconds, judge.environment)
    else:
        with IsolatedProgramJudge(judge.device, limit) as fresh:
            small = reduce_program(program, verdict, fresh.verdict, seconds, judge.environment)
    return unreduced(judge, *small)


def _survives_fork(judge: AnyJudge) -> bool:
    """Return True if the judge works in a fork; the threads of a library do not."""
    if isinstance(judge, LibraryJudge):
        return False
    return all(Device.backend_class(name).survives_fork for name in judge.devices.names)


def unreduced(
    judge: AnyJudge, program: TensorProgram, verdict: KernelVerdict, problem: str = ""
) -> ProgramFinding:
    """Return the finding of a program without running it again."""
    if isinstance(judge, LibraryJudge):
        return ProgramFinding(program, verdict, judge.blame(program, verdict), problem)
    return ProgramFinding(program, verdict, blame_of_pair(verdict), problem)


def any_script(judge: AnyJudge, program: TensorProgram, device: str) -> str:
    """Return the script for a device, which need not exist here, or for the judge's library."""
    if isinstance(judge, LibraryJudge):
        return script_of_library(judge, program, judge.verdict(program))
    return script_of(program, device)


if __name__ == "__main__":
    main()
