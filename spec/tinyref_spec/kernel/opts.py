"""Every optimisation of a kernel: legal uses keep the value, illegal ones are refused.

The tables are `opt_legal.LEGAL` and `opt_refused.REFUSED`; each of their lines is a row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret.evaluate import evaluate
from tinyref.optimise.opt import KernelOptError, Opt, OptOp, opts_text, parse_opts
from tinyref.optimise.plan import Plan
from tinyref.sources import docstring
from tinyref.uops.node import UOp
from tinyref.uops.payload import VarArg, ViewArg
from tinyref.views.build import tracker_of
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest, Optimised, slots_of
from tinyref_spec.error_rules import Ulp
from tinyref_spec.kernel.byte_sums import BYTE_FORMS
from tinyref_spec.kernel.chosen_kernels import CHOSEN_FORMS
from tinyref_spec.kernel.opt_kernels import FORMS, Subject
from tinyref_spec.kernel.opt_legal import LEGAL, Legal
from tinyref_spec.kernel.opt_refused import REFUSED, Refused
from tinyref_spec.measure import run_exact

EXACT = Ulp(0).sentence
# What hands partial results on in shared memory, and how much of it the rows take at most.
SHARING = frozenset({OptOp.GROUP, OptOp.GROUPTOP})
SHARED_BYTES = 192
_FORMS = {**FORMS, **CHOSEN_FORMS, **BYTE_FORMS}


def dtype_named(name: str) -> DType:
    """The type of this name."""
    return next(dtype for dtype in dtypes.all if dtype.name == name)


@functools.lru_cache(maxsize=16)
def subject_of(form: str, dtype: str) -> Subject:
    """The kernel of a form in a type."""
    return _FORMS[form](dtype_named(dtype))


def _computes(
    subject: Subject, opts: Sequence[Opt], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Whether the kernel with these optimisations gives exactly what it must."""
    kernel = Optimised(subject.kernel, tuple(opts))
    return run_exact(case_id, device, kernel, subject.inputs, subject.expected, subject.bindings)


def keeps_value(
    kernel: UOp, opts: tuple[Opt, ...], case_id: str, device: DeviceUnderTest
) -> Measurement:
    """Whether a kernel without data of its own gives what the AST evaluator gives.

    The inputs are positive, and of each three integers one is near the largest: no zero, whose
    sign a maximum may choose.
    """
    slots = slots_of(kernel)
    inputs = [
        None if slot.is_written else _positive(slot.dtype, slot.size, slot.number) for slot in slots
    ]
    views = [tracker_of(node) for node in kernel.toposort() if isinstance(node.arg, ViewArg)]
    variables = {node.arg for view in views for node in view.variables()}
    bindings = {each.name: each.maximum for each in variables if isinstance(each, VarArg)}
    buffers = {
        slot.number: np.zeros(slot.size, numpy_dtype(slot.dtype)) if data is None else data
        for slot, data in zip(slots, inputs, strict=True)
    }
    written = evaluate(kernel, buffers, bindings)
    expected = [written[slot.number] for slot in slots if slot.is_written]
    return run_exact(case_id, device, Optimised(kernel, opts), inputs, expected, bindings)


def _positive(dtype: DType, size: int, seed: int) -> Array:
    drawn = np.abs(samples.small_integers(dtype, size, seed, 2)) + 1
    if dtype.is_int:
        drawn[1::3] = int(dtype.maximum) - drawn[1::3]
    return np.ascontiguousarray(drawn.astype(numpy_dtype(dtype)))


def legal_use(
    legal: Legal, text: str, axes: str, case_id: str, device: DeviceUnderTest
) -> Measurement:
    """The list `text` is accepted, gives a plan of `axes`, and keeps the value of the kernel."""
    subject = subject_of(legal.kernel, legal.dtype)
    opts = parse_opts(text)
    try:
        plan = Plan.of(subject.kernel, device.capabilities).apply_all(opts)
    except KernelOptError as error:
        return Measurement(False, f"a legal use was refused: {error}", compared=1)
    found = ", ".join(map(str, plan.axes))
    if found != axes:
        return Measurement(False, f"the axes are {found}, expected are {axes}", compared=1)
    return _computes(subject, opts, case_id, device)


