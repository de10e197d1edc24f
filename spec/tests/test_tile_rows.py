"""The rows of matrix tiles: which a device owes, and that they see a wrong lane."""

from __future__ import annotations

import dataclasses

import pytest
from run_rows import failed

from tinyref.runtimes.python import PythonBackend
from tinyref.uops.tiles import TILES, FragmentLayout, MatrixTile
from tinyref_spec import catalogue
from tinyref_spec.case import Measurement, Needs
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel.programs import OWN_TILE

TILE = TILES["intel_m8n8k16_float16_float32"]
OWN = dataclasses.replace(
    TILE,
    name="vendor_tile",
    a=FragmentLayout.of("k4 k8 m4", "m1 m2 k1 k2"),
    c=FragmentLayout.of("m1 n2 n4", "n1 m2 m4"),
)


def declare(monkeypatch: pytest.MonkeyPatch, *tiles: MatrixTile) -> None:
    healthy = PythonBackend(0).capabilities
    changed = dataclasses.replace(healthy, matrix_tiles=tiles)
    monkeypatch.setattr(PythonBackend, "capabilities", property(lambda self: changed))


def unmet(feature: str) -> str | None:
    return Needs(features=frozenset({feature})).unmet(DeviceUnderTest("PYTHON").capabilities)


def run(case_id: str) -> Measurement:
    return catalogue.find(case_id).run(DeviceUnderTest("PYTHON"))


def test_every_tile_has_a_row() -> None:
    rows = {row.id for row in catalogue.all_rows() if row.op == "WMMA"}
    assert {f"kernel.program.wmma.{name}" for name in TILES} < rows


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
    declare(monkeypatch, TILE, OWN)
    found = run("kernel.program.wmma.own.all")
    assert found.passed
    # 8 x 8 results: one run, six runs in groups, two in a loop, one of wide numbers.
    assert found.compared == 64 * (1 + 6 + 2 + 1)


def test_a_device_without_own_tiles_does_not_pass_by_doing_nothing() -> None:
    assert not run("kernel.program.wmma.own.all").passed


def test_the_tile_of_one_work_item_is_refused_or_right(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("kernel.program.tile.2x2x2")
    assert refused.passed
    assert "own_m2n2k2" in refused.observed
    declare(monkeypatch, OWN_TILE)
    multiplied = run("kernel.program.tile.2x2x2")
    assert multiplied.passed
    assert multiplied.compared == 4
    transposed = dataclasses.replace(OWN_TILE, c=FragmentLayout.of("", "m1 n1"))
    monkeypatch.setattr("tinyref_spec.kernel.programs.OWN_TILE", transposed)
    declare(monkeypatch, transposed)
    assert "wrong" in run("kernel.program.tile.2x2x2").message


@pytest.mark.parametrize("form", ["product", "runs", "loop", "wide"])
def test_a_swapped_lane_is_seen(form: str) -> None:
    broken = DeviceUnderTest("tinyref_conformance.faulty:SwappedTileLane")
    found = catalogue.find(f"kernel.program.wmma.{TILE.name}.{form}").run(broken)
    assert not found.passed
    assert "wrong" in found.message


@pytest.mark.parametrize(
    "name",
    [
        *("apple_m8n8k8_float32_float32", "nvidia_m16n8k8_tf32_float32"),
        *("nvidia_m8n8k4_float64_float64", "rdna3_m16n16k16_int8_int32"),
    ],
)
def test_work_items_of_a_group_make_tiles_together(name: str) -> None:
    assert failed(f"kernel.program.wmma.{name}", "GPU_EMU") == []
