"""The verifiers: labelled rules for each of the four dialects, checked between stages.

In: a graph and its dialect. Out: nothing, or a `VerifyError` with the label of the broken rule, the
node, what was expected and what is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tinyref.errors import VerifyError
from tinyref.formats.text import node_text
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.verify.ast_rules import AST
from tinyref.verify.common import Graph, Rules, VerifyRule
from tinyref.verify.indexed_rules import INDEXED
from tinyref.verify.program_rules import PROGRAM
from tinyref.verify.tensor_rules import TENSOR

__all__ = ["RULES", "VerifyRule", "verify"]

_DIALECTS = {rules.dialect: rules for rules in (TENSOR, AST, INDEXED, PROGRAM)}

# Every rule by its label, such as ast.store.2.
RULES: Mapping[str, VerifyRule] = MappingProxyType(
    {rule.label: rule for rules in _DIALECTS.values() for rule in rules.all}
)


def verify(
    dialect: Dialect, root_or_nodes: UOp | Sequence[UOp], allows_index: bool = False
) -> None:
    """Check a graph by its root, or a program by its nodes, against the rules of `dialect`.

    `allows_index` admits the index type in indexed kernels, before it is narrowed. Raises
    `VerifyError` for the first node, in order, that breaks a rule.
    """
    rules = _DIALECTS[dialect]
    if not isinstance(root_or_nodes, UOp):
        _verify_nodes(rules, tuple(root_or_nodes), allows_index)
        return
    # A graph never changes, so a fact of its root records that it passed.
    passed = (rules, allows_index)
    if passed not in root_or_nodes.facts:
        _verify_nodes(rules, root_or_nodes.toposort(), allows_index)
        root_or_nodes.facts[passed] = True


def _verify_nodes(rules: Rules, nodes: Sequence[UOp], allows_index: bool) -> None:
    graph = Graph(rules.dialect, nodes, allows_index)
    wrong = _first_wrong_alone(rules, graph)
    graph_rules = rules.graph_rules
    for position, node in enumerate(nodes if wrong is None else nodes[: wrong[0]]):
        for rule in graph_rules[node.op]:
            finding = rule.check(node, graph, position)
            if finding is not None:
                raise _error(rule, graph, position, finding)
    if wrong is not None:
        raise wrong[1]


def _first_wrong_alone(rules: Rules, graph: Graph) -> tuple[int, VerifyError] | None:
    """Return the position of the first node that breaks a local rule, and the error."""
    local_rules = rules.local_rules
    for position, node in enumerate(graph.nodes):
        # `rules` is the key of the fact that the node passed.
        facts = node.facts
        if rules in facts:
            continue
        for rule in local_rules[node.op]:
            finding = rule.check(node, graph, position)
            if finding is not None:
                return position, _error(rule, graph, position, finding)
        facts[rules] = True
    return None


def _error(rule: VerifyRule, graph: Graph, position: int, finding: tuple[str, str]) -> VerifyError:
    where = node_text(graph.nodes[position])
    if graph.dialect is Dialect.PROGRAM:
        where = f"%{position} = {where}"
    return VerifyError(rule.label, where, *finding)
