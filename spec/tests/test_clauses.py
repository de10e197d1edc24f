"""Labels are checked by machine, both ways."""

from __future__ import annotations

import re

import pytest

from tinyref.algebra.op_table import OP_TABLE
from tinyref.errors import UserError
from tinyref_spec.catalogue import all_rows
from tinyref_spec.clauses import clause, clauses


def undefined(cited: set[str]) -> set[str]:
    return cited - set(clauses())


def untested(cited: set[str]) -> set[str]:
    return set(clauses()) - cited


CITED = {label for row in all_rows() for label in row.clauses}


def test_every_cited_clause_is_defined() -> None:
    assert undefined(CITED) == set()


def test_every_defined_clause_is_cited_by_a_row() -> None:
    assert untested(CITED) == set()


def test_every_clause_of_the_op_table_is_defined() -> None:
    assert undefined({spec.clause for spec in OP_TABLE.values()}) == set()


def test_every_row_says_what_it_measures() -> None:
    """A sentence for a reader, not what Python says of a function without one."""
    machines = re.compile(r"\(func\b|\*args|\bpartial\(|<lambda>|<function| at 0x")
    sentences = {row.id: row.sentence.strip() for row in all_rows()}
    assert [name for name, words in sentences.items() if not re.search(r'[.?)"]$', words)] == []
    assert [name for name, words in sentences.items() if machines.search(words)] == []


def test_unknown_label_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"isa\.nonsense"):
        clause("isa.nonsense")
