"""Capabilities that a device declares, and the rules that they must satisfy when it is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from typing import Any

from tinyref import machine as machines
from tinyref.dtype import VECTOR_LANES, DType, dtypes
from tinyref.machine import FIXED, Machine
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.program import STORABLE_IN_WORDS
from tinyref.uops.tiles import MatrixTile

CORE_DTYPES = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
CORE_OPS = frozenset(
    (
        "ADD",
        "MUL",
        "IDIV",
        "MOD",
        "MAX",
        "CMPLT",
        "CMPNE",
        "AND",
        "OR",
        "XOR",
        "SHL",
        "SHR",
        "WHERE",
        "CAST",
        "BITCAST",
        "LOAD",
        "STORE",
    )
)
# The ops that a renderer may print.
OP_NAMES = frozenset(op.name for op in (*ALU, Ops.LOAD, Ops.STORE))
LANES = (1, *VECTOR_LANES)
# The dtypes in which emulated types are stored and computed.
_WORDS = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32})
_MADE_OF = {
    **{dtype: _WORDS | {dtypes.uint8, dtypes.float32} for dtype in dtypes.fp8s},
    **{
        dtype: _WORDS | {dtypes.uint16, dtypes.float32}
        for dtype in (dtypes.float16, dtypes.bfloat16)
    },
    **dict.fromkeys((dtypes.int64, dtypes.uint64), _WORDS),
    **dict.fromkeys((dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16), _WORDS),
}


@dataclass(frozen=True)
class Capabilities:
    """The declaration of a device; the conformance suite probes each entry both ways.

    It is checked when the device is opened; impossible values raise `DeviceError`.

    dtypes: the renderer prints them and the device computes in them.
    emulated: accepted too, because lowering rewrites them in terms of `dtypes`.
    ops: names of the ops that the renderer prints; the others are decomposed or refused.
    vector_lanes: widths of vector values, loads and stores; (1,) means scalars only.
    has_grid, has_groups: launch indices; groups of work-items, with barriers.
    shared_bytes: shared memory of one group, in bytes; without groups, scratch of a work-item.
    threads: host threads that may share a launch: they divide the groups of dimension 0; 1: none.
    machine: how fast a host computes and reads memory; it decides plans without a grid.
    grid_limit, group_limit: per dimension; group_size_limit: work-items of a group in all.
    buffer_limit: largest number of buffers of one kernel.
    view_alignment: views of kernels begin at multiples of this many bytes, a power of two, and of
    the size of their elements. A launch on other views is refused.
    images: image types may be loaded and stored, by texels: vectors of four float32.
    matrix_tiles: the tiles that WMMA multiplies, preferred ones first (`tinyref.uops.tiles`).
    tiles_pay: False if a tile is slower than its products one by one, as in an interpreter.
    keeps_subnormals: False where the device flushes them to zero.
    contracts_floats: products and sums may become one operation, which rounds once.
    reassociates_floats: float arithmetic may be transformed as if it were exact and of finite
    numbers: sums in another order, (x + y) - y as x, x * 0 as 0, x / y as x * (1 / y).
    division_traps: integer division by zero or MIN/-1 must be guarded.
    slow_division: integer division by a constant is slower than a product and shifts.
    is_single: only one such device exists: the next number after the colon does not open.
    is_interpreted: about a thousand times slower than compiled code; the suite uses small sizes.
    keeps_values: False if nothing runs: kernels are scheduled and counted but give no values.
    stored_in_words: 8- and 16-bit types that memory holds in words of 32 bits; only whole words
    are loaded and stored. It must include every emulated 8- or 16-bit integer.

    Examples:
        >>> from tinyref.backend import CORE_DTYPES, CORE_OPS, Capabilities, dtypes
        >>> declared = Capabilities(CORE_DTYPES, CORE_OPS, emulated=frozenset({dtypes.int64}))
        >>> declared.supports(dtypes.int64), declared.supports(dtypes.float64)
        (True, False)
    """

    dtypes: frozenset[DType]
    ops: frozenset[str]
    emulated: frozenset[DType] = frozenset()
    vector_lanes: tuple[int, ...] = (1,)
    has_grid: bool = False
    has_groups: bool = False
    shared_bytes: int = 0
    threads: int = 1
    grid_limit: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    group_limit: tuple[int, int, int] = (1024, 1024, 64)
    group_size_limit: int = 1024
    buffer_limit: int = 64
    view_alignment: int = 1
    images: bool = False
    matrix_tiles: tuple[MatrixTile, ...] = ()
    tiles_pay: bool = True
    keeps_subnormals: bool = True
    contracts_floats: bool = False
    reassociates_floats: bool = False
    division_traps: bool = False
    slow_division: bool = False
    is_interpreted: bool = False
    is_single: bool = False
    keeps_values: bool = True
    stored_in_words: frozenset[DType] = frozenset()
    machine: Machine = FIXED

    @property
    def rounds_each_operation(self) -> bool:
        """Return True if every float op is rounded separately, in the order of the program."""
        return not (self.contracts_floats or self.reassociates_floats)

    def supports(self, dtype: DType) -> bool:
        """Return True if kernels of this scalar type run, natively or emulated."""
        return dtype.scalar in self.dtypes or dtype.scalar in self.emulated


def _fields_of(kind: str) -> list[str]:
    """Return the names of the fields with this annotation."""
    return [field.name for field in fields(Capabilities) if field.type == kind]


def reason_without_values(ops: Collection[str], keeps_values: bool) -> str | None:
    """Return why a device computes no values to compare; None if it does compute them."""
    if not keeps_values:
        return "runs nothing and keeps no values: it is for schedules and counts"
    return None if ops else "holds data but runs no kernels"


def problem_of(declared: Capabilities) -> str | None:
    """Return the first impossible field: its name, its value and what is accepted."""
    for problems in (
        _type_problems,
        _op_problems,
        _limit_problems,
        _tile_problems,
        _contradictions,
    ):
        for problem in problems(declared):
            return problem
    return None


def _type_problems(declared: Capabilities) -> Iterator[str]:
    for name in ("dtypes", "emulated", "stored_in_words"):
        value = getattr(declared, name)
        if not isinstance(value, frozenset):
            yield f"{name} is {value!r}: accepted is a frozenset of dtypes"
            return
        for dtype in sorted(value, key=repr):
            if not isinstance(dtype, DType) or dtype not in dtypes.all:
                accepted = ", ".join(known.name for known in dtypes.all)
                yield f"{name} has {dtype!r}: accepted are {accepted}"


def _op_problems(declared: Capabilities) -> Iterator[str]:
    if not isinstance(declared.ops, frozenset):
        yield f"ops is {declared.ops!r}: accepted is a frozenset of names"
        return
    for name in sorted(declared.ops - OP_NAMES, key=repr):
        yield f"ops has {name!r}: accepted are {', '.join(sorted(OP_NAMES))}"


def _limit_problems(declared: Capabilities) -> Iterator[str]:
    for name in _fields_of("bool"):
        value = getattr(declared, name)
        if not isinstance(value, bool):
            yield f"{name} is {value!r}: accepted are True and False"
    for name in _fields_of("int"):
        value, least = getattr(declared, name), 0 if name == "shared_bytes" else 1
        if not _is_integer(value) or value < least:
            yield f"{name} is {value!r}: accepted are integers from {least}"
    for name in _fields_of("tuple[int, int, int]"):
        value = getattr(declared, name)
        if not _is_tuple_of_integers(value) or len(value) != 3 or min(value) < 1:
            yield f"{name} is {value!r}: accepted are three integers from 1, as a tuple"
    if not isinstance(declared.machine, Machine):
        yield f"machine is {declared.machine!r}: accepted is a Machine of tinyref.machine"
    elif problem := machines.problem_of(declared.machine):
        yield f"machine: {problem}"
    lanes = declared.vector_lanes
    accepted = f"a tuple of 1 and any of {', '.join(map(str, LANES[1:]))}"
    if not _is_tuple_of_integers(lanes) or 1 not in lanes or not set(lanes) <= set(LANES):
        yield f"vector_lanes is {lanes!r}: accepted is {accepted}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_tuple_of_integers(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_integer, value))


def _tile_problems(declared: Capabilities) -> Iterator[str]:
    if not isinstance(declared.matrix_tiles, tuple):
        yield f"matrix_tiles is {declared.matrix_tiles!r}: accepted is a tuple of MatrixTile"
        return
    for tile in declared.matrix_tiles:
        if not hasattr(tile, "dtype_in"):
            yield f"matrix_tiles has {tile!r}: accepted are tiles of tinyref.uops.tiles.TILES"
            return
        for dtype in (tile.dtype_in, tile.dtype_out):
            if not declared.supports(dtype):
                yield (
                    f"matrix_tiles has {tile.name}, of {dtype.name}, which is not declared: "
                    "accepted are tiles of types in dtypes or emulated"
                )
        if tile.threads > 1 and not declared.has_groups:
            yield (
                f"matrix_tiles has {tile.name}, of {tile.threads} work-items: "
                "accepted without has_groups are tiles of one"
            )
        elif tile.threads > declared.group_size_limit:
            yield (
                f"matrix_tiles has {tile.name}, of {tile.threads} work-items: "
                f"accepted are as many as group_size_limit, {declared.group_size_limit}"
            )


def _contradictions(declared: Capabilities) -> Iterator[str]:
    alignment = declared.view_alignment
    if alignment & (alignment - 1):
        yield f"view_alignment is {alignment}: accepted are powers of two"
    if declared.has_groups and not declared.has_grid:
        yield "has_groups is True and has_grid False: accepted are groups of a grid"
    if declared.threads > 1 and declared.has_grid:
        yield f"threads is {declared.threads} and has_grid True: accepted is 1 with a grid"
    for dtype in sorted(declared.emulated - declared.dtypes, key=repr):
        parts = _MADE_OF.get(dtype)
        if parts is None:
            accepted = ", ".join(other.name for other in dtypes.all if other in _MADE_OF)
            yield f"emulated has {dtype.name}, which no other types make: accepted are {accepted}"
        elif not parts <= declared.dtypes | declared.emulated:
            missing = ", ".join(
                sorted(part.name for part in parts - declared.dtypes - declared.emulated)
            )
            yield (
                f"emulated has {dtype.name} and dtypes lacks {missing}: "
                "accepted is a type whose memory and arithmetic dtypes has"
            )
    yield from _word_problems(declared)
    if declared.ops and not declared.dtypes:
        yield "dtypes is empty and ops is not: accepted are the dtypes that kernels compute in"


def _word_problems(declared: Capabilities) -> Iterator[str]:
    """Yield errors of the types in words, and of the types that must be in words."""
    for dtype in sorted(declared.stored_in_words, key=repr):
        if dtype not in STORABLE_IN_WORDS:
            accepted = ", ".join(word.name for word in STORABLE_IN_WORDS)
            yield f"stored_in_words has {dtype.name}: accepted are {accepted}"
        elif not declared.supports(dtype):
            yield f"stored_in_words has {dtype.name}: accepted are types in dtypes or emulated"
    if declared.stored_in_words and dtypes.uint32 not in declared.dtypes:
        yield "stored_in_words is not empty and dtypes lacks uint32: accepted are words of it"
    integers = frozenset(STORABLE_IN_WORDS) & declared.emulated - declared.dtypes
    for dtype in sorted(integers - declared.stored_in_words, key=repr):
        yield (
            f"emulated has {dtype.name} and stored_in_words has not: "
            "accepted are small integers whose memory is words"
        )


def plain_capabilities(capabilities: Capabilities) -> dict[str, str]:
    """Return each capability as a text that is the same in every process."""
    members = {}
    for field in fields(capabilities):
        value = getattr(capabilities, field.name)
        if isinstance(value, frozenset):
            value = ", ".join(sorted(str(getattr(member, "name", member)) for member in value))
        members[field.name] = str(value)
    return members
