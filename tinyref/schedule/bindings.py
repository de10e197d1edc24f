"""Graphs that bind one variable to several values: what to compute by itself, and first.

The kernels of one schedule share the values of their variables. So a graph that binds a variable to
5 on top of what was made with 4, such as a cache that is written to at one place after the other,
is computed in turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.errors import UserError
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BoundsArg, ConstArg, ShapeArg, VarArg

Bindings = frozenset[tuple[str, int]]


class ConflictError(UserError):
    """A variable is bound to two values; `apart` are live graphs that need other ones.

    Without any the outputs themselves bind it to both, see `made_with_one_value`.
    """

    def __init__(self, name: str, values: tuple[int, int], apart: Sequence[UOp] = ()) -> None:
        self.name = name
        self.values = values
        self.apart = tuple(apart)
        super().__init__(
            f"variable {name}: bound to {values[0]} and to {values[1]} in one graph: accepted is "
            f"one value, or sizes that do not depend on it where the two meet"
        )


def made_with_one_value(roots: Sequence[UOp]) -> list[UOp]:
    """Nodes below `roots` to compute first: the deepest that bind each variable once, and all that
    bind as it does. Their sizes are fixed; none where only nodes of varying sizes are left.
    """
    bound: dict[UOp, Bindings] = {}
    depth: dict[UOp, int] = {}
    frontier: dict[UOp, None] = {}
    for node in toposort(roots):
        below = [bound[source] for source in node.src]
        bound[node] = _own_bindings(node).union(*below)
        depth[node] = 1 + max((depth[source] for source in node.src), default=0)
        if not _is_consistent(bound[node]):
            frontier.update((source, None) for source in node.src if _can_be_first(source, bound))
    if not frontier:
        return []
    deepest = max(frontier, key=depth.__getitem__)
    return [node for node in frontier if bound[node] == bound[deepest]]


def _can_be_first(node: UOp, bound: Mapping[UOp, Bindings]) -> bool:
    if not bound[node] or not _is_consistent(bound[node]) or node.op in (Ops.BIND, Ops.MULTI):
        return False
    shape = shape_of(node)
    return all(isinstance(size, int) for size in shape) and not is_empty(shape)


def _is_consistent(bindings: Bindings) -> bool:
    return len({name for name, _ in bindings}) == len(bindings)


def _own_bindings(node: UOp) -> Bindings:
    """What the sizes of `node` bind."""
    sizes: list[object] = [node]
    if isinstance(node.arg, ShapeArg):
        sizes = list(node.arg.shape)
    elif isinstance(node.arg, BoundsArg):
        sizes = [size for pair in node.arg.bounds for size in pair]
    found = set()
    for part in toposort(size for size in sizes if isinstance(size, UOp) and size is not node):
        found.update(_binding(part))
    return frozenset(found | _binding(node))


def _binding(node: UOp) -> set[tuple[str, int]]:
    if node.op is not Ops.BIND:
        return set()
    variable, value = (source.arg for source in node.src)
    if isinstance(variable, VarArg) and isinstance(value, ConstArg):
        return {(variable.name, int(value.value))}
    return set()
