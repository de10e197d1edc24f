"""Reduced kernels that found real bugs: each is run again, on every device, as it was found.

The cases are the files of `regressions/`, in the format that docs/fuzzing.md describes; the note of
each says what it found. A list of optimisations that is refused now, or by this device, leaves the
kernel to the plan without: a refusal is as good as the right value. A case without lists is run
with that of the heuristics, and the last of its equivalent kernels must give the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from tinyref.dtype import DType, ImageDType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, opts_text
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Needs, Row, Rung
from tinyref_spec.checks import Check, Run, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, Runnable, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel_case import Case, CaseRecord, Mode
from tinyref_spec.kernel_case.files import load_record
from tinyref_spec.measure import Experiment, judge, measure
from tinyref_spec.oracles import Expected

FOLDER = Path(__file__).parent.parent / "regressions"
# Of floats in general the evaluator knows the value, but not how far off a device may be.
LONGEST_NOTE = 160
RULES = {Mode.EXACT: Ulp(0, signed_zero=False), Mode.EDGE: Ulp(0)}


@functools.cache
def records() -> dict[str, CaseRecord]:
    """The cases by name. Raises `UserError` for a file that is none, or cannot be a regression."""
    found = {path.stem: load_record(path) for path in sorted(FOLDER.glob("*.json"))}
    for name, record in found.items():
        problem = problem_of(record)
        if problem:
            raise UserError(f"regression {name}: {problem}")
    return found


def problem_of(record: CaseRecord) -> str:
    """Why a case cannot be a regression, or nothing."""
    case = record.case
    if problem := problem_of_note(record.note):
        return problem
    if case.mode not in RULES:
        accepted = ", ".join(mode.name.lower() for mode in RULES)
        return f"mode: expected one of {accepted}, got {case.mode.name.lower()}"
    if [slot.number for slot in slots_of(case.ast)] != list(range(len(case.buffers))):
        return "buffers: expected those that the kernel uses and no others"
    return ""


def problem_of_note(note: str) -> str:
    """Why a text cannot be the note of a regression, or nothing."""
    if "\n" not in note and note.endswith(".") and 2 < len(note) <= LONGEST_NOTE:
        return ""
    return f"note: expected a line on what it found, up to {LONGEST_NOTE} characters and a dot"


def run(case: Case, opts: tuple[Opt, ...], case_id: str, device: DeviceUnderTest) -> Measurement:
    """Whether a kernel, with these optimisations, gives what the AST evaluator gives."""
    return _measure_regression(
        case, Optimised(case.ast, legal_opts(case, opts, device)), case_id, device
    )


def run_as_chosen(case: Case, case_id: str, device: DeviceUnderTest) -> Measurement:
    """As `run`, with the optimisations that the heuristics choose."""
    return _measure_regression(case, case.ast, case_id, device)


def run_equivalent(
    case: Case, equivalent: UOp, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Whether an equivalent kernel gives the same, by the AST evaluator and on the device."""
    wanted, again = _evaluate_kernel(case, case.ast), _evaluate_kernel(case, equivalent)
    for slot, values in wanted.items():
        found = judge(again[slot], Expected(values), RULES[case.mode])
        if found.fails:
            text = f"the evaluator gives another value for it: slot {slot}, element {found.first}"
            return Measurement(False, text, compared=found.compared)
    return _measure_regression(case, equivalent, case_id, device)


def _measure_regression(
    case: Case, kernel: Runnable, case_id: str, device: DeviceUnderTest
) -> Measurement:
    owed = _evaluate_kernel(case, case.ast).values()
    return measure_case(case, kernel, owed, RULES[case.mode], case_id, device)


def measure_case(
    case: Case,
    kernel: Runnable,
    owed: Iterable[Array],
    rule: Ulp,
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    """Whether a kernel leaves in each slot that it writes, in their order, what is owed."""
    wanted = [Expected(values) for values in owed]
    rules = [rule] * len(wanted)
    experiment = Experiment(case_id, kernel, case.buffers, wanted, rules, case.bindings)
    return measure(device, experiment)


def _evaluate_kernel(case: Case, ast: UOp) -> dict[int, Array]:
    """What a kernel leaves in each of the slots that the case's own one writes, in their order."""
    written = evaluate(ast, dict(enumerate(case.buffers)), case.bindings)
    slots = [slot.number for slot in slots_of(case.ast) if slot.is_written]
    return {slot: written.get(slot, case.buffers[slot]) for slot in slots}


def legal_opts(case: Case, opts: tuple[Opt, ...], device: DeviceUnderTest) -> tuple[Opt, ...]:
    """The optimisations of a case, or none where they, or the device, do not allow them."""
    try:
        Plan.of(case.ast, device.capabilities).apply_all(opts)
    except KernelOptError:
        return ()
    return opts


def dtypes_of(ast: UOp) -> list[DType]:
    """What a kernel computes in and reads, in the order of the table of types."""
    found = set()
    for node in ast.toposort():
        scalar = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype.scalar
        found.add(scalar)
    return [dtype for dtype in dtypes.all if dtype in found]


def _equivalent_needs(equivalent: UOp) -> Needs:
    """What an equivalent kernel needs: other types than the first one, or images."""
    has_images = any(isinstance(node.dtype, ImageDType) for node in equivalent.toposort())
    return kernel_needs(*dtypes_of(equivalent), features=("images",) if has_images else ())


def _checks(case: Case) -> list[tuple[Check, str]]:
    """The cases of a row in order, and in words what each of them runs."""
    runs: list[tuple[str, Run, Needs | None]] = [
        (opts_text(opts) or "plain", functools.partial(run, case, opts), None)
        for opts in dict.fromkeys(((), *case.opts))
    ]
    if not case.opts:
        runs.append(("heuristics", functools.partial(run_as_chosen, case), None))
    if case.equivalent is not None and case.equivalent.trail:
        labels, last = " ".join(case.equivalent.labels), case.equivalent.ast
        same = functools.partial(run_equivalent, case, last)
        runs.append((f"equivalent: {labels}", same, _equivalent_needs(last)))
    return [
        (Check(f":{number}", runs_it, needs=needs), words)
        for number, (words, runs_it, needs) in enumerate(runs)
    ]


def _row(name: str, record: CaseRecord) -> Row:
    case = record.case
    used = dtypes_of(case.ast)
    checks = _checks(case)
    main = used[0].name if used else ""
    row = make_row(
        f"kernel.regression.{name}",
        record.note,
        clauses=("kernel.regression",),
        rung=Rung.OPTIMISED,
        op="SINK",
        dtype=main,
        uses=(*used,),
        error_rule=RULES[case.mode].sentence,
        checks=lambda: [check for check, _ in checks],
    )
    return dataclasses.replace(row, specials=tuple((check.name, words) for check, words in checks))


def rows() -> Iterator[Row]:
    """A row for each file, by name."""
    for name, record in records().items():
        yield _row(name, record)
