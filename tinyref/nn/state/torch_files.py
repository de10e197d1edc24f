"""Checkpoints from `torch.save`: zip archives, and older files without an archive."""

from __future__ import annotations

import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from tinyref.dtype import DType, dtypes
from tinyref.nn.state.pickles import AllowedGlobal, Global, PickleReader, plain_keys
from tinyref.nn.state.reading import ByteReader, check_bools, parsed, section, tensor_of_bytes
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import fixed
from tinyref.tensor.core import pad, shrink
from tinyref.tensor.literals import MAX_AXES

ZIP_START = b"PK\x03\x04"
LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001

STORAGES: dict[str, DType | None] = {
    "BoolStorage": dtypes.bool,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ShortStorage": dtypes.int16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "UntypedStorage": None,
}
ELEMENTS: dict[str, DType] = {
    "bool": dtypes.bool,
    "uint8": dtypes.uint8,
    "int8": dtypes.int8,
    "uint16": dtypes.uint16,
    "int16": dtypes.int16,
    "uint32": dtypes.uint32,
    "int32": dtypes.int32,
    "uint64": dtypes.uint64,
    "int64": dtypes.int64,
    "float16": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "float32": dtypes.float32,
    "float64": dtypes.float64,
    "float8_e4m3fn": dtypes.fp8e4m3,
    "float8_e5m2": dtypes.fp8e5m2,
}


@dataclass
class FileStorage:
    """A range of bytes in a file that tensors share."""

    # None if the tensors have the type.
    dtype: DType | None
    nbytes: int
    # -1 until the offset is known.
    offset: int = -1
    # True after the bytes of bools were checked.
    is_checked: bool = False


@dataclass(frozen=True)
class _Strided:
    """The description of a tensor in the pickle, before the offset of its storage is known."""

    storage: FileStorage
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def torch_load(t: Tensor | str | PurePath) -> dict[str, Tensor]:
    """Return the saved object, usually a dictionary of tensors, which are views of the file.

    `t` is a path, or the bytes of a file on any device. Nothing in the file is executed: only
    globals for tensors, parameters, storages and plain containers are accepted. Tensors that shared
    memory are read separately. Raises `UserError` for bytes in another format, and `DeviceError`
    for a file that cannot be read.

    Examples:
        >>> import io, pickle, zipfile
        >>> packed = io.BytesIO()  # as torch.save writes it: a zip around a pickle
        >>> with zipfile.ZipFile(packed, "w") as archive:
        ...     archive.writestr("file/data.pkl", pickle.dumps({"step": 3}, protocol=2))
        >>> nn.state.torch_load(Tensor(packed.getvalue()))
        {'step': 3}
    """
    tensor = tensor_of_bytes(t, "torch_load")

    def parse() -> object:
        with ByteReader(tensor) as file:
            start = file.read(len(ZIP_START))
            file.seek(0)
            return _load_zip(tensor, file) if start == ZIP_START else _load_legacy(tensor, file)

    return cast(dict[str, Tensor], parsed("torch_load", parse))


# --- what a pickle may ask for ------------------------------------------------------------------


def _sizes(values: object, subject: str) -> tuple[int, ...]:
    if not isinstance(values, tuple | list) or len(values) > MAX_AXES:
        raise ValueError(f"{subject} is not a tuple of up to {MAX_AXES} sizes")
    for value in values:
        if type(value) is not int or not 0 <= value < 2**63:
            raise ValueError(f"{subject} has a size that is not a number of 0 or more")
    return tuple(values)


def _rebuild(
    storage: object, offset: object, size: object, stride: object,
    requires_grad: object = False, hooks: object = None, bits: object = None,
) -> object:  # fmt: skip
    """Return a tensor of the storage's type. Two of the arguments are about gradients."""
    if not isinstance(storage, FileStorage) or storage.dtype is None:
        raise ValueError("a tensor without a typed storage")
    _refuse_bits(bits)
    return _strided_tensor(storage, storage.dtype, offset, size, stride)


def _rebuild_untyped(
    storage: object, offset: object, size: object, stride: object,
    requires_grad: object, hooks: object, dtype: object, bits: object = None,
) -> object:  # fmt: skip
    if not isinstance(storage, FileStorage):
        raise ValueError("a tensor without a storage")
    _refuse_bits(bits)
    element = dtype.value if isinstance(dtype, AllowedGlobal) else None
    if not isinstance(element, DType):
        raise ValueError("a tensor without an element type")
    return _strided_tensor(storage, element, offset, size, stride)


