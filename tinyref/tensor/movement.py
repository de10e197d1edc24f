"""Functions that move elements without computing: shapes, axes, padding, joining, cutting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from tinyref.algebra.symbolic import describe_shape, product
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, promote, to_dtype
from tinyref.errors import UserError, UserTypeError, argument_error
from tinyref.lazy import graph
from tinyref.lazy.buffers import stored_buffer
from tinyref.lazy.shards import Place, canonical_place
from tinyref.tensor.arguments import (
    Bounds,
    Shape,
    axes_of,
    axis_of,
    bound_sizes,
    count_of,
    dimension,
    fixed,
    flat,
    integer,
    permutation,
    resolve_reshape,
    wrong_type,
)
from tinyref.tensor.core import (
    TensorCore,
    apart_from,
    apply,
    as_tensor,
    as_view_of,
    broadcast_to,
    cast_to,
    choose,
    constant_like,
    expand,
    from_node,
    make_view_of,
    pad,
    reshape,
    shrink,
)
from tinyref.tensor.literals import fits_dtype
from tinyref.tensor.views import Step
from tinyref.uops.node import sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import CopyArg, FlipArg, PermuteArg, ShardArg

T = TypeVar("T", bound="Movement")


# The maximum number of tensors that one kernel joins.
_CAT_TOGETHER = 16


class Movement(TensorCore):
    """Functions that change shape and order. Many of them return views.

    A view shows elements of this tensor in another shape or order, a part of them, or their bits.
    An assignment to a view changes the tensor and all its other views. Functions that pad, join or
    repeat elements return new elements. An expanded axis repeats elements, so a tensor with one
    cannot be assigned to.
    """

    __slots__ = ()

    def reshape(self, shape: Any, *args: Any) -> Self:
        """Show the elements in another shape, in order. One size may be -1; None is the old size.

        Examples:
            >>> Tensor([1, 2, 3, 4]).reshape(2, -1).tolist()
            [[1, 2], [3, 4]]
        """
        sizes = resolve_reshape(self.shape, flat(shape, args, "reshape"), "reshape")
        return as_view_of(reshape(self, sizes), self)

    def view(self, shape: Any, *args: Any) -> Self:
        """Do the same as `reshape`.

        Examples:
            >>> Tensor([1, 2, 3, 4]).view(2, 2).tolist()
            [[1, 2], [3, 4]]
        """
        sizes = resolve_reshape(self.shape, flat(shape, args, "view"), "view")
        return as_view_of(reshape(self, sizes), self)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Join the axes from `start_dim` to `end_dim`, both included, to one axis.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).flatten().tolist()
            [1, 2, 3, 4]
        """
        start = axis_of(start_dim, self.ndim, "flatten")
        end = axis_of(end_dim, self.ndim, "flatten")
        if start > end:
            raise UserError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}")
        joined = product(self.shape[start : end + 1])
        joined_shape = (*self.shape[:start], joined, *self.shape[end + 1 :])
        return as_view_of(reshape(self, joined_shape), self)

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Split axis `dim` into axes of `sizes`. One size may be -1.

        Examples:
            >>> Tensor([1, 2, 3, 4, 5, 6]).unflatten(0, (2, 3)).tolist()
            [[1, 2, 3], [4, 5, 6]]
        """
        axis = axis_of(dim, self.ndim, "unflatten")
        if not isinstance(sizes, list | tuple):
            raise UserTypeError(f"unflatten: sizes {sizes!r}: accepted is a tuple of sizes")
        parts = resolve_reshape(self.shape[axis : axis + 1], tuple(sizes), "unflatten")
        split_shape = (*self.shape[:axis], *parts, *self.shape[axis + 1 :])
        return as_view_of(reshape(self, split_shape), self)

    def squeeze(self, dim: int | None = None) -> Self:
        """Remove all axes of size 1, or axis `dim` if it has size 1.

        Examples:
            >>> Tensor([[1, 2]]).squeeze(0).shape
            (2,)
        """
        if dim is None:
            sizes = tuple(size for size in self.shape if not _is_one(size))
            return as_view_of(reshape(self, sizes), self)
        axis = axis_of(dim, self.ndim, "squeeze")
        if not self.ndim or not _is_one(self.shape[axis]):
            return as_view_of(self, self)
        return reshape(self, (*self.shape[:axis], *self.shape[axis + 1 :]))

    def unsqueeze(self, dim: int) -> Self:
        """Insert a new axis of size 1 at `dim`.

        Examples:
            >>> Tensor([1, 2]).unsqueeze(1).tolist()
            [[1], [2]]
        """
        axis = axis_of(dim, self.ndim + 1, "unsqueeze")
        return reshape(self, (*self.shape[:axis], 1, *self.shape[axis:]))

    def permute(self, order: Any, *args: Any) -> Self:
        """Reorder the axes: axis i of the result is axis `order[i]` of this tensor.

        Examples:
            >>> Tensor.zeros(2, 3, 4).permute(2, 0, 1).shape
            (4, 2, 3)
        """
        axes = permutation(flat(order, args, "permute"), self.ndim)
        return apply(self, Ops.PERMUTE, arg=PermuteArg(axes))

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Swap two axes.

        Examples:
            >>> Tensor([[1, 2, 3]]).transpose().tolist()
            [[1], [2], [3]]
        """
        first = axis_of(dim0, self.ndim, "transpose")
        second = axis_of(dim1, self.ndim, "transpose")
        order = list(range(self.ndim))
        if order:
            order[first], order[second] = order[second], order[first]
        return self.permute(tuple(order))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        """Return the elements at (i, i + `offset`) of axes `dim1` and `dim2` along a new last axis.

        A negative offset selects a diagonal below the main one.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).diagonal().tolist()
            [1, 4]
            >>> Tensor([[1, 2], [3, 4]]).diagonal(1).tolist()
            [2]
        """
        first, second = (axis_of(dim, self.ndim, "diagonal") for dim in (dim1, dim2))
        if first == second:
            raise UserError(f"diagonal: dim1 {dim1} and dim2 {dim2} are the same axis")
        moved = integer(offset, "diagonal: offset")
        rows, columns = fixed((self.shape[first], self.shape[second]), "diagonal")
        length = max(0, min(rows, rows + moved, columns, columns - moved))
        rest = [axis for axis in range(self.ndim) if axis not in (first, second)]
        flat_matrix = reshape(
            self.permute((*rest, first, second)),
            (*(self.shape[axis] for axis in rest), rows * columns),
        )
        last = flat_matrix.ndim - 1
        if not length:
            return cut_axis(flat_matrix, last, 0, 0)
        begin = moved if moved >= 0 else -moved * columns
        end = begin + (length - 1) * (columns + 1) + 1
        return every_element(cut_axis(flat_matrix, last, begin, end), last, columns + 1)

    def diag(self, diagonal: int = 0) -> Self:
        """Return a matrix with this row on a diagonal and 0 elsewhere, or the diagonal of a matrix.

        Examples:
            >>> Tensor([1, 2]).diag().tolist()
            [[1, 0], [0, 2]]
            >>> Tensor([[1, 2], [3, 4]]).diag(-1).tolist()
            [3]
        """
        moved = integer(diagonal, "diag: diagonal")
        if self.ndim == 2:
            return apart_from(self.diagonal(moved), self)
        if self.ndim != 1:
            raise UserError(f"diag: shape {describe_shape(self.shape)}: accepted are 1 or 2 axes")
        # In rows that are one longer than the matrix, each element is at the start of a row.
        size = fixed(self.shape, "diag")[0]
        laid = reshape(pad(reshape(self, (size, 1)), ((0, 0), (0, size))), (size * (size + 1),))
        square = reshape(cut_axis(laid, 0, 0, size * size), (size, size))
        above, below = max(moved, 0), max(-moved, 0)
        return pad(square, ((below, above), (above, below)))

    @property
    def T(self) -> Self:  # noqa: N802 - the name that users of this family know
        """Transpose a matrix. Raises `UserError` unless there are two axes.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).T.tolist()
            [[1, 3], [2, 4]]
        """
        if self.ndim != 2:
            raise UserError(f"T: shape {describe_shape(self.shape)}: accepted are two axes")
        return self.transpose()

    def expand(self, shape: Any, *args: Any) -> Self:
        """Repeat axes of size 1 to `shape`. -1 and None mean the old size. New axes are in front.

        Examples:
            >>> Tensor([[1], [2]]).expand(2, 3).tolist()
            [[1, 1, 1], [2, 2, 2]]
        """
        target = flat(shape, args, "expand")
        if len(target) < self.ndim:
            raise UserError(
                f"expand: {len(target)} sizes for {self.ndim} axes: accepted is at least one each"
            )
        aligned = (1,) * (len(target) - self.ndim) + self.shape
        sizes = tuple(
            have
            if want is None or (type(want) is int and want == -1)
            else dimension(want, "expand")
            for have, want in zip(aligned, target, strict=True)
        )
        return as_view_of(expand(reshape(self, aligned), sizes), self)

    def flip(self, axis: Any, *args: Any) -> Self:
        """Reverse the order of the elements along these axes.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).flip(1).tolist()
            [[2, 1], [4, 3]]
        """
        axes = axes_of(flat(axis, args, "flip"), self.ndim, "flip")
        return apply(self, Ops.FLIP, arg=FlipArg(axes))

    def shrink(self, arg: Sequence[Sequence[sint] | None]) -> Self:
        """Show the elements from `begin` to before `end` of each axis. None means a whole axis.

        Examples:
            >>> Tensor([1, 2, 3, 4]).shrink(((1, 3),)).tolist()
            [2, 3]
        """
        if not isinstance(arg, list | tuple) or len(arg) != self.ndim:
            raise argument_error(
                arg,
                list | tuple,
                f"shrink: got {arg!r}, accepted are {self.ndim} pairs (begin, end)",
            )
        bounds: list[tuple[sint, sint]] = []
        for size, pair in zip(self.shape, arg, strict=True):
            if pair is not None and not (isinstance(pair, list | tuple) and len(pair) == 2):
                raise argument_error(
                    pair, list | tuple, f"shrink: {pair!r} is not a pair (begin, end)"
                )
            begin, end = (0, size) if pair is None else pair
            bounds.append((dimension(begin, "shrink"), dimension(end, "shrink")))
        return shrink(self, tuple(bounds))

    def repeat(self, repeats: Any, *args: Any) -> Self:
        """Repeat the whole tensor `repeats[i]` times along axis i. New axes are in front.

        Examples:
            >>> Tensor([1, 2]).repeat(2, 2).tolist()
            [[1, 2, 1, 2], [1, 2, 1, 2]]
        """
        counts = tuple(dimension(count, "repeat") for count in flat(repeats, args, "repeat"))
        if len(counts) < self.ndim:
            raise UserError(
                f"repeat: {len(counts)} counts for {self.ndim} axes: accepted is one for each"
            )
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        split: list[sint] = []
        grown: list[sint] = []
        for size, count in zip(shape, counts, strict=True):
            split += [1, size]
            grown += [count, size]
        joined = tuple(product((count, size)) for size, count in zip(shape, counts, strict=True))
        rows = expand(reshape(self, tuple(split)), tuple(grown))
        return apart_from(reshape(rows, joined), self)

    def cat(self, *args: Self, dim: int = 0) -> Self:
        """Join this tensor and `args` along axis `dim`.

        All other sizes must be equal. Types are promoted.

        Examples:
            >>> Tensor([1, 2]).cat(Tensor([3])).tolist()
            [1, 2, 3]
        """
        _require_tensor("cat", self)
        parts = self._in_common_type(args, "cat")
        axis = axis_of(dim, self.ndim, "cat")
        if not self.ndim:
            raise UserError("cat: tensors without axes have no axis to join: use stack")
        for index, part in enumerate(parts):
            if part.ndim != self.ndim or any(
                have != want and number != axis
                for number, (have, want) in enumerate(zip(part.shape, self.shape, strict=True))
            ):
                raise UserError(
                    f"cat: tensor {index} has shape {describe_shape(part.shape)}, tensor 0 "
                    f"{describe_shape(self.shape)}: only axis {axis} may differ"
                )
        while len(parts) > _CAT_TOGETHER:
            # Every element selects among all tensors: join many of them in groups first.
            groups = [parts[i : i + _CAT_TOGETHER] for i in range(0, len(parts), _CAT_TOGETHER)]
            parts = [laid_out(group[0], group, axis).contiguous() for group in groups]
        return laid_out(self, parts, axis)

    def _in_common_type(self, others: Sequence[Self], name: str) -> list[Self]:
        """Return this tensor and the others in their common type."""
        for index, other in enumerate(others):
            as_tensor(self, other, f"{name}: argument {index}")
        dtype = promote(*(part.dtype for part in (self, *others)))
        return [cast_to(part, dtype) for part in (self, *others)]

    def stack(self, *args: Self, dim: int = 0) -> Self:
        """Stack this tensor and `args`, all of one shape, along a new axis `dim`.

        Examples:
            >>> Tensor([1, 2]).stack(Tensor([3, 4])).tolist()
            [[1, 2], [3, 4]]
        """
        _require_tensor("stack", self)
        for number, other in enumerate(args, 1):
            if isinstance(other, Movement) and other.shape != self.shape:
                raise UserError(
                    f"stack: tensor {number} has shape {describe_shape(other.shape)}, tensor 0 "
                    f"{describe_shape(self.shape)}: they must be equal"
                )
        parts = [part.unsqueeze(dim) for part in self._in_common_type(args, "stack")]
        return parts[0].cat(*parts[1:], dim=axis_of(dim, self.ndim + 1, "stack"))

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along axis `dim` into parts of one size (the last may be shorter) or of `sizes`.

        Examples:
            >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).split(2)]
            [[1, 2], [3, 4], [5]]
        """
        axis, length = self._sized_axis(dim, "split")
        if isinstance(sizes, list | tuple):
            parts = [integer(size, "split") for size in sizes]
            if sum(parts) != length or any(size < 0 for size in parts):
                raise UserError(f"split: sizes {tuple(parts)} do not add up to {length}")
        else:
            size = count_of(sizes, "split: size", 1)
            parts = [min(size, length - begin) for begin in range(0, max(length, 1), size)]
        begins = [sum(parts[:count]) for count in range(len(parts))]
        return tuple(
            cut_axis(self, axis, begin, begin + size)
            for begin, size in zip(begins, parts, strict=True)
        )

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        """Split along axis `dim` into at most `chunks` equal parts. The last may be shorter.

        Examples:
            >>> [part.tolist() for part in Tensor([1, 2, 3, 4, 5]).chunk(2)]
            [[1, 2, 3], [4, 5]]
        """
        _, length = self._sized_axis(dim, "chunk")
        count = count_of(chunks, "chunk: chunks", 1)
        if not length:
            return list(self.split([0] * count, dim))
        return list(self.split(-(-length // count), dim))

    def _sized_axis(self, dim: int, name: str) -> tuple[int, int]:
        axis = axis_of(dim, self.ndim, name)
        if not self.ndim:
            raise UserError(f"{name}: a tensor without axes cannot be cut")
        return axis, fixed((self.shape[axis],), name)[0]

    def contiguous(self) -> Self:
        """Return the same elements in their own memory, in order.

        Examples:
            >>> Tensor([[1, 2], [3, 4]]).transpose().contiguous().tolist()
            [[1, 3], [2, 4]]
        """
        return apply(self, Ops.CONTIGUOUS)

    def bitcast(self, dtype: DTypeLike) -> Self:
        """Read the bits of the elements as another type.

        If the element sizes differ, the last axis shrinks or grows: two uint8 make one float16, the
        lower byte first. Raises `UserError` if the last axis does not divide.

        Examples:
            >>> Tensor([1.0]).bitcast(dtypes.int32).item() == 0x3F800000
            True
        """
        target = to_dtype(dtype, "bitcast")
        if target not in dtypes.all:
            raise UserTypeError(f"bitcast: {target.name} is not an element type of tensors")
        have, want = self.dtype.itemsize, target.itemsize
        if target.is_bool and not self.dtype.is_bool:
            raise UserTypeError("bitcast: not every byte is a bool: compare with 0")
        if have == want or stored_buffer(self.node) is not None:
            return bits_as(self, target)
        if not self.ndim:
            raise UserError(
                f"bitcast: {self.dtype.name} to {target.name} changes the number of elements: "
                f"a tensor without axes accepts types of {have} bytes"
            )
        words = bits_as(self, word_of(have))
        resized = split_words(words, have, want) if have > want else join_words(words, have, want)
        result = bits_as(resized, target)
        make_view_of(result, self, Step(Ops.BITCAST, None, self.shape, self.dtype, target))
        return result

    def to(self, device: Place | Sequence[str] | None) -> Self:
        """Return the tensor on another device. None is the default device.

        A device that only holds data gets the elements when they are computed: "DISK:/path" is a
        new file then. With a tuple or list of names, each device has all elements; see `shard` for
        parts. Raises `UserError` for an unknown device.

        Examples:
            >>> Tensor([1, 2]).to("PYTHON").device
            'PYTHON'
        """
        target = canonical_place(device)
        if target == self.device:
            return self
        if isinstance(target, str):
            whole = self if Device.runs_kernels(target) else reshape(self, bound_sizes(self.shape))
            return apply(whole, Ops.COPY, arg=CopyArg(target))
        return apply(self, Ops.MULTI, arg=ShardArg(target))


def _require_tensor(name: str, first: object) -> None:
    """Raise `UserTypeError` for a first argument that is no tensor, as in `Tensor.cat([x, y])`."""
    if not isinstance(first, Movement):
        raise wrong_type(f"{name}: the first argument", first, "are Tensors, one argument each")


def word_of(itemsize: int) -> DType:
    """Return the unsigned integer type with this number of bytes."""
    return {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[itemsize]


def _is_one(size: sint) -> bool:
    return isinstance(size, int) and size == 1


def cut_negative(x: T, bounds: Bounds) -> T:
    """Cut elements off where amounts of padding are negative."""
    bounds_left: list[tuple[sint, sint]] = []
    for axis, (size, (before, after)) in enumerate(zip(x.shape, bounds, strict=True)):
        begin: sint = -before if isinstance(before, int) and before < 0 else 0
        end = size
        if isinstance(after, int) and after < 0 and isinstance(size, int):
            end = size + after
        if isinstance(begin, int) and isinstance(end, int) and begin > end:
            raise UserError(
                f"pad: axis {axis} of size {size} cannot lose ({before}, {after}) elements"
            )
        bounds_left.append((begin, end))
    return shrink(x, tuple(bounds_left))


def pad_with(x: T, bounds: Bounds, value: ConstType) -> T:
    """Pad by amounts of at least 0. False means zero and costs nothing; others need a mask."""
    if not fits_dtype(value, x.dtype):
        raise UserError(f"pad: value {value!r} does not fit {x.dtype.name}")
    zero = pad(x, bounds)
    if value is False:
        return zero
    inside = pad(broadcast_to(constant_like(x, True, dtypes.bool), x.shape), bounds)
    fill = broadcast_to(constant_like(x, value, x.dtype), zero.shape)
    return choose(inside, zero, fill)


def laid_out(x: T, parts: Sequence[T], axis: int) -> T:
    """Return the parts one after the other along an axis."""
    sizes = [part.shape[axis] for part in parts]
    total = sum(sizes)
    begin: sint = 0
    placed: list[T] = []
    for part, size in zip(parts, sizes, strict=True):
        bounds: list[tuple[sint, sint]] = [(0, 0)] * part.ndim
        bounds[axis] = (begin, total - begin - size)
        begin += size
        placed.append(pad(part, tuple(bounds)))
    return select_parts(x, placed, sizes, axis)


def cut_axis(x: T, axis: int, begin: int, end: int) -> T:
    """Show the elements from `begin` to before `end` of one axis."""
    bounds: list[tuple[sint, sint]] = [(0, size) for size in x.shape]
    bounds[axis] = (begin, end)
    return shrink(x, tuple(bounds))


def bits_as(x: T, dtype: DType) -> T:
    """Read the bits as a type of the same size."""
    return x if dtype is x.dtype else apply(x, Ops.BITCAST, dtype=dtype)


def shift_bits(x: T, op: Ops, count: int) -> T:
    """Shift unsigned integers by a known count."""
    return apply(x, op, broadcast_to(constant_like(x, count, x.dtype), x.shape))


def split_words(x: T, have: int, want: int) -> T:
    """Split each word into `have // want` smaller words, the lowest first."""
    shifted = [shift_bits(x, Ops.SHR, 8 * want * part) for part in range(have // want)]
    parts = [cast_to(part, word_of(want)).unsqueeze(-1) for part in shifted]
    return parts[0].cat(*parts[1:], dim=-1).flatten(-2)


def join_words(x: T, have: int, want: int) -> T:
    """Join each `want // have` neighbours to one word, the first one lowest."""
    count = want // have
    length = fixed(x.shape[-1:], "bitcast")[0]
    if length % count:
        raise UserError(
            f"bitcast: the last axis has {length} elements: "
            f"{count} of {have} bytes make one of {want} bytes"
        )
    groups = cast_to(x.unflatten(-1, (length // count, count)), word_of(want))
    result: T | None = None
    for index in range(count):
        part = cut_axis(groups, groups.ndim - 1, index, index + 1).squeeze(-1)
        shifted = shift_bits(part, Ops.SHL, 8 * have * index)
        result = shifted if result is None else apply(result, Ops.OR, shifted)
    assert result is not None, "there is at least one neighbour"
    return result


def every_element(x: T, axis: int, step: int) -> T:
    """Show every `step`-th element of an axis, starting with the first."""
    if step == 1:
        return x
    length = fixed((x.shape[axis],), "slice")[0]
    if length <= 1:
        return x  # The view is the whole axis.
    count = -(-length // step)
    bounds: list[tuple[sint, sint]] = [(0, 0)] * x.ndim
    bounds[axis] = (0, count * step - length)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    rows = reshape(pad(x, tuple(bounds), is_view=True), (*before, count, step, *after))
    return reshape(cut_axis(rows, axis + 1, 0, 1), (*before, count, *after))


def placed_like(x: T, other: T) -> T:
    """Return these elements on the devices of `other`, which has the same shape."""
    layout = other.node.arg
    return in_layout(x, layout) if isinstance(layout, ShardArg) else x.to(other.device)


def count_to(x: T, size: sint) -> T:
    """Return 0, 1, 2 ... before `size` on this tensor's device, as int32 or (if needed) int64."""
    return from_node(type(x), graph.iota(size), x.device)


