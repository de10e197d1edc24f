"""The value of an indexed kernel, without an order of its nodes: every counter is a numpy axis.

A value is an array that broadcasts over the axes it depends on; the lanes of a vector are one more
axis, the last. A REDUCE is a reduction over axes, an accumulator is a fold over iterations. The
passes after lowering and the interpreter share nothing with it, except the semantics of ops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra import semantics
from tinyref.dtype import TEXEL, DType, ImageDType, PtrDType, dtypes, narrow_float64, numpy_dtype
from tinyref.errors import TinyrefError, UserError
from tinyref.formats.text import node_text
from tinyref.uops.build import skip_after, slot_of
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind, ConstArg, GepArg, RangeArg, ReduceArg, SpecialArg, VarArg

Array = npt.NDArray[Any]

# A larger intermediate value is refused: reduced cases are far smaller.
MAX_ELEMENTS = 1 << 21
MAX_STEPS = 4096
# numpy has no more axes than 32 before version 2; one is for the lanes, one for a memory.
MAX_AXES = 30
_COUNTERS = frozenset({Ops.RANGE, Ops.SPECIAL})
_LANE_KINDS = frozenset({AxisKind.UPCAST, AxisKind.UNROLL})
# Values of a variable without a binding: its ends, and some between them.
_MAX_DRAWN = 9


class GraphFaultError(TinyrefError):
    """The kernel does what no device may be trusted with: a wrong access, or a race."""


def evaluate_graph(
    root: UOp, buffers: Mapping[int, Array], bindings: Mapping[str, int]
) -> dict[int, Array]:
    """Return what the indexed kernel `root` writes, by slot; `buffers` (flat, by slot) stay.

    A reduce of floats accumulates in a wider type and is rounded once. Raises `GraphFaultError`,
    and `UserError` for a kernel that is too large, or has matrix tiles.
    """
    evaluator = _Evaluator((root,), buffers, bindings)
    with np.errstate(all="ignore"):
        return evaluator.run(root)


def node_values(
    nodes: Sequence[UOp], buffers: Mapping[int, Array], bindings: Mapping[str, int]
) -> list[Array]:
    """Return the value of each node for every position, and for drawn values of free variables.

    Errors are those of `evaluate_graph`.
    """
    evaluator = _Evaluator(nodes, buffers, bindings)
    with np.errstate(all="ignore"):
        return [evaluator.value(node) for node in nodes]


@dataclass(frozen=True)
class _Place:
    """The memory of a LOAD or STORE, the sources of the AFTERs on the way, and the INDEX."""

    memory: UOp
    waits: tuple[UOp, ...]
    index: UOp

    @property
    def base(self) -> DType:
        """The type of an element."""
        dtype = self.memory.dtype
        return dtype.base if isinstance(dtype, PtrDType) else dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.memory.dtype.size if isinstance(self.memory.dtype, PtrDType) else 0


def _place_of(access: UOp) -> _Place:
    address = access.src[0]
    waits: list[UOp] = []
    index = None
    while address.op in (Ops.AFTER, Ops.INDEX):
        if address.op is Ops.AFTER:
            waits += address.src[1:]
        else:
            index = address
        address = address.src[0]
    if index is None:
        raise UserError(f"graph: {node_text(access)} does not go through an INDEX")
    return _Place(address, tuple(waits), index)


def _access_needs(access: UOp) -> list[UOp]:
    """The values that say where a LOAD or STORE goes, and what it stores."""
    return [*_place_of(access).index.src[1:], *access.src[1:]]


def _needs(node: UOp) -> list[UOp]:
    """The nodes whose values a node needs; the body of a loop is evaluated by itself."""
    if node.op is Ops.UPDATE_ACC:
        accumulator = skip_after(node.src[0])
        return [accumulator.src[0], *accumulator.src[1:]]
    if node.op is Ops.DEFINE_ACC:
        return []
    if node.op is not Ops.LOAD:
        return list(node.src)
    found = _access_needs(node)
    place = _place_of(node)
    if place.memory.op is Ops.DEFINE_LOCAL:
        for store in _Waits.of(place).stores:
            found += _access_needs(store)
    return found


@dataclass(frozen=True)
class _Waits:
    """What a LOAD of local memory waits for.

    stores: the STOREs to the memory. unguarded: those that no BARRIER stands after. over: the loops
    that have ended.
    """

    stores: tuple[UOp, ...]
    unguarded: frozenset[UOp]
    over: frozenset[UOp]

    @classmethod
    def of(cls, place: _Place) -> _Waits:
        stores: dict[UOp, None] = {}
        unguarded: set[UOp] = set()
        over = {node for node in place.waits if node.op is Ops.RANGE}
        seen: set[tuple[UOp, bool]] = set()
        stack = [(node, False) for node in place.waits]
        while stack:
            node, is_guarded = stack.pop()
            if (node, is_guarded) in seen:
                continue
            seen.add((node, is_guarded))
            if node.op is Ops.STORE and _place_of(node).memory is place.memory:
                stores[node] = None
                if not is_guarded:
                    unguarded.add(node)
            if node.op in (Ops.BARRIER, Ops.AFTER):
                over.update(source for source in node.src if source.op is Ops.RANGE)
            is_guarded = is_guarded or node.op is Ops.BARRIER
            stack += [(source, is_guarded) for source in node.src]
        return cls(tuple(stores), frozenset(unguarded), frozenset(over))


def _loops_around(root: UOp) -> set[UOp]:
    """Return the RANGEs in which `root` stands."""
    opened: dict[UOp, set[UOp]] = {}
    for node in root.toposort():
        around = set().union(*(opened[source] for source in node.src))
        if node.op is Ops.RANGE:
            around.add(node)
        elif node.op is Ops.REDUCE:
            around.difference_update(node.src[1:])
        elif node.op is Ops.UPDATE_ACC:
            around.difference_update(skip_after(node.src[0]).src[1:])
        elif node.op in (Ops.AFTER, Ops.BARRIER):
            around.difference_update(source for source in node.src if source.op is Ops.RANGE)
        opened[node] = around
    return opened[root]


@dataclass
class _Contents:
    """A local memory after some STOREs: [axes that are kept ..., element].

    writer: the work-item of the group that wrote each, -1 for nobody. unguarded: the elements
    written by a STORE that no barrier stands after.
    """

    values: Array
    writer: Array
    unguarded: Array


@dataclass
class _Evaluator:
    """The values of a graph; `values` has those that are known."""

    roots: Sequence[UOp]
    buffers: Mapping[int, Array]
    bindings: Mapping[str, int]
    values: dict[UOp, Array] = field(default_factory=dict)
    axes: dict[UOp, int] = field(default_factory=dict)
    extents: dict[UOp, int] = field(default_factory=dict)
    # STOREs to local memory that another work-item than the writer reads.
    shared: dict[UOp, None] = field(default_factory=dict)
    # LOADs of buffers: the slot, the elements, where they are active, and the work-item.
    reads: list[tuple[int, Array, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The work-item that writes each element of a buffer, by slot; -1 for nobody.
        self.writers: dict[int, Array] = {}
        self.updates: dict[UOp, UOp] = {}
        for node in toposort(self.roots):
            is_free = isinstance(node.arg, VarArg) and node.arg.name not in self.bindings
            if node.op in _COUNTERS or is_free:
                self.axes.setdefault(node, len(self.axes))
            elif node.op is Ops.UPDATE_ACC:
                self.updates[skip_after(node.src[0])] = node
        if len(self.axes) > MAX_AXES:
            raise UserError(f"graph: {len(self.axes)} counters: accepted are {MAX_AXES}")
        self.items = self._launch_axes("item")

    def _launch_axes(self, scope: str) -> list[UOp]:
        """Return the launch indices of a scope, slowest dimension first."""
        by_dim = {
            node.arg.dim: node
            for node in self.axes
            if isinstance(node.arg, SpecialArg) and node.arg.scope == scope
        }
        return [by_dim[dim] for dim in sorted(by_dim, reverse=True)]

    def run(self, root: UOp) -> dict[int, Array]:
        written: dict[int, Array] = {}
        for counter in self.axes:
            self.value(counter)
        for store in root.toposort():
            if store.op is Ops.STORE and _place_of(store).memory.op is Ops.DEFINE_GLOBAL:
                self._write(store, written)
        self._check_readers()
        self._check_loops()
        self._check_memories(root)
        return written

    # Values

    def value(self, root: UOp) -> Array:
        for node in toposort([root], self._unknown):
            if node not in self.values:
                value = self._compute(node)
                _check_size(value.shape)
                self.values[node] = value
        return self.values[root]

    def _unknown(self, node: UOp) -> list[UOp]:
        return [] if node in self.values else _needs_values(node)

    def _compute(self, node: UOp) -> Array:
        argument = node.arg
        if node in self.axes:
            return self._counter(node)
        if isinstance(argument, ConstArg):
            shape = [1] * len(self.axes) + ([node.dtype.lanes] if node.dtype.lanes > 1 else [])
            return np.full(shape, argument.value, numpy_dtype(node.dtype.scalar))
        if isinstance(argument, VarArg):
            bound = self.bindings[argument.name]
            return np.full([1] * len(self.axes), bound, numpy_dtype(node.dtype))
        if node.op in ALU:
            operands = [self._with_lanes(source, node.dtype.lanes) for source in node.src]
            _check_size(np.broadcast_shapes(*(operand.shape for operand in operands)))
            types = [source.dtype for source in node.src]
            return semantics.apply(node.op, node.dtype, operands, types)
        if node.op is Ops.LOAD:
            return self._load(node)
        if isinstance(argument, ReduceArg):
            return self._reduce(node, argument.op)
        if node.op is Ops.UPDATE_ACC:
            return self._fold(node)
        if node.op is Ops.VECTORIZE:
            lanes = np.broadcast_arrays(*(self.values[source] for source in node.src))
            return np.stack(lanes, axis=-1)
        if isinstance(argument, GepArg):
            return self._gep(node, argument)
        raise UserError(f"graph: {node.op.name} has no value of its own")

    def _counter(self, node: UOp) -> Array:
        shape = [1] * len(self.axes)
        if isinstance(node.arg, VarArg):
            low, high = node.arg.minimum, node.arg.maximum
            drawn = np.unique(np.linspace(low, high, _MAX_DRAWN).astype(np.int64))
        else:
            extent = np.unique(self.values[node.src[0]])
            if extent.size != 1:
                raise UserError(f"graph: {node_text(node)} has an extent that varies")
            drawn = np.arange(max(int(extent[0]), 0))
        self.extents[node] = drawn.size
        shape[self.axes[node]] = drawn.size
        return drawn.astype(numpy_dtype(node.dtype)).reshape(shape)

    def _with_lanes(self, node: UOp, lanes: int) -> Array:
        """Return the value, with an axis for lanes if it is used as a vector of `lanes`."""
        value = self.values[node]
        return value[..., None] if lanes > 1 and node.dtype.lanes == 1 else value

    def _reduce(self, node: UOp, op: Ops) -> Array:
        ranges = node.src[1:]
        value = self.values[node.src[0]]
        shape = list(value.shape)
        for counter in ranges:
            shape[self.axes[counter]] = self.extents[counter]
        _check_size(shape)
        axes = tuple(sorted({self.axes[counter] for counter in ranges}))
        return _reduced(op, node.dtype.scalar, np.broadcast_to(value, shape), axes)

    def _fold(self, update: UOp) -> Array:
        """Return what an accumulator holds after its loops: a fold over their iterations.

        Accumulators that are updated in the same loops may read each other.
        """
        accumulator = skip_after(update.src[0])
        loops = accumulator.src[1:]
        group = {acc: node for acc, node in self.updates.items() if acc.src[1:] == loops}
        bodies = [node.src[1] for node in group.values()]
        totals = {acc: self.value(acc.src[0]) for acc in group}
        counts = [range(self.extents[loop]) for loop in loops]
        if math.prod(map(len, counts)) > MAX_STEPS:
            raise UserError("graph: an accumulator with too many iterations")
        varying = {*loops, *group}
        for node in toposort(bodies):
            if not varying.isdisjoint(node.src):
                varying.add(node)
        for node in toposort(bodies, _needs_values):
            if node not in varying:
                self.value(node)
        for iteration in itertools.product(*counts):
            inner = {node: value for node, value in self.values.items() if node not in varying}
            for loop, number in zip(loops, iteration, strict=True):
                inner[loop] = np.take(self.values[loop], [number], self.axes[loop])
            inner.update(totals)
            step = _Evaluator(
                self.roots,
                self.buffers,
                self.bindings,
                inner,
                self.axes,
                self.extents,
                self.shared,
                self.reads,
            )
            totals = {acc: step.value(body) for acc, body in zip(group, bodies, strict=True)}
        self.values.update({group[acc]: total for acc, total in totals.items()})
        return totals[accumulator]

    def _gep(self, node: UOp, argument: GepArg) -> Array:
        if len(node.src) > 1:
            raise UserError("graph: a lane of a matrix tile")
        lanes: Any = argument.lanes[0] if len(argument.lanes) == 1 else list(argument.lanes)
        return np.asarray(self._with_lanes(node.src[0], 2)[..., lanes])

    def _number(self, counters: Iterable[UOp]) -> Array:
        number = np.zeros([1] * len(self.axes), np.int64)
        for counter in counters:
            number = number * self.extents[counter] + self.value(counter)
        return number

    # Memory

    def _access(self, node: UOp, place: _Place, lanes: int) -> tuple[Array, Array]:
        """Return the elements that a LOAD or STORE goes to, lanes last, and where it is active."""
        index = place.index
        if isinstance(index.dtype, ImageDType) and len(index.src) == 3:
            rows, columns = index.dtype.shape
            row, column = (self.value(source).astype(np.int64) for source in index.src[1:])
            is_inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            position = np.where(is_inside, (row * columns + column) * TEXEL, -1)
        else:
            position = self.value(index.src[1]).astype(np.int64)
        active = self.value(node.src[2]) if len(node.src) == 3 else np.ones((), np.bool_)
        outside = active & ((position < 0) | (position > place.size - lanes))
        if outside.any():
            element = np.broadcast_to(position, outside.shape)[outside].reshape(-1)[0]
            text = f"{node.op.name} of element {element} of {place.size}"
            raise GraphFaultError(f"{text}, at {node_text(node)}")
        if lanes > 1 and (active & (position % lanes != 0)).any():
            text = f"{node.op.name} of {lanes} lanes at no multiple of them"
            raise GraphFaultError(f"{text}, at {node_text(node)}")
        position = np.where(active, position, 0)
        elements = position[..., None] + np.arange(lanes)
        return elements, np.asarray(active)[..., None] if np.ndim(active) else np.asarray(active)

    def _load(self, node: UOp) -> Array:
        place, lanes = _place_of(node), node.dtype.lanes
        elements, active = self._access(node, place, lanes)
        zero = np.zeros((), numpy_dtype(node.dtype.scalar))
        other = self.values[node.src[1]] if len(node.src) == 3 else zero
        if np.ndim(other) == len(self.axes):
            other = other[..., None]
        _check_size(np.broadcast_shapes(elements.shape, active.shape))
        if not place.size or not active.any():
            value = np.broadcast_to(zero, np.broadcast_shapes(elements.shape, active.shape))
        elif place.memory.op is Ops.DEFINE_LOCAL:
            value = self._from_local(node, place, elements, active)
        else:
            # A texel of float16 is float32 to kernels.
            value = self._buffer(place, self.buffers)[elements].astype(zero.dtype)
            self.reads.append((slot_of(place.memory), elements, active, self._launched()))
        value = np.where(active, value, other)
        return value if lanes > 1 else value[..., 0]

    def _buffer(self, place: _Place, buffers: Mapping[int, Array]) -> Array:
        """Return the buffer as elements of the kernel's type, which may hold it as words."""
        slot = slot_of(place.memory)
        if slot not in buffers:
            raise UserError(f"graph: no buffer for slot {slot}")
        content = np.ascontiguousarray(buffers[slot])
        dtype = numpy_dtype(place.base)
        return content if content.dtype == dtype else content.view(dtype)

    def _launched(self) -> Array:
        """Return the number of the work-item in the launch, with an axis for lanes."""
        return self._number([node for node in self.axes if node.op is Ops.SPECIAL])[..., None]

    def _item(self) -> Array:
        """Return the number of the work-item in its group, with an axis for lanes."""
        return self._number(self.items)[..., None]

    def _from_local(self, node: UOp, place: _Place, elements: Array, active: Array) -> Array:
        waits = _Waits.of(place)
        contents = self._contents(place, waits)
        there: list[Array] = []
        for counter, axis in self.axes.items():
            is_one = contents.values.shape[axis] == 1
            at = np.zeros((), np.int64) if is_one else self.value(counter).astype(np.int64)
            there.append(at if is_one else at[..., None])
        where = (*there, elements)
        if (active & (contents.writer[where] < 0)).any():
            text = f"an element of {node_text(place.memory)} that nobody wrote is read"
            raise GraphFaultError(f"{text}, at {node_text(node)}")
        foreign = active & (contents.writer[where] != self._item())
        if foreign.any():
            self.shared.update(dict.fromkeys(waits.stores))
            if (foreign & contents.unguarded[where]).any():
                text = "another work-item's element is read without a barrier after its STORE"
                raise GraphFaultError(f"race: {text}, at {node_text(node)}")
        return np.asarray(contents.values[where])

    def _contents(self, place: _Place, waits: _Waits) -> _Contents:
        """Return the memory after the STOREs that a LOAD waits for, its loops at their end."""
        scattered = {*self.items, *waits.over}
        scattered.update(counter for counter in self.axes if _is_lane(counter))
        parts = [self._stored(store) for store in waits.stores]
        shape = np.broadcast_shapes((1,) * len(self.axes), *(part[0].shape[:-1] for part in parts))
        kept = [1 if counter in scattered else shape[axis] for counter, axis in self.axes.items()]
        full = (*kept, place.size)
        _check_size(full)
        contents = _Contents(
            np.zeros(full, numpy_dtype(place.base)),
            np.full(full, -1, np.int64),
            np.zeros(full, np.bool_),
        )
        for store, (elements, value, active) in zip(waits.stores, parts, strict=True):
            chosen = np.nonzero(active)
            there = [
                at if size > 1 else np.zeros_like(at)
                for at, size in zip(chosen, kept, strict=False)
            ]
            where = (*there, elements[active])
            writer = np.broadcast_to(self._item(), elements.shape)[active]
            contents.values[where] = value[active]
            contents.writer[where] = writer
            contents.unguarded[where] = store in waits.unguarded
            if (contents.writer[where] != writer).any():
                text = f"two work-items write one element, at {node_text(store)}"
                raise GraphFaultError(f"race: {text}")
        return contents

    def _stored(self, store: UOp) -> tuple[Array, Array, Array]:
        """Return element, value and activity of a STORE for every work-item and lane."""
        lanes = store.src[1].dtype.lanes
        elements, active = self._access(store, _place_of(store), lanes)
        self.value(store.src[1])
        value = self._with_lanes(store.src[1], 2)
        launched = [self.value(each) for each in self.axes if each.op is Ops.SPECIAL]
        shapes = [each.shape for each in (elements, value, active)]
        shape = np.broadcast_shapes(*shapes, *((*each.shape, 1) for each in launched))
        _check_size(shape)
        parts = [np.broadcast_to(each, shape) for each in (elements, value, active)]
        return parts[0], parts[1], parts[2]

    def _write(self, store: UOp, written: dict[int, Array]) -> None:
        """A STORE to a buffer, by all work-items."""
        place = _place_of(store)
        slot = slot_of(place.memory)
        if slot not in written and slot in self.buffers:
            written[slot] = np.array(self.buffers[slot])
        elements, value, active = self._stored(store)
        chosen = elements[active]
        if np.unique(chosen).size != chosen.size:
            text = f"one element is written more than once, at {node_text(store)}"
            raise GraphFaultError(f"race: {text}")
        self._buffer(place, written)[chosen] = value[active]
        writer = self.writers.setdefault(slot, np.full(place.size, -1, np.int64))
        writer[chosen] = np.broadcast_to(self._launched(), elements.shape)[active]

    def _check_readers(self) -> None:
        """No other work-item than the one that writes an element of a buffer may read it."""
        for slot, elements, active, reader in self.reads:
            writer = self.writers[slot][elements] if slot in self.writers else np.array(-1)
            if (active & (writer >= 0) & (writer != reader)).any():
                text = "is read by another work-item than the one that writes it"
                raise GraphFaultError(f"race: an element of slot {slot} {text}")

    def _check_loops(self) -> None:
        """In a loop nobody may write before all have read what the iteration before has left."""
        for store in self.shared:
            around = {loop for loop in _loops_around(store) if self.extents.get(loop, 0) > 1}
            needed = {loop for loop in around if not _is_lane(loop)}
            ready: set[UOp] = set()
            for barrier in toposort(_place_of(store).waits):
                if barrier.op is Ops.BARRIER:
                    ready |= _loops_around(barrier)
            if not needed <= ready:
                text = "in a loop local memory is written again without a barrier before"
                raise GraphFaultError(f"race: {text}, at {node_text(store)}")

    def _check_memories(self, root: UOp) -> None:
        """Local memory is for one use: no two STOREs write the same of its elements."""
        users: dict[UOp, Array] = {}
        for store in root.toposort():
            place = _place_of(store) if store.op is Ops.STORE else None
            if place is None or place.memory.op is not Ops.DEFINE_LOCAL:
                continue
            elements, active = self._access(store, place, store.src[1].dtype.lanes)
            written = np.zeros(place.size, np.bool_)
            elements, active = np.broadcast_arrays(elements, active)
            written[elements[active]] = True
            if (written & users.get(place.memory, np.False_)).any():
                text = "an element that another STORE left is written"
                raise GraphFaultError(f"race: {text}, at {node_text(store)}")
            users[place.memory] = written | users.get(place.memory, np.False_)


