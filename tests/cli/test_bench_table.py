"""`tinyref bench --table`: its goals can be missed, and what is not there is said."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tinyref.cli.app import app
from tinyref.cli.bench import alone, table
from tinyref.cli.bench.clock import clock_of, seconds_of_call
from tinyref.cli.bench.speed import ON_HOST
from tinyref.cli.bench.table import COLD_BEFORE, Line, mean_cells, table_text
from tinyref.cli.bench.works import MODELS, WORKS
from tinyref.errors import UserError


@pytest.mark.table
@pytest.mark.parametrize(
    ("ours", "cold", "goals"),
    [
        (3.0, 10.0, ()),
        (3.1, 10.0, ("above 3",)),
        # Before it was 31 to 89.
        (1.0, 34.0, ()),
        (1.0, 35.0, ("cold above 0.35 of its",)),
        (4.0, 90.0, ("above 3", "cold above 0.35 of its")),
    ],
)
def test_goals_of_a_row(ours: float, cold: float, goals: tuple[str, ...]) -> None:
    line = Line("op.gelu", "", ours=ours, torch=1.0, cold=cold, tinygrad_cold=100.0)
    assert line.broken_goals == goals


def test_a_row_without_peers_has_no_verdict() -> None:
    assert Line("op.gelu", "", ours=2.0, cold=50.0).cells() == (
        *("op.gelu", "2", "-", "-", "-", "50", "-", "-"),
    )


def test_the_mean_of_ratios_is_a_row_with_its_goal() -> None:
    lines = [Line("op.gelu", "", ours=2.0, torch=1.0), Line("op.sort", "", ours=8.0, torch=4.0)]
    assert mean_cells(lines)[3] == "2"
    assert mean_cells(lines)[-1] == "above 1.5, of 2 rows"
    assert mean_cells([Line("op.gelu", "", ours=3.0, torch=2.0)])[-1] == "met, of 1 rows"


def test_the_table_as_it_is_printed() -> None:
    lines = [
        Line("op.gelu", "", 2.0, 1.0, cold=40.0, no_tinygrad="tinygrad 0.10.3 is not installed"),
        Line("op.sort", "", missing="it is wrong"),
    ]
    text = table_text(ON_HOST[0], lines)
    assert len({len(row) for row in text.splitlines() if row.startswith("|")}) == 1
    title, _, *rows, _, note = (" ".join(row.split()) for row in text.splitlines())
    assert title == "one thread, strict floats, milliseconds of processor time:"
    assert rows[0] == "| work | ours | torch | ratio | tinygrad | ours cold | its cold | goals |"
    assert set(rows[1]) == {"|", "-"}
    assert rows[2:] == [
        "| op.gelu | 2 | 1 | 2 | - | 40 | - | met |",
        "| op.sort | - | - | - | - | - | - | it is wrong |",
        "| geometric mean | | | 2 | | | | above 1.5, of 1 rows |",
    ]
    assert note == "tinygrad has no times: tinygrad 0.10.3 is not installed"


def test_it_has_the_twelve_works_and_all_variants() -> None:
    measured = {work.name for work in WORKS if work.host} | {layers.name for layers in MODELS}
    assert len(COLD_BEFORE) == 12
    assert set(COLD_BEFORE) <= measured
    assert [(each.threads, each.strict) for each in ON_HOST] == [(1, 1), (1, 0), (0, 1), (0, 0)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--row", "op.nothing"), "no row of the table matches 'op.nothing'"),
        (("--device", "PYTHON"), "--table is of the device CPU, and takes no --device, got PYTHON"),
    ],
)
def test_what_the_table_refuses(arguments: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(app, ["bench", "--table", *arguments])
    assert isinstance(done.exception, UserError)
    assert words in str(done.exception)


def test_a_python_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(alone.TINYGRAD_PYTHON, "/nowhere/python")
    with pytest.raises(UserError, match="TINYGRAD_PYTHON is /nowhere/python, which does not run"):
        alone.library("tinygrad")


def test_what_one_process_lacks_all_lack() -> None:
    found = table._least([alone.Alone(9.0), alone.Alone(missing="it ended")])
    assert found == alone.Alone(missing="it ended")
    assert table._least([alone.Alone(9.0), alone.Alone(8.0)]).cold == 8.0


@pytest.mark.long
def test_a_work_in_a_process_of_its_own() -> None:
    found = alone.measured_alone("tinyref", "op.cumsum", 1, 1, 1)
    assert not found.missing
    assert found.cold > found.steady[0] > 0
    assert "op.nothing" in alone.measured_alone("tinyref", "op.nothing", 1, 1, 1).missing


def test_a_wait_is_no_processor_time() -> None:
    import time

    assert clock_of(1) is time.process_time
    assert clock_of(0) is time.perf_counter
    ticks = iter(range(100))
    assert seconds_of_call(lambda: None, lambda: float(next(ticks))) == 1.0
