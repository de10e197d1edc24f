"""Test that every simplification rule fires, and that it refuses, on separate nodes.

`spec/tests/test_proofs.py` proves that both sides are equal.
"""

import pytest

from tinyref.algebra.rules import casts, division
from tinyref.algebra.simplify import ALL_RULES
from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.build import (
    add,
    at_least,
    both,
    cast,
    const,
    either,
    idiv,
    less,
    logical_not,
    maximum,
    mod,
    mul,
    sub,
    where,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, BufferArg, GepArg

index, truth, i8, u8, i32 = dtypes.index, dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int32
i64, f32, f16 = dtypes.int64, dtypes.float32, dtypes.float16
RULES = {rule.name: rule for rule in ALL_RULES.rules}

x = build.variable("x", 0, 99)
y = build.variable("y", 0, 6)
z = build.variable("z", -50, 50)
t = build.variable("t", 0, 2)
r = build.counter(build.variable("n", 1, 9), 0, AxisKind.LOOP)
n = r.src[0]
b = build.variable("b", -128, 127, i8)
w = build.variable("w", 0, 255, u8)
k = build.variable("k", -(2**31), 2**31 - 1, i32)
f = UOp(Ops.BUFFER, f32, (), BufferArg("CPU", 4, 1))
g = UOp(Ops.BUFFER, f32, (), BufferArg("CPU", 4, 2))
h = UOp(Ops.BUFFER, f16, (), BufferArg("CPU", 4, 6))
p = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 3))
q = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 4))
s = UOp(Ops.BUFFER, truth, (), BufferArg("CPU", 4, 5))
address = build.index(build.define_global(0, f32, 16), const(index, 0))
pair = build.vectorize(f, g)
false, true = const(truth, False), const(truth, True)


def raw(op, *src):
    """Return a node of `op` with the type of its first source, in the order of the arguments."""
    return UOp(op, src[0].dtype, src)


def neg(node):
    return raw(Ops.NEG, node)


def ne(left, right):
    return UOp(Ops.CMPNE, truth, (left, right))


