"""The limits of a plan: of the work that padding adds, and of the device."""

from __future__ import annotations

from tinyref.errors import UserError
from tinyref.optimise.launch_axes import launch_axes
from tinyref.optimise.plan import Plan, number_of
from tinyref.uops.node import sint

# The padding of an axis may multiply the work on it by at most this factor.
MAX_PADDING = 4


def work_problem(plan: Plan, target: int, positions: sint) -> str | None:
    """Return why this number of positions is too much work; None if it is not."""
    size = plan.shape[target]
    if number_of([positions]) > MAX_PADDING * number_of([size]):
        return f"{positions} positions for {size}: accepted is {MAX_PADDING} times the work"
    return None


# --- limits of the device -------------------------------------------------------------------------


# Each lane may be a copy of the kernel: more take minutes to compile, and too much memory.
MAX_LANES = 4096


def limit_problem(plan: Plan) -> str | None:
    """Return which limit on lanes, work-items or shared memory the plan exceeds, or None."""
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
