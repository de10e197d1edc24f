"""Kernels that compute the same by construction: an oracle that needs no second device.

A chain of transformations, each with a label and an equation, is drawn from a tape. Wherever the
original and the equivalent kernel differ on one device, one of the two was compiled wrong.
"""

from __future__ import annotations

from tinyref.algebra.kernel_shape import positions_of
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg
from tinyref_fuzz.generate.equivalent import arithmetic, axes, casts, images, loads, logic, reduces
from tinyref_fuzz.generate.equivalent.transformation import (
    TRANSFORMATIONS,
    Domain,
    Draw,
    Transformation,
    written_slots,
)
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Equivalent

__all__ = ["FAMILIES", "TRANSFORMATIONS", "Domain", "Transformation", "equivalents"]

# Importing a family declares its transformations.
FAMILIES = (arithmetic, axes, casts, images, loads, logic, reduces)

# Those that move axes take all views to have as many: not so where positions are values.
MOVING = frozenset({"axes", "loads", "reduces"})
# What images need of their kernel no other transformation keeps, so they come last.
LAST = frozenset({"images"})
# So many transformations are tried for one step: most fit most kernels.
TRIES = 12


def equivalents(
    ast: UOp,
    tape: Tape,
    steps: int = 1,
    supported: frozenset[DType] | None = None,
    exact_floats: bool = True,
    capabilities: Capabilities | None = None,
    images: int = 0,
) -> Equivalent:
    """The kernel `ast` after up to `steps` transformations drawn from `tape`.

    `supported` are the types that the new kernel may use, all without it. `exact_floats` says that
    no float operation of the kernel rounds on its data, and that none gives NaN. With the
    `capabilities` of a device that has images, the last step makes one of a buffer in so many of
    100 chains.
    """
    names = sorted(name for name, each in TRANSFORMATIONS.items() if each.family not in LAST)
    trail: list[tuple[str, UOp]] = []
    current = ast
    for _ in range(steps):
        for _ in range(TRIES):
            name = tape.pick(names)
            new = transform(current, name, tape, supported, exact_floats)
            if new is not None:
                trail.append((name, new))
                current = new
                break
    if capabilities is not None and capabilities.images and tape.chance(images):
        new = transform(current, "image", tape, supported, exact_floats, capabilities)
        if new is not None:
            trail.append(("image", new))
    return Equivalent(ast, tuple(trail))


def transform(
    ast: UOp,
    name: str,
    tape: Tape,
    supported: frozenset[DType] | None = None,
    exact_floats: bool = True,
    capabilities: Capabilities | None = None,
) -> UOp | None:
    """The kernel `ast` after the transformation `name`, or None where that fits nowhere."""
    found = TRANSFORMATIONS[name]
    if found.family in MOVING and _has_computed_positions(ast):
        return None
    allowed = frozenset(dtypes.all) if supported is None else supported
    draw = Draw(tape, allowed, written_slots(ast), exact_floats, capabilities)
    new = found.rewrite(ast, draw)
    return None if new is ast else new


def _has_computed_positions(ast: UOp) -> bool:
    return any(isinstance(node.arg, ViewArg) and positions_of(node) for node in ast.toposort())
