"""The value of any expression of a kernel at sampled positions, and where it is specified.

Counters, variables and what comes from outside of the expression are drawn, the corners of their
ranges more often; everything else follows. So the two sides of a rule that fired can be compared
wherever in the compiler that was.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra import semantics
from tinyref.algebra.bounds import value_range
from tinyref.dtype import DType, PtrDType, dtypes, numpy_dtype
from tinyref.formats.text import node_text
from tinyref.uops.build import skip_after
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, VarArg

Array = npt.NDArray[Any]

COUNT = 384
# Two axes: one of samples, one of lanes. With the value comes where it is specified.
Sample = tuple[Array, Array]

_SHIFTS = frozenset({Ops.SHL, Ops.SHR})
_DIVISIONS = frozenset({Ops.IDIV, Ops.MOD})
YES = np.ones((1, 1), np.bool_)


class Samples:
    """Samples of the nodes of one kernel; what was computed once is kept.

    buffers: what loads find, by slot. bindings: the values that variables often have.
    """

    def __init__(self, buffers: Mapping[int, Array], bindings: Mapping[str, int]) -> None:
        self.buffers = buffers
        self.bindings = bindings
        self.found: dict[UOp, Sample] = {}
        # Whether a counter has no iteration: then nothing can be decided.
        self.is_empty = False

    def of(self, root: UOp) -> Sample:
        """The samples of `root`; all nodes below it have theirs then too."""
        with np.errstate(all="ignore"):
            for node in root.toposort():
                if node not in self.found:
                    self.found[node] = self._sample(node)
        return self.found[root]

    def _sample(self, node: UOp) -> Sample:
        argument = node.arg
        if isinstance(argument, ConstArg):
            shape = (1, node.dtype.lanes)
            return np.full(shape, argument.value, numpy_dtype(node.dtype.scalar)), YES
        if node.op in (Ops.RANGE, Ops.SPECIAL):
            return self._counter(node)
        if isinstance(argument, VarArg):
            return self._variable(node, argument)
        if node.op in ALU:
            return self._arithmetic(node)
        if node.op is Ops.LOAD:
            return self._load(node)
        if node.op is Ops.VECTORIZE:
            parts = [self.found[source] for source in node.src]
            shape = np.broadcast_shapes(*(part[0].shape for part in parts))
            values = [np.broadcast_to(value, shape) for value, _ in parts]
            specified = [np.broadcast_to(known, shape) for _, known in parts]
            return np.concatenate(values, axis=1), np.concatenate(specified, axis=1)
        if isinstance(argument, GepArg) and len(node.src) == 1:
            value, known = self.found[node.src[0]]
            lanes = list(argument.lanes)
            return value[:, lanes], np.broadcast_to(known, value.shape)[:, lanes]
        return self._draw_value(node)

    def _random(self, node: UOp) -> np.random.Generator:
        # The same numbers for the same node on any machine, however it was come by.
        text = f"{node_text(node)} {len(node.toposort())} {len(self.found)}"
        return np.random.default_rng(zlib.crc32(text.encode()))

    def _between(self, random: np.random.Generator, low: Array, high: Array) -> Array:
        """Integers from low to high, every other one of them an end."""
        inside = low + (random.random((COUNT, 1)) * (high - low + 1)).astype(np.int64)
        corner = random.integers(0, 4, (COUNT, 1))
        return np.where(corner == 0, low, np.where(corner == 1, high, np.clip(inside, low, high)))

    def _counter(self, node: UOp) -> Sample:
        extent, known = self.found[node.src[0]]
        extent = extent.astype(np.int64)
        is_turning = extent > 0
        if not is_turning.any():
            self.is_empty = True
        last = np.maximum(extent - 1, 0)
        value = self._between(self._random(node), np.zeros((1, 1), np.int64), last)
        return value.astype(numpy_dtype(node.dtype)), known & is_turning

    def _variable(self, node: UOp, argument: VarArg) -> Sample:
        random = self._random(node)
        low, high = (np.full((1, 1), end) for end in (argument.minimum, argument.maximum))
        value = self._between(random, low, high)
        if argument.name in self.bindings:
            is_bound = random.integers(0, 2, (COUNT, 1)) == 0
            value = np.where(is_bound, self.bindings[argument.name], value)
        return value.astype(numpy_dtype(node.dtype)), YES

    def _load(self, node: UOp) -> Sample:
        """What the memory holds there: the buffer's own contents, or drawn ones."""
        index = skip_after(node.src[0])
        memory = skip_after(index.src[0]) if index.src else index
        if index.op is not Ops.INDEX or len(index.src) != 2 or index.src[1] not in self.found:
            return self._draw_value(node)
        content = self._content(memory, node.dtype.scalar)
        position, known = self.found[index.src[1]]
        at = position.astype(np.int64) + np.arange(node.dtype.lanes)
        is_inside = (at >= 0) & (at < content.size)
        value = (
            content[np.where(is_inside, at, 0)]
            if content.size
            else np.zeros_like(at, content.dtype)
        )
        known = known & is_inside
        if len(node.src) < 3:
            return value, known
        gate, is_gate_known = self.found[node.src[2]]
        other, is_other_known = self.found[node.src[1]]
        return np.where(gate, value, other), is_gate_known & np.where(gate, known, is_other_known)

    def _content(self, memory: UOp, dtype: DType) -> Array:
        wanted = numpy_dtype(dtype)
        slot = memory.arg.slot if isinstance(memory.arg, SlotArg) else -1
        size = memory.dtype.size if isinstance(memory.dtype, PtrDType) else 0
        if slot in self.buffers:
            held = np.ascontiguousarray(self.buffers[slot])
            return held if held.dtype == wanted else held.view(wanted)
        return draw(np.random.default_rng(size), dtype, (size,))

    def _draw_value(self, node: UOp) -> Sample:
        """A value from outside of the expression: any that its range admits."""
        dtype = node.dtype
        if isinstance(dtype, PtrDType) or dtype is dtypes.void:
            return np.zeros((1, 1), np.int64), YES
        value = draw(self._random(node), dtype.scalar, (COUNT, dtype.lanes))
        span = value_range(node)
        if span is not None and not dtype.is_bool:
            low, high = (int(end) for end in span)
            is_narrow = low > int(dtype.minimum) or high < int(dtype.maximum)
            value = np.clip(value, low, high) if is_narrow else value
        return value.astype(numpy_dtype(dtype.scalar)), YES

    # Arithmetic

    def _arithmetic(self, node: UOp) -> Sample:
        parts = [self.found[source] for source in node.src]
        types = [source.dtype for source in node.src]
        value = semantics.apply(node.op, node.dtype, [part[0] for part in parts], types)
        return value, self._is_specified(node, parts)

    def _is_specified(self, node: UOp, parts: list[Sample]) -> Array:
        """Where the semantics specify the value of `node`, from where they do its sources."""
        known = [part[1] for part in parts]
        values = [part[0] for part in parts]
        if node.op is Ops.WHERE:
            return known[0] & np.where(values[0], known[1], known[2])
        if node.op in (Ops.AND, Ops.OR) and node.dtype.is_bool:
            decides = node.op is Ops.OR
            return np.asarray(
                (known[0] & known[1])
                | (known[0] & (values[0] == decides))
                | (known[1] & (values[1] == decides))
            )
        every: Array = np.logical_and.reduce(np.broadcast_arrays(*known))
        return every & _is_specified(node, values)


