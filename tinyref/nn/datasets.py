"""Data sets in the files that their authors publish, given by path: nothing is downloaded."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyref.errors import DeviceError, UserError
from tinyref.nn.state.reading import as_path
from tinyref.runtimes.data_only import file_size
from tinyref.tensor import Tensor

Bytes = npt.NDArray[np.uint8]
PathLike = str | os.PathLike[str]

# The third byte of an idx file says what its elements are; images and labels are bytes.
IDX_BYTES = 0x08
# More than any data set of images: what unpacks to more is no data set.
MAX_BYTES = 4 * 2**30
PIECE_BYTES = 2**20

CIFAR_IMAGE = (3, 32, 32)


def mnist(directory: PathLike) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train with, then those to test with, of MNIST or a set of its kind.

    Images are uint8 (count, 1, height, width), labels int32 (count,). The directory has the four
    idx files, packed by gzip (.gz) or not: train-images-idx3-ubyte, train-labels-idx1-ubyte,
    t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. Raises `UserError` for files that are no
    idx files or do not belong together, `DeviceError` for those that cannot be read.
    """
    found: list[Tensor] = []
    for part in ("train", "t10k"):
        images = read_idx(_idx_file(directory, f"{part}-images-idx3-ubyte"), 3)
        labels = read_idx(_idx_file(directory, f"{part}-labels-idx1-ubyte"), 1)
        if len(images) != len(labels):
            raise UserError(
                f"mnist: {part}: {len(images)} images and {len(labels)} labels: they must be equal"
            )
        found += [Tensor(images[:, None]), Tensor(labels.astype(np.int32))]
    train_images, train_labels, test_images, test_labels = found
    return train_images, train_labels, test_images, test_labels


def _idx_file(directory: PathLike, name: str) -> Path:
    """The file of that name, packed or not; some archives write a dot for the second dash."""
    folder = Path(as_path(directory, "mnist"))
    names = (name, f"{name}.gz", name.replace("-idx", ".idx"))
    for candidate in names:
        if (folder / candidate).exists():
            return folder / candidate
    raise UserError(f"mnist: {folder} has none of {', '.join(names)}")


def read_idx(path: PathLike, axes: int) -> Bytes:
    """The array in an idx file of bytes, which must have so many axes.

    http://yann.lecun.com/exdb/mnist describes the format: two zeros, the type, the number of axes,
    the size of each as four bytes, the highest first, and the elements. Raises as `mnist` does.
    """
    data = _contents(Path(as_path(path, "idx")))
    if len(data) < 4 or data[:2] != b"\0\0":
        raise UserError(f"{path}: no idx file")
    if data[2] != IDX_BYTES or data[3] != axes:
        raise UserError(
            f"{path}: elements of type {data[2]:#04x} and {data[3]} axes, accepted are bytes "
            f"({IDX_BYTES:#04x}) and {axes} axes"
        )
    start = 4 + 4 * axes
    if len(data) < start:
        raise UserError(f"{path}: truncated: {len(data)} bytes")
    shape = tuple(int.from_bytes(data[place : place + 4], "big") for place in range(4, start, 4))
    if len(data) - start != math.prod(shape):
        raise UserError(
            f"{path}: {len(data) - start} elements, its shape {shape} needs {math.prod(shape)}"
        )
    try:
        return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
    except ValueError as error:
        # There may be no image, and each of them larger than any memory.
        raise UserError(f"{path}: shape {shape}: {error}") from None


def _contents(path: Path) -> bytes:
    """The bytes of a file, unpacked where it starts as gzip does."""
    if file_size(str(path)) > MAX_BYTES:
        raise UserError(f"{path}: more than {MAX_BYTES} bytes")
    try:
        with open(path, "rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if not is_packed:
                return file.read()
            data = _unpacked(gzip.GzipFile(fileobj=file))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: broken gzip data: {error}") from error
    except OSError as error:
        raise DeviceError(f"DISK:{path}", f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UserError(f"{path}: unpacks to more than {MAX_BYTES} bytes")
    return data


def _unpacked(file: gzip.GzipFile) -> bytes:
    """What the file holds, of more than `MAX_BYTES` the begin.

    A read of so many bytes takes memory for all of them, however few come.
    """
    data = bytearray()
    while len(data) <= MAX_BYTES and (piece := file.read(PIECE_BYTES)):
        data += piece
    return bytes(data)


def cifar10(path: PathLike) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels of CIFAR-10 to train with, then those to test with.

    Images are uint8 (count, 3, 32, 32), labels int32 (count,). The directory `path` is that of the
    binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin. Raises `UserError` for
    files that are not of this kind, `DeviceError` for those that cannot be read.
    """
    names = [f"data_batch_{number}.bin" for number in range(1, 6)]
    images, labels = _cifar(path, names, (10,))
    test_images, test_labels = _cifar(path, ["test_batch.bin"], (10,))
    return images, labels[0], test_images, test_labels[0]


def cifar100(path: PathLike, coarse: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `cifar10`, of CIFAR-100: train.bin and test.bin, with the fine labels or the `coarse`."""
    images, labels = _cifar(path, ["train.bin"], (20, 100))
    test_images, test_labels = _cifar(path, ["test.bin"], (20, 100))
    chosen = 0 if coarse else 1
    return images, labels[chosen], test_images, test_labels[chosen]


def _cifar(
    path: PathLike, names: list[str], classes: tuple[int, ...]
) -> tuple[Tensor, list[Tensor]]:
    """The images of binary files and, for each kind of label, the labels.

    A record is a byte for each label, then the image: all red, all green, all blue bytes.
    """
    length = len(classes) + math.prod(CIFAR_IMAGE)
    parts: list[Bytes] = []
    folder = Path(as_path(path, "cifar"))
    for name in names:
        file = folder / name
        if not file.exists():
            raise UserError(f"cifar: {path} has no {name}: accepted is the binary version")
        data = _contents(file)
        if not data or len(data) % length:
            raise UserError(f"{file}: {len(data)} bytes are no records of {length}")
        parts.append(np.frombuffer(data, np.uint8).reshape(-1, length))
    records = np.concatenate(parts)
    labels: list[Tensor] = []
    for place, count in enumerate(classes):
        found = records[:, place]
        if found.max() >= count:
            raise UserError(f"{path}: a label is {found.max()}, accepted are 0 to {count - 1}")
        labels.append(Tensor(found.astype(np.int32)))
    images = np.ascontiguousarray(records[:, len(classes) :]).reshape(-1, *CIFAR_IMAGE)
    return Tensor(images), labels
