"""What is to find a mutant: the fuzzer, the quick tests, or the quick suite of conformance.

Each lane ends at its first kill. A lane runs in the process of a trial, where the mutant is
switched on, and in the children of it; the healthy compiler has to pass each of them.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tinyref_fuzz.mutants.mechanical import ROOMS

if TYPE_CHECKING:
    from tinyref_fuzz.mutants.trial import Trial

# The folders of tests of a checkout; the room of the mutant comes before them.
TESTS = ("tests", "spec/tests", "fuzz/tests", "conformance/tests")
# What pytest says of a run in which no test could fail.
_NO_TESTS = (4, 5)


class LaneError(Exception):
    """A lane that cannot be run here."""


class Watch:
    """Sends that the lane lives, and its first kill."""

    def __init__(self, trial: Trial) -> None:
        from tinyref_fuzz.mutants.trial import Clock

        self.trial = trial
        self.clock = Clock()
        self.done = 0
        self.is_killed = False

    def beat(self) -> None:
        """One more test or case is done."""
        self.done += 1
        self.trial.beat(self.done, self.clock)

    def kill(self, symptom: str, detail: str) -> None:
        """Something failed: all after the first is left out."""
        if self.is_killed:
            return
        self.is_killed = True
        found = {"killed": self.done, "pair": "", "symptom": symptom, "detail": detail[:400]}
        self.trial.send({**found, **self.clock.read()})

    def end(self) -> None:
        """The lane is over."""
        reached = self.trial.reached.count
        self.trial.send({"judged": self.done, "reached": reached, **self.clock.read()})
        self.trial.send({"done": True})


class _Plugin:
    """What pytest calls."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test, its preparation or its end is over."""
        self.watch.beat()
        if report.failed:
            self.watch.kill("TEST", f"{report.nodeid}: {report.longreprtext[-300:]}")

    def pytest_collectreport(self, report: Any) -> None:
        """A file is read."""
        self.watch.beat()
        if report.failed:
            self.watch.kill("TEST", f"{report.nodeid}: {report.longreprtext[-300:]}")


def checkout() -> Path:
    """The folder of the checkout. Raises `LaneError` for an installation without tests."""
    spec = importlib.util.find_spec("tinyref")
    assert spec is not None, "tinyref is imported here"
    assert spec.origin is not None, "tinyref has a file"
    root = Path(spec.origin).parent.parent
    if not (root / "conftest.py").is_file():
        raise LaneError(f"lane: {root} has no tests: accepted is a checkout of the sources")
    return root


def room_tests(trial: Trial) -> None:
    """The quick tests of the mutant's room."""
    room = _room(trial.request.mutant)
    _run_tests(trial, [f"tests/{each}" for each in ([room] if room else ROOMS)])


def quick_tests(trial: Trial) -> None:
    """All quick tests; those of the mutant's room come first."""
    room = _room(trial.request.mutant)
    _run_tests(trial, [*([f"tests/{room}"] if room else []), *TESTS])


def _room(mutant: str) -> str:
    """The room of a mechanical mutant, empty for the healthy compiler."""
    return mutant.split(".")[0] if mutant else ""


def _run_tests(trial: Trial, folders: list[str]) -> None:
    import pytest

    watch = Watch(trial)
    os.chdir(checkout())
    options = ["-m", "quick", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    with _scratch(trial) as folder:
        code = pytest.main(
            [*options, f"--basetemp={folder}/pytest", *folders], plugins=[_Plugin(watch)]
        )
    if code in _NO_TESTS:
        raise LaneError(f"lane: pytest ends with {code}: no test ran")
    if code:
        watch.kill("TEST", f"pytest ends with {int(code)}")
    watch.end()


def conformance(trial: Trial) -> None:
    """The quick suite of conformance on the device, by one worker."""
    conform = importlib.import_module("tinyref_conformance.conform")
    runner = importlib.import_module("tinyref_conformance.runner")
    progress = importlib.import_module("tinyref_conformance.progress")
    watch = Watch(trial)

    class Beats(progress.Quiet):  # type: ignore[misc, name-defined]
        """Tells the watch that a case is over."""

        def advance(self, done: int, row: str, left: float | None = None) -> None:
            watch.beat()

    with _scratch(trial) as folder:
        settings = runner.Settings(
            device=trial.request.device, folder=folder / "report", jobs=1, fail_fast=True
        )
        report = conform.conform(conform.Request(settings), Beats()).report
    if report.exit_code:
        words = [f"{case.status.value}: {case.id}: {case.message}" for case in report.failures[:1]]
        watch.kill("CASE", "".join([*words, *report.problems[:1]]) or report.verdict)
    watch.end()


@contextmanager
def _scratch(trial: Trial) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=trial.request.folder or None) as folder:
        yield Path(folder)


LANES: Mapping[str, Callable[[Trial], None]] = MappingProxyType(
    {
        "room-tests": room_tests,
        "tests": quick_tests,
        "conformance": conformance,
    }
)
"""Every lane but that of the fuzzer, which is the trial itself."""
