"""Graphs of ONNX, built by calls of functions with the names of the array API and of Tensors.

A call adds one operator; its type and shape come from the shape inference of ONNX. Only reading
runs a graph. Functions that ONNX has no operator for are missing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.subjects.array_api import SAME
from tinyref_spec.subjects.expressions import Function
from tinyref_spec.subjects.numpy_like import ACTIVATIONS, for_axes, require

OPSET = 21
_MAX = np.iinfo(np.int64).max


@dataclass(eq=False)
class GraphArray:
    """A value of a graph.

    op: the operator, or "" for an array with values. inputs: its arguments, None where one is left
    out. output: which of its `outputs` results this is. constant: an array that is a part of the
    model, and no input of it. name: what an input is called in the model; by its number if empty.
    """

    op: str
    inputs: tuple[GraphArray | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output: int = 0
    outputs: int = 1
    values: Array | None = None
    constant: bool = False
    name: str = ""
    shape: tuple[int, ...] = field(init=False)
    dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        if self.values is not None:
            self.shape, self.dtype = tuple(self.values.shape), self.values.dtype
        else:
            self.shape, self.dtype = _infer(self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> GraphArray:
        return _index(self, key if isinstance(key, tuple) else (key,))


def graph_input(values: Array, name: str = "") -> GraphArray:
    """Return an input of the graph."""
    return GraphArray("", values=np.array(values), name=name)


def constant(values: Array) -> GraphArray:
    """Return an array that is a part of the model."""
    return GraphArray("", values=np.asarray(values), constant=True)


def _indices(*numbers: int) -> GraphArray:
    return constant(np.array(numbers, np.int64))


def call(op: str, *inputs: Any, output: int = 0, outputs: int = 1, **attributes: Any) -> GraphArray:
    """Return one of the results of an operator.

    A number becomes a constant of the type of the first array.
    """
    arrays = [item for item in inputs if isinstance(item, GraphArray)]
    if not arrays:
        raise NotOfferedError(f"onnx: {op} of numbers alone")
    parts = tuple(
        item
        if item is None or isinstance(item, GraphArray)
        else constant(np.asarray(item, arrays[0].dtype))
        for item in inputs
    )
    named = {name: value for name, value in attributes.items() if value is not None}
    return GraphArray(op, parts, named, output, outputs)


# Models and their shapes


def model_of(*results: GraphArray) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the model that computes these values, and the values of its inputs by name."""
    names: dict[int, str] = {}
    nodes: list[Any] = []
    inputs: list[Any] = []
    constants: list[Any] = []
    values: dict[str, Array] = {}

    def visit(array: GraphArray) -> str:
        if id(array) in names:
            return names[id(array)]
        parts = [visit(part) if part is not None else "" for part in array.inputs]
        name = names[id(array)] = array.name or f"v{len(names)}"
        if array.values is None:
            outputs = [f"{name}_{index}" for index in range(array.outputs)]
            outputs[array.output] = name
            nodes.append(helper.make_node(array.op, parts, outputs, **array.attributes))
        elif array.constant:
            constants.append(numpy_helper.from_array(array.values, name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
            values[name] = array.values
        return name

    outputs = []
    for number, result in enumerate(results):
        last, name = visit(result), f"result{number}"
        # A graph that gives its input back needs an operator.
        nodes.append(helper.make_node("Identity", [last], [name]))
        outputs.append(helper.make_tensor_value_info(name, *_type_of(result)))
    graph = helper.make_graph(nodes, "case", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10
    return model, values


def _type_of(array: GraphArray) -> tuple[int, Sequence[int] | None]:
    if not hasattr(array, "shape"):
        return TensorProto.UNDEFINED, None
    return helper.np_dtype_to_tensor_dtype(array.dtype), array.shape


def _infer(array: GraphArray) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and type. Raises `NotOfferedError` where ONNX does not infer them."""
    model, _ = model_of(array)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        reason = str(error).splitlines()[0]
        raise NotOfferedError(f"onnx: {array.op} does not take these: {reason}") from error
    kind = inferred.graph.output[0].type.tensor_type
    shape = tuple(size.dim_value for size in kind.shape.dim)
    is_known = all(size.HasField("dim_value") for size in kind.shape.dim)
    if not kind.elem_type or not kind.HasField("shape") or not is_known:
        raise NotOfferedError(f"onnx: the shape of {array.op} depends on elements")
    return shape, helper.tensor_dtype_to_np_dtype(kind.elem_type)


# Operators


def _first_version(schema: Any) -> int:
    return int(schema.since_version)


# By name in small letters, as they are in the operator set.
_OPERATORS = {
    schema.name.lower(): schema
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=_first_version)
    if schema.since_version <= OPSET
}


def _operator(name: str, inputs: int = 0, **defaults: Any) -> Function:
    """Return the function that is one operator: `inputs` arrays, then its attributes by name.

    Underscores and the case of letters do not count. inputs: 0 for those that the operator must
    have. defaults: attributes unless a call has them.
    """
    schema = _OPERATORS[name.replace("_", "").lower()]
    inputs = inputs or schema.min_input
    attributes = sorted(schema.attributes)

    def compute(*arguments: Any, **named: Any) -> GraphArray:
        further = arguments[inputs:]
        if len(further) > len(attributes) or not named.keys() <= set(attributes):
            raise NotOfferedError(f"onnx: {schema.name} has no such argument")
        settings = {**defaults, **dict(zip(attributes, further, strict=False)), **named}
        return call(schema.name, *arguments[:inputs], **settings)

    return compute


def _bounds(part: int | slice, size: int) -> tuple[int, int, int]:
    """Return the start, the end and the step of an index of one axis."""
    if isinstance(part, int):
        return part % size, part % size + 1, 1
    start, stop, step = part.indices(size)
    # Below 0, an end counts from behind.
    return start, stop if stop >= 0 else -_MAX, step


def _index(x: GraphArray, key: tuple[Any, ...]) -> GraphArray:
    """Return the elements at integers, slices, None and `...`."""
    if not all(isinstance(part, int | slice | EllipsisType | None) for part in key):
        raise NotOfferedError("onnx: an index is of integers, slices, None and ...")
    rest = [slice(None)] * (x.ndim - sum(isinstance(part, int | slice) for part in key))
    parts: list[Any] = []
    for part in key if ... in key else (*key, ...):
        parts += rest if part is ... else [part]
    axes = [part for part in parts if part is not None]
    bounds = [_bounds(part, size) for part, size in zip(axes, x.shape, strict=True)]
    dropped = [axis for axis, part in enumerate(axes) if isinstance(part, int)]
    left = [part for part in parts if not isinstance(part, int)]
    added = [axis for axis, part in enumerate(left) if part is None]
    result = x
    if bounds:
        starts, ends, steps = (_indices(*numbers) for numbers in zip(*bounds, strict=True))
        result = call("Slice", x, starts, ends, _indices(*range(x.ndim)), steps)
    if dropped:
        result = call("Squeeze", result, _indices(*dropped))
    return call("Unsqueeze", result, _indices(*added)) if added else result


def _axes(axis: Any) -> GraphArray | None:
    return None if axis is None else _indices(*(axis if isinstance(axis, tuple) else (axis,)))


def _reduce(op: str) -> Function:
    def reduce(x: GraphArray, axis: Any = None, keepdims: Any = False) -> GraphArray:
        return call(op, x, _axes(axis), keepdims=int(keepdims))

    return reduce


def _extreme_index(op: str) -> Function:
    def reduce(x: GraphArray, axis: Any = None, keepdims: Any = False) -> GraphArray:
        flat = call("Reshape", x, _indices(-1)) if axis is None else x
        keeps = int(keepdims and axis is not None)
        return call(op, flat, axis=axis or 0, keepdims=keeps)

    return reduce


def _logical(name: str) -> Function:
    """Return the operator on bools, or on the bits of integers."""
    of_bools, of_bits = _operator(name), _operator(f"bitwise_{name}")

    def compute(x: Any, y: Any) -> GraphArray:
        is_bool = any(isinstance(item, GraphArray) and item.dtype == np.bool_ for item in (x, y))
        result: GraphArray = (of_bools if is_bool else of_bits)(x, y)
        return result

    return compute


def _remainder(x: Any, y: Any) -> GraphArray:
    if any(isinstance(item, GraphArray) and item.dtype.kind == "f" for item in (x, y)):
        raise NotOfferedError("onnx: Mod of floats has the sign of the dividend")
    return call("Mod", x, y)


def _clip(x: GraphArray, min: Any = None, max: Any = None) -> GraphArray:
    if any(isinstance(limit, GraphArray) and limit.ndim for limit in (min, max)):
        raise NotOfferedError("onnx: Clip takes one limit for all elements")
    return call("Clip", x, min, max)


def _layer_norm(x: GraphArray, axis: Any = -1, eps: float = 1e-5) -> GraphArray:
    axes = sorted(item % x.ndim for item in (axis if isinstance(axis, tuple) else (axis,)))
    first = axes[0]
    if axes != list(range(first, x.ndim)):
        raise NotOfferedError("onnx: LayerNormalization takes the last axes")
    scale = constant(np.ones(x.shape[first:], x.dtype))
    return call("LayerNormalization", x, scale, axis=first, epsilon=eps)


def _topk(x: GraphArray, k: int, dim: int = -1, largest: bool = True) -> list[GraphArray]:
    return _results(2, "TopK", x, _indices(k), axis=dim, largest=int(largest), sorted=1)


def _split(x: GraphArray, sizes: Any, dim: int = 0) -> list[GraphArray]:
    size = x.shape[dim]
    listed = [sizes] * (size // sizes) if isinstance(sizes, int) else list(sizes)
    listed += [size - sum(listed)] if sum(listed) < size else []
    return _results(len(listed), "Split", x, _indices(*listed), axis=dim)


def _results(count: int, op: str, *inputs: Any, **attributes: Any) -> list[GraphArray]:
    return [call(op, *inputs, output=i, outputs=count, **attributes) for i in range(count)]


def _pad(x: GraphArray, padding: Any, mode: str = "constant", value: float = 0) -> GraphArray:
    pairs = padding
    if not isinstance(padding[0], tuple):
        pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
        pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    sizes = _indices(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    fill = constant(np.asarray(value, x.dtype)) if mode == "constant" else None
    return call("Pad", x, sizes, fill, mode=modes[mode])


def _windows(x: GraphArray, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a convolution or a pooling, with a number for every axis."""
    stride, dilation, padding = for_axes(settings, x.ndim - 2)
    return {"strides": [*stride], "dilations": [*dilation], "pads": [*padding, *padding]}


def _conv(op: str) -> Function:
    def conv(
        x: GraphArray,
        weight: GraphArray,
        bias: Any = None,
        groups: int = 1,
        output_padding: int | None = None,
        **settings: Any,
    ) -> GraphArray:
        more = None if output_padding is None else [output_padding] * (x.ndim - 2)
        windows = _windows(x, settings)
        return call(op, x, weight, bias, group=groups, output_padding=more, **windows)

    return conv


def _pool(op: str, **counts: int) -> Function:
    def pool(
        x: GraphArray,
        sizes: tuple[int, ...],
        return_indices: bool = False,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **settings: Any,
    ) -> GraphArray:
        require("return_indices or ceil_mode", (return_indices, ceil_mode), (False, False))
        named = {name: int(count_include_pad) for name in counts}
        return call(op, x, kernel_shape=list(sizes), **named, **_windows(x, settings))

    return pool


def _scatter(x: GraphArray, dim: int, index: Any, source: Any, reduce: Any = None) -> GraphArray:
    kinds = {None: "none", "add": "add", "multiply": "mul"}
    if not isinstance(index, GraphArray) or index.shape != getattr(source, "shape", None):
        raise NotOfferedError("onnx: ScatterElements takes as many elements as the index has")
    return call("ScatterElements", x, index, source, axis=dim, reduction=kinds[reduce])


def _sizes(op: str, **attributes: int) -> Function:
    def compute(x: GraphArray, sizes: Any) -> GraphArray:
        listed = tuple(sizes) if isinstance(sizes, list) else sizes
        return call(op, x, _axes(listed), **attributes)

    return compute


def _flip(x: GraphArray, axis: Any) -> GraphArray:
    axes = axis if isinstance(axis, tuple) else (axis,)
    flipped = {number % x.ndim for number in axes}
    backwards, all_of_it = slice(None, None, -1), slice(None)
    return x[tuple(backwards if number in flipped else all_of_it for number in range(x.ndim))]


def _concat(arrays: Sequence[GraphArray], axis: int = 0) -> GraphArray:
    return call("Concat", *arrays, axis=axis)


def _stack(arrays: Sequence[GraphArray], axis: int = 0) -> GraphArray:
    return _concat([call("Unsqueeze", array, _indices(axis)) for array in arrays], axis)


def _triangle(upper: int) -> Function:
    return lambda x, k=0: call("Trilu", x, constant(np.array(k, np.int64)), upper=upper)


_OTHER_NAMES = {
    "negative": "neg",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "less": "less",
    "less_equal": "less_or_equal",
    "greater": "greater",
    "greater_equal": "greater_or_equal",
}
STANDARD: dict[str, Function] = {
    **{name: _operator(name) for name in SAME.values() if name in _OPERATORS},
    **{name: _operator(operator) for name, operator in _OTHER_NAMES.items()},
    **{f"bitwise_{name}": _logical(name) for name in ("and", "or", "xor")},
    **{name: _reduce(f"Reduce{name.capitalize()}") for name in ("sum", "prod", "mean")},
    **{name: _reduce(f"Reduce{name.capitalize()}") for name in ("max", "min")},
    "bitwise_left_shift": _operator("bitshift", direction="LEFT"),
    "bitwise_right_shift": _operator("bitshift", direction="RIGHT"),
    "bitwise_not": lambda x: call("Not" if x.dtype == np.bool_ else "BitwiseNot", x),
    "isinf": _operator("isinf"),
    "logical_not": _operator("not"),
    "remainder": _remainder,
    "maximum": _operator("max", 2),
    "minimum": _operator("min", 2),
    "where": _operator("where"),
    "clip": _clip,
    "argmax": _extreme_index("ArgMax"),
    "argmin": _extreme_index("ArgMin"),
    "cumulative_sum": lambda x, axis: call("CumSum", x, constant(np.array(axis, np.int64))),
    "astype": lambda x, dtype: call("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))),
    # Without the attribute, a size of 0 stands for the size of x.
    "reshape": _sizes("Reshape", allowzero=1),
    "permute_dims": lambda x, axes: call("Transpose", x, perm=list(axes)),
    "broadcast_to": _sizes("Expand"),
    "squeeze": lambda x, axis: call("Squeeze", x, _axes(axis)),
    "flip": _flip,
    "expand_dims": lambda x, axis: call("Unsqueeze", x, _axes(axis)),
    "concat": _concat,
    "stack": _stack,
    "tile": _sizes("Tile"),
    "tril": _triangle(0),
    "triu": _triangle(1),
}
# In the words of Tensors. Selu is missing: its constants have more digits in ONNX.
OWN: dict[str, Function] = {
    **{name: _operator(name) for name in ACTIVATIONS if name.replace("_", "") in _OPERATORS},
    "gelu": _operator("gelu", approximate="tanh"),
    "hardsigmoid": _operator("hardsigmoid", alpha=1 / 6, beta=0.5),
    "logsumexp": _reduce("ReduceLogSumExp"),
    "fmod": _operator("mod", fmod=1),
    "layernorm": _layer_norm,
    "topk": _topk,
    "pad": _pad,
    "conv2d": _conv("Conv"),
    "conv_transpose2d": _conv("ConvTranspose"),
    "max_pool2d": _pool("MaxPool"),
    "avg_pool2d": _pool("AveragePool", count_include_pad=1),
    "gather": lambda x, dim, index: call("GatherElements", x, index, axis=dim),
    "scatter": _scatter,
    "split": _split,
    "einsum": lambda formula, *arrays: call("Einsum", *arrays, equation=formula),
}
