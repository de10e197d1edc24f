"""Reduced kernels that found real bugs: each is run again, on every device, as it was found.

The cases are the files of `regressions/`, in the format that docs/corpus.md describes; the note of
each says what it found. A list of optimisations that is refused now, or by this device, leaves the
kernel to the plan without: a refusal is as good as the right value.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

from tinyref.dtype import DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.uops.evaluate import evaluate
from tinyref.uops.optimise.opt import KernelOptError, Opt, opts_text
from tinyref.uops.optimise.plan import Plan
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kept import KeptCase, read_kept
from tinyref_spec.measure import Experiment, measure
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
    written = evaluate(kept.ast, dict(enumerate(kept.buffers)), kept.bindings)
    slots = [slot.number for slot in slots_of(kept.ast) if slot.is_written]
    wanted = [Expected(written.get(slot, kept.buffers[slot])) for slot in slots]
    rules = [RULES[kept.mode]] * len(slots)
    kernel = Optimised(kept.ast, _legal(kept, opts, device))
    experiment = Experiment(case_id, kernel, kept.buffers, wanted, rules, kept.bindings)
    return measure(device, experiment)


def _legal(kept: KeptCase, opts: tuple[Opt, ...], device: DeviceUnderTest) -> tuple[Opt, ...]:
    try:
        Plan.of(kept.ast, device.capabilities).apply_all(opts)
    except KernelOptError:
        return ()
    return opts


def _dtypes(kept: KeptCase) -> list[DType]:
    """What the kernel computes in and reads, in the order of the table of types."""
    found = set()
    for node in kept.ast.toposort():
        scalar = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype.scalar
        found.add(scalar)
    return [dtype for dtype in dtypes.all if dtype in found]


def _row(name: str, kept: KeptCase) -> Row:
    used = _dtypes(kept)
    lists = dict.fromkeys(((), *kept.opts))
    checks = [
        Check(f":{number}", functools.partial(run, kept, opts)) for number, opts in enumerate(lists)
    ]
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
        lambda: checks,
    )
    specials = tuple((f":{at}", opts_text(opts) or "plain") for at, opts in enumerate(lists))
    return dataclasses.replace(row, specials=specials)


def rows() -> Iterator[Row]:
    """A row for each file, by name."""
    for name, kept in kept_cases().items():
        yield _row(name, kept)