def _needs_values(node: UOp) -> list[UOp]:
    return [source for source in _needs(node) if source.op not in _STRUCTURE]


_STRUCTURE = frozenset(
    {Ops.SINK, Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL, Ops.INDEX, Ops.AFTER, Ops.BARRIER, Ops.STORE}
)


def _is_lane(counter: UOp) -> bool:
    return isinstance(counter.arg, RangeArg) and counter.arg.kind in _LANE_KINDS


def _check_size(shape: Sequence[int]) -> None:
    if math.prod(shape) > MAX_ELEMENTS:
        raise UserError(f"graph: a value of {math.prod(shape)} elements")


def _reduced(op: Ops, dtype: DType, value: Array, axes: tuple[int, ...]) -> Array:
    """Return `value` reduced over `axes`, which stay as size 1, in a wide accumulator."""
    if op is Ops.MAX:
        lowest = np.array(dtype.minimum, value.dtype)
        return np.asarray(np.maximum.reduce(value, axis=axes, keepdims=True, initial=lowest))
    if op not in (Ops.ADD, Ops.MUL):
        raise UserError(f"graph: {op.name} does not reduce")
    if dtype.is_bool:
        return np.asarray((np.any if op is Ops.ADD else np.all)(value, axis=axes, keepdims=True))
    total = np.add if op is Ops.ADD else np.multiply
    if dtype.is_int:
        return np.asarray(total.reduce(value, axis=axes, keepdims=True, dtype=numpy_dtype(dtype)))
    wide = np.longdouble if dtype is dtypes.float64 else np.float64
    exact = np.asarray(total.reduce(value.astype(wide), axis=axes, keepdims=True))
    return narrow_float64(exact.astype(np.float64), dtype)
