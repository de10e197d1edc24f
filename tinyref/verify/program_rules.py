"""The rules of programs."""

from __future__ import annotations

from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import AxisKind, MemoryVersionArg, RangeArg
from tinyref.verify.common import OPENERS, Finding, Graph, Rules, add_linear_rules, differs_by_item

PROGRAM = Rules(Dialect.PROGRAM)


@PROGRAM.graph("order.1")
def sources_come_first(node: UOp, graph: Graph, position: int) -> Finding:
    """Every source comes before its user."""
    if graph.is_ordered:
        return None
    for source in node.src:
        if graph.position.get(source, position) >= position:
            return f"{source.op.name} before its user", "no such node before it"
    return None


@PROGRAM.graph("order.2")
def occurs_once(node: UOp, graph: Graph, position: int) -> Finding:
    """Every node except BARRIER occurs once."""
    if graph.is_ordered or node.op is Ops.BARRIER:
        return None
    first = graph.position[node]
    if first == position:
        return None
    return "one position in the program", f"positions {first} and {position}"


@PROGRAM.graph("memory_version.1", Ops.LOAD, Ops.STORE)
def follows_the_version_before(node: UOp, graph: Graph, position: int) -> Finding:
    """An access of memory version n follows n equal ones: one without a version, then from 1 up."""
    if not isinstance(node.arg, MemoryVersionArg):
        return None
    number = node.arg.number
    before = MemoryVersionArg(number - 1) if number > 1 else None
    previous = UOp(node.op, node.dtype, node.src, before)
    if number > 0 and graph.position.get(previous, position) < position:
        return None
    return "the equal access before it", "none"


@PROGRAM.graph("block.1", Ops.END, Ops.ENDIF)
def closes_the_innermost_block(node: UOp, graph: Graph, position: int) -> Finding:
    """END and ENDIF close the innermost open block."""
    before = graph.blocks[position - 1] if position else ()
    previous = graph.nodes[position - 1]
    innermost = previous if previous.op in OPENERS.values() else before[-1] if before else None
    if node.src and node.src[0] is innermost:
        return None
    return _name(node.src[0] if node.src else None), f"{_name(innermost)} is the innermost"


def _name(opener: UOp | None) -> str:
    return "no open block" if opener is None else f"{opener.op.name} {opener.arg or ''}".strip()


@PROGRAM.graph("block.2", Ops.RANGE, Ops.IF)
def is_closed(node: UOp, graph: Graph, position: int) -> Finding:
    """Every RANGE has its END, every IF its ENDIF."""
    closer = next(op for op, opener in OPENERS.items() if opener is node.op)
    if graph.last_closing.get(node, -1) > position:
        return None
    return f"{closer.name} of it", "the end of the program"


@PROGRAM.graph("scope.1")
def stays_in_its_block(node: UOp, graph: Graph, position: int) -> Finding:
    """A value is used in the block that computes it; only a last UPDATE_ACC is used outside."""
    if graph.is_ordered:
        return None
    around = graph.blocks[position]
    for source in node.src:
        # The last value of an accumulator is visible in the block that defines it.
        owner = source.src[0] if source.op is Ops.UPDATE_ACC and source.src else source
        made_in = graph.blocks[graph.position.get(owner, position)]
        if source.op is Ops.RANGE and node.op is not Ops.END:
            made_in = (*made_in, source)
        if around[: len(made_in)] != made_in:
            return f"a use inside {_name(made_in[-1])}", f"{source.op.name} used outside of it"
    return None


add_linear_rules(PROGRAM)


@PROGRAM.graph("acc.1", Ops.UPDATE_ACC)
def is_updated_in_a_loop(node: UOp, graph: Graph, position: int) -> Finding:
    """An accumulator is defined before the loop that updates it, in the block of that loop."""
    defined = graph.blocks[graph.position.get(node.src[0], position)]
    updated = graph.blocks[position]
    if len(defined) < len(updated) and updated[: len(defined)] == defined:
        return None
    return "DEFINE_ACC before the loop of its UPDATE_ACC", "both in the same block"


@PROGRAM.local("range.3", Ops.RANGE)
def is_a_loop(node: UOp, graph: Graph, _: int) -> Finding:
    """No RANGE has the kind UPCAST or UNROLL: these axes have become copies and vectors."""
    kind = node.arg.kind if isinstance(node.arg, RangeArg) else None
    if kind not in (AxisKind.UPCAST, AxisKind.UNROLL):
        return None
    return "a RANGE that is a loop", f"a RANGE of kind {kind.value}"


@PROGRAM.local("acc.2", Ops.DEFINE_ACC)
def has_a_start_value_alone(node: UOp, graph: Graph, _: int) -> Finding:
    """The only source of a DEFINE_ACC is its start value."""
    return None if len(node.src) == 1 else ("one source", f"{len(node.src)} sources")


@PROGRAM.local("barrier.1", Ops.BARRIER)
def barrier_has_no_sources(node: UOp, graph: Graph, _: int) -> Finding:
    """A BARRIER has no sources: its position orders it after other nodes."""
    return None if not node.src else ("no sources", f"{len(node.src)} sources")


@PROGRAM.graph("barrier.2", Ops.BARRIER)
def barrier_meets_all_items(node: UOp, graph: Graph, position: int) -> Finding:
    """A BARRIER is in no IF and no RANGE that differs between the work-items of a group."""
    return _reached_by_all_items("a BARRIER", graph, position)


@PROGRAM.graph("wmma.1", Ops.WMMA)
def tile_meets_all_items(node: UOp, graph: Graph, position: int) -> Finding:
    """A WMMA is in no IF and no RANGE that differs between the work-items of a group."""
    return _reached_by_all_items("a WMMA", graph, position)


def _reached_by_all_items(what: str, graph: Graph, position: int) -> Finding:
    for opener in graph.blocks[position]:
        if differs_by_item(opener.src[0]):
            return "a position that all work-items reach", f"{what} in {_name(opener)}"
    return None
