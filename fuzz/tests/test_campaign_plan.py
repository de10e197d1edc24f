"""Which cases come next and which findings are examined: by numbers alone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from tinyref.algebra.rewrite import counting_rules, rewrite
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes, image, pointer
from tinyref.formats.text import from_text, to_text
from tinyref.runtimes.host import cpu
from tinyref.uops.ops import Ops
from tinyref.views import shape_tracker
from tinyref.views.build import tracker_of
from tinyref_fuzz.campaign.cases import judge_cases, result_of, tape_seed
from tinyref_fuzz.campaign.database import StoredFinding
from tinyref_fuzz.campaign.plan import Frontier, Triage, gaps
from tinyref_fuzz.campaign.results import CaseResult, code_version
from tinyref_fuzz.campaign.task import (
    Examination,
    Setup,
    examination_task,
    judging_task,
    verdict_to_examine,
)
from tinyref_fuzz.campaign.unexamined import signature
from tinyref_fuzz.generate import mutate
from tinyref_fuzz.judge.caches import forget, forget_case
from tinyref_fuzz.judge.judge import judge_of
from tinyref_fuzz.judge.oracles import reference
from tinyref_spec.kernel_case import Blame, Pair, Symptom, Verdict
from tinyref_spec.kernels.corpus import corpus_kernels

WRONG = Verdict(Pair.DEVICE, Symptom.VALUE, "element 3 of 8 is 1 instead of 2", 0, 2)


def finding(number: int, name: str = "a") -> StoredFinding:
    return StoredFinding(number, name, WRONG, None)


def test_gaps_are_what_is_left_in_chunks_of_a_fixed_grid():
    assert list(gaps([], 50)) == [(0, 20), (20, 40), (40, 50)]
    assert list(gaps([(0, 20), (40, 60)], 70)) == [(20, 40), (60, 70)]
    assert list(gaps([(0, 20), (20, 50)], 70)) == [(50, 60), (60, 70)]
    assert list(gaps([(25, 30)], 45)) == [(0, 20), (20, 25), (30, 40), (40, 45)]
    assert list(gaps([(0, 20)], 20)) == []
    assert list(gaps([(0, 20)], 0)) == []
    assert list(islice(gaps([], None), 2)) == [(0, 20), (20, 40)]


def test_the_frontier_waits_for_the_first_gap():
    frontier = Frontier()
    frontier.add(20, 40)
    assert frontier.number == 0
    frontier.add(0, 20)
    assert frontier.number == 40
    frontier.add(60, 80)
    assert frontier.number == 40


def test_few_of_many_that_look_alike_are_examined_in_the_order_of_their_numbers():
    for order in (range(40), reversed(range(40))):
        triage = Triage()
        for number in order:
            triage.add(finding(number))
        triage.add(finding(7, "b"))
        first = [each.number for each in triage.due(before=10)]
        # Ranks 1 to 4 and 8 of one kind, and the only one of another.
        assert first == [0, 1, 2, 3, 7, 7]
        assert [each.number for each in triage.due(None)] == [15, 31]
        assert triage.due(None) == []


def test_findings_are_parted_without_comparing_each_with_each(monkeypatch: pytest.MonkeyPatch):
    def compared(finding: StoredFinding, other: object) -> bool:
        raise AssertionError("of a device that is always wrong this would take hours")

    monkeypatch.setattr(StoredFinding, "__eq__", compared)
    triage = Triage()
    for number in (3, 1, 2):
        triage.add(finding(number))
    assert [each.number for each in triage.due(before=3)] == [1, 2]
    assert [each.number for each in triage.due(None)] == [3]


def test_neighbours_have_tapes_of_their_own():
    # printf 1/0 | b2sum -l 64
    assert tape_seed(1, 0) == 0x099B9DD8225C354B
    assert len({tape_seed(seed, number) for seed in range(20) for number in range(20)}) == 400


def test_signatures_leave_out_what_differs_from_case_to_case():
    assert signature(WRONG) == "DEVICE VALUE"
    error = Verdict(Pair.DEVICE, Symptom.ERROR, "kernel 'r_4_8': slot 3 at 0x7f\nand more", 1)
    assert signature(error) == "DEVICE ERROR kernel *: slot * at *"
    for kernel in ("e", "e_24_8", "r_4_n_16"):
        theirs = Verdict(Pair.DEVICE, Symptom.ERROR, f"load of {kernel}: raises OSError", 1)
        assert signature(theirs) == "DEVICE ERROR load of *: raises OSError"


def test_what_goes_between_processes_comes_back_equal():
    result = CaseResult(7, 0.5, 2, WRONG)
    assert CaseResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    examination = Examination(7, "a", Blame("device"), "differs", {"ast": []}, 8, 2)
    assert Examination.from_json(json.loads(json.dumps(examination.to_json()))) == examination
    setup = Setup("CPU", 1, timeout=5.0, examine_seconds=2.0)
    task = examination_task(setup, 7, WRONG)
    request = json.loads(json.dumps(task.to_json()))
    assert (request["items"], verdict_to_examine(request)) == ([7], WRONG)
    # It has time beyond its own limit, and goes on when that of the campaign is up.
    assert (task.seconds, task.is_last) == (5.0 + 2.0 + 30.0, True)
    request = json.loads(json.dumps(judging_task(3, 6).to_json()))
    assert (request["items"], verdict_to_examine(request)) == ([3, 4, 5], None)


@pytest.mark.long
def test_the_numbered_cases_are_those_that_workers_judge():
    found = list(islice(judge_cases("PYTHON", 3, "small", start=5), 3))
    assert [number for number, _, _, _ in found] == [5, 6, 7]
    assert [verdict.agrees for _, _, verdict, _ in found] == [True] * 3
    again = result_of(judge_of("PYTHON"), 3, 6, "small")
    assert (again.number, again.verdict, again.judged) == (6, None, found[1][2].judged)


def test_what_was_made_before_is_still_the_same_when_all_is_forgotten():
    types = [dtypes.float32.vec(4), pointer(dtypes.int8, 12), image(dtypes.float16, 2, 3)]
    kernel = corpus_kernels()["multiply-add-int8"].ast
    text = to_text(kernel)
    forget()
    again = [dtypes.float32.vec(4), pointer(dtypes.int8, 12), image(dtypes.float16, 2, 3)]
    assert all(new is old for new, old in zip(again, types, strict=True))
    assert from_text(text) is kernel


def test_what_runtimes_know_of_the_machine_is_kept():
    """Compilers are not probed, and emulators not made, anew for each case."""

    def remembered(module: ModuleType) -> int:
        caches = [each for each in vars(module).values() if hasattr(each, "cache_info")]
        assert caches
        return sum(each.cache_info().currsize for each in caches)

    result_of(judge_of("CPU"), 1, 0, "small")
    kept = remembered(cpu)
    assert kept > 0
    assert remembered(shape_tracker) > 0
    forget()
    assert remembered(cpu) == kept
    assert remembered(shape_tracker) == 0


def test_between_cases_tables_of_the_sources_stay_and_their_nodes_know_nothing():
    kernel = corpus_kernels()["multiply-add-int8"].ast
    rewrite(kernel, ALL_RULES)
    tracker_of(next(node for node in kernel.toposort() if node.op is Ops.VIEW)).real_strides()
    signature_of_addition = (Ops.ADD, dtypes.int8, (dtypes.int8, dtypes.int8))
    assert reference._signature_fault(signature_of_addition) is None
    assert kernel.facts
    forget_case()
    assert not kernel.facts
    assert shape_tracker._real_strides.cache_info().currsize == 0
    assert reference._signature_fault.cache_info().currsize > 0
    forget()
    assert reference._signature_fault.cache_info().currsize == 0


def test_tables_that_stay_fire_no_rule_when_they_are_made():
    """Else the case that makes one would count more than others."""
    forget()
    with counting_rules() as fired:
        assert mutate.real_kernels(judge_of("PYTHON").capabilities)
        for op in (Ops.ADD, Ops.IDIV, Ops.SHL):
            reference._signature_fault((op, dtypes.int32, (dtypes.int32, dtypes.int32)))
    assert not fired


def test_the_code_has_one_version_in_a_process():
    assert code_version() == code_version()
    assert code_version().startswith("0.")


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("tinyref", "uops/ops.py"),
        ("tinyref_fuzz", "generate/forms.py"),
        ("tinyref_fuzz", "corpus/data/models.json"),
        ("tinyref_spec", "samples.py"),
    ],
)
def test_the_version_changes_with_all_that_cases_depend_on(
    package: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1")
    module = importlib.import_module(package)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "__init__.py"))
    before = code_version.__wrapped__()
    assert code_version.__wrapped__() == before
    path.write_text("2")
    assert code_version.__wrapped__() != before


def test_who_gives_out_the_cases_does_not_wait_for_what_judges_them():
    """Half of what a command takes until its first worker starts."""
    script = (
        "import sys, tinyref_fuzz.campaign.campaign, tinyref.workers.local\n"
        "rooms = {name.rpartition('.')[0] for name in sys.modules}\n"
        "assert 'tinyref_fuzz.campaign' in rooms\n"
        "rooms &= {'tinyref_fuzz.judge.oracles', 'tinyref_fuzz.reduce', 'tinyref_fuzz.blame',\n"
        "          'tinyref.codegen', 'tinyref.interpret', 'tinyref_fuzz.generate.equivalent'}\n"
        "assert not rooms, rooms\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
