"""Functions of one element, or of two: circular, hyperbolic, rounding, activations, bits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tinyref.dtype import dtypes
from tinyref_spec import bounded
from tinyref_spec.bits import Array
from tinyref_spec.bounded import Value
from tinyref_spec.tensor.forms import Form, Function, Input, always_bool, numpy_form, unary
from tinyref_spec.tensor.functions import reciprocal, sigmoid, tanh

INTEGERS = (dtypes.int32, dtypes.int64, dtypes.int8, dtypes.uint8)
ANY = (*dtypes.floats, dtypes.int32, dtypes.uint8)
Reference = Callable[[Value], Value]


def _smooth(name: str, function: Callable[[Array], Array], slope: Reference) -> Reference:
    """Return a numpy function together with its slope."""

    def reference(x: Value) -> Value:
        return bounded.smooth(x, function(x.value), slope)

    reference.__name__ = name
    return reference


def _root(x: Value) -> Value:
    """Return 1 / sqrt(x)."""
    return reciprocal(bounded.sqrt(x))


def sinh(x: Value) -> Value:
    """Return (e ** x - e ** -x) / 2, with the error of the larger power, near 0 its own."""
    value = np.sinh(x.value)
    exponent = 2 + np.abs(x.value)
    return x.rounded(
        value, np.cosh(x.value) * x.error, (x,), lambda g: (g * cosh(x),), exponent * 4
    )


def cosh(x: Value) -> Value:
    """Return (e ** x + e ** -x) / 2: an exponent of n bits adds n roundings to the power."""
    value = np.cosh(x.value)
    exponent = 2 + np.abs(x.value)
    passed = np.abs(np.sinh(x.value)) * x.error
    return x.rounded(value, passed, (x,), lambda g: (g * sinh(x),), exponent * 4)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Value) -> Value:
    """Return the error function."""
    slope = _smooth("gauss", lambda v: np.exp(-v * v) * 2 / math.sqrt(math.pi), _gauss_slope)
    return bounded.smooth(x, _erf(x.value), slope)


def _gauss_slope(x: Value) -> Value:
    gauss = bounded.exp(-(x * x)) * (2 / math.sqrt(math.pi))
    return gauss * x * -2.0


# name -> (reference, kind of input, sentence)
SMOOTH: dict[str, tuple[Reference, str, str]] = {
    "cos": (bounded.cos, "wide", "The cosine of radians."),
    "tan": (
        _smooth("tan", np.tan, lambda x: reciprocal(bounded.cos(x) * bounded.cos(x))),
        "any",
        "The tangent of radians.",
    ),
    "asin": (
        _smooth("asin", np.arcsin, lambda x: _root((-x + 1.0) * (x + 1.0))),
        "unit",
        "The angle from -pi/2 to pi/2 with this sine.",
    ),
    "acos": (
        _smooth("acos", np.arccos, lambda x: -_root((-x + 1.0) * (x + 1.0))),
        "unit",
        "The angle from 0 to pi with this cosine.",
    ),
    "atan": (
        _smooth("atan", np.arctan, lambda x: reciprocal(x * x + 1.0)),
        "wide",
        "The angle from -pi/2 to pi/2 with this tangent.",
    ),
    "sinh": (sinh, "any", "The hyperbolic sine."),
    "cosh": (cosh, "any", "The hyperbolic cosine."),
    "asinh": (
        _smooth("asinh", np.arcsinh, lambda x: _root(x * x + 1.0)),
        "wide",
        "The inverse of sinh.",
    ),
    "acosh": (
        _smooth("acosh", np.arccosh, lambda x: _root((x - 1.0) * (x + 1.0))),
        "above",
        "The inverse of cosh, from 0 on.",
    ),
    "atanh": (
        _smooth("atanh", np.arctanh, lambda x: reciprocal((-x + 1.0) * (x + 1.0))),
        "unit",
        "The inverse of tanh.",
    ),
    "erf": (erf, "any", "The error function."),
}
CIRCULAR = tuple(
    Function(
        name,
        sentence,
        (unary(f"x.{name}()", reference, kind, is_wide=True),),
    )
    for name, (reference, kind, sentence) in SMOOTH.items()
)


def _where_positive(x: Value, other: Value) -> Value:
    return bounded.choose(x.value > 0, x, other)


def _expm1(x: Value) -> Value:
    return bounded.smooth(x, np.expm1(x.value), bounded.exp)


def elu(x: Value, alpha: float = 1.0, width: float = 1.0) -> Value:
    """Return x above 0, else alpha * (e ** (x / width) - 1)."""
    below = bounded.choose(x.value > 0, bounded.zeros(x.shape, x.dtype), x)
    return _where_positive(x, _expm1(below / width) * alpha)


def silu(x: Value) -> Value:
    """Return x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Value) -> Value:
    """Return x (1 + tanh(u)) / 2 as x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * sigmoid(inner * 2.0)


def _exact_gelu(x: Value) -> Value:
    """Return x (1 + erf(x / sqrt(2))) / 2."""
    return x * ((erf(x * math.sqrt(0.5)) + 1.0) * 0.5)


def softplus(x: Value, beta: float = 1.0) -> Value:
    """Return log(1 + e ** (beta x)) / beta."""
    z = x * beta
    return bounded.smooth(z, np.logaddexp(0, z.value), sigmoid, 4.0) / beta


def clamp(x: Value, low: float, high: float) -> Value:
    """Return x limited to low and high."""
    ends = bounded.constant(low, x.dtype), bounded.constant(high, x.dtype)
    raised = bounded.choose(x.value < low, ends[0].spread(x.shape), x)
    return bounded.choose(x.value > high, ends[1].spread(x.shape), raised)


def hardsigmoid(x: Value, alpha: float = 1 / 6, beta: float = 0.5) -> Value:
    """Return alpha x + beta, limited to 0 and 1."""
    return clamp(x * alpha + beta, 0.0, 1.0)


def _activation(
    name: str, sentence: str, *forms: tuple[str, Reference, str], covers: tuple[str, ...] = ()
) -> Function:
    """Return a function with forms of (expression, reference, torch's expression)."""
    made = tuple(
        unary(expression, reference, "wide", is_wide=True, torch=torch)
        for expression, reference, torch in forms
    )
    return Function(name, sentence, made, covers=covers)


ACTIVATIONS = (
    _activation(
        "celu",
        "x above 0, else alpha * (e ** (x / alpha) - 1).",
        ("x.celu()", elu, "F.celu(x)"),
        ("x.celu(2.0)", lambda x: elu(x, 2.0, 2.0), "F.celu(x, 2.0)"),
    ),
    _activation(
        "elu",
        "x above 0, else alpha * (e ** x - 1).",
        ("x.elu()", elu, "F.elu(x)"),
        ("x.elu(alpha=0.5)", lambda x: elu(x, 0.5), "F.elu(x, alpha=0.5)"),
    ),
    _activation(
        "selu",
        "gamma times elu.",
        ("x.selu()", lambda x: elu(x, 1.67326) * 1.0507, "1.0507 * F.elu(x, alpha=1.67326)"),
    ),
    Function(
        "gelu",
        "x (1 + tanh(u)) / 2, or the same with the error function.",
        # For larger numbers torch loses digits of 1 + tanh(u).
        (
            unary("x.gelu()", gelu, is_wide=True, torch="F.gelu(x, approximate='tanh')"),
            unary("x.gelu(approximate='none')", _exact_gelu, is_wide=True, torch="F.gelu(x)"),
        ),
    ),
    _activation(
        "quick_gelu",
        "x sigmoid(1.702 x).",
        ("x.quick_gelu()", lambda x: x * sigmoid(x * 1.702), "x * torch.sigmoid(1.702 * x)"),
    ),
    _activation(
        "silu",
        "x sigmoid(x).",
        ("x.silu()", silu, "F.silu(x)"),
        ("x.swish()", silu, "F.silu(x)"),
        covers=("swish",),
    ),
    _activation(
        "mish",
        "x tanh(softplus(x)).",
        ("x.mish()", lambda x: x * tanh(softplus(x)), "F.mish(x)"),
    ),
    _activation(
        "softplus",
        "log(1 + e ** (beta x)) / beta.",
        ("x.softplus()", softplus, "F.softplus(x, threshold=1e9)"),
        ("x.softplus(3)", lambda x: softplus(x, 3.0), "F.softplus(x, 3, threshold=1e9)"),
    ),
    _activation(
        "logsigmoid",
        "log(sigmoid(x)), without its underflow.",
        ("x.logsigmoid()", lambda x: -softplus(-x), "F.logsigmoid(x)"),
    ),
    _activation(
        "softsign",
        "x / (1 + |x|).",
        ("x.softsign()", lambda x: x / (bounded.absolute(x) + 1.0), "F.softsign(x)"),
    ),
    _activation(
        "hardsigmoid",
        "alpha x + beta from 0 to 1.",
        # Torch's own slope is 1/6 in float32.
        ("x.hardsigmoid()", hardsigmoid, "(x / 6 + 0.5).clamp(0, 1)"),
        (
            "x.hardsigmoid(0.2, 0.4)",
            lambda x: hardsigmoid(x, 0.2, 0.4),
            "(0.2 * x + 0.4).clamp(0, 1)",
        ),
    ),
    _activation(
        "hardswish",
        "x relu6(x + 3) / 6.",
        ("x.hardswish()", lambda x: x * clamp(x + 3.0, 0.0, 6.0) * (1 / 6), "F.hardswish(x)"),
    ),
    _activation(
        "hardtanh",
        "x limited to -1 and 1, or to other ends.",
        ("x.hardtanh()", lambda x: clamp(x, -1.0, 1.0), "F.hardtanh(x)"),
        ("x.hardtanh(-2, 3)", lambda x: clamp(x, -2.0, 3.0), "F.hardtanh(x, -2, 3)"),
    ),
    _activation(
        "relu6",
        "x from 0 to 6.",
        ("x.relu6()", lambda x: clamp(x, 0.0, 6.0), "F.relu6(x)"),
    ),
    _activation(
        "leaky_relu",
        "x above 0, else neg_slope times it.",
        ("x.leaky_relu()", lambda x: _where_positive(x, x * 0.01), "F.leaky_relu(x)"),
        ("x.leaky_relu(0.3)", lambda x: _where_positive(x, x * 0.3), "F.leaky_relu(x, 0.3)"),
    ),
    _activation(
        "clamp",
        "x limited to min_ and max_, if they are present.",
        ("x.clamp(-1, 2)", lambda x: clamp(x, -1.0, 2.0), ""),
        ("x.clamp(min_=0.5)", lambda x: clamp(x, 0.5, math.inf), "x.clamp(min=0.5)"),
        ("x.clip(max_=0.5)", lambda x: clamp(x, -math.inf, 0.5), "x.clip(max=0.5)"),
        covers=("clip",),
    ),
    Function(
        "rsqrt",
        "1 / sqrt(x).",
        (unary("x.rsqrt()", _root, "positive"),),
    ),
)


def _steps(name: str, sentence: str, step: Callable[[Array], Array]) -> Function:
    """Return a function of steps: exact, with slope 0."""
    form = Form(
        f"x.{name}()",
        (Input("x", (5, 7), "wide"),),
        lambda x: bounded.stepwise(x, step(x.value)),
        exact=lambda x: step(x.astype(np.float64)).astype(x.dtype),
    )
    return Function(name, sentence, (form,), ANY)


ROUNDING = (
    _steps("round", "The nearest integer; of two, the even one.", np.rint),
    _steps("floor", "Rounded down.", np.floor),
    _steps("ceil", "Rounded up.", np.ceil),
    _steps("trunc", "Rounded towards zero.", np.trunc),
    _steps("sign", "-1, 0 or 1.", np.sign),
)


def _predicate_form(
    expression: str, reference: Callable[..., Array], inputs: tuple[Input, ...]
) -> Form:
    return Form(expression, inputs, exact=reference, output=always_bool)


_X = (Input("x", (4, 6), "small"),)
_XY = (Input("x", (4, 6), "small"), Input("y", (4, 6), "small"))
QUESTIONS = (
    Function(
        "isnan",
        "True for elements that are NaN.",
        (_predicate_form("(x / x).isnan()", lambda x: x == 0, _X),),
    ),
    Function(
        "isinf",
        "True for elements that are infinite.",
        (
            _predicate_form("(1 / x).isinf()", lambda x: x == 0, _X),
            Form(
                "(x / 0).isinf(detect_negative=False)",
                _X,
                exact=lambda x: x > 0,
                output=always_bool,
                torch="torch.isposinf(x / 0)",
            ),
        ),
    ),
    Function(
        "isfinite",
        "True for elements that are neither NaN nor infinite.",
        (_predicate_form("(1 / x).isfinite()", lambda x: x != 0, _X),),
    ),
    Function(
        "isclose",
        "Where |x - y| <= atol + rtol |y|.",
        (
            _predicate_form("x.isclose(y)", lambda x, y: x == y, _XY),
            _predicate_form(
                "x.isclose(y, rtol=0.0, atol=1.5)", lambda x, y: np.abs(x - y) <= 1, _XY
            ),
        ),
        (*dtypes.floats, dtypes.int32),
    ),
    Function(
        "logical_not",
        "Where an element is zero.",
        (_predicate_form("x.logical_not()", lambda x: x == 0, _X),),
        (*ANY, dtypes.bool),
    ),
    Function(
        "any",
        "True if any element is not zero.",
        (
            Form("x.any()", _X, exact=lambda x: (x != 0).any(), output=always_bool),
            Form("x.any(1)", _X, exact=lambda x: (x != 0).any(1), output=always_bool),
        ),
        (*dtypes.floats, dtypes.int32, dtypes.bool),
    ),
    Function(
        "all",
        "True if no element is zero.",
        (
            Form("x.all()", _X, exact=lambda x: (x != 0).all(), output=always_bool),
            Form(
                "x.all(0, keepdim=True)",
                _X,
                exact=lambda x: (x != 0).all(0, keepdims=True),
                output=always_bool,
            ),
        ),
        (*dtypes.floats, dtypes.int32, dtypes.bool),
    ),
)


def _quotient(x: Array, y: Array) -> Array:
    return np.trunc(x / y).astype(x.dtype)


_DIVIDED = (*_X, Input("y", (4, 6), "nonzero"))
BITS = (
    Function("bitwise_not", "Every bit inverted.", (numpy_form("~x", _X),), INTEGERS),
    Function(
        "lshift",
        "Bits shifted left.",
        (
            numpy_form("x << 2", _X),
            numpy_form("x << (y & 7)", _DIVIDED),
            numpy_form("2 << (y & 3)", _DIVIDED),
        ),
        INTEGERS,
    ),
    Function(
        "rshift",
        "Bits shifted right; the sign is kept.",
        (
            numpy_form("x >> 1", _X),
            numpy_form("x >> (y & 7)", _DIVIDED),
            numpy_form("100 >> (y & 3)", _DIVIDED),
        ),
        INTEGERS,
    ),
    Function(
        "idiv",
        "The quotient of integers towards zero; // rounds down.",
        (
            Form(
                "x.idiv(y)",
                _DIVIDED,
                exact=_quotient,
                torch="torch.div(x, y, rounding_mode='trunc')",
            ),
            numpy_form("x // y", _DIVIDED),
            Form("x.div(y, rounding_mode='trunc')", _DIVIDED, exact=_quotient),
        ),
        INTEGERS,
    ),
    Function(
        "fmod_integers",
        "The remainder of integers with the sign of the dividend.",
        (Form("x.fmod(y)", _DIVIDED, exact=np.fmod),),
        INTEGERS,
        covers=("fmod",),
    ),
)


def _remainder(x: Value, y: Value) -> Value:
    """Return x - floor(x / y) y, exactly."""
    quotient = bounded.exact(np.floor_divide(x.value, y.value), x.dtype)
    value = np.mod(x.value, y.value)
    return x.rounded(
        value,
        x.error,
        (x, y),
        lambda g: (g.unbroadcast(x.shape), (-(g * quotient)).unbroadcast(y.shape)),
    )


def _truncated_remainder(x: Value, y: Value) -> Value:
    """Return x - trunc(x / y) y, exactly."""
    value = np.fmod(x.value, y.value)
    quotient = bounded.exact(np.rint((x.value - value) / y.value), x.dtype)
    return x.made(
        value,
        x.error,
        (x, y),
        lambda g: (g.unbroadcast(x.shape), (-(g * quotient)).unbroadcast(y.shape)),
    )


def copysign(x: Value, y: Value) -> Value:
    """Return |x| with the sign of y."""
    turned = bounded.exact(np.where(np.signbit(x.value) == np.signbit(y.value), 1.0, -1.0), x.dtype)
    zero = bounded.zeros(y.shape, y.dtype)
    return x.made(np.copysign(x.value, y.value), x.error, (x, y), lambda g: (g * turned, zero))


def lerp(x: Value, y: Value, w: Value) -> Value:
    """Return x + (y - x) w."""
    return x + (y - x) * w


def _floats(*kinds: str) -> tuple[Input, ...]:
    return tuple(Input(name, (3, 7), kind) for name, kind in zip("xyw", kinds, strict=False))


def _fmod_form(expression: str, inputs: tuple[Input, ...], divisor: float | None = None) -> Form:
    """Return a form of `fmod`, by a constant if `divisor` is not None."""

    def forward(x: Value, *y: Value) -> Value:
        return _truncated_remainder(x, *(y or (bounded.constant(divisor or 1, x.dtype),)))

    def exactly(x: Array, *y: Array) -> Array:
        wide = [array.astype(np.float64) for array in (x, *y)]
        return np.asarray(np.fmod(*wide, *(() if y else (divisor,))))

    return Form(expression, inputs, forward, exact=exactly)


PAIRS = (
    Function(
        "fmod",
        "The remainder with the sign of the dividend, exactly.",
        (
            _fmod_form("x.fmod(y)", _floats("wide", "away")),
            _fmod_form("x.fmod(y)", (Input("x", (3, 1), "wide"), Input("y", (4,), "away"))),
            _fmod_form("x.fmod(-2.5)", _floats("wide"), -2.5),
        ),
        (dtypes.float32, dtypes.float64),
    ),
    Function(
        "mod",
        "The remainder with the sign of the divisor.",
        (
            Form("x % y", _floats("wide", "away"), _remainder),
            Form(
                "x.mod(2.5)",
                _floats("wide"),
                lambda x: _remainder(x, bounded.constant(2.5, x.dtype)),
                torch="torch.remainder(x, 2.5)",
            ),
            # The quotient has more bits than a float.
            Form(
                "(x * 2.0**60) % y",
                _floats("wide", "away"),
                exact=lambda x, y: np.mod(x * x.dtype.type(2.0**60), y),
            ),
        ),
        (dtypes.float32, dtypes.float64),
    ),
    Function(
        "copysign",
        "The magnitude of x with the sign of y.",
        (Form("x.copysign(y)", _floats("away", "any"), copysign),),
    ),
    Function(
        "lerp",
        "x + (y - x) w.",
        (
            Form("x.lerp(y, w)", _floats("any", "any", "any"), lerp),
            Form("x.lerp(y, 0.25)", _floats("any", "any"), lambda x, y: x + (y - x) * 0.25),
        ),
    ),
)


def _variance(x: Value, axes: tuple[int, ...], correction: int = 1) -> Value:
    count = float(math.prod(x.shape[axis] for axis in axes))
    distance = x - x.sum(axes, keepdims=True) / count
    return (distance * distance).sum(axes) / (count - correction)


def _spread(expression: str, reference: Reference) -> Form:
    name = expression.removeprefix("x.").partition("(")[0]
    torch = expression.replace(f"x.{name}(", f"torch.{name}(x, ") if "_mean" in name else ""
    return unary(expression, reference, is_wide=True, torch=torch)


def _deviation(x: Value, axes: tuple[int, ...]) -> Value:
    return bounded.sqrt(_variance(x, axes))


SPREAD = (
    Function(
        "var",
        "Squared distances from the mean, divided by the count minus a correction.",
        (
            _spread("x.var()", lambda x: _variance(x, (0, 1))),
            _spread("x.var(1, correction=0)", lambda x: _variance(x, (1,), 0)),
        ),
    ),
    Function(
        "std",
        "The square root of the variance.",
        (_spread("x.std(0)", lambda x: _deviation(x, (0,))),),
    ),
    Function(
        "var_mean",
        "The variance and the mean.",
        (
            _spread("x.var_mean(1)[0]", lambda x: _variance(x, (1,))),
            _spread("x.var_mean(1)[1]", lambda x: x.sum((1,)) / 9.0),
        ),
    ),
    Function(
        "std_mean",
        "The square root of the variance, and the mean.",
        (
            _spread("x.std_mean(1)[0]", lambda x: _deviation(x, (1,))),
            _spread("x.std_mean(1)[1]", lambda x: x.sum((1,)) / 9.0),
        ),
    ),
)

FUNCTIONS = (
    *CIRCULAR,
    *ACTIVATIONS,
    *ROUNDING,
    *QUESTIONS,
    *BITS,
    *PAIRS,
    *SPREAD,
)
