"""Texts of devices that are broken on purpose: each is caught on the rung that it breaks."""

from __future__ import annotations

import re

import pytest

from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref_conformance.faulty import renderings
from tinyref_conformance.faulty.cuda_edits import CUDA_EDITS
from tinyref_conformance.faulty.edits import OPENCL_EDITS, WGSL_EDITS, Edit
from tinyref_conformance.faulty.hip_edits import HIP_EDITS
from tinyref_conformance.faulty.metal_edits import METAL_EDITS
from tinyref_conformance.faulty.registry import EMULATED_OPENCL, FAULTY_RENDERINGS
from tinyref_conformance.faulty.score import score
from tinyref_conformance.faulty.tile_edits import (
    CUDA_TILE_EDITS,
    HIP_TILE_EDITS,
    METAL_TILE_EDITS,
)
from tinyref_spec import catalogue
from tinyref_spec.device_under_test import DeviceUnderTest

# The first case, in the order of the ladder, that shows each fault.
OPENCL_CASES = {
    "LostInfinity": "kernel.store.constant.float32.value:6",
    "LostNegativeZeroLiteral": "kernel.store.constant.float32.value:5",
    "ZeroForNan": "kernel.store.constant.float32.value:8",
    "LeastIntegerOffByOne": "kernel.store.constant.int32.value:4",
    "ShortDecimals": "kernel.store.constant.float32.value:4",
    "LostFloatSuffix": "isa.constant.float32.cmplt0:0",
    "LostLongSuffix": "isa.constant.int64.shr0:0",
    "SwappedOperands": "isa.binary.idiv.int32.special:0",
    "SwappedBuffers": "kernel.program.limit.buffers.all",
    "IgnoredOffset": "kernel.store.constant.int32.size:1",
    "OffsetInElements": "kernel.store.constant.int32.size:1",
    "OffsetOfTheFirst": "memory.launch.float32.middle:1",
    "SwappedGroupDimensions": "kernel.view.permute.float32.read.5x7",
    "LogicalShift": "isa.binary.shr.int32.special:0",
    "NanEqualsItself": "isa.binary.cmpne.float32.special:0",
    "UnsignedBytes": "isa.binary.cmplt.int8.special:0",
    "RoundedCast": "isa.cast.float32.to_int8.special:0",
    "ConvertedBits": "kernel.one_alu.add.float16.size:1",
    "LostStoreGate": "memory.gate.store.float32.size:1",
    "InvertedStoreGate": "memory.gate.store.float32.size:1",
    "LostLoadGate": "memory.gate.load.float32.size:2",
    "SwappedLanes": "kernel.program.vector2.float32.add",
    "ShortVectorStore": "kernel.program.vector2.float32.add",
    "LoopOnceMore": "kernel.program.gate.load",
    "LoopFromOne": "kernel.program.gate.load",
    "SwappedItemDimensions": "kernel.program.item.4x1x1",
    "GroupForItem": "kernel.program.item.4x1x1",
    "GlobalForGroup": "kernel.program.item.4x1x1",
    "NoBarrier": "kernel.program.group.reverse:8",
    "PrivateArray": "kernel.program.group.reverse:2",
    "ShortSharedArray": "kernel.program.group.reverse:2",
}
WGSL_CASES = {
    "WgslLostInfinity": "kernel.store.constant.float32.value:6",
    "WgslLostNegativeZero": "kernel.store.constant.float32.value:5",
    "WgslLostMask": "kernel.store.constant.int8.size:1",
    "WgslClearedNeighbours": "kernel.store.constant.int8.size:1",
    "WgslIgnoredOffset": "kernel.store.constant.int32.size:1",
    "WgslOffsetInBytes": "kernel.store.constant.int32.size:1",
    "WgslOtherVariable": "kernel.store.constant.int8.size:1",
    "WgslOtherGroupIndex": "kernel.view.permute.float32.read.5x7",
    "WgslSwappedSelect": "kernel.one_alu.add.bfloat16.size:1",
    "WgslLogicalShift": "isa.binary.cmplt.int8.special:0",
    "WgslNanEqualsItself": "isa.binary.cmpne.float32.special:0",
    "WgslLostStoreGate": "memory.gate.store.float32.size:1",
    "WgslLostLoadGate": "memory.gate.load.float32.size:1",
    "WgslOtherItemIndex": "kernel.program.item.4x1x1",
    "WgslGroupForItem": "kernel.program.item.4x1x1",
    "WgslNoBarrier": "kernel.program.group.reverse:32",
    "WgslPrivateArray": "kernel.program.group.reverse:2",
    "WgslShortArray": "kernel.program.group.reverse:2",
    "WgslShortGroup": "kernel.program.item.4x1x1",
}
HIP_CASES = {
    "HipTruncatedBfloat16": "isa.binary.add.bfloat16.special:15",
    "HipReciprocalOfHalf": "isa.binary.fdiv.float16.edge:0",
    "HipRoundedTwice": "isa.cast.float64.to_bfloat16.special:8",
    "HipWrappedLanes": "kernel.program.vector16.float32.add",
    "HipNoBarrier": "kernel.program.group.reverse:2",
}
METAL_CASES = {
    "MetalSwappedArguments": "kernel.program.limit.buffers.all",
    "MetalFastRoot": "isa.unary.sqrt.float32.special:1",
    "MetalVectorsForElements": "kernel.program.vector2.float32.add",
    "MetalBarrierOfMemory": "kernel.program.group.reverse:2",
    "MetalPositionInGrid": "kernel.program.item.4x1x1",
}
CUDA_EDIT_CASES = {
    "CudaOrderedComparison": "isa.binary.cmpne.float16.special:0",
    "CudaProductWithReciprocal": "isa.binary.fdiv.float32.edge:0",
    "CudaRoundedTwice": "isa.cast.float64.to_float16.special:17",
    "CudaFirstVector": "kernel.program.vector2.float32.add",
    "CudaRepeatedLanes": "kernel.program.vector8.float32.add",
}
TILE_EDITS = (*CUDA_TILE_EDITS, *HIP_TILE_EDITS, *METAL_TILE_EDITS)
TILE_CASES = {
    "TileSwappedHalves": "kernel.program.wmma.nvidia_m16n8k16_float16_float32.product",
    "TileSwappedRegisters": "kernel.program.wmma.nvidia_m16n8k8_tf32_float32.product",
    "TileLostRow": "kernel.program.wmma.nvidia_m16n8k16_float16_float32.product",
    "TileOtherRegister": "kernel.program.wmma.nvidia_m16n8k8_float16_float32.product",
    "TileLostAccumulator": "kernel.program.wmma.nvidia_m16n8k8_float16_float32.product",
    "TileOtherType": "kernel.program.wmma.nvidia_m16n8k16_bfloat16_float32.product",
    "TileTruncatedInputs": "kernel.program.wmma.nvidia_m16n8k8_tf32_float32.rounded",
    "TileLostLane": "kernel.program.wmma.rdna3_m16n16k16_float16_float32.product",
    "TileTransposedB": "kernel.program.wmma.cdna3_m16n16k16_float16_float32.product",
    "TileSwappedOperands": "kernel.program.wmma.apple_m8n8k8_float32_float32.product",
    "TileSwappedQuads": "kernel.program.wmma.apple_m8n8k8_float16_float16.product",
    "TileRepeatedRegister": "kernel.program.wmma.apple_m8n8k8_bfloat16_bfloat16.product",
}
CASES = {
    **OPENCL_CASES,
    **WGSL_CASES,
    **HIP_CASES,
    **METAL_CASES,
    **CUDA_EDIT_CASES,
    **TILE_CASES,
}
GROUPS = (OPENCL_EDITS, WGSL_EDITS, HIP_EDITS, METAL_EDITS, CUDA_EDITS, TILE_EDITS)


