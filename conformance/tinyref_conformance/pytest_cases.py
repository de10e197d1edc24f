"""The cases of the suite as items of pytest; each runs in a worker and may end it.

Nothing is suppressed: each item reports its own case alone. So the order of cases and the processes
of pytest-xdist make no difference. `--dist loadgroup` keeps the cases of a row together, so that
what they share is compiled once.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tinyref.device import Device
from tinyref.durations import parse_duration
from tinyref.errors import TinyrefError, UserError
from tinyref.runtimes.identity import device_settings
from tinyref.workers.processes import Limits
from tinyref.workers.service import OpeningError, Service
from tinyref_conformance import expectations_file, history, queries
from tinyref_conformance.certificate import capabilities_from_json
from tinyref_conformance.conform import with_differences
from tinyref_conformance.expectations import Expectations
from tinyref_conformance.plan import Plan, make_plan, parse_profile
from tinyref_conformance.records import Record
from tinyref_conformance.report import repro_command
from tinyref_conformance.statuses import Status
from tinyref_conformance.suite import DEFAULT_CATALOGUE, SUBJECTS, Suite
from tinyref_spec.case import Case
from tinyref_spec.subjects.name import SubjectName, default_device, is_subject


@dataclass(frozen=True)
class Options:
    """The options of the plugin."""

    device: str
    second: str
    plan: Plan
    expectations: Expectations
    timeout: float

    @property
    def catalogue(self) -> str:
        """Return the name of the module with the rows."""
        return SUBJECTS if is_subject(self.device) else DEFAULT_CATALOGUE

    @classmethod
    def parse(
        cls, device: str, second: str, profile: str, query: str, expectations: str, timeout: str
    ) -> Self:
        """Return the options on the command line. Raises `pytest.UsageError` for an invalid one."""
        try:
            name = device if is_subject(device) else Device.canonical(device)
            suite = Suite(SUBJECTS if is_subject(device) else DEFAULT_CATALOGUE)
            plan = make_plan(suite, parse_profile(profile), query)
            known = Expectations(name)
            if expectations:
                known = expectations_file.load(Path(expectations), name)
            known = with_differences(known, suite)
            other = Device.canonical(second) if second else ""
            return cls(name, other, plan, known, _seconds(timeout))
        except UserError as error:
            raise pytest.UsageError(f"tinyref: {error}") from error


def name_of_subject(library: str, device: str, packages: str) -> str:
    """Return the name of a library, its device and the packages that register the device."""
    names = tuple(filter(None, packages.split(",")))
    try:
        return str(SubjectName(library, device or default_device(library), names))
    except UserError as error:
        raise pytest.UsageError(f"tinyref: {error}") from error


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except UserError as error:
        raise UserError(f"timeout: {error}") from error


def declare_marks(config: pytest.Config) -> None:
    """Declare the marks of the items, which `--strict-markers` requires."""
    for mark in ("rung(name)", "row(name)", "dtype(name)", "xdist_group(name)"):
        config.addinivalue_line("markers", f"{mark}: of a conformance case of tinyref")


class CaseFailedError(Exception):
    """A case that failed, with the note of the report."""

    def __init__(self, record: Record, note: str) -> None:
        super().__init__(record.message)
        self.record = record
        self.note = note


class ExpectedFailureError(CaseFailedError):
    """A case that failed in the phase in which that is expected."""


class Cases:
    """The plugin if a device is named: collects the cases, and runs them in one worker."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._today = datetime.datetime.now(datetime.UTC).date()
        self._service: Service | None = None
        self._problem = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Add the cases before `-m` and `-k` select items."""
        name = f"tinyref[{self.options.device}]"
        parent = CaseCollector.from_parent(session, name=name, nodeid=name, cases=self)
        items += parent.collect()

    def pytest_unconfigure(self) -> None:
        """End the worker."""
        if self._service is not None:
            self._service.close()

    def marks(self, case: Case) -> Iterator[pytest.MarkDecorator]:
        """Yield marks: rung, row, dtype, the group of xdist, and the expected failure."""
        yield pytest.mark.rung(name=case.rung.name)
        yield pytest.mark.row(name=case.row)
        if case.dtype:
            yield pytest.mark.dtype(name=case.dtype)
        yield pytest.mark.xdist_group(name=case.row)
        for entry in self.options.expectations.entries:
            if not entry.is_expired(self._today) and queries.matches(entry.query, case.id):
                reason = f"{entry.reason} ({entry.link})"
                yield pytest.mark.xfail(reason=reason, raises=ExpectedFailureError, strict=True)
                return

    def run(self, case: Case) -> None:
        """Run a case, and raise what pytest shows if it is skipped or fails."""
        known = self.options.expectations
        if (skipped := known.skipped(case.id, self._today)) is not None:
            pytest.skip(skipped)
        record = self._measure(case)
        status, why = known.final(case.id, record.status, record.phase, self._today)
        if status is Status.EXPECTED_FAIL:
            raise ExpectedFailureError(record, why)
        if status is Status.SKIP:
            pytest.skip(record.message)
        if record.status not in (Status.PASS, Status.UNSUPPORTED):
            raise CaseFailedError(record, why)

    def _measure(self, case: Case) -> Record:
        if self._problem:
            raise OpeningError(self._problem)
        service = self._started()
        try:
            service.open()
            declared = capabilities_from_json(service.opened["capabilities"])
            if (unmet := case.needs.unmet(declared)) is not None:
                pytest.skip(unmet)
            request = {"measure": case.id, "row": case.row}
            answer = service.ask(request, Limits(self.options.timeout))
        except OpeningError as error:
            self._problem = str(error)
            raise
        record = history.record_of(case.id, answer)
        if isinstance(answer, dict) and answer["lost"]:
            # Another process opens the device again.
            service.close()
        return record

    def _started(self) -> Service:
        if self._service is None:
            asked = self.options
            configuration = asked.plan.worker_configuration(
                asked.catalogue, asked.device, asked.second
            )
            self._service = Service("tinyref_conformance.worker", configuration)
        return self._service

    def command(self, case: Case) -> str:
        """Return the command that runs the case alone, without pytest."""
        asked = self.options
        profile = asked.plan.profile.value
        try:
            settings = {} if is_subject(asked.device) else device_settings(asked.device)
        except (TinyrefError, ImportError):
            settings = {}
        return repro_command(asked.device, profile, case.id, settings, asked.second)


class CaseCollector(pytest.Collector):
    """The parent of all cases."""

    def __init__(self, *, cases: Cases, **members: Any) -> None:
        super().__init__(**members)
        self.cases = cases

    def collect(self) -> list[pytest.Item]:
        return [
            CaseItem.from_parent(self, name=case.id, case=case, cases=self.cases)
            for planned in self.cases.options.plan.rows
            for case in planned.cases
        ]


class CaseItem(pytest.Item):
    """One case as an item of pytest."""

    def __init__(self, *, case: Case, cases: Cases, **members: Any) -> None:
        super().__init__(**members)
        self.case = case
        self.cases = cases
        for mark in cases.marks(case):
            self.add_marker(mark)

    def runtest(self) -> None:
        self.cases.run(self.case)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.case.id

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        if isinstance(error, OpeningError):
            return f"the device does not open: {error}"
        if not isinstance(error, CaseFailedError):
            return super().repr_failure(excinfo, style)
        record = error.record
        lines = [f"{record.status.value}: {record.message}", error.note]
        lines.append(self.cases.command(self.case))
        return "\n".join(line for line in lines if line)
