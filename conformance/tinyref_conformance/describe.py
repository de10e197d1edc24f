"""What a report shows of the launches in which workers died: asked of a worker of its own.

A worker says which launch of a case it begins. After the run, another one goes through the case up
to that launch and says what it would be: inputs, source, IR and a script. The launch is not made.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tinyref_conformance.pool import Pool, WorkerProcess
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_spec.case import Case

if TYPE_CHECKING:
    from tinyref_conformance.runner import Outcome

# All descriptions of a run together; what is not described then has the command of its case.
MAX_SECONDS = 120.0
TICK_SECONDS = 0.1
_DEATHS = (Status.CRASH, Status.TIMEOUT)


def describe_deaths(
    outcome: Outcome, cases: Mapping[str, Case], config: Mapping[str, Any], timeout: float
) -> None:
    """Adds to the records of deaths what is known of the launch; `timeout` is for each."""
    found = [
        (attempts, place) for attempts in outcome.records.values() for place in _deaths(attempts)
    ]
    if not found:
        return
    end = time.monotonic() + MAX_SECONDS
    describer = _Describer(config, timeout)
    try:
        for attempts, place in found:
            record = attempts[place]
            if time.monotonic() < end and record.case in cases:
                details = {
                    **describer.describe(cases[record.case], record),
                    **(record.details or {}),
                }
                attempts[place] = dataclasses.replace(record, details=details)
    finally:
        describer.close()


def _deaths(attempts: list[Record]) -> list[int]:
    """The attempts that ended in a launch of which nothing is known but its number."""
    return [
        place
        for place, record in enumerate(attempts)
        if record.status in _DEATHS and (record.details or {}).get("launch")
    ]


class _Describer:
    """One worker at a time, a new one for each that dies."""

    def __init__(self, config: Mapping[str, Any], timeout: float) -> None:
        self._pool = Pool(config)
        self._timeout = timeout

    def close(self) -> None:
        self._pool.close()

    def describe(self, case: Case, record: Record) -> dict[str, Any]:
        """The details of a launch; empty where the worker died of it or said nothing in time."""
        worker = self._worker()
        if worker is None:
            return {}
        launch = (record.details or {})["launch"]
        worker.send({"describe": case.id, "row": case.row, "launch": launch})
        found = self._answer(worker, "described")
        return {} if found is None else found

    def _worker(self) -> WorkerProcess | None:
        """A worker that has opened the device."""
        if self._pool.workers:
            return self._pool.workers[0]
        self._pool.start()
        worker = self._pool.workers[0]
        return None if self._answer(worker, "opened") is None else worker

    def _answer(self, worker: WorkerProcess, wanted: str) -> dict[str, Any] | None:
        """What the worker says under that name; None, and the worker is gone, where it does not."""
        end = time.monotonic() + self._timeout
        while True:
            for _, message in self._pool.said(TICK_SECONDS):
                if message is None or "refused" in message or "fatal" in message:
                    self._lose(worker)
                    return None
                if wanted in message:
                    return dict(message[wanted])
            if time.monotonic() > end:
                self._lose(worker)
                return None

    def _lose(self, worker: WorkerProcess) -> None:
        worker.kill("it has not answered")
        self._pool.remove(worker)
