"""The public surface: every name with its parameters, and every name in the tables."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from tinyref import Tensor, Variable
from tinyref.errors import UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.model import layers, optim
from tinyref_spec.tensor import deviations, surface
from tinyref_spec.tensor.rows import FUNCTIONS
from tinyref_spec.tensor.surface import Name

NAMES = [pytest.param(name, id=name.label) for name in surface.names()]


def found(name: Name) -> object:
    """Return tinyref's object of this name; None if there is none yet."""
    try:
        holder: object = Tensor
        if name.where != "Tensor":
            holder = importlib.import_module(f"tinyref.{name.where}")
    except ModuleNotFoundError:
        return None
    return inspect.getattr_static(holder, name.name, None) and getattr(holder, name.name)


def parameters(item: object) -> list[inspect.Parameter]:
    """Return the parameters of a callable or a class, without `self` and annotations."""
    assert callable(item)
    listed = inspect.signature(item).parameters.values()
    return [
        parameter.replace(annotation=inspect.Parameter.empty, default=named(parameter.default))
        for parameter in listed
        if parameter.name != "self"
    ]


def named(default: object) -> object:
    """Return the name of a default that is a class, as in the list; any other unchanged."""
    is_class = inspect.isclass(default) and default is not inspect.Parameter.empty
    return default.__name__ if is_class else default


def shown(listed: list[inspect.Parameter]) -> str:
    return ", ".join(map(str, listed))


def missing() -> list[str]:
    return [name.label for name in surface.names() if found(name) is None]


def test_no_name_is_missing() -> None:
    assert missing() == []


@pytest.mark.parametrize("name", NAMES)
def test_parameters(name: Name) -> None:
    item = found(name)
    if item is None or name.parameters is None:
        return
    ours = parameters(item)
    agrees = shown(ours) == shown(list(name.parameters)) and [p.default for p in ours] == [
        p.default for p in name.parameters
    ]
    if name.label in deviations.SIGNATURES:
        assert not agrees, f"{name.label} is listed as a deviation and is none"
    else:
        assert agrees, f"{shown(ours)} is not {shown(list(name.parameters))}"


def test_operators() -> None:
    assert [name for name in surface.operators() if not hasattr(Tensor, name)] == []


# The tables


def labels(where: str, names: Iterable[str]) -> set[str]:
    return {f"{where}.{name}" for name in names}


def of_files() -> set[str]:
    """Return the names that read and write files: only the library decides, see tests/nn."""
    return {name.label for name in surface.names() if name.where == "nn.state"}


def covered() -> set[str]:
    """Return labels of the names whose values some row checks."""
    called = {name for function in FUNCTIONS for name in (function.name, *function.covers)}
    return (
        labels("Tensor", called)
        | labels("nn", (layer.name for layer in layers.FUNCTIONS))
        | labels("nn.optim", optim.NAMES)
        | of_files()
    )


def refused() -> set[str]:
    """Return the labels of the names that have a refused call in the table."""
    listed = set(surface.refused_calls())
    for function in FUNCTIONS:
        if f"Tensor.{function.name}" in listed:
            listed |= labels("Tensor", function.covers)
    return listed | of_files()


def without(available: set[str], listed: Mapping[str, str]) -> list[str]:
    """Return the names of the surface that are neither available nor listed with a reason."""
    return [n.label for n in surface.names() if n.label not in available and n.label not in listed]


def test_every_name_has_values() -> None:
    assert without(covered(), deviations.NO_VALUES) == []


def test_every_name_has_a_refused_call() -> None:
    assert without(refused(), deviations.NO_REFUSAL) == []


def test_a_name_without_rows_is_seen() -> None:
    for label in ("Tensor.softmax", "nn.Linear", "nn.optim.Adam", "nn.state.safe_load"):
        assert without(covered() - {label}, deviations.NO_VALUES) == [label]
        assert without(refused() - {label}, deviations.NO_REFUSAL) == [label]


@pytest.mark.parametrize(
    ("where", "row"),
    [("nn", "model.layer.{}"), ("nn.optim", "model.optim.{}")],
)
def test_every_name_of_nn_has_quick_cases(where: str, row: str) -> None:
    """Require a row in the catalogue for each name in the tables."""
    for name in (name.name for name in surface.names() if name.where == where):
        assert catalogue.cases(Profile.QUICK, row.format(name.lower())), name


