"""Data sets, read from the files that their authors publish. Nothing is downloaded."""

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

# The third byte of an idx file is the type of its elements. Images and labels are bytes.
IDX_BYTES = 0x08
# The limit of the unpacked size: larger than any data set of images.
MAX_BYTES = 4 * 2**30
PIECE_BYTES = 2**20

CIFAR_IMAGE = (3, 32, 32)


def mnist(directory: PathLike) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training images and labels, then test images and labels, of MNIST or a similar set.

    Images are uint8 (count, 1, height, width), labels int32 (count,). The directory has the four
    idx files, packed by gzip (.gz) or not: train-images-idx3-ubyte, train-labels-idx1-ubyte,
    t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte. Raises `UserError` for files that are no
    idx files or do not belong together, and `DeviceError` for files that cannot be read.
    """
    parts: list[Tensor] = []
    for part in ("train", "t10k"):
        images = read_idx(_idx_file(directory, f"{part}-images-idx3-ubyte"), 3)
        labels = read_idx(_idx_file(directory, f"{part}-labels-idx1-ubyte"), 1)
        if len(images) != len(labels):
            raise UserError(
                f"mnist: {part}: {len(images)} images and {len(labels)} labels: they must be equal"
            )
        parts += [Tensor(images[:, None]), Tensor(labels.astype(np.int32))]
    train_images, train_labels, test_images, test_labels = parts
    return train_images, train_labels, test_images, test_labels


def _idx_file(directory: PathLike, name: str) -> Path:
    """Return the file of this name, packed or not. In some archives the second dash is a dot."""
    folder = Path(as_path(directory, "mnist"))
    names = (name, f"{name}.gz", name.replace("-idx", ".idx"))
    for candidate in names:
        if (folder / candidate).exists():
            return folder / candidate
    raise UserError(f"mnist: {folder} has none of {', '.join(names)}")


def read_idx(path: PathLike, axes: int) -> Bytes:
    """Return the array in an idx file of bytes, which must have this number of axes.

    http://yann.lecun.com/exdb/mnist describes the format: two zeros, the type, the number of axes,
    the size of each axis as four bytes (the highest first), and the elements. Raises the same
    errors as `mnist`.
    """
    data = _contents(Path(as_path(path, "idx")))
    if len(data) < 4 or data[:2] != b"\0\0":
        raise UserError(f"{path}: not an idx file")
    if data[2] != IDX_BYTES or data[3] != axes:
        raise UserError(
            f"{path}: elements of type {data[2]:#04x} and {data[3]} axes, accepted are bytes "
            f"({IDX_BYTES:#04x}) and {axes} axes"
        )
    start = 4 + 4 * axes
    if len(data) < start:
        raise UserError(f"{path}: truncated: {len(data)} bytes")
    shape = tuple(int.from_bytes(data[begin : begin + 4], "big") for begin in range(4, start, 4))
    if len(data) - start != math.prod(shape):
        raise UserError(
            f"{path}: {len(data) - start} elements, its shape {shape} needs {math.prod(shape)}"
        )
    try:
        return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
    except ValueError as error:
        # With zero images, the size of one image may still exceed any memory.
        raise UserError(f"{path}: shape {shape}: {error}") from None


def _contents(path: Path) -> bytes:
    """Return the bytes of a file, unpacked if it is in gzip format."""
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
    """Return the unpacked bytes, cut off soon after `MAX_BYTES`.

    It reads in pieces: one read of the maximum size would allocate all of that memory.
    """
    data = bytearray()
    while len(data) <= MAX_BYTES and (piece := file.read(PIECE_BYTES)):
        data += piece
    return bytes(data)


def cifar10(path: PathLike) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return training images and labels, then test images and labels, of CIFAR-10.

    Images are uint8 (count, 3, 32, 32), labels int32 (count,). The directory `path` has the binary
    version: data_batch_1.bin to data_batch_5.bin and test_batch.bin. Raises `UserError` for files
    in another format, and `DeviceError` for files that cannot be read.
    """
    names = [f"data_batch_{number}.bin" for number in range(1, 6)]
    images, labels = _cifar(path, names, (10,))
    test_images, test_labels = _cifar(path, ["test_batch.bin"], (10,))
    return images, labels[0], test_images, test_labels[0]


def cifar100(path: PathLike, coarse: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return CIFAR-100 (train.bin and test.bin) as `cifar10` does, with fine or `coarse` labels."""
    images, labels = _cifar(path, ["train.bin"], (20, 100))
    test_images, test_labels = _cifar(path, ["test.bin"], (20, 100))
    chosen = 0 if coarse else 1
    return images, labels[chosen], test_images, test_labels[chosen]


def _cifar(
    path: PathLike, names: list[str], classes: tuple[int, ...]
) -> tuple[Tensor, list[Tensor]]:
    """Return the images of binary files, and the labels of each kind.

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
            raise UserError(f"{file}: {len(data)} bytes are not whole records of {length}")
        parts.append(np.frombuffer(data, np.uint8).reshape(-1, length))
    records = np.concatenate(parts)
    labels: list[Tensor] = []
    for column, count in enumerate(classes):
        values = records[:, column]
        if values.max() >= count:
            raise UserError(f"{path}: a label is {values.max()}, accepted are 0 to {count - 1}")
        labels.append(Tensor(values.astype(np.int32)))
    images = np.ascontiguousarray(records[:, len(classes) :]).reshape(-1, *CIFAR_IMAGE)
    return Tensor(images), labels
