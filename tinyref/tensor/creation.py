"""Create tensors: from numbers, lists, bytes, arrays and files, by formulas, and at random.

Random numbers come from Threefry counters, the same on every device. Element i of a draw is made
from the 64 bits of Threefry-2x32 for the counter c + i and the key of the seed. A draw of n
elements adds n to the counter. So a number depends only on the seed and on the count of numbers
drawn on the device before: `rand(6)` is `rand(3)` followed by `rand(3)`. Counter and key are
tensors, and the addition is an assignment in the graph: a captured function draws new numbers in
every replay. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Generic, Self, TypeVar, cast

from tinyref.algebra.sizes import Constraint, require
from tinyref.algebra.symbolic import as_node, as_size, describe, highest, lift
from tinyref.arrays import Array, np
from tinyref.device import Device
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, round_float, to_dtype
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of, is_lost
from tinyref.lazy.shards import Place, canonical_place, describe_place, first_device, new_buffer
from tinyref.runtimes.data_only import file_size
from tinyref.tensor import literals
from tinyref.tensor.arguments import (
    Shape,
    count_of,
    fixed,
    integer,
    shape_argument,
    wrong_type,
)
from tinyref.tensor.core import (
    GradientSwitch,
    Value,
    apply,
    broadcast_to,
    capturing,
    from_node,
    initialise,
    request_gradient,
    reshape,
    shrink,
    value_of,
)
from tinyref.tensor.elementwise import scaled
from tinyref.tensor.functions import Functions
from tinyref.tensor.literals import finite
from tinyref.tensor.movement import Movement, placed_like
from tinyref.tensor.registry import graph_lock
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops


def base_of(node: UOp) -> UOp:
    """Return the node below all reshapes."""
    while node.src and node.op.name == "RESHAPE":
        node = node.src[0]
    return node


def element_dtype(dtype: DTypeLike | None) -> DType | None:
    """Return the type as a DType. Raises `UserError` for one that tensors cannot hold."""
    if dtype is None:
        return None
    target = to_dtype(dtype)
    if target not in dtypes.all:
        raise UserTypeError(f"dtype: {target.name} is not an element type of tensors")
    return target


def from_host(array: Array, dtype: DType, device: str) -> UOp:
    """Return the node of a fresh buffer on `device` with the elements of `array`."""
    if not array.size:
        return graph.expand(graph.reshape(graph.constant(0, dtype), (1,) * array.ndim), array.shape)
    node = graph.new_buffer(device, array.shape, dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    buffer_of(base_of(node)).copy_in(flat.view(np.uint8).data)
    return node


T = TypeVar("T", bound="Creation")
Sizes = tuple[int, ...]


@dataclass
class Stream(Generic[T]):
    """The random state of one device: key and counter of the next number, uint64 of shape (1,)."""

    key: T
    counter: T


class Streams:
    """The random streams of all devices, which share one seed."""

    def __init__(self) -> None:
        self.seed = int.from_bytes(os.urandom(4), "little")
        self._of: dict[str, Stream[Any]] = {}

    def draw(self, maker: type[T], count: int, place: Place) -> T:
        """Return the next `count` words of 64 bits. Several devices use the stream of the first."""
        with self._turn():
            device = first_device(place)
            stream = self._of.get(device) or self._open(maker, device)
            if is_lost(stream.counter.node):
                raise UserStateError(
                    f"random numbers: the counter of {device} was lost when a computation stopped "
                    f"early: restart it with manual_seed()"
                )
            bits: T = self._words(stream, count, place)
            # No other tensor views the counter, so it is written in the memory that captures read.
            stream.counter.assign(stream.counter.add(count))
            # A failure must not undo the assignment: so no number is drawn twice.
            value_of(stream.counter).before = None
            return bits

    @staticmethod
    def _words(stream: Stream[T], count: int, place: Place) -> T:
        numbers = stream.counter.arange(count, device=place, dtype=dtypes.uint64)
        counters = numbers.add(stream.counter.to(place))
        return apply(counters, Ops.THREEFRY, broadcast_to(stream.key.to(place), (count,)))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread draw at a time, and none while another thread captures a function."""
        with graph_lock, GradientSwitch():
            yield

    def _open(self, maker: type[T], device: str) -> Stream[T]:
        stream = Stream(self._word(maker, self.seed, device), self._word(maker, 0, device))
        self._of[device] = stream
        return stream

    def role_of(self, tensor: object) -> tuple[str, str] | None:
        """Return the device of a tensor, and "key" or "counter"; None for other tensors."""
        for device, stream in self._of.items():
            if tensor is stream.key or tensor is stream.counter:
                return device, "key" if tensor is stream.key else "counter"
        return None

    def in_role(self, maker: type[T], device: str, role: str) -> T:
        """Return the "key" or "counter" tensor of a device."""
        with self._turn():
            stream = self._of.get(device) or self._open(maker, device)
            tensor: T = stream.key if role == "key" else stream.counter
            return tensor

    def restart(self, seed: int) -> None:
        """Restart every device at its first number, in the memory that captures read."""
        with self._turn():
            self.seed = seed
            for device, stream in self._of.items():
                maker = type(stream.key)
                stream.key.assign(self._word(maker, seed, device))
                stream.counter.assign(self._word(maker, 0, device))

    def forget(self) -> None:
        """Drop the streams of all devices. The next draw on a device makes a new one."""
        with self._turn():
            self._of.clear()

    @staticmethod
    def _word(maker: type[T], value: int, device: str) -> T:
        return maker(np.array([value], dtype=np.uint64), device=device)


