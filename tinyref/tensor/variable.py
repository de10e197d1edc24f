"""Symbolic sizes: a variable with bounds that gets a value for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyref.algebra.sizes import Constraint, require
from tinyref.algebra.symbolic import (
    as_size,
    at_most,
    describe,
    lift,
    lower,
    normalise,
    variables_of,
)
from tinyref.errors import UserError, UserIndexError, argument_error
from tinyref.lazy import graph
from tinyref.tensor.arguments import integer
from tinyref.uops.build import variable
from tinyref.uops.node import UOp, sint, substitute, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg


class Variable:
    """A symbolic size between `minimum` and `maximum`, both included.

    Tensors accept the size `Variable("n", 1, 16).bind(5)`. Kernels are compiled once for the
    variable, and run with its value. Raises `UserError` for an empty or negative range.

    Examples:
        >>> from tinyref import Variable
        >>> length = Variable("length", 1, 4)
        >>> [Tensor([1, 2, 3, 4])[: length.bind(n)].sum().item() for n in (2, 3)]
        [3, 6]
    """

    __slots__ = ("maximum", "minimum", "name", "node")

    def __init__(self, name: str, minimum: int, maximum: int) -> None:
        if not (isinstance(name, str) and name.isidentifier()):
            raise argument_error(name, str, f"variable: name {name!r}, accepted is an identifier")
        self.name = name
        self.minimum = integer(minimum, "variable: minimum")
        self.maximum = integer(maximum, "variable: maximum")
        if self.minimum < 0:
            raise UserError(f"variable {name}: minimum {minimum} is negative, sizes are not")
        self.node = variable(name, self.minimum, self.maximum)

    def bind(self, value: int) -> UOp:
        """Return the variable with a value. Raises `UserError` for a value outside the bounds."""
        return graph.bind(self.node, integer(value, f"variable {self.name}"))

    def __reduce__(self) -> tuple[type[Variable], tuple[str, int, int]]:
        return Variable, (self.name, self.minimum, self.maximum)

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.minimum}, {self.maximum})"


def values_bound(sizes: Sequence[sint], argument: str) -> dict[str, int]:
    """Return the value of each variable in `sizes`, by name.

    Raises `UserError` for a variable without a value, and for one with two values.
    """
    values: dict[str, int] = {}
    bound: set[UOp] = set()
    for node in toposort(size for size in sizes if isinstance(size, UOp)):
        if node.op is not Ops.BIND:
            continue
        variable, value = node.src
        bound.add(variable)
        if isinstance(variable.arg, VarArg) and isinstance(value.arg, ConstArg):
            number = int(value.arg.value)
            if values.setdefault(variable.arg.name, number) != number:
                raise UserError(
                    f"{argument}: variable {variable.arg.name} is bound to "
                    f"{values[variable.arg.name]} and to {number}: accepted is one value"
                )
    for variable in variables_of([size for size in sizes if isinstance(size, UOp)]):
        if variable not in bound and isinstance(variable.arg, VarArg):
            raise UserError(
                f"{argument}: variable {variable.arg.name} has no value: set one with bind()"
            )
    return values


def rebound(size: sint, values: Mapping[str, int]) -> sint:
    """Return `size` with the variables of `values` bound; other variables stay unbound."""
    if isinstance(size, int):
        return size
    bound = {
        node: graph.bind(node, values[node.arg.name])
        for node in variables_of([size])
        if isinstance(node.arg, VarArg) and node.arg.name in values
    }
    return normalise(substitute(size, bound))


def slice_bounds(item: slice, size: sint) -> tuple[sint, sint]:
    """Return begin and end of a slice with symbolic ends, or of an axis of symbolic `size`.

    As in Python, a negative end counts from the back, and an end beyond the axis is cut off. This
    must hold for all values of the variables. Otherwise the end must be within the axis. Building
    the slice raises `UserError` if it is not, and for a step other than 1.
    """
    if item.step not in (None, 1):
        raise UserError(
            f"index: step {item.step!r} of a symbolic slice: accepted is 1, or fixed sizes"
        )
    begin = 0 if item.start is None else _position(item.start, size)
    end = size if item.stop is None else _position(item.stop, size)
    return begin, end


def _position(value: object, size: sint) -> sint:
    """Return the position in an axis of one end of a slice."""
    position, whole = lift(as_size(value, "index: a slice")), lift(size)
    if at_most(position, -1):
        position = position + whole
    return size if at_most(whole, position) else lower(position)


def bounds_of_index(index: sint, size: sint, axis: int) -> tuple[sint, sint]:
    """Return begin and end of one element, where the index or the size of the axis is symbolic.

    Raises `UserIndexError` for an index outside of the axis.
    """
    low, whole = lift(as_size(index, "index")), lift(size)
    if at_most(low, -1):
        low = low + whole
    condition = f"index: {describe(index)} in axis {axis} of size {describe(size)}"
    inside = (Constraint(0, lower(low), condition), Constraint(lower(low + 1), size, condition))
    require(inside, UserIndexError)
    return lower(low), lower(low + 1)
