"""The rows of layers, optimisers and `nn.state`: right code passes, wrong code is seen."""

from __future__ import annotations

import dataclasses
import io
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from made_files import made  # a neighbour of this file, which is no package
from run_rows import failed

from tinyref import Tensor, nn
from tinyref.nn import optim as their_optim
from tinyref.nn.state import ggml, names, safetensors, torch_files
from tinyref_spec import catalogue
from tinyref_spec.case import Profile
from tinyref_spec.model import optim
from tinyref_spec.system import state_files

# Wrong layers


def off(layer: str, change: Callable[[Any], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Has the constructor of a layer change it in the end."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        kind = getattr(nn, layer)
        plain = kind.__init__

        def changed(self: Any, *args: Any, **options: Any) -> None:
            plain(self, *args, **options)
            change(self)

        monkeypatch.setattr(kind, "__init__", changed)

    return patch


def calls(layer: str, wrong: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Has a layer compute something else; `wrong` gets what it should have given, and itself."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        kind = getattr(nn, layer)
        plain = kind.__call__
        monkeypatch.setattr(
            kind, "__call__", lambda self, *inputs: wrong(plain(self, *inputs), self)
        )

    return patch


def sets(**changes: object) -> Callable[[Any], None]:
    return lambda layer: vars(layer).update(changes)


WRONG_LAYERS = {
    "linear.float32.backward:0": calls(
        "Linear", lambda y, self: y.detach() + self.bias - self.bias
    ),
    "embedding.float32.backward:0": calls("Embedding", lambda y, _: y * 0.5 + y.detach() * 0.5),
    "conv1d.float32.forward:1": off("Conv2d", sets(padding=(0, 1))),
    "convtranspose2d.float32.forward:1": off("ConvTranspose2d", sets(dilation=2)),
    "batchnorm.float32.forward:4": off("BatchNorm", sets(momentum=0.31)),
    "batchnorm2d.float32.backward:0": calls("BatchNorm", lambda y, _: (y + y.detach()) / 2),
    "layernorm.float32.forward:0": off("LayerNorm", sets(axis=(-1,))),
    "lstmcell.float32.forward:1": calls("LSTMCell", lambda y, _: (y[0] * 1.001, y[1])),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", WRONG_LAYERS)
def test_a_wrong_layer_is_seen(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRONG_LAYERS[case](monkeypatch)
    name = f"model.layer.{case}"
    assert failed(name) == [name]


# Wrong optimisers

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
            wanted = param.detach().numpy()
            np.testing.assert_allclose(paths[number][step].value, wanted, rtol=1e-9, atol=1e-9)


def _a_little_further(self: Any, like: Tensor) -> Tensor:
    return self.lr.to(like.device).cast(like.dtype) * 1.0001


WRONG_OPTIMISERS: dict[str, tuple[object, str, object]] = {
    "sgd.float32": (their_optim.Optimizer, "_rate", _a_little_further),
    "adam.float32": (
        their_optim.LAMB,
        "_without_bias",
        staticmethod(lambda average, ones: average),
    ),
    "lamb.float32": (their_optim, "_norm", lambda tensor: tensor.abs().sum()),
    "optimizergroup.float32": (
        their_optim.OptimizerGroup,
        "schedule_step",
        lambda self: self.optimizers[0].schedule_step(),
    ),
}


@pytest.mark.parametrize("row", WRONG_OPTIMISERS)
def test_a_wrong_optimiser_is_seen(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, name, wrong = WRONG_OPTIMISERS[row]
    monkeypatch.setattr(holder, name, wrong)
    case = catalogue.cases(Profile.QUICK, f"model.optim.{row}")[0]
    assert failed(case.id) == [case.id]


# Wrong files


DTYPES = safetensors.DTYPES
READ = torch_files._tensor_of
WRONG_STATE: dict[str, tuple[object, str, object]] = {
    "safe_load.values": (safetensors, "DTYPES", {**DTYPES, "F32": DTYPES["I32"]}),
    "torch_load.zip": (torch_files, "_tensor_of", lambda *found: READ(*found).flip(0)),
    "ggml_data_to_tensor.values": (
        ggml,
        "QUANTISED",
        {**ggml.QUANTISED, 2: dataclasses.replace(ggml.QUANTISED[2], nbytes=20)},
    ),
    "load_state_dict.values": (names, "_with_elements_of", lambda target, source: target),
}


@pytest.mark.parametrize("case", WRONG_STATE)
def test_wrong_reading_and_writing_is_seen(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder, name, wrong = WRONG_STATE[case]
    monkeypatch.setattr(holder, name, wrong)
    assert failed(f"system.state.{case}") == [f"system.state.{case}"]


# The files that are kept


def test_the_files_are_what_their_programs_make() -> None:
    again = made()
    assert again["GGUF"] == state_files.GGUF
    for name in ("TORCH", "TORCH_LEGACY"):
        kept, new = (
            torch.load(io.BytesIO(data)) for data in (getattr(state_files, name), again[name])
        )
        assert kept.keys() == new.keys()
        for key in kept:
            same = torch.equal if isinstance(kept[key], torch.Tensor) else lambda a, b: a == b
            assert same(kept[key], new[key])
    with tarfile.open(fileobj=io.BytesIO(state_files.TAR)) as archive:
        assert archive.getnames() == ["sub", "a.txt", "sub/b", "c"]
