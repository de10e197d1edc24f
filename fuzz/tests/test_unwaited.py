"""Launches without a wait: devices that are right as long as somebody waits for each launch."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from judged import ELEMENTWISE, case_of, found

from tinyref_fuzz.campaign.cases import judge_cases
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.kernel_case import Pair, Symptom

_DEVICES = "tinyref_conformance.faulty"
OVER_INPUT = "with an input overwritten by another launch"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("EarlyCopies", "with its inputs overwritten by copies"),
        ("LateSources", "only read, changed"),
        ("TwoQueues", OVER_INPUT),
        ("KernelQueues", OVER_INPUT),
        ("LostReaders", OVER_INPUT),
        ("SharedArguments", OVER_INPUT),
        ("EarlyFrees", "with an input freed"),
        ("EarlyReuse", "with an input freed"),
    ],
)
def test_a_device_is_found_that_is_wrong_only_where_nobody_waits(name: str, how: str) -> None:
    device = f"{_DEVICES}:{name}"
    verdict = judge(ELEMENTWISE, device, thorough=True)
    assert (verdict.pair, verdict.symptom) == (Pair.DEVICE, Symptom.UNSTABLE)
    assert how in verdict.detail
    # Each launch is waited for where few checks are made.
    assert found(ELEMENTWISE, device, thorough=False) == (None, None)


@pytest.mark.parametrize("name", ["Queueing", "Threaded"])
@pytest.mark.parametrize(
    "case",
    [
        ELEMENTWISE,
        case_of("sum-rows", "GROUP(1, 4)"),
        case_of("divide-remainder-int32", "UPCAST(0, 2)"),
    ],
    ids=["elementwise", "sum", "outputs"],
)
def test_a_device_that_launches_late_and_waits_rightly_agrees(name: str, case) -> None:
    assert found(case, f"{_DEVICES}:{name}") == (None, None)


@pytest.mark.slow
def test_kernels_that_nobody_chose_find_it() -> None:
    """A fault that shows only where launches of two kernels come together, and nothing else."""
    device = f"{_DEVICES}:KernelQueues"
    cases = judge_cases(device, 1)
    verdicts = [verdict for _, _, verdict, _ in islice(cases, 80)]
    symptoms = Counter(verdict.symptom for verdict in verdicts)
    assert symptoms[Symptom.UNSTABLE] >= 1
    assert set(symptoms) == {None, Symptom.UNSTABLE}
