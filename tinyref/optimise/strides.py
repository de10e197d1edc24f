"""How the accesses of a kernel move along the axes of its plan: what the heuristics look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinyref.algebra.shapes import reduced_axes
from tinyref.optimise.plan import Axis, Plan, changes, element_strides
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.views.shape_tracker import tracker_of


@dataclass(frozen=True)
class Access:
    """A LOAD or STORE, the AST axes along which it changes, and its strides in elements there.

    A stride is None where it varies. `is_masked`: a view that skips some positions.
    """

    node: UOp
    moves: frozenset[int]
    strides: tuple[int | None, ...]
    is_masked: bool

    @property
    def is_store(self) -> bool:
        """Whether it writes."""
        return self.node.op is Ops.STORE

    @property
    def slot(self) -> int:
        """The slot of its buffer."""
        return slot_of(self.node)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.node.src[1].dtype.itemsize if self.is_store else self.node.dtype.itemsize

    def step(self, axis: Axis) -> int | None:
        """By how many elements it moves with one iteration of `axis`; None where that varies."""
        if axis.target not in self.moves:
            return 0
        stride = self.strides[axis.target]
        return None if stride is None else stride * axis.stride

    def is_unit(self, axis: Axis) -> bool:
        """Whether neighbours along `axis` are neighbours in memory, in rising order."""
        return self.step(axis) == 1


def accesses(plan: Plan) -> list[Access]:
    """Every LOAD and STORE of the kernel, loads first."""
    # Plans of one kernel have them in common, so they are kept with it.
    facts = plan.form.ast.facts
    found: list[Access] | None = facts.get(accesses)
    if found is None:
        loads = [node for node in plan.nodes if node.op is Ops.LOAD]
        found = [_access(node) for node in (*loads, *plan.form.ast.src)]
        facts[accesses] = found
    return list(found)


def _access(node: UOp) -> Access:
    view = node.src[0]
    strides = tuple(s if isinstance(s, int) else None for s in element_strides(node))
    return Access(node, changes(view), strides, tracker_of(view).is_masked)


def reduce_axes(plan: Plan) -> Iterator[tuple[UOp, list[Axis]]]:
    """Every REDUCE with the axes of the plan that are its loops, outermost first."""
    for node in plan.nodes:
        if node.op is Ops.REDUCE:
            over = (axis for axis in plan.axes if axis.target in reduced_axes(node))
            yield node, [axis for axis in over if axis.kind is AxisKind.REDUCE]
