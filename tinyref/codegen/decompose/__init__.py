"""Rewrite an indexed kernel into the types and ops that a device declares, or refuse it."""

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

# The name of a pass, and the function that rewrites an indexed kernel.
Pass = tuple[str, Callable[[UOp], UOp]]


def decompose(root: UOp, capabilities: Capabilities) -> UOp:
    """Rewrite the indexed kernel `root` to what `capabilities` declare; same values, bit for bit.

    Missing ops become core ops. Missing small floats become integers with conversions. Missing
    64-bit integers become pairs of words, and missing small integers are stored in words. Memory
    of words only is accessed by words, and divisions that could trap are guarded. Buffers of an
    emulated type become what `stored_as` says. Raises `UserError` for an op or a type that cannot
    be emulated; it names what the device accepts.
    """
    check_dtypes(root.toposort(), capabilities)
    for _, apply in passes(root, capabilities):
        root = apply(root)
    check_ops(root.toposort(), capabilities)
    return root


def passes(root: UOp, capabilities: Capabilities) -> list[Pass]:
    """Return the passes that `decompose` applies to the indexed kernel `root`, in order."""
    lacking = capabilities.emulated - capabilities.dtypes
    # Most kernels have no type that the device lacks: then they need no pass.
    used = frozenset(scalar_of(node.dtype) for node in root.toposort())
    emulated = lacking & used
    small, wide = emulated & frozenset(SMALL_FLOATS), emulated & frozenset(WIDE_INTEGERS)
    # Small floats are stored as small integers.
    used |= frozenset(map(storage_dtype, small))
    stored = used & capabilities.stored_in_words
    # The bits of float16 are a uint16, even if no other value has this type.
    integers = lacking & _SMALL_INTEGERS if used & _SMALL_INTEGERS else frozenset[DType]()
    if integers and dtypes.float16 not in lacking and _has_bits_of_halves(root):
        stored |= {dtypes.float16}
    missing: Pass = ("missing_ops", lambda kernel: replace_missing_ops(kernel, capabilities))
    result = [missing]
    if small:
        result.append(("small_floats", lambda kernel: emulate_small_floats(kernel, small)))
    # Small floats convert from and to integers of every size, so these come after them.
    if wide:
        result.append(
            ("wide_integers", lambda kernel: emulate_wide_integers(kernel, wide, capabilities))
        )
    if stored:
        result.append(("word_storage", lambda kernel: store_in_words(kernel, stored)))
    if integers:
        result.append(("small_integers", lambda kernel: emulate_small_integers(kernel, integers)))
    if capabilities.slow_division and takes_step("pass", "constant_division"):
        result.append(
            ("constant_division", lambda kernel: divide_by_constants(kernel, capabilities))
        )
    if emulated or stored or capabilities.slow_division:
        result.append(missing)
    if capabilities.division_traps:
        result.append(("guards", guard_divisions))
    return result


def _has_bits_of_halves(root: UOp) -> bool:
    """Return True if a float16 is reinterpreted as bits: words preserve the bits of its NaNs."""
    return any(
        node.op is Ops.BITCAST and dtypes.float16 in (node.dtype.scalar, node.src[0].dtype.scalar)
        for node in root.toposort()
    )


def stored_as(dtype: DType, capabilities: Capabilities) -> tuple[DType, int]:
    """Return the type in which a device stores the scalar `dtype`, and its number in a value."""
    if dtype in capabilities.dtypes:
        return dtype, 1
    return (dtypes.uint32, 2) if dtype in WIDE_INTEGERS else (storage_dtype(dtype), 1)
