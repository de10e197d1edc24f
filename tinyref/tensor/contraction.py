"""Sums of products: matrix products, and products by a formula."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Generic, Self, TypeVar, cast

from tinyref import config
from tinyref.algebra.symbolic import describe, describe_shape, product
from tinyref.device import Device
from tinyref.dtype import TEXEL, DType, DTypeLike, dtypes, promote
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.lazy.shards import first_device
from tinyref.tensor.arguments import Shape, fixed, integer, inverse_order
from tinyref.tensor.core import apply, as_tensor, pad, reshape
from tinyref.tensor.elementwise import spread
from tinyref.tensor.movement import Movement
from tinyref.tensor.reduction import Reduction, accumulator_dtype, reduce_axes
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops

T = TypeVar("T", bound="Contraction")


Axis = tuple[str, ...]
_TOKEN = re.compile(r"\s*([()]|\.\.\.|\w+)")
# An ellipsis within brackets: its axes are joined to one axis.
_JOINED_DOTS = "(...)"


class Contraction(Reduction):
    """Sums of products.

    They are computed in the accumulator's type: `dtype`, or by default float32 for float16 and
    bfloat16, and at least 32 bits for integers. Without `dtype`, the result has the operands'
    common type: floats are rounded, integers wrap, bool is "not 0". With `dtype` bool, a sum is OR
    and a product AND.
    """

    __slots__ = ()

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """Return the matrix product over the last axis of this tensor and the second last of `w`.

        Tensors with one axis are vectors. Axes before the last two are a batch, which broadcasts.

        Examples:
            >>> Tensor([1, 2, 3]).dot(Tensor([4, 5, 6])).item()
            32
        """
        return matrix_product(self, w, dtype, "dot")

    def matmul(self, x: Self, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """Return the matrix product `self @ x`, or `x @ self` with `reverse`: see `dot`.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([[1], [1]])).tolist()
            [[3], [7]]
        """
        as_tensor(self, x, "matmul: x")
        return (
            matrix_product(x, self, dtype, "matmul")
            if reverse
            else matrix_product(self, x, dtype, "matmul")
        )

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """Return self @ weight + bias. A weight with one axis scales each element instead.

        `weight` has shape (inputs, outputs).

        Examples:
            >>> Tensor([[1.0, 2.0]]).linear(Tensor([[3.0], [4.0]]), Tensor([0.5])).tolist()
            [[11.5]]
        """
        as_tensor(self, weight, "linear: weight")
        accumulator, result = types_of_sums(self, weight, bias, dtype, "linear")
        if weight.ndim == 1:
            sums = self.cast(accumulator).mul(weight.cast(accumulator))
        else:
            sums = wide_product(self, weight, accumulator, "linear")
        return with_bias(sums, bias, result)

    @classmethod
    def einsum(
        cls, formula: str, *operands: Self | Sequence[Self], dtype: DTypeLike | None = None
    ) -> Self:
        """Return a sum of products by a formula: `"ij,jk->ik"` is the matrix product.

        Each axis of each operand has a letter. A letter that is repeated within an operand selects
        its diagonal. Axes with one letter must have one size, or 1. The result sums over letters
        that are not on the right of `->`. Without `->`, it sums over letters that occur twice, and
        the others are in alphabetical order, capitals first. `...` stands for axes without a
        letter, which broadcast. More than two operands are multiplied in pairs, the smallest
        products first.

        Examples:
            >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([10, 1])).tolist()
            [12, 34]
        """
        flat = operands[0] if len(operands) == 1 else operands
        tensors = list(flat) if isinstance(flat, list | tuple) else [flat]
        for tensor in tensors:
            if not isinstance(tensor, cls):
                raise UserTypeError(f"einsum: got a {type(tensor).__name__}, accepted are Tensors")
        checked = cast(list[Self], tensors)
        terms, output = parse_formula(formula, [tensor.ndim for tensor in checked])
        types = accumulator_dtype(promote(*(tensor.dtype for tensor in checked)), dtype, "einsum")
        accumulator, result = types
        factors = [
            factor_of(tensor.cast(accumulator), letters)
            for tensor, letters in zip(checked, terms, strict=True)
        ]
        _check_sizes(factors, formula)
        return _contract(factors, output).cast(result)

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Split, reorder and join axes by a formula: `"b (h p) c -> b h (c p)", p=2`.

        Left and right of `->` are the axes of this tensor and of the result. An axis is a name, or
        several names in brackets, where the first varies slowest. A name is an identifier that
        neither starts nor ends with an underscore. `1` or `()` is an axis of size 1. `...` stands
        for the axes without a name. Both sides must have the same names. Sizes that do not follow
        from the shape are keyword arguments. The notation is from einops (Rogozhnikov, "Einops",
        2022).

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).rearrange("a b -> (b a)").tolist()
            [1, 3, 2, 4]
        """
        if not isinstance(formula, str) or formula.count("->") != 1:
            raise argument_error(
                formula, str, f"rearrange: formula {formula!r}: accepted is 'axes -> axes'"
            )
        left, right = (_parse_side(side, formula) for side in formula.split("->"))
        left, right = _without_dots(left, right, self.ndim, formula)
        split = self._split_sizes(left, sizes, formula)
        names = [name for axis in left for name in axis]
        order = [name for axis in right for name in axis]
        if sorted(names) != sorted(order):
            only = sorted(set(names) ^ set(order))
            raise UserError(f"rearrange: {formula!r}: both sides must name {', '.join(only)}")
        parts = reshape(self, tuple(split[name] for name in names))
        moved = parts.permute(tuple(names.index(name) for name in order)) if order else parts
        return reshape(moved, tuple(product(split[name] for name in axis) for axis in right))

    def _split_sizes(
        self, axes: Sequence[Axis], arguments: Mapping[str, int], formula: str
    ) -> dict[str, sint]:
        """Return the size of every name on the left side."""
        sizes: dict[str, sint] = {}
        for size, axis in zip(self.shape, axes, strict=True):
            known = 1
            unknown: str | None = None
            for name in axis:
                if name in arguments:
                    sizes[name] = integer(arguments[name], f"rearrange: {name}")
                    known *= integer(arguments[name], f"rearrange: {name}")
                elif unknown is None:
                    unknown = name
                else:
                    raise UserError(f"rearrange: {formula!r}: give {unknown}= or {name}=")
            if unknown is not None and known == 1:
                sizes[unknown] = size
                continue
            whole = fixed((size,), "rearrange")[0]
            if known < 0 or (whole != known if unknown is None else not known or whole % known):
                raise UserError(
                    f"rearrange: {formula!r}: ({' '.join(axis)}) of {known} elements "
                    f"does not fit an axis of size {describe(size)}"
                )
            if unknown is not None:
                sizes[unknown] = whole // known
        for name in arguments:
            if name not in sizes:
                raise UserError(f"rearrange: {name}= is no axis of {formula!r}")
        return sizes

    def __matmul__(self, x: Self) -> Self:
        return self.matmul(x)

    def __rmatmul__(self, x: Self) -> Self:
        return self.matmul(x, reverse=True)


