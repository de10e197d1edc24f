"""Findings that depend on earlier cases: judged alone, then after those cases."""

from __future__ import annotations

import pytest

from tinyref_fuzz.campaign.history import DEPENDS, dependence
from tinyref_spec.kernel_case import KernelVerdict, Pair, Symptom

WRONG = KernelVerdict(Pair.DEVICE, Symptom.VALUE, "element 0")
CRASH = KernelVerdict(Pair.DEVICE, Symptom.CRASH, "killed by SIGSEGV")


class Process:
    """Judge of numbers: one fails after all of `needed`, and one of `deadly` ends the process."""

    def __init__(self, needed, deadly=()):
        self.needed, self.deadly = set(needed), deadly
        self.judged = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return

    def verdict(self, case):
        if case in self.deadly:
            self.judged.clear()
            return CRASH
        fails = case == "found" and self.needed.issubset(self.judged)
        self.judged.append(case)
        return WRONG if fails else KernelVerdict(judged=1)


def words(needed, number=20, seconds=60.0, deadly=()):
    started = []

    def process():
        started.append(Process(needed, deadly))
        return started[-1]

    return dependence("found", number, lambda case: case, process, seconds), started


def test_a_finding_that_shows_alone_depends_on_nothing():
    text, started = words([])
    assert (text, len(started), started[0].judged) == ("", 1, ["found"])


@pytest.mark.parametrize(
    ("needed", "named"),
    [
        ([19], "19"),
        ([3, 7], "3, 7"),
        ([0, 12, 13], "0, 12, 13"),
        (range(20), "0, 1, 2, 3, 4, 5, 6, 7 and 12 more"),
    ],
)
def test_the_shortest_sequence_is_named(needed, named):
    assert words(needed)[0] == f"{DEPENDS}; it fails after {named} of the same seed"


def test_what_ends_the_process_is_no_history():
    # 5 is needed. It follows 4, which ends the process and all that was before it.
    assert words([5], deadly=[4])[0].endswith("it fails after 5 of the same seed")
    assert words([3], deadly=[4])[0] == DEPENDS


def test_the_search_ends_with_its_time():
    text, started = words([3], seconds=0.0)
    assert text == DEPENDS
    assert len(started) == 2
