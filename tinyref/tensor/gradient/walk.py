"""The walk back from a tensor: each step by its rule, gradients of one value added up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar, cast

from tinyref.errors import UserStateError
from tinyref.lazy.shape import describe_shape, shape_of
from tinyref.tensor.core import Value, peek_value, value_of
from tinyref.tensor.gradient.rules import RULES, Step
from tinyref.tensor.indexing import Indexing
from tinyref.tensor.naming import go_back_through
from tinyref.uops.node import toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ReduceArg

T = TypeVar("T", bound=Indexing)


def history(root: Indexing) -> list[Value]:
    """Every value that `root` was computed from, and its own; sources first, each once."""
    return toposort([value_of(root)], _parents)


def _parents(value: Value) -> tuple[Value, ...]:
    return () if value.record is None else value.record.parents


def gradients(root: T, seed: T, targets: Sequence[Value], order: Sequence[Value]) -> list[T | None]:
    """d(root)/d(target) weighted by `seed`, for each target; None where root does not depend on it.

    `order` is the history of `root`.
    """
    wanted = {id(target) for target in targets}
    for value in order:
        if any(id(source) in wanted for source in _parents(value)):
            wanted.add(id(value))
    found: dict[int, Indexing] = {id(value_of(root)): seed}
    try:
        for value in reversed(order):
            gradient = found.get(id(value))
            if gradient is not None and id(value) in wanted:
                go_back_through(value.node)
                _propagate(value, gradient, wanted, found)
    finally:
        go_back_through(None)
    # Rules give tensors of the class of those that they are given.
    return cast(list[T | None], [found.get(id(target)) for target in targets])


def _propagate(
    value: Value, gradient: Indexing, wanted: set[int], found: dict[int, Indexing]
) -> None:
    """Adds what `value` passes on to the gradients of its sources."""
    record = value.record
    if record is None:
        return
    rule = RULES[record.rule]
    peek = partial(peek_value, type(gradient))
    step = Step(gradient, peek(value), tuple(peek(source) for source in record.parents), record.arg)
    for source, contribution in zip(record.parents, rule.contributions(step), strict=True):
        if contribution is None or id(source) not in wanted:
            continue
        _check_unchanged(value)
        part = contribution()
        before = found.get(id(source))
        found[id(source)] = part if before is None else before + part


def _check_unchanged(value: Value) -> None:
    """Raises `UserError` where elements that its rule reads are gone."""
    record = value.record
    if record is None or (isinstance(record.arg, ReduceArg) and record.arg.op is Ops.ADD):
        return  # Of the reductions, a sum alone has a slope that does not depend on elements.
    rule = RULES[record.rule]
    read = [value] if rule.reads_output else []
    if rule.reads_sources:
        read += _parents(value)
    for source in read:
        if source.is_overwritten:
            name = record.rule.name if isinstance(record.rule, Ops) else record.rule
            raise UserStateError(
                f"backward: elements that the gradient of {name} reads, of shape "
                f"{describe_shape(shape_of(source.node))}, were assigned to since: "
                f"compute the result again"
            )
