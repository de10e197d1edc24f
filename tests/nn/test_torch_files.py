"""Test checkpoints of torch: read as torch reads them, and no code of hostile ones runs."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tinyref import Tensor, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.nn.state import torch_load
from tinyref.nn.state.torch_files import ELEMENTS

GENERATOR = np.random.default_rng(4)

Written = Callable[[Any], Path]


@pytest.fixture(params=["zip", "legacy"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    def write(item: Any) -> Path:
        path = tmp_path / "checkpoint"
        torch.save(item, path, _use_new_zipfile_serialization=request.param == "zip")
        return path

    return write


def random_tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    dtype = getattr(torch, name)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    high = 2 if name == "bool" else 256
    count = int(np.prod(shape)) * dtype.itemsize
    return (
        torch.from_numpy(GENERATOR.integers(0, high, count, dtype=np.uint8))
        .view(dtype)
        .reshape(shape)
    )


def check(got: Tensor, want: torch.Tensor) -> None:
    assert got.dtype is ELEMENTS[str(want.dtype).removeprefix("torch.")]
    assert got.shape == tuple(want.shape)
    raw = want.detach().contiguous().reshape(-1)
    expected = bytes(raw.view(torch.uint8).numpy()) if want.numel() else b""
    assert np.ascontiguousarray(got.numpy()).tobytes() == expected
    assert np.ascontiguousarray(got.to("CPU").numpy()).tobytes() == expected


def test_every_type(written):
    tensors = {
        f"{name}.{number}": random_tensor(name, shape)
        for name in ELEMENTS
        for number, shape in enumerate([(3, 4), (), (0, 2), (1,)])
    }
    loaded = torch_load(written(tensors))
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        check(loaded[name], tensor)


def strided() -> dict[str, torch.Tensor]:
    x = torch.arange(120, dtype=torch.float32).reshape(4, 5, 6)
    return {
        "whole": x,
        "turned": x.permute(2, 0, 1),
        "part": x[1:3, 2:, 1:5],
        "stepped": x[::2, ::3, 1::2],
        "turned steps": x[::2, 1::2].permute(2, 1, 0)[::3],
        "repeated": x[1, 2].expand(3, 6),
        "repeated inside": x[:, :1, 2:3].expand(4, 5, 7),
        "one": x[3, 4, 5],
        "diagonal": torch.diagonal(x[0][:, :5]),
        "single axes": x[1:2, :, 3:4],
        "end": x.reshape(-1)[119:],
        "none of a part": x[2:2],
        "stride of a single": torch.as_strided(x, (1, 3), (1000, 7), 2),
    }


def test_strided_tensors_that_share_a_storage(written):
    tensors = strided()
    loaded = torch_load(written(tensors))
    for name, tensor in tensors.items():
        check(loaded[name], tensor)


def test_a_model_and_an_optimiser(written):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    # As torch.optim writes it, which takes seconds to import.
    moments = {"step": torch.tensor(1.0), "exp_avg": torch.ones(2, 3), "exp_avg_sq": torch.ones(2)}
    optimiser = {"state": {0: moments, 1: moments}, "param_groups": [{"lr": 0.5, "params": [0]}]}
    item = {
        "model": model.state_dict(),
        "optimiser": optimiser,
        "epoch": 3,
        "loss": 0.5,
        "names": ["a", ("b", None, True)],
        "size": torch.Size([2, 3]),
        "bytes": b"\xff\x00",
        "set": {1, 2},
        "big": 2**80,
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "device": torch.device("cpu"),
    }
    loaded: dict[str, Any] = torch_load(written(item))
    for name, tensor in item["model"].items():  # type: ignore[attr-defined]
        check(loaded["model"][name], tensor)
    state = item["optimiser"]["state"]  # type: ignore[index]
    for number, moments in state.items():
        for name, tensor in moments.items():
            check(loaded["optimiser"]["state"][number][name], tensor)
    assert loaded["optimiser"]["param_groups"][0]["lr"] == 0.5
    check(loaded["parameter"], item["parameter"])  # type: ignore[arg-type]
    for name in ("epoch", "loss", "names", "bytes", "set", "big"):
        assert loaded[name] == item[name]
    assert (loaded["size"], loaded["device"]) == ((2, 3), "cpu")


def test_tensors_that_are_negated_by_a_bit_are_refused(written):
    negated = torch._neg_view(torch.tensor([1.0, 2.0]))
    assert negated.is_neg()
    with pytest.raises(UserError, match=r"the bit neg, .* save the result of resolve_neg"):
        torch_load(written({"negated": negated}))
    resolved = torch_load(written({"resolved": negated.resolve_neg()}))["resolved"]
    assert resolved.tolist() == [-1.0, -2.0]


def test_objects_that_are_shared_stay_shared(written):
    shared = [torch.ones(2)]
    loaded: dict[str, Any] = torch_load(written({"a": shared, "b": shared}))
    assert loaded["a"] is loaded["b"]


def test_one_tensor_and_bytes_in_memory(written):
    path = written(torch.ones(3))
    check(torch_load(path), torch.ones(3))  # type: ignore[arg-type]
    check(torch_load(Tensor(path.read_bytes())), torch.ones(3))  # type: ignore[arg-type]
    check(torch_load(str(path)), torch.ones(3))  # type: ignore[arg-type]


def test_elements_are_views_of_the_file(tmp_path):
    path = tmp_path / "c"
    torch.save({"a": torch.arange(1000)}, path)
    loaded = torch_load(path)["a"]
    assert loaded.device == f"DISK:{path}"
    os.truncate(path, 300)
    with pytest.raises(DeviceError, match="truncated"):
        loaded.numpy()


# --- hostile pickles ----------------------------------------------------------------------------


class Call:
    """Object that pickles as a call of a function with arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.function, self.arguments


