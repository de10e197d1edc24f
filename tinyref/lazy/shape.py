"""Facts of tensor-graph nodes: shape, device, and the user's function that made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyref.algebra.shapes import device_of, shape_of
from tinyref.algebra.sizes import holds
from tinyref.algebra.symbolic import as_size, describe, describe_shape, highest, lift, product
from tinyref.errors import UserError, UserIndexError
from tinyref.uops.node import UOp, sint

# Defined elsewhere; users import these names from here.
__all__ = ["describe", "describe_shape", "device_of", "product", "shape_of"]


def check_one_device(name: str, sources: Iterable[UOp]) -> None:
    """Raise `UserError` if two sources of one operation are on different devices."""
    first: str | None = None
    for source in sources:
        device = device_of(source)
        if first is not None and device is not None and device != first:
            raise UserError(
                f"{name}: operands live on {first} and {device}: copy one of them first"
            )
        first = first or device


def as_shape(shape: Sequence[object], argument: str) -> tuple[sint, ...]:
    """Return `shape` as sizes in normal form. Raises `UserError` unless they are sizes from 0 up.

    A symbolic size is checked for the values that its variables are bound to.
    """
    sizes = tuple([as_size(size, argument) for size in shape])
    for size in sizes:
        if type(size) is int and size >= 0:
            continue
        if not holds(0, lift(size)):
            raise UserError(
                f"{argument}: {describe_shape(sizes)} has the negative size {describe(size)}: "
                "accepted are sizes of 0 and more"
            )
    return sizes


def check_axis(axis: object, rank: int, name: str) -> int:
    """Return `axis`, an int from 0 to `rank` - 1. Raises `UserError` for anything else."""
    if type(axis) is not int or not 0 <= axis < rank:
        accepted = f"0 to {rank - 1}" if rank else "none: the tensor has no axes"
        raise UserIndexError(f"{name}: axis {axis!r} does not exist: accepted are {accepted}")
    return axis


def is_empty(shape: Iterable[sint]) -> bool:
    """Return True if a size is certainly zero."""
    return any(size == 0 for size in shape if isinstance(size, int))


def largest_size(shape: Iterable[sint]) -> int:
    """Return the largest number of elements of a shape over all values of its variables."""
    return highest(lift(product(shape)))


# --- the function of the user that a node comes from ----------------------------------------------


_NAME = "the user's function"
_LINE = "the user's line"


def name_of(node: UOp) -> str:
    """Return the name of the function that made `node`; empty if it is not known."""
    name: str = node.facts.get(_NAME, "")
    return name


def give_name(node: UOp, name: str) -> None:
    """Name `node`, unless it has a name, or no sources: then all functions share it."""
    if name and may_be_named(node):
        node.facts.setdefault(_NAME, name)


def leave_unnamed(node: UOp) -> None:
    """Fix the name of `node`: a node without a name stays without one."""
    node.facts.setdefault(_NAME, "")


def may_be_named(node: UOp) -> bool:
    """Return True if `give_name` would name the node."""
    return bool(node.src) and _NAME not in node.facts


def line_of(node: UOp) -> str:
    """Return the file and line that called the function; empty if lines are not recorded."""
    line: str = node.facts.get(_LINE, "")
    return line


def give_line(node: UOp, line: str) -> None:
    """Record the line of a node that has a name."""
    if name_of(node):
        node.facts.setdefault(_LINE, line)


def keep_name(old: UOp, new: UOp) -> None:
    """Give `new`, which replaces `old`, the name and the line of `old`."""
    if old is not new:
        give_name(new, name_of(old))
        if line := line_of(old):
            give_line(new, line)
