"""A program in the making: its steps, each tried by the oracle, and the tensors that it has."""

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
    """A function of the program: what its calls are given, and how many there are.

    examples: the arrays of the first call; None for a bound size. size: name and bounds of that.
    """

    step: ProgramStep
    examples: tuple[Array | None, ...]
    size: Bounds | None
    calls: int = 0


@dataclass
class Scope:
    """Where steps are added: the program, or the body of a function.

    begin: gives the environment before the first step. writable: the stores that a function may
    write, by their numbers.
    """

    begin: Callable[[], Environment] = Environment
    is_function: bool = False
    writable: frozenset[int] = frozenset()
    steps: list[ProgramStep] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environment = self.begin()

    def evaluate_again(self) -> None:
        """Undo whatever happened since the last step that was added."""
        self.environment = self.begin()
        for step in self.steps:
            self.environment.run(step)


class ProgramDraft:
    """What has been drawn of a program so far, and how a step is added to it."""

    def __init__(self, tape: Tape, places: int) -> None:
        self.tape = tape
        self.places = places
        self.number = 0
        self.scope = Scope()
        self.functions: dict[int, DraftFunction] = {}
        # Stores that a function writes are no arguments, and tensors that it reads stay.
        self.state: set[int] = set()
        self.kept: set[int] = set()
        self.variables = 0
        # Elements of a tensor.
        self.most = MAX_ELEMENTS
        # What the next steps are likely to read.
        self.focus: int | None = None

    @property
    def arrays(self) -> dict[int, Array]:
        return self.scope.environment.arrays

    def _new(self) -> int:
        self.number += 1
        return self.number

    def _try(self, step: ProgramStep) -> bool:
        """Adds the step where the oracle takes it; whether it did."""
        try:
            self.scope.environment.run(step)
            made = [self.arrays[number] for number in step.targets if number in self.arrays]
            is_taken = all(array.places.size <= self.most for array in made)
            is_taken &= all(array.places.ndim <= MAX_AXES for array in made)
        except _REFUSED:
            is_taken = False
        if is_taken:
            self.scope.steps.append(step)
        else:
            self.scope.evaluate_again()
        return is_taken

    def _make(self, op: str, args: Sequence[int], *values: Value) -> int | None:
        """A step that makes one tensor: its number, None where it was left out."""
        target = self._new()
        return target if self._try(ProgramStep(op, tuple(args), (target,), values)) else None

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """A tensor; late ones are picked more often, as they have more behind them."""
        if self.focus in self.arrays and fits(self.arrays[self.focus]) and self.tape.chance(70):
            return self.focus
        found = [number for number, array in self.arrays.items() if fits(array)]
        if not found:
            return None
        late = self.tape.chance(50)
        return found[-1 - self.tape.below(min(3, len(found)))] if late else self.tape.pick(found)

    def _pick_or_data(self, like: Array, shape: tuple[int, ...]) -> int | None:
        """A tensor of this shape, of the type and in the place of another, or fresh data."""
        found = self._pick(lambda each: is_alike(like, each) and each.sizes == shape)
        return self._data_of(like.dtype, shape, like.place) if found is None else found

    # Sources

    def _place(self) -> int:
        return self.tape.pick(range(self.places), [12, 3, 1][: self.places])

    def _data(self) -> int | None:
        shape = self.tape.pick(SHAPES)
        dtype = self._dtype()
        requires_grad = dtype in FLOATS and self.tape.chance(35)
        return self._data_of(dtype, shape, self._place(), requires_grad)

    def _dtype(self) -> str:
        return self.tape.pick(DTYPES, _DTYPE_WEIGHTS)

    def _data_of(
        self, dtype: str, shape: tuple[int, ...], place: int, requires_grad: bool = False
    ) -> int | None:
        elements = tuple(self._elements(dtype, math.prod(shape)))
        return self._make("data", (), dtype, shape, elements, place, requires_grad)

    def _elements(self, dtype: str, count: int) -> list[Value]:
        if dtype == "bool":
            return [bool(self.tape.below(2)) for _ in range(count)]
        kind = self.tape.pick(("small", "equal", "limits", "order", "bits"), (6, 1, 2, 3, 1))
        low, high = (0 if dtype.startswith("u") else -4), 4
        if kind == "equal":
            return [self.tape.between(low, high)] * count
        if kind == "bits":
            # A product of them has several zeros.
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
        shape, place = self.tape.pick(SHAPES), self._place()
        match self.tape.pick(("data", "full", "arange", "randint"), (1, 1, 1, 2)):
            case "full":
                dtype = self.tape.pick(("int32", "float32"))
                return self._make("full", (), dtype, shape, self.tape.between(-2, 3), place)
            case "arange":
                count = self.tape.between(1, 8)
                return self._make("arange", (), self.tape.between(-2, 3), count, place)
            case "randint":
                is_seeded = self.scope.environment.streams.seed is not None
                if not (is_seeded and self.tape.chance(70)):
                    self._try(ProgramStep("seed", values=(self.tape.below(1000),)))
                low = self.tape.between(-4, 2)
                return self._make("randint", (), shape, low, low + self.tape.between(1, 9), place)
        return self._data()

    def _size(self, most: int, least: int = 1) -> Bounds:
        """A new variable, between these numbers."""
        self.variables += 1
        return f"n{self.variables}", least, most

    def _bind(self, size: Bounds) -> int | None:
        """A value at an end of the bounds, or between."""
        _, low, high = size
        return self._make(
            "bind", (), *size, self.tape.pick((high, low, self.tape.between(low, high)))
        )


# --- which tensors go together -------------------------------------------------------------------


def may_cut(size: int | str) -> bool:
    """Whether a bound size may cut off a part of an axis: it is fixed, and there are several."""
    return isinstance(size, int) and size > 1


def is_alike(array: Array, other: Array) -> bool:
    """Whether both have one type and one place."""
    return other.dtype == array.dtype and other.place == array.place


def are_operands(array: Array, other: Array) -> bool:
    """Whether both are elementwise operands: of one shape, or one of a single element."""
    return is_alike(array, other) and (fits_into(other, array) or fits_into(array, other))


def fits_into(value: Array, array: Array) -> bool:
    """Whether `value` broadcasts to the shape of `array`."""
    if value.is_symbolic or array.is_symbolic:
        # A function's results of two calls may have one variable, bound to other values.
        return (array.sizes, array.shape) == (value.sizes, value.shape)
    try:
        return np.broadcast_shapes(value.shape, array.shape) == array.shape
    except ValueError:
        return False


def may_be_written(value: Array, array: Array) -> bool:
    """Whether all of `array` may become `value`, through which no gradient flows then."""
    return is_alike(array, value) and not value.requires_grad and fits_into(value, array)


def may_be_argument(array: Array) -> bool:
    """Whether captured functions take it at all."""
    return not (array.is_symbolic or array.is_repeated or array.requires_grad)


def has_history(array: Array) -> bool:
    """Whether gradients flow from it to something else, as far as the oracle knows."""
    record = array.record
    return record.is_certain and bool(record.sources)
