"""What a schedule is made of: kernels and copies in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinyref.algebra.sizes import Constraint
from tinyref.codegen.compile import kernel_name
from tinyref.uops.node import UOp


@dataclass(frozen=True)
class KernelItem:
    """A kernel to run on `device`: `buffers` are BUFFER nodes by slot, the outputs first.

    `completes` are the nodes whose result is there once the kernel has run, `names` the functions
    of the user that it computes: softmax, linear, backward relu; `lines` from where they were
    called, as FILE:LINE, while lines are noted.
    """

    ast: UOp
    buffers: tuple[UOp, ...]
    device: str
    completes: tuple[UOp, ...] = ()
    names: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = kernel_name(self.ast)
        return f"kernel {self.device} {name}, {len(self.buffers)} buffers: {', '.join(self.names)}"


@dataclass(frozen=True)
class CopyItem:
    """All bytes of one BUFFER to one of equal size on another device.

    `completes` are the nodes whose result is there once the copy is done.
    """

    target: UOp
    source: UOp
    completes: tuple[UOp, ...] = ()

    def __str__(self) -> str:
        return f"copy {self.source.arg} -> {self.target.arg}"


Item = KernelItem | CopyItem


@dataclass
class Schedule:
    """Items in order; `results` maps each requested or stored node to a view of its BUFFER.

    A constant maps to itself: it needs no memory. `bindings` are the values of the symbolic
    variables, by name; `constraints` is what other values of theirs must satisfy.
    """

    items: list[Item]
    results: dict[UOp, UOp] = field(default_factory=dict)
    bindings: Mapping[str, int] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{number}. {item}" for number, item in enumerate(self.items, 1))

    @property
    def kernels(self) -> list[KernelItem]:
        """The kernels alone, in order."""
        return [item for item in self.items if isinstance(item, KernelItem)]
