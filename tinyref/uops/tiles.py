"""Matrix tiles as data: which thread holds which element of A, B and C, and the vendors' tiles.

A subgroup computes D[m,n] = A[m,k] * B[k,n] + C[m,n] together; each thread holds a fragment
of every matrix in registers, one element in each. The layouts of all vendors are linear in the
bits of the two numbers. Each bit of the thread's number and each bit of the register's number
contributes a power of two to one coordinate of the element, or nothing. If a thread bit
contributes nothing, threads that differ only in it hold the same elements.

The tiles of the vendors follow their instruction set documents. Bits are written lowest first. In
"k2 k4 m1 m2 m4" the lowest bit of the thread's number adds 2 to k, and so on; "-" adds nothing.

NVIDIA: PTX ISA, "Warp-level matrix multiply-accumulate", the sections "Matrix Fragments for
mma.m16n8k16 with floating point type", "... mma.m16n8k8", "... mma.m8n8k16", "... mma.m16n8k16
with integer type", "... mma.m16n8k32" and "... mma.m8n8k4 with .f64 floating point type".
AMD RDNA3: "RDNA3 Instruction Set Architecture Reference Guide", section 7.9, and AMD GPUOpen, "How
to accelerate AI applications on RDNA 3 using WMMA". RDNA4: "RDNA4 Instruction Set Architecture
Reference Guide", section 7.12, and GPUOpen, "Using the Matrix Cores of AMD RDNA 4 architecture
GPUs". CDNA3: "AMD Instinct MI300 Instruction Set Architecture Reference Guide", section 7, with the
AMD matrix instruction calculator.
Apple: the Metal Shading Language Specification, section 6.7, has simdgroup_matrix and leaves its
layout open. Patent US 11256518 B2 and the MLX kernels of Apple have the layout of the hardware.
Intel: OpenCL extension cl_intel_subgroup_matrix_multiply_accumulate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from tinyref.dtype import VECTOR_LANES, DType, dtypes, promote
from tinyref.errors import UserError

# Each register is a lane of a vector value, so there are at most as many as in the widest vector.
MAX_REGISTER_BITS = max(VECTOR_LANES).bit_length() - 1
MAX_THREAD_BITS = 10
LARGEST_DIM = 1024
_LONGEST_NAME = 200
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_BIT = re.compile(r"([mnk])([1-9][0-9]{0,3})", re.ASCII)


class Operand(Enum):
    """A matrix of the product; D has the layout of C."""

    __hash__ = object.__hash__

    A = "A"
    B = "B"
    C = "C"

    @property
    def axes(self) -> tuple[str, str]:
        """Return the names of the row's and the column's coordinate."""
        return _AXES[self]


_AXES = {Operand.A: ("m", "k"), Operand.B: ("k", "n"), Operand.C: ("m", "n")}


class InputRounding(Enum):
    """Rounding of the elements of A and B before a tile multiplies them.

    TF32: float32 to 10 mantissa bits, to nearest, ties away from zero (`cvt.rna.tf32.f32` of the
    PTX ISA, which goes before the tile).
    """

    __hash__ = object.__hash__

    TF32 = "tf32"


@dataclass(frozen=True, slots=True)
class Bit:
    """The contribution of one bit of a number: `weight`, a power of two, to coordinate `axis`."""

    axis: str
    weight: int

    def __str__(self) -> str:
        return f"{self.axis}{self.weight}"


def bit_from_text(text: str) -> Bit:
    """Return the bit that prints as `text`: "k2". Raises `UserError` for anything else."""
    match = _BIT.fullmatch(text)
    if match is None:
        raise UserError(f"tile: {text[:20]!r} is no bit: accepted are m, n or k and a power of two")
    return Bit(match[1], int(match[2]))


@dataclass(frozen=True, slots=True)
class FragmentLayout:
    """The element of one matrix in each register of each thread.

    thread_bits, register_bits: contributions of the bits of the two numbers, lowest bit first; None
    is a thread bit that contributes nothing.
    """

    thread_bits: tuple[Bit | None, ...]
    register_bits: tuple[Bit, ...]

    @staticmethod
    def of(thread_bits: str, register_bits: str) -> FragmentLayout:
        """Read a layout from text: bits such as "k2", lowest first; "-" is a bit without effect."""
        threads = tuple(None if x == "-" else bit_from_text(x) for x in thread_bits.split())
        return FragmentLayout(threads, tuple(map(bit_from_text, register_bits.split())))

    @property
    def threads(self) -> int:
        """Return the number of threads of a subgroup."""
        return 1 << len(self.thread_bits)

    @property
    def registers(self) -> int:
        """Return the number of elements that each thread holds."""
        return 1 << len(self.register_bits)

    @property
    def copies(self) -> int:
        """Return how many threads hold the same element."""
        return 1 << self.thread_bits.count(None)

    def coordinate(self, axis: str, thread: int, register: int) -> int:
        """Return the coordinate along `axis` of the element in `register` of `thread`."""
        return _part(self.thread_bits, axis, thread) + _part(self.register_bits, axis, register)


def _part(bits: tuple[Bit | None, ...], axis: str, number: int) -> int:
    return sum(
        bit.weight
        for position, bit in enumerate(bits)
        if bit is not None and bit.axis == axis and number >> position & 1
    )


@dataclass(frozen=True)
class MatrixTile:
    """A tile that a device multiplies in one instruction: D[m,n] = A[m,k] * B[k,n] + C[m,n].

    dims: (m, n, k), powers of two. dtype_in: the type of A and B. dtype_out: the type of C and D,
    at least as wide. The layouts a, b and c have the same number of threads; D has the layout of C.
    rounds_in: how elements of A and B are rounded before the product.

    Products are added to C in `dtype_out`, k from 0 up, each product and each sum rounded once.
    Raises `UserError` for types that do not fit, and for a layout that loses or doubles an element.
    """

    name: str
    dims: tuple[int, int, int]
    dtype_in: DType
    dtype_out: DType
    a: FragmentLayout
    b: FragmentLayout
    c: FragmentLayout
    rounds_in: InputRounding | None = None

    def __post_init__(self) -> None:
        if len(self.name) > _LONGEST_NAME or not _NAME.fullmatch(self.name):
            raise UserError(
                f"tile: {self.name[:20]!r} is no name: accepted are letters, digits and _ of ASCII"
            )
        for axis, size in zip("mnk", self.dims, strict=True):
            if not 1 <= size <= LARGEST_DIM or size & (size - 1):
                raise self._error(f"{axis} is {size}: accepted are powers of two to {LARGEST_DIM}")
        self._check_types()
        for operand in Operand:
            self._check_layout(operand)

    def __hash__(self) -> int:
        # Equal tiles have equal names; nodes hash their payloads often.
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def _error(self, problem: str) -> UserError:
        return UserError(f"tile {self.name}: {problem}")

    def _check_types(self) -> None:
        numbers = (*dtypes.ints, *dtypes.fp8s, *dtypes.floats)
        for dtype in (self.dtype_in, self.dtype_out):
            if dtype not in numbers:
                raise self._error(f"has elements of {dtype.name}: accepted are numbers")
        if self.dtype_out in dtypes.storage_only:
            raise self._error(f"accumulates in {self.dtype_out.name}, which has no sums")
        is_of_one_kind = self.dtype_in.is_float == self.dtype_out.is_float
        if not is_of_one_kind or promote(self.dtype_in, self.dtype_out) is not self.dtype_out:
            raise self._error(f"{self.dtype_out.name} does not hold all {self.dtype_in.name}")
        if self.rounds_in is InputRounding.TF32 and self.dtype_in is not dtypes.float32:
            raise self._error(f"rounds float32 to tf32, its elements are {self.dtype_in.name}")

    def _check_layout(self, operand: Operand) -> None:
        layout = self.layout(operand)
        what = f"the layout of {operand.value}"
        counts = len(layout.thread_bits), len(layout.register_bits)
        if counts[0] > MAX_THREAD_BITS or counts[1] > MAX_REGISTER_BITS:
            raise self._error(
                f"{what} has {counts[0]} bits of threads and {counts[1]} of registers: "
                f"accepted are {MAX_THREAD_BITS} and {MAX_REGISTER_BITS}"
            )
        if layout.threads != self.threads:
            raise self._error(f"{what} has {layout.threads} threads, that of A {self.threads}")
        missing = {
            Bit(axis, 1 << position)
            for axis in operand.axes
            for position in range(self.size(axis).bit_length() - 1)
        }
        for bit in (*layout.thread_bits, *layout.register_bits):
            if bit is None:
                continue
            if bit not in missing:
                raise self._error(f"{what} doubles {bit}, or has no such coordinate")
            missing.remove(bit)
        if missing:
            raise self._error(f"{what} loses {', '.join(sorted(map(str, missing)))}")

    @property
    def threads(self) -> int:
        """Return the number of threads of a subgroup, which compute a product together."""
        return self.a.threads

    def layout(self, operand: Operand) -> FragmentLayout:
        """Return the layout of A, B or C."""
        return {Operand.A: self.a, Operand.B: self.b, Operand.C: self.c}[operand]

    def dtype(self, operand: Operand) -> DType:
        """Return the type of an element."""
        return self.dtype_out if operand is Operand.C else self.dtype_in

    def fragment(self, operand: Operand) -> DType:
        """Return the type of a thread's fragment: a vector, or a scalar for one register."""
        return self.dtype(operand).vec(self.layout(operand).registers)

    def size(self, axis: str) -> int:
        """Return the extent of m, n or k."""
        return self.dims["mnk".index(axis)]

    def shape(self, operand: Operand) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        row, column = operand.axes
        return self.size(row), self.size(column)

    def element(self, operand: Operand, thread: int, register: int) -> tuple[int, int]:
        """Return row and column of the element in `register` of `thread`."""
        layout = self.layout(operand)
        row, column = operand.axes
        return (
            layout.coordinate(row, thread, register),
            layout.coordinate(column, thread, register),
        )


