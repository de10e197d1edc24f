"""Making tensors: from numbers, lists, bytes, arrays and files, from nothing, and at random.

Random numbers come from Threefry counters, the same on every device. Element i of a draw is made of
the 64 bits that Threefry-2x32 gives for the counter c + i under the key of the seed (Salmon,
Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011); a draw of n elements
moves the counter on by n. So numbers depend on the seed and on how many were drawn on the device
before, not on the device, on the size of the draws, or on when they are computed: `rand(6)` is
`rand(3)` and `rand(3)` again. Counter and key are tensors, and moving on is an assignment of the
graph: a captured function draws new numbers in every replay.
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


T = TypeVar("T", bound="Creation")
Sizes = tuple[int, ...]


@dataclass
class Stream(Generic[T]):
    """The state of one device: the key, and the counter of the next number; uint64, shape (1,)."""

    key: T
    counter: T


class Streams:
    """The streams of all devices, which share one seed."""

    def __init__(self) -> None:
        self.seed = int.from_bytes(os.urandom(4), "little")
        self._of: dict[str, Stream[Any]] = {}

    def draw(self, maker: type[T], count: int, place: Place) -> T:
        """The next `count` words of 64 bits; several devices compute the same, of the first one."""
        with self._turn():
            device = first_device(place)
            stream = self._of.get(device) or self._open(maker, device)
            if is_lost(stream.counter.node):
                raise UserStateError(
                    f"random numbers: how many {device} has drawn is lost, as what drew them broke "
                    f"off: begin anew with manual_seed()"
                )
            bits: T = self._words(stream, count, place)
            # No other tensor shows the counter here, so it is written where captures found it.
            stream.counter.assign(stream.counter.add(count))
            # It counts on if that fails: no number is drawn twice.
            value_of(stream.counter).before = None
            return bits

    @staticmethod
    def _words(stream: Stream[T], count: int, place: Place) -> T:
        numbers = stream.counter.arange(count, device=place, dtype=dtypes.uint64)
        counters = numbers.add(stream.counter.to(place))
        return apply(counters, Ops.THREEFRY, broadcast_to(stream.key.to(place), (count,)))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread draws at a time, and none while another one captures what draws."""
        with graph_lock, GradientSwitch():
            yield

    def _open(self, maker: type[T], device: str) -> Stream[T]:
        stream = Stream(self._word(maker, self.seed, device), self._word(maker, 0, device))
        self._of[device] = stream
        return stream

    def role_of(self, tensor: object) -> tuple[str, str] | None:
        """Which device's "key" or "counter" a tensor is; None for all others."""
        for device, stream in self._of.items():
            if tensor is stream.key or tensor is stream.counter:
                return device, "key" if tensor is stream.key else "counter"
        return None

    def in_role(self, maker: type[T], device: str, role: str) -> T:
        """The "key" or "counter" of a device."""
        with self._turn():
            stream = self._of.get(device) or self._open(maker, device)
            found: T = stream.key if role == "key" else stream.counter
            return found

    def restart(self, seed: int) -> None:
        """Every device draws its first number again; memory stays where captures found it."""
        with self._turn():
            self.seed = seed
            for device, stream in self._of.items():
                maker = type(stream.key)
                stream.key.assign(self._word(maker, seed, device))
                stream.counter.assign(self._word(maker, 0, device))

    def forget(self) -> None:
        """Drop the streams of all devices: each is made again for the next number drawn there."""
        with self._turn():
            self._of.clear()

    @staticmethod
    def _word(maker: type[T], value: int, device: str) -> T:
        return maker(np.array([value], dtype=np.uint64), device=device)


streams = Streams()


