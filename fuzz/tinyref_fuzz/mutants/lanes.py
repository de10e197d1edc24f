"""What is to find a mutant: the fuzzer, the quick tests, or the quick suite of conformance.

A lane is a number of units, each of which passes or shows a fault: cases of the fuzzer, tests,
cases of the suite. They run in the process in which the mutant is switched on, and in its children.
"""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tinyref_fuzz.mutants.mechanical import ROOMS
from tinyref_fuzz.mutants.mutant import Reached

if TYPE_CHECKING:
    from tinyref_fuzz.mutants.trial import Request

# The folders of tests of a checkout.
TESTS = ("tests", "spec/tests", "fuzz/tests", "conformance/tests")


class LaneError(Exception):
    """A lane that cannot be run here."""


@dataclass(frozen=True)
class Failure:
    """What a unit showed."""

    symptom: str
    detail: str
    pair: str = ""


class Lane(Protocol):
    """The units of a lane, by name. Nothing is done of any of them before it runs."""

    def begin(self, request: Request) -> None:
        """Takes the device and the seed of a request, in the process that is to run units."""

    def names(self) -> Iterable[str]:
        """The names of all units, in their order."""

    def run(self, name: str) -> Failure | None:
        """Runs one; None where it passes."""

    def recorded(self, name: str) -> str:
        """The name by which a table has the unit that ran last."""
        return name


Then = Callable[[Lane], None]


def checkout() -> Path:
    """The folder of the checkout. Raises `LaneError` for an installation without tests."""
    spec = importlib.util.find_spec("tinyref")
    assert spec is not None, "tinyref is imported here"
    assert spec.origin is not None, "tinyref has a file"
    root = Path(spec.origin).parent.parent
    if not (root / "conftest.py").is_file():
        raise LaneError(f"lane: {root} has no tests: accepted is a checkout of the sources")
    return root


# --- the quick tests ----------------------------------------------------------------------------


class Tests(Lane):
    """Items that pytest has collected."""

    def __init__(self, items: Sequence[Any], failures: list[str]) -> None:
        self._items = {item.nodeid: item for item in items}
        self._failures = failures

    def begin(self, request: Request) -> None:
        """Tests open their devices themselves."""

    def names(self) -> Iterable[str]:
        return list(self._items)

    def run(self, name: str) -> Failure | None:
        self._failures.clear()
        item = self._items[name]
        # Without a next one, so that its fixtures are its own, and are taken down after it.
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return Failure("TEST", self._failures[0]) if self._failures else None


class _Plugin:
    """What pytest calls: all is collected, then `then` decides what runs."""

    def __init__(self, then: Then) -> None:
        self.then = then
        self.failures: list[str] = []
        self.unread: list[str] = []
        self.error: BaseException | None = None

    def pytest_runtestloop(self, session: Any) -> bool:
        """Instead of running every item."""
        try:
            self.then(Tests(session.items, self.failures))
        except LaneError as error:
            self.error = error
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test, its preparation or its end is over."""
        if report.failed:
            self.failures.append(f"{report.nodeid}: {report.longreprtext[-300:]}")

    def pytest_collectreport(self, report: Any) -> None:
        """A file is read."""
        if report.failed:
            self.unread.append(f"{report.nodeid}: {report.longreprtext[-300:]}")


def quick_tests(request: Request, then: Then) -> None:
    """All quick tests."""
    _collect(request, TESTS, then)


def room_tests(request: Request, then: Then) -> None:
    """The quick tests of the mutants' rooms."""
    _collect(request, [f"tests/{room}" for room in ROOMS], then)