# The shortest axis for the image layout: a shorter one would be mostly padding.
SHORTEST = 3


def fits_image_layout(first: Movement, second: Movement, length: sint) -> bool:
    """Return True if sums of `length` products of two tensors can read images."""
    if not config.integer("IMAGE") or not isinstance(length, int) or length < SHORTEST:
        return False
    if any(factor.dtype not in (dtypes.float32, dtypes.float16) for factor in (first, second)):
        return False
    shapes: tuple[Shape, ...] = (first.shape, second.shape)
    if any(not isinstance(size, int) or size == 0 for shape in shapes for size in shape):
        return False
    return Device[first_device(first.device)].capabilities.images


def in_image_layout(tensor: T, axis: int) -> T:
    """Store the tensor with `axis` last in memory, padded with zeros to whole texels.

    The flag IMAGE enables it: see `schedule.images`. The axes of the result stay in order, and
    `axis` is up to three elements longer.
    """
    last = axis % tensor.ndim
    length = tensor.shape[last]
    assert isinstance(length, int), "fits_image_layout refuses symbolic sizes"
    margins = [(0, -length % TEXEL if number == last else 0) for number in range(tensor.ndim)]
    order = [number for number in range(tensor.ndim) if number != last]
    back = inverse_order((*order, last))
    laid = pad(tensor, tuple(margins)).permute((*order, last)).contiguous()
    return laid.permute(back)


