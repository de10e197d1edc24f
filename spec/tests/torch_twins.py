"""Runs the forms of the tables in torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

from tinyref.dtype import DType, dtypes
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.tensor.forms import Form

TORCH_DTYPES: dict[DType, torch.dtype] = {
    dtypes.bool: torch.bool,
    dtypes.int8: torch.int8,
    dtypes.int16: torch.int16,
    dtypes.int32: torch.int32,
    dtypes.int64: torch.int64,
    dtypes.uint8: torch.uint8,
    dtypes.float16: torch.float16,
    dtypes.bfloat16: torch.bfloat16,
    dtypes.float32: torch.float32,
    dtypes.float64: torch.float64,
}


def torch_tensor(array: Array) -> torch.Tensor:
    """A tensor of its own with the elements of an array."""
    if array.dtype == np.dtype(ml_dtypes.bfloat16):
        return torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
    return torch.tensor(array.copy())


def torch_value(expression: str, names: dict[str, Any]) -> Any:
    """The value of an expression of the tables in torch."""
    known = {"torch": torch, "F": torch.nn.functional, "np": np}
    # The expressions are those of the tables, never text from outside.
    return eval(expression, known, names)


def torch_names(form: Form, arrays: dict[str, Array], dtype: DType) -> dict[str, Any]:
    """The inputs of a form as tensors of torch, those that have gradients asking for them."""
    names: dict[str, Any] = {name: torch_tensor(array) for name, array in arrays.items()}
    for item in form.inputs:
        if item.is_differentiable and form.backward is not None and dtype.is_float:
            names[item.name].requires_grad_()
    return {**names, "dtype": TORCH_DTYPES[dtype], "device": "cpu"}


def weights_for(shape: tuple[int, ...]) -> Array:
    """What the elements of a result weigh in the gradient."""
    return samples.moderate(dtypes.float64, int(np.prod(shape)), 77).reshape(shape)


def torch_gradients(form: Form, result: torch.Tensor, names: dict[str, Any]) -> list[Array | None]:
    """The gradient of sum(result * weights) for every input, None where there is none."""
    weights = torch_tensor(weights_for(tuple(result.shape))).to(result.dtype)
    asked = [item.name for item in form.inputs if item.is_differentiable]
    targets = [names[name] for name in asked]
    found = torch.autograd.grad(result, targets, weights, allow_unused=True)
    by_name = {
        name: np.zeros(names[name].shape) if part is None else part.double().numpy()
        for name, part in zip(asked, found, strict=True)
    }
    return [by_name.get(item.name) for item in form.inputs]
