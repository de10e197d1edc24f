"""Element types: scalars, vectors, pointers and images, and the promotion lattice between them.

Every type is interned: two equal types are the same object, so types compare and hash by identity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from enum import Enum

from tinyref.arrays import Array, np, npt
from tinyref.errors import UserError, UserLookupError, UserTypeError

ConstType = bool | int | float


class Kind(Enum):
    """The family of a scalar type. It decides which semantics and rules apply."""

    VOID = "void"
    BOOL = "bool"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"


class AddressSpace(Enum):
    """The memory of a pointer: of the device, of a group (shared), or of one work-item."""

    GLOBAL = "global"
    LOCAL = "local"
    REGISTER = "register"


class DType:
    """A scalar type, or a vector of `lanes` scalars.

    itemsize: in bytes, of all lanes together.
    priority: orders the promotion lattice.
    exponent_bits, mantissa_bits: stored bits, without the implicit one; 0 for integers.
    is_int: true for signed and unsigned integers and `index`, false for bool.
    bits: the width of one scalar; 1 for bool.
    minimum, maximum: the limits of integers, False and True for bool, infinities for floats.

    Examples:
        >>> dtypes.int8.minimum, dtypes.float32.vec(4).itemsize
        (-128, 16)
    """

    __slots__ = (
        "__weakref__",
        "bits",
        "exponent_bits",
        "is_bool",
        "is_float",
        "is_int",
        "is_unsigned",
        "itemsize",
        "kind",
        "lanes",
        "mantissa_bits",
        "maximum",
        "minimum",
        "name",
        "priority",
        "scalar",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        itemsize: int,
        priority: int,
        exponent_bits: int = 0,
        mantissa_bits: int = 0,
        lanes: int = 1,
        scalar: DType | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.priority = priority
        self.exponent_bits = exponent_bits
        self.mantissa_bits = mantissa_bits
        self.lanes = lanes
        self.scalar: DType = self if scalar is None else scalar
        # Computed once: every node reads them many times.
        self.is_float = kind is Kind.FLOAT
        self.is_int = kind in (Kind.SIGNED, Kind.UNSIGNED)
        self.is_unsigned = kind is Kind.UNSIGNED
        self.is_bool = kind is Kind.BOOL
        self.bits = 1 if self.is_bool else self.scalar.itemsize * 8
        self.minimum, self.maximum = self._limits()

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype_from_name, (self.name,)

    def vec(self, lanes: int) -> DType:
        """Return the vector of `lanes` (1, 2, 4, 8, 16) of this scalar type."""
        return _vector(self, lanes)

    def _limits(self) -> tuple[ConstType, ConstType]:
        if self.is_float:
            return -math.inf, math.inf
        if self.is_bool:
            return False, True
        if self.kind is Kind.SIGNED:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


class PtrDType(DType):
    """A pointer to `size` elements of `base` in one address space; prints as `float32*8@global`.

    value: the type of loads and stores: `base`, except for images.
    """

    __slots__ = ("base", "size", "space", "value")

    def __init__(self, base: DType, size: int, space: AddressSpace) -> None:
        super().__init__(
            f"{base.name}*{size}@{space.value}", Kind.VOID, 8, -1, lanes=1, scalar=None
        )
        self.base = base
        self.size = size
        self.space = space
        self.value = base


class ImageDType(PtrDType):
    """A 2-D image of `shape` (height, width) texels of four `base` lanes each, in device memory.

    Kernels see its elements, row by row, as float32: a load of float16 texels widens them, a store
    rounds to nearest even. A program reads and writes whole texels, by row and column.
    """

    __slots__ = ("shape",)

    def __init__(self, base: DType, shape: tuple[int, int]) -> None:
        height, width = shape
        super().__init__(base, height * width * TEXEL, AddressSpace.GLOBAL)
        self.name = f"image.{base.name}[{height},{width}]"
        self.shape = shape
        self.value = dtypes.float32


VECTOR_LANES = (2, 4, 8, 16)
# Number of lanes of a texel.
TEXEL = 4


@functools.cache
def _vector(scalar: DType, lanes: int) -> DType:
    if lanes == 1:
        return scalar
    if scalar.lanes != 1 or isinstance(scalar, PtrDType) or scalar.kind is Kind.VOID:
        raise UserTypeError(f"vec: only scalar types have vectors, got {scalar.name}")
    if lanes not in VECTOR_LANES:
        raise UserError(f"vec: lanes must be one of {VECTOR_LANES}, got {lanes}")
    return DType(
        f"{scalar.name}x{lanes}",
        scalar.kind,
        scalar.itemsize * lanes,
        scalar.priority,
        scalar.exponent_bits,
        scalar.mantissa_bits,
        lanes,
        scalar,
    )


def pointer(base: DType, size: int, space: AddressSpace = AddressSpace.GLOBAL) -> PtrDType:
    """Return the interned pointer type to `size` elements of `base` in `space`."""
    # A cache distinguishes a default from the same value passed, so only `_pointer` has one.
    return _pointer(base, size, space)


@functools.cache
def _pointer(base: DType, size: int, space: AddressSpace) -> PtrDType:
    return PtrDType(base, size, space)


@functools.cache
def image(base: DType, height: int, width: int) -> ImageDType:
    """Return the interned image type of `height` x `width` texels of float16 or float32."""
    if base not in (dtypes.float16, dtypes.float32):
        raise UserTypeError(f"image: texels are float16 or float32, got {base.name}")
    return ImageDType(base, (height, width))


class dtypes:
    """The named types; `dtypes.int`, `dtypes.half` and the like are aliases of the sized names.

    Examples:
        >>> dtypes.int is dtypes.int32, dtypes.float16.itemsize, dtypes.int8.is_float
        (True, 2, False)
    """

    void = DType("void", Kind.VOID, 0, -1)
    # The type of index arithmetic before lowering chooses int32 or int64: it never overflows.
    index = DType("index", Kind.SIGNED, 8, -1)
    bool = DType("bool", Kind.BOOL, 1, 0)
    int8 = DType("int8", Kind.SIGNED, 1, 1)
    uint8 = DType("uint8", Kind.UNSIGNED, 1, 2)
    int16 = DType("int16", Kind.SIGNED, 2, 3)
    uint16 = DType("uint16", Kind.UNSIGNED, 2, 4)
    int32 = DType("int32", Kind.SIGNED, 4, 5)
    uint32 = DType("uint32", Kind.UNSIGNED, 4, 6)
    int64 = DType("int64", Kind.SIGNED, 8, 7)
    uint64 = DType("uint64", Kind.UNSIGNED, 8, 8)
    fp8e4m3 = DType("fp8e4m3", Kind.FLOAT, 1, 9, 4, 3)
    fp8e5m2 = DType("fp8e5m2", Kind.FLOAT, 1, 10, 5, 2)
    float16 = DType("float16", Kind.FLOAT, 2, 11, 5, 10)
    bfloat16 = DType("bfloat16", Kind.FLOAT, 2, 12, 8, 7)
    float32 = DType("float32", Kind.FLOAT, 4, 13, 8, 23)
    float64 = DType("float64", Kind.FLOAT, 8, 14, 11, 52)

    char, uchar = int8, uint8
    short, ushort = int16, uint16
    int, uint = int32, uint32
    long, ulong = int64, uint64
    half, float, double = float16, float32, float64

    default_float: DType = float32
    default_int: DType = int32

    signed_ints = (int8, int16, int32, int64)
    unsigned_ints = (uint8, uint16, uint32, uint64)
    ints = (int8, uint8, int16, uint16, int32, uint32, int64, uint64)
    fp8s = (fp8e4m3, fp8e5m2)
    floats = (float16, bfloat16, float32, float64)
    storage_only = fp8s
    all = (bool, *ints, *fp8s, *floats)


ALIASES = {
    "char": dtypes.int8,
    "uchar": dtypes.uint8,
    "short": dtypes.int16,
    "ushort": dtypes.uint16,
    "int": dtypes.int32,
    "uint": dtypes.uint32,
    "long": dtypes.int64,
    "ulong": dtypes.uint64,
    "half": dtypes.float16,
    "float": dtypes.float32,
    "double": dtypes.float64,
}
SCALARS: dict[str, DType] = {
    dtype.name: dtype for dtype in (dtypes.void, dtypes.index, *dtypes.all)
}
DTypeLike = DType | str


def to_dtype(value: object, argument: str = "dtype") -> DType:
    """Return the scalar type for a `DType` or a name such as "float32" or "half".

    Raises `UserError` naming `argument` when it is neither.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        name = value.lower().removeprefix("dtypes.")
        dtype = SCALARS.get(name) or ALIASES.get(name)
        if dtype is not None:
            return dtype
    accepted = ", ".join(dtype.name for dtype in dtypes.all)
    message = f"{argument}: unknown dtype {value!r}: accepted are {accepted}"
    raise UserLookupError(message) if isinstance(value, str) else UserTypeError(message)


