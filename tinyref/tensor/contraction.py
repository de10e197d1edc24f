"""Sums of products: matrix products, and any other that a formula names."""

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
from tinyref.tensor.arguments import Shape, fixed, integer
from tinyref.tensor.movement import Movement
from tinyref.tensor.reduction import Reduction, accumulator_dtype
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops

Axis = tuple[str, ...]
_TOKEN = re.compile(r"\s*([()]|\.\.\.|\w+)")
# An ellipsis within brackets, which are one axis together.
_JOINED_DOTS = "(...)"


class Contraction(Reduction):
    """Products and sums are computed in the accumulator's type: float32 for float16 and bfloat16,
    at least 32 bits for integers, or the `dtype` that is named. Without one the result is of the
    operands' common type: floats are rounded to it, integers wrap, bool is "not 0". With `dtype`
    bool a sum is OR and a product AND.
    """

    __slots__ = ()

    def _factors(self, other: Self, name: str) -> None:
        if not isinstance(other, Contraction):
            raise UserTypeError(f"{name}: got a {type(other).__name__}, accepted is a Tensor")

    def dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """The matrix product: the last axis of this tensor against the last but one of `w`.

        Tensors of one axis are vectors; axes before the last two are a batch, which broadcasts.

        Examples:
            >>> Tensor([1, 2, 3]).dot(Tensor([4, 5, 6])).item()
            32
        """
        return self._product(w, dtype, "dot")

    def matmul(self, x: Self, reverse: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The matrix product `self @ x`, or `x @ self` with `reverse`; see `dot`.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([[1], [1]])).tolist()
            [[3], [7]]
        """
        self._factors(x, "matmul")
        return x._product(self, dtype, "matmul") if reverse else self._product(x, dtype, "matmul")

    def _product(self, other: Self, dtype: DTypeLike | None, name: str) -> Self:
        self._factors(other, name)
        accumulator, result = self._types_of_sums(other, None, dtype, name)
        return self._wide_product(other, accumulator, name)._cast(result)

    def _types_of_sums(
        self, other: Self, bias: Self | None, dtype: DTypeLike | None, name: str
    ) -> tuple[DType, DType]:
        """Return (accumulator, result) of sums of products with `other`, plus `bias`.

        A type that the caller names is both, whatever the type of the bias.
        """
        operands = promote(self.dtype, other.dtype)
        accumulator, result = accumulator_dtype(operands, dtype, name)
        if bias is not None:
            self._factors(bias, f"{name}: bias")
            result = promote(result, bias.dtype) if dtype is None else result
        return accumulator, result

    def _wide_product(self, other: Self, accumulator: DType, name: str) -> Self:
        """Return the matrix product in the accumulator's type."""
        left_shape, right_shape = describe_shape(self.shape), describe_shape(other.shape)
        if not self.ndim or not other.ndim:
            raise UserError(
                f"{name}: shapes {left_shape} and {right_shape}: both need at least one axis"
            )
        if self.shape[-1] != other.shape[-min(other.ndim, 2)]:
            raise UserError(
                f"{name}: shapes {left_shape} and {right_shape}: the last axis of the first must "
                f"equal axis {-min(other.ndim, 2)} of the second"
            )
        rows = self
        columns = other.transpose(-1, -2) if other.ndim > 1 else other
        if fits_image_layout(rows, columns, rows.shape[-1]):
            rows, columns = in_image_layout(rows, -1), in_image_layout(columns, -1)
        rows, columns = rows._cast(accumulator), columns._cast(accumulator)
        if self.ndim > 1 and other.ndim > 1:
            rows = rows.unsqueeze(-2)
            columns = columns.unsqueeze(-3)
        rows, columns = rows._spread(name, columns)
        return rows._sum_products(columns, (rows.ndim - 1,))

    def _sum_products(self, other: Self, axes: tuple[int, ...]) -> Self:
        """Multiply by `other`, of the same type and shape, and sum over `axes`, which go."""
        return self._products(other)._sums(axes)

    def _products(self, other: Self) -> Self:
        return self._apply(Ops.AND if self.dtype.is_bool else Ops.MUL, other)

    def _sums(self, axes: tuple[int, ...]) -> Self:
        return self._reduce_axes(Ops.MAX if self.dtype.is_bool else Ops.ADD, axes, False)

    def _with_bias(self, bias: Self | None, result: DType) -> Self:
        """Return these sums in the accumulator's type plus a bias, rounded once to `result`."""
        if bias is None:
            return self._cast(result)
        # A float bias of integer sums would round them.
        return self.add(bias if result.is_float else bias._cast(result))._cast(result)

    def linear(
        self, weight: Self, bias: Self | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """self @ weight + bias, where a weight of one axis scales each element.

        `weight` has shape (inputs, outputs).

        Examples:
            >>> Tensor([[1.0, 2.0]]).linear(Tensor([[3.0], [4.0]]), Tensor([0.5])).tolist()
            [[11.5]]
        """
        self._factors(weight, "linear")
        accumulator, result = self._types_of_sums(weight, bias, dtype, "linear")
        if weight.ndim == 1:
            sums = self._cast(accumulator).mul(weight._cast(accumulator))
        else:
            sums = self._wide_product(weight, accumulator, "linear")
        return sums._with_bias(bias, result)

    @classmethod
    def einsum(
        cls, formula: str, *operands: Self | Sequence[Self], dtype: DTypeLike | None = None
    ) -> Self:
        """The sum of products that a formula names: `"ij,jk->ik"` is the matrix product.

        A letter for each axis of each operand; a letter that is repeated within an operand takes
        its diagonal. Axes of one letter have one size, or 1. Letters that are not on the right of
        `->` are summed over; without `->` that is every letter that occurs twice, and the others
        come in alphabetical order, capitals first. `...` stands for axes without a letter, which
        broadcast. More than two operands are multiplied in pairs, the smallest products first.

        Examples:
            >>> Tensor.einsum("ij,j->i", Tensor([[1, 2], [3, 4]]), Tensor([10, 1])).tolist()
            [12, 34]
        """
        flat = operands[0] if len(operands) == 1 else operands
        tensors = list(flat) if isinstance(flat, list | tuple) else [flat]
        for tensor in tensors:
            if not isinstance(tensor, cls):
                raise UserTypeError(f"einsum: got a {type(tensor).__name__}, accepted are Tensors")
        found = cast(list[Self], tensors)
        terms, output = parse_formula(formula, [tensor.ndim for tensor in found])
        types = accumulator_dtype(promote(*(tensor.dtype for tensor in found)), dtype, "einsum")
        accumulator, result = types
        factors = [
            tensor._cast(accumulator)._factor(letters)
            for tensor, letters in zip(found, terms, strict=True)
        ]
        _check_sizes(factors, formula)
        return _contract(factors, output)._cast(result)

    def _factor(self, letters: str) -> Factor[Self]:
        """This tensor with each letter once: the diagonal of those that are repeated."""
        tensor = self
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

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """The axes split, reordered and joined by a formula: `"b (h p) c -> b h (c p)", p=2`.

        Left and right of `->` are the axes of this tensor and of the result: a name (an identifier
        that neither starts nor ends with an underscore), several in brackets that are one axis,
        the first slowest, `1` or `()` for an axis of size 1, and `...` for the axes that are not
        named. Sizes that do not follow are given by name. Both sides name the same axes. This
        is the notation of einops (Rogozhnikov, "Einops", 2022).

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
        parts = self._reshape(tuple(split[name] for name in names))
        moved = parts._permute(tuple(names.index(name) for name in order)) if order else parts
        return moved._reshape(tuple(product(split[name] for name in axis) for axis in right))

    def _split_sizes(
        self, axes: Sequence[Axis], given: Mapping[str, int], formula: str
    ) -> dict[str, sint]:
        """The size of every name on the left side."""
        found: dict[str, sint] = {}
        for size, axis in zip(self.shape, axes, strict=True):
            known = 1
            unknown: str | None = None
            for name in axis:
                if name in given:
                    found[name] = integer(given[name], f"rearrange: {name}")
                    known *= integer(given[name], f"rearrange: {name}")
                elif unknown is None:
                    unknown = name
                else:
                    raise UserError(f"rearrange: {formula!r}: give {unknown}= or {name}=")
            if unknown is not None and known == 1:
                found[unknown] = size
                continue
            whole = fixed((size,), "rearrange")[0]
            if known < 0 or (whole != known if unknown is None else not known or whole % known):
                raise UserError(
                    f"rearrange: {formula!r}: ({' '.join(axis)}) of {known} elements "
                    f"does not fit an axis of size {describe(size)}"
                )
            if unknown is not None:
                found[unknown] = whole // known
        for name in given:
            if name not in found:
                raise UserError(f"rearrange: {name}= is no axis of {formula!r}")
        return found

    def __matmul__(self, x: Self) -> Self:
        return self.matmul(x)

    def __rmatmul__(self, x: Self) -> Self:
        return self.matmul(x, reverse=True)


# A shorter axis would be mostly padding.
SHORTEST = 3


def fits_image_layout(first: Movement, second: Movement, length: sint) -> bool:
    """Whether the sums of products of two tensors, of `length` terms a row, read images."""
    if not config.integer("IMAGE") or not isinstance(length, int) or length < SHORTEST:
        return False
    if any(factor.dtype not in (dtypes.float32, dtypes.float16) for factor in (first, second)):
        return False
    shapes: tuple[Shape, ...] = (first.shape, second.shape)
    if any(not isinstance(size, int) or size == 0 for shape in shapes for size in shape):
        return False
    return Device[first_device(first.device)].capabilities.images


def in_image_layout(tensor: _T, axis: int) -> _T:
    """The tensor in memory where `axis` is the last one, with zeros up to whole texels.

    The axes stay in their order; `axis` is up to three longer.
    """
    place = axis % tensor.ndim
    length = tensor.shape[place]
    assert isinstance(length, int), "fits_image_layout refuses symbolic sizes"
    margins = [(0, -length % TEXEL if number == place else 0) for number in range(tensor.ndim)]
    order = [number for number in range(tensor.ndim) if number != place]
    back = sorted(range(tensor.ndim), key=[*order, place].__getitem__)
    laid = tensor._pad(tuple(margins))._permute((*order, place)).contiguous()
    return laid._permute(tuple(back))


_T = TypeVar("_T", bound=Contraction)


@dataclass(frozen=True, slots=True)
class Factor(Generic[_T]):
    """One operand of a sum of products: a letter for each axis, none twice."""

    tensor: _T
    letters: str

    def size(self, letter: str) -> sint:
        """The size of the axis of a letter; 1 where there is none."""
        place = self.letters.find(letter)
        return 1 if place < 0 else self.tensor.shape[place]

    def spread(self, letters: str) -> _T:
        """The tensor with the axes of `letters` in order, of size 1 where it has none."""
        own = [letter for letter in letters if letter in self.letters]
        moved = self.tensor._permute(tuple(self.letters.index(letter) for letter in own))
        return moved._reshape(tuple(self.size(letter) for letter in letters))

    def sum_other_letters(self, kept: Set[str]) -> Factor[_T]:
        """Summed over the letters that are not in `kept`."""
        axes = tuple(axis for axis, letter in enumerate(self.letters) if letter not in kept)
        left = "".join(letter for letter in self.letters if letter in kept)
        return Factor(self.tensor._sums(axes), left)

    def times(self, other: Factor[_T]) -> Factor[_T]:
        """The products of both, over the letters of either."""
        letters = self.letters + "".join(sorted(set(other.letters) - set(self.letters)))
        left, right = self.spread(letters)._spread("einsum", other.spread(letters))
        return Factor(left._products(right), letters)


def _contract(factors: Sequence[Factor[_T]], output: str) -> _T:
    """The product of all factors, summed over the letters that are not in `output`."""
    left = list(factors)
    for place, factor in enumerate(left):
        left[place] = factor.sum_other_letters(_needed_letters(left, (place,), output))
    while len(left) > 1:
        first, second = min(itertools.combinations(range(len(left)), 2), key=partial(_cost, left))
        product = left[first].times(left[second])
        product = product.sum_other_letters(_needed_letters(left, (first, second), output))
        left = [
            product if place == first else factor
            for place, factor in enumerate(left)
            if place != second
        ]
    return left[0].spread(output)


def _needed_letters(factors: Sequence[Factor[_T]], places: Sequence[int], output: str) -> Set[str]:
    """The letters that the result or a factor elsewhere than at `places` has."""
    others = (factor for place, factor in enumerate(factors) if place not in places)
    return set(output).union(*(factor.letters for factor in others))


def _cost(factors: Sequence[Factor[_T]], pair: tuple[int, int]) -> int:
    """How many products a pair takes; a symbolic size counts once."""
    first, second = (factors[place] for place in pair)
    total = 1
    for letter in set(first.letters + second.letters):
        sizes = (first.size(letter), second.size(letter))
        total *= max((size for size in sizes if isinstance(size, int)), default=1)
    return total


def _check_sizes(factors: Sequence[Factor[_T]], formula: str) -> None:
    for letter in sorted(set().union(*(factor.letters for factor in factors))):
        sizes = [factor.size(letter) for factor in factors if letter in factor.letters]
        grown = [size for size in sizes if not (isinstance(size, int) and size == 1)]
        if any(size != grown[0] for size in grown[1:]):
            listed = ", ".join(describe(size) for size in sizes)
            name = letter if letter.isalpha() and letter.isascii() else "..."
            raise UserError(f"einsum: {formula!r}: {name} has the sizes {listed}: they must agree")


def parse_formula(formula: object, ndims: Sequence[int]) -> tuple[list[str], str]:
    """A letter for each axis of each operand, and those of the result.

    The axes of `...` get characters beyond the alphabet, the last axis the first of them.
    """
    if not isinstance(formula, str):
        raise UserTypeError(f"einsum: formula {formula!r}: accepted is a text")
    text = formula.replace(" ", "")
    inputs, arrow, right = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise UserError(f"einsum: {formula!r} names {len(terms)} operands, given are {len(ndims)}")
    widest = 0
    spelled: list[str] = []
    for place, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        named = len(_letters(term, formula))
        if named > ndim or (named < ndim and "..." not in term):
            raise UserError(
                f"einsum: {formula!r}: {term!r} names {named} axes, operand {place} has {ndim}"
            )
        widest = max(widest, ndim - named)
        spelled.append(term.replace("...", _dots(ndim - named)))
    if not arrow:
        letters = "".join(_letters(inputs.replace(",", ""), formula, inputs.count("...")))
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        return spelled, _dots(widest) + "".join(once)
    kept = _letters(right, formula)
    for letter in kept:
        if kept.count(letter) > 1 or letter not in inputs:
            problem = "twice in the result" if kept.count(letter) > 1 else "in no operand"
            raise UserError(f"einsum: {formula!r}: {letter} is {problem}")
    return spelled, right.replace("...", _dots(widest))


def _letters(term: str, formula: str, dots: int = 1) -> str:
    """The letters of a term, in which `...` occurs at most `dots` times."""
    letters = term.replace("...", "", dots)
    if letters and not (letters.isalpha() and letters.isascii()):
        raise UserError(
            f"einsum: {formula!r}: {term!r}: accepted are letters, and ... once for each operand"
        )
    return letters


def _dots(count: int) -> str:
    return "".join(chr(0x2460 + number) for number in reversed(range(count)))


def _is_name(token: str) -> bool:
    return token.isidentifier() and token.strip("_") == token


def _parse_side(text: str, formula: str) -> list[Axis]:
    """One entry for each axis: its names, none for an axis of size 1, `...` by itself."""
    axes: list[Axis] = []
    group: list[str] | None = None
    place = 0
    text = text.replace("…", "...").strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise UserError(f"rearrange: {formula!r}: {text[place:].strip()!r} is no axis")
        place, token = found.end(), found.group().strip()
        if token not in ("(", ")", "...", "1") and not _is_name(token):
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
    """Both sides with `...` spelled out as the axes that are not named."""
    dots = ("...",)
    if any(_JOINED_DOTS in axis for axis in left):
        raise UserError(f"rearrange: {formula!r}: ... in brackets on the left says too little")
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
