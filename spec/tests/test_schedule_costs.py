"""What schedules may cost: more is seen, and the record is of all programs there are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import cast

import pytest
from no_device import NoDevice

from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.system.costs import (
    DEVICES,
    PROGRAMS,
    Cost,
    recorded_costs,
    rows,
    scheduled_cost,
)


@functools.cache
def cases(profile: Profile) -> dict[str, Case]:
    found = (case for row in rows() for case in row.cases(profile))
    return {case.id.removeprefix("system.cost."): case for case in found}


def problem_of(name: str) -> str:
    """What the case of a program says, empty where it passes."""
    found = cases(Profile.FULL)[name].run(cast(DeviceUnderTest, NoDevice()))
    return "" if found.passed else found.message


EXCESSES = [
    (Cost(3, 1, 40, 5, 128), ""),
    (Cost(1, 0, 9, 0, 0), ""),
    (Cost(4, 1, 40, 5, 128), "4 kernels, 3 at most are owed"),
    (Cost(3, 2, 41, 5, 128), "2 copies, 1 at most are owed; 41 accesses, 40 at most are owed"),
    (Cost(3, 1, 40, 6, 128), "6 longest, 5 at most are owed"),
    (Cost(2, 1, 40, 5, 192), "192 memory, 128 at most are owed"),
]


@pytest.mark.table
@pytest.mark.parametrize(("cost", "said"), EXCESSES)
def test_what_is_too_much(cost: Cost, said: str) -> None:
    assert cost.excess_over(Cost(3, 1, 40, 5, 128)) == said


def test_literal_costs() -> None:
    # 24 elements are read and 24 are written, by one kernel.
    assert scheduled_cost("written_twice", "loops") == Cost(1, 0, 48, 0, 0)
    # 250 parts of 160 elements, and their sum: each element and each part is read.
    assert scheduled_cost("long_sum", "loops") == Cost(2, 0, 40_000 + 250 + 250 + 1, 250, 1024)
    # A device of loops goes through each row in one kernel.
    assert scheduled_cost("softmax", "loops").kernels == 1
    assert scheduled_cost("softmax", "grid").kernels == 2


def _nothing(*given: object, **named: object) -> None:
    return None


LOST: list[tuple[str, str, Callable[..., object], str]] = [
    ("loops.softmax", "tinyref.schedule.order.join_rows", _nothing, "2 kernels, 1 at most"),
    ("grid.sum_of_sums", "tinyref.schedule.reduces._reduce_at_once", _nothing, "2 kernels, 1 at"),
    ("loops.sum_of_equal", "tinyref.schedule.reduces._reduce_repeated", _nothing, "accesses"),
    ("loops.long_sum", "tinyref.schedule.reduces._possible_parts", lambda size: 1, "longest"),
    ("loops.chosen_and_summed", "tinyref.schedule.reduces.one_hot_axes", _nothing, "kernels"),
]


@pytest.mark.parametrize(("name", "place", "instead", "said"), LOST, ids=[each[0] for each in LOST])
def test_what_is_lost_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
    instead: Callable[..., object],
    said: str,
) -> None:
    assert problem_of(name) == ""
    monkeypatch.setattr(place, instead)
    found = problem_of(name)
    assert said in found


def test_the_record_is_of_all_programs_and_cases_are_of_the_record() -> None:
    assert {kind: set(costs) for kind, costs in recorded_costs().items()} == {
        kind: set(PROGRAMS) for kind in DEVICES
    }
    assert len(cases(Profile.FULL)) == len(DEVICES) * len(PROGRAMS)
    quick = cases(Profile.QUICK)
    assert all(f"loops.{name}" in quick for name in PROGRAMS)
    assert "grid.softmax" in quick
    assert "grid.elementwise" not in quick


@pytest.mark.long
def test_every_schedule_costs_no_more_than_is_recorded() -> None:
    assert [found for name in cases(Profile.FULL) if (found := problem_of(name))] == []
