"""Queues of emulated devices that wait for each other: copies from device to device, in order."""

import threading

import numpy as np
import pytest

from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.emulated.driver import EmulatedDriver, bytes_at

GRID = (1, 1, 1)


class FakeEmulator:
    version = key = "fake"

    def compile(self, source):
        return source.encode()

    def load(self, entry, binary):
        raise NotImplementedError


def add_one(addresses, variables, grid, group, sizes=()):
    bytes_at(addresses[0], sizes[0])[:] += 1


def fails(addresses, variables, grid, group, sizes=()):
    raise DeviceError("A", "an illegal address")


def device(name, content):
    driver = EmulatedDriver(name, FakeEmulator())
    memory = driver.malloc(len(content))
    driver.write(memory, 0, memoryview(bytes(content)))
    return driver, memory


def read(driver, memory):
    found = bytearray(memory.nbytes)
    driver.read(memoryview(found), memory, 0)
    return list(found)


def launch(driver, function, memory):
    driver.launch(function, [(memory, 0)], [], GRID, GRID)


def test_a_copy_comes_after_the_launches_before_it_on_both_and_before_those_after() -> None:
    first, here = device("A", [1, 2, 3])
    second, there = device("B", [7, 7, 7])
    launch(first, add_one, here)
    seen = second.malloc(3)
    second.copy((seen, 0), (there, 0), 3, second)
    second.copy((there, 0), (here, 0), 3, first)
    launch(first, add_one, here)
    launch(second, add_one, there)
    assert read(second, there) == [3, 4, 5]
    assert read(first, here) == [3, 4, 5]
    assert read(second, seen) == [7, 7, 7]


def test_the_source_is_not_overwritten_before_it_was_copied() -> None:
    first, here = device("A", [1, 2, 3])
    second, there = device("B", [0, 0, 0])
    second.copy((there, 1), (here, 0), 2, first)
    first.write(here, 0, memoryview(bytes([9, 9, 9])))
    # The device of the source is the first that is waited for.
    assert read(first, here) == [9, 9, 9]
    assert read(second, there) == [0, 1, 2]


def test_a_ring_of_copies_ends() -> None:
    drivers = [device(name, [10 * number]) for number, name in enumerate("ABCD")]
    for _ in range(4):
        for place, (driver, memory) in enumerate(drivers):
            origin, source = drivers[place - 1]
            driver.copy((memory, 0), (source, 0), 1, origin)
            launch(driver, add_one, memory)
    # Each copy takes what the device before has made of the last one: 4 times around.
    assert [read(*each) for each in reversed(drivers)] == [[46], [45], [44], [43]]


def test_what_waits_for_a_launch_that_failed_fails_too() -> None:
    first, here = device("A", [1])
    second, there = device("B", [5])
    launch(first, fails, here)
    second.copy((there, 0), (here, 0), 1, first)
    with pytest.raises(DeviceError, match="A: an illegal address"):
        second.synchronize()
    assert read(second, there) == [5]
    assert read(first, here) == [1]


def test_what_waits_for_work_that_was_given_up_fails_too() -> None:
    first, here = device("A", [1])
    second, there = device("B", [5])
    launch(first, fails, here)
    second.copy((there, 0), (here, 0), 1, first)
    with pytest.raises(DeviceError, match="A: an illegal address"):
        first.synchronize()
    with pytest.raises(DeviceError, match="A: an illegal address"):
        second.synchronize()
    assert read(second, there) == [5]


def test_a_part_that_is_not_there_is_refused_at_once() -> None:
    first, here = device("A", [1, 2])
    second, there = device("B", [5, 5])
    with pytest.raises(UserError):
        second.copy((there, 1), (here, 0), 2, first)
    assert np.array_equal(read(second, there), [5, 5])


def test_memory_is_freed_by_a_thread_for_which_a_launch_waits() -> None:
    """As the collector of garbage does in a thread that shares the launch."""
    driver, memory = device("A", [1])
    other = driver.malloc(1)
    freed = []

    def free_elsewhere(*_):
        thread = threading.Thread(target=driver.free, args=(other,), daemon=True)
        thread.start()
        thread.join(10)
        freed.append(not thread.is_alive())

    launch(driver, free_elsewhere, memory)
    driver.synchronize()
    assert freed == [True]
