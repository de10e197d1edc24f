"""Build programs as ONNX graphs: run by ONNX Runtime, and written in the text form of ONNX.

The optimiser of ONNX Runtime is its compiler: without it, a graph runs node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import onnx
import onnxruntime

from tinyref_spec.bits import Array
from tinyref_spec.subjects.onnx_graph import OWN, STANDARD, constant, graph_input, model_of
from tinyref_spec.subjects.onnx_library import OnnxSubject, run_model
from tinyref_spec.subjects.protocol import not_offered

FUNCTIONS = SimpleNamespace(**{**OWN, **STANDARD, "constant": constant})
PROVIDER = "CPUExecutionProvider"
_LEVELS = onnxruntime.GraphOptimizationLevel
Model = tuple[onnx.ModelProto, dict[str, Array]]
Run = Callable[..., list[Array]]


def optimised(function: Callable[..., Sequence[Any]]) -> Run:
    """Return the function of arrays that runs the graph of `function` after all rewrites."""
    return lambda *arrays: _run(function, arrays, _LEVELS.ORT_ENABLE_ALL)


def unoptimised(function: Callable[..., Sequence[Any]]) -> Run:
    """Return the function of arrays that runs the graph of `function` as it is."""
    return lambda *arrays: _run(function, arrays, _LEVELS.ORT_DISABLE_ALL)


def _run(
    function: Callable[..., Sequence[Any]], arrays: Sequence[Array], level: Any
) -> list[Array]:
    with not_offered("onnxruntime", *OnnxSubject.refusals):
        model, inputs = graph_of(function, arrays)
        return run_model(model, inputs, PROVIDER, level)


def graph_of(function: Callable[..., Sequence[Any]], arrays: Sequence[Array]) -> Model:
    """Return the model of a function of graph inputs, and the arrays that it reads by name."""
    return model_of(*function(*map(graph_input, arrays)))


def model_text(model: onnx.ModelProto) -> str:
    """Return a model in the text form of ONNX, in one line."""
    return " ".join(onnx.printer.to_text(model).split())
