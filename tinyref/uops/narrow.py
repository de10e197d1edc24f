"""Index arithmetic, exact until now, becomes int32 where that is enough, else int64."""

from __future__ import annotations

from tinyref.device import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops import build
from tinyref.uops.bounds import bounds
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def narrow_index(root: UOp, capabilities: Capabilities) -> UOp:
    """The indexed kernel `root` without the `index` type.

    One type serves the whole kernel: int32 if no index node can leave it, else int64. Variables
    and launch indices are int32 in either case, as launches pass them. Raises `UserError` where
    int64 is needed and the device lacks it or not even that is enough, or a variable needs more
    than 32 bits.
    """
    order = root.toposort()
    wide = next((node for node in order if _is_index(node) and not _fits(node)), None)
    beyond = next((n for n in order if _is_index(n) and not _fits(n, dtypes.int64)), None)
    if beyond is not None:
        low, high = bounds(beyond)
        raise UserError(f"kernel: an index from {low} to {high} is beyond int64")
    if wide is not None and not capabilities.supports(dtypes.int64):
        low, high = bounds(wide)
        raise UserError(
            f"kernel: an index from {low} to {high} needs int64, which the device lacks; "
            "accepted are buffers of less than 2**31 elements"
        )
    target = dtypes.int32 if wide is None else dtypes.int64
    done: dict[UOp, UOp] = {}
    for node in order:
        done[node] = _narrowed(node, tuple(done[source] for source in node.src), target)
    return done[root]


def _is_index(node: UOp) -> bool:
    return node.dtype.scalar is dtypes.index


def _fits(node: UOp, dtype: DType = dtypes.int32) -> bool:
    low, high = bounds(node)
    return dtype.minimum <= low and high <= dtype.maximum


def _narrowed(node: UOp, src: tuple[UOp, ...], target: DType) -> UOp:
    if not _is_index(node):
        return node if src == node.src else node.replace(src=src)
    if node.op in (Ops.DEFINE_VAR, Ops.SPECIAL):
        if not _fits(node):
            raise UserError(f"kernel: {node.arg} does not fit in 32 bits")
        src = tuple(build.cast(source, dtypes.int32) for source in src)
        return build.cast(node.replace(dtype=dtypes.int32, src=src), target)
    if node.op is Ops.CAST and src[0].dtype is target.vec(node.dtype.lanes):
        return src[0]
    return node.replace(dtype=target.vec(node.dtype.lanes), src=src)
