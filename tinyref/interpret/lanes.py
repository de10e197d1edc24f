"""The state of a run: lanes, masks, barriers, memories with their checks, and the faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import TEXEL
from tinyref.errors import DeviceError
from tinyref.formats.text import node_text
from tinyref.interpret.shadow import Shadow
from tinyref.uops.node import UOp
from tinyref.uops.tiles import MatrixTile


class Fault(Enum):
    """Kinds of wrong behaviour that the interpreter detects in a program."""

    BOUNDS = "out of bounds"
    ALIGNMENT = "unaligned vector"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    DIVERGENCE = "divergent barrier"
    TILE = "broken matrix tile"


class OrderMattersError(Exception):
    """Error for loop iterations that ran together and share memory: they then run one by one."""


class SanitizerError(DeviceError):
    """Error for a program whose behaviour is undefined on devices.

    `kind` is the fault, `node` the node as text, `memory` the name of the buffer, `position` the
    element, and `work_item` the launch indices of the (first) work-item.
    """

    def __init__(
        self,
        kind: Fault,
        node: str,
        message: str,
        memory: str = "",
        position: int | None = None,
        work_item: str = "",
    ) -> None:
        self.kind = kind
        self.fault = "broken-tile" if kind is Fault.TILE else kind.name.lower()
        self.node = node
        self.detail = message
        self.memory = memory
        self.position = position
        self.work_item = work_item
        by = f" by {work_item}" if work_item else ""
        super().__init__("interpreter", f"{kind.value}: {message}{by}, at {node}")

    def __reduce__(self) -> tuple[type[SanitizerError], tuple[object, ...]]:
        parts = (self.kind, self.node, self.detail, self.memory, self.position, self.work_item)
        return SanitizerError, parts


Shape = tuple[int, ...]


def common_shape(first: Shape, second: Shape) -> Shape:
    """Return the shape to which both shapes broadcast. Raises `ValueError` if there is none."""
    return first if first == second else np.broadcast_shapes(first, second)


def broadcast_to(array: npt.NDArray[Any], shape: Shape) -> npt.NDArray[Any]:
    """Broadcast `array` to `shape`; the result is read-only, or `array` itself."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


Array = npt.NDArray[Any]
Extents = tuple[int, int, int]
# Rows and columns of texels.
Texels = tuple[Array, Array]

# Up to this number of groups of one work-item are threads, which have long loops.
MAX_THREADS = 64


@dataclass(frozen=True)
class Access:
    """One LOAD or STORE of all lanes, as hooks get it.

    `memory` is "slot 0" or the name of a local array. `index` has the elements (for a vector, of
    its first lane), `gate` the lanes that take part (None is all of them). `value` is the loaded
    value or the value to store. Arrays broadcast against each other; the last axis of a vector is
    its lanes.
    """

    node: UOp
    memory: str
    size: int
    index: Array
    gate: Array | None
    value: Array


@dataclass(frozen=True)
class Hooks:
    """Ways to break the interpreter on purpose, for simulated devices.

    load: gets what was loaded and returns what the program gets. store: returns the access to
    carry out, or None to write nothing; it may drop the gate. loop: returns the number of
    iterations of a RANGE of this extent. grid: returns the groups to launch for this grid. tile:
    gets the result of a WMMA as [subgroup, thread, register] and returns what threads get. special:
    gets the scope ("group" or "item"), dimension and values of a launch index, and returns what
    programs get. Without the sanitizer, elements outside a memory are dropped.
    """

    load: Callable[[Access], Array] | None = None
    store: Callable[[Access], Access | None] | None = None
    loop: Callable[[int], int] | None = None
    grid: Callable[[Extents], Extents] | None = None
    tile: Callable[[MatrixTile, Array], Array] | None = None
    special: Callable[[str, int, Array], Array] | None = None


