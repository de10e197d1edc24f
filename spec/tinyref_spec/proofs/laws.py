"""The table of laws; importing it reads every file of laws."""

from __future__ import annotations

from tinyref_spec.proofs import boolean_laws, comparison_laws, division_laws, integer_laws
from tinyref_spec.proofs.law import LAWS, Law

TABLES = (boolean_laws, comparison_laws, division_laws, integer_laws)


def laws_of(rule: str) -> tuple[Law, ...]:
    """Return the laws of one rule that are written down."""
    return tuple(LAWS.get(rule, ()))
