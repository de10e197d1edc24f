"""The allocator that reuses freed memory, against a model: bytes, order, limits, statistics."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from state_machines import run_machine

from tinyref.errors import DeviceError
from tinyref.runtimes.reuse import ReusingAllocator

SIZES = st.sampled_from([0, 1, 2, 3, 5, 8])
CAPACITY = 24
MAX_KEPT = 10


class QueuedMemory:
    """Memory of a device that does everything later, in order, and has `CAPACITY` bytes.

    live: the pieces by number. in_use: their bytes, those that the queue will free included.
    """

    def __init__(self) -> None:
        self.queue: list[Callable[[], object]] = []
        self.live: dict[int, bytearray] = {}
        self.in_use = 0
        self.allocations = self.frees = 0

    def allocate(self, nbytes: int) -> tuple[int, int]:
        assert nbytes > 0
        if self.in_use + nbytes > CAPACITY:
            raise DeviceError("QUEUED", f"no {nbytes} bytes are left")
        self.in_use += nbytes
        self.allocations += 1
        self.live[self.allocations] = bytearray(nbytes)
        return self.allocations, nbytes

    def free(self, handle: tuple[int, int]) -> None:
        self.frees += 1
        self.queue.append(lambda: self._gone(handle))

    def _gone(self, handle: tuple[int, int]) -> None:
        del self.live[handle[0]]
        self.in_use -= handle[1]

    def view(self, handle: tuple[int, int], offset: int, nbytes: int) -> tuple[int, int]:
        return handle

    def copy_in(self, handle: tuple[int, int], source: memoryview) -> None:
        data = bytes(source)
        self.queue.append(lambda: self.live[handle[0]].__setitem__(slice(len(data)), data))

    def copy_out(self, destination: memoryview, handle: tuple[int, int]) -> None:
        self.synchronize()
        destination[:] = self.live[handle[0]][: destination.nbytes]

    def launch(self, handle: tuple[int, int], seen: list[bytes]) -> None:
        self.queue.append(lambda: seen.append(bytes(self.live[handle[0]])))

    def synchronize(self) -> None:
        while self.queue:
            self.queue.pop(0)()


class Reuse(RuleBasedStateMachine):
    """pieces: what is in use, each with the bytes that were copied to it.

    freed: sizes in the order of the frees; whatever is kept is among the last of them.
    """

    make: type[ReusingAllocator] = ReusingAllocator

    def __init__(self) -> None:
        super().__init__()
        self.inner = QueuedMemory()
        self.allocator = self.make(self.inner, "QUEUED", MAX_KEPT, self.inner.synchronize)
        self.pieces: list[tuple[tuple[int, int], bytes]] = []
        self.kept: list[int] = []
        self.launches: list[tuple[list[bytes], bytes]] = []
        self.value = 0

    @rule(size=SIZES)
    def allocate(self, size: int) -> None:
        size_of_memory = max(size, 1)
        before = self.inner.allocations
        used = sum(handle[1] for handle, _ in self.pieces)
        try:
            handle = self.allocator.allocate(size)
        except DeviceError:
            assert size_of_memory not in self.kept
            assert used + size_of_memory > CAPACITY
            self.kept = []
            return
        assert handle[1] == size_of_memory
        if size_of_memory in self.kept:
            assert self.inner.allocations == before, "memory of that size was kept"
            last = len(self.kept) - 1 - self.kept[::-1].index(size_of_memory)
            del self.kept[last]
        else:
            assert self.inner.allocations == before + 1
            if self.allocator.statistics.stored == 0:
                self.kept = []
        self.pieces.append((handle, b""))
        self.write(len(self.pieces) - 1)

    def write(self, which: int) -> None:
        handle = self.pieces[which][0]
        self.value += 1
        data = self.value.to_bytes(2, "little").ljust(handle[1], b"\xee")[: handle[1]]
        self.allocator.copy_in(handle, memoryview(data))
        self.pieces[which] = (handle, data)

    @precondition(lambda self: self.pieces)
    @rule(which=st.integers(0, 100))
    def launch(self, which: int) -> None:
        """Launch later, and remember the present data of the piece."""
        handle, data = self.pieces[which % len(self.pieces)]
        seen: list[bytes] = []
        self.inner.launch(handle, seen)
        self.launches.append((seen, data))

    @precondition(lambda self: self.pieces)
    @rule(which=st.integers(0, 100))
    def free(self, which: int) -> None:
        handle, _ = self.pieces.pop(which % len(self.pieces))
        self.allocator.free(handle)
        self.kept.append(handle[1])
        while sum(self.kept) > MAX_KEPT:
            del self.kept[0]

    @precondition(lambda self: self.pieces)
    @rule(which=st.integers(0, 100))
    def read(self, which: int) -> None:
        handle, data = self.pieces[which % len(self.pieces)]
        actual = bytearray(len(data))
        self.allocator.copy_out(memoryview(actual), handle)
        assert bytes(actual) == data

    @rule()
    def synchronize(self) -> None:
        self.inner.synchronize()
        for seen, data in self.launches:
            assert seen == [data]
        self.launches = []

    @rule()
    def give_back(self) -> None:
        assert self.allocator.give_back() == len(self.kept)
        self.kept = []

    @invariant()
    def the_numbers_are_right(self) -> None:
        actual = self.allocator.statistics
        assert actual.in_use == len(self.pieces)
        assert (actual.stored, actual.stored_bytes) == (len(self.kept), sum(self.kept))
        assert actual.stored_bytes <= MAX_KEPT
        assert actual.allocations == self.inner.allocations
        assert actual.frees == self.inner.frees
        assert actual.allocations == actual.frees + actual.stored + actual.in_use


@pytest.mark.hypothesis
@pytest.mark.long
def test_reused_memory_is_as_new_memory() -> None:
    run_machine(Reuse, 60, 40)


def allocator(max_kept_bytes: int = MAX_KEPT) -> ReusingAllocator:
    inner = QueuedMemory()
    return ReusingAllocator(inner, "QUEUED", max_kept_bytes, inner.synchronize)


def test_memory_is_freed_once() -> None:
    reusing = allocator()
    handle = reusing.allocate(4)
    reusing.free(handle)
    with pytest.raises(DeviceError, match=r"^QUEUED: free: got memory that is not in use$"):
        reusing.free(handle)
    with pytest.raises(DeviceError, match="not in use"):
        reusing.free((7, 4))


def test_memory_that_the_inner_allocator_gives_twice_is_noticed() -> None:
    reusing = allocator()
    same = (1, 4)
    reusing.inner.allocate = lambda nbytes: same
    reusing.allocate(4)
    with pytest.raises(DeviceError, match="gave memory that is in use"):
        reusing.allocate(4)


def test_a_large_piece_does_not_drive_out_the_small_ones() -> None:
    reusing = allocator(4)
    small, large = reusing.allocate(3), reusing.allocate(5)
    reusing.free(small)
    reusing.free(large)
    assert reusing.statistics.stored_bytes == 3


def test_memory_errors_of_python_are_out_of_memory_too() -> None:
    reusing = allocator()
    reusing.free(reusing.allocate(2))
    healthy, answers = reusing.inner.allocate, [MemoryError()]

    def allocate(nbytes: int) -> tuple[int, int]:
        if answers:
            raise answers.pop()
        return healthy(nbytes)

    reusing.inner.allocate = allocate
    assert reusing.allocate(3)[1] == 3


def test_what_else_the_inner_allocator_offers_is_offered() -> None:
    reusing = allocator()
    reusing.inner.update = lambda handle, source: "updated"
    assert reusing.update((1, 1), memoryview(b"")) == "updated"
    assert not hasattr(reusing, "in_place")


def test_memory_may_be_freed_in_the_midst_of_a_call() -> None:
    """Free it as the garbage collector does, on the thread that holds the lock."""
    reusing = allocator(100)
    handle = reusing.allocate(4)
    with reusing._lock:
        reusing.free(handle)
    assert reusing.statistics.stored == 1
    assert reusing.allocate(4) is handle


@pytest.fixture
def _only_new_objects_are_looked_at() -> Iterator[None]:
    """Freeze older objects: the collector needs half a second for those of other tests."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_only_new_objects_are_looked_at")
