"""The operators of Python, each a method of the layers below under another name."""

from __future__ import annotations

from typing import Self

from tinyref.dtype import ConstType
from tinyref.tensor.methods.indexing import Indexing


class Operators(Indexing):
    """Arithmetic and comparisons; `==` compares elements, so tensors hash by identity."""

    __slots__ = ()

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.abs()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __add__(self, x: Self | ConstType) -> Self:
        return self.add(x)

    def __radd__(self, x: ConstType) -> Self:
        return self.add(x, reverse=True)

    def __sub__(self, x: Self | ConstType) -> Self:
        return self.sub(x)

    def __rsub__(self, x: ConstType) -> Self:
        return self.sub(x, reverse=True)

    def __mul__(self, x: Self | ConstType) -> Self:
        return self.mul(x)

    def __rmul__(self, x: ConstType) -> Self:
        return self.mul(x, reverse=True)

    def __truediv__(self, x: Self | ConstType) -> Self:
        return self.div(x)

    def __rtruediv__(self, x: ConstType) -> Self:
        return self.div(x, reverse=True)

    def __floordiv__(self, x: Self | ConstType) -> Self:
        """Rounded down, as Python does it; `idiv` truncates."""
        return self._floor_divide(x)

    def __rfloordiv__(self, x: ConstType) -> Self:
        return self._floor_divide(x, reverse=True)

    def __mod__(self, x: Self | ConstType) -> Self:
        return self.mod(x)

    def __rmod__(self, x: ConstType) -> Self:
        return self.mod(x, reverse=True)

    def __pow__(self, x: Self | ConstType) -> Self:
        return self.pow(x)

    def __rpow__(self, x: ConstType) -> Self:
        return self.pow(x, reverse=True)

    def __matmul__(self, x: Self) -> Self:
        return self.matmul(x)

    def __rmatmul__(self, x: Self) -> Self:
        return self.matmul(x, reverse=True)

    def __and__(self, x: Self | ConstType) -> Self:
        return self.bitwise_and(x)

    def __rand__(self, x: ConstType) -> Self:
        return self.bitwise_and(x, reverse=True)

    def __or__(self, x: Self | ConstType) -> Self:
        return self.bitwise_or(x)

    def __ror__(self, x: ConstType) -> Self:
        return self.bitwise_or(x, reverse=True)

    def __xor__(self, x: Self | ConstType) -> Self:
        return self.bitwise_xor(x)

    def __rxor__(self, x: ConstType) -> Self:
        return self.bitwise_xor(x, reverse=True)

    def __lshift__(self, x: Self | ConstType) -> Self:
        return self.lshift(x)

    def __rlshift__(self, x: ConstType) -> Self:
        return self.lshift(x, reverse=True)

    def __rshift__(self, x: Self | ConstType) -> Self:
        return self.rshift(x)

    def __rrshift__(self, x: ConstType) -> Self:
        return self.rshift(x, reverse=True)

    def __lt__(self, x: Self | ConstType) -> Self:
        return self.lt(x)

    def __gt__(self, x: Self | ConstType) -> Self:
        return self.gt(x)

    def __le__(self, x: Self | ConstType) -> Self:
        return self.le(x)

    def __ge__(self, x: Self | ConstType) -> Self:
        return self.ge(x)

    def __eq__(self, x: object) -> Self:  # type: ignore[override]  # a tensor of bool, not a bool
        if x is None:
            return NotImplemented  # so that it is False
        return self.eq(x)  # type: ignore[arg-type]  # what it accepts is checked there

    def __ne__(self, x: object) -> Self:  # type: ignore[override]  # a tensor of bool, not a bool
        if x is None:
            return NotImplemented  # so that it is True
        return self.ne(x)  # type: ignore[arg-type]  # what it accepts is checked there

    __hash__ = object.__hash__
