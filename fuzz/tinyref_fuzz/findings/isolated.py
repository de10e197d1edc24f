"""Judge cases in a separate process, as they may crash it or never end.

python -m tinyref_fuzz.findings.isolated

The commands on case files use it. Campaigns have workers, which generate their cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tinyref.device import Device
from tinyref.errors import UserError
from tinyref.optimise.opt import opts_text, parse_opts
from tinyref.workers.processes import Death, Message
from tinyref_fuzz.findings.examine import Finding, blame_or_pair, examine
from tinyref_fuzz.findings.pair import blame_of_pair
from tinyref_fuzz.findings.reproducer import reproducer, tool_reproducer
from tinyref_fuzz.findings.service import JudgeService, judge_in_fork, serve_judge
from tinyref_fuzz.findings.show import outline, side_by_side
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE, verdict_of_death
from tinyref_fuzz.judge.judge import Judge, judge_of, verdict_of
from tinyref_fuzz.reduce.fault import is_same_fault
from tinyref_fuzz.reduce.search import JudgeFunction
from tinyref_spec.kernel_case import Blame, CaseRecord, KernelCase, KernelVerdict, Opts, Symptom
from tinyref_spec.kernel_case.document import (
    blame_from_json,
    blame_to_json,
    record_from_json,
    record_to_json,
    verdict_from_json,
    verdict_to_json,
)

# Reducing such a case would take too much time or memory.
HOPELESS = frozenset({Symptom.HANG, Symptom.MEMORY})
# Default time limit for judging a case.
MAX_SECONDS = 60.0


def judge_isolated(case: KernelCase, device: str, seconds: float) -> KernelVerdict:
    """Return the verdict of an `IsolatedJudge`, with every check."""
    with IsolatedJudge(device, seconds) as judge:
        return judge.verdict(case)


class IsolatedJudge(JudgeService):
    """Judge of cases on one device, with a limit of `seconds` for each case."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__("tinyref_fuzz.findings.isolated", device)
        self.seconds = seconds

    def verdict(self, case: KernelCase, thorough: bool = True) -> KernelVerdict:
        """Return the verdict with every check, or with few.

        The death of the process is a verdict too, as is a timeout, or using most of the memory.
        """
        answer = self._ask("judge", case, self.seconds, thorough=thorough)
        if isinstance(answer, Death):
            return verdict_of_death(answer)
        return verdict_from_json(answer["verdict"])

    def explain(self, case: KernelCase, verdict: KernelVerdict) -> tuple[Opts, Blame] | None:
        """Return the optimisations that a fault needs, and the blame; None if the process dies."""
        answer = self._ask_about(verdict, "explain", case)
        if isinstance(answer, Death):
            return None
        return parse_opts(answer["opts"]), blame_from_json(answer["blame"])

    def show(self, case: KernelCase, verdict: KernelVerdict, width: int) -> str:
        """Return the text of `side_by_side`, or an outline if the process dies."""
        answer = self._ask_about(verdict, "show", case, width=width)
        if isinstance(answer, Death):
            return f"{outline(case, verdict, width)}stages  cannot be printed: {answer.words}\n"
        text: str = answer["text"]
        return text

    def script(self, case: KernelCase, verdict: KernelVerdict, language: str = "") -> str:
        """Return the text of `reproducer`, or of `tool_reproducer` in a language.

        Raises `UserError` if the process dies.
        """
        answer = self._ask_about(verdict, "script", case, language=language)
        if isinstance(answer, Death):
            raise UserError(f"script: {self.device} cannot compile the kernel: {answer.words}")
        text: str = answer["text"]
        return text

    def finding(self, case: KernelCase, verdict: KernelVerdict, seconds: float) -> Finding:
        """Examine a case, with `seconds` for the reduction, without risk to this process.

        If the other process dies, the finding is the unreduced case.
        """
        # Reduction may exceed its limit, as it checks the time between steps.
        within = seconds + EXAMINATION_GRACE + self.seconds
        message = {"verdict": verdict_to_json(verdict), "seconds": seconds, "limit": self.seconds}
        answer = self._ask("examine", case, within, **message)
        if isinstance(answer, Death):
            return _as_it_is(case, verdict, answer.words)
        return _finding(case, answer["reduced"], answer["seconds"])

    def with_checks_for(self, case: KernelCase, verdict: KernelVerdict) -> JudgeFunction:
        """Return the judge for reduction: with few checks if those show the fault."""
        thorough = not is_same_fault(self.verdict(case, thorough=False), verdict)
        return lambda candidate, _: self.verdict(candidate, thorough)

    # The process

    def _ask_about(
        self, verdict: KernelVerdict, task: str, case: KernelCase, **more: object
    ) -> Message | Death:
        """Send a task about a verdict, with the time limit of judging and some more."""
        within = self.seconds + EXAMINATION_GRACE
        return self._ask(task, case, within, verdict=verdict_to_json(verdict), **more)

    def _ask(self, task: str, case: KernelCase, within: float, **more: object) -> Message | Death:
        """Send a task with a time limit. Raises `UserError` with the error of the process."""
        request = {"task": task, "case": record_to_json(CaseRecord(case)), **more}
        return self.ask(request, within)


