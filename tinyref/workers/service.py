"""A process that answers requests, one after another: its own end, and that of its parent.

The first message to it is its configuration. It answers that it is open, and with what, or why it
is not. A process that died is replaced, so that what ends it costs one request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self

from tinyref import config
from tinyref.errors import explain_error, is_misnamed
from tinyref.workers.processes import Cause, Channel, Death, Limits, Message, Pool, WorkerProcess

TICK_SECONDS = 0.2
# A code that programs hardly choose for themselves.
EXIT_FATAL = 114
EXIT_LOST = 115

Send = Callable[[Mapping[str, Any]], None]
Answer = Callable[[Message], Mapping[str, Any]]


class FatalError(Exception):
    """What makes all further work of the parent useless, in words."""


class OpeningError(Exception):
    """A process that did not open, with the reason.

    is_misnamed: there is no device of that name. is_death: the process ended as it opened.
    """

    def __init__(self, reason: str, *, is_misnamed: bool = False, is_death: bool = False) -> None:
        super().__init__(reason)
        self.is_misnamed = is_misnamed
        self.is_death = is_death

    @property
    def description(self) -> str:
        """The reason, with what was going on if the process died."""
        return f"while opening the device: {self}" if self.is_death else str(self)

    @staticmethod
    def of(answer: Message | Death) -> OpeningError:
        """From how the process ended, or from what it sent instead of that it is open."""
        if isinstance(answer, Death):
            return OpeningError(answer.detail, is_death=True)
        if "fatal" in answer:
            return OpeningError(answer["fatal"])
        return OpeningError(answer["refused"], is_misnamed=answer["misnamed"])


def leave_device() -> NoReturn:
    """Ends a process whose device is lost, so that another one opens it again."""
    # Not by an exception: what a driver has to do at the end of a process may never end.
    os._exit(EXIT_LOST)


def serve(open_service: Callable[[Message, Send], tuple[object, Answer]]) -> NoReturn:
    """Opens a service and answers until the parent closes the pipe or sends `stop`.

    open_service: takes the configuration, and the way to send what comes before an answer; returns
    what to report of itself, and the function that answers a request. `FatalError` from either is
    reported as such; any other error in opening is the reason why it does not open.
    """
    channel = Channel()
    try:
        _serve(channel, open_service)
    except FatalError as error:
        channel.send({"fatal": str(error)})
        os._exit(EXIT_FATAL)
    # Threads of a device must not keep the process.
    os._exit(0)


def _serve(
    channel: Channel, open_service: Callable[[Message, Send], tuple[object, Answer]]
) -> None:
    try:
        opened, answer = open_service(channel.receive(), channel.send)
    except FatalError:
        raise
    except (Exception, SystemExit) as error:  # anything: the parent is to report what it was
        channel.send({"refused": explain_error(error), "misnamed": is_misnamed(error)})
        return
    channel.send({"opened": opened})
    while not (request := channel.receive()).get("stop"):
        channel.send(answer(request))


class Service:
    """The parent's end: one process, started when it is needed; a context manager.

    opened: what the last process reported of itself as it opened.
    module: what it runs, which calls `serve`. configuration: the first message to it. environment:
    what it gets instead of `worker_environment`.
    """

    def __init__(
        self,
        module: str,
        configuration: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.opened: Any = None
        self._pool = Pool(module, configuration, WorkerProcess)
        if environment is not None:
            self._pool.environment = dict(environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process with all that it started."""
        self._pool.close()

    @property
    def process(self) -> WorkerProcess | None:
        """The process that is there now."""
        return self._pool.workers[0] if self._pool.workers else None

    def open(self) -> WorkerProcess:
        """The process, or a new one where it died after its last answer.

        Raises `OpeningError` where it does not open, and `OSError` where none can be started.
        """
        if self.process is not None:
            if self.process.process.poll() is None:
                return self.process
            self._pool.remove(self.process)
        worker = self._pool.start()
        answer = self._answer(worker, Limits(config.integer("OPEN_SECONDS"), awaited="answer"))
        if isinstance(answer, Death):
            raise OpeningError.of(answer)
        if "opened" not in answer:
            worker.kill(Cause.DISMISSED)
            self._pool.remove(worker)
            raise OpeningError.of(answer)
        worker.is_open = True
        self.opened = answer["opened"]
        return worker

    def ask(self, request: Mapping[str, Any], limits: Limits) -> Message | Death:
        """The answer, or how the process ended before it came. Raises as `open`."""
        worker = self.open()
        worker.send(request)
        return self._answer(worker, limits)

    def _answer(self, worker: WorkerProcess, limits: Limits) -> Message | Death:
        worker.limit(limits)
        while True:
            for _, event in self._pool.events(TICK_SECONDS):
                return event
