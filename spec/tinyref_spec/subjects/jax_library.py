"""JAX: the array API subject with the types, the functions and the gradients of JAX.

`jax` evaluates op by op, `jax-jit` compiles each expression as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tinyref.dtype import DType, dtype_from_name, dtypes
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import (
    ArraySubject,
    ArrayTensor,
    NumpyTensor,
    plain,
    split_ends,
)
from tinyref_spec.subjects.expressions import Function, package_version
from tinyref_spec.subjects.name import DEFAULT_PLACE, SubjectName

_TYPE_NAMES = {"fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}
_NOT_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
)
_CHANNELS_FIRST = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: None}


def _only(name: str, value: object, accepted: object) -> None:
    """Raise `NotOfferedError` for an argument that a function of JAX does not have."""
    if value != accepted:
        raise NotOfferedError(f"jax: its function has no argument {name}")


def _gelu(x: Any, approximate: str = "tanh") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _softplus(x: Any, beta: float = 1) -> Any:
    _only("beta", beta, 1)
    return jax.nn.softplus(x)


def _hard_sigmoid(x: Any, alpha: float = 1 / 6, beta: float = 0.5) -> Any:
    _only("alpha", (alpha, beta), (1 / 6, 0.5))
    return jax.nn.hard_sigmoid(x)


def _hard_tanh(x: Any, low: float = -1, high: float = 1) -> Any:
    _only("limits", (low, high), (-1, 1))
    return jax.nn.hard_tanh(x)


def _split(x: Any, sizes: int | Sequence[int], dim: int = 0) -> list[Any]:
    return list(jnp.split(x, split_ends(x.shape[dim], sizes), axis=dim))


def _gather(x: Any, dim: int, index: Any) -> Any:
    rest = [size for axis, size in enumerate(x.shape) if axis != dim % x.ndim]
    _only("size", [size for axis, size in enumerate(index.shape) if axis != dim % x.ndim], rest)
    return jnp.take_along_axis(x, index, axis=dim)


def _topk(x: Any, k: int, dim: int = -1, largest: bool = True) -> tuple[Any, Any]:
    _only("dim or largest", (dim % x.ndim, largest), (x.ndim - 1, True))
    values, positions = jax.lax.top_k(x, k)
    return values, positions


def _layer_norm(x: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    return jax.nn.standardize(x, axis=axis, epsilon=eps)


def _pad(x: Any, padding: Any, mode: str = "constant", value: float = 0) -> Any:
    _only("padding", (isinstance(padding[0], tuple), mode), (True, "constant"))
    return jnp.pad(x, padding, constant_values=value)


def _conv(x: Any, weight: Any, bias: Any = None, groups: int = 1, **settings: Any) -> Any:
    count = x.ndim - 2
    _only("bias or more axes", (bias is None, count < 3), (True, True))
    stride, dilation, padding = (
        _for_axes(settings.pop(name, default), count)
        for name, default in (("stride", 1), ("dilation", 1), ("padding", 0))
    )
    _only("padding on one side", len(padding), count)
    return jax.lax.conv_general_dilated(
        x,
        weight,
        stride,
        [(size, size) for size in padding],
        rhs_dilation=dilation,
        dimension_numbers=_CHANNELS_FIRST[count],
        feature_group_count=groups,
    )


def _for_axes(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


# selu is missing: its constants have more digits than the constants of Tensors.
OWN: Mapping[str, Callable[..., Any]] = {
    "exp2": jnp.exp2,
    "erf": jax.scipy.special.erf,
    "rsqrt": jax.lax.rsqrt,
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "sigmoid": jax.nn.sigmoid,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "celu": jax.nn.celu,
    "elu": jax.nn.elu,
    "gelu": _gelu,
    "silu": jax.nn.silu,
    "swish": jax.nn.swish,
    "mish": jax.nn.mish,
    "softplus": _softplus,
    "logsigmoid": jax.nn.log_sigmoid,
    "softsign": jax.nn.soft_sign,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": jax.nn.hard_swish,
    "hardtanh": _hard_tanh,
    "leaky_relu": jax.nn.leaky_relu,
    "fmod": jnp.fmod,
    "mod": jnp.remainder,
    "isclose": jnp.isclose,
    "logsumexp": jax.nn.logsumexp,
    "cummax": lambda x, axis: jax.lax.cummax(x, axis % x.ndim),
    "cummin": lambda x, axis: jax.lax.cummin(x, axis % x.ndim),
    "logcumsumexp": lambda x, axis: jax.lax.cumlogsumexp(x, axis % x.ndim),
    "layernorm": _layer_norm,
    "einsum": jnp.einsum,
    "split": _split,
    "gather": _gather,
    "topk": _topk,
    "diagonal": jnp.diagonal,
    "diag": jnp.diag,
    "pad": _pad,
    "conv2d": _conv,
}


class JaxTensor(NumpyTensor):
    """An array of JAX; an assignment makes another array, since arrays do not change."""

    def __getitem__(self, key: Any) -> ArrayTensor:
        return self.library.wrap(self.array[_key(plain(key))])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array = self.array.at[_key(plain(key))].set(plain(value))

    def bitcast(self, dtype: str) -> ArrayTensor:
        return self.library.wrap(
            jax.lax.bitcast_convert_type(self.array, self.library.dtype(dtype))
        )


def _key(key: Any) -> Any:
    """Return an index without lists, which JAX refuses in favour of arrays."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return np.asarray(key) if isinstance(key, list | range) else key


class JaxSubject(ArraySubject):
    """JAX on one of its devices, such as `cpu` or `gpu:1`, each op by itself."""

    tensor_class = JaxTensor
    own = OWN
    optional_types = frozenset(dtypes.fp8s)

    def __init__(self, name: SubjectName) -> None:
        # Without it the library has no types of 64 bits.
        jax.config.update("jax_enable_x64", True)
        super().__init__(name)

    def module_of(self, name: SubjectName) -> str:
        return "jax.numpy"

    def _device(self) -> Any:
        if self.place == DEFAULT_PLACE:
            return None
        platform, _, index = self.place.partition(":")
        return jax.devices(platform)[int(index or 0)]

    def versions(self) -> dict[str, str]:
        return {name: package_version(name) for name in ("jax", "jaxlib")}

    def dtype(self, dtype: DType | str) -> Any:
        name = dtype_from_name(dtype).name if isinstance(dtype, str) else dtype.name
        return self.function(_TYPE_NAMES.get(name, name))

    def array(self, values: Array) -> Any:
        return jax.device_put(np.array(values), self.device)

    def to_numpy(self, array: Any) -> Array:
        return np.array(array)

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        result, pull = jax.vjp(function, *arrays)
        return list(pull(weights.astype(result.dtype)))


class CompiledJaxSubject(JaxSubject):
    """JAX through jax.jit, each expression and its gradients as a whole."""

    def run(self, function: Function, arrays: Sequence[Any]) -> Any:
        try:
            return jax.jit(function)(*arrays)
        except _NOT_TRACED as error:
            first = str(error).splitlines()[0]
            raise NotOfferedError(f"jax.jit does not trace it: {first}") from error

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        def pull(*parts: Any) -> list[Any]:
            return JaxSubject.pull_back(self, function, parts[:-1], parts[-1])

        result: list[Any] = self.run(pull, [*arrays, weights])
        return result
