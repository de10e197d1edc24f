"""Making tensors, their types and memory, what Python reads from them, and gradients by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, always_bool, unary
from tinyref_spec.tensor.functions import sigmoid

MANY = (*dtypes.floats, dtypes.int32, dtypes.uint8, dtypes.int64)
KEYWORDS = "device=device, dtype=dtype"


def _is(dtype: DType) -> Callable[[DType], DType]:
    """Return a function for results of this type, whatever the type of the row."""
    return lambda _: dtype


def _made(name: str, arguments: str, values: Array) -> Form:
    """Return a form without inputs, in the type of the row."""
    return Form(
        f"Tensor.{name}({arguments}, {KEYWORDS})",
        (),
        exact=values.copy,
        torch=f"torch.{name}({arguments}, dtype=dtype)",
    )


_INT = _is(dtypes.int32)
MADE = (
    Function(
        "arange",
        "start, start + step, ... up to before stop.",
        (
            _made("arange", "7", np.arange(7)),
            _made("arange", "2, 9, 3", np.arange(2, 9, 3)),
            _made("arange", "5, 0, -2", np.array([5, 3, 1])),
        ),
        MANY,
    ),
    Function(
        "linspace",
        "Numbers at even distance, both ends among them.",
        (
            _made("linspace", "0, 8, 5", np.array([0, 2, 4, 6, 8])),
            _made("linspace", "3, 1, 1", np.array([3])),
        ),
        dtypes.floats,
    ),
    Function(
        "eye",
        "Ones on the diagonal.",
        (
            _made("eye", "3", np.eye(3)),
            _made("eye", "2, 4", np.eye(2, 4)),
            _made("eye", "3, 1", np.eye(3, 1)),
        ),
        MANY,
    ),
    Function(
        "full",
        "Every element is one number.",
        (_made("full", "(2, 3), 7", np.full((2, 3), 7)),),
        MANY,
    ),
    Function("zeros", "Zeros.", (_made("zeros", "2, 3", np.zeros((2, 3))),), MANY),
    Function(
        "ones",
        "Ones.",
        (_made("ones", "2, 3", np.ones((2, 3))),),
        MANY,
    ),
)

_X = (Input("x", (4, 9)),)


def _like(name: str, arguments: str, value: float) -> Function:
    return Function(
        f"{name}_like",
        "One number in the shape and type of another tensor.",
        (
            Form(
                f"x.{name}_like({arguments})",
                _X,
                exact=lambda x: np.full_like(x, value),
                torch=f"torch.{name}_like(x{', ' if arguments else ''}{arguments})",
            ),
        ),
        MANY,
    )


LIKE = (_like("zeros", "", 0), _like("ones", "", 1), _like("full", "3", 3))


def _same(expression: str, torch: str = "") -> Form:
    """Return a form that gives x itself, and its gradient."""
    return Form(expression, _X, lambda x: x, exact=lambda x: x.copy(), torch=torch)


def _transposed(expression: str, torch: str = "") -> Form:
    return Form(
        expression,
        _X,
        bounded.transposed,
        exact=lambda x: x.T.copy(),
        torch=torch,
    )


_NEW = f"Tensor.zeros(4, 9, {KEYWORDS})"
MEMORY = (
    Function(
        "contiguous",
        "The same elements, contiguous in new memory; a second method does so with the gradient.",
        (_transposed("x.T.contiguous()"), _transposed("x.T.contiguous_backward()", "x.T")),
        MANY,
        covers=("contiguous_backward",),
    ),
    Function("clone", "The same elements in a tensor of its own.", (_same("x.clone()"),), MANY),
    Function(
        "realize",
        "The same elements, computed at once.",
        (unary("(x * 2).realize()", lambda x: x * 2.0, torch="x * 2"),),
    ),
    Function(
        "detach",
        "The same elements, through which no gradient flows.",
        (Form("x.detach()", _X, exact=lambda x: x.copy()),),
        MANY,
    ),
    Function(
        "assign",
        "The elements of another tensor, in the memory of this one.",
        (
            Form(
                f"{_NEW}.contiguous().realize().assign(x)",
                _X,
                exact=lambda x: x.copy(),
                torch="torch.zeros_like(x).copy_(x)",
            ),
        ),
        MANY,
    ),
    Function(
        "replace",
        "This tensor takes the value of another one.",
        (
            Form(f"{_NEW}.replace(x)", _X, exact=lambda x: x.copy(), torch="x.clone()"),
            Form(
                f"{_NEW}.replace(x.T, allow_shape_mismatch=True)",
                _X,
                exact=lambda x: x.T.copy(),
                torch="x.T",
            ),
        ),
        MANY,
    ),
)


def _small(
    expression: str, exact: Callable[[Array], Array], output: DType, torch: str = ""
) -> Form:
    inputs = (Input("x", (4, 9), "small"),)
    return Form(expression, inputs, exact=exact, output=_is(output), torch=torch)


def _bfloat16(x: Array) -> Array:
    return x.astype(numpy_dtype(dtypes.bfloat16))


CASTS = (
    Function(
        "cast",
        "The elements in another type.",
        (
            Form(
                "x.cast('float64')",
                _X,
                lambda x: x,
                output=_is(dtypes.float64),
                torch="x.double()",
            ),
            _small("x.half()", lambda x: x.astype(np.float16), dtypes.float16),
            _small("x.float()", lambda x: x.astype(np.float32), dtypes.float32),
            _small("x.bfloat16()", _bfloat16, dtypes.bfloat16),
            _small("x.double()", lambda x: x.astype(np.float64), dtypes.float64),
            _small("x.long()", lambda x: x.astype(np.int64), dtypes.int64),
            _small("x.short()", lambda x: x.astype(np.int16), dtypes.int16),
            _small("x.int()", lambda x: x.astype(np.int32), dtypes.int32),
            _small("x.bool()", lambda x: x != 0, dtypes.bool),
            _small(
                "x.cast(dtypes.int8)", lambda x: x.astype(np.int8), dtypes.int8, "x.to(torch.int8)"
            ),
        ),
        (dtypes.float32, dtypes.float64),
        covers=("half", "float", "int", "bool", "bfloat16", "double", "long", "short"),
    ),
    Function(
        "bitcast",
        "The same bits as another type.",
        (
            Form(
                "x.bitcast('int32')",
                _X,
                exact=lambda x: x.view(np.int32),
                output=_INT,
                torch="x.view(torch.int32)",
            ),
        ),
        (dtypes.float32,),
    ),
)

_PROPERTIES = (
    "x.numel(), x.nbytes(), x.element_size(), x.ndim, x.size(0), x.size(-1), *x.shape, "
    "int(x.is_floating_point()), int(x.dtype is dtype), int(x.device == device)"
)
_TORCH_PROPERTIES = (
    "x.numel(), x.nbytes, x.element_size(), x.ndim, x.size(0), x.size(-1), *x.shape, "
    "int(x.is_floating_point()), int(x.dtype is dtype), int(str(x.device) == device)"
)


def _properties(x: Array) -> Array:
    is_float = int(not np.issubdtype(x.dtype, np.integer))
    sizes = [x.size, x.nbytes, x.itemsize, x.ndim, *x[:, :1].shape[:1], x.shape[-1], *x.shape]
    return np.array([*sizes, is_float, 1, 1])


PYTHON = (
    Function(
        "shape",
        "The properties of a tensor that need no computation.",
        (
            Form(
                f"Tensor([{_PROPERTIES}], device=device)",
                _X,
                exact=_properties,
                output=_INT,
                torch=f"torch.tensor([{_TORCH_PROPERTIES}], dtype=torch.int32)",
            ),
        ),
        MANY,
        covers=(
            "numel",
            "nbytes",
            "element_size",
            "ndim",
            "size",
            "is_floating_point",
            "dtype",
            "device",
        ),
    ),
    Function(
        "tolist",
        "The elements as nested lists of Python numbers.",
        (
            Form(
                f"Tensor(x.tolist(), {KEYWORDS})",
                _X,
                exact=lambda x: x.copy(),
                torch="torch.tensor(x.tolist(), dtype=dtype)",
            ),
        ),
        MANY,
    ),
    Function(
        "allclose",
        "True if |x - y| <= atol + rtol |y| for all elements, as a bool of Python.",
        tuple(
            Form(
                f"Tensor(x.allclose({arguments}), device=device)",
                tuple(Input(name, (4, 9), "small") for name in "xy"),
                exact=reference,
                output=_is(dtypes.bool),
                torch=f"torch.tensor(torch.allclose(x, {arguments}))",
            )
            for arguments, reference in (
                ("y", lambda x, y: np.asarray((x == y).all())),
                ("x", lambda x, y: np.asarray(True)),
                ("y, rtol=0.0, atol=7.0", lambda x, y: np.asarray(True)),
            )
        ),
        (*dtypes.floats, dtypes.int32),
    ),
    Function(
        "numpy",
        "The elements as an array of numpy.",
        (Form("Tensor(x.T.numpy(), device=device)", _X, exact=lambda x: x.T.copy(), torch="x.T"),),
        MANY,
    ),
    Function(
        "data",
        "The elements as bytes in order.",
        (
            Form(
                f"Tensor(bytes(x.data()), {KEYWORDS})",
                _X,
                exact=lambda x: x.reshape(-1),
                torch="x.reshape(-1)",
            ),
        ),
        (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8),
    ),
    Function(
        "item",
        "The one element as a Python number.",
        (
            Form(
                f"Tensor(x.item(), {KEYWORDS})",
                (Input("x", (1, 1)),),
                exact=lambda x: x.reshape(()),
                torch="torch.tensor(x.item(), dtype=dtype)",
            ),
        ),
        MANY,
    ),
)


def _six(x: Value) -> Value:
    return x * 6.0


_BACKWARD = "[(y.square().sum().backward(), y.grad) for y in [x.detach().requires_grad_()]][0][1]"
GRADIENTS = (
    Function(
        "gradient",
        "The gradient as a tensor, with a gradient itself.",
        (
            unary(
                "(x * x * 3).sum().gradient(x)[0]",
                _six,
                torch="torch.autograd.grad((x * x * 3).sum(), x, create_graph=True)[0]",
            ),
            unary(
                "(x * x * x).gradient(x, gradient=x)[0]",
                lambda x: x * x * x * 3.0,
                torch="torch.autograd.grad(x * x * x, x, x, create_graph=True)[0]",
            ),
        ),
        (dtypes.float32, dtypes.float64),
    ),
    Function(
        "backward",
        "The gradient is added to the gradients of the leaves.",
        (
            Form(_BACKWARD, _X, exact=lambda x: x * 2),
            Form(_BACKWARD.replace("x.detach()", "(x.detach() * 2)"), _X, exact=lambda x: x * 4),
            Form(
                "Tensor([y.requires_grad for y in "
                "[x.detach(), x.detach().requires_grad_(), x.detach().requires_grad_(False)]], "
                "device=device)",
                _X,
                exact=lambda x: np.array([False, True, False]),
                output=always_bool,
                torch="torch.tensor([y.requires_grad for y in "
                "[x.detach(), x.detach().requires_grad_(), x.detach().requires_grad_(False)]])",
            ),
        ),
        (dtypes.float32, dtypes.float64),
        covers=("grad", "requires_grad", "requires_grad_"),
    ),
)


def _log_add_exp(x: Value, y: Value) -> Value:
    """Return the larger one plus log(1 + e ** -d), d the distance; the slopes are sigmoids."""
    power = bounded.exp(-bounded.absolute(x - y))
    rest = bounded.smooth(power, np.log1p(power.value), lambda v: v)
    total = bounded.maximum(x, y) + bounded.detached(rest)

    def pull(g: Value) -> tuple[Value, Value]:
        first, second = g * sigmoid(x - y), g * sigmoid(y - x)
        return first.unbroadcast(x.shape), second.unbroadcast(y.shape)

    return x.made(total.value, total.error, (x, y), pull)


def _log_sum_exp(x: Value) -> Value:
    largest = bounded.detached(bounded.largest(x, (1,)))
    total = bounded.exp(x - largest).sum((1,), keepdims=True)
    return (bounded.log(total) + largest).reshape(x.shape[0])


SUMS = (
    Function(
        "logsumexp",
        "log(sum(e ** x)) without overflow.",
        (unary("x.logsumexp(1)", _log_sum_exp, "wide", is_wide=True),),
    ),
    Function(
        "logaddexp",
        "log(e ** x + e ** y) without overflow.",
        tuple(
            Form(
                "x.logaddexp(y)",
                (Input("x", first), Input("y", second)),
                _log_add_exp,
                is_wide=True,
            )
            for first, second in [((4, 9), (4, 9)), ((3, 1), (5,))]
        ),
    ),
)

FUNCTIONS = (*MADE, *LIKE, *MEMORY, *CASTS, *PYTHON, *GRADIENTS, *SUMS)
