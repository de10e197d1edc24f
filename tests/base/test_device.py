"""Test the registry, availability and buffers, on a device in this file."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from tinyref import config, device
from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.contract import Availability, Backend
from tinyref.device import Buffer, Device, memory
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError


class Bytes:
    """An allocator over bytearrays that counts allocations that are not yet freed."""

    def __init__(self) -> None:
        self.live = 0

    def allocate(self, nbytes: int) -> memoryview:
        self.live += 1
        return memoryview(bytearray(nbytes))

    def free(self, handle: memoryview) -> None:
        self.live -= 1

    def view(self, handle: memoryview, offset: int, nbytes: int) -> memoryview:
        return handle[offset : offset + nbytes]

    def copy_in(self, handle: memoryview, source: memoryview) -> None:
        handle[: source.nbytes] = source

    def copy_out(self, destination: memoryview, handle: memoryview) -> None:
        destination[:] = handle[: destination.nbytes]


class Toy(Backend):
    """Device with memory and without kernels."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = Bytes()

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(CORE_DTYPES, CORE_OPS)

    @property
    def allocator(self) -> Bytes:
        return self._allocator

    renderer = compiler = property(lambda self: None)

    def load(self, entry, binary):
        raise DeviceError("TOY", "runs no kernels")


class Broken(Toy):
    @classmethod
    def availability(cls) -> Availability:
        return Availability(False, "the driver libtoy.so is missing")


not_a_backend = 3


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_package", sys.modules[__name__])
    yield "toy_package:Toy"
    for name in [name for name in Device._open if name.startswith("toy_package")]:
        del Device._open[name]


def test_in_tree_backends_come_through_the_entry_points():
    assert {"CPU", "CLANG", "PYTHON", "NPY"} <= set(Device.names())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", "CPU"),
        ("CPU:0", "CPU"),
        ("cpu:1", "CPU:1"),
        ("toy_package:Toy", "toy_package:Toy"),
        ("toy_package:Toy:2", "toy_package:Toy:2"),
    ],
)
def test_names_have_one_spelling(name, expected):
    assert Device.canonical(name) == expected


@pytest.mark.parametrize("name", ["", "GPU9", ":1", "GPU9:1"])
def test_unknown_names_list_what_is_accepted(name):
    with pytest.raises((UserError, DeviceError), match=r"CLANG, CPU|does not import") as caught:
        Device.backend_class(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["CPU:", "CPU:x", "cpu:-1"])
def test_an_index_is_a_number(name):
    with pytest.raises(UserError, match="is not the number of a device"):
        Device.canonical(name)


def test_the_default_device_is_a_flag(monkeypatch):
    assert Device.default == "CPU"
    monkeypatch.setenv("TINYREF_DEVICE", "python")
    assert Device.canonical(None) == "PYTHON"
    Device.DEFAULT = "null"
    assert Device.DEFAULT == "NULL"


def test_a_class_is_opened_by_its_path_once_for_each_index(toy):
    assert Device[toy] is Device[toy + ":0"]
    assert Device[toy + ":1"] is not Device[toy]
    assert Device[toy + ":1"].index == 1


def test_what_is_missing_is_said(toy):
    with pytest.raises(DeviceError, match=r"is not available here: the driver libtoy\.so"):
        Device["toy_package:Broken"]
    with pytest.raises(UserError, match="accepted is a subclass of Backend"):
        Device.backend_class("toy_package:not_a_backend")
    assert "does not import" in Device.availability("toy_package:Missing").reason
    assert "does not import" in Device.availability("no_such_package:Thing").reason


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("raise ValueError('no licence')", "ValueError: no licence"),
    ],
)
def test_whatever_a_package_does_while_it_is_imported_is_said(source, says, tmp_path, monkeypatch):
    (tmp_path / "odd_package.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_package", raising=False)
    with pytest.raises(DeviceError, match=f"does not import: {says}"):
        Device.backend_class("odd_package:Odd")


def test_whatever_a_driver_raises_is_why_a_device_is_not_available(toy, monkeypatch):
    def broken() -> Availability:
        raise RuntimeError("no driver answers")

    monkeypatch.setattr(Device.backend_class(toy), "availability", broken)
    assert Device.availability(toy) == Availability(False, "RuntimeError: no driver answers")


