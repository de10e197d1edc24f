"""Matrix products, convolutions, kernels with several outputs, and symbolic sizes."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.family import KernelFamily
from tinyref_spec.kernels.named import (
    add_in_place,
    matmul,
    multiplied,
    reduction,
    sum_and_maximum,
)
from tinyref_spec.kernels.notation import largest, left, load, right, shaped, total

FAMILY = KernelFamily()
kernel = FAMILY.kernel
i8, i16, i32, i64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u32 = dtypes.uint8, dtypes.uint32
f16, bf16, f32 = dtypes.float16, dtypes.bfloat16, dtypes.float32
N = build.variable("n", 1, 12)
M = build.variable("m", 2, 6)

# --- products -----------------------------------------------------------------------------------

for name, operands, result, sizes in (
    ("int32", i32, i32, (16, 16, 16)),
    ("int8-int32", i8, i32, (16, 8, 32)),
    ("float16-float32", f16, f32, (16, 16, 16)),
    ("float32", f32, f32, (16, 32, 8)),
    ("int32-odd", i32, i32, (7, 11, 13)),
    ("int64-thin", i64, i64, (1, 20, 24)),
):
    FAMILY.add(f"matmul-{name}", matmul(*sizes, operands, result))

with kernel("matmul-bias-clip") as k:
    x, y = k.load(i32, left(8, 12, 16)), k.load(i32, right(8, 12, 16))
    bias = k.load(i32, shaped(1, 12, 1).expand((8, 12, 1)))
    k.store(build.maximum(build.add(multiplied(x, y), bias), 0), 8, 12, 1)

with kernel("batched-matmul") as k:
    x = k.load(i16, left(3, 6, 4, 8))
    y = k.load(i16, right(3, 6, 4, 8, is_transposed=True))
    k.store(multiplied(x, y, 3), 3, 6, 4, 1)

with kernel("dot-product") as k:
    k.store(total(build.mul(k.input(i32, 128), k.input(i32, 128)), 0), 1)

with kernel("convolution-1d") as k:
    windows = ShapeTracker((View((20, 5), (1, 1)),))
    taps = k.load(i32, shaped(1, 5).expand((20, 5)))
    k.store(total(build.mul(k.load(i32, windows), taps), 1), 20, 1)

with kernel("convolution-2d") as k:
    # Axes: output channel, row, column, input channel, window row, window column.
    windows = ShapeTracker((View((4, 6, 6, 2, 3, 3), (0, 8, 1, 64, 8, 1)),))
    weights = shaped(4, 1, 1, 2, 3, 3).expand((4, 6, 6, 2, 3, 3))
    terms = build.mul(k.load(i32, windows), k.load(i32, weights))
    k.store(total(terms, 3, 4, 5), 4, 6, 6, 1, 1, 1)

with kernel("maximum-pool") as k:
    windows = shaped(8, 2, 6, 2).permute((0, 2, 1, 3))
    k.store(largest(k.load(i32, windows), 2, 3), 8, 6, 1, 1)

# --- outputs ------------------------------------------------------------------------------------

both = sum_and_maximum(i32, 6, 24)
FAMILY.add("two-reduces-two-outputs", both)

with kernel("value-and-row-sum", outputs=2) as k:
    x = k.input(i32, 8, 12)
    k.store(build.mul(x, 3), 8, 12)
    k.store(total(x, 1), 8, 1)

FAMILY.add("in-place-add", add_in_place(i32, 48))

with kernel("in-place-add-row-sum") as k:
    before = load(0, i32, (8, 6))
    k.store(build.add(before, total(k.input(i32, 8, 10), 1)), 8, 6)

# --- symbolic -----------------------------------------------------------------------------------

FAMILY.add("symbolic-rows", reduction(Ops.ADD, i32, (N, 16), 1), n=5)

symbolic = matmul(8, 12, N, i32, is_transposed=True)
FAMILY.add("symbolic-matmul", symbolic, n=6)

with kernel("two-variables", n=4, m=5) as k:
    row, column = k.load(i32, shaped(1, N).expand((M, N))), k.load(i32, shaped(M, 1))
    k.store(build.binary(Ops.XOR, row, column), M, N)

with kernel("symbolic-pad", n=10) as k:
    k.store(build.add(k.load(i32, shaped(N).pad(((2, 1),))), 3), build.add(N, 3))
