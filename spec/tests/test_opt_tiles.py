"""The rows of TC: a device with tiles passes them, and no wrong use of a tile does.

Each mutant changes one decision of the lowering of tiles, as real compilers have got it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from simulated_device import SimulatedDevice

from tinyref.codegen import lower_tile
from tinyref.codegen.lower import Lowering
from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref.interpret import SanitizerError
from tinyref.optimise.plan import Axis, Plan, TileUse
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.tiles import TILES, MatrixTile, Operand
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import opt_tiles
from tinyref_spec.kernel.opt_tiles import Use

APPLE = TILES["apple_m8n8k8_float32_float32"]
REPLICATED = TILES["rdna3_m16n16k16_float16_float32"]
CAPABILITIES = Device["PYTHON"].capabilities
USES = (*opt_tiles.QUICK, *opt_tiles.EVERY, *opt_tiles.MORE)


def failures(tile: MatrixTile, uses: Iterable[Use]) -> dict[str, str]:
    """The uses that do not pass, with what is wrong; without any cache of kernels."""
    device = SimulatedDevice(CAPABILITIES)
    found = {}
    for use in uses:
        try:
            measured = opt_tiles.tile_use(tile, use, use.name, device)
        except (TinyrefError, SanitizerError) as error:
            found[use.name] = str(error)
            continue
        if not measured.passed or not measured.compared:
            found[use.name] = measured.message
    return found


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile", [APPLE, REPLICATED], ids=str)
def test_the_healthy_compiler_passes_every_use(tile: MatrixTile) -> None:
    assert failures(tile, USES) == {}


def test_every_declared_tile_has_cases_and_every_vendor_a_quick_one() -> None:
    rows = list(opt_tiles.rows())
    full = [case for row in rows for case in row.cases(Profile.FULL)]
    quick = [case for row in rows for case in row.cases(Profile.QUICK)]
    for tile in TILES.values():
        assert sum(tile.name in case.id for case in full) >= 7, tile
    for vendor in opt_tiles.vendors():
        assert any(case.id.startswith(f"kernel.opt.tc.{vendor}.") for case in quick), vendor


def test_a_swapped_lane_of_a_device_is_seen() -> None:
    broken = DeviceUnderTest("tinyref_conformance.faulty:SwappedTileLane")
    case = catalogue.find(f"kernel.opt.tc.apple.{APPLE.name}:plain.mode_1")
    assert not case.run(broken).passed


# --- mutants --------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def _permuted_operands(patch: pytest.MonkeyPatch) -> None:
    healthy = lower_tile._fragment
    other = {Operand.A: Operand.B, Operand.B: Operand.A}
    patch.setattr(
        lower_tile, "_fragment", lambda lowering, use, each: healthy(lowering, use, other[each])
    )


def _reversed_thread_bits(patch: pytest.MonkeyPatch) -> None:
    healthy = lower_tile._lanes

    def lanes(lowering: Lowering, kind: AxisKind) -> list[Axis]:
        found = healthy(lowering, kind)
        return found[::-1] if kind is AxisKind.LOCAL else found

    patch.setattr(lower_tile, "_lanes", lanes)


def _reversed_register_bits(patch: pytest.MonkeyPatch) -> None:
    healthy = lower_tile._place

    def place(lowering: Lowering, use: TileUse, operand: Operand, register: int) -> Any:
        count = use.tile.layout(operand).registers
        return healthy(lowering, use, operand, count - 1 - register)

    patch.setattr(lower_tile, "_place", place)


def _no_leading_barrier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower_tile, "_all_have_read", lambda *arguments: ())


def _no_leading_barrier_around_reduces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lowering, "is_in_loop", lambda self, node: False)


def _replicated_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower_tile, "_is_first", lambda *arguments: None)


def _wrong_lane_order(patch: pytest.MonkeyPatch) -> None:
    healthy = build.lane_at
    patch.setattr(build, "lane_at", lambda x, *ranges: healthy(x, *reversed(ranges)))


def _no_depth(patch: pytest.MonkeyPatch) -> None:
    healthy = lower_tile._place

    def place(*arguments: Any) -> dict[str, UOp]:
        found = healthy(*arguments)
        return {**found, "k": build.const(found["k"].dtype, 0)}

    patch.setattr(lower_tile, "_place", place)


def _lost_loops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lower_tile, "_loops", lambda lowering, use: [])


def _one_matrix_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Plan, "fragment_axes", lambda self, use, operand: [])


MUTANTS: dict[str, tuple[Patch, MatrixTile]] = {
    "operands permuted": (_permuted_operands, APPLE),
    "thread bits reversed": (_reversed_thread_bits, APPLE),
    "registers reversed": (_reversed_register_bits, APPLE),
    "no leading barrier": (_no_leading_barrier, APPLE),
    "no leading barrier around reduces": (_no_leading_barrier_around_reduces, APPLE),
    "replicated threads write": (_replicated_writes, REPLICATED),
    "lanes in the wrong order": (_wrong_lane_order, REPLICATED),
    "depth dropped": (_no_depth, APPLE),
    "loops dropped": (_lost_loops, APPLE),
    "one matrix for all runs": (_one_matrix_for_all_runs, APPLE),
}


@pytest.mark.long
@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, tile = MUTANTS[name]
    patch(monkeypatch)
    assert failures(tile, USES)
