"""What a case can come to, how a report shows it, and what it means for the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

EXIT_AS_EXPECTED = 0
EXIT_FAILURES = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h


class Status(Enum):
    """The end of one case; the value is the word that reports use."""

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
        """One sign for the status, without colour."""
        return _SHOWN[self][0]

    @property
    def sentence(self) -> str:
        """What the status says about the device."""
        return _SHOWN[self][1]

    @property
    def is_broken(self) -> bool:
        """The device itself showed a wrong or missing answer: breaks a rung."""
        return self in BROKEN

    @property
    def is_failure(self) -> bool:
        """The run does not come out as expected: exit code 1."""
        return self in FAILURES


_SHOWN: dict[Status, tuple[str, str]] = {
    Status.PASS: ("✓", "The answer is the specified one."),
    Status.FAIL: ("✗", "The answer differs from the specified one."),
    Status.SKIP: ("-", "The device does not declare what the case needs, so it does not owe it."),
    Status.UNSUPPORTED: ("∅", "Asked for what it does not declare, the device refused clearly."),
    Status.CRASH: ("☠", "The worker process died in this case, or ran out of memory."),
    Status.TIMEOUT: ("∞", "The case did not end within its time."),
    Status.FLAKE: ("≈", "The case failed, and passed when it ran again alone."),
    Status.EXPECTED_FAIL: ("▽", "The case fails, as the expectations file says with a reason."),
    Status.UNEXPECTED_PASS: ("△", "The case passes, but the expectations file says it fails."),
    Status.MISSING: ("?", "The case was planned but not measured."),
    Status.NOT_RUN: (
        "⊘",
        "Not run: the skip list of the expectations file names it, with a reason.",
    ),
    Status.SUPPRESSED: ("↑", "Not run: something that it stands on is broken."),
}
BROKEN = frozenset({Status.FAIL, Status.CRASH, Status.TIMEOUT, Status.FLAKE})
FAILURES = BROKEN | {Status.UNEXPECTED_PASS, Status.MISSING}
# Statuses behind which there is an answer of the device.
MEASURED = BROKEN | {
    Status.PASS,
    Status.UNSUPPORTED,
    Status.EXPECTED_FAIL,
    Status.UNEXPECTED_PASS,
}


def exit_code(statuses: Iterable[Status], problems: Iterable[str] = ()) -> int:
    """0 when all came out as expected; 1 for a failure, a problem, or nothing measured at all."""
    seen = set(statuses)
    if seen & FAILURES or any(True for _ in problems):
        return EXIT_FAILURES
    return EXIT_AS_EXPECTED if seen & MEASURED else EXIT_FAILURES