def test_there_are_thirty_and_more_faults() -> None:
    edits = [edit for group in GROUPS for edit in group]
    assert len(FAULTY_RENDERINGS) == len(edits) >= 30
    assert [edit.name for edit in edits] == list(CASES)
    for faulty in FAULTY_RENDERINGS.values():
        assert Device.backend_class(faulty.device) is faulty.backend
    for group in GROUPS:
        assert len({edit.sentence for edit in group}) == len(group)


def test_an_edit_changes_all_that_it_finds_and_nothing_else() -> None:
    (edit,) = [edit for edit in OPENCL_EDITS if edit.name == "SwappedGroupDimensions"]
    text = "int a = get_group_id(0), b = get_group_id(1), c = get_local_id(0);\n"
    wrong = "int a = get_group_id(1 - 0), b = get_group_id(1 - 1), c = get_local_id(0);\n"
    assert edit.apply(text) == wrong
    assert edit.apply("barrier(CLK_LOCAL_MEM_FENCE);") == "barrier(CLK_LOCAL_MEM_FENCE);"


def is_right(device: str, case_id: str) -> bool:
    """Whether a case passes on a device; an error of the device is no pass."""
    (case,) = catalogue.cases(query=re.sub(r"([*?\[])", r"[\1]", case_id))
    try:
        return case.run(DeviceUnderTest(device)).passed
    except TinyrefError:
        return False


