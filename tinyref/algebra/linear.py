"""Linear forms: an integer node as a sum of multiples of terms, plus a constant.

`modular` reads a node as a sum in the ring of its type, where everything wraps, so the sum may be
rebuilt in any order. `exact` reads a node as a sum of mathematical integers, so the sum may be
divided and compared. It reads only through operations whose value ranges prove that they do not
wrap; `index` never wraps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyref.algebra.bounds import bounds, dtype_range
from tinyref.algebra.op_table import Range
from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, order_key
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg

# A longer sum counts as one term: normal forms of all prefixes of a sum cost its length squared.
MAX_TERMS = 64
# The ops that may be read as a sum; a product only if one factor is a constant.
_SUMS = frozenset({Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL})
# Nodes and their factors.
Pieces = list[tuple[UOp, int]]


@dataclass(frozen=True, slots=True)
class LinearForm:
    """The sum of `terms[node] * node` and `constant`; no coefficient is 0."""

    terms: dict[UOp, int]
    constant: int

    @property
    def range(self) -> Range:
        """Return the least and largest value, as if the terms were independent of each other."""
        low = high = self.constant
        for term, coefficient in self.terms.items():
            ends = [end * coefficient for end in bounds(term)]
            low += min(ends)
            high += max(ends)
        return low, high

    def split(self, divisor: int) -> tuple[LinearForm, LinearForm]:
        """Return (quotient, rest) with self == divisor * quotient + rest.

        The constant of the rest is from 0 to divisor - 1.
        """
        quotient = {
            term: coefficient // divisor
            for term, coefficient in self.terms.items()
            if coefficient % divisor == 0
        }
        rest = {term: k for term, k in self.terms.items() if k % divisor != 0}
        shift, remaining = divmod(self.constant, divisor)
        return LinearForm(quotient, shift), LinearForm(rest, remaining)

    def plus(self, other: LinearForm, times: int = 1) -> LinearForm:
        """Return self + times * other."""
        total = dict(self.terms)
        for term, coefficient in other.terms.items():
            value = total.get(term, 0) + times * coefficient
            if value:
                total[term] = value
            else:
                total.pop(term, None)
        return LinearForm(total, self.constant + times * other.constant)

    def fits(self, dtype: DType) -> bool:
        """Return True if `dtype` can represent every value of the sum."""
        if dtype.scalar is dtypes.index:
            return True
        low, high = self.range
        least, most = dtype_range(dtype)
        return least <= low and high <= most


def constant_of(node: UOp) -> int | None:
    """Return the value of an integer or bool CONST, None for any other node."""
    if node.op is Ops.CONST and isinstance(node.arg, ConstArg) and not node.dtype.is_float:
        return int(node.arg.value)
    return None


def _sum(node: UOp, name: str, opens: Callable[[UOp], bool]) -> LinearForm:
    """Return the sum, read through ADD, SUB, NEG and MUL by a constant that `opens` admits.

    The sum is composed from the sums of its parts, which are stored as the fact `name` of the
    parts: rules need the sum of a part before the sum of the whole.
    """

    def opened(part: UOp) -> Pieces | None:
        return _pieces(part) if part.op in _SUMS and opens(part) else None

    pieces = None if name in node.facts else opened(node)
    stack = [] if pieces is None else [(node, pieces)]
    while stack:
        part, pieces = stack[-1]
        unread = [
            (piece, inside)
            for piece, _ in pieces
            if name not in piece.facts and (inside := opened(piece)) is not None
        ]
        if unread:
            stack += unread
            continue
        part.facts[name] = _together(pieces, name)
        stack.pop()
    return _known(node, name)


def _known(node: UOp, name: str) -> LinearForm:
    """Return the sum stored with a node; without one the node is a constant, or its only term.

    A sum of only the node itself is not stored, because that would be a reference cycle.
    """
    stored: LinearForm | None = node.facts.get(name)
    if stored is not None:
        return stored
    value = constant_of(node)
    return LinearForm({node: 1}, 0) if value is None else LinearForm({}, value)


def _together(pieces: Pieces, name: str) -> LinearForm | None:
    """Add multiples of parts, whose sums are stored as `name`; None if the sum is too long."""
    total = LinearForm({}, 0)
    for piece, factor in pieces:
        total = total.plus(_known(piece, name), factor)
    return None if len(total.terms) > MAX_TERMS else total


def _pieces(node: UOp) -> Pieces | None:
    """Return the node as multiples of its sources; None if it is a single term."""
    if node.op is Ops.ADD:
        return [(node.src[0], 1), (node.src[1], 1)]
    if node.op is Ops.SUB:
        return [(node.src[0], 1), (node.src[1], -1)]
    if node.op is Ops.NEG:
        return [(node.src[0], -1)]
    if node.op is Ops.MUL:
        value = constant_of(node.src[1])
        return None if value is None else [(node.src[0], value)]
    return None


def _opens_in_ring(node: UOp) -> bool:
    # Only index multiplications distribute over sums; other types would cost work on the device.
    return node.op is not Ops.MUL or node.dtype.scalar is dtypes.index or node.src[0].op != Ops.ADD


def _does_not_wrap(node: UOp) -> bool:
    if node.dtype.scalar is dtypes.index:
        return True
    pieces = _pieces(node)
    if pieces is None:
        return False
    ends = [(bounds(part), factor) for part, factor in pieces]
    low = sum(min(span[0] * factor, span[1] * factor) for span, factor in ends)
    high = sum(max(span[0] * factor, span[1] * factor) for span, factor in ends)
    least, most = dtype_range(node.dtype)
    return least <= low and high <= most


def modular(node: UOp) -> LinearForm:
    """Return the integer `node` as a sum in the ring of its type."""
    return _sum(node, "linear.modular", _opens_in_ring)


def exact(node: UOp) -> LinearForm:
    """Return the integer `node` as a sum of mathematical integers."""
    return _sum(node, "linear.exact", _does_not_wrap)


def to_node(dtype: DType, linear: LinearForm) -> UOp:
    """Return the node of a sum in normal form: ordered terms times factors, then the constant.

    Coefficients wrap into `dtype`, so a sum that is correct modulo its width gives a correct node.
    """
    total: UOp | None = None
    for term in sorted(linear.terms, key=order_key):
        factor = as_const(linear.terms[term], dtype)
        if factor == 0:
            continue
        part = term if factor == 1 else UOp(Ops.MUL, dtype, (term, build.const(dtype, factor)))
        total = part if total is None else UOp(Ops.ADD, dtype, (total, part))
    constant = build.const(dtype, linear.constant)
    if total is None:
        return constant
    return total if constant_of(constant) == 0 else UOp(Ops.ADD, dtype, (total, constant))
