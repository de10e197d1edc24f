"""Simplifications that must not be lost: the left side of a law becomes no larger than its right.

And none may be wrong: where the conditions of a law do not hold, its left side, which has the form
that the rule looks for, keeps its values as well.

A rule that no longer fires changes no value, only what a kernel costs. A law says what is owed:
whoever writes its left side pays for its right side, once both are simplified, and a left side that
is another expression of the same size is not left as it was. Nothing is recorded: where the
compiler improves, both sides do.

An instance of a law counts where it is its rule that has to be applied: the conditions of the law
hold for all values in the ranges of the leaves, nothing wraps, and no other rule takes away a part
of the left side before. That the conditions hold is not asked of the compiler, which would lose its
rules together with what it knows of ranges: all values are tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import evaluate_expression
from tinyref.algebra.simplify import simplify, simplify_with
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.formats.text import to_text
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref_spec.proofs.instances import folded_instance, is_exact
from tinyref_spec.proofs.known_ranges import WrongRange
from tinyref_spec.proofs.law import Equation, Law

# What is always written as a sum, whatever the rule of the law does.
_SUMS = frozenset({Ops.SUB, Ops.NEG})
# What may leave a type.
_WRAPPING = frozenset({Ops.ADD, Ops.MUL, *_SUMS})
_DIVISIONS, _DIVISION = frozenset({Ops.IDIV, Ops.MOD}), 8
# Rules that are for fewer nodes than their laws, and which; elsewhere their left sides may stay.
PARTLY = {
    "int-distribute": "of index alone",
    "int-mulacc": "of index alone",
    "lt-first": "of remainders alone",
    "mod-inner-mod": "inside of another remainder",
    "fold-range": "of operations, not of leaves",
}
# With no more combinations of values than that, all of them are tried.
_MOST_VALUES = 20_000
# Of conditions that seldom hold, so many instances are drawn for each that counts.
_MOST_DRAWN = 20


@dataclass(frozen=True)
class Lost:
    """A left side that became larger than the right one; both as they were before."""

    law: Law
    left: UOp
    right: UOp
    given: tuple[UOp, ...] = ()

    def describe(self) -> str:
        """In one sentence."""
        sides = (simplify_with(side, self.given) for side in (self.left, self.right))
        have, want = map(operations, sides)
        return (
            f"rule {self.law.rule} no longer fires, or to no end: {self.left.dtype.name} of "
            f"{have} operations, of which {self.law.sentence} makes another one of {want}"
        )

    def script(self) -> str:
        """A program that shows it by itself."""
        lines = [
            "from tinyref.algebra.simplify import simplify_with",
            "from tinyref.formats.text import from_text, to_text",
            "",
            f"# {self.law.label}: {self.law.sentence}",
            "given = []",
        ]
        for condition in self.given:
            lines += ['given.append(from_text("""', to_text(condition).rstrip(), '"""))']
        for name, side in (("left", self.left), ("right", self.right)):
            lines += [f'{name} = from_text("""', to_text(side).rstrip(), '""")']
            lines += [f"print('{name} becomes')", f"print(to_text(simplify_with({name}, given)))"]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Changed:
    """An expression that has another value once it is simplified.

    what: what it is, in words.
    """

    what: str
    node: UOp
    leaves: Mapping[UOp, int]
    wanted: int
    got: int

    def describe(self) -> str:
        """In one sentence."""
        where = ", ".join(f"{_name(leaf)} = {value}" for leaf, value in self.leaves.items())
        return (
            f"{self.what} of {self.node.dtype.name} gives {self.got} instead of {self.wanted} "
            f"for {where}, once it is simplified"
        )

    def script(self) -> str:
        """A program that shows it by itself."""
        return (
            "from tinyref.algebra.simplify import simplify\n"
            "from tinyref.formats.text import from_text, to_text\n\n"
            f"# {self.describe()}\n"
            f'node = from_text("""\n{to_text(self.node)}""")\n'
            "print(to_text(simplify(node)))\n"
        )


def operations(node: UOp) -> int:
    """How many operations there are in an expression: a quotient or remainder is as many as eight.

    What is used twice counts once.
    """
    return sum(_DIVISION if each.op in _DIVISIONS else 1 for each in node.toposort() if each.src)


def lost_simplification(law: Law, equation: Equation) -> Lost | None:
    """The loss that an instance shows, one of those that count; None where it shows none."""
    left, right = simplify(equation.left), simplify(equation.right)
    if left is right:
        return None
    is_larger = operations(left) > operations(right)
    # Another expression of the same size may come of other rules, but not of none.
    is_left_alone = left is equation.left.with_sources(tuple(map(simplify, equation.left.src)))
    if is_larger or (is_left_alone and law.rule not in PARTLY):
        return Lost(law, equation.left, equation.right)
    return None


def lost_under_conditions(law: Law, equation: Equation) -> Lost | None:
    """The loss where the conditions of the law are those of a gate, see `drawn_gated`."""
    left, right = (simplify_with(each, equation.given) for each in (equation.left, equation.right))
    if left is right or operations(left) <= operations(right):
        return None
    return Lost(law, equation.left, equation.right, equation.given)


def changed_value(node: UOp, what: str) -> Changed | WrongRange | None:
    """Values of the leaves, among some, for which `node` is another number once it is simplified.

    Or a range that is known of it, and leaves out values. None for neither, and for what is no
    expression of integers over leaves with numbers. `what` says in words what the node is.
    """
    simple = simplify(node)
    nodes = toposort((node, simple))
    if not node.src or not all(_has_numbers(each) for each in nodes):
        return None
    leaves = [each for each in nodes if each.op in _LEAVES]
    grids = _grid([_some_values(leaf, len(leaves)) for leaf in leaves], leaves)
    values = np.asarray(evaluate_expression(node, grids))
    found = int(values.min()), int(values.max())
    low, high = bounds(node)
    if low > found[0] or found[1] > high:
        return WrongRange(node, (low, high), found)
    if simple is node:
        return None
    got, wanted = np.broadcast_arrays(evaluate_expression(simple, grids), values)
    if np.array_equal(got, wanted):
        return None
    place = tuple(np.argwhere(got != wanted)[0])
    numbers = {leaf: int(np.broadcast_to(grid, got.shape)[place]) for leaf, grid in grids.items()}
    return Changed(what, node, numbers, int(wanted[place]), int(got[place]))


def _has_numbers(node: UOp) -> bool:
    if not (node.dtype.is_int or node.dtype.is_bool) or node.dtype.lanes > 1:
        return False
    if node.dtype is dtypes.index and not _is_index(*bounds(node)):
        return False  # what an index may not be: how it wraps is not specified
    return node.op in ALU or node.op in (Ops.CONST, *_LEAVES)


def _is_index(low: int, high: int) -> bool:
    return dtypes.index.minimum <= low and high <= dtypes.index.maximum


def _name(leaf: UOp) -> str:
    return leaf.arg.name if isinstance(leaf.arg, VarArg) else "counter"


def counts(equation: Equation) -> bool:
    """Whether it is the law's rule that has to be applied, see above."""
    left = equation.left
    nodes = left.toposort()
    parts = [node for node in nodes if node is not left and node.op is not Ops.CONST]
    grids = _all_values(_leaves_of(equation))
    if equation.given and not _holds(equation.given, grids):
        return False
    known = dict(grids or {})
    if any(_has_one_value(part, known) or _is_taken_away(part) for part in parts):
        return False
    return not _may_wrap(left) or _is_exact(equation)


