"""Give index arithmetic, exact until now, a width: int32 if that is enough, else int64."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.algebra.bounds import bounds
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import Ops


def narrow_index(root: UOp, capabilities: Capabilities) -> UOp:
    """Return the indexed kernel `root` without the `index` type.

    The whole kernel uses one type: int32 if every index node fits, else int64. Variables and
    launch indices are always int32, because launches pass them so. Raises `UserError` if a value
    exceeds int64, if the device lacks the int64 that is needed, and if a variable needs more than
    32 bits.
    """
    indices = [node for node in root.toposort() if node.dtype.scalar is dtypes.index]
    target = _index_type(indices)
    if target is dtypes.int64 and dtypes.int64 not in capabilities.dtypes:
        low, high = bounds(next(node for node in indices if not _fits(node)))
        raise UserError(
            f"kernel: an index from {low} to {high} needs int64, which the device lacks; "
            "accepted are buffers of less than 2**31 elements"
        )

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        return _narrow_node(node, src, target) if node.dtype.scalar is dtypes.index else None

    return rebuild(root, change)


def _index_type(nodes: Sequence[UOp]) -> DType:
    """Return the type that holds the values of all index `nodes`."""
    ranges = [bounds(node) for node in nodes]
    for low, high in ranges:
        if low < dtypes.int64.minimum or high > dtypes.int64.maximum:
            raise UserError(f"kernel: an index from {low} to {high} is beyond int64")
    least = min((low for low, _ in ranges), default=0)
    most = max((high for _, high in ranges), default=0)
    fits = dtypes.int32.minimum <= least and most <= dtypes.int32.maximum
    return dtypes.int32 if fits else dtypes.int64


def _fits(node: UOp) -> bool:
    low, high = bounds(node)
    return dtypes.int32.minimum <= low and high <= dtypes.int32.maximum


def _narrow_node(node: UOp, src: tuple[UOp, ...], target: DType) -> UOp:
    if node.op in (Ops.DEFINE_VAR, Ops.SPECIAL):
        if not _fits(node):
            raise UserError(f"kernel: {node.arg} does not fit in 32 bits")
        src = tuple(build.cast(source, dtypes.int32) for source in src)
        return build.cast(node.replace(dtype=dtypes.int32, src=src), target)
    if node.op is Ops.CAST and src[0].dtype is target.vec(node.dtype.lanes):
        return src[0]
    return node.replace(dtype=target.vec(node.dtype.lanes), src=src)
