"""Test values of printed PTX with rows of the suite, on an interpreter written from the ISA."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from ptx_machine import PtxMachine, PtxMachine75, PtxMachine80

from tests.graphs.value_programs import tile_by_lanes
from tinyref.device import Device
from tinyref.dtype import DType, dtypes, numpy_dtype, to_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.tiles import TILES
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import programs

MACHINES = {
    kind.architecture: f"{kind.__module__}:{kind.__name__}"
    for kind in (PtxMachine, PtxMachine75, PtxMachine80)
}
# One row of this many runs.
STRIDE = 151
# Hundreds of programs in one kernel take the interpreter a minute: the slow test runs them.
LONG_ROWS = "isa.comparison."


@functools.cache
def first_cases() -> list[Case]:
    """Return the first case of each row that needs no training."""
    rows = [row for row in catalogue.rows(Profile.QUICK) if row.level not in ("model", "system")]
    return [row.cases(Profile.QUICK)[0] for row in rows]


def wrong(cases: list[Case], device: str) -> list[str]:
    """Return the messages of failed cases among those that the device must pass."""
    capabilities, tested = Device[device].capabilities, DeviceUnderTest(device)
    required = [case for case in cases if case.needs.unmet(capabilities) is None]
    assert required
    results = [(case.id, case.run(tested)) for case in required]
    return [f"{name}: {measured.message}" for name, measured in results if not measured.passed]


@pytest.mark.parametrize("architecture", MACHINES)
def test_rows_of_the_suite(architecture: int) -> None:
    cases = [case for case in first_cases() if not case.id.startswith(LONG_ROWS)]
    assert wrong(cases[architecture % STRIDE :: STRIDE], MACHINES[architecture]) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("architecture", MACHINES)
def test_more_rows_of_the_suite(architecture: int, part: int) -> None:
    assert wrong(first_cases()[part::13], MACHINES[architecture]) == []


def wide(dtype: DType, lanes: int) -> UOp:
    """Store vectors of two buffers, each behind a gate; an element that is not loaded is 1."""
    position = build.mul(programs.item_index(4), lanes)
    source, gates, out = (
        build.define_global(slot, kind, 4 * lanes)
        for slot, kind in ((1, dtype), (2, dtypes.bool), (0, dtype))
    )
    gate = build.load(build.index(gates, position))
    value = build.load(build.index(source, position), gate, 1, lanes=lanes)
    return build.store(build.index(out, position), value)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "float16", "bfloat16", "float32", "int64"],
)
def test_vectors_of_every_width(name: str, lanes: int) -> None:
    # Vectors of more than four small elements are moved in words.
    dtype = to_dtype(name)
    program = programs.program("wide", wide(dtype, lanes), group=(4, 1, 1))
    kind = numpy_dtype(dtype)
    source = np.random.default_rng(lanes).integers(0, 256, 4 * lanes * kind.itemsize, np.uint8)
    values = (source & 1 if dtype is dtypes.bool else source).view(kind)
    gates = np.repeat([True, False, True, False], lanes)
    device = DeviceUnderTest(MACHINES[90])
    (result,) = device.run(program, [None, values, gates])
    expected = np.where(gates, values, kind.type(1))
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16], ids=str)
def test_small_integers_wrap_before_they_are_used_again(dtype: DType) -> None:
    # A register has more bits than 8, but only 8 are divided.
    item = programs.item_index(64)
    x, y, out = (build.define_global(slot, dtype, 64) for slot in (1, 2, 0))
    total = build.add(build.load(build.index(x, item)), build.load(build.index(y, item)))
    store = build.store(build.index(out, item), build.idiv(total, 3))
    kind = numpy_dtype(dtype)
    inputs = np.random.default_rng(1).integers(0, 256, (2, 64 * kind.itemsize), np.uint8).view(kind)
    (result,) = DeviceUnderTest(MACHINES[90]).run(
        programs.program("small", store, group=(64, 1, 1)), [None, *inputs]
    )
    wrapped = (inputs[0] + inputs[1]).astype(np.int64)
    assert result.tolist() == (np.sign(wrapped) * (abs(wrapped) // 3)).tolist()


def test_tf32_rounds_ties_away_from_zero() -> None:
    # 10 bits remain: 1 + 2**-11 is halfway between two numbers.
    program = tile_by_lanes(TILES["nvidia_m16n8k4_tf32_float32"])
    inputs = [np.full(64, number, np.float32) for number in (1 + 2**-11, -1, 0)]
    (result,) = DeviceUnderTest(MACHINES[90]).run(program, [None, *inputs])
    assert result[:4].tolist() == [-4 * (1 + 2**-10)] * 4
