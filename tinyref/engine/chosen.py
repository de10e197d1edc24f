"""Which optimisations the kernels of a schedule are compiled with.

Apart from `search.py`, which starts processes: it is imported where a search is asked for.
"""

from __future__ import annotations

from tinyref import config
from tinyref.capabilities import reason_without_values
from tinyref.device import Device
from tinyref.optimise.opt import Opt
from tinyref.uops.node import UOp


def chosen_opts(device: str, ast: UOp) -> tuple[Opt, ...] | None:
    """What a schedule compiles `ast` with: `best_opts` if BEAM is set and NOOPT is not.

    None leaves the choice to `plan_for`, as for a device that runs no kernels, or where they take
    no time. Raises `UserError` as `Plan.of` does.
    """
    if config.integer("BEAM") <= 0 or config.integer("NOOPT"):
        return None
    declared = Device[device].capabilities
    is_idle = reason_without_values(declared.ops, declared.keeps_values) is not None
    if is_idle:
        return None
    from tinyref.engine.search import best_opts

    return best_opts(device, ast)
