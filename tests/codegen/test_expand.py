"""Upcast and unrolled axes become copies and vectors: what is written, and how it is accessed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from expand_cases import (
    DEVICES,
    FOURS,
    SCALARS,
    VECTORS,
    agree,
    at,
    loop,
    numbers,
    program_of,
    reduced,
    run,
    unroll,
    upcast,
    widths,
    zeros,
)

from tinyref.algebra.linear import MAX_TERMS
from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.expand import expand
from tinyref.dtype import DType, dtypes, image
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, SlotArg, TileArg
from tinyref.uops.tiles import TILES

I32 = dtypes.int32
F32 = dtypes.float32
LOADS, STORES = Ops.LOAD, Ops.STORE
HOST = replace(VECTORS, has_grid=False, has_groups=False)


def memory(slot: int, size: int, dtype: DType = I32) -> UOp:
    return build.define_global(slot, dtype, size)


def ops(root: UOp) -> list[Ops]:
    return [node.op for node in root.toposort()]


# --- vectors -----------------------------------------------------------------------------------


def copy_kernel(extent: int, out_shift: int = 0, in_shift: int = 0, rows: int = 3) -> UOp:
    """out[i, u + shift] = in[i, u + shift] + 1 with rows of 16 elements."""
    i, u = loop(rows, 0), upcast(extent, 1)
    x = build.load(at(memory(1, 16 * rows), (i, 16), u, in_shift))
    return build.sink(build.store(at(memory(0, 16 * rows), (i, 16), u, out_shift), build.add(x, 1)))


def test_what_is_computed_of_a_position_is_a_vector_and_no_position() -> None:
    i, u = loop(3, 0), upcast(4, 1)
    number = build.cast(build.add(build.mul(i, 4), u), F32)
    value = build.mul(number, build.load(at(memory(1, 12, F32), (i, 4), u)))
    root = expand(build.sink(build.store(at(memory(0, 12, F32), (i, 4), u), value)), VECTORS)
    actual = [node for node in root.toposort() if node.op is Ops.CAST]
    assert [(node.dtype, node.src[0].op) for node in actual] == [(F32.vec(4), Ops.VECTORIZE)]


def costly_kernel(extent: int, in_shift: int) -> UOp:
    """Return the same with more arithmetic: vectors save work even if they must be assembled."""
    i, u = loop(2, 0), upcast(extent, 1)
    x = build.load(at(memory(1, 48), (i, 16), u, in_shift))
    for factor in range(2, 12):
        x = build.add(build.mul(x, factor), 1)
    return build.sink(build.store(at(memory(0, 48), (i, 16), u), x))


def test_a_unit_stride_becomes_a_vector() -> None:
    buffers = [zeros(48), numbers(48)]
    expanded = agree(copy_kernel(4), buffers)
    assert widths(expanded["scalars"], LOADS) == [1, 1, 1, 1]
    for device in ("fours", "vectors"):
        assert widths(expanded[device], LOADS) == widths(expanded[device], STORES) == [4]
        assert not {Ops.GEP, Ops.VECTORIZE} & {*ops(expanded[device])}


def test_neighbours_in_another_order_are_one_vector_though_no_step_leads_from_lane_to_lane() -> (
    None
):
    """Read the elements 0, 3, 2, 1 of each row in the lanes 0 to 3."""
    i, u = loop(3, 0), upcast(4, 1)
    position = build.mod(build.mul(u, 3), 4)
    x = build.load(at(memory(1, 48), (i, 16), position))
    root = build.sink(build.store(at(memory(0, 48), (i, 16), u), build.add(x, 1)))
    expanded = agree(root, [zeros(48), numbers(48)])
    assert widths(expanded["fours"], LOADS) == [4]
    assert widths(expanded["scalars"], LOADS) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("extent", "by_fours", "by_any"),
    [(2, [1] * 2, [2]), (6, [1, 1, 4], [2] * 3), (8, [4] * 2, [8]), (12, [4] * 3, [4] * 3)],
)
def test_the_widest_vectors_that_divide_the_extent(
    extent: int, by_fours: list[int], by_any: list[int]
) -> None:
    expanded = agree(copy_kernel(extent), [zeros(48), numbers(48)])
    assert widths(expanded["fours"], STORES) == by_fours
    assert widths(expanded["vectors"], STORES) == by_any


def test_what_is_not_aligned_is_accessed_by_smaller_vectors_or_lane_by_lane() -> None:
    buffers = [zeros(48), numbers(48)]
    expanded = agree(costly_kernel(8, in_shift=2), buffers)
    # Elements 2 to 9: 2 and 3, then 4 to 7, then 8 and 9.
    assert widths(expanded["vectors"], LOADS) == [2, 2, 4]
    assert widths(expanded["vectors"], STORES) == [8]
    expanded = agree(costly_kernel(8, in_shift=1), buffers)
    # Elements 1 to 8: 1, then 2 and 3, then 4 to 7, then 8.
    assert widths(expanded["vectors"], LOADS) == [1, 1, 2, 4]
    assert widths(expanded["vectors"], STORES) == [8]
    expanded = agree(copy_kernel(8, in_shift=3, out_shift=5), buffers)
    assert widths(expanded["vectors"], STORES) == [1, 1, 2, 4]


def test_an_odd_row_stride_is_never_called_aligned() -> None:
    i, u = loop(5, 0), upcast(4, 1)
    x = build.load(at(memory(1, 5 * 7), (i, 7), u))
    root = build.sink(build.store(at(memory(0, 20), (i, 4), u), x))
    expanded = agree(root, [zeros(20), numbers(35)])
    assert widths(expanded["vectors"], LOADS) == [1] * 4
    assert widths(expanded["vectors"], STORES) == [4]


@pytest.mark.parametrize(("stride", "width"), [(2, 2), (4, 4), (1, 1), (6, 2)])
def test_a_symbolic_row_is_aligned_as_its_stride_is(stride: int, width: int) -> None:
    n = build.variable("n", 1, 5)
    i, u = loop(n, 0), upcast(4, 1)
    x = build.load(at(memory(1, 64), (build.mul(i, n), stride), u))
    root = build.sink(build.store(at(memory(0, 64), (i, 4), u), x))
    expanded = agree(root, [zeros(64), numbers(64)], bindings={"n": 3})
    assert set(widths(expanded["vectors"], LOADS)) == {width}


def test_a_transposed_copy_has_vectors_on_one_side_only() -> None:
    u, v = upcast(4, 0), upcast(4, 1)
    x = build.load(at(memory(1, 16), (v, 4), u))
    root = build.sink(build.store(at(memory(0, 16), (u, 4), v), x))
    buffers = [zeros(16), np.arange(16, dtype=np.int32)]
    expected = {0: [4 * (i % 4) + i // 4 for i in range(16)]}
    for device, expanded in agree(root, buffers, expected).items():
        # Neighbours that are no lanes of one vector are still read together.
        assert widths(expanded, LOADS) == ([1] * 16 if device == "scalars" else [4] * 4)
        assert widths(expanded, STORES) == ([1] * 16 if device == "scalars" else [4] * 4)


def matmul(kinds: tuple[int, int, int], strides: tuple[int, int] = (8, 16)) -> UOp:
    """8 x 16 outputs of 8 terms: upcast (8 / rows), (16 / columns), unrolled (8 / terms)."""
    rows, columns, terms = kinds
    across, along = strides
    i, j, k = loop(8 // rows, 0), loop(16 // columns, 1), reduced(8 // terms, 2)
    u, v, w = upcast(rows, 3), upcast(columns, 4), unroll(terms, 5)
    x = build.load(at(memory(1, 8 * across, F32), (i, rows * across), (u, across), (k, terms), w))
    y = build.load(at(memory(2, 8 * along, F32), (k, terms * along), (w, along), (j, columns), v))
    out = at(memory(0, 128, F32), (i, rows * 16), (u, 16), (j, columns), v)
    return build.sink(build.store(out, build.reduce_over(Ops.ADD, build.mul(x, y), k, w)))


def test_the_columns_of_a_matrix_product_are_its_lanes() -> None:
    expanded = expand(simplify(matmul((8, 16, 2))), VECTORS)
    assert widths(expanded, STORES) == [16] * 8
    assert widths(expanded, LOADS, 2) == [16, 16]
    # A row's two terms are neighbours.
    assert widths(expanded, LOADS, 1) == [2] * 8


def test_no_node_depends_on_two_vector_ranges() -> None:
    """Both axes have unit strides, and the product depends on both."""
    u, v = upcast(4, 0), upcast(8, 1)
    x = build.load(at(memory(1, 4), u))
    y = build.load(at(memory(2, 8), v))
    root = build.sink(build.store(at(memory(0, 32), (u, 8), v), build.mul(x, y)))
    expanded = agree(root, [zeros(32), numbers(4), numbers(8)])
    assert widths(expanded["vectors"], STORES) == [8] * 4
    assert widths(expanded["fours"], STORES) == [4] * 8


@pytest.mark.parametrize(
    ("device", "rows", "terms", "lanes"),
    [(VECTORS, 8, 8, 8), (VECTORS, 8, 64, 16), (HOST, 4, 1, 4), (HOST, 4, 64, 16)],
)
def test_the_loads_of_long_sums_count_more_than_the_stores(
    device: Capabilities, rows: int, terms: int, lanes: int
) -> None:
    """Store rows that are neighbours in memory, as in convolutions, and load longer columns."""
    k, u, v = reduced(terms, 0), upcast(rows, 1), upcast(16, 2)
    x = build.load(at(memory(1, rows * terms, F32), (k, rows), u))
    y = build.load(at(memory(2, 16 * terms, F32), (k, 16), v))
    result = build.reduce_over(Ops.ADD, build.mul(x, y), k)
    root = build.sink(build.store(at(memory(0, 16 * rows, F32), (v, rows), u), result))
    expanded = expand(simplify(root), device)
    assert max(node.dtype.lanes for node in expanded.toposort() if node.op is Ops.MUL) == lanes


def test_a_row_at_a_loaded_position_is_a_vector() -> None:
    """out[i, u] = table[index[i], u] where that is a row, and -1 elsewhere."""
    i, u = loop(4, 0), upcast(4, 1)
    index = build.cast(build.load(at(memory(2, 4), i)), dtypes.index)
    is_row = build.both(build.at_least(index, 0), build.less(index, 3))
    row = build.where(is_row, index, build.const(dtypes.index, 0))
    x = build.load(at(memory(1, 12), (row, 4), u), is_row, -1)
    root = build.sink(build.store(at(memory(0, 16), (i, 4), u), x))
    indices = np.array([2, 0, 7, 1], np.int32)
    expected = [8, 9, 10, 11, 0, 1, 2, 3, -1, -1, -1, -1, 4, 5, 6, 7]
    table = np.arange(12, dtype=np.int32)
    expanded = agree(root, [zeros(16), table, indices], {0: expected})
    assert widths(expanded["scalars"], LOADS, 1) == [1] * 4
    for device in ("fours", "vectors"):
        assert widths(expanded[device], LOADS, 1) == widths(expanded[device], STORES) == [4]


def test_rows_are_stored_at_loaded_positions_as_vectors() -> None:
    """table[index[i], u] = in[i, u]; a row that is written twice keeps what came last."""
    i, u = loop(3, 0), upcast(4, 1)
    row = build.cast(build.load(at(memory(2, 3), i)), dtypes.index)
    x = build.load(at(memory(1, 12), (i, 4), u))
    root = build.sink(build.store(at(memory(0, 12), (row, 4), u), x))
    values, indices = np.arange(12, dtype=np.int32), np.array([2, 1, 2], np.int32)
    expanded = agree(root, [zeros(12), values, indices], {0: [0] * 4 + [4, 5, 6, 7, 8, 9, 10, 11]})
    assert widths(expanded["vectors"], STORES) == [4]


@pytest.mark.table
@pytest.mark.parametrize("lane_of", [lambda u: u, lambda u: build.idiv(build.mul(u, 5), 2)])
def test_a_position_of_too_many_terms_is_read_as_it_is(lane_of: Callable[[UOp], UOp]) -> None:
    u = upcast(4, 0)
    # One more term than a sum may have, with the term of the lane.
    terms = [build.variable(f"v{number}", 0, 1) for number in range(MAX_TERMS)]
    position = functools.reduce(build.add, terms, lane_of(u))
    load = build.load(build.index(memory(1, 128), position))
    root = expand(build.sink(build.store(at(memory(0, 4), u), load)), VECTORS)
    buffers = [zeros(4), np.arange(128, dtype=np.int32)]
    out = run(program_of(root), buffers, {f"v{number}": 1 for number in range(MAX_TERMS)})[0]
    lanes = [0, 1, 2, 3] if lane_of(u) is u else [0, 2, 5, 7]
    assert out.tolist() == [MAX_TERMS + lane for lane in lanes]


# --- gates ---------------------------------------------------------------------------------------


def padded(shift: int, size: int = 10) -> UOp:
    """out[x] = in[x + shift], or 9 outside of it, for x < size; nothing is stored for x == 4."""
    i, u = loop(3, 0), upcast(4, 1)
    where = simplify(build.add(build.mul(i, 4), u))
    source = simplify(build.add(where, shift))
    inside = build.both(build.less(-1, source), build.less(source, size))
    x = build.load(build.index(memory(1, size), source), simplify(inside), 9)
    return build.sink(build.store(build.index(memory(0, 12), where), x, build.not_equal(where, 4)))


@pytest.mark.table
@pytest.mark.parametrize("shift", [-5, -1, 0, 1, 2, 12])
def test_a_gated_off_lane_touches_no_memory(shift: int) -> None:
    """End the buffer where the gate does: the sanitizer reports any access beyond it."""
    values = np.arange(20, 30, dtype=np.int32)
    expected = [values[x + shift] if 0 <= x + shift < 10 else 9 for x in range(12)]
    expected[4] = 0
    agree(padded(shift), [zeros(12), values], {0: expected})


def test_a_gate_that_is_one_for_all_lanes_stays_scalar() -> None:
    i, u = loop(4, 0), upcast(4, 1)
    gate = build.less(i, 3)
    x = build.load(at(memory(1, 12), (i, 4), u), gate, 5)
    root = build.sink(build.store(at(memory(0, 16), (i, 4), u), x))
    values = np.arange(12, dtype=np.int32)
    expanded = agree(root, [zeros(16), values], {0: [*range(12), 5, 5, 5, 5]})
    (load,) = (node for node in expanded["vectors"].toposort() if node.op is LOADS)
    assert load.dtype is I32.vec(4)
    assert load.src[2] is gate
    stored = build.store(at(memory(0, 16), (i, 4), u), build.const(I32, 1), gate)
    expanded = agree(build.sink(stored), [zeros(16)], {0: [1] * 12 + [0] * 4})
    (store,) = (node for node in expanded["vectors"].toposort() if node.op is STORES)
    assert store.src[1].dtype is I32.vec(4)


def test_lanes_that_share_a_gate_go_together() -> None:
    """x < 8 of x = 4 i + u is a matter of i alone; x < 6 is, for two of the lanes."""
    i, u = loop(3, 0), upcast(4, 1)
    where = simplify(build.add(build.mul(i, 4), u))
    for limit, width in ((8, 4), (6, 2)):
        gate = build.less(where, limit)
        x = build.load(build.index(memory(1, limit), where), gate, 5)
        root = build.sink(build.store(build.index(memory(0, 12), where), x))
        expected = [*range(limit)] + [5] * (12 - limit)
        expanded = agree(root, [zeros(12), np.arange(limit, dtype=np.int32)], {0: expected})
        assert set(widths(expanded["vectors"], LOADS)) == {width}


def test_a_constant_gate_of_a_copy_is_decided() -> None:
    """Store a smaller output in the first iteration only."""
    u = upcast(4, 0)
    first = build.equal(u, 0)
    root = build.sink(
        build.store(at(memory(0, 1)), build.load(at(memory(2, 1))), first),
        build.store(at(memory(1, 4), u), build.load(at(memory(2, 1)))),
    )
    expanded = agree(root, [zeros(1), zeros(4), np.array([8], np.int32)], {0: [8], 1: [8] * 4})
    for root in expanded.values():
        assert all(len(node.src) == 2 for node in root.toposort() if node.op is STORES)
        assert len([0 for node in root.src if node.src[0].src[0].arg.slot == 0]) == 1


def test_a_gate_of_an_element_by_itself_is_decided() -> None:
    """Choose another position in each lane by its value; the gate holds in the first."""
    u = upcast(2, 0)
    index = build.cast(build.load(at(memory(1, 2), u)), dtypes.index)
    x = build.load(build.index(memory(2, 4), index), build.less(u, 1), 7)
    root = build.sink(build.store(at(memory(0, 2), u), x))
    buffers = [zeros(2), np.array([3, 1], np.int32), np.array([5, 6, 7, 8], np.int32)]
    for expanded in agree(root, buffers, {0: [8, 7]}).values():
        loads = [node for node in expanded.toposort() if node.op is LOADS]
        assert all(len(node.src) == 1 for node in loads)


# --- neighbours ----------------------------------------------------------------------------------


def test_neighbours_of_several_copies_are_loaded_once() -> None:
    """Slide a window of three over eight inputs, which are read as two vectors."""
    u, w = upcast(6, 0), unroll(3, 1)
    x = build.load(at(memory(1, 8), u, w))
    root = build.sink(build.store(at(memory(0, 12), (u, 2)), build.reduce_over(Ops.ADD, x, w)))
    values = np.arange(8, dtype=np.int32)
    sums = [values[i : i + 3].sum() for i in range(6)]
    expanded = agree(root, [zeros(12), values], {0: [x for y in sums for x in (y, 0)]})
    assert widths(expanded["fours"], LOADS) == [4, 4]


@pytest.mark.parametrize(("op", "combined"), [(Ops.MAX, 1), (Ops.ADD, 3)])
def test_a_maximum_of_equal_values_is_one_of_them(op: Ops, combined: int) -> None:
    """Use two iterations for each of two elements: two of the four values are the same."""
    w = unroll(4, 0)
    x = build.load(at(memory(1, 2), build.idiv(w, 2)))
    root = build.sink(build.store(at(memory(0, 1)), build.reduce_over(op, x, w)))
    values = np.array([-3, -5], np.int32)
    agree(root, [zeros(1), values], {0: [-3 if op is Ops.MAX else -16]})
    actual = expand(simplify(root), SCALARS)
    assert ops(actual).count(op) == combined


def test_nothing_is_loaded_that_the_kernel_does_not_load() -> None:
    w = unroll(7, 0)
    root = build.sink(
        build.store(
            at(memory(0, 1)), build.reduce_over(Ops.ADD, build.load(at(memory(1, 7), w)), w)
        )
    )
    expanded = agree(root, [zeros(1), numbers(7)])
    assert widths(expanded["fours"], LOADS) == [1, 1, 1, 4]
    assert widths(expanded["vectors"], LOADS) == [1, 2, 4]


def test_a_host_loads_by_itself_what_it_repeats_in_a_vector() -> None:
    root = simplify(matmul((2, 16, 4)))
    assert widths(expand(root, HOST), LOADS, 1) == [1] * 8
    assert widths(expand(root, HOST), LOADS, 2) == [16] * 4
    assert widths(expand(root, VECTORS), LOADS, 1) == [4, 4]
    # What are lanes of one vector is loaded together all the same.
    assert widths(expand(simplify(costly_kernel(8, in_shift=2)), HOST), LOADS) == [2, 2, 4]


def test_strided_copies_of_stores_are_put_together() -> None:
    """Even and odd elements come from two stores of one statement."""
    u, v = upcast(2, 0), upcast(2, 1)
    x = build.load(at(memory(1, 4), (v, 2), u))
    root = build.sink(build.store(at(memory(0, 4), (u, 2), v), x))
    expanded = agree(root, [zeros(4), np.arange(4, dtype=np.int32)], {0: [0, 2, 1, 3]})
    assert widths(expanded["fours"], STORES) == [4]
    assert widths(expanded["fours"], LOADS) == [4]


def test_what_the_kernel_writes_is_read_where_it_was_asked_for() -> None:
    """Join lanes of one vector, but not copies of a load from an output."""
    i, u = loop(4, 0), upcast(4, 1)
    where = at(memory(0, 16), (i, 4), u)
    in_place = build.sink(build.store(where, build.add(build.load(where), 1)))
    expanded = agree(in_place, [np.arange(16, dtype=np.int32)], {0: [*range(1, 17)]})
    assert widths(expanded["vectors"], LOADS) == [4]
    strided = at(memory(0, 16), i, (u, 4))
    in_place = build.sink(build.store(strided, build.add(build.load(strided), 1)))
    agree(in_place, [np.arange(16, dtype=np.int32)], {0: [*range(1, 17)]})
    u, w = upcast(4, 0), unroll(4, 1)
    for slot, loaded in ((1, [4]), (0, [1] * 4)):
        # The products are vectors along u, so the four iterations of w are copies.
        others = build.load(at(memory(2, 16), (w, 4), u))
        terms = build.mul(build.load(at(memory(slot, 8), w)), others)
        root = build.sink(build.store(at(memory(0, 8), u, 4), build.reduce_over(Ops.ADD, terms, w)))
        expanded = agree(root, [numbers(8), numbers(8), numbers(16)])
        assert widths(expanded["fours"], LOADS, slot) == loaded


# --- reduces -------------------------------------------------------------------------------------


def matvec(op: Ops, dtype: DType, terms: int, lanes: int) -> UOp:
    i, k, w = loop(3, 0), reduced(terms // lanes, 1), unroll(lanes, 2)
    x = build.load(at(memory(1, 3 * terms, dtype), (i, terms), (k, lanes), w))
    ranges = (k, w) if terms > lanes else (w,)
    if terms == lanes:
        x = build.load(at(memory(1, 3 * terms, dtype), (i, terms), w))
    return build.sink(build.store(at(memory(0, 3, dtype), i), build.reduce_over(op, x, *ranges)))


def test_a_reduce_of_a_vector_ends_with_its_lanes() -> None:
    root = expand(simplify(matvec(Ops.ADD, F32, 32, 16)), VECTORS)
    (reduce,) = (node for node in root.toposort() if node.op is Ops.REDUCE)
    assert reduce.dtype is F32.vec(16)
    # Halves: 16 lanes to 8, 4, 2 and 1.
    adds = [
        node.dtype.lanes for node in root.toposort() if node.op is Ops.ADD and node.dtype.is_float
    ]
    assert sorted(adds) == [1, 2, 4, 8]
    by_fours = expand(simplify(matvec(Ops.ADD, F32, 32, 16)), FOURS)
    adds = [
        node.dtype for node in by_fours.toposort() if node.op is Ops.ADD and node.dtype.is_float
    ]
    # Four vectors by a tree; then the device has no vector of two, so three sums of scalars.
    assert adds.count(F32.vec(4)) == 3
    assert adds.count(F32) == 3


def test_a_reduce_that_is_unrolled_whole_is_none() -> None:
    for capabilities in DEVICES.values():
        root = expand(simplify(matvec(Ops.MAX, I32, 8, 8)), capabilities)
        assert Ops.REDUCE not in ops(root)


@pytest.mark.parametrize("terms", [4, 8])
def test_a_sum_of_negative_zeros_is_zero(terms: int) -> None:
    """Start at 0.0, like an accumulator."""
    values = np.full(3 * terms, -0.0, np.float32)
    root = simplify(matvec(Ops.ADD, F32, terms, 4))
    for capabilities in DEVICES.values():
        out, _ = run(program_of(expand(root, capabilities)), [np.ones(3, np.float32), values])
        assert out.tobytes() == zeros(3, F32).tobytes()


def test_a_reduce_over_what_its_value_does_not_depend_on() -> None:
    """Count every iteration, also the lanes of a range that is a vector elsewhere."""
    i, w = loop(2, 0), unroll(4, 1)
    other = build.reduce_over(Ops.ADD, build.load(at(memory(2, 8), (i, 4), w)), w)
    same = build.reduce_over(Ops.ADD, build.load(at(memory(1, 2), i)), w)
    root = build.sink(build.store(at(memory(0, 2), i), build.add(same, other)))
    values = np.arange(8, dtype=np.int32)
    agree(root, [zeros(2), np.array([10, 20], np.int32), values], {0: [46, 102]})


def test_an_upcast_reduce_has_a_vector_for_its_accumulator() -> None:
    i, k, u = loop(2, 0), reduced(3, 1), upcast(4, 2)
    x = build.load(at(memory(1, 24), (k, 8), (i, 4), u))
    root = build.sink(build.store(at(memory(0, 8), (i, 4), u), build.reduce_over(Ops.MUL, x, k)))
    values = numbers(24)
    expanded = agree(root, [zeros(8), values], {0: values.reshape(3, 8).prod(0).tolist()})
    (reduce,) = (node for node in expanded["vectors"].toposort() if node.op is Ops.REDUCE)
    assert reduce.dtype is I32.vec(4)


# --- order ---------------------------------------------------------------------------------------


def test_a_grouped_reduce_waits_for_all_copies() -> None:
    """Four work-items each reduce two columns of four; the first adds up what they found."""
    item = build.special("item", 0, 4)
    k, u, g, v = reduced(2, 0), upcast(4, 1), reduced(4, 2), upcast(4, 3)
    local = build.define_local("part", I32, 16)
    x = build.load(at(memory(1, 32), (item, 8), (k, 4), u))
    stored = build.store(at(local, (item, 4), u), build.reduce_over(Ops.ADD, x, k))
    done = build.barrier(stored)
    shared = build.after(local, done)
    whole = build.reduce_over(Ops.ADD, build.load(at(shared, (g, 4), v)), g)
    root = build.sink(build.store(at(memory(0, 4), v), whole, build.equal(item, 0)))
    values = numbers(32)
    expanded = agree(root, [zeros(4), values], {0: values.reshape(8, 4).sum(0).tolist()})
    for device, root in expanded.items():
        (barrier,) = (node for node in root.toposort() if node.op is Ops.BARRIER)
        assert len(barrier.src) == (4 if device == "scalars" else 1)
        assert widths(root, LOADS, 1) == ([1] * 4 if device == "scalars" else [4])


def test_scratch_memory_is_filled_before_it_is_read() -> None:
    """Copy a row under a loop and upcast lanes, then read it twice in another order."""
    i, f, u = loop(2, 0), loop(2, 1), upcast(4, 2)
    j, v = loop(2, 3), upcast(4, 4)
    local = build.define_local("row", I32, 8)
    x = build.load(at(memory(1, 16), (i, 8), (f, 4), u))
    filled = build.store(at(local, (f, 4), u), x)
    ready = build.after(local, filled, f)
    flipped = build.load(at(ready, (j, -4), (v, -1), 7))
    root = build.sink(build.store(at(memory(0, 16), (i, 8), (j, 4), v), flipped))
    values = np.arange(16, dtype=np.int32)
    expected = values.reshape(2, 8)[:, ::-1].reshape(-1).tolist()
    expanded = agree(root, [zeros(16), values], {0: expected})
    # A flipped row is read as a vector, too, and turned round.
    assert widths(expanded["vectors"], LOADS) == [4, 4]


def test_a_value_may_wait() -> None:
    u = upcast(4, 0)
    x = build.load(at(memory(1, 4), u))
    local = build.define_local("row", I32, 4)
    stored = build.store(at(local, u), x)
    late = build.after(x, stored)
    root = build.sink(build.store(at(memory(0, 4), u), late))
    expanded = agree(root, [zeros(4), np.arange(4, dtype=np.int32)], {0: [0, 1, 2, 3]})
    (after,) = (node for node in expanded["vectors"].toposort() if node.op is Ops.AFTER)
    assert after.dtype is I32.vec(4)


# --- what must not become lanes ------------------------------------------------------------------


def test_matrix_tiles_are_copied_whole() -> None:
    u = upcast(4, 0)
    a = build.vectorize(*(build.load(at(memory(1, 16, F32), (n, 4), u)) for n in range(4)))
    product = UOp(Ops.WMMA, F32.vec(4), (a, a, a), TileArg(next(iter(TILES.values()))))
    stores = [
        build.store(at(memory(0, 16, F32), (n, 4), u), build.gep(product, n)) for n in range(4)
    ]
    root = expand(simplify(build.sink(*stores)), FOURS)
    tiles = [node for node in root.toposort() if node.op is Ops.WMMA]
    assert len(tiles) == 4
    assert {node.dtype for node in tiles} == {F32.vec(4)}
    # Their elements are still loaded and stored four at a time.
    assert widths(root, LOADS) == widths(root, STORES) == [4, 4, 4, 4]


# --- images --------------------------------------------------------------------------------------

IMAGES = replace(VECTORS, images=True)


def picture(slot: int) -> UOp:
    return UOp(Ops.DEFINE_GLOBAL, image(F32, 4, 4), (), SlotArg(slot))


@pytest.mark.parametrize("extent", [4, 8, 16])
def test_images_are_accessed_by_texels(extent: int) -> None:
    i, u = loop(64 // extent, 0), upcast(extent, 1)
    x = build.load(at(picture(1), (i, extent), u))
    root = build.sink(build.store(at(picture(0), (i, extent), u), build.mul(x, 2.0)))
    root = expand(simplify(root), IMAGES)
    assert widths(root, LOADS) == widths(root, STORES) == [4] * (extent // 4)


# --- what is refused -----------------------------------------------------------------------------


def test_a_lane_range_of_symbolic_size_is_refused() -> None:
    u = build.counter(build.variable("n", 1, 4), 0, AxisKind.UPCAST)
    root = build.sink(build.store(at(memory(0, 4), u), build.const(I32, 1)))
    with pytest.raises(UserError, match="only an axis of constant size can be upcast"):
        expand(root, VECTORS)


def test_a_loop_whose_length_differs_between_lanes_is_refused() -> None:
    u = upcast(4, 0)
    i = loop(build.add(u, 1), 1)
    root = build.sink(build.store(at(memory(0, 4), i), build.const(I32, 1)))
    with pytest.raises(UserError, match="depends on an upcast or unrolled axis"):
        expand(root, VECTORS)


def test_a_node_is_not_copied_for_ranges_that_it_does_not_depend_on() -> None:
    """Eight ranges of 16 each; every value depends on one of them."""
    ranges = [upcast(16, number) for number in range(8)]
    stores = [
        build.store(at(memory(slot, 16), item), build.load(at(memory(slot + 8, 16), item)))
        for slot, item in enumerate(ranges)
    ]
    assert len(expand(build.sink(*stores), SCALARS).toposort()) < 1000
