"""Symbolic sizes: a variable with bounds, which a value is bound to for each run."""

from __future__ import annotations

from tinyref.errors import UserError
from tinyref.lazy import graph
from tinyref.tensor.arguments import integer
from tinyref.uops.build import variable
from tinyref.uops.node import UOp


class Variable:
    """A size between `minimum` and `maximum`, both included.

    `Variable("n", 1, 16).bind(5)` is a size that tensors accept: kernels are compiled once for the
    variable and run with the value. Raises `UserError` for an empty or negative range.
    """

    __slots__ = ("maximum", "minimum", "name", "node")

    def __init__(self, name: str, minimum: int, maximum: int) -> None:
        if not (isinstance(name, str) and name.isidentifier()):
            raise UserError(f"variable: name {name!r}, accepted is an identifier")
        self.name = name
        self.minimum = integer(minimum, "variable: minimum")
        self.maximum = integer(maximum, "variable: maximum")
        if self.minimum < 0:
            raise UserError(f"variable {name}: minimum {minimum} is negative, sizes are not")
        self.node = variable(name, self.minimum, self.maximum)

    def bind(self, value: int) -> UOp:
        """The variable with its value for this run. Raises `UserError` outside the bounds."""
        return graph.bind(self.node, integer(value, f"variable {self.name}"))

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, {self.minimum}, {self.maximum})"
