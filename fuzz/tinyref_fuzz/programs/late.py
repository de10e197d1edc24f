"""What a program ends with, now and then: parts of a graph that only several kernels compute.

They wait until they are read: old elements that are needed after they were overwritten, one
variable with several values, and reduces of elements that are all equal.
"""

from __future__ import annotations

from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.fitting import fits_into, is_alike, may_be_written, may_cut
from tinyref_fuzz.programs.gradients import Gradients
from tinyref_fuzz.programs.steps import Step

# How often one variable is bound, each time to a value of its own.
VALUES = 3
MAX_REPEATED = 4


class Late(Gradients):
    """A draft that such parts are added to."""

    def grow_late(self) -> None:
        """One of these forms, where it fits."""
        self.tape.pick((self._overtaken, self._two_values, self._repeated), (3, 1, 2))()

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

    def _two_values(self) -> None:
        """A tensor is written at several places of one variable before anybody reads it."""
        number = self._pick(
            lambda array: (
                array.is_writable
                and not (array.is_symbolic or array.requires_grad)
                and array.places.ndim > 0
                and may_cut(array.sizes[0])
            )
        )
        if number is None:
            return
        array = self.arrays[number]
        self.variables += 1
        size = (f"n{self.variables}", 1, array.shape[0])
        for _ in range(self.tape.between(2, VALUES)):
            bound = self._bind(size)
            value = self._data_of(array.dtype, (1, *array.shape[1:]), array.place)
            if bound is not None and value is not None:
                self._try(Step("set_part", (number, bound, value), (), (0, "window")))

    def _repeated(self) -> None:
        """A reduce along an axis that was expanded, perhaps with another one."""
        number = self._pick(
            lambda array: not array.is_symbolic and array.places.ndim < MAX_REPEATED
        )
        if number is None:
            return
        shape = self.arrays[number].shape
        axis = self.tape.below(len(shape) + 1)
        count = self.tape.between(2, MAX_REPEATED)
        above = self._make("reshape", (number,), (*shape[:axis], 1, *shape[axis:]))
        if above is None:
            return
        wide = self._make("expand", (above,), (*shape[:axis], count, *shape[axis:]))
        if wide is None:
            return
        axes = tuple(each for each in range(len(shape) + 1) if each == axis or self.tape.chance(20))
        op = "sum" if self.arrays[wide].dtype == "bool" else self.tape.pick(("sum", "max", "prod"))
        self._make(op, (wide,), axes, self.tape.chance(30))
