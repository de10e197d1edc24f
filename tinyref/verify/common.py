"""Rules of a verifier, the facts of a graph that they use, and rules shared by several dialects."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tinyref.algebra.op_table import OP_TABLE
from tinyref.algebra.symbolic import describe, variables_of
from tinyref.dtype import TEXEL, ImageDType, PtrDType, dtypes
from tinyref.formats.payload_fields import payload_nodes, toposort_with_payloads
from tinyref.sources import docstring
from tinyref.uops.build import skip_after, slot_of
from tinyref.uops.node import UOp, node_fact
from tinyref.uops.ops import MOVEMENT, Dialect, Ops
from tinyref.uops.payload import (
    BufferArg,
    ConstArg,
    LocalArg,
    RangeArg,
    SlotArg,
    SpecialArg,
    TileArg,
    VarArg,
)

# The result of a rule: (expected, got) for a broken rule, None for a valid node.
Finding = tuple[str, str] | None
Check = Callable[[UOp, "Graph", int], Finding]
# The openers of the blocks around a position in a program, outermost first.
Blocks = tuple[UOp, ...]
OPENERS = {Ops.END: Ops.RANGE, Ops.ENDIF: Ops.IF}


@dataclass(frozen=True)
class VerifyRule:
    """One labelled rule of a dialect.

    ops: the ops of the nodes that it checks, None for all. is_local: True if the result depends
    only on the node and its sources, so that a node which passed once is not checked again.
    """

    label: str
    sentence: str
    check: Check
    ops: frozenset[Ops] | None
    is_local: bool

    def looks_at(self, op: Ops) -> bool:
        """Return True if the rule checks nodes of `op`."""
        return self.ops is None or op in self.ops


class Rules:
    """The rules of one dialect, in the order of the checks."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.all: list[VerifyRule] = []

    def local(self, name: str, *ops: Ops) -> Callable[[Check], Check]:
        """Register a check of a node and its sources; the docstring is the text of the rule."""
        return self._adder(name, ops, is_local=True)

    def graph(self, name: str, *ops: Ops) -> Callable[[Check], Check]:
        """Register a check of a node that also uses the rest of the graph."""
        return self._adder(name, ops, is_local=False)

    def _adder(self, name: str, ops: tuple[Ops, ...], is_local: bool) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            sentence = " ".join(docstring(check).split())
            label = f"{self.dialect.value}.{name}"
            kinds = frozenset(ops) if ops else None
            self.all.append(VerifyRule(label, sentence, check, kinds, is_local))
            return check

        return add

    @functools.cached_property
    def local_rules(self) -> dict[Ops, tuple[VerifyRule, ...]]:
        """Return the local rules for each op; first used when all rules are registered."""
        return _by_op([rule for rule in self.all if rule.is_local])

    @functools.cached_property
    def graph_rules(self) -> dict[Ops, tuple[VerifyRule, ...]]:
        """Return the other rules for each op."""
        return _by_op([rule for rule in self.all if not rule.is_local])


def _by_op(rules: Sequence[VerifyRule]) -> dict[Ops, tuple[VerifyRule, ...]]:
    return {op: tuple(rule for rule in rules if rule.looks_at(op)) for op in Ops}


