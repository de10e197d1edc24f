"""Planted expressions in generated kernels: what a rule matches, made of the kernel's values."""

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
from tinyref_fuzz.generate.planting import hardness, plantable, planted
from tinyref_fuzz.generate.values import Value, broadcast, full_range, value_in_range
from tinyref_spec.kernel_case import Mode

# Of floats only ranges are known, not what an expression makes of them: they are planted where
# every value is admitted.
_UNBOUNDED = Mode.EDGE
# A planted number goes among others by its rest, so that it stays small: a prime of five bits.
_SMALL = 31


@functools.cache
def _rules(types: tuple[DType, ...]) -> tuple[Rule, ...]:
    return plantable(types)


def with_plant(draw: Expressions, x: Value) -> Value:
    """`x`, or a value that depends on it and on an instance of a rule's left-hand side."""
    plant = plant_of(draw, lambda dtype: _leaf(draw, x, dtype), x)
    return x if plant is None else _together(draw, x, plant)


def plant_of(draw: Expressions, leaf: Callable[[DType], Value], *used: Value) -> Value | None:
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

    node = planted(draw.tape.pick(rules, weights), draw.tape, types, node_of)
    if node is None or not leaves:
        return None
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


def _together(draw: Expressions, x: Value, plant: Value) -> Value:
    """One value of both, or the planted one alone."""
    if draw.tape.chance(20):
        return plant
    if plant.dtype.is_bool:
        other = draw.kernel.leaf(x.shape, x.dtype)
        return choose(draw, plant, x, other) or plant
    if plant.dtype is x.dtype and x.dtype.is_int:
        node = build.binary(Ops.XOR, x.node, plant.node)
        shape = broadcast(x.shape, plant.shape)
        rough = x.is_rough or plant.is_rough
        return (
            value_in_range(draw.kernel.mode, node, shape, *full_range(x.dtype), is_rough=rough)
            or plant
        )
    return _as_small_number(draw, x, plant) or plant


def _as_small_number(draw: Expressions, x: Value, plant: Value) -> Value | None:
    """The sum of `x` and the rest of the planted integer, where that is exact."""
    if not plant.dtype.is_int or x.dtype.is_bool:
        return None
    low = 0 if plant.dtype.is_unsigned else -_SMALL
    rest = Value(build.mod(plant.node, _SMALL), plant.shape, low, _SMALL, _SMALL, plant.is_rough)
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
