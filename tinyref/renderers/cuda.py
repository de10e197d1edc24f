"""Programs as CUDA C++, for NVRTC or nvcc.

Buffers are pointers to their first element, in the order of the program's parameters; the variables
follow as `int`. Floats are strict for all options of the compiler except `-ftz=true`. `__fmul_rn`
and similar, and `__hmul_rn` for float16 and bfloat16, round once, to nearest even, and are never
contracted (CUDA C++ Programming Guide, "Intrinsic Functions"; CUDA Math API, "Half Precision
Arithmetic Functions").

Vectors without a name in CUDA are structures, defined in the text. If a device declares an
alignment of views, vectors are loaded and stored with that width, by at most 16 bytes.

Matrix tiles are functions: `mma.sync` on fragments packed into 32-bit registers. The lanes of a
fragment are the elements that a thread holds, in the order of the PTX ISA (a0, a1 ...). Two 16-bit
or four 8-bit elements, lowest first, are one register ("Warp-level matrix multiply-accumulate", the
fragments of mma.m16n8k16 and similar). So the bytes of a vector are its registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from tinyref import config
from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.dtype import ConstType, DType, dtypes
from tinyref.renderers.c_language import C_TYPE_NAMES, VECTOR_WORDS, WRAPPING, launch_table
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.renderers.ptx_instructions import mma_instruction
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import MatrixTile, Operand

# Functions of the library are off by a few units; decompositions have the same bits everywhere.
CUDA_OPS = C_STYLE_OPS - ELEMENTARY_OPS
# Bytes of the widest memory access: CUDA C++ Programming Guide, "Device Memory Accesses".
MAX_ACCESS_BYTES = 16

_STRUCTURE = "tinyref_"
# For float32; for float64, d replaces the f.
_ROUNDED = {
    Ops.ADD: "__fadd_rn",
    Ops.SUB: "__fsub_rn",
    Ops.MUL: "__fmul_rn",
    Ops.FDIV: "__fdiv_rn",
    Ops.SQRT: "__fsqrt_rn",
}
# For float16 and bfloat16, which lack a division that rounds once.
_HALF_FUNCTIONS = {Ops.ADD: "__hadd", Ops.SUB: "__hsub", Ops.MUL: "__hmul"}
_BYTES = (dtypes.int8, dtypes.uint8)
# NVRTC confuses a computed byte with a byte of a loaded word (nvrtc-1 to nvrtc-3 of docs/found.md).
# This hides the value from it, without an instruction.
_WIDENED = "tinyref_widened"
_WIDENED_TEXT = f"""__device__ __forceinline__ int {_WIDENED}(int byte) {{
  asm("" : "+r"(byte));
  return byte;
}}"""
_HALVES = (dtypes.float16, dtypes.bfloat16)
_HALF_HEADERS = {dtypes.float16: "cuda_fp16.h", dtypes.bfloat16: "cuda_bf16.h"}
_WIDEN = {dtypes.float16: "__half2float", dtypes.bfloat16: "__bfloat162float"}
# From types that float32 cannot hold; all others go through float32, which is then exact.
_NARROW = {
    (dtypes.float32, dtypes.float16): "__float2half_rn",
    (dtypes.float64, dtypes.float16): "__double2half",
    (dtypes.float32, dtypes.bfloat16): "__float2bfloat16_rn",
    (dtypes.float64, dtypes.bfloat16): "__double2bfloat16",
    (dtypes.int32, dtypes.bfloat16): "__int2bfloat16_rn",
    (dtypes.uint32, dtypes.bfloat16): "__uint2bfloat16_rn",
    (dtypes.int64, dtypes.bfloat16): "__ll2bfloat16_rn",
    (dtypes.uint64, dtypes.bfloat16): "__ull2bfloat16_rn",
}
_HALF_BITS = {
    dtypes.float16: ("__half_as_ushort", "__ushort_as_half"),
    dtypes.bfloat16: ("__bfloat16_as_ushort", "__ushort_as_bfloat16"),
}
# The type of a register of a tile, and its letter in the constraints of inline assembly.
_REGISTERS = {dtypes.float32: ("float", "f"), dtypes.float64: ("double", "d")}
_WORD = ("unsigned int", "r")


class CudaRenderer(CStyleRenderer):
    """Renders programs as CUDA C++."""

    language = "CUDA C++"
    type_names: ClassVar[Mapping[DType, str]] = {
        **C_TYPE_NAMES,
        dtypes.bool: "bool",
        dtypes.float16: "__half",
        dtypes.bfloat16: "__nv_bfloat16",
    }
    bool_literals = ("false", "true")
    kernel_keywords = 'extern "C" __global__ void'
    has_launch_bounds = True
    shared_space = "__shared__ "
    launch_indices = launch_table("blockIdx.{axis}", "threadIdx.{axis}")
    barrier_text = "__syncthreads();"

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        super().__init__(capabilities)
        # If nothing is declared, only elements are certainly aligned.
        self.alignment = 1 if capabilities is None else capabilities.view_alignment

    # Types

    def vector_type(self, dtype: DType) -> str:
        has_name = dtype.lanes in (2, 4) and dtype.itemsize <= MAX_ACCESS_BYTES
        if has_name and dtype.scalar not in _HALVES:
            return f"{VECTOR_WORDS[dtype.scalar]}{dtype.lanes}"
        return f"{_STRUCTURE}{dtype.scalar.name}x{dtype.lanes}"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"make_{self.type(dtype)}({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        return f"{vector}.{_lane_name(number)}"

    def prologue(self) -> list[str]:
        scalars = {dtype.scalar for dtype in self.types}
        includes = [
            f"#include <{_HALF_HEADERS[scalar]}>" for scalar in _HALVES if scalar in scalars
        ]
        vectors = sorted(
            (vector for vector in self.types if vector.lanes > 1), key=lambda vector: vector.name
        )
        structures = [vector for vector in vectors if self.type(vector).startswith(_STRUCTURE)]
        return [*super().prologue(), *includes, *map(self._structure, structures)]

    def _structure(self, dtype: DType) -> str:
        """Define a vector as a structure, with a function that makes one from its lanes."""
        name, element = self.type(dtype), self.memory_type(dtype)
        lanes = list(map(_lane_name, range(dtype.lanes)))
        parameters = ", ".join(f"{element} {lane}" for lane in lanes)
        assigned = " ".join(f"v.{lane} = {lane};" for lane in lanes)
        alignment = min(dtype.itemsize, MAX_ACCESS_BYTES)
        return (
            f"typedef struct __align__({alignment}) {{ {element} {', '.join(lanes)}; }} {name};\n"
            f"__device__ __forceinline__ {name} make_{name}({parameters}) "
            f"{{ {name} v; {assigned} return v; }}"
        )

    # Values

    def literal(self, value: ConstType, dtype: DType) -> str:
        text = super().literal(value, dtype)
        return text[1:-1] if dtype in _HALVES else text

    def cast(self, value: str, source: DType, target: DType) -> str:
        if source in _HALVES:
            wide = f"{_WIDEN[source]}({value})"
            return wide if target is dtypes.float32 else self.cast(wide, dtypes.float32, target)
        if target not in _HALVES:
            is_widened = source in _BYTES and target not in _BYTES
            return super().cast(self._widened(value) if is_widened else value, source, target)
        self.type(target)
        narrow = _NARROW.get((source, target))
        if narrow is None:
            # A large integer overflows float16, however it was rounded before.
            narrow = _NARROW[dtypes.float32, target]
            value = self.cast(value, source, dtypes.float32)
        return f"{narrow}({value})"

    def _widened(self, byte: str) -> str:
        """Return a byte as an int whose value the compiler cannot know."""
        self.helpers[_WIDENED] = _WIDENED_TEXT
        return f"{_WIDENED}({byte})"

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Convert with an intrinsic between a float and an integer; cast other signs first."""
        if source in _HALVES:
            bits = f"{_HALF_BITS[source][0]}({value})"
            convert = self.cast if target.is_int else self.bitcast
            return convert(bits, dtypes.uint16, target)
        if target in _HALVES:
            return f"{_HALF_BITS[target][1]}({self.cast(value, source, dtypes.uint16)})"
        integer = "int" if target.bits == 32 else "longlong"
        floating = "float" if target.bits == 32 else "double"
        if target.is_float:
            signed = dtypes.int32 if target.bits == 32 else dtypes.int64
            return f"__{integer}_as_{floating}(({self.type(signed)}){value})"
        return f"({self.type(target)})__{floating}_as_{integer}({value})"

    def less(self, left: str, right: str, dtype: DType) -> str:
        return f"__hlt({left}, {right})" if dtype in _HALVES else super().less(left, right, dtype)

    def not_equal(self, left: str, right: str, dtype: DType) -> str:
        """Use the unordered comparison of halves, which is true for a NaN."""
        if dtype in _HALVES:
            return f"__hneu({left}, {right})"
        return super().not_equal(left, right, dtype)

    def negate(self, value: str, dtype: DType) -> str:
        if dtype not in _HALVES:
            return super().negate(value, dtype)
        read, made = _HALF_BITS[dtype]
        return f"{made}({self.cast(f'({read}({value}) ^ 0x8000)', dtypes.int32, dtypes.uint16)})"

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        is_strict = bool(config.integer("STRICT_FLOAT"))
        if dtype in _HALVES:
            return self._half_binary(op, left, right, dtype, is_strict)
        if dtype.is_float and is_strict:
            return f"{_rounded(op, dtype)}({left}, {right})"
        if dtype in _BYTES and op not in WRAPPING:
            # Types that wrap are cast. Otherwise one operand is enough for 32-bit arithmetic, and a
            # constant, which is on the right, stays a constant.
            left = self._widened(left)
        return super().binary(op, left, right, dtype)

    def _half_binary(self, op: Ops, left: str, right: str, dtype: DType, is_strict: bool) -> str:
        """Divide in float32 and round again: float32 has enough bits for that to be exact."""
        function = _HALF_FUNCTIONS.get(op)
        if function is not None:
            return f"{function}{'_rn' if is_strict else ''}({left}, {right})"
        wide = [self.cast(side, dtype, dtypes.float32) for side in (left, right)]
        return self.cast(f"{_ROUNDED[op]}({', '.join(wide)})", dtypes.float32, dtype)

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        if op in _ROUNDED:
            return f"{_rounded(op, dtype)}({', '.join(operands)})"
        return super().call(op, operands, dtype)

    def tile_function(self, tile: MatrixTile, name: str) -> str:
        types = {operand: self.type(tile.fragment(operand)) for operand in Operand}
        parameters = ", ".join(f"{types[operand]} {operand.value.lower()}" for operand in Operand)
        a, b, c = (_register_count(tile, operand) for operand in Operand)
        kind, letter = _register(tile, Operand.C)
        texts = [_numbered(start, count) for start, count in ((c, a), (c + a, b), (0, c))]
        lines = [
            f"__device__ __forceinline__ {types[Operand.C]} {name}({parameters}) {{",
            *_inputs(tile, Operand.A),
            *_inputs(tile, Operand.B),
            f"  {kind} *rc = ({kind} *)&c;",
            f'  asm volatile("{mma_instruction(tile)} {texts[2]}, {", ".join(texts)};"',
            f"    : {_operands(letter, 'rc', c, '+')}",
            f"    : {_operands(_register(tile, Operand.A)[1], 'ra', a)}, "
            f"{_operands(_register(tile, Operand.B)[1], 'rb', b)});",
            "  return c;",
            "}",
        ]
        return "\n".join(lines)

    # Memory

    def declare_local(self, kind: str, name: str, size: int) -> None:
        alignment = "" if self.alignment == 1 else f"__align__({MAX_ACCESS_BYTES}) "
        self.declare(f"{self.shared_space}{alignment}{kind} {name}[{size}];")

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        # A bool is true for any byte but 0, so lanes are tested one by one.
        if dtype.scalar.is_bool or not self._is_aligned(dtype):
            return super().vector_load(name, memory, position, dtype)
        return self.assign(name, f"*(const {self.type(dtype)} *)&{self.index(memory, position)}")

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        if not self._is_aligned(dtype):
            return super().vector_store(value, memory, position, dtype)
        return self.assign(f"*({self.type(dtype)} *)&{self.index(memory, position)}", value)

    def _is_aligned(self, dtype: DType) -> bool:
        return self.alignment >= min(dtype.itemsize, MAX_ACCESS_BYTES)


