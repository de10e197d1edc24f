"""Rules that several dialects share, under the label of each."""

from __future__ import annotations

import math

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.symbolic import describe, variables_of
from tinyref.dtype import TEXEL, ImageDType, dtypes
from tinyref.formats.payload_fields import payload_nodes
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import MOVEMENT, Ops
from tinyref.uops.payload import ConstArg, LocalArg, RangeArg, SlotArg, SpecialArg, TileArg
from tinyref.verify.rule import Finding, Graph, Rules, buffer_text

# The ops whose payload may hold symbolic sizes.
_WITH_SIZES = (Ops.VIEW, Ops.VALID, Ops.IOTA, *sorted(MOVEMENT, key=lambda op: op.value))


# The key under which a node remembers that the op table accepts it, in whatever dialect.
OP_TABLE_RULE = object()


def add_op_rules(rules: Rules) -> None:
    """The dialect has the op, and the op table accepts the node."""

    @rules.local("op.1", *(op for op in Ops if rules.dialect not in OP_TABLE[op].dialects))
    def is_of_the_dialect(node: UOp, graph: Graph, _: int) -> Finding:
        """Only ops of the dialect stand in it."""
        known = ", ".join(dialect.value for dialect in OP_TABLE[node.op].dialects)
        return f"an op of the dialect {graph.dialect.value}", f"{node.op.name}, an op of {known}"

    @rules.local("type.1")
    def fits_the_op_table(node: UOp, graph: Graph, _: int) -> Finding:
        """Number of sources, payload and types are as the op table says."""
        if OP_TABLE_RULE in node.facts:
            return None
        problem = OP_TABLE[node.op].check(node)
        if problem is not None:
            return OP_TABLE[node.op].sentence, problem
        # It is the same table in every dialect.
        node.facts[OP_TABLE_RULE] = True
        return None


def add_access_rule(rules: Rules) -> None:
    """What only programs distinguish."""

    @rules.local("memory_version.1", Ops.LOAD, Ops.STORE)
    def has_no_memory_version(node: UOp, graph: Graph, _: int) -> Finding:
        """LOAD and STORE have no memory version: only programs distinguish equal accesses."""
        return None if node.arg is None else ("no payload", f"{node.arg}")


def add_sink_rule(rules: Rules) -> None:
    """What is one kernel."""

    @rules.graph("sink.1", screen=_has_one_sink)
    def root_is_a_sink(node: UOp, graph: Graph, _: int) -> Finding:
        """A SINK is the root, and there is no other."""
        if (node is graph.root) == (node.op is Ops.SINK):
            return None
        return "a SINK as the root and nowhere else", f"{node.op.name} there"


def _has_one_sink(graph: Graph) -> bool:
    is_last = graph.root is not None and graph.root.op is Ops.SINK
    return is_last and sum(node.op is Ops.SINK for node in graph.nodes) == 1


def add_variable_rule(rules: Rules) -> None:
    """One variable has one name."""

    @rules.graph("variable.1", Ops.DEFINE_VAR, *_WITH_SIZES)
    def has_one_name(node: UOp, graph: Graph, _: int) -> Finding:
        """Variables of one name have the same type and bounds, also those inside sizes."""
        roots = (node,) if node.op is Ops.DEFINE_VAR else payload_nodes(node.arg)
        for variable in variables_of(roots):
            first = graph.first_of_variable[variable.arg.name]  # type: ignore[union-attr]
            if first is not variable:
                expected = f"{first.dtype.name} {first.arg}"
                return expected, f"{variable.dtype.name} {variable.arg}"
        return None


def add_buffer_rules(rules: Rules) -> None:
    """Slots and element types of the buffers of a kernel."""

    @rules.graph("global.1", Ops.DEFINE_GLOBAL)
    def has_one_slot(node: UOp, graph: Graph, _: int) -> Finding:
        """A slot is one buffer: one element type and one size."""
        first = graph.first_of_slot[node.arg.slot] if isinstance(node.arg, SlotArg) else node
        return None if first is node else (buffer_text(first), buffer_text(node))

    @rules.local("global.2", Ops.DEFINE_GLOBAL)
    def holds_storable_elements(node: UOp, graph: Graph, _: int) -> Finding:
        """A buffer holds 0 or more scalars of a type that memory can hold."""
        base, size = node.dtype.base, node.dtype.size  # type: ignore[attr-defined]  # type.1 said so
        if base in dtypes.all and size >= 0:
            return None
        return "0 or more elements of a scalar type, not void or index", buffer_text(node)


