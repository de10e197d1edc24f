"""Programs of captured functions that keep state, which is changed between their calls as well.

State is a few tensors in memory or not, views and copies of them, some of which are given up. One
or two functions read and write pieces of it; between their calls it is written, shown, read and
dropped like any other tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import FLOATS
from tinyref_fuzz.programs.generator import Generator, Makers
from tinyref_fuzz.programs.script import VIEWS
from tinyref_fuzz.programs.steps import Program, Step

# One program in so many is of this kind: it is a prime, so that some of them are compiled, and some
# run plainly. Which one of these it is.
STATEFUL_EVERY, STATEFUL_AT = 7, 5
MAX_PIECES = 4
CALLS_BETWEEN = (4, 6)
_SHAPES = ((2, 3), (3, 4), (4,), (), (0, 2), (1, 3))
_SHAPE_WEIGHTS = (8, 4, 3, 1, 1, 1)


def is_stateful(number: int) -> bool:
    """Whether program `number` of a campaign is of this kind."""
    return number % STATEFUL_EVERY == STATEFUL_AT


def generate_stateful(tape: Tape, places: int = 2) -> Program:
    """The program of this kind that a tape gives, for so many devices."""
    return Program(tuple(_Stateful(tape, places).stateful_program()), tuple(tape.choices))


class _Stateful(Generator):
    """pieces: the tensors that are state, and views and copies of them. computed: of these."""

    def __init__(self, tape: Tape, places: int) -> None:
        super().__init__(tape, places)
        self.max_functions = 2
        self.pieces: list[int] = []
        self.computed: list[int] = []

    def stateful_program(self) -> list[Step]:
        """Return its steps."""
        tape = self.tape
        self._try(Step("seed", values=(tape.below(1000),)))
        self._add_state()
        for _ in range(tape.pick((1, 2), (3, 1))):
            self._function()
        for _ in range(tape.between(*CALLS_BETWEEN)):
            if self.functions:
                self._call(tape.pick(list(self.functions.values())))
            for _ in range(tape.pick((0, 1, 2, 3), (1, 3, 4, 3))):
                self._add_pieces(lambda: self._grow(_BETWEEN))
        self._read_state()
        return self.without_needless_seed()

    def _read_state(self) -> None:
        """Reads the state in some order, and a few results of calls."""
        made = (*self.pieces, *self.computed)
        live = [number for number in made if number in self.arrays]
        results = [n for step in self.scope.steps if step.op == "call" for n in step.targets]
        live += [n for n in results if n in self.arrays][-self.tape.between(1, 3) :]
        if self.tape.chance(30):
            self._try(Step("realize", tuple(live)))
        while live:
            self._try(Step("read", (live.pop(self.tape.below(len(live))),)))

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """A piece of the state for the most part."""
        pieces = [n for n in self.pieces if n in self.arrays and fits(self.arrays[n])]
        if pieces and self.tape.chance(75):
            return self.tape.pick(pieces)
        return super()._pick(fits)

    # State

    def _add_state(self) -> None:
        tape = self.tape
        dtype = tape.pick(("float32", "int32", "bool"), (6, 4, 1))
        for _ in range(tape.pick((1, 2), (2, 1))):
            shape, place = tape.pick(_SHAPES, _SHAPE_WEIGHTS), self._place()
            number = self._state_of(dtype, shape, place)
            if number is not None:
                self.pieces.append(number)
        for _ in range(tape.below(MAX_PIECES)):
            self._add_pieces(lambda: self._grow(_SHOWING))
        chosen = tuple(number for number in self.pieces if tape.chance(70))
        if tape.chance(60):
            self._try(Step("realize", chosen or tuple(self.pieces)))
        if tape.chance(30):
            self._drop()

    def _add_pieces(self, grow: Callable[[], None]) -> None:
        """Views and copies that are made on the way are pieces too."""
        before = len(self.scope.steps)
        grow()
        for step in self.scope.steps[before:]:
            if step.op in _SHOWN:
                self.pieces += step.targets
            elif step.op != "data":
                self.computed += step.targets

    def _copy(self) -> None:
        """A copy, or what is computed to be one."""
        number = self._pick()
        if number is None:
            return
        op = self.tape.pick(("clone", "contiguous", "mul_number", "add_number"), (3, 2, 3, 1))
        values = {"mul_number": (1,), "add_number": (0,)}.get(op, ())
        if not values or self.arrays[number].dtype != "bool":
            self._make(op, (number,), *values)

    def _state_of(self, dtype: str, shape: tuple[int, ...], place: int) -> int | None:
        """Elements in memory, or to be computed; constants; a part of what nobody holds."""
        kind = self.tape.pick(("data", "full", "pending", "part", "drawn"), (8, 3, 3, 2, 1))
        if kind == "full":
            return self._make("full", (), dtype, shape, self.tape.below(2), place)
        if kind == "drawn" and dtype == "int32":
            return self._make("randint", (), shape, 0, 5, place)
        if kind == "part" and shape:
            whole = self._data_of(dtype, (shape[0] + 2, *shape[1:]), place)
            return self._instead_of(whole, "index", ((1, shape[0] + 1, None),))
        requires_grad = dtype in FLOATS and self.tape.chance(10)
        number = self._data_of(dtype, shape, place, requires_grad)
        if kind == "pending" and dtype != "bool":
            return self._instead_of(number, "mul_number", 2)
        return number

    def _instead_of(self, number: int | None, op: str, value: object) -> int | None:
        """What is made of a tensor that nobody holds afterwards."""
        if number is None:
            return None
        made = self._make(op, (number,), value)
        self._try(Step("drop", (number,)))
        return made

    # Functions

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
        stores = {id(self.arrays[number].store) for number in self.pieces if number in self.arrays}
        if self.tape.chance(10):
            stores.add(id(self.arrays[args[0]].store))
        return stores

    def _grow_body(self) -> None:
        for _ in range(self.tape.between(1, 4)):
            self._grow(_INSIDE)
        self._unary()


_SHOWN = VIEWS | {"clone", "contiguous", "to", "mul_number", "add_number"}
_SHOWING: Makers = {"view": 5, "copy": 5}
_INSIDE: Makers = {"write": 12, "binary": 3, "unary": 3, "reduce": 2, "view": 2, "realize": 2}
_BETWEEN: Makers = {
    "write": 16, "view": 3, "copy": 4, "memory": 1, "unary": 3, "binary": 3, "reduce": 2,
    "drop": 2, "realize": 1, "read": 3,
}  # fmt: skip
