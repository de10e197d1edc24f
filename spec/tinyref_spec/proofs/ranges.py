"""Proofs of the value-range rules of `tinyref.algebra.bounds`: a range holds every value of its op.

The code of a rule is run itself. For sums, products, choices and comparisons it runs on symbolic
ends: each comparison splits the run in two, and z3 proves for every path that the range which
comes out holds every value, at 32 and 64 bits and for `index`. The rules that look at bits or
divide run on all pairs of intervals of 4-bit types, signed and unsigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import z3

from tinyref.algebra.op_table import OP_TABLE, Range, RangeRule
from tinyref.dtype import DType, Kind, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import INTS
from tinyref_spec.proofs.prover import Answer, claim
from tinyref_spec.proofs.semantics import Term

SYMBOLIC = (
    *(Ops.NEG, Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.WHERE),
    *(Ops.MULACC, Ops.CAST),
)
TABLED = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.MAX, Ops.CMPLT, Ops.CMPNE),
    *(Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR),
)
EFFORT = 20_000_000
_PATH_EFFORT = 300_000


class _Path:
    """One run through the code of a rule: the answers to its comparisons, in order."""

    def __init__(self, facts: Sequence[Term], answers: Sequence[bool]) -> None:
        self.solver = z3.Solver()
        self.solver.set("rlimit", _PATH_EFFORT)
        self.solver.add(*facts)
        self.known = list(facts)
        self.planned = list(answers)
        self.taken: list[bool] = []
        self.open: list[list[bool]] = []

    def decide(self, condition: Term) -> bool:
        """The answer to a comparison; where both are possible the other one is left for later."""
        if len(self.taken) < len(self.planned):
            answer = self.planned[len(self.taken)]
        else:
            can = [self._possible(condition), self._possible(z3.Not(condition))]
            answer = can[0]
            if all(can):
                self.open.append([*self.taken, False])
        self.taken.append(answer)
        fact = condition if answer else z3.Not(condition)
        self.solver.add(fact)
        self.known.append(fact)
        return answer

    def _possible(self, condition: Term) -> bool:
        # What the solver gives up on counts as possible: that costs a run, no more.
        return bool(self.solver.check(condition) != z3.unsat)


class Symbol:
    """An integer that is not known: arithmetic gives symbols, a comparison asks the path."""

    def __init__(self, term: Term, path: _Path) -> None:
        self.term = term
        self.path = path

    def _other(self, value: object) -> Term:
        return value.term if isinstance(value, Symbol) else z3.IntVal(value)

    def _made(self, term: Term) -> Symbol:
        return Symbol(term, self.path)

    def __add__(self, other: object) -> Symbol:
        return self._made(self.term + self._other(other))

    __radd__ = __add__

    def __sub__(self, other: object) -> Symbol:
        return self._made(self.term - self._other(other))

    def __mul__(self, other: object) -> Symbol:
        return self._made(self.term * self._other(other))

    __rmul__ = __mul__

    def __neg__(self) -> Symbol:
        return self._made(-self.term)

    def __rshift__(self, count: int) -> Symbol:
        return self._made(self.term / z3.IntVal(1 << count))

    def __lshift__(self, count: int) -> Symbol:
        return self._made(self.term * z3.IntVal(1 << count))

    def __lt__(self, other: object) -> bool:
        return self.path.decide(self.term < self._other(other))

    def __le__(self, other: object) -> bool:
        return self.path.decide(self.term <= self._other(other))

    def __gt__(self, other: object) -> bool:
        return self.path.decide(self.term > self._other(other))

    def __ge__(self, other: object) -> bool:
        return self.path.decide(self.term >= self._other(other))

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        return self.path.decide(self.term == self._other(other))

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class RangeVerdict:
    """The answer to the range rule of one op at one type, over `paths` runs of its code."""

    op: Ops
    dtype: DType
    paths: int
    answer: Answer
    detail: str = ""


def prove_range(op: Ops, dtype: DType, rule: RangeRule | None = None) -> RangeVerdict:
    """Whether the range that the rule gives holds every value, for all ranges of the sources.

    CAST is from `index`, so it says how any range wraps into `dtype`. Products are proved for
    `index` alone: in another type they are the same, and then wrap.
    """
    rule = rule or OP_TABLE[op].value_range
    source = dtypes.index if op is Ops.CAST else dtype
    names = "xyz"[: 1 if op in (Ops.NEG, Ops.CAST) else 3 if op in (Ops.WHERE, Ops.MULACC) else 2]
    types = [source] * len(names)
    if op is Ops.WHERE:
        types[0] = dtypes.bool
    values = [z3.Int(name) for name in names]
    ends = [(z3.Int(f"low {name}"), z3.Int(f"high {name}")) for name in names]
    facts = [fact for group in zip(values, ends, types, strict=True) for fact in _within(*group)]
    result_type = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    raw = _value(op, values)
    node = UOp(op, result_type, tuple(UOp(Ops.BUFFER, each, ()) for each in types))
    waiting: list[list[bool]] = [[]]
    count = 0
    while waiting:
        path = _Path(facts, waiting.pop())
        sources = [(Symbol(low, path), Symbol(high, path)) for low, high in ends]
        found = rule(node, sources)  # type: ignore[arg-type]
        waiting += path.open
        count += 1
        if found is None:
            continue
        low, high = (end.term if isinstance(end, Symbol) else z3.IntVal(end) for end in found)
        value = _wrap(raw, result_type)
        more = _monotonic(op, values, ends)
        answer, detail = claim([*path.known, *more], z3.And(low <= value, value <= high), EFFORT)
        if answer is not Answer.PROVED:
            return RangeVerdict(op, dtype, count, answer, detail)
    return RangeVerdict(op, dtype, count, Answer.PROVED)


def _within(value: Term, ends: tuple[Term, Term], dtype: DType) -> list[Term]:
    low, high = ends
    found = [low <= value, value <= high]
    if dtype is not dtypes.index:
        found += [int(dtype.minimum) <= low, high <= int(dtype.maximum)]
    return found


def _value(op: Ops, values: Sequence[Term]) -> Term:
    """The op on mathematical integers, bools as 0 and 1; it wraps afterwards."""
    arms: dict[Ops, Callable[..., Term]] = {
        Ops.NEG: lambda x: -x,
        Ops.ADD: lambda x, y: x + y,
        Ops.SUB: lambda x, y: x - y,
        Ops.MUL: lambda x, y: x * y,
        Ops.MAX: lambda x, y: z3.If(x < y, y, x),
        Ops.CMPLT: lambda x, y: z3.If(x < y, z3.IntVal(1), z3.IntVal(0)),
        Ops.CMPNE: lambda x, y: z3.If(x != y, z3.IntVal(1), z3.IntVal(0)),
        Ops.WHERE: lambda x, y, z: z3.If(x != 0, y, z),
        Ops.MULACC: lambda x, y, z: x * y + z,
        Ops.CAST: lambda x: x,
    }
    found: Term = arms[op](*values)
    return found


def _wrap(raw: Term, dtype: DType) -> Term:
    if dtype is dtypes.index:
        return raw
    least, size = int(dtype.minimum), int(dtype.maximum) - int(dtype.minimum) + 1
    return (raw - least) % size + least


def _monotonic(op: Ops, values: Sequence[Term], ends: Sequence[tuple[Term, Term]]) -> list[Term]:
    """Products grow with each factor, or shrink where the other is negative."""
    if op not in (Ops.MUL, Ops.MULACC):
        return []
    found = []
    (a, b), (c, d) = ends[:2]
    x, y = values[:2]
    for low, middle, high, factor in ((a, x, b, y), (c, y, d, a), (c, y, d, b)):
        rising = z3.And(low * factor <= middle * factor, middle * factor <= high * factor)
        falling = z3.And(high * factor <= middle * factor, middle * factor <= low * factor)
        found += [z3.Implies(factor >= 0, rising), z3.Implies(factor <= 0, falling)]
    return found


class _Narrow(DType):
    """An integer type of a few bits."""

    def __init__(self, kind: Kind, width: int) -> None:
        super().__init__(f"{kind.value}{width}", kind, 1, 0)
        self.bits = width
        self.minimum, self.maximum = self._limits()


def narrow(width: int, is_unsigned: bool) -> DType:
    """The integer type of `width` bits that no device has: small enough to try everything."""
    return _Narrow(Kind.UNSIGNED if is_unsigned else Kind.SIGNED, width)


def reference(op: Ops, x: int, y: int, width: int, is_unsigned: bool) -> int:
    """The value of a binary op on `width`-bit integers, by Python's own; as the semantics have it.

    What semantics.md leaves unspecified: a division by 0 gives 0, a shift too far all sign bits.
    """
    arms: dict[Ops, Callable[[], int]] = {
        Ops.ADD: lambda: x + y,
        Ops.SUB: lambda: x - y,
        Ops.MUL: lambda: x * y,
        Ops.IDIV: lambda: truncated_quotient(x, y),
        Ops.MOD: lambda: x - y * truncated_quotient(x, y) if y else 0,
        Ops.MAX: lambda: max(x, y),
        Ops.CMPLT: lambda: int(x < y),
        Ops.CMPNE: lambda: int(x != y),
        Ops.AND: lambda: x & y,
        Ops.OR: lambda: x | y,
        Ops.XOR: lambda: x ^ y,
        Ops.SHL: lambda: x << y if 0 <= y < width else 0,
        Ops.SHR: lambda: x >> y if 0 <= y < width else (-1 if x < 0 else 0),
    }
    value = arms[op]()
    if op in (Ops.CMPLT, Ops.CMPNE):
        return value
    low = value & ((1 << width) - 1)
    return low if is_unsigned or low < 1 << (width - 1) else low - (1 << width)


def truncated_quotient(x: int, y: int) -> int:
    """x / y towards zero, 0 for y == 0."""
    if y == 0:
        return 0
    return x // y if (x < 0) == (y < 0) or x % y == 0 else x // y + 1


def intervals(width: int, is_unsigned: bool) -> list[Range]:
    """Every interval of `width`-bit integers."""
    low, high = (
        (0, (1 << width) - 1) if is_unsigned else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    )
    return [(a, b) for a in range(low, high + 1) for b in range(a, high + 1)]


def broken_intervals(
    op: Ops, width: int, is_unsigned: bool, rule: RangeRule | None = None
) -> Iterator[tuple[Range, Range, Range]]:
    """Every pair of intervals for which the range lacks a value, with that range."""
    dtype = narrow(width, is_unsigned)
    first = int(dtype.minimum)
    every = range(first, int(dtype.maximum) + 1)
    table = np.array([[reference(op, x, y, width, is_unsigned) for y in every] for x in every])
    result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPNE) else dtype
    leaf = UOp(Ops.BUFFER, dtype, ())
    node = UOp(op, result, (leaf, leaf))
    rule = rule or OP_TABLE[op].value_range
    spans = intervals(width, is_unsigned)
    for left in spans:
        rows = table[left[0] - first : left[1] - first + 1]
        least, most = rows.min(axis=0), rows.max(axis=0)
        for right in spans:
            found = rule(node, (left, right))
            columns = slice(right[0] - first, right[1] - first + 1)
            if found is None or found[0] > least[columns].min() or found[1] < most[columns].max():
                yield left, right, found or (0, 0)


def types_of(op: Ops) -> tuple[DType, ...]:
    """The types at which the range rule of `op` is proved on symbolic ends."""
    return (dtypes.index,) if op in (Ops.MUL, Ops.MULACC) else INTS
