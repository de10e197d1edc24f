"""A worker: opens the device and runs cases; messages are JSON lines, one in, one out.

    python -m tinyref_conformance.worker

It announces each case before it begins, so a death is attributed to one case. When the main
process has ended, the pipe is closed, and the worker exits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinyref import config
from tinyref.contract import BatchCompiler
from tinyref.device import Device, Health, memory
from tinyref.errors import (
    BackendError,
    DeviceError,
    TinyrefError,
    UserError,
    VerifyError,
    explain_error,
    vendors_error,
)
from tinyref.runtimes.kernel import compile_ahead, load_watchers
from tinyref.runtimes.null import programs_of
from tinyref.runtimes.stored_programs import store_programs
from tinyref.uops.program import Program
from tinyref.workers.processes import Message
from tinyref.workers.service import Answer, FatalError, Send, leave_device, serve
from tinyref_conformance import records
from tinyref_conformance.expectations import Phase
from tinyref_conformance.records import Record
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import Suite
from tinyref_spec.case import Case, Failure, Measurement, NotOfferedError, Profile, Row, Rung
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.evidence import Evidence
from tinyref_spec.reach import extents_of, widen

# Members of a backend that take part in making a kernel.
COMPILING = frozenset({"renderer.render", "compiler.key", "compiler.compile", "load"})


class _Described(BaseException):
    """Ends a case at the launch to be described; no case catches it."""

    def __init__(self, describe: Callable[[], Failure]) -> None:
        super().__init__()
        self.describe = describe


def main() -> None:
    """Run until the main process closes the pipe."""
    store_programs()
    serve(_open_worker)


def _open_worker(configuration: Message, send: Send) -> tuple[object, Answer]:
    worker = ConformWorker(configuration, send)
    return worker.open(), worker.answer


class ConformWorker:
    """The state of one worker process."""

    def __init__(self, config: Mapping[str, Any], send: Send) -> None:
        self.send = send
        # The number of a process may be used again, so the name has the time too.
        self.name = f"{os.getpid()}-{time.time_ns()}"
        self.suite = Suite(config["catalogue"])
        self.profile = Profile(config["profile"])
        self.suite_hash = str(config["suite_hash"])
        self.device_name = str(config["device"])
        self.second_name = str(config["second"])
        self._rows: dict[str, Row] = {}
        self._device: Any = None
        self._health: Health | None = None
        self._passing_case: Case | None = None
        # Number of launches that the running case has begun, and a function that describes the
        # last.
        self._launches = 0
        self._launches_before = 0
        self._describe: Callable[[], Failure] | None = None
        # The largest sizes that the device was asked for, and those that were sent.
        self._reach: dict[str, int] = {}
        self._sent_reach: dict[str, int] = {}

    def open(self) -> Mapping[str, Any]:
        """Open the device and return what it declares."""
        if self.suite.hash() != self.suite_hash:
            raise FatalError("the tables changed on disk while the run was going on")
        self._device = self.suite.open_device(self.device_name, self.second_name)
        self._device.announce = self._begin_launch
        if isinstance(self._device, DeviceUnderTest):
            self._health = Health(self.device_name)
            load_watchers.append(self._note_program)
        description = describe_device(self.device_name, self._device)
        return {**description, **self._describe_second(description), "worker": self.name}

    def _health_problem(self) -> str:
        """Return why the device no longer answers; empty if it does."""
        problem = "" if self._health is None else self._health.problem_since()
        return problem or self._problem_of_launches()

    def _problem_of_launches(self) -> str:
        """Return a problem if a case that passed in this process now fails; copies may work."""
        passing = self._passing_case
        if passing is None or self._run(passing).status is Status.PASS:
            return ""
        return f"{passing.id} passed before, and fails now"

    def _note_passing(self, case: Case, record: Record) -> None:
        """Remember the first case of the simplest kernels that launched something and passed."""
        is_one = record.status is Status.PASS and self._launches and case.rung is Rung.STORE
        if self._passing_case is None and is_one:
            self._passing_case = case

    def _describe_second(self, first: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what results depend on besides the first device; empty if no second is named."""
        if not self.second_name:
            return {}
        second = describe_device(self.second_name, self.suite.open_device(self.second_name))
        named = {f"second {name}": value for name, value in second["identity"].items()}
        return {
            "identity": {**first["identity"], **named},
            "environment": {**second["environment"], **first["environment"]},
            "second_versions": second["versions"],
        }

    def answer(self, message: Message) -> Message:
        """Describe a launch, trace or measure a case, or run a task."""
        # The device gets verified programs. Between passes only a fault of the compiler can break a
        # rule; tests and the fuzzer look for those.
        with config.Context(VERIFY=min(config.integer("VERIFY"), 1)):
            if "task" in message:
                return self.run_task(message["task"])
            if "describe" in message:
                return self.describe(message)
            return self.trace(message) if "trace" in message else self.measure(message)

    def measure(self, message: Mapping[str, Any]) -> Message:
        """Return the record of a case that is run again, which is not put into the journal.

        lost: why the device no longer answers; empty if it does.
        """
        self._device.announce = self._note_launch
        case = self._case(message["row"], message["measure"])
        record = self._run(case, attempt=2)
        self._note_passing(case, record)
        lost = "" if record.status is Status.PASS else self._health_problem()
        # The check of the device's health launches too, and must not send notes before the answer.
        self._device.announce = self._begin_launch
        return {"measured": record.to_json(), "lost": lost}

    def trace(self, message: Mapping[str, Any]) -> Message:
        """Return the first node that differs in the kernel of a case that fails."""
        if not isinstance(self._device, DeviceUnderTest):
            return {}
        self._device.announce = self._note_launch
        self._device.trace_seconds = float(message["seconds"])
        record = self._run(self._case(message["row"], message["trace"]))
        return {"difference": (record.details or {}).get("difference", "")}

    def _case(self, row: str, name: str) -> Case:
        return next(case for case in self._row(row).cases(self.profile) if case.id == name)

    def run_task(self, task: Mapping[str, Any]) -> Message:
        """Run the cases of a task in their order; first compile the kernels of a batch."""
        cases = {
            case.id: case for row in task["rows"] for case in self._row(row).cases(self.profile)
        }
        chosen = [cases[name] for name in task["items"]]
        # Cases that ended a worker are not compiled together again.
        if task.get("compiles_together") and task["attempt"] == 1:
            self.send(self._prepare(chosen))
        ended: list[Message] = []
        for case in chosen:
            # The main process wakes once for the end of a case and the beginning of the next one.
            self.send(*ended, {"begin": case.id})
            record = self._of_this_process(self._run(case))
            self._note_passing(case, record)
            problem = "" if record.status is Status.PASS else self._health_problem()
            if problem:
                words = f"{record.message}\nthe device was lost, and is opened again: {problem}"
                record = dataclasses.replace(record, status=Status.CRASH, message=words)
            ended = [{"end": case.id, "result": record.to_json()}]
            if problem:
                self.send(*ended)
                leave_device()
        self.send(*ended)
        return {"done": True}

    def _of_this_process(self, record: Record) -> Record:
        """Return the record with the worker's name and its number of launches so far."""
        self._launches_before += self._launches
        known = record.evidence or Evidence()
        count = self._launches_before
        launches = (count, None) if record.status.is_broken else (None, count)
        evidence = dataclasses.replace(known, launches=launches, reach=self._new_reach())
        return dataclasses.replace(record, worker=self.name, evidence=evidence)

    def _note_program(self, device: str, program: Program) -> None:
        if device == Device.canonical(self.device_name):
            widen(self._reach, extents_of(program))

    def _new_reach(self) -> dict[str, int]:
        """Return the sizes that grew since the last record of this process."""
        if isinstance(self._device, DeviceUnderTest):
            self._reach["copy"] = memory.copied.get(Device.canonical(self.device_name), 0)
        grown = {
            name: size for name, size in self._reach.items() if size > self._sent_reach.get(name, 0)
        }
        self._sent_reach |= grown
        return grown

    def _prepare(self, cases: Sequence[Case]) -> Message:
        """Compile the kernels of cases in one call; return their number and the time.

        A failed call fails no case: each kernel is then compiled when its case asks for it. A
        compiler may refuse a batch. If it returns something other than programs, that is a problem.
        """
        started = time.perf_counter()
        kernels, problem = 0, ""
        try:
            if isinstance(self._device, DeviceUnderTest):
                kernels = compile_ahead(self.device_name, self._programs_of(cases))
            else:
                kernels = self._device.prepare(cases)
        except BackendError as error:
            problem = explain_error(error)
        except DeviceError:
            kernels = 0
        seconds = time.perf_counter() - started
        return {"prepared": kernels, "seconds": seconds, "problem": problem}

    def _programs_of(self, cases: Sequence[Case]) -> list[Program]:
        """Return the programs that cases ask for before they read the first value."""
        return [
            program
            for case in cases
            for program in programs_of(self.device_name, functools.partial(run_on, case))
        ]

    def describe(self, message: Mapping[str, Any]) -> Message:
        """Return what a report shows of a launch of a case, by its number, without making it."""
        number = int(message["launch"])

        def stop(describe: Callable[[], Failure]) -> None:
            self._launches += 1
            if self._launches == number:
                raise _Described(describe)

        details: dict[str, Any] = {}
        self._launches = 0
        self._device.announce = stop
        for case in self._row(message["row"]).cases(self.profile):
            if case.id == message["describe"]:
                try:
                    case.run(self._device)
                except _Described as reached:
                    details = records.details_of(reached.describe())
        self._device.announce = self._begin_launch
        return {"described": details}

    def _begin_launch(self, describe: Callable[[], Failure]) -> None:
        """Send a note before the launch, so that a death can be attributed to it."""
        self._note_launch(describe)
        self.send({"note": self._launches})

    def _note_launch(self, describe: Callable[[], Failure]) -> None:
        self._launches += 1
        self._describe = describe

    def _row(self, row_id: str) -> Row:
        if row_id not in self._rows:
            self._rows |= self.suite.rows_with(row_id, self.profile)
        return self._rows[row_id]

    def _run(self, case: Case, attempt: int = 1) -> Record:
        started = time.perf_counter()
        self._launches, self._describe = 0, None
        try:
            measurement = case.run(self._device)
        except MemoryError:
            record = self._stop_record(
                case, attempt, started, Status.CRASH, "out of memory", Phase.RUN
            )
            details = {"launch": self._launches}
            return dataclasses.replace(record, details=details, fault="no-memory")
        except NotOfferedError as reason:
            return self._not_offered(case, attempt, started, str(reason))
        except Exception as error:  # a case must not take the run down with it
            record = self._stop_record(
                case, attempt, started, Status.FAIL, explain_error(error), phase_of(error)
            )
            fault = getattr(origin_of(error), "fault", "")
            return dataclasses.replace(record, details=self._details(error), fault=fault)
        if memory.unfreed:
            message = memory.unfreed[0]
            memory.unfreed.clear()
            return self._stop_record(case, attempt, started, Status.FAIL, message, Phase.RUN)
        return records.of_measurement(case, measurement, time.perf_counter() - started, attempt)

    def _not_offered(self, case: Case, attempt: int, started: float, reason: str) -> Record:
        """Return a skip for a library; a device fails, because capabilities decide its skips."""
        if isinstance(self._device, DeviceUnderTest):
            reason = f"a device cannot leave out a case as a library does: {reason}"
            return self._stop_record(case, attempt, started, Status.FAIL, reason, Phase.RUN)
        seconds = time.perf_counter() - started
        return Record(case.id, Status.SKIP, attempt, "", reason, seconds)

    def _details(self, error: Exception) -> dict[str, Any] | None:
        """Return what is known of the launch that ended in an error, and the error's source."""
        details: dict[str, Any] = {}
        if self._describe is not None:
            with contextlib.suppress(Exception):  # the description may be what failed
                details = records.details_of(self._describe())
        source = getattr(error, "source", "")
        if source:
            details["source"] = records.clipped(source)
        return details or None

    def _stop_record(
        self, case: Case, attempt: int, started: float, status: Status, message: str, phase: Phase
    ) -> Record:
        seconds = time.perf_counter() - started
        words = records.clipped(message)
        return Record(case.id, status, attempt, phase.value, words, seconds)


