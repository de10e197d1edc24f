"""A judge of programs in a process of its own, for those that may crash it or never end.

    python -m tinyref_fuzz.programs.isolated

The commands on files of programs ask it.
"""

from __future__ import annotations

from dataclasses import replace

from tinyref.errors import UserError, explain_error
from tinyref.workers.machine import usable_memory
from tinyref.workers.processes import Death, Limits, Message
from tinyref.workers.service import Answer, OpeningError, Send, Service, serve
from tinyref_fuzz.judge.deaths import EXAMINATION_GRACE, verdict_of_death
from tinyref_fuzz.programs.examine import blame_of_pair, examine_program
from tinyref_fuzz.programs.judge import ProgramJudge
from tinyref_fuzz.programs.record import ProgramRecord, record_from_json, record_to_json


def judge_isolated(
    record: ProgramRecord, device: str, seconds: float, reducing: float = 0.0
) -> ProgramRecord:
    """The record with the verdict on `device`, and with the blame where it fails.

    seconds: what judging may take. reducing: what making it small may take, not at all for 0.
    That the process died is a verdict too. Raises `UserError` where the device does not open.
    """
    within = seconds + reducing + EXAMINATION_GRACE
    request = {"record": record_to_json(record), "reducing": reducing}
    with Service("tinyref_fuzz.programs.isolated", {"device": device}) as service:
        try:
            answer = service.ask(request, Limits(within, usable_memory()))
        except OpeningError as error:
            raise UserError(f"device: {device} does not open: {error}") from error
    if isinstance(answer, Death):
        verdict = verdict_of_death(answer)
        return replace(record, verdict=verdict, blame=blame_of_pair(verdict), device=device)
    if "problem" in answer:
        raise UserError(answer["problem"])
    return record_from_json(answer["record"])


def main() -> None:
    """Receives a device, then one program after another, and answers each."""
    serve(_open_judge)


def _open_judge(configuration: Message, send: Send) -> tuple[object, Answer]:
    judge = ProgramJudge(configuration["device"])

    def answer(request: Message) -> Message:
        try:
            record = record_from_json(request["record"])
            return {"record": record_to_json(_judged(judge, record, request["reducing"]))}
        except Exception as error:  # what a broken compiler raises ends this task alone
            return {"problem": explain_error(error)}

    return None, answer


def _judged(judge: ProgramJudge, record: ProgramRecord, reducing: float) -> ProgramRecord:
    verdict = judge.verdict(record.program, thorough=True)
    if verdict.agrees:
        return replace(record, verdict=None, blame=None, device=judge.device)
    found = examine_program(judge, record.program, verdict, reducing)
    return replace(
        record,
        program=found.program,
        verdict=found.verdict,
        blame=found.blame,
        device=judge.device,
    )


if __name__ == "__main__":
    main()
