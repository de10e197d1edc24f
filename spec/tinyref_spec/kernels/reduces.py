"""Kernels with reduces: one or several, side by side or nested, used again, of every type."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_spec.kernels.family import Family
from tinyref_spec.kernels.named import (
    maximum_minus_sum,
    padded_sum,
    reduction,
    sum_of_maxima,
)
from tinyref_spec.kernels.notation import below_diagonal, largest, product, shaped, total

FAMILY = Family()
kernel = FAMILY.kernel
i8, i16, i32, i64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u16, u32, u64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
boolean = dtypes.bool

# --- one reduce ---------------------------------------------------------------------------------

FAMILY.add("sum-all", reduction(Ops.ADD, i32, (256,), 0), "sum")
FAMILY.add("sum-rows", reduction(Ops.ADD, i32, (12, 64), 1), "sum")
FAMILY.add("sum-columns", reduction(Ops.ADD, i32, (64, 12), 0), "sum")
FAMILY.add("sum-middle", reduction(Ops.ADD, u32, (4, 16, 6), 1), "sum")
FAMILY.add("sum-two-axes", reduction(Ops.ADD, i32, (6, 8, 10), 0, 2), "sum", "two-axes")
FAMILY.add("sum-matrix", reduction(Ops.ADD, i64, (16, 20), 0, 1), "sum", "two-axes")
FAMILY.add("sum-prime", reduction(Ops.ADD, i32, (5, 37), 1), "sum", "odd")
FAMILY.add("sum-int8-wraps", reduction(Ops.ADD, i8, (6, 32), 1), "sum", "narrow")

with kernel("sum-uint16-as-uint32", "sum", "cast") as k:
    k.store(total(build.cast(k.input(u16, 8, 48), u32), 1), 8, 1)

with kernel("sum-bools", "count", "bool", "cast") as k:
    k.store(total(build.cast(k.input(boolean, 8, 24), i32), 1), 8, 1)

with kernel("product-int32", "product") as k:
    # Even factors would soon make every product 0.
    k.store(product(build.either(k.input(i32, 9, 12), 1), 1), 9, 1)

with kernel("product-uint8", "product", "narrow") as k:
    k.store(product(build.either(k.input(u8, 4, 16), 1), 1), 4, 1)

with kernel("product-int64-two-axes", "product", "two-axes", "wide") as k:
    k.store(product(build.either(k.input(i64, 4, 6, 8), 1), 1, 2), 4, 1, 1)

FAMILY.add("maximum-int32", reduction(Ops.MAX, i32, (10, 30), 1), "maximum")
FAMILY.add("maximum-uint64", reduction(Ops.MAX, u64, (16, 8), 0), "maximum", "wide")

with kernel("maximum-of-negatives-int8", "maximum", "narrow") as k:
    k.store(largest(build.either(k.input(i8, 6, 20), -128), 1), 6, 1)

FAMILY.add("any-bool", reduction(Ops.MAX, boolean, (12, 4), 1), "maximum", "bool")
FAMILY.add("sum-float16", reduction(Ops.ADD, f16, (8, 64), 1), "sum", "float")
FAMILY.add("sum-bfloat16", reduction(Ops.ADD, bf16, (6, 24), 1), "sum", "float", "narrow")
FAMILY.add("sum-float32", reduction(Ops.ADD, f32, (4, 16, 16), 1, 2), "sum", "float", "two-axes")

with kernel("product-float64", "product", "float", largest=2) as k:
    x = k.input(f64, 5, 16)
    k.store(product(build.where(build.not_equal(x, 0.0), x, 1.0), 1), 5, 1)

FAMILY.add("maximum-float32", reduction(Ops.MAX, f32, (7, 32), 1), "maximum", "float")

with kernel("sum-of-nothing", "sum", "size-0") as k:
    k.store(build.add(total(k.input(i32, 6, 0), 1), 5), 6, 1)

FAMILY.add("maximum-of-one", reduction(Ops.MAX, i32, (8, 1), 1), "maximum", "size-1")

# --- around the reduce --------------------------------------------------------------------------

with kernel("sum-of-squares-plus-one", "sum") as k:
    x = k.input(i32, 8, 32)
    k.store(build.add(total(build.mul(x, x), 1), 1), 8, 1)

with kernel("sum-of-remainders", "sum") as k:
    k.store(total(build.mod(k.input(i32, 6, 40), 9), 1), 6, 1)

with kernel("sum-of-constants-not-zero", "sum", "mask") as k:
    # Terms that are 7 where nothing is loaded: this axis may not be padded.
    k.store(total(build.add(k.load(i32, shaped(5, 14).pad(((0, 0), (1, 1)))), 7), 1), 5, 1)

FAMILY.add("sum-padded", padded_sum(i32, 7, 11, 2, 3), "sum", "mask", "odd")

with kernel("sum-transposed", "sum", "transpose") as k:
    k.store(total(k.load(i32, shaped(32, 8).permute((1, 0))), 1), 8, 1)

with kernel("sum-flattened-multi-view", "sum", "multi-view") as k:
    k.store(total(k.load(i32, shaped(6, 16).permute((1, 0)).reshape((8, 12))), 1), 8, 1)

with kernel("sum-reversed-masked", "sum", "stride", "mask") as k:
    reversed_tail = shaped(4, 20).flip((1,)).shrink(((0, 4), (0, 14))).pad(((0, 0), (2, 0)))
    k.store(total(k.load(i32, reversed_tail), 1), 4, 1)

with kernel("sum-of-broadcast", "sum", "broadcast") as k:
    k.store(total(k.load(i32, shaped(8, 1).expand((8, 12))), 1), 8, 1)

# --- several reduces ----------------------------------------------------------------------------

FAMILY.add("sum-and-maximum", maximum_minus_sum(i32, 8, 24), "sibling", "sum", "maximum")

with kernel("three-siblings", "sibling", "sum", "product", "maximum") as k:
    x, y = k.input(i32, 6, 16), k.input(i32, 6, 16)
    k.store(build.add(build.mul(total(x, 1), product(build.either(y, 1), 1)), largest(y, 1)), 6, 1)

with kernel("sums-side-by-side", "sibling", "sum") as k:
    x, y = k.input(i32, 8, 12), k.input(i32, 8, 12)
    k.store(build.mul(build.add(total(x, 1), total(y, 1)), 3), 8, 1)

with kernel("sum-times-constant", "sum") as k:
    k.store(build.mul(total(k.input(u32, 12, 10), 0), 5), 1, 10)

with kernel("maximum-of-larger", "maximum") as k:
    k.store(largest(build.maximum(k.input(i16, 6, 14), k.input(i16, 6, 14)), 1), 6, 1)

with kernel("sum-of-sums", "nested", "sum") as k:
    k.store(total(total(k.input(i32, 5, 8, 9), 2), 1), 5, 1, 1)

with kernel("siblings-over-other-axes", "sibling", "sum", "broadcast") as k:
    k.store(build.mul(total(k.input(i32, 8, 12), 0), total(k.input(i32, 10, 6), 1)), 10, 12)

with kernel("siblings-of-other-lengths", "sibling", "sum", "odd") as k:
    k.store(build.sub(total(k.input(i32, 5, 16), 1), total(k.input(i32, 5, 9), 1)), 5, 1)

FAMILY.add("sum-of-maxima", sum_of_maxima(i32, 4, 8, 12), "nested", "sum", "maximum")

with kernel("maximum-of-products-of-sums", "nested", "sum", "product", "maximum") as k:
    k.store(largest(product(total(k.input(i32, 3, 4, 6, 8), 3), 2), 1), 3, 1, 1, 1)

with kernel("distance-from-maximum", "nested", "reused", "maximum") as k:
    x = k.input(i32, 8, 16)
    k.store(build.sub(x, largest(x, 1)), 8, 16)

with kernel("sum-of-distances", "nested", "reused", "sum", "maximum") as k:
    x = k.input(i32, 6, 20)
    k.store(total(build.idiv(build.sub(largest(x, 1), x), 2), 1), 6, 1)

with kernel("normalised-rows", "nested", "reused", "sum", "maximum") as k:
    # The shape of a softmax, in integers.
    x = build.both(k.input(i32, 8, 16), 0xFF)
    shifted = build.sub(largest(x, 1), x)
    k.store(build.mul(shifted, total(build.mul(shifted, 3), 1)), 8, 16)

with kernel("distance-from-sum-both-axes", "nested", "reused", "two-axes", "sum") as k:
    x = k.input(i16, 6, 8)
    k.store(build.sub(x, total(x, 0, 1)), 6, 8)

with kernel("weighted-by-other-reduce", "nested", "reused", "sum") as k:
    x, y = k.input(u32, 4, 12, 1), k.input(u32, 4, 12, 8)
    k.store(total(build.mul(x, total(y, 2)), 1), 4, 1, 1)

# --- counting -----------------------------------------------------------------------------------

with kernel("count-up", "count", "multi-view") as k:
    k.store(total(build.cast(build.valid(below_diagonal(16)), i32), 1), 16, 1)

with kernel("running-sum", "count", "sum", "multi-view") as k:
    x = k.load(i32, shaped(1, 12).expand((12, 12)))
    k.store(total(build.where(build.valid(below_diagonal(12)), x, 0), 1), 12, 1)

with kernel("lower-triangle", "count", "multi-view") as k:
    k.store(build.where(build.valid(below_diagonal(10)), k.input(i32, 10, 10), -1), 10, 10)

with kernel("gather-rows", "gather", "nested", "count") as k:
    position = total(build.cast(build.valid(below_diagonal(8).reshape((1, 8, 8))), i32), 2)
    wanted = build.both(k.load(i32, shaped(6, 1, 1)), 7)
    table = k.load(i32, shaped(1, 8, 1))
    chosen = build.where(build.equal(position, wanted), table, 0)
    k.store(total(chosen, 1), 6, 1, 1)

with kernel("choose-rows", "gather", "float") as k:
    shape = (6, 9, 4)
    place = build.both(k.load(i32, shaped(6, 1, 1).expand(shape)), 15)
    table = k.load(f32, shaped(1, 9, 4).expand(shape))
    here = build.equal(build.iota(shaped(1, 9, 1).expand(shape)), place)
    k.store(total(build.where(here, table, 0.0), 1), 6, 1, 4)

with kernel("choose-pairs", "gather", "two-axes", "narrow") as k:
    shape = (10, 5, 3)
    row, column = (build.mod(k.load(i16, shaped(10, 1, 1).expand(shape)), 7) for _ in range(2))
    rows = build.cast(build.iota(shaped(1, 5, 1).expand(shape)), i16)
    columns = build.cast(build.iota(shaped(1, 1, 3).flip((2,)).expand(shape)), i16)
    here = build.both(build.equal(rows, row), build.equal(columns, column))
    k.store(total(build.where(here, k.load(i16, shaped(1, 5, 3).expand(shape)), 0), 1, 2), 10, 1, 1)

with kernel("choose-then-multiply", "gather", "nested", "matmul") as k:
    cube = (4, 7, 6, 5)
    place = build.mod(k.load(i64, shaped(4, 1, 1, 1).expand(cube)), 8)
    here = build.equal(build.cast(build.iota(shaped(1, 7, 1, 1).expand(cube)), i64), place)
    chosen = total(build.where(here, k.load(i32, shaped(1, 7, 6, 1).expand(cube)), 0), 1)
    k.store(
        total(build.mul(chosen, k.load(i32, shaped(1, 1, 6, 5).expand((4, 1, 6, 5)))), 2),
        4,
        1,
        1,
        5,
    )

with kernel("weigh-by-place", "sum", "odd") as k:
    x = k.input(i32, 7, 11)
    k.store(total(build.mul(x, build.iota(shaped(7, 11).flip((1,)))), 1), 7, 1)

with kernel("one-hot", "gather", "nested", "count", "bool") as k:
    position = total(build.cast(build.valid(below_diagonal(9).reshape((1, 9, 9))), i32), 2)
    k.store(build.equal(position, build.mod(k.load(i32, shaped(7, 1, 1)), 9)), 7, 9, 1)
