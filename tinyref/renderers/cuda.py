"""Programs as CUDA C++, for NVRTC or nvcc: text alone, no device of this package runs it.

Buffers are pointers to their first element, in the order of the program's parameters; the variables
follow as `int`. Floats are strict whatever the flags of the compiler are: `__fmul_rn` and its kin
round correctly and are never contracted to a fused multiply-add (CUDA C++ Programming Guide,
"Intrinsic Functions"). Only `-ftz=true` must not be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tinyref import config
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.dtype import DType, dtypes
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.uops.ops import Ops

# The functions of the library are off by a few units; decompositions are the same bits everywhere.
CUDA_OPS = C_STYLE_OPS - ELEMENTARY_OPS

# Vectors are named after other words than scalars. There are those of two and of four lanes.
_VECTOR_NAMES = {
    dtypes.bool: "uchar",
    dtypes.int8: "char",
    dtypes.uint8: "uchar",
    dtypes.int16: "short",
    dtypes.uint16: "ushort",
    dtypes.int32: "int",
    dtypes.uint32: "uint",
    dtypes.int64: "longlong",
    dtypes.uint64: "ulonglong",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
# Of float32 and, with a d for the f, of float64.
_ROUNDED = {
    Ops.ADD: "__fadd_rn",
    Ops.SUB: "__fsub_rn",
    Ops.MUL: "__fmul_rn",
    Ops.FDIV: "__fdiv_rn",
    Ops.SQRT: "__fsqrt_rn",
}


class CudaRenderer(CStyleRenderer):
    """Prints programs as CUDA C++."""

    language = "CUDA C++"
    type_names: ClassVar[Mapping[DType, str]] = {
        dtypes.bool: "bool",
        dtypes.int8: "signed char",
        dtypes.uint8: "unsigned char",
        dtypes.int16: "short",
        dtypes.uint16: "unsigned short",
        dtypes.int32: "int",
        dtypes.uint32: "unsigned int",
        dtypes.int64: "long long",
        dtypes.uint64: "unsigned long long",
        dtypes.float32: "float",
        dtypes.float64: "double",
    }
    bool_literals = ("false", "true")
    kernel_keywords = 'extern "C" __global__ void'
    shared_space = "__shared__ "
    launch_indices: ClassVar[Mapping[tuple[str, int], str]] = {
        (scope, dimension): f"{word}.{'xyz'[dimension]}"
        for scope, word in (("group", "blockIdx"), ("item", "threadIdx"))
        for dimension in range(3)
    }
    barrier_text = "__syncthreads();"

    def vector_type(self, dtype: DType) -> str:
        return f"{_VECTOR_NAMES[dtype.scalar]}{dtype.lanes}"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"make_{self.type(dtype)}({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        return f"{vector}.{'xyzw'[number]}"

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """By intrinsics between a float and the signed integer; an unsigned one is cast first."""
        integer = "int" if target.bits == 32 else "longlong"
        floating = "float" if target.bits == 32 else "double"
        if target.is_float:
            return f"__{integer}_as_{floating}(({self.type(_signed(source))}){value})"
        return f"({self.type(target)})__{floating}_as_{integer}({value})"

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        if dtype.is_float and config.integer("STRICT_FLOAT"):
            return f"{_rounded(op, dtype)}({left}, {right})"
        return super().binary(op, left, right, dtype)

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        if op in _ROUNDED:
            return f"{_rounded(op, dtype)}({', '.join(operands)})"
        return super().call(op, operands, dtype)


def _rounded(op: Ops, dtype: DType) -> str:
    name = _ROUNDED[op]
    return name if dtype is dtypes.float32 else name.replace("__f", "__d", 1)


def _signed(dtype: DType) -> DType:
    return dtypes.int64 if dtype.bits == 64 else dtypes.int32
