"""The mutants: every edit still fits the source, changes it, and leaves what can be imported."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tinyref
from tinyref_fuzz.blame import STAGES
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_fuzz.mutants.mutant import Mutant, MutantError, switch_on
from tinyref_fuzz.mutants.subjects import subjects

ROOT = Path(str(tinyref.__file__)).parent.parent
DEVICES = {
    *("PYTHON", "CPU", "CLANG"),
    *(
        f"tinyref_fuzz.judge.devices:{name}"
        for name in ("Core", "SlowDivision", "Cramped", "Words", "Library")
    ),
}
ANY = MUTANTS["max-of-lanes-as-sum"]
# The classes that the design asks for, each with a mutant of it.
CLASSES = {
    "PADTO over an op that does not keep zero": "padto-exp2",
    "stale group indices": "stale-group-index",
    "wrong local count on a full unroll": "full-unroll-keeps-axis",
    "store gated on one group axis": "store-gated-on-one-group-axis",
    "shared-memory limit unchecked": "shared-memory-unchecked",
    "lost NOLOCALS": "nolocals-lost",
    "permuted matrix operands": "tile-operands-swapped",
    "divisibility checked on the wrong shape": "divisibility-of-wrong-shape",
    "halved odd grid dims": "odd-grid-halved",
    "loop end before its last child": "loop-ends-before-its-last-child",
    "merged ranges across scopes": "merged-reduces-of-other-depth",
    "missing leading barrier in a loop": "no-leading-barrier-in-loop",
    "missing barrier": "no-barrier-after-grouped-reduce",
    "barrier inside a branch": "barrier-in-branch",
    "two reduces sharing local memory": "reduces-share-local-memory",
    "GEP order ignored": "shuffle-order-ignored",
    "wrong reduce identity": "identity-of-max-is-zero",
    "MAX collapsed as ADD": "max-of-lanes-as-sum",
    "ungated folded index": "folded-index-ungated-above",
    "gate dropped from a packed store": "packed-store-ungated",
    "sign-mixed MUL bounds": "mul-bounds-signs",
    "range max off by one": "range-ends-early",
    "mod-of-mod": "mod-of-mod-any-modulus",
    "negative divisors": "negative-divisor-sign-lost",
    "merged non-contiguous dims": "merged-with-gap",
    "inverted IF": "llvm-inverted-if",
}


@functools.cache
def source_of(mutant: Mutant) -> str:
    path = ROOT / mutant.module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text()


def test_the_catalogue_has_all_classes_and_enough_of_them():
    assert len(MUTANTS) >= 45
    missing = {name for name in CLASSES.values() if name not in MUTANTS}
    assert not missing


def test_race_mutants_are_those_of_barriers_and_of_orders_between_work_items():
    races = {name for name, mutant in MUTANTS.items() if mutant.is_race}
    assert races == {
        "no-leading-barrier-in-loop",
        "leading-barrier-waits-for-nothing",
        "no-barrier-after-grouped-reduce",
        "barrier-waits-for-nothing",
        "barrier-in-branch",
        "reduces-share-local-memory",
        "tile-memory-without-barrier",
        "tile-memory-without-leading-barrier",
        "loop-on-host-only",
        "in-place-group",
        "store-gated-on-one-group-axis",
        "small-output-written-by-all",
        "waits-forgotten",
        "in-place-read-beyond-launch",
    }
    assert not MUTANTS["load-after-store"].is_race
    assert {subject.name for subject in subjects() if subject.is_race} == races


def problem_of(mutant: Mutant) -> str:
    source = source_of(mutant)
    try:
        edited, line = mutant.edit(source)
    except MutantError as error:
        return str(error)
    if edited.splitlines()[line - 1] == source.splitlines()[line - 1]:
        return f"line {line} is as it was"
    # A comment more or another layout is no change.
    return "means the same" if words(mutant.old) == words(mutant.new) else ""


def words(text: str) -> str:
    return "".join(re.sub("#.*", "", text).split())


def test_every_edit_fits_the_source_and_changes_what_it_means():
    problems = {mutant.name: problem_of(mutant) for mutant in MUTANTS.values()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_every_edit_is_python(name):
    mutant = MUTANTS[name]
    ast.parse(mutant.edit(source_of(mutant))[0])


def is_filled(mutant: Mutant) -> bool:
    return (
        mutant.name == mutant.name.lower()
        and bool(mutant.kind)
        and len(mutant.resembles.split()) >= 5
        and bool(mutant.stages)
        and set(mutant.stages) <= set(STAGES)
        and mutant.device in DEVICES
    )


def test_every_field_is_filled():
    assert [mutant.name for mutant in MUTANTS.values() if not is_filled(mutant)] == []


@pytest.mark.parametrize("gap", ["kind", "stages", "resembles"])
def test_a_gap_is_seen(gap):
    assert not is_filled(replace(ANY, **{gap: () if gap == "stages" else ""}))


def test_no_two_mutants_are_the_same_edit():
    edits = {(mutant.module, mutant.old, mutant.new) for mutant in MUTANTS.values()}
    assert len(edits) == len(MUTANTS)


@pytest.mark.long
@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutated_compiler_is_imported_and_can_be_described(name):
    code = (
        "import importlib\n"
        "from tinyref_fuzz.mutants.catalogue import MUTANTS\n"
        "from tinyref_fuzz.mutants.mutant import switch_on\n"
        f"mutant = MUTANTS[{name!r}]\n"
        "switch_on(mutant)\n"
        "module = importlib.import_module(mutant.module)\n"
        "print(type(module.__loader__).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "_Loader"


# --- the mechanism ------------------------------------------------------------------------------


def test_an_edit_of_text_that_is_gone_is_refused():
    with pytest.raises(MutantError, match="stands 0 times"):
        replace(ANY, old="no such text anywhere").edit(source_of(ANY))


def test_an_edit_of_text_that_stands_twice_is_refused():
    with pytest.raises(MutantError, match="stands 2 times"):
        replace(ANY, old="x = 1").edit("x = 1\nx = 1\n")


def test_an_edit_that_changes_nothing_is_refused():
    with pytest.raises(MutantError, match="accepted is a text"):
        replace(ANY, new=ANY.old).edit(source_of(ANY))


def test_the_line_of_an_edit_is_the_first_that_differs():
    mutant = replace(ANY, old="b\nc\n", new="b\nd\n")
    assert mutant.edit("a\nb\nc\n") == ("a\nb\nd\n", 3)
    mutant = replace(ANY, old="b", new="b\nmore")
    assert mutant.edit("a\nb\nc\n") == ("a\nb\nmore\nc\n", 3)
    mutant = replace(ANY, old="b", new="b + 1")
    assert mutant.edit("a\nb\nc\n") == ("a\nb + 1\nc\n", 2)


def test_a_mutant_comes_too_late_where_its_module_is_imported():
    with pytest.raises(MutantError, match="imported already"):
        switch_on(replace(ANY, module=Mutant.__module__))


@pytest.mark.long
def test_a_normal_run_imports_no_mutant():
    code = (
        "import sys, tinyref_fuzz.judge.judge, tinyref_fuzz.generate\n"
        "assert not [name for name in sys.modules if 'mutants' in name]\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
