"""What rules, ranges, linear forms and sizes say of an expression, at all of its points."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from tinyref.algebra.bounds import bounds
from tinyref.algebra.linear import Linear, exact, modular
from tinyref.algebra.simplify import simplify, simplify_with
from tinyref.algebra.sizes import arithmetic
from tinyref.algebra.symbolic import (
    Extent,
    Polynomial,
    Undecided,
    as_node,
    atom_bounds,
    highest,
    is_known,
    largest,
    lift,
    lower,
    lowest,
    smallest,
    split,
)
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref_fuzz.judge.expressions.points import Points, Problem, difference
from tinyref_fuzz.judge.oracles.span import Values, mask_of
from tinyref_spec.bits import BoolArray
from tinyref_spec.kernel_case import Symptom
from tinyref_spec.proofs.known_ranges import wide_range

_SUMS = frozenset({Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL})
_SIZES = _SUMS | {Ops.MAX}
_ORDERED = frozenset({Ops.MAX, Ops.CMPLT})
_RANGED = ALU | {Ops.IOTA}
# Sizes beyond this are refused sooner or later.
LARGEST = 1 << 40
# What sizes are divided by.
_DIVISORS = (2, 3, 4, 6)
_ARITHMETIC: Mapping[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply}
# Of what is not negative, by what is positive.
_DIVISIONS: Mapping[str, np.ufunc] = {"//": np.floor_divide, "%": np.remainder}


def algebra_problems(points: Points, root: UOp, seen: set[UOp]) -> Iterator[Problem]:
    """What is wrong with what algebra makes of an expression of the kernel, and knows of it.

    Of the nodes in `seen` nothing is asked again; more are added.
    """
    after = simplify(root)
    if text := points.difference(root, after):
        yield Problem("simplify", text)
    for node in root.toposort() if after is root else (*root.toposort(), *after.toposort()):
        if node not in seen and node.op in _RANGED:
            seen.add(node)
            yield from _of_number(points, node)


def _of_number(points: Points, node: UOp) -> Iterator[Problem]:
    if node.dtype.is_int or node.dtype.is_bool:
        yield from _of_range(points, node)
    if node.op is Ops.WHERE:
        condition, chosen, other = node.src
        yield from _behind(points, chosen, condition)
        yield from _behind(points, other, build.logical_not(condition))
    elif node.op is Ops.AND and node.dtype.is_bool:
        yield from _behind(points, *node.src)
        yield from _behind(points, *reversed(node.src))
    elif node.op in _SUMS and node.dtype.is_int:
        yield from _of_sum(points, node)
    if node.op in _SIZES and _is_moderate(node):
        yield from _of_size(points, node)
    if node.op in _ORDERED and all(map(_is_moderate, node.src)):
        yield from _of_order(points, *node.src)
        yield from _of_arithmetic(points, *node.src)


def _of_range(points: Points, node: UOp) -> Iterator[Problem]:
    values = points.known(node)
    if values is None:
        return
    low, high = bounds(node)
    least, most = int(values.min()), int(values.max())
    if least < low or most > high:
        text = f"{node.op.name} from {low} to {high} has values from {least} to {most}"
        yield Problem("ranges", text)
    elif wide := wide_range(node):
        yield Problem("ranges", wide.describe(), Symptom.COST)


def _behind(points: Points, node: UOp, condition: UOp) -> Iterator[Problem]:
    """What a value becomes where a condition is known to hold."""
    held = points.span(condition)
    where: BoolArray = np.asarray(held.low, np.bool_) & ~mask_of(held)
    if not where.any():
        return
    if text := points.difference(node, simplify_with(node, [condition]), where):
        yield Problem("conditions", text)


# --- sums -----------------------------------------------------------------------------------------


def _of_sum(points: Points, node: UOp) -> Iterator[Problem]:
    """A linear form is the node: as integers, or modulo the width of its type."""
    forms = {"exact": exact(node), "modular": modular(node)}
    if forms["exact"] == forms["modular"]:
        del forms["modular"]
    for name, found in forms.items():
        if found is None or node in found.terms:
            continue
        total, unknown = _sum_of(points, found)
        wanted = points.span(node)
        off = np.asarray(wanted.low.astype(object) - total, object)
        if name == "modular" and node.dtype is not dtypes.index:
            off = np.asarray(off % (1 << node.dtype.bits), object)
        wrong = (off != 0) & ~unknown & ~mask_of(wanted)
        if wrong.any():
            number = int(np.flatnonzero(wrong)[0])
            text = f"{name} sum of {node.op.name} is off by {off.reshape(-1)[number]}"
            yield Problem("linear", text)
        low, high = found.range
        known = np.asarray(total[~np.broadcast_to(unknown, total.shape)])
        if known.size and (known.min() < low or known.max() > high):
            yield Problem("linear", f"{name} sum from {low} to {high} leaves that range")


def _sum_of(points: Points, linear: Linear) -> tuple[Values, BoolArray]:
    """The sum as Python's integers, and where it is unspecified."""
    total: Values = np.array(linear.constant, object)
    unknown: BoolArray = np.zeros((), np.bool_)
    for term, factor in linear.terms.items():
        found = points.span(term)
        # Of arrays without axes numpy makes a number, which would be one of 64 bits again.
        total = np.asarray(total + found.low.astype(object) * factor, object)
        unknown = unknown | mask_of(found)
    shape = np.broadcast_shapes(total.shape, unknown.shape)
    return np.broadcast_to(total, shape), np.broadcast_to(unknown, shape)


