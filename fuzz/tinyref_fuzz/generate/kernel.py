"""Draw the parts of a kernel: its axes, its buffers, and the values that it loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.uops import build
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.data import Content
from tinyref_fuzz.generate.policies import DTYPES, Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.values import (
    DrawnValue,
    Number,
    Shape,
    exact_bound,
    full_range,
    is_one,
    most,
    positions,
)
from tinyref_fuzz.generate.views import draw_view
from tinyref_spec.kernel_case import Mode

# First slot of the inputs while the number of outputs is not known.
FIRST_INPUT = 64
# Bounds of exact floats: most are small, so that many can be summed and multiplied.
FLOAT_BOUNDS = (3, 2, 1, 7, 15, 100)
SMALL_INTEGERS = (3, 1, 7, 20, 100)
MAX_REDUCES = 4
# Largest number of terms in all reduces of a kernel.
MAX_TERMS = 1 << 14
SIGNS = ("both", "negative", "positive"), (6, 1, 1)


@dataclass
class DrawnKernel:
    """The parts of a kernel that are already drawn."""

    tape: Tape
    policy: Policy
    mode: Mode
    dtypes: tuple[DType, ...]
    space: Shape = ()
    """The sizes of all axes; values have these sizes or 1."""
    outer: tuple[int, ...] = ()
    """The axes of the outputs."""
    inputs: dict[int, Content] = field(default_factory=dict)
    """The contents by slot."""
    loads: list[DrawnValue] = field(default_factory=list)
    """The loads, which may be used again."""
    bindings: dict[str, int] = field(default_factory=dict)
    """The values of variables."""
    reduces: int = 0
    is_symbolic: bool = False
    buffers: int = FIRST_INPUT
    """The largest number of buffers that the device accepts."""

    @classmethod
    def draw(cls, tape: Tape, policy: Policy, capabilities: Capabilities) -> DrawnKernel:
        """Draw an empty kernel for a device: its mode, and whether it has a variable."""
        supported = tuple(dtype for dtype in DTYPES if capabilities.supports(dtype))
        modes = tuple(Mode)
        mode = tape.pick(modes, [policy.modes.get(mode, 1) for mode in modes])
        kernel = cls(tape, policy, mode, supported)
        kernel.is_symbolic = tape.chance(policy.symbolic)
        kernel.buffers = capabilities.buffer_limit
        return kernel

    # --- types ------------------------------------------------------------------------------------

    def dtype(self, accepted: Sequence[DType] | None = None) -> DType:
        """Draw a type of the device that can compute, from those that are accepted."""
        computing = [
            dtype
            for dtype in self.dtypes
            if dtype not in dtypes.storage_only and (accepted is None or dtype in accepted)
        ]
        choices = computing or list(self.dtypes)
        return self.tape.pick(choices, [self.policy.dtypes.get(dtype, 1) for dtype in choices])

    def number(self) -> DType:
        """Draw a type of the device that adds and multiplies."""
        return self.dtype([*dtypes.floats, *dtypes.ints])

    def integer(self) -> DType:
        """Draw an integer type of the device."""
        return self.dtype(dtypes.ints)

    def has(self, *required: DType) -> bool:
        """Return True if the device has these types."""
        return all(dtype in self.dtypes for dtype in required)

    # --- axes -------------------------------------------------------------------------------------

    def extent(self, choices: Sequence[int] | None = None) -> int:
        """Draw the size of an axis, which is rarely 0."""
        if self.tape.chance(2):
            return 0
        return self.tape.pick(self.policy.extents if choices is None else choices)

    def add_axes(self, sizes: Sequence[int], *, outer: bool) -> tuple[int, ...]:
        """Add axes, reduced in size if the space would be too large; return their numbers."""
        added = []
        for size in sizes:
            room = self.policy.most // max(1, positions(self.space))
            self.space = (*self.space, min(size, max(room, 1 if outer else 2)))
            added.append(len(self.space) - 1)
        if outer:
            self.outer = (*self.outer, *added)
        return tuple(added)

    def add_outer(self, least: int, most: int) -> tuple[int, ...]:
        """Add `least` to `most` axes of the outputs; return their numbers."""
        count = self.tape.between(least, most)
        return self.add_axes([self.extent() for _ in range(count)], outer=True)

    def add_inner(self, *sizes: int) -> tuple[int, ...]:
        """Add axes that only reduces iterate over; return their numbers."""
        return self.add_axes(sizes, outer=False)

    def make_symbolic(self) -> None:
        """Replace the size of an axis by a variable, if the kernel should have one."""
        axes = [axis for axis, size in enumerate(self.space) if isinstance(size, int) and size > 1]
        if not self.is_symbolic or not axes:
            return
        axis = self.tape.pick(axes)
        size = self._symbolic_size(most(self.space[axis]))
        self.space = (*self.space[:axis], size, *self.space[axis + 1 :])

    def _symbolic_size(self, largest: int) -> UOp:
        """Return a size of at most `largest`: n, n plus a constant, twice n, or half of n."""
        half = 2 * largest - 1
        more = self.tape.between(1, largest - 1)
        # Pairs of the largest value of the variable, and the size that it gives.
        ways: tuple[tuple[int, Callable[[UOp], UOp]], ...] = (
            (largest, lambda n: n),
            (largest - more, lambda n: build.add(n, more)),
            (largest // 2, lambda n: build.mul(n, 2)),
            (half, lambda n: build.idiv(build.add(n, 1), 2)),
        )
        largest_value, size_of = self.tape.pick(ways, (4, 2, 2, 4))
        self.bindings["n"] = self.tape.between(1, largest_value)
        return size_of(build.variable("n", 1, largest_value))

    def shape(self, axes: Sequence[int]) -> Shape:
        """Return the shape that has these axes of the space, and 1 elsewhere."""
        return tuple(size if axis in axes else 1 for axis, size in enumerate(self.space))

    # --- buffers ----------------------------------------------------------------------------------

    def content_range(self, dtype: DType) -> tuple[Number, Number]:
        """Draw the range of the contents of a new buffer."""
        if dtype.is_bool:
            return 0, 1
        sign = self.tape.pick(*SIGNS)
        if self.mode is Mode.EDGE:
            return full_range(dtype)
        if dtype.is_int:
            return self._integer_range(dtype, sign)
        if self.mode is Mode.EXACT:
            largest: Number = min(self.tape.pick(FLOAT_BOUNDS), exact_bound(dtype) // 2)
            least: Number = 1
        else:
            least, largest = self.tape.pick(((0.25, 4.0), (0.5, 2.0), (0.0625, 1.0)))
        return _has_sign(sign, -largest, least, largest)

    def _integer_range(self, dtype: DType, sign: str) -> tuple[Number, Number]:
        low, high = full_range(dtype)
        if not self.tape.chance(self.policy.wide_data):
            largest = self.tape.pick(SMALL_INTEGERS)
            low, high = max(low, -largest), largest
        return (low, high) if dtype.is_unsigned else _has_sign(sign, low, 1, high)

    def buffer(self, dtype: DType, size: int, span: tuple[Number, Number]) -> UOp:
        """Add an input."""
        slot = FIRST_INPUT + len(self.inputs)
        seed = self.tape.below(1 << 32)
        self.inputs[slot] = Content(dtype, size, *span, seed)
        return build.define_global(slot, dtype, size)

    def load(self, shape: Shape, dtype: DType, moves: int | None = None) -> DrawnValue:
        """Draw a load through a drawn view, perhaps of a buffer that is already loaded."""
        moves = self.policy.moves if moves is None else moves
        tracker = draw_view(self.tape, shape, moves)
        return self.load_through(tracker, dtype, self._buffer_for(tracker, dtype))

    def load_through(
        self, tracker: ShapeTracker, dtype: DType, buffer: UOp | None = None
    ) -> DrawnValue:
        """Load through `tracker`, from a new buffer by default."""
        if buffer is None:
            span = self.content_range(dtype)
            buffer = self.buffer(dtype, max(1, tracker.real_size()), span)
        return self.record(
            self.value_of_load(build.view(buffer, tracker), tracker.shape, tracker.is_masked)
        )

    def value_of_load(self, address: UOp, shape: Shape, is_masked: bool) -> DrawnValue:
        """Return the value of a load; its range is the contents' range, with 0 if it is masked."""
        content = self.inputs[slot_of(address)]
        low, high = content.low, content.high
        if is_masked:
            low, high = min(low, 0), max(high, 0)
        return DrawnValue(build.load(address), shape, low, high, max(abs(low), abs(high)))

    def _buffer_for(self, tracker: ShapeTracker, dtype: DType) -> UOp | None:
        """Return a sufficiently large buffer that is already loaded, in a few draws."""
        if not self.tape.chance(12):
            return None
        size = tracker.real_size()
        fitting = [
            value.node.src[0].src[0]
            for value in self.loads
            if value.dtype is dtype and self.inputs[slot_of(value.node.src[0])].size >= size
        ]
        return self.tape.pick(fitting) if fitting else None

    def record(self, value: DrawnValue) -> DrawnValue:
        """Record `value`, which may be used again, and return it."""
        self.loads.append(value)
        return value

    def existing_load(self, shape: Shape, dtype: DType) -> DrawnValue | None:
        """Draw a load that exists already and fits the shape; None if there is none."""
        fitting = [
            value for value in self.loads if value.dtype is dtype and _fits(value.shape, shape)
        ]
        return self.tape.pick(fitting) if fitting else None

    def reused_load(self, shape: Shape, dtype: DType, moves: int | None = None) -> DrawnValue:
        """Draw a load that exists already, or else a new one."""
        return self.existing_load(shape, dtype) or self.load(shape, dtype, moves)

    # --- leaves -----------------------------------------------------------------------------------

    def leaf(self, shape: Shape, dtype: DType) -> DrawnValue:
        """Draw a new or existing load, a constant, the numbers of elements or a mask."""
        choice = self.tape.below(20)
        if choice < 8:
            return self.load(shape, dtype)
        if choice < 13:
            return self.reused_load(shape, dtype)
        if choice < 17 or dtype in dtypes.storage_only:
            return self.constant(dtype)
        return self.element_numbers(shape, dtype) if choice < 19 else self.valid(shape, dtype)

    def constant(self, dtype: DType) -> DrawnValue:
        """Draw a small number, or, for integers, a number of any size."""
        if dtype.is_bool:
            number: Number = self.tape.below(2)
        elif dtype.is_float:
            number = self.tape.between(0, 3) - (3 if self.tape.below(2) else 0)
        elif self.tape.chance(30):
            low, high = full_range(dtype)
            number = self.tape.pick((low, high, high // 2, high - 1, -low // 2 or 1))
        else:
            number = self.tape.pick((1, 2, 3, 5, 7, 10, 100, 0))
            number = -number if not dtype.is_unsigned and self.tape.below(2) else number
        node = build.const(dtype, float(number) if dtype.is_float else int(number))
        return DrawnValue(node, (1,) * len(self.space), number, number, abs(number))

    def element_numbers(self, shape: Shape, dtype: DType) -> DrawnValue:
        """Return the numbers of elements through a drawn view, small enough for every type."""
        tracker = draw_view(self.tape, shape, self.policy.moves)
        numbers = build.iota(tracker)
        if dtype.is_int and dtype.bits > 16 and self.tape.below(2):
            high = max(0, tracker.real_size() - 1)
            return DrawnValue(build.cast(numbers, dtype), shape, 0, high, high)
        period = self.tape.between(2, 4)
        high = 1 if dtype.is_bool else period - 1
        return DrawnValue(build.cast(build.mod(numbers, period), dtype), shape, 0, high, high)

    def mask(self, shape: Shape) -> DrawnValue:
        """Return True where a drawn view has elements."""
        tracker = draw_view(self.tape, shape, max(2, self.policy.moves))
        return DrawnValue(build.valid(tracker), shape, 0, 1, 1)

    def valid(self, shape: Shape, dtype: DType) -> DrawnValue:
        """Return 1 where a drawn view has elements, else 0."""
        value = self.mask(shape)
        return DrawnValue(build.cast(value.node, dtype), shape, 0, 1, 1)


def _has_sign(sign: str, low: Number, least: Number, high: Number) -> tuple[Number, Number]:
    if sign == "both" or low >= 0:
        return low, high
    return (low, -least) if sign == "negative" else (least, high)


def _fits(shape: Shape, into: Shape) -> bool:
    return all(
        is_one(size) or size is other or size == other
        for size, other in zip(shape, into, strict=True)
    )
