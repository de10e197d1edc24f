"""The record of what was proved of each rule, in `record.json`, which needs no z3 to be shown.

`python -m tinyref_spec.proofs` proves every law again and writes it; a test compares both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tinyref.algebra.named_rules import Rule
from tinyref.algebra.simplify import ALL_RULES
from tinyref.errors import UserError
from tinyref_spec.proofs.law import Proof
from tinyref_spec.proofs.laws import laws_of

PATH = Path(__file__).with_name("record.json")
# The check of a rule that folds constants; its only equation is the semantics themselves.
FOLDING = "fold-constants"

KINDS = {
    Proof.BITS: "z3: bools, bit-vectors of 32 and 64 bits",
    Proof.INTEGERS: "z3: bounded integers of 32 and 64 bits, unbounded ones for index",
    Proof.EXHAUSTIVE: "exhaustively at small widths",
    Proof.FLOAT16: "every float16",
}
TYPES = {
    "integer": "integers and index",
    "index": "index",
    "boolean": "bool",
    "integer_or_bool": "integers, index and bool",
    "floating": "floats",
    "anything": "every type",
}


@dataclass(frozen=True)
class RuleProof:
    """The proof of one rule: the kinds of proof, the number of laws, the types they hold for.

    The pattern of a rule counts as one law, for z3 and for floats.
    """

    proofs: tuple[Proof, ...]
    laws: int
    types: tuple[str, ...]

    @property
    def main_kind(self) -> Proof:
        """Return the kind under which a rule counts; floats only if there is no other kind."""
        kinds = (Proof.EXHAUSTIVE, Proof.INTEGERS, Proof.BITS, Proof.FLOAT16)
        return next(kind for kind in kinds if kind in self.proofs)


def committed_proofs() -> dict[str, RuleProof]:
    """Return the committed record, by rule."""
    rules = json.loads(PATH.read_text(encoding="utf-8"))["rules"]
    return {
        name: RuleProof(
            tuple(Proof[kind] for kind in entry["proofs"]), entry["laws"], tuple(entry["types"])
        )
        for name, entry in rules.items()
    }


def counts(proofs: Iterable[RuleProof]) -> dict[str, int]:
    """Return how many rules there are, and how many by the kind of their proof."""
    kinds = Counter(proof.main_kind for proof in proofs)
    names = {kind: kind.value for kind in Proof} | {Proof.FLOAT16: "float"}
    return {"rules": sum(kinds.values())} | {name: kinds[kind] for kind, name in names.items()}


def prove(rule: Rule) -> RuleProof:
    """Prove every law of a rule, which takes z3.

    Raises `UserError` for a rule without a law, or a law that is refuted, unknown or vacuous.
    """
    from tinyref_spec.proofs import floats, patterns, prover

    if rule.name == FOLDING:
        return RuleProof((Proof.EXHAUSTIVE,), 1, ("int8", "uint8"))
    kinds: set[Proof] = set()
    types: set[str] = set()
    laws = laws_of(rule.name)
    for law in laws:
        kinds.add(law.proof)
        types |= {dtype.name for dtype in law.over}
        for dtype in law.over:
            prover.require(law, dtype)
    stated = set(patterns.equations(rule))
    for equation in stated:
        kinds.add(Proof.BITS)
        types |= {leaf.dtype.name for leaf in equation.left.toposort() if not leaf.src}
        answer, detail = prover.by_bits(equation)
        if answer is not prover.ProofResult.PROVED:
            raise UserError(f"rule {rule.name}: {equation}: {answer.value}: {detail}")
    is_float = floats.check(rule)
    if is_float:
        kinds.add(Proof.FLOAT16)
        types.add("float16")
    count = len(laws) + bool(stated) + is_float
    if not count:
        raise UserError(f"rule {rule.name}: has no law in tinyref_spec.proofs")
    return RuleProof(tuple(proof for proof in Proof if proof in kinds), count, tuple(sorted(types)))


def write() -> dict[str, int]:
    """Prove every rule, which takes minutes, write `record.json`, and return the counts."""
    proofs = {rule.name: prove(rule) for rule in ALL_RULES.rules}
    rules = {
        name: {
            "proofs": [kind.name for kind in proofs[name].proofs],
            "laws": proofs[name].laws,
            "types": list(proofs[name].types),
        }
        for name in sorted(proofs)
    }
    totals = counts(proofs.values())
    document = {"schema": "tinyref.proofs", "version": 1, "counts": totals, "rules": rules}
    PATH.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return totals


@dataclass(frozen=True)
class RuleFacts:
    """One rule as a person reads it, for the page and the command.

    types: of its root. keeps: what it preserves in floats, none for others. proof: the kinds of its
    proofs in words. types_proved: the types for which they hold.
    """

    name: str
    family: str
    equation: str
    types: str
    keeps: tuple[str, ...]
    needs_bounds: bool
    proof: str
    types_proved: tuple[str, ...]
    laws: int

    @property
    def domain(self) -> str:
        """Return types, value ranges and what is kept, in words."""
        parts = [self.types]
        if self.needs_bounds:
            parts.append("where value ranges show it")
        if self.keeps:
            parts.append(f"keeps: {', '.join(self.keeps)}")
        return "; ".join(parts)


def _facts_of(rule: Rule, proof: RuleProof) -> RuleFacts:
    keeps: tuple[str, ...] = ()
    if Proof.FLOAT16 in proof.proofs:
        keeps = ("NaN, infinities, the sign of zero, roundings",)
    return RuleFacts(
        rule.name,
        rule.domain.family,
        " ".join(rule.equation.split()),
        TYPES[rule.domain.dtypes.__name__],
        keeps,
        rule.domain.needs_bounds,
        "; ".join(KINDS[kind] for kind in proof.proofs),
        proof.types,
        proof.laws,
    )


def all_facts(family: str | None = None) -> list[RuleFacts]:
    """Return every rule, or those of one family, by family and name."""
    proofs = committed_proofs()
    facts = [_facts_of(rule, proofs[rule.name]) for rule in ALL_RULES.rules]
    chosen = [fact for fact in facts if family is None or fact.family == family]
    return sorted(chosen, key=lambda fact: (fact.family, fact.name))


def families() -> list[str]:
    """Return the families of rules, which are the files of the rules."""
    return sorted({rule.domain.family for rule in ALL_RULES.rules})
