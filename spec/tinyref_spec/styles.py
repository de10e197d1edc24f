"""Styles of kernels: what the kernels of each rung may use, so that faults show on their rung.

A fault of launch indices shows on the rung of indices, a fault of work-items on the rung of groups.
None of them shows where a constant is stored.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from tinyref.capabilities import Capabilities
from tinyref.dtype import ImageDType
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.runtimes.kernel import lowered_program
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program
from tinyref_spec.case import Rung

# Lanes of the kernels on the rung of vectors.
VECTOR_LANES = 4


class Style(Enum):
    """The features that the kernel of an AST may use.

    STRAIGHT: one work-item, no loops over its output, scalars. SCALAR: a launch index for each
    element, or loops without a grid; groups of one work-item, scalars, no optimisation. VECTOR: as
    SCALAR, but four elements at a time. FULL: what heuristics choose.
    """

    STRAIGHT = "straight"
    SCALAR = "scalar"
    VECTOR = "vector"
    FULL = "full"


def style_of(rung: Rung) -> Style:
    """Return the style of the kernels on a rung."""
    if rung <= Rung.ONE_ALU:
        return Style.STRAIGHT
    if rung is Rung.VECTOR:
        return Style.VECTOR
    return Style.SCALAR if rung <= Rung.LOOP else Style.FULL


def styled_capabilities(capabilities: Capabilities, style: Style) -> Capabilities:
    """Return the capabilities that kernels of `style` use."""
    if style is Style.FULL:
        return capabilities
    without_groups = replace(capabilities, has_groups=False, shared_bytes=0, threads=1)
    if style is Style.VECTOR:
        return without_groups
    has_grid = capabilities.has_grid and style is Style.SCALAR
    return replace(without_groups, has_grid=has_grid, vector_lanes=(1,))


def styled_opts(ast: UOp, capabilities: Capabilities, style: Style) -> tuple[Opt, ...] | None:
    """Return the optimisations of a kernel of `style`; None if heuristics choose them."""
    if style is Style.FULL or _has_images(ast):
        return None
    if style is Style.SCALAR:
        return ()
    plan = Plan.of(ast, capabilities)
    if style is Style.VECTOR:
        return (Opt(OptOp.UPCAST, len(plan.of_kind(AxisKind.GLOBAL)) - 1, VECTOR_LANES),)
    while plan.axes:
        # If all iterations of an axis are copies, it becomes the last one; then axis 0 is the next.
        next_plan = plan.legal(Opt(OptOp.UPCAST, 0, 0))
        if next_plan is None:
            break
        plan = next_plan
    return plan.opts


def _has_images(ast: UOp) -> bool:
    return any(isinstance(node.dtype, ImageDType) for node in ast.toposort())


def styled_program(ast: UOp, capabilities: Capabilities, style: Style) -> Program:
    """Return the program of a kernel AST in `style`. Raises the errors of `compile_kernel`."""
    used = styled_capabilities(capabilities, style)
    return lowered_program(ast, used, styled_opts(ast, used, style))
