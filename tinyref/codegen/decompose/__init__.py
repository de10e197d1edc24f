"""Rewrites an indexed kernel into the types and ops that a device declares, or says why not."""

from __future__ import annotations

from collections.abc import Callable

from tinyref.algebra.rewrite import takes_step
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose.check import check_dtypes, check_ops
from tinyref.codegen.decompose.integer_division import divide_by_constants, guard_divisions
from tinyref.codegen.decompose.missing import ELEMENTARY_OPS, replace_missing_ops
from tinyref.codegen.decompose.small_floats import emulate_small_floats
from tinyref.codegen.decompose.small_integers import (
    SMALL_INTEGERS,
    emulate_small_integers,
    store_in_words,
)
from tinyref.codegen.decompose.wide_integers import emulate_wide_integers
from tinyref.dtype import DType, dtypes
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import (
    SMALL_FLOATS,
    WIDE_INTEGERS,
    elements_in,
    scalar_of,
    storage_dtype,
)

__all__ = [
    "ELEMENTARY_OPS",
    "SMALL_FLOATS",
    "WIDE_INTEGERS",
    "decompose",
    "elements_in",
    "passes",
    "storage_dtype",
    "stored_as",
]

_SMALL_INTEGERS = frozenset(SMALL_INTEGERS)

# The name of a pass, and what it makes of an indexed kernel.
Pass = tuple[str, Callable[[UOp], UOp]]


def decompose(root: UOp, capabilities: Capabilities) -> UOp:
    """The indexed kernel `root` in terms of what `capabilities` declare; same values, bit for bit.

    Ops that the device lacks become core ops, small floats that it lacks become integers with
    conversions, 64-bit integers that it lacks become pairs of words and small ones are held in
    words, memory that has words only is accessed by words, divisions that could trap are guarded.
    Buffers of an emulated type become what `stored_as` says. Raises `UserError` naming the
    op or type that cannot be had, and what the device accepts.
    """
    check_dtypes(root.toposort(), capabilities)
    for _, apply in passes(root, capabilities):
        root = apply(root)
    check_ops(root.toposort(), capabilities)
    return root


def passes(root: UOp, capabilities: Capabilities) -> list[Pass]:
    """What `decompose` applies to the indexed kernel `root`, in order, each with its name."""
    lacking = capabilities.emulated - capabilities.dtypes
    # Most kernels have no type that the device lacks: they are not walked through once more.
    used = frozenset(scalar_of(node.dtype) for node in root.toposort())
    emulated = lacking & used
    small, wide = emulated & frozenset(SMALL_FLOATS), emulated & frozenset(WIDE_INTEGERS)
    # Small floats are held as small integers.
    used |= frozenset(map(storage_dtype, small))
    stored = used & capabilities.stored_in_words
    # The bits of float16 are those of uint16, also where no other value is of that type.
    integers = lacking & _SMALL_INTEGERS if used & _SMALL_INTEGERS else frozenset[DType]()
    if integers and dtypes.float16 not in lacking and _has_bits_of_halves(root):
        stored |= {dtypes.float16}
    missing: Pass = ("missing_ops", lambda given: replace_missing_ops(given, capabilities))
    found = [missing]
    if small:
        found.append(("small_floats", lambda given: emulate_small_floats(given, small)))
    # Small floats convert from and to integers of every size, so that these come after.
    if wide:
        found.append(
            ("wide_integers", lambda given: emulate_wide_integers(given, wide, capabilities))
        )
    if stored:
        found.append(("word_storage", lambda given: store_in_words(given, stored)))
    if integers:
        found.append(("small_integers", lambda given: emulate_small_integers(given, integers)))
    if capabilities.slow_division and takes_step("pass", "constant_division"):
        found.append(("constant_division", lambda given: divide_by_constants(given, capabilities)))
    if emulated or stored or capabilities.slow_division:
        found.append(missing)
    if capabilities.division_traps:
        found.append(("guards", guard_divisions))
    return found


def _has_bits_of_halves(root: UOp) -> bool:
    """Whether a float16 that the device has is bits somewhere: its NaNs keep theirs in words."""
    return any(
        node.op is Ops.BITCAST and dtypes.float16 in (node.dtype.scalar, node.src[0].dtype.scalar)
        for node in root.toposort()
    )


def stored_as(dtype: DType, capabilities: Capabilities) -> tuple[DType, int]:
    """The type in which a device holds the scalar `dtype`, and how many of it make one value."""
    if dtype in capabilities.dtypes:
        return dtype, 1
    return (dtypes.uint32, 2) if dtype in WIDE_INTEGERS else (storage_dtype(dtype), 1)