def _refuse_bits(bits: object) -> None:
    """Raise ValueError if a tensor differs from the elements of its storage.

    Torch stores a pending negation or conjugation as a bit in addition to the storage.
    """
    if not bits:
        return
    if not isinstance(bits, dict):
        raise ValueError("a tensor whose bits are not a dictionary")
    names = sorted(str(name) for name, is_set in bits.items() if is_set)
    if names:
        raise ValueError(
            f"a tensor with the bit {', '.join(names)}, which differs from the elements in the "
            "file: save the result of resolve_neg() or resolve_conj()"
        )


def _strided_tensor(
    storage: FileStorage, dtype: DType, offset: object, size: object, stride: object
) -> _Strided:
    (start,) = _sizes((offset,), "the offset of a tensor")
    shape = _sizes(size, "the shape of a tensor")
    return _Strided(storage, dtype, start, shape, _sizes(stride, "the strides of a tensor"))


def _parameter(data: object, *_: object) -> object:
    if not isinstance(data, _Strided):
        raise ValueError("a parameter without a tensor")
    return data


def _with_type(function: object, kind: object, arguments: object, state: object) -> object:
    """Return a Tensor or Parameter without the attributes that were added to it."""
    if not isinstance(function, AllowedGlobal) or not isinstance(kind, AllowedGlobal):
        raise ValueError("a tensor of an unknown kind")
    if kind.name not in ("Tensor", "Parameter") or function.make is None:
        raise ValueError(f"a tensor of kind {kind.name} made by {function.name}")
    if not isinstance(arguments, tuple):
        raise ValueError("a tensor without arguments")
    return function.make(*arguments)


def _ordered_dict(pairs: object = ()) -> object:
    if not isinstance(pairs, list | tuple):
        raise ValueError("an OrderedDict of no pairs")
    result: OrderedDict[Any, Any] = OrderedDict()
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError("an OrderedDict of no pairs")
        result[plain_keys(pair[:1])[0]] = pair[1]
    return result


def _set(items: object = ()) -> object:
    if not isinstance(items, list | tuple):
        raise ValueError("a set of no list")
    return set(plain_keys(items))


def _device(*names: object) -> str:
    if not all(isinstance(name, str | int) for name in names):
        raise ValueError("a device without a name")
    return ":".join(str(name) for name in names)


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("bytes in an encoding other than latin1")
    return text.encode("latin1")


def _allowed_globals() -> dict[Global, AllowedGlobal]:
    functions: dict[Global, Callable[..., object] | None] = {
        ("torch._utils", "_rebuild_tensor"): _rebuild,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
        ("torch._utils", "_rebuild_tensor_v3"): _rebuild_untyped,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        ("torch._tensor", "_rebuild_from_type_v2"): _with_type,
        ("torch", "Tensor"): None,
        ("torch.nn.parameter", "Parameter"): None,
        ("torch", "Size"): lambda sizes: _sizes(sizes, "a torch.Size"),
        ("torch", "device"): _device,
        ("collections", "OrderedDict"): _ordered_dict,
        ("_codecs", "encode"): _encode,
        ("builtins", "set"): _set,
        ("__builtin__", "set"): _set,
    }
    allowed = {key: AllowedGlobal(key[1], make) for key, make in functions.items()}
    for name, dtype in ELEMENTS.items():
        allowed["torch", name] = AllowedGlobal(name, value=dtype)
    for module in ("torch", "torch.storage", "torch.cuda"):
        for name, element in STORAGES.items():
            allowed[module, name] = AllowedGlobal(name, value=element)
    return allowed


ALLOWED = _allowed_globals()


class _Storages:
    """The storages of a pickle by key."""

    def __init__(self) -> None:
        self.by_key: dict[str, FileStorage] = {}

    def persistent(self, key: object) -> FileStorage:
        """Return the storage for ("storage", type, key, device, elements), in old files a view."""
        if not isinstance(key, tuple) or len(key) not in (5, 6) or key[0] != "storage":
            raise ValueError("the pickle asks for an object that is not a storage")
        kind, name, count = key[1], key[2], key[4]
        if not isinstance(name, str):
            raise ValueError("a storage whose key is not a text")
        if not isinstance(kind, AllowedGlobal) or kind.name not in STORAGES:
            raise ValueError(f"storage {name} has no element type")
        if len(key) == 6 and key[5] is not None:
            raise ValueError(f"storage {name} is a view of another: save it with a newer torch")
        (size,) = _sizes((count,), f"storage {name}")
        dtype = STORAGES[kind.name]
        nbytes = size * (1 if dtype is None else dtype.itemsize)
        known = self.by_key.setdefault(name, FileStorage(dtype, nbytes))
        if (known.dtype, known.nbytes) != (dtype, nbytes):
            raise ValueError(f"storage {name} is named with two types or sizes")
        return known


