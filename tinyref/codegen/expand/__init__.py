"""Expansion: the upcast and unrolled ranges of an indexed kernel become copies and vectors."""

from __future__ import annotations

from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.expand.copies import Expansion
from tinyref.codegen.expand.lane_ranges import Dependence, Numbering, choose_widths, is_lane_range
from tinyref.dtype import TEXEL, ImageDType, dtypes
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops

__all__ = ["expand"]


def expand(root: UOp, capabilities: Capabilities) -> UOp:
    """Remove the RANGEs of kind UPCAST and UNROLL from an indexed kernel; values do not change.

    A node that depends on such a range is copied for each of its values, or for each block of
    values, as a vector. A REDUCE retains the ranges that are loops. The values of its other ranges
    are combined inside these loops, in an order of its own. Raises `UserError` for a lane range of
    symbolic size, for a counter that depends on one, and for an image access of partial texels.
    """
    order = root.toposort()
    # The elements of a matrix tile may be neighbours as copies are.
    if any(is_lane_range(node) or node.op is Ops.WMMA for node in order):
        dependence = Dependence(order)
        is_processor = not capabilities.has_grid
        widths = choose_widths(order, dependence, capabilities.vector_lanes, is_processor)
        numbering = Numbering(dependence, widths)
        root = Expansion(order, dependence, numbering, capabilities).root()
    if any(isinstance(node.dtype, ImageDType) for node in order):
        _check_texels(root)
        root = rebuild(root, _by_texels)
    return root


def _check_texels(root: UOp) -> None:
    for node in root.toposort():
        if node.op not in (Ops.LOAD, Ops.STORE) or not isinstance(node.src[0].dtype, ImageDType):
            continue
        value = node if node.op is Ops.LOAD else node.src[1]
        if value.dtype.lanes != TEXEL:
            raise UserError(
                f"{node_text(node)}: {value.dtype.lanes} lanes of an image: accepted are texels of "
                f"{TEXEL}: an axis of unit stride must be upcast by {TEXEL}"
            )


def _by_texels(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
    """Replace a position in an image by the row and the column of a texel."""
    if node.op is not Ops.INDEX or not isinstance(node.dtype, ImageDType):
        return None
    number = build.idiv(src[1], TEXEL)
    width = build.const(dtypes.index, node.dtype.shape[1])
    row, column = build.idiv(number, width), build.mod(number, width)
    return build.texel(src[0], simplify(row), simplify(column))