_f16, _bf16, _f32, _f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
_i8, _i32 = dtypes.int8, dtypes.int32
_TF32 = InputRounding.TF32


def _tile(
    vendor: str,
    dims: tuple[int, int, int],
    dtype_in: DType,
    dtype_out: DType,
    a: str,
    b: str,
    c: str,
    rounds_in: InputRounding | None = None,
) -> MatrixTile:
    """Return a tile from its layouts as text: thread bits, then register bits after "|"."""
    m, n, k = dims
    spelled = dtype_in.name if rounds_in is None else rounds_in.value
    name = f"{vendor}_m{m}n{n}k{k}_{spelled}_{dtype_out.name}"
    of_a, of_b, of_c = (FragmentLayout.of(*text.split("|")) for text in (a, b, c))
    return MatrixTile(name, dims, dtype_in, dtype_out, of_a, of_b, of_c, rounds_in)


# The accumulators of all m16n8 tiles, and of m8n8 ones.
_C_16_8 = "n2 n4 m1 m2 m4 | n1 m8"
_C_8_8 = "n2 n4 m1 m2 m4 | n1"


def _nvidia(
    dims: tuple[int, int, int], dtype_in: DType, dtype_out: DType, a: str, b: str, c: str = _C_16_8
) -> MatrixTile:
    return _tile("nvidia", dims, dtype_in, dtype_out, a, b, c, _TF32 if dtype_in is _f32 else None)


