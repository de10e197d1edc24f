"""Test matrix tiles: layouts against the vendors' formulas, laws of each tile, refusals.

The formulas are copied from the documents that `uops.tiles` cites. The laws count elements one by
one, and do not use bits of numbers.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable

import pytest

from tinyref.algebra.evaluate import value_of
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.formats.payload_fields import tile_from_json, tile_to_json
from tinyref.formats.text import from_text, to_text
from tinyref.uops import build
from tinyref.uops.build import tile_element
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import TileArg
from tinyref.uops.tiles import (
    GROUPS,
    TILES,
    Bit,
    FragmentLayout,
    InputRounding,
    MatrixTile,
    Operand,
)

f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
i8, i32 = dtypes.int8, dtypes.int32

Place = tuple[int, int]
# Row and column of the element that register i of thread t holds.
Formula = Callable[[int, int], Place]


# --- the documents -------------------------------------------------------------------------------
# PTX ISA: groupID is t >> 2, threadID_in_group is t % 4.


def c_of_m16n8(t: int, i: int) -> Place:
    return t // 4 + (8 if i >= 2 else 0), t % 4 * 2 + i % 2


def c_of_m8n8(t: int, i: int) -> Place:
    return t // 4, t % 4 * 2 + i


def a_m16n8k16(t: int, i: int) -> Place:
    return t // 4 + (0 if i in (0, 1, 4, 5) else 8), t % 4 * 2 + i % 2 + (8 if i >= 4 else 0)


def b_m16n8k16(t: int, i: int) -> Place:
    return t % 4 * 2 + i % 2 + (8 if i >= 2 else 0), t // 4


def a_m16n8k8(t: int, i: int) -> Place:
    return t // 4 + (0 if i in (0, 1) else 8), t % 4 * 2 + i % 2


def b_m16n8k8(t: int, i: int) -> Place:
    return t % 4 * 2 + i, t // 4


def a_tf32_k8(t: int, i: int) -> Place:
    return t // 4 + (0 if i in (0, 2) else 8), t % 4 + (0 if i in (0, 1) else 4)


def b_tf32_k8(t: int, i: int) -> Place:
    return t % 4 + 4 * i, t // 4


def a_tf32_k4(t: int, i: int) -> Place:
    return t // 4 + 8 * i, t % 4


def b_m8n8k4(t: int, i: int) -> Place:
    return t % 4, t // 4


def a_m8n8k4(t: int, i: int) -> Place:
    return t // 4, t % 4


def a_m8n8k16(t: int, i: int) -> Place:
    return t // 4, t % 4 * 4 + i


def b_m8n8k16(t: int, i: int) -> Place:
    return t % 4 * 4 + i, t // 4


def a_int_m16n8k16(t: int, i: int) -> Place:
    return t // 4 + (0 if i < 4 else 8), t % 4 * 4 + i % 4


def a_m16n8k32(t: int, i: int) -> Place:
    row = t // 4 + (0 if 0 <= i < 4 or 8 <= i < 12 else 8)
    return row, t % 4 * 4 + i % 4 + (0 if i < 8 else 16)


def b_m16n8k32(t: int, i: int) -> Place:
    return t % 4 * 4 + i % 4 + (0 if i < 4 else 16), t // 4


# AMD: a wave of 32 holds row t % 16 of A and column t % 16 of B, twice; register i of C has rows
# 2 i and 2 i + 1. A wave of 64 holds four k in a row from 4 (t / 16).


def a_rdna3(t: int, i: int) -> Place:
    return t % 16, i


def b_rdna3(t: int, i: int) -> Place:
    return i, t % 16


def c_rdna3(t: int, i: int) -> Place:
    return 2 * i + t // 16, t % 16


# RDNA4: the upper half of a wave has k from 8 on, and rows of C from 8 on.


def a_rdna4(t: int, i: int) -> Place:
    return t % 16, i + (8 if t >= 16 else 0)


def b_rdna4(t: int, i: int) -> Place:
    return i + (8 if t >= 16 else 0), t % 16


def a_cdna3(t: int, i: int) -> Place:
    return t % 16, 4 * (t // 16) + i


def b_cdna3(t: int, i: int) -> Place:
    return 4 * (t // 16) + i, t % 16


# Apple: quads of threads hold 2 x 4 blocks; quads 0 to 3 the upper half, left, left, right, right.


def apple(t: int, i: int) -> Place:
    quad, inside = divmod(t, 4)
    row = (quad & 4) + 2 * (quad & 1) + inside // 2
    return row, (4 if quad & 2 else 0) + inside % 2 * 2 + i


# Intel: component i of the first argument is row i, which the threads of the sub-group share.
# Thread t has column t of B and C: two rows of B, or one row of C, in each component.


def a_intel8(t: int, i: int) -> Place:
    component, half = divmod(i, 2)
    return component, 2 * t + half


def a_intel16(t: int, i: int) -> Place:
    return i, t


def column(t: int, i: int) -> Place:
    return i, t


DOCUMENTS: dict[str, tuple[int, DType, DType, Formula, Formula, Formula]] = {
    "nvidia_m16n8k16_float16_float32": (32, f16, f32, a_m16n8k16, b_m16n8k16, c_of_m16n8),
    "nvidia_m16n8k16_float16_float16": (32, f16, f16, a_m16n8k16, b_m16n8k16, c_of_m16n8),
    "nvidia_m16n8k16_bfloat16_float32": (32, bf16, f32, a_m16n8k16, b_m16n8k16, c_of_m16n8),
    "nvidia_m16n8k8_float16_float32": (32, f16, f32, a_m16n8k8, b_m16n8k8, c_of_m16n8),
    "nvidia_m16n8k8_float16_float16": (32, f16, f16, a_m16n8k8, b_m16n8k8, c_of_m16n8),
    "nvidia_m16n8k8_bfloat16_float32": (32, bf16, f32, a_m16n8k8, b_m16n8k8, c_of_m16n8),
    "nvidia_m16n8k8_tf32_float32": (32, f32, f32, a_tf32_k8, b_tf32_k8, c_of_m16n8),
    "nvidia_m16n8k4_tf32_float32": (32, f32, f32, a_tf32_k4, b_m8n8k4, c_of_m16n8),
    "nvidia_m8n8k4_float64_float64": (32, f64, f64, a_m8n8k4, b_m8n8k4, c_of_m8n8),
    "nvidia_m8n8k16_int8_int32": (32, i8, i32, a_m8n8k16, b_m8n8k16, c_of_m8n8),
    "nvidia_m16n8k16_int8_int32": (32, i8, i32, a_int_m16n8k16, b_m8n8k16, c_of_m16n8),
    "nvidia_m16n8k32_int8_int32": (32, i8, i32, a_m16n8k32, b_m16n8k32, c_of_m16n8),
    "rdna3_m16n16k16_float16_float32": (32, f16, f32, a_rdna3, b_rdna3, c_rdna3),
    "rdna3_m16n16k16_float16_float16": (32, f16, f16, a_rdna3, b_rdna3, c_rdna3),
    "rdna3_m16n16k16_bfloat16_float32": (32, bf16, f32, a_rdna3, b_rdna3, c_rdna3),
    "rdna3_m16n16k16_int8_int32": (32, i8, i32, a_rdna3, b_rdna3, c_rdna3),
    "rdna4_m16n16k16_float16_float32": (32, f16, f32, a_rdna4, b_rdna4, b_rdna4),
    "rdna4_m16n16k16_float16_float16": (32, f16, f16, a_rdna4, b_rdna4, b_rdna4),
    "rdna4_m16n16k16_bfloat16_float32": (32, bf16, f32, a_rdna4, b_rdna4, b_rdna4),
    "rdna4_m16n16k16_int8_int32": (32, i8, i32, a_rdna4, b_rdna4, b_rdna4),
    "cdna3_m16n16k16_float16_float32": (64, f16, f32, a_cdna3, b_cdna3, b_cdna3),
    "cdna3_m16n16k16_bfloat16_float32": (64, bf16, f32, a_cdna3, b_cdna3, b_cdna3),
    "apple_m8n8k8_float32_float32": (32, f32, f32, apple, apple, apple),
    "apple_m8n8k8_float16_float16": (32, f16, f16, apple, apple, apple),
    "apple_m8n8k8_bfloat16_bfloat16": (32, bf16, bf16, apple, apple, apple),
    "intel_m8n8k16_float16_float32": (8, f16, f32, a_intel8, column, column),
    "intel_m8n8k16_bfloat16_float32": (8, bf16, f32, a_intel8, column, column),
    "intel_m8n16k16_float16_float32": (16, f16, f32, a_intel16, column, column),
    "intel_m8n16k16_bfloat16_float32": (16, bf16, f32, a_intel16, column, column),
}

every_tile = pytest.mark.parametrize("tile", TILES.values(), ids=str)


def test_every_tile_has_its_document() -> None:
    assert set(TILES) == set(DOCUMENTS)
    assert {tile.name for group in GROUPS.values() for tile in group} == set(TILES)
    assert all(TILES[name].name == name for name in TILES)


@every_tile
def test_a_tile_is_as_its_document_says(tile: MatrixTile) -> None:
    threads, dtype_in, dtype_out, *formulas = DOCUMENTS[tile.name]
    assert (tile.threads, tile.dtype_in, tile.dtype_out) == (threads, dtype_in, dtype_out)
    m, n, k = tile.dims
    assert f"_m{m}n{n}k{k}_" in tile.name
    assert (tile.rounds_in is InputRounding.TF32) == ("tf32" in tile.name)
    for operand, formula in zip(Operand, formulas, strict=True):
        layout = tile.layout(operand)
        held = [(t, i) for t in range(threads) for i in range(layout.registers)]
        assert all(tile.element(operand, t, i) == formula(t, i) for t, i in held)
        is_replicated = tile.name.startswith("rdna3") and operand is not Operand.C
        assert layout.copies == (2 if is_replicated else 1)


# --- laws ----------------------------------------------------------------------------------------


@pytest.mark.sampled(7)
@every_tile
@pytest.mark.parametrize("operand", Operand)
def test_index_expressions_give_the_same_elements(tile: MatrixTile, operand: Operand) -> None:
    thread = build.variable("t", 0, 4 * tile.threads - 1)
    for register in range(tile.layout(operand).registers):
        row, column = tile_element(tile, operand, thread, register)
        for t in (*range(tile.threads), 3 * tile.threads + 1):
            element = tuple(value_of(index, {"t": t}) for index in (row, column))
            assert element == tile.element(operand, t % tile.threads, register)


# --- refusals ------------------------------------------------------------------------------------

LAYOUT = FragmentLayout.of
A, B, C = LAYOUT("k1", "m1"), LAYOUT("k1", "n1"), LAYOUT("m1", "n1")


def small(**changes: object) -> MatrixTile:
    members: dict[str, object] = {
        **{"name": "small", "dims": (2, 2, 2), "dtype_in": f16, "dtype_out": f32},
        **{"a": A, "b": B, "c": C},
    }
    return MatrixTile(**(members | changes))  # type: ignore[arg-type]


@pytest.mark.table
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "tile: '' is no name"),
        ({"name": "8bit"}, "tile: '8bit' is no name"),
        ({"name": "x;y"}, "tile: 'x;y' is no name"),
        ({"name": "x" * 300}, "is no name"),
        ({"dims": (2, 3, 2)}, "tile small: n is 3: accepted are powers of two to 1024"),
        ({"dims": (2, 2, 0)}, "k is 0"),
        ({"dims": (-2, 2, 2)}, "m is -2"),
        ({"dims": (2048, 2, 2)}, "m is 2048"),
        ({"dims": (4, 2, 2)}, "the layout of A loses m2"),
        ({"dims": (2, 2, 1)}, "the layout of A doubles k1, or has no such coordinate"),
        ({"a": LAYOUT("k1", "m1 k1")}, "the layout of A doubles k1"),
        ({"a": LAYOUT("k1", "n1")}, "the layout of A doubles n1, or has no such coordinate"),
        ({"b": LAYOUT("k1", "")}, "the layout of B loses n1"),
        ({"b": LAYOUT("-", "k1 n1"), "a": A}, ""),
        ({"b": LAYOUT("k1 -", "n1")}, "the layout of B has 4 threads, that of A 2"),
        ({"c": LAYOUT("", "m1 n1")}, "the layout of C has 1 threads"),
        ({"c": FragmentLayout((Bit("m", 3),), (Bit("n", 1),))}, "doubles m3"),
        ({"dtype_in": dtypes.bool}, "has elements of bool: accepted are numbers"),
        ({"dtype_out": dtypes.void}, "has elements of void"),
        ({"dtype_in": f16.vec(2)}, "has elements of float16x2"),
        ({"dtype_in": i8}, "float32 does not hold all int8"),
        ({"dtype_in": f32, "dtype_out": f16}, "float16 does not hold all float32"),
        ({"dtype_in": f16, "dtype_out": bf16}, "bfloat16 does not hold all float16"),
        ({"dtype_in": dtypes.fp8e4m3, "dtype_out": dtypes.fp8e4m3}, "which has no sums"),
        ({"rounds_in": InputRounding.TF32}, "rounds float32 to tf32, its elements are float16"),
        (
            {"dims": (32, 1, 1), "a": LAYOUT("", "m1 m2 m4 m8 m16"), "b": LAYOUT("", "")},
            "has 0 bits of threads and 5 of registers: accepted are 10 and 4",
        ),
        ({"a": LAYOUT("- " * 11, "k1 m1")}, "has 11 bits of threads"),
    ],
)
def test_what_is_no_tile_is_refused(changes: dict[str, object], message: str) -> None:
    if not message:
        assert small(**changes).b.copies == 2
        return
    with pytest.raises(UserError) as caught:
        small(**changes)
    assert message in str(caught.value)


@pytest.mark.table
@pytest.mark.parametrize("text", ["k", "k0", "k01", "2", "x1", "k1x", "k-1", "", "k99999"])
def test_what_is_no_bit_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="tile"):
        FragmentLayout.of(f"m1 {text or '--'}", "")


# --- as a payload --------------------------------------------------------------------------------


def value_of_tile(tile: MatrixTile) -> UOp:
    sources = tuple(build.const(tile.fragment(operand), 1) for operand in Operand)
    return UOp(Ops.WMMA, tile.fragment(Operand.C), sources, TileArg(tile))


@every_tile
def test_text_and_json_read_back_to_the_identical_node(tile: MatrixTile) -> None:
    for value in (tile, dataclasses.replace(tile, name="own_tile")):
        node = value_of_tile(value)
        assert from_text(to_text(node)) is node
        assert tile_from_json(json.loads(json.dumps(tile_to_json(value)))) == value


def test_tiles_differ_by_all_of_their_data() -> None:
    tile = TILES["nvidia_m16n8k8_tf32_float32"]
    other = dataclasses.replace(tile, rounds_in=None)
    assert tile != other
    assert value_of_tile(tile) is not value_of_tile(other)
    assert value_of_tile(tile) is value_of_tile(pickle.loads(pickle.dumps(tile)))


def broken_json(member: str, value: object) -> object:
    data = tile_to_json(TILES["nvidia_m16n8k4_tf32_float32"])
    if value is ...:
        del data[member]
    else:
        data[member] = value
    return data


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("name", 5, "name: expected a text, got 5"),
        ("name", "os.system('x')", "tile: \"os.system('x')\" is no name"),
        ("dims", [16, 8], "dims: expected 3 times an integer"),
        ("dims", [16, 8, 1 << 63], "k is 9223372036854775808"),
        ("dtype_in", "float33", "dtype_in: expected the name of a dtype"),
        ("a", None, "a: expected the bits of the thread and those of the register, got None"),
        ("a", [[], [], []], "a: expected the bits of the thread"),
        ("a", [[], []], "the layout of A loses"),
        ("a", [["k1"], [3]], "a[0]: expected a bit such as k2, got 3"),
        ("a", [["k1"], [None]], "a[0]: expected a bit such as k2, got None"),
        ("b", [["k1", "k1"], []], "the layout of B has 4 threads, that of A 32"),
        ("b", [["k" + "1" * 5000], []], "b[0]: expected a bit such as k2"),
        ("c", [["n1"] * 100_000, []], "the layout of C has 100000 bits of threads"),
        ("rounds_in", "tf16", "rounds_in: expected one of tf32, got 'tf16'"),
        ("rounds_in", 1.5, "rounds_in: expected"),
        ("rounds_in", ..., "expected the members name"),
        ("threads", 32, "expected the members name"),
    ],
)
def test_hostile_tiles_are_refused(member: str, value: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        tile_from_json(broken_json(member, value))
    assert message in str(caught.value)