# The name of the rule, a node where it fires, and the result.
FIRES = [
    ("fold-constants", add(const(i8, 100), const(i8, 100)), const(i8, -56)),
    ("fold-constants", less(const(f32, float("nan")), const(f32, 1.0)), false),
    ("fold-constants", cast(const(f32, -2.5), i8), const(i8, -2)),
    ("fold-constants", raw(Ops.SQRT, const(f32.vec(4), 4.0)), const(f32.vec(4), 2.0)),
    ("fold-range", less(x, 100), true),
    ("fold-range", idiv(y, 7), const(index, 0)),
    ("int-add-zero", raw(Ops.ADD, const(i8, 0), b), b),
    ("int-mul-one", mul(b, 1), b),
    ("int-mul-zero", mul(b, 0), const(i8, 0)),
    ("int-sub", sub(b, b), add(b, mul(b, -1))),
    ("int-neg", neg(w), mul(w, 255)),
    ("int-sum", add(add(b, 100), 100), add(b, -56)),
    ("int-sum", add(x, x), mul(x, 2)),
    ("int-sum", add(y, x), add(x, y)),
    ("int-sum", add(b, mul(b, -1)), const(i8, 0)),
    ("int-sum", add(mul(w, 255), w), const(u8, 0)),
    ("int-mul-mul", mul(mul(b, 16), 32), mul(b, 0)),
    ("int-mul-order", mul(y, x), mul(x, y)),
    ("int-mul-regroup", mul(mul(x, 3), y), mul(mul(x, y), 3)),
    ("int-mul-regroup-right", mul(y, mul(x, 3)), mul(mul(y, x), 3)),
    ("int-distribute", mul(add(x, 2), 3), add(mul(x, 3), mul(const(index, 2), 3))),
    ("int-mulacc", raw(Ops.MULACC, x, y, z), add(mul(x, y), z)),
    ("bit-same", raw(Ops.AND, b, b), b),
    ("bit-same", raw(Ops.OR, p, p), p),
    ("bit-xor-same", raw(Ops.XOR, b, b), const(i8, 0)),
    ("bit-zero", raw(Ops.XOR, b, const(i8, 0)), b),
    ("bit-ones", raw(Ops.AND, w, const(u8, 255)), w),
    ("bit-ones", raw(Ops.OR, b, const(i8, -1)), const(i8, -1)),
    ("bit-and-zero", raw(Ops.AND, b, const(i8, 0)), const(i8, 0)),
    ("bit-const-last", raw(Ops.AND, const(i8, 3), b), raw(Ops.AND, b, const(i8, 3))),
    (
        "bit-and-and",
        raw(Ops.AND, raw(Ops.AND, b, const(i8, 3)), const(i8, 6)),
        raw(Ops.AND, b, raw(Ops.AND, const(i8, 3), const(i8, 6))),
    ),
    (
        "bit-or-or",
        raw(Ops.OR, raw(Ops.OR, b, const(i8, 3)), const(i8, 6)),
        raw(Ops.OR, b, raw(Ops.OR, const(i8, 3), const(i8, 6))),
    ),
    (
        "bit-xor-xor",
        raw(Ops.XOR, raw(Ops.XOR, b, const(i8, 3)), const(i8, 6)),
        raw(Ops.XOR, b, raw(Ops.XOR, const(i8, 3), const(i8, 6))),
    ),
    ("bit-mask", raw(Ops.AND, y, const(index, 7)), y),
    ("bit-disjoint", raw(Ops.AND, y, const(index, 24)), const(index, 0)),
    ("bit-disjoint", raw(Ops.AND, build.cast(p, i8), const(i8, 8)), const(i8, 0)),
    ("bit-disjoint", raw(Ops.AND, build.cast(p, i8), const(i8, -128)), const(i8, 0)),
    ("shift-zero", raw(Ops.SHR, b, const(u8, 0)), b),
    ("shift-left-index", raw(Ops.SHL, z, const(index, 3)), mul(z, 8)),
    ("shift-right-index", raw(Ops.SHR, x, const(index, 3)), idiv(x, 8)),
    ("shift-right-index", raw(Ops.SHR, x, const(index, 62)), idiv(x, 2**62)),
    ("shift-left-index", raw(Ops.SHL, t, const(index, 62)), mul(t, 2**62)),
    ("mask-index", raw(Ops.AND, x, const(index, 7)), mod(x, 8)),
    ("mask-index", raw(Ops.AND, x, const(index, 0)), mod(x, 1)),
    ("max-same", maximum(f, f), f),
    ("max-bounds", maximum(x, sub(t, 2)), x),
    ("max-bounds", maximum(sub(t, 3), y), y),
    ("max-bounds", maximum(sub(t, 2), x), x),
    (
        "max-max",
        maximum(maximum(b, 3), 5),
        maximum(b, maximum(const(i8, 3), 5)),
    ),
    ("max-order", maximum(z, x), maximum(x, z)),
    ("max-again", maximum(maximum(x, z), z), maximum(x, z)),
    ("max-again", maximum(x, maximum(x, z)), maximum(x, z)),
    ("max-again", maximum(z, maximum(x, z)), maximum(x, z)),
    ("max-offset", maximum(z, add(z, 2)), add(z, 2)),
    ("max-offset", maximum(z, add(z, -2)), z),
    ("bool-not-not", logical_not(logical_not(p)), p),
    ("bool-ne-false", ne(p, false), p),
    ("bool-xor", raw(Ops.XOR, p, q), ne(p, q)),
    ("bool-max", maximum(p, q), either(p, q)),
    ("bool-less", less(p, q), both(logical_not(p), q)),
    ("bool-ne-not", ne(q, logical_not(p)), logical_not(ne(p, q))),
    ("bool-join", both(less(x, 3), less(x, 5)), less(x, 3)),
    ("bool-join", either(less(x, 3), less(x, 5)), less(x, 5)),
    ("bool-join", both(less(x, 3), at_least(x, 3)), false),
    ("bool-join", both(less(x, 3), at_least(x, 4)), false),
    ("bool-join", either(less(x, 3), at_least(x, 3)), true),
    ("bool-join", both(p, logical_not(p)), false),
    ("bool-join", either(p, logical_not(p)), true),
    ("bool-join", both(p, true), p),
    ("bool-join", either(p, true), true),
    ("bool-absorb-and", both(p, either(q, p)), p),
    ("bool-absorb-or", either(both(p, q), p), p),
    ("div-one", idiv(b, 1), b),
    ("mod-one", mod(b, 1), const(i8, 0)),
    ("div-minus-one", idiv(b, -1), mul(b, -1)),
    ("div-same", idiv(add(x, 1), add(x, 1)), const(index, 1)),
    ("div-same", idiv(sub(y, 7), sub(y, 7)), const(index, 1)),
    ("mod-same", mod(b, b), const(i8, 0)),
    ("mod-bounds", mod(y, 7), y),
    ("mod-bounds", mod(add(y, 10), 10), add(add(y, 10), -10)),
    ("mod-bounds", mod(sub(y, 6), 7), sub(y, 6)),
    ("mod-variable", mod(r, n), r),
    ("div-variable", idiv(r, n), const(index, 0)),
    ("div-nested", idiv(idiv(z, 3), 5), idiv(z, 15)),
    ("div-of-mod", idiv(mod(x, 12), 4), mod(idiv(x, 4), 3)),
    ("div-of-mod", idiv(mod(z, 12), 4), mod(idiv(z, 4), 3)),
    ("mod-of-mod", mod(mod(z, 12), 4), mod(z, 4)),
    ("div-nested-sum", idiv(add(idiv(x, 4), 3), 5), idiv(add(x, 12), 20)),
    ("mod-join", add(mul(mod(idiv(z, 4), 3), 4), mod(z, 4)), mod(z, 12)),
    ("mod-join", add(mod(idiv(x, 2), 4), mul(mod(idiv(x, 8), 3), 4)), mod(idiv(x, 2), 12)),
    ("div-factor", idiv(add(mul(x, 7), y), 7), x),
    ("div-factor", idiv(add(mul(x, 14), y), 28), idiv(x, 2)),
    ("div-split", idiv(add(mul(x, 5), y), 5), add(x, idiv(y, 5))),
    ("div-reduce", idiv(add(mul(t, 8), 1), 7), t),
    ("mod-terms", mod(add(mul(x, 7), y), 7), y),
    ("mod-terms", mod(add(mul(x, 10), y), 5), mod(y, 5)),
    ("mod-factor", mod(add(mul(x, 7), y), 21), add(mul(mod(x, 3), 7), y)),
    ("mod-inner-mod", mod(add(mod(x, 6), y), 3), mod(add(x, y), 3)),
    ("div-mod-sum", add(mul(idiv(z, 4), 4), mod(z, 4)), z),
    ("div-mod-sum", add(mul(idiv(x, 8), 4), mod(idiv(x, 2), 4)), idiv(x, 2)),
    ("mod-from-div", add(z, mul(idiv(z, 4), -4)), mod(z, 4)),
    ("div-symbolic", idiv(add(mul(x, n), r), n), mul(x, 1)),
    ("mod-symbolic", mod(add(mul(x, n), r), n), r),
    ("lt-same", less(f, f), false),
    ("ne-same", ne(b, b), false),
    ("ne-order", ne(const(i8, 3), b), ne(b, const(i8, 3))),
    ("lt-sum", less(add(x, 3), 10), less(x, 7)),
    ("lt-sum", less(mul(x, 4), 7), less(x, 2)),
    ("lt-sum", less(5, x), logical_not(less(x, 6))),
    ("lt-sum", less(add(x, 3), add(x, 4)), true),
    ("lt-factor", less(add(mul(x, 7), y), 21), less(x, 3)),
    ("lt-factor", less(add(mul(x, 7), t), 24), less(x, 4)),
    ("lt-factor", less(add(mul(x, 7), y), 28), less(x, 4)),
    ("lt-factor-sum", less(add(mul(x, 7), y), mul(n, 7)), less(x, n)),
    ("lt-factor-sum", less(add(mul(z, 7), y), add(mul(n, 7), -14)), less(z, add(n, -2))),
    ("lt-max", less(maximum(z, 3), 5), less(z, 5)),
    ("ne-div", ne(idiv(x, 8), const(index, 0)), logical_not(less(x, 8))),
    ("lt-div", less(idiv(z, 4), 3), less(z, 12)),
    ("lt-div", less(idiv(z, 4), 0), less(z, -3)),
    ("lt-first", less(mod(x, 7), 1), logical_not(ne(mod(x, 7), const(index, 0)))),
    ("ne-sum", ne(mul(x, 4), const(index, 8)), ne(x, const(index, 2))),
    ("ne-sum", ne(mul(x, 4), const(index, 7)), true),
    ("ne-sum", ne(add(x, 1), add(y, 3)), ne(x, add(y, 2))),
    ("ne-add", ne(add(b, 100), const(i8, -100)), ne(b, const(i8, 56))),
    ("ne-cast-bool", ne(cast(p, i32), const(i32, 0)), p),
    ("ne-cast-bool-one", ne(cast(p, i32), const(i32, 1)), logical_not(p)),
    ("lt-cast-bool", less(cast(p, i32), 1), logical_not(p)),
    ("where-same", where(p, f, f), f),
    ("where-constant", where(true, f, g), f),
    ("where-constant", where(false, f, g), g),
    ("where-not", where(logical_not(p), f, g), where(p, g, f)),
    ("where-again-left", where(p, where(p, f, g), f), where(p, f, f)),
    ("where-again-right", where(p, f, where(p, g, f)), where(p, f, f)),
    ("where-both", where(p, where(q, f, g), g), where(both(p, q), f, g)),
    ("where-either", where(p, f, where(q, f, g)), where(either(p, q), f, g)),
    ("where-bool", where(p, q, false), both(p, q)),
    ("where-bool", where(p, true, q), either(p, q)),
    ("where-bool", where(p, false, q), both(logical_not(p), q)),
    ("where-bool", where(p, q, true), either(logical_not(p), q)),
    ("load-gate-true", build.load(address, true), build.load(address)),
    ("load-gate-false", build.load(address, false, 3.0), const(f32, 3.0)),
    ("store-gate-true", build.store(address, f, true), build.store(address, f)),
    ("gep-vectorize", build.gep(pair, 1), g),
    ("gep-vectorize", build.gep(pair, 1, 0), build.vectorize(g, f)),
    ("gep-const", build.gep(const(f32.vec(2), 3.0), 0), const(f32, 3.0)),
    ("gep-all", UOp(Ops.GEP, pair.dtype, (pair,), GepArg((0, 1))), pair),
    ("cast-same", UOp(Ops.CAST, i8, (b,)), b),
    ("cast-same", UOp(Ops.BITCAST, f32, (f,)), f),
    ("cast-cast", cast(cast(b, i32), f32), cast(b, f32)),
    # As many bits as the float has, and with a sign as many and one.
    ("cast-cast", cast(cast(w, dtypes.bfloat16), f32), cast(w, f32)),
    ("cast-cast", cast(cast(b, dtypes.bfloat16), f32), cast(b, f32)),
    ("cast-cast", cast(cast(f, dtypes.float64), f16), cast(f, f16)),
    ("cast-cast-wrap", cast(cast(k, dtypes.int16), i8), cast(k, i8)),
    ("cast-cast-wrap", cast(cast(k, i8), u8), cast(k, u8)),
    ("cast-cast-bounds", cast(cast(x, i8), f32), cast(x, f32)),
    ("cast-to-bool", cast(b, truth), ne(b, const(i8, 0))),
    ("cast-float-to-bool", cast(f, truth), ne(f, const(f32, 0.0))),
    (
        "bitcast-bitcast",
        build.bitcast(build.bitcast(f, i32), dtypes.uint32),
        build.bitcast(f, dtypes.uint32),
    ),
    ("float-mul-one", mul(f, 1.0), f),
    ("float-div-one", raw(Ops.FDIV, f, const(f32, 1.0)), f),
    ("float-add-minus-zero", add(f, -0.0), f),
    ("float-sub-zero", sub(f, 0.0), f),
    ("float-neg-neg", neg(neg(f)), f),
    ("float-sub-neg", sub(f, neg(g)), add(f, g)),
    ("float-mul-neg-neg", mul(neg(f), neg(g)), mul(f, g)),
    ("float-trunc-trunc", raw(Ops.TRUNC, raw(Ops.TRUNC, f)), raw(Ops.TRUNC, f)),
    ("float-const-last", raw(Ops.MUL, const(f32, 3.0), f), mul(f, 3.0)),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, -4.0)), mul(f, -0.25)),
    # The smallest normal number, and the largest power.
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 2.0**126)), mul(f, 2.0**-126)),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 2.0**-127)), mul(f, 2.0**127)),
    ("float-div-power", raw(Ops.FDIV, h, const(f16, 2.0**14)), mul(h, 2.0**-14)),
]