def run_on(case: Case, name: str) -> Measurement:
    """Return what a case measures on the device with this name."""
    return case.run(DeviceUnderTest(name))


def origin_of(error: BaseException) -> BaseException:
    """Return the deliberate error behind others, which only add where it happened."""
    while isinstance(error.__cause__, TinyrefError):
        error = error.__cause__
    return error


def phase_of(error: BaseException) -> Phase:
    """Return COMPILE for what a compiler or a verifier refused, RUN for the rest."""
    error = vendors_error(error) or origin_of(error)
    member = getattr(error, "member", "")
    if member in COMPILING:
        return Phase.COMPILE
    if isinstance(error, DeviceError):
        return Phase.COMPILE if error.source else Phase.RUN
    # A backend may also refuse a launch with a UserError.
    is_refused = isinstance(error, UserError | VerifyError) and not member
    return Phase.COMPILE if is_refused else Phase.RUN


def describe_device(name: str, device: Any) -> dict[str, Any]:
    """Return the capabilities as JSON, versions, flags, and what results depend on.

    compiles_many: True if the device's compiler takes many sources. batch_rows: the rows of a
    batch, if the device says it.

    Flags and environment are those of this process, which runs the cases.
    """
    from tinyref.runtimes.identity import environment, identity
    from tinyref_conformance.certificate import capabilities_to_json, device_versions

    backend = getattr(device, "backend", device)
    batch_rows = getattr(device, "batch_rows", 0)
    compiler = getattr(backend, "compiler", None)
    return {
        "capabilities": capabilities_to_json(device.capabilities),
        "versions": device_versions(name, device),
        "flags": config.changed_flags(),
        "environment": environment(backend),
        "identity": identity(backend),
        "compiles_many": bool(batch_rows) or isinstance(compiler, BatchCompiler),
        "batch_rows": batch_rows,
    }


if __name__ == "__main__":
    main()