def moved_last(x: T, axis: int) -> T:
    """Move `axis` to the end. The other axes stay in order."""
    order = [number for number in range(x.ndim) if number != axis]
    return x if axis == x.ndim - 1 else x.permute((*order, axis))


def moved_from_last(x: T, axis: int) -> T:
    """Move the last axis to `axis`, which undoes `moved_last`."""
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return x if axis == x.ndim - 1 else x.permute(tuple(order))


def as_row(x: T) -> T:
    """Give a tensor without axes one axis of size 1; return other tensors unchanged."""
    return x if x.ndim else reshape(x, (1,))


def cut_beside(x: T, axis: int, shape: tuple[sint, ...]) -> T:
    """Cut each axis to the size in `shape`, except `axis`, which stays whole."""
    bounds: list[tuple[sint, sint]] = [(0, size) for size in shape]
    bounds[axis] = (0, x.shape[axis])
    return shrink(x, tuple(bounds))


def select_parts(x: T, placed: Sequence[T], sizes: Sequence[sint], axis: int) -> T:
    """Select at each position along `axis` the tensor that has no padding there.

    A sum would lose -0, and the storage types have no sum.
    """
    result = placed[-1]
    total = sum(sizes)
    end = total - sizes[-1]
    for part, size in zip(reversed(placed[:-1]), reversed(sizes[:-1]), strict=True):
        before: Shape = tuple(end if number == axis else 1 for number in range(part.ndim))
        bounds: list[tuple[sint, sint]] = [(0, 0)] * part.ndim
        bounds[axis] = (0, total - end)
        mask = pad(broadcast_to(constant_like(part, True, dtypes.bool), before), tuple(bounds))
        result = choose(broadcast_to(mask, part.shape), part, result)
        end -= size
    return result


def in_layout(x: T, layout: ShardArg) -> T:
    """Put `x` on the devices of a layout."""
    return x if x.node.arg == layout else apply(x, Ops.MULTI, arg=layout)
