"""Graphs that bind one variable to several values: what to compute by itself, and first.

The kernels of one schedule share the values of their variables. So a graph that binds a variable to
5 on top of what was made with 4, such as a cache that is written to at one place after the other,
is computed in turns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from tinyref.errors import UserError
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.uops.node import UOp, sint, toposort
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
    """What `node` and the sizes in its payload bind."""
    return frozenset(filter(None, map(_binding, (node, *toposort(_symbolic_sizes(node))))))


def _symbolic_sizes(node: UOp) -> list[UOp]:
    """The sizes in the payload of a node of a tensor graph that are no numbers."""
    sizes: Iterable[sint] = ()
    match node.arg:
        case ShapeArg(shape):
            sizes = shape
        case BoundsArg(bounds):
            sizes = itertools.chain.from_iterable(bounds)
    return [size for size in sizes if isinstance(size, UOp)]


def _binding(node: UOp) -> tuple[str, int] | None:
    """The variable and the value of a BIND; None of any other node."""
    match [source.arg for source in node.src]:
        case [VarArg(name=name), ConstArg(value=value)] if node.op is Ops.BIND:
            return name, int(value)
    return None


def bound_values(roots: Iterable[UOp]) -> dict[str, int]:
    """The value of each variable that the graphs of `roots`, not yet prepared, bind.

    Raises `ConflictError` where two of them bind one variable to different values.
    """
    nodes = toposort(roots)
    sizes = dict.fromkeys(itertools.chain.from_iterable(map(_symbolic_sizes, nodes)))
    values: dict[str, int] = {}
    for name, value in filter(None, map(_binding, (*nodes, *toposort(sizes)))):
        if values.setdefault(name, value) != value:
            raise ConflictError(name, (values[name], value))
    return values
