"""Buffers as images: the same elements in the same order, read by texels of four."""

from __future__ import annotations

from tinyref.codegen.compile import compile_kernel
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.schedule.images import with_image
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent.transformation import Domain, Draw, of_kernel


@of_kernel("image", Domain.EVERY)
def image(sink: UOp, draw: Draw) -> UOp | None:
    """x[4 i + j] = lane j of texel i of x seen as an image."""
    loads = [node for node in sink.toposort() if _may_be_image(node, draw)]
    if not loads or draw.capabilities is None:
        return None
    try:
        found = with_image(sink, draw.tape.pick(loads))
        # Whether all accesses are of whole texels is known once lanes are chosen.
        compile_kernel(found, draw.capabilities)
    except UserError:
        return None
    except Exception:
        # Not a refusal but a fault: the judge will meet it and say whose.
        return found
    return found


def _may_be_image(node: UOp, draw: Draw) -> bool:
    return (
        node.op is Ops.LOAD
        and node.dtype in (dtypes.float32, dtypes.float16)
        and node.dtype in draw.dtypes
        and slot_of(node) not in draw.written
    )
