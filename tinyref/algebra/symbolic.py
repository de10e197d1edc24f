"""Sizes that may be symbolic: polynomials over `index` atoms, with one normal form for each value.

Shapes compare by structure, so 4*n and n*4 must be one node. `lift` reads an `int` or an `index`
node as an integer or a `Polynomial`. Ordinary operators compute, and `lower` returns the unique
node of the result. Any node except a sum or product is an atom (IDIV, MOD, MAX, a variable, ...).
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator

from tinyref.algebra.bounds import bounds
from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserTypeError
from tinyref.uops.build import const
from tinyref.uops.node import OrderKey, UOp, node_fact, order_key, sint, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, VarArg

Monomial = tuple[UOp, ...]
_MAX_TERMS = 1000
_MAX_FACTORS = 16
_LARGEST = 1 << 63
_MAX_MAXIMA = 4


class Undecided(Exception):  # noqa: N818  it is an answer, not an error
    """A question about symbolic sizes whose answer depends on the values of the variables."""


class Polynomial:
    """A sum of integer multiples of products of atoms; never only a constant."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __repr__(self) -> str:
        return f"Polynomial({describe(lower(self))})"

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for monomial, coefficient in _terms(other).items():
            total[monomial] = total.get(monomial, 0) + coefficient
        return _polynomial(total)

    def __mul__(self, other: Extent) -> Extent:
        if isinstance(other, Polynomial) and len(self.terms) * len(other.terms) > _MAX_TERMS:
            raise UserError(f"size: a product has more than {_MAX_TERMS} terms")
        total: dict[Monomial, int] = {}
        for left, first in self.terms.items():
            for right, second in _terms(other).items():
                monomial = _product(left, right)
                total[monomial] = total.get(monomial, 0) + first * second
        return _polynomial(total)

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + (other * -1)

    def __rsub__(self, other: int) -> Extent:
        return (self * -1) + other

    __radd__ = __add__
    __rmul__ = __mul__


Extent = int | Polynomial


def _terms(value: Extent) -> dict[Monomial, int]:
    if isinstance(value, Polynomial):
        return value.terms
    return {(): value} if value else {}


def _polynomial(terms: dict[Monomial, int]) -> Extent:
    nonzero = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not nonzero:
        return 0
    if len(nonzero) == 1 and () in nonzero:
        return nonzero[()]
    return Polynomial(nonzero)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    if len(left) + len(right) > _MAX_FACTORS:
        raise UserError(f"size: a product has more than {_MAX_FACTORS} factors")
    return tuple(sorted(left + right, key=order_key))


@node_fact
def _lift(node: UOp) -> Extent:
    value = _lift_unchecked(node)
    if any(abs(coefficient) > _LARGEST for coefficient in _terms(value).values()):
        raise UserError("size: a size is beyond 2**63")
    return value


def _lift_unchecked(node: UOp) -> Extent:
    if isinstance(node.arg, ConstArg):
        return int(node.arg.value)
    if node.op is Ops.ADD:
        return _lift(node.src[0]) + _lift(node.src[1])
    if node.op is Ops.SUB:
        return _lift(node.src[0]) - _lift(node.src[1])
    if node.op is Ops.MUL:
        return _lift(node.src[0]) * _lift(node.src[1])
    if node.op is Ops.NEG:
        return -_lift(node.src[0])
    src = tuple(
        as_node(lower(_lift(source))) if source.dtype is dtypes.index else source
        for source in node.src
    )
    return Polynomial({(node.with_sources(src),): 1})


def lift(value: sint) -> Extent:
    """Return `value` as an integer or a polynomial."""
    return value if isinstance(value, int) else _lift(value)


def as_node(value: sint) -> UOp:
    """Return `value` as an `index` node."""
    return value if isinstance(value, UOp) else const(dtypes.index, value)


def _monomial_order(item: tuple[Monomial, int]) -> tuple[int, tuple[OrderKey, ...]]:
    monomial = item[0]
    return -len(monomial), tuple(order_key(atom) for atom in monomial)


def lower(value: Extent) -> sint:
    """Return `value` as an `int`, or as its unique node in normal form."""
    if isinstance(value, int):
        return value
    total: UOp | None = None
    for monomial, coefficient in sorted(value.terms.items(), key=_monomial_order):
        if abs(coefficient) >= _LARGEST:
            raise UserError(f"size: {coefficient} is beyond 2**63")
        factors: list[UOp] = list(monomial)
        if coefficient != 1 or not factors:
            factors.append(const(dtypes.index, coefficient))
        term = functools.reduce(_multiply, factors)
        total = term if total is None else UOp(Ops.ADD, dtypes.index, (total, term))
    return 0 if total is None else total


