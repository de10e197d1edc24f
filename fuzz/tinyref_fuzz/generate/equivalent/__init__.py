"""Build kernels that compute the same by construction: an oracle without a second device.

A chain of transformations, each with a name and an equation, is drawn from a tape. If the original
and the equivalent kernel differ on one device, one of them was compiled wrongly. The equations hold
where no float operation of the kernel rounds its data and none returns NaN.
"""

from __future__ import annotations

from tinyref.algebra.shapes import positions_of
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.payload import ViewArg
from tinyref_fuzz.generate.equivalent import values, views
from tinyref_fuzz.generate.equivalent.transformation import (
    TRANSFORMATIONS,
    TransformationChoices,
    rewrite_one,
    written_slots,
)
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Equivalent

__all__ = ["FAMILIES", "TRANSFORMATIONS", "equivalents", "transform"]

# Importing a family declares its transformations.
FAMILIES = (values, views)

# Number of transformations to try for one step; most fit most kernels.
TRIES = 12


def equivalents(
    ast: UOp,
    tape: Tape,
    steps: int = 1,
    supported: frozenset[DType] | None = None,
    capabilities: Capabilities | None = None,
    images: int = 0,
) -> Equivalent:
    """Return the kernel `ast` after up to `steps` transformations drawn from `tape`.

    Args:
        supported: The types that the new kernel may use; all types if None.
        capabilities: The capabilities of the device that will run the kernel, if known.
        images: Percentage of chains that end by making a buffer an image, if the device has images.
            It comes last, because other transformations break what an image requires.
    """
    names = sorted(TRANSFORMATIONS)
    trail: list[tuple[str, UOp]] = []
    current = ast
    for _ in range(steps):
        for _ in range(TRIES):
            name = tape.pick(names)
            new = transform(current, name, tape, supported)
            if new is not None:
                trail.append((name, new))
                current = new
                break
    if capabilities is not None and capabilities.images and tape.chance(images):
        new = views.as_image(current, _draw(current, tape, supported, capabilities))
        if new is not None:
            trail.append(("image", new))
    return Equivalent(ast, tuple(trail))


def transform(
    ast: UOp, name: str, tape: Tape, supported: frozenset[DType] | None = None
) -> UOp | None:
    """Return the kernel `ast` after the transformation `name`, or None if it fits nowhere."""
    transformation = TRANSFORMATIONS[name]
    if transformation.moves and _has_computed_positions(ast):
        return None
    draw = _draw(ast, tape, supported)
    return rewrite_one(
        ast, transformation.sites(ast), tape, lambda node: transformation.rewrite(node, draw)
    )


def _draw(
    ast: UOp,
    tape: Tape,
    supported: frozenset[DType] | None,
    capabilities: Capabilities | None = None,
) -> TransformationChoices:
    allowed = frozenset(dtypes.all) if supported is None else supported
    return TransformationChoices(tape, allowed, written_slots(ast), capabilities)


def _has_computed_positions(ast: UOp) -> bool:
    return any(isinstance(node.arg, ViewArg) and positions_of(node) for node in ast.toposort())
