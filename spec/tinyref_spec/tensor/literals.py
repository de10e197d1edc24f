"""Special values and empty tensors as literals, and the calls that are refused."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tinyref.dtype import dtypes
from tinyref_spec.case import Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.tensor.run import run_literal, run_refused
from tinyref_spec.tensor.surface import refused_calls

NAN = float("nan")
INF = float("inf")
# The Python value of an expression; `device` is the name of the device.
SPECIAL_VALUES: dict[str, tuple[str, object]] = {
    "log_zero": ("Tensor([0.0], device=device).log().item()", -INF),
    "exp_overflow": ("Tensor([1000.0], device=device).exp().item()", INF),
    "sigmoid_ends": ("Tensor([-INF, INF], device=device).sigmoid().tolist()", [0.0, 1.0]),
    "tanh_ends": ("Tensor([-INF, INF], device=device).tanh().tolist()", [-1.0, 1.0]),
    "softmax_large": ("Tensor([1000.0, 1000.0], device=device).softmax(-1).tolist()", [0.5, 0.5]),
    "empty_sum": ("Tensor.zeros(0, device=device).sum().item()", 0.0),
    "empty_prod": ("Tensor.zeros(0, device=device).prod().item()", 1.0),
    "empty_max": ("Tensor.zeros(0, 3, device=device).max(0).tolist()", [-INF, -INF, -INF]),
    "empty_product": (
        "(Tensor.zeros(2, 0, device=device) @ Tensor.zeros(0, 2, device=device)).tolist()",
        [[0.0, 0.0], [0.0, 0.0]],
    ),
    "max_nan": ("Tensor([1.0, NAN, 2.0], device=device).max().item()", NAN),
    "maximum_nan": (
        "Tensor([1.0, NAN], device=device).maximum(Tensor([NAN, 1.0], device=device)).tolist()",
        [NAN, NAN],
    ),
    "clamp_nan": ("Tensor([1.0, 2.0], device=device).clamp(NAN, 3).tolist()", [NAN, NAN]),
    "clamp_nan_elements": (
        "Tensor([1.0, 2.0], device=device).clamp("
        "Tensor([0.0, 0.5], device=device), Tensor([NAN, 1.5], device=device)).tolist()",
        [NAN, 1.5],
    ),
    "multinomial_of_nothing": (
        "Tensor([[NAN, 1.0], [0.0, 0.0], [0.0, 2.0]], device=device).multinomial(2).tolist()",
        [[-1, -1], [-1, -1], [1, -1]],
    ),
    # Rows without a finite sum of powers, and rows whose powers overflow unless the maximum is
    # taken.
    "softmax_rows": (
        "Tensor([[-INF, 0.0, 0.0], [NAN, 1.0, 2.0], [-INF, -INF, -INF], [5000.0, 5000.0, -INF], "
        "[1e30, -1e30, 0.0]], device=device).softmax(-1).tolist()",
        [[0.0, 0.5, 0.5], [NAN] * 3, [NAN] * 3, [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]],
    ),
    "log_softmax_rows": (
        "Tensor([[0.0, -INF, -5000.0], [NAN, 1.0, 2.0], [-INF, -INF, -INF]], device=device)"
        ".log_softmax(-1).tolist()",
        [[0.0, -INF, -5000.0], [NAN] * 3, [NAN] * 3],
    ),
    "logsumexp_rows": (
        "Tensor([[-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, 2.0], [2.0**100, 0.0, -2.0**100]],"
        " device=device).logsumexp(1).tolist()",
        [-INF, INF, NAN, 2.0**100],
    ),
    "var_rows": (
        "Tensor([[5000.0, 5000.0], [2.0**100, -2.0**100], [NAN, 1.0], [INF, 1.0], [1e30, 1e30]], "
        "device=device).var(1).tolist()",
        [0.0, INF, NAN, NAN, 0.0],
    ),
    "sum_nan": ("Tensor([1.0, NAN, 2.0], device=device).sum().item()", NAN),
    # A chosen element keeps all of its bits.
    "zero_gathered": (
        "Tensor([-0.0, 1.0], device=device).gather(0, Tensor([1, 0, 0], device=device)).tolist()",
        [1.0, -0.0, -0.0],
    ),
    "zero_at_places": (
        "Tensor([0.0, -0.0], device=device)[Tensor([1, 0], device=device)].tolist()",
        [-0.0, 0.0],
    ),
    "zero_sorted": (
        "Tensor([1.0, -0.0, -1.0], device=device).sort()[0].tolist()",
        [-1.0, -0.0, 1.0],
    ),
    "argmax_ties": ("Tensor([1.0, 3.0, 3.0], device=device).argmax().item()", 1),
    "argmin_ties": ("Tensor([4.0, 2.0, 2.0], device=device).argmin().item()", 1),
    "round_ties": (
        "Tensor([0.5, 1.5, 2.5, -0.5, -2.5], device=device).round().tolist()",
        [0.0, 2.0, 2.0, -0.0, -2.0],
    ),
    # Reduced constants, without a buffer for a kernel to read.
    "constants_sum": ("Tensor.full((2, 5), 7, device=device).sum(1).tolist()", [35, 35]),
    "constants_sum_rounded": ("Tensor.full((10,), 0.1, device=device).sum().item()", 1.0),
    # A sum begins with +0.
    "sum_of_zeros": ("Tensor([-0.0] * 4, device=device).sum().item()", 0.0),
    "constants_product": ("Tensor.full((3,), -1.5, device=device).prod().item()", -3.375),
    "constants_product_overflow": ("Tensor.full((400,), 10.0, device=device).prod().item()", INF),
}
# The kernels of this case compute in types that its row does not name.
_DRAWN = "multinomial_of_nothing"


def _with_numbers(expression: str) -> str:
    """Return the expression with the numbers that Python has no literals for."""
    return expression.replace("INF", "float('inf')").replace("NAN", "float('nan')")


def _special_checks() -> list[Check]:
    return [
        Check(
            name,
            functools.partial(run_literal, _with_numbers(expression), {}, result),
            needs=kernel_needs(*((dtypes.uint32, dtypes.uint64) if name == _DRAWN else ())),
        )
        for name, (expression, result) in SPECIAL_VALUES.items()
    ]


def _refusal_checks() -> list[Check]:
    return [
        Check(f"{label.removeprefix('Tensor.')}:{number}", functools.partial(run_refused, call))
        for label, calls in refused_calls().items()
        for number, call in enumerate(calls)
    ]


def rows() -> Iterator[Row]:
    """Yield rows of literals."""
    yield make_row(
        "tensor.special.literal",
        "Special values and empty tensors through composite functions.",
        clauses=("tensor.special",),
        rung=Rung.TENSOR,
        op="special",
        uses=(dtypes.float32, dtypes.int32, dtypes.bool, dtypes.uint8),
        checks=_special_checks,
    )
    yield make_row(
        "tensor.refuse.literal",
        "Calls with invalid arguments are refused with one clear line.",
        clauses=("tensor.refuse",),
        rung=Rung.TENSOR,
        op="refuse",
        uses=(dtypes.float32, dtypes.int32, dtypes.bool),
        error_rule="Refused with one clear line.",
        checks=_refusal_checks,
    )
