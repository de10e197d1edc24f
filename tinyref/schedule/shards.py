"""Outputs that lie on several devices, taken apart before scheduling and put together after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping

from tinyref.lazy.folding import uniform_value
from tinyref.lazy.multi import bound
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.lazy.shards import Place, layout_of, on_place
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

Placed = tuple[UOp, Place]


class Shards:
    """The outputs that are MULTIs, and the parts that are computed for each."""

    def __init__(self) -> None:
        self._parts: dict[UOp, tuple[UOp, ...]] = {}

    def outputs(self, outputs: Iterable[Placed]) -> list[tuple[UOp, str]]:
        """What is computed on each device; a part that could be on any gets memory on its own."""
        apart: list[tuple[UOp, str]] = []
        for node, place in outputs:
            whole = on_place(node, place)
            if whole.op is not Ops.MULTI:
                assert isinstance(place, str), "what lies on several devices is a MULTI"
                apart.append((node, place))
                continue
            devices = layout_of(whole).devices
            pairs = zip(whole.src, devices, strict=True)
            parts = [part if _is_constant(part) else bound(part, name) for part, name in pairs]
            self._parts[node] = tuple(parts)
            apart.extend(zip(parts, devices, strict=True))
        return apart

    def live(self, graphs: Iterable[Placed]) -> Iterator[tuple[UOp, str]]:
        """What may be computed later on each device."""
        for node, place in graphs:
            if isinstance(place, str):
                yield node, place
                continue
            whole = on_place(node, place)
            self._parts.setdefault(node, whole.src)
            yield from zip(whole.src, place, strict=True)

    def add_results(self, results: MutableMapping[UOp, UOp]) -> None:
        """Says of each MULTI whose parts are all there where it is."""
        for node, parts in self._parts.items():
            found = [part if _is_constant(part) else results.get(part) for part in parts]
            there = tuple(part for part in found if part is not None)
            if node.op is Ops.MULTI and len(there) == len(parts):
                results[node] = node.replace(src=there)


def _is_constant(part: UOp) -> bool:
    return is_empty(shape_of(part)) or uniform_value(part) is not None
