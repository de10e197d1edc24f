"""Arithmetic, bits, comparisons, selection and casts, one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

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
from tinyref.tensor.arguments import broadcast
from tinyref.tensor.literals import check_fits, scalar_dtype, weak_dtype, weak_number
from tinyref.tensor.values.core import GradientSwitch, Record, TensorCore, Value, is_recording
from tinyref.tensor.values.locks import building
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload


def compute_dtype(name: str, dtype: DType) -> DType:
    """`dtype`, refused where it is for storage only."""
    if dtype in dtypes.storage_only:
        raise UserTypeError(
            f"{name}: {dtype.name} is for storage: cast to float16 or float32 first"
        )
    return dtype


def require_integer(name: str, dtype: DType, accept_bool: bool = True) -> None:
    """Raises `UserError` where bits make no sense."""
    if not (dtype.is_int or (dtype.is_bool and accept_bool)):
        accepted = "integers and bool" if accept_bool else "integers"
        raise UserTypeError(f"{name}: got {dtype.name}, accepted are {accepted}")


T = TypeVar("T", bound="Elementwise")
P = ParamSpec("P")


def composite(compute: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Make a method of several ops compute float16 and bfloat16 in float32, and round once.

    Its tensor is float32 or float64: integers and bool become, and give, the default float.
    """

    def compute_wide(tensor: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        wide = tensor._wide(compute.__name__.lstrip("_"))
        return compute(wide, *args, **kwargs)._cast(tensor._result_dtype())

    # Nodes are named after the code that users call.
    compute_wide.__code__ = compute_wide.__code__.replace(co_name=compute.__name__)
    return wraps(compute)(compute_wide)


class Elementwise(TensorCore):
    """Functions of one, two or three tensors that broadcast against each other.

    Types: two tensors meet in their least common type of the promotion lattice; a Python number
    takes the tensor's type unless it is of a higher kind (bool < int < float), and wraps or
    rounds to it. Shapes: aligned from the right, sizes equal or 1; anything else is a `UserError`.
    """

    __slots__ = ()

    # Operands

    def _constant(self, value: ConstType, dtype: DType) -> Self:
        return self._from_node(graph.constant(as_const(value, dtype), dtype), self._device)

    def _operand(self, value: object, name: str) -> Self | ConstType:
        if isinstance(value, type(self)):
            return value
        number = weak_number(value)
        if number is not None:
            return number
        if isinstance(value, UOp):
            # A symbolic size is a number too: an int32 tensor without axes.
            size = as_node(as_size(value, name))
            return self._from_node(graph.cast(size, dtypes.int32), self._device)
        raise UserTypeError(
            f"{name}: got a {type(value).__name__}: accepted are a Tensor and a number"
        )

    def _pair(self, other: object, name: str, reverse: bool = False) -> tuple[Self, Self]:
        """Both operands in their common type and shape, in the order of the operation."""
        found = self._operand(other, name)
        if isinstance(found, TensorCore):
            dtype = compute_dtype(name, promote(self.dtype, found.dtype))
            left, right = self._cast(dtype), found._cast(dtype)
        else:
            dtype = compute_dtype(name, weak_dtype(found, self.dtype))
            left, right = self._cast(dtype), self._constant(found, dtype)
        left, right = left._spread(name, right)
        return (right, left) if reverse else (left, right)

    def _bound(self, value: object, name: str, is_lower: bool) -> Self | ConstType:
        """An operand that elements must not be below, or above: one that none is, is the extreme.

        Raises `UserError` for a number that integer elements would become and cannot.
        """
        found = self._operand(value, name)
        if isinstance(found, TensorCore | float):
            return found
        dtype = weak_dtype(found, self.dtype)
        if not dtype.is_int:
            return found
        extreme = dtype.minimum if is_lower else dtype.maximum
        if found < extreme if is_lower else found > extreme:
            return extreme
        check_fits(found, dtype, name)
        return found

    def _spread(self, name: str, *others: Self) -> tuple[Self, ...]:
        """This tensor and `others` in their common shape."""
        operands = (self, *others)
        shape = broadcast([operand.shape for operand in operands], name)
        return tuple(operand._broadcast_to(shape) for operand in operands)

    def _quotient_pair(self, x: object, name: str, reverse: bool) -> tuple[Self, Self]:
        """Both sides of a division whose result is whole: a number that wraps to 0 is refused."""
        number = self._operand(x, name)
        if not reverse and not isinstance(number, TensorCore | float):
            dtype = weak_dtype(number, self.dtype)
            if dtype.is_int and as_const(number, dtype) == 0 != number:
                raise UserError(f"{name}: the divisor {number} is 0 in {dtype.name}")
        return self._pair(number, name, reverse)

    def _as_float(self, name: str) -> Self:
        """Integers and bools as the default float; floats as they are."""
        if self.dtype.is_float:
            compute_dtype(name, self.dtype)
            return self
        return self._cast(dtypes.default_float)

    def _wide(self, name: str) -> Self:
        """This tensor in the type that functions of several ops are computed in."""
        floats = self._as_float(name)
        return floats._cast(sum_dtype(floats.dtype))

    def _result_dtype(self) -> DType:
        return self.dtype if self.dtype.is_float else dtypes.default_float

    # Functions with a gradient of their own

    def _with_rule(
        self,
        rule: Ops | str,
        compute: Callable[..., Self],
        *others: Self,
        arg: Payload = None,
    ) -> Self:
        """`compute` of this tensor and `others`, whose gradient is that of `rule` alone.

        rule: an op, or a name of `gradient/functions.py`. arg: the payload that the rule reads.
        """
        sources = (self, *others)
        with GradientSwitch():
            result = compute(*sources)
        with building:
            value = Value(result._node, result._device)
            if is_recording() and result.dtype.is_float:
                parents = tuple(source._value for source in sources)
                value.record = Record(rule, arg, parents)
                value.requires_grad = any(parent.requires_grad for parent in parents)
            return self._of(value)

    # Arithmetic of two

    def add(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self + x; integers wrap, bool is OR.

        Examples:
            >>> Tensor([1, 2]).add(Tensor([10, 20])).tolist()
            [11, 22]
        """
        left, right = self._pair(x, "add", reverse)
        return left._apply(Ops.OR if left.dtype.is_bool else Ops.ADD, right)

    def sub(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self - x; integers wrap, bool is refused.

        Examples:
            >>> Tensor([5, 6]).sub(1).tolist()
            [4, 5]
        """
        left, right = self._pair(x, "sub", reverse)
        if left.dtype.is_bool:
            raise UserTypeError("sub: bool has no difference: use ^ or logical_not, or cast to int")
        return left._apply(Ops.SUB, right)

    def mul(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self * x; integers wrap, bool is AND.

        Examples:
            >>> Tensor([2, 3]).mul(4).tolist()
            [8, 12]
        """
        left, right = self._pair(x, "mul", reverse)
        return left._apply(Ops.AND if left.dtype.is_bool else Ops.MUL, right)

    def idiv(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """The quotient of integers, rounded towards zero (`//` rounds down); floats are refused.

        Examples:
            >>> Tensor([-7, 7]).idiv(2).tolist()
            [-3, 3]
        """
        left, right = self._quotient_pair(x, "idiv", reverse)
        require_integer("idiv", left.dtype, accept_bool=False)
        return left._apply(Ops.IDIV, right)

    def pow(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self ** x with the special cases of IEEE 754.

        Integers are exact modulo 2^n. A negative exponent is refused if it is a number; in a tensor
        it gives 0, or 1 and -1 for these, as in torch.

        Examples:
            >>> Tensor([2.0, 3.0]).pow(2).tolist()
            [4.0, 9.0]
        """
        number = None if reverse else weak_number(x)
        if number is not None and not isinstance(number, bool):
            if abs(number) <= 4 and float(number).is_integer() and self.dtype.is_float:
                compute_dtype("pow", self.dtype)
                return self._apart_from(self) if number == 1 else self._float_power(int(number))
            if isinstance(number, int) and not self.dtype.is_float:
                return self._cast(weak_dtype(number, self.dtype))._integer_power(number)
        left, right = self._pair(x, "pow", reverse)
        if left.dtype.is_float:
            return left._apply(Ops.POW, right)
        require_integer("pow", left.dtype, accept_bool=False)
        return left._power_by_bits(right)

    def _power_by_bits(self, exponent: Self) -> Self:
        """Raise integers to integers by repeated squaring, with a factor for each exponent bit."""
        result = square = self
        for bit in range(self.dtype.bits - (not self.dtype.is_unsigned)):
            factor = exponent.bitwise_and(1 << bit).ne(0).where(square, 1)
            result = result._apply(Ops.MUL, factor) if bit else factor
            square = square._apply(Ops.MUL, square)
        if self.dtype.is_unsigned:
            return result
        # The reciprocal of 1 and -1 is a whole number: the lowest bit decides the sign.
        is_unit = self.eq(1).bitwise_or(self.eq(-1))
        return is_unit.bitwise_or(exponent.ge(0)).where(result, 0)

    @composite
    def _scale(self, factor: float, offset: float | None = None) -> Self:
        """self * factor + offset."""
        product = self.mul(factor)
        return product if offset is None else product.add(offset)

    @composite
    def _float_power(self, exponent: int) -> Self:
        """The power by a small whole number, in few products."""
        # The reciprocal first: the slope at 0 and at infinities is then no 0 * inf.
        base = self.reciprocal() if exponent < 0 else self
        return base._power(abs(exponent))

    def _integer_power(self, exponent: int) -> Self:
        if exponent < 0:
            raise UserTypeError(
                f"pow: {self.dtype.name} ** {exponent} is no integer: cast to a float type first"
            )
        return self._power(exponent)

    def _power(self, exponent: int) -> Self:
        """By repeated squaring; exponent 0 gives ones."""
        if exponent == 0 and self.dtype.is_float:
            # An op of its own, so that the result is known to depend on this tensor.
            return self._apply(Ops.POW, self._constant(0, self.dtype)._broadcast_to(self.shape))
        if exponent == 0:
            return self._constant(1, self.dtype)._broadcast_to(self.shape)
        result: Self | None = None
        square = self
        while True:
            if exponent & 1:
                result = square if result is None else result._apply(Ops.MUL, square)
            exponent >>= 1
            if not exponent:
                break
            square = square._apply(Ops.MUL, square)
        assert result is not None, "an exponent above zero has a lowest set bit"
        return result._apart_from(self)

    # Bits

    def _bits(self, op: Ops, x: Self | ConstType, name: str, reverse: bool) -> Self:
        left, right = self._pair(x, name, reverse)
        require_integer(name, left.dtype)
        return left._apply(op, right)

    def bitwise_and(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self & x on integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_and(0b1010).item() == 0b1000
            True
        """
        return self._bits(Ops.AND, x, "bitwise_and", reverse)

    def bitwise_or(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self | x on integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_or(0b1010).item() == 0b1110
            True
        """
        return self._bits(Ops.OR, x, "bitwise_or", reverse)

    def bitwise_xor(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """self ^ x on integers and bools.

        Examples:
            >>> Tensor([0b1100]).bitwise_xor(0b1010).item() == 0b0110
            True
        """
        return self._bits(Ops.XOR, x, "bitwise_xor", reverse)

    def bitwise_not(self) -> Self:
        """~self: every bit turned; on bools the logical negation.

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

        A count below 0, or not below the width of that type, gives 0. Such a number is refused.

        Examples:
            >>> Tensor([3, 3]).lshift(Tensor([2, 40])).tolist()
            [12, 0]
        """
        return self._shift(Ops.SHL, x, "lshift", reverse)

    def rshift(self, x: Self | ConstType, reverse: bool = False) -> Self:
        """Shift the bits to the right by `x`, in the common type of both; the sign is kept.

        A count below 0, or not below the width of that type, leaves the sign alone: 0 or -1. Such a
        number is refused.

        Examples:
            >>> Tensor([12, -12]).rshift(Tensor([2, 40])).tolist()
            [3, -1]
        """
        return self._shift(Ops.SHR, x, "rshift", reverse)

    def _shift(self, op: Ops, x: Self | ConstType, name: str, reverse: bool) -> Self:
        number = None if reverse else weak_number(x)
        if isinstance(number, float):
            raise UserTypeError(f"{name}: count {number}, accepted are integers")
        value, count = self._pair(x, name, reverse)
        require_integer(name, value.dtype, accept_bool=False)
        bits = value.dtype.bits
        if number is not None:
            if not 0 <= number < bits:
                raise UserError(f"{name}: count {number}, accepted is 0 to {bits - 1}")
            return value._apply(op, count)
        # The width is a power of two. Devices get counts in range alone: others are unspecified.
        is_inside = count.bitwise_and(-bits).eq(0)
        if op is Ops.SHR and not value.dtype.is_unsigned:
            return value._apply(op, is_inside.where(count, bits - 1))
        return is_inside.where(value._apply(op, count.bitwise_and(bits - 1)), 0)

    # Comparisons

    def _comparands(self, other: object, name: str) -> tuple[Self, Self]:
        """Both sides; an integer that the tensor's type cannot hold widens the tensor."""
        number = self._operand(other, name)
        if isinstance(number, TensorCore | float):
            return self._pair(number, name)
        dtype = weak_dtype(number, self.dtype)
        if not dtype.is_int or dtype.minimum <= number <= dtype.maximum:
            return self._pair(number, name)
        # A number above int64 is only comparable with elements of which none is negative.
        wider = dtypes.uint64 if dtype.is_unsigned and number >= 0 else dtypes.int64
        if dtype is dtypes.uint64 or not wider.minimum <= number <= wider.maximum:
            raise UserError(
                f"{name}: no 64-bit integer type holds {number} and all of {dtype.name}"
            )
        return self._cast(wider)._pair(number, name)

    def ne(self, x: Self | ConstType) -> Self:
        """self != x as bool; true where either side is NaN.

        Examples:
            >>> Tensor([1, 2]).ne(Tensor([1, 3])).tolist()
            [False, True]
        """
        left, right = self._comparands(x, "ne")
        return left._apply(Ops.CMPNE, right)

    def eq(self, x: Self | ConstType) -> Self:
        """self == x as bool; false where either side is NaN.

        Examples:
            >>> Tensor([1, 2]).eq(Tensor([1, 3])).tolist()
            [True, False]
        """
        left, right = self._comparands(x, "eq")
        return left._apply(Ops.CMPNE, right).logical_not()

    def lt(self, x: Self | ConstType) -> Self:
        """self < x as bool; false where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).lt(2).tolist()
            [True, False, False]
        """
        left, right = self._comparands(x, "lt")
        return left._is_less(right)

    def gt(self, x: Self | ConstType) -> Self:
        """self > x as bool; false where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).gt(2).tolist()
            [False, False, True]
        """
        left, right = self._comparands(x, "gt")
        return right._is_less(left)

    def le(self, x: Self | ConstType) -> Self:
        """self <= x as bool; false where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).le(2).tolist()
            [True, True, False]
        """
        left, right = self._comparands(x, "le")
        return left._at_most(right)

    def ge(self, x: Self | ConstType) -> Self:
        """self >= x as bool; false where either side is NaN.

        Examples:
            >>> Tensor([1, 2, 3]).ge(2).tolist()
            [False, True, True]
        """
        left, right = self._comparands(x, "ge")
        return right._at_most(left)

    def _is_less(self, other: Self) -> Self:
        return self._apply(Ops.CMPLT, other)

    def _at_most(self, other: Self) -> Self:
        """x <= y. Only floats need two comparisons: with a NaN, not (y < x) would be true."""
        if not self.dtype.is_float:
            return other._is_less(self).logical_not()
        return self._is_less(other)._apply(Ops.OR, self.eq(other))

    def isnan(self) -> Self:
        """True where an element is NaN.

        Examples:
            >>> Tensor([1.0, float("nan")]).isnan().tolist()
            [False, True]
        """
        return self._apply(Ops.CMPNE, self)

    # Functions of one

    def neg(self) -> Self:
        """-self; integers wrap, bool is refused.

        Examples:
            >>> Tensor([1, -2]).neg().tolist()
            [-1, 2]
        """
        if self.dtype.is_bool:
            raise UserTypeError("neg: bool has no negative: use logical_not, or cast to int")
        compute_dtype("neg", self.dtype)
        return self._apply(Ops.NEG)

    def logical_not(self) -> Self:
        """True where an element is zero.

        Examples:
            >>> Tensor([0, 3]).logical_not().tolist()
            [True, False]
        """
        truth = self._cast(dtypes.bool)
        return truth._apply(Ops.CMPNE, self._constant(True, dtypes.bool)._broadcast_to(self.shape))

    def reciprocal(self) -> Self:
        """1 / self; integers give the default float.

        Examples:
            >>> Tensor([2.0, 4.0]).reciprocal().tolist()
            [0.5, 0.25]
        """
        return self._as_float("reciprocal")._apply(Ops.RECIP)

    def sqrt(self) -> Self:
        """The square root; NaN below zero, -0 for -0.

        Examples:
            >>> Tensor([4.0, 9.0]).sqrt().tolist()
            [2.0, 3.0]
        """
        return self._as_float("sqrt")._apply(Ops.SQRT)

    @composite
    def rsqrt(self) -> Self:
        """1 / sqrt(self).

        Examples:
            >>> Tensor([4.0, 0.25]).rsqrt().tolist()
            [0.5, 2.0]
        """
        return self.sqrt().reciprocal()

    def exp2(self) -> Self:
        """2 ** self.

        Examples:
            >>> Tensor([3.0, -1.0]).exp2().tolist()
            [8.0, 0.5]
        """
        return self._as_float("exp2")._apply(Ops.EXP2)

    def log2(self) -> Self:
        """The logarithm to base 2; -inf for 0, NaN below.

        Examples:
            >>> Tensor([8.0, 0.5]).log2().tolist()
            [3.0, -1.0]
        """
        return self._as_float("log2")._apply(Ops.LOG2)

    def sin(self) -> Self:
        """The sine of radians; NaN for an infinity.

        Examples:
            >>> Tensor([0.0]).sin().item()
            0.0
        """
        return self._as_float("sin")._apply(Ops.SIN)

    def square(self) -> Self:
        """self * self.

        Examples:
            >>> Tensor([-2, 3]).square().tolist()
            [4, 9]
        """
        return self.mul(self)

    def clamp(
        self, min_: Self | ConstType | None = None, max_: Self | ConstType | None = None
    ) -> Self:
        """Not below `min_` and not above `max_`, where they are given; NaN stays NaN.

        A bound that is NaN gives NaN, as in torch.

        Examples:
            >>> Tensor([-1, 2, 9]).clamp(0, 5).tolist()
            [0, 2, 5]
        """
        if min_ is None and max_ is None:
            raise UserError("clamp: min_ and max_ are both None: accepted is at least one bound")
        result = self
        if min_ is not None:
            lower = result._bound(min_, "clamp: min_", is_lower=True)
            result = result._stopped_at(lower, result.lt(lower))
        if max_ is not None:
            upper = result._bound(max_, "clamp: max_", is_lower=False)
            result = result._stopped_at(upper, result.gt(upper))
        return result

    def _stopped_at(self, bound: Self | ConstType, is_beyond: Self) -> Self:
        """`bound` in place of the elements that are beyond it, which all are if it is NaN."""
        if not isinstance(bound, TensorCore):
            is_beyond = is_beyond if bound == bound else self._constant(True, dtypes.bool)
        elif bound.dtype.is_float:
            is_beyond = is_beyond.bitwise_or(bound.isnan())
        return is_beyond.where(bound, self)

    def clip(
        self, min_: Self | ConstType | None = None, max_: Self | ConstType | None = None
    ) -> Self:
        """The same as `clamp`.

        Examples:
            >>> Tensor([-1, 2, 9]).clip(0, 5).tolist()
            [0, 2, 5]
        """
        return self.clamp(min_, max_)

    def relu(self) -> Self:
        """The element where it is above 0, else 0; NaN stays NaN. The slope at 0 is 0.

        Examples:
            >>> Tensor([-1.0, 2.0]).relu().tolist()
            [0.0, 2.0]
        """
        passes = self.gt(0)
        if self.dtype.is_float:
            passes = passes.bitwise_or(self.isnan())
        return passes.where(self, 0)

    def detach(self) -> Self:
        """The same elements, through which no gradient flows.

        Examples:
            >>> x = Tensor([2.0], requires_grad=True)
            >>> (x * x.detach()).sum().gradient(x)[0].item()
            2.0
        """
        return self._apply(Ops.DETACH)

    def contiguous_backward(self) -> Self:
        """The same elements; their gradient gets memory of its own when it comes by here.

        Examples:
            >>> Tensor([1.0, 2.0]).contiguous_backward().tolist()
            [1.0, 2.0]
        """
        return self._with_rule("contiguous_backward", lambda x: x)

    # Selection and types

    def where(self, x: Self | ConstType, y: Self | ConstType) -> Self:
        """`x` where this tensor is not 0, else `y`; a number takes the other side's type.

        NaN is not 0, as in numpy.

        Examples:
            >>> Tensor([True, False]).where(Tensor([1, 2]), 0).tolist()
            [1, 0]
        """
        left, right = self._operand(x, "where"), self._operand(y, "where")
        dtype = _common_dtype(left, right)
        for value in (left, right):
            if not isinstance(value, TensorCore):
                check_fits(value, dtype, "where")
        chosen, other = (
            value._cast(dtype) if isinstance(value, TensorCore) else self._constant(value, dtype)
            for value in (left, right)
        )
        condition, chosen, other = self._cast(dtypes.bool)._spread("where", chosen, other)
        return condition._apply(Ops.WHERE, chosen, other)

    def cast(self, dtype: DTypeLike) -> Self:
        """The elements converted to `dtype`: integers wrap, floats round to nearest even.

        A float out of an integer type's range has no specified value; bool is `x != 0`.

        Examples:
            >>> Tensor([1.75, -1.75]).cast(dtypes.int32).tolist()
            [1, -1]
        """
        target = to_dtype(dtype, "cast")
        if target not in dtypes.all:
            raise UserTypeError(f"cast: {target.name} is not an element type of tensors")
        return self._cast(target)


def _common_dtype(left: TensorCore | ConstType, right: TensorCore | ConstType) -> DType:
    """The type in which two choices of a WHERE meet."""
    if isinstance(left, TensorCore):
        if isinstance(right, TensorCore):
            return promote(left.dtype, right.dtype)
        return weak_dtype(right, left.dtype)
    if isinstance(right, TensorCore):
        return weak_dtype(left, right.dtype)
    return weak_dtype(right, scalar_dtype(left))
