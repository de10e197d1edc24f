"""A worker: opens the device and runs cases, one JSON line in, one JSON line out.

    python -m tinyref_conformance.worker

It says which case it begins before it begins it, so a death is pinned to one case, and it appends
each result to the journal before it says that the case ended. When the main process is gone the
closed pipe tells, and the worker leaves.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyref import config
from tinyref.device import is_misnamed
from tinyref.errors import DeviceError, UserError, VerifyError, explained, vendors_error
from tinyref.processes import Line
from tinyref_conformance import journal, records
from tinyref_conformance.expectations import Phase
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Case, Profile, Row

EXIT_JOURNAL = 4
# Members of a backend that take part in making a kernel.
COMPILING = frozenset({"renderer.render", "compiler.key", "compiler.compile", "load"})


def main() -> None:
    """Runs until the main process closes the pipe or says to stop."""
    line = Line()
    worker = Worker(line.hear(), line)
    worker.open()
    while True:
        message = line.hear()
        if message.get("stop"):
            return
        worker.run_row(message)


class Worker:
    """The state of one worker process."""

    def __init__(self, config: Mapping[str, Any], line: Line) -> None:
        self.say = line.say
        self.suite = Suite(config["catalogue"])
        self.profile = Profile(config["profile"])
        self.suite_hash = str(config["suite_hash"])
        self.device_name = str(config["device"])
        path = Path(config["journal"])
        self._holds = journal.hold_as_worker(path)
        self.journal = journal.Appender(path)
        self._rows: dict[str, Row] | None = None
        self._device: Any = None

    def open(self) -> None:
        """Opens the device and reports what it declares, or why it does not open."""
        if self.suite.hash() != self.suite_hash:
            self.say({"fatal": "the tables changed on disk while the run was going on"})
            os._exit(EXIT_JOURNAL)
        try:
            self._device = self.suite.open_device(self.device_name)
            self.say({"opened": describe_device(self.device_name, self._device)})
        except (Exception, SystemExit) as error:  # anything: the report is to say what it was
            self.say({"refused": explained(error), "misnamed": is_misnamed(error)})

    def run_row(self, message: Mapping[str, Any]) -> None:
        """Runs the named cases of one row, in order."""
        wanted = set(message["cases"])
        attempt = int(message["attempt"])
        for case in self._row(message["row"]).cases(self.profile):
            if case.id not in wanted:
                continue
            self.say({"begin": case.id})
            record = self._run(case, attempt)
            try:
                self.journal.write({"result": record.to_json()})
            except OSError as error:
                self.say({"fatal": f"cannot write the journal: {error}"})
                os._exit(EXIT_JOURNAL)
            self.say({"end": case.id})
        self.say({"row_done": message["row"]})

    def _row(self, row_id: str) -> Row:
        if self._rows is None:
            self._rows = {row.id: row for row in self.suite.rows(self.profile)}
        return self._rows[row_id]

    def _run(self, case: Case, attempt: int) -> Record:
        started = time.perf_counter()
        try:
            measurement = case.run(self._device)
        except MemoryError:
            return self._stopped(case, attempt, started, Status.CRASH, "out of memory", Phase.RUN)
        except Exception as error:  # a case must not take the run down with it
            found = self._stopped(
                case, attempt, started, Status.FAIL, explained(error), _phase(error)
            )
            source = getattr(error, "source", "")
            return dataclasses.replace(found, details={"source": source}) if source else found
        return records.of_measurement(case, measurement, time.perf_counter() - started, attempt)

    def _stopped(
        self, case: Case, attempt: int, started: float, status: Status, message: str, phase: Phase
    ) -> Record:
        seconds = time.perf_counter() - started
        return Record(case.id, status, attempt, phase.value, message, seconds)


def _phase(error: BaseException) -> Phase:
    """Compile for what a compiler or a verifier refused, run for the rest."""
    vendors = vendors_error(error)
    if vendors is not None and vendors.member in COMPILING:
        return Phase.COMPILE
    if isinstance(error, DeviceError):
        return Phase.COMPILE if error.source else Phase.RUN
    return Phase.COMPILE if isinstance(error, UserError | VerifyError) else Phase.RUN


def describe_device(name: str, device: Any) -> dict[str, Any]:
    """Capabilities as JSON and as the runner needs them, versions, flags, and what results bind to.

    Flags and environment are those of this process, in which the cases run.
    """
    from tinyref.runtimes.identity import environment, identity
    from tinyref_conformance.certificate import capabilities_to_json, device_versions

    backend = getattr(device, "backend", device)
    return {
        "capabilities": capabilities_to_json(device.capabilities),
        "versions": device_versions(name, device),
        "flags": config.changed(),
        "environment": environment(backend),
        "identity": identity(backend),
    }


if __name__ == "__main__":
    main()