def _with_tensors(item: object, tensor: Tensor) -> object:
    """Replace every description in `item`, at any depth, by its tensor.

    Containers that `item` has several times are one object in the result too.
    """
    made: dict[int, Any] = {}
    waiting: list[tuple[Any, bool]] = [(item, False)]
    open_now: set[int] = set()
    while waiting:
        here, is_ready = waiting.pop()
        if id(here) in made:
            continue
        if isinstance(here, _Strided):
            made[id(here)] = _tensor_of(here, tensor)
        elif not isinstance(here, dict | list | tuple):
            made[id(here)] = here
        elif is_ready:
            made[id(here)] = _rebuilt(here, made)
            open_now.discard(id(here))
        else:
            if id(here) in open_now:
                raise ValueError("a container that contains itself")
            open_now.add(id(here))
            waiting.append((here, True))
            members = here.values() if isinstance(here, dict) else here
            waiting.extend((member, False) for member in members)
    return made[id(item)]


def _rebuilt(container: Any, made: dict[int, Any]) -> Any:
    if isinstance(container, dict):
        # Always a plain dict, also for an OrderedDict.
        return {key: made[id(value)] for key, value in container.items()}
    return type(container)(made[id(member)] for member in container)


def _tensor_of(strided: _Strided, tensor: Tensor) -> Tensor:
    storage, dtype = strided.storage, strided.dtype
    count = storage.nbytes // dtype.itemsize
    if dtype.is_bool and not storage.is_checked:
        check_bools(tensor, storage.offset, count, "torch_load")
        storage.is_checked = True
    row = section(tensor, storage.offset, count, dtype)
    return strided_view(row, strided.offset, strided.shape, strided.strides)


# --- zip archives -------------------------------------------------------------------------------


def _load_zip(tensor: Tensor, file: ByteReader) -> object:
    with zipfile.ZipFile(cast(Any, file)) as archive:
        entries = _entries(archive, file)
    pickles = [name for name in entries if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise ValueError(f"the archive has {len(pickles)} entries data.pkl, accepted is one")
    folder = pickles[0].removesuffix("data.pkl")
    order = entries.get(f"{folder}byteorder")
    if order is not None:
        file.seek(order[0])
        word = file.exactly(min(order[1], 16))
        if word != b"little":
            raise ValueError(f"the byte order is {word!r}, accepted is little endian")
    storages = _Storages()
    start, size = entries[pickles[0]]
    part = cast(BinaryIO, _Part(file, start, size))
    saved = PickleReader(ALLOWED, storages.persistent).read(part)
    for name, storage in storages.by_key.items():
        entry = entries.get(f"{folder}data/{name}")
        if entry is None:
            raise ValueError(f"the archive has no storage {name}")
        if entry[1] < storage.nbytes:
            raise ValueError(f"storage {name} has {entry[1]} bytes, {storage.nbytes} are needed")
        storage.offset = entry[0]
    return _with_tensors(saved, tensor)


def _entries(archive: zipfile.ZipFile, file: ByteReader) -> dict[str, tuple[int, int]]:
    """Return begin and size of each entry. Raises `ValueError` unless all can be read in place."""
    entries: dict[str, tuple[int, int]] = {}
    for entry in archive.infolist():
        name = entry.filename
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
            raise ValueError(f"the archive has an entry with the path {name!r}")
        if name in entries:
            raise ValueError(f"the archive has two entries {name!r}")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"entry {name!r} is compressed, accepted is stored")
        if entry.flag_bits & 1:
            raise ValueError(f"entry {name!r} is encrypted")
        file.seek(entry.header_offset)
        local = LOCAL_HEADER.unpack(file.exactly(LOCAL_HEADER.size))
        if local[0] != ZIP_START or file.exactly(local[9]) != _raw_name(entry):
            raise ValueError(f"entry {name!r} is not where the directory says")
        start = entry.header_offset + LOCAL_HEADER.size + local[9] + local[10]
        entries[name] = (start, entry.file_size)
    end = 0
    for name, (start, size) in sorted(entries.items(), key=lambda item: item[1]):
        if start < end or start + size > file.nbytes:
            raise ValueError(f"entry {name!r} overlaps another, or the end of the file")
        end = start + size
    return entries


