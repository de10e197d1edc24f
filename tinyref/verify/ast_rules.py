"""The rules of kernel ASTs."""

from __future__ import annotations

import itertools

from tinyref.algebra.shapes import positions_of
from tinyref.algebra.symbolic import describe_shape
from tinyref.dtype import PtrDType, dtypes
from tinyref.formats.payload_fields import payload_nodes
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, node_fact, sint
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import ReduceArg, SlotArg, ViewArg
from tinyref.verify.common import (
    Finding,
    Graph,
    Rules,
    add_access_rule,
    add_buffer_rules,
    add_op_rules,
    add_sink_rule,
    add_variable_rule,
)
from tinyref.views.shape_tracker import tracker_of

AST = Rules(Dialect.AST)
add_op_rules(AST)
add_variable_rule(AST)
add_buffer_rules(AST)
add_access_rule(AST)

Shape = tuple[sint, ...]
_SIZE_OPS = frozenset(
    {
        Ops.CONST,
        Ops.DEFINE_VAR,
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.NEG,
        Ops.IDIV,
        Ops.MOD,
        Ops.MAX,
    }
)


@node_fact
def _shape(node: UOp) -> Shape:
    """Return the shape of a node with axes of size 1 broadcast; () if it fits any shape."""
    if isinstance(node.arg, ViewArg):
        full, positions = node.arg.tracker.shape, positions_of(node)
        own = full[: len(full) - len(positions)]
        return _broadcast([own, *(shape for shape in map(_shape, positions) if shape)])
    if node.op is Ops.LOAD:
        return _shape(node.src[0])
    shapes = [shape for shape in map(_shape, node.src) if shape]
    shape = _broadcast(shapes)
    if isinstance(node.arg, ReduceArg):
        return tuple(1 if axis in node.arg.axes else size for axis, size in enumerate(shape))
    return shape


def _broadcast(shapes: list[Shape]) -> Shape:
    """Return the common shape: on each axis the size of a shape that does not have size 1 there."""
    return tuple(
        next((size for size in sizes if size != 1), 1) for sizes in zip(*shapes, strict=False)
    )


def _disagreement(shapes: list[Shape]) -> Finding:
    """Return the first two shapes that differ in an axis where neither has size 1."""
    for left, right in itertools.combinations(shapes, 2):
        fits = len(left) == len(right) and all(
            size == other or size == 1 or other == 1
            for size, other in zip(left, right, strict=True)
        )
        if not fits:
            return f"the shape {describe_shape(left)} or 1", describe_shape(right)
    return None


add_sink_rule(AST)


@AST.local("sink.2", Ops.SINK)
def sink_keeps_stores(node: UOp, graph: Graph, _: int) -> Finding:
    """The sources of the SINK are STOREs."""
    other = next((source for source in node.src if source.op is not Ops.STORE), None)
    return None if other is None else ("STORE", other.op.name)


@AST.local("sink.3", Ops.SINK)
def outputs_agree(node: UOp, graph: Graph, _: int) -> Finding:
    """The views that a kernel writes agree in every axis where neither has size 1."""
    return _disagreement([_shape(store.src[0]) for store in node.src])


@AST.graph("global.3", Ops.DEFINE_GLOBAL)
def slots_are_consecutive(node: UOp, graph: Graph, _: int) -> Finding:
    """The slots of a kernel count from 0 without a gap."""
    slot = node.arg.slot if isinstance(node.arg, SlotArg) else 0
    if 0 <= slot < len(graph.slots):
        return None
    return f"slots 0 to {len(graph.slots) - 1}", f"slot {slot}"


@AST.graph("global.4", Ops.STORE)
def outputs_come_first(node: UOp, graph: Graph, _: int) -> Finding:
    """The slots that are written come before the slots that are only read."""
    slot = slot_of(node)
    if slot < len(graph.written_slots):
        return None
    return f"outputs in slots 0 to {len(graph.written_slots) - 1}", f"an output in slot {slot}"