def _is_specified(node: UOp, values: list[Array]) -> Array:
    dtype = node.dtype.scalar
    if node.op in _DIVISIONS:
        overflows = (values[1] == -1) & (values[0] == dtype.minimum) if not dtype.is_unsigned else 0
        return np.asarray((values[1] != 0) & ~np.asarray(overflows, np.bool_))
    if node.op in _SHIFTS:
        return np.asarray((values[1] >= 0) & (values[1] < dtype.bits))
    if node.op is Ops.MAX and dtype.is_float:
        return np.asarray((values[0] == values[0]) & (values[1] == values[1]))
    if node.op is Ops.CAST and node.src[0].dtype.is_float and dtype.is_int:
        wide = np.trunc(values[0].astype(np.float64))
        return np.asarray((wide >= float(dtype.minimum)) & (wide < float(dtype.maximum) + 1))
    return YES


def draw(random: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Values of a scalar type: small ones, and for integers any and the ends of the type."""
    wanted = numpy_dtype(dtype)
    if dtype.is_bool:
        return random.integers(0, 2, shape).astype(wanted)
    small = random.integers(-8, 9, shape)
    if dtype.is_float:
        return (small / 2).astype(wanted)
    low, high = int(dtype.minimum), int(dtype.maximum)
    if dtype is dtypes.index:
        return small.astype(wanted)
    any_ = random.integers(low, high, shape, dtype=wanted.type, endpoint=True)
    ends = random.choice(np.array([low, low + 1, high - 1, high], wanted), shape)
    small = (np.abs(small) if dtype.is_unsigned else small).astype(wanted)
    kind = random.integers(0, 3, shape)
    return np.where(kind == 0, small, np.where(kind == 1, any_, ends))
