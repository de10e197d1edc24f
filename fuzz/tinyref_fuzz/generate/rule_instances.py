"""Instances of rules in generated kernels: what a rule matches, made of the kernel's values."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tinyref.algebra.rewrite.rule import Rule
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.arithmetic import choose, convert
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.instantiation import hardness, instantiable_rules, instantiate_rule
from tinyref_fuzz.generate.neighbours import neighbour
from tinyref_fuzz.generate.values import Value, broadcast, full_range, value_in_range
from tinyref_spec.kernel_case import Mode

# Of floats only ranges are known, not what an expression makes of them: there are instances where
# every value is admitted.
_UNBOUNDED = Mode.EDGE
# So many of 100 instances have an operand changed, by which the rule may not hold.
NEIGHBOURS = 40
# An instance goes among numbers by its rest, so that it stays small: a prime of five bits.
_SMALL = 31


@functools.cache
def _rules(types: tuple[DType, ...]) -> tuple[Rule, ...]:
    return instantiable_rules(types)


def with_instance(draw: Expressions, x: Value) -> Value:
    """`x`, or a value that depends on it and on an instance of a rule's left-hand side."""
    instance = instance_of(draw, lambda dtype: _leaf(draw, x, dtype), x)
    return x if instance is None else _together(draw, x, instance)


def instance_of(draw: Expressions, leaf: Callable[[DType], Value], *used: Value) -> Value | None:
    """An instance of a rule's left-hand side whose holes are filled by `leaf`, None without one.

    Its shape is that of all that it is made of, and of what is `used` next to it.
    """
    kernel = draw.kernel
    types = tuple(
        dtype
        for dtype in kernel.dtypes
        if dtype not in dtypes.storage_only and (kernel.mode is _UNBOUNDED or not dtype.is_float)
    )
    rules = _rules(types)
    if not rules:
        return None
    weights = [hardness(rule) * draw.policy.rules.get(rule.name, 1) for rule in rules]
    leaves = list(used)

    def node_of(dtype: DType) -> UOp:
        value = leaf(dtype)
        leaves.append(value)
        return value.node

    node = instantiate_rule(draw.tape.pick(rules, weights), draw.tape, types, node_of)
    if node is None or not leaves:
        return None
    if draw.tape.chance(NEIGHBOURS):
        node = neighbour(node, draw.tape)
    shape = broadcast(*(value.shape for value in leaves))
    rough = any(value.is_rough for value in leaves)
    return value_in_range(kernel.mode, node, shape, *full_range(node.dtype), is_rough=rough)


def _leaf(draw: Expressions, x: Value, dtype: DType) -> Value:
    """The value at hand, one that is loaded already, or a new load."""
    choice = draw.tape.below(4)
    if x.dtype is dtype and choice < 2:
        return x
    found = draw.kernel.existing_load(x.shape, dtype) if choice < 3 else None
    return found or draw.kernel.load(x.shape, dtype)


def _together(draw: Expressions, x: Value, instance: Value) -> Value:
    """One value of both, or the instance alone."""
    if draw.tape.chance(20):
        return instance
    if instance.dtype.is_bool:
        other = draw.kernel.leaf(x.shape, x.dtype)
        return choose(draw, instance, x, other) or instance
    if instance.dtype is x.dtype and x.dtype.is_int:
        node = build.binary(Ops.XOR, x.node, instance.node)
        shape = broadcast(x.shape, instance.shape)
        rough = x.is_rough or instance.is_rough
        return (
            value_in_range(draw.kernel.mode, node, shape, *full_range(x.dtype), is_rough=rough)
            or instance
        )
    return _as_small_number(draw, x, instance) or instance


def _as_small_number(draw: Expressions, x: Value, instance: Value) -> Value | None:
    """The sum of `x` and the rest of the instance, an integer, where that is exact."""
    if not instance.dtype.is_int or x.dtype.is_bool:
        return None
    low = 0 if instance.dtype.is_unsigned else -_SMALL
    rest = Value(
        build.mod(instance.node, _SMALL), instance.shape, low, _SMALL, _SMALL, instance.is_rough
    )
    small = convert(draw, rest, x.dtype)
    if small is None:
        return None
    node = build.add(x.node, small.node)
    return value_in_range(
        draw.kernel.mode,
        node,
        broadcast(x.shape, small.shape),
        x.low + small.low,
        x.high + small.high,
        bound=x.bound + small.bound,
        is_rough=x.is_rough or small.is_rough,
    )
