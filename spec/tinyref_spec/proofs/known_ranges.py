"""What the compiler knows of the range of an op, against all values of operands of small ranges.

A range that leaves a value out makes wrong programs. One that is too wide costs: conditions stay
that always hold, and wide integers are taken for small numbers. `ranges` proves the first for all
operands; here both are asked of operands whose values can all be tried, without a solver. How wide
a range may be is said by the ends of those of the operands, so that it can be asked of any op.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.formats.text import to_text
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import VarArg

Span = tuple[int, int]

# Ops whose values have their ends where the operands have theirs.
BY_ENDS: Mapping[Ops, Callable[..., int]] = MappingProxyType(
    {
        Ops.ADD: operator.add,
        Ops.SUB: operator.sub,
        Ops.MUL: operator.mul,
        Ops.NEG: operator.neg,
        Ops.MAX: max,
        Ops.SHL: operator.lshift,
        Ops.SHR: operator.rshift,
        Ops.IDIV: lambda x, y: -(-x // y) if (x < 0) != (y < 0) else x // y,
        Ops.CAST: lambda x: x,
    }
)
# Of these only a range of all numbers with the same bits is known.
BY_BITS: Mapping[Ops, Callable[[int, int], int]] = MappingProxyType(
    {Ops.AND: operator.and_, Ops.OR: operator.or_, Ops.XOR: operator.xor}
)
_OTHERS = frozenset({Ops.MOD, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.MULACC})
_COUNTED, _DIVIDED = frozenset({Ops.SHL, Ops.SHR}), frozenset({Ops.IDIV, Ops.MOD})


@dataclass(frozen=True)
class WrongRange:
    """A range that leaves out a value, or is wider than it has to be."""

    node: UOp
    known: Span
    wanted: Span

    def describe(self) -> str:
        """In one sentence."""
        low, high = self.known
        is_unsound = low > self.wanted[0] or high < self.wanted[1]
        problem = "leaves out values" if is_unsound else "is wider than it has to be"
        return (
            f"the range {self.known} that is known of {self.node.op.name} of "
            f"{self.node.src[-1].dtype.name} {problem}: wanted {self.wanted}"
        )

    def script(self) -> str:
        """A program that shows it by itself."""
        return (
            "from tinyref.algebra.bounds import bounds\n"
            "from tinyref.formats.text import from_text\n\n"
            f'node = from_text("""\n{to_text(self.node)}""")\n'
            f"print('known', bounds(node), 'wanted', {self.wanted})\n"
        )


# --- sizes ----------------------------------------------------------------------------------------


def wide_range(node: UOp) -> WrongRange | None:
    """The range that is known of a node, where it is wider than its operands' give; else None.

    None too where nothing is owed: of floats, of a division by what may be 0, of other ops.
    """
    is_known = node.op in BY_ENDS or node.op in BY_BITS or node.op in _OTHERS
    if not is_known or any(each.dtype.is_float for each in (node, *node.src)):
        return None
    return _too_wide(node, bounds(node), [bounds(source) for source in node.src])


def _too_wide(node: UOp, known: Span, operands: Sequence[Span]) -> WrongRange | None:
    widest = _widest(node, operands)
    if widest is None or (widest[0] <= known[0] and known[1] <= widest[1]):
        return None
    return WrongRange(node, known, widest)


def _values(node: UOp) -> npt.NDArray[np.generic]:
    leaves = [each for each in node.toposort() if each.op is Ops.DEFINE_VAR]
    spans = [_ends(leaf) for leaf in leaves]
    every = [
        np.arange(low, high + 1).astype(numpy_dtype(leaf.dtype))
        for leaf, (low, high) in zip(leaves, spans, strict=True)
    ]
    grids = dict(zip(leaves, np.meshgrid(*every, indexing="ij"), strict=True))
    return np.asarray(evaluate_expression(node, grids))


def _ends(leaf: UOp) -> Span:
    if not isinstance(leaf.arg, VarArg):
        raise TypeError(f"{leaf.op.name} is no variable")
    return int(leaf.arg.minimum), int(leaf.arg.maximum)


def _widest(node: UOp, operands: Sequence[Span]) -> Span | None:
    """The widest range that may be known of a node; None where nothing is owed."""
    op, bits = node.op, node.dtype.bits
    if op in _COUNTED and not 0 <= operands[1][0] <= operands[1][1] < bits:
        return None
    if op in _DIVIDED and operands[1][0] <= 0 <= operands[1][1]:
        return None
    if op is Ops.WHERE:
        return _of_choice(node, operands)
    if op is Ops.MOD:
        return _of_remainder(*operands)
    if op is Ops.MULACC:
        # A product that wraps may be any number, whatever is added.
        product = _of_ends(Ops.MUL, node.dtype, operands[:2])
        return _of_ends(Ops.ADD, node.dtype, (product, operands[2]))
    if op in (Ops.CMPLT, Ops.CMPNE):
        return _of_comparison(op, *operands)
    if node.dtype.is_bool:
        return _of_flags(op, operands)
    if op in BY_BITS:
        return _of_bits(op, *operands)
    return _of_ends(op, node.dtype, operands)


def _of_ends(op: Ops, dtype: DType, operands: Sequence[Span]) -> Span:
    found = [BY_ENDS[op](*ends) for ends in itertools.product(*operands)]
    return _wrapped(dtype, min(found), max(found))


def _wrapped(dtype: DType, low: int, high: int) -> Span:
    """All of the type where some values leave it and others do not."""
    least, most = int(dtype.minimum), int(dtype.maximum)
    if dtype is dtypes.index:
        return low, high
    turns = (low - least) // (1 << dtype.bits)
    if turns != (high - least) // (1 << dtype.bits):
        return least, most
    return low - (turns << dtype.bits), high - (turns << dtype.bits)


def _of_comparison(op: Ops, left: Span, right: Span) -> Span:
    """Certain where the ranges do not meet, or are one number."""
    if op is Ops.CMPLT:
        return int(left[1] < right[0]), int(left[0] < right[1])
    is_apart = left[1] < right[0] or right[1] < left[0]
    return int(is_apart), int(len({*left, *right}) > 1)


def _of_flags(op: Ops, operands: Sequence[Span]) -> Span:
    """Of operations with bools: all values of the operands are tried."""
    if op is Ops.CAST:
        ((low, high),) = operands
        return int(not low <= 0 <= high), int((low, high) != (0, 0))
    rule = BY_BITS.get(op, max)
    found = [rule(*values) for values in itertools.product(*operands)]
    return min(found), max(found)


def _of_choice(node: UOp, operands: Sequence[Span]) -> Span:
    """That of the side which is taken, or of both; the first one as the condition limits it."""
    condition, (low, high), other = operands
    if condition[0] == condition[1]:
        return (low, high) if condition[0] else other
    least, most = low, high
    if node.src[0].op is Ops.CMPLT:
        left, right = node.src[0].src
        if node.src[1] is left:
            most = min(high, bounds(right)[1] - 1)
        if node.src[1] is right:
            least = max(low, bounds(left)[0] + 1)
    if least <= most:
        low, high = least, most
    return min(low, other[0]), max(high, other[1])


def _of_remainder(dividend: Span, divisor: Span) -> Span:
    """It has the sign of the dividend, is no larger, and is smaller than the divisor."""
    most = max(abs(end) for end in divisor) - 1
    return max(min(dividend[0], 0), -most), min(max(dividend[1], 0), most)


def _of_bits(op: Ops, left: Span, right: Span) -> Span:
    """All numbers with no more bits than the operands have, of the sign that these give."""
    naturals = [high for low, high in (left, right) if low >= 0]
    negatives = sum(high < 0 for _, high in (left, right))
    bits = max((end if end >= 0 else ~end).bit_length() for end in (*left, *right))
    if op is Ops.AND and naturals:
        return 0, min(naturals)
    is_negative = negatives == 2 if op is Ops.AND else negatives > 0 and op is Ops.OR
    return 0 if len(naturals) == 2 else -(1 << bits), -1 if is_negative else (1 << bits) - 1
