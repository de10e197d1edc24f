"""Tables of the elements that are read along an axis, and the weights of interpolation.

They are known when the expression is built. So the gradient of a read is no sum over all elements
that were read: the readers of each element are a table too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tinyref.arrays import Array, np, npt

Indices: TypeAlias = "npt.NDArray[np.int64]"
Weights: TypeAlias = "npt.NDArray[Any]"

# The free parameter of Keys, "Cubic Convolution Interpolation", 1981: the value of most tools.
_CUBIC = -0.75
# The most entries of a table of readers, for each entry of the table and each element.
SPARSE = 16


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """The elements of an axis of `size` that each new element is the sum of.

    indices: (rows, new), with -1 for no element.
    weights: a factor for each index. None means 1.
    """

    axis: int
    size: int
    indices: Indices
    weights: Weights | None

    def transposed(self) -> Taps:
        """Return the new elements that read each old one, in the same order, with the weights."""
        new = self.indices.shape[1]
        flat = self.indices.ravel()
        order = np.argsort(flat, kind="stable")[np.count_nonzero(flat < 0) :]
        read = flat[order]
        rows = np.arange(len(read)) - np.searchsorted(read, read)
        shape = (int(rows.max(initial=0)) + 1, self.size)
        indices = np.full(shape, -1)
        indices[rows, read] = order % new
        weights = None
        if self.weights is not None:
            weights = np.zeros(shape, self.weights.dtype)
            weights[rows, read] = self.weights.ravel()[order]
        return Taps(self.axis, new, indices, weights)


def reads_evenly(indices: Array, size: int) -> bool:
    """Return True if no element is read so often that the table of its readers would be large."""
    most = int(np.bincount(indices.ravel(), minlength=1).max())
    return most * size <= SPARSE * (indices.size + size)


def edge_indices(size: int, before: int, after: int, mode: str) -> Indices:
    """Return the indices of an axis with its own elements before and after it: (1, new).

    mode: "reflect", "replicate" or "circular", as for `Tensor.pad`.
    """
    positions = np.arange(-before, size + after)
    if mode == "replicate":
        positions = positions.clip(0, size - 1)
    elif mode == "circular":
        positions = positions % max(size, 1)
    else:
        positions = size - 1 - abs(size - 1 - abs(positions))
    return positions.reshape(1, -1)


def nearest_indices(old: int, new: int, is_exact: bool) -> Indices:
    """Return the index of the old element for each new one: (1, new).

    It is computed in float32, as in torch: the rounding matters if a quotient is nearly an integer.
    (Torch may fuse a multiplication and an addition, so a few sizes differ: the first is 2 to 41.)
    """
    scale = np.float32(old) / np.float32(new)
    numbers = np.arange(new, dtype=np.float32) + np.float32(0.5 if is_exact else 0)
    indices = np.floor(numbers * scale).astype(np.int64)
    return np.asarray(np.minimum(indices, old - 1)[None])


def _sources(old: int, new: int, align_corners: bool) -> Weights:
    """Return the position of the middle of each new element, in units of old elements."""
    numbers = np.arange(new, dtype=np.float64)
    if align_corners:
        return numbers * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return (numbers + 0.5) * (old / new) - 0.5


def linear_indices(old: int, new: int, align_corners: bool) -> tuple[Indices, Weights]:
    """Return (2, new) twice: indices of the two elements around each new one, and their weights."""
    sources = np.maximum(_sources(old, new, align_corners), 0)
    below = np.minimum(np.floor(sources).astype(np.int64), old - 1)
    after = sources - below
    return np.stack([below, np.minimum(below + 1, old - 1)]), np.stack([1 - after, after])


def cubic_indices(old: int, new: int, align_corners: bool) -> tuple[Indices, Weights]:
    """Return (4, new) twice: indices of the four elements around each new one, and their weights.

    At the edge, elements are repeated.
    Keys' kernel: (a + 2) d^3 - (a + 3) d^2 + 1 up to a distance of 1, a d^3 - 5 a d^2 + 8 a d - 4 a
    up to 2.
    """
    sources = _sources(old, new, align_corners)
    below = np.floor(sources).astype(np.int64)
    indices = below + np.arange(-1, 3)[:, None]
    distance = np.abs(sources - indices)
    near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * _CUBIC - 4 * _CUBIC
    return np.clip(indices, 0, old - 1), np.where(distance <= 1, near, far)


def fixed_point(indices: Indices, weights: Weights) -> tuple[Indices, int]:
    """Return (weights * 2**bits as integers, bits), with the most bits that fit int16.

    If several rows name one index, the first row gets the sum of their weights: torch adds them
    before it rounds.
    """
    joined = weights.copy()
    for row, column in np.ndindex(indices.shape):
        first = int(np.argmax(indices[:, column] == indices[row, column]))
        if first < row:
            joined[first, column] += joined[row, column]
            joined[row, column] = 0
    largest = float(joined.max())
    bits = 1
    while bits < 22 and int(0.5 + largest * (2 << bits)) < 1 << 15:
        bits += 1
    scaled = joined * (1 << bits)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64), bits