# Nodes near the domain of a rule where it must not fire.
REFUSES = [
    ("fold-constants", add(b, 3)),
    ("fold-range", less(x, 99)),
    ("int-add-zero", add(f, 0.0)),
    ("int-mul-zero", mul(f, 0.0)),
    ("int-sub", sub(f, g)),
    ("int-sum", add(f, f)),
    ("int-sum", add(x, 1)),
    ("int-distribute", mul(add(b, 2), 3)),
    ("bit-mask", raw(Ops.AND, y, const(index, 3))),
    ("bit-mask", raw(Ops.AND, y, const(index, 5))),
    ("bit-mask", raw(Ops.AND, z, const(index, 63))),
    ("bit-disjoint", raw(Ops.AND, y, const(index, 4))),
    ("bit-disjoint", raw(Ops.AND, y, const(index, 28))),
    ("bit-disjoint", raw(Ops.AND, z, const(index, 64))),
    ("bit-disjoint", raw(Ops.AND, build.cast(p, i8), const(i8, 9))),
    ("shift-left-index", raw(Ops.SHL, b, const(i8, 3))),
    ("shift-right-index", raw(Ops.SHR, z, const(index, 3))),
    ("shift-right-index", raw(Ops.SHR, x, const(index, -1))),
    ("shift-right-index", raw(Ops.SHR, x, const(index, 63))),
    ("shift-left-index", raw(Ops.SHL, x, const(index, -1))),
    ("shift-left-index", raw(Ops.SHL, x, const(index, 63))),
    ("mask-index", raw(Ops.AND, z, const(index, 7))),
    ("mask-index", raw(Ops.AND, x, const(index, 5))),
    ("mask-index", raw(Ops.AND, x, const(index, -1))),
    # It is at least -1: one less than the rule needs.
    ("lt-first", less(mod(z, 2), 1)),
    ("max-bounds", maximum(x, z)),
    # One range ends beyond the other, and begins at its end or one before.
    ("max-bounds", maximum(x, y)),
    ("max-bounds", maximum(y, x)),
    ("max-bounds", maximum(x, sub(t, 1))),
    ("max-bounds", maximum(sub(t, 1), x)),
    ("max-offset", maximum(b, add(b, 2))),
    ("bool-less", less(x, y)),
    ("div-same", idiv(x, x)),
    ("div-same", idiv(sub(y, 6), sub(y, 6))),
    ("mod-bounds", mod(y, 6)),
    ("mod-bounds", mod(b, 0)),
    ("mod-variable", mod(r, add(n, -1))),
    ("mod-variable", mod(add(r, 1), n)),
    ("div-nested", idiv(idiv(b, 16), 16)),
    ("div-nested", idiv(idiv(z, 3), -5)),
    ("div-nested", idiv(idiv(z, -3), 5)),
    ("div-of-mod", idiv(mod(x, 12), 5)),
    ("div-of-mod", idiv(mod(z, -12), 4)),
    ("mod-of-mod", mod(mod(z, 12), 5)),
    ("div-factor", idiv(add(mul(z, 7), y), 7)),
    ("div-factor", idiv(add(mul(x, 6), y), 6)),
    ("div-factor", idiv(add(mul(w, 7), w), 7)),
    ("div-split", idiv(add(mul(z, 5), y), 5)),
    ("mod-terms", mod(add(mul(z, 7), y), 7)),
    ("mod-factor", mod(add(mul(x, 6), y), 12)),
    ("mod-inner-mod", mod(add(mod(x, 7), y), 3)),
    ("div-mod-sum", add(mul(idiv(z, 4), 3), mod(z, 4))),
    ("div-mod-sum", add(mul(idiv(z, 4), 4), mod(x, 4))),
    ("mod-from-div", add(x, mul(idiv(z, 4), -4))),
    ("div-symbolic", idiv(add(mul(x, n), y), n)),
    ("div-symbolic", idiv(add(mul(x, 3), t), 3)),
    ("mod-symbolic", mod(add(mul(x, 3), t), 3)),
    ("mod-symbolic", mod(r, n)),
    ("lt-sum", less(f, g)),
    ("lt-sum", less(add(b, 3), 10)),
    ("lt-factor", less(add(mul(x, 6), y), 18)),
    ("lt-factor", less(mul(x, 7), 21)),
    ("lt-factor", less(add(mul(x, 7), y), 24)),
    ("lt-div", less(idiv(b, 100), 3)),
    ("lt-factor-sum", less(add(mul(x, 6), y), mul(n, 6))),
    ("lt-factor-sum", less(add(mul(x, 7), y), add(mul(n, 7), 1))),
    ("lt-max", less(maximum(z, 5), 5)),
    ("ne-div", ne(idiv(z, 8), const(index, 0))),
    ("ne-div", ne(idiv(x, 8), const(index, 1))),
    ("ne-div", ne(idiv(x, -8), const(index, 0))),
    ("lt-div", less(idiv(x, -8), 3)),
    ("div-nested-sum", idiv(add(idiv(z, 4), 3), 5)),
    ("div-nested-sum", idiv(add(idiv(x, 4), -3), 5)),
    ("div-nested-sum", idiv(add(idiv(w, 100), 1), 100)),
    ("mod-join", add(mul(mod(idiv(z, 4), 3), 3), mod(z, 4))),
    ("mod-join", add(mul(mod(idiv(w, 32), 8), 32), mod(w, 32))),
    ("mod-join", add(mul(x, 4), mod(z, 4))),
    ("mod-join", add(mul(maximum(idiv(z, 4), 3), 4), mod(z, 4))),
    ("mod-join", add(mul(mod(idiv(z, 4), n), 4), mod(z, 4))),
    ("ne-same", ne(f, f)),
    ("ne-sum", ne(mul(b, 2), const(i8, 4))),
    ("where-constant", where(p, f, g)),
    ("where-both", where(p, where(q, f, g), f)),
    # A negated condition is first restored: joined, it would be one more operation.
    ("where-both", where(logical_not(p), where(q, f, g), g)),
    ("where-either", where(logical_not(p), f, where(q, f, g))),
    ("where-either", where(p, f, where(q, g, f))),
    ("where-bool", where(p, q, s)),
    ("load-gate-true", build.load(address, p)),
    ("gep-all", build.gep(pair, 1, 0)),
    ("cast-cast", cast(cast(k, f32), i32)),
    ("cast-cast", cast(cast(f, f16), f32)),
    # A value out of range wraps for an integer, and is unspecified for a float.
    ("cast-cast", cast(cast(k, dtypes.float64), i8)),
    ("cast-cast", cast(cast(f, truth), i32)),
    ("cast-cast-bounds", cast(cast(x, f32), i32)),
    ("cast-float-to-bool", cast(cast(b, f32), truth)),
    ("div-nested-sum", idiv(add(idiv(w, 16), 3), 32)),
    ("int-mul-mul", mul(mul(x, y), 3)),
    ("ne-sum", ne(f, g)),
    ("lt-factor", less(f, g)),
    ("mod-inner-mod", mod(add(mod(b, 7), b), 3)),
    ("mod-from-div", add(x, mul(idiv(y, 4), -3))),
    ("cast-cast-wrap", cast(cast(k, i8), i32)),
    ("cast-cast-wrap", cast(cast(k, i8), index)),
    ("cast-cast-bounds", cast(cast(k, i8), i32)),
    ("float-add-minus-zero", add(f, 0.0)),
    ("float-sub-zero", sub(f, -0.0)),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 3.0))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 0.0))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, float("inf")))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, float("nan")))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 2.0**127))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, 2.0**-128))),
    ("float-div-power", raw(Ops.FDIV, f, const(f32, -1.0))),
    ("float-div-power", raw(Ops.FDIV, h, const(f16, 2.0**15))),
    ("mod-factor", mod(add(mul(x, 7), y), 7)),
    ("mod-factor", mod(add(mul(z, 7), y), 21)),
]


