"""Rows of `nn.state`: weights go from the device into files, from files to the device, and into
models. Files are judged by their bytes, tensors by type, shape and bits.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.system.state_files import GGUF, TAR, TORCH, TORCH_LEGACY

if TYPE_CHECKING:
    from tinyref import Tensor

# What the format calls each type: https://huggingface.co/docs/safetensors
SAFE_TYPES: dict[str, DType] = {
    **{"BOOL": dtypes.bool, "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2},
    **{"U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64},
    **{"I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32, "I64": dtypes.int64},
    **{"F16": dtypes.float16, "BF16": dtypes.bfloat16},
    **{"F32": dtypes.float32, "F64": dtypes.float64},
}
Pairs = Iterator[tuple[str, object, object]]


def _tensor(values: Any, device: DeviceUnderTest) -> Tensor:
    from tinyref import Tensor

    return Tensor(values, device=device.name)


def _compare_pairs(pairs: Pairs) -> Measurement:
    """Passes where all that was found is what was wanted; arrays in type, shape and bits."""
    compared = 0
    for what, found, wanted in pairs:
        compared += 1
        if isinstance(wanted, np.ndarray):
            found, wanted = _bits(found), _bits(wanted)
        if found != wanted:
            return Measurement(False, f"{what}: expected {wanted!r}, got {found!r}", compared)
    return Measurement(bool(compared), compared=compared)


def _bits(values: Any) -> tuple[str, tuple[int, ...], str]:
    """Type, shape and elements, of an array or of a tensor, which is read."""
    array = values if isinstance(values, np.ndarray) else values.numpy()
    return str(array.dtype), tuple(array.shape), np.ascontiguousarray(array).tobytes().hex()


def _on(device: DeviceUnderTest, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the device, with elements of their own there."""
    return {name: tensor.to(device.name).contiguous() for name, tensor in tensors.items()}


# safetensors


