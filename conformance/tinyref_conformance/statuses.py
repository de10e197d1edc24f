"""Statuses of cases, their symbols and sentences in a report, and exit codes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

EXIT_AS_EXPECTED = 0
EXIT_FAILURES = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h


class Status(Enum):
    """The result of one case; the value is the word in reports."""

    PASS = "Pass"
    FAIL = "Fail"
    SKIP = "Skip"
    UNSUPPORTED = "Unsupported"
    CRASH = "Crash"
    TIMEOUT = "Timeout"
    FLAKE = "Flake"
    EXPECTED_FAIL = "ExpectedFail"
    UNEXPECTED_PASS = "UnexpectedPass"
    MISSING = "Missing"
    SUPPRESSED = "Suppressed"
    NOT_RUN = "NotRun"

    @property
    def symbol(self) -> str:
        """Return the sign of the status, which needs no colour."""
        return _SHOWN[self][0]

    @property
    def sentence(self) -> str:
        """Return a sentence that says what the status means for the device."""
        return _SHOWN[self][1]

    @property
    def is_broken(self) -> bool:
        """Return True if the device gave a wrong answer or none, which breaks a rung."""
        return self in BROKEN

    @property
    def is_failure(self) -> bool:
        """Return True if the status makes the exit code 1."""
        return self in FAILURES


_SHOWN: dict[Status, tuple[str, str]] = {
    Status.PASS: ("✓", "The answer is the specified one."),
    Status.FAIL: ("✗", "The answer differs from the specified one."),
    Status.SKIP: ("-", "The device does not declare what the case needs, so it is not required."),
    Status.UNSUPPORTED: ("∅", "The device clearly refused what it does not declare."),
    Status.CRASH: ("☠", "The worker process died in this case, or ran out of memory."),
    Status.TIMEOUT: ("∞", "The case did not end within its time limit."),
    Status.FLAKE: ("≈", "The case failed, and passed when it was run again alone."),
    Status.EXPECTED_FAIL: ("▽", "The case fails, and the expectations file says why."),
    Status.UNEXPECTED_PASS: ("△", "The case passes, but the expectations file says it fails."),
    Status.MISSING: ("?", "The case was planned but not measured."),
    Status.NOT_RUN: (
        "⊘",
        "Not run: the skip list of the expectations file names it, with a reason.",
    ),
    Status.SUPPRESSED: ("↑", "Not run: a case that it depends on is broken."),
}
BROKEN = frozenset({Status.FAIL, Status.CRASH, Status.TIMEOUT, Status.FLAKE})
FAILURES = BROKEN | {Status.UNEXPECTED_PASS, Status.MISSING}
# Statuses with an answer of the device.
MEASURED = BROKEN | {
    Status.PASS,
    Status.UNSUPPORTED,
    Status.EXPECTED_FAIL,
    Status.UNEXPECTED_PASS,
}


def exit_code(statuses: Iterable[Status], problems: Iterable[str] = ()) -> int:
    """Return 0 if all is as expected; 1 after a failure, a problem, or if nothing was measured."""
    seen = set(statuses)
    if seen & FAILURES or any(True for _ in problems):
        return EXIT_FAILURES
    return EXIT_AS_EXPECTED if seen & MEASURED else EXIT_FAILURES