@AST.local("view.1", Ops.VIEW)
def views_a_buffer(node: UOp, graph: Graph, _: int) -> Finding:
    """The source of a VIEW is a DEFINE_GLOBAL."""
    source = node.src[0]
    return None if source.op is Ops.DEFINE_GLOBAL else ("DEFINE_GLOBAL", source.op.name)


@AST.graph("view.2", Ops.VIEW, Ops.VALID, Ops.IOTA)
def views_have_one_rank(node: UOp, graph: Graph, _: int) -> Finding:
    """All views of a kernel have the same number of axes."""
    first = next(other for other in graph.nodes if isinstance(other.arg, ViewArg))
    want, got = len(_shape(first)), len(_shape(node))
    return None if want == got else (f"{want} axes", f"{got} axes")


@AST.local("view.3", Ops.VIEW)
def stays_within_its_buffer(node: UOp, graph: Graph, _: int) -> Finding:
    """A view accesses only elements of its buffer."""
    reach = node.arg.tracker.reach() if isinstance(node.arg, ViewArg) else None
    size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
    if reach is None or (reach[0] >= 0 and reach[1] < size):
        return None
    return f"elements 0 to {size - 1}", f"elements {reach[0]} to {reach[1]}"


@AST.local("view.4", Ops.VIEW, Ops.VALID, Ops.IOTA)
def sizes_depend_on_variables(node: UOp, graph: Graph, _: int) -> Finding:
    """Symbolic sizes are arithmetic on DEFINE_VARs."""
    for size in payload_nodes(node.arg):
        for part in size.toposort():
            if part.op not in _SIZE_OPS:
                return "CONST, DEFINE_VAR and integer arithmetic", part.op.name
    return None


@AST.local("view.5", Ops.VIEW, Ops.VALID, Ops.IOTA)
def positions_agree(node: UOp, graph: Graph, _: int) -> Finding:
    """Values that are positions agree with the view in its other axes."""
    positions = positions_of(node)
    if not isinstance(node.arg, ViewArg) or not positions:
        return None
    full = node.arg.tracker.shape
    if len(positions) > len(full):
        return f"at most {len(full)} positions", f"{len(positions)}"
    own = full[: len(full) - len(positions)]
    return _disagreement([own, *(shape for shape in map(_shape, positions) if shape)])


@AST.local("view.6", Ops.STORE)
def stores_at_fixed_positions(node: UOp, graph: Graph, _: int) -> Finding:
    """The view of a STORE takes no position from a value of the kernel."""
    count = len(positions_of(node.src[0]))
    return None if not count else ("no position that is a value", f"{count} of them")


@AST.local("iota.1", Ops.IOTA)
def numbers_through_a_view(node: UOp, graph: Graph, _: int) -> Finding:
    """In a kernel IOTA has a view, and its type can represent all numbers of the view."""
    if not isinstance(node.arg, ViewArg):
        return "a view", type(node.arg).__name__
    reach = node.arg.tracker.reach()
    if reach is None or (reach[0] >= 0 and reach[1] <= node.dtype.maximum):
        return None
    return f"numbers 0 to {node.dtype.maximum}", f"numbers {reach[0]} to {reach[1]}"


@AST.local("load.1", Ops.LOAD)
def loads_a_view(node: UOp, graph: Graph, _: int) -> Finding:
    """LOAD has one source, a VIEW, whose mask is the gate."""
    if len(node.src) == 1 and node.src[0].op is Ops.VIEW:
        return None
    return "VIEW", ", ".join(source.op.name for source in node.src)


@AST.graph("load.2", Ops.LOAD)
def loads_outputs_in_place(node: UOp, graph: Graph, _: int) -> Finding:
    """A kernel loads a slot that it also writes through the view of the STORE, of full shape.

    Through another view, a load could come before or after the store of its element.
    """
    store = graph.first_store_of_slot.get(slot_of(node))
    if store is None:
        return None
    stored, loaded = store.src[0], node.src[0]
    if stored.arg != loaded.arg:
        return f"the view of the STORE to slot {slot_of(node)}", "another view of it"
    shapes = [_shape(other.src[0]) for other in graph.first_store_of_slot.values()]
    largest = _broadcast(shapes)
    if _shape(stored) == largest:
        return None
    return f"the shape of all outputs, {describe_shape(largest)}", describe_shape(_shape(stored))