@functools.cache
def dtype_from_name(name: str) -> DType:
    """Return the scalar, vector, pointer or image of this name. Raises `UserError`."""
    if name in SCALARS:
        return SCALARS[name]
    try:
        if name.startswith("image."):
            base, _, extent = name.removeprefix("image.").partition("[")
            height, width = (int(part) for part in extent.removesuffix("]").split(","))
            return image(SCALARS[base], height, width)
        if "*" in name:
            base, _, rest = name.rpartition("*")
            size, _, space = rest.partition("@")
            return pointer(dtype_from_name(base), int(size), AddressSpace(space))
        scalar, _, lanes = name.rpartition("x")
        return SCALARS[scalar].vec(int(lanes))
    except (KeyError, ValueError) as error:
        raise UserLookupError(f"dtype: cannot read the type name {name!r}") from error


@functools.cache
def _numpy_dtypes() -> dict[DType, np.dtype[np.generic]]:
    import ml_dtypes

    return {
        dtypes.fp8e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
        dtypes.fp8e5m2: np.dtype(ml_dtypes.float8_e5m2),
        dtypes.bfloat16: np.dtype(ml_dtypes.bfloat16),
        dtypes.index: np.dtype(np.int64),
        **{
            dtype: np.dtype(dtype.name)
            for dtype in (dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.float32, dtypes.float64)
        },
    }