# Of the leaves of a left side whose conditions need not hold, so many have any value.
_WIDEST = 0.4
# Leaves with numbers that are known; what is read from memory has none.
_LEAVES = frozenset({Ops.DEFINE_VAR, Ops.RANGE})
Grids = Mapping[UOp, npt.NDArray[np.generic]]
# So many values of all leaves together are tried where those of one instance are compared.
_SOME_VALUES = 400


def _leaves_of(equation: Equation) -> list[UOp]:
    every = toposort((equation.left, *equation.given))
    return [node for node in every if node.op in _LEAVES]


def _all_values(leaves: Sequence[UOp]) -> Grids | None:
    """All values of the leaves together; None for too many of them."""
    spans = [_span(leaf) for leaf in leaves]
    if math.prod(high - low + 1 for low, high in spans) > _MOST_VALUES:
        return None
    return _grid([range(low, high + 1) for low, high in spans], leaves)


def _grid(values: Sequence[Sequence[int]], leaves: Sequence[UOp]) -> Grids:
    arrays = (
        np.array(each, numpy_dtype(leaf.dtype)) for leaf, each in zip(leaves, values, strict=True)
    )
    return dict(zip(leaves, np.meshgrid(*arrays, indexing="ij", sparse=True), strict=True))


def _some_values(leaf: UOp, count: int) -> Sequence[int]:
    """All values of a leaf where `count` such leaves have few, else the ends, zero, and others."""
    low, high = _span(leaf)
    most = max(int(_SOME_VALUES ** (1 / count)), 4)
    if high - low < most:
        return range(low, high + 1)
    known = {low, low + 1, -1, 0, 1, high - 1, high}
    spread = range(low, high + 1, -(-(high - low) // most))
    return sorted(value for value in {*known, *spread} if low <= value <= high)


def _span(leaf: UOp) -> tuple[int, int]:
    if isinstance(leaf.arg, VarArg):
        return int(leaf.arg.minimum), int(leaf.arg.maximum)
    bound = leaf.src[0].arg
    return 0, int(bound.value) - 1 if isinstance(bound, ConstArg) else _MOST_VALUES


def _holds(conditions: Sequence[UOp], grids: Grids | None) -> bool:
    where = _where(conditions, grids)
    return where is not None and bool(np.all(where))


def _where(conditions: Sequence[UOp], grids: Grids | None) -> npt.NDArray[np.bool_] | None:
    """For which values all conditions hold; None where that is not known."""
    if grids is None or not all(_is_expression(each) for each in conditions):
        return None
    holds = np.ones((), np.bool_)
    for each in conditions:
        holds = holds & np.asarray(evaluate_expression(each, grids)).astype(np.bool_)
    return holds


def _is_expression(node: UOp) -> bool:
    return all(each.op in ALU or each.op in (Ops.CONST, *_LEAVES) for each in node.toposort())


def _has_one_value(node: UOp, known: dict[UOp, npt.NDArray[np.generic]]) -> bool:
    """Whether a node is always one number; its values are added to those of its sources."""
    if node.op in _LEAVES:
        low, high = _span(node)
        return low == high
    sources = (source for source in node.src if source.op is not Ops.CONST)
    if node.op not in ALU or not all(source in known for source in sources):
        return False
    values = known[node] = np.asarray(evaluate_expression(node, known))
    return bool(np.all(values == values.flat[0]))


def _is_taken_away(node: UOp) -> bool:
    """Whether another rule makes another operation of a part."""
    return node.op in ALU and node.op not in _SUMS and simplify(node).op is not node.op


def _may_wrap(left: UOp) -> bool:
    nodes = left.toposort()
    has_sum = any(node.op in _WRAPPING and node.dtype is not dtypes.index for node in nodes)
    return has_sum and any(node.dtype.is_int for node in nodes) and _is_expression(left)


def _is_exact(equation: Equation) -> bool:
    # A difference of unsigned numbers is a sum with one that is close to 2**n.
    nodes = equation.left.toposort()
    if any(node.op in _SUMS and node.dtype.is_unsigned for node in nodes):
        return False
    return is_exact(equation.left) and is_exact(equation.right)


def drawn_left(law: Law, dtype: DType, seed: int | str, count: int) -> Iterator[UOp]:
    """Left sides of `count` random instances of `law`, whether its conditions hold or not.

    Many of their leaves have any value of their type, so that sums and products wrap.
    """
    source = Random(f"{seed} {law.label} {dtype.name} left")
    every = (folded_instance(law, dtype, source, _WIDEST) for _ in range(count))
    return (equation.left for equation in every if equation is not None)


def drawn(law: Law, dtype: DType, seed: int | str, count: int) -> Iterator[Equation]:
    """`count` random instances of `law` that count; fewer where few do."""
    source = Random(f"{seed} {law.label} {dtype.name}")
    every = (folded_instance(law, dtype, source) for _ in range(_MOST_DRAWN * count))
    counting = (each for each in every if each is not None and counts(each))
    return itertools.islice(counting, count)


def drawn_gated(law: Law, dtype: DType, seed: int | str, count: int) -> Iterator[Equation]:
    """Random instances of `law` whose conditions hold for some values of the leaves, not for all.

    So they are what a gate says of what stands behind it. Up to `count` of them.
    """
    source = Random(f"{seed} {law.label} {dtype.name} gated")
    every = (folded_instance(law, dtype, source) for _ in range(_MOST_DRAWN * count))
    gated = (each for each in every if each is not None and each.given and _is_gate(each))
    return itertools.islice(gated, count)


def _is_gate(equation: Equation) -> bool:
    where = _where(equation.given, _all_values(_leaves_of(equation)))
    return where is not None and bool(where.any()) and not bool(where.all())
