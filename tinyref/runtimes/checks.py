"""What runtimes refuse alike: sizes and parts that memory cannot have, extents of no launch."""

from __future__ import annotations

from tinyref.errors import UserError


def check_size(nbytes: int) -> None:
    """Raises `UserError` for an allocation of a negative size."""
    if nbytes < 0:
        raise UserError(f"allocate: nbytes is {nbytes}, accepted is 0 and above")


def check_part(offset: int, nbytes: int, size: int) -> None:
    """Raises `UserError` for a view that is not all inside of the `size` bytes of its memory."""
    if offset < 0 or nbytes < 0 or offset + nbytes > size:
        raise UserError(
            f"view: bytes {offset} to {offset + nbytes} are outside the memory's {size}"
        )


def check_copy_in(source: memoryview, size: int) -> None:
    """Raises `UserError` for more bytes than the `size` of the memory that takes them."""
    if source.nbytes > size:
        raise UserError(f"copy_in: {source.nbytes} bytes do not fit into {size}")


def check_copy_out(destination: memoryview, size: int) -> None:
    """Raises `UserError` where more bytes are wanted than the `size` of the memory."""
    if destination.nbytes > size:
        raise UserError(f"copy_out: asked for {destination.nbytes} bytes of {size}")


def is_empty_launch(entry: str, grid: tuple[int, ...], group: tuple[int, ...]) -> bool:
    """Whether a launch has no groups. Raises `UserError` for extents that none can have."""
    if min(grid) < 0 or min(group) < 1:
        raise UserError(f"{entry}: got grid {grid} and group {group}: accepted from 0, 1")
    return 0 in grid
