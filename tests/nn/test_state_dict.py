"""Test tensors of a model by name, and models that load the tensors of a file."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from tinyref import Tensor, dtypes, nn
from tinyref.errors import UserError
from tinyref.nn.state import (
    get_parameters,
    get_state_dict,
    load_state_dict,
    safe_load,
    safe_save,
    torch_load,
)


class Layer:
    def __init__(self, size: int = 2) -> None:
        self.weight = Tensor.zeros(size, size).contiguous()
        self.bias = Tensor.zeros(size).contiguous()
        self.name = "layer"
        self.dtype = dtypes.float32
        self.nothing = None


class Model:
    def __init__(self) -> None:
        self.first = Layer()
        self.layers = [Layer(), (Layer(), {"deep": Layer(3), 4: Layer()})]
        self.scale = Tensor(1.0)
        self.kind = Layer
        self.function = np.sum

    def method(self) -> None:
        """Do nothing: methods hold no tensors."""


NAMES = [
    "first.weight",
    "first.bias",
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.0.weight",
    "layers.1.0.bias",
    "layers.1.1.deep.weight",
    "layers.1.1.deep.bias",
    "layers.1.1.4.weight",
    "layers.1.1.4.bias",
    "scale",
]


def test_names_are_paths_in_order():
    model = Model()
    tensors = get_state_dict(model)
    assert list(tensors) == NAMES
    assert tensors["layers.1.1.deep.bias"] is model.layers[1][1]["deep"].bias
    assert list(get_state_dict(model.first, "a.b.")) == ["a.b.weight", "a.b.bias"]
    assert list(get_state_dict(Tensor([1]), "a")) == ["a"]
    assert get_state_dict([1, "text", None, print, Layer]) == {}
    assert list(get_state_dict(OrderedDict(b=Tensor([1]), a=Tensor([2])))) == ["b", "a"]


def test_other_containers():
    pair = namedtuple("pair", ["x", "y"])

    @dataclass(slots=True)
    class Slots:
        weight: Tensor
        missing: Tensor | None = None

    state = get_state_dict({"pair": pair(Tensor([1]), [Tensor([2])]), "slots": Slots(Tensor([3]))})
    assert list(state) == ["pair.x", "pair.y.0", "slots.weight"]


def test_other_kinds_of_tensor():
    layer = Layer()
    assert get_state_dict(layer, tensor_type=str) == {"name": "layer"}
    assert get_state_dict(layer, tensor_type=type(dtypes.int8)) == {"dtype": dtypes.float32}


def test_what_is_held_twice_or_holds_itself():
    model = Model()
    model.first.parent = model  # type: ignore[attr-defined]
    model.layers.append(model.layers)  # type: ignore[arg-type]
    model.tied = model.first.weight  # type: ignore[attr-defined]
    assert sorted(get_state_dict(model)) == sorted([*NAMES, "tied"])
    assert len(get_parameters(model)) == len(NAMES)
    layer = Layer()
    twice = get_parameters([layer, layer])
    assert [id(tensor) for tensor in twice] == [id(layer.weight), id(layer.bias)]
    with pytest.raises(UserError, match=r"two tensors have the name 'a\.b'"):
        get_state_dict({"a.b": Tensor([1]), "a": {"b": Tensor([2])}})


def numbers(model: object) -> dict[str, Tensor]:
    return {
        name: Tensor(np.arange(tensor.numel(), dtype=np.float32).reshape(tensor.shape) + 1)
        for name, tensor in get_state_dict(model).items()
    }


def test_a_model_takes_what_was_saved(tmp_path):
    model = Model()
    state = numbers(model)
    safe_save(state, tmp_path / "w")
    loaded = load_state_dict(model, safe_load(tmp_path / "w"))
    tensors = get_state_dict(model)
    assert [id(tensor) for tensor in loaded] == [id(tensor) for tensor in tensors.values()]
    for name, tensor in tensors.items():
        assert tensor.device == "CPU"
        assert np.array_equal(tensor.numpy(), state[name].numpy())


def test_a_model_takes_the_weights_of_torch(tmp_path: Path):
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    torch.save(theirs.state_dict(), tmp_path / "w.pt")
    ours = [Layer(), Layer()]
    load_state_dict(ours, torch_load(tmp_path / "w.pt"))
    for name, tensor in theirs.state_dict().items():
        assert np.array_equal(get_state_dict(ours)[name].numpy(), tensor.numpy())


def test_types_devices_and_gradients_stay():
    layer = Layer()
    layer.weight = Tensor.zeros(2, 2, dtype="float16", device="PYTHON").requires_grad_()
    layer.bias = Tensor.zeros(1)
    state = {"weight": Tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": Tensor(5)}
    load_state_dict(layer, state)
    assert (layer.weight.dtype, layer.weight.device) == (dtypes.float16, "PYTHON")
    assert layer.weight.requires_grad
    assert layer.weight.tolist() == [[1, 2], [3, 4]]
    assert (layer.bias.shape, layer.bias.dtype) == ((1,), dtypes.float32)
    assert layer.bias.tolist() == [5.0]
    (layer.weight * layer.weight).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_shards_stay(axis, tmp_path):
    devices = ("CPU:1", "CPU:2")
    layer = Layer()
    layer.weight = layer.weight.shard(devices, axis)
    safe_save(numbers(layer), tmp_path / "w")
    load_state_dict(layer, safe_load(tmp_path / "w"))
    assert layer.weight.device == devices
    assert layer.weight.tolist() == [[1, 2], [3, 4]]
    assert (layer.weight + layer.weight).tolist() == [[2, 4], [6, 8]]
    assert layer.bias.device == "CPU"


def test_names_that_do_not_fit(capsys):
    layer = Layer()
    state = {"weight": Tensor.ones(2, 2), "other": Tensor([1])}
    with pytest.raises(UserError) as caught:
        load_state_dict(layer, state)
    assert str(caught.value) == (
        "load_state_dict: not in the state: bias; not in the model: other: "
        "accepted with strict=False"
    )
    assert layer.weight.tolist() == [[0, 0], [0, 0]], "nothing changed"
    assert load_state_dict(layer, state, strict=False) == [layer.weight]
    assert layer.weight.tolist() == [[1, 1], [1, 1]]
    assert "not in the state: bias; not in the model: other" in capsys.readouterr().err
    load_state_dict(layer, state, strict=False, verbose=False)
    assert capsys.readouterr() == ("", "")
    many = {**numbers(layer), **{f"x{number}": Tensor([1]) for number in range(9)}}
    with pytest.raises(UserError, match="x0, x1, x2, x3, x4 and 4 more"):
        load_state_dict(layer, many)


def test_shapes_that_do_not_fit_change_nothing():
    layer = Layer()
    with pytest.raises(UserError, match=r"shapes differ: bias is \(3,\), the model's \(2,\)"):
        load_state_dict(layer, {"weight": Tensor.ones(2, 2), "bias": Tensor.ones(3)})
    with pytest.raises(UserError, match="'bias' is a int, not a Tensor"):
        load_state_dict(layer, {"weight": Tensor.ones(2, 2), "bias": 3})  # type: ignore[dict-item]
    assert layer.weight.tolist() == [[0, 0], [0, 0]]


def test_what_is_used_may_be_taken_out():
    layer = Layer()
    state = {**numbers(layer), "other": Tensor([1])}
    load_state_dict(layer, state, strict=False, verbose=False, consume=True)
    assert list(state) == ["other"]


def test_loading_may_wait():
    layer = Layer()
    load_state_dict(layer, {name: x + 1 for name, x in numbers(layer).items()}, realize=False)
    assert "not computed yet" in repr(layer.weight)
    assert layer.weight.tolist() == [[2, 3], [4, 5]]


def test_a_state_that_is_no_dict_is_refused(tmp_path):
    with pytest.raises(UserError, match="load_state_dict: the state is a list"):
        nn.state.load_state_dict(nn.Linear(1, 1), [Tensor([1.0])])
    with pytest.raises(UserError, match="safe_save: tensors is a list"):
        nn.state.safe_save([Tensor([1.0])], tmp_path / "x")


@pytest.mark.parametrize("realize", [True, False])
@pytest.mark.parametrize("kind", ["in memory", "pending", "of another type", "sharded"])
def test_a_model_and_what_it_was_loaded_from_share_no_memory(kind, realize):
    layer = Layer()
    if kind == "sharded":
        layer.weight.shard_(("CPU:1", "CPU:2"), 0).realize()
    state = numbers(layer)
    if kind == "of another type":
        state = {name: tensor.cast("float64") for name, tensor in state.items()}
    if kind != "pending":
        Tensor.realize(*state.values())
    load_state_dict(layer, state, realize=realize)
    layer.weight.assign(layer.weight * 10)
    layer.bias += 1
    assert (state["weight"].tolist(), state["bias"].tolist()) == ([[1, 2], [3, 4]], [1, 2])
    state["weight"].assign(7)
    state["bias"][0] = 9
    assert layer.weight.tolist() == [[10, 20], [30, 40]]
    assert layer.bias.tolist() == [2, 3]
