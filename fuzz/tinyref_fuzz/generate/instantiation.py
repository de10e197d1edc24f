"""Expressions that a given rewriting rule matches: the left side of its law, of a kernel's values.

Random trees seldom look like two selects that share a condition or like x // 3 % 12 // 4. The laws
that are proved of a rule (`tinyref_spec.proofs`) say what it looks for: an instance is the left
side of one of them, its constants drawn, its leaves filled with values of the kernel. Where a rule
is right by a condition, a template makes instances at the edge of it: there a rule that asks for
too little shows, ten times as often as on the law at random constants and ranges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.rewrite.rule import Rule
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import DType, as_const, dtypes
from tinyref.errors import TinyrefError
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import VarArg
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.proofs import float_laws, instances, laws
from tinyref_spec.proofs.float_laws import FloatLaw
from tinyref_spec.proofs.law import Equation, Law

# A value of the kernel that has the type.
Leaf = Callable[[DType], UOp]

# Rules whose left side is any integer: of a range of one number, or of constants.
_ANYWHERE = frozenset({"fold-constants", "fold-range"})
# What the leaves of laws are, and the constants; all else on a left side must be arithmetic.
_LEAVES = frozenset({Ops.CONST, Ops.DEFINE_VAR, Ops.BUFFER})
# Where the ranges of small values and of what is made of them end.
_ENDS = (0, 1, 3, 4, 7, 8, 15, 16, -1, -4, -8, 49, 64)


@dataclass(frozen=True)
class _Form:
    """A law of a rule, with leaves of one type."""

    law: Law | FloatLaw
    dtype: DType


def instantiable_rules(dtype_choice: Iterable[DType]) -> tuple[Rule, ...]:
    """The rules that have an instance in kernel ASTs whose values have these types, by name."""
    chosen = tuple(dtype_choice)
    return tuple(rule for rule in ALL_RULES.rules if _has_instances(rule, chosen))


@functools.cache
def _has_instances(rule: Rule, chosen: tuple[DType, ...]) -> bool:
    if rule.name in _ANYWHERE:
        return any(kind.is_int for kind in chosen)
    # The first form is enough: all forms of all rules take longer than a kernel.
    return next(_possible_forms(rule, chosen), None) is not None


@functools.cache
def _forms(rule: Rule, chosen: tuple[DType, ...]) -> tuple[_Form, ...]:
    """The laws of `rule` whose left side can be made of values of these types."""
    return tuple(_possible_forms(rule, chosen))


def _possible_forms(rule: Rule, chosen: tuple[DType, ...]) -> Iterator[_Form]:
    every: list[Law | FloatLaw] = [*laws.laws_of(rule.name), *float_laws.laws_of(rule.name)]
    return (
        _Form(law, dtype)
        for law in every
        for dtype in chosen
        if _speaks_of(law, dtype) and _stands_in_asts(rule, _general(law, dtype), chosen)
    )


def _speaks_of(law: Law | FloatLaw, dtype: DType) -> bool:
    """Whether a law is about values of a type: it is proved for that one, or for its kind."""
    if isinstance(law, FloatLaw):
        return dtype.is_float
    if len(law.over) == 1:
        return dtype in law.over
    if dtype.is_int:
        return any(each.is_int and each.is_unsigned == dtype.is_unsigned for each in law.over)
    # What holds for integers and bools alike is about values, of which floats are some.
    return dtypes.bool in law.over and not (dtype.is_float and _general(law, dtype).dtype.is_bool)


def _general(law: Law | FloatLaw, dtype: DType) -> UOp:
    if isinstance(law, FloatLaw):
        return law.left(*(float_laws.float_leaf(at, dtype) for at in range(law.leaves)))
    equation = law.general(dtype)
    return substitute(equation.left, dict(equation.reads))


def _stands_in_asts(rule: Rule, left: UOp, chosen: tuple[DType, ...]) -> bool:
    """Whether a node is arithmetic on these types, with a root that the rule takes."""
    if left.op not in (rule.pattern.ops or ALU) or not rule.domain.dtypes(left.dtype):
        return False
    return all(
        node.op in _LEAVES or (node.op in ALU and node.dtype in chosen and _is_typed(node))
        for node in left.toposort()
    )


def _is_typed(node: UOp) -> bool:
    return OP_TABLE[node.op].check(node) is None


def _drawn(form: _Form, tape: Tape) -> Equation:
    """A law over variables."""
    law, dtype = form.law, form.dtype
    if isinstance(law, FloatLaw):
        leaves = [float_laws.float_leaf(at, dtype) for at in range(law.leaves)]
        if law.constant:
            leaves[-1] = build.const(dtype, float(tape.pick(instances.CONSTANTS)))
        left = law.left(*leaves)
        return Equation(left, left)
    return instances.instance(law, dtype, Random(tape.below(1 << 16)))


def _range_of(variable: UOp) -> tuple[int, int]:
    if not isinstance(variable.arg, VarArg):
        raise TypeError(f"{variable.op.name} is no variable")
    return int(variable.arg.minimum), int(variable.arg.maximum)


@dataclass(frozen=True)
class _Values:
    """Values of the kernel, of these types, brought into ranges."""

    tape: Tape
    chosen: tuple[DType, ...]
    leaf: Leaf

    def filled(self, equation: Equation) -> UOp:
        """The left side with a value of the kernel for each of its leaves."""
        left = equation.left
        leaves = [node for node in left.toposort() if node.op in (Ops.DEFINE_VAR, Ops.BUFFER)]
        bounding = (*equation.given, *(total for _, total in equation.reads))
        bounded = {node for part in bounding for node in part.toposort()}
        return substitute(left, {node: self.value(node, node in bounded) for node in leaves})

    def value(self, leaf: UOp, is_bounded: bool) -> UOp:
        """A value of the type of `leaf`: in its range where that counts, else often any."""
        dtype = leaf.dtype
        if not dtype.is_int or (not is_bounded and self.tape.below(3)):
            return self.leaf(dtype)
        low, high = _range_of(leaf)
        size = high - low + 1
        if size >= 1 << (dtype.bits - 1):
            return self.leaf(dtype)
        if size == 2 and dtypes.bool in self.chosen and self.tape.below(2):
            found = build.cast(self.leaf(dtypes.bool), dtype)
        elif size & (size - 1) == 0:
            found = build.both(self.leaf(dtype), as_const(size - 1, dtype))
        else:
            found = build.mod(build.both(self.leaf(dtype), 127), size)
        return found if low == 0 else build.add(found, as_const(low, dtype))


class _Templates:
    """Instances at the edge of a condition: of rules that look at sums, ranges and constants."""

    def __init__(self, tape: Tape, chosen: tuple[DType, ...], leaf: Leaf) -> None:
        self.tape = tape
        self.leaf = leaf
        self.types = chosen
        integers = [kind for kind in chosen if kind.is_int]
        self.dtype = tape.pick(integers) if integers else dtypes.bool

    def small(self, most: int) -> UOp:
        """A value from 0 to `most`, one less than a power of two."""
        return build.both(self.leaf(self.dtype), as_const(most, self.dtype))

    def upto(self, most: int) -> UOp:
        """A value from 0 to `most`."""
        if most & (most + 1) == 0:
            return self.small(most)
        return build.mod(self.small(127), most + 1)

    def sum(self, factor: int, below: int) -> UOp:
        """x * factor + y with y from 0 to `below`; not negative, and nothing wraps."""
        return build.add(build.mul(self.small(7), factor), self.upto(below))

    def rest(self, factor: int) -> int:
        """The largest rest, mostly one at which it is decided whether it is below `factor`."""
        return self.tape.pick((factor - 1, factor - 1, factor, 1))

    def factors(self) -> tuple[int, int]:
        """A factor and a divisor that share one."""
        return self.tape.pick(((4, 4), (8, 4), (4, 8), (4, 2), (8, 7), (12, 4), (6, 12), (9, 8)))

    def quotient(self, op: Ops) -> UOp:
        factor, divisor = self.factors()
        total = self.sum(factor, self.rest(factor))
        if self.tape.below(3) == 2:
            total = build.add(total, self.tape.between(1, 9))
        if self.tape.below(4) == 3 and not self.dtype.is_unsigned:
            total = build.sub(total, self.tape.between(1, 9))
        return build.binary(op, total, divisor)

    def remainder_of(self, op: Ops) -> UOp:
        """x % m % d or x % m // d, where d divides m or not, of any sign."""
        divisor, times = self.tape.between(2, 9), self.tape.between(2, 6)
        modulus = divisor * times + self.tape.pick((0, 0, 1, -1))
        left = build.mod(self.leaf(self.dtype), self.signed(modulus))
        return build.binary(op, left, self.signed(divisor))

    def signed(self, number: int) -> int:
        """The number, seldom its negative: most rules on divisors are of positive ones alone."""
        return -number if not self.dtype.is_unsigned and self.tape.below(6) == 5 else number

    def divided_twice(self) -> UOp:
        """x // c // d, where the type holds c * d or not."""
        x = self.leaf(self.dtype)
        inner = build.idiv(x, self.signed(self.divisor()))
        return build.idiv(inner, self.signed(self.divisor()))

    def divisor(self) -> int:
        # Of the last ones two have a product that the type just holds, or does not.
        half = 1 << (self.dtype.bits // 2) if self.dtype.is_int else 1
        sizes = (2, 3, 4, 7, 12, 15, 16, 63, 64, 100, 127, half, half - 1, half, half // 2 or 1)
        return self.tape.pick(sizes)

    def divided_sum(self) -> UOp:
        """(x // c + e) // d of an x that is not negative, as the rule asks, or of any sign."""
        x = self.upto(self.tape.pick((15, 63, 127)))
        if not self.dtype.is_unsigned and self.tape.below(2):
            x = build.sub(x, self.tape.between(1, 40))
        inner = build.add(build.idiv(x, self.tape.between(2, 5)), self.tape.between(1, 5))
        return build.idiv(inner, self.tape.between(2, 5))

    def near_divisor(self) -> UOp:
        """x % c of a narrow x whose quotients are one number, or nearly so."""
        least, width = self.tape.between(0, 9), self.tape.pick((1, 3, 7))
        x = build.add(self.small(width), least)
        most = least + width
        return build.mod(x, max(1, self.tape.pick((most, most + 1, least, most + 2, least + 1))))

    def quotient_below(self) -> UOp:
        """x // c < d of any signs."""
        low = 0 if self.dtype.is_unsigned else -5
        quotient = build.idiv(self.leaf(self.dtype), self.signed(self.tape.between(2, 9)))
        return build.less(quotient, self.tape.between(low, 5))

    def quotient_not_zero(self) -> UOp:
        x = self.leaf(self.dtype) if self.dtype.is_unsigned else self.around_zero()
        return build.not_equal(build.idiv(x, self.signed(self.tape.between(2, 9))), 0)

    def sums_compared(self) -> UOp:
        """x + c < y + d of small values, where nothing wraps, or a part of it."""
        low = 0 if self.dtype.is_unsigned else -9
        x, y = self.around_zero(), self.around_zero()
        c, d = (as_const(self.tape.between(low, 9), self.dtype) for _ in range(2))
        left = build.add(x, c) if self.tape.below(3) else build.sub(as_const(d, self.dtype), x)
        return build.less(left, build.add(y, d) if self.tape.below(2) else as_const(d, self.dtype))

    def first(self) -> UOp:
        """x % c < 1 of an x that is natural, as the rule asks, or of any sign."""
        x = self.upto(15) if self.tape.below(2) else self.around_zero()
        return build.less(build.mod(x, self.tape.between(2, 6)), 1)

    def larger_compared(self) -> UOp:
        x = build.maximum(self.leaf(self.dtype), self.tape.between(0, 9))
        return build.less(x, self.tape.between(0, 12))

    def low_bits(self) -> UOp:
        """x & (2**n - 1) of a narrow x, which may be negative."""
        return build.both(self.around_zero(), as_const(self.tape.pick((3, 7, 15)), self.dtype))

    def cast_twice(self, is_narrow: bool) -> UOp:
        """A value cast to one type and to another, of which each may be narrower, or unsigned."""
        wide = [kind for kind in self.types if not kind.is_bool]
        integers = [kind for kind in wide if kind.is_int]
        is_near = is_narrow or self.tape.below(2)
        x = self.around_zero() if is_near else self.leaf(self.tape.pick(wide))
        inner = self.tape.pick(integers if x.dtype.is_int else wide)
        outer = self.tape.pick(integers if inner.is_int and self.tape.below(3) else wide)
        return build.cast(build.cast(x, inner), outer)

    def quotient_of_sum(self) -> UOp:
        """(x * 8 + y) // 7 and the like, where x and y together are less than the divisor."""
        divisor = self.tape.pick((7, 9))
        total = build.add(build.mul(self.small(3), divisor + 1), self.small(3))
        if self.tape.below(2):
            total = build.add(total, self.tape.between(1, 3 * divisor))
        return build.idiv(total, divisor)

    def inner_remainder(self) -> UOp:
        modulus, divisor = self.tape.pick(((6, 3), (12, 4), (8, 8), (10, 5), (6, 4)))
        inner = build.mod(self.small(15), modulus)
        return build.mod(build.add(inner, self.small(3)), divisor)

    def scaled_comparison(self) -> UOp:
        factor, divisor = self.factors()
        left = self.sum(factor, self.rest(factor))
        if self.tape.below(2):
            limit: UOp | int = self.tape.between(1, 40)
        else:
            limit = build.mul(self.small(7), divisor)
        return build.less(left, limit)

    def unequal(self) -> UOp:
        factor = self.tape.between(2, 6)
        x, y = self.small(15), self.small(7)
        return build.not_equal(build.mul(x, factor), build.add(build.mul(y, factor), self.limit()))

    def limit(self) -> int:
        return self.tape.between(0, 13)

    def larger(self) -> UOp:
        x = self.small(15)
        offset = self.tape.between(1, 9)
        if self.dtype.is_unsigned or self.tape.below(2):
            return build.maximum(x, build.add(x, offset))
        return build.maximum(build.sub(x, offset), x)

    def disjoint_ranges(self) -> UOp:
        low = self.small(3)
        return build.maximum(low, build.add(self.small(7), self.tape.between(1, 5)))

    def quotient_and_rest(self) -> UOp:
        """x // c * c + x % c, or a part of it, or of a remainder of it."""
        x, c, d = self.leaf(self.dtype), self.tape.between(2, 9), self.tape.between(2, 5)
        c = self.signed(c)
        whole, rest = build.idiv(x, c), build.mod(x, c)
        choice = self.tape.below(3)
        if choice == 0:
            return build.add(build.mul(whole, c), rest)
        if choice == 1:
            return build.add(build.mul(build.mod(whole, d), c), rest)
        return build.sub(x, build.mul(whole, c))

    def quotient_of_same(self) -> UOp:
        x = build.add(self.small(7), 1)
        return build.idiv(x, x)

    def below_variable(self, op: Ops) -> UOp:
        """x // y or x % y of a y that is larger than x, or nearly so; x may be negative."""
        x = self.small(3) if self.tape.below(2) else self.around_zero()
        return build.binary(op, x, build.add(self.small(7), self.tape.between(1, 6)))

    def around_zero(self) -> UOp:
        """A narrow value around 0, where the type has negative ones."""
        narrow = self.small(self.tape.pick((3, 7, 15)))
        if self.dtype.is_unsigned or self.tape.below(3) == 0:
            return narrow
        return build.sub(narrow, self.tape.between(1, 9))

    def constant_range(self) -> UOp:
        """A comparison of a value of known range with a number near the ends of that range."""
        x, y = self.around_zero(), self.around_zero()
        choice = self.tape.below(8)
        if choice < 4:
            op = (Ops.MUL, Ops.AND, Ops.OR, Ops.XOR)[choice]
            value = build.binary(op, x, y)
        elif choice == 4:
            value = build.binary(self.tape.pick((Ops.MOD, Ops.IDIV)), x, self.tape.between(2, 5))
        elif choice == 5:
            value = build.binary(Ops.SHR, x, self.tape.between(1, 3))
        elif choice == 6:
            value = build.maximum(x, y)
        else:
            value = build.where(build.less(x, 2), x, y)
        return build.less(value, as_const(self.tape.pick(_ENDS), self.dtype))

    def constants(self) -> UOp:
        """An operation on constants alone."""
        x, y = (build.const(self.dtype, self.tape.between(1, 9)) for _ in range(2))
        return UOp(self.tape.pick((Ops.ADD, Ops.MUL, Ops.IDIV, Ops.MOD)), self.dtype, (x, y))

    def range_conditions(self) -> UOp:
        """Two or three conditions, mostly on one value, joined; mostly it is around the limits."""
        x = self.around_zero() if self.tape.below(3) else self.leaf(self.dtype)
        join = build.both if self.tape.below(2) else build.either
        found = self.condition(x)
        for _ in range(self.tape.between(1, 2)):
            other = x if self.tape.below(4) else self.leaf(self.dtype)
            found = join(found, self.condition(other))
        return found

    def condition(self, x: UOp) -> UOp:
        low = 0 if self.dtype.is_unsigned else -5
        below = build.less(x, self.tape.between(low, 7))
        return build.logical_not(below) if self.tape.below(2) else below


_BY_TEMPLATE: dict[str, Callable[[_Templates], UOp]] = {
    "mod-of-mod": lambda made: made.remainder_of(Ops.MOD),
    "div-of-mod": lambda made: made.remainder_of(Ops.IDIV),
    "div-nested": _Templates.divided_twice,
    "div-nested-sum": _Templates.divided_sum,
    "mod-bounds": _Templates.near_divisor,
    "lt-div": _Templates.quotient_below,
    "ne-div": _Templates.quotient_not_zero,
    "lt-sum": _Templates.sums_compared,
    "lt-first": _Templates.first,
    "lt-max": _Templates.larger_compared,
    "bit-mask": _Templates.low_bits,
    "cast-cast": lambda made: made.cast_twice(False),
    "cast-cast-wrap": lambda made: made.cast_twice(False),
    "cast-cast-bounds": lambda made: made.cast_twice(True),
    "div-factor": lambda made: made.quotient(Ops.IDIV),
    "div-split": lambda made: made.quotient(Ops.IDIV),
    "div-reduce": _Templates.quotient_of_sum,
    "mod-factor": lambda made: made.quotient(Ops.MOD),
    "mod-terms": lambda made: made.quotient(Ops.MOD),
    "mod-inner-mod": _Templates.inner_remainder,
    "lt-factor": _Templates.scaled_comparison,
    "lt-factor-sum": _Templates.scaled_comparison,
    "ne-sum": _Templates.unequal,
    "max-offset": _Templates.larger,
    "max-bounds": _Templates.disjoint_ranges,
    "div-mod-sum": _Templates.quotient_and_rest,
    "mod-join": _Templates.quotient_and_rest,
    "mod-from-div": _Templates.quotient_and_rest,
    "fold-range": _Templates.constant_range,
    "fold-constants": _Templates.constants,
    "div-same": _Templates.quotient_of_same,
    "div-variable": lambda made: made.below_variable(Ops.IDIV),
    "mod-variable": lambda made: made.below_variable(Ops.MOD),
    "bool-join": _Templates.range_conditions,
}


# Rules that are right by a side condition: the more instances they have, the sooner it is seen.
_SUBTLE = 2.5


def hardness(rule: Rule) -> float:
    """How often a rule is instantiated: more often where it has a condition to get wrong."""
    return _SUBTLE if rule.domain.needs_bounds or rule.name in _BY_TEMPLATE else 1.0


def instantiate_rule(rule: Rule, tape: Tape, chosen: Iterable[DType], leaf: Leaf) -> UOp | None:
    """An instance of the left-hand side of `rule`, or None where it has none of these types.

    `leaf` gives values of the kernel. Nothing is asked of the compiler, which is under test: the
    constants may not suit the rule, or another rule may fire first.
    """
    types = tuple(chosen)
    if not _has_instances(rule, types):
        return None
    try:
        if rule.name in _BY_TEMPLATE:
            return _BY_TEMPLATE[rule.name](_Templates(tape, types, leaf))
        return _Values(tape, types, leaf).filled(_drawn(tape.pick(_forms(rule, types)), tape))
    except (TinyrefError, IndexError, ValueError):
        # No such op of these types, or a constant that a type does not have.
        return None
