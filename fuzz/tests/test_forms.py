"""Normal forms that are judged without a program: each thing that they owe can be missed."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra.kernel_shape import kernel_shape
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import DType, dtypes
from tinyref.optimise import normal_form as normal_form_module
from tinyref.optimise.normal_form import NormalForm, normal_form
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.blame.find import find_blame
from tinyref_fuzz.campaign import cases, examination
from tinyref_fuzz.campaign.cases import FORMS_BESIDE, case_at, forms_at, verdict_with_batch
from tinyref_fuzz.campaign.examination import examine_task
from tinyref_fuzz.campaign.task import Setup, Task
from tinyref_fuzz.judge.caches import forget_case
from tinyref_fuzz.judge.expressions import forms
from tinyref_fuzz.judge.expressions.forms import chooses_one
from tinyref_fuzz.judge.expressions.judge import expression_verdict, form_verdict
from tinyref_fuzz.judge.judge import judge_of, verdict_of
from tinyref_fuzz.reduce import reduce_case
from tinyref_spec.kernel_case import Case, Pair, Symptom, Verdict
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernels.notation import kernel_of, load

PYTHON = "PYTHON"
ROWS, COLUMNS = 2, 5
WHOLE = (ROWS, COLUMNS)


def counter(axis: int = 1) -> UOp:
    """The position on an axis, or on both of them as one."""
    ones = tuple(size if each == axis else 1 for each, size in enumerate(WHOLE))
    return build.iota(ShapeTracker.from_shape(ones).expand(WHOLE))


def place() -> UOp:
    return load(2, dtypes.int32, (ROWS, 1))


def chosen(here: UOp, idle: int = 0, op: Ops = Ops.ADD) -> UOp:
    """The reduce along rows of what is loaded, where `here` holds."""
    return build.reduce(op, build.where(here, load(1, dtypes.int32, WHOLE), idle), (1,))


def wrapping(dtype: DType, size: int) -> UOp:
    """A choice of the place whose number as `dtype` is one that is loaded."""
    number = build.cast(build.iota(ShapeTracker.from_shape((size,))), dtype)
    here = build.equal(number, load(2, dtype, (1,)))
    return build.reduce(Ops.ADD, build.where(here, load(1, dtypes.int32, (size,)), 0), (0,))


def choice() -> Case:
    """x[row, k[row]] as a sum: 13 and 0, as 7 is no place."""
    buffers = np.zeros(ROWS, np.int32), np.arange(10, 20, dtype=np.int32), np.array([3, 7])
    ast = kernel_of(chosen(build.equal(counter(), place())), ROWS, 1)
    return Case(ast, (*buffers[:2], buffers[2].astype(np.int32)))


# A reduce, and whether no loop may be left of it.
CHOICES: dict[str, tuple[UOp, bool]] = {
    "as it is": (chosen(build.equal(counter(), place())), True),
    "the other way": (chosen(build.equal(place(), counter())), True),
    "cast": (
        chosen(build.equal(build.cast(counter(), dtypes.int8), load(2, dtypes.int8, (ROWS, 1)))),
        True,
    ),
    "the largest": (chosen(build.equal(counter(), place()), -(2**31), Ops.MAX), True),
    "turned round": (
        build.reduce(
            Ops.ADD,
            build.where(
                build.not_equal(build.equal(counter(), place()), True),
                build.const(dtypes.int32, 0),
                load(1, dtypes.int32, WHOLE),
            ),
            (1,),
        ),
        True,
    ),
    "a product": (
        build.reduce(
            Ops.ADD,
            build.mul(
                build.cast(build.equal(counter(), place()), dtypes.int32),
                load(1, dtypes.int32, WHOLE),
            ),
            (1,),
        ),
        True,
    ),
    "and one more condition": (
        chosen(
            build.both(build.less(load(3, dtypes.int32, WHOLE), 5), build.equal(counter(), place()))
        ),
        True,
    ),
    "or one more condition": (
        chosen(
            build.either(
                build.less(load(3, dtypes.int32, WHOLE), 5), build.equal(counter(), place())
            )
        ),
        False,
    ),
    "not idle": (chosen(build.equal(counter(), place()), 1), False),
    "not equal": (chosen(build.not_equal(counter(), place())), False),
    "along another axis": (chosen(build.equal(counter(0), place())), False),
    "a place for each column": (
        chosen(build.equal(counter(), load(2, dtypes.int32, WHOLE))),
        False,
    ),
    "counted by two": (chosen(build.equal(build.mul(counter(), 2), place())), False),
    "of floats": (
        chosen(
            build.equal(build.cast(counter(), dtypes.float32), build.cast(place(), dtypes.float32))
        ),
        False,
    ),
    # 600 positions are no places of a byte, which has each of them more than once.
    "a byte that wraps": (wrapping(dtypes.uint8, 600), False),
    "a signed byte that wraps": (wrapping(dtypes.int8, 200), False),
    "a byte that does not": (wrapping(dtypes.uint8, 256), True),
    "a zero with a sign": (
        build.reduce(
            Ops.ADD,
            build.where(build.equal(counter(), place()), load(1, dtypes.float32, WHOLE), -0.0),
            (1,),
        ),
        False,
    ),
    "no choice": (build.reduce(Ops.ADD, load(1, dtypes.int32, WHOLE), (1,)), False),
}


@pytest.mark.table
@pytest.mark.parametrize("name", CHOICES)
def test_which_reduces_choose_one_place(name: str) -> None:
    """And of those that do, the compiler leaves no loop."""
    node, wanted = CHOICES[name]
    assert chooses_one(node) is wanted
    left = normal_form(kernel_of(node, *kernel_shape(node))).ast.toposort()
    assert not any(map(chooses_one, left))


@pytest.mark.table
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_forms_of_a_healthy_compiler_agree(first: int) -> None:
    judged = judge_of(PYTHON)
    for number in range(first, first + 10):
        every = forms_at(judged, 1, number)
        assert len(every) == FORMS_BESIDE
        assert [form_verdict(each) for each in every] == [Verdict()] * FORMS_BESIDE


def test_many_forms_choose() -> None:
    every = [form for number in range(30) for form in forms_at(judge_of(PYTHON), 1, number)]
    reduces = [any(node.op is Ops.REDUCE for node in each.ast.toposort()) for each in every]
    chooses = [any(map(chooses_one, each.ast.toposort())) for each in every]
    assert sum(reduces) > len(every) // 2
    assert sum(chooses) >= 4


def test_another_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = choice()
    assert form_verdict(case) == Verdict()
    other = kernel_of(build.add(place(), 0), ROWS, 1)
    monkeypatch.setattr(forms, "normal_form", lambda ast: NormalForm(other, (-1,)))
    found = form_verdict(case)
    assert (found.pair, found.symptom) == (Pair.EXPRESSION, Symptom.VALUE)
    assert found.detail.startswith("normal: slot 0: element 0 of 2 is 3 instead of 13")


def test_a_store_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "normal_form", lambda ast: NormalForm(build.sink(), ()))
    assert form_verdict(choice()).detail.startswith("normal: slot 0: element 0 of 2 is 0 instead")


def test_a_normal_form_that_is_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = iter([(-1,), (0,)])
    real = normal_form

    def changing(ast: UOp) -> NormalForm:
        return replace(real(ast), owners=next(owners))

    monkeypatch.setattr(forms, "normal_form", changing)
    found = form_verdict(choice())
    assert found.symptom is Symptom.COST
    assert found.detail == "normal: the normal form has another normal form"


def test_a_loop_over_a_choice_is_found_reduced_and_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = choice()
    forget_case()
    monkeypatch.setattr(normal_form_module, "fold_ranges", lambda ast: ast)
    found = form_verdict(case)
    assert (found.pair, found.symptom) == (Pair.EXPRESSION, Symptom.COST)
    assert found.detail == "normal: a loop is left over a choice of one place"
    assert expression_verdict(case, judge_of(PYTHON).capabilities) == found
    smaller = reduce_case(case, found, PYTHON, 3.0)
    assert smaller.verdict.detail == found.detail
    assert find_blame(smaller.case, smaller.verdict, PYTHON).stage == "normal"


def test_forms_are_judged_where_the_batch_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, case = judge_of(PYTHON), choice()
    monkeypatch.setattr(cases, "verdict_of", lambda judge, case: Verdict(judged=2))
    assert verdict_with_batch(judged, case, 1, 0) == (case, Verdict(judged=2))
    wrong = Verdict(Pair.EXPRESSION, Symptom.VALUE, "normal: another")
    monkeypatch.setattr(cases, "form_verdict", lambda case: wrong)
    form, found = verdict_with_batch(judged, case, 1, 0)
    assert found == replace(wrong, judged=2)
    assert form.ast is forms_at(judged, 1, 0)[0].ast


@pytest.mark.parametrize("is_of_laws", [False, True], ids=["a form", "laws"])
def test_a_finding_beside_a_kernel_keeps_its_case(
    is_of_laws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the kernel, and not the batch: what is stored fails when it is judged again."""
    judged = judge_of(PYTHON)
    # The fault is one of this process.
    monkeypatch.setattr(examination, "dependence", lambda *given: "")
    forget_case()
    if is_of_laws:
        number, broken = 4, ALL_RULES.without({"ne-div"})
    else:
        number, broken = choosing_number(), contextlib.nullcontext()
        monkeypatch.setattr(normal_form_module, "fold_ranges", lambda ast: ast)
    with broken:
        case = case_at(judged, 1, number)
        found, verdict = verdict_with_batch(judged, case, 1, number)
        assert found.ast is not case.ast
        task = Task(number, number + 1, None, verdict)
        done = examine_task(Setup(PYTHON, 1, examine_seconds=3.0), judged, (), task, 1)
        assert done.problem == ""
        assert done.case is not None
        stored = record_from_json(done.case)
        again = verdict_of(judged, stored.case, thorough=True)
    assert (again.pair, again.symptom) == (verdict.pair, Symptom.COST)
    assert stored.blame is not None
    wanted = ("simplify", "ne-div") if is_of_laws else ("normal", "normal at a cost")
    assert (stored.blame.stage, stored.blame.cause) == wanted


def choosing_number() -> int:
    """The first case with a form beside it that chooses one place."""
    return next(
        number
        for number in range(40)
        for form in forms_at(judge_of(PYTHON), 1, number)
        if any(map(chooses_one, form.ast.toposort()))
    )
