"""What a schedule is made of: kernels and copies in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinyref.uops.node import UOp


@dataclass(frozen=True)
class KernelItem:
    """A kernel to run on `device`: `buffers` are BUFFER nodes by slot, the outputs first.

    `completes` are the nodes whose result is there once the kernel has run.
    """

    ast: UOp
    buffers: tuple[UOp, ...]
    device: str
    completes: tuple[UOp, ...] = ()


@dataclass(frozen=True)
class CopyItem:
    """All bytes of one BUFFER to one of equal size on another device.

    `completes` are the nodes whose result is there once the copy is done.
    """

    target: UOp
    source: UOp
    completes: tuple[UOp, ...] = ()


Item = KernelItem | CopyItem


@dataclass
class Schedule:
    """Items in order; `results` maps each requested or stored node to a view of its BUFFER.

    A constant maps to itself: it needs no memory. `bindings` are the values of the symbolic
    variables, by name.
    """

    items: list[Item]
    results: dict[UOp, UOp] = field(default_factory=dict)
    bindings: Mapping[str, int] = field(default_factory=dict)

    @property
    def kernels(self) -> list[KernelItem]:
        """The kernels alone, in order."""
        return [item for item in self.items if isinstance(item, KernelItem)]
