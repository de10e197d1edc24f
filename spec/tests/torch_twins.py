"""Runs the forms of the tables in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tinyref.dtype import DType, dtypes
from tinyref_spec import samples
from tinyref_spec.bits import Array
from tinyref_spec.subjects.torch_library import TORCH_DTYPES, to_torch
from tinyref_spec.tensor.forms import Form


def torch_names(form: Form, arrays: dict[str, Array], dtype: DType) -> dict[str, Any]:
    """The inputs of a form as tensors of torch, those that have gradients asking for them."""
    names: dict[str, Any] = {name: to_torch(array) for name, array in arrays.items()}
    for item in form.inputs:
        if item.is_differentiable and form.has_gradient and dtype.is_float:
            names[item.name].requires_grad_()
    return {**names, "dtype": TORCH_DTYPES[dtype], "device": "cpu"}


def weights_for(shape: tuple[int, ...]) -> Array:
    """What the elements of a result weigh in the gradient."""
    return samples.moderate(dtypes.float64, int(np.prod(shape)), 77).reshape(shape)


def torch_gradients(form: Form, result: torch.Tensor, names: dict[str, Any]) -> list[Array | None]:
    """The gradient of sum(result * weights) for every input, None where there is none."""
    weights = to_torch(weights_for(tuple(result.shape))).to(result.dtype)
    asked = [item.name for item in form.inputs if item.is_differentiable]
    targets = [names[name] for name in asked]
    found = torch.autograd.grad(result, targets, weights, allow_unused=True)
    by_name = {
        name: np.zeros(names[name].shape) if part is None else part.double().numpy()
        for name, part in zip(asked, found, strict=True)
    }
    return [by_name.get(item.name) for item in form.inputs]
