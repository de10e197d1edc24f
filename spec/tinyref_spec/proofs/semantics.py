"""The semantics of ops for the SMT solver z3: one table for bit-vectors, one for integers.

`Bits` gives machine words their widths. `Integers` gives every value its mathematical integer: the
meaning of `index`, and of a fixed-width value that does not wrap. Both follow semantics.md, and
`spec/tests/test_proofs.py` compares them with the semantics of the op table. Some values are
unspecified in semantics.md (division by 0, a shift by the width or more). They have here the value
that the semantics define, so that a proved law holds for constant folding too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import z3

from tinyref.algebra.linear import constant_of
from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import BINARY, Ops
from tinyref.uops.payload import ConstArg, GepArg

Term: TypeAlias = z3.ExprRef


def logical(op: Ops, x: Term, y: Term) -> Term:
    """Return a binary op on bools."""
    arms: dict[Ops, Callable[[], Term]] = {
        Ops.CMPLT: lambda: z3.And(z3.Not(x), y),
        Ops.CMPNE: lambda: z3.Xor(x, y),
        Ops.MAX: lambda: z3.Or(x, y),
        Ops.AND: lambda: z3.And(x, y),
        Ops.OR: lambda: z3.Or(x, y),
        Ops.XOR: lambda: z3.Xor(x, y),
    }
    if op not in arms:
        raise UserError(f"{op.name} of bools has no term")
    return arms[op]()


class Semantics(ABC):
    """Terms of the nodes of a graph, sources first, with the cases that both tables share."""

    def __init__(self) -> None:
        self.terms: dict[UOp, Term] = {}
        # Vectors are lists of terms: one per lane.
        self.lanes: dict[UOp, list[Term]] = {}
        # Facts about the terms so far, such as the definitions of quotients.
        self.definitions: list[Term] = []

    @abstractmethod
    def constant(self, dtype: DType, value: int) -> Term: ...

    @abstractmethod
    def variable(self, dtype: DType, name: str) -> Term: ...

    @abstractmethod
    def binary(self, op: Ops, dtype: DType, x: Term, y: Term) -> Term: ...

    @abstractmethod
    def convert(self, source: DType, target: DType, x: Term) -> Term: ...

    def settle(self, node: UOp, raw: Term) -> Term:
        """Return the term of an integer node from the result of its op, before it wraps."""
        return raw

    def term(self, root: UOp) -> Term:
        """Return the term of `root`; leaves without a term become variables of their type.

        Raises `UserError` for a graph with nodes that have no term.
        """
        for node in toposort((root,)):
            if node in self.terms or node in self.lanes:
                continue
            if node.op is Ops.VECTORIZE:
                self.lanes[node] = [self.terms[source] for source in node.src]
            elif isinstance(node.dtype, PtrDType):
                self._address(node)
            elif node.op is Ops.CONST and node.dtype.lanes > 1:
                self.lanes[node] = [self._constant(node)] * node.dtype.lanes
            elif isinstance(node.arg, GepArg):
                self._gep(node, node.arg.lanes)
            else:
                self.terms[node] = self._node(node)
        return self.lanes_as_term(root)

    def lanes_as_term(self, root: UOp) -> Term:
        """Return one term for a scalar; for a vector an array of its lanes."""
        if root not in self.lanes:
            return self.terms[root]
        lanes = self.lanes[root]
        array = z3.K(z3.IntSort(), lanes[0])
        for lane, value in enumerate(lanes):
            array = z3.Store(array, lane, value)
        return array

    def _gep(self, node: UOp, taken: Sequence[int]) -> None:
        lanes = self.lanes[node.src[0]]
        if len(taken) == 1:
            self.terms[node] = lanes[taken[0]]
        else:
            self.lanes[node] = [lanes[lane] for lane in taken]

    def _address(self, node: UOp) -> None:
        if node.op is Ops.DEFINE_GLOBAL and isinstance(node.dtype, PtrDType):
            base = node.dtype.base
            value = z3.BoolSort() if base.is_bool else self.constant(base, 0).sort()
            index = self.constant(dtypes.index, 0).sort()
            self.terms[node] = z3.Array(f"memory {node.arg}", index, value)
        elif node.op is Ops.INDEX:
            self.terms[node] = self.terms[node.src[1]]
        else:
            raise UserError(f"{node.op.name} of a pointer has no term")

    def _memory(self, address: UOp) -> Term:
        return self.terms[address.src[0]]

    def _access(self, node: UOp) -> Term:
        """Return the element or the alternative of a LOAD, or the memory after a STORE."""
        address, *rest = node.src
        memory, index = self._memory(address), self.terms[address]
        others = [self.terms[source] for source in rest]
        if node.op is Ops.LOAD:
            read = z3.Select(memory, index)
            return z3.If(others[1], read, others[0]) if others else read
        written = z3.Store(memory, index, others[0])
        return z3.If(others[1], written, memory) if len(others) > 1 else written

    def _constant(self, node: UOp) -> Term:
        if not isinstance(node.arg, ConstArg) or node.dtype.is_float:
            raise UserError(f"a constant of {node.dtype.name} has no term")
        if node.dtype.is_bool:
            return z3.BoolVal(bool(node.arg.value))
        return self.constant(node.dtype.scalar, int(node.arg.value))

    def _node(self, node: UOp) -> Term:
        if node.dtype.lanes > 1:
            raise UserError(f"{node.op.name} of {node.dtype.name} has no term")
        if node.op is Ops.CONST:
            return self._constant(node)
        if node.op in (Ops.LOAD, Ops.STORE):
            return self._access(node)
        if node.op in (Ops.DEFINE_VAR, Ops.RANGE, Ops.SPECIAL, Ops.BUFFER):
            name = f"{node.arg} of {node.dtype.name}"
            return z3.Bool(name) if node.dtype.is_bool else self.variable(node.dtype, name)
        if any(source.dtype.is_float for source in node.src) and node.op is not Ops.WHERE:
            raise UserError(f"{node.op.name} of floats has no term")
        return self._alu(node, [self.terms[source] for source in node.src])

    def _alu(self, node: UOp, src: list[Term]) -> Term:
        dtype = node.dtype
        if node.op is Ops.WHERE:
            return z3.If(*src)
        if node.op in (Ops.CAST, Ops.BITCAST):
            return self._converted(node, src[0])
        if node.op in BINARY:
            source = node.src[0].dtype
            if source.is_bool:
                return logical(node.op, *src)
            raw = self.binary(node.op, source, *src)
            return raw if dtype.is_bool else self.settle(node, raw)
        if node.op is Ops.NEG:
            return self.settle(node, -src[0])
        if node.op is Ops.MULACC:
            product = self.binary(Ops.MUL, dtype, src[0], src[1])
            return self.settle(node, self.binary(Ops.ADD, dtype, product, src[2]))
        raise UserError(f"{node.op.name} has no term")

    def _converted(self, node: UOp, x: Term) -> Term:
        source, target = node.src[0].dtype, node.dtype
        if source is target:
            return x
        if target.is_float:
            raise UserError("a cast to a float has no term")
        if source.is_bool:
            return z3.If(x, self.constant(target, 1), self.constant(target, 0))
        if target.is_bool:
            return x != self.constant(source, 0)
        if node.op is Ops.BITCAST and not isinstance(self, Bits):
            raise UserError("BITCAST of integers has no term")
        return self.settle(node, self.convert(source, target, x))


class Bits(Semantics):
    """Machine words as bit-vectors."""

    def constant(self, dtype: DType, value: int) -> Term:
        return z3.BitVecVal(value, dtype.bits)

    def variable(self, dtype: DType, name: str) -> Term:
        return z3.BitVec(name, dtype.bits)

    def convert(self, source: DType, target: DType, x: Term) -> Term:
        grow = target.bits - source.bits
        if grow <= 0:
            return z3.Extract(target.bits - 1, 0, x)
        return z3.ZeroExt(grow, x) if source.is_unsigned else z3.SignExt(grow, x)

    def binary(self, op: Ops, dtype: DType, x: Term, y: Term) -> Term:
        zero = z3.BitVecVal(0, x.size())
        is_unsigned = dtype.is_unsigned
        is_less = z3.ULT(x, y) if is_unsigned else x < y
        arms: dict[Ops, Callable[[], Term]] = {
            Ops.ADD: lambda: x + y,
            Ops.SUB: lambda: x - y,
            Ops.MUL: lambda: x * y,
            Ops.IDIV: lambda: z3.If(y == zero, zero, z3.UDiv(x, y) if is_unsigned else x / y),
            Ops.MOD: lambda: z3.If(
                y == zero, zero, z3.URem(x, y) if is_unsigned else z3.SRem(x, y)
            ),
            Ops.MAX: lambda: z3.If(is_less, y, x),
            Ops.CMPLT: lambda: is_less,
            Ops.CMPNE: lambda: x != y,
            Ops.AND: lambda: x & y,
            Ops.OR: lambda: x | y,
            Ops.XOR: lambda: x ^ y,
            Ops.SHL: lambda: x << y,
            Ops.SHR: lambda: z3.LShR(x, y) if is_unsigned else x >> y,
        }
        if op not in arms:
            raise UserError(f"{op.name} has no term")
        return arms[op]()


def _never_wraps(node: UOp) -> bool:
    """Return True for remainders, maxima, and quotients by a constant above 0."""
    if node.op is Ops.IDIV:
        return (constant_of(node.src[1]) or 0) > 0
    return node.op in (Ops.MOD, Ops.MAX)


def sizes_of_division(x: Term, y: Term, q: Term, r: Term) -> list[Term]:
    """Return facts on quotient and remainder of x by y; `prover.lemmas` proves them once."""
    natural = z3.And(r >= 0, r <= x, -x <= q, q <= x)
    negative = z3.And(x <= r, r <= 0, x <= q, q <= -x)
    return [
        z3.Implies(x >= 0, natural),
        z3.Implies(x <= 0, negative),
        z3.Implies(z3.And(y >= 0, x >= 0), q >= 0),
        z3.Implies(z3.And(y >= 0, x <= 0), q <= 0),
    ]


class Integers(Semantics):
    """Every integer as the mathematical one.

    A quotient and its remainder are new variables with their definition: x == y * q + r, with r
    nearer to 0 than y and of the sign of x. This defines truncating division by products alone.
    `is_positive` may tell that a divisor is above 0, for which the definition is shorter. With
    `wraps`, values of fixed width wrap into it.
    """

    def __init__(
        self,
        is_positive: Callable[[Term], bool] = lambda term: False,
        wraps: bool = False,
    ) -> None:
        super().__init__()
        self.is_positive = is_positive
        self.wraps = wraps
        self._divisions: dict[tuple[int, int], tuple[Term, Term]] = {}
        # Consequences of the definitions: neither result is farther from 0 than the dividend.
        self.sizes: list[Term] = []

    def constant(self, dtype: DType, value: int) -> Term:
        return z3.IntVal(value)

    def variable(self, dtype: DType, name: str) -> Term:
        return z3.Int(name)

    def convert(self, source: DType, target: DType, x: Term) -> Term:
        return x

    def settle(self, node: UOp, raw: Term) -> Term:
        if not self.wraps or node.dtype.scalar is dtypes.index or _never_wraps(node):
            return raw
        least, most = int(node.dtype.minimum), int(node.dtype.maximum)
        wrapped = (raw - least) % (most - least + 1) + least
        return z3.If(z3.And(least <= raw, raw <= most), raw, wrapped)

    def division(self, x: Term, y: Term) -> tuple[Term, Term]:
        """Return quotient (towards zero) and remainder (of the sign of `x`); by 0 both are 0."""
        key = (x.get_id(), y.get_id())
        if key not in self._divisions:
            number = len(self._divisions)
            q, r = z3.Int(f"quotient {number}"), z3.Int(f"remainder {number}")
            whole = x == y * q + r
            self.definitions += [z3.Implies(x >= 0, r >= 0), z3.Implies(x <= 0, r <= 0)]
            if self.is_positive(y):
                self.definitions += [whole, r < y, -y < r]
            else:
                self.definitions += [
                    z3.Implies(y == 0, z3.And(q == 0, r == 0)),
                    z3.Implies(y > 0, z3.And(whole, r < y, -y < r)),
                    z3.Implies(y < 0, z3.And(whole, r < -y, y < r)),
                ]
            self._divisions[key] = (q, r)
            self.sizes += sizes_of_division(x, y, q, r)
        return self._divisions[key]

    def binary(self, op: Ops, dtype: DType, x: Term, y: Term) -> Term:
        arms: dict[Ops, Callable[[], Term]] = {
            Ops.ADD: lambda: x + y,
            Ops.SUB: lambda: x - y,
            Ops.MUL: lambda: x * y,
            Ops.IDIV: lambda: self.division(x, y)[0],
            Ops.MOD: lambda: self.division(x, y)[1],
            Ops.MAX: lambda: z3.If(x < y, y, x),
            Ops.CMPLT: lambda: x < y,
            Ops.CMPNE: lambda: x != y,
        }
        if op not in arms:
            raise UserError(f"{op.name} of integers has no term")
        return arms[op]()
