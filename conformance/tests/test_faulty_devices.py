"""The suite is scored by devices that are broken on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.errors import TinyrefError, UserError
from tinyref.interpret import Interpreter
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import TILES
from tinyref_conformance.conform import Request, conform
from tinyref_conformance.faulty.arithmetic import contract, reassociate
from tinyref_conformance.faulty.device import QUERY
from tinyref_conformance.faulty.launches import swap_two_lanes
from tinyref_conformance.faulty.programs import Change, rewritten
from tinyref_conformance.faulty.registry import (
    ALL_FAULTY,
    FAULTY_DEVICES,
    FAULTY_RENDERINGS,
    HEALTHY,
)
from tinyref_conformance.faulty.score import score
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status
from tinyref_spec import catalogue
from tinyref_spec.case import Rung
from tinyref_spec.clauses import clauses
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernels.named import elementwise
from tinyref_spec.memory.order import FIRST_ITERATIONS, LONG_SECONDS, WAITS, long_work

__all__ = ["QUERY"]

F32 = dtypes.float32


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def test_each_row_of_the_table_is_a_device_of_its_own() -> None:
    assert len({faulty.sentence for faulty in ALL_FAULTY.values()}) == len(ALL_FAULTY)
    for faulty in [*ALL_FAULTY.values(), *HEALTHY.values()]:
        assert Device.backend_class(faulty.device) is faulty.backend


def test_faulty_devices_declare_what_the_healthy_device_declares() -> None:
    for faulty in FAULTY_DEVICES.values():
        declared = Device[faulty.device].capabilities == Device[faulty.healthy].capabilities
        assert declared or faulty.clause == "memory.open"


# Only the compiler, the scheduler or the host's side of the library can break these.
OF_THE_LIBRARY = {
    "memory.refuse",
    "kernel.valid",
    "kernel.iota",
    "kernel.gather",
    "kernel.regression",
    "kernel.fuzzed",
    "system.fuzzed",
    "system.memory",
    "system.state",
}
# Clauses that the fault of another clause breaks as well.
BROKEN_TOO = {
    "cast.bool": "NanEqualsItself",
    "isa.where.no_effect": "TrappingDivision",
    "isa.reduce": "CoarseAdd",
    "isa.reduce.add": "CoarseAdd",
    "isa.reduce.mul": "CoarseMul",
    "isa.reduce.max": "CoarseMax",
    "kernel.accumulator": "CoarseAdd",
    "kernel.after": "MissingBarrier",
    "kernel.matmul": "CoarseMul",
    "kernel.matmul.statistics": "CoarseMul",
    "system.jit.state": "UnorderedList",
}


def test_every_clause_that_a_device_can_break_has_a_faulty_device() -> None:
    """Functions of Tensor and layers are made of the ops below: no device breaks them alone."""
    families = ("memory", "device", "int", "float", "cast", "isa", "kernel", "system")
    labels = {label for label in clauses() if label.split(".")[0] in families}
    labels = {label for label in labels if not label.startswith("kernel.opt")} - OF_THE_LIBRARY
    named = {faulty.clause for faulty in ALL_FAULTY.values()}
    assert labels == named | set(BROKEN_TOO)
    assert set(BROKEN_TOO.values()) <= set(ALL_FAULTY)


def is_right(device: str, case: str) -> bool:
    """Return True if a case passes; an error of the device is no pass."""
    try:
        return catalogue.find(case).run(DeviceUnderTest(device)).passed
    except TinyrefError:
        return False


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize(("clause", "name"), BROKEN_TOO.items())
def test_a_clause_is_broken_by_the_fault_that_stands_for_it(clause: str, name: str) -> None:
    faulty = ALL_FAULTY[name]
    if not Device.availability(faulty.healthy).works:
        pytest.skip(f"{faulty.healthy} does not work here")
    rows = [row.id for row in catalogue.all_rows() if clause in row.clauses]
    cases = [case.id for case in catalogue.cases(query=",".join(rows))]
    assert not all(is_right(faulty.device, case) for case in cases)


# Op, type and operands; the right result, and the one of the device.
ARITHMETIC = [
    ("Tf32Rounding", Ops.MUL, F32, (1 + 2**-12, 2), 2),
    ("Tf32Rounding", Ops.MUL, F32, (1 + 3 * 2**-11, 1), 1 + 2 * 2**-10),
    ("Tf32Rounding", Ops.MUL, dtypes.float64, (1 + 2**-12, 2), 2 + 2**-11),
    ("FlushedSubnormals", Ops.ADD, F32, (1e-40, 1e-40), 0),
    ("FlushedSubnormals", Ops.ADD, F32, (1.0, 1e-3), float(f32(1.001)[0])),
    ("LostNegativeZero", Ops.NEG, F32, (0.0,), 0.0),
    ("LostNegativeZero", Ops.NEG, F32, (2.0,), -2.0),
    ("FloorDivision", Ops.IDIV, dtypes.int32, (-7, 2), -4),
    ("FloorDivision", Ops.IDIV, dtypes.int32, (7, 2), 3),
    ("FloorDivision", Ops.IDIV, dtypes.int32, (-6, 2), -3),
    ("SaturatedSums", Ops.ADD, dtypes.int8, (127, 1), 127),
    ("SaturatedSums", Ops.ADD, dtypes.int8, (127, -1), 126),
    ("CoarseXor", Ops.XOR, dtypes.int32, (5, 1), 4),
    ("CoarseXor", Ops.XOR, dtypes.int32, (-5, 1), -5),
]


@pytest.mark.parametrize(("name", "op", "dtype", "operands", "gives"), ARITHMETIC)
def test_arithmetic_is_wrong_where_the_sentence_says(
    name: str, op: Ops, dtype: DType, operands: tuple[float, ...], gives: float
) -> None:
    arrays = [np.array([operand], dtype.name) for operand in operands]
    (value,) = FAULTY_DEVICES[name].ops[op](dtype, arrays, [dtype] * len(arrays)).tolist()
    assert (value, math.copysign(1, value)) == (gives, math.copysign(1, gives))


def test_two_neighbours_are_swapped_and_no_other() -> None:
    result = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    swapped = swap_two_lanes(TILES["intel_m8n8k16_float16_float32"], result)
    assert (swapped == result[:, [0, 1, 3, 2, 4, 5, 6, 7]]).all()


def values_after(change: Change, expression: Callable[..., UOp], *inputs: float) -> float:
    """Return the value of an expression of float32 numbers once its program is rewritten."""
    ast = elementwise(expression, (F32,) * len(inputs), 1)
    program = rewritten(compile_kernel(ast, Device["PYTHON"].capabilities), change)
    arrays = [f32(0.0), *(f32(value) for value in inputs)]
    ops = FAULTY_DEVICES["ContractedProducts"].ops
    Interpreter(program, ops).run(arrays, {}, (1, 1, 1), (1, 1, 1))
    return float(arrays[0][0])


def product_sum(x: UOp, y: UOp, z: UOp) -> UOp:
    return build.add(build.mul(x, y), z)


def sum_difference(x: UOp, y: UOp) -> UOp:
    return build.sub(build.add(x, y), y)


def sum_of_three(x: UOp, y: UOp, z: UOp) -> UOp:
    return build.add(build.add(x, y), z)


@pytest.mark.parametrize(
    ("change", "expression", "inputs", "right", "wrong"),
    [
        (contract, product_sum, (1 + 2**-13, 1 - 2**-13, -1.0), 0.0, -(2.0**-26)),
        (reassociate, sum_difference, (2**-13, 2.0**20), 0.0, 2**-13),
        (reassociate, sum_of_three, (1.0, 2.0**30, -(2.0**30)), 0.0, 1.0),
        (reassociate, lambda x: build.mul(x, 0.0), (math.inf,), math.nan, 0.0),
    ],
)
def test_products_are_contracted_and_sums_reassociated(
    change: Change,
    expression: Callable[..., UOp],
    inputs: tuple[float, ...],
    right: float,
    wrong: float,
) -> None:
    values = [values_after(edit, expression, *inputs) for edit in (lambda node: (node,), change)]
    assert np.array_equal(values, [right, wrong], equal_nan=True)


def test_an_edit_changes_every_match_and_no_text_without_a_tile() -> None:
    swapped = FAULTY_RENDERINGS["SwappedGroupDimensions"]
    text = "int a = get_group_id(0), b = get_group_id(1), c = get_local_id(0);\n"
    wrong = "int a = get_group_id(1 - 0), b = get_group_id(1 - 1), c = get_local_id(0);\n"
    assert swapped.edited(text) == wrong
    tiles = [faulty for name, faulty in FAULTY_RENDERINGS.items() if name.startswith("Tile")]
    plain = "float v1 = data1[v0];\nint v2 = v1 % 16;\nfloat4 v3 = make_float4(v1, v2, v4, v5);\n"
    assert {faulty.edited(plain) for faulty in tiles} == {plain}


# The first case, in the order of the ladder, that shows a fault: of order, and of texts.
CASES = {
    "IdleSynchronize": "memory.wait.synchronize",
    "EarlyEvents": "memory.wait.wait",
    "EarlyReads": "memory.order.copy_out_after_launch",
    "EarlyCopies": "memory.order.copy_in_after_launch",
    "LateSources": "memory.order.source_changed_after_copy_in",
    "EarlyFrees": "memory.order.free_after_launch",
    "EarlyFreesBehind": "memory.order.free_after_launch",
    "EarlyReuse": "memory.order.free_after_launch",
    "TwoQueues": "memory.order.interleaved:1",
    "KernelQueues": "memory.order.interleaved:2",
    "LostReaders": "memory.order.launch_over_input",
    "SharedArguments": "memory.order.launch_after_launch",
    "LostInfinity": "kernel.store.constant.float32.value:6",
    "ShortDecimals": "kernel.store.constant.float32.value:4",
    "SwappedBuffers": "kernel.program.limit.buffers.all",
    "OffsetOfTheFirst": "memory.launch.float32.middle:1",
    "SwappedGroupDimensions": "kernel.view.permute.float32.read.5x7",
    "LogicalShift": "isa.binary.shr.int32.special:0",
    "NanEqualsItself": "isa.binary.cmpne.float32.special:0",
    "UnsignedBytes": "isa.binary.cmplt.int8.special:0",
    "RoundedCast": "isa.cast.float32.to_int8.special:0",
    "ConvertedBits": "kernel.one_alu.add.float16.size:1",
    "LostLoadGate": "memory.gate.load.float32.size:2",
    "LoopOnceMore": "kernel.program.gate.load",
    "NoBarrier": "kernel.program.group.reverse:8",
    "WgslClearedNeighbours": "kernel.store.constant.int8.size:1",
    "WgslOtherVariable": "kernel.store.constant.int8.size:1",
    "WgslSwappedSelect": "kernel.one_alu.add.bfloat16.size:1",
    "WgslShortGroup": "kernel.program.item.4x1x1",
    "CudaProductWithReciprocal": "isa.binary.fdiv.float32.edge:0",
    "CudaFirstVector": "kernel.program.vector2.float32.add",
    "HipRoundedTwice": "isa.cast.float64.to_bfloat16.special:8",
    "HipWrappedLanes": "kernel.program.vector16.float32.add",
    "MetalFastRoot": "isa.unary.sqrt.float32.special:1",
    "TileLostAccumulator": "kernel.program.wmma.nvidia_m16n8k8_float16_float32.product",
    "TileOtherType": "kernel.program.wmma.nvidia_m16n8k16_bfloat16_float32.product",
    "TileTruncatedInputs": "kernel.program.wmma.nvidia_m16n8k8_tf32_float32.rounded",
    "TileTransposedB": "kernel.program.wmma.cdna3_m16n16k16_float16_float32.product",
    "TileSwappedOperands": "kernel.program.wmma.apple_m8n8k8_float32_float32.product",
}


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_fails_the_case_that_asks_for_it(name: str) -> None:
    faulty = ALL_FAULTY[name]
    available = Device.availability(faulty.healthy)
    if not available.works:
        pytest.skip(f"{faulty.healthy}: {available.reason}")
    assert is_right(faulty.healthy, CASES[name])
    assert not is_right(faulty.device, CASES[name])


def test_every_edit_of_a_text_has_its_case() -> None:
    assert set(FAULTY_RENDERINGS) <= set(CASES)


@pytest.mark.long
@pytest.mark.parametrize("name", ["Queueing", "Threaded"])
def test_a_device_that_launches_late_and_waits_rightly_is_right(name: str) -> None:
    for case in catalogue.cases(query="memory.order,memory.wait,system.transfer.order"):
        assert is_right(HEALTHY[name].device, case.id), case.id


@pytest.mark.long
def test_a_device_that_needs_long_for_each_launch_is_right_and_is_given_more_work() -> None:
    device = DeviceUnderTest(HEALTHY["Starting"].device)
    for case in catalogue.cases(query="memory.wait"):
        assert is_right(device.name, case.id), case.id
    assert long_work(device.name).iterations > FIRST_ITERATIONS


def test_a_synchronize_that_does_not_wait_shows_however_busy_the_host_was_before() -> None:
    device = DeviceUnderTest(FAULTY_DEVICES["IdleSynchronize"].device)
    work = replace(long_work(device.name), seconds=1000.0)
    assert not WAITS["synchronize"](device, work).passed
    healthy = DeviceUnderTest(HEALTHY["Queueing"].device)
    work = replace(long_work(healthy.name), seconds=LONG_SECONDS)
    assert WAITS["synchronize"](healthy, work).passed


@pytest.mark.long
def test_an_empty_reduce_hides_nothing(tmp_path: Path) -> None:
    query = (
        "memory.copy.uint8,kernel.store.constant.*int32,kernel.one_alu,kernel.elements.float32,"
        "kernel.program.loop,kernel.reduce.add.float32,tensor.sum.float32"
    )
    settings = Settings(FAULTY_DEVICES["EmptyLoop"].device, tmp_path, jobs=1)
    report = conform(Request(settings, query=query)).report
    broken = {case.id for case in report.cases if case.status.is_broken}
    assert broken == {"kernel.program.loop.empty"}
    assert report.counts[Status.SUPPRESSED] == 0
    assert report.rungs[Rung.TENSOR].counts[Status.PASS] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("CopiesOfWords", "memory.copy.uint8,memory.many"),
        ("UnsignedGatedLoads", "memory.gate,isa.cast.int8.to_int32,kernel.view.pad.int32"),
        ("ConstantSeconds", "memory.launch,memory.wait,kernel.program.loop"),
        ("WrongItemIndex", "kernel.store.constant.int32,kernel.program.item,kernel.program.loop"),
    ],
)
def test_a_fault_shows_on_its_rung_and_not_below(name: str, query: str) -> None:
    result = score(only=name, query=query, jobs=2)
    assert result.is_perfect, result.text()
    assert "caught 1 of 1, 1 of 1 on the right rung" in result.text()


# Devices of one part share the runs of what they are made from.
PARTS = 10
BY_HEALTHY = sorted(ALL_FAULTY, key=lambda name: ALL_FAULTY[name].healthy)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_each_faulty_device_is_caught_on_its_rung(part: int) -> None:
    size = -(-len(BY_HEALTHY) // PARTS)
    names = BY_HEALTHY[part * size :][:size]
    result = score(jobs=2, devices={name: ALL_FAULTY[name] for name in names})
    assert result.is_perfect, result.text()
    assert result.skipped or [caught.faulty.name for caught in result.caught] == names


def test_each_device_is_named_before_it_runs_and_an_escape_is_no_perfect_score() -> None:
    # Copies alone cannot show what is wrong with multiplication.
    lines: list[str] = []
    result = score(only="Tf32Rounding", query="memory.copy.uint8", jobs=1, say=lines.append)
    assert lines == ["PYTHON, the healthy device of 1 faulty ones", "1 of 1: Tf32Rounding"]
    assert not result.is_perfect
    assert "ESCAPES" in result.text()


def test_an_unknown_faulty_device_is_refused() -> None:
    with pytest.raises(UserError, match="unknown device 'Unicorn': accepted are MissingCore, "):
        score(only="Unicorn")
