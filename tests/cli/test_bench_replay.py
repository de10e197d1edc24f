"""The rows `jit.*` and `op.launches` of `tinyref bench`: costs of a replay and of its kernels."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tinyref import Tensor, TinyJit
from tinyref.cli.bench import speed, system
from tinyref.cli.bench.command import _line
from tinyref.cli.bench.device import matching_rows
from tinyref.cli.bench.rows import Measured
from tinyref.cli.bench.works import chained


@pytest.mark.parametrize("kernels", [1, 12])
def test_a_chain_is_as_many_kernels_as_it_says(kernels: int) -> None:
    """Were they one kernel, as a chain that is computed at its end, rows of launches would lie."""
    jitted = TinyJit(functools.partial(chained, kernels=kernels))
    for number in range(3):
        assert jitted(Tensor(np.float32([number]))).tolist() == [number + kernels]
    assert jitted.captured is not None
    assert jitted.captured.kernels == kernels


@pytest.mark.long
def test_the_row_of_launches_measures_that_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(x: Tensor, kernels: int) -> Tensor:
        asked.append(kernels)
        return (x + 1).realize()

    monkeypatch.setattr(speed, "chained", note)
    speed._measure_launches("CPU", 1)
    assert asked == [100, 100]


def test_the_cost_of_a_kernel_is_what_more_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 us a call, and 0.5 us a kernel in a list, 2 us one launched for itself; 400 us plainly."""

    def microseconds(kernels: int, jit: int = 1) -> float:
        return {0: 400.0, 1: 50 + 0.5 * kernels, 2: 50 + 2.0 * kernels}[jit]

    monkeypatch.setattr(system, "_chain_microseconds", microseconds)
    assert system.chain_costs() == (50.5, 400.0, 0.5, 2.0)


@pytest.mark.long
def test_a_replay_has_three_rows_and_a_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "REPLAYS", 2)
    (row,) = matching_rows("CPU", "jit.*")
    found = {each.name: each for each in row.run(2)}
    assert list(found) == ["jit.replay", "jit.replay.call", "jit.replay.kernel"]
    assert all(len(each.values) == len(each.peer_values) == 2 for each in found.values())
    assert [each.goal for each in found.values()] == [3.0, None, None]
    assert found["jit.replay.call"].peer_name == "the same, called plainly"
    assert found["jit.replay.kernel"].peer_name == "launched one by one"


@pytest.mark.parametrize(("values", "word"), [([2.0, 3.0, 9.0], "met"), ([3.5], "missed")])
def test_a_goal_is_met_by_the_median(values: list[float], word: str) -> None:
    found = Measured("jit.replay", "us a kernel", values, goal=3.0)
    assert found.to_json()["goal"] == 3.0
    assert found.to_json()["meets_goal"] is (word == "met")
    assert _line(found).endswith(f"us a kernel; goal 3, {word}")


def test_a_row_without_a_goal_says_nothing_of_one() -> None:
    found = Measured("launch", "ms", [1.0])
    assert "goal" not in _line(found)
    assert "goal" not in found.to_json()