def _multiply(left: UOp, right: UOp) -> UOp:
    return UOp(Ops.MUL, dtypes.index, (left, right))


def normalise(value: sint) -> sint:
    """Return `value` in normal form: a constant node becomes an `int`."""
    return value if type(value) is int else lower(lift(value))


def as_size(value: object, argument: str) -> sint:
    """Return `value` as a size: an `int`, or an `index` node in normal form. Raises `UserError`."""
    if type(value) is int:
        return value
    if isinstance(value, UOp):
        if value.dtype is not dtypes.index:
            raise UserTypeError(
                f"{argument}: a symbolic size has dtype index, got {value.dtype.name}"
            )
        return normalise(value)
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]  # the line below refuses others
    except TypeError:
        raise UserTypeError(
            f"{argument}: a size is an integer or an index expression, got {value!r}"
        ) from None


def product(values: Iterable[sint]) -> sint:
    """Return the product of sizes; 1 for none."""
    total: Extent = 1
    for value in values:
        total = total * (value if type(value) is int else lift(value))
    return total if type(total) is int else lower(total)


# --- bounds -------------------------------------------------------------------------------------


@node_fact
def atom_bounds(node: UOp) -> tuple[int, int]:
    """Return the inclusive range of an `index` node that is no sum and no product."""
    if isinstance(node.arg, VarArg):
        return node.arg.minimum, node.arg.maximum
    return bounds(node)


@functools.lru_cache(maxsize=4096)
def _lowest(value: Polynomial) -> int:
    low = _lowest_in_box(value)
    maximum = next((m[0] for m in value.terms if len(m) == 1 and m[0].op is Ops.MAX), None)
    if maximum is None or _count_maxima(value) > _MAX_MAXIMA:
        return low
    # A maximum is equal to one of its operands, and at least each of them.
    coefficient = value.terms[(maximum,)]
    rest = value - Polynomial({(maximum,): coefficient})
    if any(maximum in monomial for monomial in _terms(rest)):
        return low
    ends = [lowest(rest + _lift(operand) * coefficient) for operand in maximum.src]
    return max(low, max(ends) if coefficient > 0 else min(ends))


def _count_maxima(value: Polynomial) -> int:
    """Count the maxima in `value`, also nested ones: each doubles the work of `_lowest`."""
    atoms = {atom for monomial in value.terms for atom in monomial}
    return sum(node.op is Ops.MAX for node in toposort(sorted(atoms, key=order_key)))


def _lowest_in_box(value: Polynomial) -> int:
    atoms = sorted({atom for monomial in value.terms for atom in monomial}, key=order_key)
    # Each atom is measured from its minimum up or from its maximum down. Some choice makes most
    # terms positive, so that they are at least 0. From the fifth atom on only the minimum is tried.
    choices = [(False, True) if i < 4 else (False,) for i in range(len(atoms))]
    return max(_lowest_from(value, atoms, ends) for ends in itertools.product(*choices))


def _lowest_from(value: Polynomial, atoms: list[UOp], from_maximum: tuple[bool, ...]) -> int:
    ranges = {atom: atom_bounds(atom) for atom in atoms}
    start = dict(zip(atoms, from_maximum, strict=True))
    total: dict[Monomial, int] = {}
    for monomial, coefficient in value.terms.items():
        shifted: dict[Monomial, int] = {(): coefficient}
        for atom in monomial:
            low, high = ranges[atom]
            constant, slope = (high, -1) if start[atom] else (low, 1)
            grown: dict[Monomial, int] = {}
            for part, amount in shifted.items():
                grown[part] = grown.get(part, 0) + amount * constant
                longer = _product(part, (atom,))
                grown[longer] = grown.get(longer, 0) + amount * slope
            shifted = grown
        for part, amount in shifted.items():
            total[part] = total.get(part, 0) + amount
    lowest = total.pop((), 0)
    for monomial, coefficient in total.items():
        if coefficient < 0:
            lowest += coefficient * math.prod(
                ranges[atom][1] - ranges[atom][0] for atom in monomial
            )
    return lowest


def lowest(value: Extent) -> int:
    """Return a lower bound, which is exact for linear sums of independent atoms."""
    return value if isinstance(value, int) else _lowest(value)