@functools.cache
def _from_numpy_dtypes() -> dict[np.dtype[np.generic], DType]:
    return {numpy: dtype for dtype, numpy in _numpy_dtypes().items() if dtype is not dtypes.index}


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return the numpy type of one scalar of `dtype`: int64 for `index`, else of the same name.

    bfloat16 and fp8 are types of ml_dtypes.
    """
    return _numpy_dtypes()[dtype.scalar]


def from_numpy_dtype(dtype: npt.DTypeLike) -> DType:
    """Return the type of a numpy type in native byte order. Raises `UserError` for others."""
    known = _from_numpy_dtypes()
    result = known.get(np.dtype(dtype))
    if result is None:
        accepted = ", ".join(map(str, known))
        raise UserTypeError(f"dtype: numpy type {np.dtype(dtype)} is not supported: use {accepted}")
    return result


# The direct parents of each type in the promotion lattice; semantics.md draws the same picture.
PROMOTION: dict[DType, tuple[DType, ...]] = {
    dtypes.bool: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.int16: (dtypes.int32,),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.int32: (dtypes.int64,),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.int64: (dtypes.float16, dtypes.bfloat16),
    dtypes.uint64: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8e4m3: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8e5m2: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


def _ancestors(dtype: DType) -> Iterator[DType]:
    yield dtype
    for parent in PROMOTION[dtype]:
        yield from _ancestors(parent)


@functools.cache
def promote(*operands: DType) -> DType:
    """Return the least type above all `operands` in the promotion lattice."""
    common = set(_ancestors(operands[0]))
    for operand in operands[1:]:
        common &= set(_ancestors(operand))
    return min(common, key=lambda dtype: dtype.priority)


def sum_dtype(dtype: DType) -> DType:
    """Return the type in which a sum accumulates: at least int32, uint32 or float32 by kind."""
    if dtype.is_unsigned:
        return promote(dtype, dtypes.uint32)
    if dtype.is_int or dtype.is_bool:
        return promote(dtype, dtypes.int32)
    return promote(dtype, dtypes.float32)


def as_const(value: ConstType, dtype: DType) -> ConstType:
    """Convert `value` to a constant of `dtype`: integers wrap, floats round, bool is `value != 0`.

    A NaN or an infinity has no integer value: raises `UserError`.
    """
    if dtype.is_bool:
        return bool(value)
    if dtype.is_int:
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"value: {value} has no value in {dtype.name}")
        wrapped = int(value) & ((1 << dtype.bits) - 1)
        negative = dtype.kind is Kind.SIGNED and wrapped >> (dtype.bits - 1)
        return wrapped - (1 << dtype.bits) if negative else wrapped
    return round_float(value, dtype)


def round_float(value: ConstType, dtype: DType) -> float:
    """Round `value` once, to nearest even, into the float type `dtype`; overflow gives inf."""
    if isinstance(value, int) and dtype is not dtypes.float64:
        value = _round_to_odd(value)
    try:
        wide = float(value)
    except OverflowError:
        wide = math.inf if value > 0 else -math.inf
    # Most constants are small integers, which every significand holds.
    if abs(wide) <= 1 << dtype.mantissa_bits and wide.is_integer():
        return wide
    return float(narrow_float64(np.array(wide), dtype).astype(np.float64))


def _round_to_odd(value: int) -> int:
    """Cut `value` to 53 bits and fold every lost bit into the last one.

    A later rounding to a narrower type then sees that the value was not a tie. Source: Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    lost = abs(value).bit_length() - 53
    if lost <= 0:
        return value
    high = abs(value) >> lost
    sticky = (high << lost) != abs(value)
    rounded = (high | sticky) << lost
    return rounded if value > 0 else -rounded


