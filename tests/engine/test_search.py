"""Beam search: what it finds, what it remembers, and what a bad candidate costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tinyref.config import Context
from tinyref.device import Capabilities, Device
from tinyref.dtype import dtypes
from tinyref.engine import search as search_module
from tinyref.engine.search import best_opts, search
from tinyref.engine.search_process import Worker
from tinyref.errors import UserError
from tinyref.schedule import schedule
from tinyref.tensor import Tensor
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.optimise.actions import actions, identity
from tinyref.uops.optimise.opt import Opt, OptOp, opts_text, parse_opts
from tinyref.uops.optimise.plan import Plan
from tinyref.uops.payload import ViewArg
from tinyref.uops.shape_tracker import ShapeTracker

LOOPS = Capabilities(
    frozenset(dtypes.all),
    frozenset(op.name for op in ALU) | {"LOAD", "STORE"},
    vector_lanes=(1, 2, 4, 8),
)
FRAGILE = "search_devices:FragileBackend"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    with Context(CACHE=1, CACHE_DIR=str(tmp_path), BEAM=1):
        yield


def copy_kernel(rows: int = 8, columns: int = 8) -> UOp:
    size = rows * columns
    shown = ShapeTracker.from_shape((columns, rows)).permute((1, 0))
    source = build.define_global(1, dtypes.float32, size)
    loaded = UOp(
        Ops.LOAD, dtypes.float32, (UOp(Ops.VIEW, source.dtype, (source,), ViewArg(shown)),)
    )
    target = build.define_global(0, dtypes.float32, size)
    tracker = ShapeTracker.from_shape((rows, columns))
    written = UOp(Ops.VIEW, target.dtype, (target,), ViewArg(tracker))
    return build.sink(build.store(written, loaded))


def plain_plan() -> Plan:
    return Plan.of(copy_kernel(), LOOPS)


# --- the search -----------------------------------------------------------------------------------


def test_the_search_goes_on_as_long_as_it_gains() -> None:
    # Two optimisations are needed for the best, and the first alone is a small gain.
    times = {"": 10.0, "UPCAST(1, 4)": 8.0, "UPCAST(1, 4) UPCAST(0, 4)": 1.0}

    def measure(opts: tuple[Opt, ...]) -> float:
        return times.get(opts_text(opts), 20.0)

    found = search((plain_plan(),), 1, measure)
    assert found is not None
    assert (found.seconds, opts_text(found.plan.opts)) == (1.0, "UPCAST(1, 4) UPCAST(0, 4)")


def test_every_plan_is_measured_once_and_the_fastest_is_found() -> None:
    measured: list[object] = []

    def measure(opts: tuple[Opt, ...]) -> float:
        plan = plain_plan().apply_all(opts)
        measured.append(identity(plan))
        # The fewer turns of the loops, the faster.
        lanes = [axis.extent for axis in plan.axes if axis.kind.value == "upcast"]
        return 1.0 / (1 + sum(extent for extent in lanes if isinstance(extent, int)))

    found = search((plain_plan(), plain_plan()), 2, measure)
    assert found is not None
    assert len(measured) == len(set(measured))
    assert {axis.kind.value for axis in found.plan.axes} == {"upcast"}
    assert found.seconds == 1.0 / 17


def test_a_round_without_gain_ends_the_search() -> None:
    asked: list[tuple[Opt, ...]] = []

    def measure(opts: tuple[Opt, ...]) -> float:
        asked.append(opts)
        return 1.0

    found = search((plain_plan(),), 3, measure)
    assert found is not None
    assert found.plan.opts == ()
    assert len(asked) == 1 + len(actions(plain_plan()))


def test_nothing_that_runs_is_no_plan() -> None:
    assert search((plain_plan(),), 2, lambda opts: None) is None


def test_a_beam_of_no_plans_is_refused() -> None:
    with pytest.raises(UserError, match="a beam of 0 plans: accepted are at least 1"):
        search((plain_plan(),), 0, lambda opts: 1.0)


def test_actions_are_legal_and_lead_to_other_plans() -> None:
    plan = plain_plan()
    reached = actions(plan)
    assert len({identity(each) for each in reached}) == len(reached)
    assert identity(plan) not in {identity(each) for each in reached}
    assert all(plan.apply_all(each.opts) == each for each in reached)
    assert {each.opts[-1].op for each in reached} >= {OptOp.UPCAST, OptOp.SWAP}


# --- processes ------------------------------------------------------------------------------------


def test_a_candidate_that_crashes_hangs_or_fails_costs_itself() -> None:
    worker = Worker(FRAGILE, copy_kernel(), 2.0)
    try:
        start = time.monotonic()
        assert worker.seconds(parse_opts("UPCAST(1, 2)")) is None
        assert worker.seconds(()) is not None
        assert worker.seconds(parse_opts("UPCAST(1, 4)")) is None
        assert worker.seconds(parse_opts("UPCAST(1, 8)")) is None
        assert worker.seconds(()) is not None
        # One limit for the candidate that hangs; what remains is starting three processes.
        assert time.monotonic() - start < 60
    finally:
        worker.close()


def test_an_illegal_candidate_is_answered() -> None:
    worker = Worker("CPU", copy_kernel(), 30.0)
    try:
        assert worker.seconds((Opt(OptOp.UPCAST, 7, 3),)) is None
        assert worker.seconds(()) is not None
    finally:
        worker.close()


def test_a_search_on_a_fragile_device_ends_with_a_plan_that_runs() -> None:
    with Context(BEAM_SECONDS=2):
        opts = best_opts(FRAGILE, copy_kernel(4, 2))
    plan = Plan.of(copy_kernel(4, 2), Device[FRAGILE].capabilities)
    assert plan.apply_all(opts).opts == opts
    assert "float32x2" not in str(opts)


# --- memory ---------------------------------------------------------------------------------------


def test_a_finished_search_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    opts = best_opts("CPU", copy_kernel())

    def refuse(*arguments: object) -> None:
        raise AssertionError("a remembered search starts no process")

    monkeypatch.setattr(search_module, "Worker", refuse)
    assert best_opts("CPU", copy_kernel()) == opts
    with pytest.raises(AssertionError, match="starts no process"), Context(STRICT_FLOAT=0):
        best_opts("CPU", copy_kernel())


def test_an_interrupted_search_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Opt, ...]] = []
    stop_after = 5

    class Counting(Worker):
        def seconds(self, opts: tuple[Opt, ...]) -> float | None:
            if len(asked) == stop_after:
                raise KeyboardInterrupt
            asked.append(opts)
            return 1.0

    monkeypatch.setattr(search_module, "Worker", Counting)
    with pytest.raises(KeyboardInterrupt):
        best_opts("CPU", copy_kernel())
    first = list(asked)
    stop_after = 10_000
    best_opts("CPU", copy_kernel())
    assert len(first) == 5
    assert not set(asked[5:]) & set(first)


def test_a_result_that_is_torn_or_no_longer_legal_is_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = search_module._Memory("CPU", copy_kernel())
    memory.keep_result(1, (Opt(OptOp.LOCAL, 0, 4),))
    plain = Plan.of(copy_kernel(), Device["CPU"].capabilities)
    assert memory.result(plain, 1) is None
    memory._write(memory._key("result", 1), {"opts": "rm -rf"})
    assert memory.result(plain, 1) is None
    memory.keep_result(1, (Opt(OptOp.UPCAST, 1, 4),))
    assert memory.result(plain, 1) == (Opt(OptOp.UPCAST, 1, 4),)


def test_tensors_are_computed_by_what_was_found() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    found = (Tensor(x).sum(1) * 2).numpy()
    assert found.tolist() == [56.0, 184.0, 312.0, 440.0, 568.0, 696.0, 824.0, 952.0]


def test_the_search_serves_every_kernel_of_a_schedule() -> None:
    output = Tensor.ones(4, 8).contiguous().realize().transpose() + 1
    (kernel,) = schedule([(output.node, "CPU")]).kernels
    assert isinstance(best_opts("CPU", kernel.ast), tuple)
