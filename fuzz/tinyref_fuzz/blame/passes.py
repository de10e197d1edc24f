"""Which pass inside of a stage: each is applied by itself, and the value computed after it."""

from __future__ import annotations

from collections.abc import Callable

from tinyref.codegen.decompose.constant_division import divide_by_constants
from tinyref.codegen.decompose.division import guard_divisions
from tinyref.codegen.decompose.missing import replace_missing_ops
from tinyref.codegen.decompose.small_floats import emulate_small_floats
from tinyref.codegen.decompose.wide_integers import emulate_wide_integers
from tinyref.device import Capabilities
from tinyref.optimise import normal_form as forms
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.uops.node import UOp
from tinyref.uops.storage import SMALL_FLOATS, WIDE_INTEGERS, scalar_of
from tinyref_fuzz.blame.stages import Subject, linear_problem, value_problem

Pass = tuple[str, Callable[[UOp], UOp]]


def wrong_in_normal(subject: Subject) -> str:
    """Of the passes of the stage `normal` the first after which the value is wrong, or ""."""
    passes: tuple[Pass, ...] = (
        ("fold_ranges", fold_ranges),
        ("normal_form", lambda ast: forms.unmerged_form(ast).ast),
        ("merge_axes", lambda ast: forms.normal_form(ast).ast),
    )
    for name, given in passes:
        try:
            problem = value_problem(subject, given(subject.ast))
        except Exception:  # a pass that raises is wrong too
            return name
        if problem:
            return name
    return ""


def wrong_in_decompose(subject: Subject, root: UOp, capabilities: Capabilities) -> str:
    """Of the passes of `decompose` on `root` the first after which the value is wrong, or ""."""
    for name, apply in _decomposition(root, capabilities):
        try:
            root = apply(root)
        except Exception:  # a pass that raises is wrong too
            return name
        if linear_problem(subject, root):
            return name
    return ""


def _decomposition(root: UOp, capabilities: Capabilities) -> list[Pass]:
    """The passes in the order in which `decompose` applies them."""
    lacking = capabilities.emulated - capabilities.dtypes
    emulated = lacking & frozenset(scalar_of(node.dtype) for node in root.toposort())
    found: list[Pass] = [("missing_ops", lambda given: replace_missing_ops(given, capabilities))]
    if emulated:
        small = emulated & frozenset(SMALL_FLOATS)
        wide = emulated & frozenset(WIDE_INTEGERS)
        found.append(("small_floats", lambda given: emulate_small_floats(given, small)))
        found.append(
            ("wide_integers", lambda given: emulate_wide_integers(given, wide, capabilities))
        )
    if capabilities.slow_division:
        found.append(("constant_division", lambda given: divide_by_constants(given, capabilities)))
    if emulated or capabilities.slow_division:
        found.append(found[0])
    if capabilities.division_traps:
        found.append(("guards", guard_divisions))
    return found
