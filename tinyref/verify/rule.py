"""What a rule of a verifier is, and what it may look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tinyref.dtype import PtrDType
from tinyref.formats.payload_fields import toposort_with_payloads
from tinyref.sources import docstring
from tinyref.uops.build import skip_after, slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import (
    BufferArg,
    ConstArg,
    LocalArg,
    RangeArg,
    SlotArg,
    SpecialArg,
    VarArg,
)

# What is wrong: (expected, got). None is what a rule gives when all is well.
Finding = tuple[str, str] | None
Check = Callable[[UOp, "Graph", int], Finding]
Screen = Callable[["Graph"], bool]


@dataclass(frozen=True)
class VerifyRule:
    """One labelled rule of a dialect.

    ops: the nodes that it looks at, None for all. is_local: whether it depends on the node and
    what it is made of alone, so that a node which passed once need not be looked at again. screen:
    says of a whole graph in one go that no node of it breaks the rule; without it, or where it
    says no, the rule looks at every node.
    """

    label: str
    sentence: str
    check: Check
    ops: frozenset[Ops] | None
    is_local: bool
    screen: Screen | None = None

    def looks_at(self, op: Ops) -> bool:
        """Whether the nodes of `op` are among those that it looks at."""
        return self.ops is None or op in self.ops


class Rules:
    """The rules of one dialect, in the order in which they are checked."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.all: list[VerifyRule] = []
        # What is left to look at, by which rules a screen has answered for: few such are met.
        self._by_op: dict[tuple[bool, ...], dict[Ops, tuple[VerifyRule, ...]]] = {}

    def local(self, name: str, *ops: Ops) -> Callable[[Check], Check]:
        """Decorates a check of a node and what it is made of; its docstring is the sentence."""
        return self._adder(name, ops, True, None)

    def graph(self, name: str, *ops: Ops, screen: Screen | None = None) -> Callable[[Check], Check]:
        """Decorates a check of a node that looks at the rest of the graph as well."""
        return self._adder(name, ops, False, screen)

    def _adder(
        self, name: str, ops: tuple[Ops, ...], is_local: bool, screen: Screen | None
    ) -> Callable[[Check], Check]:
        def add(check: Check) -> Check:
            sentence = " ".join(docstring(check).split())
            label = f"{self.dialect.value}.{name}"
            kinds = frozenset(ops) if ops else None
            self.all.append(VerifyRule(label, sentence, check, kinds, is_local, screen))
            return check

        return add

    @functools.cached_property
    def local_rules(self) -> dict[Ops, tuple[VerifyRule, ...]]:
        """The local rules that look at nodes of each op; first asked for when all are there."""
        local = [rule for rule in self.all if rule.is_local]
        return {op: tuple(rule for rule in local if rule.looks_at(op)) for op in Ops}

    def graph_rules(self, graph: Graph, is_sound: bool) -> Mapping[Ops, tuple[VerifyRule, ...]]:
        """The other rules by the ops at whose nodes they look, those that must look at `graph`.

        Where `is_sound`, all nodes have passed the local rules, and screens may look at them.
        """
        screened = tuple(
            is_sound and rule.screen is not None and rule.screen(graph) for rule in self._of_graphs
        )
        found = self._by_op.get(screened)
        if found is None:
            answered = zip(self._of_graphs, screened, strict=True)
            found = _rules_by_op([rule for rule, is_right in answered if not is_right])
            self._by_op[screened] = found
        return found

    @functools.cached_property
    def _of_graphs(self) -> tuple[VerifyRule, ...]:
        return tuple(rule for rule in self.all if not rule.is_local)


def _rules_by_op(rules: Sequence[VerifyRule]) -> dict[Ops, tuple[VerifyRule, ...]]:
    """The rules that look at nodes of each op; ops at which none looks are left out."""
    found = {op: tuple(rule for rule in rules if rule.looks_at(op)) for op in Ops}
    return {op: chosen for op, chosen in found.items() if chosen}


class Graph:
    """A graph or a program under verification, and the facts that several rules share.

    nodes: in order, sources first for a graph. root: the last node; None for an empty program.
    allows_index: whether the `index` type may still stand in it.
    """

    def __init__(self, dialect: Dialect, nodes: Sequence[UOp], allows_index: bool) -> None:
        self.dialect = dialect
        self.nodes = nodes
        self.root = nodes[-1] if nodes else None
        self.allows_index = allows_index

    @functools.cached_property
    def first_of_slot(self) -> dict[int, UOp]:
        """The first DEFINE_GLOBAL of each slot."""
        return {
            node.arg.slot: node for node in reversed(self.nodes) if isinstance(node.arg, SlotArg)
        }

    @functools.cached_property
    def first_of_name(self) -> dict[tuple[Ops, str], UOp]:
        """The first DEFINE_LOCAL or DEFINE_ACC of each name."""
        return {
            (node.op, node.arg.name): node
            for node in reversed(self.nodes)
            if isinstance(node.arg, LocalArg)
        }

    @functools.cached_property
    def first_of_number(self) -> dict[int, UOp]:
        """The first BUFFER of each number."""
        return {
            node.arg.number: node
            for node in reversed(self.nodes)
            if isinstance(node.arg, BufferArg)
        }

    @functools.cached_property
    def first_of_special(self) -> dict[SpecialArg, UOp]:
        """The first SPECIAL of each launch index."""
        return {node.arg: node for node in reversed(self.nodes) if isinstance(node.arg, SpecialArg)}

    @functools.cached_property
    def first_of_range(self) -> dict[int, UOp]:
        """The first RANGE of each number."""
        return {
            node.arg.number: node for node in reversed(self.nodes) if isinstance(node.arg, RangeArg)
        }

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


def graph_nodes(root: UOp) -> list[UOp]:
    """Every node of a graph, sources first."""
    return root.toposort()
