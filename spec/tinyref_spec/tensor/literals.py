"""Tensor behaviour as literals: creation, casts, special gradients, refusals, system."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from tinyref.dtype import DType, dtypes
from tinyref_spec.bits import Array
from tinyref_spec.case import Measurement, Needs, Row, Rung
from tinyref_spec.checks import Check, kernel_needs, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.tensor.forms import Refused
from tinyref_spec.tensor.run import evaluate, run_literal, run_refused, tensors

Literals = dict[str, tuple[str, object]]
NAN = float("nan")
INF = float("inf")

# What an expression gives as Python values; `device` is the name of the device.
CREATION: Literals = {
    "list": ("Tensor([1, 2, 3], device=device).tolist()", [1, 2, 3]),
    "nested": ("Tensor([[1.5, 2], [3, 4]], device=device).tolist()", [[1.5, 2.0], [3.0, 4.0]]),
    "scalar": ("Tensor(4, device=device).item()", 4),
    "float_scalar": ("Tensor(2.5, device=device).item()", 2.5),
    "bool": ("Tensor([True, False], device=device).tolist()", [True, False]),
    "empty": ("Tensor([], device=device).tolist()", []),
    "empty_rows": ("Tensor.zeros(2, 0, device=device).tolist()", [[], []]),
    "numpy": ("Tensor(np.arange(3, dtype=np.int16), device=device).tolist()", [0, 1, 2]),
    "bytes": ("Tensor(b'\\x01\\xff', device=device, dtype=dtypes.uint8).tolist()", [1, 255]),
    "default_float": ("Tensor([1.0], device=device).dtype.name", "float32"),
    "default_int": ("Tensor([1], device=device).dtype.name", "int32"),
    "linspace_integers": (
        "Tensor.linspace(16777217, -16777217, 4, dtype='int32', device=device).tolist()",
        [16777217, 5592405, -5592405, -16777217],
    ),
    "shape": ("tuple(Tensor.zeros(2, 3, 4, device=device).shape)", (2, 3, 4)),
    "data": ("bytes(Tensor([1, 2], dtype='uint8', device=device).data())", b"\x01\x02"),
    "copy": ("Tensor([1, 2], device='PYTHON').to(device).tolist()", [1, 2]),
}
CONVERSION: Literals = {
    "truncates": ("Tensor([1.7, -1.7], device=device).cast('int32').tolist()", [1, -1]),
    "wraps": ("Tensor([300, -1], device=device).cast('uint8').tolist()", [44, 255]),
    "to_bool": (
        "Tensor([0.0, 0.5, -2.0], device=device).cast('bool').tolist()",
        [False, True, True],
    ),
    "from_bool": ("Tensor([True, False], device=device).cast('float32').tolist()", [1.0, 0.0]),
    "bitcast": ("Tensor([1.0], device=device).bitcast('int32').tolist()", [1065353216]),
    "bitcast_back": ("Tensor([1065353216], device=device).bitcast('float32').item()", 1.0),
    "promotes": (
        "(Tensor([1], device=device) + Tensor([0.5], device=device)).dtype.name",
        "float32",
    ),
    "weak_float": ("(Tensor([1], device=device) + 0.5).tolist()", [1.5]),
    "weak_int": ("(Tensor([1.5], device=device) + 1).dtype.name", "float32"),
    # A number that the type of the integers does not hold.
    "wide_divisor": (
        "(Tensor([64, 192], dtype='uint8', device=device) / 256).tolist()",
        [0.25, 0.75],
    ),
    "wide_dividend": (
        "(512 / Tensor([64, 128], dtype='uint8', device=device)).tolist()",
        [8.0, 4.0],
    ),
    "wide_comparison": (
        "(Tensor([True, False], device=device) == 2**40).tolist()",
        [False, False],
    ),
    "wide_bound": (
        "Tensor([-5, 100], dtype='int8', device=device).minimum(200).tolist()",
        [-5, 100],
    ),
}
# The gradient of an expression of x, as literals, where a rule must choose.
GRADIENTS: dict[str, tuple[str, list[float], list[float]]] = {
    "max_tie": ("x.max()", [1.0, 3.0, 3.0], [0.0, 0.5, 0.5]),
    "maximum_tie": ("x.maximum(2).sum()", [1.0, 2.0, 3.0], [0.0, 0.5, 1.0]),
    "prod_zero": ("x.prod()", [2.0, 0.0, 3.0], [0.0, 6.0, 0.0]),
    "prod_two_zeros": ("x.prod()", [0.0, 5.0, 0.0], [0.0, 0.0, 0.0]),
    "used_twice": ("(x * x + x).sum()", [1.0, -2.0, 0.5], [3.0, -3.0, 2.0]),
    "detached": ("(x * x.detach()).sum()", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
    "where_hides": ("(x > 0).where(x, 0).sum()", [-1.0, 2.0, 0.0], [0.0, 1.0, 0.0]),
}
SPECIAL_VALUES: Literals = {
    "log_zero": ("Tensor([0.0], device=device).log().item()", -INF),
    "log_negative": ("Tensor([-1.0], device=device).log().item()", NAN),
    "exp_overflow": ("Tensor([1000.0], device=device).exp().item()", INF),
    "exp_underflow": ("Tensor([-1000.0], device=device).exp().item()", 0.0),
    "sigmoid_ends": ("Tensor([-INF, INF], device=device).sigmoid().tolist()", [0.0, 1.0]),
    "tanh_ends": ("Tensor([-INF, INF], device=device).tanh().tolist()", [-1.0, 1.0]),
    "softmax_large": ("Tensor([1000.0, 1000.0], device=device).softmax(-1).tolist()", [0.5, 0.5]),
    "softmax_one": ("Tensor([7.0], device=device).softmax(-1).tolist()", [1.0]),
    "divide_by_zero": ("(Tensor([1.0, -1.0], device=device) / 0).tolist()", [INF, -INF]),
    "empty_sum": ("Tensor.zeros(0, device=device).sum().item()", 0.0),
    "empty_prod": ("Tensor.zeros(0, device=device).prod().item()", 1.0),
    "empty_max": ("Tensor.zeros(0, 3, device=device).max(0).tolist()", [-INF, -INF, -INF]),
    "empty_product": (
        "(Tensor.zeros(2, 0, device=device) @ Tensor.zeros(0, 2, device=device)).tolist()",
        [[0.0, 0.0], [0.0, 0.0]],
    ),
    "max_nan": ("Tensor([1.0, NAN, 2.0], device=device).max().item()", NAN),
    "min_nan": ("Tensor([1.0, NAN, 2.0], device=device).min().item()", NAN),
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
    "sum_nan": ("Tensor([1.0, NAN, 2.0], device=device).sum().item()", NAN),
    # What is chosen keeps all of its bits.
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
    "zero_of_largest": ("Tensor([-1.0, -0.0], device=device).topk(1)[0].tolist()", [-0.0]),
    "argmax_ties": ("Tensor([1.0, 3.0, 3.0], device=device).argmax().item()", 1),
    "argmin_ties": ("Tensor([4.0, 2.0, 2.0], device=device).argmin().item()", 1),
    "round_ties": (
        "Tensor([0.5, 1.5, 2.5, -0.5, -2.5], device=device).round().tolist()",
        [0.0, 2.0, 2.0, -0.0, -2.0],
    ),
    # Constants that are reduced, with no buffer that a kernel could read.
    "constants_sum": ("Tensor.full((2, 5), 7, device=device).sum(1).tolist()", [35, 35]),
    "constants_sum_rounded": ("Tensor.full((10,), 0.1, device=device).sum().item()", 1.0),
    # A sum begins with +0, of constants as of loads.
    "constants_sum_of_zeros": ("Tensor.full((4,), -0.0, device=device).sum().item()", 0.0),
    "sum_of_zeros": ("Tensor([-0.0] * 4, device=device).sum().item()", 0.0),
    "constants_product": ("Tensor.full((3,), -1.5, device=device).prod().item()", -3.375),
    "constants_product_overflow": ("Tensor.full((400,), 10.0, device=device).prod().item()", INF),
    "constants_product_even": ("Tensor.full((400,), -10.0, device=device).prod().item()", INF),
    "constants_product_odd": ("Tensor.full((401,), -10.0, device=device).prod().item()", -INF),
    "constants_maximum": ("Tensor.full((3, 2), -1.5, device=device).max().item()", -1.5),
    "sqrt_negative": ("Tensor([-1.0], device=device).sqrt().item()", NAN),
    "sum_narrow": (
        "Tensor([100, 100, 100], dtype='int8', device=device).sum().item()",
        300,
    ),
}
# Types of the kernels of single literals, beyond those of their row.
ALSO_COMPUTED_IN: dict[str, tuple[DType, ...]] = {
    "wide_bound": (dtypes.int8,),
    "multinomial_of_nothing": (dtypes.uint32, dtypes.uint64),
}
# Expressions over x of shape (4, 6) that must be refused.
REFUSED: dict[str, str] = {
    "add_shapes": "x + Tensor([1.0, 2.0, 3.0, 4.0])",
    "reshape_size": "x.reshape(5, 5)",
    "reshape_two_unknown": "x.reshape(-1, -1)",
    "reshape_negative": "x.reshape(-2, 12)",
    "permute_axes": "x.permute(0, 0)",
    "permute_count": "x.permute(0)",
    "expand_shape": "x.expand(4, 7)",
    "shrink_bounds": "x.shrink(((0, 5), (0, 6)))",
    "pad_count": "x.pad(((1, 1), (1, 1), (1, 1)))",
    "pad_value": "x.pad((1, 1), value=Tensor(2.0))",
    "flip_axis": "x.flip(2)",
    "sum_axis": "x.sum(2)",
    "max_axis": "x.max(-3)",
    "softmax_axis": "x.softmax(5)",
    "matmul_shapes": "x @ x",
    "index_range": "x[4]",
    "index_count": "x[0, 0, 0]",
    "index_float": "x[1.5]",
    "cast_name": "x.cast('float33')",
    "bitcast_size": "x[:, :5].bitcast('float64')",
    "ragged_list": "Tensor([[1, 2], [3]])",
    "negative_size": "Tensor.zeros(-1)",
    "unknown_device": "Tensor([1], device='NOSUCH')",
    "unknown_dtype": "Tensor([1], dtype='int3')",
    "item_of_many": "x.item()",
    "backward_of_many": "x.requires_grad_().sum(1).backward()",
    "conv_shapes": "x.reshape(1, 1, 4, 6).conv2d(Tensor.zeros(1, 2, 3, 3))",
    "conv_kernel": "x.reshape(1, 1, 4, 6).conv2d(Tensor.zeros(1, 1, 9, 9))",
    "transpose_axis": "x.transpose(0, 3)",
    "and_of_floats": "x & x",
}


def _with_numbers(expression: str) -> str:
    """The expression with what Python has no literal for spelled out."""
    return expression.replace("INF", "float('inf')").replace("NAN", "float('nan')")


def _literal_checks(table: Literals) -> list[Check]:
    return [
        Check(
            name,
            functools.partial(run_literal, _with_numbers(expression), {}, result),
            needs=kernel_needs(*ALSO_COMPUTED_IN.get(name, ())),
        )
        for name, (expression, result) in table.items()
    ]


def _matrix() -> dict[str, Array]:
    return {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}


def _refusal_checks() -> list[Check]:
    return [
        Check(name, functools.partial(run_refused, Refused(expression), _matrix()))
        for name, expression in REFUSED.items()
    ]


def _literal_gradient(
    expression: str,
    given: list[float],
    wanted: list[float],
    case_id: str,
    device: DeviceUnderTest,
) -> Measurement:
    named = tensors({"x": np.array(given, dtype=np.float32)}, device.name)
    named["x"].requires_grad_()
    evaluate(expression, named).backward()
    gradient = named["x"].grad
    got = None if gradient is None else gradient.tolist()
    message = "" if got == wanted else f"{expression}: expected {wanted}, got {got}"
    return Measurement(got == wanted, message, compared=len(wanted))


def _gradient_checks() -> list[Check]:
    return [
        Check(name, functools.partial(_literal_gradient, expression, given, wanted))
        for name, (expression, given, wanted) in GRADIENTS.items()
    ]


def _integers(values: object, wanted: Array, what: str) -> Measurement:
    found, compared = np.asarray(values), int(wanted.size)
    if found.shape != wanted.shape:
        message = f"{what}: got the shape {found.shape}, expected {wanted.shape}"
        return Measurement(False, message, compared=compared)
    wrong = np.flatnonzero(found.reshape(-1) != wanted.reshape(-1))
    if not wrong.size:
        return Measurement(True, compared=compared)
    first = int(wrong[0])
    got, owed = found.reshape(-1)[first], wanted.reshape(-1)[first]
    message = (
        f"{what}: element {first}: expected {owed}, got {got}; {wrong.size} of {compared} wrong"
    )
    return Measurement(False, message, compared=compared)


def _many_kernels(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A long chain, each step made real: every kernel sees what the one before it wrote."""
    values = np.arange(64, dtype=np.int32)
    x = tensors({"x": values}, device.name)["x"]
    for number in range(count):
        x = (x * 3 + number).realize()
        values = values * np.int32(3) + np.int32(number)
    return _integers(x.numpy(), values, f"{count} kernels")


