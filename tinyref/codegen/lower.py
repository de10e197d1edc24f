"""Lowering: a planned kernel, whose nodes have shapes, becomes an indexed kernel of elements.

Every axis of the plan becomes a launch index or a range. The position on an axis of the AST is a
sum of these. A view becomes an address and a gate. Nested ranges are numbered from the outside to
the inside. Ranges of lanes stay ranges until `expand`. A matrix tile becomes fragments and an
instruction of the device, or its emulation.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

from tinyref.algebra.bounds import bounds
from tinyref.algebra.semantics import reduce_identity
from tinyref.algebra.shapes import kernel_shape, positions_of, reduced_axes
from tinyref.algebra.simplify import simplify
from tinyref.codegen.peel import peeled
from tinyref.dtype import AddressSpace, DType, dtypes, pointer
from tinyref.errors import UserError
from tinyref.optimise.launch_axes import Counters, flat, launch_axes
from tinyref.optimise.normal_form import OUTPUT, Reused, reused_values
from tinyref.optimise.opt import REUSED
from tinyref.optimise.plan import (
    LANE_KINDS,
    Axis,
    Plan,
    Scatter,
    TileUse,
    axes_of,
    changes,
    element_strides,
    number_of,
)
from tinyref.optimise.tile import TileMode
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, rebuild, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, ConstArg, LocalArg, ReduceArg, TileArg, ViewArg
from tinyref.uops.tiles import Operand
from tinyref.views.shape_tracker import tracker_of

ZERO = build.const(dtypes.index, 0)
TRUE = build.const(dtypes.bool, True)

# The lowered node of each node of the AST.
Done = dict[UOp, UOp]


def lower(plan: Plan) -> UOp:
    """Return the indexed kernel of a plan: a SINK of STOREs, empty if nothing is written."""
    lowering = Lowering(plan)
    return peeled(plan, lowering.kernel(), lowering.loops)


class Lowering:
    """The lowering of one kernel: counters, positions, and the node that each node became."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.range_numbers = itertools.count()
        self.local_numbers = itertools.count()
        self.in_launch = TRUE
        self.counters: Counters = {}
        # The loops over axes of the plan. An axis has one more for each copy to scratch memory.
        self.loops: list[tuple[Axis, UOp]] = []
        self._count_launch()
        for axis in plan.axes:
            if axis not in self.counters:
                kind = AxisKind.LOOP if axis.kind is AxisKind.GLOBAL else axis.kind
                self.counters[axis] = self.range(axis.extent, kind)
                if axis.kind not in LANE_KINDS:
                    self.loops.append((axis, self.counters[axis]))
        self.positions = self.positions_of(self.counters)
        self.done: Done = {}
        values = reused_values(plan.form) if REUSED in plan.packed else ()
        self.reused = {node: value for value in values for node in (value.inner, value.outer)}
        self.filled: dict[Reused, UOp] = {}

    # Counters

    def range(self, extent: sint, kind: AxisKind) -> UOp:
        """Return a new RANGE, inside all earlier ones."""
        return build.counter(extent, next(self.range_numbers), kind)

    def _count_launch(self) -> None:
        """Set the counters of groups and work-items, or the counter of threads."""
        plan = self.plan
        capabilities = plan.capabilities
        groups = plan.of_kind(AxisKind.GLOBAL) if capabilities.has_grid else []
        extents = [plan.axes[number].extent for number in groups]
        launched = launch_axes(extents, capabilities.grid_limit)
        self.in_launch = launched.valid
        items = plan.item_axes
        in_group = launch_axes([axis.extent for axis in items], capabilities.group_limit, "item")
        positions = (*launched.positions, *in_group.positions)
        counted = (*(plan.axes[number] for number in groups), *items)
        self.counters.update(zip(counted, positions, strict=True))
        for axis, first in plan.item_twins.items():
            self.counters[axis] = self.counters[first]
        for number in plan.of_kind(AxisKind.THREAD):
            axis = plan.axes[number]
            self.counters[axis] = build.special("group", 0, axis.extent)

    def positions_of(self, counters: Counters) -> tuple[UOp, ...]:
        """Return the position on each axis of the AST."""
        totals: list[UOp | None] = [None] * len(self.plan.form.owners)
        for axis, counter in counters.items():
            term = counter if axis.stride == 1 else build.mul(counter, axis.stride)
            total = totals[axis.target]
            totals[axis.target] = term if total is None else build.add(total, term)
        return tuple(ZERO if total is None else total for total in totals)

    # The kernel

    @functools.cached_property
    def _written(self) -> frozenset[int]:
        """Return the slots of the buffers that the kernel writes."""
        return frozenset(slot_of(store) for store in self.plan.form.ast.src)

    def kernel(self) -> UOp:
        stores = self.plan.form.ast.src
        rebuild(self.plan.form.ast, self._lowered, self.done)
        lowered = [self._store(store) for store in stores]
        return build.sink(*[store for store in lowered if store is not None])

    def _lowered(self, node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if node.op in (Ops.STORE, Ops.SINK):
            return node
        if node in self.reused:
            return self._reused(node, self.reused[node])
        if self.plan.tile is not None and node is self.plan.tile.reduce:
            value = tile_value(self, self.plan.tile, self.done[node.src[0]])
            if value is not None:
                return value
        if isinstance(node.arg, ReduceArg):
            return self._reduce(node, node.arg, src[0])
        if node in self.plan.copied:
            return self._packed(node)
        return self._leaf(node, self.positions, self.done)

    def _leaf(self, node: UOp, positions: tuple[UOp, ...], done: Done) -> UOp | None:
        """Return a LOAD, VALID or IOTA at `positions`; None for nodes computed from others."""
        match node.op:
            case Ops.VIEW:
                return node
            case Ops.LOAD:
                return self._read(node, positions, done)
            case Ops.VALID:
                valid = self._element_of(node, positions, done)[1]
                return self._valid(axes_of(node), valid, positions)
            case Ops.IOTA:
                return self._number(node, positions, done)
        return None

    def value_at(self, root: UOp, positions: tuple[UOp, ...]) -> UOp:
        """Return the value of an AST node at other positions than the positions of the kernel.

        They may differ only along axes on which no reduce in the node depends.
        """
        done: Done = {}

        def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
            return self.done[node] if node.op is Ops.REDUCE else self._leaf(node, positions, done)

        return rebuild(root, change, done)

    def _store(self, store: UOp) -> UOp | None:
        """Return the STORE of one element; None if it never writes."""
        gate = self.in_launch
        written = axes_of(store.src[0])
        for axis in self.plan.axes:
            # A smaller output shares the axes of a larger one: only the first iteration writes.
            # Among the work-items that reduce together, the first one writes.
            is_output = self.plan.form.owners[axis.target] == OUTPUT
            is_extra = is_output and axis.target not in written
            if is_extra or axis.kind is AxisKind.GROUP_REDUCE:
                gate = build.both(gate, build.equal(self.counters[axis], 0))
        address, valid = self._address(store.src[0], self.positions, self.done)
        gate = simplify(build.both(gate, valid))
        if _is_const(gate, False):
            return None
        used_gate = None if _is_const(gate, True) else gate
        value = self.done[store.src[1]]
        if self.plan.scatter is not None:
            address, value = self._added(self.plan.scatter, address, value, used_gate)
        return build.store(address, value, used_gate)

    def _added(
        self, scatter: Scatter, address: UOp, term: UOp, gate: UOp | None
    ) -> tuple[UOp, UOp]:
        """Return the address of an output after all were filled, and its value with one more term.

        The value is loaded in each iteration of the loops over the terms, as the address changes.
        """
        identity = build.const(term.dtype, reduce_identity(scatter.op, term.dtype))
        memory, position = address.src
        address = build.index(self._filled(scatter, memory, identity), position)
        return address, UOp(scatter.op, term.dtype, (build.load(address, gate), term))

    def _filled(self, scatter: Scatter, memory: UOp, identity: UOp) -> UOp:
        """Return the memory of the outputs of a scatter after they are set to `identity`."""
        position = self.range(kernel_shape(scatter.view)[scatter.target], AxisKind.LOOP)
        loops = [position]
        filling = {axis: c for axis, c in self.counters.items() if axis.kind is AxisKind.THREAD}
        for axis in self.plan.axes:
            if axis.kind is AxisKind.UPCAST:
                filling[axis] = self.range(axis.extent, AxisKind.UPCAST)
            elif axis.kind is AxisKind.GLOBAL:
                filling[axis] = self.range(axis.extent, AxisKind.LOOP)
                loops.append(filling[axis])
        positions = list(self.positions_of(filling))
        positions[scatter.target] = position
        address, valid = self._address(scatter.view, tuple(positions), self.done)
        fill = build.store(address, identity, None if _is_const(valid, True) else valid)
        return build.after(memory, fill, *loops)

    # Memory

    def _element_of(self, view: UOp, positions: tuple[UOp, ...], done: Done) -> tuple[UOp, UOp]:
        """Return the number of the element in memory, and a node that is true if there is one.

        `done` has the values that are positions on the last axes of the view.
        """
        if not isinstance(view.arg, ViewArg):
            raise UserError(f"kernel: {view.op.name} is no view")
        tracker = tracker_of(view)
        values = positions_of(view)
        sizes = tracker.shape[len(tracker.shape) - len(values) :]
        checked = [_checked_index(done[v], size) for v, size in zip(values, sizes, strict=True)]
        number, valid = tracker.index_and_valid((*positions, *(index for index, _ in checked)))
        for _, is_inside in checked:
            valid = build.both(is_inside, valid)
        return number, valid

    def _number(self, view: UOp, positions: tuple[UOp, ...], done: Done) -> UOp:
        """Return the value of an IOTA, from the index arithmetic of its view."""
        position, valid = self._element_of(view, positions, done)
        number = build.cast(position, view.dtype)
        return build.where(self._valid(axes_of(view), valid, positions), number, 0)

    def _valid(self, targets: Iterable[int], valid: UOp, positions: tuple[UOp, ...]) -> UOp:
        """Return `valid`, but false at positions that padding added to one of the AST axes."""
        for target in sorted(targets):
            if self.plan.is_padded(target):
                inside = build.less(
                    positions[target], build.operand(self.plan.shape[target], dtypes.index)
                )
                valid = build.both(valid, inside)
        return valid

    def _address(
        self,
        view: UOp,
        positions: tuple[UOp, ...],
        done: Done,
        targets: frozenset[int] | None = None,
    ) -> tuple[UOp, UOp]:
        position, valid = self._element_of(view, positions, done)
        gated = axes_of(view) if targets is None else targets
        return build.index(view.src[0], position), simplify(self._valid(gated, valid, positions))

    def _read(
        self,
        node: UOp,
        positions: tuple[UOp, ...],
        done: Done,
        targets: frozenset[int] | None = None,
    ) -> UOp:
        """Return the loaded element; 0 where padding added a position to `targets`.

        By default these are all axes, except outputs along which the load repeats an element.
        """
        if targets is None:
            owners = self.plan.form.owners
            moved = changes(node)
            axes = axes_of(node.src[0])
            targets = frozenset(x for x in axes if x in moved or owners[x] != OUTPUT)
        address, valid = self._address(node.src[0], positions, done, targets)
        if slot_of(node) in self._written:
            # A work-item beyond the last element would read an element that another one writes.
            valid = simplify(build.both(self.in_launch, valid))
        return build.load(address, valid, 0)

    def define_local(self, dtype: DType, size: int) -> UOp:
        """Return a new array of shared memory, or of scratch memory on a device without groups."""
        kind = pointer(dtype, size, AddressSpace.LOCAL)
        return UOp(Ops.DEFINE_LOCAL, kind, (), LocalArg(f"temp{next(self.local_numbers)}"))

    def _packed(self, node: UOp) -> UOp:
        """Return the element that `node` loads, from a copy in scratch memory that is made first.

        The copy has an element for every iteration of the reduce and every lane. Lanes come last,
        and the lanes that are neighbours in the buffer come last among them. So they are vectors in
        any layout of the buffer.
        """
        strides = element_strides(node)
        step = functools.partial(_step, strides)
        loops_of_reduce = self.plan.axes_of_copy(node, AxisKind.REDUCE)
        lanes = self.plan.axes_of_copy(node, *LANE_KINDS)
        inside = [
            *sorted(loops_of_reduce, key=step, reverse=True),
            *sorted(lanes, key=step, reverse=True),
        ]
        memory = self.define_local(node.dtype, number_of(axis.extent for axis in inside))
        filling = dict(self.counters)
        loops = []
        for axis in inside:
            is_loop = axis.kind is AxisKind.REDUCE
            kind = AxisKind.LOOP if is_loop else AxisKind.UPCAST
            filling[axis] = self.range(axis.extent, kind)
            if is_loop:
                loops.append(filling[axis])
                self.loops.append((axis, filling[axis]))
        element = self._read(node, self.positions_of(filling), self.done, changes(node))
        copy = build.store(build.index(memory, flat(inside, filling)), element)
        filled = build.after(memory, copy, *loops)
        return build.load(build.index(filled, flat(inside, self.counters)))

    def _reused(self, node: UOp, value: Reused) -> UOp:
        """Return a reused value, from scratch memory with a value for every position."""
        axis = value.reduced if node is value.inner else value.output
        if value not in self.filled:
            self.filled[value] = self._fill(value)
        address = self._address_of_reused(value, self.filled[value], self.positions[axis])
        # The copy has values where padding extends its reduce, but not where it extends an output.
        padded = [axis] if node is value.outer else []
        return build.load(address, self._valid(padded, TRUE, self.positions), 0)

    def _fill(self, value: Reused) -> UOp:
        """Return scratch memory with `value.inner` at every position of its reduce."""
        plan = self.plan
        lanes = plan.lanes_of_reused(value)
        count = number_of((plan.covered(value.reduced), *(axis.extent for axis in lanes)))
        memory = self.define_local(value.inner.dtype, count)
        filling = dict(self.counters)
        loops = []
        for axis in plan.axes:
            if axis.target != value.reduced:
                continue
            is_loop = axis.kind is AxisKind.REDUCE
            filling[axis] = self.range(axis.extent, AxisKind.LOOP if is_loop else AxisKind.UPCAST)
            if is_loop:
                loops.append(filling[axis])
                self.loops.append((axis, filling[axis]))
        positions = self.positions_of(filling)
        element = self.value_at(value.inner, positions)
        address = self._address_of_reused(value, memory, positions[value.reduced])
        return build.after(memory, build.store(address, element), *loops)

    def _address_of_reused(self, value: Reused, memory: UOp, position: UOp) -> UOp:
        """Return the address of an element of a reused value, at a position of its axis."""
        lanes = self.plan.lanes_of_reused(value)
        if lanes:
            count = number_of(axis.extent for axis in lanes)
            position = build.add(build.mul(position, count), flat(lanes, self.counters))
        return build.index(memory, position)

    # Reduces

    def _reduce(self, node: UOp, arg: ReduceArg, value: UOp) -> UOp:
        axes = [axis for axis in self.plan.axes if axis.target in arg.axes]
        shared = [axis for axis in axes if axis.kind is AxisKind.GROUP_REDUCE]
        ranges = [self.counters[axis] for axis in axes if axis not in shared]
        value = self.term_of(arg, value, self.positions)
        if self.plan.scatter is not None:
            return value
        if ranges:
            value = build.reduce_over(arg.op, value, *ranges)
        return self._reduce_in_group(node, arg, value, shared) if shared else value

    def term_of(self, arg: ReduceArg, value: UOp, positions: tuple[UOp, ...]) -> UOp:
        """Return a term of a reduce: the identity at positions that padding has added."""
        if not any(map(self.plan.is_padded, arg.axes)):
            return value
        is_inside = self._valid(arg.axes, TRUE, positions)
        return build.where(is_inside, value, reduce_identity(arg.op, value.dtype))

    def _reduce_in_group(self, node: UOp, arg: ReduceArg, part: UOp, shared: list[Axis]) -> UOp:
        """Let every work-item store its part in shared memory; then each one reduces all parts."""
        plan = self.plan
        lanes = plan.axes_of(node, *LANE_KINDS)
        items = plan.item_axes
        memory = self.define_local(node.dtype, number_of(a.extent for a in (*items, *lanes)))
        free_memory = memory
        if self.is_in_loop(node):
            # In the next iteration, no work-item may write before all have read the parts.
            all_have_read = build.barrier(part)
            free_memory = build.after(memory, all_have_read)
        written = build.store(build.index(free_memory, flat((*items, *lanes), self.counters)), part)
        barrier = build.barrier(written)
        filled = build.after(memory, barrier)
        others = dict(self.counters)
        shared = [plan.item_twins.get(axis, axis) for axis in shared]
        for axis in shared:
            others[axis] = self.range(axis.extent, AxisKind.REDUCE)
        element = build.load(build.index(filled, flat((*items, *lanes), others)))
        ranges = [others[axis] for axis in shared]
        return build.reduce_over(arg.op, element, *ranges)

    def is_in_loop(self, node: UOp) -> bool:
        """Return True if a work-item may compute the value of `node` more than once."""
        kinds = [AxisKind.REDUCE]
        if not self.plan.capabilities.has_grid:
            kinds.append(AxisKind.GLOBAL)
        return bool(self.plan.axes_of(node, *kinds))


def _step(strides: Sequence[sint | None], axis: Axis) -> int:
    """Return the distance of two neighbours along `axis` in the buffer; huge if it varies."""
    stride = strides[axis.target]
    return abs(stride) * axis.stride if isinstance(stride, int) else 1 << 62


def _checked_index(value: UOp, size: sint) -> tuple[UOp, UOp]:
    """Return the index `value` on an axis of `size`, 0 if outside, and a node: true if inside."""
    is_inside = build.at_least(value, 0)
    last = value.dtype.maximum
    if isinstance(size, UOp):
        is_inside = build.both(is_inside, build.less(value, build.cast(size, value.dtype)))
    elif size <= last:
        is_inside = build.both(is_inside, build.less(value, size))
    most = bounds(size)[1] if isinstance(size, UOp) else size
    narrow = dtypes.int32 if most <= dtypes.int32.maximum else dtypes.int64
    number = build.cast(build.cast(value, narrow), dtypes.index)
    is_inside = simplify(is_inside)
    return build.where(is_inside, number, 0), is_inside


def _is_const(node: UOp, value: bool) -> bool:
    return isinstance(node.arg, ConstArg) and node.arg.value is value


def tile_value(lowering: Lowering, use: TileUse, product: UOp) -> UOp | None:
    """Return the value of the reduce of a tile; None if it is computed element by element.

    `product` is the value that the reduce sums if it is computed element by element.
    """
    if use.mode == TileMode.INSTRUCTION:
        return _by_instruction(lowering, use)
    if use.mode == TileMode.MEMORY:
        return _by_memory(lowering, use, product)
    return None


# --- fragments ------------------------------------------------------------------------------------


def _tile_lanes(lowering: Lowering, kind: AxisKind) -> list[Axis]:
    """Return the axes of one kind in the tile, the axis of the lowest bit first."""
    return [axis for axis in lowering.plan.axes if axis.is_fixed and axis.kind is kind][::-1]


def _tile_coordinates(
    lowering: Lowering, use: TileUse, operand: Operand, register: int
) -> dict[str, UOp]:
    """Return the coordinates in the tile of the element in a register of this work-item."""
    layout = use.tile.layout(operand)
    axes = _tile_lanes(lowering, AxisKind.LOCAL)
    coordinates = {}
    for name in operand.axes:
        # Thread numbers have the same number of bits in every layout, as in the layout of C.
        total = build.const(dtypes.index, layout.coordinate(name, 0, register))
        for axis, bit in zip(axes, layout.thread_bits, strict=True):
            if bit is not None and bit.axis == name:
                total = build.add(build.mul(lowering.counters[axis], bit.weight), total)
        coordinates[name] = total
    return coordinates


def _fragment(lowering: Lowering, use: TileUse, operand: Operand) -> list[UOp]:
    """Return the elements of A or B in the registers of this work-item, in order."""
    outside = {axis: c for axis, c in lowering.counters.items() if not axis.is_fixed}
    elements = []
    for register in range(use.tile.layout(operand).registers):
        positions = list(lowering.positions_of(outside))
        for name, coordinate in _tile_coordinates(lowering, use, operand, register).items():
            target = use.targets["mnk".index(name)]
            positions[target] = build.add(positions[target], coordinate)
        there = tuple(map(simplify, positions))
        value = lowering.value_at(use.a if operand is Operand.A else use.b, there)
        assert isinstance(use.reduce.arg, ReduceArg), "a REDUCE has its payload"
        elements.append(lowering.term_of(use.reduce.arg, value, there))
    return elements


def _loops_outside(lowering: Lowering, use: TileUse) -> list[UOp]:
    """Return the ranges of the reduce outside of the tile."""
    axes = reduced_axes(use.reduce)
    return [
        lowering.counters[axis]
        for axis in lowering.plan.axes
        if axis.target in axes and not axis.is_fixed
    ]


# --- modes ----------------------------------------------------------------------------------------


def _by_instruction(lowering: Lowering, use: TileUse) -> UOp:
    a, b = (_vector_of(_fragment(lowering, use, operand)) for operand in (Operand.A, Operand.B))
    fragment = use.tile.fragment(Operand.C)
    value = UOp(Ops.WMMA, fragment, (a, b, build.const(fragment, 0)), TileArg(use.tile))
    loops = _loops_outside(lowering, use)
    if loops:
        value = build.reduce_over(Ops.ADD, value, *loops)
    lanes = [lowering.counters[axis] for axis in _tile_lanes(lowering, AxisKind.UPCAST)]
    return build.lane_at(value, *reversed(lanes)) if lanes else value


def _vector_of(elements: Sequence[UOp]) -> UOp:
    return elements[0] if len(elements) == 1 else build.vectorize(*elements)


def _by_memory(lowering: Lowering, use: TileUse, product: UOp) -> UOp:
    """Compute each element from shared memory, to which the threads copy their fragments."""
    operands = (Operand.A, Operand.B)
    fragments = [_fragment(lowering, use, operand) for operand in operands]
    loops = _loops_outside(lowering, use)
    ready = _all_have_read(lowering, use, fragments)
    memories = []
    stores: list[UOp] = []
    for operand, fragment in zip(operands, fragments, strict=True):
        memory = lowering.define_local(
            use.tile.dtype_in, lowering.plan.fragment_elements(use, operand)
        )
        memories.append(memory)
        free_memory = build.after(memory, *ready) if ready else memory
        stores += _fragment_stores(lowering, use, operand, free_memory, fragment)
    barrier = build.barrier(*stores)
    factors = [
        _tile_element(lowering, use, operand, build.after(memory, barrier))
        for operand, memory in zip(operands, memories, strict=True)
    ]
    value = build.mul(*[build.cast(factor, product.dtype) for factor in factors])
    depth = [lowering.counters[axis] for axis in _tile_lanes(lowering, AxisKind.UNROLL)]
    return build.reduce_over(Ops.ADD, value, *loops, *depth)


def _all_have_read(
    lowering: Lowering, use: TileUse, fragments: Sequence[Sequence[UOp]]
) -> tuple[UOp, ...]:
    """Return a barrier for a loop: no thread writes before all have read the last fragments."""
    if not _loops_outside(lowering, use) and not lowering.is_in_loop(use.reduce):
        return ()
    elements = [element for fragment in fragments for element in fragment]
    return (build.barrier(*elements),)


def _fragment_stores(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, fragment: Sequence[UOp]
) -> list[UOp]:
    """Return STOREs of a fragment; among threads with the same elements, one writes."""
    gate = _is_first(lowering, use, operand)
    stores = []
    for register, element in enumerate(fragment):
        coordinates = _tile_coordinates(lowering, use, operand, register)
        stores.append(
            build.store(_tile_address(lowering, use, operand, memory, coordinates), element, gate)
        )
    return stores


def _is_first(lowering: Lowering, use: TileUse, operand: Operand) -> UOp | None:
    """Return the gate of the first thread with the same elements; None if there is only one."""
    gate: UOp | None = None
    axes = _tile_lanes(lowering, AxisKind.LOCAL)
    for axis, bit in zip(axes, use.tile.layout(operand).thread_bits, strict=True):
        if bit is None:
            is_first = build.equal(lowering.counters[axis], 0)
            gate = is_first if gate is None else build.both(gate, is_first)
    return gate


def _tile_element(lowering: Lowering, use: TileUse, operand: Operand, memory: UOp) -> UOp:
    """Return the element of A or B at the counters of the kernel."""
    inside = {axis: c for axis, c in lowering.counters.items() if axis.is_fixed}
    positions = lowering.positions_of(inside)
    coordinates = {name: positions[use.targets["mnk".index(name)]] for name in operand.axes}
    return build.load(_tile_address(lowering, use, operand, memory, coordinates))


def _tile_address(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, coordinates: dict[str, UOp]
) -> UOp:
    """Return the address of an element: row by row, a matrix for each subgroup and each lane."""
    row, column = operand.axes
    rows, columns = use.tile.shape(operand)
    matrices = lowering.plan.fragment_axes(use, operand)
    run = build.mul(flat(matrices, lowering.counters), rows * columns)
    element = build.add(build.mul(coordinates[row], columns), coordinates[column])
    return build.index(memory, simplify(build.add(run, element)))
