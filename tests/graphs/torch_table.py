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
    any_shape,
    attention,
    basic_index,
    classified,
    contraction,
    convolution,
    divided,
    filled_shape,
    grouped,
    indexed,
    inputs,
    layer,
    likelihoods,
    matrices,
    normalised,
    numbers,
    of,
    one_hot_classes,
    order,
    paddings,
    pool,
    reshaped,
    resized,
    rolled,
    several,
    single_matrix,
)

Types = tuple[np.dtype[Any], ...]


def close(
    drawn: Inputs, dtypes: Types, *expressions: str | tuple[str, str], **options: Any
) -> list[Function]:
    """Return lines: an expression that both share, or that of tinyref and that of torch."""
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
# Powers magnify the rounding of an exponent, so each one is exact in every type.
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
    # Torch keeps the digits of a number beside 16-bit floats: docs/differences.md.
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
    # Torch gives the gradient of equal bounds to nobody.
    *exact(TRIPLE, NUMBERS, "x.clamp(y, z)", signed=False, has_gradient=False),
    *exact(
        inputs("x", low=NUMBER, high=NUMBER),
        (*FLOATS, *SIGNED),
        "x.clamp({low}, {high})",
        "x.clip({low}, {high})",
        "x.clamp(None, {high})",
        signed=False,
    ),
    *exact(inputs("x", "m", k=NUMBER), NUMBERS, "x.masked_fill(m, {k})"),
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
    # The mean that torch gives beside a variance of infinities is NaN.
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

FILLED = inputs("x", shape=filled_shape, axis=any_axis, k=COUNT)
MATRIX = inputs("x", shape=single_matrix, k=of(st.integers(-4, 4)))
STEP = of(st.integers(1, 3))
PADDED = inputs("x", pads=paddings, k=NUMBER)
ROWS = inputs("x", shape=lambda draw: (1, *filled_shape(draw)[:1], 4))
MOVEMENT = [
    *exact(inputs("x", sizes=reshaped), ALL, "x.reshape({sizes})"),
    *exact(inputs("x", sizes=reshaped), ALL, ("x.view({sizes})", "x.reshape({sizes})")),
    *exact(inputs("x", order=order), ALL, "x.permute({order})"),
    *exact(inputs("x", a=any_axis, b=any_axis), ALL, "x.transpose({a}, {b})"),
    *exact(inputs("x", shape=lambda draw: single_matrix(draw)[:2]), ALL, "x.T "),
    *exact(inputs("x", axis=any_axis), ALL, "x.squeeze({axis})", "x.squeeze()"),
    *exact(inputs("x", axis=any_axis), ALL, "x.unsqueeze({axis})"),
    *exact(inputs("x", axis=any_axis), ALL, "x.flatten({axis})", "x.flatten()"),
    *exact(FILLED, ALL, "x.flip({axis})", "x.unflatten({axis}, (1, -1))"),
    *exact(X, ALL, "x.expand(2, *x.shape)", "x.expand(2, 0, *x.shape)"),
    *exact(PADDED, ALL, ("x.pad({pads})", "F.pad(x, {pads})")),
    *exact(PADDED, (*FLOATS, *SIGNED), ("x.pad({pads}, value={k})", "F.pad(x, {pads}, value={k})")),
    *exact(
        ROWS,
        FLOATS,
        *(
            (f"x.pad((1, 2), mode='{mode}')", f"F.pad(x, (1, 2), mode='{mode}')")
            for mode in ("reflect", "replicate", "circular")
        ),
    ),
    *exact(
        X, ALL, "x.repeat(2, *[1] * x.ndim)", "x.repeat(*[2] * x.ndim)", "x.repeat(0, *x.shape)"
    ),
    *exact(inputs("x", k=COUNT), ALL, "x.repeat_interleave({k})"),
    *exact(FILLED, ALL, "x.repeat_interleave({k}, {axis})"),
    *exact(rolled, ALL, "x.roll({shifts}, {dims})", "x.roll({shifts}[0])"),
    *exact(MATRIX, ALL, "x.tril({k})", "x.triu({k})"),
    *exact(MATRIX, ALL, "x.diagonal({k})", "x.diagonal({k}, -1, 0)"),
    *exact(inputs("x", shape=lambda draw: single_matrix(draw)[:2], k=COUNT), ALL, "x.diag({k})"),
    *exact(inputs("x", shape=lambda draw: single_matrix(draw)[:1], k=COUNT), ALL, "x.diag(-{k})"),
    *exact(inputs("x", axis=any_axis, a=COUNT, b=STEP), ALL, "x.unfold({axis}, {a}, {b})"),
    *exact(several, ALL, ("x.cat(y, z, dim={dim})", "torch.cat((x, y, z), {dim})")),
    *exact(
        inputs("x", "s", axis=any_axis),
        ALL,
        ("x.stack(s, dim={axis})", "torch.stack((x, s), {axis})"),
    ),
    *exact(divided, ALL, "x.split({sizes}, {dim})", "x.split({size}, {dim})"),
    *exact(divided, ALL, "x.chunk({size}, {dim})"),
    *exact(
        inputs("x", "s", shape=lambda draw: any_shape(draw)[:1] or (1,), how=FLAG),
        ALL,
        (
            "x.meshgrid(s, indexing='ij' if {how} else 'xy')",
            "torch.meshgrid(x, s, indexing='ij' if {how} else 'xy')",
        ),
    ),
    *exact(MATRIX, ALL, ("x.rearrange('a ... b -> b ... a')", "x.transpose(0, -1)")),
    *exact(X, ALL, ("x.shrink([(0, n // 2) for n in x.shape])", "torch_halves(x)")),
    *exact(inputs("x", key=basic_index), ALL, "x[{key}]"),
]

