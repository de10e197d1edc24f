"""All rows of the level `tensor`."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec.bounded import SLACK
from tinyref_spec.case import Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.error_rules import Ulp
from tinyref_spec.tensor import (
    attention,
    contraction,
    creation,
    functions,
    indexing,
    literals,
    losses,
    mathematics,
    movement,
    placement,
    random,
    scans,
    selection,
    shaping,
    sorting,
    windows,
)
from tinyref_spec.tensor.dense import DENSE, PRECISE
from tinyref_spec.tensor.forms import Form, Function
from tinyref_spec.tensor.needs import dtypes_needed
from tinyref_spec.tensor.run import run_backward, run_dense, run_forward


@dataclass(frozen=True)
class FunctionFamily:
    """The functions of one module of the tables."""

    name: str
    functions: tuple[Function, ...]


# One line for each module of the tables.
FAMILIES: tuple[FunctionFamily, ...] = (
    FunctionFamily("basic", functions.FUNCTIONS),
    FunctionFamily("indexing", indexing.FUNCTIONS),
    FunctionFamily("mathematics", mathematics.FUNCTIONS),
    FunctionFamily("creation", creation.FUNCTIONS),
    FunctionFamily("random", random.FUNCTIONS),
    FunctionFamily("scans", scans.FUNCTIONS),
    FunctionFamily("selection", selection.FUNCTIONS),
    FunctionFamily("sorting", sorting.FUNCTIONS),
    FunctionFamily("windows", windows.FUNCTIONS),
    FunctionFamily("attention", attention.FUNCTIONS),
    FunctionFamily("losses", losses.FUNCTIONS),
    FunctionFamily("shaping", shaping.FUNCTIONS),
    FunctionFamily("movement", movement.FUNCTIONS),
    FunctionFamily("contraction", contraction.FUNCTIONS),
    FunctionFamily("placement", placement.FUNCTIONS),
)
FUNCTIONS: tuple[Function, ...] = tuple(
    function for family in FAMILIES for function in family.functions
)
# In the quick profile every form runs on this type. Other types run one form, and only one of
# them its gradient: gradients consist of operations that have rows of their own.
MAIN = dtypes.float32
SECOND = dtypes.float16


def _is_main(function: Function, dtype: DType) -> bool:
    return dtype is (MAIN if MAIN in function.dtypes else function.dtypes[0])


def _forward(function: Function, dtype: DType) -> list[Check]:
    return [
        Check(
            f":{number + len(function.forms) * seed}",
            functools.partial(run_forward, form, dtype, seed),
            full_only=seed > 0 or (number > 0 and not _is_main(function, dtype)),
        )
        for seed in range(8)
        for number, form in enumerate(function.forms)
    ] + [
        Check(f"generated:{seed}", functools.partial(run_forward, form, dtype, seed), True)
        for seed, form in _drawn_for(function, dtype)
    ]


# Number of random forms of a function in the full profile, and the share of them for each dtype.
# Each form is compiled for each dtype, which takes most of the time of a run.
GENERATED = 8
EVERY_FORM = 4


def _drawn_for(function: Function, dtype: DType) -> list[tuple[int, Form]]:
    """Return the generated forms for `dtype`; all dtypes together have all of them."""
    first = function.dtypes.index(dtype) % EVERY_FORM
    return list(enumerate(generated_forms(function)))[first::EVERY_FORM]


@functools.cache
def generated_forms(function: Function, count: int = GENERATED) -> tuple[Form, ...]:
    """Return the first forms that the function's generator draws, the same every time."""
    if function.generate is None:
        return ()
    return tuple(function.generate(np.random.default_rng([25, seed])) for seed in range(count))


def _in_quick_gradients(function: Function, dtype: DType, number: int) -> bool:
    return _is_main(function, dtype) or (number == 0 and dtype is SECOND)


def _backward(function: Function, dtype: DType) -> list[Check]:
    forms = [form for form in function.forms if form.has_gradient]
    return [
        Check(
            f":{number + len(forms) * seed}",
            functools.partial(run_backward, form, dtype, seed),
            full_only=seed > 0 or not _in_quick_gradients(function, dtype, number),
        )
        for seed in range(4)
        for number, form in enumerate(forms)
    ] + [
        Check(f"generated:{seed}", functools.partial(run_backward, form, dtype, seed), True)
        for seed, form in _drawn_for(function, dtype)
        if form.has_gradient
    ]


def _dense(function: Function, dtype: DType) -> list[Check]:
    """Return the one case of a function that is asked thousands of inputs; none of others."""
    form = function.forms[0]
    if form.expression not in PRECISE:
        return []
    return [Check(":0", functools.partial(run_dense, form, dtype), full_only=True)]


DERIVED = (
    "Within the bound derived from the parts: every part's own bound, passed on through the "
    f"others, times {SLACK:g} for another order of the same parts."
)


def _forward_rule(function: Function) -> str:
    is_exact = all(form.exact is not None for form in function.forms)
    return Ulp(0).sentence if is_exact else DERIVED


def _function_rows(function: Function) -> Iterator[Row]:
    for dtype in function.dtypes:
        name = f"tensor.{function.name}.{dtype.name}"
        row_of = functools.partial(
            make_row,
            op=function.name,
            dtype=dtype.name,
            needs=kernel_needs(*dtypes_needed(function, dtype)),
        )
        yield row_of(
            f"{name}.forward",
            f"{function.name} on {dtype.name}: {function.sentence}",
            clauses=(f"tensor.{function.name}", "tensor.derived"),
            rung=Rung.TENSOR,
            error_rule=_forward_rule(function),
            checks=functools.partial(_forward, function, dtype),
        )
        if _dense(function, dtype):
            yield row_of(
                f"{name}{DENSE}",
                f"{function.name} on {dtype.name}, for thousands of inputs.",
                clauses=(f"tensor.{function.name}", "tensor.derived"),
                rung=Rung.TENSOR,
                error_rule=DERIVED,
                checks=functools.partial(_dense, function, dtype),
            )
        if function.has_gradient and dtype.is_float:
            yield row_of(
                f"{name}.backward",
                f"The gradient of {function.name} on {dtype.name}.",
                clauses=(f"tensor.{function.name}", "tensor.gradient", "tensor.derived"),
                rung=Rung.AUTOGRAD,
                error_rule=DERIVED,
                checks=functools.partial(_backward, function, dtype),
            )


def rows() -> Iterator[Row]:
    """Yield the rows of Tensor functions, forward and backward; of literals and refusals."""
    for function in FUNCTIONS:
        yield from _function_rows(function)
    yield from literals.rows()
