"""Rewrites an indexed kernel into the types and ops that a device declares, or says why not."""

from __future__ import annotations

from tinyref.codegen.decompose.check import check_dtypes, check_ops
from tinyref.codegen.decompose.constant_division import divide_by_constants
from tinyref.codegen.decompose.division import guard_divisions
from tinyref.codegen.decompose.missing import ELEMENTARY_OPS, replace_missing_ops
from tinyref.codegen.decompose.small_floats import emulate_small_floats
from tinyref.codegen.decompose.wide_integers import emulate_wide_integers
from tinyref.device import Capabilities
from tinyref.uops.node import UOp
from tinyref.uops.storage import (
    SMALL_FLOATS,
    WIDE_INTEGERS,
    elements_in,
    scalar_of,
    storage_dtype,
    stored_as,
)

__all__ = [
    "ELEMENTARY_OPS",
    "SMALL_FLOATS",
    "WIDE_INTEGERS",
    "decompose",
    "elements_in",
    "storage_dtype",
    "stored_as",
]


def decompose(root: UOp, capabilities: Capabilities) -> UOp:
    """The indexed kernel `root` in terms of what `capabilities` declare; same values, bit for bit.

    Ops that the device lacks become core ops, small floats that it lacks become integers with
    conversions, 64-bit integers that it lacks become pairs of words, divisions that could trap are
    guarded. Buffers of an emulated type become what `stored_as` says. Raises `UserError` naming the
    op or type that cannot be had, and what the device accepts.
    """
    order = root.toposort()
    check_dtypes(order, capabilities)
    lacking = capabilities.emulated - capabilities.dtypes
    # Most kernels have no type that the device lacks: they are not walked through once more.
    emulated = lacking & frozenset(scalar_of(node.dtype) for node in order)
    root = replace_missing_ops(root, capabilities)
    if emulated:
        root = emulate_small_floats(root, emulated & frozenset(SMALL_FLOATS))
        # Small floats convert from and to integers of every size, so that these come after.
        root = emulate_wide_integers(root, emulated & frozenset(WIDE_INTEGERS), capabilities)
    if capabilities.slow_division:
        root = divide_by_constants(root, capabilities)
    if emulated or capabilities.slow_division:
        root = replace_missing_ops(root, capabilities)
    if capabilities.division_traps:
        root = guard_divisions(root)
    check_ops(root, capabilities)
    return root
