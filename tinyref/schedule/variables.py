"""Symbolic variables of one schedule: their bound values, and their ranges.

A slice `x[:n]` of 8 elements is possible for n up to 8. So its kernels have a variable n with this
range, and no access is out of bounds. In `x[v:w]`, max(v, w) or min(v, w) replaces one of the two.
If neither narrows a variable enough, the kernels are compiled for its current value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tinyref.algebra.sizes import Constraint, constraints_of, current_value, limits
from tinyref.algebra.symbolic import (
    Extent,
    Polynomial,
    as_node,
    describe,
    largest,
    lift,
    lower,
    lowest,
    normalise,
    smallest,
)
from tinyref.errors import UserError
from tinyref.lazy.shape import is_empty, shape_of
from tinyref.uops.build import variable
from tinyref.uops.node import UOp, sint, substitute, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BoundsArg, ConstArg, ShapeArg, VarArg

_MAX_ROUNDS = 8


class Variables:
    """The replacements of bound variables in the kernels of a schedule.

    constraints: the conditions of the graphs on the values.
    fixed: the conditions that some variables have their current values.
    """

    def __init__(self) -> None:
        self.constraints: dict[Constraint, None] = {}
        self.fixed: dict[Constraint, None] = {}
        self._ranges: dict[UOp, tuple[int, int]] = {}
        self._sizes: dict[UOp, UOp] = {}

    def add(self, nodes: Iterable[UOp]) -> bool:
        """Add the constraints of the nodes of a graph; return True if there is a new one."""
        constraints: dict[Constraint, None] = {}
        for node in nodes:
            constraints.update(dict.fromkeys(constraints_of(node)))
        if constraints.keys() <= self.constraints.keys():
            return False
        self.constraints.update(constraints)
        self._ranges, self._sizes, self.fixed = {}, {}, {}
        for _ in range(_MAX_ROUNDS):
            changes = [self._narrow_range(constraint) for constraint in self._open()]
            if not any(changes):
                break
        for _ in range(_MAX_ROUNDS):
            still_open = self._open()
            if not still_open or not self._narrow_size(still_open[0]):
                break
        for constraint in self._open():
            self._keep_values(constraint)
        return True

    def asked_by(self, roots: Iterable[UOp]) -> tuple[Constraint, ...]:
        """Return the constraints of the graphs of `roots`, added before, and of the kernels."""
        if not self.constraints:
            return ()
        constraints = (constraints_of(node) for node in toposort(roots))
        return (*dict.fromkeys(itertools.chain.from_iterable(constraints)), *self.fixed)

    def number(self, bound: UOp) -> UOp:
        """Return the replacement of a bound variable in arithmetic."""
        source = bound.src[0]
        if bound not in self._ranges or not isinstance(source.arg, VarArg):
            return source
        return variable(source.arg.name, *self._ranges[bound])

    def size(self, value: sint) -> sint:
        """Return a size with its bound variables replaced."""
        if isinstance(value, int):
            return value
        bound = {
            part: self._sizes[part] if part in self._sizes else self.number(part)
            for part in value.toposort()
            if part.op is Ops.BIND
        }
        return normalise(substitute(value, bound)) if bound else value

    def _open(self) -> list[Constraint]:
        """Return the constraints that the replacements do not satisfy for all values."""
        on_ranges = (constraint for constraint in self.constraints if constraint.is_of_range)
        return [one for one in on_ranges if lowest(lift(self.size(lower(one.margin)))) < 0]

    def _narrow_range(self, constraint: Constraint) -> bool:
        """Narrow the range of the variable in a constraint on a single one."""
        margin = constraint.margin
        assert isinstance(margin, Polynomial), "what holds for all values is no constraint"
        changed = False
        for bound, factor, rest in _linear(margin):
            if not isinstance(rest, int) or not isinstance(bound.src[0].arg, VarArg):
                continue
            argument = bound.src[0].arg
            before = self._ranges.get(bound, (argument.minimum, argument.maximum))
            low, high = limits(factor, rest)
            after = (
                before[0] if low is None else max(before[0], low),
                before[1] if high is None else min(before[1], high),
            )
            self._ranges[bound] = after
            changed |= after != before
        return changed

    def _narrow_size(self, constraint: Constraint) -> bool:
        """Replace one of several variables by a maximum or minimum with the others."""
        margin = constraint.margin
        assert isinstance(margin, Polynomial), "what holds for all values is no constraint"
        least = len(self._open())
        best: tuple[UOp, UOp] | None = None
        for bound, factor, rest in _linear(margin):
            if bound in self._sizes or abs(factor) != 1:
                continue
            others, own = lift(self.size(lower(rest))), lift(self.number(bound))
            end = largest(own, -others) if factor == 1 else smallest(own, others)
            self._sizes[bound] = as_node(lower(end))
            left = len(self._open())
            if left < least:
                least, best = left, (bound, self._sizes[bound])
            del self._sizes[bound]
        if best is not None:
            self._sizes[best[0]] = best[1]
        return best is not None

    def _keep_values(self, constraint: Constraint) -> None:
        """Replace the variables of a constraint by their bound values."""
        for part in as_node(lower(constraint.margin)).toposort():
            value = current_value(part) if part.op is Ops.BIND else None
            if value is not None:
                self._sizes[part] = as_node(value)
                text = f"{constraint.what}: compiled for {describe(part)} alone"
                self.fixed[Constraint(part, value, text)] = None
                self.fixed[Constraint(value, part, text)] = None


def _linear(margin: Polynomial) -> Iterator[tuple[UOp, int, Extent]]:
    """Yield each bound variable that occurs once, as a multiple, with its factor and the rest."""
    for monomial, factor in margin.terms.items():
        if len(monomial) != 1 or monomial[0].op is not Ops.BIND:
            continue
        rest = margin - Polynomial({monomial: factor})
        below = as_node(lower(rest)).toposort()
        if monomial[0] not in below:
            yield monomial[0], factor, rest


# --- graphs that bind one variable to several values ----------------------------------------------


Bindings = frozenset[tuple[str, int]]


class ConflictError(UserError):
    """The error for a variable with two values; `others` are live graphs that need other values.

    If `others` is empty, the outputs themselves bind both values: see `made_with_one_value`.
    """

    def __init__(self, name: str, values: tuple[int, int], others: Sequence[UOp] = ()) -> None:
        self.name = name
        self.values = values
        self.others = tuple(others)
        super().__init__(
            f"variable {name}: bound to {values[0]} and to {values[1]} in one graph: accepted is "
            f"one value, or sizes that do not depend on it where the two meet"
        )


def made_with_one_value(roots: Sequence[UOp]) -> list[UOp]:
    """Return nodes below `roots` to compute first: their sizes are fixed.

    These are the deepest nodes that bind each variable once, and all nodes with the same bindings.
    There are none if all remaining nodes have varying sizes.
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
    """Return the bindings in `node` and in the sizes of its payload."""
    return frozenset(filter(None, map(_binding, (node, *toposort(_symbolic_sizes(node))))))


