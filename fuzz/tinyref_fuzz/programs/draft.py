"""Draft a program: its steps, each accepted by the oracle, and its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.steps import ProgramStep, Value

MAX_ELEMENTS = 48
MAX_LARGE = 640
LARGE_SHAPES = ((300,), (16, 16), (7, 7, 7), (2, 130))
MAX_AXES = 4
SHAPES = (
    (4,), (2, 3), (6,), (3, 4), (1, 4), (5,), (2, 2, 3), (), (3, 1), (2, 4), (7,), (0, 2),
    (2, 2, 2),
)  # fmt: skip
DTYPES = ("int32", "float32", "int8", "uint8", "int64", "bool", "int16", "uint32", "float16")
_DTYPE_WEIGHTS = (10, 8, 1, 1, 1, 2, 1, 1, 1)
FLOATS = frozenset({"float32", "float16"})
_REFUSED = (InexactError, UndefinedError, KeyError, IndexError, ValueError, TypeError)

Bounds = tuple[str, int, int]


@dataclass
class DraftFunction:
    """A function of the program."""

    step: ProgramStep
    examples: tuple[Array | None, ...]
    """The arguments of the first call; None for a bound size."""
    size: Bounds | None
    """The name and the bounds of the size, if it has one."""
    calls: int = 0
    """The number of calls."""


@dataclass
class DraftScope:
    """The target of new steps: the program, or the body of a function."""

    begin: Callable[[], Environment] = Environment
    """Returns the environment before the first step."""
    is_function: bool = False
    writable: frozenset[int] = frozenset()
    """The numbers of the stores that a function may write."""
    steps: list[ProgramStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environment = self.begin()

    def evaluate_again(self) -> None:
        """Undo everything after the last step that was added."""
        self.environment = self.begin()
        for step in self.steps:
            self.environment.run(step)


class ProgramDraft:
    """A program in the making, and a method to add a step to it."""

    def __init__(self, tape: Tape, devices: int) -> None:
        self.tape = tape
        self.devices = devices
        self.number = 0
        self.scope = DraftScope()
        self.functions: dict[int, DraftFunction] = {}
        # Stores that a function writes cannot be arguments, and tensors that it reads are not
        # dropped.
        self.state: set[int] = set()
        self.undroppable: set[int] = set()
        self.variables = 0
        # Largest number of elements of a tensor.
        self.most = MAX_ELEMENTS
        # The tensor that the next steps probably read.
        self.focus: int | None = None

    @property
    def arrays(self) -> dict[int, Array]:
        return self.scope.environment.arrays

    def _new(self) -> int:
        self.number += 1
        return self.number

    def _try(self, step: ProgramStep) -> bool:
        """Add the step if the oracle accepts it; return True if it did."""
        try:
            self.scope.environment.run(step)
            arrays = [self.arrays[number] for number in step.targets if number in self.arrays]
            is_accepted = all(array.positions.size <= self.most for array in arrays)
            is_accepted &= all(array.positions.ndim <= MAX_AXES for array in arrays)
        except _REFUSED:
            is_accepted = False
        if is_accepted:
            self.scope.steps.append(step)
        else:
            self.scope.evaluate_again()
        return is_accepted

    def _make(self, op: str, args: Sequence[int], *values: Value) -> int | None:
        """Add a step that makes one tensor; return its number, or None if it was refused."""
        target = self._new()
        return target if self._try(ProgramStep(op, tuple(args), (target,), values)) else None

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """Pick a tensor; recent ones are picked more often, as more steps lead to them."""
        if self.focus in self.arrays and fits(self.arrays[self.focus]) and self.tape.chance(70):
            return self.focus
        numbers = [number for number, array in self.arrays.items() if fits(array)]
        if not numbers:
            return None
        if self.tape.chance(50):
            return numbers[-1 - self.tape.below(min(3, len(numbers)))]
        return self.tape.pick(numbers)

    def _pick_or_data(self, like: Array, shape: tuple[int, ...]) -> int | None:
        """Pick a tensor of this shape, with the type and device of another, or draw data."""
        number = self._pick(lambda array: is_alike(like, array) and array.sizes == shape)
        return self._data_of(like.dtype, shape, like.device) if number is None else number

    # Sources

    def _device(self) -> int:
        return self.tape.pick(range(self.devices), [12, 3, 1][: self.devices])

    def _data(self) -> int | None:
        shape = self.tape.pick(SHAPES)
        dtype = self._dtype()
        requires_grad = dtype in FLOATS and self.tape.chance(35)
        return self._data_of(dtype, shape, self._device(), requires_grad)

    def _dtype(self) -> str:
        return self.tape.pick(DTYPES, _DTYPE_WEIGHTS)

    def _data_of(
        self, dtype: str, shape: tuple[int, ...], device: int, requires_grad: bool = False
    ) -> int | None:
        elements = tuple(self._elements(dtype, math.prod(shape)))
        return self._make("data", (), dtype, shape, elements, device, requires_grad)

    def _elements(self, dtype: str, count: int) -> list[Value]:
        if dtype == "bool":
            return [bool(self.tape.below(2)) for _ in range(count)]
        kind = self.tape.pick(("small", "equal", "limits", "order", "bits"), (6, 1, 2, 3, 1))
        low, high = (0 if dtype.startswith("u") else -4), 4
        if kind == "equal":
            return [self.tape.between(low, high)] * count
        if kind == "bits":
            # A product of these contains several zeros.
            return [self.tape.below(2) for _ in range(count)]
        if kind == "order":
            return list(range(count))
        small = [self.tape.between(low, high) for _ in range(count)]
        if kind == "small":
            return small
        if dtype in FLOATS:
            return [value * 0.5 for value in small]
        info = np.iinfo(dtype)
        ends = (int(info.min), int(info.max), int(info.max) - 1, int(info.min) + 1, 1)
        return [self.tape.pick(ends) for _ in range(count)]

    def _source(self) -> int | None:
        shape, device = self.tape.pick(SHAPES), self._device()
        match self.tape.pick(("data", "full", "arange", "randint"), (1, 1, 1, 2)):
            case "full":
                dtype = self.tape.pick(("int32", "float32"))
                return self._make("full", (), dtype, shape, self.tape.between(-2, 3), device)
            case "arange":
                count = self.tape.between(1, 8)
                return self._make("arange", (), self.tape.between(-2, 3), count, device)
            case "randint":
                is_seeded = self.scope.environment.streams.seed is not None
                if not (is_seeded and self.tape.chance(70)):
                    self._try(ProgramStep("seed", values=(self.tape.below(1000),)))
                low = self.tape.between(-4, 2)
                return self._make("randint", (), shape, low, low + self.tape.between(1, 9), device)
        return self._data()

    def _size(self, most: int, least: int = 1) -> Bounds:
        """Return the bounds of a new variable."""
        self.variables += 1
        return f"n{self.variables}", least, most

    def _bind(self, size: Bounds) -> int | None:
        """Bind a variable to an end of its bounds, or to a value between."""
        _, low, high = size
        return self._make(
            "bind", (), *size, self.tape.pick((high, low, self.tape.between(low, high)))
        )


# --- which tensors go together -------------------------------------------------------------------


def may_cut(size: int | str) -> bool:
    """Return True if a bound size may cut off a part of an axis: it is fixed, and larger than 1."""
    return isinstance(size, int) and size > 1


def is_alike(array: Array, other: Array) -> bool:
    """Return True if both have the same type and device."""
    return other.dtype == array.dtype and other.device == array.device


def are_operands(array: Array, other: Array) -> bool:
    """Return True if both are elementwise operands: one broadcasts to the other's shape."""
    return is_alike(array, other) and (fits_into(other, array) or fits_into(array, other))


def fits_into(value: Array, array: Array) -> bool:
    """Return True if `value` broadcasts to the shape of `array`."""
    if value.is_symbolic or array.is_symbolic:
        # Results of two calls may have the same variable, bound to different values.
        return (array.sizes, array.shape) == (value.sizes, value.shape)
    try:
        return np.broadcast_shapes(value.shape, array.shape) == array.shape
    except ValueError:
        return False


def may_be_written(value: Array, array: Array) -> bool:
    """Return True if all of `array` may become `value`, through which no gradient flows."""
    return is_alike(array, value) and not value.requires_grad and fits_into(value, array)


def may_be_argument(array: Array) -> bool:
    """Return True if captured functions accept it as an argument."""
    return not (array.is_symbolic or array.is_repeated or array.requires_grad)


def has_history(array: Array) -> bool:
    """Return True if the oracle knows gradients from it to something else."""
    record = array.record
    return record.is_certain and bool(record.sources)
