"""Estimates of the work of kernels, and counters of what the engine has done since a reset."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tinyref.algebra.shapes import kernel_shape, positions_of
from tinyref.algebra.symbolic import lift, lower, product
from tinyref.device import memory
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ReduceArg, ViewArg


class _GlobalCounters:
    """Totals over all devices; `mem_used` is the memory allocated now, the others only grow.

    kernel_count: kernels launched.
    global_ops: arithmetic operations, counted in the ASTs of the kernels.
    global_mem: bytes that kernels load and store at least once.
    time_sum_s: seconds in kernels that were timed (DEBUG of 2 and more).

    Examples:
        >>> from tinyref import GlobalCounters
        >>> x, before = Tensor([1, 2]).realize(), GlobalCounters.kernel_count
        >>> _ = (x + 1).realize()
        >>> GlobalCounters.kernel_count - before
        1
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Set all totals to zero."""
        self.kernel_count = 0
        self.global_ops = 0
        self.global_mem = 0
        self.time_sum_s = 0.0

    @property
    def mem_used(self) -> int:
        """Return the bytes allocated now on all devices."""
        return sum(memory.now.values())

    def __repr__(self) -> str:
        return (
            f"GlobalCounters(kernel_count={self.kernel_count}, global_ops={self.global_ops}, "
            f"global_mem={self.global_mem}, time_sum_s={self.time_sum_s}, "
            f"mem_used={self.mem_used})"
        )


GlobalCounters = _GlobalCounters()


@dataclass(frozen=True)
class Estimate:
    """The work of a kernel.

    operations: one for each ALU op on each element, and one for each element of a reduce.
    nbytes: the elements that each view can reach, once, for loads and for stores. A load at
    computed indices counts one element an index; a reduce that only selects them counts none.
    """

    operations: sint
    nbytes: sint


_known: WeakKeyDictionary[UOp, Estimate] = WeakKeyDictionary()


def estimate(ast: UOp) -> Estimate:
    """Return the work of a kernel AST; symbolic if its sizes are.

    Cached for whole kernels only: shared nodes count once, so it is not a sum over the sources.
    """
    result = _known.get(ast)
    if result is None:
        result = _known[ast] = _estimate_ast(ast)
    return result


def _estimate_ast(ast: UOp) -> Estimate:
    operations = lift(0)
    nbytes = lift(0)
    for node in fold_ranges(ast).toposort():
        if node.op in ALU and node.op not in (Ops.CAST, Ops.BITCAST):
            operations = operations + lift(product(kernel_shape(node)))
        elif isinstance(node.arg, ReduceArg):
            operations = operations + lift(product(kernel_shape(node.src[0])))
        elif node.op is Ops.LOAD and positions_of(node.src[0]):
            nbytes = nbytes + lift(_bytes_at_computed_indices(node))
        elif node.op in (Ops.LOAD, Ops.STORE):
            nbytes = nbytes + _touched_bytes(node)
    return Estimate(lower(operations), lower(nbytes))


def _bytes_at_computed_indices(load: UOp) -> sint:
    """Return the bytes of a LOAD at computed indices: no more than its view can reach."""
    reached = _touched_bytes(load)
    nbytes = lower(lift(product(kernel_shape(load))) * load.dtype.itemsize)
    return min(nbytes, reached) if isinstance(nbytes, int) else nbytes


def _touched_bytes(node: UOp) -> int:
    view = node.src[0]
    if not isinstance(view.arg, ViewArg):
        return 0
    itemsize = node.dtype.itemsize if node.op is Ops.LOAD else node.src[1].dtype.itemsize
    reach = view.arg.tracker.reach()
    return 0 if reach is None else (reach[1] - reach[0] + 1) * itemsize
