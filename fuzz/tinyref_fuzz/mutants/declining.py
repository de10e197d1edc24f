"""Edits that only make a function decline more often, by their form alone.

A function that may always decline (a rule that leaves its node, a question whose No is always safe)
has an answer by which it does. Of a condition on the way to that answer, an edit that makes it hold
more often, or of one on the way to any other answer less often, changes how fast a program is and
no value. Each step here is an implication between the old and the new condition, whatever its parts
are; an edit that may do both is none of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tinyref_fuzz.mutants.operators import OPERATORS, Edit, Text

# A condition that an edit makes hold in fewer cases, or in more.
_LESS, _MORE = False, True
_WIDER = {("<", "<="), (">", ">=")}
_UPPER, _LOWER = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)


def declining_edits(function: ast.FunctionDef, answer: str, text: Text) -> Iterator[Edit]:
    """The edits of `function` after which it gives `answer` where it did before, or more often."""
    yield from _of_block(function.body, answer, text, is_last=True)


def _of_block(block: Sequence[ast.stmt], answer: str, text: Text, is_last: bool) -> Iterator[Edit]:
    """is_last: whether the function ends after the block."""
    for number, statement in enumerate(block):
        after = block[number + 1 :]
        ends = _declines(after, answer) or (is_last and not after and answer == "None")
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue  # a function of its own
        if isinstance(statement, ast.Return) and statement.value is not None:
            yield from _of_answer(statement.value, answer, text)
        elif isinstance(statement, ast.If):
            if _declines(statement.body, answer):
                yield from _monotone(statement.test, text, _MORE)
            elif _declines(statement.orelse, answer) or (ends and not statement.orelse):
                yield from _monotone(statement.test, text, _LESS)
        is_block_last = is_last and not after and isinstance(statement, ast.If)
        for field in ("body", "orelse"):
            yield from _of_block(getattr(statement, field, []), answer, text, is_block_last)


def _declines(block: Sequence[ast.stmt], answer: str) -> bool:
    """Whether all that a block does is to give the answer."""
    match block:
        case [ast.Return(value=None), *_]:
            return answer == "None"
        case [ast.Return(value=ast.expr() as value), *_]:
            return _is(value, answer)
    return False


def _is(value: ast.expr, answer: str) -> bool:
    return ast.unparse(value) == answer


def _of_answer(value: ast.expr, answer: str, text: Text) -> Iterator[Edit]:
    """The edits of what is returned."""
    if isinstance(value, ast.IfExp):
        if _is(value.body, answer):
            yield from _test(value, text, _MORE)
        elif _is(value.orelse, answer):
            yield from _test(value, text, _LESS)
        yield from _of_answer(value.body, answer, text)
        yield from _of_answer(value.orelse, answer, text)
    elif answer in ("True", "False"):
        yield from _inside(value, text, answer == "True")
        if _is(value, str(answer != "True")):
            yield text.replace(value, answer)


def _test(node: ast.IfExp, text: Text, more: bool) -> Iterator[Edit]:
    yield from _monotone(node.test, text, more)


def _monotone(test: ast.expr, text: Text, more: bool) -> Iterator[Edit]:
    """The edits of a condition after which it holds in more cases and in all of before, or less."""
    yield text.replace(test, str(more))
    yield from _inside(test, text, more)


def _inside(test: ast.expr, text: Text, more: bool) -> Iterator[Edit]:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _inside(operand, text, not more)
        case ast.BoolOp(op=op, values=values):
            word = "or" if more else "and"
            if isinstance(op, ast.And) == more:
                yield from (e for e in OPERATORS["operator"](test, text) if e.new == word)
                yield from (text.replace(value, str(more)) for value in values)
            for value in values:
                yield from _inside(value, text, more)
        case ast.Compare(ops=[op], comparators=[right]):
            for edit in OPERATORS["comparison"](test, text):
                pair = (edit.old, edit.new) if more else (edit.new, edit.old)
                if pair in _WIDER:
                    yield edit
            if isinstance(right, ast.Constant) and isinstance(op, _UPPER + _LOWER):
                is_more = isinstance(op, _UPPER) == more
                yield from _moved(right, text, 1 if is_more else -1)


def _moved(number: ast.Constant, text: Text, by: int) -> Iterator[Edit]:
    """The edit by which a limit grows, or shrinks."""
    for edit in OPERATORS["off-by-one"](number, text):
        if edit.new.strip("()") == str(number.value + by):  # type: ignore[operator]
            yield edit
