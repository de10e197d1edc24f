"""Steps of programs, one method for each kind: views, arithmetic, memory and writes.

A method adds nothing where no tensor fits; some add several steps.
"""

from __future__ import annotations

from tinyref_fuzz.programs.arithmetic import key_of
from tinyref_fuzz.programs.arrays import Array, Size
from tinyref_fuzz.programs.draft import (
    FLOATS,
    WIDE,
    Draft,
    are_operands,
    fits_into,
    is_alike,
    is_cut_widely,
    is_index_of,
    may_be_written,
    may_cut,
)
from tinyref_fuzz.programs.steps import Step, Value
from tinyref_fuzz.programs.view_values import VIEW_VALUES, draw_key

# Reduces that are stored at once.
TOGETHER = 4
_NUMBERS = (1, 2, -1, 3, 0, -2)


class Operations(Draft):
    """A draft with methods that add steps."""

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
            # The same size cuts off a part of another tensor too.
            other = self._pick(lambda each: each.shape[:1] == (most,) and each.sizes[0] == most)
            if other is not None:
                self._part(other, 0, bound)
        if part is not None and self.tape.chance(40):
            # A shape that is right for the number that is bound now.
            values = VIEW_VALUES["reshape"](self.tape, self.arrays[part])
            if values is not None:
                self._make("reshape", (part,), *values)

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
                other = self._pick(lambda each: self._may_join(array, each, axis))
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
        other = self._pick(lambda each: is_alike(array, each) and array.shape[1:] == each.sizes[:1])
        if other is None or array.places.ndim != 2 or array.dtype == "bool":
            return None
        return self._make("matmul", (number, other))

    @staticmethod
    def _may_join(array: Array, other: Array, axis: int) -> bool:
        """Whether only `axis` is of another size."""
        sizes = (*other.sizes[:axis], array.sizes[axis], *other.sizes[axis + 1 :])
        return is_alike(array, other) and not other.is_symbolic and sizes == array.sizes

    # Memory

    def _memory(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        op = self.tape.pick(("contiguous", "clone", "to"), (4, 2, 4))
        if op != "to":
            return self._make(op, (number,))
        array = self.arrays[number]
        if array.is_symbolic or self.places < 2:
            return None
        target = self._place()
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

    # Writes

    def _write(self) -> None:
        number = self._pick(self._may_write)
        if number is None:
            return
        array = self.arrays[number]
        is_fixed = array.places.ndim > 0 and not array.is_symbolic
        kinds = ("setitem", "number", "assign", "own", "iadd", "assign_number", "part")
        kind = self.tape.pick(kinds)
        if kind in ("setitem", "number") and is_fixed:
            self._set_item(number, array, kind)
        elif kind == "part" and is_fixed and not self.scope.is_function:
            self._set_part(number, array)
        elif kind == "iadd" and not self.scope.is_function and array.dtype != "bool":
            other = self._pick(lambda each: self._may_go_on(each, array, array.sizes))
            if other is not None:
                self._try(Step("iadd", (number, other)))
        elif kind == "assign_number":
            self._try(Step("assign_number", (number,), (), (self._number_for(array),)))
        elif kind == "own":
            self._assign_own(number)
        else:
            other = self._pick(lambda each: may_be_written(each, array) and fits_into(each, array))
            if other is not None:
                self._try(Step("assign", (number, other)))

    def _assign_own(self, number: int) -> None:
        """Assigns what is computed from the tensor itself, which nobody holds afterwards."""
        before = set(self.arrays)
        array = self.arrays[number]
        if array.sizes and may_cut(array.sizes[0]) and self.tape.chance(20):
            # Elements move to the places beside them.
            value = self._make("index", (number,), ((0, array.shape[0] - 1, None),))
            step = Step("setitem", (number, value or 0), (), (((1, array.shape[0], None),),))
        else:
            value = self._own_value(number)
            step = Step("assign", (number, value or 0))
        if value is not None:
            self._try(step)
        for made in [each for each in self.arrays if each not in before]:
            if self.tape.chance(85):
                self._try(Step("drop", (made,)))

    def _own_value(self, number: int) -> int | None:
        array = self.arrays[number]
        plain: int | None = number
        if array.requires_grad:
            plain = self._make("detach", (number,))
        if plain is None:
            return None
        kind = self.tape.pick(("same", "more", "flipped"), (3, 5, 3))
        if kind == "flipped" and array.places.ndim and not array.is_symbolic:
            turned = self._make("flip", (plain,), (0,))
            is_stored = turned is not None and self.tape.chance(60)
            return self._make("contiguous", (turned,)) if turned and is_stored else turned
        if array.dtype == "bool":
            return self._make("not", (plain,))
        if kind == "same":
            return self._make("mul_number", (plain,), 1)
        return self._make("add_number", (plain,), self.tape.between(1, 3))

    def _number_for(self, array: Array) -> Value:
        return bool(self.tape.below(2)) if array.dtype == "bool" else self.tape.between(0, 9)

    def _may_go_on(self, value: Array, array: Array, sizes: tuple[Size, ...]) -> bool:
        """Whether `value` may be written to so much of `array`, with its gradients."""
        is_kept = self.scope.is_function or not array.dtype.startswith("float")
        return (
            is_alike(value, array)
            and value.sizes == sizes
            and not (is_kept and value.requires_grad)
        )

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
        axis = self.tape.below(array.places.ndim)
        if not may_cut(array.sizes[axis]):
            return
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        self.variables += 1
        size = (f"n{self.variables}", 1, array.shape[axis])
        # One variable may have several values before anybody reads what was written.
        for _ in range(self.tape.pick((1, 2, 3), (4, 1, 1))):
            bound = self._bind(size)
            other = self._pick(lambda each: self._may_go_on(each, array, shape))
            if other is None:
                other = self._data_of(array.dtype, shape, array.place)
            if bound is not None and other is not None:
                self._try(Step("set_part", (number, bound, other), (), (axis, "window")))

    # What waits until it is read

    def _overtaken(self) -> None:
        """What was reduced of elements is used in a kernel that may run once they are overwritten.

        That kernel reads nothing of them, so only an intermediate result has what it needs.
        """
        number = self._pick(self._may_be_overtaken)
        if number is None:
            return
        # What has no memory is not overwritten.
        self._try(Step("realize", (number,)))
        array = self.arrays[number]
        rank = array.places.ndim
        # Two kinds of reduces are two kernels.
        part = whole = self._make("max", (number,), (rank - 1,), False)
        if part is not None and rank > 1:
            whole = self._make("sum", (part,), tuple(range(rank - 1)), False)
        if whole is None:
            return
        store = array.store
        other = self._pick(lambda each: is_alike(array, each) and each.store is not store)
        if other is None:
            other = self._data_of(array.dtype, (3,), array.place)
        if other is not None:
            self._make(self.tape.pick(("sub", "add", "mul")), (other, whole))
        # What lies in between is held by nobody.
        for each in dict.fromkeys((part, whole)):
            if each is not None:
                self._try(Step("drop", (each,)))
        value = self._pick(lambda each: may_be_written(each, array) and fits_into(each, array))
        if value is not None and self.tape.chance(50):
            self._try(Step("assign", (number, value)))
        else:
            self._try(Step("assign_number", (number,), (), (self.tape.between(0, 9),)))
        # With that all that needs the old elements is computed.
        self._try(Step("read", (number,)))

    def _may_be_overtaken(self, array: Array) -> bool:
        is_computed = array.places.ndim > 0 and array.dtype != "bool"
        return is_computed and array.is_writable and not (array.is_symbolic or array.requires_grad)

    # What computes and forgets

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
