"""Lowering: a planned kernel, whose nodes have shapes, becomes an indexed kernel of elements.

Every axis of the plan becomes a launch index or a range; the position on an axis of the AST is a
sum of them. A view becomes an address and a gate. Ranges that are nested are numbered from the
outside in; those of lanes stay ranges until `expand`. A matrix tile becomes fragments and the
device's instruction, or its emulation.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence

from tinyref.algebra.bounds import bounds
from tinyref.algebra.shapes import positions_of, reduced_axes
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

# What nodes of the AST became.
Done = dict[UOp, UOp]


def lower(plan: Plan) -> UOp:
    """The indexed kernel of a plan: a SINK of STOREs, empty if nothing is written."""
    lowering = Lowering(plan)
    return peeled(plan, lowering.kernel(), lowering.counters)


class Lowering:
    """One kernel on its way: its counters, positions, and what each node became."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.range_numbers = itertools.count()
        self.local_numbers = itertools.count()
        self.in_launch = TRUE
        self.counters: Counters = {}
        self._count_launch()
        for axis in plan.axes:
            if axis not in self.counters:
                kind = AxisKind.LOOP if axis.kind is AxisKind.GLOBAL else axis.kind
                self.counters[axis] = self.range(axis.extent, kind)
        self.positions = self.positions_of(self.counters)
        self.done: Done = {}
        values = reused_values(plan.form) if REUSED in plan.packed else ()
        self.reused = {node: value for value in values for node in (value.inner, value.outer)}
        self.filled: dict[Reused, UOp] = {}

    # Counters

    def range(self, extent: sint, kind: AxisKind) -> UOp:
        """A new RANGE, inside all that there are."""
        return build.counter(extent, next(self.range_numbers), kind)

    def _count_launch(self) -> None:
        """Launch indices: of groups and of work-items, or the number of the thread."""
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
        """The position on each axis of the AST."""
        totals: list[UOp | None] = [None] * len(self.plan.form.owners)
        for axis, counter in counters.items():
            term = counter if axis.stride == 1 else build.mul(counter, axis.stride)
            total = totals[axis.target]
            totals[axis.target] = term if total is None else build.add(total, term)
        return tuple(ZERO if total is None else total for total in totals)

    # The kernel

    @functools.cached_property
    def _written(self) -> frozenset[int]:
        """The slots of the buffers that the kernel stores to."""
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
            return self._kept(node, self.reused[node])
        if self.plan.tile is not None and node is self.plan.tile.reduce:
            value = tile_value(self, self.plan.tile, self.done[node.src[0]])
            if value is not None:
                return value
        if isinstance(node.arg, ReduceArg):
            return self._reduce(node, node.arg, src[0])
        if node.op is Ops.LOAD and slot_of(node) in self.plan.packed:
            return self._packed(node)
        return self._leaf(node, self.positions, self.done)

    def _leaf(self, node: UOp, positions: tuple[UOp, ...], done: Done) -> UOp | None:
        """What a LOAD, VALID or IOTA is at the positions; None of what is computed of others."""
        match node.op:
            case Ops.VIEW:
                return node
            case Ops.LOAD:
                return self._read(node, positions, done)
            case Ops.VALID:
                valid = self._shown(node, positions, done)[1]
                return self._valid(axes_of(node), valid, positions)
            case Ops.IOTA:
                return self._number(node, positions, done)
        return None

    def value_at(self, root: UOp, positions: tuple[UOp, ...]) -> UOp:
        """The value of an AST node at other positions than those of the kernel.

        They differ along axes on which no reduce in it depends.
        """
        done: Done = {}

        def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
            return self.done[node] if node.op is Ops.REDUCE else self._leaf(node, positions, done)

        return rebuild(root, change, done)

    def _store(self, store: UOp) -> UOp | None:
        """The STORE of one element; None where it would never write."""
        gate = self.in_launch
        written = axes_of(store.src[0])
        for axis in self.plan.axes:
            # A smaller output shares the axes of a larger one: only the first iteration writes.
            # Of the work-items that reduce together one writes.
            is_output = self.plan.form.owners[axis.target] == OUTPUT
            is_extra = is_output and axis.target not in written
            if is_extra or axis.kind is AxisKind.GROUP_REDUCE:
                gate = build.both(gate, build.equal(self.counters[axis], 0))
        address, valid = self._address(store.src[0], self.positions, self.done)
        gate = simplify(build.both(gate, valid))
        if _is_const(gate, False):
            return None
        return build.store(
            address, self.done[store.src[1]], None if _is_const(gate, True) else gate
        )

    # Memory

    def _shown(self, view: UOp, positions: tuple[UOp, ...], done: Done) -> tuple[UOp, UOp]:
        """The number of the element that a view shows, and whether there is one.

        `done` has the values that give positions on the last axes of the view.
        """
        if not isinstance(view.arg, ViewArg):
            raise UserError(f"kernel: {view.op.name} is no view")
        tracker = tracker_of(view)
        values = positions_of(view)
        sizes = tracker.shape[len(tracker.shape) - len(values) :]
        places = [_place(done[value], size) for value, size in zip(values, sizes, strict=True)]
        number, valid = tracker.index_and_valid((*positions, *(place for place, _ in places)))
        for _, is_there in places:
            valid = build.both(is_there, valid)
        return number, valid

    def _number(self, view: UOp, positions: tuple[UOp, ...], done: Done) -> UOp:
        """The number that an IOTA has, by the index arithmetic of its view."""
        position, valid = self._shown(view, positions, done)
        number = build.cast(position, view.dtype)
        return build.where(self._valid(axes_of(view), valid, positions), number, 0)

    def _valid(self, targets: Iterable[int], valid: UOp, positions: tuple[UOp, ...]) -> UOp:
        """`valid`, and not at a position that only padding has added to one of the AST axes."""
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
        position, valid = self._shown(view, positions, done)
        gated = axes_of(view) if targets is None else targets
        return build.index(view.src[0], position), simplify(self._valid(gated, valid, positions))

    def _read(
        self,
        node: UOp,
        positions: tuple[UOp, ...],
        done: Done,
        targets: frozenset[int] | None = None,
    ) -> UOp:
        """What `node` loads; 0 where padding has added the position to one of `targets`, or any."""
        address, valid = self._address(node.src[0], positions, done, targets)
        if slot_of(node) in self._written:
            # Beyond the last element is a work-item that would read what another one writes.
            valid = simplify(build.both(self.in_launch, valid))
        return build.load(address, valid, 0)

    def define_local(self, dtype: DType, size: int) -> UOp:
        """A new array of shared memory, or of scratch memory on a device without groups."""
        kind = pointer(dtype, size, AddressSpace.LOCAL)
        return UOp(Ops.DEFINE_LOCAL, kind, (), LocalArg(f"temp{next(self.local_numbers)}"))

    def _packed(self, node: UOp) -> UOp:
        """What `node` loads, from a copy in scratch memory that is made before it is used.

        The copy has an element for every iteration of the reduce and every lane: lanes last, and
        of these the neighbours of the buffer, so that they are vectors whatever its order.
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
        element = self._read(node, self.positions_of(filling), self.done, changes(node))
        copy = build.store(build.index(memory, flat(inside, filling)), element)
        filled = build.after(memory, copy, *loops)
        copied = build.load(build.index(filled, flat(inside, self.counters)))
        # The copy is the same all along a repeated axis, but what is added to a reduce is 0.
        owners = self.plan.form.owners
        added = [axis for axis in axes_of(node) - changes(node) if owners[axis] != OUTPUT]
        return build.where(self._valid(added, TRUE, self.positions), copied, 0)

    def _kept(self, node: UOp, value: Reused) -> UOp:
        """A value that is needed again, from scratch memory with one for every position."""
        axis = value.reduced if node is value.inner else value.output
        if value not in self.filled:
            self.filled[value] = self._fill(value)
        return build.load(self._place_of(value, self.filled[value], self.positions[axis]))

    def _fill(self, value: Reused) -> UOp:
        """Scratch memory with what `value.inner` is at every position of its reduce."""
        plan = self.plan
        lanes = plan.lanes_of_reused(value)
        count = number_of((plan.shape[value.reduced], *(axis.extent for axis in lanes)))
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
        positions = self.positions_of(filling)
        element = self.value_at(value.inner, positions)
        place = self._place_of(value, memory, positions[value.reduced])
        return build.after(memory, build.store(place, element), *loops)

    def _place_of(self, value: Reused, memory: UOp, position: UOp) -> UOp:
        """The address of the element of a reused value at a position of its axis."""
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
        if ranges:
            value = build.reduce_over(arg.op, value, *ranges)
        return self._reduce_in_group(node, arg, value, shared) if shared else value

    def _reduce_in_group(self, node: UOp, arg: ReduceArg, part: UOp, shared: list[Axis]) -> UOp:
        """Every work-item leaves its part in local memory; then each reduces all parts."""
        plan = self.plan
        lanes = plan.axes_of(node, *LANE_KINDS)
        items = plan.item_axes
        memory = self.define_local(node.dtype, number_of(a.extent for a in (*items, *lanes)))
        place = memory
        if self.is_in_loop(node):
            # In the next iteration nobody may write before all have read what is there now.
            all_have_read = build.barrier(part)
            place = build.after(memory, all_have_read)
        written = build.store(build.index(place, flat((*items, *lanes), self.counters)), part)
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
        """Whether the value of `node` may be computed more than once by a work-item."""
        kinds = [AxisKind.REDUCE]
        if not self.plan.capabilities.has_grid:
            kinds.append(AxisKind.GLOBAL)
        return bool(self.plan.axes_of(node, *kinds))


def _step(strides: Sequence[sint | None], axis: Axis) -> int:
    """How far apart in the buffer two neighbours along `axis` are; far where that varies."""
    stride = strides[axis.target]
    return abs(stride) * axis.stride if isinstance(stride, int) else 1 << 62


def _place(value: UOp, size: sint) -> tuple[UOp, UOp]:
    """The position `value` on an axis of `size`, 0 where it is none, and whether it is one."""
    is_there = build.at_least(value, 0)
    last = value.dtype.maximum
    if isinstance(size, UOp):
        is_there = build.both(is_there, build.less(value, build.cast(size, value.dtype)))
    elif size <= last:
        is_there = build.both(is_there, build.less(value, size))
    most = bounds(size)[1] if isinstance(size, UOp) else size
    narrow = dtypes.int32 if most <= dtypes.int32.maximum else dtypes.int64
    number = build.cast(build.cast(value, narrow), dtypes.index)
    is_there = simplify(is_there)
    return build.where(is_there, number, 0), is_there


def _is_const(node: UOp, value: bool) -> bool:
    return isinstance(node.arg, ConstArg) and node.arg.value is value


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


def _tile_lanes(lowering: Lowering, kind: AxisKind) -> list[Axis]:
    """The tile's axes of one kind, that of the lowest bit first."""
    return [axis for axis in lowering.plan.axes if axis.is_fixed and axis.kind is kind][::-1]


