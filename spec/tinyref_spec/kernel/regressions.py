"""Kernels of files: those that found real bugs, and those that a fuzzer put together.

Both are in the format that docs/fuzzing.md describes. Each file of `regressions/` is a reduced
kernel, and its note says what it found. `fuzzed/kernels.json` has small kernels by the policy of
the fuzzer that drew them, chosen for what of the compiler they reach and others do not: what meets
in them nobody has put together on purpose.

Each runs without optimisations and with each of its lists; with the choice of the heuristics, if it
has no list or is of the fuzzer. It must give what the AST evaluator gives. A list that is refused
now, or by this device, leaves the kernel without: a refusal is as good as the right value.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, opts_text
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel_case import CaseRecord, KernelCase, Mode
from tinyref_spec.kernel_case.document import record_from_json
from tinyref_spec.kernel_case.files import load_record
from tinyref_spec.measure import Experiment, measure
from tinyref_spec.oracles import Expected

FOLDER = Path(__file__).parent.parent / "regressions"
FUZZED = Path(__file__).parent.parent / "fuzzed" / "kernels.json"
# Of floats in general the evaluator knows the value, but not how far off a device may be.
LONGEST_NOTE = 160
# Zeros of either sign are equal, and so are NaNs.
VALUES = Ulp(0, signed_zero=False)
RULES = {Mode.EXACT: VALUES, Mode.EDGE: Ulp(0)}


@functools.cache
def records() -> dict[str, CaseRecord]:
    """The cases by name. Raises `UserError` for a file that is none, or cannot be a regression."""
    found = {path.stem: load_record(path) for path in sorted(FOLDER.glob("*.json"))}
    for name, record in found.items():
        problem = problem_of(record)
        if problem:
            raise UserError(f"regression {name}: {problem}")
    return found


@functools.cache
def fuzzed() -> dict[str, list[Any]]:
    """Return the documents of the fuzzer's kernels, by the policy that drew them."""
    documents: dict[str, list[Any]] = json.loads(FUZZED.read_text(encoding="utf-8"))
    return documents


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


def run(
    case: KernelCase, opts: tuple[Opt, ...] | None, rule: Ulp, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Judge whether a kernel gives what the AST evaluator gives.

    Args:
        opts: its optimisations; None for the choice of the heuristics.
    """
    kernel = case.ast if opts is None else Optimised(case.ast, _legal_opts(case, opts, device))
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    slots = [slot.number for slot in slots_of(case.ast) if slot.is_written]
    wanted = [Expected(written.get(slot, case.buffers[slot])) for slot in slots]
    rules = [rule] * len(wanted)
    return measure(device, Experiment(case_id, kernel, case.buffers, wanted, rules, case.bindings))


def _legal_opts(
    case: KernelCase, opts: tuple[Opt, ...], device: DeviceUnderTest
) -> tuple[Opt, ...]:
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


def _checks(
    case: KernelCase, rule: Ulp, prefix: str = ":", is_chosen: bool = True
) -> Iterator[Check]:
    """Yield the cases of a kernel; of the choice of the heuristics too if `is_chosen`."""
    lists: dict[str, tuple[Opt, ...] | None] = {"plain": ()}
    lists |= {f"opts{number}": opts for number, opts in enumerate(case.opts)}
    lists |= {"heuristics": None} if is_chosen else {}
    needs = kernel_needs(*dtypes_of(case.ast))
    for name, opts in lists.items():
        yield Check(f"{prefix}{name}", functools.partial(run, case, opts, rule), needs=needs)


def _row(name: str, record: CaseRecord) -> Row:
    case, rule = record.case, RULES[record.case.mode]
    used = dtypes_of(case.ast)
    row = make_row(
        f"kernel.regression.{name}",
        record.note,
        clauses=("kernel.regression",),
        rung=Rung.OPTIMISED,
        op="SINK",
        dtype=used[0].name if used else "",
        uses=used,
        error_rule=rule.sentence,
        checks=functools.partial(_checks, case, rule, is_chosen=not case.opts),
    )
    lists = [(f":opts{number}", opts_text(opts)) for number, opts in enumerate(case.opts)]
    return dataclasses.replace(row, specials=tuple(lists))


def _fuzzed_checks(documents: Sequence[Any]) -> Iterator[Check]:
    for number, document in enumerate(documents):
        yield from _checks(record_from_json(document).case, VALUES, f":{number}.")


def rows() -> Iterator[Row]:
    """A row for each regression, by name, and for each policy of the fuzzer."""
    for name, record in records().items():
        yield _row(name, record)
    for policy, documents in fuzzed().items():
        yield make_row(
            f"kernel.fuzzed.{policy}",
            f"Kernels that a fuzzer drew by its policy {policy} give what they owe.",
            clauses=("kernel.fuzzed",),
            rung=Rung.OPTIMISED,
            op="SINK",
            error_rule=VALUES.sentence,
            checks=functools.partial(_fuzzed_checks, documents),
        )
