"""Threads that compute, capture, replay and draw at the same time, and processes made meanwhile."""

import multiprocessing
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tinyref import Context, Tensor, TinyJit
from tinyref.config import integer
from tinyref.errors import UserStateError
from tinyref.tensor import registry

THREADS = 8
SHARED = np.arange(12, dtype=np.float32).reshape(4, 3) / 4


def together(work, count=THREADS):
    """Call `work` with 0 to `count` - 1, each in its own thread; raise an error of any."""
    start = threading.Barrier(count)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def realizes(calls, weight):
    def work(number):
        generator = np.random.default_rng(number)
        stored = Tensor(np.zeros(3, np.float32)).realize()
        total = np.zeros(3, np.float32)
        for call in range(calls):
            array = generator.integers(-4, 5, (2, 4)).astype(np.float32)
            actual = (Tensor(array) @ weight).sum(0).realize()
            np.testing.assert_array_equal(actual.numpy(), (array @ SHARED).sum(0))
            stored.assign(stored + actual)
            if call % 10 == 0:
                stored.realize()
            total += (array @ SHARED).sum(0)
        np.testing.assert_array_equal(stored.numpy(), total)

    return work


def goes_back(calls, weight):
    def work(number):
        generator = np.random.default_rng(number)
        leaf = Tensor(np.ones((2, 4), np.float32), requires_grad=True)
        for _ in range(calls):
            array = generator.integers(-4, 5, (2, 4)).astype(np.float32)
            leaf.grad = None
            ((leaf * Tensor(array)) @ weight).sum().backward()
            expected = array * SHARED.sum(1)
            np.testing.assert_array_equal(leaf.grad.numpy(), expected)

    return work


