"""Test safetensors files: the library reads ours, we read its files, and refuse hostile ones."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from tinyref import Tensor, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.nn.state import safe_load, safe_load_metadata, safe_save
from tinyref.nn.state.safetensors import DTYPES

GENERATOR = np.random.default_rng(3)

TORCH = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "U16": torch.uint16,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "F32": torch.float32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "F64": torch.float64,
}


def random_bytes(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return random bits of the type, including NaN and infinities."""
    high = 2 if dtype == "BOOL" else 256
    count = int(np.prod(shape)) * DTYPES[dtype].itemsize
    return GENERATOR.integers(0, high, count, dtype=np.uint8)


def torch_tensor(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    if 0 in shape:
        return torch.empty(shape, dtype=TORCH[dtype])
    data = torch.from_numpy(random_bytes(dtype, shape))
    return data.view(TORCH[dtype]).reshape(shape)


def bytes_of(tensor: Tensor) -> bytes:
    return np.ascontiguousarray(tensor.numpy()).tobytes()


SHAPES = [(3, 4), (), (0, 5), (1,), (2, 1, 3)]


@pytest.fixture
def theirs(tmp_path: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    tensors = {
        f"{dtype}.{index}": torch_tensor(dtype, shape)
        for dtype in TORCH
        for index, shape in enumerate(SHAPES)
    }
    path = tmp_path / "theirs.safetensors"
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt", "ключ": "значение"})
    return path, tensors


def check(loaded: dict[str, Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert set(loaded) == set(expected)
    for name, tensor in expected.items():
        assert loaded[name].dtype is DTYPES[name.split(".")[0]]
        assert loaded[name].shape == tuple(tensor.shape)
        raw = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""
        assert bytes_of(loaded[name]) == bytes(raw), name


@pytest.mark.long
def test_every_type_and_shape_of_the_library_is_read(theirs):
    path, tensors = theirs
    check(safe_load(path), tensors)
    some = ("BF16.0", "I64.1", "BOOL.4", "F8_E4M3.2")
    for source in (str(path), Tensor(path), Tensor(path, device="CPU")):
        loaded = safe_load(source)
        assert set(loaded) == set(tensors)
        check({name: loaded[name] for name in some}, {name: tensors[name] for name in some})
    assert safe_load_metadata(path)[2]["__metadata__"] == {"format": "pt", "ключ": "значение"}
    assert all(tensor.device == f"DISK:{path}" for tensor in safe_load(path).values())


def test_the_library_reads_what_we_write(theirs, tmp_path):
    path, tensors = theirs
    ours = tmp_path / "ours.safetensors"
    safe_save(safe_load(path), ours, {"made": "here", "ü": "\n"})
    with safe_open(ours, "pt") as file:
        assert file.metadata() == {"made": "here", "ü": "\n"}
    read = safetensors.torch.load_file(ours)
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        if tensor.numel():
            raw = tensor.reshape(-1).view(torch.uint8)
            assert torch.equal(read[name].reshape(-1).view(torch.uint8), raw)
    check(safe_load(ours), tensors)


def test_computed_tensors_and_views_are_written(tmp_path):
    path = tmp_path / "w"
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    safe_save({"sum": x + 1, "turned": x.T, "part": x[1:], "const": Tensor.ones(2)}, str(path))
    read = safetensors.torch.load_file(path)
    assert read["sum"].tolist() == [[2, 3], [4, 5]]
    assert read["turned"].tolist() == [[1, 3], [2, 4]]
    assert read["part"].tolist() == [[3, 4]]
    assert read["const"].tolist() == [1, 1]


def test_a_file_may_be_written_over_by_its_own_tensors(tmp_path):
    path = tmp_path / "w"
    safe_save({"a": Tensor([1, 2, 3]), "b": Tensor([4])}, path)
    loaded = safe_load(path)
    safe_save({"b": loaded["a"], "a": loaded["b"]}, path)
    assert {name: tensor.tolist() for name, tensor in safe_load(path).items()} == {
        "a": [4],
        "b": [1, 2, 3],
    }


def test_elements_start_at_multiples_of_their_size(tmp_path):
    path = tmp_path / "w"
    safe_save(
        {"a": Tensor([1], dtype="uint8"), "b": Tensor([2.0], dtype="float64"), "c": Tensor([3])},
        path,
    )
    _, start, header = safe_load_metadata(path)
    assert start % 8 == 0
    for name, size in (("a", 1), ("b", 8), ("c", 4)):
        assert header[name]["data_offsets"][0] % size == 0


# --- refused ------------------------------------------------------------------------------------


def encoded(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str = "U8", shape: object = (4,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


BROKEN = {
    "no bytes": (b"", "8 bytes are needed, 0 are left"),
    "a short length": (b"\x01\x02", "8 bytes are needed"),
    "a header beyond the limit": (encoded({}, length=100_000_001), "accepted are up to 100000000"),
    "a header beyond the file": (encoded({}, length=100), "100 bytes are needed, 2 are left"),
    "a list": (encoded([]), "does not start with"),
    "space before": (encoded(b" {}"), "does not start with"),
    "no json": (encoded(b"{]"), "Expecting"),
    "more than json": (encoded(b"{}x"), "Extra data"),
    "no utf-8": (encoded(b'{"\xff":1}'), "utf-8"),
    "half a character": (encoded(b'{"\\ud800": {}}'), "surrogates"),
    "deep": (encoded(b'{"a":' * 100_000), "nested too deeply"),
    "a long number": (encoded(b'{"a":' + b"1" * 5000 + b"}"), "Exceeds the limit"),
    "NaN": (encoded(b'{"a":NaN}'), "NaN is not a number of a header"),
    "a key twice": (
        encoded(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'),
        "the member 'a' is there twice",
    ),
    "a member twice": (encoded(b'{"a":{"dtype":"U8","dtype":"U8"}}'), "the member 'dtype'"),
    "no object": (encoded({"a": 3}), "'a' is not an object"),
    "no dtype": (encoded({"a": {"shape": [], "data_offsets": [0, 0]}}), "'a' has no dtype"),
    "no shape": (encoded({"a": {"dtype": "U8", "data_offsets": [0, 0]}}), "'a' has no shape"),
    "no offsets": (encoded({"a": {"dtype": "U8", "shape": []}}), "'a' has no data_offsets"),
    "a dtype unknown": (encoded({"a": entry("C64")}, bytes(4)), "dtype 'C64', accepted are BOOL"),
    "a dtype of no text": (encoded({"a": {**entry(), "dtype": [1]}}, bytes(4)), "has dtype"),
    "a negative size": (encoded({"a": entry(shape=[-2, -2])}, bytes(4)), "not a list of up to"),
    "a size of no number": (encoded({"a": entry(shape=["4"])}, bytes(4)), "not a list of up to"),
    "a size true": (encoded({"a": entry(shape=[True])}, bytes(4)), "not a list of up to"),
    "a size of a float": (encoded({"a": entry(shape=[4.0])}, bytes(4)), "4.0 is not a number"),
    "too many axes": (encoded({"a": entry(shape=[1] * 65)}, bytes(4)), "not a list of up to 64"),
    "sizes that overflow": (
        encoded({"a": entry(shape=[2**32, 2**32])}, bytes(4)),
        "has 4 bytes, its shape and dtype need 18446744073709551616",
    ),
    "three offsets": (encoded({"a": entry(offsets=[0, 2, 4])}, bytes(4)), "not begin and end"),
    "offsets turned around": (encoded({"a": entry(offsets=[4, 0])}, bytes(4)), "not begin and end"),
    "too few bytes for the shape": (encoded({"a": entry(shape=[5])}, bytes(4)), "need 5"),
    "beyond the file": (encoded({"a": entry()}, bytes(3)), "4 bytes, the file has 3"),
    "bytes left": (encoded({"a": entry()}, bytes(5)), "4 bytes, the file has 5"),
    "a hole before": (encoded({"a": entry(offsets=[1, 5])}, bytes(5)), "leave a hole"),
    "a hole between": (
        encoded({"a": entry(), "b": entry(offsets=[6, 10])}, bytes(10)),
        "'b' starts at 6, the bytes before end at 4: leave a hole",
    ),
    "two that overlap": (
        encoded({"a": entry(), "b": entry(offsets=[2, 6])}, bytes(6)),
        "'b' starts at 2, the bytes before end at 4: overlap",
    ),
    "metadata of no object": (encoded({"__metadata__": []}), "__metadata__ is not an object"),
    "metadata of no text": (encoded({"__metadata__": {"a": 1}}), "'a' is not a text"),
}
# Files that the library accepts, although the format forbids them or they have no meaning here.
LENIENT = {"a key twice", "a size true", "too many axes", "space before"}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(name, tmp_path):
    data, reason = BROKEN[name]
    path = tmp_path / "broken"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        safe_load(path)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    if name not in LENIENT:
        with pytest.raises(SafetensorError):
            safetensors.torch.load_file(path)


def test_a_long_header_of_brackets_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tinyref.nn.state.safetensors.LONG_HEADER", 100)
    data = encoded(b'{"a":[' + b"[]," * 40 + b"1]}")
    with pytest.raises(UserError, match="more lists and objects than words"):
        safe_load(Tensor(data))
    names = {f"x{number}": Tensor([1]) for number in range(20)}
    safe_save(names, tmp_path / "w")
    assert len(safe_load(tmp_path / "w")) == 20


def test_bytes_that_are_no_bool_are_refused(tmp_path):
    path = tmp_path / "bool"
    path.write_bytes(encoded({"a": entry("BOOL")}, b"\0\1\1\2"))
    with pytest.raises(UserError, match="a bool is 2, accepted are 0 and 1"):
        safe_load(path)


@pytest.mark.parametrize(
    ("tensors", "metadata", "reason"),
    [
        ({"__metadata__": Tensor([1])}, None, "is not a name of a tensor"),
        ({3: Tensor([1])}, None, "is not a name of a tensor"),
        ({"a": [1]}, None, "'a' is a list, accepted are Tensors"),
        ({"a": Tensor([1])}, {"b": 1}, "accepted are texts by texts"),
        ({"\ud800": Tensor([1])}, None, "is not Unicode"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tensors, metadata, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        safe_save(tensors, tmp_path / "w", metadata)
    assert os.listdir(tmp_path) == []


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "w"
    safe_save({"a": Tensor([1, 2])}, path)
    before = path.read_bytes()
    with pytest.raises(DeviceError, match="cannot be written: No such file"):
        safe_save({"a": Tensor([1])}, tmp_path / "none" / "w")
    source = tmp_path / "source"
    source.write_bytes(bytes(100))
    cut = Tensor(source)
    os.truncate(source, 10)
    with pytest.raises(DeviceError, match="truncated"):
        safe_save({"a": Tensor([3, 4]), "b": cut}, path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["source", "w"]
    with pytest.raises(UserError, match="accepted is a path"):
        safe_save({}, 3)  # type: ignore[arg-type]


def test_types_are_named_both_ways():
    assert set(DTYPES.values()) == set(dtypes.all)
