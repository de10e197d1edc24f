"""Reduced kernels that found real bugs: each is run again, on every device, as it was found.

The cases are the files of `regressions/`, in the format that docs/corpus.md describes; the note of
each says what it found. A list of optimisations that is refused now, or by this device, leaves the
kernel to the plan without: a refusal is as good as the right value. A case without lists is run
with that of the heuristics, and the last of its equivalent kernels must give the same.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
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
from tinyref_spec.kept import KeptCase, read_kept
from tinyref_spec.measure import Experiment, judge, measure
from tinyref_spec.oracles import Expected

FOLDER = Path(__file__).parent.parent / "regressions"
# Of floats in general the evaluator knows the value, but not how far off a device may be.
LONGEST_NOTE = 160
RULES = {"exact": Ulp(0, signed_zero=False), "edge": Ulp(0)}


@functools.cache
def kept_cases() -> dict[str, KeptCase]:
    """The cases by name. Raises `UserError` for a file that is no case of the present version."""
    found = {path.stem: read_kept(path) for path in sorted(FOLDER.glob("*.json"))}
    for name, kept in found.items():
        problem = problem_of(kept)
        if problem:
            raise UserError(f"regression {name}: {problem}")
    return found


def problem_of(kept: KeptCase) -> str:
    """Why a case cannot be a regression, or nothing."""
    if "\n" in kept.note or not kept.note.endswith(".") or not 2 < len(kept.note) <= LONGEST_NOTE:
        return f"note: expected a line on what it found, up to {LONGEST_NOTE} characters and a dot"
    if kept.mode not in RULES:
        return f"mode: expected one of {', '.join(RULES)}, got {kept.mode}"
    if [slot.number for slot in slots_of(kept.ast)] != list(range(len(kept.buffers))):
        return "buffers: expected those that the kernel uses and no others"
    return ""


def run(
    kept: KeptCase, opts: tuple[Opt, ...], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Whether a kept kernel, with these optimisations, gives what the AST evaluator gives."""
    return _measured(kept, Optimised(kept.ast, _legal(kept, opts, device)), case_id, device)


def run_as_chosen(kept: KeptCase, case_id: str, device: DeviceUnderTest) -> Measurement:
    """As `run`, with the optimisations that the heuristics choose."""
    return _measured(kept, kept.ast, case_id, device)


def run_equivalent(kept: KeptCase, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Whether the last equivalent kernel gives the same, by the AST evaluator and on the device."""
    equivalent = kept.trail[-1][1]
    wanted, again = _evaluated(kept, kept.ast), _evaluated(kept, equivalent)
    for slot, values in wanted.items():
        found = judge(again[slot], Expected(values), RULES[kept.mode])
        if found.fails:
            text = f"the evaluator gives another value for it: slot {slot}, element {found.first}"
            return Measurement(False, text, compared=found.compared)
    return _measured(kept, equivalent, case_id, device)


def _measured(
    kept: KeptCase, kernel: Runnable, case_id: str, device: DeviceUnderTest
) -> Measurement:
    wanted = [Expected(values) for values in _evaluated(kept, kept.ast).values()]
    rules = [RULES[kept.mode]] * len(wanted)
    experiment = Experiment(case_id, kernel, kept.buffers, wanted, rules, kept.bindings)
    return measure(device, experiment)


def _evaluated(kept: KeptCase, ast: UOp) -> dict[int, Array]:
    """What a kernel leaves in each of the slots that the kept one writes, in their order."""
    written = evaluate(ast, dict(enumerate(kept.buffers)), kept.bindings)
    slots = [slot.number for slot in slots_of(kept.ast) if slot.is_written]
    return {slot: written.get(slot, kept.buffers[slot]) for slot in slots}


def _legal(kept: KeptCase, opts: tuple[Opt, ...], device: DeviceUnderTest) -> tuple[Opt, ...]:
    try:
        Plan.of(kept.ast, device.capabilities).apply_all(opts)
    except KernelOptError:
        return ()
    return opts


def _dtypes(ast: UOp) -> list[DType]:
    """What a kernel computes in and reads, in the order of the table of types."""
    found = set()
    for node in ast.toposort():
        scalar = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype.scalar
        found.add(scalar)
    return [dtype for dtype in dtypes.all if dtype in found]


def _equivalent_needs(kept: KeptCase) -> Needs:
    """What the last equivalent kernel needs: other types than the kept one, or images."""
    equivalent = kept.trail[-1][1]
    has_images = any(isinstance(node.dtype, ImageDType) for node in equivalent.toposort())
    return kernel_needs(*_dtypes(equivalent), features=("images",) if has_images else ())


def _checks(kept: KeptCase) -> list[tuple[Check, str]]:
    """The cases of a row in order, and in words what each of them runs."""
    runs: list[tuple[str, Run, Needs | None]] = [
        (opts_text(opts) or "plain", functools.partial(run, kept, opts), None)
        for opts in dict.fromkeys(((), *kept.opts))
    ]
    if not kept.opts:
        runs.append(("heuristics", functools.partial(run_as_chosen, kept), None))
    if kept.trail:
        labels = " ".join(label for label, _ in kept.trail)
        same = functools.partial(run_equivalent, kept)
        runs.append((f"equivalent: {labels}", same, _equivalent_needs(kept)))
    return [
        (Check(f":{number}", runs_it, needs=needs), words)
        for number, (words, runs_it, needs) in enumerate(runs)
    ]


def _row(name: str, kept: KeptCase) -> Row:
    used = _dtypes(kept.ast)
    checks = _checks(kept)
    main = used[0].name if used else ""
    row = make_row(
        f"kernel.regression.{name}",
        kept.note,
        ("kernel.regression",),
        Rung.OPTIMISED,
        "SINK",
        main,
        RULES[kept.mode].sentence,
        kernel_needs(*used),
        lambda: [check for check, _ in checks],
    )
    return dataclasses.replace(row, specials=tuple((check.name, words) for check, words in checks))


def rows() -> Iterator[Row]:
    """A row for each file, by name."""
    for name, kept in kept_cases().items():
        yield _row(name, kept)
