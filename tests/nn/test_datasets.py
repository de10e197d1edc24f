"""Test MNIST and CIFAR files, as their authors describe them, and broken ones."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tinyref import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.nn.datasets import cifar10, cifar100, mnist, read_idx

GENERATOR = np.random.default_rng(8)


def idx(array: np.ndarray) -> bytes:
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    images = GENERATOR.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    return images, GENERATOR.integers(0, 10, count, dtype=np.uint8)


@pytest.fixture(params=["plain", "gz", "dots"])
def folder(request: pytest.FixtureRequest, tmp_path: Path):
    arrays = (*digits(5), *digits(3))
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    for name, array in zip(names, arrays, strict=True):
        name = name.replace("-idx", ".idx") if request.param == "dots" else name
        data = idx(array)
        if request.param == "gz":
            (tmp_path / f"{name}-ubyte.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / f"{name}-ubyte").write_bytes(data)
    return tmp_path, arrays


def test_mnist(folder):
    path, (images, labels, test_images, test_labels) = folder
    tensors = mnist(path)
    assert [tensor.dtype for tensor in tensors] == [dtypes.uint8, dtypes.int32] * 2
    assert [tensor.shape for tensor in tensors] == [(5, 1, 28, 28), (5,), (3, 1, 28, 28), (3,)]
    expected = (images[:, None], labels, test_images[:, None], test_labels)
    for tensor, array in zip(tensors, expected, strict=True):
        assert np.array_equal(tensor.numpy(), array)
    assert np.array_equal(mnist(str(path))[1].numpy(), labels)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an idx file"),
        (b"\x01\x00\x08\x01", "not an idx file"),
        (idx(np.zeros((2, 3), np.uint8)), "2 axes, accepted are bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "type 0x0d and 1 axes"),
        (bytes([0, 0, 8, 1, 0, 0]), "truncated: 6 bytes"),
        (bytes([0, 0, 8, 1]) + struct.pack(">I", 5) + b"1234", "4 elements, its shape"),
        (bytes([0, 0, 8, 1]) + struct.pack(">I", 3) + b"1234", "4 elements, its shape"),
        (bytes([0, 0, 8, 1]) + struct.pack(">I", 2**32 - 1), r"needs 4294967295"),
        (gzip.compress(idx(np.zeros(50, np.uint8)), mtime=0)[:20], "broken gzip data"),
        (b"\x1f\x8b" + bytes(20), "broken gzip data"),
        (gzip.compress(b"hello", mtime=0), "not an idx file"),
    ],
)
def test_broken_idx_files(tmp_path, data, reason):
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(UserError, match=reason) as caught:
        read_idx(path, 1)
    assert str(path) in str(caught.value)


def test_what_is_packed_too_well_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tinyref.nn.datasets.MAX_BYTES", 1000)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(UserError, match="unpacks to more than 1000 bytes"):
        read_idx(path, 1)
    path.write_bytes(bytes(1001))
    with pytest.raises(UserError, match="more than 1000 bytes"):
        read_idx(path, 1)


def test_mnist_files_that_do_not_belong_together(tmp_path):
    with pytest.raises(UserError, match="has none of train-images-idx3-ubyte, train-images"):
        mnist(tmp_path)
    images, labels = digits(5)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(images))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(labels[:4]))
    with pytest.raises(UserError, match="train: 5 images and 4 labels"):
        mnist(tmp_path)
    with pytest.raises(DeviceError, match="is not a regular file"):
        read_idx(tmp_path, 1)


def records(count: int, *classes: int) -> tuple[bytes, list[np.ndarray], np.ndarray]:
    labels = [GENERATOR.integers(0, most, count, dtype=np.uint8) for most in classes]
    images = GENERATOR.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    rows = np.concatenate([*(label[:, None] for label in labels), images.reshape(count, -1)], 1)
    return rows.tobytes(), labels, images


def test_cifar10(tmp_path):
    parts = [records(2, 10) for _ in range(6)]
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for name, (data, _, _) in zip(names, parts, strict=True):
        (tmp_path / f"{name}.bin").write_bytes(data)
    images, labels, test_images, test_labels = cifar10(tmp_path)
    assert (images.dtype, labels.dtype) == (dtypes.uint8, dtypes.int32)
    assert np.array_equal(images.numpy(), np.concatenate([part[2] for part in parts[:5]]))
    assert np.array_equal(labels.numpy(), np.concatenate([part[1][0] for part in parts[:5]]))
    assert np.array_equal(test_images.numpy(), parts[5][2])
    assert np.array_equal(test_labels.numpy(), parts[5][1][0])


def test_cifar100(tmp_path):
    data, (coarse, fine), images = records(4, 20, 100)
    test_data, (_, test_fine), _ = records(3, 20, 100)
    (tmp_path / "train.bin").write_bytes(data)
    (tmp_path / "test.bin").write_bytes(test_data)
    tensors = cifar100(tmp_path)
    assert np.array_equal(tensors[0].numpy(), images)
    assert np.array_equal(tensors[1].numpy(), fine)
    assert np.array_equal(tensors[3].numpy(), test_fine)
    assert np.array_equal(cifar100(tmp_path, coarse=True)[1].numpy(), coarse)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes are not whole records of 3074"),
        (bytes(3073), "3073 bytes are not whole records"),
        (b"\x14\x00" + bytes(3072), "a label is 20, accepted are 0 to 19"),
        (b"\x00\x64" + bytes(3072), "a label is 100, accepted are 0 to 99"),
    ],
)
def test_broken_cifar_files(tmp_path, data, reason):
    with pytest.raises(UserError, match=r"has no train\.bin"):
        cifar100(tmp_path)
    (tmp_path / "train.bin").write_bytes(data)
    with pytest.raises(UserError, match=reason):
        cifar100(tmp_path)


@pytest.mark.parametrize(
    "sizes", [(0, 2**32 - 1, 2**32 - 1), (2**32 - 1,) * 3, (2**31, 2**31, 4), (1, 0, 5)]
)
def test_an_idx_file_of_impossible_size_is_refused(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    path = tmp_path / "images"
    header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in sizes)
    path.write_bytes(header + b"x" * (sizes == (1, 0, 5)))
    with pytest.raises(UserError, match="shape"):
        read_idx(path, 3)


def test_a_small_packed_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (2, 3, 4))
    path.write_bytes(gzip.compress(header + bytes(24)))
    tracemalloc.start()
    try:
        assert read_idx(path, 3).shape == (2, 3, 4)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
