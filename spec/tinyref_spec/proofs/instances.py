"""Instances of laws: constants in the place of the constants, narrow variables for other leaves.

Rules are fired on them (`conformance`), and the fuzzer puts them into kernels.
"""

from __future__ import annotations

from random import Random

from tinyref.algebra.evaluate import value_of
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref_spec.proofs.law import Equation, Law

CONSTANTS = (0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 15, 16, -1, -2, -3, -7)
SPANS = (
    *((0, 1), (0, 2), (0, 3), (0, 6), (1, 5), (0, 13), (3, 3), (4, 7), (9, 16), (20, 40)),
    *((-3, 4), (-9, -1), (-20, 20)),
)


def instance(law: Law, dtype: DType, source: Random) -> Equation:
    """The equation at random constants and ranges, what it reads in the place of the leaves.

    Its `reads` are the sums with nothing left to replace. Raises `UserError` for constants that
    `dtype` cannot hold.
    """
    leaves = {}
    for name in law.names:
        if name in law.constants and name not in law.sums:
            leaves[name] = _constant(law, name, dtype, source)
        elif name in law.flags or dtype.is_bool or dtype.is_float or name in law.sums:
            leaves[name] = law.leaf(name, dtype)
        else:
            leaves[name] = _variable(name, dtype, source)
    found = law.equation(leaves)
    if not found.reads:
        return found
    sums: dict[UOp, UOp] = {}
    reads = []
    for leaf, total in found.reads:
        reads.append((leaf, substitute(total, sums)))
        sums[leaf] = _computed(reads[-1][1])
    left, right, *given = (
        substitute(part, sums) for part in (found.left, found.right, *found.given)
    )
    return Equation(left, right, tuple(given), reads=tuple(reads))


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


def _variable(name: str, dtype: DType, source: Random) -> UOp:
    low, high = source.choice(SPANS)
    if dtype.is_unsigned and low < 0:
        low, high = 0, high - low
    if low == 0 and dtype is dtypes.index and source.random() < 0.2:
        return build.counter(high + 1, len(name) + ord(name[0]), AxisKind.LOOP)
    if source.random() < 0.1 and dtype is not dtypes.index:
        low, high = int(dtype.minimum), int(dtype.maximum)
    return build.variable(name, low, high, dtype)
