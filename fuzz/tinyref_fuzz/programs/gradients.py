"""Gradients in a program from a tape: of what, to what, by `gradient` or by `backward`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import Draft
from tinyref_fuzz.programs.fitting import has_history
from tinyref_fuzz.programs.steps import Step


class Gradients(Draft):
    """Steps that differentiate what is there."""

    def _gradient(self) -> None:
        """The gradients of a sum of floats, or of weighted ones, to what it is computed from."""
        loss = self._pick(has_history)
        if loss is None:
            return
        weights: list[int] = []
        array = self.arrays[loss]
        if self.tape.chance(60):
            found = self._weights(array)
            if found is None:
                return
            weights.append(found)
        elif array.places.ndim:
            total = self._make("sum", (loss,), tuple(range(array.places.ndim)), False)
            if total is None:
                return
            loss = total
        if self.tape.chance(50):
            self._backward(loss, weights)
        else:
            self._targets(loss, weights)

    def _weights(self, array: Array) -> int | None:
        """What each element counts: of the same shape in the same place."""

        def fits(other: Array) -> bool:
            is_there = other.sizes == array.sizes and other.place == array.place
            return is_there and other.dtype in (array.dtype, "int32")

        found = self._pick(fits)
        if found is None and not array.is_symbolic:
            found = self._data_of(array.dtype, array.shape, array.place)
        return found

    def _targets(self, loss: int, weights: Sequence[int]) -> None:
        """`gradient` to a few tensors on the way."""
        behind = {id(record) for record in self.arrays[loss].record.history()}
        targets = [
            number
            for number, array in self.arrays.items()
            if id(array.record) in behind and array.is_known and array.record.is_certain
        ]
        chosen = [each for each in targets if self.tape.chance(60)][:3] or targets[:1]
        if chosen:
            made = tuple(self._new() for _ in chosen)
            op = "gradient_weighted" if weights else "gradient"
            self._try(Step(op, (loss, *weights, *chosen), made))

    def _backward(self, loss: int, weights: Sequence[int]) -> None:
        """`backward`, perhaps twice, and what it left in the leaves."""
        is_function = self.scope.is_function
        behind = {id(record) for record in self.arrays[loss].record.history()}
        leaves = [
            number
            for number, array in self.arrays.items()
            if id(array.record) in behind and array.record.is_leaf
        ]
        for number in leaves:
            if is_function or self.tape.chance(20):
                self._try(Step("zero_grad", (number,)))
        for _ in range(self.tape.pick((1, 2, 3), (6, 2, 1))):
            self._try(Step("backward", (loss, *weights)))
        for number in leaves:
            if self.tape.chance(80):
                self._make("grad", (number,))
            if self.tape.chance(10):
                self._try(Step("zero_grad", (number,)))
        if not is_function and self.tape.chance(10):
            leaf = self._pick(lambda array: array.record.is_leaf)
            if leaf is not None:
                self._make("has_grad", (leaf,), self.arrays[leaf].place)
