"""The operators that edit functions by machine: each replaces a piece of source text.

They are those of the literature (Jia and Harman, An Analysis and Survey of the Development of
Mutation Testing, IEEE TSE 37, 2011). What nobody can see in a value is left out: type annotations,
assertions, texts for people (f-strings, what `raise` says, `__repr__`, what the flag DEBUG prints).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

# Functions that give texts for people.
_SHOWING = frozenset({"__repr__", "__str__"})
# Another order of these arguments is always an error of types.
_ORDERED_CALLS = frozenset({"isinstance", "issubclass", "getattr", "hasattr", "cast"})

_BINARY: Mapping[type[ast.operator], tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        ast.Add: ("+", ("-",)),
        ast.Sub: ("-", ("+",)),
        ast.Mult: ("*", ("+", "//")),
        ast.Div: ("/", ("*",)),
        ast.FloorDiv: ("//", ("*", "%")),
        ast.Mod: ("%", ("//",)),
        ast.Pow: ("**", ("*",)),
        ast.LShift: ("<<", (">>",)),
        ast.RShift: (">>", ("<<",)),
        ast.BitAnd: ("&", ("|",)),
        ast.BitOr: ("|", ("&",)),
        ast.BitXor: ("^", ("|",)),
    }
)
_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        ast.Lt: ("<", ("<=", ">=")),
        ast.LtE: ("<=", ("<", ">")),
        ast.Gt: (">", (">=", "<=")),
        ast.GtE: (">=", (">", "<")),
        ast.Eq: ("==", ("!=",)),
        ast.NotEq: ("!=", ("==",)),
        ast.Is: ("is", ("is not",)),
        ast.IsNot: ("is not", ("is",)),
        ast.In: ("in", ("not in",)),
        ast.NotIn: ("not in", ("in",)),
    }
)


@dataclass(frozen=True)
class Edit:
    """A piece of text, from offset `start` on, and what replaces it."""

    start: int
    old: str
    new: str


class Text:
    """Source text whose nodes have offsets; those of `ast` are lines and bytes in them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, self._lines))]

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Where a node begins."""
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Where it ends."""
        return self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _offset(self, line: int, column: int) -> int:
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        return self.source[self.start(node) : self.end(node)]

    def replace(self, node: ast.expr | ast.stmt, new: str) -> Edit:
        """The whole of a node by another text."""
        return Edit(self.start(node), self.of(node), new)

    def replace_between(
        self, first: ast.expr, second: ast.expr, old: str, new: str
    ) -> Iterator[Edit]:
        """The token `old` that stands between two neighbours."""
        begin, end = self.end(first), self.start(second)
        at = self.source.find(old, begin, end)
        if at >= 0:
            yield Edit(at, old, new)


def _operator(node: ast.AST, text: Text) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp):
        old, others = _BINARY.get(type(node.op), ("", ()))
        for new in others:
            yield from text.replace_between(node.left, node.right, old, new)
    elif isinstance(node, ast.AugAssign):
        old, others = _BINARY.get(type(node.op), ("", ()))
        for new in others:
            yield from text.replace_between(node.target, node.value, f"{old}=", f"{new}=")
    elif isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for first, second in itertools.pairwise(node.values):
            yield from text.replace_between(first, second, old, new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert):
        yield text.replace(node, f"({text.of(node.operand)})")


def _comparison(node: ast.AST, text: Text) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    operands = itertools.pairwise((node.left, *node.comparators))
    for (first, second), op in zip(operands, node.ops, strict=True):
        old, others = _COMPARISONS[type(op)]
        for new in others:
            yield from text.replace_between(first, second, old, new)


def _constant(node: ast.AST, text: Text) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield text.replace(node, str(not value))
    elif isinstance(value, int) and value not in (0, 1):
        yield text.replace(node, "0")
    elif isinstance(value, float):
        yield text.replace(node, f"({text.of(node)} + 1.0)")


