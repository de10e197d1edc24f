"""Loops of the interpreter: one iteration at a time, or many at once as one more axis of lanes.

Iterations that do not depend on each other run at once: all of them where the loop holds no
accumulator from outside, else what is accumulated, and then the accumulator takes the values one
after the other, in order. What a program computes is the same either way. Iterations that meet in
memory do depend on each other; that shows when they touch one element, as a race does, and then
the launch starts again one by one.

An array that is used in one loop only, as scratch space of each iteration, is no such meeting:
every iteration gets a copy of its own (array privatisation: Tu and Padua 1993). It must have been
written in the same iteration where it is read, which shows as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.interpret.lanes import LaneMachine, broadcast_to, common_shape
from tinyref.uops.node import UOp
from tinyref.uops.ops import REDUCING, Ops

Array = npt.NDArray[Any]
Values = list[Any]
Step = Callable[[Values], None]

MACHINE = 0

# Lanes that run at a time, iterations included.
WIDTH = 1 << 13
# Elements of scratch arrays that all iterations at a time may hold together.
SCRATCH = 1 << 20
# Below this many iterations at a time it is not worth the trouble.
FEWEST = 8

# numpy applies these strictly in order, rounding at each step.
_IN_ORDER = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
_NUMPY_TYPES = frozenset(
    {dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64}
)


@dataclass
class Block:
    """The body of a RANGE or IF while it is translated: every node in it, and its own steps."""

    opener: UOp | None
    nodes: list[UOp] = field(default_factory=list)
    steps: list[tuple[UOp, Step]] = field(default_factory=list)


@dataclass(frozen=True)
class Fold:
    """An accumulator of a loop whose iterations can be computed at once: acc = op(acc, value)."""

    update: UOp
    combined: UOp
    value: UOp
    is_flipped: bool


@dataclass(frozen=True)
class PlacedFold:
    """A fold with the places of its accumulator and value, and the semantics of its op.

    `ufunc` is the numpy function that does the same in order, where there is one.
    """

    accumulator: int
    value: int
    kernel: Callable[..., Array]
    ufunc: np.ufunc | None
    dtype: DType
    is_flipped: bool

    @property
    def own_axes(self) -> int:
        """The axes of a value after those of the lanes: one for a vector."""
        return int(self.dtype.lanes > 1)


def in_order(op: Ops, dtype: DType) -> np.ufunc | None:
    """The numpy function that accumulates by `op` in `dtype` step by step, if it has one."""
    return _IN_ORDER.get(op) if dtype.scalar in _NUMPY_TYPES else None


def is_independent(block: Block) -> bool:
    """Whether no iteration hands a value to the next but through memory."""
    return not _carried(block) and all(node.op is not Ops.BARRIER for node in block.nodes)


def _carried(block: Block) -> list[UOp]:
    """The updates of accumulators from outside, which an iteration hands to the next."""
    inside = set(block.nodes)
    return [node for node in block.nodes if node.op is Ops.UPDATE_ACC and node.src[0] not in inside]


def folds_of(block: Block) -> list[Fold] | None:
    """The accumulators of a loop whose iterations depend on each other through these folds alone.

    None where there is another dependence, or a store or barrier, whose order matters.
    """
    users: dict[UOp, list[UOp]] = {}
    for node in block.nodes:
        if node.op in (Ops.STORE, Ops.BARRIER):
            return None
        for source in node.src:
            users.setdefault(source, []).append(node)
    own = {node for node, _ in block.steps}
    folds = []
    for update in _carried(block):
        fold = _fold(update, users) if update in own else None
        if fold is None:
            return None
        folds.append(fold)
    return folds


def _fold(update: UOp, users: dict[UOp, list[UOp]]) -> Fold | None:
    accumulator, combined = update.src
    if combined.op not in REDUCING or update in users:
        return None
    if users.get(combined) != [update] or combined.src.count(accumulator) != 1:
        return None
    if {*users[accumulator]} != {update, combined}:
        return None
    is_flipped = combined.src[1] is accumulator
    return Fold(update, combined, combined.src[0 if is_flipped else 1], is_flipped)


def _iterations(machine: LaneMachine, limit: Array) -> int:
    iterations = int(np.max(limit)) if np.size(limit) else 0
    return iterations if machine.hooks.loop is None else machine.hooks.loop(iterations)


def nested(inner: Step) -> Step:
    """A loop whose place in the order of accesses is kept: what is before it, in it, after it."""

    def step(values: Values) -> None:
        machine: LaneMachine = values[MACHINE]
        if not machine.may_widen:
            inner(values)
            return
        machine.pass_boundary()
        machine.depth += 1
        inner(values)
        machine.depth -= 1
        machine.pass_boundary()

    return step


def one_by_one(
    counter: int, bound: int, dtype: np.dtype[Any], body: Sequence[Step], scratch: Sequence[int]
) -> Step:
    """A loop that runs one iteration at a time; lanes whose bound is reached are masked.

    scratch: the numbers of the memories that are used in this loop only; it is filled later.
    """

    def step(values: Values) -> None:
        machine: LaneMachine = values[MACHINE]
        machine.privatise(scratch)
        limit = values[bound]
        iterations = _iterations(machine, limit)
        varies = np.size(limit) > 1
        outer = machine.mask
        for iteration in np.arange(max(iterations, 0), dtype=dtype):
            values[counter] = iteration
            if varies:
                inside = iteration < limit
                machine.mask = inside if outer is None else outer & inside
            for inner in body:
                inner(values)
        machine.mask = outer

    return step


def _blocks(
    iterations: int, lanes: tuple[int, ...], dtype: np.dtype[Any], scratch: int = 0
) -> Sequence[Array]:
    """The counter of all iterations, in blocks with an axis for them before those of `lanes`.

    scratch: the elements that every iteration of every lane has for itself.
    """
    most = min(WIDTH, SCRATCH // scratch) if scratch else WIDTH
    width = max(1, most // max(1, math.prod(lanes)))
    shape = (-1, *(1 for _ in lanes))
    return [
        np.arange(start, min(start + width, iterations), dtype=dtype).reshape(shape)
        for start in range(0, iterations, width)
    ]


def all_at_once(
    counter: int,
    bound: int,
    dtype: np.dtype[Any],
    body: Sequence[Step],
    scratch: Sequence[int],
    otherwise: Step,
) -> Step:
    """A loop of independent iterations, each a lane with a number of its own, where possible.

    It is on a launch of few threads, whose other lanes are all iterations of loops. scratch: as of
    `one_by_one`.
    """

    def step(values: Values) -> None:
        machine: LaneMachine = values[MACHINE]
        limit = values[bound]
        if not machine.may_widen or np.size(limit) > 1:
            otherwise(values)
            return
        iterations = _iterations(machine, limit)
        lanes, items, span = machine.lanes, machine.items, machine.span
        elements = sum(machine.memories[number].size for number in scratch)
        for block in _blocks(iterations, lanes, dtype, elements):
            values[counter] = block
            machine.lanes = (block.shape[0], *lanes)
            machine.privatise(scratch)
            machine.span = span * iterations
            machine.items = block.astype(np.int64) * span + items
            for inner in body:
                inner(values)
        machine.lanes, machine.items, machine.span = lanes, items, span

    return step


def folded(
    counter: int,
    bound: int,
    dtype: np.dtype[Any],
    body: Sequence[Step],
    folds: Sequence[PlacedFold],
    otherwise: Step,
) -> Step:
    """A loop that computes the values of many iterations at once and accumulates them in order."""

    def step(values: Values) -> None:
        machine: LaneMachine = values[MACHINE]
        limit = values[bound]
        lanes, items = machine.lanes, machine.items
        if np.size(limit) > 1 or WIDTH // max(1, math.prod(lanes)) < FEWEST:
            otherwise(values)
            return
        mask = machine.mask
        before = [values[fold.accumulator] for fold in folds]
        for block in _blocks(_iterations(machine, limit), lanes, dtype):
            values[counter] = block
            machine.lanes = (block.shape[0], *lanes)
            machine.items = broadcast_to(items, machine.lanes)
            for inner in body:
                inner(values)
            for fold in folds:
                rank = len(lanes) + fold.own_axes
                value = _with_iterations(values[fold.value], rank)
                values[fold.accumulator] = _accumulate(
                    fold, values[fold.accumulator], value, block.shape[0]
                )
        machine.lanes, machine.items = lanes, items
        if mask is not None:
            for fold, start in zip(folds, before, strict=True):
                chosen = mask[..., None] if fold.own_axes else mask
                kept = np.where(chosen, values[fold.accumulator], start)
                values[fold.accumulator] = kept

    return step


def _with_iterations(value: Array, rank: int) -> Array:
    """`value` with an axis for the iterations before its `rank` other ones, of 1 if constant."""
    value = np.asarray(value)
    missing = rank + 1 - value.ndim
    return value if missing <= 0 else value.reshape((1,) * missing + value.shape)


def _accumulate(fold: PlacedFold, start: Array, value: Array, iterations: int) -> Array:
    """What `fold` makes of `start` and the values of all iterations, in their order."""
    if fold.ufunc is not None:
        dtype = numpy_dtype(fold.dtype.scalar)
        shape = common_shape(np.shape(start), value.shape[1:])
        rows = np.empty((iterations + 1, *shape), dtype)
        rows[0] = start
        rows[1:] = value
        return np.asarray(fold.ufunc.accumulate(rows, axis=0, dtype=dtype)[-1])
    for row in broadcast_to(value, (iterations, *value.shape[1:])):
        start = fold.kernel(row, start) if fold.is_flipped else fold.kernel(start, row)
    return start


def branch(condition: int, body: Sequence[Step]) -> Step:
    """An IF: its body runs under a mask, or not at all."""

    def step(values: Values) -> None:
        machine: LaneMachine = values[MACHINE]
        outer = machine.mask
        taken = np.asarray(values[condition])
        mask = taken if outer is None else taken & outer
        if not mask.any():
            return
        machine.mask = None if mask.all() else mask
        for inner in body:
            inner(values)
        machine.mask = outer

    return step