def _finding(original: KernelCase, reduced: object, seconds: float) -> Finding:
    """Return the finding of a reduced case from a process."""
    record = record_from_json(reduced)
    case, verdict, blame = record.case, record.verdict, record.blame
    assert verdict is not None, "a reduced case is written with its verdict"
    assert blame is not None, "a reduced case is written with its blame"
    return Finding(case, original, verdict, blame, seconds)


def _as_it_is(case: KernelCase, verdict: KernelVerdict, problem: str) -> Finding:
    return Finding(case, case, verdict, blame_of_pair(verdict), problem=problem)


# --- in a fork ------------------------------------------------------------------------------------


def examine_crash(
    case: KernelCase, verdict: KernelVerdict, device: str, seconds: float, limit: float
) -> Finding:
    """Examine a case, with each judgement in its own process, for at most `limit` seconds.

    The processes are forks if the device survives that; otherwise each opens the device.
    """
    if Device.backend_class(device).survives_fork:

        def judge_forked(candidate: KernelCase, name: str) -> KernelVerdict:
            return judge_in_fork(
                lambda: Judge(name).verdict(candidate, thorough=True), verdict, limit
            )

        return examine(case, verdict, device, seconds, judge_forked, blame_of_death)
    with IsolatedJudge(device, limit) as fresh:

        def judge_newly(candidate: KernelCase, _: str) -> KernelVerdict:
            return fresh.verdict(candidate)

        return examine(case, verdict, device, seconds, judge_newly, blame_of_death)


def blame_of_death(case: KernelCase, verdict: KernelVerdict, device: str) -> Blame:
    """Return the stage of the pair: running the case would end this process."""
    return blame_of_pair(verdict)


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Receive a device, then answer one task after another."""
    serve_judge(judge_of, _reply)


def _reply(judge: Judge, request: Message) -> Message:
    case = record_from_json(request["case"]).case
    return TASKS[request["task"]](judge, case, request)


def _judge(judge: Judge, case: KernelCase, message: Mapping[str, Any]) -> Message:
    return {"verdict": verdict_to_json(verdict_of(judge, case, message["thorough"]))}


def _explain(judge: Judge, case: KernelCase, message: Mapping[str, Any]) -> Message:
    verdict = verdict_from_json(message["verdict"])
    opts = opts_text(judge.failing_opts(case, verdict))
    blame = blame_or_pair(case, verdict, judge.device)
    return {"opts": opts, "blame": blame_to_json(blame)}


def _show(judge: Judge, case: KernelCase, message: Mapping[str, Any]) -> Message:
    verdict = verdict_from_json(message["verdict"])
    return {"text": side_by_side(case, verdict, judge.device, message["width"])}


def _script(judge: Judge, case: KernelCase, message: Mapping[str, Any]) -> Message:
    verdict, language = verdict_from_json(message["verdict"]), message["language"]
    if language:
        return {"text": tool_reproducer(case, verdict, judge.device, language)}
    return {"text": reproducer(case, verdict, judge.device)}


def _examine(judge: Judge, case: KernelCase, message: Mapping[str, Any]) -> Message:
    """Examine a case; candidates are judged in another process, so that a crash only drops one."""
    verdict = verdict_from_json(message["verdict"])
    device, seconds, limit = judge.device, message["seconds"], message["limit"]
    if verdict.symptom is Symptom.CRASH:
        finding = examine_crash(case, verdict, device, seconds, limit)
    else:
        with IsolatedJudge(device, limit) as candidates:
            judge_function = candidates.with_checks_for(case, verdict)
            finding = examine(case, verdict, device, seconds, judge_function)
    reduced = record_to_json(CaseRecord(finding.case, "", finding.verdict, finding.blame))
    return {"reduced": reduced, "seconds": finding.seconds}


TASKS: dict[str, Callable[[Judge, KernelCase, Mapping[str, Any]], Message]] = {
    "judge": _judge,
    "explain": _explain,
    "show": _show,
    "script": _script,
    "examine": _examine,
}


if __name__ == "__main__":
    main()
