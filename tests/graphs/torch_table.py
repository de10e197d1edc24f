"""The functions that the sweep calls: expressions of tinyref and of torch, inputs and types."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from torch_calls import (
    ALL,
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED,
    Function,
    Inputs,
    any_axes,
    any_axis,
    any_key,
    filled_shape,
    indexed,
    inputs,
    matrices,
    of,
    one_hot_classes,
)

Types = tuple[np.dtype[Any], ...]


def close(
    drawn: Inputs, dtypes: Types, *expressions: str | tuple[str, str], **options: Any
) -> list[Function]:
    """Return lines: one expression for both, or one for tinyref and one for torch."""
    pairs = [(one, one) if isinstance(one, str) else one for one in expressions]
    return [Function(ours, theirs, drawn, dtypes, **options) for ours, theirs in pairs]


def exact(
    drawn: Inputs, dtypes: Types, *expressions: str | tuple[str, str], **options: Any
) -> list[Function]:
    """Return lines as `close` does, of functions whose results are exact or rounded once."""
    return close(drawn, dtypes, *expressions, exact=True, **options)


FLAG = of(st.booleans())
COUNT = of(st.integers(0, 3))
NUMBER = of(st.sampled_from((0, 1, 2, 3, -2, 7)))
HALF = of(st.sampled_from((0.5, 1.0, 2.0, -1.5, 3.0)))
REAL = of(st.sampled_from((0.5, 1.0, 2.0, -1.5, 3.0, 0.1)))
POSITIVE = of(st.sampled_from((0.5, 1.0, 2.0, 0.3)))
SHIFT = of(st.integers(0, 7))

X = inputs("x")
PAIR = inputs("x", "y")
TRIPLE = inputs("x", "y", "z")
WITH_NUMBER = inputs("x", k=NUMBER)
WITH_HALF = inputs("x", k=HALF)
WITH_REAL = inputs("x", k=REAL)
# Powers magnify the rounding of an exponent, so every exponent is exact in every type.
WITH_EXPONENT = inputs("x", k=of(st.sampled_from((0.5, 1.0, 2.0, -1.5, 3.0, 0.125))))

ROUNDED_ONCE = [
    *exact(X, NUMBERS, "x.abs()", "x.neg()", "x.square()", "-x"),
    *exact(X, NUMBERS, "x.floor()", "x.ceil()", "x.trunc()", "x.round()"),
    *exact(X, ALL, "x.isnan()", "x.isfinite()", "x.isinf()", "x.logical_not()"),
    *exact(X, ALL, "x.clone()", "x.contiguous()", "x.bool()"),
    *exact(X, ALL, "x.float()", "x.half()", "x.double()", "x.bfloat16()"),
    *exact(X, ALL, ("x.contiguous_backward()", "x.clone()"), ("x.to('CPU')", "x.clone()")),
    *exact(X, FLOATS, "x.sqrt()", "x.reciprocal()"),
    *exact(X, (*INTS, *BOOL), "~x", "x.bitwise_not()"),
    *exact(X, NUMBERS, "x.sign()", "x.relu()", ("x.relu6()", "F.relu6(x)"), signed=False),
    *exact(
        inputs("x", low=of(st.sampled_from((-1, -3))), high=of(st.sampled_from((1, 2)))),
        NUMBERS,
        ("x.hardtanh({low}, {high})", "F.hardtanh(x, {low}, {high})"),
    ),
    *exact(inputs("x", "w", kind="small"), ALL, ("x.cast(w.dtype)", "x.to(w.dtype)")),
    *exact(inputs("x", kind="small"), ALL, "x.int()", "x.long()", "x.short()"),
    *exact(X, (FLOATS[0], SIGNED[0]), ("x.bitcast('int32')", "x.view(torch.int32)")),
    *exact(X, FLOATS, "x.detach() + x"),
]

SMALL = inputs("x", kind="small")
WITH_SCALE = inputs("x", a=POSITIVE)
ELEMENTARY = [
    *close(X, FLOATS, "x.exp()", "x.exp2()", "x.log()", "x.log2()", "x.sin()", "x.cos()"),
    *close(X, FLOATS, "x.tan()", "x.asin()", "x.acos()", "x.atan()", "x.sinh()", "x.cosh()"),
    *close(X, FLOATS, "x.tanh()", "x.asinh()", "x.acosh()", "x.atanh()", "x.erf()"),
    *close(X, FLOATS, "x.sigmoid()", "x.rsqrt()", "x.log10()"),
    *close(SMALL, (*INTS, *BOOL), "x.exp()", "x.log()", "x.sin()", "x.tanh()", "x.atan()"),
    *close(SMALL, (*INTS, *BOOL), "x.erf()", "x.sigmoid()", "x.sqrt()", "x.rsqrt()"),
    *close(SMALL, (*INTS, *BOOL), "x.log10()"),
    *close(X, FLOATS, ("x.silu()", "F.silu(x)"), ("x.swish()", "F.silu(x)")),
    *close(X, FLOATS, ("x.mish()", "F.mish(x)"), ("x.gelu()", "torch_gelu(x)")),
    *close(X, FLOATS, ("x.gelu('none')", "0.5 * x * (1 + torch.erf(x * 0.5**0.5))")),
    *close(X, FLOATS, ("x.logsigmoid()", "F.logsigmoid(x)")),
    *close(X, FLOATS, ("x.softsign()", "F.softsign(x)"), ("x.hardswish()", "F.hardswish(x)")),
    *close(X, FLOATS, ("x.quick_gelu()", "x * torch.sigmoid(1.702 * x)")),
    *close(WITH_SCALE, FLOATS, ("x.softplus({a})", "F.softplus(x, {a}, 1e6)")),
    *close(WITH_SCALE, FLOATS, ("x.elu({a})", "F.elu(x, {a})")),
    *close(WITH_SCALE, FLOATS, ("x.leaky_relu({a})", "F.leaky_relu(x, {a})")),
    # Torch rounds constants of these to float32.
    *close(WITH_SCALE, FLOATS, ("x.celu({a})", "torch_celu(x, {a})")),
    *close(X, FLOATS, ("x.hardsigmoid()", "F.relu6(x + 3) / 6")),
    *close(X, FLOATS, ("x.selu()", "1.0507 * F.elu(x, 1.67326)")),
]

MODE = of(st.sampled_from(("floor", "trunc", None)))
ARITHMETIC = [
    *exact(PAIR, NUMBERS, "x + y", "x - y", "x * y"),
    *exact(PAIR, NUMBERS, ("x.add(y)", "x + y"), ("x.sub(y)", "x - y"), ("x.mul(y)", "x * y")),
    *exact(PAIR, BOOL, "x + y", "x * y"),
    *exact(PAIR, FLOATS, "x / y", "x.copysign(y)"),
    *exact(PAIR, FLOATS, ("x // y", "torch.div(x, y, rounding_mode='floor')")),
    *exact(PAIR, FLOATS, "x % y", signed=False),
    *exact(PAIR, FLOATS, ("x.fmod(y)", "torch.fmod(x, y)")),
    *exact(PAIR, INTS, ("x.fmod(y | 1)", "torch.fmod(x, y | 1)")),
    *close(PAIR, FLOATS, ("x.logaddexp(y)", "torch.logaddexp(x, y)"), size=1.0),
    *exact(inputs("x", "y", kind="small"), (*INTS, *BOOL), "x / y"),
    *exact(PAIR, INTS, "x // (y | 1)", "x % (y | 1)"),
    *exact(PAIR, INTS, ("x.mod(y | 1)", "x % (y | 1)")),
    *exact(PAIR, INTS, ("x.idiv(y | 1)", "torch.div(x, y | 1, rounding_mode='trunc')")),
    *exact(inputs("x", "y", mode=MODE), FLOATS, "x.div(y, rounding_mode={mode})"),
    *exact(inputs("x", "w"), ALL, "x + w", "x - w", "w * x", "x == w", "x < w"),
    *exact(inputs("x", "w", kind="small"), ALL, "x / w", "x.maximum(w)", signed=False),
    *exact(inputs("x", "w", "m"), ALL, ("m.where(x, w)", "torch.where(m, x, w)")),
    *exact(WITH_NUMBER, NUMBERS, "x + {k}", "{k} - x", "x * {k}", "x - {k}"),
    # Torch wraps the number into the type.
    *exact(WITH_NUMBER, (*FLOATS, *SIGNED), "x < {k}", "x != {k}", "{k} >= x"),
    # Torch does not round a number to 16-bit floats: docs/differences.md.
    *exact(WITH_HALF, FLOATS, "x + {k}", "{k} - x", "x * {k}", "x / {k}", "x <= {k}", "x == {k}"),
    *exact(WITH_REAL, FLOATS, ("{k} / x", "torch.full_like(x, {k}) / x")),
    *exact(inputs("x", k=REAL, kind="small"), INTS, "x + {k}", "{k} * x", "x < {k}"),
    *exact(PAIR, ALL, "x == y", "x != y", "x < y", "x <= y", "x > y", "x >= y"),
    *exact(PAIR, ALL, "x.eq(y)", "x.ne(y)", "x.lt(y)", "x.le(y)", "x.gt(y)", "x.ge(y)"),
    *exact(PAIR, ALL, "x.maximum(y)", "x.minimum(y)", signed=False),
    *exact(PAIR, (*INTS, *BOOL), "x & y", "x | y", "x ^ y"),
    *exact(PAIR, (*INTS, *BOOL), "x.bitwise_and(y)", "x.bitwise_or(y)", "x.bitwise_xor(y)"),
    *exact(WITH_NUMBER, SIGNED, "x & {k}", "x | {k}", "{k} ^ x"),
    *exact(inputs("x", k=SHIFT), INTS, "x << {k}", "x >> {k}"),
    *exact(
        inputs("x", k=SHIFT), INTS, ("x.lshift({k})", "x << {k}"), ("x.rshift({k})", "x >> {k}")
    ),
    *exact(PAIR, INTS, "x << (y & 7)", "x >> (y & 7)", "x ** (y & 3)"),
    *close(PAIR, FLOATS, "x ** y", "x.pow(y)"),
    *close(WITH_EXPONENT, FLOATS, "x ** {k}", "{k} ** x"),
    *close(inputs("x", k=COUNT), NUMBERS, "x ** {k}"),
    *close(inputs("x", "y", "z", kind="rough", k=REAL), FLOATS, "x.lerp(y, z)", "x.lerp(y, {k})"),
    *exact(PAIR, FLOATS, "x.isclose(y)", "x.isclose(y, 0.1, 0.5, True)"),
    *exact(PAIR, FLOATS, ("Tensor(x.allclose(y))", "torch.tensor(torch.allclose(x, y))")),
    *exact(PAIR, NUMBERS, "x.clamp(y)", signed=False),
    # If the bounds are equal, torch returns no gradient.
    *exact(TRIPLE, NUMBERS, "x.clamp(y, z)", signed=False, has_gradient=False),
    *exact(
        inputs("x", low=NUMBER, high=NUMBER),
        (*FLOATS, *SIGNED),
        "x.clamp({low}, {high})",
        "x.clip({low}, {high})",
        "x.clamp(None, {high})",
        signed=False,
    ),
    # Of uint8, torch wraps -2 but refuses 300; tinyref refuses both.
    *exact(inputs("x", "m", k=NUMBER), (*FLOATS, *SIGNED), "x.masked_fill(m, {k})"),
    *exact(inputs("x", "y", "m"), ALL, ("m.where(x, y)", "torch.where(m, x, y)")),
    *exact(inputs("x", "m", k=NUMBER), NUMBERS, ("m.where(x, {k})", "torch.where(m, x, {k})")),
]

REDUCED = inputs("x", axes=any_axes, keep=FLAG)
CORRECTED = inputs("x", axes=any_axes, keep=FLAG, ddof=of(st.integers(0, 1)))
ALONG = inputs("x", axis=any_axis, keep=FLAG)
NORM = of(st.sampled_from((1.0, 2.0, 3.0)))
REDUCTIONS = [
    *close(REDUCED, ALL, "x.sum({axes}, keepdim={keep})"),
    *close(REDUCED, FLOATS, "x.mean({axes}, keepdim={keep})"),
    # The gradient is a quotient of the product, which may overflow or be zero.
    *close(
        inputs("x", kind="rough", axes=any_axes, keep=FLAG),
        ALL,
        ("x.prod({axes}, {keep})", "torch_prod(x, {axes}, {keep})"),
    ),
    *exact(
        REDUCED,
        NUMBERS,
        ("x.max({axes}, {keep})", "torch_extreme(torch.amax, x, {axes}, {keep})"),
        ("x.min({axes}, {keep})", "torch_extreme(torch.amin, x, {axes}, {keep})"),
        signed=False,
    ),
    *exact(REDUCED, ALL, ("x.any({axes}, {keep})", "torch.any(x, {axes}, {keep}).bool()")),
    *exact(REDUCED, ALL, ("x.all({axes}, {keep})", "torch.all(x, {axes}, {keep}).bool()")),
    *exact(ALONG, NUMBERS, "x.argmax({axis}, {keep})", "x.argmin({axis}, {keep})"),
    *exact(X, NUMBERS, "x.argmax()", "x.argmin()"),
    *close(
        CORRECTED,
        FLOATS,
        ("x.var({axes}, {keep}, {ddof})", "x.var({axes}, correction={ddof}, keepdim={keep})"),
        ("x.std({axes}, {keep}, {ddof})", "x.std({axes}, correction={ddof}, keepdim={keep})"),
        size=1.0,
    ),
    # If the variance is of infinities, torch returns NaN as the mean.
    *close(REDUCED, FLOATS, ("x.var_mean({axes})", "(x.var({axes}), x.mean({axes}))"), size=1.0),
    *close(REDUCED, FLOATS, ("x.std_mean({axes})", "(x.std({axes}), x.mean({axes}))"), size=1.0),
    *close(REDUCED, FLOATS, ("x.logsumexp({axes}, {keep})", "torch_logsumexp(x, {axes}, {keep})")),
    *close(ALONG, ALL, "x.cumsum({axis})", "x.cumprod({axis})"),
    *close(ALONG, FLOATS, "x.softmax({axis})", "x.log_softmax({axis})", size=1.0),
    *close(ALONG, FLOATS, ("x.softmin({axis})", "F.softmin(x, {axis})"), size=1.0),
    # Torch's gradient of huge elements adds their size to logarithms of its weights.
    *close(inputs("x", kind="rough", axis=any_axis), FLOATS, "x.logcumsumexp({axis})", size=1.0),
    *exact(
        ALONG,
        NUMBERS,
        ("x.cummax({axis})", "x.cummax({axis})[0]"),
        ("x.cummin({axis})", "x.cummin({axis})[0]"),
        signed=False,
    ),
    # Torch's norms of huge elements overflow.
    *close(
        inputs("x", shape=filled_shape, kind="rough", axis=any_axis, p=NORM),
        FLOATS,
        ("x.normalize({p}, {axis})", "F.normalize(x, {p}, {axis})"),
    ),
    # Distances from a rounded mean count where all elements are equal.
    *close(
        inputs("x", shape=filled_shape, kind="plain"),
        FLOATS,
        ("x.layernorm()", "F.layer_norm(x, x.shape[-1:])"),
    ),
]

MASKED = inputs("x", "n", shape=filled_shape, k=NUMBER)
SORTED = inputs("x", axis=any_axis, flag=FLAG)
ANY, UNIQUE = indexed(is_unique=False), indexed(is_unique=True)
KEYED = inputs("x", shape=filled_shape, key=any_key, k=NUMBER)
SELECTION = [
    *close(matrices, NUMBERS, "x @ y"),
    *exact(KEYED, ALL, "x[{key}]", repeats=8),
    *exact(
        KEYED,
        SIGNED,
        ("written(x, {key}, {k})", "torch_written(x, {key}, {k})"),
        ("written(x, {key}, x[{key}] * 2)", "torch_written(x, {key}, x[{key}] * 2)"),
        repeats=3,
    ),
    *exact(MASKED, ALL, "x[n]", "x.masked_select(n)"),
    *exact(MASKED, SIGNED, ("written(x, n, {k})", "torch_written(x, n, {k})")),
    *exact(ANY, ALL, "x.gather({dim}, i)"),
    *exact(UNIQUE, ALL, "x.scatter({dim}, i, v)"),
    *exact(ANY, NUMBERS, "x.scatter({dim}, i, 3)"),
    *close(ANY, NUMBERS, ("x.scatter({dim}, i, v, reduce='add')", "x.scatter_add({dim}, i, v)")),
    *close(
        ANY,
        NUMBERS,
        *(
            f"x.scatter_reduce({{dim}}, i, v, '{name}', include_self={{flag}})"
            for name in ("sum", "prod")
        ),
    ),
    # Torch wraps the sums of integers.
    *close(ANY, FLOATS, "x.scatter_reduce({dim}, i, v, 'mean', include_self={flag})"),
    *close(
        ANY,
        NUMBERS,
        "x.scatter_reduce({dim}, i, v, 'amax')",
        "x.scatter_reduce({dim}, i, v, 'amin')",
    ),
    # Torch gives a part of these gradients to elements that are not included.
    *exact(
        ANY,
        NUMBERS,
        *(
            f"x.scatter_reduce({{dim}}, i, v, '{name}', include_self=False)"
            for name in ("amax", "amin")
        ),
        signed=False,
        has_gradient=False,
    ),
    *exact(SORTED, ALL, "x.sort({axis}, {flag})[0]", signed=False),
    *exact(
        SORTED,
        NUMBERS,
        (
            "x.sort({axis}, {flag})[1]",
            "torch.sort(x, dim={axis}, descending={flag}, stable=True)[1]",
        ),
    ),
    *exact(
        SORTED,
        NUMBERS,
        (
            "x.argsort({axis}, {flag})",
            "torch.argsort(x, dim={axis}, descending={flag}, stable=True)",
        ),
    ),
    *exact(X, ALL, "x.nonzero()", ("x.nonzero(True)", "x.nonzero(as_tuple=True)")),
    # Torch leaves open which of equal elements it takes.
    *exact(
        inputs("x", shape=filled_shape, axis=any_axis, flag=FLAG),
        NUMBERS,
        "x.topk(x.shape[-1], -1, {flag})[0]",
        "x.topk(1, {axis}, {flag})[0]",
        signed=False,
        has_gradient=False,
    ),
    *exact(one_hot_classes, SIGNED[:1], ("i.one_hot({count})", "F.one_hot(i, {count})")),
]

GROUPS = {
    "rounded once": ROUNDED_ONCE,
    "elementary": ELEMENTARY,
    "arithmetic": ARITHMETIC,
    "reductions": REDUCTIONS,
    "selection": SELECTION,
}
