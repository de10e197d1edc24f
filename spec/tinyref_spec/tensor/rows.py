"""All rows of the level `tensor`."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tinyref.dtype import DType, dtypes
from tinyref_spec.bounded import SLACK
from tinyref_spec.case import Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.error_rules import Ulp
from tinyref_spec.tensor import functions, literals
from tinyref_spec.tensor.convolution import CONVOLUTION
from tinyref_spec.tensor.forms import Form, Function
from tinyref_spec.tensor.run import run_backward, run_forward

FUNCTIONS: tuple[Function, ...] = (
    *functions.ARITHMETIC,
    *functions.UNARY,
    *functions.CHOICE,
    *functions.MOVEMENT,
    *functions.REDUCTION,
    *functions.COMPOSITE,
    CONVOLUTION,
)
# In the quick profile gradients run on this type alone, and other types with one form.
MAIN = dtypes.float32


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
    ]


def _backward(function: Function, dtype: DType) -> list[Check]:
    forms = [form for form in function.forms if form.backward is not None]
    return [
        Check(
            f":{number + len(forms) * seed}",
            functools.partial(run_backward, form, dtype, seed),
            full_only=seed > 0 or not (_is_main(function, dtype) or number == 0),
        )
        for seed in range(4)
        for number, form in enumerate(forms)
    ]


DERIVED = (
    "Within the bound derived from the parts: every part's own bound, passed on through the "
    f"others, times {SLACK:g} for another order of the same parts."
)


def _forward_rule(function: Function) -> str:
    is_exact = all(form.exact is not None for form in function.forms)
    return Ulp(0).sentence if is_exact else DERIVED


def _needed(form: Form, dtype: DType) -> set[DType]:
    found = {dtype, form.output(dtype), form.compute_dtype(dtype), dtypes.bool}
    return found | {item.dtype for item in form.inputs if item.dtype is not None}


def _function_rows(function: Function) -> Iterator[Row]:
    for dtype in function.dtypes:
        needed: set[DType] = set().union(*(_needed(form, dtype) for form in function.forms))
        needs = kernel_needs(*needed)
        yield make_row(
            f"tensor.{function.name}.{dtype.name}.forward",
            f"{function.name} on {dtype.name}: {function.sentence}",
            (f"tensor.{function.name}", "tensor.derived"),
            Rung.TENSOR,
            function.name,
            dtype.name,
            _forward_rule(function),
            needs,
            functools.partial(_forward, function, dtype),
        )
        if function.has_gradient and dtype.is_float:
            yield make_row(
                f"tensor.{function.name}.{dtype.name}.backward",
                f"The gradient of {function.name} on {dtype.name}.",
                (f"tensor.{function.name}", "tensor.gradient", "tensor.derived"),
                Rung.AUTOGRAD,
                function.name,
                dtype.name,
                # Also where the function itself only moves elements: its gradient may add them up.
                DERIVED,
                needs,
                functools.partial(_backward, function, dtype),
            )


def rows() -> Iterator[Row]:
    """Tensor functions, forward and backward; literals, refusals, long schedules."""
    for function in FUNCTIONS:
        yield from _function_rows(function)
    yield from literals.rows()
