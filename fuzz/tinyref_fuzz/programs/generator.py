"""Programs from a tape: steps that make sense, each evaluated as it is added.

What the oracle refuses, as a float would round or a size does not fit, is left out, so that every
program has exact values. Numbers of the tape that are cut or changed still give a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import key_of
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import FLOATS, SHAPES
from tinyref_fuzz.programs.fitting import (
    WIDE,
    are_operands,
    axes_of_at_least,
    fits_into,
    has_history,
    is_cut_widely,
    is_index_of,
    may_be_argument,
    may_be_written,
    may_cut,
    may_join,
    may_multiply,
    may_replace,
)
from tinyref_fuzz.programs.late import Late
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.scope import Captured, Saved, Scope, as_parameter
from tinyref_fuzz.programs.steps import Program, Step, Value
from tinyref_fuzz.programs.view_values import VIEW_VALUES, draw_key

# How many steps a program has, at least and at most: some come to several, some to none.
STEPS = (5, 14)
# So many programs at the beginning of a campaign have more: most of what is easily found is found
# by the first one then, and by no more seconds of them.
OPENING = 6
OPENING_STEPS = (20, 28)
MAX_BODY = 5
MAX_CALLS = 5
MAX_READS = 6
# Reduces that are stored at once.
TOGETHER = 4
# Operations on the way from what has gradients to a sum of it.
MAX_WAY = 4
_NUMBERS = (1, 2, -1, 3, 0, -2)


def opening_steps(number: int) -> tuple[int, int]:
    """How many steps program `number` of a campaign has, at least and at most."""
    return OPENING_STEPS if number < OPENING else STEPS


def generate(tape: Tape, places: int = 2, count: tuple[int, int] = STEPS) -> Program:
    """The program of a tape, for so many devices and of so many steps, at least and at most."""
    steps = Generator(tape, places).program(count)
    return Program(tuple(steps), tuple(tape.choices))


class Generator(Late):
    """Draws the steps of a program; subclasses draw those of other kinds."""

    # The program as a whole

    def program(self, least_and_most: tuple[int, int]) -> list[Step]:
        """Its steps."""
        self._try(Step("seed", values=(self.tape.below(1000),)))
        count = self.tape.between(*least_and_most)
        self._data()
        for _ in range(count):
            self._grow(_MAKERS)
        for function in self.functions.values():
            while function.calls < 3 and self._call(function):
                pass
        # After all other draws, which stay what they are without it.
        if self.tape.chance(45):
            self.grow_late()
        self._read_all()
        return self.without_needless_seed()

    def without_needless_seed(self) -> list[Step]:
        """The steps; where nothing is drawn, without the seed."""
        steps = self.scope.steps
        draws = any(each.op in ("rand", "randint") for step in steps for each in step.all_steps())
        return steps if draws else [step for step in steps if step.op != "seed"]

    def _grow(self, makers: Sequence[Maker]) -> None:
        name = self.tape.pick([name for name, _, _ in makers], [weight for _, weight, _ in makers])
        next(maker for other, _, maker in makers if other == name)(self)

    def _read_all(self) -> None:
        """Reads what is there in some order; all of it computed together, or one by one."""
        live = list(self.arrays)
        chosen: list[int] = []
        while live and len(chosen) < MAX_READS:
            # The last ones first: they are computed from the others.
            chosen.append(live.pop(-1 - self.tape.below(len(live))))
        if self.tape.chance(40):
            self._try(Step("realize", tuple(chosen)))
        for number in chosen:
            self._try(Step("read", (number,)))

    # Views

    def _view(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        array = self.arrays[number]
        kinds = ("index", "permute", "flip", "reshape", "shrink", "expand", "bitcast", "detach")
        kind = self.tape.pick(kinds, (8, 4, 3, 4, 2, 2, 1, 1))
        if array.is_symbolic and kind not in ("permute", "detach"):
            return None
        values = VIEW_VALUES[kind](self.tape, array)
        return None if values is None else self._make(kind, (number,), *values)

    def _symbolic(self) -> None:
        """A part that a bound size cuts off, and perhaps another one that the same size does."""
        number = self._pick(
            lambda array: not is_cut_widely(array) and any(may_cut(size) for size in array.sizes)
        )
        if number is None:
            return
        array = self.arrays[number]
        axis = self.tape.pick([a for a, size in enumerate(array.sizes) if may_cut(size)])
        self.variables += 1
        most = array.shape[axis]
        # Bounds that only the uses narrow: each asks for a number that there is.
        low, high = self.tape.pick((1, 0), (3, 1)), most + self.tape.pick((0, 2), (3, 1))
        is_wide = not array.is_symbolic and (low, high) != (1, most)
        size = (
            (f"{WIDE}{self.variables}", low, high) if is_wide else (f"n{self.variables}", 1, most)
        )
        bound = self._bind(size, most)
        if bound is None:
            return
        part = self._part(number, axis, bound)
        if self.tape.chance(40):
            self._part_again(bound)
        if part is not None and self.tape.chance(40):
            # A shape that is right for the number that is bound now.
            values = VIEW_VALUES["reshape"](self.tape, self.arrays[part])
            if values is not None:
                self._make("reshape", (part,), *values)

    def _part_again(self, bound: int) -> None:
        """A part of a tensor that the same size cuts off, which is no larger."""
        size = self.scope.environment.sizes[bound][1]
        number = self._pick(
            lambda array: not array.is_symbolic and bool(axes_of_at_least(size, array))
        )
        if number is not None:
            axes = axes_of_at_least(size, self.arrays[number])
            self._part(number, self.tape.pick(axes), bound)

    def _part(self, number: int, axis: int, bound: int) -> int | None:
        form = self.tape.pick(("head", "tail", "window"))
        return self._make("part", (number, bound), axis, form)

    # Arithmetic

    def _unary(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        dtype = self.arrays[number].dtype
        if dtype == "bool":
            op = self.tape.pick(("not", "cast"))
            return self._make(op, (number,), *(() if op == "not" else (self._dtype(),)))
        kinds = ("add_number", "mul_number", "neg", "relu", "square", "cast", "max_number")
        op = self.tape.pick((*kinds, "lt_number", "idiv_number", "mod_number"))
        if op in ("neg", "relu", "square"):
            return self._make(op, (number,))
        if op == "cast":
            target = self._dtype()
            return None if target == dtype else self._make(op, (number,), target)
        value = self.tape.pick(_NUMBERS)
        if dtype.startswith("u") and value < 0:
            value = -value
        if op in ("idiv_number", "mod_number"):
            return None if dtype in FLOATS or value == 0 else self._make(op, (number,), value)
        if dtype in FLOATS and op == "mul_number" and self.tape.chance(20):
            return self._make(op, (number,), 0.5)
        return self._make(op, (number,), value)

    def _binary(self) -> int | None:
        first = self._pick()
        if first is None:
            return None
        array = self.arrays[first]
        second = self._pick(lambda other: are_operands(array, other))
        if second is None:
            return None
        if array.dtype == "bool":
            return self._make(self.tape.pick(("and", "xor", "ne")), (first, second))
        ops = ["add", "mul", "sub", "maximum", "minimum", "lt", "ne"]
        if array.dtype not in FLOATS:
            ops += ["and", "xor"]
        return self._make(self.tape.pick(ops), (first, second))

    def _where(self) -> int | None:
        condition = self._pick(lambda array: array.dtype == "bool")
        if condition is None:
            return None
        array = self.arrays[condition]

        def fits(other: Array) -> bool:
            return other.sizes == array.sizes and other.place == array.place

        first = self._pick(fits)
        if first is None:
            return None
        dtype = self.arrays[first].dtype
        second = self._pick(lambda other: fits(other) and other.dtype == dtype)
        return None if second is None else self._make("where", (condition, first, second))

    def _reduce(self) -> int | None:
        number = self._pick(lambda array: array.places.ndim > 0)
        if number is None:
            return None
        array = self.arrays[number]
        rank = array.places.ndim
        axes = tuple(axis for axis in range(rank) if self.tape.chance(60)) or (rank - 1,)
        op = self.tape.pick(("sum", "max", "prod"), (6, 2, 1))
        if array.dtype == "bool" and op != "sum":
            return None
        if array.dtype == "float32" and op == "sum" and self.tape.chance(20):
            return self._make("sum_tenths", (number,), axes, self.tape.chance(30))
        return self._make(op, (number,), axes, self.tape.chance(30))

    def _compare(self) -> None:
        """Elements beside their sum or maximum, as in a softmax: the reduce is a kernel before."""
        number = self._pick(lambda array: array.places.ndim > 0 and array.dtype != "bool")
        if number is None:
            return
        op, axis = self.tape.pick(("sum", "max")), self.tape.below(self.arrays[number].places.ndim)
        whole = self._make(op, (number,), (axis,), True)
        if whole is not None and are_operands(self.arrays[number], self.arrays[whole]):
            both = self._make(self.tape.pick(("sub", "add", "mul", "lt")), (number, whole))
            if both is not None and not self.scope.is_function and self.tape.chance(50):
                self._try(Step("drop", (whole,)))

    def _combine(self) -> int | None:
        number = self._pick(lambda array: array.places.ndim > 0 and not array.is_symbolic)
        if number is None:
            return None
        array = self.arrays[number]
        axis = self.tape.below(array.places.ndim)
        match self.tape.pick(("cat", "pad", "matmul", "stack", "cumsum", "take")):
            case "cat":
                other = self._pick(lambda each: may_join(array, each, axis))
                return None if other is None else self._make("cat", (number, other), axis)
            case "stack":
                other = self._pick(
                    lambda each: are_operands(array, each) and each.sizes == array.sizes
                )
                return None if other is None else self._make("stack", (number, other), axis)
            case "pad":
                pairs = tuple((self.tape.below(3), self.tape.below(3)) for _ in array.shape)
                return self._make("pad", (number,), pairs)
            case "cumsum":
                return self._make("cumsum", (number,), axis)
            case "take":
                places = self._pick(lambda each: is_index_of(each, array))
                return None if places is None else self._make("take", (number, places))
        other = self._pick(lambda each: may_multiply(array, each))
        if other is None or array.places.ndim != 2 or array.dtype == "bool":
            return None
        return self._make("matmul", (number, other))

    # Memory

    def _memory(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        op = self.tape.pick(("contiguous", "clone", "to", "disk"), (4, 2, 3, 1))
        if op in ("contiguous", "clone"):
            return self._make(op, (number,))
        array = self.arrays[number]
        if array.is_symbolic or (op == "disk" and self.scope.is_function) or self.places < 2:
            return None
        target = self._place()
        if op == "disk":
            return self._make(op, (number,), target)
        return None if target == array.place else self._make(op, (number,), target)

    def _together(self) -> None:
        """Reduces that are all stored until one kernel reads them: several temporaries at once."""
        total = self._pick(
            lambda array: array.dtype != "bool" and array.places.ndim > 0 and not array.is_symbolic
        )
        if total is None:
            return
        source, rank = total, self.arrays[total].places.ndim
        made: list[int] = []
        for added in range(1, TOGETHER + 1):
            terms = self._make("add_number", (source,), added)
            if terms is None:
                return
            op, axis = self.tape.pick(("sum", "max")), self.tape.below(rank)
            part = self._make(op, (terms,), (axis,), True)
            joined = None
            if part is not None:
                joined = self._make(self.tape.pick(("sub", "add", "maximum")), (total, part))
            if part is None or joined is None:
                return
            made += [terms, part, joined]
            total = joined
        # What nobody holds any more has no memory of its own.
        for each in made[:-1]:
            self._try(Step("drop", (each,)))

    def _write(self) -> None:
        number = self._pick(self._may_write)
        if number is None:
            return
        array = self.arrays[number]
        kind = self.tape.pick(("setitem", "assign", "number", "iadd", "assign_number", "part"))
        if kind in ("setitem", "number") and array.places.ndim and not array.is_symbolic:
            self._set_item(number, array, kind)
        elif kind == "part":
            self._set_part(number, array)
        elif kind == "iadd" and not self.scope.is_function and array.dtype != "bool":
            other = self._pick(lambda each: self._may_go_on(each, array, array.sizes))
            if other is not None:
                self._try(Step("iadd", (number, other)))
        elif kind == "assign_number":
            self._try(Step("assign_number", (number,), (), (self._number_for(array),)))
        else:
            other = self._pick(lambda each: may_be_written(each, array) and fits_into(each, array))
            if other is not None:
                self._try(Step("assign", (number, other)))

    def _number_for(self, array: Array) -> Value:
        return bool(self.tape.below(2)) if array.dtype == "bool" else self.tape.between(0, 9)

    def _may_go_on(self, value: Array, array: Array, sizes: tuple[int | str, ...]) -> bool:
        """Whether `value` may be written to so much of `array`, with its gradients."""
        is_kept = self.scope.is_function or not array.dtype.startswith("float")
        is_alike = (value.dtype, value.place) == (array.dtype, array.place)
        return is_alike and value.sizes == sizes and not (is_kept and value.requires_grad)

    def _may_write(self, array: Array) -> bool:
        is_reached = not self.scope.is_function or id(array.store) in self.scope.writable
        return is_reached and array.is_writable

    def _set_item(self, number: int, array: Array, kind: str) -> None:
        key = draw_key(self.tape, array.shape, lists=True)
        places = array.places[key_of(key)]
        if kind == "number" or not places.size:
            values = (key, self._number_for(array))
            self._try(Step("setitem_number", (number,), (), values))
            return
        shape = places.shape

        other = self._pick(lambda each: self._may_go_on(each, array, shape))
        if other is None:
            other = self._data_of(array.dtype, shape, array.place)
        if other is not None:
            self._try(Step("setitem", (number, other), (), (key,)))

    def _set_part(self, number: int, array: Array) -> None:
        if not array.places.ndim or array.is_symbolic or self.scope.is_function:
            return
        axis = self.tape.below(array.places.ndim)
        if not may_cut(array.sizes[axis]):
            return
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        self.variables += 1
        bound = self._bind((f"n{self.variables}", 1, array.shape[axis]))
        other = self._pick(lambda each: self._may_go_on(each, array, shape))
        if other is None:
            other = self._data_of(array.dtype, shape, array.place)
        if bound is not None and other is not None:
            self._try(Step("set_part", (number, bound, other), (), (axis, "window")))

    # What computes, forgets, differentiates

    def _realize(self) -> None:
        chosen = [number for number in self.arrays if self.tape.chance(30)]
        if chosen:
            self._try(Step("realize", tuple(chosen)))

    def _read(self) -> None:
        number = self._pick()
        if number is not None and not self.scope.is_function:
            self._try(Step("read", (number,)))

    def _drop(self) -> None:
        number = self._pick()
        if number is not None and number not in self.kept and len(self.arrays) > 2:
            self._try(Step("drop", (number,)))

    # Gradients

    def _differentiate(self) -> None:
        """A way of operations from what has gradients, and the gradients at its end."""
        start = self._pick(lambda array: array.record.is_certain)
        if start is None and not self.scope.is_function:
            dtype = self.tape.pick(("float32", "float16"), (7, 1))
            start = self._data_of(dtype, self.tape.pick(SHAPES), self._place(), True)
        if start is None:
            return
        self.focus = start
        for _ in range(self.tape.between(1, MAX_WAY)):
            self._grow(_WAYS)
            last = max(self.arrays)
            if last != self.focus and has_history(self.arrays[last]):
                self._forget(self.focus)
                self.focus = last
        self._gradient()
        self.focus = None

    def _forget(self, number: int) -> None:
        """Perhaps computes what was on the way, and drops it: what it was made of is elsewhere."""
        if self.scope.is_function:
            return
        if self.tape.chance(20):
            self._try(Step("realize", (number,)))
        if number not in self.kept and self.tape.chance(20):
            self._try(Step("drop", (number,)))

    # Functions

    def _function(self) -> None:
        """A captured function of one or two tensors, and perhaps of a size; it is called once."""
        if self.functions or self.scope.is_function:
            return
        first = self._pick(may_be_argument)
        if first is None:
            return
        args = [first]
        if self.tape.chance(40):
            second = self._pick(may_be_argument)
            if second is not None and self.arrays[second].store is not self.arrays[first].store:
                args.append(second)
        size = self._size_of_function(self.arrays[first])
        if size is not None:
            bound = self._bind(size)
            if bound is not None:
                args.append(bound)
        like = self.arrays[first]
        if like.dtype in FLOATS and not like.is_symbolic and self.tape.chance(50):
            # A weight, as of a model.
            self._data_of(like.dtype, like.shape, like.place, requires_grad=True)
        writable = self._writable_state(args)
        found = self._body(args, size, writable)
        if found is None:
            return
        self._try(found)
        environment = self.scope.environment
        examples = tuple(environment.arrays.get(number) for number in args)
        function = Captured(found, examples, size)
        self.functions[found.target] = function
        self._call_with(function, tuple(args))

    def _size_of_function(self, array: Array) -> tuple[str, int, int] | None:
        if not (array.places.ndim and may_cut(array.sizes[0]) and self.tape.chance(35)):
            return None
        self.variables += 1
        return f"n{self.variables}", 1, array.shape[0]

    def _writable_state(self, args: Sequence[int]) -> set[int]:
        """Perhaps one tensor that the function may write: it has memory by then."""
        if not self.tape.chance(50):
            return set()
        used = {id(self.arrays[number].store) for number in args if number in self.arrays}
        found = self._pick(
            lambda array: (
                id(array.store) not in used
                and self._may_write(array)
                and not (array.is_symbolic or array.store.whole.requires_grad)
            )
        )
        if found is None or not self._try(Step("realize", (found,))):
            return set()
        return {id(self.arrays[found].store)}

    def _body(
        self, args: Sequence[int], size: tuple[str, int, int] | None, writable: set[int]
    ) -> Step | None:
        """The function, made with the arguments of its first call."""
        outer, before = self.scope, dict(self.arrays)
        saved = Saved(outer.environment)
        inside = Environment(outer.environment)
        parameters = tuple(self._new() for _ in args)
        for parameter, number in zip(parameters, args, strict=True):
            if number in inside.sizes:
                inside.sizes[parameter] = inside.sizes[number]
            else:
                inside.arrays[parameter] = as_parameter(inside.arrays[number])
        for array in inside.arrays.values():
            array.has_open_grad = True
        self.scope = Scope(inside, is_function=True, writable=writable)
        if size is not None:
            self._part(parameters[0], 0, parameters[-1])
        self._grow_body()
        body, made = self.scope.steps, self._results(before)
        self.scope = outer
        saved.restore(outer.environment)
        if not made:
            return None
        target = self._new()
        return Step("function", parameters, (target,), (tuple(made),), tuple(body))

    def _grow_body(self) -> None:
        for _ in range(self.tape.between(1, MAX_BODY)):
            self._grow(_INSIDE)
        if self.tape.chance(40):
            self._differentiate()

    def _results(self, before: dict[int, Array]) -> list[int]:
        """What the function returns: the last things that it computed, no views."""
        views = {"reshape", "permute", "expand", "shrink", "flip", "bitcast", "detach", "index"}
        made = [
            target
            for step in self.scope.steps
            for target in step.targets
            if target in self.arrays and target not in before and step.op not in views | {"part"}
        ]
        self.kept |= {n for step in self.scope.steps for n in step.args if n in before}
        self.state |= self.scope.writable
        return made[-self.tape.between(1, 2) :]

    def _call_some(self) -> None:
        if self.functions and not self.scope.is_function:
            function = self.tape.pick(list(self.functions.values()))
            if function.calls < MAX_CALLS:
                self._call(function)

    def _call(self, function: Captured) -> bool:
        """Calls it with other tensors that fit, and another value for its size."""
        args = self._arguments(function)
        return args is not None and self._call_with(function, args)

    def _arguments(
        self,
        function: Captured,
        choose: Callable[[Array, Sequence[int]], int | None] | None = None,
    ) -> tuple[int, ...] | None:
        """What `choose`, or `_argument`, finds for each example, beside those before it; a size."""
        choose = choose or self._argument
        args: list[int] = []
        for example in function.examples:
            if example is None:
                assert function.size is not None, "what is no tensor is a size"
                found = self._bind(function.size)
            else:
                found = choose(example, args)
            if found is None:
                return None
            args.append(found)
        return tuple(args)

    def _argument(self, example: Array, taken: Sequence[int]) -> int | None:
        stores = {id(self.arrays[number].store) for number in taken if number in self.arrays}

        def fits(array: Array) -> bool:
            is_free = id(array.store) not in stores | self.state
            return is_free and may_replace(array, example) and may_be_argument(array)

        found = self._pick(fits) if self.tape.chance(50) else None
        if found is None:
            found = self._data_of(example.dtype, example.shape, example.place)
        return found

    def _call_with(self, function: Captured, args: tuple[int, ...]) -> bool:
        function.calls += 1
        made = tuple(self._new() for _ in function.step.values[0])
        return self._try(Step("call", (function.step.target, *args), made))


Maker = tuple[str, int, Callable[[Generator], object]]
_MAKERS: tuple[Maker, ...] = (
    ("source", 4, Generator._source),
    ("view", 9, Generator._view),
    ("unary", 5, Generator._unary),
    ("binary", 9, Generator._binary),
    ("where", 2, Generator._where),
    ("reduce", 4, Generator._reduce),
    ("compare", 4, Generator._compare),
    ("combine", 3, Generator._combine),
    ("memory", 3, Generator._memory),
    ("write", 10, Generator._write),
    ("realize", 2, Generator._realize),
    ("read", 2, Generator._read),
    ("drop", 1, Generator._drop),
    ("symbolic", 2, Generator._symbolic),
    ("gradient", 3, Generator._gradient),
    ("differentiate", 6, Generator._differentiate),
    ("function", 2, Generator._function),
    ("call", 5, Generator._call_some),
    ("together", 1, Generator._together),
)
_OUTSIDE = frozenset(
    {"realize", "read", "drop", "symbolic", "function", "call", "source", "together"}
)
# Steps through which gradients flow: views above all.
_WAY_WEIGHTS = {
    **{"view": 16, "unary": 5, "binary": 8, "where": 3, "reduce": 6, "compare": 3, "combine": 8},
    **{"memory": 3, "write": 5},
}
_WAYS = tuple((name, _WAY_WEIGHTS[name], grow) for name, _, grow in _MAKERS if name in _WAY_WEIGHTS)
_INSIDE = tuple(maker for maker in _MAKERS if maker[0] not in _OUTSIDE)
