"""Who may see which contents of a buffer that is assigned to.

An ASSIGN gives its buffer a new version. What reads an older one must run before the ASSIGN, unless
the ASSIGN is among its own sources and so has run long before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tinyref.errors import UserError
from tinyref.lazy.buffers import assigned_buffer, shown_buffer
from tinyref.lazy.graph import backing
from tinyref.schedule.prepare import peel
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops


class CycleError(UserError):
    """No order of kernels computes the graphs: what is assigned is read before and after."""


def parts_to_read_first(roots: Sequence[UOp]) -> list[UOp]:
    """The largest parts of `roots` that read memory before it is assigned to, and that are used
    with what reads it afterwards: computed by themselves, and first, they are in no kernel's way.

    None that only shows such memory; none of what is assigned.
    """
    versions = Versions(roots)
    # Of each node the newest version of each buffer that it reads, the old contents being 0.
    read: dict[UOp, dict[UOp, int]] = {}
    found: dict[UOp, None] = {}
    for node in toposort(roots):
        if node.op is Ops.ASSIGN:
            read[node] = {assigned_buffer(node): versions.number(node) + 1}
            continue
        newest = {node: 0} if node in versions.assigns else {}
        for source in node.src:
            for buffer, number in read.get(source, {}).items():
                newest[buffer] = max(number, newest.get(buffer, 0))
        if newest:
            read[node] = newest
        is_after = any(newest.values())
        parts = (
            source
            for source in node.src
            if is_after and source in read and not _shows_memory(source)
        )
        found.update(
            (part, None)
            for part in parts
            if not any(read[part].values()) or any(n < newest[b] for b, n in read[part].items())
        )
    return list(found)


def _shows_memory(node: UOp) -> bool:
    return node.op is Ops.BUFFER or shown_buffer(node) is not None


class Versions:
    """The ASSIGNs below `roots`, by the BUFFER that they write, sources first."""

    def __init__(self, roots: Iterable[UOp]) -> None:
        self.assigns: dict[UOp, list[UOp]] = {}
        self._numbers: dict[UOp, int] = {}
        for node in toposort(roots):
            if node.op is Ops.ASSIGN:
                found = self.assigns.setdefault(assigned_buffer(node), [])
                self._numbers[node] = len(found)
                found.append(node)

    def __contains__(self, assign: UOp) -> bool:
        return assign in self._numbers

    def number(self, assign: UOp) -> int:
        """How many ASSIGNs wrote its buffer before this one."""
        return self._numbers[assign]

    def next(self, buffer: UOp, version: UOp | None) -> UOp | None:
        """The first ASSIGN that replaces what `version` of `buffer` holds; None if none does.

        Assigns to one buffer run in the order of the graph, so any others follow that one.
        """
        found = self.assigns.get(buffer, [])
        number = 0 if version is None else self._numbers[version] + 1
        return found[number] if number < len(found) else None

    def remove(self, assign: UOp) -> None:
        """Forgets an ASSIGN that need not run: the next one overwrites what nobody reads."""
        found = self.assigns[assigned_buffer(assign)]
        found.remove(assign)
        del self._numbers[assign]
        self._numbers.update((later, number) for number, later in enumerate(found))

    def outlives(self, node: UOp) -> bool:
        """Whether the memory that `node` is a plain view of will be overwritten."""
        base = peel(node)
        if base.op is Ops.ASSIGN:
            return self.next(assigned_buffer(base), base) is not None
        buffer = backing(node)
        return buffer is not None and self.next(buffer, None) is not None

    def reading_old(self, roots: Iterable[UOp]) -> set[UOp]:
        """The nodes of graphs, perhaps of other tensors, that need what will be overwritten."""
        old: set[UOp] = set()
        for node in toposort(roots, self._looked_at):
            if self._is_old(node) or not old.isdisjoint(self._looked_at(node)):
                old.add(node)
        return old

    def _looked_at(self, node: UOp) -> tuple[UOp, ...]:
        # What an ASSIGN that runs here needs is there when it runs.
        return () if node in self else node.src

    def _is_old(self, node: UOp) -> bool:
        if node in self:
            return self.next(assigned_buffer(node), node) is not None
        return node.op is Ops.BUFFER and node in self.assigns


def needing_old_contents(
    roots: Sequence[UOp], live: Mapping[UOp, UOp]
) -> tuple[list[UOp], Versions]:
    """The keys of `live` that must be computed together with `roots`, and the versions of all.

    `live` maps each graph as its owner knows it to the same graph prepared. Computing one may run
    further ASSIGNs, so this goes on until nothing is added.
    """
    added: list[UOp] = []
    everything = dict.fromkeys(roots)
    while True:
        versions = Versions(everything)
        old = versions.reading_old(live.values())
        more = [
            owner
            for owner, prepared in live.items()
            if prepared in old and prepared not in everything
        ]
        if not more:
            return added, versions
        added.extend(more)
        everything.update(dict.fromkeys(live[owner] for owner in more))
