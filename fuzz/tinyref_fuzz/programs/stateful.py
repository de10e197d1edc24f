"""Programs of captured functions that keep state, which is changed between their calls as well.

State is a few tensors in memory or not, views and copies of them, some of which are given up. One
or two functions read and write pieces of it; between their calls it is written, shown, read and
dropped like any other tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import FLOATS
from tinyref_fuzz.programs.fitting import fits_into, is_alike
from tinyref_fuzz.programs.generator import Generator
from tinyref_fuzz.programs.scope import Captured
from tinyref_fuzz.programs.steps import Program, Step
from tinyref_fuzz.programs.surroundings import CALLING
from tinyref_fuzz.programs.view_values import VIEW_VALUES

# One program in so many is of this kind: it is a prime, so that some of them are compiled, and some
# run plainly. Which one of these it is.
STATEFUL_EVERY, STATEFUL_AT = 7, 5
MAX_PIECES = 4
CALLS_BETWEEN = (4, 6)
_SHAPES = ((2, 3), (3, 4), (4,), (), (0, 2), (1, 3))
_SHAPE_WEIGHTS = (8, 4, 3, 1, 1, 1)


# What draws some steps, and how often it does so among others: of a class of programs.
Acts = tuple[tuple[Callable[[Any], object], int], ...]


def is_stateful(number: int) -> bool:
    """Whether program `number` of a campaign is of this kind."""
    return number % STATEFUL_EVERY == STATEFUL_AT


def generate_stateful(tape: Tape, places: int = 2) -> Program:
    """The program of this kind that a tape gives, for so many devices."""
    return Program(tuple(Stateful(tape, places).stateful_program()), tuple(tape.choices))


class Stateful(Generator):
    """pieces: the tensors that are state, and views and copies of them. computed: of these.

    inside, outside: what is done within functions, and between their calls.
    """

    def __init__(self, tape: Tape, places: int) -> None:
        super().__init__(tape, places)
        self.pieces: list[int] = []
        self.computed: list[int] = []
        self.inside, self.outside = INSIDE, OUTSIDE

    def stateful_program(self) -> list[Step]:
        """Its steps."""
        tape = self.tape
        self._try(Step("seed", values=(tape.below(1000),)))
        self._state()
        functions: list[Captured] = []
        for _ in range(tape.pick((1, 2), (3, 1))):
            found = self._state_function()
            if found is not None:
                functions.append(found)
        for _ in range(tape.between(*CALLS_BETWEEN)):
            if functions:
                self._call_stateful(tape.pick(functions))
            for _ in range(tape.pick((0, 1, 2, 3), (1, 4, 3, 1))):
                self._act(self.outside)
        self._read_state()
        return self.without_needless_seed()

    def _read_state(self) -> None:
        """Reads the state in some order, what was computed of it, and a few results of calls."""
        live = [number for number in (*self.pieces, *self.computed) if number in self.arrays]
        given = [n for step in self.scope.steps if step.op in CALLING for n in step.targets]
        results = [number for number in given if number in self.arrays]
        live += results[-self.tape.between(1, 3) :]
        if self.tape.chance(30):
            self._try(Step("realize", tuple(live)))
        while live:
            self._try(Step("read", (live.pop(self.tape.below(len(live))),)))

    # State

    def _state(self) -> None:
        tape = self.tape
        dtype = tape.pick(("float32", "int32", "bool"), (6, 4, 1))
        for _ in range(tape.pick((1, 2), (2, 1))):
            number = self._state_of(dtype, tape.pick(_SHAPES, _SHAPE_WEIGHTS), self._place())
            if number is not None:
                self.pieces.append(number)
        for _ in range(tape.below(MAX_PIECES)):
            self._add_piece()
        if tape.chance(60):
            chosen = tuple(number for number in self.pieces if tape.chance(70))
            self._try(Step("realize", chosen or tuple(self.pieces)))
        if tape.chance(30):
            self._give_up()

    def _state_of(self, dtype: str, shape: tuple[int, ...], place: int) -> int | None:
        """Elements in memory, or to be computed; constants; a part of what nobody holds."""
        tape = self.tape
        kind = tape.pick(("data", "full", "ones", "pending", "part", "drawn"), (8, 2, 2, 3, 2, 1))
        if kind in ("full", "ones"):
            number = self._make("full", (), dtype, shape, 0 if kind == "full" else 1, place)
            return (
                number
                if number is None or kind == "ones"
                else self._temporary("contiguous", number)
            )
        if kind == "drawn" and dtype == "int32":
            return self._make("randint", (), shape, 0, 5, place)
        if kind == "part" and shape:
            whole = self._data_of(dtype, (shape[0] + 2, *shape[1:]), place)
            key = ((1, shape[0] + 1, None),)
            return None if whole is None else self._temporary("index", whole, key)
        requires_grad = dtype in FLOATS and tape.chance(10)
        number = self._data_of(dtype, shape, place, requires_grad)
        if kind == "pending" and number is not None and dtype != "bool":
            return self._temporary("mul_number", number, 2)
        return number

    def _temporary(self, op: str, number: int, *values: object) -> int | None:
        """What is made of a tensor that nobody holds afterwards."""
        found = self._make(op, (number,), *values)
        self._try(Step("drop", (number,)))
        return found

    def _piece(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        found = [n for n in self.pieces if n in self.arrays and fits(self.arrays[n])]
        return self.tape.pick(found) if found else None

    def _add_piece(self) -> None:
        """A view or a copy of a piece is a piece too."""
        made = self._show_piece()
        if made is not None and not self.scope.is_function:
            self.pieces.append(made)

    def _show_piece(self) -> int | None:
        number = self._piece()
        if number is None:
            return None
        array = self.arrays[number]
        kinds = ("index", "permute", "flip", "reshape", "detach", "bitcast", "expand", "copy")
        kind = self.tape.pick(kinds, (6, 3, 3, 4, 3, 1, 1, 6))
        if kind == "copy":
            return self._copy(number, array)
        values = VIEW_VALUES[kind](self.tape, array)
        return None if values is None else self._make(kind, (number,), *values)

    def _copy(self, number: int, array: Array) -> int | None:
        ops = ("clone", "contiguous", "mul_number", "add_number", "to")
        op = self.tape.pick(ops, (3, 2, 3, 1, 1))
        if op in ("clone", "contiguous"):
            return self._make(op, (number,))
        if op == "to":
            target = self._place()
            return None if target == array.place else self._make(op, (number,), target)
        if array.dtype == "bool":
            return None
        return self._make(op, (number,), 1 if op == "mul_number" else self.tape.below(2))

    def _give_up(self) -> None:
        number = self._piece()
        if number is not None and number not in self.kept and len(self.pieces) > 1:
            self.pieces.remove(number)
            self._try(Step("drop", (number,)))

    # What is done to state, within functions and between their calls

    def _act(self, acts: Acts) -> None:
        chosen = self.tape.pick([act for act, _ in acts], [weight for _, weight in acts])
        chosen(self)

    def _assign_piece(self) -> None:
        number = self._piece(lambda array: array.is_writable)
        if number is None:
            return
        array = self.arrays[number]
        if self.tape.chance(20):
            self._try(Step("assign_number", (number,), (), (self._number_for(array),)))
            return
        value, made = self._value_for(number, array)
        if value is not None:
            self._try(Step("assign", (number, value)))
        self._forget_all(made)

    def _value_for(self, number: int, array: Array) -> tuple[int | None, list[int]]:
        """What a piece is assigned: made of it, of a parameter, or another piece; what was made."""
        made: list[int] = []

        def then(op: str, source: int | None, *values: object) -> int | None:
            found = None if source is None else self._make(op, (source,), *values)
            made.extend(() if found is None else (found,))
            return found

        kinds = ("same", "more", "flipped", "argument", "other", "drawn")
        kind = self.tape.pick(kinds, (3, 5, 3, 4, 2, 1))
        if kind == "argument":
            total = self._total(array, made)
            if total is not None:
                return total, made
        if kind == "other":
            return self._piece(lambda each: is_alike(array, each) and fits_into(each, array)), made
        if kind == "drawn" and array.dtype == "int32" and not array.is_symbolic:
            low = self._make("randint", (), array.shape, 0, 4, array.place)
            made.extend(() if low is None else (low,))
            return low, made
        plain = then("detach", number) if array.requires_grad else number
        if kind == "flipped" and array.shape and array.shape[0] > 1:
            turned = then("flip", plain, (0,))
            return (then("contiguous", turned) if self.tape.chance(60) else turned), made
        if array.dtype == "bool":
            return then("not", plain), made
        if kind == "same":
            return then("mul_number", plain, 1), made
        if array.dtype in FLOATS and self.tape.chance(30):
            return then("mul_number", plain, 0.5), made
        more = self.tape.pick((1, 2, -1, 3))
        return then("add_number", plain, abs(more) if array.dtype.startswith("u") else more), made

    def _total(self, array: Array, made: list[int]) -> int | None:
        """The sum of a parameter, or of what is no state, of the type of `array`."""
        number = self._pick(
            lambda each: (
                is_alike(array, each)
                and each.dtype != "bool"
                and each.places.ndim == 1
                and id(each.store) not in self.state
                and not each.requires_grad
            )
        )
        if number is None:
            return None
        total = self._make("sum", (number,), (0,), False)
        made.extend(() if total is None else (total,))
        return total

    def _forget_all(self, made: list[int]) -> None:
        """Steps in between are held by nobody, as those of an expression."""
        for number in made:
            if number in self.arrays and self.tape.chance(85):
                self._try(Step("drop", (number,)))

    def _write_item(self) -> None:
        number = self._piece(lambda array: array.is_writable and array.places.ndim > 0)
        if number is None:
            return
        array = self.arrays[number]
        size = array.shape[0]
        if size > 1 and self.tape.chance(40):
            # Elements move to the places beside them.
            source = self._make("index", (number,), ((0, size - 1, None),))
            if source is not None:
                copy = self._make("clone", (source,)) if self.tape.chance(40) else None
                moved = source if copy is None else copy
                self._try(Step("setitem", (number, moved), (), (((1, size, None),),)))
                self._forget_all([source] if copy is None else [source, copy])
            return
        self._set_item(number, array, self.tape.pick(("setitem", "number")))

    def _write_view(self) -> None:
        """A view that is made, written and given up."""
        number = self._piece()
        if number is None:
            return
        kind = self.tape.pick(("index", "permute", "flip", "reshape", "detach"))
        values = VIEW_VALUES[kind](self.tape, self.arrays[number])
        view = None if values is None else self._make(kind, (number,), *values)
        if view is None:
            return
        value, made = self._value_for(view, self.arrays[view])
        if value is not None:
            self._try(Step("assign", (view, value)))
        self._forget_all([*made, view])

    def _add_to(self) -> None:
        number = self._piece(lambda array: array.dtype != "bool" and array.is_writable)
        if number is None or self.scope.is_function:
            return
        array = self.arrays[number]
        other = self._pick(lambda each: self._may_go_on(each, array, array.sizes))
        if other is not None:
            self._try(Step("iadd", (number, other)))

    def _result(self) -> int | None:
        """Something computed of a piece, perhaps with a parameter."""
        number = self._piece()
        if number is None:
            return None
        array = self.arrays[number]
        if array.places.ndim and self.tape.chance(30):
            op = "sum" if array.dtype == "bool" else self.tape.pick(("sum", "max"))
            return self._make(op, (number,), (self.tape.below(array.places.ndim),), False)
        if self.tape.chance(20):
            return self._copy(number, array)
        other = self._pick(
            lambda each: is_alike(array, each) and (each.sizes == array.sizes or not each.sizes)
        )
        if other is None or array.dtype == "bool" or self.tape.chance(30):
            return self._unary_of(number, array)
        return self._make(self.tape.pick(("add", "mul", "maximum")), (number, other))

    def _unary_of(self, number: int, array: Array) -> int | None:
        if array.dtype == "bool":
            return self._make("not", (number,))
        op = self.tape.pick(("add_number", "mul_number", "neg", "relu"))
        return self._make(op, (number,), *((2,) if op.endswith("number") else ()))

    def _compute(self) -> None:
        made = self._result()
        if made is not None:
            self.computed.append(made)

    def _realize_piece(self) -> None:
        number = self._piece()
        if number is not None:
            self._try(Step("realize", (number,)))

    def _read_piece(self) -> None:
        number = self._piece() if self.tape.chance(60) else self._pick()
        if number is not None:
            self._try(Step("read", (number,)))

    def _write_result(self) -> None:
        """A result that somebody keeps is written to."""
        number = self._pick(lambda array: array.is_writable and not array.requires_grad)
        if number is not None and number not in self.pieces:
            values = (self._number_for(self.arrays[number]),)
            self._try(Step("assign_number", (number,), (), values))

    # Functions

    def _state_function(self) -> Captured | None:
        like = self._piece()
        if like is None:
            return None
        array = self.arrays[like]
        dtype = "int32" if array.dtype == "bool" else array.dtype
        first = self._data_of(dtype, (self.tape.pick((2, 4)),), array.place)
        if first is None:
            return None
        args = [first]
        size = self._size_of_function(self.arrays[first])
        if size is not None:
            bound = self._bind(size)
            if bound is not None:
                args.append(bound)
        writable = {
            id(self.arrays[number].store) for number in self.pieces if number in self.arrays
        }
        if self.tape.chance(10):
            writable.add(id(self.arrays[first].store))
        found = self._body(args, size, writable)
        if found is None:
            return None
        self._try(found)
        examples = tuple(self.arrays.get(number) for number in args)
        function = Captured(found, examples, size)
        self.functions[found.target] = function
        self._call_with(function, tuple(args))
        return function

    def _grow_body(self) -> None:
        for _ in range(self.tape.between(1, 4)):
            self._act(self.inside)
        self._result()

    def _call_stateful(self, function: Captured) -> None:
        args = self._arguments(function, self._state_or_data)
        if args is not None:
            self._call_with(function, args)

    def _state_or_data(self, example: Array, _: Sequence[int]) -> int | None:
        """Fresh data mostly; else what fits, which may be a result of a call, or state."""

        def fits(array: Array) -> bool:
            is_like = is_alike(example, array) and array.sizes == example.sizes
            return is_like and not (array.requires_grad or array.is_repeated)

        found = self._pick(fits) if self.tape.chance(30) else None
        if found is None:
            found = self._data_of(example.dtype, example.shape, example.place)
        return found


INSIDE: Acts = (
    (Stateful._assign_piece, 6),
    (Stateful._write_item, 4),
    (Stateful._write_view, 2),
    (Stateful._result, 5),
    (Stateful._show_piece, 2),
    (Stateful._realize_piece, 2),
)
OUTSIDE: Acts = (
    (Stateful._assign_piece, 5),
    (Stateful._write_item, 4),
    (Stateful._write_view, 2),
    (Stateful._add_to, 3),
    (Stateful._add_piece, 4),
    (Stateful._compute, 5),
    (Stateful._give_up, 2),
    (Stateful._realize_piece, 1),
    (Stateful._read_piece, 3),
    (Stateful._write_result, 1),
)
