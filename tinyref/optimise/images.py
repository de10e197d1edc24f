"""Accesses of images: whole texels of four lanes, so neighbours must be lanes of a plan."""

from __future__ import annotations

from tinyref.dtype import TEXEL, ImageDType
from tinyref.optimise.plan import LANE_KINDS, Plan
from tinyref.optimise.strides import Access, accesses
from tinyref.uops.payload import AxisKind


def with_texels(plan: Plan) -> Plan:
    """`plan` with an axis of four lanes wherever an access of an image moves by one element.

    That is no choice: `expand` refuses accesses of parts of texels. Where no axis can be cut so,
    the plan is left as it is.
    """
    if not any(isinstance(node.dtype, ImageDType) for node in plan.nodes):
        return plan
    for access in accesses(plan):
        if not isinstance(access.node.src[0].dtype, ImageDType) or _has_lanes(plan, access):
            continue
        for number in reversed(plan.of_kind(AxisKind.GLOBAL, AxisKind.REDUCE)):
            if access.is_unit(plan.axes[number]):
                plan = plan.cut_lanes(number, TEXEL)
                break
    return plan


def _has_lanes(plan: Plan, access: Access) -> bool:
    """Whether lanes that there are make whole texels of an access."""
    return any(
        axis.kind in LANE_KINDS and access.is_unit(axis) and axis.is_divisible(TEXEL)
        for axis in plan.axes
    )