def test_collected_objects_free_memory_at_any_time() -> None:
    class Holder:
        pass

    reusing = allocator(1 << 20)
    for _ in range(200):
        holder = Holder()
        holder.itself = holder
        weakref.finalize(holder, reusing.free, reusing.allocate(1))
        del holder
        if reusing.statistics.in_use > 8:
            gc.collect()
    gc.collect()
    assert reusing.statistics.in_use == 0


class Counter:
    """Memory without a limit, whose pieces are numbers."""

    def __init__(self) -> None:
        self.made: list[object] = []

    def allocate(self, nbytes: int) -> object:
        self.made.append(object())
        return self.made[-1]

    def free(self, handle: object) -> None:
        pass


def test_threads_share_it_and_nobody_gets_what_another_has() -> None:
    reusing = ReusingAllocator(Counter(), "SHARED", 64)
    owners: dict[int, int] = {}
    problems: list[str] = []

    def work(number: int) -> None:
        for _ in range(2000):
            handle = reusing.allocate(8)
            if owners.setdefault(id(handle), number) != number:
                problems.append("two threads have the same memory")
            del owners[id(handle)]
            reusing.free(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    actual = reusing.statistics
    assert actual.allocations + actual.reuses == 8000
    assert actual.allocations == actual.frees + actual.stored


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_neither_uses_nor_frees_what_its_parent_keeps() -> None:
    reusing = ReusingAllocator(Counter(), "FORKED", 64)
    stored, in_use = reusing.allocate(8), reusing.allocate(8)
    reusing.free(stored)
    with reusing._lock:  # as if another thread were in the midst of a call
        child = os.fork()
        if child == 0:
            fresh = reusing.allocate(8)
            is_right = fresh is not stored and reusing.give_back() == 0
            reusing.free(in_use)
            os._exit(0 if is_right and reusing.allocate(8) is in_use else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert reusing.allocate(8) is stored
