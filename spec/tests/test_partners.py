"""The other device of a copy, and rings of emulated devices and of two kinds."""

from __future__ import annotations

import pytest

from tinyref.device import Buffer, Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes.host.memory import HostAllocator
from tinyref.runtimes.python import PythonBackend
from tinyref_spec.catalogue import find
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.system import transfers

HERE = "test_partners"
FAULTY = "tinyref_conformance.faulty"


@pytest.mark.long
@pytest.mark.parametrize("case", ["int32.ring.replay:4", "float32.ring.replay:3"])
@pytest.mark.parametrize("second", [None, "CPU"])
def test_a_ring_of_emulated_devices_and_of_two_kinds(case: str, second: str | None) -> None:
    result = find(f"system.shard.ring.{case}").run(DeviceUnderTest("GPU_EMU", second=second))
    assert result.passed, result.message


# --- the other device of a copy -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "second", "partners"),
    [
        ("CPU:3", None, ("CPU:4", "PYTHON")),
        ("PYTHON", None, ("PYTHON:1",)),
        ("CPU", "CPU:7", ("CPU:7",)),
        (f"{FAULTY}:LateTransfer", None, (f"{FAULTY}:LateTransfer:1", "PYTHON")),
    ],
)
def test_partners(name: str, second: str | None, partners: tuple[str, ...]) -> None:
    device = DeviceUnderTest(name, second=second)
    assert device.partners == partners
    assert device.on_rung(transfers.Rung.JIT).second == partners[0]


class Counting(HostAllocator):
    """Counts the copies that it makes itself."""

    copies = 0

    def transfer(self, target, source, origin):  # type: ignore[no-untyped-def]
        self.copies += 1
        assert type(origin) is type(self)
        assert origin is not self
        super().transfer(target, source, origin)


class Direct(PythonBackend):
    """A device whose allocator copies directly to another device of the class."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = Counting(self.name)


def test_an_allocator_that_transfers_is_asked_between_its_own_devices_alone() -> None:
    first, second = f"{HERE}:Direct", f"{HERE}:Direct:1"
    source = Buffer(first, 4, dtypes.uint8).copy_in(memoryview(b"abcd"))
    target = Buffer(second, 4, dtypes.uint8)
    assert bytes(target.copy_from(source).copy_out()) == b"abcd"
    assert Device[second].allocator.copies == 1  # type: ignore[attr-defined]
    assert bytes(Buffer("PYTHON", 4, dtypes.uint8).copy_from(source).copy_out()) == b"abcd"
    other = Buffer("CPU", 4, dtypes.uint8).copy_in(memoryview(b"efgh"))
    assert bytes(target.copy_from(other).copy_out()) == b"efgh"
    assert Device[second].allocator.copies == 1  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="copy_from: got 4 bytes, the buffer has 3"):
        target.view(0, 3, dtypes.uint8).copy_from(source)
