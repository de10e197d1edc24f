"""Programs of what surrounds tensors: files, 8-bit floats, pickles, threads.

They are programs of captured functions and their state, on two devices, with these steps between
the calls; some functions only read, as what two threads call has no effects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import key_of
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import FLOATS, SHAPES
from tinyref_fuzz.programs.oracle import only_holds
from tinyref_fuzz.programs.scope import Captured
from tinyref_fuzz.programs.stateful import INSIDE, OUTSIDE, Acts, Stateful
from tinyref_fuzz.programs.steps import Program, Step, numbers_read
from tinyref_fuzz.programs.surroundings import SMALL_FLOATS, STORED_AS, has_effects
from tinyref_fuzz.programs.view_values import VIEW_VALUES, draw_key

# One program in so many is of this kind, and which one of these: as of the stateful ones, a prime.
SURROUNDED_EVERY, SURROUNDED_AT = 23, 13
# Not bool: not every byte of a file is one.
_FILE_DTYPES = ("int32", "float32", "uint8", "int16", "float16", "int64")
# By which numbers become too large for an 8-bit float, subnormal, or too exact.
_FACTORS = {"float32": (500, 500, 0.0625, 0.03125, 3), "int32": (500, 40000, 3)}
# A fresh interpreter takes half a second: of so many calls in threads or pickles one is in one.
_ELSEWHERE_PERCENT = 15


def is_surrounded(number: int) -> bool:
    """Whether program `number` of a campaign is of this kind."""
    return number % SURROUNDED_EVERY == SURROUNDED_AT


def generate_surrounded(tape: Tape, places: int = 2) -> Program:
    """The program of this kind that a tape gives, for so many devices."""
    return Program(tuple(_Surrounded(tape, places).stateful_program()), tuple(tape.choices))


class _Surrounded(Stateful):
    """is_reading: the function that is made now has no effects. bound: the number of its size, and
    the most that it may be. holding: what only holds elements is picked, and nothing else.
    """

    def __init__(self, tape: Tape, places: int) -> None:
        super().__init__(tape, places)
        self.inside, self.outside = _INSIDE, _OUTSIDE
        self.is_reading = False
        self.holding = False
        self.bound: tuple[int, int] | None = None

    def _place(self) -> int:
        return self.tape.pick(range(self.places), [6, 5, 1][: self.places])

    def _pick(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        """What is in a file, or an 8-bit float, is picked by those steps alone that take it."""
        return super()._pick(lambda array: only_holds(array) == self.holding and fits(array))

    def _pick_held(self, fits: Callable[[Array], bool] = lambda array: True) -> int | None:
        self.holding = True
        try:
            return self._pick(fits)
        finally:
            self.holding = False

    def _state(self) -> None:
        super()._state()
        for _ in range(self.tape.below(3)):
            self._add_file()

    def _read_state(self) -> None:
        for _ in range(self.tape.below(4)):
            self._read_held()
        super()._read_state()

    def _state_function(self) -> Captured | None:
        self.is_reading = self.tape.chance(50)
        self.inside = _READING if self.is_reading else _INSIDE
        try:
            return super()._state_function()
        finally:
            self.is_reading = False

    def _body(
        self, args: Sequence[int], size: tuple[str, int, int] | None, writable: set[int]
    ) -> Step | None:
        # The parameter of the size comes last, right before its body.
        self.bound = None if size is None else (self.number + len(args), size[2])
        return super()._body(args, size, writable)

    def _grow_body(self) -> None:
        super()._grow_body()
        if self.tape.chance(25):
            self._differentiate()

    # Files

    def _add_file(self) -> None:
        """Elements in a file, from an odd byte on, or all of it, or none."""
        tape = self.tape
        if tape.chance(35):
            number = self._pick(lambda array: not (array.is_symbolic or array.requires_grad))
            if number is not None:
                self._make("save", (number,))
            return
        shape = (0, 2) if tape.chance(10) else tape.pick(SHAPES)
        dtype = tape.pick(_FILE_DTYPES)
        elements = self._elements(tape.pick(("small", "limits", "order")), dtype, math.prod(shape))
        before, after = tape.pick((0, 3, 4, 1)), tape.pick((0, 5))
        self._make("file", (), dtype, shape, elements, before, after)

    def _show_held(self) -> int | None:
        number = self._pick_held(lambda array: not array.is_symbolic)
        if number is None:
            return None
        kind = self.tape.pick(("index", "permute", "flip", "reshape", "shrink", "bitcast"))
        values = VIEW_VALUES[kind](self.tape, self.arrays[number])
        return None if values is None else self._make(kind, (number,), *values)

    def _load(self) -> None:
        number = self._pick_held(lambda array: array.place < 0)
        if number is None:
            return
        made = self._make("to", (number,), self._place())
        if made is not None and not only_holds(self.arrays[made]) and not self.scope.is_function:
            self.computed.append(made)

    def _read_bytes(self) -> None:
        """What is in a file is read by other means than tinyref."""
        number = self._pick_held(lambda array: array.place < 0)
        if number is None:
            return
        file = -self.arrays[number].place
        made = next((step for step in self.scope.steps if file in step.targets), None)
        if made is not None and file in self.arrays:
            before = made.values[3] if made.op == "file" else 0
            self._make("file_bytes", (file,), self._place(), before)

    def _write_held(self) -> None:
        """An 8-bit float, or a part of a file, is written, from a device where it is computed."""
        number = self._pick_held(lambda array: array.is_writable and not array.is_symbolic)
        if number is None:
            return
        array = self.arrays[number]
        kind = self.tape.pick(("setitem", "assign", "assign_number", "number"))
        if kind == "assign_number" or (kind == "number" and not array.shape):
            self._try(Step("assign_number", (number,), (), (self._number_for(array),)))
            return
        key = draw_key(self.tape, array.shape) if array.shape else ()
        if kind == "number":
            values = (key, self._number_for(array))
            self._try(Step("setitem_number", (number,), (), values))
            return
        shape = array.shape
        if kind == "setitem" and key:
            shape = self._shape_at(array, key)
        value = self._value_like(array, shape)
        if value is None:
            return
        if kind == "setitem" and key:
            self._try(Step("setitem", (number, value), (), (key,)))
        else:
            self._try(Step("assign", (number, value)))

    def _shape_at(self, array: Array, key: Sequence[object]) -> tuple[int, ...]:
        return np.asarray(array.places[key_of(key)]).shape

    def _value_like(self, array: Array, shape: tuple[int, ...]) -> int | None:
        """What may be written there: for a file from any device, else from its own."""
        small = STORED_AS.get(array.dtype)
        place = self._place() if array.place < 0 else array.place
        if small is None:
            return self._data_of(array.dtype, shape, place)
        plain = self._data_of("float32", shape, place)
        return None if plain is None else self._make("to_fp8", (plain,), small)

    # 8-bit floats

    def _narrow(self) -> int | None:
        """Numbers as 8-bit floats, some of them too large, or too exact."""
        number = self._pick(
            lambda array: array.dtype in (*FLOATS, "int32") and not array.requires_grad
        )
        if number is None:
            return None
        source, factors = number, _FACTORS.get(self.arrays[number].dtype)
        if factors is not None and self.tape.chance(70):
            wide = self._make("mul_number", (number,), self.tape.pick(factors))
            source = number if wide is None else wide
        made = self._make("to_fp8", (source,), self.tape.pick(tuple(SMALL_FLOATS)))
        if made is not None and not self.scope.is_function:
            self._try(Step("read", (made,)))
        return made

    def _widen(self) -> int | None:
        number = self._pick_held(lambda array: array.dtype in STORED_AS and array.place >= 0)
        if number is None:
            return None
        return self._make("from_fp8", (number,), self.tape.pick(("float32", "float16", "int32")))

    def _cast_bits(self) -> int | None:
        if self.tape.chance(50):
            number = self._pick_held(lambda array: array.dtype in STORED_AS)
            return None if number is None else self._make("bitcast_fp8", (number,), "uint8")
        number = self._pick_held(lambda array: array.dtype == "uint8")
        if number is None:
            number = self._pick(lambda array: array.dtype == "uint8")
        name = self.tape.pick(tuple(SMALL_FLOATS))
        return None if number is None else self._make("bitcast_fp8", (number,), name)

    def _copy_held(self) -> int | None:
        number = self._pick_held(lambda array: array.place >= 0)
        if number is None:
            return None
        op = self.tape.pick(("contiguous", "clone", "to"))
        if op != "to":
            return self._make(op, (number,))
        target = self._place()
        return None if target == self.arrays[number].place else self._make("to", (number,), target)

    def _read_held(self) -> None:
        number = self._pick_held()
        if number is not None:
            self._try(Step("read", (number,)))

    # State on several devices, and functions of it

    def _carry(self) -> None:
        """A piece goes to another device, is computed with, and comes back."""
        number = self._piece(lambda array: array.dtype != "bool" and not array.is_symbolic)
        if number is None:
            return
        array = self.arrays[number]
        place = self._place()
        if place == array.place or array.requires_grad:
            return
        there = self._make("to", (number,), place)
        more = None if there is None else self._make("add_number", (there,), self.tape.below(3))
        back = None if more is None else self._make("to", (more,), array.place)
        if back is not None and array.is_writable and not self.is_reading and self.tape.chance(60):
            self._try(Step("assign", (number, back)))
        self._forget_all([each for each in (there, more, back) if each is not None])

    def _draw(self) -> int | None:
        """Random numbers, of a function too."""
        return self._make("randint", (), self.tape.pick(SHAPES), 0, 5, self._place())

    def _seed_again(self) -> None:
        self._try(Step("seed", values=(self.tape.below(1000),)))

    def _use_ends(self) -> None:
        """The head and the tail of a piece that one size cuts off, within a function."""
        if self.bound is None:
            return
        bound, most = self.bound
        number = self._piece(
            lambda array: not array.is_symbolic and array.places.ndim > 0 and array.shape[0] >= most
        )
        if number is None:
            return
        for form in ("head", "tail", "window"):
            if self.tape.chance(60):
                part = self._make("part", (number, bound), 0, form)
                if part is not None and self.tape.chance(60):
                    self._make("sum", (part,), (0,), False)

    # Pickles, threads

    def _captured(self, is_reading: bool, calls: int) -> Captured | None:
        found = [
            function
            for function in self.functions.values()
            if function.calls >= calls and not (is_reading and has_effects(function.step))
        ]
        return self.tape.pick(found) if found else None

    def _reload(self) -> None:
        """A captured function from a pickle, perhaps with its state; it is called as well."""
        function = self._captured(False, 2)
        if function is None:
            return
        along = [
            number
            for number in self.pieces
            if number in self.arrays and self._is_whole(self.arrays[number])
        ][: self.tape.below(3)]
        targets = [self._new() for _ in range(len(along) + 1)]
        if self._try(Step("reload", (function.step.target, *along), tuple(targets))):
            again = self.scope.environment.functions[targets[0]]
            self.functions[targets[0]] = replace(function, step=again)
            self.pieces += targets[1:]
            self.kept |= numbers_read(again)
            if self.tape.chance(70):
                self._use_reloaded(self.functions[targets[0]], targets[1:])

    def _use_reloaded(self, function: Captured, along: Sequence[int]) -> None:
        """It is called after what came with it was written."""
        for number in along:
            if self.arrays[number].is_writable:
                value = self._number_for(self.arrays[number])
                self._try(Step("assign_number", (number,), (), (value,)))
        self._call_and_read(function)
        for number in along:
            self._try(Step("read", (number,)))

    def _call_and_read(self, function: Captured) -> None:
        before = len(self.scope.steps)
        self._call_stateful(function)
        calls = [step for step in self.scope.steps[before:] if step.op == "call"]
        for number in calls[-1].targets if calls else ():
            self._try(Step("read", (number,)))

    def _is_whole(self, array: Array) -> bool:
        return array.store.base is array and not (array.is_symbolic or only_holds(array))

    def _elsewhere(self) -> None:
        function = self._captured(True, 2)
        if function is None or not self.tape.chance(_ELSEWHERE_PERCENT):
            return
        args = self._arguments(function)
        if args is not None:
            made = tuple(self._new() for _ in function.step.values[0])
            self._try(Step("call_elsewhere", (function.step.target, *args), made))

    def _call_twice(self) -> None:
        function = self._captured(True, 0)
        if function is None:
            return
        first, second = self._arguments(function), self._arguments(function)
        if first is None or second is None:
            return
        made = tuple(self._new() for _ in 2 * function.step.values[0])
        if self._try(Step("call_twice", (function.step.target, *first, *second), made)):
            function.calls += 2

    def _realize_twice(self) -> None:
        first, second = self._pick(), self._pick()
        if first is not None and second is not None:
            self._try(Step("realize_twice", (first, second)))


# Within functions and between their calls.
_ANYWHERE: Acts = (
    (_Surrounded._carry, 3),
    (_Surrounded._draw, 1),
    (_Surrounded._narrow, 3),
    (_Surrounded._widen, 3),
    (_Surrounded._show_held, 1),
)
_READING: Acts = (
    (Stateful._result, 6),
    (Stateful._show_piece, 2),
    (Stateful._realize_piece, 2),
    (_Surrounded._use_ends, 3),
    *((act, weight) for act, weight in _ANYWHERE if act is not _Surrounded._draw),
)
_INSIDE: Acts = (*INSIDE, *_ANYWHERE, (_Surrounded._use_ends, 4))
_OUTSIDE: Acts = (
    *OUTSIDE,
    *_ANYWHERE,
    (_Surrounded._add_file, 2),
    (_Surrounded._load, 3),
    (_Surrounded._read_bytes, 2),
    (_Surrounded._write_held, 5),
    (_Surrounded._show_held, 3),
    (_Surrounded._cast_bits, 2),
    (_Surrounded._copy_held, 2),
    (_Surrounded._read_held, 3),
    (_Surrounded._seed_again, 1),
    (_Surrounded._reload, 6),
    (_Surrounded._elsewhere, 1),
    (_Surrounded._call_twice, 5),
    (_Surrounded._realize_twice, 3),
)
