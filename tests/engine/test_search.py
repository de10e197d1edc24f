"""Test beam search: its results, its cache, and the cost of bad candidates."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from running import is_running

from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.engine import search as search_module
from tinyref.engine.report import chosen_opts
from tinyref.engine.search import Worker, best_opts, forget_searches, search
from tinyref.errors import DeviceError, UserError
from tinyref.optimise.choices import actions, identity
from tinyref.optimise.opt import Opt, OptOp, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.tensor import Tensor
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU
from tinyref_spec.kernels.named import transposed

LOOPS = Capabilities(
    frozenset(dtypes.all),
    frozenset(op.name for op in ALU) | {"LOAD", "STORE"},
    vector_lanes=(1, 2, 4, 8),
)
FRAGILE = "search_devices:FragileBackend"
STICKY = "search_devices:StickyBackend"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[None]:
    forget_searches()
    with Context(CACHE=1, CACHE_DIR=str(tmp_path), BEAM=1):
        yield


def copy_kernel(rows: int = 8, columns: int = 8) -> UOp:
    return transposed(dtypes.float32, rows, columns)


def plain_plan() -> Plan:
    return Plan.of(copy_kernel(), LOOPS)


# --- the search -----------------------------------------------------------------------------------


def test_the_search_goes_on_as_long_as_it_gains() -> None:
    # The best plan needs two optimisations, and the first alone is a small gain.
    times = {"": 10.0, "UPCAST(1, 4)": 8.0, "UPCAST(1, 4) UPCAST(0, 4)": 1.0}

    def measure(opts: tuple[Opt, ...]) -> float:
        return times.get(opts_text(opts), 20.0)

    result = search((plain_plan(),), 1, measure)
    assert result is not None
    assert (result.seconds, opts_text(result.plan.opts)) == (1.0, "UPCAST(1, 4) UPCAST(0, 4)")


def test_every_plan_is_measured_once_and_the_fastest_is_found() -> None:
    measured: list[object] = []

    def measure(opts: tuple[Opt, ...]) -> float:
        plan = plain_plan().apply_all(opts)
        measured.append(identity(plan))
        # The fewer iterations of the loops, the faster.
        lanes = [axis.extent for axis in plan.axes if axis.kind.value == "upcast"]
        return 1.0 / (1 + sum(extent for extent in lanes if isinstance(extent, int)))

    result = search((plain_plan(), plain_plan()), 2, measure)
    assert result is not None
    assert len(measured) == len(set(measured))
    assert {axis.kind.value for axis in result.plan.axes} == {"upcast"}
    assert result.seconds == 1.0 / 17


def test_a_round_without_gain_ends_the_search() -> None:
    asked: list[tuple[Opt, ...]] = []

    def measure(opts: tuple[Opt, ...]) -> float:
        asked.append(opts)
        return 1.0

    result = search((plain_plan(),), 3, measure)
    assert result is not None
    assert result.plan.opts == ()
    assert len(asked) == 1 + len(actions(plain_plan()))


def test_nothing_that_runs_is_no_plan() -> None:
    assert search((plain_plan(),), 2, lambda opts: None) is None


def test_a_beam_of_no_plans_is_refused() -> None:
    with pytest.raises(UserError, match="a beam of 0 plans: accepted are at least 1"):
        search((plain_plan(),), 0, lambda opts: 1.0)


def test_actions_are_legal_and_lead_to_other_plans() -> None:
    plan = plain_plan()
    reached = actions(plan)
    assert len({identity(other) for other in reached}) == len(reached)
    assert identity(plan) not in {identity(other) for other in reached}
    assert all(plan.apply_all(other.opts) == other for other in reached)
    assert {other.opts[-1].op for other in reached} >= {OptOp.UPCAST, OptOp.SWAP}


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_candidate_that_crashes_hangs_or_fails_costs_itself() -> None:
    worker = Worker(FRAGILE, copy_kernel(), 1.0)
    try:
        start = time.monotonic()
        assert worker.seconds(parse_opts("UPCAST(1, 2)")) is None
        assert worker.seconds(parse_opts("UPCAST(1, 4)")) is None
        assert worker.seconds(parse_opts("UPCAST(1, 8)")) is None
        assert worker.seconds((Opt(OptOp.UPCAST, 7, 3),)) is None
        assert worker.seconds(()) is not None
        # One time limit for the candidate that hangs, plus the start of three processes.
        assert time.monotonic() - start < 60
        process = worker.process
        # Ctrl-C sends its signal to the group of the caller.
        assert process is not None
        assert os.getpgid(process.process.pid) != os.getpgid(0)
    finally:
        worker.close()
    # No process is left, and no pipe.
    assert process.process.returncode == -signal.SIGKILL
    assert process.pipes.reader == process.pipes.writer == -1


@pytest.mark.long
def test_a_candidate_that_loses_the_device_costs_itself() -> None:
    # Another process opens the device again for the next candidate.
    worker = Worker(STICKY, copy_kernel(), 10.0)
    try:
        assert worker.seconds(()) is not None
        first = worker.process
        assert worker.seconds((Opt(OptOp.UPCAST, 7, 3),)) is None
        assert worker.process is first
        assert worker.seconds(parse_opts("UPCAST(1, 2)")) is None
        assert worker.seconds(parse_opts("UPCAST(0, 4)")) is not None
        assert worker.process is not first
    finally:
        worker.close()


_HANGS = """
from test_search import FRAGILE, Worker, copy_kernel, parse_opts
worker = Worker(FRAGILE, copy_kernel(), 2.0)
print(worker.start().process.pid, flush=True)
worker.seconds_limit = 1000.0
worker.seconds(parse_opts("UPCAST(1, 4)"))
"""


@pytest.mark.slow
def test_a_candidate_that_hangs_does_not_outlive_a_parent_that_was_killed() -> None:
    folder = Path(__file__).parent
    # It imports this module and its imports.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", _HANGS],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        time.sleep(0.5)
        parent.kill()
    deadline = time.monotonic() + 60
    while is_running(orphan) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_running(orphan)


@pytest.mark.long
def test_a_process_that_cannot_open_the_device_is_an_error() -> None:
    worker = Worker("no_such_module:Backend", copy_kernel(), 1.0)
    with pytest.raises(DeviceError, match=r"the process that times is not ready: .*no_such_module"):
        worker.seconds(())


# --- choosing -------------------------------------------------------------------------------------


def timing(times: dict[str, float], other: float) -> type[Worker]:
    """Return a worker that takes `times`, and `other` seconds for all other optimisations."""

    class Timing(Worker):
        def seconds(self, opts: tuple[Opt, ...]) -> float | None:
            return times.get(opts_text(opts), other)

    return Timing


def test_what_is_no_faster_when_timed_again_gives_way_to_the_heuristics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lucky = iter([1.0])

    class Luck(Worker):
        def seconds(self, opts: tuple[Opt, ...]) -> float | None:
            return next(lucky, 2.0) if opts_text(opts) == "UPCAST(0, 2)" else 2.0

    with Context(NOOPT=1):
        assert chosen_opts("CPU", copy_kernel()) is None
    monkeypatch.setattr(search_module, "plan_for", lambda ast, capabilities: Plan.of(ast, LOOPS))
    monkeypatch.setattr(search_module, "Worker", Luck)
    assert best_opts("CPU", copy_kernel()) == ()
    assert next(lucky, None) is None
    monkeypatch.setattr(search_module, "Worker", timing({"UPCAST(0, 2)": 1.0}, 2.0))
    assert best_opts("CPU", copy_kernel(8, 6)) == (Opt(OptOp.UPCAST, 0, 2),)


def test_where_nothing_can_be_timed_the_heuristics_choose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(Worker):
        def seconds(self, opts: tuple[Opt, ...]) -> float | None:
            raise DeviceError(self.device, "search: cannot start a process: no memory")

    monkeypatch.setattr(search_module, "Worker", Broken)
    with pytest.warns(UserWarning, match=r"the heuristics choose.*cannot start a process"):
        opts = best_opts("CPU", copy_kernel())
    capabilities = Device["CPU"].capabilities
    assert opts == search_module.plan_for(copy_kernel(), capabilities).opts
    # It is not cached: the next process may succeed.
    plain = Plan.of(copy_kernel(), capabilities)
    assert search_module._Memory("CPU", copy_kernel()).result(plain) is None


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_finished_search_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    opts = best_opts("CPU", copy_kernel(2, 3))

    def refuse(*arguments: object) -> None:
        raise AssertionError("a remembered search starts no process")

    monkeypatch.setattr(search_module, "Worker", refuse)
    assert best_opts("CPU", copy_kernel(2, 3)) == opts
    # Not only in this process.
    forget_searches()
    assert best_opts("CPU", copy_kernel(2, 3)) == opts
    with pytest.raises(AssertionError, match="starts no process"), Context(STRICT_FLOAT=0):
        best_opts("CPU", copy_kernel(2, 3))


def test_without_a_cache_a_process_searches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Context(CACHE=0):
        monkeypatch.setattr(search_module, "Worker", timing({"UPCAST(0, 2)": 1.0}, 2.0))
        assert best_opts("CPU", copy_kernel(8, 6)) == (Opt(OptOp.UPCAST, 0, 2),)
        monkeypatch.setattr(search_module, "Worker", None)
        assert best_opts("CPU", copy_kernel(8, 6)) == (Opt(OptOp.UPCAST, 0, 2),)


def test_a_failure_counts_for_no_longer_limit() -> None:
    asked: list[tuple[Opt, ...]] = []

    def fails(opts: tuple[Opt, ...]) -> None:
        asked.append(opts)

    for limit, times in ((2, 1), (2, 1), (1, 1), (3, 2)):
        with Context(BEAM_SECONDS=limit):
            assert search_module._Memory("CPU", copy_kernel()).remember(fails)(()) is None
        assert len(asked) == times


def test_a_kernel_with_one_plan_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(search_module, "Worker")
    assert best_opts("CPU", copy_kernel(1, 1)) == ()
    with pytest.raises(NameError, match="Worker"):
        best_opts("CPU", copy_kernel(8, 6))


def test_a_search_says_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(search_module, "Worker", timing({"UPCAST(0, 2)": 1.0}, 2.0))
    with Context(DEBUG=1):
        best_opts("CPU", copy_kernel(8, 6))
    assert "search e_8_6 on CPU: " in capsys.readouterr().err


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
    # The two best plans at the end are timed again.
    monkeypatch.setattr(search_module, "_duel", lambda chosen, best, measure: best)
    with pytest.raises(KeyboardInterrupt):
        best_opts("CPU", copy_kernel())
    first = list(asked)
    stop_after = 10_000
    best_opts("CPU", copy_kernel())
    assert len(first) == 5
    assert not set(asked[5:]) & set(first)


@pytest.mark.long
def test_tensors_are_computed_by_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    result = (Tensor(x).sum(1) * 2).numpy()
    assert result.tolist() == [56.0, 184.0, 312.0, 440.0, 568.0, 696.0, 824.0, 952.0]
    # The search covers every kernel of a schedule: without it none of them runs.
    monkeypatch.setattr(search_module, "Worker", None)
    output = Tensor.ones(4, 8).contiguous().transpose() + 1
    with pytest.raises(TypeError, match="not callable"):
        output.realize()


def test_a_process_that_searches_nothing_imports_no_search() -> None:
    seldom = ("engine.search", "workers.processes", "verify.index_bounds")
    text = (
        "import sys; from tinyref.tensor import Tensor; assert Tensor([1, 2]).sum().item() == 3; "
        f"print([name for name in {seldom} if 'tinyref.' + name in sys.modules])"
    )
    flags = {"BEAM": "0", "CHECK_BOUNDS": "0", "DEVICE": "CPU"}
    command = [sys.executable, "-c", text]
    done = subprocess.run(
        command, env={**os.environ, **flags}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
