"""How much of a device the kernels of each rung use: no more than the rungs below have shown.

A fault of launch indices is to be found on the rung of launch indices, one of work-items on that
of groups, one of vectors on that of vectors, and not where a constant is stored.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import ImageDType
from tinyref.optimise.opt import Opt, OptOp
from tinyref.optimise.plan import Plan
from tinyref.uops.node import UOp
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Program
from tinyref_spec.case import Rung

# Of the kernels on the rung of vectors.
VECTOR_LANES = 4


class Style(Enum):
    """What the kernel of an AST may use.

    STRAIGHT: one work-item, no loops over its output, scalars. SCALAR: an element for each launch
    index, or loops where there is no grid; groups of one work-item, scalars, no optimisation.
    VECTOR: as SCALAR, but four elements at a time. FULL: what heuristics choose.
    """

    STRAIGHT = "straight"
    SCALAR = "scalar"
    VECTOR = "vector"
    FULL = "full"


def style_of(rung: Rung) -> Style:
    """The style of the kernels on a rung."""
    if rung <= Rung.ONE_ALU:
        return Style.STRAIGHT
    if rung is Rung.VECTOR:
        return Style.VECTOR
    return Style.SCALAR if rung <= Rung.LOOP else Style.FULL


def styled_capabilities(capabilities: Capabilities, style: Style) -> Capabilities:
    """The part of what a device declares that kernels of `style` use."""
    if style is Style.FULL:
        return capabilities
    without_groups = replace(capabilities, has_groups=False, shared_bytes=0, threads=1)
    if style is Style.VECTOR:
        return without_groups
    has_grid = capabilities.has_grid and style is Style.SCALAR
    return replace(without_groups, has_grid=has_grid, vector_lanes=(1,))


def styled_opts(ast: UOp, capabilities: Capabilities, style: Style) -> tuple[Opt, ...] | None:
    """The optimisations of a kernel of `style` on `capabilities`; None: what heuristics choose."""
    if style is Style.FULL or _has_images(ast):
        return None
    if style is Style.SCALAR:
        return ()
    plan = Plan.of(ast, capabilities)
    if style is Style.VECTOR:
        return (Opt(OptOp.UPCAST, len(plan.of_kind(AxisKind.GLOBAL)) - 1, VECTOR_LANES),)
    while plan.axes:
        # An axis whose iterations are all copies is the last one: the next is the first again.
        found = plan.legal(Opt(OptOp.UPCAST, 0, 0))
        if found is None:
            break
        plan = found
    return plan.opts


def _has_images(ast: UOp) -> bool:
    return any(isinstance(node.dtype, ImageDType) for node in ast.toposort())


def styled_program(ast: UOp, capabilities: Capabilities, style: Style) -> Program:
    """The program of a kernel AST in `style`. Errors as of `compile_kernel`."""
    used = styled_capabilities(capabilities, style)
    return compile_kernel(ast, used, opts=styled_opts(ast, used, style))
