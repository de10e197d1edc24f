"""Draw steps of programs, one method for each kind: views, arithmetic, memory and writes.

A method adds nothing if no tensor fits; some add several steps.
"""

from __future__ import annotations

from tinyref_fuzz.programs.arithmetic import key_of
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import (
    FLOATS,
    Bounds,
    ProgramDraft,
    are_operands,
    is_alike,
    may_be_written,
    may_cut,
)
from tinyref_fuzz.programs.steps import ProgramStep, Value

_NUMBERS = (1, 2, -1, 3, 0, -2)


class Operations(ProgramDraft):
    """Draft with methods that add steps."""

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
        values = self._view_values(kind, array)
        return None if values is None else self._make(kind, (number,), *values)

    def _view_values(self, kind: str, array: Array) -> tuple[Value, ...] | None:
        """Return the arguments of a view; None if it would change nothing."""
        tape, shape, rank = self.tape, array.shape, array.positions.ndim
        match kind:
            case "index":
                return (self._key(shape),) if shape else None
            case "permute":
                by = tape.between(1, rank - 1) if rank > 1 else 0
                return (tuple((axis + by) % rank for axis in range(rank)),) if by else None
            case "flip":
                axes = tuple(axis for axis in range(rank) if shape[axis] > 1 and tape.chance(50))
                return (axes,) if axes else None
            case "reshape":
                count = array.positions.size
                pairs = [(d, count // d) for d in range(2, count) if count % d == 0]
                target = tape.pick([(count,), (1, *shape), (*shape, 1), *pairs])
                return (target,) if target != shape else None
            case "shrink":
                bounds = tuple(self._bounds(size) for size in shape)
                return (bounds,) if bounds != tuple((0, size) for size in shape) else None
            case "expand":
                ones = [axis for axis, size in enumerate(shape) if size == 1]
                axis = tape.pick(ones) if ones else rank
                return ((*shape[:axis], 3, *shape[axis + 1 :]),) if ones else None
            case "bitcast":
                other = {"int32": "uint32", "uint32": "int32"}.get(array.dtype)
                return (other,) if other else None
        return ()

    def _bounds(self, size: int) -> tuple[int, int]:
        low = self.tape.below(size) if size else 0
        return low, self.tape.between(low + 1, size) if size else 0

    def _key(self, shape: tuple[int, ...], lists: bool = False) -> tuple[Value, ...]:
        """Draw a key for brackets: numbers, slices with steps of both signs, perhaps positions."""
        tape = self.tape
        key: list[Value] = []
        for size in shape[: tape.between(1, len(shape))]:
            kinds = ("slice", "number", "step", "all", "places")
            kind = tape.pick(kinds, (3, 2, 4, 2, 1 if lists and not key else 0))
            low, high = self._bounds(size)
            if not size or kind == "all":
                key.append((None, None, None))
            elif kind == "number":
                key.append(tape.between(-size, size - 1))
            elif kind == "places":
                return (("places", tuple(dict.fromkeys((low, high - 1)))),)
            elif kind == "slice":
                key.append((low, high, None))
            elif (step := tape.pick((-1, 2, -2, 3, -3))) > 0:
                key.append((low, high, step))
            else:
                key.append((high - 1, low - 1 if low else None, step))
        return tuple(key)

    def _symbolic(self) -> None:
        """Draw a part that a bound size cuts off, and perhaps another part of the same size."""
        number = self._pick(lambda array: any(may_cut(size) for size in array.sizes))
        if number is None:
            return
        array = self.arrays[number]
        axis = self.tape.pick([a for a, size in enumerate(array.sizes) if may_cut(size)])
        most = array.shape[axis]
        size = self._size(most, self.tape.pick((1, 0), (3, 1)))
        bound = self._bind(size)
        if bound is None:
            return
        self._part(number, axis, bound, size)
        if self.tape.chance(40):
            # The same size also cuts off a part of another tensor.
            other = self._pick(lambda candidate: candidate.sizes[:1] == (most,))
            if other is not None:
                self._part(other, 0, bound, size)

    def _part(self, number: int, axis: int, bound: int, size: Bounds) -> int | None:
        # A part that begins before its last element needs at least one element.
        form = self.tape.pick(("head", "tail", "window") if size[1] else ("head",))
        return self._make("part", (number, bound), axis, form)

    # Arithmetic

    def _unary(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        dtype = self.arrays[number].dtype
        kinds = ["add_number", "mul_number", "neg", "relu", "square", "max_number", "lt_number"]
        if dtype not in FLOATS:
            kinds += ["idiv_number", "mod_number"]
        op = self.tape.pick(["not", "cast"] if dtype == "bool" else ["cast", *kinds])
        if not op.endswith("_number"):
            return self._make(op, (number,), *([self._dtype()] if op == "cast" else []))
        value: float = self.tape.pick(_NUMBERS)
        if dtype.startswith("u"):
            value = abs(value)
        if op in ("idiv_number", "mod_number"):
            value = value or 4
        if dtype in FLOATS and op == "mul_number" and self.tape.chance(20):
            value = 0.5
        return self._make(op, (number,), value)

    def _binary(self) -> int | None:
        first = self._pick()
        if first is None:
            return None
        array = self.arrays[first]
        second = self._pick(lambda other: are_operands(array, other))
        if second is None:
            return None
        ops = ["add", "mul", "sub", "maximum", "minimum", "lt", "ne"]
        if array.dtype not in FLOATS:
            ops += ["and", "xor"]
        return self._make(
            self.tape.pick(["and", "xor", "ne"] if array.dtype == "bool" else ops), (first, second)
        )

    def _where(self) -> int | None:
        condition = self._pick(lambda array: array.dtype == "bool")
        if condition is None:
            return None
        about = self.arrays[condition]
        first = self._pick(lambda a: (a.sizes, a.device) == (about.sizes, about.device))
        if first is None:
            return None
        like = self.arrays[first]
        second = self._pick(lambda other: is_alike(like, other) and other.sizes == like.sizes)
        return None if second is None else self._make("where", (condition, first, second))

    def _reduce(self) -> int | None:
        number = self._pick(lambda array: array.positions.ndim > 0)
        if number is None:
            return None
        array = self.arrays[number]
        rank = array.positions.ndim
        axes = tuple(axis for axis in range(rank) if self.tape.chance(60)) or (rank - 1,)
        op = "sum" if array.dtype == "bool" else self.tape.pick(("sum", "max", "prod"), (6, 2, 1))
        return self._make(op, (number,), axes, self.tape.chance(50))

    def _combine(self) -> int | None:
        number = self._pick(lambda array: array.positions.ndim > 0 and not array.is_symbolic)
        if number is None:
            return None
        array = self.arrays[number]
        axis = self.tape.below(array.positions.ndim)
        op = self.tape.pick(("cat", "stack", "pad", "matmul", "cumsum", "sum_of_all"))
        if op == "pad":
            pairs = tuple((self.tape.below(3), self.tape.below(3)) for _ in array.shape)
            return self._make(op, (number,), pairs)
        if op in ("cumsum", "sum_of_all"):
            return self._make(op, (number,), axis)
        other = self._pick(lambda candidate: self._may_combine(op, array, candidate, axis))
        if other is None:
            return None
        return self._make(op, (number, other), *((axis,) if op in ("cat", "stack") else ()))

    @staticmethod
    def _may_combine(op: str, array: Array, other: Array, axis: int) -> bool:
        if other.is_symbolic or not is_alike(array, other):
            return False
        if op == "matmul":
            is_matrix = array.positions.ndim == 2 and array.dtype != "bool"
            return is_matrix and array.shape[1:] == other.shape[:1]
        # Only the axis along which two tensors are joined may differ in size.
        sizes = (*other.sizes[:axis], array.sizes[axis], *other.sizes[axis + 1 :])
        return array.sizes == (sizes if op == "cat" else other.sizes)

    # Memory

    def _memory(self) -> int | None:
        number = self._pick()
        if number is None:
            return None
        op = self.tape.pick(("contiguous", "clone", "to"), (4, 2, 4))
        if op != "to":
            return self._make(op, (number,))
        array, target = self.arrays[number], self._device()
        if array.is_symbolic or target == array.device:
            return None
        return self._make(op, (number,), target)

    # Writes

    def _write(self) -> None:
        number = self._pick(self._may_write)
        if number is None:
            return
        array = self.arrays[number]
        is_fixed = array.positions.ndim > 0 and not array.is_symbolic
        kinds = ("setitem", "setitem_number", "assign", "own", "chain", "iadd", "assign_number")
        kind = self.tape.pick((*kinds, "part"), (3, 1, 1, 1, 1, 1, 1, 1))
        if kind.startswith("setitem") and is_fixed:
            self._set_item(number, array, kind)
        elif kind == "part" and is_fixed and not self.scope.is_function:
            self._set_part(number, array)
        elif kind == "iadd" and not self.scope.is_function and array.dtype != "bool":
            other = self._pick(lambda value: is_alike(array, value) and value.sizes == array.sizes)
            if other is not None:
                self._try(ProgramStep("iadd", (number, other)))
        elif kind == "assign_number":
            self._try(ProgramStep("assign_number", (number,), (), (self._number_for(array),)))
        elif kind == "own":
            self._assign_own(number)
        elif kind == "chain":
            self._assign_chain(number, array)
        else:
            other = self._pick(lambda value: may_be_written(value, array))
            if other is not None:
                self._try(ProgramStep("assign", (number, other)))

    def _assign_own(self, number: int) -> None:
        """Assign a value computed from the tensor itself, and mostly drop the value."""
        before = set(self.arrays)
        value = self._own_value(number)
        if value is not None:
            self._try(ProgramStep("assign", (number, value)))
        for new in [key for key in self.arrays if key not in before]:
            if self.tape.chance(85):
                self._try(ProgramStep("drop", (new,)))

    def _assign_chain(self, number: int, array: Array) -> None:
        """Assign from a second tensor, which is then assigned too; a reader of the old value waits.

        The second write must wait for the first one, and the first one for readers of its target.
        """
        other = self._pick(
            lambda value: (
                is_alike(array, value)
                and value.sizes == array.sizes
                and value.store is not array.store
                and self._may_write(value)
            )
        )
        if other is None or array.dtype == "bool":
            return
        self._make("mul_number", (number,), 2)
        total = self._make("add", (number, other))
        moved = self._make("add_number", (other,), 100)
        for target, value in ((number, total), (other, moved)):
            if value is not None:
                self._try(ProgramStep("assign", (target, value)))

    def _own_value(self, number: int) -> int | None:
        array = self.arrays[number]
        plain = self._make("detach", (number,)) if array.requires_grad else number
        if plain is None:
            return None
        if array.positions.ndim and not array.is_symbolic and self.tape.chance(30):
            shape = array.shape
            is_cube = len(shape) > 1 and set(shape) == {shape[0]}
            order = (*range(1, len(shape)), 0)
            kind, axes = ("permute", order) if is_cube else ("flip", (0,))
            turned = self._make(kind, (plain,), axes)
            if turned is None or self.tape.chance(60):
                return turned and self._make("contiguous", (turned,))
            is_moved = array.dtype == "bool" or self.tape.chance(40)
            return turned if is_moved else self._make("add_number", (turned,), 1)
        if array.dtype == "bool":
            return self._make("not", (plain,))
        return self._make("add_number", (plain,), self.tape.between(0, 3))

    def _number_for(self, array: Array) -> Value:
        return bool(self.tape.below(2)) if array.dtype == "bool" else self.tape.between(0, 9)

    def _may_write(self, array: Array) -> bool:
        is_reached = not self.scope.is_function or array.store.number in self.scope.writable
        return is_reached and array.is_writable

    def _set_item(self, number: int, array: Array, kind: str) -> None:
        key = self._key(array.shape, lists=True)
        positions = array.positions[key_of(key)]
        if kind == "setitem_number" or not positions.size:
            values = (key, self._number_for(array))
            self._try(ProgramStep("setitem_number", (number,), (), values))
            return
        other = self._pick_or_data(array, positions.shape)
        if other is not None:
            self._try(ProgramStep("setitem", (number, other), (), (key,)))

    def _set_part(self, number: int, array: Array) -> None:
        axis = self.tape.below(array.positions.ndim)
        if not may_cut(array.sizes[axis]):
            return
        shape = (*array.shape[:axis], 1, *array.shape[axis + 1 :])
        size = self._size(array.shape[axis])
        # One variable may have several values before anything reads what was written.
        for _ in range(self.tape.pick((1, 2, 3), (4, 1, 1))):
            bound = self._bind(size)
            other = self._pick_or_data(array, shape)
            if bound is not None and other is not None:
                self._try(ProgramStep("set_part", (number, bound, other), (), (axis, "window")))

    # Steps that compute or forget

    def _realize(self) -> None:
        chosen = tuple(number for number in self.arrays if self.tape.chance(30))
        if chosen:
            self._try(ProgramStep("realize", chosen))

    def _read(self) -> None:
        number = self._pick()
        if number is not None and not self.scope.is_function:
            self._try(ProgramStep("read", (number,)))

    def _drop(self) -> None:
        number = self._pick()
        if number is not None and number not in self.undroppable and len(self.arrays) > 2:
            self._try(ProgramStep("drop", (number,)))
