"""A program in the making: its steps, each tried by the oracle, and the tensors that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.exact import InexactError, UndefinedError
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.scope import Captured, Saved, Scope
from tinyref_fuzz.programs.steps import Step, Value

MAX_ELEMENTS = 48
MAX_AXES = 4
SHAPES = ((4,), (2, 3), (6,), (3, 4), (1, 4), (5,), (2, 2, 3), (), (3, 1), (2, 4), (7,))
DTYPES = ("int32", "float32", "int8", "uint8", "int64", "bool", "int16", "uint32", "float16")
_DTYPE_WEIGHTS = (10, 8, 1, 1, 1, 2, 1, 1, 1)
FLOATS = frozenset({"float32", "float16"})
_REFUSED = (InexactError, UndefinedError, KeyError, IndexError, ValueError, TypeError)
# Steps that change what is there: they are undone where they are refused.
_CHANGING = frozenset(
    {
        *("assign", "assign_number", "iadd", "setitem", "setitem_number", "set_part"),
        *("call", "call_twice", "call_elsewhere", "gradient", "gradient_weighted", "backward"),
    }
)


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
