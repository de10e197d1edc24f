"""Command lists of CPU: launches that native code makes in one call, and those that it does not."""

from __future__ import annotations

import gc
import os
import signal
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from elementwise_programs import fill, read

from tinyref import Tensor, TinyJit
from tinyref.config import Context
from tinyref.contract import CommandList, Launch
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.runtimes.host import threads
from tinyref.runtimes.host.cpu import CpuBackend
from tinyref.runtimes.kernel import Kernel, compile_program, forget_kernels
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.kernel.programs import at, loop, program

INT = dtypes.int32


def steps(groups: int | UOp = 1) -> Program:
    """out[i] = in[i] * 3 + n for two positions of each group, of 16 that there are."""
    n = build.variable("n", 0, 100, INT)
    inner = loop(2, 0)
    is_one = isinstance(groups, int) and groups == 1
    i = inner
    if not is_one:
        i = build.add(build.mul(build.special("group", 0, groups, INT), 2), inner)
    out, source = (build.define_global(slot, INT, 16) for slot in (0, 1))
    value = build.add(build.mul(build.load(at(source, i)), 3), n)
    stored = build.store(at(out, i), value)
    kernel = program("steps", stored, build.close(inner), grid=(groups, 1, 1))
    return replace(kernel, variables=(n,))


def kernel_of(groups: int | UOp = 1) -> Kernel:
    with Context(THREADS=2):
        return compile_program("CPU", steps(groups))


def launch(kernel: Kernel, out: Buffer, source: Buffer, n: int) -> Launch:
    handles = (out.handle, source.handle)
    return Launch(kernel.launchable, handles, kernel.grid({"n": n}), (1, 1, 1), (n,))


def record(launches: Sequence[Launch]) -> CommandList:
    actual = Device["CPU"].record(launches)
    assert actual is not None
    return actual


def array(*values: int) -> Buffer:
    """16 integers: those given, and zeros."""
    return fill("CPU", np.resize([*values, *[0] * (16 - len(values))], 16), INT)


def head(buffer: Buffer, count: int = 2) -> list[int]:
    return [int(value) for value in read(buffer)[:count]]


def test_all_launches_are_made_in_their_order_each_once() -> None:
    kernel, memory = kernel_of(), array(1, 0)
    commands = record([launch(kernel, memory, memory, n) for n in (1, 2, 5)])
    assert head(memory) == [1, 0]
    commands()
    # 1 becomes 4, 14 and 47; 0 becomes 1, 5 and 20.
    assert head(memory) == [47, 20]
    memory.copy_in(memoryview(np.arange(16, dtype=np.int32)).cast("B"))
    commands()
    assert head(memory) == [20, 47]


