"""A program in the making: its steps, each tried by the oracle, and the tensors that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import InexactError, UndefinedError
from tinyref_fuzz.programs.arrays import Array, Store
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.reverse import Record
from tinyref_fuzz.programs.steps import WRITES, Step, Value

MAX_ELEMENTS = 48
MAX_AXES = 4
SHAPES = ((4,), (2, 3), (6,), (3, 4), (1, 4), (5,), (2, 2, 3), (), (3, 1), (2, 4), (7,))
DTYPES = ("int32", "float32", "int8", "uint8", "int64", "bool", "int16", "uint32", "float16")
_DTYPE_WEIGHTS = (10, 8, 1, 1, 1, 2, 1, 1, 1)
FLOATS = frozenset({"float32", "float16"})
_REFUSED = (InexactError, UndefinedError, KeyError, IndexError, ValueError, TypeError)
# Steps that change what is there: they are undone where they are refused.
_CHANGING = WRITES | {"call", "gradient", "gradient_weighted", "backward"}


@dataclass
class Captured:
    """A function of the program: what its calls are given, and how many there are.

    examples: the arrays of the first call; None for a bound size. size: name and bounds of that.
    """

    step: Step
    examples: tuple[Array | None, ...]
    size: tuple[str, int, int] | None
    calls: int = 0


@dataclass
class Scope:
    """Where steps are added: the program, or the body of a function."""

    environment: Environment
    steps: list[Step] = field(default_factory=list)
    is_function: bool = False
    writable: set[int] = field(default_factory=set)


class Saved:
    """The elements of an environment, and its random numbers, as they were."""

    def __init__(self, environment: Environment) -> None:
        self.arrays = dict(environment.arrays)
        self.shown = [
            (array, array.record, array.basis, array.is_known, array.grad, array.has_open_grad)
            for array in environment.arrays.values()
        ]
        stores: dict[int, Store] = {
            id(array.store): array.store for array in environment.arrays.values()
        }
        self.stores = [
            (store, store.elements.copy(), store.whole, store.overwritten, store.is_repeated)
            for store in stores.values()
        ]
        self.seed = environment.streams.seed
        self.drawn = dict(environment.streams.drawn)

    def restore(self, environment: Environment) -> None:
        """Everything is as it was."""
        environment.arrays = dict(self.arrays)
        for array, record, basis, is_known, grad, has_open_grad in self.shown:
            array.record, array.basis, array.is_known = record, basis, is_known
            array.grad, array.has_open_grad = grad, has_open_grad
        for store, elements, whole, overwritten, is_repeated in self.stores:
            store.elements[...] = elements
            store.whole, store.overwritten, store.is_repeated = whole, overwritten, is_repeated
        environment.streams.seed = self.seed
        environment.streams.drawn.clear()
        environment.streams.drawn.update(self.drawn)


def as_parameter(array: Array) -> Array:
    """What a function sees of an argument: the same elements, of which it knows no past."""
    made = Record(array.shape, array.dtype)
    return Array(array.store, array.places, array.dtype, array.place, array.sizes, made)


class Draft:
    """What has been drawn of a program so far, and how a step is added to it."""

    def __init__(self, tape: Tape, places: int) -> None:
        self.tape = tape
        self.places = places
        self.number = 0
        self.scope = Scope(Environment())
        self.functions: dict[int, Captured] = {}
        # Stores that a function writes are no arguments, and tensors that it reads stay.
        self.state: set[int] = set()
        self.kept: set[int] = set()
        self.variables = 0
        self.max_functions = 1
        # What the next steps are likely to read.
        self.focus: int | None = None

    @property
    def arrays(self) -> dict[int, Array]:
        return self.scope.environment.arrays

    def _new(self) -> int:
        self.number += 1
        return self.number

    def _try(self, step: Step) -> bool:
        """Adds the step where the oracle takes it; whether it did."""
        environment = self.scope.environment
        saved = Saved(environment) if step.op in _CHANGING else None
        try:
            environment.run(step)
        except _REFUSED:
            if saved is not None:
                saved.restore(environment)
            return False
        made = [environment.arrays[number] for number in step.targets if number in self.arrays]
        if any(each.places.size > MAX_ELEMENTS or each.places.ndim > MAX_AXES for each in made):
            for number in step.targets:
                del environment.arrays[number]
            return False
        self.scope.steps.append(step)
        return True

    def _make(self, op: str, args: Sequence[int], *values: Value) -> int | None:
        """A step that makes one tensor: its number, None where it was left out."""
        target = self._new()
        return target if self._try(Step(op, tuple(args), (target,), values)) else None

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """A tensor; late ones are picked more often, as they have more behind them."""
        if self.focus in self.arrays and fits(self.arrays[self.focus]) and self.tape.chance(70):
            return self.focus
        found = [number for number, array in self.arrays.items() if fits(array)]
        if not found:
            return None
        late = self.tape.chance(50)
        return found[-1 - self.tape.below(min(3, len(found)))] if late else self.tape.pick(found)

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
        kind = self.tape.pick(("small", "equal", "limits", "order"), (6, 1, 2, 3))
        elements = self._elements(kind, dtype, math.prod(shape))
        return self._make("data", (), dtype, shape, elements, place, requires_grad)

    def _elements(self, kind: str, dtype: str, count: int) -> tuple[Value, ...]:
        if dtype == "bool":
            return tuple(bool(self.tape.below(2)) for _ in range(count))
        low, high = -4, 4
        if dtype not in FLOATS:
            info = np.iinfo(dtype)
            low = max(low, int(info.min))
            if kind == "limits":
                ends = (int(info.min), int(info.max), int(info.max) - 1, int(info.min) + 1, 1)
                return tuple(self.tape.pick(ends) for _ in range(count))
        if kind == "equal":
            return (self.tape.between(low, high),) * count
        if kind == "order":
            first = self.tape.between(0, 3)
            return tuple(first + place for place in range(count))
        scale = 0.5 if dtype in FLOATS and kind == "limits" else 1
        return tuple(self.tape.between(low, high) * scale for _ in range(count))

    def _source(self) -> None:
        shape, place = self.tape.pick(SHAPES), self._place()
        match self.tape.pick(("data", "full", "arange", "randint", "rand")):
            case "data":
                self._data()
            case "full":
                dtype = self.tape.pick(("int32", "float32"))
                self._make("full", (), dtype, shape, self.tape.between(-2, 3), place)
            case "arange":
                self._make("arange", (), self.tape.between(-2, 3), self.tape.between(1, 8), place)
            case "randint":
                low = self.tape.between(-4, 2)
                high = low + self.tape.between(1, 9)
                self._make("randint", (), shape, low, high, place)
            case "rand":
                self._make("rand", (), shape, place)

    def _bind(self, size: tuple[str, int, int], most: int | None = None) -> int | None:
        """A value at an end of the bounds, or between; from 1 to `most` if that is named."""
        _, low, high = size
        if most is not None:
            low, high = max(low, 1), min(high, most)
        value = self.tape.pick((high, low, self.tape.between(low, high)))
        target = self._new()
        return target if self._try(Step("bind", (), (target,), (*size, value))) else None


# --- which tensors go together -------------------------------------------------------------------

# How names of variables begin whose bounds are wider than what they cut.
WIDE = "w"


def may_cut(size: int | str) -> bool:
    """Whether a bound size may cut off a part of an axis: it is fixed, and there are several."""
    return isinstance(size, int) and size > 1


def is_cut_widely(array: Array) -> bool:
    """Whether it has a size whose variable has wider bounds than what it cut.

    A further axis that is cut then is refused, as the number of elements might be negative.
    """
    return any(isinstance(size, str) and WIDE in size for size in array.sizes)


def is_alike(array: Array, other: Array) -> bool:
    """Whether both have one type and one place."""
    return other.dtype == array.dtype and other.place == array.place


def may_be_written(value: Array, array: Array) -> bool:
    """Whether `value` may go into `array` where no gradient flows through the write."""
    return is_alike(array, value) and not value.requires_grad


def are_operands(array: Array, other: Array) -> bool:
    """Whether both are elementwise operands: of one shape, or one of a single element."""
    if not is_alike(array, other):
        return False
    if array.is_symbolic or other.is_symbolic:
        # A function's results of two calls may have one variable, bound to other values.
        return (array.sizes, array.shape) == (other.sizes, other.shape)
    if array.shape == other.shape or () in (array.shape, other.shape):
        return True
    return fits_into(other, array) or fits_into(array, other)


def fits_into(value: Array, array: Array) -> bool:
    """Whether `value` broadcasts to the shape of `array`."""
    if value.is_symbolic or array.is_symbolic:
        return value.sizes == array.sizes
    try:
        return np.broadcast_shapes(value.shape, array.shape) == array.shape
    except ValueError:
        return False


def is_index_of(places: Array, array: Array) -> bool:
    """Whether the elements are places of the first axis of `array`."""
    if places.dtype != "int32" or places.place != array.place or places.is_symbolic:
        return False
    elements = places.elements
    return bool(elements.size) and elements.min() >= 0 and elements.max() < array.shape[0]


def may_be_argument(array: Array) -> bool:
    """Whether captured functions take it at all."""
    return not (array.is_symbolic or array.is_repeated or array.requires_grad)


def has_history(array: Array) -> bool:
    """Whether gradients flow from it to something else, as far as the oracle knows."""
    record = array.record
    return record.is_certain and bool(record.sources)
