"""Launches that several threads share: every group runs once, and errors end them sanely."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from elementwise_programs import fill, read
from hosts import HOSTS, each_device

from tinyref.config import Context
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes.host import threads as host_threads
from tinyref.runtimes.host.threads import run_groups, thread_count
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref.workers.machine import usable_cores
from tinyref_spec.kernel.programs import at, group_index, loop, program

INT = dtypes.int32


device = each_device(HOSTS)


def squares(groups: int | UOp, per_group: int, limit: int) -> Program:
    """out[i] = i * i + n for the `per_group` positions i of each group."""
    n = build.variable("n", 0, 100, INT)
    inner = loop(per_group, 0)
    i = build.add(build.mul(build.special("group", 0, groups, INT), per_group), inner)
    out = build.define_global(0, INT, limit)
    stored = build.store(at(out, i), build.add(build.mul(i, i), n))
    kernel = program("squares", stored, build.close(inner), grid=(groups, 1, 1))
    return replace(kernel, variables=(n,))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 7, 64])
def test_every_group_runs_once(device: str, threads: int, groups: int) -> None:
    with Context(THREADS=threads):
        out = fill(device, np.full(groups * 4, -1), INT)
        compile_program(device, squares(groups, 4, groups * 4))([out], {"n": 7})
    assert read(out).tolist() == [i * i + 7 for i in range(groups * 4)]


def test_a_symbolic_number_of_groups(device: str) -> None:
    groups = build.variable("n", 0, 100, INT)
    kernel = compile_program(device, squares(groups, 1, 100))
    for count in (0, 1, 5):
        out = fill(device, np.full(100, -1), INT)
        with Context(THREADS=2):
            kernel([out], {"n": count})
        want = [i * i + count for i in range(count)] + [-1] * (100 - count)
        assert read(out).tolist() == want


def test_a_launch_of_one_group_wakes_nobody(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the pool was asked")

    monkeypatch.setattr(host_threads._pool, "give", refuse)
    with Context(THREADS=2):
        compile_program(device, squares(1, 4, 4))([fill(device, np.zeros(4), INT)], {"n": 1})
        with pytest.raises(AssertionError, match="the pool was asked"):
            compile_program(device, squares(2, 4, 8))([fill(device, np.zeros(8), INT)], {"n": 1})
    with Context(THREADS=1):
        compile_program(device, squares(2, 4, 8))([fill(device, np.zeros(8), INT)], {"n": 1})


def test_the_flag_decides_how_many_threads(device: str) -> None:
    with Context(THREADS=0):
        assert thread_count() == usable_cores()
        assert Device[device].capabilities.threads == usable_cores()
    with Context(THREADS=5):
        assert thread_count() == 5
        assert Device[device].capabilities.threads == 5
    with pytest.raises(UserError, match="flag THREADS: got -1, accepted is an integer from 0"):
        Context(THREADS=-1)


def turned(groups: int) -> Program:
    """Copy 48 elements of each group to scratch, then write them from last to first."""
    size = 48
    scratch = build.define_local("scratch", INT, size)
    first = build.mul(group_index(groups), size)
    i, j = loop(size, 0), loop(size, 1)
    out, source = (build.define_global(slot, INT, size * groups) for slot in (0, 1))
    copied = build.store(at(scratch, i), build.load(at(source, build.add(first, i))))
    element = build.load(at(scratch, build.sub(size - 1, j)))
    written = build.store(at(out, build.add(first, j)), element)
    nodes = (first, copied, build.close(i), written, build.close(j))
    return program("turned", *nodes, grid=(groups, 1, 1))


@pytest.mark.parametrize("groups", [1, 5])
def test_each_group_has_scratch_of_its_own(device: str, groups: int) -> None:
    values = np.arange(48 * groups)
    out = fill(device, np.zeros(48 * groups), INT)
    with Context(THREADS=3):
        compile_program(device, turned(groups))([out, fill(device, values, INT)])
    assert (read(out).reshape(groups, 48) == values.reshape(groups, 48)[:, ::-1]).all()


# The pool itself, by functions of Python


def test_threads_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=30)
    with Context(THREADS=3):
        run_groups(lambda group: meeting.wait(), 3)


def test_no_more_threads_than_the_flag_says() -> None:
    seen: set[int] = set()

    def note(group: int) -> None:
        seen.add(threading.get_ident())
        time.sleep(0.001)

    with Context(THREADS=1):
        run_groups(note, 20)
    assert seen == {threading.get_ident()}
    with Context(THREADS=2):
        run_groups(note, 20)
    assert len(seen) <= 2


def test_launches_of_several_threads_do_not_mix() -> None:
    results: dict[int, list[int]] = {number: [] for number in range(6)}

    def launch(number: int) -> None:
        with Context(THREADS=3):
            run_groups(results[number].append, 50)

    callers = [threading.Thread(target=launch, args=(number,)) for number in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert all(sorted(groups) == list(range(50)) for groups in results.values())


@pytest.mark.parametrize("where", ["caller", "helper"])
def test_an_error_ends_the_launch_and_is_raised(where: str) -> None:
    caller = threading.get_ident()
    meeting = threading.Barrier(2, timeout=30)
    running = []

    def call(group: int) -> None:
        running.append(group)
        if group < 2:
            meeting.wait()
        fails = (threading.get_ident() == caller) == (where == "caller")
        if fails:
            raise ValueError(f"from the {where}")
        time.sleep(0.05)
        running.remove(group)

    with Context(THREADS=2):
        with pytest.raises(ValueError, match=f"from the {where}"):
            run_groups(call, 1000)
        # Only the group that failed has not come to its end: the others were waited for.
        assert len(running) == 1
        done: list[int] = []
        run_groups(done.append, 10)
    assert sorted(done) == list(range(10))


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
def test_an_interrupt_waits_for_the_helpers() -> None:
    caller = threading.get_ident()
    at_work, interrupted = threading.Event(), threading.Event()
    ended = []

    def call(group: int) -> None:
        if threading.get_ident() == caller:
            assert at_work.wait(30)
            interrupted.set()
            signal.raise_signal(signal.SIGINT)
        else:
            at_work.set()
            assert interrupted.wait(30)
            time.sleep(0.1)
            ended.append(group)

    # A process that was started in the background ignores interrupts.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Context(THREADS=2), pytest.raises(KeyboardInterrupt):
            run_groups(call, 1000)
    finally:
        signal.signal(signal.SIGINT, handler)
    # On a busy machine the helper may have taken another group before the interrupt was seen.
    count = len(ended)
    assert 1 <= count < 999
    time.sleep(0.3)
    assert len(ended) == count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    def all_meet() -> None:
        meeting = threading.Barrier(3, timeout=20)
        with Context(THREADS=3):
            run_groups(lambda group: meeting.wait(), 3)

    all_meet()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            all_meet()
            os._exit(7)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    all_meet()


def test_without_further_threads_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(host_threads, "_pool", host_threads._Pool())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    with Context(THREADS=4):
        run_groups(done.append, 10)
    assert sorted(done) == list(range(10))