def zipped(*entries: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        for name, data in entries:
            out.writestr(name, data)
    return file.getvalue()


def archive(pickled: bytes, **entries: bytes) -> bytes:
    others = ((f"a/{name.replace('_', '/')}", data) for name, data in entries.items())
    return zipped(("a/data.pkl", pickled), *others)


def load(data: bytes) -> Any:
    return torch_load(Tensor(data))


def tensor_pickle(
    size: object = (4,),
    stride: object = (1,),
    offset: object = 0,
    count: object = 4,
    kind: str = "FloatStorage",
    key: object = "0",
) -> bytes:
    """Return a pickle of one float tensor whose parts can be anything."""

    def part(item: object) -> bytes:
        return pickle.dumps(item, 2)[2:-1]

    storage = b"(" + part("storage") + b"ctorch\n" + kind.encode() + b"\n"
    storage += part(key) + part("cpu") + part(count) + b"tQ"
    arguments = b"(" + storage + part(offset) + part(size) + part(stride) + b"\x89}t"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R."


@pytest.mark.parametrize(
    ("item", "name"),
    [
        (Call(os.system, "echo > ran"), "posix.system"),
        (Call(eval, "open('ran', 'w')"), "eval"),
        (Call(print, "x"), "print"),
        (Call(getattr, "torch", "load"), "getattr"),
        (np.float64(3), r"numpy\S* "),
        (np.ones(3), r"numpy\S* "),
        (Path("x"), "pathlib"),
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (torch.ones(2).to_sparse(), "sparse"),
        (torch.complex(torch.ones(2), torch.ones(2)), "ComplexFloatStorage"),
    ],
)
def test_other_globals_are_refused_by_name(written, item, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written({"a": item})
    with pytest.raises(UserError, match=f"the pickle asks for .*{name}"):
        torch_load(path)
    assert os.listdir(tmp_path) == ["checkpoint"]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_calls_are_refused_in_every_protocol(protocol):
    pickled = pickle.dumps({"a": Call(os.system, "false")}, protocol)
    with pytest.raises(UserError, match=r"posix\.system, which is not among what tensors need"):
        load(archive(pickled))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_plain_objects_are_read_in_every_protocol(protocol):
    item = {
        "a": [1, -5, 2**70, 300, 70000, 1.5, None, True, False, "text", "ключ", b"bytes"],
        "b": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {3: {4}, 5: frozenset((6,))}),
        "c": OrderedDict(x=1, y=[]),
    }
    if protocol < 4:
        item["b"] = ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))
    assert load(archive(pickle.dumps(item, protocol))) == item


