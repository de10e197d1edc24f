"""MLX: the array API subject with the functions and the gradients of MLX, in its own words.

`mlx` evaluates op by op, `mlx-compile` compiles each expression as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from tinyref.dtype import DType
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import (
    ArraySubject,
    ArrayTensor,
    WritableTensor,
    plain,
    split_ends,
)
from tinyref_spec.subjects.expressions import Function, package_version
from tinyref_spec.subjects.name import DEFAULT_PLACE, SubjectName


def _only(name: str, value: object, accepted: object) -> None:
    """Raise `NotOfferedError` for an argument that a function of MLX does not have."""
    if value != accepted:
        raise NotOfferedError(f"mlx: its function has no argument {name}")


def _gelu(x: Any, approximate: str = "tanh") -> Any:
    return nn.gelu_approx(x) if approximate == "tanh" else nn.gelu(x)


def _softplus(x: Any, beta: float = 1) -> Any:
    _only("beta", beta, 1)
    return nn.softplus(x)


def _split(x: Any, sizes: int | Sequence[int], dim: int = 0) -> list[Any]:
    return list(mx.split(x, split_ends(x.shape[dim], sizes), axis=dim))


def _gather(x: Any, dim: int, index: Any) -> Any:
    rest = [size for axis, size in enumerate(x.shape) if axis != dim % x.ndim]
    _only("size", [size for axis, size in enumerate(index.shape) if axis != dim % x.ndim], rest)
    return mx.take_along_axis(x, index, axis=dim)


def _layer_norm(x: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    _only("axis", axis, -1)
    return mx.fast.layer_norm(x, None, None, eps)


def _pad(x: Any, padding: Any, mode: str = "constant", value: float = 0) -> Any:
    _only("padding", (isinstance(padding[0], tuple), mode), (True, "constant"))
    return mx.pad(x, padding, constant_values=value)


def _conv(x: Any, weight: Any, bias: Any = None, **settings: Any) -> Any:
    _only("bias", bias is None, True)
    _only("padding on one side", isinstance(settings.get("padding", 0), int), True)
    # The channels of MLX come last.
    result = mx.conv_general(
        mx.moveaxis(x, 1, -1),
        mx.moveaxis(weight, 1, -1),
        stride=settings.get("stride", 1),
        padding=settings.get("padding", 0),
        kernel_dilation=settings.get("dilation", 1),
        groups=settings.get("groups", 1),
    )
    return mx.moveaxis(result, -1, 1)


# selu is missing: its constants have more digits than the constants of Tensors.
OWN: Mapping[str, Callable[..., Any]] = {
    "erf": mx.erf,
    "rsqrt": mx.rsqrt,
    "relu": nn.relu,
    "relu6": nn.relu6,
    "sigmoid": mx.sigmoid,
    "softmax": mx.softmax,
    "log_softmax": nn.log_softmax,
    "softmin": nn.softmin,
    "celu": nn.celu,
    "elu": nn.elu,
    "gelu": _gelu,
    "silu": nn.silu,
    "swish": nn.silu,
    "mish": nn.mish,
    "softplus": _softplus,
    "logsigmoid": nn.log_sigmoid,
    "softsign": nn.softsign,
    "hardswish": nn.hardswish,
    "hardtanh": nn.hard_tanh,
    "leaky_relu": nn.leaky_relu,
    "mod": mx.remainder,
    "isclose": mx.isclose,
    "logsumexp": mx.logsumexp,
    "cummax": lambda x, axis: mx.cummax(x, axis=axis),
    "cummin": lambda x, axis: mx.cummin(x, axis=axis),
    "logcumsumexp": lambda x, axis: mx.logcumsumexp(x, axis=axis),
    "layernorm": _layer_norm,
    "einsum": mx.einsum,
    "split": _split,
    "gather": _gather,
    "diagonal": mx.diagonal,
    "diag": mx.diag,
    "pad": _pad,
    "conv2d": _conv,
}


class MlxTensor(WritableTensor):
    """An array of MLX."""

    def clone(self) -> ArrayTensor:
        return self.library.wrap(mx.array(self.array))

    def clamp(self, min_: Any = None, max_: Any = None) -> ArrayTensor:
        return self._call("clip", self, min_, max_)

    clip = clamp

    def sort(self, dim: Any = -1, descending: Any = False) -> tuple[ArrayTensor, Any]:
        """Sort the values. MLX does not promise a stable order, so there are no positions."""
        _only("descending", descending, False)
        return self._call("sort", self, axis=dim), None

    def argsort(self, dim: Any = -1, descending: Any = False) -> ArrayTensor:
        raise NotOfferedError("mlx: the order of equal elements is left open")

    def bitcast(self, dtype: str) -> ArrayTensor:
        return self._call("view", self, self.library.dtype(dtype))

    def __getitem__(self, key: Any) -> ArrayTensor:
        return self.library.wrap(self.array[_key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[_key(key)] = plain(value)


def _key(key: Any) -> Any:
    """Return the index with arrays of MLX. Raises `NotOfferedError` for masks."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    if isinstance(key, ArrayTensor):
        key = key.array
    elif isinstance(key, list | range | np.ndarray):
        key = mx.array(np.asarray(key))
    if isinstance(key, bool) or (isinstance(key, mx.array) and key.dtype == mx.bool_):
        raise NotOfferedError("mlx: an index is no mask")
    return key


class MlxSubject(ArraySubject):
    """MLX on `cpu` or `gpu`, each op by itself."""

    tensor_class = MlxTensor
    optional_types: frozenset[DType] = frozenset()
    own = OWN

    def module_of(self, name: SubjectName) -> str:
        return "mlx.core"

    @property
    def library(self) -> str:
        return "mlx"

    def _device(self) -> Any:
        if self.place != DEFAULT_PLACE:
            mx.set_default_device(mx.Device(getattr(mx, self.place)))

    def versions(self) -> dict[str, str]:
        return {"mlx": package_version("mlx")}

    def dtype(self, dtype: DType | str) -> Any:
        found = super().dtype(dtype)
        if not isinstance(found, mx.Dtype):
            raise NotOfferedError(f"mlx: has no type {dtype}")
        return found

    def array(self, values: Array) -> Any:
        # Without the type, elements of 64 bits are narrowed.
        return super().array(np.ascontiguousarray(values).reshape(values.shape))

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        def same_type(*parts: Any) -> Any:
            return function(*parts).astype(weights.dtype)

        return list(mx.vjp(same_type, list(arrays), [weights])[1])


class CompiledMlxSubject(MlxSubject):
    """MLX through mx.compile, each expression and its gradients as a whole."""

    def run(self, function: Function, arrays: Sequence[Any]) -> Any:
        try:
            return mx.compile(function)(*arrays)
        except (ValueError, RuntimeError) as error:
            if "function transformations" not in str(error):
                raise
            raise NotOfferedError(f"mx.compile does not trace it: {error}") from error

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        def pull(*parts: Any) -> list[Any]:
            return MlxSubject.pull_back(self, function, parts[:-1], parts[-1])

        result: list[Any] = self.run(pull, [*arrays, weights])
        return result
