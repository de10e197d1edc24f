"""Reverse-mode gradients: the table of rules, and the walk back from a tensor.

A rule gives, for the gradient of an output, the gradient of each of its sources, again as tensors;
so gradients have gradients. The rules of ops stand in `gradient_rules.py`, those of functions
beside the function, as the rule of convolutions in `windows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from tinyref.errors import UserStateError
from tinyref.lazy.shape import describe_shape, shape_of
from tinyref.tensor.core import TensorCore, Value, apply, peek_value, value_of
from tinyref.tensor.naming import go_back_through
from tinyref.uops.node import toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload, ReduceArg

T = TypeVar("T", bound=TensorCore)
Contribution = Callable[[], TensorCore] | None
Contributions = tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class GradientStep(Generic[T]):
    """One op on the way: the gradient of its output, the output, its sources and payload."""

    gradient: T
    output: T
    sources: tuple[T, ...]
    arg: Payload


Rule = Callable[[GradientStep[Any]], Contributions]


@dataclass(frozen=True, slots=True)
class GradientRule:
    """`contributions` gives for each source a function that makes its gradient, or None.

    `reads_sources` and `reads_output` say that their elements are read, not only their shapes.
    """

    contributions: Rule
    reads_sources: bool
    reads_output: bool


# By op, and by the name of a function with a rule of its own.
RULES: dict[Ops | str, GradientRule] = {}


def gradient_rule(
    key: Ops | str, *, reads_sources: bool = False, reads_output: bool = False
) -> Callable[[Rule], Rule]:
    """Enters the decorated function into the table as the rule of `key`."""

    def enter(function: Rule) -> Rule:
        RULES[key] = GradientRule(function, reads_sources, reads_output)
        return function

    return enter


def enter_slope(name: str, slope: Callable[[Any, Any], TensorCore]) -> None:
    """Enter the rule of a function y of one tensor x: the gradient times its slope."""

    @gradient_rule(name, reads_sources=True, reads_output=True)
    def contributions(step: GradientStep[Any]) -> Contributions:
        return (lambda: step.gradient * slope(step.sources[0], step.output),)


def history(root: TensorCore) -> list[Value]:
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
    found: dict[int, TensorCore] = {id(value_of(root)): seed}
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
    value: Value, gradient: TensorCore, wanted: set[int], found: dict[int, TensorCore]
) -> None:
    """Adds what `value` passes on to the gradients of its sources."""
    record = value.record
    if record is None:
        return
    rule = RULES[record.rule]
    step = GradientStep(
        gradient,
        peek_value(type(gradient), value),
        tuple(peek_value(type(gradient), source) for source in record.parents),
        record.arg,
    )
    for source, contribution in zip(record.parents, rule.contributions(step), strict=True):
        if contribution is None or id(source) not in wanted:
            continue
        _check_unchanged(value)
        part = contribution()
        before = found.get(id(source))
        found[id(source)] = part if before is None else apply(before, Ops.ADD, part)


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
