"""The suite is scored by devices that are broken on purpose."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinyref.device import Device
from tinyref.errors import TinyrefError, UserError
from tinyref_conformance.faulty.registry import (
    ALL_FAULTY,
    FAULTY_DEVICES,
    HEALTHY,
)
from tinyref_conformance.faulty.score import score
from tinyref_spec import catalogue
from tinyref_spec.clauses import clauses
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.memory.order import LONG_SECONDS, WAITS, long_work


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
    """Skip functions of Tensor and layers: they use the ops below, so none breaks alone."""
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


# The first case, in the order of the ladder, that shows a fault of order or of a text.
CASES = {
    "IdleSynchronize": "memory.wait.synchronize",
    "EarlyEvents": "memory.wait.wait",
    "EarlyReads": "memory.order.copy_out_after_launch",
    "LateSources": "memory.order.source_changed_after_copy_in",
    "TwoQueues": "memory.order.interleaved:1",
    "LostReaders": "memory.order.launch_over_input",
    "SharedArguments": "memory.order.launch_after_launch",
    "SwappedBuffers": "kernel.program.limit.buffers.all",
    "OffsetOfTheFirst": "memory.launch.float32.middle:1",
    "SwappedGroupDimensions": "kernel.view.permute.float32.read.5x7",
    "NanEqualsItself": "isa.binary.cmpne.float32.special:0",
    "LostLoadGate": "memory.gate.load.float32.size:2",
    "NoBarrier": "kernel.program.group.reverse:8",
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


@pytest.mark.long
@pytest.mark.parametrize("name", ["Queueing", "Threaded"])
def test_a_device_that_launches_late_and_waits_rightly_is_right(name: str) -> None:
    for case in catalogue.cases(query="memory.order,memory.wait,system.transfer.order"):
        assert is_right(HEALTHY[name].device, case.id), case.id


def test_a_synchronize_that_does_not_wait_shows_however_busy_the_host_was_before() -> None:
    device = DeviceUnderTest(FAULTY_DEVICES["IdleSynchronize"].device)
    work = replace(long_work(device.name), seconds=1000.0)
    assert not WAITS["synchronize"](device, work).passed
    healthy = DeviceUnderTest(HEALTHY["Queueing"].device)
    work = replace(long_work(healthy.name), seconds=LONG_SECONDS)
    assert WAITS["synchronize"](healthy, work).passed


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
    faulty = replace(FAULTY_DEVICES["Tf32Rounding"], query="memory.copy.uint8")
    result = score(jobs=1, devices={faulty.name: faulty}, say=lines.append)
    assert lines == ["PYTHON, the healthy device of 1 faulty ones", "1 of 1: Tf32Rounding"]
    assert not result.is_perfect
    assert "ESCAPES" in result.text()


def test_an_unknown_faulty_device_is_refused() -> None:
    with pytest.raises(UserError, match="unknown device 'Unicorn': accepted are MissingCore, "):
        score(only="Unicorn")
