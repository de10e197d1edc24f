"""The class Tensor: all mixins, gradients and assignment."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, Self, TypeVar, cast

from tinyref.algebra.symbolic import describe_shape
from tinyref.arrays import Array
from tinyref.dtype import ConstType, dtypes
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy.shape import shape_of
from tinyref.tensor import gradient_rules as gradient_rules
from tinyref.tensor.assignment import (
    assign_result,
    assignable_value,
    undo_assignment,
    write_at,
    write_elements,
)
from tinyref.tensor.core import (
    GradientSwitch,
    Value,
    gradient_of,
    independent,
    is_recording,
    set_gradient,
    value_of,
)
from tinyref.tensor.data import describe_tensor
from tinyref.tensor.elementwise import floor_divide
from tinyref.tensor.gradient import gradients, history
from tinyref.tensor.losses import Losses
from tinyref.tensor.movement import placed_like
from tinyref.tensor.windows import Windows


class Tensor(Losses, Windows):
    """An array of elements of one type on one device, computed when its elements are read.

    An operation checks its arguments and builds a graph at once. `realize`, `numpy`, `tolist`,
    `item` and `data` compute it. A write to a tensor also changes its views and its base, and no
    other tensor.
    """

    __slots__ = ()

    @property
    def grad(self) -> Self | None:
        """Return the gradient that `backward` has accumulated here, or None.

        Examples:
            >>> x = Tensor([2.0], requires_grad=True)
            >>> _ = (3 * x).sum().backward()
            >>> x.grad.tolist()
            [3.0]
        """
        return gradient_of(self)

    @grad.setter
    def grad(self, gradient: Self | None) -> None:
        if not isinstance(gradient, Tensor | None):
            name = type(gradient).__name__
            raise UserTypeError(f"grad: got a {name}, accepted are a Tensor and None")
        if gradient is not None and gradient.shape != self.shape:
            raise UserError(
                f"grad: shape {describe_shape(gradient.shape)} for a tensor of "
                f"{describe_shape(self.shape)}"
            )
        set_gradient(self, gradient)

    def _seed(self, gradient: Self | None, name: str) -> Self:
        if not self.dtype.is_float:
            raise UserTypeError(f"{name}: a {self.dtype.name} tensor has no gradient")
        if gradient is None:
            if self.shape != ():
                raise UserError(
                    f"{name}: a tensor of shape {describe_shape(self.shape)} needs gradient=, a "
                    f"tensor of that shape; only a tensor without axes does not"
                )
            return self.ones_like()
        accepted = f"accepted is a Tensor of {describe_shape(self.shape)}"
        if not isinstance(gradient, Tensor):
            raise UserTypeError(f"{name}: gradient is a {type(gradient).__name__}, {accepted}")
        if gradient.shape != self.shape:
            shape = describe_shape(gradient.shape)
            raise UserError(f"{name}: gradient of shape {shape}, {accepted}")
        return gradient.cast(self.dtype)

    def backward(self, gradient: Self | None = None) -> Self:
        """Add d(self)/d(leaf) to the `grad` of every leaf that requires grad. Return self.

        Leaves are tensors that were not computed from others. `gradient` has a weight for each
        element of this tensor. Only a tensor without axes may omit it. The gradients are no views
        and have no gradients themselves: see `gradient` for that. Within `no_grad` and `test`, this
        does nothing for a tensor that was computed there. Elsewhere, it raises `UserError` if this
        tensor depends on no leaf that requires grad.

        Examples:
            >>> x = Tensor([2.0, 3.0], requires_grad=True)
            >>> _ = x.square().sum().backward()
            >>> x.grad.tolist()
            [4.0, 6.0]
        """
        seed = self._seed(gradient, "backward")
        if not value_of(self).requires_grad:
            if not is_recording():
                return self
            raise UserStateError(
                "backward: this tensor was computed from no tensor that requires grad"
            )
        order = history(self)
        leaves = [value for value in order if value.requires_grad and value.record is None]
        with GradientSwitch():
            parts = gradients(self, seed.detach(), leaves, order)
            for value, part in zip(leaves, parts, strict=True):
                leaf = value.maker
                if part is not None and isinstance(leaf, Tensor):
                    here = independent(placed_like(part, cast(Self, leaf)))
                    leaf.grad = here if leaf.grad is None else leaf.grad.add(here)
        return self

    def gradient(
        self,
        *targets: Self,
        gradient: Self | None = None,
        materialize_grads: bool = False,
    ) -> list[Self]:
        """Return d(self)/d(target) for each target, as tensors that have gradients themselves.

        The results are no views: a write to one changes no other tensor, and not `gradient`.
        Targets need not require grad. If a leaf that requires grad was assigned to, its result is
        the sum over its old and new values, as in `backward`. A tensor that does not require grad
        depends on no target after it was computed or assigned to with `assign`. Raises `UserError`
        if this tensor does not depend on a target; with `materialize_grads` the result is zeros.

        Examples:
            >>> x = Tensor([2.0, 3.0])
            >>> x.square().sum().gradient(x)[0].tolist()
            [4.0, 6.0]
        """
        for index, target in enumerate(targets):
            if not isinstance(target, Tensor):
                name = type(target).__name__
                raise UserTypeError(f"gradient: target {index} is a {name}, accepted are Tensors")
        seed = self._seed(gradient, "gradient")
        order = history(self)
        leaves = [value for value in order if value.requires_grad and value.record is None]
        values = [[value_of(target), *_earlier(target, leaves)] for target in targets]
        parts = iter(gradients(self, seed, list(itertools.chain(*values)), order))
        totals = [
            _total_at(target, [next(parts) for _ in states])
            for target, states in zip(targets, values, strict=True)
        ]
        for index, total in enumerate(totals):
            if total is None and not materialize_grads:
                raise UserError(
                    f"gradient: target {index}, {describe_tensor(targets[index])}, is not "
                    f"part of the computation: materialize_grads=True gives zeros there"
                )
        pairs = zip(targets, totals, strict=True)
        return [
            target.zeros_like() if total is None else independent(total) for target, total in pairs
        ]

    # Assignment: all forms use `assignment.write_elements`.

    def assign(self, x: Self | ConstType | Array | Sequence[Any]) -> Self:
        """Write the elements of `x`, which broadcasts to this tensor's shape. Return this tensor.

        Every view of the same elements shows the new ones. Tensors that were computed from the old
        elements do not change. `x` may be computed from any elements of this tensor. If no other
        tensor uses the memory, it is written in place.

        An assignment stores values: no gradient flows to the tensors that `x` was computed from.
        With `t[...] = x` it flows. A tensor whose elements are all assigned to becomes a leaf. If
        only a part is, the gradient through that part is zero, also if the base was deleted. In
        that case, a view of all of the base replaces it if the other views were taken from it, as
        for results of functions. Raises `UserError` if type or device differ, and if this tensor
        repeats elements.

        Examples:
            >>> x = Tensor([1, 2]).contiguous().realize()
            >>> x.assign(Tensor([3, 4])).tolist()
            [3, 4]
        """
        value = assignable_value(self, x)
        if value_of(value).requires_grad:
            value = value.detach()
        write_elements(self, "assign", value, keeps_leaf=True)
        return self

    def __setitem__(self, key: object, value: Self | ConstType | Array) -> None:
        write_at(self, key, value)

    def __delitem__(self, key: object) -> None:
        raise UserTypeError(
            "del: elements cannot be deleted: select the other elements by index, or join them "
            "with cat"
        )

    def __iadd__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "+=", self.add(x))

    def __isub__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "-=", self.sub(x))

    def __imul__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "*=", self.mul(x))

    def __itruediv__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "/=", self.div(x))

    def __ifloordiv__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "//=", floor_divide(self, x))

    def __imod__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "%=", self.mod(x))

    def __ipow__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "**=", self.pow(x))

    def __imatmul__(self, x: Self) -> Self:
        return assign_result(self, "@=", self.matmul(x))

    def __iand__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "&=", self.bitwise_and(x))

    def __ior__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "|=", self.bitwise_or(x))

    def __ixor__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "^=", self.bitwise_xor(x))

    def __ilshift__(self, x: Self | ConstType) -> Self:
        return assign_result(self, "<<=", self.lshift(x))

    def __irshift__(self, x: Self | ConstType) -> Self:
        return assign_result(self, ">>=", self.rshift(x))

    def _undo(self) -> Value:
        """Undo the last assignment, which has not run: see `realisation.undo_assignments`."""
        return undo_assignment(self)

    # These methods hide Python's types: below them, no annotation may use one of these types.

    def bfloat16(self) -> Self:
        """Cast to bfloat16.

        Examples:
            >>> Tensor([1.0]).bfloat16().dtype
            dtypes.bfloat16
        """
        return self.cast(dtypes.bfloat16)

    def double(self) -> Self:
        """Cast to float64.

        Examples:
            >>> Tensor([1.0]).double().dtype
            dtypes.float64
        """
        return self.cast(dtypes.float64)

    def long(self) -> Self:
        """Cast to int64.

        Examples:
            >>> Tensor([-1.75]).long().tolist()
            [-1]
        """
        return self.cast(dtypes.int64)

    def short(self) -> Self:
        """Cast to int16.

        Examples:
            >>> Tensor([-1.75]).short().tolist()
            [-1]
        """
        return self.cast(dtypes.int16)

    def half(self) -> Self:
        """Cast to float16.

        Examples:
            >>> Tensor([1.0]).half().dtype
            dtypes.float16
        """
        return self.cast(dtypes.float16)

    def float(self) -> Self:
        """Cast to float32.

        Examples:
            >>> Tensor([1, 2]).float().tolist()
            [1.0, 2.0]
        """
        return self.cast(dtypes.float32)

    def int(self) -> Self:
        """Cast to int32.

        Examples:
            >>> Tensor([1.75]).int().tolist()
            [1]
        """
        return self.cast(dtypes.int32)

    def bool(self) -> Self:
        """Cast to bool: True where an element is not zero.

        Examples:
            >>> Tensor([0, 3]).bool().tolist()
            [False, True]
        """
        return self.cast(dtypes.bool)


T = TypeVar("T", bound=Tensor)


def _earlier(target: Tensor, leaves: Sequence[Value]) -> list[Value]:
    """Return those of `leaves` that are values of `target` from before an assignment."""
    return [
        value
        for value in leaves
        if value.maker is target and value is not value_of(target)
        if shape_of(value.node) == target.shape
    ]


def _total_at(target: T, parts: Sequence[T | None]) -> T | None:
    """Return the sum of the gradients on the devices of `target`; None if there is none."""
    placed = [placed_like(part, target) for part in parts if part is not None]
    return functools.reduce(operator.add, placed) if placed else None
