"""The rows of matrix tiles: which a device owes, and that wrong lanes are seen."""

from __future__ import annotations

import dataclasses

import pytest
from run_rows import failed
from simulated_device import SimulatedDevice

from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref.interpret import SanitizerError
from tinyref.runtimes.python import PythonBackend
from tinyref.uops.tiles import TILES, FragmentLayout, MatrixTile
from tinyref_spec import catalogue
from tinyref_spec.case import CaseNeeds, Measurement, Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import opt_tiles

TILE = TILES["intel_m8n8k16_float16_float32"]
APPLE = TILES["apple_m8n8k8_float32_float32"]
REPLICATED = TILES["rdna3_m16n16k16_float16_float32"]
OWN = dataclasses.replace(
    TILE,
    name="vendor_tile",
    a=FragmentLayout.of("k4 k8 m4", "m1 m2 k1 k2"),
    c=FragmentLayout.of("m1 n2 n4", "n1 m2 m4"),
)
BROKEN = "tinyref_conformance.faulty:SwappedTileLane"


def declare(monkeypatch: pytest.MonkeyPatch, *tiles: MatrixTile) -> None:
    healthy = PythonBackend(0).capabilities
    changed = dataclasses.replace(healthy, matrix_tiles=tiles)
    monkeypatch.setattr(PythonBackend, "capabilities", property(lambda self: changed))


def unmet(feature: str) -> str | None:
    return CaseNeeds(features=frozenset({feature})).unmet(DeviceUnderTest("PYTHON").capabilities)


def run(case_id: str, device: str = "PYTHON") -> Measurement:
    return catalogue.find(case_id).run(DeviceUnderTest(device))


def test_a_device_owes_the_tiles_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, TILE)
    assert unmet(f"tile:{TILE.name}") is None
    missing = "apple_m8n8k8_float16_float16"
    assert unmet(f"tile:{missing}") == f"the device does not declare tile:{missing}"
    assert unmet("tile:own") == "the device does not declare tile:own"


def test_a_tile_of_the_same_name_with_another_layout_is_an_own_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declare(monkeypatch, dataclasses.replace(OWN, name=TILE.name))
    assert unmet(f"tile:{TILE.name}") is not None
    assert unmet("tile:own") is None


def test_own_tiles_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not run("kernel.program.wmma.own.all").passed, "no device passes by doing nothing"
    declare(monkeypatch, TILE, OWN)
    result = run("kernel.program.wmma.own.all")
    assert result.passed
    # 8 x 8 results: one run, six runs in groups, two in a loop, one of wide numbers.
    assert result.compared == 64 * (1 + 6 + 2 + 1)


def test_a_swapped_lane_is_seen_by_the_rows_of_tc() -> None:
    assert not run(f"kernel.opt.tc.apple.{APPLE.name}:plain.mode_1", BROKEN).passed


@pytest.mark.parametrize("name", ["apple_m8n8k8_float32_float32", "rdna3_m16n16k16_int8_int32"])
def test_work_items_of_a_group_make_tiles_together(name: str) -> None:
    assert failed(f"kernel.program.wmma.{name}", "GPU_EMU") == []


# --- the rows of TC -------------------------------------------------------------------------------


def test_every_tile_has_cases_and_every_vendor_a_quick_one() -> None:
    rows = {row.id for row in catalogue.all_rows() if row.op == "WMMA"}
    assert {f"kernel.program.wmma.{name}" for name in TILES} < rows
    full, quick = (
        [case.id for row in opt_tiles.rows() for case in row.cases(profile)]
        for profile in (Profile.FULL, Profile.QUICK)
    )
    for tile in TILES.values():
        assert sum(tile.name in name for name in full) >= 7, tile
    for vendor in opt_tiles.vendors():
        assert any(name.startswith(f"kernel.opt.tc.{vendor}.") for name in quick), vendor


def failures(tile: MatrixTile) -> dict[str, str]:
    """Return the uses of a tile that do not pass, with their problems."""
    device = SimulatedDevice(Device["PYTHON"].capabilities)
    problems = {}
    for use in (*opt_tiles.QUICK, *opt_tiles.EVERY, *opt_tiles.MORE):
        try:
            result = opt_tiles.tile_use(tile, use, use.name, device)
        except (TinyrefError, SanitizerError) as error:
            problems[use.name] = str(error)
            continue
        if not result.passed or not result.compared:
            problems[use.name] = result.message
    return problems


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile", [APPLE, REPLICATED], ids=str)
def test_every_use_of_a_tile_passes(tile: MatrixTile) -> None:
    assert failures(tile) == {}
