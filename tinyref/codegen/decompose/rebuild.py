"""One pass over a graph, sources first."""

from __future__ import annotations

from collections.abc import Callable

from tinyref.uops.node import UOp

# The node as it was and its new sources; None keeps the node (with the new sources).
Transform = Callable[[UOp, tuple[UOp, ...]], UOp | None]


def rebuild(root: UOp, transform: Transform) -> UOp:
    """`root` with every node replaced by what `transform` makes of it; needs no recursion.

    What `transform` returns is not looked into again.
    """
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        src = tuple(done[source] for source in node.src)
        replaced = transform(node, src)
        if replaced is None:
            replaced = node if src == node.src else node.replace(src=src)
        done[node] = replaced
    return done[root]
