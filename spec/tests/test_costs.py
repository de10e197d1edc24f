"""What compiled kernels may cost: more is seen, and the record is of all kernels there are."""

from __future__ import annotations

from typing import cast

import pytest

from tinyref.codegen.expand import copies, vectors
from tinyref.codegen.expand.accesses import Accesses
from tinyref_fuzz.judge.caches import forget
from tinyref_spec.case import Measurement, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.costs import (
    Cost,
    cost_of,
    measurable,
    names_of,
    programs_of,
    recorded_costs,
    rows,
)

LEGAL = {legal.name: legal for legal in measurable()}
CASES = {
    case.id.removeprefix("kernel.cost."): case
    for row in rows()
    for case in row.cases(Profile.QUICK)
}


class NoDevice:
    """What a row of the compiler asks of a device: nothing."""

    def on_rung(self, *given: object) -> NoDevice:
        return self


def measured(name: str) -> Measurement:
    return CASES[name].run(cast(DeviceUnderTest, NoDevice()))


# What a kernel costs where its record has 8 accesses, 2 loops and 40 operations, and what is said.
EXCESSES = [
    (Cost(8, 2, 40), ""),
    (Cost(2, 0, 9), ""),
    # A quarter more operations, and one.
    (Cost(8, 2, 51), ""),
    (Cost(8, 2, 52), "52 operations, 51 at most are owed"),
    (Cost(9, 2, 40), "9 accesses, 8 at most are owed"),
    (Cost(8, 3, 52), "3 loops, 2 at most are owed; 52 operations, 51 at most are owed"),
]


@pytest.mark.table
@pytest.mark.parametrize(("cost", "said"), EXCESSES)
def test_what_is_too_much(cost: Cost, said: str) -> None:
    assert cost.excess_over(Cost(8, 2, 40)) == said


def test_a_literal_cost() -> None:
    # Twenty-four sums by vectors of four: two loads and a store of four lanes, and no loop.
    name, text, program = next(programs_of(LEGAL["upcast.elementwise"]))
    assert (name, text) == ("upcast.elementwise", "UPCAST(0, 4)")
    assert (cost_of(program).accesses, cost_of(program).loops) == (3, 0)


def test_vectors_and_wide_accesses_that_are_lost_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("upcast.elementwise").passed
    forget()
    with monkeypatch.context() as patch:
        patch.setattr("tinyref.codegen.expand.choose_widths", lambda *given: {})
        found = measured("upcast.elementwise")
    assert found.message.endswith(": 5 operations, 3 at most are owed")
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(Accesses, "_is_regular", lambda *given: False)
        found = measured("upcast.elementwise")
    forget()
    assert "12 accesses, 3 at most are owed" in found.message


def test_what_constants_decide_and_is_left_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of a padded row that are outside of it have 0 for an element, to which 1 is added."""
    forget()
    with monkeypatch.context() as patch:
        for place in (copies, vectors):
            patch.setattr(place, "tidy", lambda node: node)
        found = measured("upcast.masked")
    forget()
    assert found.message == "padded with UPCAST(0, 0): constants decide ADD"


def test_the_record_is_of_all_lists_and_cases_are_of_the_record() -> None:
    names = [name for legal in LEGAL.values() for name in names_of(legal)]
    assert set(recorded_costs()) == set(names)
    assert len(names) > len(LEGAL) == len(CASES) > 100


@pytest.mark.long
def test_every_kernel_costs_no_more_than_is_recorded() -> None:
    assert [found.message for name in CASES if not (found := measured(name)).passed] == []