@dataclass(frozen=True, slots=True)
class Factor(Generic[T]):
    """One operand of a sum of products, with a different letter for each axis."""

    tensor: T
    letters: str

    def size(self, letter: str) -> sint:
        """Return the size of the axis of a letter; 1 if there is none."""
        axis = self.letters.find(letter)
        return 1 if axis < 0 else self.tensor.shape[axis]

    def spread(self, letters: str) -> T:
        """Return the tensor with the axes of `letters` in order; a missing axis has size 1."""
        own = [letter for letter in letters if letter in self.letters]
        moved = self.tensor.permute(tuple(self.letters.index(letter) for letter in own))
        return reshape(moved, tuple(self.size(letter) for letter in letters))

    def sum_other_letters(self, needed: Set[str]) -> Factor[T]:
        """Sum over the letters that are not in `needed`."""
        axes = tuple(axis for axis, letter in enumerate(self.letters) if letter not in needed)
        left = "".join(letter for letter in self.letters if letter in needed)
        return Factor(sums_over(self.tensor, axes), left)

    def times(self, other: Factor[T]) -> Factor[T]:
        """Return the products of both, with the letters of either."""
        letters = self.letters + "".join(sorted(set(other.letters) - set(self.letters)))
        left, right = spread(self.spread(letters), "einsum", other.spread(letters))
        return Factor(products_of(left, right), letters)


def _contract(factors: Sequence[Factor[T]], output: str) -> T:
    """Return the product of all factors, summed over the letters that are not in `output`."""
    left = list(factors)
    for index, factor in enumerate(left):
        left[index] = factor.sum_other_letters(_needed_letters(left, (index,), output))
    while len(left) > 1:
        first, second = min(itertools.combinations(range(len(left)), 2), key=partial(_cost, left))
        product = left[first].times(left[second])
        product = product.sum_other_letters(_needed_letters(left, (first, second), output))
        left = [
            product if index == first else factor
            for index, factor in enumerate(left)
            if index != second
        ]
    return left[0].spread(output)


def _needed_letters(factors: Sequence[Factor[T]], chosen: Sequence[int], output: str) -> Set[str]:
    """Return the letters of the result and of all factors except the chosen ones."""
    others = (factor for index, factor in enumerate(factors) if index not in chosen)
    return set(output).union(*(factor.letters for factor in others))


def _cost(factors: Sequence[Factor[T]], pair: tuple[int, int]) -> int:
    """Return the number of products of a pair. A symbolic size counts as 1."""
    first, second = (factors[index] for index in pair)
    total = 1
    for letter in set(first.letters + second.letters):
        sizes = (first.size(letter), second.size(letter))
        total *= max((size for size in sizes if isinstance(size, int)), default=1)
    return total


def _check_sizes(factors: Sequence[Factor[T]], formula: str) -> None:
    for letter in sorted(set().union(*(factor.letters for factor in factors))):
        sizes = [factor.size(letter) for factor in factors if letter in factor.letters]
        large = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        if any(size != large[0] for size in large[1:]):
            listed = ", ".join(describe(size) for size in sizes)
            name = letter if letter.isalpha() and letter.isascii() else "..."
            raise UserError(f"einsum: {formula!r}: {name} has the sizes {listed}: they must agree")


