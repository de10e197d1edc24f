"""The suite is scored by devices that are broken on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.interpret import Interpreter
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import TILES
from tinyref_conformance import faulty as faulty_module
from tinyref_conformance.conform import Request, conform
from tinyref_conformance.faulty import FAULTY_DEVICES, waiting
from tinyref_conformance.faulty.arithmetic import (
    FloorDivision,
    FlushedSubnormals,
    LostNegativeZero,
    Tf32Rounding,
    TruncatedBfloat16,
    flush,
    to_tf32,
)
from tinyref_conformance.faulty.rearranged import (
    Change,
    ContractedProducts,
    contract,
    rearranged,
    reassociate,
)
from tinyref_conformance.faulty.score import Score, score
from tinyref_conformance.faulty.tiles import swap_two_lanes
from tinyref_conformance.settings import Settings
from tinyref_conformance.statuses import Status
from tinyref_spec import catalogue
from tinyref_spec.case import Measurement, Rung
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernels.named import elementwise
from tinyref_spec.memory.order import FIRST_ITERATIONS, LONG_SECONDS, WAITS, long_work

# The rungs up to the faults, in few enough rows to run all faulty devices in well under a minute.
QUERY = ",".join(
    (
        *(
            "memory.open",
            "memory.copy.uint8",
            "memory.many",
            "memory.view.uint8",
            "memory.launch",
            "memory.gate",
            "memory.bytes",
        ),
        *("memory.order", "memory.wait"),
        *(
            "kernel.together",
            "kernel.store.constant.*int32",
            "kernel.store.constant.float32",
            "kernel.one_alu.add",
        ),
        *("kernel.view.permute.float32", "kernel.view.flip.float32", "kernel.size.int32"),
        *("isa.binary.mul.float32", "isa.binary.mul.int32", "isa.binary.idiv.int32"),
        "isa.sequence",
        *("isa.unary.neg.float32", "isa.cast.float32", "isa.cast.int32.to_float32"),
        # What a square root leaves behind.
        *("isa.unary.sqrt.float32", "isa.binary.add.float32"),
        *("kernel.program.wmma.apple_*", "kernel.program.wmma.intel_m8n8*"),
        *("kernel.elements.float32", "kernel.elements.int32", "kernel.program"),
        *("kernel.reduce.add.float32", "kernel.reduce.add.int32", "kernel.opt.upcast"),
        *("tensor.add.float32", "tensor.sum.float32", "system.jit", "system.symbolic"),
        *("system.transfer.bytes.uint8", "system.transfer.view.uint8", "system.transfer.order"),
    )
)


PLAIN = "memory.copy.uint8,kernel.store.constant.*int32,kernel.one_alu,kernel.elements.float32"

# All programs but those at declared limits, which take as long as all others together.
PROGRAMS = "kernel.program.[!l]*,kernel.program.loop"
LAUNCHES = f"memory.order,memory.wait,{PROGRAMS},kernel.reduce.add.int32"

# Those that contracted products and reassociated sums fail.
SEQUENCES = "isa.sequence.product_sum,isa.sequence.sum_difference"


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def test_there_is_a_score_of_faults_and_a_sentence_for_each() -> None:
    sentences = {faulty.sentence for faulty in FAULTY_DEVICES.values()}
    assert len(sentences) == len(FAULTY_DEVICES) >= 30
    assert set(FAULTY_DEVICES) <= set(faulty_module.__all__)
    for faulty in FAULTY_DEVICES.values():
        assert Device.backend_class(faulty.device) is faulty.backend


def test_faulty_devices_declare_what_the_healthy_device_declares() -> None:
    for faulty in FAULTY_DEVICES.values():
        assert Device[faulty.device].capabilities == Device[faulty.healthy].capabilities


def test_tf32_has_ten_bits_and_rounds_to_even() -> None:
    one = 1.0
    step = 2.0**-10
    assert to_tf32(f32(one + step)).tolist() == [one + step]
    assert to_tf32(f32(one + step / 2, one + 3 * step / 2)).tolist() == [one, one + 2 * step]
    assert to_tf32(f32(math.inf, -0.0)).tolist() == [math.inf, -0.0]
    assert np.isnan(to_tf32(f32(math.nan))).all()
    wrong = Tf32Rounding.wrong[Ops.MUL]
    assert wrong(dtypes.float32, [f32(1 + 2**-12), f32(2)], [dtypes.float32] * 2).tolist() == [2]
    exact = np.array([1 + 2**-12])
    assert wrong(dtypes.float64, [exact, exact * 0 + 2], [dtypes.float64] * 2)[0] == 2 + 2**-11


def test_flushing_keeps_the_sign_and_normal_numbers() -> None:
    flushed = flush(f32(1e-40, -1e-40, 1.1754944e-38, 0.0))
    assert flushed.tolist() == [0.0, -0.0, float(f32(1.1754944e-38)[0]), 0.0]
    assert np.signbit(flushed).tolist() == [False, True, False, False]
    wrong = FlushedSubnormals.wrong[Ops.ADD]
    assert wrong(dtypes.float32, [f32(1e-40), f32(1e-40)], [dtypes.float32] * 2).tolist() == [0.0]


def test_negative_zero_is_lost() -> None:
    wrong = LostNegativeZero.wrong[Ops.NEG]
    assert not np.signbit(wrong(dtypes.float32, [f32(0.0)], [dtypes.float32])).any()
    assert wrong(dtypes.float32, [f32(2.0)], [dtypes.float32]).tolist() == [-2.0]


@pytest.mark.parametrize(
    ("x", "y", "gives"), [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (-6, 2, -3), (0, -5, 0)]
)
def test_floor_division(x: int, y: int, gives: int) -> None:
    operands = [np.array([x], np.int32), np.array([y], np.int32)]
    wrong = FloorDivision.wrong[Ops.IDIV]
    assert wrong(dtypes.int32, operands, [dtypes.int32] * 2).tolist() == [gives]


def test_a_cast_to_bfloat16_truncates() -> None:
    wrong = TruncatedBfloat16.wrong[Ops.CAST]
    found = wrong(dtypes.bfloat16, [f32(1.99999, math.inf, math.nan)], [dtypes.float32])
    assert found.dtype == ml_dtypes.bfloat16
    assert found[:2].astype(float).tolist() == [1.9921875, math.inf]
    assert np.isnan(found[2].astype(float))


def test_two_neighbours_are_swapped_and_no_other() -> None:
    tile = TILES["intel_m8n8k16_float16_float32"]
    result = np.arange(2 * 8 * 8).reshape(2, 8, 8)
    swapped = swap_two_lanes(tile, result)
    assert swapped[1, 2].tolist() == result[1, 3].tolist()
    assert swapped[1, 3].tolist() == result[1, 2].tolist()
    rest = [0, 1, 4, 5, 6, 7]
    assert (swapped[:, rest] == result[:, rest]).all()


def values_after(change: Change, expression: Callable[..., UOp], *inputs: float) -> float:
    """What an expression of float32 numbers gives once its program is rearranged."""
    ast = elementwise(expression, (dtypes.float32,) * len(inputs), 1)
    program = rearranged(compile_kernel(ast, Device["PYTHON"].capabilities), change)
    arrays = [f32(0.0), *(f32(value) for value in inputs)]
    Interpreter(program, ContractedProducts.wrong).run(arrays, {}, (1, 1, 1), (1, 1, 1))
    return float(arrays[0][0])


def kept(node: UOp) -> tuple[tuple[UOp, ...], UOp]:
    return (node,), node


def test_products_are_contracted_and_sums_reassociated() -> None:
    tiny = 2.0**-13
    dot = (lambda x, y, z: build.add(build.mul(x, y), z), 1 + tiny, 1 - tiny, -1.0)
    assert values_after(kept, *dot) == 0.0
    assert values_after(contract, *dot) == -(2.0**-26)
    lost = (lambda x, y: build.sub(build.add(x, y), y), tiny, 2.0**20)
    assert values_after(kept, *lost) == 0.0
    assert values_after(reassociate, *lost) == tiny
    order = (lambda x, y, z: build.add(build.add(x, y), z), 1.0, 2.0**30, -(2.0**30))
    assert values_after(kept, *order) == 0.0
    assert values_after(reassociate, *order) == 1.0
    zero = (lambda x: build.mul(x, 0.0), math.inf)
    assert math.isnan(values_after(kept, *zero))
    assert values_after(reassociate, *zero) == 0.0


def check(found: Score) -> None:
    assert not any(found.healthy.values())
    for caught in found.caught:
        assert caught.is_on_its_rung, found.text()


def test_each_device_is_named_before_it_runs() -> None:
    said: list[str] = []
    score(only="LowBitBools", query="memory.bytes", jobs=1, say=said.append)
    assert said == ["PYTHON, the healthy device of 1 faulty ones", "1 of 1: LowBitBools"]


@pytest.mark.slow
def test_one_faulty_device_is_caught_on_its_rung() -> None:
    found = score(only="OffByOneTail", query=QUERY, jobs=2)
    check(found)
    assert "caught 1 of 1, 1 of 1 on the right rung" in found.text()


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("CopiesOfWords", "memory.copy.uint8,memory.many"),
        ("LowBitBools", "memory.bytes,kernel.store.constant.bool,isa.binary.and.bool"),
        ("ShortOffsets", "memory.copy.uint8,memory.view.uint8"),
        ("WrappedAddresses", "kernel.store.constant.int32,kernel.elements.int32,kernel.size"),
        ("UnsignedGatedLoads", "memory.gate,isa.cast.int8.to_int32,kernel.view.pad.int32"),
    ],
)
def test_faults_of_large_and_narrow_memory_show_where_they_are_asked_for(
    name: str, query: str
) -> None:
    found = score(only=name, query=query, jobs=1)
    assert "caught 1 of 1, 1 of 1 on the right rung" in found.text()


# So many tests of them all: shards of the thorough lane are then about equally large.
PARTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_faulty_devices_are_caught_on_the_right_rungs(part: int) -> None:
    devices = dict(islice(FAULTY_DEVICES.items(), part, None, PARTS))
    found = score(query=QUERY, jobs=2, devices=devices)
    check(found)
    assert {caught.faulty.name for caught in found.caught} == set(devices)


RUNG_OF = {
    "WrongGroupIndex": "index",
    "IdleSynchronize": "loops and reduces",
    "EarlyCopies": "loops and reduces",
    "EarlyEvents": "loops and reduces",
    "LostReaders": "loops and reduces",
    "NoSeconds": "loops and reduces",
    "ConstantSeconds": "loops and reduces",
    "NegativeSeconds": "loops and reduces",
    "ContractedProducts": "every operation",
    "ReassociatedSums": "every operation",
    "ReversedVectors": "vectors",
    "EmptyLoop": "loops and reduces",
    "WrongItemIndex": "groups and barriers",
    "MissingBarrier": "groups and barriers",
}
# Those of one test share the run of the healthy device: a fault of each kind is not slow.
SHORT = ["WrongGroupIndex", "ConstantSeconds", "WrongItemIndex"]
OTHERS = [name for name in RUNG_OF if name not in SHORT]


@pytest.mark.long
@pytest.mark.parametrize(
    "names",
    [SHORT, *(pytest.param(OTHERS[part::3], marks=pytest.mark.slow) for part in range(3))],
)
def test_a_fault_of_launches_shows_on_its_rung_and_not_below(names: list[str]) -> None:
    devices = {name: FAULTY_DEVICES[name] for name in names}
    found = score(query=f"{PLAIN},{LAUNCHES},{SEQUENCES}", jobs=1, devices=devices)
    check(found)
    rungs = {caught.faulty.name: caught.rung and caught.rung.title for caught in found.caught}
    assert rungs == {name: RUNG_OF[name] for name in names}


def measured(device: str, case: str) -> Measurement:
    """What one case of the quick suite measures on a device, in this process."""
    return catalogue.find(case).run(DeviceUnderTest(device))


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("IdleSynchronize", "wait.synchronize"),
        ("EarlyEvents", "wait.wait"),
        ("EarlyReads", "order.copy_out_after_launch"),
        ("EarlyCopies", "order.copy_in_after_launch"),
        ("LateSources", "order.source_changed_after_copy_in"),
        ("EarlyFrees", "order.free_after_launch"),
        ("EarlyFreesBehind", "order.free_after_launch"),
        ("EarlyReuse", "order.free_after_launch"),
        ("TwoQueues", "order.interleaved:1"),
        ("KernelQueues", "order.interleaved:2"),
        ("LostReaders", "order.launch_over_input"),
        ("LostReaders", "order.interleaved:1"),
        ("LostReaders", "order.interleaved:2"),
        ("LostReaders", "order.interleaved:3"),
        ("SharedArguments", "order.launch_after_launch"),
    ],
)
def test_a_fault_of_order_fails_the_case_that_asks_for_it(name: str, case: str) -> None:
    assert not measured(FAULTY_DEVICES[name].device, f"memory.{case}").passed


@pytest.mark.long
@pytest.mark.parametrize("name", ["Queueing", "Threaded"])
def test_a_device_that_launches_late_and_waits_rightly_is_right(name: str) -> None:
    for row in ("memory.order", "memory.wait", "system.transfer.order"):
        for case in catalogue.cases(query=row):
            found = case.run(DeviceUnderTest(f"{waiting.__name__}:{name}"))
            assert found.passed, (case.id, found.message)


@pytest.mark.long
def test_a_device_that_needs_long_for_each_launch_is_right_and_given_work_beside_it() -> None:
    device = DeviceUnderTest(f"{waiting.__name__}:Starting")
    for case in catalogue.cases(query="memory.wait"):
        found = case.run(device)
        assert found.passed, (case.id, found.message)
    assert long_work(device.name).iterations > FIRST_ITERATIONS


def test_a_synchronize_that_does_not_wait_shows_however_busy_the_host_was_before() -> None:
    device = DeviceUnderTest(FAULTY_DEVICES["IdleSynchronize"].device)
    found = long_work(device.name)
    assert not WAITS["synchronize"](device, replace(found, seconds=1000.0)).passed
    healthy = DeviceUnderTest(f"{waiting.__name__}:Queueing")
    found = long_work(healthy.name)
    assert WAITS["synchronize"](healthy, replace(found, seconds=LONG_SECONDS)).passed


@pytest.mark.long
def test_an_empty_reduce_hides_nothing(tmp_path: Path) -> None:
    device = FAULTY_DEVICES["EmptyLoop"].device
    query = f"{PLAIN},kernel.program.loop,kernel.reduce.add.float32,tensor.sum.float32"
    report = conform(Request(Settings(device, tmp_path, jobs=1), query=query)).report
    broken = {case.id for case in report.cases if case.status.is_broken}
    assert broken == {"kernel.program.loop.empty"}
    assert report.counts[Status.SUPPRESSED] == 0
    assert report.rungs[Rung.TENSOR].counts[Status.PASS] > 0


@pytest.mark.slow
def test_an_escape_is_no_perfect_score() -> None:
    # Copies alone cannot show what is wrong with multiplication.
    found = score(only="Tf32Rounding", query="memory.copy.uint8,memory.launch", jobs=1)
    assert not found.is_perfect
    assert "ESCAPES" in found.text()


def test_an_unknown_faulty_device_is_refused() -> None:
    with pytest.raises(
        UserError, match="unknown device 'Unicorn': accepted are CopiesOfWords, ShortOffsets"
    ):
        score(only="Unicorn")
