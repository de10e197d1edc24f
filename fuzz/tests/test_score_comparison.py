"""Two scores side by side: ratios of cases and of time, with an interval, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tinyref.cli.entry import run as tinyref
from tinyref.errors import UserError
from tinyref_fuzz.mutants.comparison import Comparison, compare, compare_files, median_interval
from tinyref_fuzz.mutants.records import SCHEMA, VERSION, Run


def runs(cases: Mapping[str, int | None]) -> list[Run]:
    """A run of each name that is killed in so many cases of half a second; None lives."""
    return [
        Run(name, 0, killed=count is not None, cases=count or 99, seconds=(count or 99) / 2)
        for name, count in cases.items()
    ]


BEFORE = runs({"a": 8, "b": 4, "c": 2, "d": None, "e": 1, "f": None})
AFTER = runs({"a": 2, "b": 2, "c": 3, "d": 5, "e": None, "f": None})


def test_each_mutant_is_compared_with_itself():
    cases, seconds = compare(BEFORE, AFTER)
    # f lives in both scores and says nothing.
    assert cases.ratios == (0.25, 0.5, 1.5, 0.0, math.inf)
    assert seconds.ratios == cases.ratios
    assert (cases.ratio, cases.medians) == (0.5, (4, 3))
    assert seconds.medians == (2.0, 1.5)
    assert str(cases) == (
        "cases: median 4 before, 3 after; ratio 0.50, 0.00 to inf; fewer in 3, the same in 0, "
        "more in 2"
    )


def test_a_score_compared_with_itself_is_as_soon():
    cases, _ = compare(BEFORE, BEFORE)
    assert cases.ratios == (1.0,) * 4


def test_another_seed_is_another_run():
    with pytest.raises(UserError, match="nothing to compare: no mutant"):
        compare([Run("a", 0, killed=True, cases=1)], [Run("a", 1, killed=True, cases=1)])


def test_a_run_that_is_none_is_not_compared():
    broken = Run("a", 0, killed=True, cases=1, problem="did not start")
    with pytest.raises(UserError, match="nothing to compare: no mutant"):
        compare([broken], runs({"a": 1}))


@pytest.mark.parametrize(
    ("count", "interval"),
    # The table of the sign test: of 6 values the extremes, of 10 the second, of 40 the fourteenth.
    [(5, (0.0, math.inf)), (6, (1, 6)), (10, (2, 9)), (40, (14, 27))],
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(count, interval):
    assert median_interval(range(count, 0, -1)) == interval


def test_the_interval_is_wider_for_more_confidence():
    assert median_interval(range(1, 11), 0.999) == (0.0, math.inf)
    assert Comparison("cases", (1, 1), tuple(range(1, 11))).interval == (2, 9)


def written(file: Path, found: list[Run], seconds: float = 5.0) -> Path:
    data = {
        **{"schema": SCHEMA, "version": VERSION, "mutants": []},
        "settings": {"seconds": seconds},
        "runs": [run.to_json() for run in found],
    }
    file.write_text(json.dumps(data))
    return file


def test_the_command_compares_two_files(tmp_path, capsys):
    before = written(tmp_path / "before.json", [*BEFORE, *runs({"a@tests": 40})])
    after = written(tmp_path / "after.json", [*AFTER, *runs({"a@tests": 1})])
    assert tinyref(["fuzz", "score", "--compare", str(before), "--json", str(after)]) == 0
    lines = capsys.readouterr().out.splitlines()
    # Another lane is none of the fuzzer's.
    assert lines[0] == "5 mutants under their seeds, found by one score or both"
    assert lines[1].startswith("cases: median 4 before, 3 after; ratio 0.50,")
    assert lines[2].startswith("processor s: median 2 before, 1.5 after; ratio 0.50,")


def test_what_cannot_be_compared_is_refused(tmp_path, capsys):
    before = written(tmp_path / "before.json", BEFORE)
    assert tinyref(["fuzz", "score", "--compare", str(before)]) == 2
    assert "--compare needs the --json file of the later score" in capsys.readouterr().err
    longer = written(tmp_path / "longer.json", AFTER, seconds=60.0)
    with pytest.raises(UserError, match="accepted are scores of the same --seconds"):
        compare_files(before, longer)
