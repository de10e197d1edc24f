"""The members of every payload as plain values, from which the text of graphs is made.

A plain value is None, a bool, int, float, str, `Word` (a str without quotes), a node, or a tuple of
plain values.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

from tinyref.dtype import ConstType, DType, dtype_from_name
from tinyref.errors import UserError
from tinyref.uops import payload as payloads
from tinyref.uops.node import UOp, sint, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, Payload
from tinyref.uops.tiles import (
    Bit,
    FragmentLayout,
    InputRounding,
    MatrixTile,
    bit_from_text,
)
from tinyref.views.shape_tracker import ShapeTracker, tracker_of
from tinyref.views.view import View

# Wide enough for int64 and uint64; a longer number is a mistake or an attack.
INT_LIMIT = 1 << 64
LONGEST_NAME = 1000
_CANONICAL_NAN = 0x7FF8000000000000


class Word(str):
    """A name of the language: an op, a dtype, a kind of axis."""

    __slots__ = ()


@dataclass(frozen=True)
class MemberKind:
    """How to write and read one member; `read` gets the plain value and its position."""

    accepted: str
    write: Callable[[Any], object]
    read: Callable[[object, str], Any]


def refuse(where: str, accepted: str, got: object) -> UserError:
    """Return the error for a value that is not `accepted`."""
    text = got.op.name if isinstance(got, UOp) else repr(got)
    return UserError(f"{where}: expected {accepted}, got {text[:80]}")


def _read_integer(value: object, where: str) -> int:
    if type(value) is not int:
        raise refuse(where, "an integer", value)
    if abs(value) >= INT_LIMIT:
        raise UserError(f"{where}: expected an integer below 2**64, got one with more digits")
    return value


def _read_name(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise refuse(where, "a text", value)
    return str(value)


def _read_constant(value: object, where: str) -> bool | int | float:
    if isinstance(value, bool | float):
        return value
    return _read_integer(value, where)


def _read_size(value: object, where: str) -> int | UOp:
    return value if isinstance(value, UOp) else _read_integer(value, where)


def _read_flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise refuse(where, "true or false", value)
    return value


def _read_op(value: object, where: str) -> Ops:
    if isinstance(value, str) and value in Ops.__members__:
        return Ops[value]
    raise refuse(where, "the name of an op", value)


def read_dtype(value: object, where: str) -> DType:
    """Return the dtype with the name `value`. Raises `UserError` beginning with `where`."""
    # A pointer to a pointer could be read, but there is no such type.
    if isinstance(value, str) and len(value) <= LONGEST_NAME and value.count("*") <= 1:
        try:
            dtype = dtype_from_name(value)
        except UserError:
            dtype = None
        if dtype is not None and dtype.name == value:
            return dtype
    raise refuse(where, "the name of a dtype", value)


def tuple_of(kind: MemberKind, count: int | None = None) -> MemberKind:
    """Return the kind of a tuple of members, of exactly `count` of them if it is not None."""
    accepted = f"a list of {kind.accepted}" if count is None else f"{count} times {kind.accepted}"

    def read(value: object, where: str) -> tuple[Any, ...]:
        if not isinstance(value, tuple) or (count is not None and len(value) != count):
            raise refuse(where, accepted, value)
        return tuple(kind.read(item, f"{where}[{i}]") for i, item in enumerate(value))

    return MemberKind(accepted, lambda value: tuple(map(kind.write, value)), read)


def _optional(kind: MemberKind) -> MemberKind:
    return MemberKind(
        f"{kind.accepted} or none",
        lambda value: None if value is None else kind.write(value),
        lambda value, where: None if value is None else kind.read(value, where),
    )


def _write_layout(layout: FragmentLayout) -> object:
    return _THREAD_BITS.write(layout.thread_bits), _REGISTER_BITS.write(layout.register_bits)


def _read_layout(value: object, where: str) -> FragmentLayout:
    if not isinstance(value, tuple) or len(value) != 2:
        raise refuse(where, "the bits of the thread and those of the register", value)
    threads, registers = _THREAD_BITS.read(value[0], where), _REGISTER_BITS.read(value[1], where)
    return FragmentLayout(threads, registers)


def _read_bit(value: object, where: str) -> Bit:
    if not isinstance(value, str):
        raise refuse(where, "a bit such as k2", value)
    try:
        return bit_from_text(value)
    except UserError:
        raise refuse(where, "a bit such as k2", value) from None


def _member_of(members: type[Enum], accepted: str) -> MemberKind:
    """Return the kind of a member of an enumeration, written as a word."""

    def read(value: object, where: str) -> Enum:
        try:
            return members(value)
        except ValueError:
            names = ", ".join(member.value for member in members)
            raise refuse(where, f"one of {names}", value) from None

    return MemberKind(accepted, lambda value: Word(value.value), read)


INTEGER = MemberKind("an integer", lambda value: value, _read_integer)
NAME = MemberKind("a text", lambda value: value, _read_name)
SIZE = MemberKind("a size", lambda value: value, _read_size)
DTYPE = MemberKind("a dtype", lambda value: Word(value.name), read_dtype)
_BIT = MemberKind("a bit", Word, _read_bit)
_THREAD_BITS = tuple_of(_optional(_BIT))
_REGISTER_BITS = tuple_of(_BIT)
# How to write a member of each type, except tuples and members that may be None.
_KINDS: dict[object, MemberKind] = {
    bool: MemberKind("true or false", lambda value: value, _read_flag),
    int: INTEGER,
    str: NAME,
    sint: SIZE,
    ConstType: MemberKind("a number or bool", lambda value: value, _read_constant),
    Ops: MemberKind("an op", lambda value: Word(value.name), _read_op),
    AxisKind: _member_of(AxisKind, "a kind of axis"),
    DType: DTYPE,
    FragmentLayout: MemberKind("a layout", _write_layout, _read_layout),
    InputRounding: _member_of(InputRounding, "a rounding"),
}
Fields = tuple[tuple[str, MemberKind], ...]


def _kind_of(hint: object) -> MemberKind:
    """Return how to write and read a member with this annotation."""
    if hint in _KINDS:
        return _KINDS[hint]
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return tuple_of(_kind_of(parts[0]), None if Ellipsis in parts else len(parts))
    inner = tuple(part for part in parts if part is not NoneType)
    if len(inner) == len(parts):
        raise TypeError(f"no member of a payload may be a {hint}")
    return _optional(_kind_of(functools.reduce(operator.or_, inner)))


def fields_of(owner: type, names: Iterable[str] = ()) -> Fields:
    """Return the annotated members of a class: all of them, or those named in `names`."""
    hints = get_type_hints(owner, localns={"UOp": UOp})
    return tuple((name, _kind_of(hints[name])) for name in names or hints)


# A view and a tile are written by their own members, the others by those of the payload.
_TILE_FIELDS = fields_of(MatrixTile)
_VIEW_FIELDS = fields_of(View, ("shape", "strides", "offset", "mask"))
_PAYLOADS = tuple(kind for kind in get_args(Payload) if kind is not NoneType)
_FIELDS: dict[type, Fields] = {
    kind: fields_of(kind) for kind in _PAYLOADS if kind not in (payloads.ViewArg, payloads.TileArg)
}
# The tag of a payload is the name of its class without "Arg".
_CLASSES: dict[str, type] = {kind.__name__.removesuffix("Arg"): kind for kind in _PAYLOADS}

# The members of a payload, by name; a payload of several views has one group for each.
Group = dict[str, object]


def write_payload(payload: Payload) -> tuple[str, list[Group]]:
    """Return the tag and the members of `payload`, which is not None."""
    tag = type(payload).__name__.removesuffix("Arg")
    if isinstance(payload, payloads.ViewArg):
        return tag, [_write(view, _VIEW_FIELDS) for view in tracker_of(payload).views]
    if isinstance(payload, payloads.TileArg):
        return tag, [_write(payload.tile, _TILE_FIELDS)]
    return tag, [_write(payload, _FIELDS[type(payload)])]


def _write(value: object, fields: Fields) -> Group:
    return {name: kind.write(getattr(value, name)) for name, kind in fields}


def read_payload(tag: object, groups: list[Group], where: str) -> Payload:
    """Build the payload with this tag and these members. Raises `UserError` with `where`."""
    kind = _CLASSES.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise refuse(where, f"a payload, one of {', '.join(_CLASSES)}", tag)
    try:
        if kind is payloads.ViewArg:
            members = [_read(group, _VIEW_FIELDS, where) for group in groups]
            return payloads.ViewArg(ShapeTracker(tuple(View(**group) for group in members)))
        if len(groups) != 1:
            raise UserError(f"{where}: expected one group of members, got {len(groups)}")
        if kind is payloads.TileArg:
            return payloads.TileArg(MatrixTile(**_read(groups[0], _TILE_FIELDS, where)))
        return cast(Payload, kind(**_read(groups[0], _FIELDS[kind], where)))
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(where) else f"{where}: {text}") from None


def _read(group: Group, fields: Fields, where: str) -> dict[str, Any]:
    if len(group) != len(fields) or not all(name in group for name, _ in fields):
        names = ", ".join(name for name, _ in fields)
        raise refuse(where, f"the members {names}", ", ".join(group))
    return {name: kind.read(group[name], f"{where}, {name}") for name, kind in fields}


def payload_nodes(payload: Payload) -> Iterator[UOp]:
    """Yield the nodes inside a payload: the symbolic sizes of shapes, bounds and views."""
    if isinstance(payload, payloads.ShapeArg):
        sizes: list[int | UOp] = list(payload.shape)
    elif isinstance(payload, payloads.BoundsArg):
        sizes = [end for pair in payload.bounds for end in pair]
    elif isinstance(payload, payloads.ViewArg):
        sizes = [number for view in tracker_of(payload).views for number in view.numbers()]
    else:
        return
    for size in sizes:
        if isinstance(size, UOp):
            yield size


def toposort_with_payloads(roots: tuple[UOp, ...]) -> list[UOp]:
    """Return all nodes reachable through sources and payloads once, before their users."""
    return toposort(roots, _needs)


def _needs(node: UOp) -> Iterator[UOp]:
    if node.arg is not None:
        yield from payload_nodes(node.arg)
    yield from node.src


def float_text(value: float) -> str:
    """Write a float so that it reads back to the same bits: `1.5`, `inf`, `nan:7ff8...1`."""
    if not math.isnan(value):
        return repr(value)
    bits = int(struct.unpack("<Q", struct.pack("<d", value))[0])
    return "nan" if bits == _CANONICAL_NAN else f"nan:{bits:016x}"


def float_from_text(text: str) -> float | None:
    """Read the float that `float_text` wrote; None for any other text."""
    if text == "nan":
        return _nan(_CANONICAL_NAN)
    try:
        if text.startswith("nan:"):
            value = _nan(int(text[4:], 16)) if len(text) == 20 else 0.0
            return value if float_text(value) == text else None
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _nan(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


# --- matrix tiles as JSON -------------------------------------------------------------------------

_DEEPEST = 8


def tile_to_json(tile: MatrixTile) -> dict[str, Any]:
    """Return a matrix tile as a dict for `json.dumps`."""
    return {name: _listed(value) for name, value in _write(tile, _TILE_FIELDS).items()}


def tile_from_json(data: object) -> MatrixTile:
    """Read the tile that `tile_to_json` wrote. Raises `UserError` for other data."""
    if not isinstance(data, Mapping):
        raise refuse("tile", "an object", data)
    group = {str(name): _tupled(value, 0) for name, value in data.items()}
    payload = read_payload("Tile", [group], "tile")
    assert isinstance(payload, payloads.TileArg), "the tag says so"
    return payload.tile


def _listed(value: object) -> object:
    if isinstance(value, tuple):
        return [_listed(item) for item in value]
    return str(value) if isinstance(value, Word) else value


def _tupled(value: object, depth: int) -> object:
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(_tupled(item, depth + 1) for item in value)
    return value
