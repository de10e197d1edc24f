"""Equations that a rule states by itself: its pattern, and what its function makes of it.

The captures of the pattern become variables with every value of their type, also the constants. If
the function has a replacement, pattern == replacement is a law for all values, and its proof covers
the rule's own code. A rule that reads ranges, or the value of a constant, has none: its laws are
written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyref.algebra.bounds import bounds
from tinyref.algebra.named_rules import Pattern, Rule
from tinyref.algebra.op_table import OP_TABLE
from tinyref.dtype import DType, as_const, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import BINARY, CASTS, TERNARY, UNARY, Ops
from tinyref.uops.payload import BufferArg
from tinyref_spec.proofs.law import INTEGERS, VALUES, Equation, Proof
from tinyref_spec.proofs.laws import laws_of

NUMBERS = (*INTEGERS, dtypes.bool)
SCALARS = (*dtypes.all, dtypes.index)
CONST = frozenset({Ops.CONST})
ROOTS = UNARY | BINARY | TERNARY | CASTS
Captures = Mapping[str, UOp]


@dataclass(frozen=True)
class Filler:
    """The values of captures.

    operands: the types of what is compared or cast. constants: CONSTs of a number type.
    has_spans: True if there are also variables with the range of each narrower type.
    """

    operands: tuple[DType, ...]
    constants: Sequence[float] = ()
    has_spans: bool = False

    def fill(
        self, pattern: Pattern, dtype: DType, captures: Captures
    ) -> Iterator[tuple[UOp, Captures]]:
        """Yield every node of `dtype` that the pattern stands for, with its captures."""
        captured = captures.get(pattern.name or "")
        if captured is not None:
            if captured.dtype is dtype:
                yield captured, captures
        elif pattern.when is None or pattern.when(dtype):
            for node, known in self._nodes(pattern, dtype, captures):
                yield node, known if pattern.name is None else {**known, pattern.name: node}

    def _nodes(
        self, pattern: Pattern, dtype: DType, captures: Captures
    ) -> Iterator[tuple[UOp, Captures]]:
        if pattern.value is not None:
            value = pattern.value
            if isinstance(value, float) is dtype.is_float and as_const(value, dtype) == value:
                yield build.const(dtype, value), captures
        elif pattern.ops is None:
            yield from ((leaf, captures) for leaf in self._leaves(dtype, len(captures)))
        elif pattern.ops == CONST:
            yield from ((leaf, captures) for leaf in self._constants(dtype, len(captures)))
        elif pattern.sources is not None:
            for op in sorted(pattern.ops & ROOTS, key=lambda op: op.name):
                for node, known in self._operations(op, pattern.sources, dtype, captures):
                    yield node, known
                    if pattern.any_order:
                        yield UOp(op, dtype, node.src[::-1]), known

    def _variable(self, dtype: DType, number: int) -> UOp:
        if dtype.is_float:
            return UOp(Ops.BUFFER, dtype, (), BufferArg("CPU", 1, number))
        return self._between(dtype, number, int(dtype.minimum), int(dtype.maximum))

    def _between(self, dtype: DType, number: int, low: int, high: int) -> UOp:
        """Return a variable of a range; names fall, so that rules which sort have work."""
        return build.variable("zyxwvu"[number], low, high, dtype)

    def _constants(self, dtype: DType, number: int) -> list[UOp]:
        """Return both bools, or the chosen numbers; for integers also a variable for all."""
        values = (False, True) if dtype.is_bool else self.constants
        constants = [build.const(dtype, as_const(value, dtype)) for value in values]
        return [self._variable(dtype, number), *constants] if dtype.is_int else constants

    def _leaves(self, dtype: DType, number: int) -> list[UOp]:
        """Return the variable of a capture; for bool its negation and both constants too."""
        variable = self._variable(dtype, number)
        if dtype.is_bool:
            constants = self._constants(dtype, number)
            return [variable, build.logical_not(variable), *constants]
        if not dtype.is_int or not self.has_spans:
            return [variable]
        spans = {bounds(variable)}
        for other in INTEGERS:
            for beyond in (0, 1):
                low = max(int(dtype.minimum), int(other.minimum) - beyond)
                spans.add((low, min(int(dtype.maximum), int(other.maximum) + beyond)))
        return [self._between(dtype, number, low, high) for low, high in sorted(spans)]

    def _operations(
        self, op: Ops, sources: tuple[Pattern, ...], dtype: DType, captures: Captures
    ) -> Iterator[tuple[UOp, Captures]]:
        for types in self._types(op, dtype, len(sources)):
            filled: list[tuple[tuple[UOp, ...], Captures]] = [((), captures)]
            for source, operand in zip(sources, types, strict=True):
                filled = [
                    ((*nodes, node), more)
                    for nodes, known in filled
                    for node, more in self.fill(source, operand, known)
                ]
            for nodes, known in filled:
                node = UOp(op, dtype, nodes)
                if OP_TABLE[op].check(node) is None:
                    yield node, known

    def _types(self, op: Ops, dtype: DType, count: int) -> list[tuple[DType, ...]]:
        if op in (Ops.CMPLT, Ops.CMPNE):
            return [(operand, operand) for operand in self.operands]
        if op is Ops.WHERE:
            return [(dtypes.bool, dtype, dtype)]
        if op in CASTS:
            return [(source,) for source in self.operands]
        return [(dtype,) * count]


def is_cast(rule: Rule) -> bool:
    """Return whether the root of the pattern is a cast."""
    return rule.pattern.ops is not None and rule.pattern.ops <= CASTS


def equations(rule: Rule, constants: Sequence[int] = ()) -> Iterator[Equation]:
    """Yield the equations of integers and bools that a rule's pattern and function state.

    They hold for all constants of the rule; with `constants`, also for these, which the function
    may read. A rule that reads ranges gives none, except one without a written law.
    """
    laws = laws_of(rule.name)
    if laws and (rule.domain.needs_bounds or any(law.proof is Proof.INTEGERS for law in laws)):
        return
    for root in NUMBERS if is_cast(rule) else VALUES:
        filler = Filler(NUMBERS, constants, rule.domain.needs_bounds)
        yield from filled_equations(rule, root, filler)


def filled_equations(rule: Rule, root: DType, filler: Filler) -> Iterator[Equation]:
    """Yield every node of type `root` that the pattern stands for, with its replacement."""
    if not rule.domain.dtypes(root):
        return
    for node, captures in filler.fill(rule.pattern, root, {}):
        result = replacement(rule, node, captures)
        if result is not None:
            yield Equation(node, result, tuple(ranges(node)))


def replacement(rule: Rule, node: UOp, captures: Captures) -> UOp | None:
    """Return what the rule makes of a node, also where a variable stands for a constant of it."""
    constants = constants_of(rule.pattern)
    if all(captures[name].op is Ops.CONST for name in constants):
        return rule(node)
    known = {"node": node, **captures}
    result = rule.function(**{name: known[name] for name in rule.parameters})
    return None if result is node else result


def constants_of(pattern: Pattern) -> set[str]:
    """Return the names of the captures that must be constants."""
    names = {name for source in pattern.sources or () for name in constants_of(source)}
    return names | {pattern.name} if pattern.ops == CONST and pattern.name else names


def ranges(*roots: UOp) -> Iterator[UOp]:
    """Yield that each integer leaf is in its range."""
    for leaf in toposort(roots):
        if leaf.op in (Ops.DEFINE_VAR, Ops.RANGE) and leaf.dtype.is_int:
            low, high = bounds(leaf)
            yield build.at_least(leaf, low)
            yield build.at_least(build.const(leaf.dtype, high), leaf)
