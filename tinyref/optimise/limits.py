"""What a device can give a plan at most."""

from __future__ import annotations

from tinyref.errors import UserError
from tinyref.optimise.launch import launch_axes
from tinyref.optimise.plan import Plan

# Every lane may be a copy of the kernel: more take minutes to compile, and memory without end.
MAX_LANES = 4096


def limit_problem(plan: Plan) -> str | None:
    """What the plan cannot have: so many lanes, work-items in a group, or shared memory."""
    capabilities = plan.capabilities
    if plan.lanes > MAX_LANES:
        return f"{plan.lanes} lanes and copies in all: accepted are {MAX_LANES}"
    size = plan.group_size
    if size > capabilities.group_size_limit:
        return f"a group of {size} work-items, accepted are {capabilities.group_size_limit}"
    extents = [axis.extent for axis in plan.item_axes]
    try:
        launch_axes(extents, capabilities.group_limit, "item")
    except UserError:
        return f"a group of {extents} does not fit the limits {capabilities.group_limit}"
    needed = plan.shared_bytes()
    if needed > capabilities.shared_bytes:
        return f"{needed} bytes of shared memory, accepted are {capabilities.shared_bytes}"
    return None
