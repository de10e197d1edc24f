"""What a rule of a verifier is, what it may look at, and the rules that several dialects share."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
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

# What is wrong: (expected, got). None is what a rule gives when all is well.
Finding = tuple[str, str] | None
Check = Callable[[UOp, "Graph", int], Finding]
# The openers of the blocks around a place in a program, outermost first.
Blocks = tuple[UOp, ...]
OPENERS = {Ops.END: Ops.RANGE, Ops.ENDIF: Ops.IF}


@dataclass(frozen=True)
class VerifyRule:
    """One labelled rule of a dialect.

    ops: the nodes that it looks at, None for all. is_local: whether it depends on the node and
    what it is made of alone, so that a node which passed once need not be looked at again.
    """

    label: str
    sentence: str
    check: Check
    ops: frozenset[Ops] | None
    is_local: bool

    def looks_at(self, op: Ops) -> bool:
        """Whether the nodes of `op` are among those that it looks at."""
        return self.ops is None or op in self.ops


class Rules:
    """The rules of one dialect, in the order in which they are checked."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.all: list[VerifyRule] = []

    def local(self, name: str, *ops: Ops) -> Callable[[Check], Check]:
        """Decorates a check of a node and what it is made of; its docstring is the sentence."""
        return self._adder(name, ops, is_local=True)

    def graph(self, name: str, *ops: Ops) -> Callable[[Check], Check]:
        """Decorates a check of a node that looks at the rest of the graph as well."""
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
        """The local rules that look at nodes of each op; first asked for when all are there."""
        return _by_op([rule for rule in self.all if rule.is_local])

    @functools.cached_property
    def graph_rules(self) -> dict[Ops, tuple[VerifyRule, ...]]:
        """The same of the other rules."""
        return _by_op([rule for rule in self.all if not rule.is_local])


def _by_op(rules: Sequence[VerifyRule]) -> dict[Ops, tuple[VerifyRule, ...]]:
    return {op: tuple(rule for rule in rules if rule.looks_at(op)) for op in Ops}