def _collect(request: Request, folders: Sequence[str], then: Then) -> None:
    import pytest

    os.chdir(checkout())
    plugin = _Plugin(then)
    # Of given tests their files alone are read.
    files = list(dict.fromkeys(name.partition("::")[0] for name in request.units)) or folders
    options = ["-m", "quick", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-o", "tmp_path_retention_policy=none", f"--basetemp={request.folder}/pytest"]
    pytest.main([*options, *files], plugins=[plugin])
    if plugin.error is not None:
        raise plugin.error
    if plugin.unread:
        raise CollectionError(plugin.unread[0])


class CollectionError(Exception):
    """Tests that cannot be read, for which a mutant is to blame."""


# --- conformance --------------------------------------------------------------------------------


class Conformance(Lane):
    """The cases of the quick suite that the device owes, lowest rung first."""

    def __init__(self) -> None:
        suites = importlib.import_module("tinyref_conformance.suite")
        plans = importlib.import_module("tinyref_conformance.plan")
        cases = importlib.import_module("tinyref_spec.case")
        self._suite = suites.Suite()
        self._plan = plans.make_plan(self._suite, cases.Profile.QUICK)
        self._cases = {case.id: case for row in self._plan.rows for case in row.cases}
        self._device: Any = None

    def begin(self, request: Request) -> None:
        """Opens the device: drivers do not fork."""
        self._device = self._suite.open_device(request.device)

    def names(self) -> Iterable[str]:
        return list(self._cases)

    def run(self, name: str) -> Failure | None:
        records = importlib.import_module("tinyref_conformance.records")
        device, case = self._device, self._cases[name]
        if case.needs.unmet(device.capabilities) is not None:
            return None
        started = time.perf_counter()
        try:
            measurement = case.run(device)
        except Exception as error:  # as for the runner, an error is a failure
            return Failure("CASE", f"{name}: {type(error).__name__}: {error}")
        record = records.of_measurement(case, measurement, time.perf_counter() - started, 1)
        if record.status.value not in ("Pass", "Unsupported"):
            # Wrong elements are told from a refusal that is missing, or an error.
            is_wrong = record.evidence is not None and record.evidence.elements[0] > 0
            symptom = "VALUE" if is_wrong else "CASE"
            return Failure(symptom, f"{record.status.value}: {name}: {record.message}")
        return None


def conformance(request: Request, then: Then) -> None:
    """The quick suite of conformance."""
    then(Conformance())


# --- the fuzzer ---------------------------------------------------------------------------------


class Fuzz(Lane):
    """The numbered cases of a seed, kernels and tensor programs."""

    def __init__(self) -> None:
        for module in ("campaign.cases", "judge.judge", "campaign.programs"):
            importlib.import_module(f"tinyref_fuzz.{module}")
        # Of others, what the first cases would import, in each fork again.
        for module in ("numpy.ma", "numpy.random", "llvmlite.binding"):
            importlib.import_module(module)

    def begin(self, request: Request) -> None:
        """The seed's cases on the device."""
        from tinyref_fuzz.judge.judge import Judge
        from tinyref_fuzz.mutants.trial import Trial

        self._trial = Trial(request, Reached(), lambda message: None)
        self._judge = Judge(request.device)

    def names(self) -> Iterable[str]:
        return map(str, itertools.count())

    def run(self, name: str) -> Failure | None:
        _, verdict = self._trial.judge_case(self._judge, int(name))
        if verdict.agrees:
            return None
        pair = verdict.pair.name if verdict.pair else ""
        symptom = verdict.symptom.name if verdict.symptom else ""
        return Failure(symptom, verdict.detail, pair)


def fuzz(request: Request, then: Then) -> None:
    """The fuzzer's cases."""
    then(Fuzz())


# --- programs ------------------------------------------------------------------------------------


class Programs(Lane):
    """Kernels of a seed, whose programs are to be those that the healthy compiler makes.

    Those are in the names of a table: NUMBER=DIGEST. A kernel that does not reach an edit has the
    same program with it, so that only those that do are compiled again.
    """

    def begin(self, request: Request) -> None:
        """The seed's kernels for the device."""
        from tinyref_fuzz.judge.judge import Judge

        self._request = request
        self._judge = Judge(request.device)

    def names(self) -> Iterable[str]:
        return map(str, range(self._request.trace))

    def run(self, name: str) -> Failure | None:
        from tinyref_fuzz.mutants.trial import program_digest

        number, _, wanted = name.partition("=")
        self._digest = program_digest(self._judge, self._request, int(number))
        is_same = not wanted or self._digest == wanted
        return None if is_same else Failure("PROGRAM", f"kernel {number} has another program")

    def recorded(self, name: str) -> str:
        return f"{name}={self._digest}"


def programs(request: Request, then: Then) -> None:
    """The programs of kernels."""
    for module in ("campaign.cases", "judge.judge"):
        importlib.import_module(f"tinyref_fuzz.{module}")
    then(Programs())


LANES: Mapping[str, Callable[[Request, Then], None]] = MappingProxyType(
    {
        "room-tests": room_tests,
        "tests": quick_tests,
        "conformance": conformance,
        "fuzz": fuzz,
        "programs": programs,
    }
)
"""Every lane: it prepares its units, and calls back with them."""
