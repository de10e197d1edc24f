"""Who may see which contents of a buffer that is assigned to.

An ASSIGN gives its buffer a new version. What reads an older one must run before the ASSIGN, unless
the ASSIGN is among its own sources and so has run long before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tinyref.lazy.graph import backing
from tinyref.schedule.prepare import peel
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops


def assigned_buffer(node: UOp) -> UOp:
    """The BUFFER that an ASSIGN writes."""
    while node.op is not Ops.BUFFER:
        node = node.src[0]
    return node


class Versions:
    """The ASSIGNs below `roots`, by the BUFFER that they write, sources first."""

    def __init__(self, roots: Iterable[UOp]) -> None:
        self.assigns: dict[UOp, list[UOp]] = {}
        self._all: set[UOp] = set()
        for node in toposort(roots):
            if node.op is Ops.ASSIGN:
                self._all.add(node)
                self.assigns.setdefault(assigned_buffer(node), []).append(node)

    def __contains__(self, assign: UOp) -> bool:
        return assign in self._all

    def overwriting(self, buffer: UOp, version: UOp | None) -> list[UOp]:
        """The ASSIGNs that replace what `version` of `buffer` holds.

        Assigns to one buffer run in the order of the graph, so those are the ones that follow.
        """
        found = self.assigns.get(buffer, [])
        return found if version is None else found[found.index(version) + 1 :]

    def outlives(self, node: UOp) -> bool:
        """Whether the memory that `node` is a plain view of will be overwritten."""
        base = peel(node)
        if base.op is Ops.ASSIGN:
            return bool(self.overwriting(assigned_buffer(base), base))
        buffer = backing(node)
        return buffer is not None and bool(self.overwriting(buffer, None))

    def reads_old(self, root: UOp) -> bool:
        """Whether a graph, perhaps of another tensor, needs contents that will be overwritten."""
        seen = {root}
        stack = [root]
        while stack:
            node = stack.pop()
            if node.op is Ops.BUFFER and node in self.assigns:
                return True
            if node in self:
                if self.overwriting(assigned_buffer(node), node):
                    return True
                continue
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return False


def needing_old_contents(
    roots: Sequence[UOp], live: Mapping[UOp, UOp]
) -> tuple[list[UOp], Versions]:
    """The keys of `live` that must be computed together with `roots`, and the versions of all.

    `live` maps each graph as its owner knows it to the same graph prepared. Computing one may run
    further ASSIGNs, so this goes on until nothing is added.
    """
    added: list[UOp] = []
    everything = list(roots)
    while True:
        versions = Versions(everything)
        if not versions.assigns:
            return added, versions
        more = [
            owner
            for owner, prepared in live.items()
            if owner not in added and prepared not in everything and versions.reads_old(prepared)
        ]
        if not more:
            return added, versions
        added.extend(more)
        everything.extend(live[owner] for owner in more)