def _m16n8k16(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    a, b = "k2 k4 m1 m2 m4 | k1 m8 k8", "k2 k4 n1 n2 n4 | k1 k8"
    return _nvidia((16, 8, 16), dtype_in, dtype_out, a, b)


def _m16n8k8(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    a, b = "k2 k4 m1 m2 m4 | k1 m8", "k2 k4 n1 n2 n4 | k1"
    return _nvidia((16, 8, 8), dtype_in, dtype_out, a, b)


def _int8(dims: tuple[int, int, int], a: str, b: str, c: str = _C_16_8) -> MatrixTile:
    a, b = f"k4 k8 m1 m2 m4 | {a}", f"k4 k8 n1 n2 n4 | {b}"
    return _nvidia(dims, _i8, _i32, a, b, c)


_ROWS, _COLUMNS = "k1 k2 m1 m2 m4", "k1 k2 n1 n2 n4"
_TF32_K8 = _nvidia((16, 8, 8), _f32, _f32, f"{_ROWS} | m8 k4", f"{_COLUMNS} | k4")
_TF32_K4 = _nvidia((16, 8, 4), _f32, _f32, f"{_ROWS} | m8", f"{_COLUMNS} |")
_FLOAT64 = _nvidia((8, 8, 4), _f64, _f64, f"{_ROWS} |", f"{_COLUMNS} |", _C_8_8)
_INT8_M8N8K16 = _int8((8, 8, 16), "k1 k2", "k1 k2", _C_8_8)
_INT8_M16N8K16 = _int8((16, 8, 16), "k1 k2 m8", "k1 k2")
_INT8_M16N8K32 = _int8((16, 8, 32), "k1 k2 m8 k16", "k1 k2 k16")

# Compute capability 7.5.
NVIDIA_SM75 = (_m16n8k8(_f16, _f32), _m16n8k8(_f16, _f16), _INT8_M8N8K16)
# Compute capability 8.0 and above; the widest first.
NVIDIA_SM80 = (
    _m16n8k16(_f16, _f32),
    _m16n8k16(_f16, _f16),
    _m16n8k16(_bf16, _f32),
    _TF32_K8,
    _TF32_K4,
    _FLOAT64,
    _INT8_M16N8K32,
    _INT8_M16N8K16,
    _m16n8k8(_bf16, _f32),
    *NVIDIA_SM75,
)


def _rdna3(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """Return the tile of V_WMMA_*_16X16X16_* in wave32: threads 16 to 31 give A and B again.

    A 16-bit result is in the low halves of the same number of registers as a 32-bit one.
    """
    a, b = "m1 m2 m4 m8 - | k1 k2 k4 k8", "n1 n2 n4 n8 - | k1 k2 k4 k8"
    c = "n1 n2 n4 n8 m1 | m2 m4 m8"
    return _tile("rdna3", (16, 16, 16), dtype_in, dtype_out, a, b, c)


def _rdna4(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """Return the tile of V_WMMA_*_16X16X16_* of RDNA4 in wave32.

    Each half of the threads holds one half of k, and of m. No element is held twice, and a 16-bit
    result is packed.
    """
    a, b = "m1 m2 m4 m8 k8 | k1 k2 k4", "n1 n2 n4 n8 k8 | k1 k2 k4"
    c = "n1 n2 n4 n8 m8 | m1 m2 m4"
    return _tile("rdna4", (16, 16, 16), dtype_in, dtype_out, a, b, c)


def _cdna3(dtype_in: DType, dtype_out: DType) -> MatrixTile:
    """Return the tile of V_MFMA_F32_16X16X16_F16 and _BF16: 64 threads, A and B four along k."""
    a, b = "m1 m2 m4 m8 k4 k8 | k1 k2", "n1 n2 n4 n8 k4 k8 | k1 k2"
    c = "n1 n2 n4 n8 m4 m8 | m1 m2"
    return _tile("cdna3", (16, 16, 16), dtype_in, dtype_out, a, b, c)


AMD_RDNA3 = (_rdna3(_f16, _f32), _rdna3(_f16, _f16), _rdna3(_bf16, _f32), _rdna3(_i8, _i32))
AMD_RDNA4 = (_rdna4(_f16, _f32), _rdna4(_f16, _f16), _rdna4(_bf16, _f32), _rdna4(_i8, _i32))
AMD_CDNA3 = (_cdna3(_f16, _f32), _cdna3(_bf16, _f32))


def _apple(dtype: DType) -> MatrixTile:
    """Return the tile of simdgroup_multiply_accumulate: 8 x 8 matrices, all with one layout."""
    a, b, c = "k2 m1 m2 k4 m4 | k1", "n2 k1 k2 n4 k4 | n1", "n2 m1 m2 n4 m4 | n1"
    return _tile("apple", (8, 8, 8), dtype, dtype, a, b, c)


APPLE = (_apple(_f32), _apple(_f16), _apple(_bf16))


def _intel(columns: int, dtype_in: DType) -> MatrixTile:
    """Return the tile of intel_sub_group_*_matrix_mad_k16 with M = 8, a thread for each column."""
    wide = columns == 16
    a = "k1 k2 k4 k8 | m1 m2 m4" if wide else "k2 k4 k8 | k1 m1 m2 m4"
    threads = "n1 n2 n4 n8" if wide else "n1 n2 n4"
    b, c = f"{threads} | k1 k2 k4 k8", f"{threads} | m1 m2 m4"
    return _tile("intel", (8, columns, 16), dtype_in, _f32, a, b, c)


# Sub-groups of 8 threads: Arc. Sub-groups of 16: the data-centre line.
INTEL_XE_HPG = (_intel(8, _f16), _intel(8, _bf16))
INTEL_XE_HPC = (_intel(16, _f16), _intel(16, _bf16))
INTEL = (*INTEL_XE_HPG, *INTEL_XE_HPC)

# The tiles that a device of each family may declare, preferred tiles first.
GROUPS: Mapping[str, tuple[MatrixTile, ...]] = MappingProxyType(
    {
        "NVIDIA_SM75": NVIDIA_SM75,
        "NVIDIA_SM80": NVIDIA_SM80,
        "AMD_RDNA3": AMD_RDNA3,
        "AMD_RDNA4": AMD_RDNA4,
        "AMD_CDNA3": AMD_CDNA3,
        "APPLE": APPLE,
        "INTEL_XE_HPG": INTEL_XE_HPG,
        "INTEL_XE_HPC": INTEL_XE_HPC,
    }
)


# Every declared tile by its name.
TILES: Mapping[str, MatrixTile] = MappingProxyType(
    {tile.name: tile for group in GROUPS.values() for tile in group}
)
