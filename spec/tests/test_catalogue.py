"""The catalogue: sizes, ids, queries, needs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest

from tinyref.capabilities import CORE_OPS, Capabilities
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Needs, Profile, Rung
from tinyref_spec.ladder import FOUNDATIONS, foundations


@functools.cache
def cases_of(profile: Profile) -> Sequence[Case]:
    """All cases of a profile: listing them takes seconds, so no test does it twice."""
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


def test_a_case_rests_on_its_own_dtype_and_not_on_others() -> None:
    names = foundations(Rung.MATMUL, "float64")
    assert "kernel.one_alu.mul.float64.size:7" in names
    assert "kernel.reduce.add.float64.7x13_over_1" in names
    assert not [name for name in names if ".float16." in name or ".int64." in name]
    assert "kernel.one_alu.mul.float32.size:7" not in names
    assert "kernel.one_alu.mul.float32.size:7" in foundations(Rung.MODEL, "float32")
    assert not [name for name in foundations(Rung.CAST, "int8") if name.startswith("isa.")]
    assert foundations(Rung.TENSOR, "") == foundations(Rung.TENSOR, "no dtype")


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
    assert Needs().unmet(nothing) is None
    assert Needs(features=kernels).unmet(nothing) == "the device runs no kernels"
    assert Needs(core, features=kernels).unmet(small) is None
    unmet = Needs(frozenset({dtypes.float16}), features=kernels).unmet(small)
    assert unmet == "the device does not declare the dtype float16"
    assert "WMMA" in str(Needs(ops=frozenset({"WMMA"})).unmet(small))
    for feature in ("grid", "groups", "vectors:4", "subnormals"):
        assert feature in str(Needs(features=frozenset({feature})).unmet(small))