def test_every_function_on_floats_has_a_gradient_or_a_reason() -> None:
    bad = [
        function.name
        for function in (*FUNCTIONS, *layers.FUNCTIONS)
        if any(dtype.is_float for dtype in function.dtypes)
        and any(form.output(dtype).is_float for form in function.forms for dtype in function.dtypes)
        and not function.has_gradient
        and function.name not in deviations.NO_GRADIENT
    ]
    assert bad == []


def test_deviations_are_about_something() -> None:
    known = {name.label for name in surface.names()}
    listed = {*deviations.SIGNATURES, *deviations.NO_VALUES, *deviations.NO_REFUSAL}
    assert listed - known == set()
    assert set(deviations.NO_GRADIENT) - {function.name for function in FUNCTIONS} == set()
    stale = [label for label in deviations.NO_VALUES if label in covered()]
    assert stale == []


def test_functions_are_named_once() -> None:
    names = [function.name for function in FUNCTIONS]
    assert sorted(names) == sorted(set(names))


def test_a_changed_default_is_seen() -> None:
    softmax = next(name for name in surface.names() if name.label == "Tensor.clamp")

    def changed(min_: object = 0, max_: object = None) -> None: ...

    assert softmax.parameters is not None
    assert shown(parameters(Tensor.clamp)) == shown(list(softmax.parameters))
    assert shown(parameters(changed)) != shown(list(softmax.parameters))


# A type that a caller names is the type of the result


FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = (*FLOATS, "int8", "uint8", "int16", "int32", "uint64")
ANY = (*NUMBERS, "bool")
LAZY = "contiguous=False, requires_grad=True"