def highest(value: Extent) -> int:
    """Return an upper bound, which is exact for linear sums of independent atoms."""
    return value if isinstance(value, int) else -lowest(-value)


def at_most(left: Extent, right: Extent) -> bool:
    """Return True if `left <= right` can be proved for all values of the variables."""
    return lowest(right - left) >= 0


def is_known(left: Extent, right: Extent) -> bool | None:
    """Return the truth of `left <= right` if proved for all values of variables, else None."""
    if at_most(left, right):
        return True
    if at_most(right + 1, left):
        return False
    return None


def largest(left: Extent, right: Extent) -> Extent:
    """Return the larger of two: one of them if this is certain, else a MAX."""
    if at_most(left, right):
        return right
    if at_most(right, left):
        return left
    first, second = sorted((as_node(lower(left)), as_node(lower(right))), key=order_key)
    return lift(UOp(Ops.MAX, dtypes.index, (first, second)))


def smallest(left: Extent, right: Extent) -> Extent:
    """Return the smaller of two: one of them if this is certain, else an expression with a MAX."""
    return -largest(-left, -right)


# --- division -----------------------------------------------------------------------------------


def split(value: Extent, divisor: Extent) -> tuple[Extent, Extent]:
    """Return quotient (rounded down) and remainder of a division by a positive `divisor`.

    Raises `Undecided` if the remainder may be negative.
    """
    if isinstance(value, int) and isinstance(divisor, int):
        return divmod(value, divisor)
    if divisor == 1:
        return value, 0
    quotient, rest = _long_division(value, divisor)
    if lowest(rest) >= 0:
        if at_most(rest + 1, divisor):
            return quotient, rest
        sources = (as_node(lower(rest)), as_node(lower(divisor)))
        share = lift(UOp(Ops.IDIV, dtypes.index, sources))
        return quotient + share, lift(UOp(Ops.MOD, dtypes.index, sources))
    raise Undecided


def _long_division(value: Extent, divisor: Extent) -> tuple[Extent, Extent]:
    """Return q and r with value == q * divisor + r; the divisor's lead divides no term of r."""
    lead, amount = min(_terms(divisor).items(), key=_monomial_order)
    quotient: Extent = 0
    rest = value
    # Every step removes one term of the highest degree; the limit only prevents an endless loop.
    for _ in range(64):
        for monomial, coefficient in sorted(_terms(rest).items(), key=_monomial_order):
            share = coefficient // amount
            cofactor = _without(monomial, lead)
            if share and cofactor is not None:
                step = _polynomial({cofactor: share})
                quotient = quotient + step
                rest = rest - step * divisor
                break
        else:
            break
    return quotient, rest


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


# --- text ---------------------------------------------------------------------------------------


def variables_of(values: Iterable[sint]) -> Iterator[UOp]:
    """Return the DEFINE_VARs in these sizes, each once, in order of appearance."""
    roots = [value for value in values if isinstance(value, UOp)]
    return (node for node in toposort(roots) if node.op is Ops.DEFINE_VAR)


_INFIX = {Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.IDIV: "//", Ops.MOD: "%"}
_COMPOUND = (Ops.ADD, Ops.SUB, Ops.IDIV, Ops.MOD)
_LONGEST_TEXT = 200


def describe(value: sint) -> str:
    """Return the text of a size for error messages: `4`, `n`, `n*4+1`, `max(n, 3)`."""
    return str(value) if isinstance(value, int) else _describe(value)


@node_fact
def _describe(node: UOp) -> str:
    if isinstance(node.arg, ConstArg):
        return str(node.arg.value)
    if isinstance(node.arg, VarArg):
        return node.arg.name
    parts = [_describe(source) for source in node.src]
    if node.op is Ops.BIND:
        text = "=".join(parts)
    elif node.op in _INFIX:
        if node.op is not Ops.ADD:
            pairs = zip(node.src, parts, strict=True)
            parts = [f"({part})" if source.op in _COMPOUND else part for source, part in pairs]
        text = _INFIX[node.op].join(parts)
    else:
        text = f"{node.op.name.lower()}({', '.join(parts)})"
    return text if len(text) < _LONGEST_TEXT else "..."


def describe_shape(shape: Iterable[sint]) -> str:
    """Return the text of a shape as a tuple: `(3, n*4)`, `(3,)`, `()`."""
    parts = [describe(size) for size in shape]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
