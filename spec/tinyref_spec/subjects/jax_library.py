"""JAX: the array API subject with the types, the functions and the gradients of JAX.

`jax` evaluates op by op, `jax-jit` compiles each expression as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tinyref.dtype import DType, dtype_from_name, dtypes
from tinyref_spec.bits import Array
from tinyref_spec.subjects.array_api import ArraySubject, ArrayTensor, plain
from tinyref_spec.subjects.expressions import CompiledForm, Function, package_version
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName
from tinyref_spec.subjects.numpy_like import (
    ACTIVATIONS,
    NumpyTensor,
    by_name,
    for_axes,
    own_functions,
    require,
)
from tinyref_spec.subjects.transcript import WritingNamespace, WrittenArray

_TYPE_NAMES = {"fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}


def _topk(lax: Any, x: Any, k: int, dim: int = -1, largest: bool = True) -> tuple[Any, Any]:
    require("largest", largest, True)
    values, positions = lax.top_k(x, k, axis=dim)
    return values, positions


def _scan(function: Function) -> Function:
    return lambda x, axis: function(x, axis % x.ndim)


def _conv(lax: Any, x: Any, weight: Any, bias: Any = None, groups: int = 1, **settings: Any) -> Any:
    require("bias", bias is None, True)
    stride, dilation, padding = for_axes(settings, x.ndim - 2)
    return lax.conv_general_dilated(
        x,
        weight,
        stride,
        [(size, size) for size in padding],
        rhs_dilation=dilation,
        feature_group_count=groups,
    )


def _functions(jax: Any, jnp: Any) -> dict[str, Function]:
    """Return functions of the modules that are not in the standard."""
    lax = jax.lax
    return {
        **by_name((jax.nn, lax, jax.scipy.special), ACTIVATIONS),
        **own_functions(jnp),
        "gelu": lambda x, approximate="tanh": jax.nn.gelu(x, approximate=approximate == "tanh"),
        "layernorm": lambda x, axis=-1, eps=1e-5: jax.nn.standardize(x, axis=axis, epsilon=eps),
        "cummax": _scan(lax.cummax),
        "cummin": _scan(lax.cummin),
        "logcumsumexp": _scan(lax.cumlogsumexp),
        "topk": functools.partial(_topk, lax),
        "conv2d": functools.partial(_conv, lax),
        "bitcast": lambda x, dtype: lax.bitcast_convert_type(x, getattr(jnp, dtype)),
    }


class JaxTensor(NumpyTensor):
    """An array of JAX; an assignment makes another array, since arrays do not change."""

    def __getitem__(self, key: Any) -> ArrayTensor:
        return self.library.wrap(self.array[_key(plain(key))])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array = self.array.at[_key(plain(key))].set(plain(value))


def _key(key: Any) -> Any:
    """Return an index without lists, which JAX refuses in favour of arrays."""
    if isinstance(key, tuple):
        return tuple(map(_key, key))
    return np.asarray(key) if isinstance(key, list | range) else key


class JaxSubject(ArraySubject):
    """JAX on one of its devices, such as `cpu` or `gpu:1`, each op by itself."""

    tensor_class = JaxTensor
    own = _functions(jax, jnp)
    optional_types = frozenset(dtypes.fp8s)

    def __init__(self, name: SubjectName) -> None:
        # Without it the library has no types of 64 bits.
        jax.config.update("jax_enable_x64", True)
        super().__init__(name)

    def module_of(self, name: SubjectName) -> str:
        return "jax.numpy"

    def _device(self) -> Any:
        if self.device_name == DEFAULT_DEVICE:
            return None
        platform, _, index = self.device_name.partition(":")
        return jax.devices(platform)[int(index or 0)]

    @property
    def script_imports(self) -> tuple[str, ...]:
        wide = "jax.config.update('jax_enable_x64', True)"
        return ("import jax", wide, *super().script_imports)

    @property
    def script_device(self) -> str:
        platform, _, index = self.device_name.partition(":")
        return "" if self.device is None else f"jax.devices({platform!r})[{int(index or 0)}]"

    def written_own(self) -> Mapping[str, Function]:
        return _functions(WritingNamespace(jax, "jax"), WritingNamespace(jnp))

    def gradient_text(self, names: str, result: WrittenArray, weights: Any) -> str:
        cast = "" if result.dtype == weights else f".astype({str(result.dtype)!r})"
        return f"jax.vjp(lambda {names}: {result.text}, {names})[1](g{cast})"

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


class CompiledJaxSubject(CompiledForm, JaxSubject):
    """JAX through jax.jit, each expression and its gradients as a whole."""

    compiler = script_compiler = "jax.jit"
    untraced = (
        jax.errors.ConcretizationTypeError,
        jax.errors.NonConcreteBooleanIndexError,
        jax.errors.TracerArrayConversionError,
    )

    def compile(self, function: Function) -> Function:
        compiled: Function = jax.jit(function)
        return compiled