class Creation(Functions, Movement):
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

    Tensors of random numbers.

    shape: sizes, or one sequence of them. device, dtype, requires_grad: as for `Tensor`; without
    `dtype` the default float. `rand`, `randint` and `randperm` give the same bits on every device;
    normal numbers differ by the rounding of logarithm and sine.
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
            data = self._of_file(data, named or dtypes.uint8)
            device = data.device if device is None else device
        elif isinstance(data, list | tuple) and literals.holds(data, Creation):
            data = self._of_list(data, device, named)
            device = data.device
        if isinstance(data, Creation):
            moved = data.to(data.device if device is None else device)
            converted = moved if named is None else moved.cast(named)
            session = capturing.get()
            if session is not None:
                session.read(value_of(converted))
            with graph_lock:
                initialise(self, Value(converted.node, converted.device))
        else:
            target = canonical_place(device)
            initialise(self, Value(_node_of(data, first_device(target), named), target))
        request_gradient(self, requires_grad)

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
        """Every element is `fill_value`; without `dtype` its kind decides: bool, int32, float32.

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
        down = reshape(cls.arange(rows, dtype=counted, **kwargs), (rows, 1))
        is_diagonal = down.eq(cls.arange(columns, dtype=counted, **kwargs))
        matrix = is_diagonal.cast(element_dtype(dtype) or dtypes.default_float)
        request_gradient(matrix, wanted)
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
            found = counted if dtype is None else counted.cast(to_dtype(dtype))
            return cls._create(found.node, canonical_place(device), requires_grad)
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
        whole = shrink(cls.arange(highest(lift(count)), device=place), ((0, count),))
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
            found = integers_between(numbers, start, stop, max(count - 1, 1), target)
        else:
            wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
            found = floats_between(numbers.cast(wide), start, stop, count - 1)
        result = found.cast(target)
        value_of(result).record = None
        request_gradient(result, settings["requires_grad"])
        return result

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
            made = placed_like(make(shape, device=self.device, **settings), self)
        request_gradient(made, wanted)
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

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Every device starts again at the first number of `seed`, from 0 to 2**64 - 1.

        Until the first call the seed is a random one.

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
        """64 random bits for each element, as uint64."""
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
        """Uniform numbers from 0 to below 1, with as many bits as the type's significand has.

        `contiguous`: stored when computed; False leaves them to the kernel that reads them.

        Examples:
            >>> x = Tensor.rand(100)
            >>> bool(x.min().item() >= 0.0 and x.max().item() < 1.0)
            True
        """
        target, wanted = _float_dtype("rand", dtype), _requires_grad("rand", kwargs)
        sizes = _sizes("rand", shape)
        with GradientSwitch():
            found = fractions_of(cls._random_words(sizes, device), target)
            return as_leaf((found.contiguous() if contiguous else found), wanted)

    @classmethod
    def randn(
        cls,
        *shape: Any,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Normal numbers with mean 0 and deviation 1 (Box and Muller, "A note on the generation of
        random normal deviates", 1958). Accepts `device` and `contiguous` too.

        Examples:
            >>> Tensor.randn(2, 3).shape
            (2, 3)
        """
        target = _float_dtype("randn", dtype)
        device, contiguous = kwargs.pop("device", None), kwargs.pop("contiguous", True)
        _no_others("randn", kwargs)
        sizes = _sizes("randn", shape)
        with GradientSwitch():
            found = normals_of(cls._random_words(sizes, device), target)
            return as_leaf((found.contiguous() if contiguous else found), requires_grad)

    @classmethod
    def randint(
        cls, *shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int, **kwargs: Any
    ) -> Self:
        """Integers from `low` to below `high`, each as likely as the others to one in 2**32.

        Raises `UserError` for a type that is no integer or cannot hold them, and for an empty
        range. Accepts `device`, `contiguous` and `requires_grad` (which must not be true).

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
        wanted = _requires_grad("randint", kwargs)
        sizes = _sizes("randint", shape)
        with GradientSwitch():
            bits = cls._random_words(sizes, device)
            count = last - first + 1
            offset = bits if count == 1 << 64 else bits.mod(count)
            # Both wrap alike, so the sum is right in the type itself.
            found = offset.cast(target).add(first)
            return as_leaf((found.contiguous() if contiguous else found), wanted)

    @classmethod
    def normal(
        cls,
        *shape: Any,
        mean: float = 0.0,
        std: float = 1.0,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Normal numbers with the given mean and deviation; the other keywords are `randn`'s.

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
        """Uniform numbers from `low` to `high`; the other keywords are those of `rand`.

        A number near `high` may round to it, where there are few numbers between the two.

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
            raise UserError(f"uniform: {low} to {high} is wider than {target.name} has numbers")
        with GradientSwitch():
            numbers = scaled(cls.rand(*shape, dtype=target, **kwargs), last - first, first)
            return as_leaf(numbers, requires_grad)

    @classmethod
    def scaled_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Uniform numbers within 1 / sqrt(number of elements); the keywords are `uniform`'s.

        Examples:
            >>> Tensor.scaled_uniform(2, 3).shape
            (2, 3)
        """
        return cls._within(
            "scaled_uniform", math.prod(_sizes("scaled_uniform", shape)), 1, shape, kwargs
        )

    @classmethod
    def glorot_uniform(cls, *shape: Any, **kwargs: Any) -> Self:
        """Uniform numbers within sqrt(6 / (inputs + outputs)), with the first axis the outputs.

        Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
        networks", 2010. The keywords are those of `uniform`.

        Examples:
            >>> Tensor.glorot_uniform(2, 3).shape
            (2, 3)
        """
        sizes = _matrix_sizes("glorot_uniform", shape)
        return cls._within("glorot_uniform", sizes[0] + math.prod(sizes[1:]), 6, shape, kwargs)

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Uniform numbers within sqrt(6 / ((1 + a^2) inputs)), for leaky_relu of slope `a`.

        He, Zhang, Ren and Sun, "Delving Deep into Rectifiers", 2015. The first axis are the
        outputs; the keywords are those of `uniform`.

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
        """Uniform numbers within sqrt(share / count)."""
        if {"low", "high"} & kwargs.keys():
            raise UserError(f"{name}: low and high follow from the shape: use uniform instead")
        limit = math.sqrt(share / max(count, 1))
        return cls.uniform(*shape, low=-limit, high=limit, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **kwargs: Any) -> Self:
        """Normal numbers of deviation sqrt(2 / ((1 + a^2) inputs)): see `kaiming_uniform`.

        Examples:
            >>> Tensor.kaiming_normal(2, 3).shape
            (2, 3)
        """
        sizes = _matrix_sizes("kaiming_normal", shape)
        share = 2 / (1 + _number("kaiming_normal", "a", a) ** 2)
        return cls.normal(*shape, std=math.sqrt(share / max(math.prod(sizes[1:]), 1)), **kwargs)

    def rand_like(self, **kwargs: Any) -> Self:
        """`rand` in this tensor's shape, type and device, where they are not named.

        On several devices each draws the part that it has of this tensor; see `full_like`.

        Examples:
            >>> Tensor([[1.0, 2.0]]).rand_like().shape
            (1, 2)
        """
        return self._drawn_like(self.rand, kwargs)

    def _drawn_like(self, draw: Callable[..., Self], settings: dict[str, Any]) -> Self:
        """Stored in parts, where `draw` alone would store all elements on each device."""
        is_stored, wanted = settings.pop("contiguous", True), settings.pop("requires_grad", None)
        with GradientSwitch():
            found = self._made_like(draw, self.shape, {**settings, "contiguous": False})
            return as_leaf((found.contiguous() if is_stored else found), wanted)

    def randn_like(
        self,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """`randn` in this tensor's shape, type and device, where they are not named.

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


