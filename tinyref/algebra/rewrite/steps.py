"""Optional steps of a compile, counted, so that a limit can leave out all later ones.

LLVM calls such a limit opt-bisect-limit. A step is a rule that fires, an optimisation of a plan, or
a pass that only improves a kernel. Mandatory lowerings are not counted: they always happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinyref.uops.node import UOp


@dataclass(frozen=True)
class Step:
    """One optional step: its kind ("rule", "opt" or "pass") and its name.

    A rule also has the node that it matched, and what it made of the node.
    """

    kind: str
    name: str
    node: UOp | None = None
    result: UOp | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass
class Steps:
    """The steps of one compile, which stops to take any after `limit` of them."""

    limit: int | None = None
    taken: list[Step] = field(default_factory=list)

    def take(self, step: Step) -> bool:
        """Count the step and return True, or return False if the limit is reached."""
        if self.limit is not None and len(self.taken) >= self.limit:
            return False
        self.taken.append(step)
        return True