def refused_use(refused: Refused, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The refusal names its reason, and the plan from before it is as good as it was."""
    subject = subject_of(refused.kernel, refused.dtype)
    capabilities = refused.change(device.capabilities)
    before = parse_opts(refused.before)
    try:
        # Two plans, one of which nobody touches.
        plan, untouched = (
            Plan.of(subject.kernel, capabilities).apply_all(before) for _ in range(2)
        )
    except KernelOptError as error:
        return Measurement(False, f"a legal use was refused: {error}", compared=1)
    problem = _refusal_problem(plan, refused)
    if problem is None and (plan != untouched or str(plan) != str(untouched)):
        problem = f"the refusal changed the plan from {untouched} to {plan}"
    if problem is not None:
        return Measurement(False, problem, compared=1)
    return _computes(subject, plan.opts, case_id, device)


def _refusal_problem(plan: Plan, refused: Refused) -> str | None:
    (opt,) = parse_opts(refused.opt)
    try:
        accepted = plan.apply(opt)
    except KernelOptError as error:
        if refused.reason in str(error) and str(opt) in str(error):
            return None
        return f"the refusal does not say {refused.reason!r}: {error}"
    return f"{opt} was accepted, and gave {accepted}"


def _slug(text: str) -> str:
    """A list of optimisations as the end of an id: UPCAST(0, 4) is upcast_0_4."""
    kept = text.lower().replace(", ", "_").replace("(", "_").replace(")", "")
    return kept.replace(" ", ".")


def features_of(text: str) -> frozenset[str]:
    """What a device must declare before a list of optimisations can be legal on it."""
    opts = parse_opts(text)
    found = {opt.spec.feature for opt in opts if opt.spec.feature}
    if any(opt.op in SHARING for opt in opts):
        found.add(f"shared:{SHARED_BYTES}")
    return frozenset(found)


def _ops_of(legal: Legal) -> list[OptOp]:
    if legal.op is not None:
        return [legal.op]
    return list(dict.fromkeys(opt.op for text, _ in legal.uses for opt in parse_opts(text)))


def _legal_row(legal: Legal) -> Row:
    ops = _ops_of(legal)
    sentence = docstring(_FORMS[legal.kernel]).partition("\n")[0]
    features = frozenset[str]().union(*(features_of(text) for text, _ in legal.uses))
    checks = [
        Check(
            f":{_slug(text)}",
            functools.partial(legal_use, legal, text, axes),
            # Lists of several are worth their time; of the others one is enough for a quick run.
            number > 0 and len(parse_opts(text)) == 1,
            needs=kernel_needs(features=features_of(text)),
        )
        for number, (text, axes) in enumerate(legal.uses)
    ]
    common = features.intersection(*(features_of(text) for text, _ in legal.uses))
    row = make_row(
        f"kernel.opt.{legal.name}",
        f"{legal.uses[0][0]}: {sentence}",
        ("kernel.opt", *(f"kernel.opt.{op.value.lower()}" for op in ops)),
        Rung.OPTIMISED,
        legal.op.value if legal.op is not None else "OPTS",
        legal.dtype,
        EXACT,
        kernel_needs(*map(dtype_named, (legal.dtype, *legal.others)), features=common),
        lambda: checks,
    )
    return dataclasses.replace(row, specials=legal.uses)


def _features_of_refusal(refused: Refused) -> frozenset[str]:
    """Those of the row; and, for a device with groups, the memory that a group would share."""
    if "groups" not in refused.features:
        return refused.features
    used = features_of(f"{refused.before} {refused.opt}".strip())
    return refused.features | {each for each in used if each.startswith("shared")}


def _refused_row(refused: Refused) -> Row:
    check = Check("unchanged", functools.partial(refused_use, refused), refused.full_only)
    row = make_row(
        f"kernel.opt.{refused.op.value.lower()}.refuse.{refused.reason_name}",
        f"{refused.opt} is refused{_after(refused)}: {refused.reason}.",
        ("kernel.opt.refuse", f"kernel.opt.{refused.op.value.lower()}"),
        Rung.OPTIMISED,
        refused.op.value,
        refused.dtype,
        EXACT,
        kernel_needs(dtype_named(refused.dtype), features=_features_of_refusal(refused)),
        lambda: [check],
    )
    return dataclasses.replace(row, specials=((refused.opt, f"refused: {refused.reason}"),))


def _after(refused: Refused) -> str:
    return f" after {opts_text(parse_opts(refused.before))}" if refused.before else ""


def rows() -> Iterator[Row]:
    """A row for each line of the tables, legal uses first."""
    for legal in LEGAL:
        yield _legal_row(legal)
    for refused in REFUSED:
        yield _refused_row(refused)
