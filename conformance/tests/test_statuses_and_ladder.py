from __future__ import annotations

import pytest

from tinyref_conformance.ladder import FOUNDATION, RungState, Suppression, climb, first_broken
from tinyref_conformance.statuses import Status, exit_code
from tinyref_spec.case import Rung


def test_every_status_has_its_own_symbol_and_sentence() -> None:
    assert len({status.symbol for status in Status}) == len(Status)
    assert len({status.sentence for status in Status}) == len(Status)


@pytest.mark.parametrize("status", ["FAIL", "CRASH", "TIMEOUT", "FLAKE"])
def test_a_wrong_answer_breaks_a_rung_and_fails_the_run(status: str) -> None:
    assert Status[status].is_broken
    assert exit_code([Status.PASS, Status[status]]) == 1


@pytest.mark.parametrize("status", ["UNEXPECTED_PASS", "MISSING"])
def test_some_statuses_fail_the_run_without_breaking_a_rung(status: str) -> None:
    assert not Status[status].is_broken
    assert exit_code([Status.PASS, Status[status]]) == 1


@pytest.mark.parametrize("status", ["PASS", "UNSUPPORTED", "EXPECTED_FAIL"])
def test_measured_as_expected_is_exit_code_0(status: str) -> None:
    assert exit_code([Status[status], Status.SKIP]) == 0


@pytest.mark.parametrize("statuses", [[], [Status.SKIP], [Status.SUPPRESSED]])
def test_a_run_that_measured_nothing_fails(statuses: list[Status]) -> None:
    assert exit_code(statuses) == 1


def test_a_problem_fails_a_run_that_is_otherwise_green() -> None:
    assert exit_code([Status.PASS], ["an expectation names no case"]) == 1


def test_the_foundation_is_open_and_copy() -> None:
    assert [rung.name for rung in FOUNDATION] == ["OPEN", "MEMORY"]


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


def test_a_broken_foundation_suppresses_all_above_and_nothing_beside() -> None:
    suppression = Suppression()
    suppression.note("memory.copy.uint8", Rung.MEMORY)
    assert suppression.reason(Rung.MODEL, ()) == (
        "the rung 'allocate and copy' below is broken, at memory.copy.uint8"
    )
    assert suppression.reason(Rung.MEMORY, ()) is None
    assert suppression.reason(Rung.OPEN, ()) is None


def test_suppression_is_passed_on() -> None:
    suppression = Suppression()
    suppression.note_suppressed("kernel.matmul.float32")
    assert suppression.reason(Rung.TENSOR, ("kernel.matmul.float32",)) == (
        "it depends on kernel.matmul.float32, which is suppressed"
    )
    assert suppression.reason(Rung.TENSOR, ("kernel.matmul.int32",)) is None


def test_above_the_foundation_only_named_rows_suppress() -> None:
    suppression = Suppression()
    suppression.note("isa.unary.exp2.float32", Rung.ALU)
    assert suppression.reason(Rung.TENSOR, ("isa.binary.add.float32",)) is None
    assert suppression.reason(Rung.TENSOR, ("isa.unary.exp2.float32",)) == (
        "it depends on isa.unary.exp2.float32, which is broken"
    )
