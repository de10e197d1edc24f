"""GGUF files that the gguf package writes; its quantised types, bit for bit; and broken files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from tinyref import Tensor, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.nn.state import ggml_data_to_tensor, gguf_load
from tinyref.nn.state.ggml import PLAIN, QUANTISED, REFUSED

GENERATOR = np.random.default_rng(6)

# float16 scales and minima of a block, by type: where random bits would be NaN or infinite.
SCALES = {
    2: (0,),
    3: (0, 2),
    6: (0,),
    7: (0, 2),
    8: (0,),
    10: (80, 82),
    11: (108,),
    12: (0, 2),
    13: (0, 2),
    14: (208,),
}


def blocks(kind: int, count: int) -> np.ndarray:
    """Random blocks: every bit is used, and scales are finite numbers of all sizes."""
    data = GENERATOR.integers(0, 256, (count, QUANTISED[kind].nbytes), dtype=np.uint8)
    for place in SCALES[kind]:
        scale = GENERATOR.standard_normal(count) * 10.0 ** GENERATOR.integers(-4, 4, count)
        data[:, place : place + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    return data


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: QUANTISED[kind].name)
def test_quantised_types_are_those_of_gguf(kind):
    name = QUANTISED[kind].name
    assert GGMLQuantizationType[name].value == kind
    assert gguf.GGML_QUANT_SIZES[GGMLQuantizationType(kind)] == (
        QUANTISED[kind].elements,
        QUANTISED[kind].nbytes,
    )
    data = blocks(kind, 7)
    expected = gguf.quants.dequantize(data, GGMLQuantizationType(kind)).reshape(-1)
    got = ggml_data_to_tensor(Tensor(data.reshape(-1)), expected.size, kind)
    assert got.dtype is dtypes.float32
    assert np.array_equal(got.numpy(), expected)


@pytest.mark.parametrize("kind", [2, 12])
def test_quantised_types_on_the_interpreter(kind):
    data = blocks(kind, 2)
    expected = gguf.quants.dequantize(data, GGMLQuantizationType(kind)).reshape(-1)
    tensor = Tensor(data.reshape(-1), device="PYTHON")
    assert np.array_equal(ggml_data_to_tensor(tensor, expected.size, kind).numpy(), expected)


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: PLAIN[kind].name)
def test_plain_types_keep_their_bits(kind):
    size = PLAIN[kind].itemsize
    assert gguf.GGML_QUANT_SIZES[GGMLQuantizationType(kind)] == (1, size)
    data = GENERATOR.integers(0, 256, 5 * size, dtype=np.uint8)
    got = ggml_data_to_tensor(Tensor(data), 4, kind)
    assert (got.dtype, got.shape) == (PLAIN[kind], (4,))
    assert got.numpy().tobytes() == data[: 4 * size].tobytes()


def test_every_other_type_is_refused_by_name():
    others = {kind.value: kind.name for kind in GGMLQuantizationType}
    assert {**REFUSED, **dict.fromkeys((*PLAIN, *QUANTISED), "")}.keys() == others.keys()
    for number, name in REFUSED.items():
        assert others[number] == name
        with pytest.raises(UserError, match=rf"type {number} \({name}\) is not read"):
            ggml_data_to_tensor(Tensor(bytes(1000)), 256, number)
    with pytest.raises(UserError, match=r"type 99 \(unknown\)"):
        ggml_data_to_tensor(Tensor(bytes(1000)), 256, 99)


def test_counts_and_bytes_that_do_not_fit():
    with pytest.raises(UserError, match="33 elements are no whole blocks of 32"):
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
    for kind in (2, 8, 14):
        known = QUANTISED[kind]
        rows = blocks(kind, 6).reshape(3, -1)
        writer.add_tensor(known.name, rows, raw_dtype=GGMLQuantizationType(kind))
        expected[known.name] = gguf.quants.dequantize(rows, GGMLQuantizationType(kind))
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
    "nothing": (b"", "4 bytes wanted"),
    "another file": (b"GGML" + bytes(40), "no GGUF file"),
    "version 1": (file_of(version=1), "version 1, accepted are 2 and 3"),
    "big endian": (file_of(version=3 << 24), "version 50331648, accepted are 2 and 3 in little"),
    "more entries than bytes": (file_of(entries=2**63), "0 are left|bytes wanted"),
    "more tensors than bytes": (file_of(tensors=2**63), "bytes wanted"),
    "a long key": (file_of(struct.pack("<Q", 2**62), 1), "4611686018427387904 bytes wanted"),
    "a key twice": (file_of(entry("a", 0, b"1") * 2, 2), "the key 'a' is there twice"),
    "a type unknown": (file_of(entry("a", 13, b"1"), 1), "metadata of type 13"),
    "a text of no utf-8": (
        file_of(entry("a", 8, struct.pack("<Q", 1) + b"\xff"), 1),
        "utf-8",
    ),
    "a bool of 2": (file_of(entry("a", 7, b"\2"), 1), "neither 0 nor 1"),
    "an array of too much": (
        file_of(entry("a", 9, struct.pack("<IQ", 0, 2**60)), 1),
        "bytes wanted",
    ),
    "an array of too many texts": (
        file_of(entry("a", 9, struct.pack("<IQ", 8, 2**60)), 1),
        "an array of 1152921504606846976 items",
    ),
    "arrays too deep": (file_of(entry("a", 9, nested(9)), 1), "more than 8 deep"),
    "an alignment of 3": (
        file_of(entry("general.alignment", 4, struct.pack("<I", 3)), 1),
        "general.alignment is no power of two",
    ),
    "an alignment of a text": (
        file_of(entry("general.alignment", 8, text("32")), 1),
        "general.alignment is no power of two",
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
        file_of(infos=info(shape=(256,), kind=16), tensors=1, data=bytes(999)),
        r"tensor 't': .*IQ2_XXS",
    ),
    "half a block": (
        file_of(infos=info(shape=(31,), kind=2), tensors=1, data=bytes(999)),
        "no whole blocks of 32",
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


def test_what_is_no_file(tmp_path):
    with pytest.raises(DeviceError, match="No such file"):
        gguf_load(tmp_path / "missing")
    with pytest.raises(UserError, match="accepted are a path and a Tensor of bytes"):
        gguf_load(3)  # type: ignore[arg-type]


def test_any_damage_is_an_error_or_a_file(damaged, tmp_path):
    path = tmp_path / "model.gguf"
    whole = file_of(
        entry("a", 9, nested(3)) + entry("b", 8, text("some text")) + entry("c", 6, b"1234"),
        3,
        info("t", (2, 3)) + info("u", (64,), kind=2, offset=32) + info("s", (), offset=96),
        3,
        GENERATOR.integers(0, 256, 100, dtype=np.uint8).tobytes(),
    )
    refused = 0
    versions = damaged(whole)
    for data in versions:
        path.write_bytes(data)
        try:
            _, tensors = gguf_load(path)
            for tensor in tensors.values():
                if tensor.device != "CPU":
                    tensor.numpy()
        except (UserError, DeviceError):
            refused += 1
    assert refused > len(versions) // 8
    assert os.listdir(tmp_path) == ["model.gguf"]
