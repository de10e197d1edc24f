"""Red zones and poison: damage that a comparison of results alone would not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes.red_zones import GUARD, POISONS, GuardedBuffer, MemoryDamageError
from tinyref.uops import build
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected

INT = dtypes.int32


def writes(first: int, count: int, size: int = 8) -> Program:
    """Return a program that writes `count` elements of a buffer of `size` from `first` on."""
    out, data = build.define_global(0, INT, size), build.define_global(1, INT, size)
    i = loop(count, 0)
    position = build.add(i, first)
    value = build.load(at(data, build.mod(i, size)))
    return program("writes", i, build.store(at(out, position), value), build.close(i))


DATA = np.arange(100, 108, dtype=np.int32)


def measured(device: DeviceUnderTest, subject: Program, data: Array, expected: Expected) -> Any:
    return measure(device, Experiment("x.y", subject, [None, data], [expected], [Ulp(0)]))


POISON = np.full(32, POISONS[0], np.uint8).view(np.int32)


@pytest.mark.parametrize(
    ("count", "data", "expected", "index"),
    [
        (8, DATA, DATA, None),
        (8, POISON, POISON, None),
        (7, DATA, DATA, 7),
        # Nothing is written, and the poison is what was expected: the second poison is not.
        (7, DATA, np.append(DATA[:7], POISON[:1]), 7),
    ],
    ids=["right", "equals the poison", "missing tail", "poison that looks right"],
)
def test_every_element_has_to_be_written(
    cpu: DeviceUnderTest, count: int, data: Array, expected: Array, index: int | None
) -> None:
    result = measured(cpu, writes(0, count), data, Expected(expected))
    assert result.passed == (index is None)
    assert index is None or result.details.index == index


@pytest.mark.parametrize(("first", "count"), [(-1, 8), (-8, 8), (0, 9), (0, 16)])
def test_damage_is_a_failed_measurement(cpu: DeviceUnderTest, first: int, count: int) -> None:
    result = measured(cpu, writes(first, count), DATA, Expected(DATA))
    assert not result.passed
    assert "red zone" in result.message
    assert ("before" if first else "after") in result.message
    assert result.details.script


def test_nothing_compared_fails(cpu: DeviceUnderTest) -> None:
    result = measured(cpu, writes(0, 8), DATA, Expected(DATA, np.zeros(8, np.bool_)))
    assert not result.passed
    assert result.compared == 0


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


def test_wrong_inputs_are_refused(cpu: DeviceUnderTest) -> None:
    with pytest.raises(UserError, match="slot 1: takes 8 int32, got 4 int32"):
        cpu.run(writes(0, 8), [None, DATA[:4]])
