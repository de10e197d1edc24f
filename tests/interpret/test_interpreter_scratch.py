"""Test arrays that are scratch space: iterations that run together have a copy each."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np
import pytest
from running import outcome

from tinyref.dtype import dtypes
from tinyref.interpret import Fault, Interpreter, SanitizerError, run_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Program
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at, group_index, loop

i32 = dtypes.int32


program = functools.partial(programs.program, "scratch")


def memories(size: int, scratch: int) -> tuple[UOp, UOp]:
    """Return the buffer of the caller, and the array that each iteration may use."""
    return build.define_global(0, i32, size), build.define_local("scratch", i32, scratch)


def put(memory: UOp, position: UOp | int, value: UOp | int) -> UOp:
    return build.store(at(memory, position), build.operand(value, i32))


def take(memory: UOp, position: UOp | int) -> UOp:
    return build.load(at(memory, position))


def linear(i: UOp, j: UOp, factors: tuple[int, int, int], size: int) -> UOp:
    """Return (a i + b j + c) mod size."""
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
        out, scratch = memories(threads * self.iterations * self.read, self.size)
        thread = group_index(threads)
        i, j, k = loop(self.iterations, 0), loop(self.filled, 1), loop(self.read, 2)
        value = build.add(build.mul(build.add(build.mul(thread, 100), i), 100), build.add(j, 1))
        row = build.add(build.mul(thread, self.iterations), i)
        return program(
            thread,
            i,
            j,
            put(scratch, linear(i, j, self.put, self.size), value),
            build.close(j),
            k,
            put(
                out,
                build.add(build.mul(row, self.read), k),
                take(scratch, linear(i, k, self.take, self.size)),
            ),
            build.close(k),
            build.close(i),
            grid=(threads, 1, 1),
        )

    def expected_values(self, threads: int = 1) -> list[int | None]:
        """Return the values in order; None is an element that was never written."""
        values: list[int | None] = []
        for thread in range(threads):
            scratch: dict[int, int] = {}
            for i in range(self.iterations):
                for j in range(self.filled):
                    position = (self.put[0] * i + self.put[1] * j + self.put[2]) % self.size
                    scratch[position] = (thread * 100 + i) * 100 + j + 1
                for k in range(self.read):
                    position = (self.take[0] * i + self.take[1] * k + self.take[2]) % self.size
                    values.append(scratch.get(position))
        return values


def check(nest: Nest, threads: int) -> bool:
    """Check the values, or the fault, of a nest; return True if iterations ran together."""
    subject = nest.program(threads)
    expected = nest.expected_values(threads)
    result = np.zeros(len(expected), np.int32)
    for _ in range(2):
        if None in expected:
            with pytest.raises(SanitizerError) as caught:
                run_program(subject, [result])
            assert caught.value.kind is Fault.UNINITIALISED
        else:
            run_program(subject, [result])
            assert list(result) == expected
    return Interpreter(subject).translation.may_widen


@pytest.mark.parametrize("threads", [1, 3])
def test_every_iteration_has_a_scratch_array_of_its_own(threads: int) -> None:
    assert check(Nest(6, 5, 5, 5, (0, 1, 0), (0, -1, 4)), threads)


def test_copies_of_many_iterations_come_in_blocks() -> None:
    assert check(Nest(700, 3, 3, 4000, (0, 1, 7), (0, 1, 7)), 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_an_earlier_iteration_left_is_read_in_order(threads: int) -> None:
    # Iteration i writes element i mod 2. It reads both if both are filled.
    nest = Nest(5, 2, 4, 4, (2, 1, 0), (2, 1, 0))
    assert None in nest.expected_values()
    check(nest, threads)
    later = Nest(4, 3, 3, 3, (1, 0, 0), (0, 1, 0))
    assert None in later.expected_values()
    check(later, threads)
    carried = Nest(5, 4, 4, 4, (0, 1, 0), (0, 1, 0))
    assert check(carried, threads)


def test_a_value_that_is_carried_from_iteration_to_iteration() -> None:
    # The first iteration fills the whole array; the others read it.
    out, scratch = memories(12, 4)
    i, j, k = loop(3, 0), loop(4, 1), loop(4, 2)
    first = build.branch(build.less(i, 1))
    filled = (i, first, j, put(scratch, j, build.mul(j, j)), build.close(j), build.close(first))
    read = put(out, build.add(build.mul(i, 4), k), take(scratch, k))
    subject = program(*filled, k, read, build.close(k), build.close(i))
    for _ in range(2):
        assert outcome(subject, 12) == [0, 1, 4, 9] * 3
    assert not Interpreter(subject).translation.may_widen


def test_a_recurrence_within_the_scratch_array_runs_in_order() -> None:
    # In iteration i, scratch[j + 1] = scratch[j] + i: only the outer loop may run as lanes.
    out, scratch = memories(4, 6)
    i, j = loop(4, 0), loop(5, 1)
    following = put(scratch, build.add(j, 1), build.add(take(scratch, j), i))
    subject = program(
        i, put(scratch, 0, 10), j, following, build.close(j), put(out, i, take(scratch, 5)),
        build.close(i),
    )  # fmt: skip
    assert outcome(subject, 4) == [10, 15, 20, 25]


def filling(scratch: UOp, size: int, number: int) -> tuple[UOp, ...]:
    """Return a loop that writes to each element its position."""
    j = loop(size, number)
    return j, put(scratch, j, j), build.close(j)


def test_a_recurrence_over_elements_that_are_all_filled_runs_in_order() -> None:
    # scratch[j + 1] = scratch[j] + 10: together, every iteration would read old elements.
    out, scratch = memories(3, 5)
    i, j = loop(3, 0), loop(4, 2)
    following = put(scratch, build.add(j, 1), build.add(take(scratch, j), 10))
    subject = program(
        i, *filling(scratch, 5, 1), j, following, build.close(j), put(out, i, take(scratch, 4)),
        build.close(i),
    )  # fmt: skip
    assert outcome(subject, 3) == [40, 40, 40]


def test_the_end_of_an_inner_loop_orders_no_other_iteration_of_the_loop_around_it() -> None:
    # Iteration m reads in its first loop what iteration m - 1 wrote in its second loop.
    out, scratch = memories(2 * 3 * 2, 4)
    i, m, first, second = loop(2, 0), loop(3, 2), loop(2, 3), loop(1, 4)
    row = build.mul(build.add(build.mul(i, 3), m), 2)
    read = put(out, build.add(row, first), take(scratch, m))
    written = put(scratch, build.add(build.add(m, 1), second), build.add(m, 100))
    subject = program(
        i, *filling(scratch, 4, 1), m, first, read, build.close(first), second, written,
        build.close(second), build.close(m), build.close(i),
    )  # fmt: skip
    assert outcome(subject, 12) == [0, 0, 100, 100, 101, 101] * 2


def test_threads_that_meet_in_memory_still_race() -> None:
    out = build.define_global(0, i32, 8)
    thread, i = group_index(2), loop(8, 0)
    subject = program(thread, i, put(out, i, thread), build.close(i), grid=(2, 1, 1))
    with pytest.raises(SanitizerError) as caught:
        run_program(subject, [np.zeros(8, np.int32)])
    assert (caught.value.kind, caught.value.position) == (Fault.RACE, 0)


def test_a_thread_reads_in_a_second_loop_what_another_wrote_in_the_first() -> None:
    out, data = build.define_global(0, i32, 8), build.define_global(1, i32, 8)
    thread, i, j = group_index(2), loop(4, 0), loop(4, 1)
    other = build.mul(build.sub(build.const(i32, 1), thread), 4)
    read = put(out, build.add(build.mul(thread, 4), j), take(data, build.add(other, j)))
    written = put(data, build.add(build.mul(thread, 4), i), i)
    subject = program(thread, i, written, build.close(i), j, read, build.close(j), grid=(2, 1, 1))
    with pytest.raises(SanitizerError) as caught:
        run_program(subject, [np.zeros(8, np.int32)] * 2)
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
