"""Judges the expressions of a kernel, each by every column; nothing is compiled to a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tinyref.capabilities import Capabilities
from tinyref.errors import explain_error
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ViewArg
from tinyref.views.build import tracker_of
from tinyref_fuzz.generate.batches import Subject
from tinyref_fuzz.judge.cost import growth
from tinyref_fuzz.judge.expressions.algebra import algebra_problems
from tinyref_fuzz.judge.expressions.forms import COLUMN, form_problems
from tinyref_fuzz.judge.expressions.lacks import lacks_of, turn_of
from tinyref_fuzz.judge.expressions.plans import COLUMN as PLANS
from tinyref_fuzz.judge.expressions.plans import plan_problems
from tinyref_fuzz.judge.expressions.points import Points, Problem
from tinyref_fuzz.judge.expressions.stages import stage_problems
from tinyref_fuzz.judge.expressions.views import view_problems
from tinyref_spec.kernel_case import Case, Equivalent, Pair, Symptom, Verdict


def expression_verdict(case: Case, capabilities: Capabilities, lot: int | None = None) -> Verdict:
    """The verdict on the first output that a service of the compiler makes another value of.

    lot: the number of a batch of a campaign, which has a part of the columns and of the devices
    that lack something; all without it, and the normal form and the plans of a kernel too, which
    are all that is looked at where it reduces, or reads what it writes. Of an equivalent kernel
    only a batch asks, and only what it costs: the rest is of programs.
    """
    if lot is not None and case.equivalent is not None:
        return _of_laws(case.equivalent, capabilities)
    return _verdict(_problems(case, capabilities, lot))


def form_verdict(case: Case) -> Verdict:
    """The verdict on the normal form of a kernel."""
    return _verdict(problems_of(COLUMN, partial(form_problems, case)))


def plan_verdict(case: Case, capabilities: Capabilities, lot: int) -> Verdict:
    """The verdict on what plans of a kernel accept; lot: as of `plan_problems`."""
    return _verdict(problems_of(PLANS, partial(plan_problems, case, capabilities, lot)))


def _verdict(problems: Iterator[Problem]) -> Verdict:
    for problem in problems:
        return Verdict(Pair.EXPRESSION, problem.symptom, str(problem))
    return Verdict()


def _of_laws(equivalent: Equivalent, capabilities: Capabilities) -> Verdict:
    """As of any kernel with an equivalent one, which is how it is judged again."""
    try:
        larger = growth(equivalent, capabilities)
    except Exception as error:  # the compiler is under test
        return Verdict(Pair.EQUIVALENT, Symptom.ERROR, f"compiler: {explain_error(error)}")
    if larger is None:
        return Verdict()
    return Verdict(Pair.EQUIVALENT, Symptom.COST, f"compiler, {larger}")


def _problems(case: Case, capabilities: Capabilities, lot: int | None) -> Iterator[Problem]:
    if lot is None:
        yield from problems_of(COLUMN, partial(form_problems, case))
        yield from problems_of(PLANS, partial(plan_problems, case, capabilities))
    if not _is_elementwise(case.ast):
        return
    points = Points(case)
    subject, lack = (None, None) if lot is None else turn_of(lot, capabilities)
    yield from _of_outputs(points, case, None if subject is not Subject.VIEWS else lot, subject)
    lacks = lacks_of(capabilities) if lot is None else (lack,) if lack is not None else ()
    for name, lacking in lacks:
        yield from stage_problems(points, case, name, lacking)


def _of_outputs(
    points: Points, case: Case, lot: int | None, subject: Subject | None
) -> Iterator[Problem]:
    """What is wrong with single outputs, and with the views that they are made of."""
    seen: set[UOp] = set()
    for store in case.ast.src:
        yield from problems_of("algebra", partial(algebra_problems, points, store.src[1], seen))
        if subject in (Subject.ALGEBRA, Subject.OPERATIONS):
            continue
        for node in store.toposort():
            if isinstance(node.arg, ViewArg) and node not in seen:
                seen.add(node)
                turn = None if lot is None else lot + len(seen)
                tracker = tracker_of(node)
                yield from problems_of(
                    "views", partial(view_problems, tracker, case.bindings, turn)
                )


def problems_of(column: str, problems: Callable[[], Iterator[Problem]]) -> Iterator[Problem]:
    """The problems of a column; what a service raises is one as well."""
    try:
        yield from problems()
    except Exception as error:  # the compiler is under test
        yield Problem(column, f"{type(error).__name__}: {error}", Symptom.ERROR)


def _is_elementwise(ast: UOp) -> bool:
    """Whether outputs are computed element by element of what others hold."""
    written = {slot_of(store) for store in ast.src}
    return not any(
        node.op is Ops.REDUCE or (node.op is Ops.LOAD and slot_of(node) in written)
        for node in ast.toposort()
    )