# What another text is printed for where a driver has vectors, and what an array that is too short
# overwrites there, is nobody's promise.
OF_THE_EMULATOR = {"SwappedLanes", "ShortVectorStore", "ShortSharedArray"}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [name for name in OPENCL_CASES if name not in OF_THE_EMULATOR])
def test_a_broken_text_of_opencl_is_caught_by_a_driver(name: str) -> None:
    available = Device.availability("OPENCL")
    if not available.works:
        pytest.skip(f"OPENCL: {available.reason}")
    assert is_right("OPENCL", OPENCL_CASES[name])
    assert not is_right(f"{renderings.__name__}:Driver{name}", OPENCL_CASES[name])


# Cases of every rung up to groups.
CUDA_CASES = (
    "kernel.store.constant.float32.value:8",
    "kernel.offset.int32.offset:3",
    "isa.binary.idiv.int32.special:0",
    "isa.cast.float32.to_int8.special:0",
    "isa.cast.float64.to_float32.special:0",
    "kernel.program.gate.store",
    "kernel.program.vector4.uint8.add",
    "kernel.program.vector2.float32.where",
    "kernel.program.loop.nested",
    "kernel.program.grid.2x3x4",
    "kernel.program.item.2x3x4",
    "kernel.program.group.tree_sum:32",
)


@pytest.mark.long
@pytest.mark.parametrize("case", CUDA_CASES)
def test_cuda_computes_what_it_should_on_the_host(case: str) -> None:
    available = Device.availability("CUDA_EMU")
    if not available.works:
        pytest.skip(f"CUDA_EMU: {available.reason}")
    assert is_right("CUDA_EMU", case)


def check(name: str) -> None:
    faulty = FAULTY_RENDERINGS[name]
    available = Device.availability(faulty.healthy)
    if not available.works:
        pytest.skip(f"{faulty.healthy}: {available.reason}")
    case = CASES[name]
    (row,) = [row for row in catalogue.all_rows() if catalogue.matches(case, row.id)]
    assert row.rung is faulty.rung
    assert is_right(faulty.healthy, case)
    assert not is_right(faulty.device, case)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("edit", OPENCL_EDITS, ids=lambda edit: edit.name)
def test_a_broken_text_of_opencl_is_caught(edit: Edit) -> None:
    check(edit.name)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("edit", WGSL_EDITS, ids=lambda edit: edit.name)
def test_a_broken_text_of_wgsl_is_caught(edit: Edit) -> None:
    check(edit.name)


@pytest.mark.long
@pytest.mark.parametrize("edit", HIP_EDITS, ids=lambda edit: edit.name)
def test_a_broken_text_of_hip_is_caught(edit: Edit) -> None:
    check(edit.name)


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("edit", METAL_EDITS, ids=lambda edit: edit.name)
def test_a_broken_text_of_msl_is_caught(edit: Edit) -> None:
    check(edit.name)


@pytest.mark.long
@pytest.mark.parametrize("edit", CUDA_EDITS, ids=lambda edit: edit.name)
def test_a_broken_text_of_cuda_is_caught(edit: Edit) -> None:
    check(edit.name)


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("edit", TILE_EDITS, ids=lambda edit: edit.name)
def test_a_broken_tile_is_caught(edit: Edit) -> None:
    check(edit.name)


def test_what_is_wrong_about_tiles_leaves_other_texts_alone() -> None:
    text = "int v1 = item_0 / 8;\nint v2 = v1 % 16;\nfloat4 v3 = make_float4(v1, v2, v4, v5);\n"
    tile = "float4 v9 = tinyref_wmma_apple_m8n8k8_float32_float32(v3, v4, v5);\n"
    for edit in TILE_EDITS:
        assert edit.apply(text) == text
    changed = {edit.name for edit in TILE_EDITS if edit.apply(text + tile) != text + tile}
    assert {"TileLostLane", "TileSwappedQuads", "TileLostAccumulator"} <= changed


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTY_RENDERINGS)
def test_nothing_below_its_rung_shows_a_fault(name: str) -> None:
    found = score(only=name, jobs=2, devices=FAULTY_RENDERINGS)
    if found.skipped:
        pytest.skip(found.skipped[0])
    assert found.is_perfect, found.text()


@pytest.mark.slow
def test_the_emulated_language_itself_passes() -> None:
    name = "EmulatedOpencl"
    assert EMULATED_OPENCL.endswith(name)
    found = score(only="LostInfinity", jobs=2, devices=FAULTY_RENDERINGS)
    assert found.healthy == {name: []}