def _off_by_one(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A number or an end that is one off; an index 0 that becomes -1 is left out of the samples."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield text.replace(node, str(node.value + 1))
        yield text.replace(node, f"({node.value - 1})")
    elif isinstance(node, ast.Slice):
        if node.lower is not None and not isinstance(node.lower, ast.Constant):
            yield text.replace(node.lower, f"({text.of(node.lower)}) + 1")
        if node.upper is not None and not isinstance(node.upper, ast.Constant):
            yield text.replace(node.upper, f"({text.of(node.upper)}) - 1")
    elif isinstance(node, ast.Call) and _name_of(node.func) == "range" and 0 < len(node.args) < 3:
        for first in node.args[:-1]:
            yield text.replace(first, f"({text.of(first)}) + 1")
        yield text.replace(node.args[-1], f"({text.of(node.args[-1])}) - 1")


def _conditions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _condition(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A condition that always or never holds; one operand less of several."""
    for test in _conditions(node):
        # A loop that never ends shows at once, after the longest wait.
        if not isinstance(node, ast.While):
            yield text.replace(test, "True")
        if not isinstance(node, ast.comprehension):
            yield text.replace(test, "False")
    if isinstance(node, ast.BoolOp):
        neutral = "True" if isinstance(node.op, ast.And) else "False"
        for value in node.values:
            yield text.replace(value, neutral)


def _statement(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A statement without which the function still runs."""
    if isinstance(node, ast.FunctionDef):
        known = {argument.arg for argument in _arguments(node)}
        yield from _dropped(node.body, text, known, is_outermost=True)


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    found = node.args
    return [*found.posonlyargs, *found.args, *found.kwonlyargs]


def _dropped(
    body: Sequence[ast.stmt], text: Text, known: set[str], is_outermost: bool = False
) -> Iterator[Edit]:
    for number, each in enumerate(body):
        is_last_return = is_outermost and number == len(body) - 1 and isinstance(each, ast.Return)
        if _is_droppable(each, known) and not is_last_return:
            yield text.replace(each, "pass")
        if isinstance(each, ast.FunctionDef):
            continue  # it is a function of its own
        known |= {target.id for target in _targets(each) if isinstance(target, ast.Name)}
        for field in ("body", "orelse", "finalbody"):
            yield from _dropped(getattr(each, field, []), text, known)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


def _is_droppable(statement: ast.stmt, known: set[str]) -> bool:
    match statement:
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(targets=targets):
            # A name that gets its first value is missing without: an error in any case.
            return all(
                isinstance(target, ast.Subscript | ast.Attribute)
                or (isinstance(target, ast.Name) and target.id in known)
                for target in targets
            )
    dropped = ast.AugAssign | ast.Continue | ast.Break | ast.Return | ast.Raise | ast.Delete
    return isinstance(statement, dropped)


def _swapped(node: ast.AST, text: Text) -> Iterator[Edit]:
    if not isinstance(node, ast.Call) or _name_of(node.func) in _ORDERED_CALLS:
        return
    for first, second in itertools.pairwise(node.args):
        old = text.source[text.start(first) : text.end(second)]
        is_starred = any(isinstance(each, ast.Starred) for each in (first, second))
        if is_starred or text.of(first) == text.of(second):
            continue
        between = text.source[text.end(first) : text.start(second)]
        yield Edit(text.start(first), old, f"{text.of(second)}{between}{text.of(first)}")


def _domain(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A condition that holds where it did not; a rule or pattern for the types it is not for."""
    for test in _conditions(node):
        yield text.replace(test, f"(not ({text.of(test)}))")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield text.replace(node, f"bool({text.of(node.operand)})")
    if isinstance(node, ast.keyword) and node.arg == "when":
        yield text.replace(node.value, f"lambda dtype: not ({text.of(node.value)})(dtype)")
        yield text.replace(node.value, "lambda dtype: True")


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


OPERATORS: Mapping[str, Callable[[ast.AST, Text], Iterator[Edit]]] = MappingProxyType(
    {
        "operator": _operator,
        "comparison": _comparison,
        "constant": _constant,
        "off-by-one": _off_by_one,
        "condition": _condition,
        "statement": _statement,
        "arguments": _swapped,
        "domain": _domain,
    }
)


def edits(source: str) -> Iterator[tuple[str, str, Edit]]:
    """All edits of a source: the function, the operator, the edit; in the order of the text."""
    text = Text(source)
    for function, node in _nodes(ast.parse(source), ""):
        for operator, edits_of in OPERATORS.items():
            for edit in edits_of(node, text):
                if edit.old != edit.new:
                    yield function, operator, edit


def _nodes(node: ast.AST, function: str, inside: bool = False) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of functions, and of the `when` of rules and patterns, with the function's name."""
    if _is_for_people(node):
        return
    is_domain = isinstance(node, ast.keyword) and node.arg == "when"
    if inside or is_domain:
        yield function or "module", node
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}" if function else node.name
        if isinstance(node, ast.FunctionDef) and not inside:
            yield function, node
    for name, child in _children(node):
        is_body = isinstance(node, ast.FunctionDef) and name in ("body", "args")
        is_lambda = isinstance(node, ast.Lambda) and name == "body"
        is_code = (inside and name != "decorator_list") or is_body or is_lambda
        yield from _nodes(child, function, is_code)


def _is_for_people(node: ast.AST) -> bool:
    """Whether no value shows what a node says: texts, assertions, types, what DEBUG prints."""
    match node:
        case ast.FunctionDef(name=name):
            return name in _SHOWING
        case ast.If(test=test):
            words = (getattr(each, "value", getattr(each, "id", "")) for each in ast.walk(test))
            return any(word in ("DEBUG", "TYPE_CHECKING") for word in words)
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The children in which an edit can be seen in a value."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child