def _sizes(name: str, shape: tuple[Any, ...]) -> Sizes:
    found = shape_argument(shape[0], shape[1:], f"{name}: shape") if shape else ()
    return fixed(found, name)


def _matrix_sizes(name: str, shape: tuple[Any, ...]) -> Sizes:
    sizes = _sizes(name, shape)
    if not sizes:
        raise UserError(f"{name}: a shape without axes has no inputs: accepted is one axis or more")
    return sizes


def _float_dtype(name: str, dtype: DTypeLike | None) -> DType:
    target = dtypes.default_float if dtype is None else to_dtype(dtype, name)
    if target not in dtypes.floats:
        accepted = ", ".join(each.name for each in dtypes.floats)
        raise UserTypeError(f"{name}: dtype {target.name}, accepted are {accepted}")
    return target


def _number(name: str, argument: str, value: ConstType) -> float:
    return float(finite(value, f"{name}: {argument}"))


def _requires_grad(name: str, kwargs: dict[str, Any]) -> bool | None:
    """The one keyword that is left for `**kwargs`."""
    wanted = kwargs.pop("requires_grad", None)
    _no_others(name, kwargs)
    return None if wanted is None else bool(wanted)


def _no_others(name: str, kwargs: dict[str, Any]) -> None:
    if kwargs:
        listed = ", ".join(kwargs)
        raise UserTypeError(f"{name}: unknown keyword {listed}")


def floats_between(x: T, start: float, stop: float, gaps: int) -> T:
    """`start` for 0 and `stop` for `gaps`: from the nearer end, so that both are exact."""
    if gaps <= 0:
        return x.add(start)
    distance = stop - start
    # A distance may be beyond the floats, over one gap nothing lies in.
    by = distance / gaps if math.isfinite(distance) else stop / gaps - start / gaps
    by = by if gaps > 1 else 0.0
    found = x.mul(by).add(start)
    from_stop = x.neg().add(gaps).mul(-by).add(stop)
    return x.lt((gaps + 1) / 2).where(found, from_stop)


def integers_between(x: T, start: int, stop: int, gaps: int, dtype: DType) -> T:
    """start + self * (stop - start) / gaps, cut off, for numbers from 0 to `gaps`.

    In int64, which may wrap on the way to a result that fits.
    """
    whole, rest = divmod(stop - start, gaps)
    numbers = x.cast(dtypes.int64)
    rests = numbers.mul(rest)
    below = numbers.mul(whole).add(start).add(rests.idiv(gaps))
    if dtype.is_unsigned:
        return below
    # Below zero what is cut off lies above what is rounded down.
    is_cut = below.lt(0).bitwise_and(rests.mod(gaps).ne(0))
    return below.add(is_cut.cast(dtypes.int64))


def fractions_of(x: T, target: DType) -> T:
    """Of random words the first bits as a fraction, exact in `target`."""
    precision = target.mantissa_bits + 1
    if target is dtypes.float64:
        whole = x.rshift(64 - precision)
    else:
        # The first of the two words of 32 bits is enough.
        whole = x.cast(dtypes.uint32).rshift(32 - precision)
    wide = target if target is dtypes.float64 else dtypes.float32
    return whole.cast(wide).mul(2.0**-precision).cast(target)


def as_leaf(x: T, requires_grad: bool | None) -> T:
    """Forget how `x` was computed."""
    value_of(x).record = None
    request_gradient(x, requires_grad)
    return x


def normals_of(x: T, target: DType) -> T:
    """sqrt(-2 ln u) sin(v), u in (0, 1] by the first 32 bits, v in [-pi, pi) by the others."""
    wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
    first = x.cast(dtypes.uint32).cast(wide).add(1).mul(2.0**-32)
    second = x.rshift(32).cast(dtypes.uint32).rshift(8).cast(wide).mul(2.0**-24)
    radius = first.log().mul(-2).clamp(0).sqrt()
    return radius.mul(second.sub(0.5).mul(2 * math.pi).sin()).cast(target)
