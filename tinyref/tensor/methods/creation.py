"""Making tensors: from Python numbers, lists, bytes, numpy arrays, and from nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Self, cast

from tinyref.algebra.sizes import Constraint, require
from tinyref.algebra.symbolic import as_node, as_size, describe, highest, lift
from tinyref.arrays import Array, np
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, to_dtype
from tinyref.errors import UserError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.shards import Place, canonical_place, describe_place, first_device, new_buffer
from tinyref.runtimes.data_only import file_size
from tinyref.tensor import literals
from tinyref.tensor.arguments import Shape, dimension, fixed, integer, shape_argument
from tinyref.tensor.methods.operators import Operators
from tinyref.tensor.values.core import GradientSwitch, Value, capturing
from tinyref.tensor.values.locks import building
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def base_of(node: UOp) -> UOp:
    """The node below all reshapes."""
    while node.src and node.op.name == "RESHAPE":
        node = node.src[0]
    return node


def element_dtype(dtype: DTypeLike | None) -> DType | None:
    """The named type, which must be one that tensors hold. Raises `UserError`."""
    if dtype is None:
        return None
    target = to_dtype(dtype)
    if target not in dtypes.all:
        raise UserTypeError(f"dtype: {target.name} is not an element type of tensors")
    return target


def from_host(array: Array, dtype: DType, device: str) -> UOp:
    """The node of a fresh buffer on `device` with the elements of `array`."""
    if not array.size:
        return graph.expand(graph.reshape(graph.constant(0, dtype), (1,) * array.ndim), array.shape)
    node = graph.new_buffer(device, array.shape, dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    buffer_of(base_of(node)).copy_in(flat.view(np.uint8).data)
    return node


class Creation(Operators):
    """`Tensor(data)` and the constructors with a shape.

    data: a number, bytes, a numpy array, a Tensor, nested lists or tuples of these numbers, arrays
        and tensors, a size made of bound variables (int32), or the path of a file, which is a
        tensor of bytes (of `dtype`) on the device "DISK:/path". The result has the elements and no
        gradient flows on: `stack` lets it.
    device: a name such as "CPU", or a tuple of names, each of which gets all elements; None is the
        default device, or that of the first tensor in `data`.
    dtype: a type or its name. Without one a numpy array keeps its type, bytes are uint8, and
    Python numbers give bool, int32 or float32 by the highest kind among them.
    requires_grad: whether `backward` fills `grad`; only float tensors can have one.
    Raises `UserError` for ragged lists, unknown types and devices, and numbers that do not fit.
    """

    __slots__ = ()

    def __init__(
        self,
        data: object,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        named = element_dtype(dtype)
        if isinstance(data, PurePath):
            data = type(self)._of_file(data, named or dtypes.uint8)
            device = data.device if device is None else device
        elif isinstance(data, list | tuple) and literals.holds(data, Creation):
            data = self._of_list(data, device, named)
            device = data.device
        if isinstance(data, Creation):
            moved = data.to(data.device if device is None else device)
            converted = moved if named is None else moved._cast(named)
            session = capturing.get()
            if session is not None:
                session.read(converted._value)
            self._grad = None
            self._view = None
            with building:
                self._take(Value(converted._node, converted._device))
        else:
            target = canonical_place(device)
            self._grad = None
            self._view = None
            self._take(Value(_node_of(data, first_device(target), named), target))
        self._request_gradient(requires_grad)

    @classmethod
    def _of_list(cls, data: object, device: Place | None, dtype: DType | None) -> Self:
        """A nested list that has tensors among what it holds."""
        target = dtype or literals.joined_dtype(data)
        tensors = [part for part in literals.leaves(data) if isinstance(part, Creation)]
        places = sorted({describe_place(tensor.device) for tensor in tensors})
        if device is None and len(places) > 1:
            raise UserError(f"data: tensors are on {' and '.join(places)}: name one as device")
        return cls._stack(data, tensors[0].device if device is None else device, target)

    @classmethod
    def _stack(cls, data: object, device: Place, dtype: DType, path: tuple[int, ...] = ()) -> Self:
        """The parts of a list along a new first axis."""
        if not (isinstance(data, list | tuple) and literals.holds(data, Creation)):
            return cls(data, device, dtype)
        parts = [
            cls._stack(item, device, dtype, (*path, number)) for number, item in enumerate(data)
        ]
        literals.check_alike([part.shape for part in parts], path)
        return parts[0].stack(*parts[1:])

    @classmethod
    def _of_file(cls, path: PurePath, dtype: DType) -> Self:
        """The bytes of a file as elements of `dtype`, on the device that is this file."""
        device = Device.canonical(f"DISK:{path}")
        nbytes = file_size(device.partition(":")[2])
        if nbytes % dtype.itemsize:
            raise UserError(
                f"data: {path} has {nbytes} bytes: no whole elements of {dtype.name}, "
                f"which has {dtype.itemsize}"
            )
        if not nbytes:
            return cls.zeros(0, dtype=dtype, device=device)
        node = graph.new_buffer(device, (nbytes // dtype.itemsize,), dtype)
        buffer_of(base_of(node)).handle.file.open()
        return cls._from_node(node, device)

    def _request_gradient(self, requires_grad: bool | None) -> None:
        """True and False decide; None leaves it to an optimiser, which will ask for a gradient."""
        self._value.is_frozen = requires_grad is False
        if requires_grad and not self.dtype.is_float:
            raise UserTypeError(
                f"requires_grad: a {self.dtype.name} tensor has no gradient: accepted are floats"
            )
        if bool(requires_grad) is not self._value.requires_grad:
            # From here on it is a leaf: gradients end here, or do not come here at all.
            self._value.requires_grad = bool(requires_grad)
            self._value.record = None

    @classmethod
    def _create(cls, node: UOp, device: Place, requires_grad: bool | None) -> Self:
        tensor = cls._from_node(node, device)
        tensor._request_gradient(requires_grad)
        return tensor

    @classmethod
    def full(
        cls,
        shape: int | Shape,
        fill_value: ConstType,
        *,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Every element is `fill_value`; without `dtype` its kind decides: bool, int32, float32.

        Examples:
            >>> Tensor.full((2, 2), 7).tolist()
            [[7, 7], [7, 7]]
        """
        sizes = shape_argument(shape, (), "full: shape")
        number = literals.weak_number(fill_value)
        if number is None:
            raise UserTypeError(
                f"full: fill_value is a {type(fill_value).__name__}, accepted is a number"
            )
        target = element_dtype(dtype) or literals.scalar_dtype(number)
        literals.check_fits(number, target)
        value = graph.constant(number, target)
        node = graph.expand(graph.reshape(value, (1,) * len(sizes)), sizes)
        return cls._create(node, canonical_place(device), requires_grad)

    @classmethod
    def zeros(cls, *shape: Any, **kwargs: Any) -> Self:
        """Zeros of the default float, or of `dtype`; the other keywords are those of `full`.

        Examples:
            >>> Tensor.zeros(1, 2).tolist()
            [[0.0, 0.0]]
        """
        return cls.full(_shape_of_zeros(shape), **{"fill_value": 0.0, **kwargs})

    @classmethod
    def ones(cls, *shape: Any, **kwargs: Any) -> Self:
        """Ones of the default float, or of `dtype`; the other keywords are those of `full`.

        Examples:
            >>> Tensor.ones(2).tolist()
            [1.0, 1.0]
        """
        return cls.full(_shape_of_zeros(shape), **{"fill_value": 1.0, **kwargs})

    @classmethod
    def empty(
        cls,
        *shape: Any,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Memory that is not written yet: whatever it holds are the elements.

        Examples:
            >>> Tensor.empty(2, 3).shape
            (2, 3)
        """
        sizes = _shape_of_zeros(shape)
        target = element_dtype(dtype) or dtypes.default_float
        place = canonical_place(device)
        if 0 in sizes:
            return cls.zeros(sizes, device=place, dtype=target, requires_grad=requires_grad)
        return cls._create(new_buffer(place, sizes, target), place, requires_grad)

    @classmethod
    def eye(cls, n: int, m: int | None = None, **kwargs: Any) -> Self:
        """Ones on the diagonal of an `n` by `m` matrix (`m` is `n` by default), else zeros.

        Examples:
            >>> Tensor.eye(2).tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        rows, columns = fixed(shape_argument(n, (n if m is None else m,), "eye"), "eye")
        wanted, dtype = kwargs.pop("requires_grad", None), kwargs.pop("dtype", None)
        counted = graph.counting_dtype(max(rows, columns))
        down = cls.arange(rows, dtype=counted, **kwargs)._reshape((rows, 1))
        is_diagonal = down.eq(cls.arange(columns, dtype=counted, **kwargs))
        matrix = is_diagonal._cast(element_dtype(dtype) or dtypes.default_float)
        matrix._request_gradient(wanted)
        return matrix

    @classmethod
    def arange(
        cls,
        start: ConstType,
        stop: ConstType | None = None,
        step: ConstType = 1,
        *,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """`start`, `start + step`, ... up to before `stop`; one bound alone is `stop`, from 0.

        Without `dtype` it is int32, or float32 if a bound is a float. It takes no memory.

        Examples:
            >>> Tensor.arange(2, 10, 3).tolist()
            [2, 5, 8]
        """
        first, last = (0, start) if stop is None else (start, stop)
        if isinstance(first, UOp) or isinstance(last, UOp):
            counted = cls._symbolic_range(first, last, step, canonical_place(device))
            found = counted if dtype is None else counted._cast(to_dtype(dtype))
            return cls._create(found._node, canonical_place(device), requires_grad)
        node = _arange(first, last, step, element_dtype(dtype))
        return cls._create(node, canonical_place(device), requires_grad)

    @classmethod
    def _symbolic_range(cls, first: object, last: object, step: object, place: Place) -> Self:
        """The part of a range up to the largest size that a symbolic one has now."""
        if step != 1:
            raise UserError(f"arange: step {step!r} of a symbolic range, accepted is 1")
        begin, end = (as_size(bound, "arange") for bound in (first, last))
        count = end - begin
        require((Constraint(begin, end, f"arange: {describe(begin)} to {describe(end)}"),))
        whole = cls.arange(highest(lift(count)), device=place)._shrink(((0, count),))
        # A symbolic size is taken as a number where one is asked for.
        return whole if begin == 0 else whole.add(cast(int, begin))

    @classmethod
    def linspace(cls, start: int | float, stop: int | float, steps: int, **kwargs: Any) -> Self:
        """`steps` numbers at even distance from `start` to `stop`, both of them exactly.

        Of the default float, or of `dtype`: integers are cut off, and exact where both ends are
        integers. The other keywords are those of `full`.

        Examples:
            >>> Tensor.linspace(0, 1, 5).tolist()
            [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        count = integer(steps, "linspace: steps")
        dimension(count, "linspace: steps")
        start, stop = (
            literals.finite(value, f"linspace: {name}")
            for value, name in ((start, "start"), (stop, "stop"))
        )
        settings = {"device": None, "dtype": None, "requires_grad": None, **kwargs}
        if len(settings) > 3:
            raise UserTypeError(f"linspace: unknown keywords among {', '.join(kwargs)}")
        target = element_dtype(settings["dtype"]) or dtypes.default_float
        if target.is_bool:
            raise UserTypeError("linspace: dtype bool has no steps: accepted are numbers")
        for value in (start, stop):
            literals.check_fits(value, target, "linspace")
        numbers = cls.arange(count, device=settings["device"], dtype=graph.counting_dtype(count))
        if target.is_int and isinstance(start, int) and isinstance(stop, int):
            found = numbers._integers_between(start, stop, max(count - 1, 1), target)
        else:
            wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
            found = numbers._cast(wide)._floats_between(start, stop, count - 1)
        result = found._cast(target)
        result._value.record = None
        result._request_gradient(settings["requires_grad"])
        return result

    def _floats_between(self, start: float, stop: float, gaps: int) -> Self:
        """`start` for 0 and `stop` for `gaps`: from the nearer end, so that both are exact."""
        if gaps <= 0:
            return self.add(start)
        distance = stop - start
        # A distance may be beyond the floats, over one gap nothing lies in.
        by = distance / gaps if math.isfinite(distance) else stop / gaps - start / gaps
        by = by if gaps > 1 else 0.0
        found = self.mul(by).add(start)
        from_stop = self.neg().add(gaps).mul(-by).add(stop)
        return self.lt((gaps + 1) / 2).where(found, from_stop)

    def _integers_between(self, start: int, stop: int, gaps: int, dtype: DType) -> Self:
        """start + self * (stop - start) / gaps, cut off, for numbers from 0 to `gaps`.

        In int64, which may wrap on the way to a result that fits.
        """
        whole, rest = divmod(stop - start, gaps)
        numbers = self._cast(dtypes.int64)
        rests = numbers.mul(rest)
        below = numbers.mul(whole).add(start).add(rests.idiv(gaps))
        if dtype.is_unsigned:
            return below
        # Below zero what is cut off lies above what is rounded down.
        is_cut = below.lt(0).bitwise_and(rests.mod(gaps).ne(0))
        return below.add(is_cut._cast(dtypes.int64))

    def full_like(self, fill_value: ConstType, **kwargs: Any) -> Self:
        """Every element is `fill_value`; shape, type and device are this tensor's unless named.

        On several devices each has the part that it has of this tensor.

        Examples:
            >>> Tensor([1.0, 2.0]).full_like(7).tolist()
            [7.0, 7.0]
        """
        settings = {"fill_value": fill_value, **kwargs}
        return self._made_like(self.full, self.shape, settings)

    def _made_like(self, make: Callable[..., Self], shape: Any, settings: dict[str, Any]) -> Self:
        """What `make` gives for `shape`, laid out as this tensor is unless a device is named."""
        if settings.get("dtype") is None:
            settings["dtype"] = self.dtype
        if settings.get("device") is not None:
            return make(shape, **settings)
        settings.pop("device", None)
        wanted = settings.pop("requires_grad", None)
        with GradientSwitch():
            made = make(shape, device=self.device, **settings)._placed_like(self)
        made._request_gradient(wanted)
        return made

    def empty_like(self, **kwargs: Any) -> Self:
        """Return unwritten memory in this tensor's shape, type and device, as `empty` does.

        Examples:
            >>> Tensor([[3, 4]]).empty_like().shape
            (1, 2)
        """
        return self._made_like(self.empty, self.shape, {"dtype": self.dtype, **kwargs})

    def zeros_like(self, **kwargs: Any) -> Self:
        """Zeros in this tensor's shape, type and device.

        Examples:
            >>> Tensor([3, 4]).zeros_like().tolist()
            [0, 0]
        """
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Any) -> Self:
        """Ones in this tensor's shape, type and device.

        Examples:
            >>> Tensor([3, 4]).ones_like().tolist()
            [1, 1]
        """
        return self.full_like(1, **kwargs)


def _shape_of_zeros(shape: tuple[Any, ...]) -> Shape:
    if not shape:
        return ()
    return shape_argument(shape[0], shape[1:], "shape")


def _node_of(data: object, device: str, dtype: DType | None) -> UOp:
    if isinstance(data, np.ndarray):
        array, found = literals.from_numpy(data, dtype)
        return from_host(array, found, device)
    if isinstance(data, np.generic) and dtype is None:
        array, found = literals.from_numpy(np.asarray(data), dtype)
        return from_host(array, found, device)
    if (number := literals.weak_number(data)) is not None:
        target = dtype or literals.scalar_dtype(number)
        literals.check_fits(number, target)
        return graph.constant(number, target)
    if isinstance(data, bytes | bytearray | memoryview):
        raw = dtype or dtypes.uint8
        return from_host(literals.from_bytes(data, raw), raw, device)
    if isinstance(data, UOp):
        return graph.cast(as_node(as_size(data, "data")), dtype or dtypes.int32)
    if isinstance(data, list | tuple):
        array, found = literals.from_list(data, dtype)
        return from_host(array, found, device)
    raise UserTypeError(
        f"data: got a {type(data).__name__}: accepted are a number, nested lists of numbers, "
        f"bytes, a numpy array, a Tensor and the path of a file"
    )


# Ranges are computed where they are used: start + i * step over the numbers i of IOTA.


def _arange(start: ConstType, stop: ConstType, step: ConstType, dtype: DType | None) -> UOp:
    """The node of `Tensor.arange`, of shape (count,) with count = ceil((stop - start) / step).

    Integers are exact in every integer `dtype`; a float bound makes every element a float, which
    is start + i * step rounded in float32, or in float64 for that `dtype`, and then cast. Raises
    `UserError` for a step of 0, bounds that are not finite, and numbers that do not fit `dtype`.
    """
    first, last, by = (
        literals.finite(value, f"arange: {name}")
        for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    if by == 0:
        raise UserError("arange: step is 0: accepted is any other number")
    if isinstance(first, int) and isinstance(last, int) and isinstance(by, int):
        count = max(0, -((first - last) // by))
        return _arange_of_integers(first, by, count, dtype or dtypes.default_int)
    steps = (last - first) / by
    if not math.isfinite(steps):
        raise UserError(f"arange: {start!r} to {stop!r} by {step!r}: their number is no float")
    count = max(0, math.ceil(steps))
    target = dtype or dtypes.default_float
    wide = target if target is dtypes.float64 else dtypes.float32
    return graph.cast(_arange_steps(graph.cast(graph.iota(count), wide), first, by), target)


def _arange_of_integers(start: int, step: int, count: int, target: DType) -> UOp:
    """Wrapping arithmetic in the type itself is exact, as all results fit."""
    ends = (start, start + step * (count - 1)) if count else ()
    for value in ends:
        literals.check_fits(value, target)
    computed = target
    if not target.is_int:
        is_small = all(dtypes.int32.minimum <= end <= dtypes.int32.maximum for end in ends)
        computed = dtypes.int32 if is_small else dtypes.int64
    return graph.cast(_arange_steps(graph.cast(graph.iota(count), computed), start, step), target)


def _arange_steps(numbers: UOp, start: ConstType, step: ConstType) -> UOp:
    """start + i * step, in the type of the numbers i."""
    by, first = (graph.constant(value, numbers.dtype) for value in (step, start))
    scaled = graph.alu(Ops.MUL, numbers, by)
    return scaled if start == 0 else graph.alu(Ops.ADD, scaled, first)