def _raw_name(entry: zipfile.ZipInfo) -> bytes:
    is_utf8 = entry.flag_bits & 0x800
    return entry.orig_filename.encode("utf-8" if is_utf8 else "cp437")


class _Part:
    """The bytes of one entry as a file, for the parser of pickles."""

    def __init__(self, file: ByteReader, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self.size = size
        file.seek(start)

    def tell(self) -> int:
        return self.file.tell() - self.start

    def read(self, count: int = -1) -> bytes:
        left = self.size - self.tell()
        return self.file.read(left if count < 0 else min(count, left))

    def readline(self) -> bytes:
        return self.file.readline(self.size - self.tell())


# --- older files --------------------------------------------------------------------------------


def _load_legacy(tensor: Tensor, file: ByteReader) -> object:
    """Read an older file.

    It has pickles of a magic number, a version, the system, the object, and the keys of storages.
    Then follows each storage, after the number of its elements.
    """
    storages = _Storages()
    reader = PickleReader(ALLOWED, storages.persistent)
    try:
        magic = reader.read(file)
    except ValueError as error:
        raise ValueError(f"not a checkpoint: {error}") from error
    if magic != LEGACY_MAGIC or type(magic) is not int:
        raise ValueError("not a checkpoint: neither a zip archive nor torch's magic number")
    if reader.read(file) != LEGACY_PROTOCOL:
        raise ValueError(f"an unknown version, accepted is {LEGACY_PROTOCOL}")
    system = reader.read(file)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ValueError("the file was not written by a little-endian machine")
    saved = reader.read(file)
    keys = reader.read(file)
    if not isinstance(keys, list) or set(plain_keys(keys)) != set(storages.by_key):
        raise ValueError("the list of storages differs from the storages of the tensors")
    for key in keys:
        _locate_legacy(storages.by_key[key], key, file)
    return _with_tensors(saved, tensor)


def _locate_legacy(storage: FileStorage, name: str, file: ByteReader) -> None:
    count = int.from_bytes(file.exactly(8), "little")
    itemsize = 1 if storage.dtype is None else storage.dtype.itemsize
    if storage.offset != -1 or count * itemsize != storage.nbytes:
        raise ValueError(f"storage {name} is there twice, or with another size")
    storage.offset = file.tell()
    if storage.nbytes > file.nbytes - storage.offset:
        raise ValueError(f"storage {name} ends after the file")
    file.seek(storage.nbytes, 1)


# --- strided layouts ------------------------------------------------------------------------------


def strided_view(row: Tensor, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Return a view of `shape` with the elements `row[offset + i * strides[0] + ...]`.

    It is a view on every device. An axis of stride 0 repeats. Raises `ValueError` for elements
    outside the row, negative strides, and layouts that overlap in other ways.
    """
    (length,) = fixed(row.shape, "storage")
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise ValueError(f"shape {tuple(shape)} with strides {tuple(strides)} from {offset}")
    if 0 in shape:
        if offset > length:
            raise ValueError(f"a tensor starts at {offset} of {length} elements")
        return row[:0].reshape(tuple(shape))
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if last >= length:
        raise ValueError(f"a tensor ends at element {last} of {length}")
    # The axes that step through memory, from the longest step to the shortest.
    axes = sorted(
        (axis for axis, size in enumerate(shape) if size > 1 and strides[axis]),
        key=lambda axis: -strides[axis],
    )
    view = row[offset : last + 1]
    for number, axis in enumerate(axes, 1):
        # Until this axis is split off, the last axis of `view` has all remaining elements.
        step, size = strides[axis], shape[axis]
        left = 1 + sum((shape[other] - 1) * strides[other] for other in axes[number:])
        if left > step:
            raise ValueError(f"strides {tuple(strides)} of shape {tuple(shape)} overlap")
        outer = view.shape[:-1]
        missing = size * step - fixed(view.shape[-1:], "storage")[0]
        padding = ((0, 0),) * len(outer) + ((0, missing),)
        rows = pad(view, padding) if missing else view
        rows = rows.reshape((*outer, size, step))
        view = shrink(rows, (*((0, length) for length in (*outer, size)), (0, left)))
    sizes = tuple(shape[axis] for axis in axes)
    view = view.reshape(sizes)
    order = sorted(range(len(axes)), key=lambda index: axes[index])
    view = view.permute(tuple(order)) if len(order) > 1 else view
    single = tuple(
        1 if size == 1 or not step else size for size, step in zip(shape, strides, strict=True)
    )
    return view.reshape(single).expand(tuple(shape))