def _symbolic_sizes(node: UOp) -> list[UOp]:
    """Return the symbolic sizes in the payload of a node of a tensor graph."""
    sizes: Iterable[sint] = ()
    match node.arg:
        case ShapeArg(shape):
            sizes = shape
        case BoundsArg(bounds):
            sizes = itertools.chain.from_iterable(bounds)
    return [size for size in sizes if isinstance(size, UOp)]


def _binding(node: UOp) -> tuple[str, int] | None:
    """Return the variable and the value of a BIND; None for any other node."""
    match [source.arg for source in node.src]:
        case [VarArg(name=name), ConstArg(value=value)] if node.op is Ops.BIND:
            return name, int(value)
    return None


def bound_values(roots: Iterable[UOp]) -> dict[str, int]:
    """Return the value of each variable that the graphs of `roots`, not yet prepared, bind.

    Raises `ConflictError` if two of them bind one variable to different values.
    """
    nodes = toposort(roots)
    sizes = dict.fromkeys(itertools.chain.from_iterable(map(_symbolic_sizes, nodes)))
    values: dict[str, int] = {}
    for name, value in filter(None, map(_binding, (*nodes, *toposort(sizes)))):
        if values.setdefault(name, value) != value:
            raise ConflictError(name, (values[name], value))
    return values
