"""Proofs of laws by the SMT solver z3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import z3

from tinyref.algebra.linear import constant_of
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref_spec.proofs.law import Equation, Law, Proof
from tinyref_spec.proofs.semantics import Bits, Integers, Term, sizes_of_division

# The solver counts its own steps, so that slow machines have the same limit.
EFFORT = 30_000_000
_QUICK = 500_000


class ProofResult(Enum):
    """The solver's answer to a claim."""

    __hash__ = object.__hash__

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


def claim(premises: Sequence[Term], goal: Term, effort: int = EFFORT) -> tuple[ProofResult, str]:
    """Return whether `goal` follows from the premises; if not, with a counterexample."""
    solver = z3.Solver()
    solver.set("rlimit", effort)
    solver.add(*premises)
    solver.add(z3.Not(goal))
    answer = solver.check()
    if answer == z3.unsat:
        return ProofResult.PROVED, ""
    if answer == z3.unknown:
        return ProofResult.UNKNOWN, solver.reason_unknown()
    model = solver.model()
    return ProofResult.REFUTED, ", ".join(
        sorted(f"{name} = {model[name]}" for name in model.decls())
    )


def require(law: Law, dtype: DType) -> None:
    """Raise `UserError` for a law that is not proved, or whose conditions are never true."""
    answer, detail = prove(law, dtype)
    if answer is not ProofResult.PROVED:
        raise UserError(f"law {law.label} at {dtype.name}: {answer.value}: {detail}")
    if not can_hold(law, dtype):
        raise UserError(f"law {law.label} at {dtype.name}: its conditions are never true")


def prove(law: Law, dtype: DType, effort: int = EFFORT) -> tuple[ProofResult, str]:
    """Return the answer to `law` for `dtype`: at its width, or as integers within its range."""
    if law.proof is Proof.INTEGERS:
        return _by_integers(law, law.equation(dtypes.index), dtype, effort)
    return by_bits(law.equation(dtype), effort)


def by_bits(equation: Equation, effort: int = EFFORT) -> tuple[ProofResult, str]:
    """Return whether both sides have the same bits at the width of each type."""
    bits = Bits()
    premises = [bits.term(node) for node in equation.where]
    goal = bits.term(equation.left) == bits.term(equation.right)
    return claim(premises, goal, effort)


class _IntegerProof:
    """One equation over integers in the range of one type: what is known so far."""

    def __init__(self, dtype: DType, effort: int) -> None:
        self.dtype = dtype
        self.effort = effort
        self.known: list[Term] = []
        self.positive: set[int] = set()
        self.terms = Integers(is_positive=lambda term: term.get_id() in self.positive)

    def within(self, term: Term) -> Term:
        return z3.And(int(self.dtype.minimum) <= term, term <= int(self.dtype.maximum))

    def assume(self, node: UOp) -> None:
        self.known.append(self.terms.term(node))
        if node.op is Ops.CMPLT and constant_of(node.src[0]) == 0:
            self.positive.add(self.terms.term(node.src[1]).get_id())

    def begin(self, equation: Equation, proves_steps: bool = False) -> tuple[ProofResult, str]:
        """Add the sums, the conditions and the steps; prove the steps first if `proves_steps`."""
        for leaf, total in equation.reads:
            self.known.append(self.terms.term(leaf) == self.terms.term(total))
        for node in equation.where:
            self.assume(node)
        for step in equation.steps:
            if proves_steps:
                answer, detail = self.follows(self.terms.term(step))
                if answer is not ProofResult.PROVED:
                    return answer, f"a step: {detail}"
            self.assume(step)
        return ProofResult.PROVED, ""

    def stays_within(self, node: UOp) -> tuple[ProofResult, str]:
        """Return whether the node's value is in the type's range; first by its sources alone."""
        goal = self.within(self.terms.term(node))
        sources = [self.terms.term(source) for source in node.src if source.dtype.is_int]
        near = [self.within(source) for source in sources]
        near += [source > 0 for source in sources if source.get_id() in self.positive]
        answer, detail = claim([*near, *self.terms.sizes], goal, _QUICK)
        if answer is ProofResult.PROVED:
            return answer, detail
        return self.follows(goal, self.terms.sizes)

    def follows(self, goal: Term, more: Sequence[Term] = ()) -> tuple[ProofResult, str]:
        premises = [*self.known, *self.terms.definitions, *more]
        return claim(premises, goal, self.effort)


