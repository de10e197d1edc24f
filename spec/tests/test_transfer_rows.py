"""The rows of copies between two devices: right devices pass, each fault of a copy is seen."""

from __future__ import annotations

import pytest
from run_rows import failed

from tinyref.contract import Backend
from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.host.memory import HostAllocator
from tinyref.runtimes.python import PythonBackend
from tinyref_spec.case import Measurement
from tinyref_spec.catalogue import find
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.system import transfers

HERE = "test_transfer_rows"
FAULTY = "tinyref_conformance.faulty"
# One row of each kind, in the type that shows most.
PLAIN = ("bytes.uint8", "view.uint8", "order", "tensor.uint8", "float32")


def rows_that_fail(device: str) -> set[str]:
    found = {case for name in PLAIN for case in failed(f"system.transfer.{name}", device)}
    return {name for name in PLAIN for case in found if case.startswith(f"system.transfer.{name}")}


@pytest.mark.long
@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
def test_right_devices_pass(device: str) -> None:
    assert failed("system.transfer", device, "uint8") == []
    assert failed("system.transfer.float32", device) == []
    assert failed("system.transfer.order", device) == []


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("HastyTransfer", {"order"}),
        ("RoundedTransferOffset", {"view.uint8"}),
        ("RoundedTransferSize", {"bytes.uint8", "view.uint8"}),
        ("EarlyTransfer", {"order", "tensor.uint8", "float32"}),
        # What was copied for a kernel alone is memory of the plan, which others use next.
        ("LateTransfer", {"order", "tensor.uint8", "float32"}),
        ("NeighbourTransfer", set(PLAIN)),
    ],
)
def test_a_fault_of_copies_is_seen_by_these_rows(name: str, rows: set[str]) -> None:
    assert rows_that_fail(f"{FAULTY}:{name}") == rows


@pytest.mark.parametrize("case", ["int32.ring:2", "float32.ring.replay:3"])
def test_a_lost_wait_for_another_device_is_seen_by_a_ring(case: str) -> None:
    found = find(f"system.shard.ring.{case}")
    assert not found.run(DeviceUnderTest(f"{FAULTY}:LostEvents")).passed
    assert found.run(DeviceUnderTest("PYTHON")).passed


@pytest.mark.long
@pytest.mark.parametrize("case", ["int32.ring:2", "int32.ring.replay:4", "float32.ring.replay:3"])
@pytest.mark.parametrize("second", [None, "CPU"])
def test_a_ring_of_emulated_devices_and_of_two_kinds(case: str, second: str | None) -> None:
    found = find(f"system.shard.ring.{case}").run(DeviceUnderTest("GPU_EMU", second=second))
    assert found.passed, found.message


def test_several_devices_are_those_that_there_are() -> None:
    assert DeviceUnderTest("CPU").several(4) == ("CPU", "CPU:1", "CPU:2", "CPU:3")
    assert DeviceUnderTest("CPU:3").several(2) == ("CPU:3", "CPU:4")
    assert DeviceUnderTest("CPU", second="CPU:7").several(3) == ("CPU", "CPU:7", "PYTHON:1")
    only_two = f"{HERE}:OnlyTwo"
    assert DeviceUnderTest(only_two).several(4) == (only_two, f"{only_two}:1", *REFERENCES)


REFERENCES = ("PYTHON:1", "PYTHON:2")


class OnlyTwo(PythonBackend):
    """A machine with two of it."""

    @classmethod
    def opened(cls, suffix: str) -> Backend:
        if int(suffix or 0) > 1:
            raise DeviceError("OnlyTwo", f"there is no device {suffix}: there are 2")
        return super().opened(suffix)


@pytest.mark.long
def test_all_below_is_blind_to_faults_between_devices() -> None:
    assert failed("memory.copy.uint8,memory.view.uint8", f"{FAULTY}:NeighbourTransfer") == []


class ByTheHost(HostAllocator):
    """Has no way of its own to another device."""

    transfer = None  # type: ignore[assignment]


class Single(PythonBackend):
    """There is one of it, and copies go by the host."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        assert not index, "there is one of it"
        self._allocator = ByTheHost(self.name)

    @property
    def capabilities(self):  # type: ignore[no-untyped-def,override]
        from dataclasses import replace

        return replace(super().capabilities, is_single=True)


def test_a_device_that_is_single_copies_to_the_reference() -> None:
    assert DeviceUnderTest(f"{HERE}:Single").partners == ("PYTHON",)
    assert failed("system.transfer.bytes.int32", f"{HERE}:Single") == []


@pytest.mark.parametrize(
    ("name", "second", "partners"),
    [
        ("CPU", None, ("CPU:1", "PYTHON")),
        ("CPU:3", None, ("CPU:4", "PYTHON")),
        ("PYTHON", None, ("PYTHON:1",)),
        ("CPU", "PYTHON", ("PYTHON",)),
        ("CPU", "CPU:7", ("CPU:7",)),
        (f"{FAULTY}:LateTransfer", None, (f"{FAULTY}:LateTransfer:1", "PYTHON")),
    ],
)
def test_partners(name: str, second: str | None, partners: tuple[str, ...]) -> None:
    device = DeviceUnderTest(name, second=second)
    assert device.partners == partners
    assert device.on_rung(transfers.Rung.JIT).second == partners[0]


def test_both_ways_are_measured_and_the_first_failure_is_named() -> None:
    asked = []

    def one_way(origin: str, target: str) -> Measurement:
        asked.append((origin, target))
        return Measurement(origin != "PYTHON", "wrong", compared=3)

    found = transfers._both_ways(one_way, "case", DeviceUnderTest("CPU"))
    ways = [("CPU", "CPU:1"), ("CPU:1", "CPU"), ("CPU", "PYTHON"), ("PYTHON", "CPU")]
    assert asked == ways
    assert not found.passed
    assert found.message == "from PYTHON to CPU: wrong"
    assert found.compared == 13


class Counting(HostAllocator):
    """Counts the copies that it makes itself."""

    copies = 0

    def transfer(self, target, source, origin):  # type: ignore[no-untyped-def]
        self.copies += 1
        assert type(origin) is type(self)
        assert origin is not self
        super().transfer(target, source, origin)


class Direct(PythonBackend):
    """Copies between two of it by its allocator."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = Counting(self.name)


def test_an_allocator_that_transfers_is_asked_between_its_own_devices_alone() -> None:
    first, second = f"{HERE}:Direct", f"{HERE}:Direct:1"
    source = Buffer(first, 4, dtypes.uint8).copy_in(memoryview(b"abcd"))
    there = Buffer(second, 4, dtypes.uint8)
    assert bytes(there.copy_from(source).copy_out()) == b"abcd"
    assert Device[second].allocator.copies == 1  # type: ignore[attr-defined]
    assert bytes(Buffer("PYTHON", 4, dtypes.uint8).copy_from(source).copy_out()) == b"abcd"
    assert bytes(there.copy_from(Buffer("CPU", 4, dtypes.uint8).copy_in(memoryview(b"efgh")))
                 .copy_out()) == b"efgh"  # fmt: skip
    assert Device[second].allocator.copies == 1  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="copy_from: got 4 bytes, the buffer has 3"):
        there.view(0, 3, dtypes.uint8).copy_from(source)
    assert issubclass(Direct, Backend)
