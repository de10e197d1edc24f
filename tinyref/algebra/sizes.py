"""Sizes: the operators + - * // and %, their text, and the constraints of movements on variables.

A slice `x[:n]` of 8 elements, where n goes from 1 to 10, is legal for n up to 8. This is checked
when the slice is built, for the bound value of n, and again when a replay binds another value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import shape_of
from tinyref.algebra.symbolic import (
    Extent,
    Undecided,
    as_node,
    as_size,
    at_most,
    describe,
    describe_shape,
    lift,
    lower,
    lowest,
    normalise,
    product,
    split,
)
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp, node_fact, sint, substitute, toposort, use_algebra
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import BoundsArg, ConstArg, ShapeArg, VarArg


@dataclass(frozen=True, slots=True)
class Constraint:
    """The condition that `low` is at most `high`; `what` names the operation that needs it.

    is_of_range: True if kernels would leave their buffers without it.
    """

    low: sint
    high: sint
    what: str
    is_of_range: bool = True

    @property
    def margin(self) -> Extent:
        """Return the difference that must not be negative."""
        return lift(self.high) - lift(self.low)

    def check(self, values: Mapping[str, int]) -> None:
        """Raise `UserError` if the values of the variables break the condition."""
        if _value(self.low, values) > _value(self.high, values):
            raise UserError(f"{self.what}: {self.describe(values)}")

    def describe(self, values: Mapping[str, int]) -> str:
        """Return the values of the variables and the accepted values, for an error."""
        names = sorted({variable.name for variable in _variables((self.low, self.high))})
        values_text = " and ".join(
            f"{name} is {values[name]}" if name in values else f"{name} has no value"
            for name in names
        )
        values_text += ": " if names else ""
        accepted = accepted_values(self)
        if accepted is None:
            return f"{values_text}accepted is {describe(self.low)} <= {describe(self.high)}"
        name, low, high = accepted
        if low > high:
            return f"{values_text}no value of {name} is accepted"
        return f"{values_text}accepted is {name} from {low} to {high}"


def _value(size: sint, values: Mapping[str, int]) -> int:
    """Return the value of a size for these values of the variables; bound values are ignored."""
    if isinstance(size, int):
        return size
    bound = {part: part.src[0] for part in size.toposort() if part.op is Ops.BIND}
    return value_of(substitute(size, bound), values)


def _variables(sizes: Iterable[sint]) -> Iterator[VarArg]:
    nodes = toposort(size for size in sizes if isinstance(size, UOp))
    return (node.arg for node in nodes if isinstance(node.arg, VarArg))


def bindings_of(sizes: Iterable[sint]) -> dict[str, int]:
    """Return the bound values of the variables of `sizes`, by name."""
    bindings: dict[str, int] = {}
    for node in toposort(size for size in sizes if isinstance(size, UOp)):
        if node.op is Ops.BIND:
            variable, value = (source.arg for source in node.src)
            if isinstance(variable, VarArg) and isinstance(value, ConstArg):
                bindings[variable.name] = int(value.value)
    return bindings


def current_value(size: sint) -> int | None:
    """Return the value of a size whose variables are all bound; None for others."""
    if isinstance(size, int):
        return size
    values = bindings_of([size])
    if any(variable.name not in values for variable in _variables([size])):
        return None
    return value_of(size, values)


def holds(left: Extent, right: Extent) -> bool:
    """Return True if `left <= right` for all values of the variables, or for the bound values."""
    if at_most(left, right):
        return True
    margin = current_value(lower(right - left))
    return margin is not None and margin >= 0


def are_equal(left: sint, right: sint) -> bool:
    """Return True if two sizes are equal for all values of the variables, or the bound values."""
    # Equal sizes in normal form are the same node.
    return left == right or (holds(lift(left), lift(right)) and holds(lift(right), lift(left)))


def accepted_values(constraint: Constraint) -> tuple[str, int, int] | None:
    """Return name, least and largest accepted value of the only variable; None if not so simple."""
    margin = constraint.margin
    if isinstance(margin, int) or len(margin.terms) > 2:
        return None
    atoms = [monomial for monomial in margin.terms if monomial]
    if len(atoms) != 1 or len(atoms[0]) != 1:
        return None
    (atom,) = atoms[0]
    node = atom.src[0] if atom.op is Ops.BIND else atom
    if not isinstance(node.arg, VarArg):
        return None
    low, high = limits(margin.terms[(atom,)], margin.terms.get((), 0))
    return (
        node.arg.name,
        node.arg.minimum if low is None else max(node.arg.minimum, low),
        node.arg.maximum if high is None else min(node.arg.maximum, high),
    )


def limits(factor: int, rest: int) -> tuple[int | None, int | None]:
    """Return the least or the largest x for which `factor * x + rest` is not negative."""
    if factor > 0:
        return -(rest // factor), None
    return None, rest // -factor


# --- of a node ----------------------------------------------------------------------------------


@node_fact
def constraints_of(node: UOp) -> tuple[Constraint, ...]:
    """Return the constraints of a movement or an IOTA on the values of its variables."""
    argument = node.arg
    if isinstance(argument, ShapeArg):
        constraints = _of_shape(node, argument.shape)
    elif isinstance(argument, BoundsArg):
        constraints = _of_bounds(node.op, argument.bounds, shape_of(node.src[0]))
    else:
        return ()
    return tuple(constraint for constraint in constraints if lowest(constraint.margin) < 0)


def is_certain(node: UOp) -> bool:
    """Return True if a movement is legal for all values of its variables."""
    return not constraints_of(node)


def _of_shape(node: UOp, shape: Sequence[sint]) -> Iterator[Constraint]:
    have = shape_of(node.src[0]) if node.src else ()
    # Nearly all shapes are integers, and every new graph comes here, so they return first.
    if UOp not in map(type, (*have, *shape)):
        return
    name = node.op.name.lower()
    yield from divisions(shape, name)
    for size in shape:
        yield Constraint(0, size, f"{name}: the size {describe(size)}")
    if node.op is Ops.RESHAPE and product(have) != product(shape):
        what = f"{name}: {describe_shape(have)} as {describe_shape(shape)}"
        yield Constraint(product(have), product(shape), what, is_of_range=False)
        yield Constraint(product(shape), product(have), what, is_of_range=False)


def _of_bounds(
    op: Ops, bounds: Sequence[tuple[sint, sint]], shape: Sequence[sint]
) -> Iterator[Constraint]:
    name = op.name.lower()
    for axis, (size, pair) in enumerate(zip(shape, bounds, strict=True)):
        if all(isinstance(part, int) for part in (size, *pair)):
            continue
        yield from divisions(pair, name)
        between = ", ".join(map(describe, pair))
        what = f"{name}: ({between}) of axis {axis} of size {describe(size)}"
        if op is Ops.PAD:
            yield from (Constraint(0, amount, what) for amount in pair)
        else:
            steps = (0, *pair, size)
            yield from (Constraint(low, high, what) for low, high in itertools.pairwise(steps))


def divisions(sizes: Iterable[sint], what: str) -> Iterator[Constraint]:
    """Yield the constraints of the divisions in `sizes`: dividend from 0, divisor from 1 up."""
    for node in toposort(size for size in sizes if isinstance(size, UOp)):
        if node.op in (Ops.IDIV, Ops.MOD):
            for low, operand in zip((0, 1), node.src, strict=True):
                text = f"{what}: {describe(node)}"
                yield Constraint(low, _as_size(operand), text)


def _as_size(node: UOp) -> sint:
    return lower(lift(node))


def require(constraints: Iterable[Constraint], error: type[UserError] = UserError) -> None:
    """Raise `UserError`, or `error`, for the first constraint that the bound values break."""
    for constraint in constraints:
        if not holds(lift(constraint.low), lift(constraint.high)):
            values = bindings_of((constraint.low, constraint.high))
            raise error(f"{constraint.what}: {constraint.describe(values)}")


def arithmetic(sign: str, left: object, right: object) -> sint:
    """Return `left sign right` of sizes, for one of + - * // %; the last two round down.

    Raises `UserError` for operands that are no sizes, for a divisor below 1, and for a negative
    dividend that leaves a remainder. Bound variables count with their values, others with every
    value.
    """
    first, second = (lift(as_size(operand, f"size {sign}")) for operand in (left, right))
    if sign == "+":
        return lower(first + second)
    if sign == "-":
        return lower(first - second)
    if sign == "*":
        return lower(first * second)
    return _divide_if_possible(sign, first, second)


def _divide_if_possible(sign: str, first: Extent, second: Extent) -> sint:
    """Divide, even if the division is legal only for the bound values of variables."""
    try:
        if lowest(second) >= 1:
            quotient, rest = split(first, second)
            return lower(quotient if sign == "//" else rest)
    except Undecided:
        pass
    sources = (as_node(lower(first)), as_node(lower(second)))
    node = UOp(Ops.IDIV if sign == "//" else Ops.MOD, dtypes.index, sources)
    require(divisions([node], "size"))
    return normalise(node)


_OPS_OF_SIZES = ALU | {Ops.CONST, Ops.DEFINE_VAR, Ops.BIND}


def size_text(node: UOp) -> str | None:
    """Return the text of a size over symbolic variables, such as `n=3`; None for another node."""
    if node.dtype is not dtypes.index:
        return None
    ops = {part.op for part in node.toposort()}
    return describe(node) if Ops.DEFINE_VAR in ops and ops <= _OPS_OF_SIZES else None


use_algebra(arithmetic, size_text)