@pytest.mark.table
@pytest.mark.parametrize(("name", "node", "gives"), FIRES, ids=[case[0] for case in FIRES])
def test_fires(name, node, gives):
    assert RULES[name](node) is gives


@pytest.mark.table
@pytest.mark.parametrize(("name", "node"), REFUSES, ids=[case[0] for case in REFUSES])
def test_refuses(name, node):
    assert RULES[name](node) is None


@pytest.mark.table
@pytest.mark.parametrize(
    ("source", "target", "is_lossless"),
    [
        (i8, dtypes.int16, True),
        (i8, i8, True),
        (i8, u8, False),
        (u8, i8, False),
        (u8, dtypes.int16, True),
        (dtypes.int16, i8, False),
        (i64, dtypes.uint64, False),
        (truth, u8, True),
        (truth, f32, True),
        (u8, truth, False),
        (f32, i64, False),
        (f32, truth, False),
        # 24 bits of a significand, and 11.
        (dtypes.int16, f32, True),
        (i32, f32, False),
        (i32, dtypes.float64, True),
        (i64, dtypes.float64, False),
        (i8, f16, True),
        (dtypes.uint16, f16, False),
        (u8, dtypes.bfloat16, True),
        (dtypes.int16, dtypes.bfloat16, False),
        (f16, f32, True),
        (f32, f16, False),
        (dtypes.bfloat16, f32, True),
        (f16, dtypes.bfloat16, False),
        (dtypes.bfloat16, f16, False),
        (dtypes.fp8e5m2, f16, True),
        (dtypes.fp8e4m3, f16, True),
        (dtypes.fp8e4m3, dtypes.fp8e5m2, False),
    ],
    ids=lambda value: value if isinstance(value, bool) else value.name,
)
def test_what_a_type_holds_of_another(source, target, is_lossless):
    assert casts.is_lossless(source, target) is is_lossless


@pytest.mark.parametrize(
    ("dtype", "values", "beyond"),
    [(i8, (-128, 127), (-129, 128)), (u8, (0, 255), (-1, 256)), (i32, (-(2**31),), (2**31,))],
)
def test_what_an_integer_type_has(dtype, values, beyond):
    assert all(division.holds(dtype, value) for value in values)
    assert not any(division.holds(dtype, value) for value in beyond)


def test_every_rule_fires_here():
    assert {name for name, *_ in FIRES} == set(RULES)
    assert {name for name, _ in REFUSES} <= set(RULES)


def test_every_rule_states_its_equation():
    for rule in ALL_RULES.rules:
        assert "==" in rule.equation, rule.name
        assert rule.equation.endswith("."), rule.name
        assert rule.domain.family in rule.function.__module__
