"""One-line tensor expressions from the command line, evaluated without `eval`.

Accepted are literals, Tensor and its public methods, dtypes, operators and subscripts. Other names,
imports, attributes with underscores and everything else are refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tinyref.dtype import DType, dtypes
from tinyref.errors import TinyrefError, UserError
from tinyref.tensor import Tensor

LARGEST_NUMBER = 1 << 24
LONGEST = 10_000

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_NAMES: dict[str, Any] = {"Tensor": Tensor, "inf": math.inf, "nan": math.nan}
# Public members that change state or return something else than tensors.
_REFUSED = frozenset(
    {"assign", "backward", "data", "grad", "no_grad", "node", "realize", "replace", "to_"}
    | {"requires_grad", "requires_grad_", "numpy", "tolist", "item", "bind", "share"}
)


def evaluate(text: str) -> Tensor:
    """Return the tensor that `text` describes, not yet computed.

    Raises `UserError` for text that is not allowed or does not parse, and the errors of the tensor
    methods.
    """
    if len(text) > LONGEST:
        raise UserError(f"explain: {len(text)} characters are too long, accepted are {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise UserError(f"explain: cannot read {text!r}: {reason}") from error
    try:
        value = _value(tree.body)
    except RecursionError as error:
        raise UserError("explain: the expression is nested too deeply") from error
    if not isinstance(value, Tensor):
        raise UserError(
            f"explain: {text!r} gives {_kind(value)}, accepted is an expression that gives a Tensor"
        )
    return value


def _kind(value: Any) -> str:
    if isinstance(value, DType):
        return "a dtype"
    return "the class Tensor" if value is Tensor else f"a {type(value).__name__}"


def _value(node: ast.expr) -> Any:
    reader = _READERS.get(type(node))
    if reader is None:
        raise UserError(
            f"explain: {_source(node)} is not allowed: use Tensor, its methods, dtypes, operators, "
            "subscripts and literals"
        )
    return reader(node)


def _source(node: ast.AST) -> str:
    text = ast.unparse(node)
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _constant(node: ast.Constant) -> Any:
    if isinstance(node.value, bytes | complex):
        raise UserError(f"explain: {_source(node)} is not allowed: there are no such tensors")
    return node.value


def _list(node: ast.List | ast.Tuple) -> Any:
    values = [_value(item) for item in node.elts]
    return tuple(values) if isinstance(node, ast.Tuple) else values


def _name(node: ast.Name) -> Any:
    if node.id == "dtypes":
        raise UserError("explain: dtypes alone is no value: use dtypes.float32 and the like")
    if node.id not in _NAMES:
        raise UserError(f"explain: unknown name {node.id!r}: accepted are Tensor, dtypes, inf, nan")
    return _NAMES[node.id]


def _attribute(node: ast.Attribute) -> Any:
    if isinstance(node.value, ast.Name) and node.value.id == "dtypes":
        dtype = getattr(dtypes, node.attr, None)
        if not isinstance(dtype, DType):
            raise UserError(f"explain: unknown dtype dtypes.{node.attr}")
        return dtype
    owner = _value(node.value)
    if not (owner is Tensor or isinstance(owner, Tensor)):
        raise UserError(f"explain: {_source(node)}: only Tensor and tensors have attributes here")
    if node.attr.startswith("_") or node.attr in _REFUSED or not hasattr(owner, node.attr):
        raise UserError(f"explain: Tensor has no {node.attr!r} that an expression may use")
    return getattr(owner, node.attr)


def _call(node: ast.Call) -> Any:
    function = _value(node.func)
    if not (callable(function) and not isinstance(function, Tensor)):
        raise UserError(f"explain: {_source(node.func)} cannot be called")
    if any(isinstance(item, ast.Starred) for item in node.args):
        raise UserError(f"explain: {_source(node)}: write the arguments out")
    positional = [_value(item) for item in node.args]
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise UserError(f"explain: {_source(node)}: write the arguments out")
        named[keyword.arg] = _value(keyword.value)
    for value in (*positional, *named.values()):
        _check_number(value, node)
    try:
        return function(*positional, **named)
    except TinyrefError:
        raise
    except TypeError as error:
        raise UserError(f"explain: {_source(node)}: {error}") from error


def _check_number(value: Any, node: ast.AST) -> None:
    """Refuse sizes that would fill the memory of the machine before anything is printed."""
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        raise UserError(f"explain: {value} in {_source(node)} is above {LARGEST_NUMBER}")


def _binary(node: ast.BinOp) -> Any:
    left, right = _value(node.left), _value(node.right)
    if not (isinstance(left, Tensor) or isinstance(right, Tensor)):
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise UserError(f"explain: {_source(node)}: an operator needs a tensor or two numbers")
        if isinstance(node.op, ast.Pow | ast.LShift) and abs(right) > 64:
            raise UserError(f"explain: {_source(node)}: the exponent is above 64")
    return _apply(node, _BINARY[type(node.op)], left, right)


def _unary(node: ast.UnaryOp) -> Any:
    if type(node.op) not in _UNARY:
        raise UserError(f"explain: {_source(node)}: use .logical_not() or ~")
    return _apply(node, _UNARY[type(node.op)], _value(node.operand))


def _compare(node: ast.Compare) -> Any:
    if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
        raise UserError(f"explain: {_source(node)}: compare two values with < <= > >= == !=")
    left, right = _value(node.left), _value(node.comparators[0])
    return _apply(node, _COMPARE[type(node.ops[0])], left, right)


def _apply(node: ast.AST, function: Callable[..., Any], *operands: Any) -> Any:
    try:
        return function(*operands)
    except TinyrefError:
        raise
    except (TypeError, ArithmeticError, ValueError) as error:
        raise UserError(f"explain: {_source(node)}: {error}") from error


def _subscript(node: ast.Subscript) -> Any:
    owner = _value(node.value)
    if not isinstance(owner, Tensor):
        raise UserError(f"explain: {_source(node)}: only tensors have subscripts here")
    return owner[_value(node.slice)]


def _slice(node: ast.Slice) -> slice:
    parts = (node.lower, node.upper, node.step)
    return slice(*(None if part is None else _value(part) for part in parts))


_READERS: Mapping[type[ast.expr], Callable[[Any], Any]] = {
    ast.Constant: _constant,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
}
