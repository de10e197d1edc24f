"""Kernels without reduces: every type, one to four axes, views of every kind."""

from __future__ import annotations

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.kernels.family import KernelFamily
from tinyref_spec.kernels.named import transposed
from tinyref_spec.kernels.notation import shaped

FAMILY = KernelFamily()
kernel = FAMILY.kernel
i8, i16, i32, i64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
u8, u16, u32, u64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
f16, f32, f64 = dtypes.float16, dtypes.float32, dtypes.float64
boolean = dtypes.bool

# --- one type each ------------------------------------------------------------------------------

for dtype in (i8, i16, i32, i64, u8, u16, u32, u64):
    with kernel(f"multiply-add-{dtype.name}") as k:
        x, y = k.input(dtype, 24, 8), k.input(dtype, 24, 8)
        k.store(build.add(build.mul(x, y), 3), 24, 8)

for dtype in (f16, f32, f64):
    with kernel(f"multiply-subtract-{dtype.name}") as k:
        x, y = k.input(dtype, 12, 16), k.input(dtype, 12, 16)
        k.store(build.sub(build.mul(x, 4.0), y), 12, 16)

with kernel("divide-remainder-int32") as k:
    x = k.input(i32, 64)
    k.store(build.add(build.idiv(x, 7), build.mul(build.mod(x, -5), 3)), 64)

with kernel("divide-by-powers-int16") as k:
    x = k.input(i16, 96)
    k.store(build.sub(build.idiv(x, 8), build.mod(x, 16)), 96)

with kernel("shifts-uint32") as k:
    x, y = k.input(u32, 6, 32), k.input(u32, 6, 32)
    mixed = build.binary(Ops.XOR, build.binary(Ops.SHL, x, 5), build.binary(Ops.SHR, y, 27))
    k.store(mixed, 6, 32)

with kernel("bitwise-uint8") as k:
    x, y = k.input(u8, 128), k.input(u8, 128)
    k.store(build.either(build.both(x, 0x3C), build.binary(Ops.XOR, y, 0xFF)), 128)

with kernel("logic-bool") as k:
    x, y = k.input(boolean, 10, 12), k.input(boolean, 10, 12)
    k.store(build.both(build.either(x, y), build.logical_not(build.both(x, y))), 10, 12)

with kernel("compare-select-int8") as k:
    x, y = k.input(i8, 8, 20), k.input(i8, 8, 20)
    k.store(build.where(build.less(x, y), build.sub(y, x), build.unary(Ops.NEG, x)), 8, 20)

with kernel("multiply-accumulate-int32") as k:
    x, y = k.input(i32, 16, 16), k.load(i32, shaped(1, 16).expand((16, 16)))
    k.store(UOp(Ops.MULACC, i32, (x, y, k.input(i32, 16, 16))), 16, 16)

# --- between types ------------------------------------------------------------------------------

with kernel("widen-int8-int64") as k:
    k.store(build.mul(build.cast(k.input(i8, 80), i64), 1 << 40), 80)

with kernel("int16-through-float32") as k:
    as_float = build.cast(k.input(i16, 60), f32)
    k.store(build.cast(build.mul(as_float, 2.0), i32), 60)

# --- shapes -------------------------------------------------------------------------------------

with kernel("one-element") as k:
    k.store(build.add(k.input(i32, 1), 1), 1)

with kernel("no-axes") as k:
    k.store(build.mul(k.input(i32), k.input(i32)))

with kernel("prime-sizes") as k:
    k.store(build.mul(k.input(i32, 13, 31), k.input(i32, 13, 31)), 13, 31)

with kernel("nothing") as k:
    k.store(build.add(k.input(i32, 4, 0, 3), 1), 4, 0, 3)

# --- views --------------------------------------------------------------------------------------

FAMILY.add("transpose", transposed(i32, 16, 24))

with kernel("store-transposed") as k:
    k.store_to(build.add(k.input(i32, 8, 12), 5), shaped(12, 8).permute((1, 0)))

with kernel("every-third") as k:
    every = shaped(48).reshape((16, 3)).shrink(((0, 16), (1, 2))).reshape((16,))
    k.store(build.mul(k.load(i32, every), 3), 16)

with kernel("store-window") as k:
    k.store_to(k.input(i32, 4, 8), shaped(8, 16).shrink(((2, 6), (4, 12))))

with kernel("concatenate") as k:
    left, right = shaped(8, 6).pad(((0, 0), (0, 10))), shaped(8, 10).pad(((0, 0), (6, 0)))
    k.store(build.add(k.load(i32, left), k.load(i32, right)), 8, 16)

with kernel("pad-with-ones") as k:
    inside = shaped(5, 7).pad(((1, 2), (0, 1)))
    k.store(build.where(build.valid(inside), k.load(i32, inside), 1), 8, 8)

with kernel("masked-store") as k:
    k.store_to(build.add(k.input(i32, 10, 8), 1), shaped(7, 8).pad(((1, 2), (0, 0))))

with kernel("pad-then-flatten") as k:
    k.store(build.add(k.load(i32, shaped(5, 6).pad(((1, 0), (1, 1))).reshape((48,))), 1), 48)

with kernel("three-views") as k:
    turned = shaped(4, 6).permute((1, 0)).reshape((4, 6)).permute((1, 0)).reshape((24,))
    k.store(k.load(i32, turned.flip((0,))), 24)