def captures(calls, weight):
    def work(number):
        generator = np.random.default_rng(number)
        for _ in range(calls // 10):
            count = Tensor([0.0]).realize()

            def step(x, count=count):
                count.assign(count + 1)
                return (x @ weight).relu(), x.sum() + count

            jitted = TinyJit(step)
            for call in range(10):
                array = generator.integers(-4, 5, (2, 4)).astype(np.float32)
                first, second = jitted(Tensor(array))
                np.testing.assert_array_equal(first.numpy(), np.maximum(array @ SHARED, 0))
                assert second.item() == array.sum() + call + 1
            assert jitted.captured is not None

    return work


def stress(make, calls):
    weight = Tensor(SHARED).realize()
    together(make(calls, weight))
    np.testing.assert_array_equal(weight.numpy(), SHARED)


def mixed(calls, weight):
    works = [make(calls, weight) for make in (realizes, goes_back, captures)]
    return lambda number: works[number % len(works)](number)


@pytest.mark.long
@pytest.mark.parametrize("make", [realizes, goes_back, captures, mixed])
def test_threads_compute_what_they_would_alone(make):
    stress(make, 20)


def draws(calls):
    """Draw in threads, plainly and in captured functions: together like a single thread."""

    def work(number):
        actual = []
        jitted = TinyJit(lambda: Tensor.randint(3, high=1 << 30))
        for call in range(calls):
            if number % 2 and call % 10 == 0:
                jitted.reset()
            drawn = jitted() if number % 2 else Tensor.randint(3, high=1 << 30)
            actual.append(drawn)
            if call % 3 == 0:
                actual = [x.tolist() if isinstance(x, Tensor) else x for x in actual]
        return [x.tolist() if isinstance(x, Tensor) else x for x in actual]

    Tensor.manual_seed(5)
    actual = sorted(tuple(drawn) for part in together(work) for drawn in part)
    Tensor.manual_seed(5)
    words = Tensor.randint(THREADS * calls, 3, high=1 << 30).tolist()
    assert actual == sorted(map(tuple, words))


@pytest.mark.long
def test_threads_share_the_random_numbers():
    """Switch threads in the middle of everything."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        draws(20)
    finally:
        sys.setswitchinterval(interval)


WEIGHT = Tensor([1.0]).realize()


@pytest.mark.parametrize(
    "use",
    [
        lambda: Tensor.rand(2),
        lambda: Tensor([2.0]).exp2().realize(),
        lambda: WEIGHT.assign(Tensor([2.0])),
        lambda: WEIGHT * 2,
    ],
    ids=["draws", "computes", "assigns", "builds"],
)
def test_a_thread_that_a_captured_function_waits_for_may_use_no_tensor(monkeypatch, use):
    """Refuse it: the other thread waits for the capture, so both would wait for ever."""
    monkeypatch.setattr(registry, "PATIENCE", 0.2)
    errors = []

    def other():
        try:
            use()
        except UserStateError as error:
            errors.append(str(error))

    def double(x):
        result = x * 2
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return result

    jitted = TinyJit(double)
    jitted(Tensor([1.0]))
    assert errors == []
    assert jitted(Tensor([1.0])).item() == 2.0
    assert "a captured function must not wait for a thread that uses tensors" in errors[0]
    assert use().shape
    assert jitted(Tensor([3.0])).item() == 6.0


def test_blocks_that_threads_share_are_each_threads_own():
    context = Context(DEBUG=3)
    entered, left = threading.Barrier(2), threading.Barrier(2)
    actual = {}

    def work(number):
        if number:
            entered.wait()
        with Tensor.no_grad, context, Tensor.train():
            if not number:
                entered.wait()
            actual[number] = (bool(Tensor.no_grad), integer("DEBUG"), Tensor.training)
            left.wait() if number else None
        if not number:
            left.wait()
        return bool(Tensor.no_grad), integer("DEBUG"), Tensor.training

    before = (bool(Tensor.no_grad), integer("DEBUG"), Tensor.training)
    assert together(work, 2) == [before, before]
    assert actual == {0: (True, 3, True), 1: (True, 3, True)}


# --- processes that are made while threads compute ------------------------------------------------


class Busy:
    """Threads that compute, draw, capture and replay while the block runs."""

    def __enter__(self):
        self.is_over = False
        self.threads = [threading.Thread(target=self.work, args=(n,)) for n in range(3)]
        for thread in self.threads:
            thread.start()
        time.sleep(0.2)

    def __exit__(self, *exc):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def work(self, number):
        a = Tensor(np.ones((64, 64), np.float32)).realize()
        step = 0
        while not self.is_over:
            step += 1
            jitted = TinyJit(lambda x: (x @ x).sum() + Tensor.rand(1))
            for _ in range(4):
                jitted(a)
            # Kernels that were not compiled yet.
            (a * (step + number / 7)).sum().item()


def square_sum(x):
    jitted = TinyJit(lambda x: (x * x).sum())
    actual = [jitted(x).item() for _ in range(3)]
    Tensor.rand(1).realize()
    return actual


def in_a_pool(method):
    context = multiprocessing.get_context(method)
    tensors = [Tensor(np.arange(n + 1, dtype=np.float32)) for n in range(4)]
    jitted = TinyJit(square)
    for _ in range(3):
        jitted(tensors[2])
    with Busy(), context.Pool(2) as pool:
        actual = pool.map_async(square_sum, tensors).get(timeout=120)
        replayed = pool.map_async(jitted, [tensors[2] + n for n in range(3)]).get(timeout=120)
    assert actual == [[0.0] * 3, [1.0] * 3, [5.0] * 3, [14.0] * 3]
    assert [result.tolist() for result in replayed] == [[0, 1, 4], [1, 4, 9], [4, 9, 16]]


def square(x):
    return x * x


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")


@pytest.mark.long
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(name, marks=pytest.mark.slow) for name in ("spawn", "forkserver"))],
)
def test_processes_that_are_started_while_threads_compute_compute(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"processes do not start by {method} here")
    in_a_pool(method)


def forked(function):
    """Return True if `function` returned True in a forked child."""
    child = os.fork()
    if not child:
        is_right = False
        try:
            is_right = function()
        finally:
            os._exit(0 if is_right else 1)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def forks(times):
    weight = Tensor([1.0, 2.0]).realize()
    lazy = weight * 3

    def step(x):
        weight.assign(weight + x)
        return weight.sum()

    jitted = TinyJit(step)
    for _ in range(3):
        jitted(Tensor([0.0, 0.0]))

    def child():
        is_right = lazy.tolist() == [3.0, 6.0] and jitted(Tensor([1.0, 1.0])).item() == 5.0
        return is_right and square_sum(Tensor([3.0])) == [9.0] * 3

    with Busy():
        assert [forked(child) for _ in range(times)] == [True] * times
    assert weight.tolist() == [1.0, 2.0]


@pytest.mark.long
@needs_fork
def test_a_forked_child_goes_on_with_the_tensors_of_its_parent():
    forks(5)


@needs_fork
def test_a_function_that_forks_while_it_is_captured_is_captured_in_both():
    parent, children = os.getpid(), []

    def step(x):
        drawn = Tensor.rand(1)
        if children:
            children.append(os.fork())
        return x + drawn

    jitted = TinyJit(step)
    jitted(Tensor([0.0]))
    children.append(0)
    is_right = False
    try:
        actual = [jitted(Tensor([0.0])).item() for _ in range(3)]
        is_right = len(set(actual)) == 3 and len(children) == 2 and jitted.captured is not None
    finally:
        if os.getpid() != parent:
            os._exit(0 if is_right else 1)
    assert is_right
    assert os.waitpid(children[1], 0)[1] == 0