def _tile_coordinates(
    lowering: Lowering, use: TileUse, operand: Operand, register: int
) -> dict[str, UOp]:
    """The coordinates in the tile of what a register of this work-item holds."""
    layout = use.tile.layout(operand)
    axes = _tile_lanes(lowering, AxisKind.LOCAL)
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
        for name, coordinate in _tile_coordinates(lowering, use, operand, register).items():
            target = use.targets["mnk".index(name)]
            positions[target] = build.add(positions[target], coordinate)
        value = use.a if operand is Operand.A else use.b
        elements.append(lowering.value_at(value, tuple(map(simplify, positions))))
    return elements


def _loops_outside(lowering: Lowering, use: TileUse) -> list[UOp]:
    """The ranges of the reduce outside of the tile."""
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
    """Fragments as the threads hold them go to local memory; each element is computed from it."""
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
        place = build.after(memory, *ready) if ready else memory
        stores += _fragment_stores(lowering, use, operand, place, fragment)
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
    """In a loop nobody may write before all have read what the iteration before has left."""
    if not _loops_outside(lowering, use) and not lowering.is_in_loop(use.reduce):
        return ()
    elements = [element for fragment in fragments for element in fragment]
    return (build.barrier(*elements),)


def _fragment_stores(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, fragment: Sequence[UOp]
) -> list[UOp]:
    """STOREs of a fragment; of threads that hold the same elements one writes."""
    gate = _is_first(lowering, use, operand)
    stores = []
    for register, element in enumerate(fragment):
        place = _tile_coordinates(lowering, use, operand, register)
        stores.append(
            build.store(_tile_address(lowering, use, operand, memory, place), element, gate)
        )
    return stores


