"""The time that a run has left, in runs whose cases only pretend to take time."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tinyref_conformance.time_left import TimeLeft
from tinyref_spec.case import Rung

# Cases and rows of the quick profile, as they were counted once: one kernel is new in each row.
SUITE = {
    Rung.MEMORY: (348, 20),
    Rung.STORE: (133, 15),
    Rung.ONE_ALU: (225, 59),
    Rung.INDEX: (630, 74),
    Rung.ALU: (3912, 209),
    Rung.CAST: (2937, 242),
    Rung.GATE: (149, 19),
    Rung.VECTOR: (514, 471),
    Rung.LOOP: (464, 48),
    Rung.OPTIMISED: (736, 341),
    Rung.MATMUL: (242, 84),
    Rung.TENSOR: (1630, 1070),
    Rung.AUTOGRAD: (516, 270),
    Rung.JIT: (170, 33),
    Rung.MODEL: (126, 67),
}
# Kernels of a case, and what the host does for it in milliseconds, as measured on one device.
KERNELS = dict(
    zip(SUITE, (0, 0.8, 0.8, 0.8, 0.05, 0.08, 1, 1, 0.8, 0.5, 0.7, 0.7, 1.3, 2.4, 3.9), strict=True)
)
HOST = dict(zip(SUITE, (1, 3, 4, 4, 1, 1, 2, 3, 2, 3, 7, 7, 15, 20, 70), strict=True))


@dataclass(frozen=True)
class Device:
    """host: how much slower than ours; kernel, case: milliseconds of each."""

    host: float
    kernel: float
    case: float
    jobs: int = 1


DEVICES = {
    "fast": Device(1.0, 2.0, 0.2),
    "busy machine": Device(3.0, 6.0, 0.5),
    "slow compiler": Device(1.0, 900.0, 1.0),
    "slow compiler, four workers": Device(1.0, 900.0, 1.0, jobs=4),
    "simulator": Device(1.5, 100.0, 40.0),
    "far away": Device(1.0, 30.0, 100.0),
}


def costs_of(device: Device) -> Iterator[tuple[Rung, float]]:
    """Every case in the order of the ladder: its rung and its seconds, which vary by row."""
    draw = random.Random(7)
    for rung, (cases, rows) in SUITE.items():
        mean = device.host * HOST[rung] + device.kernel * KERNELS[rung] + device.case
        weights = [draw.lognormvariate(0.0, 0.6) for _ in range(rows)]
        # No device is like another: what its rungs take differs from all tables.
        scale = rows / sum(weights) * draw.uniform(0.8, 1.25)
        for number in range(cases):
            yield rung, mean * weights[number * rows // cases] * scale / 1000


Estimate = Callable[[list[tuple[Rung, float]], int, float], float | None]


def worst_factor(device: Device, estimate: Estimate) -> float:
    """How far off the estimates were from a tenth of the time on, where much was still left."""
    cases = list(costs_of(device))
    total = sum(seconds for _, seconds in cases)
    passed, worst = 0.0, 1.0
    for number, (_, seconds) in enumerate(cases, 1):
        passed += seconds
        left = total - passed
        if passed < total / 10 or left < total / 20 or number % 50:
            continue
        found = estimate(cases, number, passed / device.jobs)
        if found is None or found <= 0:
            return math.inf
        ratio = found * device.jobs / left
        worst = max(worst, ratio, 1 / ratio)
    return worst


def by_rung(device: Device) -> Estimate:
    counts = Counter({rung: cases for rung, (cases, _) in SUITE.items()})
    left = TimeLeft(counts, device.jobs)
    noted = 0

    def estimate(cases: list[tuple[Rung, float]], number: int, elapsed: float) -> float | None:
        nonlocal noted
        for rung, seconds in cases[noted:number]:
            left.note(rung, seconds)
            left.drop(rung)
        noted = number
        return left.seconds()

    return estimate


def by_average(cases: list[tuple[Rung, float]], number: int, elapsed: float) -> float:
    return elapsed / number * (len(cases) - number)


@pytest.mark.parametrize("name", DEVICES)
def test_it_is_right_within_half_from_the_first_tenth_on(name: str) -> None:
    assert worst_factor(DEVICES[name], by_rung(DEVICES[name])) < 1.5


@pytest.mark.parametrize("name", ["fast", "slow compiler", "simulator"])
def test_an_average_over_all_cases_is_not(name: str) -> None:
    assert worst_factor(DEVICES[name], by_average) > 1.8


def test_nothing_is_said_before_anything_is_known() -> None:
    left = TimeLeft(Counter({Rung.TENSOR: 60}), 2)
    assert left.seconds() is None
    for _ in range(60):
        left.note(Rung.TENSOR, 0.01)
    # Too quick to tell.
    assert left.seconds() is None
    for _ in range(60):
        left.note(Rung.TENSOR, 0.05)
    # 60 cases of 30 ms on average, two at a time.
    assert left.seconds() == pytest.approx(0.9, rel=0.2)


def test_what_will_not_run_takes_no_time() -> None:
    left = TimeLeft(Counter({Rung.MODEL: 100}), 1)
    for _ in range(60):
        left.note(Rung.ALU, 0.1)
    with_models = left.seconds()
    for _ in range(100):
        left.drop(Rung.MODEL)
    assert with_models is not None
    assert with_models > 10
    assert left.seconds() == 0.0
