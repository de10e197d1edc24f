"""The reach of a run: the largest group, loop, copy and so on that a device was asked for.

A report compares it with what the device declares: a fault may begin above what was tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program, shared_bytes

# Followed by the name of a dtype that a kernel with a barrier loads.
BARRIER_TYPE = "barrier type "


@dataclass(frozen=True)
class Extent:
    """A size of programs or copies.

    name: the key in the evidence of a row. title: the words of a report. unit: of the number.
    limit: the field of `Capabilities` that declares the most; empty if nothing declares it.
    needs: the field without which a device has no such size; empty if every device has it.
    """

    name: str
    title: str
    unit: str
    limit: str = ""
    needs: str = ""

    def declared(self, capabilities: Mapping[str, Any]) -> int | None:
        """Return what a device declares by its capabilities as JSON, None if it declares none."""
        value = capabilities.get(self.limit)
        if isinstance(value, list):
            # The dimensions of a grid, or the counts of lanes.
            return int(max(value))
        return None if value is None else int(value)


EXTENTS = (
    Extent("group", "largest group", "work-items", "group_size_limit", "has_groups"),
    Extent(
        "barrier group",
        "largest group with a barrier",
        "work-items",
        "group_size_limit",
        "has_groups",
    ),
    Extent("groups", "most groups along one dimension", "groups", "grid_limit", "has_grid"),
    Extent("shared", "most shared memory", "bytes", "shared_bytes"),
    Extent("lanes", "widest vector", "lanes", "vector_lanes"),
    Extent("buffers", "most buffers of a kernel", "buffers", "buffer_limit"),
    Extent("loop", "longest loop", "iterations"),
    Extent("nest", "most iterations of nested loops", "iterations"),
    Extent("buffer", "largest buffer of a kernel", "bytes"),
    Extent("copy", "largest copy", "bytes"),
)


def extents_of(program: Program) -> dict[str, int]:
    """Return the sizes of a program by the names in `EXTENTS`, and its types at barriers."""
    group = math.prod(program.group)
    sizes = {"group": group, "buffers": len(program.parameters)}
    sizes["groups"] = max(extent for extent in (*program.grid, 1) if isinstance(extent, int))
    bytes_of = (item.size * item.dtype.itemsize for item in program.parameters)
    sizes["buffer"] = max(bytes_of, default=0)
    sizes["lanes"] = max(node.dtype.lanes for node in program.uops)
    loops = list(_loops(program.uops))
    sizes["loop"] = max((nest[-1] for nest in loops), default=0)
    sizes["nest"] = max(map(math.prod, loops), default=0)
    sizes["shared"] = shared_bytes(program)
    if any(node.op is Ops.BARRIER for node in program.uops):
        sizes["barrier group"] = group
        sizes |= {f"{BARRIER_TYPE}{item.dtype.scalar.name}": 1 for item in program.parameters}
    return sizes


def widen(reach: dict[str, int], sizes: Mapping[str, int]) -> None:
    """Raise the sizes in `reach` to those that are larger."""
    for name, size in sizes.items():
        reach[name] = max(size, reach.get(name, 0))


def _loops(nodes: Sequence[UOp]) -> Iterator[tuple[int, ...]]:
    """Yield the iterations of each loop after those around it; 1 if not constant."""
    open_extents: list[int] = []
    for node in nodes:
        if node.op is Ops.RANGE:
            bound = node.src[0].arg
            open_extents.append(int(bound.value) if isinstance(bound, ConstArg) else 1)
            yield tuple(open_extents)
        elif node.op is Ops.END:
            open_extents.pop()
