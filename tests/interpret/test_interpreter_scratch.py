"""Arrays that are scratch space: iterations that run at once have a copy each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.interpret import Fault, Interpreter, SanitizerError, run_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program

i32 = dtypes.int32


@dataclass
class Writer:
    """A program that is written down in its own order."""

    uops: list[UOp] = field(default_factory=list)
    loops: int = 0

    def add(self, node: UOp) -> UOp:
        self.uops += [each for each in node.toposort() if each not in self.uops]
        return node

    def memories(self, size: int, scratch: int) -> tuple[UOp, UOp]:
        """What is written for the caller, and the array that each iteration may use."""
        out, local = build.define_global(0, i32, size), build.define_local("scratch", i32, scratch)
        return self.add(out), self.add(local)

    def begin(self, iterations: int) -> UOp:
        self.loops += 1
        return self.add(build.counter(iterations, self.loops - 1, AxisKind.LOOP, i32))

    def end(self, loop: UOp) -> None:
        self.add(build.close(loop))

    def put(self, memory: UOp, position: UOp, value: UOp) -> None:
        self.add(build.store(build.index(memory, position), value))

    def take(self, memory: UOp, position: UOp) -> UOp:
        return self.add(build.load(build.index(memory, position)))

    def program(self, threads: int = 1) -> Program:
        return Program("scratch", tuple(self.uops), (), grid=(threads, 1, 1))


def linear(i: UOp, j: UOp, factors: tuple[int, int, int], size: int) -> UOp:
    """(a i + b j + c) mod size."""
    a, b, c = factors
    total = build.add(build.add(build.mul(i, a), build.mul(j, b)), c)
    return build.mod(total, size)


@dataclass(frozen=True)
class Nest:
    """Two inner loops of a loop: the first one fills the scratch array, the second one reads it."""

    iterations: int
    filled: int
    read: int
    size: int
    put: tuple[int, int, int]
    take: tuple[int, int, int]

    def program(self, threads: int = 1) -> Program:
        writer = Writer()
        out, scratch = writer.memories(threads * self.iterations * self.read, self.size)
        thread = writer.add(build.special("group", 0, threads, i32))
        i = writer.begin(self.iterations)
        j = writer.begin(self.filled)
        value = build.add(build.mul(build.add(build.mul(thread, 100), i), 100), build.add(j, 1))
        writer.put(scratch, linear(i, j, self.put, self.size), value)
        writer.end(j)
        k = writer.begin(self.read)
        found = writer.take(scratch, linear(i, k, self.take, self.size))
        row = build.add(build.mul(thread, self.iterations), i)
        writer.put(out, build.add(build.mul(row, self.read), k), found)
        writer.end(k)
        writer.end(i)
        return writer.program(threads)

    def wanted(self, threads: int = 1) -> list[int | None]:
        """The values in order, None where nothing was ever written."""
        found: list[int | None] = []
        for thread in range(threads):
            scratch: dict[int, int] = {}
            for i in range(self.iterations):
                for j in range(self.filled):
                    place = (self.put[0] * i + self.put[1] * j + self.put[2]) % self.size
                    scratch[place] = (thread * 100 + i) * 100 + j + 1
                for k in range(self.read):
                    place = (self.take[0] * i + self.take[1] * k + self.take[2]) % self.size
                    found.append(scratch.get(place))
        return found


def check(nest: Nest, threads: int) -> bool:
    """Checks values, or the fault, of iterations one by one; returns whether all ran at once."""
    subject = nest.program(threads)
    wanted = nest.wanted(threads)
    result = np.zeros(len(wanted), np.int32)
    for _ in range(2):
        if None in wanted:
            with pytest.raises(SanitizerError) as caught:
                run_program(subject, [result])
            assert caught.value.kind is Fault.UNINITIALISED
        else:
            run_program(subject, [result])
            assert list(result) == wanted
    return Interpreter(subject).translation.may_widen


@pytest.mark.parametrize("threads", [1, 3])
def test_every_iteration_has_a_scratch_array_of_its_own(threads: int) -> None:
    assert check(Nest(6, 5, 5, 5, (0, 1, 0), (0, -1, 4)), threads)


def test_so_many_iterations_that_their_copies_come_in_blocks() -> None:
    assert check(Nest(700, 3, 3, 4000, (0, 1, 7), (0, 1, 7)), 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_an_earlier_iteration_left_is_read_in_order(threads: int) -> None:
    """Iteration i writes element i mod 2, and reads both, from 0 on where all were filled."""
    nest = Nest(5, 2, 4, 4, (2, 1, 0), (2, 1, 0))
    assert None in nest.wanted()
    check(nest, threads)
    later = Nest(4, 3, 3, 3, (1, 0, 0), (0, 1, 0))
    assert None in later.wanted()
    check(later, threads)
    carried = Nest(5, 4, 4, 4, (0, 1, 0), (0, 1, 0))
    assert check(carried, threads)


def test_a_value_that_is_carried_from_iteration_to_iteration() -> None:
    """The first iteration fills all of the array; the others read what it left."""
    writer = Writer()
    out, scratch = writer.memories(12, 4)
    i = writer.begin(3)
    first = writer.add(build.branch(build.less(i, 1)))
    j = writer.begin(4)
    writer.put(scratch, j, build.mul(j, j))
    writer.end(j)
    writer.add(build.close(first))
    k = writer.begin(4)
    found = writer.take(scratch, k)
    writer.put(out, build.add(build.mul(i, 4), k), found)
    writer.end(k)
    writer.end(i)
    subject = writer.program()
    for _ in range(2):
        result = np.zeros(12, np.int32)
        run_program(subject, [result])
        assert list(result) == [0, 1, 4, 9] * 3
    assert not Interpreter(subject).translation.may_widen


def test_a_recurrence_within_the_scratch_array_runs_in_order() -> None:
    """scratch[j + 1] = scratch[j] + i in iteration i: only the outer loop may run at once."""
    writer = Writer()
    out, scratch = writer.memories(4, 6)
    i = writer.begin(4)
    writer.put(scratch, build.const(i32, 0), build.const(i32, 10))
    j = writer.begin(5)
    before = writer.take(scratch, j)
    writer.put(scratch, build.add(j, 1), build.add(before, i))
    writer.end(j)
    last = writer.take(scratch, build.const(i32, 5))
    writer.put(out, i, last)
    writer.end(i)
    result = np.zeros(4, np.int32)
    run_program(writer.program(), [result])
    assert list(result) == [10, 15, 20, 25]


def fill(writer: Writer, scratch: UOp, size: int) -> None:
    j = writer.begin(size)
    writer.put(scratch, j, j)
    writer.end(j)


def test_a_recurrence_over_elements_that_are_all_filled_runs_in_order() -> None:
    """scratch[j + 1] = scratch[j] + 10: at once, every iteration would read what was filled in."""
    writer = Writer()
    out, scratch = writer.memories(3, 5)
    i = writer.begin(3)
    fill(writer, scratch, 5)
    j = writer.begin(4)
    before = writer.take(scratch, j)
    writer.put(scratch, build.add(j, 1), build.add(before, 10))
    writer.end(j)
    writer.put(out, i, writer.take(scratch, build.const(i32, 4)))
    writer.end(i)
    result = np.zeros(3, np.int32)
    run_program(writer.program(), [result])
    assert list(result) == [40, 40, 40]


def test_the_end_of_an_inner_loop_orders_no_other_iteration_of_the_loop_around_it() -> None:
    """Iteration m reads in its first loop what iteration m - 1 wrote in its second one."""
    writer = Writer()
    out, scratch = writer.memories(2 * 3 * 2, 4)
    i = writer.begin(2)
    fill(writer, scratch, 4)
    m = writer.begin(3)
    row = build.mul(build.add(build.mul(i, 3), m), 2)
    n = writer.begin(2)
    writer.put(out, build.add(row, n), writer.take(scratch, m))
    writer.end(n)
    n = writer.begin(1)
    writer.put(scratch, build.add(build.add(m, 1), n), build.add(m, 100))
    writer.end(n)
    writer.end(m)
    writer.end(i)
    result = np.zeros(12, np.int32)
    run_program(writer.program(), [result])
    assert list(result) == [0, 0, 100, 100, 101, 101] * 2


def test_threads_that_meet_in_memory_still_race() -> None:
    writer = Writer()
    out = writer.add(build.define_global(0, i32, 8))
    thread = writer.add(build.special("group", 0, 2, i32))
    i = writer.begin(8)
    writer.put(out, i, thread)
    writer.end(i)
    with pytest.raises(SanitizerError) as caught:
        run_program(writer.program(2), [np.zeros(8, np.int32)])
    assert caught.value.kind is Fault.RACE
    assert caught.value.position == 0


def test_a_thread_reads_in_a_second_loop_what_another_wrote_in_the_first() -> None:
    writer = Writer()
    out, data = build.define_global(0, i32, 8), build.define_global(1, i32, 8)
    writer.add(out)
    writer.add(data)
    thread = writer.add(build.special("group", 0, 2, i32))
    i = writer.begin(4)
    writer.put(data, build.add(build.mul(thread, 4), i), i)
    writer.end(i)
    j = writer.begin(4)
    other = writer.take(data, build.add(build.mul(build.sub(build.const(i32, 1), thread), 4), j))
    writer.put(out, build.add(build.mul(thread, 4), j), other)
    writer.end(j)
    with pytest.raises(SanitizerError) as caught:
        run_program(writer.program(2), [np.zeros(8, np.int32)] * 2)
    assert caught.value.kind is Fault.RACE


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(20))
def test_nests_drawn_at_random_compute_what_iteration_by_iteration_does(seed: int) -> None:
    rng = random.Random(seed)
    at_once = 0
    for _ in range(30):
        size = rng.randint(1, 5)
        put = (rng.choice((0, 0, 1, 2)), rng.choice((1, 1, 2, 0)), rng.randint(0, 4))
        take = (rng.choice((0, put[0], 1)), rng.choice((1, 1, -1, 3)), rng.randint(0, 4))
        filled, read = rng.choice((size, size, rng.randint(1, 6))), rng.randint(1, 6)
        nest = Nest(rng.randint(1, 6), filled, read, size, put, take)
        positive = Nest(
            nest.iterations, filled, read, size, put, (take[0], take[1] % max(size, 1), take[2])
        )
        at_once += check(positive, rng.choice((1, 1, 2, 3)))
    assert at_once >= 3
