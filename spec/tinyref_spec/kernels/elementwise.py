"""Kernels without reduces: every type, one to four axes, views of every kind."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.views.shape_tracker import ShapeTracker
from tinyref.views.view import View
from tinyref_spec.kernels.family import Family
from tinyref_spec.kernels.named import transposed
from tinyref_spec.kernels.notation import shaped

FAMILY = Family()
kernel = FAMILY.kernel
i8, i16, i32, i64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u16, u32, u64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
f16, f32, f64 = dtypes.float16, dtypes.float32, dtypes.float64
boolean = dtypes.bool

# --- one type each ------------------------------------------------------------------------------

for dtype in (i8, i16, i32, i64, u8, u16, u32, u64):
    with kernel(f"multiply-add-{dtype.name}", "elementwise") as k:
        x, y = k.input(dtype, 24, 8), k.input(dtype, 24, 8)
        k.store(build.add(build.mul(x, y), 3), 24, 8)

for dtype in (f16, f32, f64):
    with kernel(f"multiply-subtract-{dtype.name}", "elementwise", "float") as k:
        x, y = k.input(dtype, 12, 16), k.input(dtype, 12, 16)
        k.store(build.sub(build.mul(x, 4.0), y), 12, 16)

with kernel("divide-remainder-int32", "elementwise") as k:
    x = k.input(i32, 64)
    k.store(build.add(build.idiv(x, 7), build.mul(build.mod(x, -5), 3)), 64)

with kernel("divide-by-powers-int16", "elementwise", "narrow") as k:
    x = k.input(i16, 96)
    k.store(build.sub(build.idiv(x, 8), build.mod(x, 16)), 96)

with kernel("shifts-uint32", "elementwise") as k:
    x, y = k.input(u32, 6, 32), k.input(u32, 6, 32)
    mixed = build.binary(Ops.XOR, build.binary(Ops.SHL, x, 5), build.binary(Ops.SHR, y, 27))
    k.store(mixed, 6, 32)

with kernel("shift-right-signed-int64", "elementwise", "wide") as k:
    x = k.input(i64, 48)
    k.store(build.binary(Ops.SHR, x, 3), 48)

with kernel("bitwise-uint8", "elementwise", "narrow") as k:
    x, y = k.input(u8, 128), k.input(u8, 128)
    k.store(build.either(build.both(x, 0x3C), build.binary(Ops.XOR, y, 0xFF)), 128)

with kernel("logic-bool", "elementwise", "bool") as k:
    x, y = k.input(boolean, 10, 12), k.input(boolean, 10, 12)
    k.store(build.both(build.either(x, y), build.logical_not(build.both(x, y))), 10, 12)

with kernel("compare-select-int8", "elementwise", "narrow") as k:
    x, y = k.input(i8, 8, 20), k.input(i8, 8, 20)
    k.store(build.where(build.less(x, y), build.sub(y, x), build.unary(Ops.NEG, x)), 8, 20)

with kernel("clamp-int32", "elementwise") as k:
    x = k.input(i32, 4, 4, 12)
    low = build.maximum(x, -1000)
    k.store(build.where(build.less(1000, low), 1000, low), 4, 4, 12)

with kernel("compare-to-bool-uint64", "elementwise", "wide", "bool") as k:
    x, y = k.input(u64, 40), k.input(u64, 40)
    k.store(build.less(x, y), 40)

with kernel("multiply-accumulate-int32", "elementwise", "broadcast") as k:
    x, y = k.input(i32, 16, 16), k.load(i32, shaped(1, 16).expand((16, 16)))
    k.store(UOp(Ops.MULACC, i32, (x, y, k.input(i32, 16, 16))), 16, 16)

with kernel("polynomial-int64", "elementwise", "wide") as k:
    x, y, z = k.input(i64, 8, 10), k.input(i64, 8, 10), k.input(i64, 8, 10)
    k.store(build.add(build.add(build.mul(x, y), build.mul(x, z)), build.add(y, y)), 8, 10)

with kernel("remainder-of-power-uint32", "elementwise") as k:
    k.store(build.mod(k.input(u32, 72), 16), 72)

with kernel("select-by-two-conditions", "elementwise", "bool") as k:
    x, y = k.input(i32, 9, 8), k.input(i32, 9, 8)
    both = build.both(build.less(x, y), k.input(boolean, 9, 8))
    k.store(build.add(build.where(both, x, y), 5), 9, 8)

with kernel("three-times-column", "elementwise", "size-1") as k:
    k.store(build.mul(k.input(i32, 24, 1), 3), 24, 1)

# --- between types ------------------------------------------------------------------------------

with kernel("widen-int8-int64", "elementwise", "cast") as k:
    k.store(build.mul(build.cast(k.input(i8, 80), i64), 1 << 40), 80)

with kernel("narrow-int64-uint16", "elementwise", "cast") as k:
    k.store(build.cast(build.add(k.input(i64, 5, 16), 77), u16), 5, 16)

with kernel("int16-through-float32", "elementwise", "cast", "float") as k:
    as_float = build.cast(k.input(i16, 60), f32)
    k.store(build.cast(build.mul(as_float, 2.0), i32), 60)

with kernel("bool-times-int32", "elementwise", "cast", "bool") as k:
    x, y = k.input(boolean, 7, 16), k.input(i32, 7, 16)
    k.store(build.mul(build.cast(x, i32), y), 7, 16)

with kernel("bits-float32-uint32", "elementwise", "cast", "float") as k:
    k.store(build.bitcast(build.unary(Ops.NEG, k.input(f32, 32)), u32), 32)

# --- shapes -------------------------------------------------------------------------------------

with kernel("one-element", "elementwise", "size-1") as k:
    k.store(build.add(k.input(i32, 1), 1), 1)

with kernel("no-axes", "elementwise", "size-1") as k:
    k.store(build.mul(k.input(i32), k.input(i32)))

with kernel("four-axes", "elementwise") as k:
    x, y = k.input(i32, 3, 4, 5, 8), k.load(i32, shaped(1, 4, 1, 8).expand((3, 4, 5, 8)))
    k.store(build.add(x, y), 3, 4, 5, 8)

with kernel("size-one-axes", "elementwise", "size-1") as k:
    k.store(build.add(k.input(i32, 1, 6, 1, 8), k.input(i32, 1, 6, 1, 8)), 1, 6, 1, 8)

with kernel("prime-sizes", "elementwise", "odd") as k:
    k.store(build.mul(k.input(i32, 13, 31), k.input(i32, 13, 31)), 13, 31)

with kernel("prime-and-even", "elementwise", "odd") as k:
    k.store(build.sub(k.input(u16, 7, 24), k.input(u16, 7, 24)), 7, 24)

with kernel("nothing", "elementwise", "size-0") as k:
    k.store(build.add(k.input(i32, 4, 0, 3), 1), 4, 0, 3)

# --- views --------------------------------------------------------------------------------------

with kernel("broadcast-row-column", "broadcast") as k:
    row, column = k.load(i32, shaped(1, 16).expand((12, 16))), k.load(i32, shaped(12, 1))
    k.store(build.mul(row, column), 12, 16)

with kernel("broadcast-scalar", "broadcast") as k:
    k.store(build.add(k.input(i32, 64), k.load(i32, shaped(1).expand((64,)))), 64)

FAMILY.add("transpose", transposed(i32, 16, 24), "transpose")

with kernel("transpose-add", "transpose") as k:
    k.store(build.add(k.input(i64, 16, 16), k.load(i64, shaped(16, 16).permute((1, 0)))), 16, 16)

with kernel("rotate-three-axes", "transpose") as k:
    k.store(k.load(u8, shaped(6, 8, 10).permute((2, 0, 1))), 10, 6, 8)

with kernel("store-transposed", "transpose") as k:
    k.store_to(build.add(k.input(i32, 8, 12), 5), shaped(12, 8).permute((1, 0)))

with kernel("reverse", "stride") as k:
    k.store(k.load(i32, shaped(40).flip((0,))), 40)

with kernel("reverse-both", "stride") as k:
    k.store(build.sub(k.input(i16, 9, 8), k.load(i16, shaped(9, 8).flip((0, 1)))), 9, 8)

with kernel("every-third", "stride") as k:
    every = shaped(48).reshape((16, 3)).shrink(((0, 16), (1, 2))).reshape((16,))
    k.store(build.mul(k.load(i32, every), 3), 16)

with kernel("window-with-offset", "stride") as k:
    k.store(k.load(i32, shaped(10, 20).shrink(((2, 8), (3, 19)))), 6, 16)

with kernel("diagonal", "stride") as k:
    k.store(k.load(i32, ShapeTracker((View((12,), (13,)),))), 12)

with kernel("store-window", "stride") as k:
    k.store_to(k.input(i32, 4, 8), shaped(8, 16).shrink(((2, 6), (4, 12))))

with kernel("store-backwards", "stride") as k:
    k.store_to(k.input(i32, 32), shaped(32).flip((0,)))

with kernel("pad", "mask") as k:
    k.store(build.add(k.load(i32, shaped(6, 10).pad(((1, 1), (2, 4)))), 7), 8, 16)

with kernel("concatenate", "mask") as k:
    left, right = shaped(8, 6).pad(((0, 0), (0, 10))), shaped(8, 10).pad(((0, 0), (6, 0)))
    k.store(build.add(k.load(i32, left), k.load(i32, right)), 8, 16)

with kernel("pad-with-ones", "mask") as k:
    inside = shaped(5, 7).pad(((1, 2), (0, 1)))
    k.store(build.where(build.valid(inside), k.load(i32, inside), 1), 8, 8)

with kernel("masked-store", "mask") as k:
    k.store_to(build.add(k.input(i32, 10, 8), 1), shaped(7, 8).pad(((1, 2), (0, 0))))

with kernel("shifted-difference", "mask") as k:
    shifted = shaped(64).shrink(((0, 63),)).pad(((1, 0),))
    k.store(build.sub(k.input(i32, 64), k.load(i32, shifted)), 64)

with kernel("transpose-then-flatten", "multi-view") as k:
    k.store(k.load(i32, shaped(8, 12).permute((1, 0)).reshape((96,))), 96)

with kernel("pad-then-flatten", "multi-view", "mask") as k:
    k.store(build.add(k.load(i32, shaped(5, 6).pad(((1, 0), (1, 1))).reshape((48,))), 1), 48)

with kernel("three-views", "multi-view") as k:
    turned = shaped(4, 6).permute((1, 0)).reshape((4, 6)).permute((1, 0)).reshape((24,))
    k.store(k.load(i32, turned.flip((0,))), 24)

with kernel("repeat-tiles", "multi-view", "broadcast") as k:
    tiles = shaped(1, 5, 1, 4).expand((3, 5, 2, 4)).reshape((15, 8))
    k.store(build.mul(k.load(i32, tiles), k.input(i32, 15, 8)), 15, 8)