class LaneMachine:
    """The lanes that run now: a box of groups with all their work-items.

    Lanes are the axes of arrays, one axis per launch index with more than one value. A scalar has
    the shape () if all lanes agree, else a shape that broadcasts to `lanes`. `items` numbers the
    work-items from 1 over the whole launch, group by group.
    """

    def __init__(
        self,
        grid: Extents,
        group: Extents,
        sanitize: bool,
        hooks: Hooks,
        backward: bool,
        has_tiles: bool,
    ) -> None:
        self.grid = grid
        self.group = group
        self.group_size = group[0] * group[1] * group[2]
        self.is_alone = grid == (1, 1, 1) and self.group_size == 1
        self.sanitize = sanitize
        self.hooks = hooks
        # The indices that run from the last to the first. The order of work-items matters if they
        # hold a matrix tile together.
        self.backward = {"group": backward, "item": backward and not has_tiles}
        # In a launch of few threads, iterations of loops may be lanes; `span` is the next free
        # number of a work-item.
        self.may_widen = self.group_size == 1 and math.prod(grid) <= MAX_THREADS
        self.span = math.prod(grid)
        # The number of loops around, and for each depth how many loops have begun or ended in it.
        self.depth = 0
        self.boundaries: dict[int, int] = {}
        self.mask: Array | None = None
        self.epoch: Array | int = 0
        self.lanes: tuple[int, ...] = ()
        self.items: Array = np.ones((), np.int64)
        self.local_group: Array = np.zeros((), np.int64)
        self.specials: dict[tuple[str, int], Array] = {}
        self.memories: list[LaneMemory] = []

    def enter(self, start: Extents, extent: Extents) -> None:
        """Make `extent` groups per dimension, from `start` on, the lanes."""
        self.mask = None
        self.epoch = 0
        # The x index runs fastest, in memory as on devices, so it is the last axis.
        axes = [("group", dim, start[dim], extent[dim]) for dim in (2, 1, 0)]
        axes += [("item", dim, 0, self.group[dim]) for dim in (2, 1, 0)]
        varying = [axis for axis in axes if axis[3] > 1]
        self.lanes = tuple(count for _, _, _, count in varying)
        self.specials = {}
        for axis in axes:
            scope, dim, first, count = axis
            # An index with a single value is the same in all lanes.
            shape = [count if other is axis else 1 for other in varying] if axis in varying else []
            numbers = np.arange(first, first + count, dtype=np.int64)
            # If several lanes write one element, the last of them wins in numpy.
            if self.backward[scope]:
                numbers = numbers[::-1]
            self.specials[scope, dim] = numbers.reshape(shape)
        groups = [self.specials["group", dim] for dim in range(3)]
        inside = [self.specials["item", dim] for dim in range(3)]
        group = (groups[2] * self.grid[1] + groups[1]) * self.grid[0] + groups[0]
        item = (inside[2] * self.group[1] + inside[1]) * self.group[0] + inside[0]
        items = np.asarray(group * self.group_size + item + 1)
        self.items = broadcast_to(items, self.lanes)
        corner = [groups[dim] - start[dim] for dim in range(3)]
        self.local_group = np.asarray((corner[2] * extent[1] + corner[1]) * extent[0] + corner[0])

    @property
    def local_groups(self) -> int:
        """Return how many groups run now."""
        return int(self.local_group.max(initial=0)) + 1

    def active(self, gate: Array | None) -> Array | None:
        """Return the lanes that take part in an access with `gate`; None is all, False is none."""
        if self.mask is not None:
            gate = self.mask if gate is None else np.logical_and(gate, self.mask)
        if gate is None or np.logical_and.reduce(gate, axis=None):
            return None
        return gate

    def barrier(self, node: UOp) -> None:
        """Start a new epoch for the groups that arrive. Raises if only part of a group arrives."""
        if self.mask is None:
            self.epoch = self.epoch + 1
            return
        mask = np.broadcast_to(self.mask, self.lanes)
        per_group = mask.reshape(-1, self.group_size)
        arrives: Array = np.logical_or.reduce(per_group, axis=1)
        diverges: Array = arrives & ~np.logical_and.reduce(per_group, axis=1)
        if self.sanitize and diverges.any():
            first = np.flatnonzero((diverges[:, None] & ~per_group).reshape(-1))[0]
            who = self.name_item(int(self.items.reshape(-1)[first]))
            message = "not every work-item of the group arrives; one is missing"
            raise SanitizerError(Fault.DIVERGENCE, node_text(node), message, work_item=who)
        self.epoch = self.epoch + mask.astype(np.int64)

    def pass_boundary(self) -> None:
        """Begin or end a loop: later accesses of the same outer iteration are ordered after it.

        Accesses of different threads are never ordered.
        """
        if self.depth == 0 and self.is_alone:
            self.epoch = self.epoch + 1
        self.boundaries[self.depth] = self.boundaries.get(self.depth, 0) + 1

    def privatise(self, numbers: Sequence[int]) -> None:
        """Give every lane an uninitialised copy of the memories with these numbers."""
        if self.may_widen:
            for number in numbers:
                self.memories[number] = self.memories[number].private(self)

    def epoch_of(self, chosen: Array | None, shape: tuple[int, ...]) -> Array | int:
        """Return the epoch of each lane of `shape`, flat, or only of the `chosen` lanes."""
        if isinstance(self.epoch, int):
            return self.epoch
        epoch = broadcast_to(self.epoch, shape)
        return epoch.reshape(-1) if chosen is None else epoch[chosen]

    def first_of(self, chosen: Array, positions: Array) -> tuple[int, str]:
        """Return the position in the first of the `chosen` lanes, and its work-item's name."""
        shape = np.broadcast_shapes(self.lanes, chosen.shape)
        first = int(np.flatnonzero(np.broadcast_to(chosen, shape))[0])
        position, item = (
            int(np.broadcast_to(array, shape).reshape(-1)[first])
            for array in (positions, self.items)
        )
        return position, self.name_item(item)

    def name_item(self, item: int) -> str:
        """Return the launch indices of a work-item by its number."""
        if self.may_widen:
            # Higher numbers are iterations of loops.
            item = (item - 1) % math.prod(self.grid) + 1
        group, inside = divmod(item - 1, self.group_size)
        return f"group {_unravel(group, self.grid)} item {_unravel(inside, self.group)}"


