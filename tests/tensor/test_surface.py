"""The public surface: every name with its parameters, and every name in the tables."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping

import pytest

from tinyref import Tensor
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.model import layers, optim
from tinyref_spec.tensor import deviations, surface
from tinyref_spec.tensor.rows import FUNCTIONS
from tinyref_spec.tensor.surface import Name

NAMES = [pytest.param(name, id=name.label) for name in surface.names()]


def found(name: Name) -> object:
    """What tinyref has under the name; None where there is none yet."""
    try:
        holder: object = Tensor
        if name.where != "Tensor":
            holder = importlib.import_module(f"tinyref.{name.where}")
    except ModuleNotFoundError:
        return None
    return inspect.getattr_static(holder, name.name, None) and getattr(holder, name.name)


def parameters(item: object) -> list[inspect.Parameter]:
    """The parameters of a callable or a class, without `self` and annotations."""
    assert callable(item)
    listed = inspect.signature(item).parameters.values()
    return [
        parameter.replace(annotation=inspect.Parameter.empty, default=named(parameter.default))
        for parameter in listed
        if parameter.name != "self"
    ]


def named(default: object) -> object:
    """A default that is a class by its name, as the list has it; any other as it is."""
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
    """Labels of the names whose values some row gives."""
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


def without(found: set[str], listed: Mapping[str, str]) -> list[str]:
    """The names of the surface that are neither among those found nor listed with a reason."""
    return [n.label for n in surface.names() if n.label not in found and n.label not in listed]


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
    """The catalogue has what the tables name."""
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
