"""Instances of laws: constants in the place of the constants, narrow variables for other leaves.

Rules are fired on them (`conformance`), and the fuzzer puts them into kernels.
"""

from __future__ import annotations

from random import Random

from tinyref.algebra.bounds import bounds
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.rewrite import RuleSet, rewrite
from tinyref.algebra.rules.folding import fold_constants
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import AxisKind
from tinyref_spec.proofs.law import Equation, Law

FOLD = RuleSet([fold_constants], "fold")
CONSTANTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 15, 16, -1, -2, -3, -7)
SPANS = (
    *((0, 1), (0, 2), (0, 3), (0, 6), (1, 5), (0, 13), (3, 3), (4, 7), (9, 16), (20, 40)),
    *((-3, 4), (-9, -1), (-20, 20)),
)


# How many leaves may have any value of their type.
WIDEST = 0.1


def instance(
    law: Law, dtype: DType, source: Random, widest: float = WIDEST, violated: float = 0.0
) -> Equation:
    """The equation at random constants and ranges, what it reads in the place of the leaves.

    Its `reads` are the sums with nothing left to replace. violated: how often a constant that the
    law says is a sum or product is another one, so that its conditions do not hold. Raises
    `UserError` for constants that `dtype` cannot hold.
    """
    leaves = {}
    for name in law.names:
        if name in law.constants and name not in law.sums:
            leaves[name] = _constant(law, name, dtype, source)
        elif name in law.flags or dtype.is_bool or dtype.is_float or name in law.sums:
            leaves[name] = law.leaf(name, dtype)
        else:
            leaves[name] = _variable(name, dtype, source, widest)
    found = law.equation(leaves)
    if not found.reads:
        return found
    sums: dict[UOp, UOp] = {}
    reads = []
    names = {leaf: name for name, leaf in leaves.items()}
    conditions = list(found.given)
    for leaf, total in found.reads:
        reads.append((leaf, substitute(total, sums)))
        sums[leaf] = _computed(reads[-1][1])
        if violated and sums[leaf].op is Ops.CONST and source.random() < violated:
            sums[leaf] = _constant(law, names[leaf], dtype, source)
            conditions.append(build.equal(leaf, total))
    left, right, *given = (
        substitute(part, sums) for part in (found.left, found.right, *conditions)
    )
    return Equation(left, right, tuple(given), reads=tuple(reads))


def folded_instance(
    law: Law, dtype: DType, source: Random, widest: float = WIDEST, violated: float = 0.0
) -> Equation | None:
    """Such an equation, its constants folded; None for one that `dtype` cannot hold."""
    try:
        found = instance(law, dtype, source, widest, violated)
        parts = (found.left, found.right, *found.given)
        left, right, *given = map(_folded, parts)
        has_wrapped = not all(is_exact(total) for _, total in found.reads)
    except UserError:
        return None
    if has_wrapped:
        # The law does not speak of sums that wrap: only the left side can be compared.
        given.append(build.const(dtypes.bool, False))
    return Equation(left, right, tuple(given))


def _folded(part: UOp) -> UOp:
    """With its constants folded. Most have none, and to look is less work than to rewrite."""
    has_any = any(
        node.src and all(source.op is Ops.CONST for source in node.src) for node in part.toposort()
    )
    return rewrite(part, FOLD) if has_any else part


def is_exact(total: UOp) -> bool:
    """True where no part of a sum leaves its type, by the ranges of its leaves."""
    done: dict[UOp, UOp] = {}

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.op in ALU:
            return UOp(node.op, dtypes.index, src)
        # A constant of uint64 may be more than index has, but a variable may have any bounds.
        return build.variable(f"v{len(done)}", *bounds(node))

    rebuild(total, change, done)
    spans = ((node.dtype, *bounds(new)) for node, new in done.items())
    return all(dtype.minimum <= low <= high <= dtype.maximum for dtype, low, high in spans)


def _computed(total: UOp) -> UOp:
    """A sum of constants as a constant, any other one as it is."""
    if any(not node.src and node.op is not Ops.CONST for node in total.toposort()):
        return total
    return build.const(total.dtype, value_of(total, {}))


def _constant(law: Law, name: str, dtype: DType, source: Random) -> UOp:
    choices = dict(law.choices).get(name, CONSTANTS)
    return build.const(
        dtype, bool(source.getrandbits(1)) if dtype.is_bool else source.choice(choices)
    )


def _variable(name: str, dtype: DType, source: Random, widest: float) -> UOp:
    low, high = source.choice(SPANS)
    if dtype.is_unsigned and low < 0:
        low, high = 0, high - low
    if low == 0 and dtype is dtypes.index and source.random() < 0.2:
        return build.counter(high + 1, len(name) + ord(name[0]), AxisKind.LOOP)
    if source.random() < widest and dtype is not dtypes.index:
        low, high = int(dtype.minimum), int(dtype.maximum)
    return build.variable(name, low, high, dtype)
