"""The memory accesses of a kernel, element by element, and the vectors that cover them.

An access has one element for each lane of each of its copies. Elements at neighbouring positions of
one memory, under one gate, can form a vector. Its first position must be a known multiple of its
lanes. The kernel must need every lane: a vector touches nothing that the kernel does not touch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tinyref.capabilities import Capabilities
from tinyref.codegen.expand.lane_ranges import (
    Dependence,
    Numbering,
    Positions,
    divisor_of,
    is_index_arithmetic,
)
from tinyref.dtype import TEXEL, ImageDType
from tinyref.uops import build
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg

# The largest size in bytes of a vector of neighbours that are not lanes of one vector yet: the
# widest access that most devices have.
MAX_BYTES = 16


@dataclass(frozen=True, slots=True)
class Site:
    """The properties that the elements of one vector share.

    memory: the original buffer.
    waits: the AFTERs between it and the access, innermost first.
    base: the position without its constant.
    gate: None for a gate that is always open.
    owner: distinguishes accesses that must not be joined.
    """

    memory: UOp
    waits: tuple[UOp, ...]
    base: UOp
    gate: UOp | None
    alternative: ConstArg | None
    owner: tuple[UOp, int] | None


@dataclass(slots=True, eq=False)
class AccessRun:
    """The elements at one site, as distances from its base, and the vectors that cover them.

    most: the widest vector.
    windows: the first distance and the lanes of the vector for each distance.
    """

    site: Site
    most: int = 1
    distances: set[int] = field(default_factory=set)
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)

    def cover(self, divisor: int, widths: Collection[int]) -> None:
        """Choose the windows: wide ones first. `divisor` divides the base of the site."""
        left = set(self.distances)
        for width in sorted(widths, reverse=True):
            if width > self.most or divisor % width:
                continue
            for start in sorted(left):
                lanes = range(start, start + width)
                if start % width == 0 and left.issuperset(lanes):
                    left.difference_update(lanes)
                    self.windows.update(dict.fromkeys(lanes, (start, width)))


# The run of an element and its distance from the base; None if the gate is never open.
Cell = tuple[AccessRun, int] | None


@dataclass(frozen=True, slots=True)
class AccessRow:
    """The elements of one copy of an access, a cell for each lane."""

    cells: Sequence[Cell]

    @property
    def is_window(self) -> bool:
        """Return True if the lanes are exactly the lanes of one vector in memory, in order."""
        first = self.cells[0]
        if first is None:
            return False
        run, distance = first
        if run.windows[distance] != (distance, len(self.cells)):
            return False
        return all(cell == (run, distance + lane) for lane, cell in enumerate(self.cells))


class Accesses:
    """The elements of the LOADs and STOREs whose positions and gates are known lane by lane.

    These positions and gates are index arithmetic. A gate that is equal in all lanes may be any
    value.
    """

    def __init__(
        self,
        order: Iterable[UOp],
        dependence: Dependence,
        numbering: Numbering,
        positions: Positions,
        capabilities: Capabilities,
    ) -> None:
        self.dependence = dependence
        self.numbering = numbering
        self.positions = positions
        self.has_grid = capabilities.has_grid
        # The elements of each access, copy by copy.
        self.rows: dict[UOp, list[AccessRow]] = {}
        self.runs: dict[Site, AccessRun] = {}
        accesses = [node for node in order if node.op in (Ops.LOAD, Ops.STORE)]
        self.written = {memory_of(node.src[0]) for node in accesses if node.op is Ops.STORE}
        for access in accesses:
            if self._is_regular(access):
                self.rows[access] = self._rows(access)
        for site, run in self.runs.items():
            run.cover(divisor_of(site.base), {1, *capabilities.vector_lanes})

    def _is_regular(self, access: UOp) -> bool:
        """Return True if position and gate are known by lane, and the alternative is constant."""
        position = skip_after(access.src[0]).src[1]
        if not is_index_arithmetic(position) and self.positions.stepped(position) is None:
            return False
        if len(access.src) < 3:
            return True
        gate = access.src[2]
        is_constant = access.op is Ops.STORE or isinstance(access.src[1].arg, ConstArg)
        return is_constant and (is_index_arithmetic(gate) or not self.dependence.masks[gate])

    def _rows(self, access: UOp) -> list[AccessRow]:
        memory = memory_of(access.src[0])
        waits = tuple(_waits(access.src[0]))
        # Reads of memory that the kernel writes move only if their order is known.
        moves = access.op is Ops.LOAD and (memory not in self.written or bool(waits))
        mask = self.dependence.masks[access]
        # An image is accessed only by whole texels.
        is_image = isinstance(access.src[0].dtype, ImageDType)
        most = TEXEL if is_image else self._widest(access, self.numbering.lanes(mask))
        rows: list[AccessRow] = []
        for copy in range(self.numbering.count(mask)):
            owner = None if moves else (access, 0 if access.op is Ops.STORE else copy)
            runs: dict[tuple[UOp, UOp | None], AccessRun] = {}
            cells: list[Cell] = []
            for base, distance, gate in self._elements(access, copy):
                if is_false(gate):
                    cells.append(None)
                    continue
                run = runs.get((base, gate))
                if run is None:
                    known = None if gate is None else _alternative(access)
                    site = Site(memory, waits, base, gate, known, owner)
                    run = runs[base, gate] = self.runs.setdefault(site, AccessRun(site))
                    run.most = max(run.most, most)
                run.distances.add(distance)
                cells.append((run, distance))
            rows.append(AccessRow(cells))
        return rows

    def _elements(self, access: UOp, copy: int) -> Iterator[tuple[UOp, int, UOp | None]]:
        """Yield base, distance and gate of every lane of a copy."""
        position = skip_after(access.src[0]).src[1]
        lanes = self.numbering.lanes(self.dependence.masks[access])
        of_position = self.source_copy(access, position, copy)
        parts = self.positions.split_lanes(position, of_position, lanes)
        gates = self._gates(access, copy, lanes)
        for (base, distance), gate in zip(parts, gates, strict=True):
            yield base, distance, gate

    def _gates(self, access: UOp, copy: int, lanes: int) -> Sequence[UOp | None]:
        if len(access.src) < 3:
            return [None] * lanes
        return [self.gate(access, copy, lane) for lane in range(lanes)]

    def source_copy(self, node: UOp, source: UOp, copy: int) -> int:
        """Return the copy of `source` that belongs to a copy of `node`."""
        masks = self.dependence.masks
        return self.numbering.projection(masks[node], masks[source])[copy]

    def gate(self, access: UOp, copy: int, lane: int) -> UOp | None:
        """Return the gate of one element of a gated access: None if it is always open."""
        gate = access.src[2]
        result = self.positions.at(gate, self.source_copy(access, gate, copy), lane)
        return None if isinstance(result.arg, ConstArg) and result.arg.value else result

    def _widest(self, access: UOp, lanes: int) -> int:
        """Return the widest vector for elements of an access; any width is correct."""
        position = self.positions.stepped(skip_after(access.src[0]).src[1])
        if lanes > 1 and position is not None:
            for lane_range, step in position.steps.items():
                if step == 1 and self.numbering.width(lane_range) == lanes:
                    return lanes
        if access.op is Ops.LOAD and lanes == 1 and not self.has_grid:
            # A host processor repeats a scalar from memory into all lanes of a vector faster than a
            # lane of another vector.
            return 1
        return MAX_BYTES // build.element_type(access.src[0]).itemsize


def is_false(gate: UOp | None) -> bool:
    """Return True if a gate is never open."""
    return gate is not None and isinstance(gate.arg, ConstArg) and not gate.arg.value


def _alternative(access: UOp) -> ConstArg | None:
    """Return the value of a LOAD with a closed gate; a STORE shares its sites with no other."""
    argument = access.src[1].arg
    return argument if isinstance(argument, ConstArg) else None


def _waits(address: UOp) -> Iterator[UOp]:
    """Yield the AFTERs of an address and of its memory, outermost first."""
    while address.op in (Ops.AFTER, Ops.INDEX):
        if address.op is Ops.AFTER:
            yield address
        address = address.src[0]


def memory_of(address: UOp) -> UOp:
    """Return the definition of the memory that an address points to."""
    while address.op in (Ops.AFTER, Ops.INDEX):
        address = address.src[0]
    return address