def _by_integers(
    law: Law, equation: Equation, dtype: DType, effort: int
) -> tuple[ProofResult, str]:
    """Prove the equation for integers; for a type with a range, also that nothing leaves it."""
    answer, detail = _for_all_integers(law, equation, effort)
    if answer is not ProofResult.PROVED or dtype is dtypes.index:
        return answer, detail
    proof = _IntegerProof(dtype, effort)
    roots = (equation.left, equation.right)
    for node in toposort((*roots, *equation.where)):
        if node.op is Ops.DEFINE_VAR and node.dtype.is_int:
            proof.known.append(proof.within(proof.terms.term(node)))
    proof.begin(equation)
    proof.known.append(proof.terms.term(equation.left) == proof.terms.term(equation.right))
    free = _ring(roots) if equation.wraps else set()
    for node in toposort(roots):
        if not node.dtype.is_int or node.op is Ops.DEFINE_VAR or node in free:
            continue
        within = proof.within(proof.terms.term(node))
        answer, detail = proof.stays_within(node)
        if answer is not ProofResult.PROVED:
            return answer, f"{node.op.name} may wrap: {detail}"
        proof.known.append(within)
    return ProofResult.PROVED, ""


def lemmas() -> Iterator[tuple[str, ProofResult]]:
    """Yield the lemmas on quotients and remainders that proofs use, each with its answer."""
    terms = Integers()
    x, y = z3.Ints("x y")
    q, r = terms.division(x, y)
    for number, lemma in enumerate(sizes_of_division(x, y, q, r)):
        yield f"division.{number}", claim(terms.definitions, lemma)[0]


def can_hold(law: Law, dtype: DType) -> bool:
    """Return False if the conditions of the law contradict each other, which proves anything."""
    solver = z3.Solver()
    solver.set("rlimit", EFFORT)
    if law.proof is Proof.INTEGERS:
        equation = law.equation(dtypes.index)
        proof = _IntegerProof(dtypes.index, EFFORT)
        proof.begin(equation)
        proof.terms.term(equation.left)
        proof.terms.term(equation.right)
        solver.add(*proof.known, *proof.terms.definitions)
    else:
        bits = Bits()
        solver.add(*map(bits.term, law.equation(dtype).where))
    return bool(solver.check() == z3.sat)


_unbounded: dict[tuple[Law, Equation], tuple[ProofResult, str]] = {}


def _for_all_integers(law: Law, equation: Equation, effort: int) -> tuple[ProofResult, str]:
    """Prove the steps and the equation over integers without a range, once for all types."""
    if (law, equation) in _unbounded:
        return _unbounded[law, equation]
    proof = _IntegerProof(dtypes.index, effort)
    answer, detail = proof.begin(equation, proves_steps=True)
    if answer is ProofResult.PROVED:
        left, right = proof.terms.term(equation.left), proof.terms.term(equation.right)
        answer, detail = proof.follows(left == right)
    if answer is not ProofResult.UNKNOWN:
        _unbounded[law, equation] = answer, detail
    return answer, detail


def _ring(roots: Sequence[UOp]) -> set[UOp]:
    """Return sums and products that only sums and products use: they may wrap, at any width."""
    ring = {Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.CONST}
    nodes = toposort(roots)
    used = {source for node in nodes if node.op not in ring for source in node.src}
    return {node for node in nodes if node.op in ring and node not in used}