def _is_first(lowering: Lowering, use: TileUse, operand: Operand) -> UOp | None:
    """Whether this is the first of the threads that hold the same elements; None if it is alone."""
    gate: UOp | None = None
    axes = _tile_lanes(lowering, AxisKind.LOCAL)
    for axis, bit in zip(axes, use.tile.layout(operand).thread_bits, strict=True):
        if bit is None:
            is_first = build.equal(lowering.counters[axis], 0)
            gate = is_first if gate is None else build.both(gate, is_first)
    return gate


def _tile_element(lowering: Lowering, use: TileUse, operand: Operand, memory: UOp) -> UOp:
    """The element of A or B that the kernel's own counters come to."""
    inside = {axis: c for axis, c in lowering.counters.items() if axis.is_fixed}
    positions = lowering.positions_of(inside)
    place = {name: positions[use.targets["mnk".index(name)]] for name in operand.axes}
    return build.load(_tile_address(lowering, use, operand, memory, place))


def _tile_address(
    lowering: Lowering, use: TileUse, operand: Operand, memory: UOp, place: dict[str, UOp]
) -> UOp:
    """An element in local memory: row by row, a matrix for each subgroup and each lane."""
    row, column = operand.axes
    rows, columns = use.tile.shape(operand)
    matrices = lowering.plan.fragment_axes(use, operand)
    run = build.mul(flat(matrices, lowering.counters), rows * columns)
    element = build.add(build.mul(place[row], columns), place[column])
    return build.index(memory, simplify(build.add(run, element)))
