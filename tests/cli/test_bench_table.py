"""`tinyref bench --table`: its goals can be missed, and what is not there is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tinyref.cli.app import app
from tinyref.cli.bench import alone, table
from tinyref.cli.bench.clock import clock_of, seconds_of_call
from tinyref.cli.bench.first_call import first_call
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


@pytest.mark.table
@pytest.mark.parametrize(
    ("before", "now", "goals"),
    [
        # In turns with an earlier version, what both take beside tinygrad does not matter.
        (100.0, 105.0, ()),
        (100.0, 106.0, ("cold 1.06 of before",)),
        (None, 106.0, ("cold above 0.35 of its",)),
    ],
)
def test_a_first_call_is_compared_with_an_earlier_version(
    before: float | None, now: float, goals: tuple[str, ...]
) -> None:
    line = Line("op.gelu", "", 1.0, 1.0, cold=90.0, tinygrad_cold=100.0, before=before, now=now)
    assert line.broken_goals == goals


def test_a_row_without_peers_has_no_verdict() -> None:
    assert Line("op.gelu", "", ours=2.0, cold=50.0).cells() == (
        "op.gelu",
        "2",
        "-",
        "-",
        "-",
        "50",
        "-",
        "-",
        "-",
        "-",
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
        Line("op.cumsum", "", 3.0, before=20.0, now=15.0),
    ]
    text = table_text(ON_HOST[0], lines)
    assert len({len(row) for row in text.splitlines() if row.startswith("|")}) == 1
    title, _, *rows, _, note = (" ".join(row.split()) for row in text.splitlines())
    assert title == "one thread, strict floats, milliseconds of processor time:"
    assert rows[0] == (
        "| work | ours | torch | ratio | tinygrad | ours cold | its cold | before | now | goals |"
    )
    assert set(rows[1]) == {"|", "-"}
    assert rows[2:] == [
        "| op.gelu | 2 | 1 | 2 | - | 40 | - | - | - | met |",
        "| op.sort | - | - | - | - | - | - | - | - | it is wrong |",
        "| op.cumsum | 3 | - | - | - | - | - | 20 | 15 | - |",
        "| geometric mean | | | 2 | | | | | | above 1.5, of 1 rows |",
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
def test_a_first_call_by_the_python_that_is_named() -> None:
    found = first_call(sys.executable, "op.cumsum", 1, 1)
    assert isinstance(found, float)
    assert found > 1.0
    line = table._beside(Line("op.cumsum", "", 3.0), ON_HOST[0], sys.executable, 1)
    assert line.before is not None
    assert line.now is not None


def test_an_earlier_version_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert first_call("/nowhere/python", "op.gelu", 1, 1) == (
        "/nowhere/python does not run: No such file or directory"
    )
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named tinyref' >&2\n")
    python.chmod(0o755)
    line = table._beside(Line("op.gelu", "", 3.0), ON_HOST[0], str(python), 1)
    assert line.before is None
    assert line.no_before == f"{python}: ModuleNotFoundError: No module named tinyref"
    assert table_text(ON_HOST[0], [line]).endswith(
        f"the earlier version has no times: {line.no_before}"
    )


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
