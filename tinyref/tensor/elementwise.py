"""Arithmetic, comparisons, selection, casts and rounding, one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Literal, ParamSpec, Self, TypeVar

from tinyref.algebra.symbolic import as_node, as_size
from tinyref.dtype import (
    ConstType,
    DType,
    DTypeLike,
    as_const,
    dtypes,
    promote,
    sum_dtype,
    to_dtype,
)
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.tensor.arguments import broadcast, require_one_of
from tinyref.tensor.core import (
    TensorCore,
    apart_from,
    apply,
    broadcast_to,
    cast_to,
    constant_like,
    from_node,
    with_rule,
)
from tinyref.tensor.gradient import Contributions, GradientStep, gradient_rule
from tinyref.tensor.literals import check_fits, scalar_dtype, weak_dtype, weak_number
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def compute_dtype(name: str, dtype: DType) -> DType:
    """Return `dtype`. Raises `UserTypeError` for a storage-only type."""
    if dtype in dtypes.storage_only:
        raise UserTypeError(
            f"{name}: {dtype.name} is for storage: cast to float16 or float32 first"
        )
    return dtype


def require_integer(name: str, dtype: DType, accept_bool: bool = True) -> None:
    """Raise `UserTypeError` unless `dtype` is an integer type or, if accepted, bool."""
    if not (dtype.is_int or (dtype.is_bool and accept_bool)):
        accepted = "integers and bool" if accept_bool else "integers"
        raise UserTypeError(f"{name}: got {dtype.name}, accepted are {accepted}")


T = TypeVar("T", bound="Elementwise")
P = ParamSpec("P")


def composite(compute: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Decorate a method of several ops: float16 and bfloat16 compute in float32 and round once.

    The method gets float32 or float64: integers and bool become the default float.
    """

    def compute_wide(tensor: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        wide = widened(tensor, compute.__name__.lstrip("_"))
        return compute(wide, *args, **kwargs).cast(result_dtype(tensor))

    # Nodes take their name from the code that users call.
    compute_wide.__code__ = compute_wide.__code__.replace(co_name=compute.__name__)
    return wraps(compute)(compute_wide)


RoundingMode = Literal["trunc", "floor"] | None


class Elementwise(TensorCore):
    """Functions of single elements: arithmetic, comparisons, selection, casts and rounding.

    Types: two tensors are converted to their least common type in the promotion lattice. A Python
    number takes the tensor's type and wraps or rounds to it, unless it is of a higher kind
    (bool < int < float). Shapes broadcast: they are aligned from the right, and sizes must be
    equal or 1. Other shapes raise `UserError`.

    A function of several ops may have its own gradient rule. `==` compares elements, so tensors
    hash by identity.
    """

    __slots__ = ()

    # Arithmetic of two

    def add(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self + x. Integers wrap; bool is OR.

        Examples:
            >>> Tensor([1, 2]).add(Tensor([10, 20])).tolist()
            [11, 22]
        """
        left, right = operand_pair(self, x, "add", reverse)
        return apply(left, Ops.OR if left.dtype.is_bool else Ops.ADD, right)

    def sub(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self - x. Integers wrap. Raises `UserError` for bool.

        Examples:
            >>> Tensor([5, 6]).sub(1).tolist()
            [4, 5]
        """
        left, right = operand_pair(self, x, "sub", reverse)
        if left.dtype.is_bool:
            raise UserTypeError("sub: bool has no difference: use ^ or logical_not, or cast to int")
        return apply(left, Ops.SUB, right)

    def mul(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self * x. Integers wrap; bool is AND.

        Examples:
            >>> Tensor([2, 3]).mul(4).tolist()
            [8, 12]
        """
        left, right = operand_pair(self, x, "mul", reverse)
        return apply(left, Ops.AND if left.dtype.is_bool else Ops.MUL, right)

    def idiv(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return the quotient of integers, rounded towards zero (`//` rounds down).

        Raises `UserError` for floats.

        Examples:
            >>> Tensor([-7, 7]).idiv(2).tolist()
            [-3, 3]
        """
        left, right = quotient_pair(self, x, "idiv", reverse)
        require_integer("idiv", left.dtype, accept_bool=False)
        return apply(left, Ops.IDIV, right)

    def pow(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self ** x, with the special cases of IEEE 754.

        Integers are exact modulo 2^n. A negative number as exponent raises `UserError`. A negative
        element of a tensor gives 0, or 1 or -1 for these bases, as in torch.

        Examples:
            >>> Tensor([2.0, 3.0]).pow(2).tolist()
            [4.0, 9.0]
        """
        number = None if reverse else weak_number(x)
        if number is not None and not isinstance(number, bool):
            if abs(number) <= 4 and float(number).is_integer() and self.dtype.is_float:
                compute_dtype("pow", self.dtype)
                return apart_from(self, self) if number == 1 else self._float_power(int(number))
            if isinstance(number, int) and not self.dtype.is_float:
                return integer_power(self.cast(weak_dtype(number, self.dtype)), number)
        left, right = operand_pair(self, x, "pow", reverse)
        if left.dtype.is_float:
            return apply(left, Ops.POW, right)
        require_integer("pow", left.dtype, accept_bool=False)
        return power_by_bits(left, right)

    @composite
    def _float_power(self, exponent: int) -> Self:
        """Return the power by a small integer, with few products."""
        # Take the reciprocal first: then the slope at 0 and at infinities is not 0 * inf.
        base = self.reciprocal() if exponent < 0 else self
        return power_by_squaring(base, abs(exponent))

    # Bits

    def _bits(self, op: Ops, x: Self | ConstType, name: str, reverse: bool) -> Self:
        left, right = operand_pair(self, x, name, reverse)
        require_integer(name, left.dtype)
        return apply(left, op, right)

    def bitwise_and(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self & x for integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_and(0b1010).item() == 0b1000
            True
        """
        return self._bits(Ops.AND, x, "bitwise_and", reverse)

    def bitwise_or(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self | x for integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_or(0b1010).item() == 0b1110
            True
        """
        return self._bits(Ops.OR, x, "bitwise_or", reverse)

    def bitwise_xor(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return self ^ x for integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_xor(0b1010).item() == 0b0110
            True
        """
        return self._bits(Ops.XOR, x, "bitwise_xor", reverse)

    def bitwise_not(self) -> Self:
        """Return ~self: every bit inverted; for bools, the logical negation.

        Examples:
            >>> Tensor([0, -1]).bitwise_not().tolist()
            [-1, 0]
        """
        require_integer("bitwise_not", self.dtype)
        if self.dtype.is_bool:
            return self.logical_not()
        return self._bits(Ops.XOR, self.dtype.maximum if self.dtype.is_unsigned else -1, "", False)

    def lshift(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Shift the bits to the left by `x`, in the common type of both.

        A count below 0, or at least the width of that type, gives 0. As a number, it raises
        `UserError`.

        Examples:
            >>> Tensor([3, 3]).lshift(Tensor([2, 40])).tolist()
            [12, 0]
        """
        return self._shift(Ops.SHL, x, "lshift", reverse)

    def rshift(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Shift the bits to the right by `x`, in the common type of both. The sign stays.

        A count below 0, or at least the width of that type, leaves only the sign: 0 or -1. As a
        number, it raises `UserError`.

        Examples:
            >>> Tensor([12, -12]).rshift(Tensor([2, 40])).tolist()
            [3, -1]
        """
        return self._shift(Ops.SHR, x, "rshift", reverse)

    def _shift(self, op: Ops, x: Self | ConstType, name: str, reverse: bool) -> Self:
        number = None if reverse else weak_number(x)
        if isinstance(number, float):
            raise UserTypeError(f"{name}: count {number}, accepted are integers")
        value, count = operand_pair(self, x, name, reverse)
        require_integer(name, value.dtype, accept_bool=False)
        bits = value.dtype.bits
        if number is not None:
            if not 0 <= number < bits:
                raise UserError(f"{name}: count {number}, accepted is 0 to {bits - 1}")
            return apply(value, op, count)
        # The width is a power of two. Devices must get counts in range: others are unspecified.
        is_inside = count.bitwise_and(-bits).eq(0)
        if op is Ops.SHR and not value.dtype.is_unsigned:
            return apply(value, op, is_inside.where(count, bits - 1))
        return is_inside.where(apply(value, op, count.bitwise_and(bits - 1)), 0)

    # Comparisons

    def _comparands(self, other: object, name: str) -> tuple[Self, Self]:
        """Return both sides. An integer that the tensor's type cannot hold widens the tensor."""
        number = operand(self, other, name)
        if isinstance(number, TensorCore | float):
            return operand_pair(self, number, name)
        dtype = weak_dtype(number, self.dtype)
        if not dtype.is_int or dtype.minimum <= number <= dtype.maximum:
            return operand_pair(self, number, name)
        # A number above int64 is only comparable with unsigned elements.
        wider = dtypes.uint64 if dtype.is_unsigned and number >= 0 else dtypes.int64
        if dtype is dtypes.uint64 or not wider.minimum <= number <= wider.maximum:
            raise UserError(
                f"{name}: no 64-bit integer type holds {number} and all of {dtype.name}"
            )
        return operand_pair(self.cast(wider), number, name)

    def ne(self, x: Self | ConstType) -> Self:
        """Return self != x as bool: True where either side is NaN.

        Examples:
            >>> Tensor([1, 2]).ne(Tensor([1, 3])).tolist()
            [False, True]
        """
        left, right = self._comparands(x, "ne")
        return apply(left, Ops.CMPNE, right)

    def eq(self, x: Self | ConstType) -> Self:
        """Return self == x as bool: False where either side is NaN.

        Examples:
            >>> Tensor([1, 2]).eq(Tensor([1, 3])).tolist()
            [True, False]
        """
        left, right = self._comparands(x, "eq")
        return apply(left, Ops.CMPNE, right).logical_not()

    def lt(self, x: Self | ConstType) -> Self:
        """Return self < x as bool: False where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).lt(2).tolist()
            [True, False, False]
        """
        left, right = self._comparands(x, "lt")
        return apply(left, Ops.CMPLT, right)

    def gt(self, x: Self | ConstType) -> Self:
        """Return self > x as bool: False where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).gt(2).tolist()
            [False, False, True]
        """
        left, right = self._comparands(x, "gt")
        return apply(right, Ops.CMPLT, left)

    def le(self, x: Self | ConstType) -> Self:
        """Return self <= x as bool: False where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).le(2).tolist()
            [True, True, False]
        """
        left, right = self._comparands(x, "le")
        return is_at_most(left, right)

    def ge(self, x: Self | ConstType) -> Self:
        """Return self >= x as bool: False where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).ge(2).tolist()
            [False, True, True]
        """
        left, right = self._comparands(x, "ge")
        return is_at_most(right, left)

    def isnan(self) -> Self:
        """Return True where an element is NaN.

        Examples:
            >>> Tensor([1.0, float("nan")]).isnan().tolist()
            [False, True]
        """
        return apply(self, Ops.CMPNE, self)

    # Functions of one

    def neg(self) -> Self:
        """Return -self. Integers wrap. Raises `UserError` for bool.

        Examples:
            >>> Tensor([1, -2]).neg().tolist()
            [-1, 2]
        """
        if self.dtype.is_bool:
            raise UserTypeError("neg: bool has no negative: use logical_not, or cast to int")
        compute_dtype("neg", self.dtype)
        return apply(self, Ops.NEG)

    def logical_not(self) -> Self:
        """Return True where an element is zero.

        Examples:
            >>> Tensor([0, 3]).logical_not().tolist()
            [True, False]
        """
        truth = self.cast(dtypes.bool)
        return apply(
            truth, Ops.CMPNE, broadcast_to(constant_like(self, True, dtypes.bool), self.shape)
        )

    def reciprocal(self) -> Self:
        """Return 1 / self. Integers give the default float.

        Examples:
            >>> Tensor([2.0, 4.0]).reciprocal().tolist()
            [0.5, 0.25]
        """
        return apply(as_float(self, "reciprocal"), Ops.RECIP)

    def sqrt(self) -> Self:
        """Return the square root: NaN below zero, -0 for -0.

        Examples:
            >>> Tensor([4.0, 9.0]).sqrt().tolist()
            [2.0, 3.0]
        """
        return apply(as_float(self, "sqrt"), Ops.SQRT)

    @composite
    def rsqrt(self) -> Self:
        """Return 1 / sqrt(self).

        Examples:
            >>> Tensor([4.0, 0.25]).rsqrt().tolist()
            [0.5, 2.0]
        """
        return self.sqrt().reciprocal()

    def exp2(self) -> Self:
        """Return 2 ** self.

        Examples:
            >>> Tensor([3.0, -1.0]).exp2().tolist()
            [8.0, 0.5]
        """
        return apply(as_float(self, "exp2"), Ops.EXP2)

    def log2(self) -> Self:
        """Return the logarithm to base 2: -inf for 0, NaN below.

        Examples:
            >>> Tensor([8.0, 0.5]).log2().tolist()
            [3.0, -1.0]
        """
        return apply(as_float(self, "log2"), Ops.LOG2)

    def sin(self) -> Self:
        """Return the sine of radians: NaN for an infinity.

        Examples:
            >>> Tensor([0.0]).sin().item()
            0.0
        """
        return apply(as_float(self, "sin"), Ops.SIN)

    def square(self) -> Self:
        """Return self * self.

        Examples:
            >>> Tensor([-2, 3]).square().tolist()
            [4, 9]
        """
        return self.mul(self)

    def clamp(
        self, min_: Self | ConstType | None = None, max_: Self | ConstType | None = None
    ) -> Self:
        """Limit the elements to at least `min_` and at most `max_`. NaN stays NaN.

        None means no bound. A bound that is NaN gives NaN, as in torch.

        Examples:
            >>> Tensor([-1, 2, 9]).clamp(0, 5).tolist()
            [0, 2, 5]
        """
        if min_ is None and max_ is None:
            raise UserError("clamp: min_ and max_ are both None: accepted is at least one bound")
        result = self
        if min_ is not None:
            lower = bound_operand(result, min_, "clamp: min_", is_lower=True)
            result = stopped_at(result, lower, result.lt(lower))
        if max_ is not None:
            upper = bound_operand(result, max_, "clamp: max_", is_lower=False)
            result = stopped_at(result, upper, result.gt(upper))
        return result

    def clip(
        self, min_: Self | ConstType | None = None, max_: Self | ConstType | None = None
    ) -> Self:
        """Do the same as `clamp`.

        Examples:
            >>> Tensor([-1, 2, 9]).clip(0, 5).tolist()
            [0, 2, 5]
        """
        return self.clamp(min_, max_)

    def relu(self) -> Self:
        """Return the elements above 0, and 0 for the others. NaN stays NaN. The slope at 0 is 0.

        Examples:
            >>> Tensor([-1.0, 2.0]).relu().tolist()
            [0.0, 2.0]
        """
        passes = self.gt(0)
        if self.dtype.is_float:
            passes = passes.bitwise_or(self.isnan())
        return passes.where(self, 0)

    def detach(self) -> Self:
        """Return a view of the elements through which no gradient flows.

        Examples:
            >>> x = Tensor([2.0], requires_grad=True)
            >>> (x * x.detach()).sum().gradient(x)[0].item()
            2.0
        """
        return apply(self, Ops.DETACH)

    def contiguous_backward(self) -> Self:
        """Return the same elements. In `backward`, their gradient gets its own memory.

        Examples:
            >>> Tensor([1.0, 2.0]).contiguous_backward().tolist()
            [1.0, 2.0]
        """
        return with_rule(self, "contiguous_backward", lambda x: x)

    # Selection and types

    def where(self, x: Self | ConstType, y: Self | ConstType) -> Self:
        """Select `x` where this tensor is not 0, else `y`. A number takes the other side's type.

        NaN is not 0, as in numpy.

        Examples:
            >>> Tensor([True, False]).where(Tensor([1, 2]), 0).tolist()
            [1, 0]
        """
        left, right = operand(self, x, "where"), operand(self, y, "where")
        dtype = _common_dtype(left, right)
        for value in (left, right):
            if not isinstance(value, TensorCore):
                check_fits(value, dtype, "where")
        chosen, other = (
            value.cast(dtype)
            if isinstance(value, TensorCore)
            else constant_like(self, value, dtype)
            for value in (left, right)
        )
        condition, chosen, other = spread(self.cast(dtypes.bool), "where", chosen, other)
        return apply(condition, Ops.WHERE, chosen, other)

    def cast(self, dtype: DTypeLike) -> Self:
        """Convert the elements to `dtype`. Integers wrap, floats round to nearest even.

        The result for a float outside of an integer type's range is unspecified. Bool is `x != 0`.

        Examples:
            >>> Tensor([1.75, -1.75]).cast(dtypes.int32).tolist()
            [1, -1]
        """
        target = to_dtype(dtype, "cast")
        if target not in dtypes.all:
            raise UserTypeError(f"cast: {target.name} is not an element type of tensors")
        return cast_to(self, target)

    # Quotients and remainders

    def div(
        self,
        x: Self | ConstType,
        reverse: bool = False,
        rounding_mode: RoundingMode = None,
    ) -> Self:
        """Return self / x. Integers give the default float.

        With `rounding_mode` "trunc" or "floor" the quotient is rounded, and integers stay integers.

        Examples:
            >>> Tensor([7, 8]).div(2).tolist()
            [3.5, 4.0]
            >>> Tensor([-7, 7]).div(2, rounding_mode="floor").tolist()
            [-4, 3]
        """
        require_one_of(rounding_mode, (None, "trunc", "floor"), "div: rounding_mode")
        other = operand(self, x, "div")
        if rounding_mode is None and not isinstance(other, Elementwise):
            # Both sides become floats, so the number need not fit the integer type.
            left, right = operand_pair(as_float(self, "div"), other, "div", reverse)
            return apply(left, Ops.FDIV, right)
        left, right = quotient_pair(self, other, "div", reverse)
        if rounding_mode is not None and not left.dtype.is_float:
            return left.idiv(right) if rounding_mode == "trunc" else floor_divide(left, right)
        if rounding_mode == "floor":
            return floor_divide(left, right)
        if rounding_mode == "trunc":
            return with_rule(left, "steps", _truncated_quotient, right)
        return apply(as_float(left, "div"), Ops.FDIV, as_float(right, "div"))

    def mod(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Return the remainder with the sign of the divisor, as `%` of Python and torch.

        The remainder of floats is exact for every quotient. It is defined by `fmod` of C.

        Examples:
            >>> Tensor([-7, 7]).mod(3).tolist()
            [2, 1]
        """
        left, right = quotient_pair(self, x, "mod", reverse)
        if left.dtype.is_float:
            return with_rule(left, "mod", _remainder, right)
        require_integer("mod", left.dtype, accept_bool=False)
        remainder = apply(left, Ops.MOD, right)
        if left.dtype.is_unsigned:
            return remainder
        return remainder_is_opposite(left, right).where(remainder.add(right), remainder)

    def fmod(self, other: Self | ConstType) -> Self:
        """Return the remainder with the sign of this tensor, as `fmod` of C and torch.

        Floats are as exact as in `mod`. The remainder of an infinity, or by 0, is NaN. The
        remainder of an integer by 0 has no defined value.

        Examples:
            >>> Tensor([-7, 7]).fmod(3).tolist()
            [-1, 1]
            >>> Tensor([-7.5, 7.5]).fmod(-2).tolist()
            [-1.5, 1.5]
        """
        left, right = quotient_pair(self, other, "fmod", reverse=False)
        if left.dtype.is_float:
            return with_rule(left, "fmod", _signed_remainder, right)
        require_integer("fmod", left.dtype, accept_bool=False)
        return apply(left, Ops.MOD, right)

    # Extremes

    def maximum(self, x: Self | ConstType) -> Self:
        """Return the larger element; NaN if one is NaN. For +0 and -0 it may be either.

        Examples:
            >>> Tensor([1, 5]).maximum(3).tolist()
            [3, 5]
        """
        left, right = operand_pair(
            self, bound_operand(self, x, "maximum", is_lower=True), "maximum"
        )
        if left.dtype.is_float:
            # MAX may drop a NaN; `_larger` does not.
            return with_rule(left, Ops.MAX, _larger, right)
        return apply(left, Ops.OR if left.dtype.is_bool else Ops.MAX, right)

    def minimum(self, x: Self | ConstType) -> Self:
        """Return the smaller element; NaN if one is NaN. For +0 and -0 it may be either.

        Examples:
            >>> Tensor([1, 5]).minimum(3).tolist()
            [1, 3]
        """
        left, right = operand_pair(
            self, bound_operand(self, x, "minimum", is_lower=False), "minimum"
        )
        if left.dtype.is_bool:
            return apply(left, Ops.AND, right)
        return reversed_order(reversed_order(left).maximum(reversed_order(right)))

    # Rounding

    def trunc(self) -> Self:
        """Round towards zero. Integers stay unchanged.

        Examples:
            >>> Tensor([-1.5, 1.5]).trunc().tolist()
            [-1.0, 1.0]
        """
        return apply(self, Ops.TRUNC) if self.dtype.is_float else apart_from(self, self)

    def floor(self) -> Self:
        """Round down. Integers, -0 and infinities stay unchanged.

        Examples:
            >>> Tensor([-1.5, 1.5]).floor().tolist()
            [-2.0, 1.0]
        """
        if not self.dtype.is_float:
            return apart_from(self, self)
        whole = self.trunc()
        return self.lt(whole).where(whole.sub(1), whole)

    def ceil(self) -> Self:
        """Round up. Integers, -0 and infinities stay unchanged.

        Examples:
            >>> Tensor([-1.5, 1.5]).ceil().tolist()
            [-1.0, 2.0]
        """
        if not self.dtype.is_float:
            return apart_from(self, self)
        whole = self.trunc()
        return whole.lt(self).where(whole.add(1), whole)

    def round(self) -> Self:
        """Round to the nearest integer, and halves to the even one. Integers stay unchanged.

        Examples:
            >>> Tensor([0.5, 1.5, 2.5]).round().tolist()
            [0.0, 2.0, 2.0]
        """
        if not self.dtype.is_float:
            return apart_from(self, self)
        return with_rule(self, "steps", _nearest_even)

    # Signs and infinities

    def sign(self) -> Self:
        """Return -1, 0 or 1 in the tensor's type, with slope 0. NaN and signed zeros stay.

        Examples:
            >>> Tensor([-3.0, 0.0, 2.0]).sign().tolist()
            [-1.0, 0.0, 1.0]
        """
        if self.dtype.is_bool:
            return apart_from(self, self)
        return with_rule(self, "steps", _sign)

    def abs(self) -> Self:
        """Return the magnitude. The smallest signed integer wraps to itself. The slope at 0 is 0.

        Examples:
            >>> Tensor([-2, 3]).abs().tolist()
            [2, 3]
        """
        if self.dtype.is_unsigned or self.dtype.is_bool:
            return apart_from(self, self)
        if self.dtype.is_float:
            compute_dtype("abs", self.dtype)
            # The product with the sign also clears the sign of -0. The sign itself has no slope.
            return self.mul(self.detach().sign())
        return self.lt(0).where(self.neg(), self)

    def copysign(self, other: Self | ConstType) -> Self:
        """Return the magnitude of this tensor with the sign of `other`, also of a signed zero.

        A NaN has no sign: it counts as positive. Integers give the default float.

        Examples:
            >>> Tensor([1.0, 2.0]).copysign(Tensor([-0.0, 3.0])).tolist()
            [-1.0, 2.0]
        """
        left, right = operand_pair(self, other, "copysign")
        left, right = as_float(left, "copysign"), as_float(right, "copysign")
        return with_rule(left, "copysign", _signed_like, right)

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Return True where an element is an infinity of a requested sign.

        Examples:
            >>> Tensor([1.0, float("-inf"), float("nan")]).isinf().tolist()
            [False, True, False]
        """
        if not self.dtype.is_float or not (detect_positive or detect_negative):
            return broadcast_to(constant_like(self, False, dtypes.bool), self.shape)
        if detect_positive and detect_negative:
            return self.abs().eq(math.inf)
        return self.eq(math.inf if detect_positive else -math.inf)

    def isfinite(self) -> Self:
        """Return True where an element is neither NaN nor an infinity.

        Examples:
            >>> Tensor([1.0, float("inf"), float("nan")]).isfinite().tolist()
            [True, False, False]
        """
        return self.isnan().bitwise_or(self.isinf()).logical_not()

    __neg__ = neg
    __abs__ = abs
    __invert__ = bitwise_not
    __lt__ = lt
    __gt__ = gt
    __le__ = le
    __ge__ = ge

    def __pos__(self) -> Self:
        return self

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
        """Return the quotient rounded down, as in Python. `idiv` rounds towards zero."""
        return floor_divide(self, x)

    def __rfloordiv__(self, x: ConstType) -> Self:
        return floor_divide(self, x, reverse=True)

    def __mod__(self, x: Self | ConstType) -> Self:
        return self.mod(x)

    def __rmod__(self, x: ConstType) -> Self:
        return self.mod(x, reverse=True)

    def __pow__(self, x: Self | ConstType) -> Self:
        return self.pow(x)

    def __rpow__(self, x: ConstType) -> Self:
        return self.pow(x, reverse=True)

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

    def __eq__(self, x: object) -> Self:  # type: ignore[override]  # a tensor of bool, not a bool
        if x is None:
            return NotImplemented  # so that the result is False
        return self.eq(x)  # type: ignore[arg-type]  # what it accepts is checked there

    def __ne__(self, x: object) -> Self:  # type: ignore[override]  # a tensor of bool, not a bool
        if x is None:
            return NotImplemented  # so that the result is True
        return self.ne(x)  # type: ignore[arg-type]  # what it accepts is checked there

    __hash__ = object.__hash__


# Operands


def operand(x: T, value: object, name: str) -> T | ConstType:
    """Return `value` as a tensor or a Python number. Raises `UserTypeError` for other types."""
    if isinstance(value, type(x)):
        return value
    number = weak_number(value)
    if number is not None:
        return number
    if isinstance(value, UOp):
        # A symbolic size is a number too: an int32 tensor without axes.
        size = as_node(as_size(value, name))
        return from_node(type(x), graph.cast(size, dtypes.int32), x.device)
    raise UserTypeError(f"{name}: got a {type(value).__name__}: accepted are a Tensor and a number")


def operand_pair(x: T, other: object, name: str, reverse: bool = False) -> tuple[T, T]:
    """Return both operands in their common type and shape, in the order of the operation."""
    second = operand(x, other, name)
    if isinstance(second, TensorCore):
        dtype = compute_dtype(name, promote(x.dtype, second.dtype))
        left, right = x.cast(dtype), second.cast(dtype)
    else:
        dtype = compute_dtype(name, weak_dtype(second, x.dtype))
        left, right = x.cast(dtype), constant_like(x, second, dtype)
    left, right = spread(left, name, right)
    return (right, left) if reverse else (left, right)


def quotient_pair(tensor: T, x: object, name: str, reverse: bool) -> tuple[T, T]:
    """Return both sides of an integer division. Raises `UserError` for a number that wraps to 0."""
    number = operand(tensor, x, name)
    if not reverse and not isinstance(number, TensorCore | float):
        dtype = weak_dtype(number, tensor.dtype)
        if dtype.is_int and as_const(number, dtype) == 0 != number:
            raise UserError(f"{name}: the divisor {number} is 0 in {dtype.name}")
    return operand_pair(tensor, number, name, reverse)


def bound_operand(x: T, value: object, name: str, is_lower: bool) -> T | ConstType:
    """Return the lower or upper bound of `clamp`. A bound beyond the type becomes its extreme.

    Raises `UserError` for a bound on the other side that integer elements cannot have.
    """
    bound = operand(x, value, name)
    if isinstance(bound, TensorCore | float):
        return bound
    dtype = weak_dtype(bound, x.dtype)
    if not dtype.is_int:
        return bound
    extreme = dtype.minimum if is_lower else dtype.maximum
    if bound < extreme if is_lower else bound > extreme:
        return extreme
    check_fits(bound, dtype, name)
    return bound


def spread(x: T, name: str, *others: T) -> tuple[T, ...]:
    """Return this tensor and `others` in their common shape."""
    operands = (x, *others)
    shape = broadcast([operand.shape for operand in operands], name)
    return tuple(broadcast_to(operand, shape) for operand in operands)


def as_float(x: T, name: str) -> T:
    """Convert integers and bools to the default float. Floats stay unchanged."""
    if x.dtype.is_float:
        compute_dtype(name, x.dtype)
        return x
    return x.cast(dtypes.default_float)


def widened(x: T, name: str) -> T:
    """Convert this tensor to the type in which functions of several ops are computed."""
    floats = as_float(x, name)
    return floats.cast(sum_dtype(floats.dtype))


def result_dtype(x: T) -> DType:
    """Return the type of a function of floats: integers give the default float."""
    return x.dtype if x.dtype.is_float else dtypes.default_float


def _common_dtype(left: TensorCore | ConstType, right: TensorCore | ConstType) -> DType:
    """Return the common type of the two choices of a WHERE."""
    if isinstance(left, TensorCore):
        if isinstance(right, TensorCore):
            return promote(left.dtype, right.dtype)
        return weak_dtype(right, left.dtype)
    if isinstance(right, TensorCore):
        return weak_dtype(left, right.dtype)
    return weak_dtype(right, scalar_dtype(left))


# Powers and comparisons


@composite
def scaled(x: T, factor: float, offset: float | None = None) -> T:
    """Return x * factor + offset."""
    product = x.mul(factor)
    return product if offset is None else product.add(offset)


def integer_power(x: T, exponent: int) -> T:
    """Raise integers to a number. Raises `UserTypeError` for a negative one."""
    if exponent < 0:
        raise UserTypeError(
            f"pow: {x.dtype.name} ** {exponent} is no integer: cast to a float type first"
        )
    return power_by_squaring(x, exponent)


def power_by_squaring(x: T, exponent: int) -> T:
    """Return x ** exponent by repeated squaring. Exponent 0 gives ones."""
    if exponent == 0 and x.dtype.is_float:
        # POW instead of a constant: so the result depends on this tensor.
        return apply(x, Ops.POW, broadcast_to(constant_like(x, 0, x.dtype), x.shape))
    if exponent == 0:
        return broadcast_to(constant_like(x, 1, x.dtype), x.shape)
    result: T | None = None
    square = x
    while True:
        if exponent & 1:
            result = square if result is None else apply(result, Ops.MUL, square)
        exponent >>= 1
        if not exponent:
            break
        square = apply(square, Ops.MUL, square)
    assert result is not None, "an exponent above zero has a lowest set bit"
    return apart_from(result, x)


def power_by_bits(x: T, exponent: T) -> T:
    """Raise integers to integers by repeated squaring, with a factor for each exponent bit."""
    result = square = x
    for bit in range(x.dtype.bits - (not x.dtype.is_unsigned)):
        factor = exponent.bitwise_and(1 << bit).ne(0).where(square, 1)
        result = apply(result, Ops.MUL, factor) if bit else factor
        square = apply(square, Ops.MUL, square)
    if x.dtype.is_unsigned:
        return result
    # The reciprocal of 1 and -1 is an integer: the lowest bit decides the sign.
    is_unit = x.eq(1).bitwise_or(x.eq(-1))
    return is_unit.bitwise_or(exponent.ge(0)).where(result, 0)


def is_at_most(x: T, other: T) -> T:
    """Return x <= other. Only floats need two comparisons: with a NaN, not (y < x) is true."""
    if not x.dtype.is_float:
        return apply(other, Ops.CMPLT, x).logical_not()
    return apply(apply(x, Ops.CMPLT, other), Ops.OR, x.eq(other))


def stopped_at(x: T, bound: T | ConstType, is_beyond: T) -> T:
    """Replace elements beyond `bound` by it. If `bound` is NaN, all elements are beyond it."""
    if not isinstance(bound, TensorCore):
        is_beyond = is_beyond if bound == bound else constant_like(x, True, dtypes.bool)
    elif bound.dtype.is_float:
        is_beyond = is_beyond.bitwise_or(bound.isnan())
    return is_beyond.where(bound, x)


def reversed_order(x: T) -> T:
    """Return -x, or ~x for integers: this reverses the order exactly and is its own inverse."""
    return x.neg() if x.dtype.is_float else x.bitwise_not()


# Functions of floats with their own gradient rules. Their operands have one type and shape.


def floor_divide(tensor: T, x: T | ConstType, reverse: bool = False) -> T:
    """Return the quotient, rounded down."""
    left, right = quotient_pair(tensor, x, "floor_divide", reverse)
    if left.dtype.is_float:
        return with_rule(left, "steps", _floor_quotient, right)
    quotient = left.idiv(right)
    if left.dtype.is_unsigned:
        return quotient
    return quotient.sub(remainder_is_opposite(left, right).cast(left.dtype))


def remainder_is_opposite(x: T, divisor: T) -> T:
    """Return True where truncation and rounding down differ.

    There, the remainder is not 0 and has the sign that the divisor has not.
    """
    remainder = apply(x, Ops.MOD, divisor)
    return remainder.lt(0).ne(divisor.lt(0)).mul(remainder.ne(0))


def _larger(x: T, y: T) -> T:
    """Return the larger element; NaN if one is NaN."""
    return apply(x, Ops.CMPLT, y).bitwise_or(y.isnan()).where(y, x)


def _sign(x: T) -> T:
    """Return -1, 0 or 1."""
    positive = x.gt(0).where(1, x)
    return positive if x.dtype.is_unsigned else x.lt(0).where(-1, positive)


def _signed_like(x: T, y: T) -> T:
    """Return the magnitude of x with the sign of y."""
    # 1 / -0 is -inf. Division by a subnormal number may give an infinity of the correct sign.
    is_negative = y.lt(0).bitwise_or(y.reciprocal().lt(0))
    magnitude = x.abs()
    return is_negative.where(magnitude.neg(), magnitude)


def _nearest_even(x: T) -> T:
    """Round to nearest even. The difference to TRUNC is exact, so halves are detected exactly."""
    whole = x.trunc()
    rest = x.sub(whole).abs()
    half = whole.mul(0.5)
    is_odd = half.ne(half.trunc())
    away = rest.gt(0.5).bitwise_or(rest.eq(0.5).bitwise_and(is_odd))
    return away.where(whole.add(x.lt(0).where(-1, constant_like(x, 1, x.dtype))), whole)


def _truncated_quotient(x: T, y: T) -> T:
    """Return x / y rounded towards zero. 16-bit floats are divided in float32."""
    left, right = (item.cast(sum_dtype(x.dtype)) for item in (x, y))
    return apply(left, Ops.FDIV, right).trunc().cast(x.dtype)


def _floor_quotient(x: T, y: T) -> T:
    """Return floor(x / y), rounded to the nearest float. NaN for an infinite x, unless y is 0."""
    left, right = (item.cast(sum_dtype(x.dtype)) for item in (x, y))
    quotient = apply(left, Ops.FDIV, right)
    whole = quotient.floor()
    rest, divisor = _remainder(left, right).abs(), right.abs()
    # If more than half of the divisor remains, the quotient was rounded up to an integer.
    limit = 2.0 ** (left.dtype.mantissa_bits + 1)
    is_below_limit = left.abs().lt(divisor.mul(limit))
    is_rounded_up = quotient.eq(whole).bitwise_and(divisor.sub(rest).lt(rest))
    is_rounded_up = is_rounded_up.bitwise_and(is_below_limit)
    whole = is_rounded_up.where(whole.sub(1), whole)
    # A quotient of different signs may underflow to zero.
    is_negative = left.lt(0).ne(right.lt(0)).bitwise_and(left.ne(0))
    is_small = left.abs().lt(divisor)
    whole = is_small.bitwise_and(is_negative).where(-1, whole)
    has_no_remainder = left.abs().eq(math.inf).bitwise_and(right.ne(0))
    return has_no_remainder.where(math.nan, whole).cast(x.dtype)


def _remainder(x: T, y: T) -> T:
    """Return x - floor(x / y) y: the exact remainder, plus y if the signs differ.

    Zero has the sign of y, as in Python and the array API standard. 16-bit floats are exact too.
    """
    left, right = (item.cast(sum_dtype(x.dtype)) for item in (x, y))
    rest = _truncated_remainder(left, right)
    is_opposite = rest.lt(0).ne(right.lt(0)).bitwise_and(rest.ne(0))
    zero = right.lt(0).where(-0.0, constant_like(rest, 0.0, rest.dtype))
    result = rest.eq(0).where(zero, is_opposite.where(rest.add(right), rest))
    return result.cast(x.dtype)


@gradient_rule("mod", reads_sources=True)
def mod_gradient(step: GradientStep[Elementwise]) -> Contributions:
    """Return the slopes of x - floor(x / y) y: 1 and -floor(x / y)."""
    x, y = step.sources
    return (lambda: step.gradient, lambda: -step.gradient * x.div(y, rounding_mode="floor"))


def _signed_remainder(x: T, y: T) -> T:
    """Return x - trunc(x / y) y. For magnitudes, rounding down and towards zero are the same."""
    return _signed_like(_remainder(x.abs(), y.abs()), x)


@gradient_rule("fmod", reads_sources=True)
def fmod_gradient(step: GradientStep[Elementwise]) -> Contributions:
    """Return the slopes of x - trunc(x / y) y: 1 and -trunc(x / y)."""
    x, y = step.sources

    def of_divisor() -> Elementwise:
        quotient = x.abs().div(y.abs(), rounding_mode="floor")
        return step.gradient * x.lt(0).ne(y.lt(0)).where(quotient, -quotient)

    return (lambda: step.gradient, of_divisor)


# For each float type: the integer type of its bits, and the number of squarings below.
_INTEGERS = {dtypes.float32: (dtypes.int32, 4), dtypes.float64: (dtypes.int64, 6)}


def _truncated_remainder(x: T, y: T) -> T:
    """Return x - trunc(x / y) y exactly, as fmod in C.

    A float is m * 2^e for an integer m. If d is the difference of the exponents, this is the
    remainder of the integers m_x * 2^d and m_y. Squaring gives 2^d modulo m_y.
    """
    float_type, bits = x.dtype, x.dtype.mantissa_bits
    integers, squarings = _INTEGERS[float_type]
    left, right = (
        apply(item, Ops.BITCAST, dtype=integers).bitwise_and(integers.maximum) for item in (x, y)
    )
    # Subnormal numbers have the exponent of the smallest normal numbers.
    exponents = [item.rshift(bits).maximum(1) for item in (left, right)]
    of_x, of_y = (
        item.sub(exponent.sub(1).lshift(bits))
        for item, exponent in zip((left, right), exponents, strict=True)
    )
    modulus = of_y.maximum(1)
    difference = exponents[0].sub(exponents[1]).maximum(0)
    one = broadcast_to(constant_like(difference, 1, integers), difference.shape)
    power = apply(apply(one, Ops.SHL, difference.rshift(squarings)), Ops.MOD, modulus)
    for position in reversed(range(squarings)):
        bit = difference.rshift(position).bitwise_and(1)
        power = _product_modulo(power, apply(power, Ops.SHL, bit), modulus, float_type)
    rest = _product_modulo(of_x, power, modulus, float_type)
    # 2^e as two exact factors that are not subnormal.
    scale = apply(exponents[1].lshift(bits), Ops.BITCAST, dtype=float_type)
    magnitude = rest.cast(float_type).mul(2.0**-bits).mul(scale)
    result = left.lt(right).where(x, x.lt(0).where(magnitude.neg(), magnitude))
    is_valid = x.abs().lt(math.inf).bitwise_and(y.ne(0)).bitwise_and(y.eq(y))
    return is_valid.where(result, math.nan)


def _product_modulo(x: T, y: T, modulus: T, float_type: DType) -> T:
    """Return x * y modulo m, for x and y of at least 0, with x * y below 2 m^2 or x m.

    The quotient comes from floats that hold x, y and m. Its error is a few units at most, so the
    rest is a small multiple of m off, in arithmetic that wraps.
    """
    a, b, m = (item.cast(float_type) for item in (x, y, modulus))
    quotient = apply(a.mul(b), Ops.FDIV, m).cast(x.dtype)
    rest = apply(x.mul(y).sub(quotient.mul(modulus)), Ops.MOD, modulus)
    return rest.lt(0).where(rest.add(modulus), rest)