def _lane_name(number: int) -> str:
    return "xyzw"[number] if number < 4 else f"s{number:x}"


def _rounded(op: Ops, dtype: DType) -> str:
    name = _ROUNDED[op]
    return name if dtype is dtypes.float32 else name.replace("__f", "__d", 1)


def _inputs(tile: MatrixTile, operand: Operand) -> Iterator[str]:
    """Yield the registers of A or B; if the tile rounds its inputs, they are rounded first."""
    name = operand.value.lower()
    kind, _ = _register(tile, operand)
    if tile.rounds_in is None:
        yield f"  const {kind} *r{name} = (const {kind} *)&{name};"
        return
    count = _register_count(tile, operand)
    yield f"  {kind} r{name}[{count}];"
    for number in range(count):
        convert = f"cvt.rna.{tile.rounds_in.value}.f32 %0, %1;"
        element = f"((const float *)&{name})[{number}]"
        yield f'  asm("{convert}" : "=r"(r{name}[{number}]) : "f"({element}));'


def _register(tile: MatrixTile, operand: Operand) -> tuple[str, str]:
    """Return the C++ type of a fragment's register and its letter; rounded floats are bits."""
    if tile.rounds_in is not None and operand is not Operand.C:
        return _WORD
    return _REGISTERS.get(tile.dtype(operand), _WORD)


def _register_count(tile: MatrixTile, operand: Operand) -> int:
    """Return the number of registers of a fragment."""
    return tile.fragment(operand).itemsize // max(tile.dtype(operand).itemsize, 4)


def _numbered(start: int, count: int) -> str:
    """Return the operands of an instruction, one register each: "{%0, %1}"."""
    return f"{{{', '.join(f'%{number}' for number in range(start, start + count))}}}"


def _operands(letter: str, name: str, count: int, access: str = "") -> str:
    """Return the constraints of registers: `"r"(ra[0]), "r"(ra[1])`."""
    return ", ".join(f'"{access}{letter}"({name}[{number}])' for number in range(count))
