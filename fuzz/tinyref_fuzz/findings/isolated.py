"""A judge in a process of its own, for cases that may crash it or never end.

    python -m tinyref_fuzz.findings.isolated

The commands on case files ask it; campaigns have workers, which make their cases themselves.
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

# To try anything on such a case takes too long, or too much.
HOPELESS = frozenset({Symptom.HANG, Symptom.MEMORY})
# What judging a case may take where nobody says.
MAX_SECONDS = 60.0


def judge_isolated(case: KernelCase, device: str, seconds: float) -> KernelVerdict:
    """The verdict of an `IsolatedJudge`, with every check."""
    with IsolatedJudge(device, seconds) as judge:
        return judge.verdict(case)


class IsolatedJudge(JudgeService):
    """Judges cases on one device. `seconds` are what judging a case may take."""

    def __init__(self, device: str, seconds: float) -> None:
        super().__init__("tinyref_fuzz.findings.isolated", device)
        self.seconds = seconds

    def verdict(self, case: KernelCase, thorough: bool = True) -> KernelVerdict:
        """The verdict with every check, or with few.

        That the process died is one too, that it took too long, or most of the machine's memory.
        """
        answer = self._ask("judge", case, self.seconds, thorough=thorough)
        if isinstance(answer, Death):
            return verdict_of_death(answer)
        return verdict_from_json(answer["verdict"])

    def explain(self, case: KernelCase, verdict: KernelVerdict) -> tuple[Opts, Blame] | None:
        """The optimisations that a fault needs, and what is to blame; None where that dies too."""
        answer = self._ask_about(verdict, "explain", case)
        if isinstance(answer, Death):
            return None
        return parse_opts(answer["opts"]), blame_from_json(answer["blame"])

    def show(self, case: KernelCase, verdict: KernelVerdict, width: int) -> str:
        """The text of `side_by_side`, or an outline where that dies too."""
        answer = self._ask_about(verdict, "show", case, width=width)
        if isinstance(answer, Death):
            return f"{outline(case, verdict, width)}stages  cannot be shown: {answer.words}\n"
        text: str = answer["text"]
        return text

    def script(self, case: KernelCase, verdict: KernelVerdict, language: str = "") -> str:
        """Return the text of `reproducer`, or of `tool_reproducer` in a language.

        Raise `UserError` where writing it ends the process.
        """
        answer = self._ask_about(verdict, "script", case, language=language)
        if isinstance(answer, Death):
            raise UserError(f"script: {self.device} does not even say its list: {answer.words}")
        text: str = answer["text"]
        return text

    def finding(self, case: KernelCase, verdict: KernelVerdict, seconds: float) -> Finding:
        """As `examine`, with `seconds` for the reduction, of which no part ends this process.

        Where it ends the other process, the finding is the case as it is.
        """
        # It may take more than its limit: it looks at the time between its steps.
        within = seconds + EXAMINATION_GRACE + self.seconds
        given = {"verdict": verdict_to_json(verdict), "seconds": seconds, "limit": self.seconds}
        answer = self._ask("examine", case, within, **given)
        if isinstance(answer, Death):
            return _as_it_is(case, verdict, answer.words)
        return _finding(case, answer["reduced"], answer["seconds"])

    def with_checks_for(self, case: KernelCase, verdict: KernelVerdict) -> JudgeFunction:
        """Judges as `reduced` would: with few checks where those show the fault."""
        thorough = not is_same_fault(self.verdict(case, thorough=False), verdict)
        return lambda candidate, _: self.verdict(candidate, thorough)

    # The process

    def _ask_about(
        self, verdict: KernelVerdict, task: str, case: KernelCase, **more: object
    ) -> Message | Death:
        """What it answers on a verdict, which may take as long as to come to it, and some more."""
        within = self.seconds + EXAMINATION_GRACE
        return self._ask(task, case, within, verdict=verdict_to_json(verdict), **more)

    def _ask(self, task: str, case: KernelCase, within: float, **more: object) -> Message | Death:
        """What it answers within so many seconds. Raises `UserError` with what it fails by."""
        request = {"task": task, "case": record_to_json(CaseRecord(case)), **more}
        return self.ask(request, within)


def _finding(original: KernelCase, reduced: object, seconds: float) -> Finding:
    """The finding of which a process wrote the reduced case."""
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
    """As `examine`, with every judgement in a process of its own that may take `limit` seconds.

    It is a fork of this one where the device survives that, else one that opens the device anew.
    """
    if Device.backend_class(device).survives_fork:

        def judge_forked(candidate: KernelCase, name: str) -> KernelVerdict:
            return judge_in_fork(
                lambda: Judge(name).verdict(candidate, thorough=True), verdict, limit
            )

        return examine(case, verdict, device, seconds, judge_forked, blame_of_death)
    with IsolatedJudge(device, limit) as fresh:

        def judge_afresh(candidate: KernelCase, _: str) -> KernelVerdict:
            return fresh.verdict(candidate)

        return examine(case, verdict, device, seconds, judge_afresh, blame_of_death)


def blame_of_death(case: KernelCase, verdict: KernelVerdict, device: str) -> Blame:
    """The stage of the pair: to try anything on the case would end this process."""
    return blame_of_pair(verdict)


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Receives a device, then what to do with one case after another, and answers each."""
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
    """Candidates are judged one process further, so that one which crashes is only left out."""
    verdict = verdict_from_json(message["verdict"])
    device, seconds, limit = judge.device, message["seconds"], message["limit"]
    if verdict.symptom is Symptom.CRASH:
        found = examine_crash(case, verdict, device, seconds, limit)
    else:
        with IsolatedJudge(device, limit) as candidates:
            asked = candidates.with_checks_for(case, verdict)
            found = examine(case, verdict, device, seconds, asked)
    reduced = record_to_json(CaseRecord(found.case, "", found.verdict, found.blame))
    return {"reduced": reduced, "seconds": found.seconds}


TASKS: dict[str, Callable[[Judge, KernelCase, Mapping[str, Any]], Message]] = {
    "judge": _judge,
    "explain": _explain,
    "show": _show,
    "script": _script,
    "examine": _examine,
}


if __name__ == "__main__":
    main()