def parse_formula(formula: object, ndims: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of the axes of each operand, and of the result.

    The axes of `...` get characters outside of the alphabet, counted from the last axis.
    """
    if not isinstance(formula, str):
        raise UserTypeError(f"einsum: formula {formula!r}: accepted is a text")
    text = formula.replace(" ", "")
    inputs, arrow, right = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise UserError(f"einsum: {formula!r} names {len(terms)} operands, there are {len(ndims)}")
    widest = 0
    spelled: list[str] = []
    for number, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        named = len(_letters(term, formula))
        if named > ndim or (named < ndim and "..." not in term):
            raise UserError(
                f"einsum: {formula!r}: {term!r} names {named} axes, operand {number} has {ndim}"
            )
        widest = max(widest, ndim - named)
        spelled.append(term.replace("...", _dots(ndim - named)))
    if not arrow:
        letters = "".join(_letters(inputs.replace(",", ""), formula, inputs.count("...")))
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        return spelled, _dots(widest) + "".join(once)
    results = _letters(right, formula)
    for letter in results:
        if results.count(letter) > 1 or letter not in inputs:
            problem = "twice in the result" if results.count(letter) > 1 else "in no operand"
            raise UserError(f"einsum: {formula!r}: {letter} is {problem}")
    return spelled, right.replace("...", _dots(widest))


def _letters(term: str, formula: str, dots: int = 1) -> str:
    """Return the letters of a term, which may have `...` at most `dots` times."""
    letters = term.replace("...", "", dots)
    if letters and not (letters.isalpha() and letters.isascii()):
        raise UserError(
            f"einsum: {formula!r}: {term!r}: accepted are letters, and ... once for each operand"
        )
    return letters


def _dots(count: int) -> str:
    return "".join(chr(0x2460 + number) for number in reversed(range(count)))


def _parse_side(text: str, formula: str) -> list[Axis]:
    """Return the names of each axis. An axis of size 1 has none; `...` is an axis of its own."""
    axes: list[Axis] = []
    group: list[str] | None = None
    begin = 0
    text = text.replace("…", "...").strip()
    while begin < len(text):
        match = _TOKEN.match(text, begin)
        if match is None:
            raise UserError(f"rearrange: {formula!r}: {text[begin:].strip()!r} is no axis")
        begin, token = match.end(), match.group().strip()
        if token not in ("(", ")", "...", "1") and not (
            token.isidentifier() and token.strip("_") == token
        ):
            raise UserError(
                f"rearrange: {formula!r}: {token!r} is no axis: accepted are identifiers that "
                f"neither start nor end with an underscore"
            )
        if token == "(":
            if group is not None:
                raise UserError(f"rearrange: {formula!r}: brackets within brackets")
            group = []
        elif token == ")":
            if group is None:
                raise UserError(f"rearrange: {formula!r}: a bracket is closed that is not open")
            axes.append(tuple(group))
            group = None
        else:
            names = () if token == "1" else (token,)
            if group is None:
                axes.append(names)
            else:
                group.extend(_JOINED_DOTS if name == "..." else name for name in names)
    if group is not None:
        raise UserError(f"rearrange: {formula!r}: a bracket is not closed")
    listed = [name.strip("()") for axis in axes for name in axis]
    for name in listed:
        if listed.count(name) > 1:
            raise UserError(f"rearrange: {formula!r}: {name} twice on one side")
    return axes


def _without_dots(
    left: list[Axis], right: list[Axis], ndim: int, formula: str
) -> tuple[list[Axis], list[Axis]]:
    """Return both sides with `...` replaced by the axes without names."""
    dots = ("...",)
    if any(_JOINED_DOTS in axis for axis in left):
        raise UserError(f"rearrange: {formula!r}: ... in brackets on the left is ambiguous")
    named = sum(axis != dots for axis in left)
    if named > ndim or (named < ndim and dots not in left):
        raise UserError(f"rearrange: {formula!r}: names {named} axes of {ndim}")
    spelled = tuple(f"...{number}" for number in range(ndim - named))
    begin = left.index(dots) if dots in left else len(left)
    whole = [*left[:begin], *((name,) for name in spelled), *left[begin + 1 :]]
    result: list[Axis] = []
    for axis in right:
        if axis == dots:
            result += [(name,) for name in spelled]
        elif _JOINED_DOTS in axis:
            at = axis.index(_JOINED_DOTS)
            result.append((*axis[:at], *spelled, *axis[at + 1 :]))
        else:
            result.append(axis)
    if (dots in left) != any(axis == dots or _JOINED_DOTS in axis for axis in right):
        raise UserError(f"rearrange: {formula!r}: ... must be on both sides")
    return whole, result


def matrix_product(x: T, other: T, dtype: DTypeLike | None, name: str) -> T:
    """Return the matrix product in the result type of `dot`."""
    as_tensor(x, other, f"{name}: the operand")
    accumulator, result = types_of_sums(x, other, None, dtype, name)
    return wide_product(x, other, accumulator, name).cast(result)


def products_of(x: T, other: T) -> T:
    """Multiply elements. For bools, the product is AND."""
    return apply(x, Ops.AND if x.dtype.is_bool else Ops.MUL, other)


def sums_over(x: T, axes: tuple[int, ...]) -> T:
    """Sum over `axes` and remove them. For bools, the sum is OR."""
    return reduce_axes(x, Ops.MAX if x.dtype.is_bool else Ops.ADD, axes, False)


def with_bias(x: T, bias: T | None, result: DType) -> T:
    """Return these sums in the accumulator's type plus a bias, rounded once to `result`."""
    if bias is None:
        return x.cast(result)
    # A float bias of integer sums would round them.
    return x.add(bias if result.is_float else bias.cast(result)).cast(result)


def factor_of(x: T, letters: str) -> Factor[T]:
    """Return this tensor with each letter once, with the diagonal for repeated letters."""
    tensor = x
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first, second = letters.index(letter), letters.rindex(letter)
            rows, columns = tensor.shape[first], tensor.shape[second]
            if rows != columns:
                raise UserError(
                    f"einsum: {letter} twice on axes of sizes {describe(rows)} and "
                    f"{describe(columns)}"
                )
            tensor = tensor.diagonal(0, first, second)
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :]
            letters += letter
    return Factor(tensor, letters)


