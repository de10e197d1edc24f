"""Loops of the interpreter: one iteration at a time, or many together as one more axis of lanes.

Iterations that do not depend on each other run together. If the loop updates an accumulator from
outside, only the accumulated values are computed together, and the accumulator then takes them in
order. A program computes the same in both ways. Iterations that share memory do depend on each
other. If two of them access the same element, the check of races detects it, and the launch starts
again with one iteration at a time.

An array may be used in one loop only, as scratch space of each iteration. Then every iteration gets
a copy of its own (array privatisation: Tu and Padua 1993). An iteration must write an element
before it reads it, which is checked too.
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

# The largest number of lanes that run together, including iterations.
WIDTH = 1 << 13
# The largest number of scratch elements of all iterations that run together.
SCRATCH = 1 << 20
# With fewer iterations together, one at a time is as fast.
FEWEST = 8

# numpy applies these functions strictly in order, with rounding at each step.
_IN_ORDER = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}
_NUMPY_TYPES = frozenset(
    {dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64}
)


@dataclass
class Block:
    """The body of a RANGE or IF during translation: every node in it, and its own steps."""

    opener: UOp | None
    nodes: list[UOp] = field(default_factory=list)
    steps: list[tuple[UOp, Step]] = field(default_factory=list)


@dataclass(frozen=True)
class Fold:
    """Update acc = op(acc, value) in a loop whose values can be computed together."""

    update: UOp
    combined: UOp
    value: UOp
    is_flipped: bool


@dataclass(frozen=True)
class BoundFold:
    """A fold with the registers of its accumulator and value, and the semantics of its op.

    `ufunc` is the numpy function that does the same in order, if there is one.
    """

    accumulator: int
    value: int
    kernel: Callable[..., Array]
    ufunc: np.ufunc | None
    dtype: DType
    is_flipped: bool

    @property
    def own_axes(self) -> int:
        """Return the number of axes of a value after the axes of the lanes: one for a vector."""
        return int(self.dtype.lanes > 1)


def in_order(op: Ops, dtype: DType) -> np.ufunc | None:
    """Return the numpy function that accumulates by `op` in `dtype` step by step, or None."""
    return _IN_ORDER.get(op) if dtype.scalar in _NUMPY_TYPES else None


def is_independent(block: Block) -> bool:
    """Return True if no iteration passes a value to the next one, except through memory."""
    return not _carried(block) and all(node.op is not Ops.BARRIER for node in block.nodes)


def _carried(block: Block) -> list[UOp]:
    """Return the updates of accumulators from outside, which an iteration passes to the next."""
    inside = set(block.nodes)
    return [node for node in block.nodes if node.op is Ops.UPDATE_ACC and node.src[0] not in inside]


def folds_of(block: Block) -> list[Fold] | None:
    """Return the folds of a loop if its iterations depend on each other only through them.

    Return None if there is another dependence, or a store or barrier, whose order matters.
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
    """Order the accesses before a loop, in it and after it."""

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
    """Run a loop one iteration at a time; mask the lanes that have reached their bound.

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
    """Return the counter of all iterations in blocks, as a new axis before the axes of `lanes`.

    scratch: the number of private elements of every iteration in every lane.
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
    """Run independent iterations of a loop together if possible: each is a lane with its number.

    This is possible in a launch of few threads, whose other lanes are all iterations of loops.
    scratch: see `one_by_one`.
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
    folds: Sequence[BoundFold],
    otherwise: Step,
) -> Step:
    """Compute the values of many iterations of a loop together, and accumulate them in order."""

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
                values[fold.accumulator] = np.where(chosen, values[fold.accumulator], start)

    return step


def _with_iterations(value: Array, rank: int) -> Array:
    """Give `value` an axis for the iterations before its `rank` other ones; size 1 if constant."""
    value = np.asarray(value)
    missing = rank + 1 - value.ndim
    return value if missing <= 0 else value.reshape((1,) * missing + value.shape)


def _accumulate(fold: BoundFold, start: Array, value: Array, iterations: int) -> Array:
    """Accumulate the values of all iterations, in their order, from `start` on."""
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
    """Run the body of an IF under a mask, or not at all."""

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