def add_linear_rules(rules: Rules) -> None:
    """Rules of both dialects with explicit index arithmetic: indexed and program."""
    add_op_rules(rules)
    add_variable_rule(rules)
    add_buffer_rules(rules)

    @rules.graph("index.1", screen=_knows_no_index)
    def has_no_index_type(node: UOp, graph: Graph, _: int) -> Finding:
        """No value has the type index: lowering has chosen int32 or int64."""
        if graph.allows_index or node.dtype.scalar is not dtypes.index:
            return None
        return "int32 or int64", "index"

    @rules.local("index.2", Ops.INDEX)
    def indexes_memory(node: UOp, graph: Graph, _: int) -> Finding:
        """INDEX takes a DEFINE_GLOBAL or DEFINE_LOCAL."""
        buffer = skip_after(node.src[0])
        if buffer.op in (Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL):
            return None
        return "DEFINE_GLOBAL or DEFINE_LOCAL", buffer.op.name

    @rules.local("index.3", Ops.INDEX)
    def goes_by_rows_in_images_alone(node: UOp, graph: Graph, _: int) -> Finding:
        """An INDEX of an image has a row and a column, one of other memory has one position."""
        count = 2 if isinstance(node.dtype, ImageDType) else 1
        have = len(node.src) - 1
        return None if have == count else (f"{count} positions", f"{have} positions")

    @rules.local("address.1", Ops.LOAD, Ops.STORE)
    def goes_through_an_index(node: UOp, graph: Graph, _: int) -> Finding:
        """LOAD and STORE take the address of an INDEX."""
        address = skip_after(node.src[0])
        return None if address.op is Ops.INDEX else ("INDEX", address.op.name)

    @rules.local("address.2", Ops.LOAD, Ops.STORE)
    def is_aligned(node: UOp, graph: Graph, _: int) -> Finding:
        """A vector of n elements stands at a multiple of n."""
        value = node if node.op is Ops.LOAD else node.src[1]
        lanes = value.dtype.lanes
        address = skip_after(node.src[0])
        # A program may name an address that stands nowhere in it; another rule says so.
        if lanes == 1 or len(address.src) != 2:
            return None
        rest = known_remainder(address.src[1], lanes)
        return None if not rest else (f"a multiple of {lanes}", f"a position {rest} above one")

    @rules.local("address.3", Ops.LOAD, Ops.STORE)
    def takes_whole_texels(node: UOp, graph: Graph, _: int) -> Finding:
        """LOAD and STORE of an image have the four lanes of a texel."""
        lanes = (node if node.op is Ops.LOAD else node.src[1]).dtype.lanes
        is_whole = not isinstance(node.src[0].dtype, ImageDType) or lanes == TEXEL
        return None if is_whole else (f"{TEXEL} lanes", f"{lanes} lanes")

    @rules.local("special.1", Ops.SPECIAL)
    def is_a_launch_index(node: UOp, graph: Graph, _: int) -> Finding:
        """SPECIAL is the group or the item in dimension 0, 1 or 2."""
        if not isinstance(node.arg, SpecialArg):
            return None
        if node.arg.scope in ("group", "item") and node.arg.dim in (0, 1, 2):
            return None
        return "group or item, dimension 0 to 2", f"{node.arg.scope}, dimension {node.arg.dim}"

    @rules.graph("special.2", Ops.SPECIAL)
    def has_one_extent(node: UOp, graph: Graph, _: int) -> Finding:
        """A launch index has one extent."""
        first = graph.first_of_special[node.arg] if isinstance(node.arg, SpecialArg) else node
        return None if first is node else (describe(first.src[0]), describe(node.src[0]))

    @rules.graph("wmma.2", Ops.WMMA)
    def has_whole_runs(node: UOp, graph: Graph, _: int) -> Finding:
        """The work-items of a group are a multiple of the threads of the tile of a WMMA."""
        size = graph.group_size
        threads = node.arg.tile.threads if isinstance(node.arg, TileArg) else 1
        if size is None or size % threads == 0:
            return None
        return f"groups of a multiple of {threads}", f"groups of {size}"

    @rules.graph("range.1", Ops.RANGE)
    def has_a_number_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
        """Every RANGE has another number."""
        number = node.arg.number if isinstance(node.arg, RangeArg) else -1
        if graph.first_of_range[number] is node:
            return None
        return f"a number other than {number}", f"a second RANGE {number}"

    @rules.graph("local.1", Ops.DEFINE_LOCAL, Ops.DEFINE_ACC)
    def has_a_name_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
        """Every DEFINE_LOCAL and every DEFINE_ACC has another name."""
        name = node.arg.name if isinstance(node.arg, LocalArg) else ""
        if graph.first_of_name[node.op, name] is node:
            return None
        return f"a name other than {name!r}", f"a second {node.op.name} {name!r}"


def _knows_no_index(graph: Graph) -> bool:
    index = dtypes.index
    return graph.allows_index or all(node.dtype.scalar is not index for node in graph.nodes)


@node_fact
def differs_by_item(node: UOp) -> bool:
    """Whether the value certainly comes from the work-item's own index, by arithmetic alone."""
    if isinstance(node.arg, SpecialArg):
        return node.arg.scope == "item"
    return node.op is not Ops.LOAD and any(map(differs_by_item, node.src))


@node_fact
def _linear(node: UOp) -> tuple[int, int]:
    """(g, r) where the value of the node is some multiple of g plus r; (1, 0) says nothing."""
    if isinstance(node.arg, ConstArg):
        return 0, int(node.arg.value)
    if node.op is Ops.CAST and node.src[0].dtype.is_int:
        return _linear(node.src[0])
    if node.op in (Ops.ADD, Ops.SUB):
        left, right = (_linear(source) for source in node.src)
        sign = 1 if node.op is Ops.ADD else -1
        return math.gcd(left[0], right[0]), left[1] + sign * right[1]
    if node.op is Ops.MUL:
        left, right = (_linear(source) for source in node.src)
        for known, other in ((left, right), (right, left)):
            if known[0] == 0:
                return other[0] * known[1], other[1] * known[1]
    return 1, 0


def known_remainder(position: UOp, lanes: int) -> int | None:
    """What `position` leaves when divided by `lanes`; None where that depends on variables."""
    multiple, rest = _linear(position)
    return None if multiple % lanes else rest % lanes
