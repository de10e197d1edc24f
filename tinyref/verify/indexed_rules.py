"""The rules of indexed kernels."""

from __future__ import annotations

from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import RangeArg, ReduceArg
from tinyref.verify.common import (
    Finding,
    Graph,
    Rules,
    add_access_rule,
    add_linear_rules,
    add_sink_rule,
    differs_by_item,
    ranges_of_update,
    union_of,
)

INDEXED = Rules(Dialect.INDEXED)
add_linear_rules(INDEXED)
add_access_rule(INDEXED)

Ranges = frozenset[UOp]
# Ops that may use the result of a loop in any scope.
_ANYWHERE = frozenset({Ops.AFTER, Ops.BARRIER, Ops.SINK})


add_sink_rule(INDEXED)


@INDEXED.local("sink.2", Ops.SINK)
def sink_keeps_stores(node: UOp, graph: Graph, _: int) -> Finding:
    """The sources of the SINK are STOREs, or AFTERs of STOREs."""
    for source in node.src:
        if skip_after(source).op is not Ops.STORE:
            return "STORE", skip_after(source).op.name
    return None


@INDEXED.local("reduce.1", Ops.REDUCE)
def reduces_ranges(node: UOp, graph: Graph, _: int) -> Finding:
    """The sources of a REDUCE after its value are RANGEs, and it has no axes."""
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    other = next((source for source in node.src[1:] if source.op is not Ops.RANGE), None)
    if not axes and other is None:
        return None
    return "RANGEs and no axes", f"axes {axes}" if other is None else other.op.name


@INDEXED.local("acc.1", Ops.DEFINE_ACC)
def accumulates_over_ranges(node: UOp, graph: Graph, _: int) -> Finding:
    """After its start value, the sources of a DEFINE_ACC are RANGEs."""
    other = next((source for source in node.src[1:] if source.op is not Ops.RANGE), None)
    return None if other is None else ("RANGE", other.op.name)


@INDEXED.local("acc.2", Ops.DEFINE_ACC)
def starts_before_its_ranges(node: UOp, graph: Graph, _: int) -> Finding:
    """The start value of a DEFINE_ACC does not depend on its ranges."""
    inside = _open(node.src[0]) & frozenset(node.src[1:])
    return None if not inside else ("a start value from outside the loops", _numbers(inside))


@INDEXED.graph("acc.3", Ops.UPDATE_ACC)
def has_one_update(node: UOp, graph: Graph, _: int) -> Finding:
    """A DEFINE_ACC has one UPDATE_ACC."""
    accumulator = skip_after(node.src[0])
    if graph.first_update[accumulator] is node:
        return None
    return "one UPDATE_ACC", f"two of the accumulator {accumulator.arg}"


@node_fact
def _open(node: UOp) -> Ranges:
    """Return the ranges that must be open where the node is used."""
    if node.op is Ops.RANGE:
        return _open(node.src[0]) | {node}
    ranges = union_of(map(_open, node.src))
    if not ranges:
        return ranges
    if node.op is Ops.REDUCE:
        return ranges.difference(node.src[1:])
    if node.op is Ops.UPDATE_ACC:
        return ranges.difference(ranges_of_update(node))
    if node.op in (Ops.AFTER, Ops.BARRIER):
        # A range among these sources has ended before the node.
        return ranges.difference(source for source in node.src if source.op is Ops.RANGE)
    return ranges


def _numbers(ranges: Ranges) -> str:
    numbers = sorted(node.arg.number for node in ranges if isinstance(node.arg, RangeArg))
    return f"a use of RANGE {', '.join(map(str, numbers))}"


@INDEXED.graph("range.2")
def stands_on_one_side_of_a_loop(node: UOp, graph: Graph, _: int) -> Finding:
    """No node uses both the counter of a range and the result of the same range."""
    ended = graph.ended.get(node)
    if ended is None or node.op in _ANYWHERE:
        return None
    both = _open(node) & ended
    return None if not both else ("a use inside or after the loop", f"{_numbers(both)} in both")


@INDEXED.local("wmma.1", Ops.WMMA)
def tile_meets_all_items(node: UOp, graph: Graph, _: int) -> Finding:
    """A WMMA is in no RANGE whose extent differs between the work-items of a group."""
    uneven = frozenset(counter for counter in _open(node) if differs_by_item(counter.src[0]))
    if not uneven:
        return None
    return "loops with the same extent for all work-items", f"a WMMA with {_numbers(uneven)}"
