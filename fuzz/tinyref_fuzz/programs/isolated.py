"""A judge of programs in a process of its own, for those that may crash it or never end.

    python -m tinyref_fuzz.programs.isolated

The commands on files of programs ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.workers.processes import Death, Message
from tinyref_fuzz.findings.isolated import HOPELESS
from tinyref_fuzz.findings.service import JudgeService, judge_in_fork, serve_judge
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE, verdict_of_death
from tinyref_fuzz.judge.judge import guarded_verdict
from tinyref_fuzz.programs.examine import (
    ProgramFinding,
    blame_of_pair,
    examine_program,
    script_of,
)
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.record import ProgramRecord, record_from_json, record_to_json
from tinyref_fuzz.programs.reduce import reduce_program
from tinyref_fuzz.programs.steps import Program, program_from_json, program_to_json
from tinyref_spec.kernel_case import Symptom, Verdict
from tinyref_spec.kernel_case.document import verdict_from_json, verdict_to_json


def judge_isolated(
    record: ProgramRecord, device: str, seconds: float, reducing: float = 0.0
) -> ProgramRecord:
    """The record with the verdict on `device`, and with the blame where it fails.

    seconds: what judging may take. reducing: what making it small may take, not at all for 0.
    That the process died is a verdict too. Raises `UserError` where the device does not open.
    """
    with IsolatedProgramJudge(device, seconds) as judge:
        verdict = judge.verdict(record.program)
        if verdict.agrees:
            return replace(record, verdict=None, blame=None, device=device)
        found = judge.finding(record.program, verdict, reducing)
    return replace(
        record, program=found.program, verdict=found.verdict, blame=found.blame, device=device
    )


class IsolatedProgramJudge(JudgeService):
    """Judges programs on one device. `seconds` are what judging one may take."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__("tinyref_fuzz.programs.isolated", device)
        self.seconds = seconds

    def verdict(self, program: Program) -> Verdict:
        """The verdict of all ways to run it, or on how the process ended."""
        answer = self._ask("judge", program, self.seconds)
        if isinstance(answer, Death):
            return verdict_of_death(answer)
        return verdict_from_json(answer["verdict"])

    def finding(self, program: Program, verdict: Verdict, seconds: float) -> ProgramFinding:
        """As `examine_program`, also of what ends a process; where it ends, unreduced."""
        if verdict.symptom in HOPELESS:
            return ProgramFinding(program, verdict, blame_of_pair(verdict))
        within = self.seconds + seconds + EXAMINATION_GRACE
        given = {"verdict": verdict_to_json(verdict), "seconds": seconds, "limit": self.seconds}
        answer = self._ask("examine", program, within, **given)
        if isinstance(answer, Death):
            return ProgramFinding(program, verdict, blame_of_pair(verdict), answer.words)
        found = record_from_json(answer["reduced"])
        assert found.verdict is not None, "what is examined is written with its verdict"
        assert found.blame is not None, "what is examined is written with its blame"
        return ProgramFinding(found.program, found.verdict, found.blame, answer["problem"])

    def script(self, program: Program, device: str) -> str:
        """The text of `script_of` for any device. Raises `UserError` where the process ends."""
        answer = self._ask("script", program, self.seconds, device=device)
        if isinstance(answer, Death):
            raise UserError(f"script: what the program reads cannot be computed: {answer.words}")
        text: str = answer["text"]
        return text

    def _ask(self, task: str, program: Program, within: float, **more: object) -> Message | Death:
        return self.ask({"task": task, "program": program_to_json(program), **more}, within)


def examine_crash(
    judge: ProgramJudge, program: Program, verdict: Verdict, seconds: float, limit: float
) -> ProgramFinding:
    """As `examine_program` of one that ends the process: each candidate is judged in another one.

    limit: seconds that judging one may take. They are forks of this process where all devices of
    the judge survive that.
    """
    blamed = blame_of_pair(verdict)
    if all(Device.backend_class(name).survives_fork for name in judge.places.names):
        small = reduce_program(program, verdict, _forked(judge, verdict, limit), seconds)
    else:
        with IsolatedProgramJudge(judge.device, limit) as fresh:
            small = reduce_program(program, verdict, fresh.verdict, seconds)
    return ProgramFinding(*small, blamed)


def _forked(judge: ProgramJudge, verdict: Verdict, limit: float) -> Callable[[Program], Verdict]:
    def judged(candidate: Program) -> Verdict:
        return judge_in_fork(lambda: judge.verdict(candidate, thorough=True), verdict, limit)

    return judged


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Receives a device, then what to do with one program after another, and answers each."""
    serve_judge(ProgramJudge, _reply)


def _reply(judge: ProgramJudge, request: Message) -> Message:
    return TASKS[request["task"]](judge, program_from_json(request["program"]), request)


def _judge(judge: ProgramJudge, program: Program, message: Mapping[str, Any]) -> Message:
    found = guarded_verdict(lambda: judge.verdict(program, thorough=True))
    return {"verdict": verdict_to_json(found)}


def _examine(judge: ProgramJudge, program: Program, message: Mapping[str, Any]) -> Message:
    verdict = verdict_from_json(message["verdict"])
    if verdict.symptom is Symptom.CRASH:
        found = examine_crash(judge, program, verdict, message["seconds"], message["limit"])
    else:
        found = examine_program(judge, program, verdict, message["seconds"])
    reduced = ProgramRecord(found.program, "", found.verdict, found.blame)
    return {"reduced": record_to_json(reduced), "problem": found.problem}


def _script(judge: ProgramJudge, program: Program, message: Mapping[str, Any]) -> Message:
    return {"text": script_of(program, message["device"])}


TASKS: dict[str, Callable[[ProgramJudge, Program, Mapping[str, Any]], Message]] = {
    "judge": _judge,
    "examine": _examine,
    "script": _script,
}


if __name__ == "__main__":
    main()