def whole(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(np.arange(np.prod(shape)).reshape(shape) % 3, dtype=dtype)


def names() -> dict[str, object]:
    """Return what the calls name."""
    return {
        **{"Tensor": Tensor, "n": Variable("n", 1, 9).bind(3), "m": whole(2, 2), "v": whole(2)},
        **{"wide": whole(2, dtype="float64"), "image": whole(1, 2, 3, 3), "w": whole(2, 2, 2, 2)},
        "halves": whole(2, 1, 2, 2),
    }


# For each function that accepts `dtype`: the types that it accepts, and calls that name one.
CALLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bitcast": (("uint32", "int32"), ("m.bitcast(dtype)",)),
    "cast": (ANY, ("m.cast(dtype)",)),
    "arange": (
        NUMBERS,
        (
            "Tensor.arange(3, dtype=dtype)",
            "Tensor.arange(1, 7, 2, dtype=dtype)",
            "Tensor.arange(0.0, 2.0, 0.5, dtype=dtype)",
            "Tensor.arange(n, dtype=dtype)",
            "Tensor.arange(1, n, dtype=dtype)",
        ),
    ),
    "sum": (
        NUMBERS,
        ("m.sum(dtype=dtype)", "m.sum(0, keepdim=True, dtype=dtype)", "m.sum((), dtype=dtype)"),
    ),
    "prod": (NUMBERS, ("m.prod(dtype=dtype)", "m.prod(0, keepdim=True, dtype=dtype)")),
    "softmax": (FLOATS, ("m.softmax(0, dtype=dtype)",)),
    "softmin": (FLOATS, ("m.softmin(0, dtype=dtype)",)),
    "log_softmax": (FLOATS, ("m.log_softmax(0, dtype=dtype)",)),
    "dot": (NUMBERS, ("v.dot(v, dtype=dtype)", "m.dot(wide, dtype=dtype)")),
    "matmul": (
        NUMBERS,
        ("m.matmul(wide, dtype=dtype)", "m.matmul(wide, reverse=True, dtype=dtype)"),
    ),
    "einsum": (
        NUMBERS,
        (
            "Tensor.einsum('ij->i', m, dtype=dtype)",
            "Tensor.einsum('ij,j->i', m, wide, dtype=dtype)",
            "Tensor.einsum('ij,jk,k', m, m, wide, dtype=dtype)",
        ),
    ),
    "linear": (
        NUMBERS,
        (
            "m.linear(m, dtype=dtype)",
            "m.linear(m, wide, dtype=dtype)",
            "m.linear(v, dtype=dtype)",
            "m.linear(v, wide, dtype=dtype)",
        ),
    ),
    "conv2d": (
        NUMBERS,
        (
            "image.conv2d(w, dtype=dtype)",
            "image.conv2d(w, wide, dtype=dtype)",
            "image.conv2d(halves, wide, groups=2, dtype=dtype)",
            "image.conv2d(w, stride=2, dtype=dtype)",
            "image.conv2d(w, wide, dilation=2, padding=1, dtype=dtype)",
        ),
    ),
    "empty": (ANY, ("Tensor.empty(2, dtype=dtype)",)),
    "empty_like": (ANY, ("m.empty_like(dtype=dtype)",)),
    "full": (ANY, ("Tensor.full((2,), 1, dtype=dtype)",)),
    "zeros": (ANY, ("Tensor.zeros(2, dtype=dtype, device='CPU')",)),
    "ones": (ANY, ("Tensor.ones(2, dtype=dtype, device='CPU')",)),
    "eye": (ANY, ("Tensor.eye(2, dtype=dtype)", "Tensor.eye(2, 3, dtype=dtype)")),
    "linspace": (NUMBERS, ("Tensor.linspace(0, 1, 2, dtype=dtype)",)),
    "rand": (FLOATS, ("Tensor.rand(2, dtype=dtype)", f"Tensor.rand(2, dtype=dtype, {LAZY})")),
    "randn": (FLOATS, ("Tensor.randn(2, dtype=dtype)", f"Tensor.randn(2, dtype=dtype, {LAZY})")),
    "randint": (NUMBERS[4:], ("Tensor.randint(2, low=1, high=5, dtype=dtype)",)),
    "randperm": (NUMBERS, ("Tensor.randperm(3, dtype=dtype)",)),
    "normal": (FLOATS, ("Tensor.normal(2, mean=1.0, std=2.0, dtype=dtype)",)),
    "uniform": (FLOATS, ("Tensor.uniform(2, low=-1.0, high=2.0, dtype=dtype)",)),
    "scaled_uniform": (FLOATS, ("Tensor.scaled_uniform(2, dtype=dtype)",)),
    "glorot_uniform": (FLOATS, ("Tensor.glorot_uniform(2, 2, dtype=dtype)",)),
    "kaiming_uniform": (FLOATS, ("Tensor.kaiming_uniform(2, 2, a=0.5, dtype=dtype)",)),
    "kaiming_normal": (FLOATS, ("Tensor.kaiming_normal(2, 2, a=0.5, dtype=dtype)",)),
    "rand_like": (FLOATS, ("m.rand_like(dtype=dtype)",)),
    "randn_like": (FLOATS, ("m.randn_like(dtype=dtype)",)),
    "full_like": (ANY, ("m.full_like(1, dtype=dtype)",)),
    "zeros_like": (ANY, ("m.zeros_like(dtype=dtype, device='CPU')",)),
    "ones_like": (ANY, ("m.ones_like(dtype=dtype, device=None)",)),
}
# Functions whose keywords are something else.
WITHOUT_TYPE = {"no_grad", "rearrange"}


def accepts_dtype(name: str) -> bool:
    parameters = inspect.signature(getattr(Tensor, name)).parameters
    return "dtype" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def test_every_function_with_a_type_is_called() -> None:
    functions = (name for name in dir(Tensor) if not name.startswith("_"))
    methods = {name for name in functions if inspect.isroutine(getattr(Tensor, name))}
    assert {name for name in methods - WITHOUT_TYPE if accepts_dtype(name)} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_result_has_the_named_type(name: str) -> None:
    accepted, calls = CALLS[name]
    for call, dtype in itertools.product(calls, accepted):
        assert eval(call, {**names(), "dtype": dtype}).dtype.name == dtype


def test_type_none_is_the_type_of_the_tensor() -> None:
    numbers = Tensor([1.0], dtype="float64")
    makers = [numbers.zeros_like, numbers.ones_like, numbers.rand_like, numbers.randn_like]
    for make in makers:
        assert make(dtype=None).dtype.name == "float64"
        assert make(device=None).device == numbers.device
    assert numbers.full_like(1, dtype=None).dtype.name == "float64"


def test_permutation_in_a_type_without_its_numbers() -> None:
    assert Tensor.randperm(2049, dtype="float16").max().item() == 2048.0
    with pytest.raises(UserError, match="2049 does not fit float16"):
        Tensor.randperm(2050, dtype="float16")
