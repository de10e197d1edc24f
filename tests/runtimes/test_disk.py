"""The DISK device: a file as a tensor of bytes, views of it, and files that are written whole."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from tinyref import Tensor, TinyJit, Variable, dtypes
from tinyref.device import Buffer, Device, memory
from tinyref.errors import DeviceError, UserError
from tinyref.lazy.buffers import buffer_of
from tinyref.runtimes.data_only import replace_file
from tinyref.tensor.creation import base_of
from tinyref.uops.ops import Ops

BYTES = np.arange(240, dtype=np.uint8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "Some Bytes:1"
    file.write_bytes(BYTES.tobytes())
    return file


def backing(tensor: Tensor) -> Buffer:
    node = base_of(tensor.node)
    assert node.op is Ops.BUFFER, "no view of memory"
    return buffer_of(node)


# --- names --------------------------------------------------------------------------------------


def test_the_path_keeps_its_case_and_becomes_absolute(path, monkeypatch):
    assert Device.canonical(f"disk:{path}") == f"DISK:{path}"
    monkeypatch.chdir(path.parent)
    assert Device.canonical("DISK:a/../Some Bytes:1") == f"DISK:{path}"
    monkeypatch.chdir("/")
    assert Device.canonical("DISK:Some") == "DISK:/Some", "names are not kept for another folder"
    assert Device[f"disk:{path}"] is Device[f"DISK:{path.parent}/./{path.name}"]
    assert Device[f"DISK:{path}"] is not Device[f"DISK:{path}2"]


def test_a_file_needs_a_name():
    assert Device.availability("DISK").works
    with pytest.raises(UserError, match="DISK is a file: name it"):
        Tensor([1, 2], device="DISK")
    with pytest.raises(UserError, match=r"write DISK:\./3"):
        Tensor([1, 2], device="DISK:3")
    with pytest.raises(UserError, match="the path is empty: accepted is the path of a file"):
        Device.canonical("DISK:")


# --- reading ------------------------------------------------------------------------------------


def test_a_path_is_a_tensor_of_bytes(path):
    tensor = Tensor(path)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((240,), dtypes.uint8, f"DISK:{path}")
    assert np.array_equal(tensor.numpy(), BYTES)
    assert np.array_equal(Tensor(path, dtype="int16").numpy(), BYTES.view(np.int16))
    assert np.array_equal(Tensor(path, device="CPU").numpy(), BYTES)
    assert Tensor(path, device="CPU").device == "CPU"
    (path.parent / "none").touch()
    empty = Tensor(path.parent / "none")
    assert (empty.shape, empty.to("CPU").tolist()) == ((0,), [])
    assert np.array_equal(
        Tensor.empty(20, dtype="int32", device=f"DISK:{path}").numpy(), BYTES[:80].view(np.int32)
    )


def test_slices_reshapes_and_bitcasts_are_views(path):
    tensor = Tensor(path)
    whole = backing(tensor)
    part = tensor[8:48].reshape(5, 8)[1:3].bitcast(dtypes.float16)
    assert (part.shape, part.dtype) == ((2, 4), dtypes.float16)
    buffer = backing(part)
    assert buffer.base is whole
    assert (buffer.offset, buffer.nbytes) == (16, 16)
    assert np.array_equal(part.numpy(), BYTES[16:32].view(np.float16).reshape(2, 4))
    back = part.bitcast(dtypes.uint8)
    assert back.shape == (2, 8)
    assert np.array_equal(back.numpy(), BYTES[16:32].reshape(2, 8))
    # At an offset that no wide element of memory could have.
    assert np.array_equal(tensor[3:11].bitcast("int64").numpy(), BYTES[3:11].view(np.int64))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[5],
        lambda x: x[2:2],
        lambda x: x[::-1],
        lambda x: x[10:200:7],
        lambda x: x.reshape(10, 24)[3, 5:20],
        lambda x: x.reshape(10, 24)[:, 5:20],
        lambda x: x.reshape(10, 24)[2:5, 4:20:2].T,
        lambda x: x.reshape(10, 1, 24)[4:5, :, -3:],
    ],
)
@pytest.mark.parametrize("name", ["DISK", "NPY"])
def test_views_copy_as_numpy_views(path, view, name):
    tensor = Tensor(path) if name == "DISK" else Tensor(BYTES, device="NPY")
    expected = view(BYTES)
    assert np.array_equal(view(tensor).to("CPU").numpy(), expected)
    assert np.array_equal(view(tensor).numpy(), expected)
    assert np.array_equal((view(tensor).to("CPU").cast("int32") + 1).numpy(), expected + 1.0)


def test_only_the_part_that_is_needed_is_copied(path, monkeypatch):
    copied: list[int] = []
    allocator = type(Device[f"DISK:{path}"].allocator)
    in_place = allocator.in_place

    def counted(self, handle):
        copied.append(handle.nbytes)
        return in_place(self, handle)

    monkeypatch.setattr(allocator, "in_place", counted)
    tensor = Tensor(path).reshape(10, 24)
    tensor[3:5].to("CPU").realize()
    assert copied == [48]
    tensor[3:5, 1:2].transpose(0, 1).to("CPU").realize()
    assert copied == [48, 48], "rows are the smallest range that holds a part of them"
    tensor[7, 3:5].to("CPU").realize()
    assert copied == [48, 48, 2]


@pytest.mark.long
def test_files_are_closed_with_their_tensors_and_are_no_memory_in_use(path):
    # What earlier tests left in cycles goes first.
    gc.collect()
    descriptors = Path("/proc/self/fd")
    opened, used = len(list(descriptors.iterdir())), sum(memory.now.values())
    tensors = [Tensor(path) for _ in range(5)]
    assert [tensor[:2].tolist() for tensor in tensors] == [[0, 1]] * 5
    assert len(list(descriptors.iterdir())) == opened + 5
    del tensors
    gc.collect()
    assert len(list(descriptors.iterdir())) == opened
    assert sum(memory.now.values()) == used


def test_nothing_is_computed_on_a_file(path, monkeypatch):
    tensor = Tensor(path)
    with pytest.raises(UserError, match=r"copy the elements with \.to\('CPU'\), and compute there"):
        (tensor + 1).numpy()
    with pytest.raises(UserError, match="runs no kernels"):
        tensor[::2].contiguous().realize()
    with pytest.raises(UserError, match=r"\+=: device DISK.* only holds data and computes"):
        tensor += 1
    assert np.array_equal(tensor.numpy(), BYTES), "the tensor is as it was"
    assert path.read_bytes() == BYTES.tobytes()
    monkeypatch.setenv("TINYREF_DEVICE", f"disk:{path}")
    assert Device.default == Device.canonical(None) == f"DISK:{path}"
    with pytest.raises(UserError, match=r"runs no kernels: copy the elements with \.to\('CPU'\)"):
        (Tensor(path) + 1).numpy()


def test_a_captured_function_reads_other_parts(path):
    step = TinyJit(lambda part: (part.to("CPU") + 1).realize())
    rows = Tensor(path).reshape(10, 24)
    for row in range(4):
        assert np.array_equal(step(rows[row]).numpy(), BYTES.reshape(10, 24)[row] + 1)


def test_what_cannot_be_read_is_said(tmp_path, path):
    with pytest.raises(DeviceError, match=r"missing: cannot be read: No such file"):
        Tensor(tmp_path / "missing")
    with pytest.raises(DeviceError, match="is not a regular file"):
        Tensor(tmp_path)
    with pytest.raises(DeviceError, match="is not a regular file"):
        Tensor(Path("/dev/zero"))
    with pytest.raises(DeviceError, match="null"):
        Tensor(Path("a\0b"))
    (tmp_path / "odd").write_bytes(b"123")
    with pytest.raises(UserError, match="no whole elements of int64"):
        Tensor(tmp_path / "odd", dtype="int64")
    with pytest.raises(UserError, match="the last axis must fill whole elements of 4 bytes"):
        Tensor(path)[:6].bitcast("int32")
    with pytest.raises(DeviceError, match="has 240 bytes, 400 are needed: truncated"):
        Tensor.empty(100, device=f"DISK:{path}").numpy()


def test_a_file_that_is_cut_is_an_error_and_no_crash(path):
    tensor = Tensor(path)
    os.truncate(path, 100)
    for read in (tensor[200:].numpy, tensor[200:].to("CPU").numpy):
        with pytest.raises(DeviceError, match="has 100 bytes, 240 are needed: truncated"):
            read()


def test_a_file_that_is_replaced_keeps_its_bytes_for_open_tensors(path):
    tensor = Tensor(path)
    replace_file(str(path), [b"new"])
    assert np.array_equal(tensor.numpy(), BYTES)
    assert Tensor(path).numpy().tobytes() == b"new"


# --- writing ------------------------------------------------------------------------------------


def test_a_copy_to_a_file_writes_it(tmp_path):
    target = tmp_path / "w"
    moved = (Tensor([1.0, 2.0]) + 1).to(f"DISK:{target}")
    assert not target.exists()
    moved.realize()
    assert target.read_bytes() == np.float32([2, 3]).tobytes()
    assert moved.tolist() == [2.0, 3.0]
    assert Tensor([7, 8], device=f"DISK:{target}", dtype="int16").tolist() == [7, 8]
    assert target.read_bytes() == np.int16([7, 8]).tobytes()
    assert moved.tolist() == [2.0, 3.0], "a tensor keeps the file that it read"
    assert os.listdir(tmp_path) == ["w"]


MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)
COMPUTED = {
    "constant": (lambda: Tensor.ones(4), np.ones(4, np.float32)),
    "number": (lambda: Tensor(7), np.int32(7)),
    "range": (lambda: Tensor.arange(4), np.arange(4, dtype=np.int32)),
    "contiguous": (lambda: Tensor.full((2, 2), 3).contiguous(), np.full((2, 2), 3, np.int32)),
    "part of a constant": (lambda: Tensor.ones(4, 4)[:2], np.ones((2, 4), np.float32)),
    "kernel": (lambda: Tensor(MATRIX) * 2 + 1, MATRIX * 2 + 1),
    "memory": (lambda: Tensor(MATRIX).realize(), MATRIX),
    "transposed": (lambda: Tensor(MATRIX).T, MATRIX.T),
    "slice": (lambda: Tensor(MATRIX)[:, ::-2], MATRIX[:, ::-2]),
    "expanded": (
        lambda: Tensor(MATRIX).reshape(2, 1, 3).expand(2, 2, 3),
        np.repeat(MATRIX[:, None], 2, axis=1),
    ),
    "padded": (lambda: Tensor(MATRIX).pad((1, 0)), np.pad(MATRIX, ((0, 0), (1, 0)))),
    "bits": (lambda: Tensor(MATRIX).bitcast("float32"), MATRIX.view(np.float32)),
    "symbolic": (lambda: Tensor(MATRIX)[:, : Variable("n", 1, 9).bind(2)] + 1, MATRIX[:, :2] + 1),
    "two devices": (lambda: Tensor(MATRIX).shard(("CPU:1", "CPU:2"), 0), MATRIX),
    "on PYTHON": (lambda: Tensor(MATRIX, device="PYTHON") + 1, MATRIX + 1),
    "nothing": (lambda: Tensor.zeros(0, 3), np.zeros((0, 3), np.float32)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_whatever_is_computed_is_written(name, tmp_path):
    make, expected = COMPUTED[name]
    target = tmp_path / "w"
    moved = make().to(f"DISK:{target}")
    assert not target.exists()
    moved.realize()
    assert target.read_bytes() == np.ascontiguousarray(expected).tobytes()
    assert np.array_equal(moved.numpy(), expected)
    assert moved.device == f"DISK:{target}"
    target.write_bytes(b"other")
    moved.realize()
    assert target.read_bytes() == b"other", "what is written is not written again"
    assert np.array_equal(make().to("NPY").realize().numpy(), expected)


def test_a_captured_function_writes_its_file_each_time(tmp_path):
    step = TinyJit(lambda x: (x * 2).to(f"DISK:{tmp_path / 'w'}").realize())
    for number in range(4):
        actual = step(Tensor([number, 5]))
        assert (tmp_path / "w").read_bytes() == np.int32([2 * number, 10]).tobytes()
        assert actual.tolist() == [2 * number, 10]


def test_a_file_on_the_way_is_written_too(tmp_path):
    first, second = (tmp_path / name for name in "ab")
    moved = (Tensor([1, 2]) + 1).to(f"DISK:{first}").to(f"DISK:{second}").to("CPU") + 1
    assert moved.tolist() == [3, 4]
    assert first.read_bytes() == second.read_bytes() == np.int32([2, 3]).tobytes()


def test_a_constant_like_a_file_leaves_the_file_alone(path):
    tensor = Tensor(path)
    for same in (tensor.zeros_like(), Tensor.ones(4, device=tensor.device), tensor[2:2]):
        same.realize()
    with pytest.raises(UserError, match=r"runs no kernels.*\.to\('DISK"):
        Tensor.arange(4, device=tensor.device).realize()
    assert path.read_bytes() == BYTES.tobytes()


def test_a_file_that_is_read_only_stays(path, tmp_path):
    path.chmod(0o444)
    with pytest.raises(DeviceError, match="cannot be written: the file is read-only"):
        Tensor([1, 2]).to(f"DISK:{path}").realize()
    assert path.read_bytes() == BYTES.tobytes()
    path.chmod(0o640)
    Tensor([1, 2]).to(f"DISK:{path}").realize()
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_exists_is_replaced_or_left(path, tmp_path):
    def pieces():
        yield b"some"
        raise UserError("the source broke off")

    with pytest.raises(UserError, match="broke off"):
        replace_file(str(path), pieces())
    assert path.read_bytes() == BYTES.tobytes()
    assert os.listdir(tmp_path) == [path.name]


def test_links_stay_and_special_files_are_refused(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    replace_file(str(link), [b"12", b"3"])
    assert link.is_symlink()
    assert path.read_bytes() == b"123"
    for special in ("/dev/null", str(tmp_path)):
        with pytest.raises(DeviceError, match="is not a regular file"):
            replace_file(special, [b""])
    with pytest.raises(DeviceError, match="cannot be written: No such file"):
        replace_file(str(tmp_path / "none" / "file"), [b""])


def test_a_part_of_a_file_is_written_in_its_place(path):
    whole, other = Tensor(path), Tensor(path)
    backing(whole[3:5].reshape(1, 2)).copy_in(memoryview(b"ab"))
    expected = bytearray(BYTES.tobytes())
    expected[3:5] = b"ab"
    assert path.read_bytes() == expected
    assert whole.numpy().tobytes() == expected
    assert np.array_equal(other.numpy(), BYTES), "another tensor keeps the file that it read"
    with pytest.raises(UserError, match="copy_in: got 3 bytes, the buffer has 2"):
        backing(whole[3:5]).copy_in(memoryview(b"abc"))


# --- assigning ----------------------------------------------------------------------------------

ASSIGNED = {
    "part": lambda x, v: x.__setitem__(slice(3, 7), v[:4]),
    "element": lambda x, v: x.__setitem__(5, v[0]),
    "number": lambda x, v: x.__setitem__(slice(5, 9), 7),
    "list": lambda x, v: x.__setitem__(slice(5, 7), [7, 8]),
    "steps": lambda x, v: x.__setitem__(slice(3, 30, 5), v[:6]),
    "backwards": lambda x, v: x.__setitem__(slice(None, None, -2), v[:120]),
    "column": lambda x, v: x.reshape(10, 24).__setitem__((slice(2, 5), 3), v[:3]),
    "rows": lambda x, v: x.reshape(10, 24)[2:5].__setitem__(slice(1, 3), v[:24]),
    "places": lambda x, v: x.__setitem__([7, 3, 200], v[:3]),
    "all": lambda x, v: x.__setitem__(slice(None), v),
}


@pytest.mark.parametrize("device", ["DISK", "NPY"])
@pytest.mark.parametrize("name", ASSIGNED)
def test_assignments_are_those_of_numpy(name, device, path):
    values = np.random.default_rng(1).integers(0, 256, 240).astype(np.uint8)
    whole = tensor = Tensor(path) if device == "DISK" else Tensor(BYTES, device="NPY")
    expected = BYTES.copy()
    ASSIGNED[name](tensor, Tensor(values))
    ASSIGNED[name](expected, values)
    assert np.array_equal(whole.numpy(), expected)
    if device == "DISK":
        assert path.read_bytes() == expected.tobytes()
        assert os.listdir(path.parent) == [path.name]


def test_views_of_a_file_are_assigned_to(path):
    tensor = Tensor(path)
    tensor[4:8].assign(Tensor([1, 2, 3, 4], dtype="uint8") + 5)
    tensor[8:16].bitcast("float32").assign([0.5, -2.0])
    tensor[16:24].bitcast("int32")[1] = -5
    tensor.reshape(10, 24).T[20:22].assign(9)
    expected = BYTES.copy()
    expected[4:8] = [6, 7, 8, 9]
    expected[8:16] = np.float32([0.5, -2]).view(np.uint8)
    expected[20:24] = [251, 255, 255, 255]
    expected.reshape(10, 24).T[20:22] = 9
    assert np.array_equal(tensor.numpy(), expected)
    assert path.read_bytes() == expected.tobytes()
    assert np.array_equal(Tensor(path).numpy(), expected)


def test_a_copy_to_a_file_is_assigned_to_before_it_is_computed(tmp_path):
    source = Tensor([1, 2, 3, 4])
    whole = source.to(f"DISK:{tmp_path / 'whole'}")
    whole.assign(7)
    assert np.fromfile(tmp_path / "whole", np.int32).tolist() == [7, 7, 7, 7]
    part = source.to(f"DISK:{tmp_path / 'part'}")
    behind, reversed_part = part[2:], part[::-2]
    reversed_part.assign(Tensor([8, 9]))
    part[0] = 5
    assert np.fromfile(tmp_path / "part", np.int32).tolist() == [5, 9, 3, 8]
    assert [behind.tolist(), reversed_part.tolist()] == [[3, 8], [8, 9]]
    assert source.tolist() == [1, 2, 3, 4]


def test_a_part_of_a_copy_to_a_file_is_computed_with_all_of_it(tmp_path):
    """Guard a separate part, which would be computed on the file, and was refused."""
    source = Tensor([1, 2, 3, 4]).realize()
    part = source.to(f"DISK:{tmp_path / 'first'}")[1:3]
    assert part.realize().tolist() == [2, 3]
    stored = source.to(f"DISK:{tmp_path / 'second'}")[2:0:-1]
    source.assign(source + 10).realize()
    assert (stored.tolist(), source.tolist()) == ([3, 2], [11, 12, 13, 14])
    assert np.fromfile(tmp_path / "second", np.int32).tolist() == [1, 2, 3, 4]


def test_what_waits_for_the_old_bytes_gets_them(path):
    tensor = Tensor(path)
    sums, visible = tensor.to("CPU").cast("int32").sum(), tensor[10:12]
    tensor[10] = 255
    assert sums.item() == BYTES.sum()
    assert visible.tolist() == [255, 11], "a view shows the new bytes"


def test_a_file_is_made_of_what_is_assigned(tmp_path):
    target = tmp_path / "new"
    tensor = Tensor.empty(2, 4, dtype="int32", device=f"DISK:{target}")
    assert not target.exists()
    tensor[1, 1:3] = Tensor([7, 8])
    expected = np.int32([[0, 0, 0, 0], [0, 7, 8, 0]])
    assert target.read_bytes() == expected.tobytes()
    assert np.array_equal(tensor.numpy(), expected)
    tensor.assign(Tensor.arange(8).reshape(2, 4))
    assert target.read_bytes() == np.arange(8, dtype=np.int32).tobytes()


def test_the_rest_of_a_longer_file_stays(path):
    Tensor.empty(2, dtype="int32", device=f"DISK:{path}").assign(Tensor([1, 2]))
    expected = BYTES.copy()
    expected[:8] = np.int32([1, 2]).view(np.uint8)
    assert path.read_bytes() == expected.tobytes()
    longer = Tensor.empty(100, dtype="int32", device=f"DISK:{path}")
    with pytest.raises(DeviceError, match="has 240 bytes, 400 are needed: truncated"):
        longer[3] = 1
    assert path.read_bytes() == expected.tobytes()


def test_what_cannot_be_assigned_is_said(path, tmp_path):
    tensor = Tensor(path)
    with pytest.raises(UserError, match="the value is float32, the tensor uint8: cast"):
        tensor.assign(Tensor.ones(240))
    with pytest.raises(UserError, match="do not broadcast"):
        tensor[3:5] = Tensor([1, 2, 3], dtype="uint8")
    with pytest.raises(UserError, match="300 is outside axis 0"):
        tensor[300] = 1
    with pytest.raises(UserError, match=r"has padding, or one element of DISK.* at several"):
        tensor[:1].expand(4).assign(3)
    step = TinyJit(lambda at: tensor.__setitem__(3, at))
    step(Tensor([1]).reshape(()).cast("uint8"))
    with pytest.raises(UserError, match="is assigned to within the function"):
        step(Tensor([2]).reshape(()).cast("uint8"))
    os.truncate(path, 100)
    with pytest.raises(DeviceError, match="has 100 bytes, 240 are needed: truncated"):
        tensor[3] = 1
    path.write_bytes(BYTES.tobytes())
    path.chmod(0o444)
    with pytest.raises(DeviceError, match="cannot be written: the file is read-only"):
        Tensor(path)[3] = 1
    assert path.read_bytes() == BYTES.tobytes()


def test_an_assignment_on_a_full_disk_leaves_the_old_file(path, tmp_path, monkeypatch):
    def write(descriptor, data):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    tensor = Tensor(path)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(DeviceError, match="cannot be written: File too large"):
        tensor[3] = 9
    assert path.read_bytes() == BYTES.tobytes()
    assert os.listdir(tmp_path) == [path.name]