def _safe(header: Mapping[str, object], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SAFE_HEADER: dict[str, object] = {
    "__metadata__": {"by": "hand"},
    "floats": _entry("F32", [2, 2], 0, 16),
    "numbers": _entry("I32", [3], 16, 28),
    "none": _entry("U8", [0, 2], 28, 28),
    "one": _entry("BOOL", [], 28, 29),
}
SAFE_ARRAYS: dict[str, Array] = {
    "floats": np.array([[1, -2], [0.5, 0]], np.float32),
    "numbers": np.array([1, -2, 2**31 - 1], np.int32),
    "none": np.zeros((0, 2), np.uint8),
    "one": np.array(True),
}
SAFE = _safe(SAFE_HEADER, b"".join(array.tobytes() for array in SAFE_ARRAYS.values()))


def _safe_load(case_id: str, device: DeviceUnderTest) -> Measurement:
    """From bytes on the device, and from a file."""
    from tinyref import nn

    def pairs() -> Pairs:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.safetensors"
            path.write_bytes(SAFE)
            for source in (_tensor(SAFE, device), path, str(path)):
                loaded = _on(device, nn.state.safe_load(source))
                yield "names", sorted(loaded), sorted(SAFE_ARRAYS)
                for name, wanted in SAFE_ARRAYS.items():
                    yield name, loaded[name], wanted

    return _compare_pairs(pairs())


def _safe_load_metadata(case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        data, start, header = nn.state.safe_load_metadata(_tensor(SAFE, device))
        yield "start", start, len(SAFE) - 29
        yield "header", header, SAFE_HEADER
        yield "bytes", data, np.frombuffer(SAFE, np.uint8)

    return _compare_pairs(pairs())


def _values(dtype: DType) -> dict[str, Array]:
    """Every bit pattern of a byte that the type has, a matrix, a scalar, and nothing."""
    wide = np.arange(256, dtype=np.uint8).repeat(dtype.itemsize).view(numpy_dtype(dtype))
    if dtype.is_bool:
        wide = np.array([False, True])
    small = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    return {"wide": wide, "matrix": small, "one": small[1, 0], "none": small[:0]}


def _safe_save(dtype: DType, case_id: str, device: DeviceUnderTest) -> Measurement:
    """From the device to a file, judged by its bytes, and back to the device."""
    from tinyref import nn

    arrays = {name: np.asarray(array) for name, array in _values(dtype).items()}
    tensors = {name: _tensor(array, device) for name, array in arrays.items()}
    # One that is computed when it is saved.
    arrays["turned"], tensors["turned"] = arrays["matrix"].T, tensors["matrix"].permute(1, 0)

    def pairs() -> Pairs:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "a.safetensors")
            nn.state.safe_save(tensors, path, {"of": dtype.name})
            header, data = _parse(Path(path).read_bytes())
            loaded = _on(device, nn.state.safe_load(path))
            yield "metadata", header.pop("__metadata__"), {"of": dtype.name}
            yield "names", sorted(header), sorted(arrays)
            for name, array in arrays.items():
                entry = header[name]
                begin, end = entry["data_offsets"]
                yield f"type of {name}", SAFE_TYPES[entry["dtype"]], dtype
                yield f"shape of {name}", entry["shape"], list(array.shape)
                yield f"bytes of {name}", data[begin:end], array.tobytes()
                yield name, loaded[name], array

    return _compare_pairs(pairs())


def _parse(file: bytes) -> tuple[dict[str, Any], bytes]:
    """The header, and the bytes after it."""
    end = 8 + int.from_bytes(file[:8], "little")
    return json.loads(file[8:end]), file[end:]


# Files of other programs


def _torch_load(file: bytes, case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        loaded: dict[str, Any] = nn.state.torch_load(_tensor(file, device))
        yield "names", list(loaded), ["weight", "bias", "epoch", "names"]
        yield "objects", (loaded["epoch"], loaded["names"]), (7, ["a", None])
        found = _on(device, {name: loaded[name] for name in ("weight", "bias")})
        whole = np.arange(12, dtype=np.float32).reshape(4, 3) / 4
        yield "weight", found["weight"], whole[1:, :2].T
        yield "bias", found["bias"], np.array([5, -6], np.int32)

    return _compare_pairs(pairs())


def _gguf_load(case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        metadata, tensors = nn.state.gguf_load(_tensor(GGUF, device))
        wanted = {"layers": 2, "name": "ü", "sizes": [1, -2]}
        yield "metadata", {name: metadata[name] for name in wanted}, wanted
        found = _on(device, tensors)
        yield "names", sorted(found), ["blocks", "plain"]
        yield "plain", found["plain"], np.arange(6, dtype=np.float32).reshape(2, 3) / 4
        yield "blocks", found["blocks"], _halves(0.5).reshape(1, 32)

    return _compare_pairs(pairs())


def _halves(scale: float) -> Array:
    """What a block of Q4_0 with the halves 0 to 15 and 15 to 0 is: scale times (half - 8)."""
    count = np.arange(16)
    return (scale * (np.concatenate([count, 15 - count]) - 8)).astype(np.float32)


def _ggml(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Q4_0 (2), two blocks; Q8_0 (8), one; float32 (0) and int32 (26) as they are."""
    from tinyref import nn

    count = np.arange(16)
    nibbles = (count + 16 * (15 - count)).astype(np.uint8).tobytes()
    scales = [np.float16(scale).tobytes() for scale in (0.25, -3.0)]
    signed = np.arange(-16, 16, dtype=np.int8)
    plain = np.array([1.5, -2, 3], np.float32)
    numbers = np.array([7, -8], np.int32)

    def pairs() -> Pairs:
        for kind, data, wanted in (
            (2, scales[0] + nibbles + scales[1] + nibbles, [_halves(0.25), _halves(-3.0)]),
            (8, scales[1] + signed.tobytes(), [(signed * -3.0).astype(np.float32)]),
            (0, plain.tobytes() + b"more", [plain]),
            (26, numbers.tobytes(), [numbers]),
        ):
            whole = np.concatenate(wanted)
            found = nn.state.ggml_data_to_tensor(_tensor(data, device), whole.size, kind)
            yield f"type {kind}", found, whole

    return _compare_pairs(pairs())


def _tar_extract(case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        found = nn.state.tar_extract(_tensor(TAR, device))
        wanted = {"a.txt": b"one\n", "sub/b": bytes(range(250, 256)), "c": b""}
        yield "names", list(found), list(wanted)
        for name, content in wanted.items():
            yield name, found[name], np.frombuffer(content, np.uint8)

    return _compare_pairs(pairs())


# Models


class Model:
    """Tensors in attributes, lists and dictionaries, one of them twice."""

    def __init__(self, device: DeviceUnderTest) -> None:
        self.first = _tensor(np.zeros((2, 2), np.float32), device)
        self.rest = [_tensor(np.zeros(3, np.int32), device), {"last": _tensor([0.0], device)}]
        self.again = self.first
        self.size = 3


MODEL_NAMES = ["first", "rest.0", "rest.1.last", "again"]


def _state_for_model(device: DeviceUnderTest) -> dict[str, Tensor]:
    """A state for `Model`: numbers for the floats, a scalar for the tensor of one element."""
    matrix = _tensor(np.array([[1, 2], [3, 4]], np.int32), device)
    numbers = _tensor(np.array([5, 6, 7], np.int32), device)
    return dict(zip(MODEL_NAMES, (matrix, numbers, _tensor(8.0, device), matrix), strict=True))


def _get_state_dict(case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        model = Model(device)
        found = nn.state.get_state_dict(model)
        yield "names", list(found), MODEL_NAMES
        yield "the tensors themselves", found["rest.0"] is model.rest[0], True
        yield "prefix", list(nn.state.get_state_dict([model.first], "a")), ["a.0"]
        sizes = nn.state.get_state_dict(model, tensor_type=int)
        yield "of another type", sizes, {"size": 3}

    return _compare_pairs(pairs())


def _get_parameters(case_id: str, device: DeviceUnderTest) -> Measurement:
    from tinyref import nn

    def pairs() -> Pairs:
        model = Model(device)
        found = nn.state.get_parameters(model)
        wanted = [model.first, model.rest[0], model.rest[1]["last"]]  # type: ignore[index]
        yield "each once", list(map(id, found)), list(map(id, wanted))

    return _compare_pairs(pairs())


def _load_state_dict(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Elements are cast to the model's type; what is not there stays; what was used may go."""
    from tinyref import nn

    def pairs() -> Pairs:
        model = Model(device)
        nn.state.load_state_dict(model, _state_for_model(device), verbose=False)
        found = nn.state.get_state_dict(model)
        yield "first", found["first"], np.array([[1, 2], [3, 4]], np.float32)
        yield "rest.0", found["rest.0"], np.array([5, 6, 7], np.int32)
        yield "rest.1.last", found["rest.1.last"], np.array([8], np.float32)
        yield "device", found["first"].device, found["rest.0"].device
        other = Model(device)
        part = {
            "rest.0": _state_for_model(device)["rest.0"],
            "more": _state_for_model(device)["first"],
        }
        nn.state.load_state_dict(other, part, strict=False, verbose=False, consume=True)
        yield "what is left", list(part), ["more"]
        yield "a part", other.rest[0], np.array([5, 6, 7], np.int32)
        yield "not there", other.first, np.zeros((2, 2), np.float32)

    return _compare_pairs(pairs())


# The rows


@dataclass(frozen=True)
class Job:
    """What a function of `nn.state` must do."""

    sentence: str
    checks: tuple[Check, ...]


def _each_type() -> tuple[Check, ...]:
    return tuple(
        Check(dtype.name, functools.partial(_safe_save, dtype), needs=kernel_needs(dtype))
        for dtype in SAFE_TYPES.values()
    )


JOBS: dict[str, Job] = {
    "safe_save": Job("Tensors of every type go to a file and back.", _each_type()),
    "safe_load": Job("The tensors of a file of safetensors.", (Check("values", _safe_load),)),
    "safe_load_metadata": Job(
        "The header of a file of safetensors.", (Check("values", _safe_load_metadata),)
    ),
    "torch_load": Job(
        "The tensors and plain objects of a checkpoint of torch; nothing in it is run.",
        (
            Check("zip", functools.partial(_torch_load, TORCH)),
            Check("legacy", functools.partial(_torch_load, TORCH_LEGACY)),
        ),
    ),
    "gguf_load": Job("The metadata and tensors of a GGUF file.", (Check("values", _gguf_load),)),
    "ggml_data_to_tensor": Job("Blocks of quantised numbers.", (Check("values", _ggml),)),
    "tar_extract": Job("The files of an archive.", (Check("values", _tar_extract),)),
    "get_state_dict": Job("The tensors of a model by path.", (Check("values", _get_state_dict),)),
    "get_parameters": Job(
        "The tensors of a model, each once.", (Check("values", _get_parameters),)
    ),
    "load_state_dict": Job("A model takes over a state.", (Check("values", _load_state_dict),)),
}


def rows() -> Iterator[Row]:
    """Every function of `nn.state`: what it gives. Its refusals are tests of tests/nn."""
    plain = (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.bool)
    for name, job in JOBS.items():
        is_of_blocks = name in ("gguf_load", "ggml_data_to_tensor")
        # The scale of a block is in float16, by the bits of a uint16; its numbers are int8.
        blocks = (dtypes.float16, dtypes.int8, dtypes.uint16) if is_of_blocks else ()
        needs = kernel_needs(*plain, *blocks)
        yield make_row(
            f"system.state.{name}",
            f"{name}: {job.sentence}",
            clauses=("system.state",),
            rung=Rung.JIT,
            op=f"nn.state.{name}",
            needs=needs,
            error_rule="Equal in every bit.",
            checks=functools.partial(list, job.checks),
        )
