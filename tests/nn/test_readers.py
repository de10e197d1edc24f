"""Test readers of files: other objects, any damage, and bounded work for any file."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import sys
import tarfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from refusals import check_refusal

from tinyref import Tensor, nn
from tinyref.errors import DeviceError, UserError
from tinyref.nn import datasets
from tinyref.nn.state import gguf_load, safe_load, safe_save, tar_extract, torch_load

# --- other objects --------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [gguf_load, safe_load, tar_extract, torch_load])
def test_what_is_no_file(load: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="missing: cannot be read: No such file"):
        load(tmp_path / "missing")
    check_refusal(["got a int, accepted are a path and a Tensor of bytes"], load, 3)
    check_refusal(["got float32"], load, Tensor([1.0]))
    check_refusal(["the path is empty: accepted is the path of a file"], load, "")


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.state.safe_save({}, ""),
        lambda: datasets.mnist(""),
        lambda: datasets.cifar10(""),
        lambda: Tensor([1]).to("DISK:"),
    ],
)
def test_an_empty_path_is_refused(call: Callable[[], object]) -> None:
    check_refusal(["the path is empty: accepted is"], call)


# --- damage ---------------------------------------------------------------------------------------


def damaged(data: bytes, count: int) -> Iterator[bytes]:
    """Yield `count` damaged versions of `data`: cut, or with bytes changed, repeated or removed.

    Half of the damage is in the first kilobyte, which has the headers.
    """
    generator = np.random.default_rng(len(data))
    for number in range(count):
        bytes_ = bytearray(data)
        limit = len(data) if number % 2 else min(len(data), 1024)
        position = int(generator.integers(0, limit))
        match number % 6:
            case 0 | 1:
                bytes_ = bytes_[:position]
            case 2 | 3:
                for _ in range(int(generator.integers(1, 4))):
                    bytes_[int(generator.integers(0, limit))] = int(generator.integers(0, 256))
            case 4:
                bytes_[position : position + 8] = b"\xff" * len(bytes_[position : position + 8])
            case 5:
                length = int(generator.integers(1, 64))
                bytes_[position:position] = bytes_[position : position + length]
        if bytes(bytes_) != data:
            yield bytes(bytes_)


def write_gguf(path: Path) -> None:
    writer = GGUFWriter(path, "llama")
    writer.add_array("texts", ["a", "", "ü"])
    writer.add_float32("number", 0.5)
    writer.add_tensor("t", np.arange(6, dtype=np.float32).reshape(2, 3))
    blocks = np.arange(36, dtype=np.uint8).reshape(2, 18)
    writer.add_tensor("u", blocks, raw_dtype=GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_safetensors(path: Path) -> None:
    tensors = {"a": Tensor([1, 2, 3]), "b": Tensor([True, False]), "c": Tensor.zeros(2, 3)}
    safe_save(tensors, path, {"some": "text"})


def write_checkpoint(path: Path, is_zip: bool) -> None:
    item = {"a": torch.arange(5), "b": [torch.ones(2, 3).T, "x"], "c": OrderedDict(d=2)}
    torch.save(item, path, _use_new_zipfile_serialization=is_zip)


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name, data in (("folder/ключ", b"1"), ("x" * 90 + "/" + "y" * 200, bytes(600))):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def write_idx(path: Path, is_packed: bool) -> None:
    data = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (2, 3, 4)) + bytes(24)
    path.write_bytes(gzip.compress(data) if is_packed else data)


# name: a writer, a reader, and n: at least one of n damaged files is refused
DAMAGED: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any], int]] = {
    "gguf": (write_gguf, lambda path: gguf_load(path)[1], 8),
    "safetensors": (write_safetensors, safe_load, 2),
    "torch zip": (lambda path: write_checkpoint(path, True), torch_load, 8),
    "torch legacy": (lambda path: write_checkpoint(path, False), torch_load, 8),
    "tar": (write_tar, tar_extract, 8),
    "idx": (lambda path: write_idx(path, False), lambda path: datasets.read_idx(path, 3), 8),
    "packed idx": (lambda path: write_idx(path, True), lambda path: datasets.read_idx(path, 3), 8),
}


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", DAMAGED)
def test_any_damage_is_an_error_or_a_file(name: str, count: int, tmp_path: Path) -> None:
    write, read, share = DAMAGED[name]
    path = tmp_path / "file"
    write(path)
    whole = path.read_bytes()
    refused, start = 0, time.process_time()
    for data in damaged(whole, count):
        path.write_bytes(data)
        try:
            contents = read(path)
            values = contents.values() if isinstance(contents, dict) else [contents]
            for tensor in (value for value in values if isinstance(value, Tensor)):
                assert tensor.numpy().size <= 2 * len(data)
        except (UserError, DeviceError):
            refused += 1
    # A hang would take hours; this limit only ends the test.
    assert time.process_time() - start < 60
    assert refused > count // share - 4
    assert os.listdir(tmp_path) == ["file"]


# --- work -----------------------------------------------------------------------------------------


def safetensors(count: int, size: int) -> bytes:
    entries = {
        f"t{n}": {
            "dtype": "F32",
            "shape": [size],
            "data_offsets": [4 * size * n, 4 * size * (n + 1)],
        }
        for n in range(count)
    }
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4 * size * count)


def gguf(count: int, size: int, kind: int = 0) -> bytes:
    infos = b""
    for n in range(count):
        name = f"t{n}".encode()
        infos += struct.pack("<Q", len(name)) + name
        infos += struct.pack("<IQIQ", 1, size, kind, 32 * n if size else 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, count, 0) + infos
    return head + bytes(-len(head) % 32) + bytes(32 * count if size else 0)


FILES: dict[str, tuple[Callable[[int], bytes], Callable[[Path], object]]] = {
    "empty safetensors": (lambda count: safetensors(count, 0), safe_load),
    "small safetensors": (lambda count: safetensors(count, 1), safe_load),
    "empty gguf": (lambda count: gguf(count, 0), gguf_load),
    "empty quantised gguf": (lambda count: gguf(count, 0, 2), gguf_load),
    "small gguf": (lambda count: gguf(count, 1), gguf_load),
}
# The calls of Python functions that a tensor may cost. At 50 ns, 100,000 tensors take seconds.
MAX_CALLS = 400


def calls(function: Callable[[], object]) -> int:
    """Return the number of calls of Python functions, including generators."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", FILES)
def test_a_tensor_takes_a_bounded_number_of_steps(tmp_path: Path, name: str) -> None:
    make, load = FILES[name]
    counts = []
    for number in (100, 200, 400):
        path = tmp_path / f"file{number}"
        path.write_bytes(make(number))
        load(path)  # fill the caches
        counts.append(calls(lambda path=path: load(path)))
    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert first <= 100 * MAX_CALLS, first / 100
    assert second <= 2.1 * first, "the cost of a tensor grows with their number"
