"""Kernels from files: those that found real bugs, and those that a fuzzer generated.

Both have the format that docs/fuzzing.md describes. Each file of `regressions/` is a reduced
kernel, and its note says what it found. `fuzzed/kernels.json` has small kernels by the policy of
the fuzzer that drew them. They were chosen because they reach parts of the compiler that others do
not.

Each kernel runs without optimisations and with each of its lists. A kernel without a list, or of
the fuzzer, also runs with the choice of the heuristics. It must give what the AST evaluator gives.
If a list is refused, now or by this device, the kernel runs without it: a refusal is right too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.formats.payload_fields import read_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, opts_text, parse_opts
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
# The evaluator knows the value of floats, but not how far off a device may be.
LONGEST_NOTE = 160
# Zeros of either sign are equal, and so are NaNs.
VALUES = Ulp(0, signed_zero=False)
RULES = {Mode.EXACT: VALUES, Mode.EDGE: Ulp(0)}


@functools.cache
def records() -> dict[str, CaseRecord]:
    """Return the cases by name. Raises `UserError` for a file that cannot be a regression."""
    by_name = {path.stem: load_record(path) for path in sorted(FOLDER.glob("*.json"))}
    for name, record in by_name.items():
        problem = problem_of(record)
        if problem:
            raise UserError(f"regression {name}: {problem}")
    return by_name


@functools.cache
def fuzzed() -> dict[str, list[Any]]:
    """Return the documents of the fuzzer's kernels, by the policy that drew them."""
    documents: dict[str, list[Any]] = json.loads(FUZZED.read_text(encoding="utf-8"))
    return documents


def problem_of(record: CaseRecord) -> str:
    """Return why a case cannot be a regression, or an empty text."""
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
    """Return why a text cannot be the note of a regression, or an empty text."""
    if "\n" not in note and note.endswith(".") and 2 < len(note) <= LONGEST_NOTE:
        return ""
    return f"note: expected a line on what it found, up to {LONGEST_NOTE} characters and a dot"


def run(
    case: KernelCase, opts: tuple[Opt, ...] | None, rule: Ulp, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Compare a kernel with what the AST evaluator gives.

    Args:
        opts: its optimisations; None for the choice of the heuristics.
    """
    kernel = case.ast if opts is None else Optimised(case.ast, _legal_opts(case, opts, device))
    written = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
    slots = [slot.number for slot in slots_of(case.ast) if slot.is_written]
    expected = [Expected(written.get(slot, case.buffers[slot])) for slot in slots]
    rules = [rule] * len(expected)
    return measure(
        device, Experiment(case_id, kernel, case.buffers, expected, rules, case.bindings)
    )


def _legal_opts(
    case: KernelCase, opts: tuple[Opt, ...], device: DeviceUnderTest
) -> tuple[Opt, ...]:
    """Return the optimisations of a case; none if they are illegal, or the device refuses them."""
    try:
        Plan.of(case.ast, device.capabilities).apply_all(opts)
    except KernelOptError:
        return ()
    return opts


def dtypes_of(ast: UOp) -> list[DType]:
    """Return the types that a kernel computes in and reads, in the order of the table of types."""
    return _scalars(node.dtype for node in ast.toposort())


def _scalars(named: Iterable[DType]) -> list[DType]:
    types = {dtype.base if isinstance(dtype, PtrDType) else dtype.scalar for dtype in named}
    return [dtype for dtype in dtypes.all if dtype in types]


def _checks(
    case: KernelCase, rule: Ulp, prefix: str = ":", is_chosen: bool = True
) -> Iterator[Check]:
    """Yield the cases of a kernel; if `is_chosen`, with the choice of the heuristics too."""
    needs = kernel_needs(*dtypes_of(case.ast))
    for name, opts in _lists(case.opts, is_chosen).items():
        yield Check(f"{prefix}{name}", functools.partial(run, case, opts, rule), needs=needs)


def _lists(
    lists: Sequence[tuple[Opt, ...]], is_chosen: bool
) -> Mapping[str, tuple[Opt, ...] | None]:
    """Return the optimisations of each case by name; None for the choice of the heuristics."""
    numbered = {f"opts{number}": opts for number, opts in enumerate(lists)}
    return {"plain": (), **numbered, **({"heuristics": None} if is_chosen else {})}


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


def _fuzzed_checks(policy: str) -> Iterator[Check]:
    """Yield the cases of a policy; a kernel is read when the first of its cases runs."""
    for number, document in enumerate(fuzzed()[policy]):
        needs = kernel_needs(*dtypes_of_text(document["ast"]))
        lists = [parse_opts(text) for text in document["opts"]]
        for name, opts in _lists(lists, is_chosen=True).items():
            runs = functools.partial(_run_fuzzed, policy, number, opts)
            yield Check(f":{number}.{name}", runs, needs=needs)


def dtypes_of_text(lines: Sequence[str]) -> list[DType]:
    """Return what `dtypes_of` gives for the kernel with this text."""
    named = {line.split(maxsplit=4)[3] for line in lines}
    return _scalars(read_dtype(name, "ast") for name in named)


def _run_fuzzed(
    policy: str,
    number: int,
    opts: tuple[Opt, ...] | None,
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    return run(fuzzed_case(policy, number), opts, VALUES, case_id, device)


@functools.lru_cache(maxsize=1)
def fuzzed_case(policy: str, number: int) -> KernelCase:
    """Return one of the fuzzer's kernels."""
    return record_from_json(fuzzed()[policy][number]).case


def rows() -> Iterator[Row]:
    """Yield a row for each regression, by name, and for each policy of the fuzzer."""
    for name, record in records().items():
        yield _row(name, record)
    for policy in fuzzed():
        yield make_row(
            f"kernel.fuzzed.{policy}",
            f"Kernels that a fuzzer drew by its policy {policy} give what the evaluator gives.",
            clauses=("kernel.fuzzed",),
            rung=Rung.OPTIMISED,
            op="SINK",
            error_rule=VALUES.sentence,
            checks=functools.partial(_fuzzed_checks, policy),
        )
