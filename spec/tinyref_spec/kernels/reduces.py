"""Kernels with reduces: one or several, side by side or nested, used again, of every type."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_spec.kernels.family import KernelFamily
from tinyref_spec.kernels.named import (
    maximum_minus_sum,
    padded_sum,
    reduction,
    sum_of_maxima,
)
from tinyref_spec.kernels.notation import below_diagonal, largest, product, shaped, total

FAMILY = KernelFamily()
kernel = FAMILY.kernel
i8, i16, i32, i64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u16, u32, u64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
boolean = dtypes.bool

# --- one reduce ---------------------------------------------------------------------------------

FAMILY.add("sum-rows", reduction(Ops.ADD, i32, (12, 64), 1))
FAMILY.add("sum-two-axes", reduction(Ops.ADD, i32, (6, 8, 10), 0, 2))
FAMILY.add("sum-int8-wraps", reduction(Ops.ADD, i8, (6, 32), 1))

with kernel("sum-uint16-as-uint32") as k:
    k.store(total(build.cast(k.input(u16, 8, 48), u32), 1), 8, 1)

with kernel("sum-bools") as k:
    k.store(total(build.cast(k.input(boolean, 8, 24), i32), 1), 8, 1)

with kernel("product-int32") as k:
    # Even factors would soon make every product 0.
    k.store(product(build.either(k.input(i32, 9, 12), 1), 1), 9, 1)

with kernel("product-uint8") as k:
    k.store(product(build.either(k.input(u8, 4, 16), 1), 1), 4, 1)

FAMILY.add("maximum-int32", reduction(Ops.MAX, i32, (10, 30), 1))

with kernel("maximum-of-negatives-int8") as k:
    k.store(largest(build.either(k.input(i8, 6, 20), -128), 1), 6, 1)

FAMILY.add("any-bool", reduction(Ops.MAX, boolean, (12, 4), 1))
FAMILY.add("sum-float16", reduction(Ops.ADD, f16, (8, 64), 1))
FAMILY.add("sum-bfloat16", reduction(Ops.ADD, bf16, (6, 24), 1))
FAMILY.add("sum-float32", reduction(Ops.ADD, f32, (4, 16, 16), 1, 2))

with kernel("product-float64") as k:
    x = k.input(f64, 5, 16)
    k.store(product(build.where(build.not_equal(x, 0.0), x, 1.0), 1), 5, 1)

FAMILY.add("maximum-float32", reduction(Ops.MAX, f32, (7, 32), 1))

with kernel("sum-of-nothing") as k:
    k.store(build.add(total(k.input(i32, 6, 0), 1), 5), 6, 1)

# --- around the reduce --------------------------------------------------------------------------

with kernel("sum-of-constants-not-zero") as k:
    # Terms that are 7 if nothing is loaded: this axis may not be padded.
    k.store(total(build.add(k.load(i32, shaped(5, 14).pad(((0, 0), (1, 1)))), 7), 1), 5, 1)

FAMILY.add("sum-padded", padded_sum(i32, 7, 11, 2, 3))

with kernel("sum-flattened-multi-view") as k:
    k.store(total(k.load(i32, shaped(6, 16).permute((1, 0)).reshape((8, 12))), 1), 8, 1)

# --- several reduces ----------------------------------------------------------------------------

FAMILY.add("sum-and-maximum", maximum_minus_sum(i32, 8, 24))

with kernel("sums-side-by-side") as k:
    x, y = k.input(i32, 8, 12), k.input(i32, 8, 12)
    k.store(build.mul(build.add(total(x, 1), total(y, 1)), 3), 8, 1)

with kernel("siblings-over-other-axes") as k:
    k.store(build.mul(total(k.input(i32, 8, 12), 0), total(k.input(i32, 10, 6), 1)), 10, 12)

with kernel("siblings-of-other-lengths") as k:
    k.store(build.sub(total(k.input(i32, 5, 16), 1), total(k.input(i32, 5, 9), 1)), 5, 1)

FAMILY.add("sum-of-maxima", sum_of_maxima(i32, 4, 8, 12))

with kernel("normalised-rows") as k:
    # The shape of a softmax, in integers.
    x = build.both(k.input(i32, 8, 16), 0xFF)
    shifted = build.sub(largest(x, 1), x)
    k.store(build.mul(shifted, total(build.mul(shifted, 3), 1)), 8, 16)

# --- counting -----------------------------------------------------------------------------------

with kernel("count-up") as k:
    k.store(total(build.cast(build.valid(below_diagonal(16)), i32), 1), 16, 1)

with kernel("gather-rows") as k:
    position = total(build.cast(build.valid(below_diagonal(8).reshape((1, 8, 8))), i32), 2)
    target = build.both(k.load(i32, shaped(6, 1, 1)), 7)
    table = k.load(i32, shaped(1, 8, 1))
    chosen = build.where(build.equal(position, target), table, 0)
    k.store(total(chosen, 1), 6, 1, 1)

with kernel("choose-rows") as k:
    shape = (6, 9, 4)
    position = build.both(k.load(i32, shaped(6, 1, 1).expand(shape)), 15)
    table = k.load(f32, shaped(1, 9, 4).expand(shape))
    here = build.equal(build.iota(shaped(1, 9, 1).expand(shape)), position)
    k.store(total(build.where(here, table, 0.0), 1), 6, 1, 4)

with kernel("choose-then-multiply") as k:
    cube = (4, 7, 6, 5)
    position = build.mod(k.load(i64, shaped(4, 1, 1, 1).expand(cube)), 8)
    here = build.equal(build.cast(build.iota(shaped(1, 7, 1, 1).expand(cube)), i64), position)
    chosen = total(build.where(here, k.load(i32, shaped(1, 7, 6, 1).expand(cube)), 0), 1)
    k.store(
        total(build.mul(chosen, k.load(i32, shaped(1, 1, 6, 5).expand((4, 1, 6, 5)))), 2),
        4,
        1,
        1,
        5,
    )
