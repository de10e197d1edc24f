"""Edits that no value of a right program shows, by their form alone: they make no mutants.

Each rule looks at the text of one place, and is right whatever the rest of the function does:

* an index 0 that becomes -1, which Python counts from the end: no neighbour, and of a sequence of
  one, such as the sources of most ops, the same element;
* the operands of a builder whose op is commutative, and of `min` and `max`, that change places;
* that a node has the payload of its op, where the op is asked for before in the same condition: it
  is said for the checker of types, and the verifier refuses any other graph;
* a label that loses one more of its first letters, which name nothing but a place in a text;
* a `zip` that no longer looks whether all it goes over is as long: an assertion of another form.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from tinyref_fuzz.mutants.operators import OPERATORS, Edit, Text

# Builders of ops that are commutative in every type, bare or of a module that has builders, and
# functions of Python.
_COMMUTATIVE = frozenset(
    {"add", "mul", "both", "either", "exclusive_or", "maximum", "equal", "not_equal", "min", "max"}
)
_BUILDERS = frozenset({"build"})


def invisible_edits(source: str) -> frozenset[tuple[str, Edit]]:
    """The operator and the edit of each that is left out."""
    text = Text(source)
    return frozenset(
        found
        for node in ast.walk(ast.parse(source))
        for rule in _RULES
        for found in rule(node, text)
    )


Found = Iterator[tuple[str, Edit]]


def _other_end(node: ast.AST, text: Text) -> Found:
    if isinstance(node, ast.Subscript) and _is_zero(node.slice):
        yield "off-by-one", text.replace(node.slice, "(-1)")


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 0


def _commuted(node: ast.AST, text: Text) -> Found:
    if isinstance(node, ast.Call) and _is_commutative(node.func) and len(node.args) == 2:
        yield from (("arguments", edit) for edit in OPERATORS["arguments"](node, text))


def _is_commutative(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in _COMMUTATIVE
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return module in _BUILDERS and name in _COMMUTATIVE
    return False


def _payload_of_op(node: ast.AST, text: Text) -> Found:
    """`n.op is Ops.X and isinstance(n.arg, P)` without the second, and the like negated."""
    if isinstance(node, ast.BoolOp):
        is_and = isinstance(node.op, ast.And)
        nodes = [_node_with_op(value, is_and) for value in node.values]
        for number, value in enumerate(node.values):
            owner = _node_with_payload(value, is_and)
            if owner is not None and owner in nodes[:number]:
                yield "condition", text.replace(value, str(is_and))


def _node_with_op(test: ast.expr, is_true: bool) -> str | None:
    """The node whose op is one, where a test holds, or where it does not."""
    match test:
        case ast.Compare(
            left=ast.Attribute(value=node, attr="op"),
            ops=[ast.Is() | ast.IsNot() as relation],
            comparators=[ast.Attribute(value=ast.Name(id="Ops"))],
        ):
            return ast.unparse(node) if isinstance(relation, ast.Is) == is_true else None
    return None


def _node_with_payload(test: ast.expr, is_true: bool) -> str | None:
    """The node that has a payload of some class where a test holds, or where it does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _node_with_payload(operand, not is_true)
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[ast.Attribute(value=node, attr="arg"), _]
        ):
            return ast.unparse(node) if is_true else None
    return None


def _shorter_label(node: ast.AST, text: Text) -> Found:
    match node:
        case ast.Assign(
            targets=[ast.Name(id="label")],
            value=ast.Subscript(slice=ast.Slice(lower=ast.Constant(value=int(first)) as lower)),
        ):
            yield "off-by-one", text.replace(lower, str(first + 1))


def _unchecked_lengths(node: ast.AST, text: Text) -> Found:
    match node:
        case ast.Call(func=ast.Name(id="zip"), keywords=[ast.keyword("strict", value)]):
            if isinstance(value, ast.Constant) and value.value is True:
                yield from (("constant", edit) for edit in OPERATORS["constant"](value, text))


_RULES: Sequence[Callable[[ast.AST, Text], Found]] = (
    *(_other_end, _commuted, _payload_of_op, _shorter_label, _unchecked_lengths),
)
