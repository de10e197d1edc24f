"""Test GGUF files of the gguf package, its quantised types, and broken files."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from tinyref import Tensor, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.nn.state import ggml_data_to_tensor, gguf_load
from tinyref.nn.state.gguf import _quantised_type

GENERATOR = np.random.default_rng(6)
# A scale of 0.5 as float16, then 32 integers.
HALF = b"\x00\x38"
Q4_0 = HALF + bytes(range(16))
Q8_0 = HALF + bytes([*range(31), 255])
# The lower halves of the bytes less 8, then the upper halves, all 0.
Q4_0_VALUES = [(n - 8) / 2 for n in range(16)] + [-4.0] * 16
Q8_0_VALUES = [n / 2 for n in range(31)] + [-0.5]


@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_quantised_types_are_float32_where_the_bytes_are(device):
    for kind, block, values in ((2, Q4_0, Q4_0_VALUES), (8, Q8_0, Q8_0_VALUES)):
        got = ggml_data_to_tensor(Tensor(block * 3, device=device), 64, kind)
        assert (got.dtype, got.shape, got.device) == (dtypes.float32, (64,), device)
        assert (got * 2).tolist() == [2 * value for value in values * 2]


def test_many_blocks_are_read_in_several_parts(tmp_path):
    path = tmp_path / "blocks"
    path.write_bytes((Q8_0 + Q8_0[::-1]) * 20_000)
    expected = ggml_data_to_tensor(Tensor(Q8_0 + Q8_0[::-1]), 64, 8).numpy()
    got = ggml_data_to_tensor(Tensor(path), 40_000 * 32, 8)
    assert got.device == "CPU"
    assert np.array_equal(got.numpy().reshape(-1, 64), np.tile(expected, (20_000, 1)), True)


def test_elements_are_computed_when_one_is_needed(tmp_path, monkeypatch):
    path = tmp_path / "blocks"
    path.write_bytes(Q8_0)
    tensor = ggml_data_to_tensor(Tensor(path), 32, 8)
    calls = []
    compute = gguf.quants.dequantize
    monkeypatch.setattr(gguf.quants, "dequantize", lambda *a: calls.append(a) or compute(*a))
    doubled = tensor * 2
    assert not calls
    assert doubled[31].item() == -1.0
    assert tensor.tolist() == Q8_0_VALUES
    assert len(calls) == 1


def test_blocks_that_are_gone_when_they_are_needed_are_an_error_each_time(tmp_path):
    path = tmp_path / "blocks"
    path.write_bytes(Q8_0 * 40_000)
    tensor = ggml_data_to_tensor(Tensor(path), 40_000 * 32, 8)
    os.truncate(path, 1000)
    for _ in range(2):
        with pytest.raises(DeviceError, match="truncated"):
            (tensor + 1).realize()
    path.write_bytes(Q8_0 * 40_000)
    assert (tensor + 1)[31].item() == 0.5


def test_infinite_scales_give_what_they_give_in_silence():
    block = struct.pack("<e", float("inf")) + bytes(32)
    assert np.isnan(ggml_data_to_tensor(Tensor(block), 32, 8).numpy()).all()


def test_quantised_types_need_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    _quantised_type.cache_clear()
    assert ggml_data_to_tensor(Tensor(bytes(8)), 2, 0).tolist() == [0.0, 0.0]
    with pytest.raises(UserError, match=r"type 8 is not plain, .* pip install '.\[gguf\]'"):
        ggml_data_to_tensor(Tensor(Q8_0), 32, 8)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (0, dtypes.float32),
        (1, dtypes.float16),
        (24, dtypes.int8),
        (25, dtypes.int16),
        (26, dtypes.int32),
        (27, dtypes.int64),
        (28, dtypes.float64),
        (30, dtypes.bfloat16),
    ],
)
def test_plain_types_keep_their_bits(kind, dtype):
    data = GENERATOR.integers(0, 256, 5 * dtype.itemsize, dtype=np.uint8)
    got = ggml_data_to_tensor(Tensor(data), 4, kind)
    assert (got.dtype, got.shape) == (dtype, (4,))
    assert got.numpy().tobytes() == data[: 4 * dtype.itemsize].tobytes()


@pytest.mark.parametrize(("kind", "name"), [(9, "Q8_1"), (15, "Q8_K"), (99, "unknown")])
def test_types_that_the_package_does_not_compute_are_refused(kind, name):
    with pytest.raises(UserError, match=rf"type {kind} \({name}\) is not read"):
        ggml_data_to_tensor(Tensor(bytes(1000)), 256, kind)


def test_counts_and_bytes_that_do_not_fit():
    with pytest.raises(UserError, match="33 elements do not fill blocks of 32"):
        ggml_data_to_tensor(Tensor(bytes(100)), 33, 2)
    with pytest.raises(UserError, match="64 elements need 36 bytes, there are 35"):
        ggml_data_to_tensor(Tensor(bytes(35)), 64, 2)
    with pytest.raises(UserError, match="n is -1"):
        ggml_data_to_tensor(Tensor(bytes(35)), -1, 0)
    with pytest.raises(UserError, match="got float32"):
        ggml_data_to_tensor(Tensor([1.0]), 1, 0)


# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -5)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -300)
    writer.add_uint32("u32", 2**32 - 1)
    writer.add_int32("i32", -(2**31))
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -(2**63))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("bool", True)
    writer.add_string("text", "ключ\n")
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("floats", [0.5, 1.5])
    writer.add_array("bools", [True, False])
    writer.add_array("texts", ["a", "", "ü"])
    expected: dict[str, np.ndarray] = {}
    for name, dtype in (("f32", np.float32), ("f16", np.float16), ("i32", np.int32)):
        expected[name] = GENERATOR.standard_normal((3, 5)).astype(dtype)
        writer.add_tensor(name, expected[name])
    for kind, block, values in ((2, Q4_0, Q4_0_VALUES), (8, Q8_0, Q8_0_VALUES)):
        rows = np.frombuffer(block * 6, np.uint8).reshape(3, -1)
        name = GGMLQuantizationType(kind).name
        writer.add_tensor(name, rows, raw_dtype=GGMLQuantizationType(kind))
        expected[name] = np.array(values * 6).reshape(3, 64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, expected


def test_files_of_the_gguf_package_are_read(written):
    path, expected = written
    for source in (path, str(path), Tensor(path), Tensor(path, device="CPU")):
        metadata, tensors = gguf_load(source)
        assert list(tensors) == list(expected)
        assert metadata == {
            "general.architecture": "llama",
            **{"u8": 200, "i8": -5, "u16": 60000, "i16": -300, "u32": 2**32 - 1},
            **{"i32": -(2**31), "u64": 2**64 - 1, "i64": -(2**63), "f32": 0.5, "f64": 0.1},
            **{"bool": True, "text": "ключ\n", "numbers": [1, -2, 3], "floats": [0.5, 1.5]},
            **{"bools": [True, False], "texts": ["a", "", "ü"]},
        }
    _, tensors = gguf_load(path)
    assert tensors["f16"].device == f"DISK:{path}"
    assert tensors["Q4_0"].device == "CPU"
    for name, array in expected.items():
        assert tensors[name].shape == array.shape
        assert np.array_equal(tensors[name].numpy(), array), name


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def file_of(
    metadata: bytes = b"",
    entries: int = 0,
    infos: bytes = b"",
    tensors: int = 0,
    data: bytes = b"",
    magic: bytes = b"GGUF",
    version: int = 3,
) -> bytes:
    head = magic + struct.pack("<IQQ", version, tensors, entries) + metadata + infos
    return head + bytes(-len(head) % 32) + data


def info(name: str = "t", shape: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + axes + struct.pack("<IQ", kind, offset)


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def nested(depth: int) -> bytes:
    return struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 0, 0)


BROKEN = {
    "nothing": (b"", "4 bytes are needed"),
    "another file": (b"GGML" + bytes(40), "not a GGUF file"),
    "version 1": (file_of(version=1), "version 1, accepted are 2 and 3"),
    "big endian": (file_of(version=3 << 24), "version 50331648, accepted are 2 and 3 in little"),
    "more entries than bytes": (file_of(entries=2**63), "0 are left|bytes are needed"),
    "more tensors than bytes": (file_of(tensors=2**63), "bytes are needed"),
    "a long key": (file_of(struct.pack("<Q", 2**62), 1), "4611686018427387904 bytes are needed"),
    "a key twice": (file_of(entry("a", 0, b"1") * 2, 2), "the key 'a' is there twice"),
    "a type unknown": (file_of(entry("a", 13, b"1"), 1), "metadata of type 13"),
    "a text of no utf-8": (
        file_of(entry("a", 8, struct.pack("<Q", 1) + b"\xff"), 1),
        "utf-8",
    ),
    "a bool of 2": (file_of(entry("a", 7, b"\2"), 1), "neither 0 nor 1"),
    "an array of too much": (
        file_of(entry("a", 9, struct.pack("<IQ", 0, 2**60)), 1),
        "bytes are needed",
    ),
    "an array of too many texts": (
        file_of(entry("a", 9, struct.pack("<IQ", 8, 2**60)), 1),
        "an array of 1152921504606846976 items",
    ),
    "arrays too deep": (file_of(entry("a", 9, nested(9)), 1), "more than 8 deep"),
    "an alignment of 3": (
        file_of(entry("general.alignment", 4, struct.pack("<I", 3)), 1),
        "general.alignment is not a power of two",
    ),
    "an alignment of a text": (
        file_of(entry("general.alignment", 8, text("32")), 1),
        "general.alignment is not a power of two",
    ),
    "five axes": (file_of(infos=info(shape=(1,) * 5), tensors=1), "has 5 axes, accepted are"),
    "a tensor twice": (
        file_of(infos=info() * 2, tensors=2, data=bytes(16)),
        "the tensor 't' is there twice",
    ),
    "beyond the file": (
        file_of(infos=info(), tensors=1, data=bytes(15)),
        "tensor 't' needs bytes 64 to 80 of 79",
    ),
    "a size beyond all": (
        file_of(infos=info(shape=(2**63, 2**63)), tensors=1),
        "tensor 't' needs bytes",
    ),
    "not aligned": (
        file_of(infos=info(offset=8), tensors=1, data=bytes(64)),
        "is not at a multiple of 32",
    ),
    "a type that is not read": (
        file_of(infos=info(shape=(256,), kind=9), tensors=1, data=bytes(999)),
        r"tensor 't': .*Q8_1",
    ),
    "half a block": (
        file_of(infos=info(shape=(31,), kind=2), tensors=1, data=bytes(999)),
        "do not fill blocks of 32",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(name):
    data, reason = BROKEN[name]
    with pytest.raises(UserError, match=reason) as caught:
        gguf_load(Tensor(data))
    assert "\n" not in str(caught.value)


def test_the_files_of_these_tests_are_good():
    data = file_of(
        entry("a", 9, nested(7)) + entry("general.alignment", 4, struct.pack("<I", 64)),
        2,
        info("t", (2, 3)) + info("u", (0,), offset=64) + info("s", ()),
        3,
    )
    data += bytes(-len(data) % 64) + np.arange(6, dtype=np.float32).tobytes() + bytes(40)
    metadata, tensors = gguf_load(Tensor(data))
    assert metadata["a"] == [[[[[[[[]]]]]]]]
    assert tensors["t"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (tensors["u"].tolist(), tensors["s"].item()) == ([], 0.0)
