"""Judge in a separate process or in a fork, as a case may crash it or never end."""

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

# Capacity of a pipe without a reader.
_PIPE = 1 << 16
AnyJudge = TypeVar("AnyJudge")


class JudgeService:
    """Process that judges on one device, and is replaced when it dies; a context manager.

    `module` is the module to run, which calls `serve_judge`. The process starts at the first
    request. Every request raises `UserError` if the device does not open.
    """

    def __init__(self, module: str, device: str) -> None:
        self.device = device
        self._service = Service(module, {"device": device})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._service.close()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Message | Death:
        """Answer a request within `seconds`. Raises `UserError` with the error of the process."""
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
    """Receive a device, then answer one request after another by `reply`."""

    def opened(configuration: Message, send: Send) -> tuple[object, Answer]:
        judge = open_judge(configuration["device"])

        def answer(request: Message) -> Message:
            try:
                return {"reply": reply(judge, request)}
            except Exception as error:  # an error of a faulty compiler only fails this request
                return {"failure": explain_error(error)}

        return None, answer

    serve(opened)


def judge_in_fork(
    judge: Callable[[], KernelVerdict], verdict: KernelVerdict, limit: float
) -> KernelVerdict:
    """Return the verdict of a forked process, or `verdict` if it dies.

    Only for reduction: a device may behave differently after a fork, so campaigns start new
    processes.
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