def _unravel(number: int, extents: Extents) -> Extents:
    rest, x = divmod(number, extents[0])
    z, y = divmod(rest, extents[1])
    return x, y, z


def as_truth(value: Array) -> Array:
    """Return bools from memory as 0 and 1: any byte except 0 is true, but numpy keeps the byte."""
    return np.asarray(np.asarray(value).view(np.uint8) != 0)


class LaneMemory:
    """A buffer, or an array with a copy per group, and the checks on its accesses.

    `array` is flat; a local array has one segment of `size` elements per running group. texels:
    the rows and columns of an image, whose accesses have a row and a column. copy: the segment of
    each iteration of the `depth` loops around, if each iteration has its own.
    """

    def __init__(
        self,
        name: str,
        array: Array,
        size: int,
        is_local: bool,
        texels: tuple[int, int] | None = None,
    ) -> None:
        self.name = name
        self.array = array
        self.size = size
        self.is_local = is_local
        self.texels = texels
        self.shadow: Shadow | None = None
        self.is_set: npt.NDArray[np.bool_] | None = None
        self.copy: npt.NDArray[np.int64] | None = None
        self.depth = 0

    def private(self, machine: LaneMachine) -> LaneMemory:
        """Return a copy for each lane that runs now; a lane must write elements before it reads."""
        copies = math.prod(machine.lanes)
        size = copies * self.size
        memory = LaneMemory(self.name, np.zeros(size, self.array.dtype), self.size, is_local=True)
        memory.copy = np.arange(copies).reshape(machine.lanes)
        memory.depth = machine.depth
        memory.is_set = np.zeros(size, np.bool_)
        memory.shadow = Shadow.of_iterations(size)
        return memory

    def _segment(self, machine: LaneMachine) -> Array:
        """Return the number of the segment of a local array that each lane has."""
        return machine.local_group if self.copy is None else self.copy

    def load(
        self,
        machine: LaneMachine,
        node: UOp,
        position: Array | Texels,
        gate: Array | None,
        alternative: Array,
        width: int,
    ) -> Array:
        """Load the elements at `position`, or `alternative` in lanes that gate or mask disable.

        A `width` above 1 loads vectors of this many neighbours, as a new last axis.
        """
        active = machine.active(gate)
        if active is not None and not active.any():
            return alternative
        index = self._elements(machine, node, position, active)
        if active is not None:
            index = np.where(active, index, 0)
        flat = self._checked_elements(machine, node, index, active, width)
        value: Array = self.array.take(flat)
        if self.texels is not None:
            value = value.astype(np.float32)
        if active is not None:
            value = np.where(active if width == 1 else active[..., None], value, alternative)
        if machine.hooks.load is not None:
            value = machine.hooks.load(Access(node, self.name, self.size, index, active, value))
        return as_truth(value) if value.dtype == np.bool_ else value

    def _elements(
        self, machine: LaneMachine, node: UOp, position: Array | Texels, gate: Array | None
    ) -> Array:
        """Return the number of the first element of each texel from its row and column.

        Without the sanitizer a texel outside the image gets a number outside. In memories that are
        no images, positions are element numbers already.
        """
        if not isinstance(position, tuple):
            return position
        rows, columns = self.texels or (0, 0)
        active = machine.active(gate)
        pair = [np.asarray(index, np.int64) for index in position]
        inside: Array = np.ones((), np.bool_)
        for name, index, count in zip(("row", "column"), pair, (rows, columns), strict=True):
            within = (index >= 0) & (index < count)
            outside = ~within if active is None else ~within & active
            if machine.sanitize and outside.any():
                self._report_texel(machine, node, name, index, count, outside)
            inside = inside & within
        number = (pair[0] * columns + pair[1]) * TEXEL
        return np.where(inside, number, -TEXEL)

    # Accesses without the sanitizer

    def _clipped(self, index: Array, width: int) -> Array:
        """Move loads outside the memory to its ends, as nothing reports them."""
        return np.clip(index, 0, max(self.size - width, 0))

    def _inside_alone(
        self, index: Array, active: Array | None, width: int
    ) -> tuple[Array, Array | None]:
        """Disable stores outside the memory, as nothing reports them."""
        inside = (index >= 0) & (index <= self.size - width)
        if inside.all():
            return index, active
        active = inside if active is None else active & inside
        return np.where(active, index, 0), active

    def _report_texel(
        self,
        machine: LaneMachine,
        node: UOp,
        name: str,
        index: Array,
        count: int,
        outside: Array,
    ) -> None:
        position, who = machine.first_of(outside, index)
        message = f"{node.op.name} of {name} {position} of {self.name}, which has {count}"
        raise SanitizerError(Fault.BOUNDS, node_text(node), message, self.name, position, who)

    def _checked_elements(
        self, machine: LaneMachine, node: UOp, index: Array, active: Array | None, width: int
    ) -> Array:
        """Check a load; return its elements in `array`."""
        if not machine.sanitize:
            index = self._clipped(index, width)
        elif not self._is_inside(index, width):
            self._report_outside(machine, node, index, active, width)
        if self.is_local:
            index = index + self._segment(machine) * self.size
        if width > 1:
            index = index[..., None] + np.arange(width)
        if self.shadow is not None or self.is_set is not None:
            self._note_read(machine, node, index, active, width)
        return index

    def _is_inside(self, index: Array, width: int) -> bool:
        # As unsigned integers negative numbers are the largest, so one comparison checks both ends.
        unsigned = index.view(f"u{index.dtype.itemsize}")
        if unsigned.ndim == 0:
            highest = int(unsigned)
        elif unsigned.size == 0:
            return True
        else:
            highest = int(np.maximum.reduce(unsigned, axis=None))
        if highest > self.size - width:
            return False
        return width == 1 or not (index % width).any()

    def _report_outside(
        self, machine: LaneMachine, node: UOp, index: Array, active: Array | None, width: int
    ) -> None:
        outside = (index < 0) | (index > self.size - width)
        kind = Fault.BOUNDS
        if not outside.any():
            outside = index % width != 0
            kind = Fault.ALIGNMENT
        if active is not None:
            outside = outside & active
            if not outside.any():
                # Disabled lanes point at element 0, which need not exist.
                return
        position, who = machine.first_of(outside, index)
        reach = (
            f"element {position}"
            if width == 1
            else f"elements {position} to {position + width - 1}"
        )
        message = f"{node.op.name} of {reach} of {self.name}, which has {self.size} elements"
        raise SanitizerError(kind, node_text(node), message, self.name, position, who)

    def _note_read(
        self, machine: LaneMachine, node: UOp, flat: Array, active: Array | None, width: int
    ) -> None:
        """Check a read of the elements `flat` (with a last axis for vectors) of `array`."""
        items, epoch, elements = self._lanes_of(machine, flat, active, width)
        if self.is_set is not None:
            unset = ~self.is_set[elements]
            if unset.any():
                if self.copy is not None:
                    # An earlier iteration may have written it.
                    raise OrderMattersError
                first = int(np.flatnonzero(unset)[0])
                position = int(elements[first]) % max(self.size, 1)
                message = f"element {position} of {self.name} was never written"
                who = machine.name_item(int(items[first]))
                raise SanitizerError(
                    Fault.UNINITIALISED, node_text(node), message, self.name, position, who
                )
        if self.shadow is not None:
            report = self._race_report(machine, node, elements, items)
            self.shadow.read(elements, items, epoch, report)

    def _lanes_of(
        self, machine: LaneMachine, flat: Array, active: Array | None, width: int
    ) -> tuple[Array, Array | int, Array]:
        """Return work-item, epoch and element of every single access, as flat arrays."""
        lanes = flat.shape if width == 1 else flat.shape[:-1]
        shape = common_shape(machine.lanes, lanes)
        items = broadcast_to(machine.items, shape)
        chosen = None if active is None else broadcast_to(active, shape)
        epoch: Array | int
        if self.copy is None:
            epoch = machine.epoch_of(chosen, shape)
        else:
            epoch = machine.boundaries.get(self.depth, 0)
        elements = broadcast_to(flat, shape if width == 1 else (*shape, width))
        if chosen is None:
            items = items.reshape(-1)
            elements = elements.reshape(-1)
        else:
            items = items[chosen]
            elements = elements[chosen].reshape(-1)
        if width > 1:
            items = np.repeat(items, width)
            epoch = epoch if isinstance(epoch, int) else np.repeat(epoch, width)
        return items, epoch, elements

    def _race_report(
        self, machine: LaneMachine, node: UOp, elements: Array, items: Array
    ) -> Callable[[npt.NDArray[np.bool_], npt.NDArray[np.int64]], None]:
        def report(conflict: npt.NDArray[np.bool_], others: npt.NDArray[np.int64]) -> None:
            if machine.may_widen:
                raise OrderMattersError
            self._report_race(machine, node, elements, items, conflict, others)

        return report

    def _report_race(
        self,
        machine: LaneMachine,
        node: UOp,
        elements: Array,
        items: Array,
        conflict: npt.NDArray[np.bool_],
        others: npt.NDArray[np.int64],
    ) -> None:
        first = int(np.flatnonzero(conflict)[0])
        position = int(elements[first]) % max(self.size, 1)
        other = int(others[first])
        met = machine.name_item(other) if other > 0 else "several work-items"
        verb = "reads" if node.op.name == "LOAD" else "writes"
        message = f"{verb} element {position} of {self.name}, which {met} touches unordered,"
        who = machine.name_item(int(items[first]))
        raise SanitizerError(Fault.RACE, node_text(node), message, self.name, position, who)

    def store(
        self,
        machine: LaneMachine,
        node: UOp,
        position: Array | Texels,
        value: Array,
        gate: Array | None,
        width: int,
        bits: Array | None = None,
    ) -> None:
        """Write `value` at `position` in the lanes that neither gate nor mask disables.

        bits: the bits to write, if not all; lanes may share a word.
        """
        index = self._elements(machine, node, position, gate)
        if machine.hooks.store is not None:
            changed = machine.hooks.store(Access(node, self.name, self.size, index, gate, value))
            if changed is None:
                return
            index, value, gate = changed.index, changed.value, changed.gate
        active = machine.active(gate)
        if active is not None:
            if not active.any():
                return
            index = np.where(active, index, 0)
        if not machine.sanitize:
            index, active = self._inside_alone(index, active, width)
        elif not self._is_inside(index, width):
            self._report_outside(machine, node, index, active, width)
        if self.is_local:
            index = index + self._segment(machine) * self.size
        if width > 1:
            index = index[..., None] + np.arange(width)
        self._write(machine, node, index, value, active, width, bits)

    def _write(
        self,
        machine: LaneMachine,
        node: UOp,
        flat: Array,
        value: Array,
        active: Array | None,
        width: int,
        bits: Array | None,
    ) -> None:
        if self.shadow is not None:
            items, epoch, elements = self._lanes_of(machine, flat, active, width)
            self.shadow.write(
                elements, items, epoch, self._race_report(machine, node, elements, items)
            )
        shape = common_shape(flat.shape, np.shape(value))
        if bits is not None:
            shape = common_shape(shape, np.shape(bits))
        if active is not None:
            chosen = active if width == 1 else active[..., None]
            shape = common_shape(shape, chosen.shape)
            chosen = broadcast_to(chosen, shape)
            flat = broadcast_to(flat, shape)[chosen]
            value = broadcast_to(np.asarray(value), shape)[chosen]
            bits = None if bits is None else broadcast_to(np.asarray(bits), shape)[chosen]
        else:
            flat = broadcast_to(flat, shape)
        if bits is None:
            self.array[flat] = value
        else:
            np.bitwise_and.at(self.array, flat, ~bits)
            np.bitwise_or.at(self.array, flat, value & bits)
        if self.is_set is not None:
            self.is_set[flat] = True