@pytest.mark.parametrize(("count", "calls"), [(63, 1), (64, 1), (65, 2), (128, 2), (130, 3)])
def test_a_list_of_any_length_drops_nothing(
    count: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Split longer lists into calls: an interrupt waits for at most 64 launches."""
    kernel, source, backend = kernel_of(), array(2), CpuBackend()
    made: list[object] = []
    inner = backend.launch_in_order.call

    def native(*arguments: object) -> None:
        made.append(arguments)
        inner(*arguments)

    monkeypatch.setattr(backend.launch_in_order, "call", native)
    outs = [array() for _ in range(count)]
    commands = backend.record([launch(kernel, out, source, n % 100) for n, out in enumerate(outs)])
    assert commands is not None
    commands()
    assert [head(out, 1)[0] for out in outs] == [6 + n % 100 for n in range(count)]
    assert len(made) == calls


def test_an_exchanged_buffer_is_the_one_that_the_next_call_takes() -> None:
    kernel = kernel_of()
    first, second, other, between, out = array(1), array(2), array(), array(), array()
    commands = record([launch(kernel, between, first, 1), launch(kernel, out, between, 2)])
    commands()
    assert head(out, 1) == [14]
    commands.rebind(0, 1, second.handle)
    commands.rebind(1, 0, other.handle)
    commands()
    assert (head(out, 1), head(other, 1)) == ([14], [23])
    # The third buffer at one place, as the second.
    third = array(3).handle
    commands.rebind(0, 1, third)
    stored = weakref.ref(third)
    del third
    gc.collect()
    assert stored() is not None
    commands()
    assert head(other, 1) == [32]


def test_a_variable_has_the_value_that_was_bound_last() -> None:
    kernel, source, out = kernel_of(), array(1), array()
    commands = record([launch(kernel, out, source, 1), launch(kernel, out, out, 2)])
    for first, second in ((1, 2), (7, 0), (7, 5)):
        commands.vary(0, (1, 1, 1), [first])
        commands.vary(1, (1, 1, 1), [second])
        commands()
        assert head(out, 1) == [(3 + first) * 3 + second]


def test_groups_are_shared_among_threads_between_native_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run kernels of one group before and after one of four; the order stays."""
    shared: list[int] = []
    original = threads.run_groups

    def noting(call: object, count: int) -> None:
        shared.append(count)
        original(call, count)  # type: ignore[arg-type]

    monkeypatch.setattr("tinyref.runtimes.host.native.run_groups", noting)
    one, four, memory = kernel_of(), kernel_of(4), array(1, 2, 3, 4, 5, 6, 7, 8)
    in_order = enumerate((one, one, four, one))
    launches = [launch(kernel, memory, memory, n) for n, kernel in in_order]
    with Context(THREADS=2):
        record(launches)()
    assert shared == [4]
    # 1 becomes 3, 10, 32 and 99; 2 becomes 6, 19, 59 and 180; the others are of the third alone.
    assert head(memory, 10) == [99, 180, 11, 14, 17, 20, 23, 26, 0, 0]


def test_as_many_groups_as_a_variable_says() -> None:
    """1 is made by native code, 3 is shared, and back: the list is another one each time."""
    symbolic = kernel_of(build.variable("n", 0, 100, INT))
    one, source, between, out = kernel_of(), array(*range(1, 9)), array(), array()
    commands = record([launch(symbolic, between, source, 1), launch(one, out, between, 0)])
    with Context(THREADS=2):
        for n, whole in ((1, 2), (3, 6), (3, 6), (2, 4), (1, 2), (1, 2)):
            between.copy_in(memoryview(bytes(64)))
            commands.vary(0, (n, 1, 1), [n])
            commands()
            expected = [3 * (i + 1) + n if i < whole else 0 for i in range(8)]
            assert head(between, 8) == expected
            assert head(out) == [3 * expected[0], 3 * expected[1]]


def test_code_and_memory_live_as_long_as_the_list_and_no_longer() -> None:
    forget_kernels()
    kernel, out = kernel_of(), array()
    code = weakref.ref(kernel.launchable)
    source = array(4)
    memory = weakref.ref(source.handle)
    commands = record([launch(kernel, out, source, 1), launch(kernel, out, out, 1)])
    del kernel, source
    forget_kernels()
    gc.collect()
    assert code() is not None
    assert memory() is not None
    commands()
    assert head(out, 1) == [40]
    del commands
    gc.collect()
    assert code() is None
    assert memory() is None


def test_what_is_no_function_of_the_host_is_in_no_list() -> None:
    """Exclude kernels that a harness runs by other means (`making_kernels`)."""
    kernel, memory = kernel_of(), array(1)

    def other(*arguments: object) -> None:
        raise AssertionError("recorded, not launched")

    launches = [launch(kernel, memory, memory, 1), Launch(other, (), (1, 1, 1), (1, 1, 1), ())]
    assert Device["CPU"].record(launches) is None


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this host does not fork")
def test_a_forked_child_replays_what_its_parent_captured() -> None:
    step = TinyJit(lambda x: ((x + 1).realize() * 3).realize() - 2)

    def give(number: int) -> float:
        return step(Tensor([float(number)], device="CPU")).item()

    assert [give(number) for number in range(4)] == [1, 4, 7, 10]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(7 if give(5) == 16 else 1)
    assert give(5) == 16
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
