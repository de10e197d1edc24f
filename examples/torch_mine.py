"""Register a PyTorch backend outside of PyTorch: the device `mine`, in the memory of the host.

It stands for the package of an accelerator: an import registers the device. From this folder:

    tinyref conform --subject torch --on mine --import torch_mine

Every operator runs on the host. A real backend registers a kernel for each, as for `relu` here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("mine")


def on_device(host: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the device with these elements."""
    tensor = torch._C._acc.create_empty_tensor(host.shape, host.dtype)
    # Copies that autograd makes of the tensor share its storage.
    tensor.untyped_storage().host = host
    return tensor


def on_host(value: Any) -> Any:
    """Return the host tensor behind a tensor of the device, and other values unchanged."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    is_ours = isinstance(value, torch.Tensor) and value.device.type == "mine"
    return value.untyped_storage().host if is_ours else value


def run_on_host(operator: Any, *arguments: Any, **settings: Any) -> Any:
    """Run any operator of PyTorch on the host."""
    device = settings.get("device")
    result = operator(*tree_map(on_host, arguments), **tree_map(on_host, settings))
    if device is not None and device.type == "cpu":
        return result
    return tree_map(
        lambda part: on_device(part) if isinstance(part, torch.Tensor) else part, result
    )


def copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy from or to the device; PyTorch calls it for `to` and `copy_`."""
    on_host(target).copy_(on_host(source))
    return target


def relu(x: torch.Tensor) -> torch.Tensor:
    """Return the larger of 0 and each element."""
    return on_device(on_host(x).clamp(min=0))


EVERYTHING = torch.library.Library("_", "IMPL")
EVERYTHING.fallback(run_on_host, "PrivateUse1")
KERNELS = torch.library.Library("aten", "IMPL")
KERNELS.impl("_copy_from", copy, "PrivateUse1")
KERNELS.impl("relu", relu, "PrivateUse1")