def types_of_sums(
    x: T, other: T, bias: T | None, dtype: DTypeLike | None, name: str
) -> tuple[DType, DType]:
    """Return (accumulator, result) of sums of products with `other`, plus `bias`.

    If the caller sets `dtype`, it is both, for any type of the bias.
    """
    operands = promote(x.dtype, other.dtype)
    accumulator, result = accumulator_dtype(operands, dtype, name)
    if bias is not None:
        as_tensor(x, bias, f"{name}: bias")
        result = promote(result, bias.dtype) if dtype is None else result
    return accumulator, result


def wide_product(x: T, other: T, accumulator: DType, name: str) -> T:
    """Return the matrix product in the accumulator's type."""
    left_shape, right_shape = describe_shape(x.shape), describe_shape(other.shape)
    if not x.ndim or not other.ndim:
        raise UserError(
            f"{name}: shapes {left_shape} and {right_shape}: both need at least one axis"
        )
    if x.shape[-1] != other.shape[-min(other.ndim, 2)]:
        raise UserError(
            f"{name}: shapes {left_shape} and {right_shape}: the last axis of the first must "
            f"equal axis {-min(other.ndim, 2)} of the second"
        )
    rows = x
    columns = other.transpose(-1, -2) if other.ndim > 1 else other
    if fits_image_layout(rows, columns, rows.shape[-1]):
        rows, columns = in_image_layout(rows, -1), in_image_layout(columns, -1)
    rows, columns = rows.cast(accumulator), columns.cast(accumulator)
    if x.ndim > 1 and other.ndim > 1:
        rows = rows.unsqueeze(-2)
        columns = columns.unsqueeze(-3)
    rows, columns = spread(rows, name, columns)
    return sums_over(products_of(rows, columns), (rows.ndim - 1,))
