"""Programs of captured functions that keep state, which is changed between their calls as well.

State is a few tensors in memory or not, views and copies of them, some of which are given up. One
or two functions read and write pieces of it; between their calls it is written, shown, read and
dropped like any other tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.generator import Generator, Makers
from tinyref_fuzz.programs.steps import Program, Step

# One program in so many is of this kind: it is a prime, so that some of them are compiled, and some
# run plainly. Which one of these it is.
STATEFUL_EVERY, STATEFUL_AT = 7, 5
CALLS_BETWEEN = (4, 6)


def is_stateful(number: int) -> bool:
    """Whether program `number` of a campaign is of this kind."""
    return number % STATEFUL_EVERY == STATEFUL_AT


def generate_stateful(tape: Tape, places: int = 2) -> Program:
    """The program of this kind that a tape gives, for so many devices."""
    return Program(tuple(_Stateful(tape, places).stateful_program()), tuple(tape.choices))


class _Stateful(Generator):
    """pieces: the stores of the tensors that are state, by their numbers."""

    def __init__(self, tape: Tape, places: int) -> None:
        super().__init__(tape, places)
        self.max_functions = 2
        self.pieces: set[int] = set()

    def stateful_program(self) -> list[Step]:
        """Return its steps."""
        tape = self.tape
        for _ in range(tape.pick((1, 2), (2, 1))):
            self._source()
        for _ in range(tape.below(4)):
            self._grow(_SHARING)
        self.pieces = self._stores(self.arrays)
        if tape.chance(60):
            self._realize()
        for _ in range(tape.pick((1, 2), (3, 1))):
            self._function()
        for _ in range(tape.between(*CALLS_BETWEEN)):
            if self.functions:
                self._call(tape.pick(list(self.functions.values())))
            for _ in range(tape.pick((0, 1, 2, 3), (1, 3, 4, 3))):
                self._grow(_BETWEEN)
        self._read_all()
        return self.scope.steps

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """A piece of the state for the most part."""
        arrays = self.arrays.items()
        pieces = [n for n, array in arrays if array.store.number in self.pieces and fits(array)]
        if pieces and self.tape.chance(75):
            return self.tape.pick(pieces)
        return super()._pick(fits)

    def _parameters(self) -> list[int]:
        """Fresh data, of the shape of a piece or not."""
        like = self._pick()
        if like is None:
            return []
        array = self.arrays[like]
        shape = array.shape if array.shape and self.tape.chance(50) else (4,)
        first = self._data_of("int32" if array.dtype == "bool" else array.dtype, shape, array.place)
        return [] if first is None else [first]

    def _writable_state(self, args: Sequence[int]) -> set[int]:
        return self.pieces | (self._stores(args) if self.tape.chance(10) else set())

    def _grow_body(self) -> None:
        for _ in range(self.tape.between(1, 4)):
            self._grow(_INSIDE)
        self._unary()


_SHARING: Makers = {"view": 5, "memory": 3, "unary": 2, "drop": 1}
_INSIDE: Makers = {"write": 12, "binary": 3, "unary": 3, "reduce": 2, "view": 2, "realize": 2}
_BETWEEN: Makers = {
    "write": 16, "view": 3, "memory": 4, "unary": 4, "binary": 3, "reduce": 2, "drop": 2,
    "realize": 1, "read": 3,
}  # fmt: skip