class Graph:
    """A graph or a program under verification, with the facts that several rules share.

    nodes: in order, sources first for a graph. root: the last node; None for an empty program.
    allows_index: whether values of the type `index` are still legal.
    """

    def __init__(self, dialect: Dialect, nodes: Sequence[UOp], allows_index: bool) -> None:
        self.dialect = dialect
        self.nodes = nodes
        self.root = nodes[-1] if nodes else None
        self.allows_index = allows_index

    @functools.cached_property
    def first(self) -> dict[object, UOp]:
        """Return the first node of each identity."""
        return {identity(node): node for node in reversed(self.nodes) if node.arg is not None}

    @functools.cached_property
    def ended(self) -> dict[UOp, frozenset[UOp]]:
        """Map the nodes that use results of loops to the RANGEs of these loops."""
        ended: dict[UOp, frozenset[UOp]] = {}
        for node in self.nodes:
            ranges = union_of([ended[source] for source in node.src if source in ended])
            if node.op is Ops.REDUCE:
                ranges = ranges.union(node.src[1:])
            elif node.op is Ops.UPDATE_ACC and node.src:
                ranges = ranges.union(ranges_of_update(node))
            if ranges:
                ended[node] = ranges
        return ended

    @functools.cached_property
    def position(self) -> dict[UOp, int]:
        """Return the first position of each node."""
        return {node: i for i, node in reversed(list(enumerate(self.nodes)))}

    @functools.cached_property
    def blocks(self) -> list[Blocks]:
        """Return the blocks around each position and the end; a RANGE is outside its own block."""
        blocks: list[Blocks] = []
        stack: Blocks = ()
        for node in self.nodes:
            if node.op in OPENERS and stack:
                stack = stack[:-1]
            blocks.append(stack)
            if node.op in OPENERS.values():
                stack = (*stack, node)
        return [*blocks, stack]

    @functools.cached_property
    def is_ordered(self) -> bool:
        """Return True if every node occurs once, after its sources and in the scope of them all.

        The result may be False for a correct program: then three rules check it node by node.
        Without this short cut lowering takes a tenth longer.
        """
        seen: set[UOp] = set()
        visible: set[UOp] = set()
        made: list[list[UOp]] = [[]]
        for node in self.nodes:
            op = node.op
            for source in node.src:
                # The last value of an accumulator is visible in the block that defines it.
                owner = source.src[0] if source.op is Ops.UPDATE_ACC and source.src else source
                if source not in seen or owner not in visible:
                    return False
            if op in OPENERS:
                if len(made) == 1:
                    return False
                visible.difference_update(made.pop())
                continue
            if node in seen and op is not Ops.BARRIER:
                return False
            seen.add(node)
            visible.add(node)
            if op in OPENERS.values():
                made.append([])
            made[-1].append(node)
        return True

    @functools.cached_property
    def last_closing(self) -> dict[UOp, int]:
        """Return the last position at which each block is closed."""
        return {
            node.src[0]: position
            for position, node in enumerate(self.nodes)
            if node.op in OPENERS and node.src
        }

    @functools.cached_property
    def slots(self) -> frozenset[int]:
        """Return the slots of all DEFINE_GLOBALs."""
        return frozenset(node.arg.slot for node in self.nodes if isinstance(node.arg, SlotArg))

    @functools.cached_property
    def first_update(self) -> dict[UOp, UOp]:
        """Return the first UPDATE_ACC of each accumulator."""
        updates: dict[UOp, UOp] = {}
        for node in self.nodes:
            if node.op is Ops.UPDATE_ACC:
                updates.setdefault(skip_after(node.src[0]), node)
        return updates

    @functools.cached_property
    def first_of_variable(self) -> dict[str, UOp]:
        """Return the first DEFINE_VAR of each name, also from inside shapes and views."""
        variables: dict[str, UOp] = {}
        for node in toposort_with_payloads(tuple(self.nodes)):
            if isinstance(node.arg, VarArg):
                variables.setdefault(node.arg.name, node)
        return variables

    @functools.cached_property
    def group_size(self) -> int | None:
        """Return the number of work-items of a group; None if an extent is symbolic."""
        indices = {node.arg: node for node in self.nodes if isinstance(node.arg, SpecialArg)}
        size = 1
        for launch_index, node in indices.items():
            if launch_index.scope != "item":
                continue
            extent = node.src[0].arg
            if not isinstance(extent, ConstArg):
                return None
            size *= int(extent.value)
        return size

    @functools.cached_property
    def written_slots(self) -> frozenset[int]:
        """Return the slots that a STORE writes."""
        return frozenset(self.first_store_of_slot)

    @functools.cached_property
    def first_store_of_slot(self) -> dict[int, UOp]:
        """Return the first STORE to each slot."""
        return {
            slot_of(node): node
            for node in reversed(self.nodes)
            if node.op is Ops.STORE and node.src
        }

    @functools.cached_property
    def loads_of_outputs(self) -> dict[UOp, frozenset[UOp]]:
        """Map nodes to the LOADs that they depend on of slots that the kernel also writes."""
        loads_below: dict[UOp, frozenset[UOp]] = {}
        for node in self.nodes:
            loads = frozenset[UOp]().union(*(loads_below.get(source, ()) for source in node.src))
            if node.op is Ops.LOAD and node.src and slot_of(node) in self.written_slots:
                loads |= {node}
            if loads:
                loads_below[node] = loads
        return loads_below


