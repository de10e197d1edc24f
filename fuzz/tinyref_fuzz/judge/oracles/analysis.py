"""Compute the span of every node of a kernel AST: a second evaluator that knows uncertainty.

It shares only two things with the AST evaluator: the semantics of ops on numbers, which
`reference.py` checks, and `numpy_indices`, which reads views. If the two differ on certain
elements, one of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref import config
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import positions_of
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, ReduceArg, SlotArg, VarArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref_fuzz.judge.oracles.arithmetic import apply, without_rounding
from tinyref_fuzz.judge.oracles.oracle import AllowedElements
from tinyref_fuzz.judge.oracles.reduces import Additions, reduce_spans, smallest_normal
from tinyref_fuzz.judge.oracles.span import Span, Values, either, mask_of, point, span, widen
from tinyref_spec.bits import BoolArray
from tinyref_spec.error_rules import ulp_limit
from tinyref_spec.kernel_case import Array

ELEMENTARY = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW})
# If floats are not strict, the next op may use the exact result of these.
CONTRACTED = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.CAST})


# Ops that a compiler transforms if it treats floats as exact numbers.
ALGEBRAIC = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.NEG, Ops.FDIV, Ops.RECIP})
# Such a compiler may look through these at their sources.
TRANSPARENT = frozenset({Ops.WHERE, Ops.MAX, Ops.CAST, Ops.SQRT})
# The logarithm ends in a sum. The other functions assemble their results from bits.
SUMS = ALGEBRAIC | {Ops.LOG2, Ops.REDUCE}


@dataclass(frozen=True)
class Arithmetic:
    """Float arithmetic that a device declares; by default each operation rounds once."""

    flushes: bool = False
    contracts: bool = False
    reassociates: bool = False
    multiplies_tiles: bool = False
    """True if the sums of products of a program are computed by matrix tiles."""

    @classmethod
    def of(cls, capabilities: Capabilities) -> Arithmetic:
        return cls(
            not capabilities.keeps_subnormals,
            not capabilities.rounds_each_operation,
            capabilities.reassociates_floats,
        )


STRICT = Arithmetic()


class Analysis:
    """The values that the written slots of one kernel may hold, given the contents of its buffers.

    `arithmetic` says what the device may do with floats. If they are not strict, sums and products
    may be contracted. If it reassociates, a sum or product of computed values is unknown: other
    terms may cancel. If it multiplies tiles, products that are summed may be exact, and an addition
    rounds to either neighbour. Raises `UserError` for a node that does not belong in a kernel AST.
    """

    def __init__(
        self,
        ast: UOp,
        buffers: Sequence[Array],
        bindings: Mapping[str, int],
        arithmetic: Arithmetic = STRICT,
    ) -> None:
        self.is_strict = config.integer("STRICT_FLOAT") != 0
        self.buffers = buffers
        self.bindings = bindings
        self.arithmetic = arithmetic
        # Nodes whose value a compiler may know to be a sum or a product.
        self.algebraic: set[UOp] = set()
        self.spans: dict[UOp, Span] = {}
        # Nodes whose value within the span depends on how the kernel is compiled.
        self.loose: set[UOp] = set()
        self.allowed: dict[int, AllowedElements] = {}
        self.products = _summed_products(ast) if arithmetic.multiplies_tiles else frozenset[UOp]()
        with np.errstate(all="ignore"):
            for node in ast.toposort():
                self._visit(node)

    def _visit(self, node: UOp) -> None:
        if node.op in (Ops.SINK, Ops.DEFINE_GLOBAL, Ops.VIEW):
            return
        if node.op is Ops.STORE:
            self._store(node)
            return
        result = self._span(node)
        if self.arithmetic.reassociates and node.dtype.is_float:
            result = self._reassociated(node, result)
        if self.arithmetic.flushes and node.dtype.is_float:
            result = flush_subnormals(result, node.dtype)
        self.spans[node] = result
        is_free = node.op in ELEMENTARY or node.op is Ops.REDUCE or not self.is_strict
        is_source = is_free and node.dtype.is_float and not result.is_point
        if is_source or any(source in self.loose for source in node.src):
            self.loose.add(node)

    def _span(self, node: UOp) -> Span:
        arg = node.arg
        if isinstance(arg, ConstArg):
            return point(np.array(arg.value, numpy_dtype(node.dtype)))
        if isinstance(arg, VarArg):
            value = value_of(node, self.bindings)
            return point(np.array(value, numpy_dtype(node.dtype)))
        if node.op is Ops.LOAD:
            return self._load(node)
        if isinstance(arg, ViewArg):
            positions, valid, unknown = self._positions(node)
            return point(valid if node.op is Ops.VALID else positions.astype(np.int32), unknown)
        sources = [self.spans[source] for source in node.src]
        if isinstance(arg, ReduceArg):
            how = Additions(self.arithmetic.flushes, self.arithmetic.multiplies_tiles)
            return reduce_spans(arg.op, node.dtype, sources[0], arg.axes, how)
        if node.op in ALU:
            result = apply(node.op, node.dtype, [source.dtype for source in node.src], sources)
            contracts = node.op in CONTRACTED and node.dtype.is_float and not self.is_strict
            is_open = contracts or node in self.products
            return without_rounding(node.op, result, sources) if is_open else result
        raise UserError(f"oracle: {node.op.name} does not belong in a kernel AST")

    def _reassociated(self, node: UOp, value: Span) -> Span:
        """Return the span if float arithmetic may be transformed as if it were exact."""
        is_computed = any(source in self.algebraic for source in node.src)
        if node.op in SUMS or (node.op in TRANSPARENT and is_computed):
            self.algebraic.add(node)
        if node.op is Ops.POW:
            limit = ulp_limit(node.op.name, node.dtype, False, True)
            return widen(value, limit, ~np.isfinite(value.low) | (value.low == 0))
        if node.op not in ALGEBRAIC:
            return value
        unknown = mask_of(value) | ~np.isfinite(value.low) | ~np.isfinite(value.high) | is_computed
        # Zeros lose their signs.
        return span(value.low, value.high, unknown, np.ones(value.low.shape, np.bool_))

    def _positions(self, view: UOp) -> tuple[Values, BoolArray, BoolArray | None]:
        """Return the element of each position, whether there is one, and if that is unknown."""
        if not isinstance(view.arg, ViewArg):
            raise UserError(f"oracle: {view.op.name} does not carry a view")
        positions, valid = tracker_of(view).numpy_indices(self.bindings)
        coordinates = [self.spans[node] for node in positions_of(view)]
        if not coordinates:
            return positions, valid, None
        return _at_coordinates(positions, valid, coordinates)

    def _buffer(self, view: UOp, positions: Values) -> tuple[int, Array]:
        """Return the slot of a VIEW, and its contents, which must include all `positions`."""
        arg = view.src[0].arg if view.src else None
        if not isinstance(arg, SlotArg):
            raise UserError("oracle: a LOAD or STORE needs a VIEW of a DEFINE_GLOBAL")
        if not 0 <= arg.slot < len(self.buffers):
            raise UserError(f"oracle: no buffer for slot {arg.slot}")
        buffer = self.buffers[arg.slot]
        if positions.size and not 0 <= positions.min() <= positions.max() < buffer.size:
            raise UserError(
                f"oracle: a view of slot {arg.slot} reaches from {positions.min()} to "
                f"{positions.max()}, the buffer has {buffer.size} elements"
            )
        return arg.slot, buffer

    def _load(self, node: UOp) -> Span:
        view = node.src[0]
        positions, valid, unknown = self._positions(view)
        where = positions[valid]
        _, buffer = self._buffer(view, where)
        value = np.zeros(positions.shape, numpy_dtype(node.dtype))
        value[valid] = buffer[where].astype(value.dtype)
        return point(value, unknown)

    def _store(self, node: UOp) -> None:
        view, source = node.src
        positions, valid, _ = self._positions(view)
        where = positions[valid]
        slot, before = self._buffer(view, where)
        stored = self.spans[source]
        ends = []
        for end in (stored.low,) if stored.is_point else (stored.low, stored.high):
            after = before.copy()
            after[where] = np.broadcast_to(end, positions.shape)[valid].astype(before.dtype)
            ends.append(after)
        unknown = None
        if stored.unknown is not None:
            unknown = np.zeros(before.shape, np.bool_)
            unknown[where] = np.broadcast_to(stored.unknown, positions.shape)[valid]
        is_loose = source in self.loose and not stored.is_point
        self.allowed[slot] = AllowedElements(ends[0], ends[-1], unknown, is_loose)


def _summed_products(ast: UOp) -> frozenset[UOp]:
    """Return the products of floats that are summed, directly or after a conversion."""
    products = set()
    for node in ast.toposort():
        if not (isinstance(node.arg, ReduceArg) and node.arg.op is Ops.ADD):
            continue
        (source,) = node.src
        while source.op is Ops.CAST:
            (source,) = source.src
        if source.op is Ops.MUL and source.dtype.is_float:
            products.add(source)
    return frozenset(products)


def _at_coordinates(
    positions: Values, valid: BoolArray, coordinates: Sequence[Span]
) -> tuple[Values, BoolArray, BoolArray | None]:
    """Select the positions of a view at computed coordinates, which belong to its last axes."""
    rank = positions.ndim - len(coordinates)
    own, sizes = positions.shape[:rank], positions.shape[rank:]
    shape = np.broadcast_shapes(own, *(coordinate.low.shape for coordinate in coordinates))
    number, inside = np.zeros(shape, np.int64), np.ones(shape, np.bool_)
    unknown: BoolArray | None = None
    for coordinate, size in zip(coordinates, sizes, strict=True):
        at = coordinate.low.astype(np.int64)
        fits = (at >= 0) & (at < size)
        number = number * size + np.where(fits, at, 0)
        inside = inside & fits
        unknown = either(unknown, coordinate.unknown)
    if unknown is not None:
        unknown = np.broadcast_to(unknown, shape)
    count = math.prod(sizes)
    if not count:
        return np.zeros(shape, np.int64), np.zeros(shape, np.bool_), unknown
    taken: list[Values] = []
    for table in (positions, valid):
        rows = np.broadcast_to(table.reshape(*own, count), (*shape, count))
        taken.append(np.take_along_axis(rows, number[..., None], -1)[..., 0])
    inside = inside & taken[1]
    return np.where(inside, taken[0], 0), inside, unknown


def flush_subnormals(value: Span, dtype: DType) -> Span:
    """Let subnormals be a zero of either sign."""
    least = smallest_normal(dtype)
    small = [(np.abs(end) < least) for end in (value.low, value.high)]
    if not (small[0] | small[1]).any():
        return value
    zero = np.zeros((), value.low.dtype)
    low = np.where(small[0] & (value.low > 0), zero, value.low)
    high = np.where(small[1] & (value.high < 0), zero, value.high)
    is_open = value.open() | (small[0] & (value.low != 0)) | (small[1] & (value.high != 0))
    return span(low, high, mask_of(value), is_open)
