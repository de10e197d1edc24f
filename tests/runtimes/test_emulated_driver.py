"""The driver of emulated devices: its queue, its memory, and queues that wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.emulated.c_emulator import PLAIN, CEmulator
from tinyref.runtimes.emulated.driver import EmulatedDriver, EmulatedMemory, bytes_at

GRID = (1, 1, 1)
FREED = "memory of 4 bytes is used after it was freed"


def device(name: str, *content: int) -> tuple[EmulatedDriver, EmulatedMemory]:
    driver = EmulatedDriver(name, CEmulator(name, PLAIN))
    memory = driver.malloc(len(content))
    driver.write(memory, 0, memoryview(bytes(content)))
    return driver, memory


def read(driver: EmulatedDriver, memory: EmulatedMemory) -> list[int]:
    actual = bytearray(memory.nbytes)
    driver.read(memoryview(actual), memory, 0)
    return list(actual)


def launch(
    driver: EmulatedDriver,
    function: Callable[..., None],
    memory: EmulatedMemory,
    offset: int = 0,
) -> None:
    driver.launch(function, [(memory, offset)], [], GRID, GRID)


def add_one(addresses: Sequence[int], *_: object) -> None:
    """Add 1 to the first byte of the first buffer."""
    bytes_at(addresses[0], 1)[:] += 1


def fails(*_: object) -> NoReturn:
    raise DeviceError("A", "an illegal address")


def test_launches_wait_until_somebody_asks() -> None:
    driver, memory = device("A", 1, 2, 3)
    calls: list[int] = []

    def noted(addresses: Sequence[int], *_: object) -> None:
        calls.append(int(bytes_at(addresses[0], 1)[0]))
        add_one(addresses)

    for _ in range(2):
        launch(driver, noted, memory, 2)
    assert calls == []
    assert read(driver, memory) == [1, 2, 5]
    assert calls == [3, 4]


def test_a_kernel_that_writes_beyond_its_memory_is_found() -> None:
    driver, memory = device("A", 1, 2)
    launch(driver, add_one, memory, 2)
    with pytest.raises(DeviceError, match="bytes after an allocation of 2 bytes were written"):
        driver.synchronize()


def test_a_source_may_change_once_the_write_is_back() -> None:
    driver, memory = device("A", 0, 0)
    source = bytearray(b"ab")
    driver.write(memory, 0, memoryview(source))
    source[:] = b"yz"
    assert bytes(read(driver, memory)) == b"ab"


def test_memory_is_there_for_what_was_queued_before_it_was_freed() -> None:
    driver, memory = device("A", 1, 2, 3, 4)
    launch(driver, add_one, memory)
    driver.free(memory)
    driver.synchronize()
    launch(driver, add_one, memory)
    with pytest.raises(DeviceError, match=FREED):
        driver.synchronize()
    driver.free(memory)
    with pytest.raises(DeviceError, match=FREED):
        driver.synchronize()


def test_nothing_runs_after_a_launch_that_failed() -> None:
    driver, memory = device("A", 7)
    launch(driver, fails, memory)
    launch(driver, add_one, memory)
    with pytest.raises(DeviceError, match="A: an illegal address"):
        driver.synchronize()
    assert read(driver, memory) == [7]


def test_bytes_outside_are_refused_at_once() -> None:
    driver, memory = device("A", 1, 2, 3, 4)
    with pytest.raises(UserError, match=r"bytes 2 to 6 are outside the memory's 4"):
        driver.write(memory, 2, memoryview(b"abcd"))
    with pytest.raises(UserError, match=r"bytes -1 to 0"):
        driver.read(memoryview(bytearray(1)), memory, -1)
    other, there = device("B", 5, 5)
    with pytest.raises(UserError):
        other.copy((there, 1), (memory, 0), 2, driver)
    assert read(other, there) == [5, 5]


def test_a_copy_comes_after_the_launches_before_it_on_both_and_before_those_after() -> None:
    first, here = device("A", 1)
    second, there = device("B", 7)
    launch(first, add_one, here)
    seen = second.malloc(1)
    second.copy((seen, 0), (there, 0), 1, second)
    second.copy((there, 0), (here, 0), 1, first)
    launch(first, add_one, here)
    launch(second, add_one, there)
    assert read(second, there) == [3]
    assert read(first, here) == [3]
    assert read(second, seen) == [7]


def test_the_source_is_not_overwritten_before_it_was_copied() -> None:
    first, here = device("A", 1, 2, 3)
    second, there = device("B", 0, 0, 0)
    second.copy((there, 1), (here, 0), 2, first)
    first.write(here, 0, memoryview(bytes([9, 9, 9])))
    # The device of the source is the first that is waited for.
    assert read(first, here) == [9, 9, 9]
    assert read(second, there) == [0, 1, 2]


def test_a_ring_of_copies_ends() -> None:
    drivers = [device(name, 10 * number) for number, name in enumerate("ABCD")]
    for _ in range(4):
        for position, (driver, memory) in enumerate(drivers):
            origin, source = drivers[position - 1]
            driver.copy((memory, 0), (source, 0), 1, origin)
            launch(driver, add_one, memory)
    # Each copy takes what the device before has made of the last one: 4 times around.
    assert [read(*item) for item in reversed(drivers)] == [[46], [45], [44], [43]]


@pytest.mark.parametrize("asks_first", [False, True])
def test_what_waits_for_a_launch_that_failed_fails_too(asks_first: bool) -> None:
    first, here = device("A", 1)
    second, there = device("B", 5)
    launch(first, fails, here)
    second.copy((there, 0), (here, 0), 1, first)
    for driver in (first, second) if asks_first else (second,):
        with pytest.raises(DeviceError, match="A: an illegal address"):
            driver.synchronize()
    assert read(second, there) == [5]
    assert read(first, here) == [1]


def test_memory_is_freed_by_a_thread_for_which_a_launch_waits() -> None:
    """Free it as the garbage collector does in a thread that shares the launch."""
    driver, memory = device("A", 1)
    other = driver.malloc(1)
    freed = []

    def free_elsewhere(*_: object) -> None:
        thread = threading.Thread(target=driver.free, args=(other,), daemon=True)
        thread.start()
        thread.join(10)
        freed.append(not thread.is_alive())

    launch(driver, free_elsewhere, memory)
    driver.synchronize()
    assert freed == [True]
