"""Which pass inside of a stage: each is applied by itself, and the value computed after it."""

from __future__ import annotations

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import Pass, passes
from tinyref.optimise import normal_form as forms
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.uops.node import UOp
from tinyref_fuzz.blame.stages import Subject, linear_problem, value_problem


def wrong_in_normal(subject: Subject) -> str:
    """Of the passes of the stage `normal` the first after which the value is wrong, or ""."""
    steps: tuple[Pass, ...] = (
        ("fold_ranges", fold_ranges),
        ("normal_form", lambda ast: forms.unmerged_form(ast).ast),
        ("merge_axes", lambda ast: forms.normal_form(ast).ast),
    )
    for name, given in steps:
        try:
            problem = value_problem(subject, given(subject.ast))
        except Exception:  # a pass that raises is wrong too
            return name
        if problem:
            return name
    return ""


def wrong_in_decompose(subject: Subject, root: UOp, capabilities: Capabilities) -> str:
    """Of the passes of `decompose` on `root` the first after which the value is wrong, or ""."""
    for name, apply in passes(root, capabilities):
        try:
            root = apply(root)
        except Exception:  # a pass that raises is wrong too
            return name
        if linear_problem(subject, root):
            return name
    return ""
