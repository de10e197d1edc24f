"""Lowering of matrix tiles: fragments, the device's instruction, or its emulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinyref.algebra.kernel_shape import reduced_axes
from tinyref.algebra.simplify import simplify
from tinyref.dtype import dtypes
from tinyref.optimise.launch_axes import flat
from tinyref.optimise.plan import Axis, TileUse
from tinyref.optimise.tile import TileMode
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, TileArg
from tinyref.uops.tiles import Operand

if TYPE_CHECKING:
    from tinyref.codegen.lower import Lowering


def tile_value(lowering: Lowering, use: TileUse, product: UOp) -> UOp | None:
    """The value of the reduce of a tile; None where it is computed element by element.

    `product` is what that reduce sums, by the ordinary way.
    """
    if use.mode == TileMode.INSTRUCTION:
        return _by_instruction(lowering, use)
    if use.mode == TileMode.MEMORY:
        return _by_memory(lowering, use, product)
    return None


# --- fragments ------------------------------------------------------------------------------------


def _lanes(lowering: Lowering, kind: AxisKind) -> list[Axis]:
    """The tile's axes of one kind, that of the lowest bit first."""
    return [axis for axis in lowering.plan.axes if axis.is_fixed and axis.kind is kind][::-1]


def _place(lowering: Lowering, use: TileUse, operand: Operand, register: int) -> dict[str, UOp]:
    """The coordinates in the tile of what a register of this work-item holds."""
    layout = use.tile.layout(operand)
    axes = _lanes(lowering, AxisKind.LOCAL)
    found = {}
    for name in operand.axes:
        # The numbers of threads have as many bits in every layout as in that of C.
        total = build.const(dtypes.index, layout.coordinate(name, 0, register))
        for axis, bit in zip(axes, layout.thread_bits, strict=True):
            if bit is not None and bit.axis == name:
                total = build.add(build.mul(lowering.counters[axis], bit.weight), total)
        found[name] = total
    return found


def _fragment(lowering: Lowering, use: TileUse, operand: Operand) -> list[UOp]:
    """The elements of A or B that this work-item holds, by register."""
    outside = {axis: c for axis, c in lowering.counters.items() if not axis.is_fixed}
    elements = []
    for register in range(use.tile.layout(operand).registers):
        positions = list(lowering.positions_of(outside))
        for name, coordinate in _place(lowering, use, operand, register).items():
            target = use.targets["mnk".index(name)]
            positions[target] = build.add(positions[target], coordinate)
        value = use.a if operand is Operand.A else use.b
        elements.append(lowering.value_at(value, tuple(map(simplify, positions))))
    return elements


def _loops(lowering: Lowering, use: TileUse) -> list[UOp]:
    """The ranges of the reduce outside of the tile."""
    axes = reduced_axes(use.reduce)
    return [
        lowering.counters[axis]
        for axis in lowering.plan.axes
        if axis.target in axes and not axis.is_fixed
    ]


# --- modes ----------------------------------------------------------------------------------------


def _by_instruction(lowering: Lowering, use: TileUse) -> UOp:
    a, b = (_vector(_fragment(lowering, use, operand)) for operand in (Operand.A, Operand.B))
    fragment = use.tile.fragment(Operand.C)
    value = UOp(Ops.WMMA, fragment, (a, b, build.const(fragment, 0)), TileArg(use.tile))
    loops = _loops(lowering, use)
    if loops:
        value = build.reduce_over(Ops.ADD, value, *loops)
    lanes = [lowering.counters[axis] for axis in _lanes(lowering, AxisKind.UPCAST)]
    return build.lane_at(value, *reversed(lanes)) if lanes else value


def _vector(elements: Sequence[UOp]) -> UOp:
    return elements[0] if len(elements) == 1 else build.vectorize(*elements)


def _by_memory(lowering: Lowering, use: TileUse, product: UOp) -> UOp:
    """Fragments as the threads hold them go to local memory; each element is computed from it."""
    operands = (Operand.A, Operand.B)
    fragments = [_fragment(lowering, use, operand) for operand in operands]
    loops = _loops(lowering, use)
    ready = _all_have_read(lowering, use, fragments)
    memories = []
    stores: list[UOp] = []
    for operand, fragment in zip(operands, fragments, strict=True):
        memory = lowering.define_local(
            use.tile.dtype_in, lowering.plan.fragment_elements(use, operand)
        )
        memories.append(memory)
        place = build.after(memory, *ready) if ready else memory
        stores += _written(lowering, use, operand, place, fragment)
    barrier = build.barrier(*stores)
    factors = [
        _element(lowering, use, operand, build.after(memory, barrier))
        for operand, memory in zip(operands, memories, strict=True)
    ]
    value = build.mul(*[build.cast(factor, product.dtype) for factor in factors])
    depth = [lowering.counters[axis] for axis in _lanes(lowering, AxisKind.UNROLL)]
    return build.reduce_over(Ops.ADD, value, *loops, *depth)


def _all_have_read(
    lowering: Lowering, use: TileUse, fragments: Sequence[Sequence[UOp]]
) -> tuple[UOp, ...]:
    """In a loop nobody may write before all have read what the iteration before has left."""
    if not _loops(lowering, use) and not lowering.is_in_loop(use.reduce):
        return ()
    elements = [element for fragment in fragments for element in fragment]
    return (build.barrier(*elements),)


def _written(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, fragment: Sequence[UOp]
) -> list[UOp]:
    """STOREs of a fragment; of threads that hold the same elements one writes."""
    gate = _is_first(lowering, use, operand)
    stores = []
    for register, element in enumerate(fragment):
        place = _place(lowering, use, operand, register)
        stores.append(build.store(_address(lowering, use, operand, memory, place), element, gate))
    return stores


def _is_first(lowering: Lowering, use: TileUse, operand: Operand) -> UOp | None:
    """Whether this is the first of the threads that hold the same elements; None if it is alone."""
    gate: UOp | None = None
    axes = _lanes(lowering, AxisKind.LOCAL)
    for axis, bit in zip(axes, use.tile.layout(operand).thread_bits, strict=True):
        if bit is None:
            is_first = build.equal(lowering.counters[axis], 0)
            gate = is_first if gate is None else build.both(gate, is_first)
    return gate


def _element(lowering: Lowering, use: TileUse, operand: Operand, memory: UOp) -> UOp:
    """The element of A or B that the kernel's own counters come to."""
    inside = {axis: c for axis, c in lowering.counters.items() if axis.is_fixed}
    positions = lowering.positions_of(inside)
    place = {name: positions[use.targets["mnk".index(name)]] for name in operand.axes}
    return build.load(_address(lowering, use, operand, memory, place))


def _address(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, place: dict[str, UOp]
) -> UOp:
    """An element in local memory: row by row, a matrix for each subgroup and each lane."""
    row, column = operand.axes
    rows, columns = use.tile.shape(operand)
    matrices = lowering.plan.fragment_axes(use, operand)
    run = build.mul(flat(matrices, lowering.counters), rows * columns)
    element = build.add(build.mul(place[row], columns), place[column])
    return build.index(memory, simplify(build.add(run, element)))
