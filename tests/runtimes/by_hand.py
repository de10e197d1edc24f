"""Kernels written by hand on devices with a memory of their own: bytes to it and from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.contract import Allocator, Backend

# a[i] = b[i] * factor, of int32.
OPENCL_SCALE = """
__kernel void scale(__global uchar *base0, ulong start0, __global uchar *base1, ulong start1,
                    int factor) {
  __global int *a = (__global int *)(base0 + start0);
  __global int *b = (__global int *)(base1 + start1);
  a[get_global_id(0)] = b[get_global_id(0)] * factor;
}
"""

CUDA_SCALE = """
extern "C" __global__ void scale(int *a, int *b, int factor) {
  a[blockIdx.x] = b[blockIdx.x] * factor;
}
"""
HIP_SCALE = CUDA_SCALE.replace("blockIdx.x", "__builtin_amdgcn_workgroup_id_x()")
METAL_SCALE = """
using namespace metal;
kernel void scale(device int *a [[buffer(0)]], device int *b [[buffer(1)]],
                  constant int &factor [[buffer(2)]], uint3 at [[threadgroup_position_in_grid]]) {
  a[at.x] = b[at.x] * factor;
}
"""


def put(allocator: Allocator, values: npt.NDArray[Any]) -> Any:
    """Memory of the device that holds these values."""
    memory = allocator.allocate(values.nbytes)
    allocator.copy_in(memory, memoryview(values).cast("B"))
    return memory


def get(allocator: Allocator, memory: Any, dtype: type[Any]) -> list[Any]:
    """Return the values in memory of the device."""
    data = bytearray(memory.nbytes)
    allocator.copy_out(memoryview(data), memory)
    values: list[Any] = np.frombuffer(data, dtype).tolist()
    return values


def load(backend: Backend, entry: str, source: str) -> Any:
    """Return the kernel `entry` of a source text."""
    return backend.load(entry, backend.compiler.compile(source))
