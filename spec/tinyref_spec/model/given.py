"""Functions for expressions of layers, besides `nn`: layers with chosen weights, and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyref.errors import VerifyError

if TYPE_CHECKING:
    from tinyref import Tensor

__all__ = ["after", "given", "stepped", "training"]


def given(layer: Any, device: str, **tensors: Tensor) -> Any:
    """Return the layer with these tensors as its own; its other tensors move to `device`.

    Raises `VerifyError` if the layer has no such tensor, or one of another shape.
    """
    from tinyref.nn.state import get_state_dict

    own = get_state_dict(layer)
    for name, tensor in tensors.items():
        if name not in own or own[name].shape != tensor.shape:
            have = str(own[name].shape) if name in own else "nothing"
            raise VerifyError("model.layer", name, str(tensor.shape), have)
        setattr(layer, name, tensor)
    for name in own.keys() - tensors.keys():
        setattr(layer, name, own[name].to(device).contiguous().realize())
    return layer


def training(layer: Any, *inputs: Tensor) -> Tensor:
    """Return the output for the last of the inputs that the layer gets while training."""
    from tinyref import Tensor

    with Tensor.train():
        outputs: list[Tensor] = [layer(x) for x in inputs]
    return outputs[-1]


def after(layer: Any, *inputs: Tensor) -> Any:
    """Return the layer after it got these inputs while training."""
    training(layer, *inputs)
    return layer


def stepped(cell: Any, x: Tensor) -> Tensor:
    """Return hidden and cell state of a recurrent cell, joined, after all steps along axis 0."""
    state: tuple[Tensor, Tensor] | None = None
    for inputs in x:
        state = cell(inputs, state)
    assert state is not None, "a sequence has a step"
    return state[0].cat(state[1], dim=1)
