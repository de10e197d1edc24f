"""MLX: the array API subject with the functions and the gradients of MLX, in its own words.

`mlx` evaluates op by op, `mlx-compile` compiles each expression as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from tinyref.dtype import DType
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import ArraySubject, ArrayTensor, plain
from tinyref_spec.subjects.expressions import CompiledForm, Function, package_version
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName
from tinyref_spec.subjects.numpy_like import (
    ACTIVATIONS,
    WritableTensor,
    by_name,
    for_axes,
    own_functions,
    require,
)
from tinyref_spec.subjects.transcript import MODULE, WritingNamespace, WrittenArray, value_of


def _layer_norm(mx: Any, x: Any, axis: Any = -1, eps: float = 1e-5) -> Any:
    require("axis", axis, -1)
    return mx.fast.layer_norm(x, None, None, eps)


def _conv(mx: Any, x: Any, weight: Any, bias: Any = None, groups: int = 1, **settings: Any) -> Any:
    require("bias", bias is None, True)
    stride, dilation, padding = for_axes(settings, x.ndim - 2)
    # The channels of MLX come last.
    result = mx.conv_general(
        mx.moveaxis(x, 1, -1),
        mx.moveaxis(weight, 1, -1),
        stride=stride,
        padding=padding,
        kernel_dilation=dilation,
        groups=groups,
    )
    return mx.moveaxis(result, -1, 1)


def _functions(mx: Any, nn: Any) -> dict[str, Function]:
    """Return functions of the modules that are not in the standard."""

    def gelu(x: Any, approximate: str = "tanh") -> Any:
        return (nn.gelu_approx if approximate == "tanh" else nn.gelu)(x)

    return {
        # Without the modules that nn exports too.
        **by_name((mx, nn.layers.activations), ACTIVATIONS),
        **own_functions(mx),
        "gelu": gelu,
        "layernorm": functools.partial(_layer_norm, mx),
        "conv2d": functools.partial(_conv, mx),
    }


class MlxTensor(WritableTensor):
    """An array of MLX."""

    def clone(self) -> ArrayTensor:
        return self._call("array", self)

    def clamp(self, min_: Any = None, max_: Any = None) -> ArrayTensor:
        return self._call("clip", self, min_, max_)

    clip = clamp

    def sort(self, dim: Any = -1, descending: Any = False) -> tuple[ArrayTensor, Any]:
        """Sort the values. MLX does not promise a stable order, so there are no positions."""
        require("descending", descending, False)
        return self._call("sort", self, axis=dim), None

    def argsort(self, dim: Any = -1, descending: Any = False) -> ArrayTensor:
        raise NotOfferedError("mlx: the order of equal elements is left open")

    def bitcast(self, dtype: str) -> ArrayTensor:
        return self._call("view", self, self.library.dtype(dtype))

    def __getitem__(self, key: Any) -> ArrayTensor:
        return self.library.wrap(self.array[self._key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[self._key(key)] = plain(value)

    def _key(self, key: Any) -> Any:
        """Return the index with arrays of MLX. Raises `NotOfferedError` for masks."""
        if isinstance(key, tuple):
            return tuple(map(self._key, key))
        if isinstance(key, ArrayTensor):
            key = key.array
        elif isinstance(key, list | range | np.ndarray):
            key = self.library.function("array")(np.asarray(key))
        if isinstance(key, bool) or (isinstance(value_of(key), mx.array) and key.dtype == mx.bool_):
            raise NotOfferedError("mlx: an index is no mask")
        return key


class MlxSubject(ArraySubject):
    """MLX on `cpu` or `gpu`, each op by itself."""

    tensor_class = MlxTensor
    optional_types: frozenset[DType] = frozenset()
    own = _functions(mx, nn)

    def __init__(self, name: SubjectName) -> None:
        # Functions of mlx.nn are compiled unless the process says otherwise.
        mx.disable_compile()
        super().__init__(name)

    def module_of(self, name: SubjectName) -> str:
        return "mlx.core"

    def _device(self) -> Any:
        if self.device_name != DEFAULT_DEVICE:
            mx.set_default_device(mx.Device(getattr(mx, self.device_name)))

    @property
    def script_imports(self) -> tuple[str, ...]:
        imports = (*super().script_imports, "import mlx.nn as nn")
        if self.device_name == DEFAULT_DEVICE:
            return imports
        return (*imports, f"{MODULE}.set_default_device({MODULE}.{self.device_name})")

    def written_own(self) -> Mapping[str, Function]:
        return _functions(WritingNamespace(mx), WritingNamespace(nn, "nn"))

    def gradient_text(self, names: str, result: WrittenArray, weights: Any) -> str:
        cast = "" if result.dtype == weights else ".astype(g.dtype)"
        return f"{MODULE}.vjp(lambda {names}: {result.text}{cast}, [{names}], [g])[1]"

    def versions(self) -> dict[str, str]:
        return {"mlx": package_version("mlx")}

    def dtype(self, dtype: DType | str) -> Any:
        own = super().dtype(dtype)
        if not isinstance(value_of(own), mx.Dtype):
            raise NotOfferedError(f"mlx: has no type {dtype}")
        return own

    def operate(self, name: str, arguments: Sequence[Any]) -> Any:
        try:
            return super().operate(name, arguments)
        except TypeError as error:
            # The standard has the shift of a number by an array, MLX need not have it.
            raise NotOfferedError(f"mlx: {error}") from error

    def array(self, values: Array) -> Any:
        # Without the type, elements of 64 bits are narrowed.
        return super().array(np.ascontiguousarray(values).reshape(values.shape))

    def pull_back(self, function: Function, arrays: Sequence[Any], weights: Any) -> list[Any]:
        def same_type(*parts: Any) -> Any:
            return function(*parts).astype(weights.dtype)

        return list(mx.vjp(same_type, list(arrays), [weights])[1])


class CompiledMlxSubject(CompiledForm, MlxSubject):
    """MLX through mx.compile, each expression and its gradients as a whole."""

    compiler = "mx.compile"
    script_compiler = f"{MODULE}.compile"
    untraced = (ValueError, RuntimeError)
    untraced_words = "function transformations"

    def __init__(self, name: SubjectName) -> None:
        super().__init__(name)
        mx.enable_compile()

    def compile(self, function: Function) -> Function:
        compiled: Function = mx.compile(function)
        return compiled