@pytest.mark.long
def test_buffers_hold_bytes_and_free_them(toy):
    before = memory.now.get(toy, 0)
    buffer = Buffer(toy, 6, dtypes.int16)
    assert not buffer.is_allocated
    data = np.arange(6, dtype=np.int16)
    buffer.copy_in(memoryview(data))
    assert bytes(buffer.copy_out()) == data.tobytes()
    assert memory.now[toy] == before + 12
    part = buffer.view(4, 2, dtypes.int16).view(2, 1, dtypes.int16)
    assert bytes(part.copy_out()) == b"\x03\x00"
    del buffer
    gc.collect()
    assert Device[toy].allocator.live == 1, "a part keeps the whole alive"
    del part
    gc.collect()
    assert Device[toy].allocator.live == 0
    assert memory.now[toy] == before


def test_a_device_that_is_opened_again_leaves_nothing_behind(toy):
    buffer = Buffer(toy, 4, dtypes.float32).allocate()
    assert buffer.is_allocated
    backend = weakref.ref(Device[toy])
    del buffer, Device._open[toy]
    gc.collect()
    assert backend() is None


def test_empty_buffers_never_reach_the_allocator(toy):
    buffer = Buffer(toy, 0, dtypes.float32)
    assert buffer.copy_in(memoryview(b"")).copy_out() == b""
    assert not buffer.is_allocated


def test_buffers_refuse_what_does_not_fit(toy):
    buffer = Buffer(toy, 4, dtypes.float32)
    with pytest.raises(UserError, match="copy_in: got 12 bytes, the buffer has 16"):
        buffer.copy_in(memoryview(bytes(12)))
    with pytest.raises(UserError, match="bytes 12 to 20 are outside the buffer's 16"):
        buffer.view(12, 2, dtypes.float32)
    with pytest.raises(UserError, match="bytes -4 to 0"):
        buffer.view(-4, 1, dtypes.float32)


def test_errors_survive_a_pickle():
    import pickle

    from tinyref.errors import VerifyError

    error = pickle.loads(pickle.dumps(DeviceError("TOY", "no", "source")))
    assert (error.device, error.message, error.source) == ("TOY", "no", "source")
    broken = pickle.loads(pickle.dumps(VerifyError("ast.store.2", "%3", "float32", "int8")))
    assert str(broken) == "ast.store.2: expected float32, got int8, at %3"
    assert device.Device is Device


def test_memory_that_is_not_freed_is_warned_of():
    class Leaky:
        def free(self, handle: object) -> None:
            raise DeviceError("LEAKY", "the driver is gone")

    memory.add("LEAKY", 8)
    with pytest.warns(UserWarning, match="memory is not freed: LEAKY: the driver is gone"):
        device._free("LEAKY", Leaky(), 1, 8)
    assert memory.now["LEAKY"] == 0
    assert memory.unfreed.pop() == "memory is not freed: LEAKY: the driver is gone"


def test_handlers_of_the_program_run_before_memory_is_freed_at_exit():
    code = (
        "import atexit; from tinyref.device import Buffer, Device, dtypes;"
        "atexit.register(print, 'handler');"
        "Device['PYTHON'].allocator.free = lambda handle: print('free', len(handle));"
        "buffers = [Buffer('PYTHON', size, dtypes.uint8).allocate() for size in (4, 8)]"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output == "handler\nfree 8\nfree 4\n"


@pytest.mark.parametrize("poison", [0xA5, 0x5A])
def test_new_memory_holds_the_poison(poison):
    with config.Context(POISON=poison):
        assert Buffer("PYTHON", 3, dtypes.uint8).allocate().copy_out() == bytes([poison] * 3)
        assert Buffer("PYTHON", 0, dtypes.uint8).allocate().copy_out() == b""


def test_no_file_is_poisoned(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    with config.Context(POISON=1):
        assert Buffer(f"DISK:{path}", 3, dtypes.uint8).copy_out() == b"abc"
    assert path.read_bytes() == b"abc"
