"""Every rule as a person reads it: equation, domain and proof, for the page and the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.algebra.rewrite import Keeps, Rule
from tinyref.algebra.rewrite.rule import KEEPS_ALL
from tinyref.algebra.simplify import ALL_RULES
from tinyref_spec.proofs import record
from tinyref_spec.proofs.law import Proof

TYPES = {
    "integer": "integers and index",
    "index": "index",
    "boolean": "bool",
    "integer_or_bool": "integers, index and bool",
    "floating": "floats",
    "anything": "every type",
}


@dataclass(frozen=True)
class RuleFacts:
    """One rule. types: of its root. keeps: what it leaves as it was in floats, none for others.

    proof: the kinds of its proofs in words. types_proved: for which types they hold.
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
        """Types, value ranges and what is kept, in words."""
        parts = [self.types]
        if self.needs_bounds:
            parts.append("where value ranges show it")
        if self.keeps:
            parts.append(f"keeps: {', '.join(self.keeps)}")
        return "; ".join(parts)


def facts_of(rule: Rule, proofs: Mapping[str, record.RuleProof]) -> RuleFacts:
    """What is to be said of `rule`, with its proof of the record."""
    proof = proofs[rule.name]
    takes_floats = Proof.FLOAT16 in proof.proofs
    keeps = tuple(each.value for each in Keeps if each in rule.domain.keeps and takes_floats)
    return RuleFacts(
        rule.name,
        rule.domain.family,
        " ".join(rule.equation.split()),
        TYPES[rule.domain.dtypes.__name__],
        ("NaN, infinities, the sign of zero, roundings",) if keeps and _keeps_all(rule) else keeps,
        rule.domain.needs_bounds,
        "; ".join(record.KINDS[kind] for kind in proof.proofs),
        proof.types,
        proof.laws,
    )


def _keeps_all(rule: Rule) -> bool:
    return rule.domain.keeps == KEEPS_ALL


def all_facts(family: str | None = None) -> list[RuleFacts]:
    """Every rule, or those of one family, by family and name."""
    proofs = record.committed_proofs()
    found = [facts_of(rule, proofs) for rule in ALL_RULES.rules]
    chosen = [facts for facts in found if family is None or facts.family == family]
    return sorted(chosen, key=lambda facts: (facts.family, facts.name))


def families() -> list[str]:
    """The families of rules, which are the files that they stand in."""
    return sorted({rule.domain.family for rule in ALL_RULES.rules})
