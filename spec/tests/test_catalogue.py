"""The catalogue: ids, queries, needs, and the clauses that rows cite."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pytest

from tinyref.algebra.op_table import OP_TABLE
from tinyref.capabilities import CORE_OPS, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, CaseNeeds, Profile, Rung
from tinyref_spec.clauses import clause, clauses
from tinyref_spec.ladder import FOUNDATIONS, foundations


@functools.cache
def cases_of(profile: Profile) -> Sequence[Case]:
    """Return all cases of a profile; the cache saves seconds in each test."""
    return catalogue.cases(profile)


@pytest.mark.slow
def test_ids_are_unique_and_quick_is_part_of_full() -> None:
    ids = {case.id for case in cases_of(Profile.FULL)}
    assert len(ids) == len(cases_of(Profile.FULL))
    assert {case.id for case in cases_of(Profile.QUICK)} <= ids


@pytest.mark.slow
def test_rows_are_prefixes_of_their_cases() -> None:
    rows = {row.id for row in catalogue.all_rows()}
    assert len(rows) == len(catalogue.all_rows())
    for case in cases_of(Profile.FULL):
        assert case.row in rows
        assert case.id.startswith((f"{case.row}.", f"{case.row}:"))
        assert case.clauses
        assert case.level == case.id.partition(".")[0]


@pytest.mark.long
def test_dependencies_are_cases_of_lower_rungs() -> None:
    cases = {case.id: case for case in cases_of(Profile.QUICK)}
    for rung, names in FOUNDATIONS.items():
        for name in names:
            assert cases[name].rung is rung
    for case in cases.values():
        for name in case.depends_on:
            assert cases[name].rung < case.rung
            assert cases[name].row != case.row
    assert foundations(Rung.OPEN, "") == ()


@pytest.mark.long
def test_queries() -> None:
    def ids(query: str) -> set[str]:
        return {case.id for case in catalogue.cases(Profile.QUICK, query)}

    mod = ids("isa.binary.mod.int32")
    assert len(mod) > 10
    assert all(name.startswith("isa.binary.mod.int32.") for name in mod)
    assert ids("isa.binary.mod.int32.special:3") == {"isa.binary.mod.int32.special:3"}
    assert ids("isa.binary.mod.int32.special:*") < mod
    assert ids("isa.binary.mod.*,isa.binary.idiv.int8") > mod
    assert ids("isa.*.float16") >= ids("isa.unary.sin.float16")
    assert ids("isa.binary.mod.int3") == set()
    assert ids("nothing") == set()
    assert len(ids("*")) == len(cases_of(Profile.QUICK))


def test_find_names_what_is_near() -> None:
    with pytest.raises(UserError, match=r"isa\.binary\.mod\.int32\.special:0"):
        catalogue.find("isa.binary.mod.int32.special:999")
    with pytest.raises(UserError, match="begin with isa"):
        catalogue.find("nonsense")
    assert catalogue.find_row("isa.unary.neg.int8.special:0").id == "isa.unary.neg.int8"


def test_needs() -> None:
    core = frozenset({dtypes.int32, dtypes.bool})
    small = Capabilities(core, CORE_OPS, keeps_subnormals=False)
    nothing = Capabilities(frozenset(), frozenset())
    kernels = frozenset({"kernels"})
    assert CaseNeeds().unmet(nothing) is None
    assert CaseNeeds(features=kernels).unmet(nothing) == "the device runs no kernels"
    assert CaseNeeds(core, features=kernels).unmet(small) is None
    unmet = CaseNeeds(frozenset({dtypes.float16}), features=kernels).unmet(small)
    assert unmet == "the device does not declare the dtype float16"
    for feature in ("grid", "groups", "vectors:4", "subnormals"):
        assert feature in str(CaseNeeds(features=frozenset({feature})).unmet(small))


# --- clauses --------------------------------------------------------------------------------------


CITED = {label for row in catalogue.all_rows() for label in row.clauses}


def test_every_cited_clause_is_defined_and_every_defined_one_cited() -> None:
    assert set(clauses()) == CITED


def test_every_clause_of_the_op_table_is_defined() -> None:
    assert {spec.clause for spec in OP_TABLE.values()} <= set(clauses())


def test_every_row_says_what_it_measures() -> None:
    """Require a sentence for a reader, not Python's text for a function without one."""
    machines = re.compile(r"\(func\b|\*args|\bpartial\(|<lambda>|<function| at 0x")
    sentences = {row.id: row.sentence.strip() for row in catalogue.all_rows()}
    assert [name for name, words in sentences.items() if not re.search(r'[.?)"]$', words)] == []
    assert [name for name, words in sentences.items() if machines.search(words)] == []


def test_unknown_label_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"isa\.nonsense"):
        clause("isa.nonsense")
