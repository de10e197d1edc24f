"""Test the memory plan: buffers in use together never overlap, and the arena is small."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tinyref import Context, Tensor
from tinyref.schedule import items, schedule
from tinyref.schedule.items import Arena, Lifetime, plan_arena, spans, temporaries

LIFETIMES = st.lists(
    st.builds(
        lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
        st.integers(1, 1000),
        st.integers(0, 20),
        st.integers(0, 10),
    ),
    max_size=25,
)


def overlaps(lifetimes: list[Lifetime], arena: Arena) -> list[tuple[int, int]]:
    """Return clashes by the oracle: an owner for every moment and cell of 64 bytes."""
    owner: dict[tuple[int, int], int] = {}
    clashes = []
    for number, (life, offset) in enumerate(zip(lifetimes, arena.offsets, strict=True)):
        for moment in range(life.first, life.last + 1):
            for cell in range(offset // 64, -(-(offset + life.nbytes) // 64)):
                if (moment, cell) in owner:
                    clashes.append((owner[moment, cell], number))
                owner[moment, cell] = number
    return clashes


def max_in_use(lifetimes: list[Lifetime]) -> int:
    """Return the most bytes in use at one moment: no plan needs less."""
    moments = range(max((life.last for life in lifetimes), default=-1) + 1)
    rounded = [(-(-life.nbytes // 64) * 64, life) for life in lifetimes]
    return max(
        (sum(size for size, life in rounded if life.first <= m <= life.last) for m in moments),
        default=0,
    )


@pytest.mark.long
@given(LIFETIMES)
@settings(max_examples=60)
def test_nothing_that_is_in_use_together_overlaps(lifetimes):
    arena = plan_arena(lifetimes)
    assert overlaps(lifetimes, arena) == []
    assert all(offset % 64 == 0 for offset in arena.offsets)
    ends = [offset + life.nbytes for offset, life in zip(arena.offsets, lifetimes, strict=True)]
    assert max(ends, default=0) <= arena.nbytes
    assert max_in_use(lifetimes) <= arena.nbytes
    assert arena.nbytes <= sum(-(-life.nbytes // 64) * 64 for life in lifetimes)


@pytest.mark.parametrize(
    ("lifetimes", "nbytes"),
    [
        ([], 0),
        ([Lifetime(1, 0, 0)], 64),
        ([Lifetime(65, 0, 0)], 128),
        # A chain needs two buffers: the input and the output of a kernel.
        ([Lifetime(1000, i, i + 1) for i in range(10)], 2048),
        ([Lifetime(640, 0, 9), Lifetime(640, 0, 9)], 1280),
        # The largest gets the lowest offset: a small one there would push it above another.
        ([Lifetime(64, 0, 1), Lifetime(64, 1, 2), Lifetime(256, 2, 3)], 320),
        # The gap of 128 under the block that stays is taken twice, the one of 256 once.
        ([Lifetime(256, 0, 1), Lifetime(64, 0, 9), Lifetime(128, 2, 3), Lifetime(256, 2, 9)], 448),
    ],
)
def test_literal_plans(lifetimes, nbytes):
    assert plan_arena(lifetimes).nbytes == nbytes


def test_spans_are_the_first_and_last_use():
    assert spans([("a", "b"), ("c", "a"), (), ("b",)]) == {"a": (0, 1), "b": (0, 3), "c": (1, 1)}


def chained(size=1000):
    """Return a program of several kernels with intermediate results."""
    x = Tensor(np.arange(size, dtype=np.float32))
    for _ in range(5):
        x = (x - x.mean()).contiguous() / 2
        columns = x.reshape(-1, 10)
        x = (columns - columns.mean(0) * 2 + columns.max(0)).reshape(-1)
        x = x.reshape(-1, 10).sum(1).reshape(-1, 1).expand(size // 10, 10).reshape(-1)
    return x


def test_results_are_equal_with_and_without_the_plan():
    with Context(MEMORY_PLAN=0):
        plain = chained().numpy()
    with Context(MEMORY_PLAN=1):
        shared = chained().numpy()
    np.testing.assert_array_equal(plain, shared)


def test_results_of_a_schedule_are_no_temporaries():
    x = Tensor(np.arange(600, dtype=np.float32)).realize()
    result = (x.reshape(20, 30).sum(1) * 2).contiguous()
    total = (result.reshape(20, 1) - result.mean()).sum(0)
    Tensor.realize(total, result)
    expected = np.arange(600, dtype=np.float32).reshape(20, 30).sum(1) * 2
    np.testing.assert_array_equal(result.numpy(), expected)
    # Memory that was lent to the temporaries is used again: the result must not see it.
    chained()
    np.testing.assert_array_equal(result.numpy(), expected)


def test_what_is_stored_for_nobody_is_a_temporary():
    x = Tensor.empty(20, 30)
    stored = x.sum(1).contiguous()
    total = (stored.reshape(20, 1) * x).sum(0)
    outputs = [(total.node, "CPU")]

    def lives(*held):
        planned = schedule(outputs, held=[tensor.node for tensor in held])
        is_result = stored.node in planned.results
        sizes = [life.nbytes for life in temporaries(planned.kernels, planned.results).values()]
        return is_result, sizes

    assert stored.node in schedule(outputs).results
    assert lives() == (False, [80])
    assert lives(stored) == (True, [])
    assert lives(x.sum(1).contiguous() + 1) == (True, [])
    # A kernel that reads an output reads it at its final address.
    assert lives(total, total + 1) == (False, [80])
    assert lives(total + stored.sum()) == (True, [])


def test_a_kernel_that_frees_memory_runs_before_one_that_takes_more():
    # The weight is updated as early as possible: only two of the three products exist at a time.
    matrix = Tensor.empty(10, 10)
    first = Tensor.empty(96, 10) @ matrix
    second = first @ matrix
    third = second @ matrix
    weight = Tensor.zeros(96).contiguous().realize()
    weight.assign(weight + first.max(1))
    planned = schedule([((third @ matrix).node, "CPU"), (weight.node, "CPU")])
    lives = list(items.temporaries(planned.kernels, planned.results).values())
    assert [life.nbytes for life in lives] == [3840, 3840, 3840]
    assert max_in_use(lives) == 2 * 3840