def buffer_text(node: UOp) -> str:
    """Return the size and the element type of a buffer as text for messages."""
    if isinstance(node.dtype, PtrDType):
        return f"{node.dtype.size} elements of {node.dtype.base.name}"
    return node.dtype.name


def identity(node: UOp) -> object:
    """Return what must be unique: a slot, a launch index, a name or a number; else None."""
    payload = node.arg
    if isinstance(payload, SlotArg):
        return SlotArg, payload.slot
    if isinstance(payload, BufferArg | RangeArg):
        return node.op, payload.number
    if isinstance(payload, LocalArg):
        return node.op, payload.name
    return payload if isinstance(payload, SpecialArg) else None


def union_of(sets: Iterable[frozenset[UOp]]) -> frozenset[UOp]:
    """Return the union; if one set contains the others it is often the same object."""
    union: frozenset[UOp] = frozenset()
    for ranges in sets:
        if ranges is not union and ranges:
            union = union | ranges if union else ranges
    return union


def ranges_of_update(update: UOp) -> tuple[UOp, ...]:
    """Return the RANGEs over which the accumulator of an UPDATE_ACC accumulates."""
    return skip_after(update.src[0]).src[1:]


# --- rules that several dialects share, under the label of each -----------------------------------

# The ops whose payload may hold symbolic sizes.
_WITH_SIZES = (Ops.VIEW, Ops.VALID, Ops.IOTA, *sorted(MOVEMENT, key=lambda op: op.value))


# The key of the fact that the op table accepts a node, in any dialect.
OP_TABLE_RULE = object()


def add_op_rules(rules: Rules) -> None:
    """Add the rules that the dialect has the op, and that the op table accepts the node."""

    @rules.local("op.1", *(op for op in Ops if rules.dialect not in OP_TABLE[op].dialects))
    def is_of_the_dialect(node: UOp, graph: Graph, _: int) -> Finding:
        """Every op belongs to the dialect."""
        known = ", ".join(dialect.value for dialect in OP_TABLE[node.op].dialects)
        return f"an op of the dialect {graph.dialect.value}", f"{node.op.name}, an op of {known}"

    @rules.local("type.1")
    def fits_the_op_table(node: UOp, graph: Graph, _: int) -> Finding:
        """The op table accepts the number of sources, the payload and the types of a node."""
        if OP_TABLE_RULE in node.facts:
            return None
        problem = OP_TABLE[node.op].check(node)
        if problem is not None:
            return OP_TABLE[node.op].sentence, problem
        # Every dialect has the same table.
        node.facts[OP_TABLE_RULE] = True
        return None


def add_access_rule(rules: Rules) -> None:
    """Add the rule on memory versions, which only programs have."""

    @rules.local("memory_version.1", Ops.LOAD, Ops.STORE)
    def has_no_memory_version(node: UOp, graph: Graph, _: int) -> Finding:
        """LOAD and STORE have no memory version: only programs distinguish equal accesses."""
        return None if node.arg is None else ("no payload", f"{node.arg}")


def add_sink_rule(rules: Rules) -> None:
    """Add the rule on the root of a kernel."""

    @rules.graph("sink.1")
    def root_is_a_sink(node: UOp, graph: Graph, _: int) -> Finding:
        """The root is a SINK, and there is no other SINK."""
        if (node is graph.root) == (node.op is Ops.SINK):
            return None
        return "a SINK as the root and nowhere else", f"{node.op.name} there"


def add_variable_rule(rules: Rules) -> None:
    """Add the rule that variables of one name are the same variable."""

    @rules.graph("variable.1", Ops.DEFINE_VAR, *_WITH_SIZES)
    def has_one_name(node: UOp, graph: Graph, _: int) -> Finding:
        """Variables of one name have the same type and bounds, also inside sizes."""
        roots = (node,) if node.op is Ops.DEFINE_VAR else payload_nodes(node.arg)
        for variable in variables_of(roots):
            first = graph.first_of_variable[variable.arg.name]  # type: ignore[union-attr]
            if first is not variable:
                expected = f"{first.dtype.name} {first.arg}"
                return expected, f"{variable.dtype.name} {variable.arg}"
        return None


