"""Rewrites an indexed kernel into the types and ops that a device declares, or says why not."""

from __future__ import annotations

from tinyref.device import Capabilities
from tinyref.uops.decompose.check import check_dtypes, check_ops
from tinyref.uops.decompose.constant_division import divide_by_constants
from tinyref.uops.decompose.division import guard_divisions
from tinyref.uops.decompose.missing import replace_missing_ops
from tinyref.uops.decompose.small_floats import emulate_small_floats
from tinyref.uops.decompose.storage import SMALL_FLOATS, storage_dtype
from tinyref.uops.node import UOp

__all__ = ["SMALL_FLOATS", "decompose", "storage_dtype"]


def decompose(root: UOp, capabilities: Capabilities) -> UOp:
    """The indexed kernel `root` in terms of what `capabilities` declare; same values, bit for bit.

    Ops that the device lacks become core ops, small floats that it lacks become integers with
    conversions, divisions that could trap are guarded. Buffers of an emulated type become buffers
    of `storage_dtype`. Raises `UserError` naming the op or type that cannot be had, and what the
    device accepts.
    """
    check_dtypes(root, capabilities)
    emulated = frozenset(SMALL_FLOATS) & (capabilities.emulated - capabilities.dtypes)
    root = replace_missing_ops(root, capabilities)
    root = emulate_small_floats(root, emulated)
    # Emulation computes in float32 with core ops, but keeps the op of a node: TRUNC stays TRUNC.
    root = replace_missing_ops(root, capabilities)
    if capabilities.slow_division:
        root = replace_missing_ops(divide_by_constants(root, capabilities), capabilities)
    if capabilities.division_traps:
        root = guard_divisions(root)
    check_ops(root, capabilities)
    return root
