"""ONNX Runtime: each case is a graph of ONNX, which one of its execution providers runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from tinyref.dtype import DType, dtype_from_name, numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.reproducer import Question, Wording
from tinyref_spec.subjects import onnx_graph
from tinyref_spec.subjects.array_api import SAME, ArraySubject, ArrayTensor
from tinyref_spec.subjects.expressions import package_version
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName
from tinyref_spec.subjects.transcript import text_of

# The function of the standard for each operator of Python, where `SAME` has none.
_OPERATORS: Mapping[str, str] = {
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "neg": "negative",
    "invert": "bitwise_not",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


class OnnxTensor(ArrayTensor):
    """A value of a graph."""

    def logical_not(self) -> ArrayTensor:
        return self._call("logical_not", self)

    def clone(self) -> ArrayTensor:
        return self


class OnnxSubject(ArraySubject):
    """ONNX Runtime with one execution provider, such as `cpu` or `CUDAExecutionProvider`."""

    tensor_class = OnnxTensor
    own = onnx_graph.OWN
    own_notes: Mapping[str, str] = {"topk": "ONNX returns indices as int64"}
    optional_types: frozenset[DType] = frozenset()
    # No kernel of the provider for the type, or no such type of the operator in ONNX.
    refusals = (errors.NotImplemented, errors.InvalidGraph)
    no_gradients = "ONNX has no gradients"

    def __init__(self, name: SubjectName) -> None:
        self.provider = _provider(name.device)
        super().__init__(name)

    @property
    def wording(self) -> Wording:
        # Without the provider, ONNX Runtime runs the graph on the host.
        check = f"onnxruntime.get_available_providers().index({self.provider!r})"
        return Wording(
            (*self.name.imports, "import onnx, onnxruntime", check),
            "{array}",
            "{actual}",
            translate=self._session_text,
            package=self.name.install("onnx", "onnxruntime"),
        )

    def _session_text(self, expression: str, question: Question) -> str:
        """Return the statement that makes the model of an expression, and a call that runs it."""
        self.require_types(question.values)
        arrays = {
            name: onnx_graph.graph_input(array, name) for name, array in question.values.items()
        }
        tensor = self._value_of(expression, arrays, question.dtype)
        model, values = onnx_graph.model_of(self.unwrap(tensor))
        text = " ".join(onnx.printer.to_text(model).split())
        session = "onnxruntime.InferenceSession(onnx.parser.parse_model(model).SerializeToString()"
        made = {name: text_of(array) for name, array in values.items() if name not in arrays}
        names = ", ".join(f"{name!r}: {made.get(name, name)}" for name in values)
        run = f"{session}, providers=[{self.provider!r}]).run(None, {{{names}}})[0]"
        return f"model = {text!r}\n{run}"

    def module_of(self, name: SubjectName) -> str:
        return "onnx"

    def _namespace(self) -> Any:
        functions = {**onnx_graph.STANDARD, "asarray": _asarray}
        return SimpleNamespace(**functions)

    def operate(self, name: str, arguments: Sequence[Any]) -> Any:
        return self.function(_OPERATORS.get(name) or SAME[name])(*arguments)

    def _device(self) -> Any:
        return None

    def versions(self) -> dict[str, str]:
        return {name: package_version(name) for name in ("onnxruntime", "onnx")}

    def dtype(self, dtype: DType | str) -> Any:
        return numpy_dtype(dtype_from_name(dtype) if isinstance(dtype, str) else dtype)

    def array(self, values: Array) -> Any:
        return onnx_graph.graph_input(values)

    def to_numpy(self, array: Any) -> Array:
        model, inputs = onnx_graph.model_of(array)
        (result,) = run_model(model, inputs, self.provider)
        return result


def run_model(
    model: onnx.ModelProto,
    inputs: Mapping[str, Array],
    provider: str,
    level: Any = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> list[Array]:
    """Return the results of a model. level: how much of the graph is rewritten before."""
    options = _quiet()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    try:
        results = session.run(None, dict(inputs))
    except errors.RuntimeException as error:
        if "is not supported" not in str(error):
            raise
        raise NotImplementedError(str(error).splitlines()[0]) from error
    return [np.asarray(result) for result in results]


def _asarray(values: Any, dtype: Any = None, copy: Any = None) -> Any:
    return onnx_graph.graph_input(np.asarray(values, dtype))


def _quiet() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return options


def _provider(device: str) -> str:
    """Return the provider of this name, with or without its last part."""
    available = onnxruntime.get_available_providers()
    if device == DEFAULT_DEVICE:
        return str(available[0])
    names = {device.lower(), f"{device.lower()}executionprovider"}
    for name in available:
        if name.lower() in names:
            return str(name)
    raise ValueError(f"got {device!r}, accepted are {', '.join(available)}")
