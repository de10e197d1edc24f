from __future__ import annotations

import pytest

from tinyref_conformance.ladder import RungState, Suppression, climb, first_broken, root_of
from tinyref_conformance.statuses import Status, exit_code
from tinyref_spec.case import Rung


def test_every_status_has_its_own_symbol_and_sentence() -> None:
    assert len({status.symbol for status in Status}) == len(Status)
    assert len({status.sentence for status in Status}) == len(Status)


@pytest.mark.parametrize("status", ["FAIL", "CRASH", "TIMEOUT", "FLAKE"])
def test_a_wrong_answer_breaks_a_rung(status: str) -> None:
    assert Status[status].is_broken


@pytest.mark.parametrize(
    ("statuses", "problems", "code"),
    [
        *(("PASS " + status, [], 1) for status in ("FAIL", "CRASH", "TIMEOUT", "FLAKE")),
        *(("PASS " + status, [], 1) for status in ("UNEXPECTED_PASS", "MISSING")),
        *((status + " SKIP", [], 0) for status in ("PASS", "UNSUPPORTED", "EXPECTED_FAIL")),
        *((status, [], 1) for status in ("", "SKIP", "SUPPRESSED")),
        ("PASS", ["an expectation names no case"], 1),
    ],
)
def test_a_run_is_green_if_it_measured_and_nothing_failed(
    statuses: str, problems: list[str], code: int
) -> None:
    assert exit_code([Status[status] for status in statuses.split()], problems) == code


def test_first_broken_is_the_lowest() -> None:
    reports = climb([(Rung.CAST, Status.FAIL), (Rung.STORE, Status.PASS), (Rung.ALU, Status.CRASH)])
    assert first_broken(reports) is Rung.ALU
    assert first_broken(climb([(Rung.ALU, Status.EXPECTED_FAIL)])) is None


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        ([], RungState.EMPTY),
        ([Status.SKIP], RungState.SKIPPED),
        ([Status.SKIP, Status.PASS], RungState.HOLDS),
        ([Status.EXPECTED_FAIL], RungState.HOLDS),
        ([Status.PASS, Status.MISSING], RungState.INCOMPLETE),
        ([Status.PASS, Status.SUPPRESSED], RungState.SUPPRESSED),
        ([Status.SUPPRESSED, Status.FLAKE], RungState.BROKEN),
    ],
)
def test_the_state_of_a_rung(statuses: list[Status], state: RungState) -> None:
    reports = climb((Rung.GATE, status) for status in statuses)
    assert reports[Rung.GATE].state is state


def test_only_what_a_case_names_suppresses_it() -> None:
    suppression = Suppression()
    suppression.note("memory.copy.uint8.size:0", "memory.copy.uint8")
    suppression.note("kernel.reduce.add.int32.empty", "kernel.reduce.add.int32")
    assert suppression.reason(("memory.copy.uint8.size:16",)) is None
    assert suppression.reason(("kernel.reduce.add.int32.7x13_over_1",)) is None
    assert suppression.reason(("kernel.reduce.add.int32.empty",)) == (
        "it depends on kernel.reduce.add.int32.empty, which is broken"
    )
    assert suppression.reason(("kernel.reduce.add.int32",)) == (
        "it depends on kernel.reduce.add.int32, which is broken"
    )


def test_suppression_is_passed_on_with_its_root() -> None:
    suppression = Suppression()
    suppression.note("a.b.plain", "a.b")
    first = suppression.reason(("a.b.plain",))
    assert first == "it depends on a.b.plain, which is broken"
    suppression.note_suppressed("c.d.plain", "c.d", first)
    second = suppression.reason(("c.d.plain",))
    assert second == "it depends on c.d.plain, which is suppressed by a.b.plain"
    suppression.note_suppressed("e.f.plain", "e.f", second)
    third = suppression.reason(("e.f",))
    assert third == "it depends on e.f, which is suppressed by a.b.plain"
    assert suppression.reason(("e.g",)) is None
    assert [root_of(reason) for reason in (first, second, third)] == ["a.b.plain"] * 3
    assert root_of("the device does not open") == "the device does not open"
