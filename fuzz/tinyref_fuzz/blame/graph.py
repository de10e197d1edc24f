"""The value of an indexed kernel, without an order of its nodes: every counter is a numpy axis.

A node's value is an array that broadcasts over the axes it depends on, vectors have their lanes as
a last axis more. A REDUCE is a reduction over axes, local memory is one array for each iteration of
the loops around it. Nothing is shared with the passes after lowering, nor with the interpreter.
Graphs before accumulation are taken; `order` makes programs of those after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra import semantics
from tinyref.dtype import TEXEL, ImageDType, PtrDType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import (
    ConstArg,
    GepArg,
    RangeArg,
    ReduceArg,
    SpecialArg,
    TileArg,
    VarArg,
)
from tinyref.uops.tiles import MatrixTile, Operand
from tinyref_fuzz.blame.structure import (
    LANE_KINDS,
    Place,
    is_lane,
    loops_around,
    place_of,
    size_of,
    stores_waited_for,
)
from tinyref_fuzz.blame.sums import holders, product, reduce_values
from tinyref_spec.kernel_case import Symptom

Array = npt.NDArray[Any]

# A kernel with larger intermediate values is refused: reduced cases are far smaller.
MAX_ELEMENTS = 1 << 21
MAX_BYTES = 1 << 28
# numpy has no more axes than 64 (32 before version 2); one is for the lanes, one for a memory.
MAX_AXES = 30


@dataclass(frozen=True)
class GraphFault:
    """What no device may be trusted with: `symptom` is ACCESS or RACE."""

    symptom: Symptom
    text: str


@dataclass
class GraphResult:
    """written: contents by slot after the kernel. faults: in the order in which they were found."""

    written: dict[int, Array] = field(default_factory=dict)
    faults: list[GraphFault] = field(default_factory=list)


def evaluate_graph(
    root: UOp, buffers: Mapping[int, Array], bindings: Mapping[str, int] | None = None
) -> GraphResult:
    """What the indexed kernel `root` writes to `buffers` (flat arrays by slot), which stay.

    A reduce of floats accumulates in a wider type and is rounded once. Raises `UserError` for a
    node of another dialect, for accumulators, and for a kernel that is too large for arrays.
    """
    evaluator = _Evaluator(root, buffers, bindings or {})
    with np.errstate(all="ignore"):
        return evaluator.run()


@dataclass
class _Contents:
    """What a local memory holds after some STOREs: [axes that are kept ..., element].

    is_set: which elements were written. writer: by which work-item of the group. unguarded: which
    were written by a STORE that no barrier stands after.
    """

    values: Array
    is_set: Array
    writer: Array
    unguarded: Array


class _Evaluator:
    def __init__(
        self, root: UOp, buffers: Mapping[int, Array], bindings: Mapping[str, int]
    ) -> None:
        self.order = root.toposort()
        self.buffers = buffers
        self.bindings = bindings
        counters = [node for node in self.order if node.op in (Ops.RANGE, Ops.SPECIAL)]
        if len(counters) > MAX_AXES:
            raise UserError(f"graph: {len(counters)} counters: accepted are {MAX_AXES}")
        self.axes = {node: number for number, node in enumerate(counters)}
        self.extents: dict[UOp, int] = {}
        self.values: dict[UOp, Array] = {}
        self.bytes = 0
        self.result = GraphResult()
        self.contents: dict[tuple[UOp, frozenset[UOp], frozenset[UOp]], _Contents] = {}
        # STOREs to local memory that another work-item than the writer reads.
        self.shared: dict[UOp, None] = {}
        self.reads: dict[int, list[tuple[Array, Array, Array]]] = {}
        stores = [node for node in self.order if node.op is Ops.STORE]
        self.written_slots = {slot_of(place_of(node).memory) for node in stores}
        self.items = self._special_axes("item")
        self.groups = self._special_axes("group")

    def _special_axes(self, scope: str) -> list[UOp]:
        """The launch indices of a scope, slowest dimension first."""
        found = [
            node
            for node in self.axes
            if isinstance(node.arg, SpecialArg) and node.arg.scope == scope
        ]
        return sorted(found, key=lambda node: -node.arg.dim)  # type: ignore[union-attr]

    def run(self) -> GraphResult:
        stores = []
        for node in self.order:
            if node.op is Ops.STORE:
                if place_of(node).memory.op is Ops.DEFINE_GLOBAL:
                    stores.append(node)
            elif node.op not in _STRUCTURE:
                self._keep(node, self._value(node))
        for store in stores:
            self._write(store)
        self._check_loops()
        self._check_memories()
        return self.result

    def _keep(self, node: UOp, value: Array) -> None:
        self._check_size(value.shape)
        self.bytes += value.nbytes
        if self.bytes > MAX_BYTES:
            raise UserError(f"graph: more than {MAX_BYTES} bytes of values")
        self.values[node] = value

    def _check_size(self, shape: Sequence[int]) -> None:
        if math.prod(shape) > MAX_ELEMENTS:
            raise UserError(f"graph: a value of {math.prod(shape)} elements")

    def _fault(self, symptom: Symptom, text: str) -> None:
        self.result.faults.append(GraphFault(symptom, text))

    # Values

    def _value(self, node: UOp) -> Array:
        op, argument = node.op, node.arg
        if node in self.axes:
            return self._counter(node)
        if isinstance(argument, ConstArg):
            shape = [1] * len(self.axes) + ([node.dtype.lanes] if node.dtype.lanes > 1 else [])
            return np.full(shape, argument.value, numpy_dtype(node.dtype.scalar))
        if isinstance(argument, VarArg):
            if argument.name not in self.bindings:
                raise UserError(f"graph: variable {argument.name} has no value")
            bound = self.bindings[argument.name]
            return np.full([1] * len(self.axes), bound, numpy_dtype(node.dtype))
        if op in ALU:
            return self._arithmetic(node)
        if op is Ops.LOAD:
            return self._load(node)
        if isinstance(argument, ReduceArg):
            return self._reduce(node, argument)
        if op is Ops.VECTORIZE:
            lanes = np.broadcast_arrays(*(self.values[source] for source in node.src))
            return np.stack(lanes, axis=-1)
        if isinstance(argument, GepArg):
            return self._lanes(node, argument)
        if isinstance(argument, TileArg):
            return self._tile(node, argument.tile)
        raise UserError(f"graph: {op.name} has no value of its own")

    def _counter(self, node: UOp) -> Array:
        extent = np.unique(self.values[node.src[0]])
        if extent.size != 1:
            raise UserError(f"graph: {node_text(node)} has an extent that varies")
        count = max(int(extent[0]), 0)
        self.extents[node] = count
        shape = [1] * len(self.axes)
        shape[self.axes[node]] = count
        return np.arange(count, dtype=numpy_dtype(node.dtype)).reshape(shape)

    def _arithmetic(self, node: UOp) -> Array:
        operands = [self._with_lanes(source, node.dtype.lanes) for source in node.src]
        self._check_size(np.broadcast_shapes(*(operand.shape for operand in operands)))
        types = [source.dtype for source in node.src]
        return semantics.apply(node.op, node.dtype, operands, types)

    def _with_lanes(self, node: UOp, lanes: int) -> Array:
        """The value with an axis for lanes if a vector of `lanes` is wanted."""
        value = self.values[node]
        return value[..., None] if lanes > 1 and node.dtype.lanes == 1 else value

    def _repeat_along(self, value: Array, counters: Sequence[UOp]) -> Array:
        """`value` repeated along the axes of `counters` where it does not vary."""
        shape = list(value.shape)
        for counter in counters:
            shape[self.axes[counter]] = self.extents[counter]
        self._check_size(shape)
        return np.broadcast_to(value, shape)

    def _reduce(self, node: UOp, argument: ReduceArg) -> Array:
        ranges = node.src[1:]
        if argument.axes or any(each.op is not Ops.RANGE for each in ranges):
            raise UserError(f"graph: {node_text(node)} does not go over RANGEs")
        value = self._repeat_along(self.values[node.src[0]], ranges)
        axes = tuple(sorted({self.axes[each] for each in ranges}))
        return reduce_values(argument.op, node, value, axes)

    def _lanes(self, node: UOp, argument: GepArg) -> Array:
        vector = self.values[node.src[0]]
        if node.src[0].dtype.lanes == 1:
            vector = vector[..., None]
        if len(node.src) == 1:
            lanes: Any = argument.lanes[0] if len(argument.lanes) == 1 else list(argument.lanes)
            return np.asarray(vector[..., lanes])
        number = np.zeros([1] * len(self.axes), np.int64)
        for counter in node.src[1:]:
            number = number * self.extents[counter] + self.values[counter]
        chosen = np.array(argument.lanes)[number]
        shape = np.broadcast_shapes(vector.shape[:-1], chosen.shape)
        vector = np.broadcast_to(vector, (*shape, vector.shape[-1]))
        place = np.broadcast_to(chosen, shape)[..., None]
        return np.take_along_axis(vector, place, axis=-1)[..., 0]

    # Matrix tiles

    def _tile(self, node: UOp, tile: MatrixTile) -> Array:
        """D for all subgroups: the work-items of a group in their order, cut into subgroups."""
        group = [self.extents[item] for item in self.items]
        if not group or math.prod(group) % tile.threads:
            raise UserError(f"graph: a group of {group} is no whole number of runs of {tile}")
        values = [
            self._by_item(source, tile.layout(operand).registers)
            for source, operand in zip(node.src, Operand, strict=True)
        ]
        outer = np.broadcast_shapes(*(value.shape[:-2] for value in values))
        matrices = []
        for value, operand in zip(values, Operand, strict=True):
            full = np.broadcast_to(value, (*outer, *value.shape[-2:]))
            matrices.append(self._matrix(node, tile, operand, full))
        result = product(tile, *matrices)
        registers = tile.layout(Operand.C).registers
        rows, columns = holders(tile, Operand.C)
        fragments = result[..., rows, columns].reshape(*outer, *group, registers)
        # The axes of work-items go back to where they belong.
        places = tuple(self.axes[item] for item in self.items)
        found = np.squeeze(fragments, axis=places)
        first = len(self.axes) - len(places)
        found = np.moveaxis(found, range(first, len(self.axes)), places)
        return found if node.dtype.lanes > 1 else found[..., 0]

    def _by_item(self, source: UOp, registers: int) -> Array:
        """The value with the axes of work-items at the end, as one: [axes ..., item, register]."""
        value = self._repeat_along(self.values[source], self.items)
        if source.dtype.lanes == 1:
            value = value[..., None]
        places = [self.axes[item] for item in self.items]
        count = len(self.axes)
        moved = np.moveaxis(value, places, range(count - len(places), count))
        kept = moved.shape[: count - len(places)]
        flat = moved.reshape(*kept, -1, registers)
        return np.expand_dims(flat, tuple(sorted(places)))

    def _matrix(self, node: UOp, tile: MatrixTile, operand: Operand, value: Array) -> Array:
        """[axes ..., run, row, column] from [axes ..., item, register]."""
        threads, registers = tile.threads, tile.layout(operand).registers
        fragments = value.reshape(*value.shape[:-2], -1, threads, registers)
        found = np.zeros((*fragments.shape[:-2], *tile.shape(operand)), value.dtype)
        rows, columns = holders(tile, operand)
        found[..., rows, columns] = fragments
        differs = found[..., rows, columns] != fragments
        if (differs & (fragments == fragments)).any():
            text = f"work-items that hold the same element of {operand.value} differ in it"
            self._fault(Symptom.ACCESS, f"{text}, at {node_text(node)}")
        return found

    # Memory

    def _position(self, place: Place) -> Array:
        """The number of the first element."""
        index = place.index
        if isinstance(index.dtype, ImageDType) and len(index.src) == 3:
            rows, columns = index.dtype.shape
            row, column = (self.values[source].astype(np.int64) for source in index.src[1:])
            is_inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            return np.where(is_inside, (row * columns + column) * TEXEL, -1)
        return self.values[index.src[1]].astype(np.int64)

    def _check_bounds(
        self, node: UOp, position: Array, active: Array, size: int, lanes: int
    ) -> tuple[Array, Array]:
        """Position and activity without what lies outside, which is a fault."""
        outside = active & ((position < 0) | (position > size - lanes))
        if outside.any():
            which = np.broadcast_to(position, outside.shape)[outside].reshape(-1)[0]
            text = f"{node.op.name} of element {which} of {size}, at {node_text(node)}"
            self._fault(Symptom.ACCESS, text)
            active = active & ~outside
        if lanes > 1 and (active & (position % lanes != 0)).any():
            text = f"{node.op.name} of {lanes} lanes at no multiple of them"
            self._fault(Symptom.ACCESS, f"{text}, at {node_text(node)}")
        return np.where(active, position, 0), active

    def _load(self, node: UOp) -> Array:
        place, lanes = place_of(node), node.dtype.lanes
        gate = self.values[node.src[2]] if len(node.src) == 3 else np.ones((), np.bool_)
        size = size_of(place.memory)
        position, active = self._check_bounds(node, self._position(place), gate, size, lanes)
        other = self._with_lanes(node.src[1], lanes) if len(node.src) == 3 else self._zero(node)
        at = position if lanes == 1 else position[..., None] + np.arange(lanes)
        held = active if lanes == 1 else active[..., None]
        self._check_size(np.broadcast_shapes(at.shape, held.shape))
        if size == 0 or not active.any():
            shape = np.broadcast_shapes(at.shape, held.shape)
            value = np.broadcast_to(self._zero(node), shape)
        elif place.memory.op is Ops.DEFINE_LOCAL:
            value = self._from_local(node, place, at, held)
        else:
            value = self._from_global(node, place.memory, at, held)
        return np.where(held, value, other)

    def _zero(self, node: UOp) -> Array:
        return np.zeros((), numpy_dtype(node.dtype.scalar))

    def _from_global(self, node: UOp, memory: UOp, at: Array, held: Array) -> Array:
        slot = slot_of(memory)
        if slot not in self.buffers:
            raise UserError(f"graph: no buffer for slot {slot}")
        content = self._as_memory_type(memory)
        if slot in self.written_slots:
            self.reads.setdefault(slot, []).append(
                (at, held, self._launch_indices(node.dtype.lanes))
            )
        # A texel of float16 is float32 to kernels.
        wanted = numpy_dtype(node.dtype.scalar)
        return np.asarray(content[np.clip(at, 0, max(content.size - 1, 0))].astype(wanted))

    def _as_memory_type(self, memory: UOp) -> Array:
        """The buffer as elements of the kernel's type, which may be of another one that is held."""
        content = np.ascontiguousarray(self.buffers[slot_of(memory)])
        dtype = memory.dtype.base if isinstance(memory.dtype, PtrDType) else memory.dtype
        wanted = numpy_dtype(dtype)
        return content if content.dtype == wanted else content.view(wanted)

    def _item(self) -> Array:
        """The number of the work-item in its group."""
        return self._number(self.items)

    def _launch_indices(self, lanes: int) -> Array:
        number = self._number([*self.groups, *self.items])
        return number if lanes == 1 else number[..., None]

    def _number(self, counters: Sequence[UOp]) -> Array:
        number = np.zeros([1] * len(self.axes), np.int64)
        for counter in counters:
            number = number * self.extents[counter] + self.values[counter]
        return number

    def _from_local(self, node: UOp, place: Place, at: Array, held: Array) -> Array:
        stores, unguarded, over = stores_waited_for(place.waits, place.memory)
        key = (place.memory, frozenset(stores), over)
        contents = self.contents.get(key)
        if contents is None:
            contents = self._memory_after(place.memory, stores, unguarded, over)
            self.contents[key] = contents
        item = self._item() if node.dtype.lanes == 1 else self._item()[..., None]
        coordinates = self._coordinates(contents, at, node.dtype.lanes)
        there = (*coordinates, at)
        unset = held & ~contents.is_set[there]
        if unset.any():
            text = f"an element of {node_text(place.memory)} that nobody wrote is read"
            self._fault(Symptom.ACCESS, f"{text}, at {node_text(node)}")
        foreign = held & contents.is_set[there] & (contents.writer[there] != item)
        if foreign.any():
            self.shared.update(dict.fromkeys(stores))
            if (foreign & contents.unguarded[there]).any():
                text = "another work-item's element is read without a barrier after its STORE"
                self._fault(Symptom.RACE, f"{text}, at {node_text(node)}")
        return np.asarray(contents.values[there])

    def _coordinates(self, contents: _Contents, at: Array, lanes: int) -> list[Array]:
        """Where on the axes that the memory keeps each access stands."""
        found = []
        for counter, axis in self.axes.items():
            if contents.values.shape[axis] == 1:
                found.append(np.zeros((), np.int64))
            else:
                value = self.values[counter].astype(np.int64)
                found.append(value if lanes == 1 else value[..., None])
        return found

    def _memory_after(
        self,
        memory: UOp,
        stores: Sequence[UOp],
        unguarded: frozenset[UOp],
        over: frozenset[UOp],
    ) -> _Contents:
        """The memory after `stores`; the loops `over` are at their end."""
        scattered = {*self.items, *over}
        scattered.update(
            counter
            for counter in self.axes
            if isinstance(counter.arg, RangeArg) and counter.arg.kind in LANE_KINDS
        )
        parts = [self._store_parts(store) for store in stores]
        shape = np.broadcast_shapes((1,) * len(self.axes), *(part[0].shape for part in parts))
        kept = [1 if counter in scattered else shape[axis] for counter, axis in self.axes.items()]
        size = size_of(memory)
        self._check_size((*kept, size))
        base = memory.dtype.base if isinstance(memory.dtype, PtrDType) else memory.dtype
        contents = _Contents(
            np.zeros((*kept, size), numpy_dtype(base)),
            np.zeros((*kept, size), np.bool_),
            np.zeros((*kept, size), np.int64),
            np.zeros((*kept, size), np.bool_),
        )
        for store, (position, value, active) in zip(stores, parts, strict=True):
            self._scatter(store, contents, position, value, active, store in unguarded)
        return contents

    def _store_parts(self, store: UOp) -> tuple[Array, Array, Array]:
        """Position, value and activity of a STORE by every work-item, element by element.

        The lanes of a vector are the last axis of each, of size 1 for a scalar.
        """
        place, lanes = place_of(store), store.src[1].dtype.lanes
        gate = self.values[store.src[2]] if len(store.src) == 3 else np.ones((), np.bool_)
        size = size_of(place.memory)
        position, active = self._check_bounds(store, self._position(place), gate, size, lanes)
        value = self.values[store.src[1]]
        value = value if lanes > 1 else value[..., None]
        at = position[..., None] + np.arange(lanes)
        active = np.asarray(active)[..., None] if np.ndim(active) else np.asarray(active)
        launched = self._launch_indices(lanes=2)
        shape = np.broadcast_shapes(at.shape, value.shape, active.shape, launched.shape)
        self._check_size(shape)
        return (
            np.broadcast_to(at, shape),
            np.broadcast_to(value, shape),
            np.broadcast_to(active, shape),
        )

    def _scatter(
        self,
        store: UOp,
        contents: _Contents,
        position: Array,
        value: Array,
        active: Array,
        is_unguarded: bool,
    ) -> None:
        places = np.nonzero(active)
        coordinates = [
            places[axis] if contents.values.shape[axis] > 1 else np.zeros_like(places[axis])
            for axis in range(len(self.axes))
        ]
        there = (*coordinates, position[active])
        item = np.broadcast_to(self._item()[..., None], position.shape)[active]
        flat = np.ravel_multi_index(there, contents.values.shape) if item.size else there[-1]
        _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
        is_twice = first.size != flat.size and (item != item[first][inverse.reshape(-1)]).any()
        if is_twice or (contents.is_set[there] & (contents.writer[there] != item)).any():
            self._fault(Symptom.RACE, f"two work-items write one element, at {node_text(store)}")
        contents.values[there] = value[active]
        contents.is_set[there] = True
        contents.writer[there] = item
        contents.unguarded[there] = is_unguarded

    def _write(self, store: UOp) -> None:
        """A STORE to a buffer, by all work-items."""
        memory = place_of(store).memory
        slot = slot_of(memory)
        if slot not in self.buffers:
            raise UserError(f"graph: no buffer for slot {slot}")
        if slot not in self.result.written:
            self.result.written[slot] = np.array(self.buffers[slot])
        content = self.result.written[slot]
        wanted = numpy_dtype(
            memory.dtype.base if isinstance(memory.dtype, PtrDType) else dtypes.void
        )
        if content.dtype != wanted:
            content = content.view(wanted)
        position, value, active = self._store_parts(store)
        at = position[active]
        if np.unique(at).size != at.size:
            self._fault(
                Symptom.RACE, f"one element is written more than once, at {node_text(store)}"
            )
        content[at] = value[active]
        self._check_readers(store, slot, position, active, content.size)

    def _check_readers(
        self, store: UOp, slot: int, position: Array, active: Array, size: int
    ) -> None:
        """No other work-item than the one that writes an element may read it."""
        if slot not in self.reads or self._number([*self.groups, *self.items]).size < 2:
            return
        writer = np.full(size, -1, np.int64)
        launched = np.broadcast_to(self._launch_indices(lanes=2), position.shape)
        writer[position[active]] = launched[active]
        for at, held, reader in self.reads[slot]:
            shape = np.broadcast_shapes(at.shape, held.shape, reader.shape)
            who = writer[np.broadcast_to(np.clip(at, 0, size - 1), shape)]
            foreign = (who >= 0) & (who != reader) & held
            if foreign.any():
                text = f"slot {slot} is read by another work-item than the one that writes it"
                self._fault(Symptom.RACE, f"{text}, at {node_text(store)}")
                return

    def _check_loops(self) -> None:
        """In a loop nobody may write before all have read what the iteration before has left."""
        for store in self.shared:
            waits = place_of(store).waits
            around = {each for each in loops_around(store) if self.extents.get(each, 0) > 1}
            # The loops that are over when the memory is read iterate without barriers.
            needed = {each for each in around if not is_lane(each)}
            ready: set[UOp] = set()
            for barrier in toposort(waits):
                if barrier.op is Ops.BARRIER:
                    ready |= loops_around(barrier)
            if not needed <= ready:
                text = "in a loop local memory is written again without a barrier before"
                self._fault(Symptom.RACE, f"{text}, at {node_text(store)}")

    def _check_memories(self) -> None:
        """Local memory is for one use: no two STOREs of a kernel write the same of its elements."""
        written: dict[UOp, list[UOp]] = {}
        for node in self.order:
            if node.op is Ops.STORE and place_of(node).memory.op is Ops.DEFINE_LOCAL:
                written.setdefault(place_of(node).memory, []).append(node)
        for memory, stores in written.items():
            is_set = np.zeros(size_of(memory), np.bool_)
            for store in stores if len(stores) > 1 else ():
                position, _, active = self._store_parts(store)
                elements = np.unique(position[active])
                if is_set[elements].any():
                    self._fault(
                        Symptom.RACE, f"what another STORE left is written, at {node_text(store)}"
                    )
                is_set[elements] = True


_STRUCTURE = frozenset(
    {
        *(Ops.SINK, Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.INDEX, Ops.AFTER, Ops.BARRIER),
        Ops.STORE,
    }
)


def group_of(root: UOp, scope: str, bindings: Mapping[str, int]) -> tuple[int, int, int]:
    """The extents of the launch indices of `scope` ("group" or "item") in `root`, by dimension."""
    found = [1, 1, 1]
    for node in root.toposort():
        if isinstance(node.arg, SpecialArg) and node.arg.scope == scope:
            found[node.arg.dim] = _extent(node.src[0], bindings)
    return found[0], found[1], found[2]


def _extent(expression: UOp, bindings: Mapping[str, int]) -> int:
    evaluator = _Evaluator(expression, {}, bindings)
    evaluator.run()
    return int(evaluator.values[expression].reshape(-1)[0])
