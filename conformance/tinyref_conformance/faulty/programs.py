"""Edits of programs: what stands for each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyref.uops.node import UOp
from tinyref.uops.program import Program

# Returns the nodes that stand for a node whose sources are edited: the last one has its value,
# and none of them means that the node goes.
Change = Callable[[UOp], tuple[UOp, ...]]


def rewritten(program: Program, change: Change) -> Program:
    """Return the program with every node changed, in the same order; equal new nodes are one."""
    known: dict[UOp, UOp] = {}
    nodes: dict[UOp, None] = {}
    uops: list[UOp] = []
    for node in program.uops:
        edited = change(node.with_sources(tuple(known[source] for source in node.src)))
        known[node] = edited[-1] if edited else node
        uops += [new for new in edited if new is node or new not in nodes]
        nodes |= dict.fromkeys(edited)
    return replace(program, uops=tuple(uops))


def each_node(change: Change) -> Callable[[Program], Change]:
    """Return the edit that changes every node alike, whatever the program."""
    return lambda program: change
