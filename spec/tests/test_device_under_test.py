"""Red zones and poison: damage that a comparison of results alone would not see."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes.red_zones import GUARD, POISONS, GuardedBuffer, MemoryDamageError
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.device_under_test import DeviceUnderTest, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.kernels.notation import load, store
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected

INT = dtypes.int32


def writes(first: int, count: int, size: int = 8) -> Program:
    """A program that writes `count` elements from position `first` on of a buffer of `size`."""
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, size)
    i = loop(count, 0)
    position = build.add(i, first)
    value = build.load(at(data, build.mod(i, size)))
    return program("writes", i, build.store(at(out, position), value), build.close(i))


DATA = np.arange(100, 108, dtype=np.int32)


def run_writes(device: DeviceUnderTest, subject: Program) -> list[np.ndarray]:
    return device.run_program(subject, [None, DATA])


def test_a_right_program_passes(cpu: DeviceUnderTest) -> None:
    assert list(run_writes(cpu, writes(0, 8))[0]) == list(DATA)


@pytest.mark.parametrize("first", [-1, -8])
def test_a_write_before_the_buffer_is_seen(cpu: DeviceUnderTest, first: int) -> None:
    with pytest.raises(MemoryDamageError, match="before"):
        run_writes(cpu, writes(first, 8))


@pytest.mark.parametrize("count", [9, 16])
def test_a_write_past_the_buffer_is_seen(cpu: DeviceUnderTest, count: int) -> None:
    with pytest.raises(MemoryDamageError, match="after"):
        run_writes(cpu, writes(0, count))


def test_damage_is_a_failed_measurement(cpu: DeviceUnderTest) -> None:
    subject = writes(0, 9)
    found = measure(cpu, Experiment("x.y", subject, [None, DATA], [Expected(DATA)], [Ulp(0)]))
    assert not found.passed
    assert "red zone" in found.message
    assert found.details is not None
    assert found.details.script


def test_an_overwritten_input_is_seen() -> None:
    buffer = GuardedBuffer("PYTHON", INT, 8)
    buffer.fill(DATA)
    buffer.check_unchanged()
    buffer.view.copy_in(memoryview(bytes(32)))
    with pytest.raises(MemoryDamageError, match="input was overwritten"):
        buffer.check_unchanged()


@pytest.mark.parametrize(
    ("place", "where"),
    [
        (0, f"byte {GUARD} before"),
        (GUARD - 1, "byte 1 before"),
        (GUARD + 32, "byte 1 after"),
        (2 * GUARD + 31, f"byte {GUARD} after"),
    ],
)
def test_each_byte_of_the_red_zones_counts(place: int, where: str) -> None:
    buffer = GuardedBuffer("PYTHON", INT, 8)
    buffer.fill(POISONS[0])
    buffer.read()
    buffer.base.view(place, 1, dtypes.uint8).copy_in(memoryview(b"\x00"))
    with pytest.raises(MemoryDamageError) as caught:
        buffer.read()
    assert str(caught.value) == f"a red zone was written: {where} the buffer of 8 int32"


def test_the_byte_nearest_to_the_buffer_is_named() -> None:
    buffer = GuardedBuffer("PYTHON", INT, 8, unaligned=True)
    buffer.fill(POISONS[0])
    start = buffer.middle.start
    buffer.base.view(start - 4, 3, dtypes.uint8).copy_in(memoryview(b"\x00\x00\x00"))
    with pytest.raises(MemoryDamageError, match="byte 2 before the buffer of 8 int32"):
        buffer.read()


def test_a_missing_tail_is_seen(cpu: DeviceUnderTest) -> None:
    subject = writes(0, 7)
    found = measure(cpu, Experiment("x.y", subject, [None, DATA], [Expected(DATA)], [Ulp(0)]))
    assert not found.passed
    assert found.details is not None
    assert found.details.index == 7


def test_a_right_looking_poison_is_run_again(cpu: DeviceUnderTest) -> None:
    """Nothing is written, and the poison is just what was expected: the second poison is not."""
    poison = np.full(32, POISONS[0], np.uint8).view(np.int32)
    subject = writes(0, 7)
    expected = np.append(DATA[:7], poison[:1]).astype(np.int32)
    found = measure(cpu, Experiment("x.y", subject, [None, DATA], [Expected(expected)], [Ulp(0)]))
    assert not found.passed


def test_a_result_that_equals_the_poison_passes(cpu: DeviceUnderTest) -> None:
    poison = np.full(32, POISONS[0], np.uint8).view(np.int32)
    subject = writes(0, 8)
    found = measure(cpu, Experiment("x.y", subject, [None, poison], [Expected(poison)], [Ulp(0)]))
    assert found.passed


def test_nothing_compared_fails(cpu: DeviceUnderTest) -> None:
    nothing = Expected(DATA, np.zeros(8, np.bool_))
    subject = writes(0, 8)
    found = measure(cpu, Experiment("x.y", subject, [None, DATA], [nothing], [Ulp(0)]))
    assert not found.passed
    assert found.compared == 0


def test_wrong_inputs_are_refused(cpu: DeviceUnderTest) -> None:
    with pytest.raises(UserError, match="slot 1: takes 8 int32, got 4 int32"):
        cpu.run_program(writes(0, 8), [None, DATA[:4]])


def test_slots() -> None:
    value = build.add(load(0, INT, (5,)), load(2, INT, (5,)))
    ast = build.sink(store(0, value, (5,)), store(1, value, (5,)))
    found = [(slot.number, slot.size, slot.is_written) for slot in slots_of(ast)]
    assert found == [(0, 5, True), (1, 5, True), (2, 5, False)]


def test_launches_do_not_see_each_other(cpu: DeviceUnderTest) -> None:
    subject = writes(0, 8)

    def launch(data: np.ndarray) -> np.ndarray:
        return cpu.run(subject, [None, data])[0]

    assert list(launch(DATA)) == list(DATA)
    assert list(launch(DATA * 2)) == list(DATA * 2)
