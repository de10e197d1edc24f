"""What the sanitizer reports."""

from __future__ import annotations

from enum import Enum

from tinyref.errors import DeviceError


class Fault(Enum):
    """The kinds of wrong behaviour that the interpreter finds in a program."""

    BOUNDS = "out of bounds"
    ALIGNMENT = "unaligned vector"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    DIVERGENCE = "divergent barrier"
    TILE = "broken matrix tile"


class OrderMattersError(Exception):
    """Iterations of a loop that ran at once meet in memory: the launch starts again one by one."""


class SanitizerError(DeviceError):
    """A program did what no device may be trusted with.

    `kind` says what, `node` is the offending node as text, `memory` the buffer's name, `position`
    the element, `work_item` the launch indices of who did it (or the first of them).
    """

    def __init__(
        self,
        kind: Fault,
        node: str,
        message: str,
        memory: str = "",
        position: int | None = None,
        work_item: str = "",
    ) -> None:
        self.kind = kind
        self.fault = "broken-tile" if kind is Fault.TILE else kind.name.lower()
        self.node = node
        self.detail = message
        self.memory = memory
        self.position = position
        self.work_item = work_item
        by = f" by {work_item}" if work_item else ""
        super().__init__("interpreter", f"{kind.value}: {message}{by}, at {node}")

    def __reduce__(self) -> tuple[type[SanitizerError], tuple[object, ...]]:
        parts = (self.kind, self.node, self.detail, self.memory, self.position, self.work_item)
        return SanitizerError, parts
