"""Scaled dot-product attention by definition, in bounded values."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Shape

NAME = "scaled_dot_product_attention"


def attention(q: Value, k: Value, v: Value, *mask: Value, visible: str = "") -> Value:
    """Return softmax(q k' / sqrt(d)) v; a query that sees nothing gives zeros.

    visible: "mask" for a bool mask, "causal", or "" for all.
    """
    scores = bounded.matmul(q, bounded.transposed(k)) * (1 / math.sqrt(q.shape[-1]))
    sees = np.ones(scores.shape, np.bool_)
    if visible == "causal":
        sees = np.tril(sees)
    elif visible == "mask":
        sees = np.broadcast_to(mask[0].value != 0, scores.shape)
    elif mask:
        scores = scores + mask[0]
    hidden = bounded.zeros(scores.shape, scores.dtype)
    # A number far below all others replaces -inf: its power is 0 too.
    far = bounded.exact(np.full(scores.shape, scores.value.min() - 1), scores.dtype)
    largest = bounded.detached(bounded.largest(bounded.choose(sees, scores, far), (-1,)))
    powers = bounded.choose(sees, bounded.exp(scores - largest), hidden)
    total = powers.sum((-1,), keepdims=True)
    seen = bounded.choose(total.value > 0, total, bounded.ones(total.shape, total.dtype))
    return bounded.matmul(powers / seen, v)


def _grouped(q: Value, k: Value, v: Value) -> Value:
    """Return attention in which several heads of queries share a head of keys, on axis -3."""
    keys, values = (
        bounded.move_elements(
            heads, partial(np.repeat, repeats=q.shape[-3] // heads.shape[-3], axis=-3)
        )
        for heads in (k, v)
    )
    return attention(q, keys, values)


def _grouped_form(q: Shape, k: Shape, v: Shape) -> Form:
    arguments = "q, k, v, enable_gqa=True"
    return Form(
        f"Tensor.{NAME}({arguments})",
        (Input("q", q), Input("k", k), Input("v", v)),
        _grouped,
        is_wide=True,
        torch=f"F.{NAME}({arguments})",
    )


def _form(q: Shape, k: Shape, v: Shape, mask: Shape | None = None, visible: str = "") -> Form:
    inputs = [Input("q", q), Input("k", k), Input("v", v)]
    arguments = ""
    if mask is not None:
        arguments = ", attn_mask=m"
        is_bool = visible == "mask"
        inputs.append(Input("m", mask, "bool", dtypes.bool) if is_bool else Input("m", mask))
    if visible == "causal":
        arguments = ", is_causal=True"
    return Form(
        f"q.{NAME}(k, v{arguments})",
        tuple(inputs),
        partial(attention, visible=visible),
        is_wide=True,
        torch=f"F.{NAME}(q, k, v{arguments})",
    )


def _draw_form(generator: np.random.Generator) -> Form:
    lead = tuple(int(size) for size in generator.integers(1, 4, int(generator.integers(1, 3))))
    queries, keys, depth, width = (int(size) for size in generator.integers(1, 6, 4))
    visible = str(generator.choice(["", "mask", "causal", "sum"]))
    mask = (queries, keys) if visible in ("mask", "sum") else None
    return _form(
        (*lead, queries, depth),
        (*lead, keys, depth),
        (*lead, keys, width),
        mask,
        "" if visible == "sum" else visible,
    )


FUNCTIONS: tuple[Function, ...] = (
    Function(
        NAME,
        "softmax(q k' / sqrt(d)) v, with masks of bools or numbers, or causal.",
        (
            _form((2, 4, 3), (2, 5, 3), (2, 5, 4)),
            _form((2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3), visible="causal"),
            _form((2, 4, 3), (2, 5, 3), (2, 5, 2), (4, 5), "mask"),
            _form((2, 4, 3), (2, 5, 3), (2, 5, 2), (2, 4, 5)),
            _form((2, 3, 4, 3), (2, 1, 5, 3), (2, 1, 5, 2)),
            _form((1, 3, 2), (1, 6, 2), (1, 6, 2), visible="causal"),
            _grouped_form((2, 4, 3, 2), (2, 2, 5, 2), (2, 2, 5, 3)),
            _grouped_form((6, 2, 3), (3, 4, 3), (2, 4, 1)),
        ),
        generate=_draw_form,
    ),
)