class Graph:
    """A graph or a program under verification, and the facts that several rules share.

    nodes: in order, sources first for a graph. root: the last node; None for an empty program.
    allows_index: whether the `index` type may still stand in it.

    Of a program, where its nodes stand first, and the blocks around every place.
    """

    def __init__(self, dialect: Dialect, nodes: Sequence[UOp], allows_index: bool) -> None:
        self.dialect = dialect
        self.nodes = nodes
        self.root = nodes[-1] if nodes else None
        self.allows_index = allows_index

    @functools.cached_property
    def first(self) -> dict[object, UOp]:
        """The first node of each identity."""
        return {identity(node): node for node in reversed(self.nodes)}

    @functools.cached_property
    def place(self) -> dict[UOp, int]:
        """The first place of each node."""
        return {node: i for i, node in reversed(list(enumerate(self.nodes)))}

    @functools.cached_property
    def blocks(self) -> list[Blocks]:
        """The blocks around each place, one more for the end; a RANGE stands outside its own."""
        found: list[Blocks] = []
        stack: Blocks = ()
        for node in self.nodes:
            if node.op in OPENERS and stack:
                stack = stack[:-1]
            found.append(stack)
            if node.op in OPENERS.values():
                stack = (*stack, node)
        return [*found, stack]

    @functools.cached_property
    def is_ordered(self) -> bool:
        """Whether every node stands once, after its sources and where they can be seen.

        May be False for a program of which that holds all the same. Three rules ask: looked at node
        by node by each of them, lowering takes a tenth longer.
        """
        seen: set[UOp] = set()
        visible: set[UOp] = set()
        made: list[list[UOp]] = [[]]
        for node in self.nodes:
            op = node.op
            for source in node.src:
                # An accumulator shows its last value in the block in which it is defined.
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
        """The last place in which each block is closed."""
        return {
            node.src[0]: place
            for place, node in enumerate(self.nodes)
            if node.op in OPENERS and node.src
        }

    @functools.cached_property
    def slots(self) -> frozenset[int]:
        """The slots of all DEFINE_GLOBALs."""
        return frozenset(node.arg.slot for node in self.nodes if isinstance(node.arg, SlotArg))

    @functools.cached_property
    def first_update(self) -> dict[UOp, UOp]:
        """The first UPDATE_ACC of each accumulator."""
        found: dict[UOp, UOp] = {}
        for node in self.nodes:
            if node.op is Ops.UPDATE_ACC:
                found.setdefault(skip_after(node.src[0]), node)
        return found

    @functools.cached_property
    def first_of_variable(self) -> dict[str, UOp]:
        """The first DEFINE_VAR of each name, also of those inside shapes and views."""
        found: dict[str, UOp] = {}
        for node in toposort_with_payloads(tuple(self.nodes)):
            if isinstance(node.arg, VarArg):
                found.setdefault(node.arg.name, node)
        return found

    @functools.cached_property
    def group_size(self) -> int | None:
        """The work-items of a group, by the launch indices; None where an extent is symbolic."""
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
        """The slots that some STORE writes."""
        return frozenset(self.first_store_of_slot)

    @functools.cached_property
    def first_store_of_slot(self) -> dict[int, UOp]:
        """The first STORE to each slot."""
        return {
            slot_of(node): node
            for node in reversed(self.nodes)
            if node.op is Ops.STORE and node.src
        }

    @functools.cached_property
    def loads_of_outputs(self) -> dict[UOp, frozenset[UOp]]:
        """The LOADs of slots that the kernel also writes, by the nodes whose values need some."""
        found: dict[UOp, frozenset[UOp]] = {}
        for node in self.nodes:
            loads = frozenset[UOp]().union(*(found.get(source, ()) for source in node.src))
            if node.op is Ops.LOAD and node.src and slot_of(node) in self.written_slots:
                loads |= {node}
            if loads:
                found[node] = loads
        return found


def buffer_text(node: UOp) -> str:
    """A buffer's elements and size, for messages."""
    if isinstance(node.dtype, PtrDType):
        return f"{node.dtype.size} elements of {node.dtype.base.name}"
    return node.dtype.name


def identity(node: UOp) -> object:
    """Return what is one thing in a graph: a slot, a launch index, a name, a number; else None."""
    payload = node.arg
    if isinstance(payload, SlotArg):
        return SlotArg, payload.slot
    if isinstance(payload, BufferArg | RangeArg):
        return node.op, payload.number
    if isinstance(payload, LocalArg):
        return node.op, payload.name
    return payload if isinstance(payload, SpecialArg) else None


# --- rules that several dialects share, under the label of each -----------------------------------

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

    @rules.graph("sink.1")
    def root_is_a_sink(node: UOp, graph: Graph, _: int) -> Finding:
        """A SINK is the root, and there is no other."""
        if (node is graph.root) == (node.op is Ops.SINK):
            return None
        return "a SINK as the root and nowhere else", f"{node.op.name} there"


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
        first = graph.first[identity(node)]
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

    @rules.graph("index.1")
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
        first = graph.first[identity(node)]
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
        if graph.first[identity(node)] is node:
            return None
        number = node.arg.number if isinstance(node.arg, RangeArg) else -1
        return f"a number other than {number}", f"a second RANGE {number}"

    @rules.graph("local.1", Ops.DEFINE_LOCAL, Ops.DEFINE_ACC)
    def has_a_name_of_its_own(node: UOp, graph: Graph, _: int) -> Finding:
        """Every DEFINE_LOCAL and every DEFINE_ACC has another name."""
        if graph.first[identity(node)] is node:
            return None
        name = node.arg.name if isinstance(node.arg, LocalArg) else ""
        return f"a name other than {name!r}", f"a second {node.op.name} {name!r}"


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
