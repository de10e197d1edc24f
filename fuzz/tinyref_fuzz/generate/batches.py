"""Batches: kernels of many expressions over a few points, for a judge that compiles none of them.

What is drawn is what kernels of many outputs have (`several.py`), and expressions behind conditions
of the same numbers. Data are of a small stock, so that an expression costs little beside its rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

import numpy as np

from tinyref.device import Capabilities
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.free import counter, expression_leaves, is_specified
from tinyref_fuzz.generate.kernel import Kernel
from tinyref_fuzz.generate.policies import Policy
from tinyref_fuzz.generate.several import KINDS, SHAPES_OF_CHAINS, chain_of, operation
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import Number, Shape, Value, full_range, value_in_range
from tinyref_spec.kernel_case import Array, Case, Mode
from tinyref_spec.proofs.expressions import drawn_over

# Expressions of a batch: enough to share their leaves, few enough to be named by one.
EXPRESSIONS = 12
SHAPES = ((30,), (24,), (8, 4), (3, 4, 3))
# Loads of one type in a batch, and how many contents of a buffer there are in stock.
LOADS = 3
STOCK = 48


@dataclass
class _Points(Kernel):
    """A kernel whose buffers lie behind all of its outputs, with contents of the stock."""

    def buffer(self, dtype: DType, size: int, span: tuple[Number, Number]) -> UOp:
        """A new input."""
        slot = EXPRESSIONS + len(self.inputs)
        self.inputs[slot] = Content(dtype, size, *span, self.tape.below(STOCK))
        return build.define_global(slot, dtype, size)

    def load(self, shape: Shape, dtype: DType, moves: int | None = None) -> Value:
        """One of a few loads of a type, each of its own buffer as it lies."""
        there = [value for value in self.loads if value.dtype is dtype and value.shape == shape]
        if len(there) >= LOADS or (there and self.tape.below(2)):
            return self.tape.pick(there)
        return self.load_through(ShapeTracker.from_shape(shape), dtype)


def draw_batch(
    tape: Tape, capabilities: Capabilities, policy: Policy, is_of_views: bool = False
) -> Case:
    """A case of `EXPRESSIONS` outputs of one shape, without optimisations, all of one tape.

    is_of_views: outputs are buffers, each seen through a chain of movements.
    """
    kernel = _Points.draw(tape, policy, capabilities)
    draw = Expressions(kernel)
    axes = kernel.add_axes(tape.pick(SHAPES_OF_CHAINS if is_of_views else SHAPES), outer=True)
    kernel.make_symbolic()
    shape = kernel.shape(axes)
    earlier: list[Value] = []
    kinds, weights = zip(*(_CHAINS if is_of_views else _KINDS), strict=True)
    values = []
    for _ in range(EXPRESSIONS):
        found = tape.pick(kinds, weights)(draw, shape, earlier) or operation(draw, shape)
        values.append(found if found.dtype in kernel.dtypes else operation(draw, shape))
    return _case(kernel, values, shape)


def _case(kernel: Kernel, values: list[Value], shape: Shape) -> Case:
    """The kernel that stores each value along all axes, and its buffers."""
    tracker = ShapeTracker.from_shape(shape)
    size = max(1, tracker.real_size())
    stores = []
    for slot, value in enumerate(values):
        memory = build.define_global(slot, value.dtype, size)
        stores.append(build.store(build.view(memory, tracker), value.node))
    written = [np.zeros(size, numpy_dtype(value.dtype)) for value in values]
    read = [_contents(content, kernel.mode) for content in kernel.inputs.values()]
    bindings = MappingProxyType(kernel.bindings)
    return Case(build.sink(*stores), (*written, *read), bindings=bindings, mode=kernel.mode)


@functools.lru_cache(maxsize=4096)
def _contents(content: Content, mode: Mode) -> Array:
    return content.array(mode)


def _guarded(draw: Expressions, shape: Shape, earlier: list[Value]) -> Value | None:
    """A number where a condition on the same leaves holds: a rule may use that it does."""
    leaves = expression_leaves(draw, shape)
    if leaves is None:
        return None
    is_fixed = all(isinstance(size, int) for size in shape)
    if is_fixed and leaves[0].dtype is dtypes.int32 and draw.tape.below(2):
        # Of positions, which never wrap.
        leaves = [build.cast(counter(draw, shape), dtypes.index) for _ in leaves]
    nodes = [drawn_over(leaves, Random(draw.tape.below(1 << 16))) for _ in range(4)]
    flags = [node for node in nodes if node.dtype.is_bool]
    numbers = [node for node in nodes if not node.dtype.is_bool]
    if not flags or len(nodes) < 2:
        return None
    if numbers:
        node = build.where(flags[0], numbers[0], numbers[-1] if len(numbers) > 1 else 0)
    else:
        node = build.both(flags[0], flags[-1])
    if not is_specified(node, draw.kernel.dtypes):
        return None
    node = build.cast(node, dtypes.int32) if node.dtype is dtypes.index else node
    return value_in_range(draw.kernel.mode, node, shape, *full_range(node.dtype))


Kind = Callable[[Expressions, Shape, list[Value]], Value | None]
_KINDS: tuple[tuple[Kind, int], ...] = (*KINDS, (_guarded, 20))
_CHAINS: tuple[tuple[Kind, int], ...] = ((lambda draw, shape, _: chain_of(draw, shape), 1),)
