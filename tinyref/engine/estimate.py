"""How much work a kernel is, read off its AST."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.algebra.symbolic import lift, lower, product
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg


@dataclass(frozen=True)
class Estimate:
    """`operations`: one for each ALU op on each element, and one for each element of a reduce.

    `nbytes`: the elements that each view can reach, once, for loads and for stores. Of a load at
    places that are computed, as many elements as there are places: a reduce that only chooses
    them is none.
    """

    operations: sint
    nbytes: sint


_known: WeakKeyDictionary[UOp, Estimate] = WeakKeyDictionary()


def estimate(ast: UOp) -> Estimate:
    """The work of a kernel AST; symbolic where its sizes are.

    Kept for the whole kernel only: shared nodes count once, so it is no sum over the sources.
    """
    found = _known.get(ast)
    if found is None:
        found = _known[ast] = _estimate_ast(ast)
    return found


def _estimate_ast(ast: UOp) -> Estimate:
    operations = lift(0)
    nbytes = lift(0)
    for node in fold_ranges(ast).toposort():
        if node.op in ALU and node.op not in (Ops.CAST, Ops.BITCAST):
            operations = operations + lift(product(kernel_shape(node)))
        elif isinstance(node.arg, ReduceArg):
            operations = operations + lift(product(kernel_shape(node.src[0])))
        elif node.op is Ops.LOAD and positions_of(node.src[0]):
            nbytes = nbytes + lift(_bytes_at_chosen_places(node))
        elif node.op in (Ops.LOAD, Ops.STORE):
            nbytes = nbytes + _touched_bytes(node)
    return Estimate(lower(operations), lower(nbytes))


def _bytes_at_chosen_places(load: UOp) -> sint:
    """The bytes of a LOAD at places that values give: no more than its view can reach."""
    reached = _touched_bytes(load)
    places = lower(lift(product(kernel_shape(load))) * load.dtype.itemsize)
    return min(places, reached) if isinstance(places, int) else places


def _touched_bytes(node: UOp) -> int:
    view = node.src[0]
    if not isinstance(view.arg, ViewArg):
        return 0
    itemsize = node.dtype.itemsize if node.op is Ops.LOAD else node.src[1].dtype.itemsize
    reach = view.arg.tracker.reach()
    return 0 if reach is None else (reach[1] - reach[0] + 1) * itemsize