def _deep_graph(depth: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A lazy graph that alternates sums and broadcasts, realised at once."""
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = tensors({"x": values}, device.name)["x"]
    for number in range(depth):
        x = x + x.sum(1, keepdim=True) - number
        values = values + values.sum(1, keepdims=True, dtype=np.int32) - np.int32(number)
    return _integers(x.numpy(), values, f"{depth} sums")


def _large(count: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """A buffer of some megabytes through elementwise work and a sum."""
    values = np.arange(count, dtype=np.int32) % 97
    x = tensors({"x": values}, device.name)["x"]
    y = x * 2 + 1
    doubled = _integers(y.numpy(), values * 2 + 1, "elementwise")
    if not doubled.passed:
        return doubled
    return _integers(y.sum().item(), np.array((values * 2 + 1).sum()), "sum")


def _assign(case_id: str, device: DeviceUnderTest) -> Measurement:
    """Ten in-place updates."""
    x = tensors({"x": np.zeros(5, dtype=np.int32)}, device.name)["x"].realize()
    for _ in range(10):
        x.assign(x + 1)
        x.realize()
    return _integers(x.numpy(), np.full(5, 10, dtype=np.int32), "assign")


def _bound_variable(value: int, case_id: str, device: DeviceUnderTest) -> Measurement:
    """The sum of the first n elements, with n bound when the graph is built."""
    from tinyref import Variable

    values = np.arange(1, 11, dtype=np.int32)
    x = tensors({"x": values}, device.name)["x"].realize()
    total = x.shrink(((0, Variable("n", 1, 10).bind(value)),)).sum()
    return _integers(total.item(), np.array(values[:value].sum()), f"n = {value}")


def _system_checks() -> list[Check]:
    return [
        Check("kernels:50", functools.partial(_many_kernels, 50)),
        Check("kernels:1000", functools.partial(_many_kernels, 1000), full_only=True),
        Check("deep:12", functools.partial(_deep_graph, 12)),
        Check("large:1000000", functools.partial(_large, 1_000_000)),
        Check("large:16000000", functools.partial(_large, 16_000_000), full_only=True),
        Check("assign", _assign),
        Check("variable:3", functools.partial(_bound_variable, 3)),
        Check("variable:10", functools.partial(_bound_variable, 10)),
    ]


def rows() -> Iterator[Row]:
    """Rows of literals."""
    floats = kernel_needs(dtypes.float32, dtypes.int32, dtypes.bool, dtypes.uint8)
    tables: tuple[tuple[str, str, tuple[str, ...], Literals, Needs], ...] = (
        (
            "creation",
            "Tensors from Python values, numpy arrays, bytes and other devices, and back.",
            ("tensor.creation", "tensor.copy", "tensor.contiguous", "tensor.buffer"),
            CREATION,
            kernel_needs(*dtypes.all),
        ),
        (
            "conversion",
            "Casts, bitcasts and the promotion of mixed operands.",
            ("tensor.conversion",),
            CONVERSION,
            floats,
        ),
        (
            "special",
            "Special values and empty tensors through composite functions.",
            ("tensor.special",),
            SPECIAL_VALUES,
            kernel_needs(dtypes.float32, dtypes.int32, dtypes.int8, dtypes.bool, dtypes.uint8),
        ),
    )
    for name, sentence, cited, table, needs in tables:
        yield make_row(
            f"tensor.{name}.literal",
            sentence,
            clauses=cited,
            rung=Rung.TENSOR,
            op=name,
            needs=needs,
            checks=functools.partial(_literal_checks, table),
        )
    yield make_row(
        "tensor.gradient.literal",
        "Gradients where a rule must choose: ties share evenly, a zero factor hides nothing.",
        clauses=("tensor.gradient", "tensor.detach"),
        rung=Rung.AUTOGRAD,
        op="gradient",
        dtype=dtypes.float32,
        uses=(dtypes.float32, dtypes.bool),
        checks=_gradient_checks,
    )
    yield make_row(
        "tensor.refuse.literal",
        "Bad shapes, axes, dtypes, devices and lists are refused with one clear line.",
        clauses=("tensor.refuse",),
        rung=Rung.TENSOR,
        op="refuse",
        uses=(dtypes.float32, dtypes.int32),
        error_rule="Refused with one clear line.",
        checks=_refusal_checks,
    )
    yield make_row(
        "tensor.system.literal",
        "Long schedules, deep graphs, large buffers and in-place updates.",
        clauses=("tensor.system", "tensor.buffer", "tensor.assign", "tensor.bind"),
        rung=Rung.JIT,
        op="system",
        dtype=dtypes.int32,
        checks=_system_checks,
    )