# --- sizes ----------------------------------------------------------------------------------------


def _is_moderate(node: UOp) -> bool:
    """Whether it is an index of what no buffer holds, and all of it far from what 64 bits hold."""
    return node.dtype is dtypes.index and all(
        each.op is not Ops.LOAD and (each.op not in ALU or max(map(abs, bounds(each))) < LARGEST)
        for each in node.toposort()
    )


def _of_size(points: Points, node: UOp) -> Iterator[Problem]:
    """A size is its normal form, lies within its ends, and is put together from its quotient."""
    extent = lift(node)
    if text := points.difference(node, as_node(lower(extent))):
        yield Problem("sizes", f"normal form: {text}")
    values = points.known(node)
    if values is None:
        return
    low, high = lowest(extent), highest(extent)
    if values.min() < low or values.max() > high:
        yield Problem("sizes", f"ends {low} and {high}, values {values.min()} to {values.max()}")
    yield from _of_natural_size(extent)
    divisor = _DIVISORS[int(values.max()) % len(_DIVISORS)]
    try:
        quotient, rest = split(extent, divisor)
    except Undecided:
        return
    whole, left = _values(points, quotient), _values(points, rest)
    if text := difference(points.span(node), np.asarray(whole * divisor + left)):
        yield Problem("sizes", f"divided by {divisor}: {text}")
    if (left < 0).any() or (left >= divisor).any():
        yield Problem("sizes", f"divided by {divisor}: a rest of {left.min()} to {left.max()}")


def _of_natural_size(extent: Extent) -> Iterator[Problem]:
    """Of a size of atoms that are not negative the ends are known at least as those of its terms.

    Its quotient by a number is known too: no remainder of a term is negative.
    """
    if not isinstance(extent, Polynomial):
        return
    ranges = {atom: atom_bounds(atom) for term in extent.terms for atom in term}
    if any(low < 0 for low, _ in ranges.values()):
        return
    ends = [
        sorted(factor * math.prod(ranges[atom][end] for atom in term) for end in (0, 1))
        for term, factor in extent.terms.items()
    ]
    low, high = map(sum, zip(*ends, strict=True))
    if lowest(extent) < low or highest(extent) > high:
        text = f"ends {lowest(extent)} and {highest(extent)}, by its terms {low} and {high}"
        yield Problem("sizes", text, Symptom.COST)
    try:
        split(extent, _DIVISORS[0])
    except Undecided:
        yield Problem("sizes", "a quotient is not known", Symptom.COST)


def _of_order(points: Points, left: UOp, right: UOp) -> Iterator[Problem]:
    """What is known to be at most another is so, and the larger one is the larger one."""
    first, second = lift(left), lift(right)
    low, high = points.span(left).low, points.span(right).low
    known = is_known(first, second)
    if known is not None and ((low <= high) != known).any():
        yield Problem("sizes", f"at most another one: {known} for certain, and not so")
    if (np.maximum(low, high) != _values(points, largest(first, second))).any():
        yield Problem("sizes", "the larger one of two is another")
    if (np.minimum(low, high) != _values(points, smallest(first, second))).any():
        yield Problem("sizes", "the smaller one of two is another")


def _of_arithmetic(points: Points, left: UOp, right: UOp) -> Iterator[Problem]:
    """What is written with + - * // and % of two sizes is that of their values."""
    first, second = points.span(left).low, points.span(right).low
    operations = dict(_ARITHMETIC)
    if max(map(abs, bounds(left))) * max(map(abs, bounds(right))) >= LARGEST:
        del operations["*"]
    if first.min() >= 0 and second.min() >= 1 and _may_divide(left, right):
        operations |= _DIVISIONS
    for sign, operation in operations.items():
        found = arithmetic(sign, left, right)
        if (operation(first, second) != points.span(as_node(found)).low).any():
            yield Problem("sizes", f"{sign} of two sizes is another")


def _may_divide(left: UOp, right: UOp) -> bool:
    """Whether sizes are divided for all values of their variables: none are bound here."""
    try:
        arithmetic("//", left, right)
    except UserError:
        return False
    return True


def _values(points: Points, extent: Extent) -> Values:
    return np.asarray(points.span(as_node(lower(extent))).low)
