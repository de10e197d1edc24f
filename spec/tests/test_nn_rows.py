"""The rows of layers and optimisers: right code passes, wrong code is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from run_rows import failed

from tinyref import Tensor, nn
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.model import optim

DESCENTS = {
    f"{name}-{number}": item
    for name, items in optim.DESCENTS.items()
    for number, item in enumerate(items)
}


@pytest.mark.slow  # The optimisers of torch take seconds to import.
@pytest.mark.parametrize("name", [name for name, item in DESCENTS.items() if item.torch])
def test_the_paths_are_those_of_torch(name: str) -> None:
    item = DESCENTS[name]
    params = [
        torch.tensor(start.astype(np.float64), requires_grad=True) for start in optim.starts()
    ]
    optimiser = eval(item.torch, {"torch": torch}, {"params": params})
    paths = optim.references(item)
    for step, gradients in enumerate(optim.slopes()):
        for param, slope in zip(params, gradients, strict=True):
            param.grad = torch.tensor(slope.astype(np.float64))
        optimiser.step()
        for number, param in enumerate(params):
            expected = param.detach().numpy()
            np.testing.assert_allclose(paths[number][step].value, expected, rtol=1e-9, atol=1e-9)


# --- wrong code -----------------------------------------------------------------------------------


def built(layer: type, **changes: object) -> tuple[object, str, object]:
    """Return a patch of a layer: its constructor changes these attributes in the end."""
    plain = layer.__init__  # type: ignore[misc]

    def changed(self: Any, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        vars(self).update(changes)

    return layer, "__init__", changed


def called(layer: Any, wrong: Callable[..., Any]) -> tuple[object, str, object]:
    """Return a patch of a layer: `wrong` changes its right result."""
    plain = layer.__call__
    return layer, "__call__", lambda self, *inputs: wrong(plain(self, *inputs))


# What is replaced by what, and the case that fails then.
WRONG: dict[str, tuple[object, str, object]] = {
    "model.layer.linear.float32.forward:0": called(nn.Linear, lambda y: y * 1.00001),
    "model.layer.convtranspose2d.float32.forward:0": built(nn.ConvTranspose2d, dilation=2),
    "model.layer.batchnorm.float32.forward:3": built(nn.BatchNorm, momentum=0.31),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_code_is_seen(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WRONG[case])
    assert failed(case) == [case]


def a_little_further(self: Any, like: Tensor) -> Tensor:
    return self.lr.to(like.device).cast(like.dtype) * 1.0001


WRONG_OPTIMISERS: dict[str, tuple[object, str, object]] = {
    "sgd.float32": (nn.optim.Optimizer, "_rate", a_little_further),
    "adam.float32": (nn.optim.LAMB, "_without_bias", staticmethod(lambda average, _: average)),
    "lamb.float32": (nn.optim, "_norm", lambda tensor: tensor.abs().sum()),
}


@pytest.mark.parametrize("row", WRONG_OPTIMISERS)
def test_a_wrong_optimiser_is_seen(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WRONG_OPTIMISERS[row])
    case = catalogue.cases(Profile.QUICK, f"model.optim.{row}")[0]
    assert failed(case.id) == [case.id]
