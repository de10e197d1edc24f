"""Judges in a process of their own, or in a fork: what they judge may crash them or never end."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self, TypeVar

from tinyref.errors import UserError, explain_error
from tinyref.workers.machine import usable_memory
from tinyref.workers.processes import Death, Limits, Message
from tinyref.workers.service import Answer, OpeningError, Send, Service, serve
from tinyref_spec.kernel_case import KernelVerdict, Symptom
from tinyref_spec.kernel_case.document import verdict_from_json, verdict_to_json

# What a pipe holds before its reader comes.
_PIPE = 1 << 16
AnyJudge = TypeVar("AnyJudge")


class JudgeService:
    """A process that judges on one device, replaced when it dies; a context manager.

    module: what it runs, which calls `serve_judge`. The process is started for the first request.
    Whatever is asked for raises `UserError` where the device does not open.
    """

    def __init__(self, module: str, device: str) -> None:
        self.device = device
        self._service = Service(module, {"device": device})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self._service.close()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Message | Death:
        """What it answers within so many seconds. Raises `UserError` with what it fails by."""
        try:
            answer = self._service.ask(request, Limits(seconds, usable_memory()))
        except OpeningError as error:
            raise UserError(f"device: {self.device} does not open: {error}") from error
        if isinstance(answer, Death):
            return answer
        if "failure" in answer:
            raise UserError(answer["failure"])
        reply: Message = answer["reply"]
        return reply


def serve_judge(
    open_judge: Callable[[str], AnyJudge], reply: Callable[[AnyJudge, Message], Message]
) -> NoReturn:
    """Receives a device, then one request after another, and answers each by `reply`."""

    def opened(configuration: Message, send: Send) -> tuple[object, Answer]:
        judge = open_judge(configuration["device"])

        def answer(request: Message) -> Message:
            try:
                return {"reply": reply(judge, request)}
            except Exception as error:  # what a broken compiler raises ends this request alone
                return {"failure": explain_error(error)}

        return None, answer

    serve(opened)


def judge_in_fork(
    judge: Callable[[], KernelVerdict], verdict: KernelVerdict, limit: float
) -> KernelVerdict:
    """The verdict of a forked process, which may die: then it is `verdict`.

    For reduction alone: what the device makes of a fork is not known, so a campaign judges in
    processes that are started afresh.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            signal.alarm(math.ceil(limit))
            os.write(writer, json.dumps(verdict_to_json(judge())).encode()[:_PIPE])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == -signal.SIGALRM:
        return KernelVerdict(verdict.pair, Symptom.HANG, f"no end within {limit:g} s")
    try:
        return verdict_from_json(json.loads(answer))
    except ValueError:
        return verdict
