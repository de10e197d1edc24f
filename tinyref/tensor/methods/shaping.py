"""Shapes by a formula, and images in another size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

from tinyref.algebra.symbolic import describe, describe_shape, product
from tinyref.arrays import np, npt
from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.tensor.arguments import fixed, integer
from tinyref.tensor.methods.lookup import check_axis_size
from tinyref.tensor.methods.selection import Selection
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops

Axis = tuple[str, ...]
Places: TypeAlias = "npt.NDArray[np.int64]"
Weights: TypeAlias = "npt.NDArray[np.float64]"

_TOKEN = re.compile(r"\s*([()]|\.\.\.|\w+)")
# An ellipsis within brackets, which are one axis together.
_JOINED_DOTS = "(...)"
# The free parameter of Keys, "Cubic Convolution Interpolation", 1981, as most image tools set it.
_CUBIC = -0.75
_MODES = ("linear", "nearest", "nearest-exact", "cubic")


class Shaping(Selection):
    """Every result is a tensor of its own: changing one later never changes the other."""

    __slots__ = ()

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

    def _elements_at(self, axis: int, index: Self, name: str) -> Self:
        """The elements at the places `index` along an axis, 0 for a place outside of it.

        `index` has as many axes as this tensor; all but `axis` broadcast to this one's. It is a
        sum over the axis of which one term is not 0, so that a kernel may read that term alone.
        """
        size = fixed((self.shape[axis],), name)[0]
        numbers = self._count_to(size)._reshape((size, *(1,) * (self.ndim - axis - 1)))
        hits = numbers.eq(index.unsqueeze(axis + 1))
        chosen = hits.where(self.unsqueeze(axis), self._constant(0, self.dtype))
        return chosen._reduce_axes(Ops.MAX if self.dtype.is_bool else Ops.ADD, (axis + 1,), False)

    def interpolate(
        self, size: Sequence[int], mode: str = "linear", align_corners: bool = False
    ) -> Self:
        """The last axes in other sizes, `size` naming one for each.

        mode: "nearest" takes the element at floor(i * old / new), "nearest-exact" the one nearest
        to the middle of the new element, "linear" weighs two along each axis, "cubic" four (Keys
        1981, with -0.75). `align_corners` lets the middles of the first and last elements stay
        where they are, for the last two modes. Integers have the nearest modes alone, except
        uint8: it is rounded after each axis, the last one first, with the weights of torch.

        Examples:
            >>> Tensor([[[1.0, 3.0]]]).interpolate((4,), mode="nearest").tolist()
            [[[1.0, 1.0, 3.0, 3.0]]]
        """
        if not isinstance(size, list | tuple) or not 0 < len(size) <= self.ndim:
            raise UserTypeError(
                f"interpolate: size {size!r} for shape {describe_shape(self.shape)}: accepted is "
                f"a tuple of sizes for the last axes"
            )
        if mode not in _MODES:
            raise UserError(f"interpolate: mode {mode!r}: accepted are {', '.join(_MODES)}")
        if align_corners and mode.startswith("nearest"):
            raise UserError(f"interpolate: align_corners is not defined in mode {mode!r}")
        is_bytes = self.dtype is dtypes.uint8
        if not (mode.startswith("nearest") or self.dtype.is_float or is_bytes):
            raise UserTypeError(
                f"interpolate: {self.dtype.name} in mode {mode!r}: cast to float first"
            )
        wanted = [integer(item, "interpolate: size") for item in size]
        result = self
        if not mode.startswith("nearest"):
            result = self._cast(dtypes.int32) if is_bytes else self._wide("interpolate")
        lead = self.ndim - len(wanted)
        for place, new in reversed(tuple(enumerate(wanted))):
            old = fixed((self.shape[lead + place],), "interpolate")[0]
            if new < 1 or old < 1:
                raise UserError(f"interpolate: size {old} to {new}: accepted are positive sizes")
            check_axis_size(new, "interpolate")
            if mode.startswith("nearest"):
                places = nearest_places(old, new, is_exact=mode == "nearest-exact")
                result = result._resample_axis(lead + place, places, np.ones((1, new)))
            elif new != old:
                find = linear_places if mode == "linear" else cubic_places
                resample = result._resample_bytes if is_bytes else result._resample_axis
                result = resample(lead + place, *find(old, new, align_corners))
        return result._cast(self.dtype)._apart_from(self)

    def _resample_axis(self, axis: int, places: Places, weights: Weights | Places) -> Self:
        """The sum over the rows of weight times the element at the place; both (rows, new)."""
        rest = (1,) * (self.ndim - axis - 1)
        result: Self | None = None
        for row, weight in zip(places, weights, strict=True):
            numbers = type(self)(row.astype(np.int32), self.device)
            numbers = numbers._reshape((*(1,) * axis, len(row), *rest))
            part = self._elements_at(axis, numbers, "interpolate")
            if len(places) > 1:
                factor = type(self)(weight, self.device)._cast(self.dtype)
                part = part.mul(factor._reshape((len(row), *rest)))
            result = part if result is None else result.add(part)
        assert result is not None, "there is at least one row"
        return result

    def _resample_bytes(self, axis: int, places: Places, weights: Weights) -> Self:
        """Resample integers from 0 to 255, in int32; round to nearest, and a half up."""
        factors, bits = fixed_point(places, weights)
        sums = self._resample_axis(axis, places, factors)
        return sums.add(1 << (bits - 1)).rshift(bits).clamp(0, 255)


def nearest_places(old: int, new: int, is_exact: bool) -> Places:
    """(1, new): the element that each new one takes.

    Rounded to float32, as torch does it: where a quotient is nearly whole, that decides. (Torch may
    fuse a multiplication with an addition, so that a few sizes from 2 to 41 on still differ.)
    """
    scale = np.float32(old) / np.float32(new)
    numbers = np.arange(new, dtype=np.float32) + np.float32(0.5 if is_exact else 0)
    places = np.floor(numbers * scale).astype(np.int64)
    return np.asarray(np.minimum(places, old - 1)[None])


def _sources(old: int, new: int, align_corners: bool) -> Weights:
    """Where the middle of each new element lies, in numbers of old ones."""
    numbers = np.arange(new, dtype=np.float64)
    if align_corners:
        return numbers * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (numbers + 0.5) * (old / new) - 0.5


def linear_places(old: int, new: int, align_corners: bool) -> tuple[Places, Weights]:
    """(2, new): the two elements around each new one, and their weights."""
    sources = np.maximum(_sources(old, new, align_corners), 0)
    below = np.minimum(np.floor(sources).astype(np.int64), old - 1)
    after = sources - below
    return np.stack([below, np.minimum(below + 1, old - 1)]), np.stack([1 - after, after])


def cubic_places(old: int, new: int, align_corners: bool) -> tuple[Places, Weights]:
    """(4, new): the four elements around each new one, those at the edge repeated; their weights.

    Keys' kernel: (a + 2) d^3 - (a + 3) d^2 + 1 up to a distance of 1, a d^3 - 5 a d^2 + 8 a d - 4 a
    up to 2.
    """
    sources = _sources(old, new, align_corners)
    below = np.floor(sources).astype(np.int64)
    places = below + np.arange(-1, 3)[:, None]
    distance = np.abs(sources - places)
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * _CUBIC - 4 * _CUBIC
    return np.clip(places, 0, old - 1), np.where(distance <= 1, near, far)


def fixed_point(places: Places, weights: Weights) -> tuple[Places, int]:
    """Return (weights * 2**bits as integers, bits), with the most bits that fit int16.

    If several rows name one place, the first row gets the sum of their weights: torch adds them
    before it rounds.
    """
    joined = weights.copy()
    for row, column in np.ndindex(places.shape):
        first = int(np.argmax(places[:, column] == places[row, column]))
        if first < row:
            joined[first, column] += joined[row, column]
            joined[row, column] = 0
    largest = float(joined.max())
    bits = 1
    while bits < 22 and int(0.5 + largest * (2 << bits)) < 1 << 15:
        bits += 1
    scaled = joined * (1 << bits)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64), bits


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
