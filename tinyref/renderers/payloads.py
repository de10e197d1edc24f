"""What the renderers read off a node or a program, checked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from tinyref.dtype import DType, PtrDType
from tinyref.errors import UserError
from tinyref.uops.node import UOp

T = TypeVar("T")

# Compilers call these of their own accord: no kernel may stand in for them.
MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "memcmp"})
LONGEST_NAME = 255


def is_identifier(name: str) -> bool:
    """Whether `name` is one in C: letters, digits and _ of ASCII, no digit first."""
    return name.isascii() and name.isidentifier()


def entry_name(name: str, taken: Collection[str], language: str) -> str:
    """The name of a kernel's function, as it is.

    Raises `UserError` for one that `language` cannot have, or that is among the `taken`.
    """
    if not is_identifier(name) or len(name) > LONGEST_NAME:
        shown = name if len(name) <= LONGEST_NAME else f"{name[:20]}..."
        raise UserError(
            f"program: {shown!r} cannot be the name of {language} function: accepted are up to "
            f"{LONGEST_NAME} letters, digits and _ of ASCII, no digit first"
        )
    # What begins with _ belongs to compilers and C libraries.
    if name.startswith("_") or name in taken or name in MEMORY_FUNCTIONS:
        raise UserError(
            f"program: {name!r} cannot be the name of {language} function: it has a meaning there"
        )
    return name


def payload_of(node: UOp, kind: type[T]) -> T:
    """The payload of `node`. Raises `UserError` when it is not a `kind`."""
    if not isinstance(node.arg, kind):
        raise UserError(f"{node.op.name}: needs a payload {kind.__name__}, got {node.arg!r}")
    return node.arg


def element_of(node: UOp) -> DType:
    """The type of the elements that `node` points to. Raises `UserError` for no pointer."""
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
    return node.dtype.base
