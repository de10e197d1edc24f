"""Random numbers from Threefry counters: the same on every device.

Element i of a draw is made of the 64 bits that Threefry-2x32 gives for the counter c + i under the
key of the seed (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011); a draw of n elements moves the counter on by n. So numbers depend on the seed and on how many
were drawn on the device before, not on the device, on the size of the draws, or on when they are
computed: `rand(6)` is `rand(3)` and `rand(3)` again. Counter and key are tensors, and moving on is
an assignment of the graph: a captured function draws new numbers in every replay.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from tinyref.arrays import np
from tinyref.dtype import ConstType, DType, DTypeLike, dtypes, round_float, to_dtype
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.lazy.buffers import is_lost
from tinyref.lazy.shards import Place, canonical_place, first_device
from tinyref.tensor.arguments import fixed, integer, shape_argument
from tinyref.tensor.literals import finite
from tinyref.tensor.methods.creation import element_dtype
from tinyref.tensor.methods.windows import Windows
from tinyref.tensor.values.core import GradientSwitch
from tinyref.tensor.values.locks import computing
from tinyref.uops.ops import Ops

T = TypeVar("T", bound="Random")
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
            if is_lost(stream.counter._node):
                raise UserStateError(
                    f"random numbers: how many {device} has drawn is lost, as what drew them broke "
                    f"off: begin anew with manual_seed()"
                )
            bits: T = self._words(stream, count, place)
            # No other tensor shows the counter here, so it is written where captures found it.
            stream.counter.assign(stream.counter.add(count))
            # It counts on if that fails: no number is drawn twice.
            stream.counter._value.before = None
            return bits

    @staticmethod
    def _words(stream: Stream[T], count: int, place: Place) -> T:
        numbers = stream.counter.arange(count, device=place, dtype=dtypes.uint64)
        counters = numbers.add(stream.counter.to(place))
        return counters._apply(Ops.THREEFRY, stream.key.to(place)._broadcast_to((count,)))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """One thread draws at a time, and none while another one captures what draws."""
        with computing, GradientSwitch():
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


class Random(Windows):
    """Tensors of random numbers.

    shape: sizes, or one sequence of them. device, dtype, requires_grad: as for `Tensor`; without
    `dtype` the default float. `rand`, `randint` and `randperm` give the same bits on every device;
    normal numbers differ by the rounding of logarithm and sine.
    """

    __slots__ = ()

    _streams: ClassVar[Streams] = Streams()

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
        Random._streams.restart(number)

    @classmethod
    def _random_words(cls, shape: Sizes, device: Place | None) -> Self:
        """64 random bits for each element, as uint64."""
        place = canonical_place(device)
        words = cls._streams.draw(cls, math.prod(shape), place)
        return words._reshape(shape)

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
            found = cls._random_words(sizes, device)._fractions(target)
            return (found.contiguous() if contiguous else found)._as_leaf(wanted)

    def _fractions(self, target: DType) -> Self:
        """Of random words the first bits as a fraction, exact in `target`."""
        precision = target.mantissa_bits + 1
        if target is dtypes.float64:
            whole = self.rshift(64 - precision)
        else:
            # The first of the two words of 32 bits is enough.
            whole = self._cast(dtypes.uint32).rshift(32 - precision)
        wide = target if target is dtypes.float64 else dtypes.float32
        return whole._cast(wide).mul(2.0**-precision)._cast(target)

    def _as_leaf(self, requires_grad: bool | None) -> Self:
        self._value.record = None
        self._request_gradient(requires_grad)
        return self

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
            found = cls._random_words(sizes, device)._normals(target)
            return (found.contiguous() if contiguous else found)._as_leaf(requires_grad)

    def _normals(self, target: DType) -> Self:
        """sqrt(-2 ln u) sin(v), u in (0, 1] by the first 32 bits, v in [-pi, pi) by the others."""
        wide = dtypes.float64 if target is dtypes.float64 else dtypes.float32
        first = self._cast(dtypes.uint32)._cast(wide).add(1).mul(2.0**-32)
        second = self.rshift(32)._cast(dtypes.uint32).rshift(8)._cast(wide).mul(2.0**-24)
        radius = first.log().mul(-2).clamp(0).sqrt()
        return radius.mul(second.sub(0.5).mul(2 * math.pi).sin())._cast(target)

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
            found = offset._cast(target).add(first)
            return (found.contiguous() if contiguous else found)._as_leaf(wanted)

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
            numbers = cls.randn(*shape, **kwargs)._scale(std, mean)
            return numbers._as_leaf(requires_grad)

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
            numbers = cls.rand(*shape, dtype=target, **kwargs)._scale(last - first, first)
            return numbers._as_leaf(requires_grad)

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
            return (found.contiguous() if is_stored else found)._as_leaf(wanted)

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

    @classmethod
    def randperm(
        cls, n: int, *, device: str | None = None, dtype: DTypeLike = dtypes.int, **kwargs: Any
    ) -> Self:
        """The numbers from 0 to n - 1 in random order, by sorting random words.

        Examples:
            >>> sorted(Tensor.randperm(5).tolist())
            [0, 1, 2, 3, 4]
        """
        count = integer(n, "randperm: n")
        target = element_dtype(dtype) or dtypes.default_int
        if count < 0:
            raise UserError(f"randperm: n {count} is negative, accepted is at least 0")
        wanted = _requires_grad("randperm", kwargs)
        largest = 1 << target.mantissa_bits + 1 if target.is_float else target.maximum
        if count - 1 > largest:
            raise UserError(f"randperm: {count - 1} does not fit {target.name}")
        with GradientSwitch():
            words = cls._random_words((count,), device)._cast(dtypes.uint32)
            return words.sort()[1]._cast(target)._as_leaf(wanted)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Numbers of places, each drawn with a likelihood in proportion to its weight, as int32.

        Shapes: weights (n,) or (rows, n); the result (num_samples,) or (rows, num_samples).
        Without `replacement` no place comes twice (Efraimidis and Spirakis, "Weighted random
        sampling with a reservoir", 2006). Weights are at least 0, with a sum above 0 that is
        finite; -1 is drawn from others, and where no place with a weight above 0 is left.

        Examples:
            >>> Tensor([0.0, 1.0]).multinomial().tolist()
            [1]
        """
        if self.ndim not in (1, 2):
            raise UserError(f"multinomial: weights have {self.ndim} axes, accepted are 1 and 2")
        count = integer(num_samples, "multinomial: num_samples")
        places = fixed(self.shape, "multinomial")[-1]
        if not places:
            raise UserError("multinomial: there are no weights to choose from")
        if count < 1:
            raise UserError(f"multinomial: num_samples {count}, accepted is at least 1")
        if not replacement and count > places:
            raise UserError(
                f"multinomial: num_samples {count} of {places} places without replacement: "
                f"accepted are up to {places}"
            )
        with GradientSwitch():
            weights = self.detach()._wide("multinomial")
            weights = weights if self.ndim == 2 else weights.unsqueeze(0)
            found = weights._drawn_again(count) if replacement else weights._drawn_once(count)
            total, least = weights.sum(1, keepdim=True), weights.min(1, keepdim=True)
            is_valid = least.ge(0).bitwise_and(total.gt(0)).bitwise_and(total.lt(math.inf))
            rows = is_valid.where(found._cast(dtypes.int32), -1)
            return rows if self.ndim == 2 else rows.squeeze(0)

    def _drawn_again(self, count: int) -> Self:
        """For each row and sample the number of places whose running sum a point has passed."""
        rows = fixed(self.shape, "multinomial")[0]
        sums = self.cumsum(1)
        points = self.rand(rows, count, device=self.device, dtype=self.dtype)
        passed = points.mul(sums[:, -1:]).unsqueeze(-1).ge(sums.unsqueeze(1))
        # A point that rounds up to the whole sum belongs to the last place with a weight.
        last = sums.lt(sums[:, -1:]).sum(1, keepdim=True)
        return passed.sum(-1).minimum(last)

    def _drawn_once(self, count: int) -> Self:
        """The places that come first, if each waits for a time with its weight as rate."""
        chance = self.rand(*self.shape, device=self.device, dtype=self.dtype)
        # In logarithms: the wait for a tiny weight would overflow, as if it were 0.
        waits = chance.neg().add(1).log().neg().log().sub(self.log())
        never = self.gt(0).logical_not().where(math.inf, waits)
        waited, places = never.topk(count, dim=1, largest=False)
        return waited.lt(math.inf).where(places, -1)


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
