"""Sums of products by a formula, and matrix products of every rank."""

from __future__ import annotations

import math
import operator
from functools import partial

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, Shape

NAMES = "xyzw"


def contraction(*operands: Value, terms: tuple[str, ...], output: str) -> Value:
    """Return products of elements with equal letters, summed over letters not in `output`."""
    summed_over = sorted(set("".join(terms)) - set(output))
    letters = output + "".join(summed_over)
    result: Value | None = None
    for operand, term in zip(operands, terms, strict=True):
        numbers = np.arange(1, math.prod(operand.shape) + 1).reshape(operand.shape)
        own = [letter for letter in letters if letter in term]
        # For one operand, numpy's einsum only moves elements: diagonals and transposes.
        placed = np.einsum(f"{term}->{''.join(own)}", numbers)
        sizes = iter(placed.shape)
        spread = [next(sizes) if letter in own else 1 for letter in letters]
        factor = bounded.gather(operand, placed.reshape(spread))
        result = factor if result is None else result * factor
    assert result is not None
    return result.sum(tuple(range(len(output), len(letters))))


def _einsum(formula: str, *shapes: Shape, spelled: str = "") -> Form:
    """Return a form; `spelled` is the formula with every axis as a letter, if it differs."""
    left, _, output = (spelled or formula).replace(" ", "").partition("->")
    names = NAMES[: len(shapes)]
    arguments = f'"{formula}", {", ".join(names)}'
    return Form(
        f"Tensor.einsum({arguments})",
        tuple(Input(name, shape) for name, shape in zip(names, shapes, strict=True)),
        partial(contraction, terms=tuple(left.split(",")), output=output),
        is_wide=True,
        torch=f"torch.einsum({arguments})",
    )


def _drawn_einsum(generator: np.random.Generator) -> Form:
    """Return up to three operands of up to three axes; any axis may be summed or repeated."""
    sizes = dict(zip("abcd", generator.integers(1, 4, 4), strict=True))
    count = int(generator.integers(1, 4))
    terms = [
        "".join(generator.choice(list(sizes), int(generator.integers(1, 4)))) for _ in range(count)
    ]
    letters = sorted(set("".join(terms)))
    result_letters = [letter for letter in letters if generator.integers(2)]
    generator.shuffle(result_letters)
    shapes = [tuple(int(sizes[letter]) for letter in term) for term in terms]
    return _einsum(f"{','.join(terms)}->{''.join(result_letters)}", *shapes)


def _ranked_product(expression: str, first: Shape, second: Shape, spelled: str) -> Form:
    """Return a matrix product of any ranks, with each operand's axes spelled as letters."""
    left, _, output = spelled.partition("->")
    return Form(
        expression,
        (Input("x", first), Input("y", second)),
        partial(contraction, terms=tuple(left.split(",")), output=output),
        is_wide=True,
        torch="torch.matmul(x, y)",
    )


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "einsum",
        "Sums of products by a formula: diagonals, transposes, several operands, ellipses.",
        (
            _einsum("ij,jk->ik", (3, 4), (4, 2)),
            _einsum("ij,jk", (3, 4), (4, 2), spelled="ij,jk->ik"),
            _einsum("ba", (2, 3), spelled="ba->ab"),
            _einsum("ii", (4, 4), spelled="ii->"),
            _einsum("iji->ji", (3, 2, 3)),
            _einsum("i,j,k->kji", (2,), (3,), (4,)),
            _einsum("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
            _einsum("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
            _einsum("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4), spelled="zij,zjk->zik"),
            _einsum("i...,i...->...", (3, 2, 2), (3, 2, 2), spelled="iyz,iyz->yz"),
            _einsum("ij, ij, ij -> i", (2, 5), (2, 5), (2, 5), spelled="ij,ij,ij->i"),
            _einsum("ij->", (3, 4)),
        ),
        dtypes.floats,
        _drawn_einsum,
    ),
    Function(
        "linear",
        "x @ weight + bias; a weight of one axis scales.",
        (
            Form(
                "x.linear(y, b)",
                (Input("x", (3, 5)), Input("y", (5, 4)), Input("b", (4,))),
                lambda x, y, b: bounded.matmul(x, y) + b,
                is_wide=True,
                torch="F.linear(x, y.T, b)",
            ),
            Form(
                "x.linear(y)",
                (Input("x", (2, 3, 5)), Input("y", (5, 4))),
                bounded.matmul,
                is_wide=True,
                torch="F.linear(x, y.T)",
            ),
            Form(
                "x.linear(y)",
                (Input("x", (3, 5)), Input("y", (5,))),
                operator.mul,
                torch="x * y",
            ),
        ),
    ),
    Function(
        "matmul_ranks",
        "Matrix products of vectors, matrices and batches that broadcast.",
        (
            _ranked_product("x @ y", (5,), (5,), "k,k->"),
            _ranked_product("x @ y", (3, 5), (5,), "ik,k->i"),
            _ranked_product("x @ y", (5,), (5, 3), "k,kj->j"),
            _ranked_product("x @ y", (2, 3, 4), (4, 5), "bik,kj->bij"),
            _ranked_product("x @ y", (3, 4), (2, 4, 5), "ik,bkj->bij"),
            _ranked_product("x.matmul(y)", (2, 3, 4), (4,), "bik,k->bi"),
            _ranked_product("y.matmul(x, reverse=True)", (4,), (2, 4, 3), "k,bkj->bj"),
            Form(
                "x @ y",
                (Input("x", (2, 1, 3, 4)), Input("y", (5, 4, 2))),
                bounded.matmul,
                is_wide=True,
                torch="x @ y",
            ),
        ),
        (*dtypes.floats, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64),
        covers=("matmul",),
    ),
    Function(
        "dot_ranks",
        "Matrix products by the name dot.",
        (
            _ranked_product("x.dot(y)", (2, 3), (3,), "ik,k->i"),
            _ranked_product("x.dot(y)", (2, 2, 3), (3, 4), "bik,kj->bij"),
        ),
        covers=("dot",),
    ),
)
