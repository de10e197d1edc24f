"""Proved laws of rules over values of the kernel: x = x ^ (left ^ right), both sides of a law.

Nothing of it is left once the compiler makes one expression of both sides; where it lost the rule,
or what the rule believes, the kernel is larger. No value tells that.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import VarArg
from tinyref_fuzz.generate.equivalent.transformation import (
    Domain,
    Draw,
    Transformation,
    rewrite_one,
)
from tinyref_spec.proofs.instances import folded_instance
from tinyref_spec.proofs.kept import PARTLY, counts
from tinyref_spec.proofs.law import Equation, Law
from tinyref_spec.proofs.laws import all_laws

# What stands before the label of a law.
_PREFIX = "law "
# Of conditions that seldom hold, so many instances are drawn for one that counts.
_TRIES = 12
# The first and the last values of narrow leaves: what a mask leaves, and the same beyond a bit, of
# which rules know more than a range; so it is for laws about ranges without 0 or that do not meet.
_RANGES = ((0, 1), (0, 3), (0, 3), (0, 7), (0, 7), (0, 15), (0, 31))
_BEYOND = (*_RANGES, (4, 7), (16, 31))
_APART = frozenset({"div-same", "div-variable", "mod-variable", "max-bounds"})
# So many bits lie between those of two leaves that one value gives.
_APART_BITS = 7
# Leaves of a wider range have any value of their type.
_WIDEST = 127
_VALUES = ALU | {Ops.LOAD, Ops.REDUCE, Ops.IOTA}
_OPAQUE = frozenset({Ops.LOAD, Ops.REDUCE})
_IN_LAWS = ALU | {Ops.CONST, Ops.DEFINE_VAR}
# Rules whose laws' sides become two expressions, of one cost where each is all there is, and one
# whose left side has one value, which is a constant before.
_LEFT_OUT = frozenset({*PARTLY, "div-mod-sum", "mod-from-div", "mod-bounds"})
# Rules of an index alone, whose laws need no more of it than a range; what masks leave of one meets
# other rules besides, as quotients by shifts.
_OF_INDEX = frozenset({"shift-left-index", "shift-right-index"})


@functools.cache
def law_transformations() -> Mapping[str, Sequence[Transformation]]:
    """By rule, a transformation for each law that is about values of kernels."""
    found: dict[str, list[Transformation]] = {}
    for law in all_laws():
        if law.rule not in _LEFT_OUT and _types_of(law):
            found.setdefault(law.rule, []).append(_transformation(law))
    return MappingProxyType({rule: tuple(several) for rule, several in found.items()})


@functools.cache
def law_named(name: str) -> Transformation | None:
    """The transformation of that name, None for no law."""
    several = law_transformations().get(rule_of(name), ())
    return next((each for each in several if each.name == name), None)


def rule_of(name: str) -> str:
    """The rule whose law a transformation is about, "" for any other one."""
    return name.removeprefix(_PREFIX).rpartition(".")[0] if name.startswith(_PREFIX) else ""


def _types_of(law: Law) -> tuple[DType, ...]:
    """The types of kernels for which the law is proved, where it is arithmetic on one lane."""
    nodes = [node for dtype in law.over[:1] for node in _nodes(law.general(dtype))]
    if any(node.op not in _IN_LAWS or node.dtype.lanes > 1 for node in nodes):
        return ()
    return tuple(dtype for dtype in law.over if dtype is not dtypes.index or law.rule in _OF_INDEX)


def _nodes(equation: Equation) -> list[UOp]:
    return [*equation.left.toposort(), *equation.right.toposort()]


def _transformation(law: Law) -> Transformation:
    def in_kernel(sink: UOp, draw: Draw) -> UOp | None:
        equation = _instance(law, draw)
        if equation is None or folds_reduces(sink):
            return None
        sites = [node for node in sink.toposort() if _is_site(node)]
        return rewrite_one(sink, sites, draw, lambda node, draw: _with(equation, node, draw))

    sentence = f"x = x ^ (left ^ right), where {law.sentence}"
    return Transformation(f"{_PREFIX}{law.label}", sentence, Domain.BITS, in_kernel, "laws")


def folds_reduces(sink: UOp) -> bool:
    """Whether a sum of a kernel may choose one position: it is folded before any rule fires."""
    ops = {node.op for node in sink.toposort()}
    return Ops.IOTA in ops and Ops.REDUCE in ops


def _is_site(node: UOp) -> bool:
    return node.op in _VALUES and Domain.BITS.admits(node.dtype, exact_floats=False)


def is_operand(node: UOp) -> bool:
    """Whether it is a value of which rules know no more than its type, unless it is a constant."""
    return node.op in _OPAQUE and _is_site(node)


def _instance(law: Law, draw: Draw) -> Equation | None:
    """The law at constants of the tape, its conditions true for all values of its leaves."""
    has = draw.dtypes | {dtypes.index} if law.rule in _OF_INDEX else draw.dtypes
    types = [dtype for dtype in _types_of(law) if dtype in has]
    if not types:
        return None
    dtype, source = draw.tape.pick(types), Random(draw.tape.below(1 << 16))
    for _ in range(_TRIES):
        found = folded_instance(law, dtype, source)
        if found is None or any(node.dtype not in has for node in _nodes(found)):
            continue
        found = _masked(found, source, _BEYOND if law.rule in _APART else _RANGES)
        if counts(found):
            return found
    return None


def _masked(equation: Equation, source: Random, ranges: Sequence[tuple[int, int]]) -> Equation:
    """The equation with leaves that have all values of their type, or those of a few bits.

    Of a kernel's values, rules know no more of such a one than its range. No leaf is a counter.
    """
    leaves = {
        leaf: build.variable(f"v{number}", *source.choice(ranges), leaf.dtype)
        for number, leaf in enumerate(_leaves(equation))
        if leaf.op is Ops.RANGE or _is_narrow(leaf)
    }
    left, right, *given = (
        substitute(part, leaves) for part in (equation.left, equation.right, *equation.given)
    )
    return Equation(left, right, tuple(given))


def _is_narrow(leaf: UOp) -> bool:
    """Whether it is an integer in a narrow range."""
    if leaf.dtype.is_bool or not isinstance(leaf.arg, VarArg):
        return False
    return leaf.arg.maximum - leaf.arg.minimum <= _WIDEST


def _with(equation: Equation, node: UOp, draw: Draw) -> UOp | None:
    """`node`, and the law over values of its shape below it."""
    shape = kernel_shape(node)
    below = [each for each in node.toposort() if is_operand(each) and kernel_shape(each) == shape]
    uses: Counter[UOp] = Counter()
    values: dict[UOp, UOp] = {}
    for leaf in _leaves(equation):
        fitting = [each for each in below if _fits(leaf, each, uses[each])]
        if not fitting:
            return None
        chosen = draw.tape.pick(fitting)
        values[leaf] = _value(leaf, chosen, uses[chosen])
        uses[chosen] += 1
    left, right = (substitute(side, values) for side in (equation.left, equation.right))
    nothing = build.binary(Ops.XOR, left, right)
    return build.binary(Ops.XOR, node, build.cast(nothing, node.dtype))


def _fits(leaf: UOp, value: UOp, uses: int) -> bool:
    """Whether rules know no more of `value` than of the leaf, nor of its other uses."""
    if _is_narrow(leaf):
        bits = min(value.dtype.bits, leaf.dtype.bits)
        return not value.dtype.is_bool and _APART_BITS * (uses + 1) <= bits
    return uses == 0 and (value.dtype is leaf.dtype or leaf.dtype.is_bool)


def _leaves(equation: Equation) -> list[UOp]:
    found = dict.fromkeys(_nodes(equation))
    return [node for node in found if node.op in (Ops.DEFINE_VAR, Ops.RANGE)]


def _value(leaf: UOp, value: UOp, uses: int) -> UOp:
    """`value` in the type and the range of a leaf: other bits of it each time."""
    found = build.cast(value, leaf.dtype)
    if isinstance(leaf.arg, VarArg) and _is_narrow(leaf):
        low = leaf.arg.minimum
        if uses:
            found = build.binary(Ops.SHR, found, as_const(_APART_BITS * uses, leaf.dtype))
        found = build.both(found, as_const(leaf.arg.maximum - low, leaf.dtype))
        return build.either(found, as_const(low, leaf.dtype)) if low else found
    return found
