"""A process that answers requests, one after another: its own end, and its parent's end.

The first message to it is its configuration. It answers that it is open, with a report, or why it
is not. A process that died is replaced, so that a death costs one request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, Self

from tinyref import config
from tinyref.errors import explain_error, is_misnamed
from tinyref.workers.processes import Cause, Channel, Death, Limits, Message, Pool, WorkerProcess

TICK_SECONDS = 0.2
# Exit codes that programs rarely use.
EXIT_FATAL = 114
EXIT_LOST = 115

Answer = Callable[[Message], Mapping[str, Any]]


class Send(Protocol):
    """Sends messages to the parent, in their order."""

    def __call__(self, *messages: Mapping[str, Any]) -> None: ...


class FatalError(Exception):
    """An error that makes all further work of the parent useless."""


class OpeningError(Exception):
    """The error of a process that did not open, with the reason.

    is_misnamed: no device has that name.
    is_death: the process ended while it opened.
    """

    def __init__(self, reason: str, *, is_misnamed: bool = False, is_death: bool = False) -> None:
        super().__init__(reason)
        self.is_misnamed = is_misnamed
        self.is_death = is_death

    @property
    def description(self) -> str:
        """Return the reason; if the process died, with what it did at that time."""
        return f"while opening the device: {self}" if self.is_death else str(self)

    @staticmethod
    def of(answer: Message | Death) -> OpeningError:
        """Build the error from the end of the process, or from the message that it sent."""
        if isinstance(answer, Death):
            return OpeningError(answer.detail, is_death=True)
        if "fatal" in answer:
            return OpeningError(answer["fatal"])
        return OpeningError(answer["refused"], is_misnamed=answer["misnamed"])


def leave_device() -> NoReturn:
    """End a process whose device is lost, so that another one opens it again."""
    # Not by an exception: a driver may hang in its cleanup at the end of a process.
    os._exit(EXIT_LOST)


def serve(open_service: Callable[[Message, Send], tuple[object, Answer]]) -> NoReturn:
    """Open a service and answer until the parent closes the pipe or sends `stop`.

    open_service: takes the configuration and a function that sends messages before an answer. It
    returns its report and the function that answers a request. `FatalError` from either is
    reported as fatal; any other error in opening is the reason why it does not open.
    """
    channel = Channel()
    try:
        _serve(channel, open_service)
    except FatalError as error:
        channel.send({"fatal": str(error)})
        os._exit(EXIT_FATAL)
    # Threads of a device must not delay the exit.
    os._exit(0)


def _serve(
    channel: Channel, open_service: Callable[[Message, Send], tuple[object, Answer]]
) -> None:
    try:
        opened, answer = open_service(channel.receive(), channel.send)
    except FatalError:
        raise
    except (Exception, SystemExit) as error:  # anything: the parent reports it
        channel.send({"refused": explain_error(error), "misnamed": is_misnamed(error)})
        return
    channel.send({"opened": opened})
    while not (request := channel.receive()).get("stop"):
        channel.send(answer(request))


class Service:
    """The parent's end: one process, started when it is needed; a context manager.

    opened: the report of the last process that opened.
    module: the module that it runs, which calls `serve`.
    configuration: the first message to it.
    environment: its environment, if not `worker_environment`.
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
        """End the process and all that it started."""
        self._pool.close()

    @property
    def process(self) -> WorkerProcess | None:
        """Return the current process, if there is one."""
        return self._pool.workers[0] if self._pool.workers else None

    def open(self) -> WorkerProcess:
        """Return the process, or a new one if it died after its last answer.

        Raises `OpeningError` if it does not open, and `OSError` if none can be started.
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
        """Return the answer, or how the process ended before. Raises as `open` does."""
        worker = self.open()
        worker.send(request)
        return self._answer(worker, limits)

    def _answer(self, worker: WorkerProcess, limits: Limits) -> Message | Death:
        worker.limit(limits)
        while True:
            for _, event in self._pool.events(TICK_SECONDS):
                return event
