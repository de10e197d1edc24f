"""Draw what a kernel stores, and finish the case: stores, buffers, bindings, optimisations."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.payload import SlotArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.arithmetic import convert
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.generate.expressions import Expressions
from tinyref_fuzz.generate.kernel import FIRST_INPUT
from tinyref_fuzz.generate.values import DrawnValue, Shape, is_one
from tinyref_fuzz.generate.views import draw_target
from tinyref_spec.kernel_case import Array

MAX_OUTPUTS = 3
# Percentage of outputs that are stored in another order, with gaps, or only partly.
MOVED_STORES = 20
# Percentage of kernels with an in-place output that only other outputs read.
SPECTATORS = 50


class OutputDraws:
    """Stores of a kernel, drawn around its main value."""

    def __init__(self, draw: Expressions) -> None:
        self.draw = draw
        self.kernel = draw.kernel
        self.tape = draw.tape
        self.contents: list[Content] = []
        self.stores: list[UOp] = []

    def draw_outputs(self, value: DrawnValue) -> tuple[UOp, tuple[Array, ...]]:
        """Return the kernel that stores `value`, and perhaps more outputs: AST and contents."""
        policy = self.draw.policy
        shape = self._shape(value)
        value = self._widen(value)
        tracker = draw_target(self.tape, shape, MOVED_STORES)
        extra: list[DrawnValue] = []
        if self.tape.chance(policy.outputs):
            extra = [self._more(value) for _ in range(self.tape.between(1, MAX_OUTPUTS - 1))]
        buffer = self._buffer(value, tracker)
        if self.tape.chance(policy.in_place):
            value, extra = self._in_place(value, extra, self._before(buffer, tracker))
        self.stores.append(build.store(build.view(buffer, tracker), value.node))
        for other in extra:
            moved = draw_target(self.tape, other.shape, MOVED_STORES)
            self.stores.append(
                build.store(build.view(self._buffer(other, moved), moved), other.node)
            )
        return self._finish()

    def _in_place(
        self, value: DrawnValue, extra: list[DrawnValue], before: DrawnValue
    ) -> tuple[DrawnValue, list[DrawnValue]]:
        """Return the main value and the others, combined with the old contents of the main output.

        No output may read an element that the kernel has already written. In some kernels only
        others read it: then no value that is stored there delays the store.
        """
        if not extra and self.tape.chance(SPECTATORS):
            extra = [value]
        if not _is_whole(before.shape, extra):
            return value, extra
        readers = [
            self.draw.join(before, other) if other.dtype is before.dtype else other
            for other in extra
        ]
        if readers == extra or not self.tape.chance(SPECTATORS):
            value = self.draw.join(value, before)
        return value, readers

    def store(self, values: Sequence[DrawnValue]) -> tuple[UOp, tuple[Array, ...]]:
        """Return the kernel that stores each of `values` as it is: AST and contents."""
        for value in map(self._widen, values):
            tracker = ShapeTracker.from_shape(value.shape)
            address = build.view(self._buffer(value, tracker), tracker)
            self.stores.append(build.store(address, value.node))
        return self._finish()

    def _shape(self, value: DrawnValue) -> Shape:
        """Return the shape of the value, in some kernels with a repeated axis of the outputs."""
        shape = list(value.shape)
        for axis in self.kernel.outer:
            if is_one(shape[axis]) and self.tape.chance(25):
                shape[axis] = self.kernel.space[axis]
        return tuple(shape)

    def _widen(self, value: DrawnValue) -> DrawnValue:
        """Cast a value whose type the device cannot store to a type that it has."""
        return value if value.dtype in self.kernel.dtypes else self._cast(value)

    def _cast(self, value: DrawnValue) -> DrawnValue:
        target = self.tape.pick(self.kernel.dtypes)
        return convert(self.draw, value, target) or value

    def _more(self, value: DrawnValue) -> DrawnValue:
        """Draw another output: of the same value, of a load, or computed from them."""
        kernel = self.kernel
        result = value
        outer = kernel.shape(kernel.outer)
        fitting = [
            load for load in kernel.loads if _is_output_shape(load.shape, outer, value.shape)
        ]
        if self.tape.chance(30):
            # An output of fewer axes is written in the first iteration along the others.
            axes = [axis for axis in kernel.outer if self.tape.below(2)]
            result = self.draw.load(kernel.shape(axes), value.dtype)
        elif fitting and self.tape.chance(60):
            result = self.tape.pick(fitting)
        if self.tape.chance(25):
            result = self._cast(result)
        if result.dtype not in dtypes.storage_only and self.tape.chance(70):
            grown = self.draw.grow(result)
            result = grown if _is_output_shape(grown.shape, outer, value.shape) else result
        return result

    def _buffer(self, value: DrawnValue, tracker: ShapeTracker) -> UOp:
        slot = len(self.contents)
        size = max(1, tracker.real_size())
        span = self.kernel.content_range(value.dtype)
        self.contents.append(Content(value.dtype, size, *span, self.tape.below(1 << 32)))
        return build.define_global(slot, value.dtype, size)

    def _before(self, buffer: UOp, tracker: ShapeTracker) -> DrawnValue:
        """Return the old contents of an output."""
        content = self.contents[-1]
        low, high = min(content.low, 0), max(content.high, 0)
        load = build.load(build.view(buffer, tracker))
        return DrawnValue(load, tracker.shape, low, high, max(abs(low), abs(high)))

    def _finish(self) -> tuple[UOp, tuple[Array, ...]]:
        """Return the kernel with slots numbered from 0, outputs first, and their contents."""
        ast = build.sink(*self.stores)
        used = {
            node.arg.slot: node
            for node in ast.toposort()
            if isinstance(node.arg, SlotArg) and node.arg.slot >= FIRST_INPUT
        }
        first = len(self.contents)
        slots = sorted(used)
        numbered = {
            used[slot]: used[slot].replace(arg=SlotArg(first + at)) for at, slot in enumerate(slots)
        }
        contents = [*self.contents, *(self.kernel.inputs[slot] for slot in slots)]
        arrays = tuple(content.array(self.kernel.mode) for content in contents)
        return substitute(ast, numbered), arrays


def _is_output_shape(shape: Shape, outer: Shape, main: Shape) -> bool:
    """Return True if an output may have this shape: its axes must be axes of the outputs."""
    return all(
        is_one(size) or not is_one(whole) or not is_one(own)
        for size, whole, own in zip(shape, outer, main, strict=True)
    )


def _is_whole(shape: Shape, others: list[DrawnValue]) -> bool:
    """Return True if no other output has an axis that `shape` lacks."""
    return all(
        is_one(size) or not is_one(whole)
        for other in others
        for size, whole in zip(other.shape, shape, strict=True)
    )