@AST.local("store.1", Ops.STORE)
def stores_to_a_view(node: UOp, graph: Graph, _: int) -> Finding:
    """STORE has two sources, a VIEW and a value. The view's mask is the gate."""
    if len(node.src) == 2 and node.src[0].op is Ops.VIEW:
        return None
    return "VIEW and a value", ", ".join(source.op.name for source in node.src)


@AST.local("store.2", Ops.STORE)
def stores_one_shape(node: UOp, graph: Graph, _: int) -> Finding:
    """The value of a STORE has the shape of the view, or size 1 on an axis where it is repeated."""
    target, value = _shape(node.src[0]), _shape(node.src[1])
    if not value:
        return None
    if len(target) == len(value) and all(
        size in (want, 1) for want, size in zip(target, value, strict=True)
    ):
        return None
    return f"the shape {describe_shape(target)}", describe_shape(value)


@AST.local("store.3", Ops.STORE)
def writes_no_element_twice(node: UOp, graph: Graph, _: int) -> Finding:
    """A STORE writes no element twice: no axis of its view repeats the same elements."""
    if not isinstance(node.src[0].arg, ViewArg):
        return None
    tracker = tracker_of(node.src[0])
    if tracker.reach() is None:
        return None
    mask = tracker.views[-1].mask
    for axis, (size, stride) in enumerate(zip(tracker.shape, tracker.real_strides(), strict=True)):
        one = size == 1 if mask is None else _is_one(mask[axis])
        if stride == 0 and not one and len(tracker.views) == 1:
            return "another element at every position", f"stride 0 along axis {axis}"
    return None


@AST.graph("store.4", Ops.STORE)
def writes_a_slot_once(node: UOp, graph: Graph, _: int) -> Finding:
    """Only one STORE writes a slot."""
    if graph.first_store_of_slot[slot_of(node)] is node:
        return None
    return f"one STORE to slot {slot_of(node)}", "several"


def _is_one(bounds: tuple[sint, sint]) -> bool:
    begin, end = bounds
    return isinstance(begin, int) and isinstance(end, int) and end - begin == 1


@AST.local("shape.1", *ALU)
def operands_agree(node: UOp, graph: Graph, _: int) -> Finding:
    """Operands agree in every axis where neither has size 1."""
    return _disagreement([shape for shape in map(_shape, node.src) if shape])


@AST.local("reduce.1", Ops.REDUCE)
def reduces_axes_that_exist(node: UOp, graph: Graph, _: int) -> Finding:
    """REDUCE has one source and names axes of it, each once, in rising order."""
    rank = len(_shape(node.src[0]))
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    rises = all(low < high for low, high in itertools.pairwise(axes))
    if len(node.src) == 1 and rises and all(0 <= axis < rank for axis in axes):
        return None
    return f"one source and rising axes below {rank}", f"{len(node.src)} sources and axes {axes}"


@AST.graph("reduce.2", Ops.REDUCE)
def reduces_no_outputs(node: UOp, graph: Graph, _: int) -> Finding:
    """No REDUCE reads elements that the kernel also writes: one may change before all are read."""
    axes = node.arg.axes if isinstance(node.arg, ReduceArg) else ()
    for load in graph.loads_of_outputs.get(node, ()):
        shape = _shape(load)
        if any(axis < len(shape) and shape[axis] != 1 for axis in axes):
            return "values that the kernel does not write", f"elements of slot {slot_of(load)}"
    return None


@AST.local("type.2")
def values_are_scalars(node: UOp, graph: Graph, _: int) -> Finding:
    """No node is a vector. Vectors are made after lowering."""
    return None if node.dtype.lanes == 1 else ("a scalar type", node.dtype.name)


@AST.local("type.3", Ops.LOAD, Ops.REDUCE)
def values_are_no_index(node: UOp, graph: Graph, _: int) -> Finding:
    """Only variables and arithmetic on them have the type index."""
    return None if node.dtype is not dtypes.index else ("a type that memory holds", "index")