PICKLES = {
    "nothing": (b"", "no data|pickle"),
    "no end": (b"\x80\x02}", "pickle exhausted"),
    "an opcode unknown": (b"\x80\x02\xff.", "unknown"),
    "a call of a list with a tuple": (b"])R.", "the pickle calls a list"),
    "a call of a type": (b"ctorch\nFloatStorage\n)R.", "the pickle calls FloatStorage"),
    "a call without a tuple": (b"ccollections\nOrderedDict\n]R.", "without a tuple"),
    "an empty stack": (b".", "takes an object that it did not put there"),
    "a memo that is not there": (b"h\x05.", "takes an object that it did not put there"),
    "a mark for an object": (b"(.", "takes a mark"),
    "an old instance": (b"(iposix\nsystem\n.", "has INST"),
    "an old object": (b"(c__builtin__\nset\no.", "has OBJ"),
    "an extension": (b"\x82\x01.", "has EXT1"),
    "a new object with names": (b"\x80\x04ccollections\nOrderedDict\n)}\x92.", "has NEWOBJ_EX"),
    "a state": (b"]}b.", "gives a state to a list"),
    "items of a list": (b"]K\x01K\x02s.", "sets items of a list"),
    "an append to a dictionary": (b"}K\x01a.", "appends to a dict"),
    "a tuple for a key": (b"}K\x01\x85K\x01s.", "has a tuple for a key"),
    "a key that doubles": (b"}K\x01" + b"2\x86" * 200 + b"K\x01s.", "has a tuple for a key"),
    "a name that doubles": (b"K\x01" + b"2\x86" * 200 + b"2\x93.", "a global that is not a name"),
    "a list that holds itself": (b"]2a.", "a container that contains itself"),
    "a long text that is not there": (b"\x8d" + struct.pack("<Q", 2**60) + b"x.", "only 2 remain"),
    "a text longer than the file": (b"X" + struct.pack("<I", 2**30) + b"x.", "expected|bytes in"),
    "a number of a million digits": (b"I" + b"1" * 10**6 + b"\n.", "Exceeds the limit"),
    "a memo far away": (b"]r\xff\xff\xff\x7f0j\xff\xff\xff\x7e.", "takes an object"),
    "another object": (b"(K\x01tQ.", "not a storage"),
    "a negative size": (tensor_pickle(size=(-4,)), "a size that is not a number"),
    "a size of a text": (tensor_pickle(size=("4",)), "a size that is not a number"),
    "a size of a float": (tensor_pickle(size=(4.0,)), "a size that is not a number"),
    "a size of a bool": (tensor_pickle(size=(True,)), "a size that is not a number"),
    "no sizes": (tensor_pickle(size=4), "not a tuple of up to"),
    "too many axes": (tensor_pickle(size=(1,) * 65, stride=(1,) * 65), "not a tuple of up to 64"),
    "a negative stride": (tensor_pickle(stride=(-1,), offset=3), "a size that is not a number"),
    "fewer strides": (tensor_pickle(stride=()), "with strides"),
    "beyond the storage": (tensor_pickle(size=(5,)), "ends at element 4 of 4"),
    "an offset beyond the storage": (tensor_pickle(size=(0,), offset=5), "starts at 5 of 4"),
    "a stride beyond the storage": (tensor_pickle(stride=(2,)), "ends at element 6 of 4"),
    "a size beyond all": (tensor_pickle(size=(2**62, 2**62), stride=(1, 1)), "ends at element"),
    "elements twice": (tensor_pickle(size=(2, 2), stride=(1, 1)), "overlap"),
    "a larger storage": (tensor_pickle(count=5), "storage 0 has 16 bytes, 20 are needed"),
    "a storage that is not there": (tensor_pickle(key="1"), "has no storage 1"),
    "a storage elsewhere": (tensor_pickle(key="../0"), r"has no storage \.\./0"),
    "a key of no text": (tensor_pickle(key=0), "whose key is not a text"),
    "a storage without a type": (tensor_pickle(kind="float32"), "has no element type"),
    "a storage of bytes": (tensor_pickle(kind="UntypedStorage"), "without a typed storage"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_broken_pickles_are_refused(name):
    pickled, reason = PICKLES[name]
    with pytest.raises(UserError, match=reason) as caught:
        load(archive(pickled, data_0=bytes(16)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_pickle_of_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr("tinyref.nn.state.pickles.MAX_STEPS", 1000)
    assert load(archive(b"(" + b"]" * 900 + b"l."))
    with pytest.raises(UserError, match="more than 1000 steps"):
        load(archive(b"(" + b"]" * 1100 + b"l."))


def test_the_pickle_of_these_tests_is_good():
    check(load(archive(tensor_pickle(), data_0=bytes(16))), torch.zeros(4))


# --- hostile archives ---------------------------------------------------------------------------


GOOD = (("a/data.pkl", tensor_pickle()), ("a/data/0", bytes(16)))
ARCHIVES = {
    "no archive": (b"PK\x03\x04" + bytes(100), "not a zip file"),
    "no pickle": (zipped(("a/data/0", b"")), "0 entries data.pkl"),
    "two pickles": (zipped(*GOOD, ("b/data.pkl", b"")), "2 entries data.pkl"),
    "a path upwards": (zipped(*GOOD, ("a/../../x", b"")), "an entry with the path"),
    "an absolute path": (zipped(*GOOD, ("/etc/x", b"")), "an entry with the path"),
    "a compressed entry": (zipped(*GOOD, compression=zipfile.ZIP_DEFLATED), "is compressed"),
    "a bomb": (
        zipped(*GOOD, ("a/data/1", bytes(10**7)), compression=zipfile.ZIP_BZIP2),
        "is compressed",
    ),
    "big endian": (zipped(*GOOD, ("a/byteorder", b"big")), "byte order is b'big'"),
    "a short storage": (zipped(GOOD[0], ("a/data/0", bytes(15))), "15 bytes, 16 are needed"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_broken_archives_are_refused(name):
    data, reason = ARCHIVES[name]
    with pytest.raises(UserError, match=reason):
        load(data)


def test_two_entries_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped(*GOOD, GOOD[1])
    with pytest.raises(UserError, match="two entries 'a/data/0'"):
        load(data)


def test_entries_that_overlap_are_refused():
    # The directory gives two entries the same bytes: a way to expand a small file.
    data = bytearray(zipped(*GOOD, ("a/data/1", bytes(16))))
    first, second = data.index(b"PK\x03\x04a/data/0"[:4], 1), data.rindex(b"PK\x01\x02")
    assert first
    position = data.index(b"a/data/0") - zipfile.sizeFileHeader
    data[second + 42 : second + 46] = struct.pack("<I", position)
    with pytest.raises(UserError, match="not where the directory says"):
        load(bytes(data))


def test_other_files_are_refused():
    for data in (b"", b"hello", pickle.dumps({"a": 1}), pickle.dumps(Call(os.system, "false"))):
        with pytest.raises(UserError, match="torch_load: not a checkpoint"):
            load(data)


def test_big_endian_legacy_files_are_refused(tmp_path):
    path = tmp_path / "c"
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    changed = data.replace(b"little_endianq\x02\x88", b"little_endianq\x02\x89")
    assert changed != data
    with pytest.raises(UserError, match="not written by a little-endian machine"):
        load(changed)


def test_element_types_are_all_there():
    assert set(ELEMENTS.values()) == set(dtypes.all)
