"""Reverse-mode gradients: the table of rules, and the walk back from a tensor.

A rule takes the gradient of an output and returns the gradient of each source, again as tensors. So
gradients have gradients. The rules of ops are in `gradient_rules.py`. The rule of a function is
next to the function: the rule of convolutions is in `windows.py`.
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
from tinyref.uops.payload import ReduceArg

T = TypeVar("T", bound=TensorCore)
Contribution = Callable[[], TensorCore] | None
Contributions = tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class GradientStep(Generic[T]):
    """One op on the walk: the gradient of its output, the output, its sources and its payload."""

    gradient: T
    output: T
    sources: tuple[T, ...]
    arg: object


Rule = Callable[[GradientStep[Any]], Contributions]


@dataclass(frozen=True, slots=True)
class GradientRule:
    """A gradient rule, and the tensors whose elements it reads."""

    # Returns for each source a function that computes its gradient, or None without one.
    contributions: Rule
    # True if the rule reads elements of the sources, and not only their shapes.
    reads_sources: bool
    # True if the rule reads elements of the output, and not only its shape.
    reads_output: bool


# The rule of each op, and of each function with a rule of its own, by its name.
RULES: dict[Ops | str, GradientRule] = {}


def gradient_rule(
    key: Ops | str, *, reads_sources: bool = False, reads_output: bool = False
) -> Callable[[Rule], Rule]:
    """Add the decorated function to the table as the rule of `key`."""

    def enter(function: Rule) -> Rule:
        RULES[key] = GradientRule(function, reads_sources, reads_output)
        return function

    return enter


def enter_slope(name: str, slope: Callable[[Any, Any], TensorCore]) -> None:
    """Add the rule of a function y of one tensor x: the gradient times `slope(x, y)`."""

    @gradient_rule(name, reads_sources=True, reads_output=True)
    def contributions(step: GradientStep[Any]) -> Contributions:
        return (lambda: step.gradient * slope(step.sources[0], step.output),)


def history(root: TensorCore) -> list[Value]:
    """Return the value of `root` and all values that it was computed from, sources first."""
    return toposort([value_of(root)], _parents)


def _parents(value: Value) -> tuple[Value, ...]:
    return () if value.record is None else value.record.parents


def gradients(root: T, seed: T, targets: Sequence[Value], order: Sequence[Value]) -> list[T | None]:
    """Return d(root)/d(target), weighted by `seed`, for each target; None for an independent one.

    order: the history of `root`.
    """
    dependent = {id(target) for target in targets}
    for value in order:
        if any(id(source) in dependent for source in _parents(value)):
            dependent.add(id(value))
    sums: dict[int, TensorCore] = {id(value_of(root)): seed}
    try:
        for value in reversed(order):
            gradient = sums.get(id(value))
            if gradient is not None and id(value) in dependent:
                go_back_through(value.node)
                _propagate(value, gradient, dependent, sums)
    finally:
        go_back_through(None)
    # Rules return tensors of the class of their arguments.
    return cast(list[T | None], [sums.get(id(target)) for target in targets])


def _propagate(
    value: Value, gradient: TensorCore, dependent: set[int], sums: dict[int, TensorCore]
) -> None:
    """Add the contributions of `value` to the gradients of its sources in `sums`."""
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
        if contribution is None or id(source) not in dependent:
            continue
        _check_unchanged(value)
        part = contribution()
        before = sums.get(id(source))
        sums[id(source)] = part if before is None else apply(before, Ops.ADD, part)


def _check_unchanged(value: Value) -> None:
    """Raise `UserError` if elements that the rule of `value` reads were overwritten."""
    record = value.record
    if record is None or (isinstance(record.arg, ReduceArg) and record.arg.op is Ops.ADD):
        return  # A sum is the only reduction whose slope does not depend on elements.
    rule = RULES[record.rule]
    read = [value] if rule.reads_output else []
    if rule.reads_sources:
        read += _parents(value)
    for source in read:
        if source.is_overwritten:
            name = record.rule.name if isinstance(record.rule, Ops) else record.rule
            raise UserStateError(
                f"backward: the gradient of {name} reads a tensor of shape "
                f"{describe_shape(shape_of(source.node))} whose elements were assigned to since: "
                f"compute the result again"
            )