def narrow_float64(values: npt.NDArray[np.float64], dtype: DType) -> npt.NDArray[np.generic]:
    """Round float64 `values` of any shape once, to nearest even, into the float type `dtype`.

    Overflow gives infinity; fp8e4m3 has none and gives NaN. ml_dtypes narrows through float32,
    which rounds twice, so the types below float32 go through a float32 that is rounded to odd.
    """
    with np.errstate(all="ignore"):
        if dtype.scalar in (dtypes.float64, dtypes.float32, dtypes.float16):
            return values.astype(numpy_dtype(dtype))
        nearest = values.astype(np.float32)
        wide = nearest.astype(np.float64)
        inexact = np.isfinite(values) & (wide != values)
        too_far = inexact & (np.abs(wide) > np.abs(values))
        toward_zero = np.where(too_far, np.nextafter(nearest, np.float32(0)), nearest)
        odd = toward_zero.view(np.uint32) | inexact.astype(np.uint32)
        narrow: npt.NDArray[np.generic] = odd.view(np.float32).astype(numpy_dtype(dtype))
        return narrow


def float_bits_apart(first: Array, second: Array) -> Array:
    """Return the number of values from one float to the other, as float64, element by element.

    first, second: bits as unsigned integers of one size. +0 and -0 are one value. A NaN counts as
    the number that its bits would be, so the caller must handle NaN.
    """
    sign = np.array(1 << (8 * first.dtype.itemsize - 1), first.dtype)
    here, there = first & ~sign, second & ~sign
    # Subtract before the cast: float64 does not hold every 64-bit integer.
    apart = np.maximum(here, there) - np.minimum(here, there)
    distance: Array = np.where((first ^ second) & sign != 0, here + there, apart)
    return distance.astype(np.float64)
