"""What printed PTX computes, by a machine that reads it as the ISA does: rows of the suite."""

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
# One row of this many is run.
STRIDE = 151
# Hundreds of programs in one kernel, which take the machine a minute: the slow test runs them.
LONG_ROWS = "isa.comparison."


@functools.cache
def first_cases() -> list[Case]:
    """The first case of each row that needs no training."""
    rows = [row for row in catalogue.rows(Profile.QUICK) if row.level not in ("model", "system")]
    return [row.cases(Profile.QUICK)[0] for row in rows]


def wrong(cases: list[Case], device: str) -> list[str]:
    """What the cases that the device owes say of it."""
    capabilities, tested = Device[device].capabilities, DeviceUnderTest(device)
    owed = [case for case in cases if case.needs.unmet(capabilities) is None]
    assert owed
    found = [(case.id, case.run(tested)) for case in owed]
    return [f"{name}: {measured.message}" for name, measured in found if not measured.passed]


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
    """Vectors of two buffers behind a gate of each: what is not loaded is 1."""
    place = build.mul(programs.item_index(4), lanes)
    source, gates, out = (
        build.define_global(slot, kind, 4 * lanes)
        for slot, kind in ((1, dtype), (2, dtypes.bool), (0, dtype))
    )
    gate = build.load(build.index(gates, place))
    value = build.load(build.index(source, place), gate, 1, lanes=lanes)
    return build.store(build.index(out, place), value)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "float16", "bfloat16", "float32", "int64"],
)
def test_vectors_of_every_width(name: str, lanes: int) -> None:
    """Those of more than four small elements are moved in words."""
    dtype = to_dtype(name)
    program = programs.program("wide", wide(dtype, lanes), group=(4, 1, 1))
    kind = numpy_dtype(dtype)
    given = np.random.default_rng(lanes).integers(0, 256, 4 * lanes * kind.itemsize, np.uint8)
    values = (given & 1 if dtype is dtypes.bool else given).view(kind)
    gates = np.repeat([True, False, True, False], lanes)
    device = DeviceUnderTest(MACHINES[90])
    (found,) = device.run(program, [None, values, gates])
    expected = np.where(gates, values, kind.type(1))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16], ids=str)
def test_small_integers_wrap_before_they_are_used_again(dtype: DType) -> None:
    """A register has more bits than 8; what is divided are those 8."""
    item = programs.item_index(64)
    x, y, out = (build.define_global(slot, dtype, 64) for slot in (1, 2, 0))
    total = build.add(build.load(build.index(x, item)), build.load(build.index(y, item)))
    store = build.store(build.index(out, item), build.idiv(total, 3))
    kind = numpy_dtype(dtype)
    given = np.random.default_rng(1).integers(0, 256, (2, 64 * kind.itemsize), np.uint8).view(kind)
    (found,) = DeviceUnderTest(MACHINES[90]).run(
        programs.program("small", store, group=(64, 1, 1)), [None, *given]
    )
    wrapped = (given[0] + given[1]).astype(np.int64)
    assert found.tolist() == (np.sign(wrapped) * (abs(wrapped) // 3)).tolist()


def test_tf32_rounds_ties_away_from_zero() -> None:
    """10 bits are left: 1 + 2**-11 is the middle of two of them."""
    program = tile_by_lanes(TILES["nvidia_m16n8k4_tf32_float32"])
    given = [np.full(64, number, np.float32) for number in (1 + 2**-11, -1, 0)]
    (found,) = DeviceUnderTest(MACHINES[90]).run(program, [None, *given])
    assert found[:4].tolist() == [-4 * (1 + 2**-10)] * 4
