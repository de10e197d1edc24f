"""Expressions that a given rewriting rule matches: its left-hand side, made of a kernel's values.

Random trees seldom look like x // 3 % 12 // 4 or like two selects that share a condition. A rule's
pattern is data, so an instance of it can be built: the holes are filled with values of the kernel,
whose ranges are narrowed here and there, since many rules ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tinyref.algebra.rewrite.pattern import Pattern
from tinyref.algebra.rewrite.rule import Rule
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import DType, as_const, dtypes
from tinyref.errors import TinyrefError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, CASTS, TERNARY, UNARY, Ops
from tinyref_fuzz.generate.tape import Tape

# A value of the kernel that has the type.
Leaf = Callable[[DType], UOp]

COMPARISONS = frozenset({Ops.CMPLT, Ops.CMPNE})
SHIFTS = frozenset({Ops.SHL, Ops.SHR})
DIVISIONS = frozenset({Ops.IDIV, Ops.MOD})
# What no value of a kernel AST is made of: rules on these fire on what lowering makes.
_BELOW = frozenset({Ops.LOAD, Ops.STORE, Ops.GEP, Ops.VECTORIZE})

_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 63, 64, 100, 127)
# Where the ranges of small values and of what is made of them end.
_ENDS = (0, 1, 3, 4, 7, 8, 15, 16, -1, -4, -8, 49, 64)


def instantiable_rules(dtype_choice: Iterable[DType]) -> tuple[Rule, ...]:
    """The rules that have an instance in kernel ASTs whose values have these types, by name."""
    chosen = tuple(dtype_choice)
    return tuple(rule for rule in ALL_RULES.rules if _roots(rule, chosen))


def _roots(rule: Rule, chosen: tuple[DType, ...]) -> tuple[tuple[Ops, DType], ...]:
    """The ops and types that the root of an instance of `rule` may have."""
    ops = sorted((rule.pattern.ops or frozenset()) & ALU, key=lambda op: op.name)
    if any(inner & _BELOW for inner in _inner_ops(rule.pattern)):
        return ()
    return tuple(
        (op, dtype)
        for op in ops
        for dtype in chosen
        if rule.domain.dtypes(dtype) and _gives(op, dtype)
    )


def _inner_ops(pattern: Pattern) -> Iterable[frozenset[Ops]]:
    waiting = [pattern]
    while waiting:
        each = waiting.pop()
        if each.ops is not None:
            yield each.ops
        waiting += each.sources or ()


def _gives(op: Ops, dtype: DType) -> bool:
    """Whether `op` has results of that type."""
    if op in COMPARISONS:
        return dtype.is_bool
    if op in DIVISIONS | SHIFTS:
        return dtype.is_int
    if op in (Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.TRUNC, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW):
        return dtype.is_float
    if op in (Ops.AND, Ops.OR, Ops.XOR):
        return not dtype.is_float
    if op is Ops.THREEFRY:
        return dtype is dtypes.uint64
    return op is Ops.WHERE or op in CASTS or op is Ops.MAX or not dtype.is_bool


@dataclass
class _Instantiation:
    """One instance: what each capture stands for, and the constants so far."""

    tape: Tape
    chosen: tuple[DType, ...]
    leaf: Leaf
    captures: dict[str, UOp] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)

    def node(self, pattern: Pattern, dtype: DType, under: Ops) -> UOp:
        """An instance of `pattern` with that type, which will be a source of an `under`."""
        known = self.captures.get(pattern.name or "")
        if known is not None:
            return known
        if pattern.value is not None:
            return build.const(dtype, pattern.value)
        if pattern.ops is None:
            made = self.narrow(dtype)
        elif Ops.CONST in pattern.ops:
            made = self.constant(dtype, under)
        else:
            ops = [op for op in sorted(pattern.ops, key=lambda op: op.name) if _gives(op, dtype)]
            made = self.instance(pattern, self.tape.pick(ops), dtype)
        if pattern.name is not None:
            self.captures[pattern.name] = made
        return made

    def instance(self, pattern: Pattern, op: Ops, dtype: DType) -> UOp:
        """A node of `op` whose sources are instances of the sources of `pattern`."""
        operands = self.operand_type(pattern, op, dtype)
        if pattern.sources is None:
            count = 1 if op in UNARY | CASTS else 3 if op in TERNARY else 2
            wanted: tuple[Pattern, ...] = tuple(Pattern() for _ in range(count))
        else:
            wanted = pattern.sources
            if pattern.any_order and self.tape.below(2):
                wanted = wanted[::-1]
        types = [operands] * len(wanted)
        if op is Ops.WHERE:
            types[0] = dtypes.bool
        src = tuple(self.node(each, kind, op) for each, kind in zip(wanted, types, strict=True))
        return UOp(op, dtype, src)

    def operand_type(self, pattern: Pattern, op: Ops, dtype: DType) -> DType:
        """The type of the sources: of a comparison or a cast it is drawn, else it is `dtype`."""
        if op not in COMPARISONS | CASTS:
            return dtype
        fits = [kind for kind in self.chosen if self.may_be(pattern, kind)]
        if op is Ops.BITCAST:
            fits = [kind for kind in fits if kind.bits == dtype.bits and not kind.is_bool]
        return self.tape.pick(fits) if fits else dtype

    def may_be(self, pattern: Pattern, kind: DType) -> bool:
        """Whether the sources of `pattern` may have the type `kind`."""
        for source in pattern.sources or ():
            if source.when is not None and not source.when(kind):
                return False
            if isinstance(source.value, float) != kind.is_float and source.value is not None:
                return False
            ops = source.ops or frozenset({Ops.CONST})
            if not any(op is Ops.CONST or _gives(op, kind) for op in ops):
                return False
        return True

    def constant(self, dtype: DType, under: Ops) -> UOp:
        """A constant of moderate size; counts of shifts stay within the width."""
        if dtype.is_bool:
            return build.const(dtype, bool(self.tape.below(2)))
        if under in SHIFTS:
            return build.const(dtype, self.tape.below(dtype.bits))
        if dtype.is_int and under in (Ops.AND, Ops.OR, Ops.XOR) and self.tape.below(4) == 3:
            return build.const(dtype, as_const(-1, dtype))
        if dtype.is_int and under is Ops.AND and self.tape.below(2):
            return build.const(dtype, self.tape.pick((1, 3, 7, 15, 127)))
        size = self.size()
        is_negative = not dtype.is_unsigned and self.tape.below(4) == 3
        if dtype.is_float:
            # Powers of two and small integers, which every type has.
            return build.const(dtype, float(-min(size, 16) if is_negative else min(size, 16)))
        if not is_negative and self.tape.below(8) == 7 and under not in DIVISIONS:
            size = 0
        return build.const(dtype, as_const(-size if is_negative else size, dtype))

    def size(self) -> int:
        """A number from 1 up, every other time one that an earlier one is divided by."""
        earlier = self.sizes[-1] if self.sizes else 1
        divisors = [each for each in _SIZES if earlier % each == 0]
        self.sizes.append(self.tape.pick(divisors if self.tape.below(2) else _SIZES))
        return self.sizes[-1]

    def narrow(self, dtype: DType) -> UOp:
        """A value of the kernel, as it is or brought into a range."""
        choice = self.tape.below(6)
        if not dtype.is_int or choice < 2:
            return self.leaf(dtype)
        if choice == 2:
            return build.binary(Ops.MOD, self.leaf(dtype), self.tape.pick(_SIZES[1:]))
        if choice == 3:
            return build.binary(Ops.AND, self.leaf(dtype), self.tape.pick((1, 3, 7, 15)))
        if choice == 4:
            smaller = [kind for kind in self.chosen if kind.is_int and kind.bits < dtype.bits]
            kind = self.tape.pick([dtypes.bool, *smaller]) if smaller else dtype
            return build.cast(self.leaf(kind), dtype)
        added = as_const(self.tape.between(1, 9), dtype)
        return build.add(build.mul(self.leaf(dtype), self.tape.between(1, 6)), added)


class _Templates:
    """Instances of rules whose pattern says little: what they look for is in sums and ranges."""

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
        """x % m % d or x % m // d, where d divides m or not."""
        divisor, times = self.tape.between(2, 9), self.tape.between(2, 6)
        modulus = divisor * times + self.tape.pick((0, 0, 1, -1))
        return build.binary(op, build.mod(self.leaf(self.dtype), modulus), divisor)

    def divided_twice(self) -> UOp:
        """x // c // d, where the type holds c * d or not."""
        x = self.leaf(self.dtype)
        return build.idiv(build.idiv(x, self.divisor()), self.divisor())

    def divisor(self) -> int:
        # Of the last ones two have a product that the type just holds, or does not.
        half = 1 << (self.dtype.bits // 2) if self.dtype.is_int else 1
        sizes = (2, 3, 4, 7, 12, 15, 16, 63, 64, 100, 127, half, half - 1, half, half // 2 or 1)
        return self.tape.pick(sizes)

    def divided_sum(self) -> UOp:
        """(x // c + e) // d of an x that is not negative."""
        x = self.upto(self.tape.pick((15, 63, 127)))
        inner = build.add(build.idiv(x, self.tape.between(2, 5)), self.tape.between(1, 5))
        return build.idiv(inner, self.tape.between(2, 5))

    def divided_by(self, divisor: int) -> UOp:
        """x // -1 and the like, where the type has such a number."""
        return build.idiv(self.leaf(self.dtype), as_const(divisor, self.dtype))

    def near_divisor(self) -> UOp:
        """x % c of a narrow x whose quotients are one number, or nearly so."""
        least, width = self.tape.between(0, 9), self.tape.pick((1, 3, 7))
        x = build.add(self.small(width), least)
        most = least + width
        return build.mod(x, max(1, self.tape.pick((most, most + 1, least, most + 2, least + 1))))

    def quotient_below(self) -> UOp:
        """x // c < d of any sign."""
        low = 0 if self.dtype.is_unsigned else -5
        quotient = build.idiv(self.leaf(self.dtype), self.tape.between(2, 9))
        return build.less(quotient, self.tape.between(low, 5))

    def quotient_not_zero(self) -> UOp:
        x = self.leaf(self.dtype) if self.dtype.is_unsigned else self.around_zero()
        return build.not_equal(build.idiv(x, self.tape.between(2, 9)), 0)

    def sums_compared(self) -> UOp:
        """x + c < y + d of small values, where nothing wraps, or a part of it."""
        low = 0 if self.dtype.is_unsigned else -9
        x, y = self.around_zero(), self.around_zero()
        c, d = (as_const(self.tape.between(low, 9), self.dtype) for _ in range(2))
        left = build.add(x, c) if self.tape.below(3) else build.sub(as_const(d, self.dtype), x)
        return build.less(left, build.add(y, d) if self.tape.below(2) else as_const(d, self.dtype))

    def first(self) -> UOp:
        return build.less(build.mod(self.upto(15), self.tape.between(2, 6)), 1)

    def larger_compared(self) -> UOp:
        x = build.maximum(self.leaf(self.dtype), self.tape.between(0, 9))
        return build.less(x, self.tape.between(0, 12))

    def low_bits(self) -> UOp:
        """x & (2**n - 1) of a narrow x, which may be negative."""
        return build.both(self.around_zero(), as_const(self.tape.pick((3, 7, 15)), self.dtype))

    def all_ones(self) -> UOp:
        op = self.tape.pick((Ops.AND, Ops.OR))
        return build.binary(op, self.leaf(self.dtype), as_const(-1, self.dtype))

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
        return build.idiv(build.add(build.mul(self.small(3), divisor + 1), self.small(3)), divisor)

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

    def repeated_operand(self) -> UOp:
        x, y = self.leaf(self.dtype), self.leaf(self.dtype)
        return build.maximum(build.maximum(x, y), self.tape.pick((x, y)))

    def quotient_and_rest(self) -> UOp:
        """x // c * c + x % c, or a part of it, or of a remainder of it."""
        x, c, d = self.leaf(self.dtype), self.tape.between(2, 9), self.tape.between(2, 5)
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
        return build.binary(op, self.small(3), build.add(self.small(7), self.tape.between(4, 6)))

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
        """Two or three conditions, mostly on one value, joined."""
        x = self.leaf(self.dtype)
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

    def absorbed_condition(self, inner: bool) -> UOp:
        p, q = self.condition(self.leaf(self.dtype)), self.condition(self.leaf(self.dtype))
        return build.either(p, build.both(p, q)) if inner else build.both(p, build.either(p, q))

    def negated_choice(self) -> UOp:
        p = self.condition(self.leaf(self.dtype))
        if self.tape.below(2):
            p = build.logical_not(build.not_equal(self.leaf(self.dtype), 0))
        return build.where(p, self.leaf(self.dtype), self.leaf(self.dtype))

    def chosen_bool(self) -> UOp:
        p, q = self.condition(self.leaf(self.dtype)), self.condition(self.leaf(self.dtype))
        fixed = build.const(dtypes.bool, bool(self.tape.below(2)))
        return build.where(p, q, fixed) if self.tape.below(2) else build.where(p, fixed, q)


_BY_TEMPLATE: dict[str, Callable[[_Templates], UOp]] = {
    "mod-of-mod": lambda made: made.remainder_of(Ops.MOD),
    "div-of-mod": lambda made: made.remainder_of(Ops.IDIV),
    "div-nested": _Templates.divided_twice,
    "div-nested-sum": _Templates.divided_sum,
    "div-minus-one": lambda made: made.divided_by(-1),
    "mod-bounds": _Templates.near_divisor,
    "lt-div": _Templates.quotient_below,
    "ne-div": _Templates.quotient_not_zero,
    "lt-sum": _Templates.sums_compared,
    "lt-first": _Templates.first,
    "lt-max": _Templates.larger_compared,
    "bit-mask": _Templates.low_bits,
    "bit-ones": _Templates.all_ones,
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
    "max-again": _Templates.repeated_operand,
    "div-mod-sum": _Templates.quotient_and_rest,
    "mod-join": _Templates.quotient_and_rest,
    "mod-from-div": _Templates.quotient_and_rest,
    "fold-range": _Templates.constant_range,
    "fold-constants": _Templates.constants,
    "div-same": _Templates.quotient_of_same,
    "div-variable": lambda made: made.below_variable(Ops.IDIV),
    "mod-variable": lambda made: made.below_variable(Ops.MOD),
    "bool-join": _Templates.range_conditions,
    "bool-absorb-and": lambda made: made.absorbed_condition(False),
    "bool-absorb-or": lambda made: made.absorbed_condition(True),
    "where-not": _Templates.negated_choice,
    "where-bool": _Templates.chosen_bool,
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
    roots = _roots(rule, types)
    if not roots:
        return None
    op, dtype = tape.pick(roots)
    try:
        if rule.name in _BY_TEMPLATE:
            return _BY_TEMPLATE[rule.name](_Templates(tape, types, leaf))
        return _Instantiation(tape, types, leaf).instance(rule.pattern, op, dtype)
    except (TinyrefError, IndexError, ValueError):
        # No such op of these types, or a hole that nothing fills.
        return None