streams = Streams()


class Creation(Functions, Movement):
    """`Tensor(data)`, and the functions that create tensors from a shape or at random.

    data: a number, bytes, a numpy array, a Tensor, or nested lists or tuples of numbers, arrays and
        tensors. Also a size made of bound variables (int32), or the path of a file. A file is a
        tensor of bytes (or of `dtype`) on the device "DISK:/path". No gradient flows to tensors in
        `data`: use `stack` for that.
    device: a name such as "CPU", or a tuple of names: each device gets all elements. None is the
        device of the first tensor in `data`, or the default device.
    dtype: a type or its name. Without one, a numpy array keeps its type, and bytes are uint8. For
        Python numbers, the highest kind among them gives bool, int32 or float32.
    requires_grad: if True, `backward` fills `grad`. Only float tensors can have a gradient.
    Raises `UserError` for ragged lists, unknown types and devices, and numbers that do not fit.

    Random tensors: `shape` is sizes, or one sequence of them. `device`, `dtype` and `requires_grad`
    are as above, but the default type is the default float. `rand`, `randint` and `randperm` return
    the same bits on every device. Normal numbers differ by the rounding of logarithm and sine.
    """

    __slots__ = ()

    def __init__(
        self,
        data: object,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        target_dtype = element_dtype(dtype)
        if isinstance(data, PurePath):
            data = self._of_file(data, target_dtype or dtypes.uint8)
            device = data.device if device is None else device
        elif isinstance(data, list | tuple) and literals.holds(data, Creation):
            data = self._of_list(data, device, target_dtype)
            device = data.device
        if isinstance(data, Creation):
            moved = data.to(data.device if device is None else device)
            converted = moved if target_dtype is None else moved.cast(target_dtype)
            session = capturing.get()
            if session is not None:
                session.read(value_of(converted))
            with graph_lock:
                initialise(self, Value(converted.node, converted.device))
        else:
            target = canonical_place(device)
            initialise(self, Value(_node_of(data, first_device(target), target_dtype), target))
        request_gradient(self, requires_grad)

    @classmethod
    def _of_list(cls, data: object, device: Place | None, dtype: DType | None) -> Self:
        """Return the tensor for a nested list that has tensors in it."""
        target = dtype or literals.joined_dtype(data)
        tensors = [part for part in literals.leaves(data) if isinstance(part, Creation)]
        places = sorted({describe_place(tensor.device) for tensor in tensors})
        if device is None and len(places) > 1:
            raise UserError(f"data: tensors are on {' and '.join(places)}: name one as device")
        return cls._stack(data, tensors[0].device if device is None else device, target)

    @classmethod
    def _stack(cls, data: object, device: Place, dtype: DType, path: tuple[int, ...] = ()) -> Self:
        """Return the parts of a list along a new first axis."""
        if not (isinstance(data, list | tuple) and literals.holds(data, Creation)):
            return cls(data, device, dtype)
        parts = [
            cls._stack(item, device, dtype, (*path, number)) for number, item in enumerate(data)
        ]
        literals.check_alike([part.shape for part in parts], path)
        return parts[0].stack(*parts[1:])

    @classmethod
    def _of_file(cls, path: PurePath, dtype: DType) -> Self:
        """Return the bytes of a file as elements of `dtype`, on the device for this file."""
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
        buffer_of(base_of(node)).handle.buffer.open()
        return from_node(cls, node, device)

    @classmethod
    def _create(cls, node: UOp, device: Place, requires_grad: bool | None) -> Self:
        tensor = from_node(cls, node, device)
        request_gradient(tensor, requires_grad)
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
        """Return a tensor of `fill_value`. Its kind sets the default type: bool, int32 or float32.

        Examples:
            >>> Tensor.full((2, 2), 7).tolist()
            [[7, 7], [7, 7]]
        """
        sizes = shape_argument(shape, (), "full: shape")
        number = literals.weak_number(fill_value)
        if number is None:
            raise wrong_type("full: fill_value", fill_value, "is a number")
        target = element_dtype(dtype) or literals.scalar_dtype(number)
        literals.check_fits(number, target)
        value = graph.constant(number, target)
        node = graph.expand(graph.reshape(value, (1,) * len(sizes)), sizes)
        return cls._create(node, canonical_place(device), requires_grad)

    @classmethod
    def zeros(cls, *shape: Any, **kwargs: Any) -> Self:
        """Return zeros of the default float, or of `dtype`. Accepts all keywords of `full`.

        Examples:
            >>> Tensor.zeros(1, 2).tolist()
            [[0.0, 0.0]]
        """
        return cls.full(_shape_of_zeros(shape), **{"fill_value": 0.0, **kwargs})

    @classmethod
    def ones(cls, *shape: Any, **kwargs: Any) -> Self:
        """Return ones of the default float, or of `dtype`. Accepts all keywords of `full`.

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
        """Return a tensor in uninitialised memory: its elements are arbitrary.

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
        """Return an `n` by `m` matrix (default: `m` is `n`) with ones on the diagonal, else zeros.

        Examples:
            >>> Tensor.eye(2).tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        rows, columns = fixed(shape_argument(n, (n if m is None else m,), "eye"), "eye")
        requires_grad, dtype = kwargs.pop("requires_grad", None), kwargs.pop("dtype", None)
        counted = graph.counting_dtype(max(rows, columns))
        down = reshape(cls.arange(rows, dtype=counted, **kwargs), (rows, 1))
        is_diagonal = down.eq(cls.arange(columns, dtype=counted, **kwargs))
        matrix = is_diagonal.cast(element_dtype(dtype) or dtypes.default_float)
        request_gradient(matrix, requires_grad)
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
        """Return `start`, `start + step`, ... before `stop`. A single bound is `stop`, from 0.

        The default type is int32, or float32 if a bound is a float. It takes no memory.

        Examples:
            >>> Tensor.arange(2, 10, 3).tolist()
            [2, 5, 8]
        """
        first, last = (0, start) if stop is None else (start, stop)
        if isinstance(first, UOp) or isinstance(last, UOp):
            counted = cls._symbolic_range(first, last, step, canonical_place(device))
            result = counted if dtype is None else counted.cast(to_dtype(dtype))
            return cls._create(result.node, canonical_place(device), requires_grad)
        node = _arange(first, last, step, element_dtype(dtype))
        return cls._create(node, canonical_place(device), requires_grad)

    @classmethod
    def _symbolic_range(cls, first: object, last: object, step: object, place: Place) -> Self:
        """Return the first elements of a range with the largest size of a symbolic one."""
        if step != 1:
            raise UserError(f"arange: step {step!r} of a symbolic range, accepted is 1")
        begin, end = (as_size(bound, "arange") for bound in (first, last))
        count = end - begin
        require((Constraint(begin, end, f"arange: {describe(begin)} to {describe(end)}"),))
        whole = shrink(cls.arange(highest(lift(count)), device=place), ((0, count),))
        # An operand may be a symbolic size, although its type says number.
        return whole if begin == 0 else whole.add(cast(int, begin))

    @classmethod
    def linspace(cls, start: int | float, stop: int | float, steps: int, **kwargs: Any) -> Self:
        """Return `steps` evenly spaced numbers from `start` to `stop`, which are both exact.

        The default type is the default float. Integers are truncated, and exact if both ends are
        integers. Accepts the keywords of `full`.

        Examples:
            >>> Tensor.linspace(0, 1, 5).tolist()
            [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        count = count_of(steps, "linspace: steps", 0)
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
            values = integers_between(numbers, start, stop, max(count - 1, 1), target)
        else:
            wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
            values = floats_between(numbers.cast(wide), start, stop, count - 1)
        result = values.cast(target)
        value_of(result).record = None
        request_gradient(result, settings["requires_grad"])
        return result

    def full_like(self, fill_value: ConstType, **kwargs: Any) -> Self:
        """Return `full` with the shape, type and device of this tensor as defaults.

        On several devices, each has the same part as for this tensor.

        Examples:
            >>> Tensor([1.0, 2.0]).full_like(7).tolist()
            [7.0, 7.0]
        """
        settings = {"fill_value": fill_value, **kwargs}
        return self._made_like(self.full, self.shape, settings)

    def _made_like(self, make: Callable[..., Self], shape: Any, settings: dict[str, Any]) -> Self:
        """Return the result of `make` for `shape`, in the layout of this tensor by default."""
        if settings.get("dtype") is None:
            settings["dtype"] = self.dtype
        if settings.get("device") is not None:
            return make(shape, **settings)
        settings.pop("device", None)
        requires_grad = settings.pop("requires_grad", None)
        with GradientSwitch():
            result = placed_like(make(shape, device=self.device, **settings), self)
        request_gradient(result, requires_grad)
        return result

    def empty_like(self, **kwargs: Any) -> Self:
        """Return `empty` with this tensor's shape, type and device.

        Examples:
            >>> Tensor([[3, 4]]).empty_like().shape
            (1, 2)
        """
        return self._made_like(self.empty, self.shape, {"dtype": self.dtype, **kwargs})

    def zeros_like(self, **kwargs: Any) -> Self:
        """Return zeros with this tensor's shape, type and device.

        Examples:
            >>> Tensor([3, 4]).zeros_like().tolist()
            [0, 0]
        """
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Any) -> Self:
        """Return ones with this tensor's shape, type and device.

        Examples:
            >>> Tensor([3, 4]).ones_like().tolist()
            [1, 1]
        """
        return self.full_like(1, **kwargs)

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Restart every device at the first number of `seed`, which is from 0 to 2**64 - 1.

        Before the first call, the seed is random.

        Examples:
            >>> Tensor.manual_seed(7)
            >>> first = Tensor.rand(3).tolist()
            >>> Tensor.manual_seed(7)
            >>> first == Tensor.rand(3).tolist()
            True
        """
        number = integer(seed, "manual_seed: seed")
        if not 0 <= number < 1 << 64:
            raise UserError(f"manual_seed: seed {number}, accepted is 0 to 2**64 - 1")
        streams.restart(number)

    @classmethod
    def _random_words(cls, shape: Sizes, device: Place | None) -> Self:
        """Return 64 random bits for each element, as uint64."""
        place = canonical_place(device)
        words = streams.draw(cls, math.prod(shape), place)
        return reshape(words, shape)

    @classmethod
    def rand(
        cls,
        *shape: Any,
        device: Place | None = None,
        dtype: DTypeLike | None = None,
        contiguous: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Return uniform random numbers from 0 to below 1, with all bits of the significand.

        With `contiguous` they are stored; otherwise the kernel that reads them computes them.

        Examples:
            >>> x = Tensor.rand(100)
            >>> bool(x.min().item() >= 0.0 and x.max().item() < 1.0)
            True
        """
        target, requires_grad = _float_dtype("rand", dtype), _requires_grad("rand", kwargs)
        sizes = _sizes("rand", shape)
        with GradientSwitch():
            numbers = fractions_of(cls._random_words(sizes, device), target)
            return as_leaf((numbers.contiguous() if contiguous else numbers), requires_grad)

    @classmethod
    def randn(
        cls,
        *shape: Any,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return random normal numbers with mean 0 and standard deviation 1.

        Accepts `device` and `contiguous` too. Source: Box and Muller, "A note on the generation of
        random normal deviates", 1958.

        Examples:
            >>> Tensor.randn(2, 3).shape
            (2, 3)
        """
        target = _float_dtype("randn", dtype)
        device, contiguous = kwargs.pop("device", None), kwargs.pop("contiguous", True)
        _no_others("randn", kwargs)
        sizes = _sizes("randn", shape)
        with GradientSwitch():
            numbers = normals_of(cls._random_words(sizes, device), target)
            return as_leaf((numbers.contiguous() if contiguous else numbers), requires_grad)

    @classmethod
    def randint(
        cls, *shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int, **kwargs: Any
    ) -> Self:
        """Return random integers from `low` to below `high`.

        Their probabilities differ by at most one part in 2**32. Raises `UserError` for a type that
        is no integer or cannot hold them, and for an empty range. Accepts `device`, `contiguous`
        and `requires_grad` (which must not be True).

        Examples:
            >>> x = Tensor.randint(100, low=3, high=6)
            >>> x.min().item() >= 3 and x.max().item() <= 5
            True
        """
        target = element_dtype(dtype) or dtypes.default_int
        if not target.is_int:
            raise UserTypeError(f"randint: dtype {target.name}, accepted are integers")
        first, last = integer(low, "randint: low"), integer(high, "randint: high") - 1
        if first > last:
            raise UserError(f"randint: low {low} and high {high}: accepted is low below high")
        if first < target.minimum or last > target.maximum:
            raise UserError(
                f"randint: {first} to {last} does not fit {target.name} "
                f"({target.minimum} to {target.maximum})"
            )
        device, contiguous = kwargs.pop("device", None), kwargs.pop("contiguous", True)
        requires_grad = _requires_grad("randint", kwargs)
        sizes = _sizes("randint", shape)
        with GradientSwitch():
            bits = cls._random_words(sizes, device)
            count = last - first + 1
            offset = bits if count == 1 << 64 else bits.mod(count)
            # Offset and sum wrap in the same way, so the sum is correct in the type itself.
            numbers = offset.cast(target).add(first)
            return as_leaf((numbers.contiguous() if contiguous else numbers), requires_grad)

    @classmethod
    def normal(
        cls,
        *shape: Any,
        mean: float = 0.0,
        std: float = 1.0,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return random normal numbers. Accepts all keywords of `randn`.

        Examples:
            >>> Tensor.normal(2, 3, mean=10.0, std=0.5).shape
            (2, 3)
        """
        _number("normal", "mean", mean)
        if _number("normal", "std", std) < 0:
            raise UserError(f"normal: std {std} is negative, accepted is at least 0")
        with GradientSwitch():
            numbers = scaled(cls.randn(*shape, **kwargs), std, mean)
            return as_leaf(numbers, requires_grad)

    @classmethod
    def uniform(
        cls,
        *shape: Any,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return uniform random numbers from `low` to `high`. Accepts all keywords of `rand`.

        A number near `high` may round to it if few floats are between the bounds.

        Examples:
            >>> x = Tensor.uniform(100, low=2.0, high=4.0)
            >>> x.min().item() >= 2.0 and x.max().item() < 4.0
            True
        """
        first, last = _number("uniform", "low", low), _number("uniform", "high", high)
        if first > last:
            raise UserError(f"uniform: low {low} is above high {high}")
        target = _float_dtype("uniform", dtype)
        if math.isinf(round_float(last - first, target)):
            raise UserError(f"uniform: the range {low} to {high} overflows {target.name}")
        with GradientSwitch():
            numbers = scaled(cls.rand(*shape, dtype=target, **kwargs), last - first, first)
            return as_leaf(numbers, requires_grad)

    @classmethod
    def scaled_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Return uniform random numbers within 1 / sqrt(number of elements): see `uniform`.

        Examples:
            >>> Tensor.scaled_uniform(2, 3).shape
            (2, 3)
        """
        return cls._within(
            "scaled_uniform", math.prod(_sizes("scaled_uniform", shape)), 1, shape, kwargs
        )

    @classmethod
    def glorot_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Return uniform random numbers within sqrt(6 / (inputs + outputs)): see `uniform`.

        The first axis is the outputs. Source: Glorot and Bengio, "Understanding the difficulty of
        training deep feedforward neural networks", 2010.

        Examples:
            >>> Tensor.glorot_uniform(2, 3).shape
            (2, 3)
        """
        sizes = _matrix_sizes("glorot_uniform", shape)
        return cls._within("glorot_uniform", sizes[0] + math.prod(sizes[1:]), 6, shape, kwargs)

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Return uniform random numbers within sqrt(6 / ((1 + a^2) inputs)): see `uniform`.

        They suit leaky_relu with slope `a`. The first axis is the outputs. Source: He, Zhang, Ren
        and Sun, "Delving Deep into Rectifiers", 2015.

        Examples:
            >>> Tensor.kaiming_uniform(2, 3).shape
            (2, 3)
        """
        sizes = _matrix_sizes("kaiming_uniform", shape)
        share = 6 / (1 + _number("kaiming_uniform", "a", a) ** 2)
        return cls._within("kaiming_uniform", math.prod(sizes[1:]), share, shape, kwargs)

    @classmethod
    def _within(
        cls, name: str, count: int, share: float, shape: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Self:
        """Return uniform random numbers within sqrt(share / count)."""
        if {"low", "high"} & kwargs.keys():
            raise UserError(f"{name}: low and high follow from the shape: use uniform instead")
        limit = math.sqrt(share / max(count, 1))
        return cls.uniform(*shape, low=-limit, high=limit, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Return normal numbers of deviation sqrt(2 / ((1 + a^2) inputs)): see `kaiming_uniform`.

        Examples:
            >>> Tensor.kaiming_normal(2, 3).shape
            (2, 3)
        """
        sizes = _matrix_sizes("kaiming_normal", shape)
        share = 2 / (1 + _number("kaiming_normal", "a", a) ** 2)
        return cls.normal(*shape, std=math.sqrt(share / max(math.prod(sizes[1:]), 1)), **kwargs)

    def rand_like(self, **kwargs: Any) -> Self:
        """Return `rand` with the shape, type and device of this tensor as defaults.

        On several devices, each draws its own part: see `full_like`.

        Examples:
            >>> Tensor([[1.0, 2.0]]).rand_like().shape
            (1, 2)
        """
        return self._drawn_like(self.rand, kwargs)

    def _drawn_like(self, draw: Callable[..., Self], settings: dict[str, Any]) -> Self:
        """Draw in the layout of this tensor. `draw` would store all elements on each device."""
        is_stored = settings.pop("contiguous", True)
        requires_grad = settings.pop("requires_grad", None)
        with GradientSwitch():
            numbers = self._made_like(draw, self.shape, {**settings, "contiguous": False})
            return as_leaf((numbers.contiguous() if is_stored else numbers), requires_grad)

    def randn_like(
        self,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return `randn` with the shape, type and device of this tensor as defaults.

        Examples:
            >>> Tensor([[1.0, 2.0]]).randn_like().shape
            (1, 2)
        """
        settings = {"dtype": dtype, "requires_grad": requires_grad, **kwargs}
        return self._drawn_like(self.randn, settings)


def _shape_of_zeros(shape: tuple[Any, ...]) -> Shape:
    if not shape:
        return ()
    return shape_argument(shape[0], shape[1:], "shape")


def _node_of(data: object, device: str, dtype: DType | None) -> UOp:
    if isinstance(data, np.ndarray):
        array, element = literals.from_numpy(data, dtype)
        return from_host(array, element, device)
    if isinstance(data, np.generic) and dtype is None:
        array, element = literals.from_numpy(np.asarray(data), dtype)
        return from_host(array, element, device)
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
        array, element = literals.from_list(data, dtype)
        return from_host(array, element, device)
    raise UserTypeError(
        f"data: got a {type(data).__name__}: accepted are a number, nested lists of numbers, "
        f"bytes, a numpy array, a Tensor and the path of a file"
    )


# A kernel computes a range where it reads it: start + i * step for the numbers i of IOTA.


def _arange(start: ConstType, stop: ConstType, step: ConstType, dtype: DType | None) -> UOp:
    """Return the node of `Tensor.arange`, of size ceil((stop - start) / step).

    Integers are exact in every integer `dtype`. With a float bound, every element is start + i *
    step, rounded in float32 (or float64 for that `dtype`), and then cast. Raises
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
        raise UserError(f"arange: {start!r} to {stop!r} by {step!r}: their count is not finite")
    count = max(0, math.ceil(steps))
    target = dtype or dtypes.default_float
    wide = target if target is dtypes.float64 else dtypes.float32
    return graph.cast(_arange_steps(graph.cast(graph.iota(count), wide), first, by), target)


def _arange_of_integers(start: int, step: int, count: int, target: DType) -> UOp:
    """Return the node of a range of integers. All results fit, so wrapping arithmetic is exact."""
    ends = (start, start + step * (count - 1)) if count else ()
    for value in ends:
        literals.check_fits(value, target)
    computed = target
    if not target.is_int:
        is_small = all(dtypes.int32.minimum <= end <= dtypes.int32.maximum for end in ends)
        computed = dtypes.int32 if is_small else dtypes.int64
    return graph.cast(_arange_steps(graph.cast(graph.iota(count), computed), start, step), target)


def _arange_steps(numbers: UOp, start: ConstType, step: ConstType) -> UOp:
    """Return start + i * step in the type of the numbers i."""
    by, first = (graph.constant(value, numbers.dtype) for value in (step, start))
    scaled = graph.alu(Ops.MUL, numbers, by)
    return scaled if start == 0 else graph.alu(Ops.ADD, scaled, first)


def _sizes(name: str, shape: tuple[Any, ...]) -> Sizes:
    sizes = shape_argument(shape[0], shape[1:], f"{name}: shape") if shape else ()
    return fixed(sizes, name)


def _matrix_sizes(name: str, shape: tuple[Any, ...]) -> Sizes:
    sizes = _sizes(name, shape)
    if not sizes:
        raise UserError(f"{name}: a shape without axes has no inputs: accepted is one axis or more")
    return sizes


def _float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    target = dtypes.default_float if dtype is None else to_dtype(dtype, name)
    if target not in dtypes.floats:
        accepted = ", ".join(dtype.name for dtype in dtypes.floats)
        raise UserTypeError(f"{name}: dtype {target.name}, accepted are {accepted}")
    return target


def _number(name: str, argument: str, value: ConstType) -> float:
    return float(finite(value, f"{name}: {argument}"))


def _requires_grad(name: str, kwargs: dict[str, Any]) -> bool | None:
    """Return `requires_grad`, the only other keyword that is accepted."""
    requires_grad = kwargs.pop("requires_grad", None)
    _no_others(name, kwargs)
    return None if requires_grad is None else bool(requires_grad)


def _no_others(name: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        listed = ", ".join(kwargs)
        raise UserTypeError(f"{name}: unknown keyword {listed}")


def floats_between(x: T, start: float, stop: float, gaps: int) -> T:
    """Map 0 to `start` and `gaps` to `stop`. Both are exact: each half counts from its own end."""
    if gaps <= 0:
        return x.add(start)
    distance = stop - start
    # The distance may overflow. With one gap, no element lies between the ends.
    by = distance / gaps if math.isfinite(distance) else stop / gaps - start / gaps
    by = by if gaps > 1 else 0.0
    from_start = x.mul(by).add(start)
    from_stop = x.neg().add(gaps).mul(-by).add(stop)
    return x.lt((gaps + 1) / 2).where(from_start, from_stop)


def integers_between(x: T, start: int, stop: int, gaps: int, dtype: DType) -> T:
    """Return start + x * (stop - start) / gaps, truncated, for numbers x from 0 to `gaps`.

    It is computed in int64, where intermediate values may wrap although the result fits.
    """
    whole, rest = divmod(stop - start, gaps)
    numbers = x.cast(dtypes.int64)
    rests = numbers.mul(rest)
    below = numbers.mul(whole).add(start).add(rests.idiv(gaps))
    if dtype.is_unsigned:
        return below
    # Below zero, truncation gives one more than rounding down.
    is_cut = below.lt(0).bitwise_and(rests.mod(gaps).ne(0))
    return below.add(is_cut.cast(dtypes.int64))


def fractions_of(x: T, target: DType) -> T:
    """Return the first bits of random words as a fraction that is exact in `target`."""
    precision = target.mantissa_bits + 1
    if target is dtypes.float64:
        whole = x.rshift(64 - precision)
    else:
        # The first 32-bit half of the word is enough.
        whole = x.cast(dtypes.uint32).rshift(32 - precision)
    wide = target if target is dtypes.float64 else dtypes.float32
    return whole.cast(wide).mul(2.0**-precision).cast(target)


def as_leaf(x: T, requires_grad: bool | None) -> T:
    """Make `x` a leaf, and set its `requires_grad`."""
    value_of(x).record = None
    request_gradient(x, requires_grad)
    return x


def normals_of(x: T, target: DType) -> T:
    """Return sqrt(-2 ln u) sin(v). u in (0, 1] has the first 32 bits, v in [-pi, pi) the others."""
    wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
    first = x.cast(dtypes.uint32).cast(wide).add(1).mul(2.0**-32)
    second = x.rshift(32).cast(dtypes.uint32).rshift(8).cast(wide).mul(2.0**-24)
    radius = first.log().mul(-2).clamp(0).sqrt()
    return radius.mul(second.sub(0.5).mul(2 * math.pi).sin()).cast(target)
