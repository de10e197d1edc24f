"""Test `tinyref bench --sweep`: random works from a seed, each checked before it is timed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch, the peer of these works, is not installed")

from tinyref.cli.bench import Measured, speed, sweep
from tinyref.cli.bench.sweep import FAMILIES, VARIANTS, Draw, Drawn

# A short work, so that one of each family can be compared with torch.
FEW_OPERATIONS = 2e5


def _small_work(family: object) -> Drawn:
    draws = (family(Draw(f"small {number}")) for number in range(10_000))  # type: ignore[operator]
    return next(drawn for drawn in draws if drawn.operations < FEW_OPERATIONS and drawn.is_small)


def test_a_seed_draws_the_same_works_and_a_longer_list_begins_with_a_shorter() -> None:
    names = [drawn.work.name for drawn in sweep.draw_works(5, 40)]
    assert [drawn.work.name for drawn in sweep.draw_works(5, 15)] == names[:15]
    assert [drawn.work.name for drawn in sweep.draw_works(6, 15)] != names[:15]
    assert len({name.split(".")[0].split(" ")[0] for name in names}) > 8


def test_no_work_is_larger_than_its_limits_and_a_third_has_gradients() -> None:
    works = sweep.draw_works(1, 300)
    assert all(drawn.operations <= 3 * 6e8 for drawn in works)
    backward = [drawn for drawn in works if drawn.work.name.endswith("backward")]
    assert 0.15 < len(backward) / len(works) < 0.4


@pytest.mark.parametrize("family", sorted(set(FAMILIES), key=str), ids=lambda item: item.__name__)
def test_a_work_of_each_family_agrees_with_torch(family: object) -> None:
    peer = speed.peer_of("CPU")
    drawn = _small_work(family)
    for one in (drawn, sweep.with_gradients(drawn)):
        assert not speed._problem(one.work, VARIANTS[0], "CPU", peer), one.work.name


def test_a_work_with_wrong_gradients_has_no_time() -> None:
    drawn = sweep.chain(Draw("wrong"))
    right = sweep.with_gradients(drawn).work
    wrong = sweep.replace(right, ours=lambda x, y: [x, y])
    measured = speed.measure_work(wrong, ((4,), (4,)), VARIANTS[0], "CPU", 1)
    assert measured.missing.startswith("it is wrong: ")


def test_the_summary_names_mean_percentiles_and_worst() -> None:
    ratios = [1.0, 1.0, 2.0, 2.0, 4.0]
    lines = [Measured(f"w{ratio}", "ms", [ratio], "torch", [1.0]) for ratio in ratios]
    lines.append(Measured("bad", "", missing="it is wrong: its shape is (), that of torch (3,)"))
    text = sweep.end_text(VARIANTS[0], lines).splitlines()
    assert text[0] == (
        "strict floats, 5 works: geometric mean 1.74, 90 % below 4.00, 95 % below 4.00, worst 4.00"
    )
    assert text[1].split() == ["4.00", "4.000", "ms,", "torch", "1.000", "ms", "w4.0:"]
    assert text[-1] == "bad: it is wrong: its shape is (), that of torch (3,)"
    assert sweep.end_text(VARIANTS[1], []) == "contracted floats: no work was measured"


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2), (75, 3), (90, 4), (100, 4)])
def test_percentiles_of_four_values(percent: int, value: float) -> None:
    assert sweep.percentile([1, 2, 3, 4], percent) == value


def test_a_rate_is_next_to_the_nearer_peak() -> None:
    peak = sweep.Peak(operations_per_ns=100, bytes_per_ns=20)
    work = sweep.chain(Draw("rate")).work
    assert sweep.rate_text(Drawn(work, 5000, 100), 100, peak) == "50 GFLOP/s, 50% of the peak"
    assert sweep.rate_text(Drawn(work, 500, 1000), 100, peak) == "10 GB/s, 50% of the peak"
