"""Gradients as sums over places: what each operation passes back, stated by itself.

It shares nothing with the rules of tinyref. Gradients are taken in float64, and are refused with
`InexactError` where one is not exact in the type that it is of.

Where an operation has no slope the gradient is what tinyref documents: of equal elements of a
maximum each gets the same share, and relu passes nothing at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref_fuzz.programs.arithmetic import (
    Elements,
    Operands,
    UndefinedError,
    check_exact,
    check_sum,
    multiply,
)
from tinyref_fuzz.programs.steps import Value

Parts = Sequence[Elements | None]


@dataclass(eq=False)
class Record:
    """How elements were computed, as they were at one time: gradients go back through it.

    sources: what from; none of a leaf. back: of its gradient those of the sources, None for one
    without; None where the oracle has no rule. is_marked: a leaf that gradients are asked for.
    is_lost: whether elements that the rule reads are gone. requires_grad: gradients may flow to
    such a leaf; is_certain: they do.
    """

    shape: tuple[int, ...]
    dtype: str
    sources: tuple[Record, ...] = ()
    back: Callable[[Elements], Parts] | None = None
    is_marked: bool = False
    is_lost: Callable[[], bool] = bool

    def __post_init__(self) -> None:
        self.requires_grad: bool = self.is_marked or any(
            each.requires_grad for each in self.sources
        )
        # What a replay gives has no gradient, though the function computed it with one.
        is_known = self.back is not None and any(each.is_certain for each in self.sources)
        self.is_certain: bool = self.is_marked or is_known

    @property
    def is_leaf(self) -> bool:
        """Whether `backward` ends here."""
        return self.requires_grad and not self.sources

    @property
    def is_blocked(self) -> bool:
        """Whether the oracle does not know the gradients of its sources."""
        return bool(self.sources) and self.back is None

    def history(self) -> list[Record]:
        """All that it is computed from, and itself last; sources first."""
        done: dict[int, Record] = {}

        def visit(record: Record) -> None:
            if id(record) not in done:
                for source in record.sources:
                    visit(source)
                done[id(record)] = record

        visit(self)
        return list(done.values())


def gradients(loss: Record, weights: Elements, targets: Sequence[Record]) -> list[Elements | None]:
    """d(loss)/d(target), of weighted elements, for each; None where the loss does not depend on it.

    Raises `UndefinedError` where the oracle does not know, `InexactError` for what rounds.
    """
    history = loss.history()
    wanted = {id(target) for target in targets}
    for record in history:
        if any(id(source) in wanted for source in record.sources):
            wanted.add(id(record))
    parts: dict[int, list[Elements]] = {id(loss): [weights.astype(np.float64)]}
    found: dict[int, Elements] = {}
    for record in reversed(history):
        if id(record) not in parts or id(record) not in wanted:
            continue
        terms = np.stack(parts[id(record)])
        check_sum(terms, (0,), record.dtype)
        gradient = found[id(record)] = terms.sum(axis=0)
        if any(id(source) in wanted for source in record.sources):
            for source, part in zip(record.sources, _passed_back(record, gradient), strict=True):
                if part is not None and id(source) in wanted:
                    parts.setdefault(id(source), []).append(part)
    return [
        found[id(target)].astype(target.dtype) if id(target) in found else None
        for target in targets
    ]


def _passed_back(record: Record, gradient: Elements) -> Parts:
    if record.back is None:
        raise UndefinedError("gradient: the oracle has no rule for an operation")
    if record.is_lost():
        raise UndefinedError("gradient: what was written has other elements by now")
    parts = record.back(gradient)
    for part in parts:
        if part is not None:
            check_exact(part, record.dtype)
    return parts


# --- the rules -----------------------------------------------------------------------------------


def scatter(g: Elements, places: Elements, shape: tuple[int, ...]) -> Elements:
    """What each of the elements of `shape` gets, of which `places` says by number where g is of."""
    total = np.zeros(math.prod(shape), g.dtype)
    np.add.at(total, places.reshape(-1), g.reshape(-1))
    return total.reshape(shape)


def unspread(g: Elements, shape: tuple[int, ...], dtype: str) -> Elements:
    """The gradient of an operand that was broadcast: the sum over all places that it went to."""
    if g.shape == shape:
        return g
    more = g.ndim - len(shape)
    spread = [axis for axis, size in enumerate(shape, more) if size == 1 and g.shape[axis] != 1]
    axes = (*range(more), *spread)
    check_sum(g, axes, dtype)
    return np.asarray(g.sum(axis=axes, keepdims=True)).reshape(shape)


def _kept(g: Elements, values: Sequence[Value]) -> Elements:
    """The gradient of a reduce, with the axes that it reduced."""
    axes, keeps = values
    return g if keeps else np.expand_dims(g, axes)


def _cut(g: Elements, pairs: Sequence[tuple[int, int]]) -> Elements:
    ends = zip(pairs, g.shape, strict=True)
    return g[tuple(slice(before, size - after) for (before, after), size in ends)]


def _larger(g: Elements, x: Elements, y: Elements) -> Elements:
    """The share of x in the gradient of the larger of both."""
    return np.asarray(g * np.where(x > y, 1.0, np.where(x == y, 0.5, 0.0)))


def _largest(g: Elements, x: Elements, values: Sequence[Value]) -> Elements:
    axes, _ = values
    is_largest = x == x.max(axis=axes, keepdims=True)
    share = is_largest / is_largest.sum(axis=axes, keepdims=True)
    return np.asarray(_kept(g, values) * share)


def _others(g: Elements, x: Elements, values: Sequence[Value]) -> Elements:
    """To each factor the product of all others, one by one."""
    axes, _ = values
    rows = np.moveaxis(x, axes, range(-len(axes), 0))
    flat = rows.reshape(*rows.shape[: x.ndim - len(axes)], -1)
    # tinyref divides the product of what is not zero.
    check_exact(np.where(flat == 0, 1, flat).prod(axis=-1), "float32")
    count = flat.shape[-1]
    parts = [flat[..., [at for at in range(count) if at != one]].prod(-1) for one in range(count)]
    product = np.stack(parts, -1).reshape(rows.shape)
    back = np.moveaxis(product, range(-len(axes), 0), axes)
    return np.asarray(_kept(g, values) * back)


def _scanned_back(g: Elements, axis: int) -> Elements:
    check_sum(g, (axis,), "float32")
    return np.flip(np.flip(g, axis).cumsum(axis), axis)


def _taken_back(g: Elements, x: Elements, places: Elements) -> Elements:
    total = np.zeros(x.shape)
    np.add.at(total, places, g)
    return total


Back = Callable[[Elements, Operands, Sequence[Value]], Parts]
BACK: Mapping[str, Back] = {
    "neg": lambda g, x, v: (-g,),
    "relu": lambda g, x, v: (g * (x[0] > 0),),
    "square": lambda g, x, v: (2 * g * x[0],),
    "cast": lambda g, x, v: (g,),
    "add_number": lambda g, x, v: (g,),
    "mul_number": lambda g, x, v: (g * v[0],),
    "max_number": lambda g, x, v: (_larger(g, x[0], np.asarray(v[0])),),
    "add": lambda g, x, v: (g, g),
    "sub": lambda g, x, v: (g, -g),
    "mul": lambda g, x, v: (g * x[1], g * x[0]),
    "maximum": lambda g, x, v: (_larger(g, x[0], x[1]), _larger(g, x[1], x[0])),
    "minimum": lambda g, x, v: (_larger(g, x[1], x[0]), _larger(g, x[0], x[1])),
    "where": lambda g, x, v: (None, np.where(x[0], g, 0), np.where(x[0], 0, g)),
    "sum": lambda g, x, v: (np.broadcast_to(_kept(g, v), x[0].shape),),
    "max": lambda g, x, v: (_largest(g, x[0], v),),
    "prod": lambda g, x, v: (_others(g, x[0], v),),
    "cumsum": lambda g, x, v: (_scanned_back(g, v[0]),),
    "matmul": lambda g, x, v: (multiply(g, x[1].T), multiply(x[0].T, g)),
    "cat": lambda g, x, v: tuple(np.split(g, [x[0].shape[v[0]]], axis=v[0])),
    "stack": lambda g, x, v: tuple(g.take(place, axis=v[0]) for place in range(2)),
    "pad": lambda g, x, v: (_cut(g, v[0]),),
    "take": lambda g, x, v: (_taken_back(g, x[0], x[1]), None),
    "contiguous": lambda g, x, v: (g,),
    "clone": lambda g, x, v: (g,),
    "to": lambda g, x, v: (g,),
}
# Those that read no elements: they are right whatever was written since.
LINEAR = frozenset(
    {"neg", "cast", "add_number", "add", "sub", "sum", "pad", "contiguous", "clone", "to"}
)
# Those whose partial results may be larger than float16 holds.
_WIDE = frozenset({"prod", "cumsum", "matmul"})


def rule_of(
    op: str, operands: Operands, values: Sequence[Value]
) -> Callable[[Elements], Parts] | None:
    """The gradient of `op` for these operands, None where there is no rule."""
    back = BACK.get(op)
    is_half = any(each.dtype == np.float16 for each in operands)
    if back is None or (is_half and op in _WIDE):
        return None
    wide = [each.astype(np.float64) if each.dtype.kind == "f" else each for each in operands]

    def parts(g: Elements) -> Parts:
        found = back(g, wide, values)
        pairs = zip(found, operands, strict=True)
        return [
            None if part is None or each.dtype.kind != "f"
            else unspread(part, each.shape, each.dtype.name)
            for part, each in pairs
        ]  # fmt: skip

    return parts
