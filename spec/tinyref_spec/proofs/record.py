"""What was proved of each rule: committed as `record.json`, so that it can be shown without z3.

`python -m tinyref_spec.proofs` proves every law again and writes it; a test compares both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tinyref.algebra.rewrite import Rule
from tinyref.algebra.simplify import ALL_RULES
from tinyref.errors import UserError
from tinyref_spec.proofs import float_laws
from tinyref_spec.proofs.law import Proof
from tinyref_spec.proofs.laws import laws_of

PATH = Path(__file__).with_name("record.json")
# How a rule that folds constants is checked, which has no equation but the semantics themselves.
FOLDING = "fold-constants"

KINDS = {
    Proof.BITS: "z3: bools, bit-vectors of 32 and 64 bits",
    Proof.INTEGERS: "z3: bounded integers of 32 and 64 bits, unbounded ones for index",
    Proof.EXHAUSTIVE: "exhaustively at small widths",
    Proof.FLOAT16: "every float16",
}


@dataclass(frozen=True)
class RuleProof:
    """How one rule was proved: the kinds of proof, the number of laws, the types they hold for."""

    rule: str
    proofs: tuple[Proof, ...]
    laws: int
    types: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "proofs": [proof.name for proof in self.proofs],
            "laws": self.laws,
            "types": list(self.types),
        }


def proofs_of(rule: Rule, answers: Mapping[str, Proof]) -> RuleProof:
    """The proofs of `rule`; `answers` has how each law of it, by label and type, was proved."""
    kinds: set[Proof] = set()
    types: set[str] = set()
    laws = laws_of(rule.name)
    for law in laws:
        for dtype in law.over:
            kinds.add(answers[f"{law.label} {dtype.name}"])
            types.add(dtype.name)
    halves = float_laws.laws_of(rule.name)
    count = len(laws) + len(halves)
    if halves or rule.name in float_laws.CAST_RULES:
        kinds.add(Proof.FLOAT16)
        types.add("float16")
    if rule.name == FOLDING:
        kinds.add(Proof.EXHAUSTIVE)
        types |= {"int8", "uint8"}
        count += 1
    ordered = tuple(proof for proof in Proof if proof in kinds)
    return RuleProof(rule.name, ordered, count, tuple(sorted(types)))


def committed_proofs() -> dict[str, RuleProof]:
    """The committed record, by rule."""
    found = json.loads(PATH.read_text(encoding="utf-8"))
    return {
        name: RuleProof(
            name,
            tuple(Proof[kind] for kind in entry["proofs"]),
            entry["laws"],
            tuple(entry["types"]),
        )
        for name, entry in found["rules"].items()
    }


def counts(proofs: Iterable[RuleProof]) -> dict[str, int]:
    """How many rules there are, and how many by the kind of their proof; a rule has one.

    A rule counts as exhaustive where one of its laws was, else by its laws on integers and bools,
    else as a float rule.
    """
    kinds = Counter(main_kind(proof) for proof in proofs)
    return {
        "rules": sum(kinds.values()),
        "bit-vectors": kinds[Proof.BITS],
        "bounded integers": kinds[Proof.INTEGERS],
        "exhaustively": kinds[Proof.EXHAUSTIVE],
        "float": kinds[Proof.FLOAT16],
    }


def main_kind(proof: RuleProof) -> Proof:
    """The one kind under which a rule is counted."""
    for kind in (Proof.EXHAUSTIVE, Proof.INTEGERS, Proof.BITS):
        if kind in proof.proofs:
            return kind
    return Proof.FLOAT16


def prove_all() -> dict[str, RuleProof]:
    """Proves every law of every rule, which takes z3 and a minute or two.

    Raises `UserError` for a rule without a law, or a law that is refuted or unknown.
    """
    from tinyref_spec.proofs.prover import Answer, prove

    found = {}
    for rule in ALL_RULES.rules:
        answers = {}
        for law in laws_of(rule.name):
            for dtype in law.over:
                verdict = prove(law, dtype)
                if verdict.answer is not Answer.PROVED:
                    what = f"{verdict.answer.value}: {verdict.detail}"
                    raise UserError(f"law {law.label} at {dtype.name}: {what}")
                answers[f"{law.label} {dtype.name}"] = verdict.proof
        found[rule.name] = proofs_of(rule, answers)
        if not found[rule.name].laws:
            raise UserError(f"rule {rule.name}: has no law in tinyref_spec.proofs")
    return found


def write(proofs: Mapping[str, RuleProof]) -> None:
    """Writes `record.json`."""
    rules = {name: proofs[name].to_json() for name in sorted(proofs)}
    document = {
        "schema": "tinyref.proofs",
        "version": 1,
        "counts": counts(proofs.values()),
        "rules": rules,
    }
    PATH.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