MASKED = inputs("x", "n", shape=filled_shape, k=NUMBER)
SORTED = inputs("x", axis=any_axis, flag=FLAG)
ANY, UNIQUE = indexed(is_unique=False), indexed(is_unique=True)
KEYED = inputs("x", shape=filled_shape, key=any_key, k=NUMBER)
SELECTION = [
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

PRODUCTS = [
    *close(matrices, NUMBERS, "x @ y", "x.matmul(y)", ("x.dot(y)", "x @ y")),
    *close(layer, FLOATS, ("x.linear(y, z)", "F.linear(x, y.T, z)")),
    *close(
        contraction,
        FLOATS,
        ("Tensor.einsum({formula}, x, y)", "torch.einsum({formula}, x, y)"),
    ),
    *close(
        convolution(is_transposed=False),
        FLOATS,
        (
            "x.conv2d(y, z, {groups}, {stride}, {dilation}, {padding})",
            "torch_ranked(CONVS, x, y, z, {stride}, {padding}, {dilation}, {groups})",
        ),
    ),
    *close(
        convolution(is_transposed=True),
        FLOATS,
        (
            "x.conv_transpose2d(y, z, {groups}, {stride}, {dilation}, {padding}, {more})",
            "torch_ranked(TRANSPOSED, x, y, z, {stride}, {padding}, {more}, {groups}, {dilation})",
        ),
    ),
    *close(
        attention,
        FLOATS,
        (
            "x.scaled_dot_product_attention(y, z, m)",
            "F.scaled_dot_product_attention(x, y, z, m)",
        ),
        (
            "x.scaled_dot_product_attention(y, z, is_causal={causal})",
            "F.scaled_dot_product_attention(x, y, z, is_causal={causal})",
        ),
        size=1.0,
    ),
    *close(
        grouped,
        FLOATS,
        (
            "x.scaled_dot_product_attention(y, z, is_causal={causal}, enable_gqa=True)",
            "F.scaled_dot_product_attention(x, y, z, is_causal={causal}, enable_gqa=True)",
        ),
        size=1.0,
    ),
    *close(normalised, FLOATS, ("x.batchnorm(s, t, y, z)", "torch_batchnorm(x, s, t, y, z)")),
]

POOLED = "{kernel}, {stride}, {dilation}, {padding}, {ceil}"
MAXIMA = "torch_ranked(MAXIMA, x, {kernel}, {stride}, {padding}, {dilation}, {ceil}"
MAXIMUM = "x.max_pool2d({kernel}, return_indices=True)"
UNPOOLED = "torch_unpooled(x, {kernel})"
WINDOWS = [
    *exact(
        pool(has_dilation=True),
        FLOATS,
        (f"x.max_pool2d({POOLED})", f"{MAXIMA})"),
        signed=False,
    ),
    *exact(
        pool(has_dilation=True),
        FLOATS,
        (f"x.max_pool2d({POOLED}, return_indices=True)[1]", f"{MAXIMA}, True)[1]"),
    ),
    *exact(
        pool(has_dilation=False),
        FLOATS,
        (f"{MAXIMUM}[0].max_unpool2d({MAXIMUM}[1], {{kernel}}, output_size=x.shape)", UNPOOLED),
        signed=False,
        has_gradient=False,
    ),
    # The sum of elements far apart depends on their order.
    *close(
        pool(has_dilation=False, kind="rough"),
        FLOATS,
        (
            f"x.avg_pool2d({POOLED}, {{counted}})",
            "torch_ranked(MEANS, x, {kernel}, {stride}, {padding}, {ceil}, {counted})",
        ),
    ),
    *close(
        resized,
        FLOATS,
        (
            "x.interpolate({size}, {mode}, {corners})",
            "torch_interpolate(x, {size}, {mode}, {corners})",
        ),
        size=1.0,
    ),
]

REDUCED_BY = "reduction={reduction}"
SMOOTHED = f"label_smoothing={{smoothing}}, {REDUCED_BY}"
LOSSES = [
    *close(
        classified,
        FLOATS,
        (f"x.cross_entropy(i, {SMOOTHED})", f"F.cross_entropy(x, i, {SMOOTHED})"),
        (f"x.cross_entropy(p, {SMOOTHED})", f"F.cross_entropy(x, p, {SMOOTHED})"),
        (
            f"x.log_softmax(1).nll_loss(i, y.detach(), {{ignored}}, {REDUCED_BY})",
            f"F.nll_loss(x.log_softmax(1), i, y.detach(), ignore_index={{ignored}}, {REDUCED_BY})",
        ),
        (
            "x.permute(0, *range(2, x.ndim), 1)"
            f".sparse_categorical_crossentropy(i, {{ignored}}, {SMOOTHED})",
            f"F.cross_entropy(x, i, ignore_index={{ignored}}, {SMOOTHED})",
        ),
        size=1.0,
    ),
    *close(
        likelihoods,
        FLOATS,
        # Torch's slopes at 0 and 1 are not those of the formula: docs/differences.md.
        (
            f"p.binary_crossentropy(q, {REDUCED_BY})",
            "torch_cross_entropy_of_bits(p, q, {reduction})",
        ),
        (
            f"x.binary_crossentropy_logits(q, {REDUCED_BY})",
            f"F.binary_cross_entropy_with_logits(x, q, {REDUCED_BY})",
        ),
        (
            f"x.binary_crossentropy_logits(q, pos_weight=p.detach(), {REDUCED_BY})",
            f"F.binary_cross_entropy_with_logits(x, q, pos_weight=p.detach(), {REDUCED_BY})",
        ),
    ),
]

START, LENGTH, SIDE = st.integers(-5, 5), st.integers(0, 9), st.integers(0, 4)
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
RANGE = ("Tensor.arange({a}, {a} + {b}, {c})", "torch.arange({a}, {a} + {b}, {c})")
CREATION = [
    *exact(numbers(a=LENGTH), SIGNED[:1], ("Tensor.arange({a})", "torch.arange({a})")),
    *exact(numbers(a=START, b=LENGTH, c=st.integers(1, 3)), SIGNED[:1], RANGE),
    # Torch computes these in float64.
    *close(
        numbers(a=START, b=LENGTH, c=st.sampled_from((0.5, 0.3, 0.75))), FLOATS[:1], RANGE, size=8.0
    ),
    *close(
        numbers(a=START, b=START, c=LENGTH),
        FLOATS[:1],
        ("Tensor.linspace({a}, {b}, {c})", "torch.linspace({a}, {b}, {c})"),
    ),
    *exact(
        numbers(a=SIDE, b=SIDE),
        FLOATS[:1],
        ("Tensor.eye({a}, {b})", "torch.eye({a}, {b})"),
        ("Tensor.zeros({a}, {b})", "torch.zeros({a}, {b})"),
        ("Tensor.ones({a}, {b})", "torch.ones({a}, {b})"),
    ),
    *exact(
        numbers(a=SHAPES, b=st.sampled_from((1, 0.5, True))),
        FLOATS[:1],
        ("Tensor.full({a}, {b})", "torch.full({a}, {b})"),
    ),
    *exact(X, ALL, ("x.zeros_like()", "torch.zeros_like(x)")),
    *exact(X, ALL, ("x.ones_like()", "torch.ones_like(x)")),
    *exact(X, ALL, ("x.full_like(1)", "torch.full_like(x, 1)")),
]

GROUPS = {
    "rounded once": ROUNDED_ONCE,
    "elementary": ELEMENTARY,
    "arithmetic": ARITHMETIC,
    "reductions": REDUCTIONS,
    "movement": MOVEMENT,
    "selection": SELECTION,
    "products": PRODUCTS,
    "windows": WINDOWS,
    "losses": LOSSES,
    "creation": CREATION,
}

# Name of Tensor -> why the sweep does not call it.
_ANSWER = "every call reads it, or the judge does"
_RANDOM = "random numbers differ"
_STATE = "it changes or reads state, and computes nothing"
_PLACE = "it moves memory"
NOT_CALLED = {
    **dict.fromkeys(("gradient", "numpy", "requires_grad", "requires_grad_"), _ANSWER),
    **dict.fromkeys(("data", "item", "tolist", "device", "numel", "size", "nbytes"), _ANSWER),
    **dict.fromkeys(("element_size", "is_floating_point", "grad", "node"), _ANSWER),
    **dict.fromkeys(("rand", "randn", "randint", "normal", "uniform", "rand_like"), _RANDOM),
    **dict.fromkeys(("randn_like", "randperm", "scaled_uniform", "glorot_uniform"), _RANDOM),
    **dict.fromkeys(("kaiming_uniform", "kaiming_normal", "multinomial", "dropout"), _RANDOM),
    **dict.fromkeys(("manual_seed", "train", "test", "training", "no_grad", "realize"), _STATE),
    **dict.fromkeys(("schedule", "backward", "assign", "replace", "sequential"), _STATE),
    **dict.fromkeys(("empty", "empty_like"), "the elements are unwritten"),
    **dict.fromkeys(("to_", "shard", "shard_"), _PLACE),
}