def add_buffer_rules(rules: Rules) -> None:
    """Add the rules on slots and element types of the buffers of a kernel."""

    @rules.graph("global.1", Ops.DEFINE_GLOBAL)
    def has_one_slot(node: UOp, graph: Graph, _: int) -> Finding:
        """A slot is one buffer: one element type and one size."""
        first = graph.first[identity(node)]
        return None if first is node else (buffer_text(first), buffer_text(node))

    @rules.local("global.2", Ops.DEFINE_GLOBAL)
    def holds_storable_elements(node: UOp, graph: Graph, _: int) -> Finding:
        """A buffer holds 0 or more scalars of a type that memory can hold."""
        base, size = node.dtype.base, node.dtype.size  # type: ignore[attr-defined]  # see type.1
        if base in dtypes.all and size >= 0:
            return None
        return "0 or more elements of a scalar type, not void or index", buffer_text(node)


def add_linear_rules(rules: Rules) -> None:
    """Add the rules of the dialects with explicit index arithmetic: indexed and program."""
    add_op_rules(rules)
    add_variable_rule(rules)
    add_buffer_rules(rules)

    @rules.graph("index.1")
    def has_no_index_type(node: UOp, graph: Graph, _: int) -> Finding:
        """No value has the type index: lowering has chosen int32 or int64."""
        if graph.allows_index or node.dtype.scalar is not dtypes.index:
            return None
        return "int32 or int64", "index"

    @rules.local("index.2", Ops.INDEX)
    def indexes_memory(node: UOp, graph: Graph, _: int) -> Finding:
        """The memory of an INDEX is a DEFINE_GLOBAL or DEFINE_LOCAL."""
        buffer = skip_after(node.src[0])
        if buffer.op in (Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL):
            return None
        return "DEFINE_GLOBAL or DEFINE_LOCAL", buffer.op.name

    @rules.local("index.3", Ops.INDEX)
    def goes_by_rows_in_images_alone(node: UOp, graph: Graph, _: int) -> Finding:
        """An INDEX of an image has a row and a column; any other INDEX has one position."""
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
        """The position of a vector of n elements is a multiple of n."""
        value = node if node.op is Ops.LOAD else node.src[1]
        lanes = value.dtype.lanes
        address = skip_after(node.src[0])
        # A program may use an address that it does not contain; another rule reports this.
        if lanes == 1 or len(address.src) != 2:
            return None
        rest = known_remainder(address.src[1], lanes)
        return None if not rest else (f"a multiple of {lanes}", f"a position {rest} above one")

    @rules.local("address.3", Ops.LOAD, Ops.STORE)
    def takes_whole_texels(node: UOp, graph: Graph, _: int) -> Finding:
        """LOAD and STORE of an image have four lanes: one texel."""
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
        first = graph.first[identity(node)]
        return None if first is node else (describe(first.src[0]), describe(node.src[0]))

    @rules.graph("wmma.2", Ops.WMMA)
    def has_whole_runs(node: UOp, graph: Graph, _: int) -> Finding:
        """The work-items of a group are a multiple of the threads of a WMMA's tile."""
        size = graph.group_size
        threads = node.arg.tile.threads if isinstance(node.arg, TileArg) else 1
        if size is None or size % threads == 0:
            return None
        return f"groups of a multiple of {threads}", f"groups of {size}"

    @rules.graph("range.1", Ops.RANGE)
    def has_a_number_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
        """Every RANGE has a different number."""
        if graph.first[identity(node)] is node:
            return None
        number = node.arg.number if isinstance(node.arg, RangeArg) else -1
        return f"a number other than {number}", f"a second RANGE {number}"

    @rules.graph("local.1", Ops.DEFINE_LOCAL, Ops.DEFINE_ACC)
    def has_a_name_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
        """Every DEFINE_LOCAL has a different name, and so has every DEFINE_ACC."""
        if graph.first[identity(node)] is node:
            return None
        name = node.arg.name if isinstance(node.arg, LocalArg) else ""
        return f"a name other than {name!r}", f"a second {node.op.name} {name!r}"


@node_fact
def differs_by_item(node: UOp) -> bool:
    """Return True if arithmetic alone computes the value from the work-item's own index."""
    if isinstance(node.arg, SpecialArg):
        return node.arg.scope == "item"
    return node.op is not Ops.LOAD and any(map(differs_by_item, node.src))


@node_fact
def _linear(node: UOp) -> tuple[int, int]:
    """Return (g, r) if the value is a multiple of g plus r; (1, 0) holds for any value."""
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
    """Return the remainder of `position` divided by `lanes`; None if variables determine it."""
    multiple, rest = _linear(position)
    return None if multiple % lanes else rest % lanes
