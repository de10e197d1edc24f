"""The forms that GPUs get wrong: right devices pass, each row is failed by a broken one."""

from __future__ import annotations

import pytest
from run_rows import failed

from tinyref_spec.kernel import gpu_forms

FAULTY = "tinyref_conformance.faulty"
ROWS = ("barriers", "extremes", "boxes", "arrays", "long", "name", "unused", "grids")
QUERY = ",".join(f"kernel.program.{name}" for name in ROWS)


def rows_that_fail(device: str) -> set[str]:
    return {case.split(".")[2] for case in failed(QUERY, device)}


def test_every_row_is_named_here() -> None:
    assert {row.id.split(".")[2] for row in gpu_forms.rows()} == {*ROWS}


@pytest.mark.long
def test_the_reference_passes() -> None:
    assert failed(QUERY, "PYTHON") == []


@pytest.mark.long
def test_a_gpu_of_the_host_passes() -> None:
    groups = ",".join(f"kernel.program.{name}" for name in ("barriers", "boxes", "arrays", "grids"))
    assert failed(groups, "GPU_EMU") == []


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("BuiltInNames", {"name"}),
        ("DroppedParameters", {"unused"}),
        ("FirstGridAgain", {"grids"}),
        ("SpilledValues", {"long"}),
        ("NestedBarriersLost", {"barriers"}),
        ("SharedArraysOverlap", {"arrays", "extremes"}),
        ("MissingBarrier", {"barriers", "extremes", "boxes", "arrays"}),
        ("WrongItemIndex", {"barriers", "extremes", "boxes", "arrays"}),
    ],
)
def test_a_fault_is_seen_by_these_rows(name: str, rows: set[str]) -> None:
    assert rows_that_fail(f"{FAULTY}:{name}") == rows


@pytest.mark.long
def test_the_rows_of_plain_groups_do_not_see_all_of_it() -> None:
    """What is new: only loops had barriers in them, and no kernel had two grids."""
    plain = "kernel.program.grid,kernel.program.item,kernel.program.group.reverse"
    for name in ("NestedBarriersLost", "FirstGridAgain", "SharedArraysOverlap"):
        assert failed(plain, f"{FAULTY}:{name}") == []
