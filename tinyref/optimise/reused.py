"""Values that a reduce goes over and that the outputs need once more, as the powers of a softmax.

exp(x - m) / sum(exp(x - m)) has each power twice: at the positions of the sum, and at those of the
output. In normal form these are two axes, so two nodes of the AST that differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tinyref.optimise.normal_form import OUTPUT, NormalForm
from tinyref.uops.node import UOp, rebuild
from tinyref.uops.ops import ALU
from tinyref.uops.payload import ReduceArg, ViewArg
from tinyref.views.shape_tracker import tracker_of


@dataclass(frozen=True)
class Reused:
    """`inner`, which a reduce over AST axis `reduced` goes over, is `outer` along axis `output`."""

    inner: UOp
    outer: UOp
    reduced: int
    output: int


def reused_values(form: NormalForm) -> tuple[Reused, ...]:
    """The values of reduces that the outputs of a kernel need once more, at each position."""
    found: tuple[Reused, ...] | None = form.ast.facts.get(reused_values)
    if found is None:
        found = tuple(_reused_values(form))
        form.ast.facts[reused_values] = found
    return found


def _reused_values(form: NormalForm) -> Iterator[Reused]:
    nodes = set(form.ast.toposort())
    outputs = [axis for axis, owner in enumerate(form.owners) if owner == OUTPUT]
    seen: set[UOp] = set()
    for node in form.ast.toposort():
        if not isinstance(node.arg, ReduceArg) or len(node.arg.axes) != 1:
            continue
        inner, reduced = node.src[0], node.arg.axes[0]
        if inner in seen or inner.op not in ALU or not isinstance(form.shape[reduced], int):
            continue
        for output in outputs:
            outer = _exchanged(inner, reduced, output)
            if outer is not inner and outer in nodes:
                seen.add(inner)
                yield Reused(inner, outer, reduced, output)
                break


def _exchanged(value: UOp, one: int, other: int) -> UOp:
    """`value` with two axes of the AST in each other's place."""

    def change(node: UOp, src: tuple[UOp, ...]) -> UOp | None:
        if not isinstance(node.arg, ViewArg):
            return None
        tracker = tracker_of(node)
        order = list(range(len(tracker.shape)))
        order[one], order[other] = other, one
        return node.replace(src=src, arg=ViewArg(tracker.permute(order)))

    return rebuild(value, change)
