"""Graphs of ONNX, built by calls of functions with the names of the array API and of Tensors.

A call adds one operator; its type and shape come from the shape inference of ONNX. Only reading
runs a graph. Functions that ONNX has no operator for are missing here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError

OPSET = 21
_MAX = np.iinfo(np.int64).max


@dataclass(eq=False)
class GraphArray:
    """A value of a graph.

    op: the operator, or "" for an array with values. inputs: its arguments, None where one is left
    out. output: which of its `outputs` results this is. constant: an array that is a part of the
    model, and no input of it.
    """

    op: str
    inputs: tuple[GraphArray | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output: int = 0
    outputs: int = 1
    values: Array | None = None
    constant: bool = False
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

    def __neg__(self) -> GraphArray:
        return call("Neg", self)

    def __ne__(self, other: object) -> Any:
        raise NotOfferedError("onnx: has no operator for unequal elements")

    def __floordiv__(self, other: object) -> Any:
        raise NotOfferedError("onnx: has no operator for quotients rounded down")

    def __invert__(self) -> GraphArray:
        return call("Not" if self.dtype == np.bool_ else "BitwiseNot", self)


def graph_input(values: Array) -> GraphArray:
    """Return an input of the graph."""
    return GraphArray("", values=np.array(values))


def _constant(values: Array) -> GraphArray:
    return GraphArray("", values=np.asarray(values), constant=True)


def _places(*numbers: int) -> GraphArray:
    return _constant(np.array(numbers, np.int64))


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
        else _constant(np.asarray(item, arrays[0].dtype))
        for item in inputs
    )
    named = {name: value for name, value in attributes.items() if value is not None}
    return GraphArray(op, parts, named, output, outputs)


# Models and their shapes


def model_of(result: GraphArray) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the model that computes a value, and the values of its inputs by name."""
    names: dict[int, str] = {}
    nodes: list[Any] = []
    inputs: list[Any] = []
    constants: list[Any] = []
    values: dict[str, Array] = {}

    def visit(array: GraphArray) -> str:
        if id(array) in names:
            return names[id(array)]
        parts = [visit(part) if part is not None else "" for part in array.inputs]
        name = names[id(array)] = f"v{len(names)}"
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

    last = visit(result)
    # A graph that gives its input back needs an operator.
    nodes.append(helper.make_node("Identity", [last], ["result"]))
    output = helper.make_tensor_value_info("result", *_type_of(result))
    graph = helper.make_graph(nodes, "case", inputs, [output], constants)
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


def _index(x: GraphArray, key: tuple[Any, ...]) -> GraphArray:
    """Return the elements at integers, slices, None and `...`."""
    if not all(isinstance(part, int | slice | EllipsisType | None) for part in key):
        raise NotOfferedError("onnx: an index is of integers, slices, None and ...")
    taken = sum(isinstance(part, int | slice) for part in key)
    if ... not in key:
        key = (*key, ...)
    parts: list[Any] = []
    for part in key:
        parts += [slice(None)] * (x.ndim - taken) if part is ... else [part]
    slices: list[tuple[int, int, int]] = []
    dropped: list[int] = []
    added: list[int] = []
    axis = position = 0
    for part in parts:
        if part is None:
            added.append(position)
            position += 1
            continue
        size = x.shape[axis]
        if isinstance(part, int):
            first = part % size
            slices.append((first, first + 1, 1))
            dropped.append(axis)
        else:
            start, stop, step = part.indices(size)
            # Below 0, an end counts from behind.
            end = stop if stop >= 0 else -_MAX
            slices.append((start, end, step))
            position += 1
        axis += 1
    result = x
    if slices:
        starts, ends, steps = (_places(*numbers) for numbers in zip(*slices, strict=True))
        result = call("Slice", x, starts, ends, _places(*range(x.ndim)), steps)
    if dropped:
        result = call("Squeeze", result, _places(*dropped))
    return call("Unsqueeze", result, _places(*added)) if added else result


def _axes(axis: Any) -> GraphArray | None:
    return None if axis is None else _places(*(axis if isinstance(axis, tuple) else (axis,)))


def _reduce(op: str) -> Callable[..., GraphArray]:
    def reduce(x: GraphArray, axis: Any = None, keepdims: Any = False) -> GraphArray:
        return call(op, x, _axes(axis), keepdims=int(keepdims))

    return reduce


def _extreme_place(op: str) -> Callable[..., GraphArray]:
    def reduce(x: GraphArray, axis: Any = None, keepdims: Any = False) -> GraphArray:
        flat = call("Reshape", x, _places(-1)) if axis is None else x
        keeps = int(keepdims and axis is not None)
        return call(op, flat, axis=axis or 0, keepdims=keeps)

    return reduce


def _unary(op: str, **attributes: str) -> Callable[..., GraphArray]:
    """Return the function of one array; attributes: those of the operator, by argument."""

    def compute(x: GraphArray, *arguments: Any, **named: Any) -> GraphArray:
        if len(arguments) > len(attributes) or not named.keys() <= attributes.keys():
            raise NotOfferedError(f"onnx: {op} has no such argument")
        settings = dict(zip(attributes.values(), arguments, strict=False))
        settings |= {attributes[name]: value for name, value in named.items()}
        return call(op, x, **settings)

    return compute


def _binary(op: str, **attributes: Any) -> Callable[..., GraphArray]:
    def compute(x: Any, y: Any) -> GraphArray:
        return call(op, x, y, **attributes)

    return compute


def _logical(op: str) -> Callable[..., GraphArray]:
    """Return the operator on bools, or on the bits of integers."""

    def compute(x: Any, y: Any) -> GraphArray:
        is_bool = any(isinstance(item, GraphArray) and item.dtype == np.bool_ for item in (x, y))
        return call(op if is_bool else f"Bitwise{op}", x, y)

    return compute


def _shift(direction: str) -> Callable[..., GraphArray]:
    return _binary("BitShift", direction=direction)


def _remainder(x: Any, y: Any) -> GraphArray:
    if any(isinstance(item, GraphArray) and item.dtype.kind == "f" for item in (x, y)):
        raise NotOfferedError("onnx: Mod of floats has the sign of the dividend")
    return call("Mod", x, y)


def _clip(x: GraphArray, min: Any = None, max: Any = None) -> GraphArray:
    if any(isinstance(limit, GraphArray) and limit.ndim for limit in (min, max)):
        raise NotOfferedError("onnx: Clip takes one limit for all elements")
    return call("Clip", x, min, max)


def _softmax(op: str) -> Callable[..., GraphArray]:
    return lambda x, axis=-1: call(op, x, axis=axis)


def _one_by_one(op: str) -> Callable[..., GraphArray]:
    return lambda x, axis: call(op, x, _constant(np.array(axis, np.int64)))


def _gelu(x: GraphArray, approximate: str = "tanh") -> GraphArray:
    return call("Gelu", x, approximate=approximate)


def _layer_norm(x: GraphArray, axis: Any = -1, eps: float = 1e-5) -> GraphArray:
    axes = sorted(item % x.ndim for item in (axis if isinstance(axis, tuple) else (axis,)))
    first = axes[0]
    if axes != list(range(first, x.ndim)):
        raise NotOfferedError("onnx: LayerNormalization takes the last axes")
    scale = _constant(np.ones(x.shape[first:], x.dtype))
    return call("LayerNormalization", x, scale, axis=first, epsilon=eps)


def _topk(x: GraphArray, k: int, dim: int = -1, largest: bool = True) -> list[GraphArray]:
    settings = {"axis": dim, "largest": int(largest), "sorted": 1}
    return [call("TopK", x, _places(k), output=output, outputs=2, **settings) for output in (0, 1)]


def _pad(x: GraphArray, padding: Any, mode: str = "constant", value: float = 0) -> GraphArray:
    pairs = padding
    if not isinstance(padding[0], tuple):
        pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
        pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    sizes = _places(*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    fill = _constant(np.asarray(value, x.dtype)) if mode == "constant" else None
    return call("Pad", x, sizes, fill, mode=modes[mode])


def _each_axis(value: Any, count: int) -> list[int]:
    return [value] * count if isinstance(value, int) else list(value)


def _window_settings(x: GraphArray, settings: Mapping[str, Any]) -> dict[str, Any]:
    count = x.ndim - 2
    padding = _each_axis(settings.get("padding", 0), count)
    if len(padding) != count:
        raise NotOfferedError("onnx: padding on one side is not built here")
    return {
        "strides": _each_axis(settings.get("stride", 1), count),
        "pads": [*padding, *padding],
        "dilations": _each_axis(settings.get("dilation", 1), count),
    }


def _conv(x: GraphArray, weight: GraphArray, bias: Any = None, **settings: Any) -> GraphArray:
    windows = _window_settings(x, settings)
    return call("Conv", x, weight, bias, group=settings.get("groups", 1), **windows)


def _conv_transpose(x: GraphArray, weight: GraphArray, **settings: Any) -> GraphArray:
    windows = _window_settings(x, settings)
    more = _each_axis(settings.get("output_padding", 0), x.ndim - 2)
    groups = settings.get("groups", 1)
    return call("ConvTranspose", x, weight, output_padding=more, group=groups, **windows)


def _pool(op: str) -> Callable[..., GraphArray]:
    def pool(x: GraphArray, sizes: tuple[int, ...], **settings: Any) -> GraphArray:
        if settings.pop("return_indices", False) or settings.get("ceil_mode"):
            raise NotOfferedError("onnx: the pooling is defined otherwise there")
        windows = _window_settings(x, settings)
        if op == "AveragePool":
            windows["count_include_pad"] = int(settings.get("count_include_pad", True))
        return call(op, x, kernel_shape=list(sizes), **windows)

    return pool


def _scatter(x: GraphArray, dim: int, index: Any, source: Any, reduce: Any = None) -> GraphArray:
    kinds = {None: "none", "add": "add", "multiply": "mul"}
    if not isinstance(index, GraphArray) or index.shape != getattr(source, "shape", None):
        raise NotOfferedError("onnx: ScatterElements takes as many elements as the index has")
    return call("ScatterElements", x, index, source, axis=dim, reduction=kinds[reduce])


def _split(x: GraphArray, sizes: Any, dim: int = 0) -> list[GraphArray]:
    size = x.shape[dim]
    listed = [sizes] * (size // sizes) if isinstance(sizes, int) else list(sizes)
    listed += [size - sum(listed)] if sum(listed) < size else []
    count = len(listed)
    return [
        call("Split", x, _places(*listed), output=output, outputs=count, axis=dim)
        for output in range(count)
    ]


def _astype(x: GraphArray, dtype: Any) -> GraphArray:
    return call("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _shape_op(op: str) -> Callable[..., GraphArray]:
    return lambda x, sizes: call(op, x, _places(*_each_axis(sizes, 1)))


def _concat(arrays: Sequence[GraphArray], axis: int = 0) -> GraphArray:
    return call("Concat", *arrays, axis=axis)


def _stack(arrays: Sequence[GraphArray], axis: int = 0) -> GraphArray:
    return _concat([call("Unsqueeze", array, _places(axis)) for array in arrays], axis)


def _triangle(upper: int) -> Callable[..., GraphArray]:
    return lambda x, k=0: call("Trilu", x, _constant(np.array(k, np.int64)), upper=upper)


_SAME_NAMES = (
    *("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "abs", "round", "floor"),
    *("ceil", "sign", "reciprocal", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
)
STANDARD: dict[str, Callable[..., Any]] = {
    **{name: _unary(name.capitalize()) for name in _SAME_NAMES},
    "isnan": _unary("IsNaN"),
    "isinf": _unary("IsInf"),
    "bitwise_not": operator.invert,
    "logical_not": _unary("Not"),
    "add": _binary("Add"),
    "subtract": _binary("Sub"),
    "multiply": _binary("Mul"),
    "divide": _binary("Div"),
    "pow": _binary("Pow"),
    "maximum": _binary("Max"),
    "minimum": _binary("Min"),
    "matmul": _binary("MatMul"),
    "equal": _binary("Equal"),
    "less": _binary("Less"),
    "less_equal": _binary("LessOrEqual"),
    "greater": _binary("Greater"),
    "greater_equal": _binary("GreaterOrEqual"),
    "bitwise_and": _logical("And"),
    "bitwise_or": _logical("Or"),
    "bitwise_xor": _logical("Xor"),
    "bitwise_left_shift": _shift("LEFT"),
    "bitwise_right_shift": _shift("RIGHT"),
    "remainder": _remainder,
    "where": lambda condition, x, y: call("Where", condition, x, y),
    "clip": _clip,
    "sum": _reduce("ReduceSum"),
    "prod": _reduce("ReduceProd"),
    "mean": _reduce("ReduceMean"),
    "max": _reduce("ReduceMax"),
    "min": _reduce("ReduceMin"),
    "argmax": _extreme_place("ArgMax"),
    "argmin": _extreme_place("ArgMin"),
    "cumulative_sum": _one_by_one("CumSum"),
    "astype": _astype,
    "reshape": _shape_op("Reshape"),
    "permute_dims": lambda x, axes: call("Transpose", x, perm=list(axes)),
    "broadcast_to": _shape_op("Expand"),
    "squeeze": lambda x, axis: call("Squeeze", x, _axes(axis)),
    "expand_dims": lambda x, axis: call("Unsqueeze", x, _axes(axis)),
    "concat": _concat,
    "stack": _stack,
    "tile": _shape_op("Tile"),
    "tril": _triangle(0),
    "triu": _triangle(1),
}
# In the words of Tensors. Selu is missing: its constants have more digits in ONNX.
OWN: dict[str, Callable[..., Any]] = {
    **{name: _unary(name.capitalize()) for name in ("erf", "relu", "sigmoid", "mish")},
    "elu": _unary("Elu", alpha="alpha"),
    "celu": _unary("Celu", alpha="alpha"),
    "softplus": _unary("Softplus"),
    "softsign": _unary("Softsign"),
    "hardswish": _unary("HardSwish"),
    "leaky_relu": lambda x, neg_slope=0.01: call("LeakyRelu", x, alpha=neg_slope),
    "hardsigmoid": lambda x, alpha=1 / 6, beta=0.5: call("HardSigmoid", x, alpha=alpha, beta=beta),
    "gelu": _gelu,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "logsumexp": _reduce("ReduceLogSumExp"),
    "fmod": _binary("Mod", fmod=1),
    "layernorm": _layer_norm,
    "topk": _topk,
    "pad": _pad,
    "conv2d": _conv,
    "conv_transpose2d": _conv_transpose,
    "max_pool2d": _pool("MaxPool"),
    "avg_pool2d": _pool("AveragePool"),
    "gather": lambda x, dim, index: call("GatherElements", x, index, axis=dim),
    "scatter": _scatter,
    "split": _split,
    "einsum": lambda formula, *arrays: call("Einsum", *arrays, equation=formula),
}
_OPERATORS = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "pow"},
    **{"mod": "remainder", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or"},
    **{"xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"},
    **{"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal"},
}


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(y, x)


for _name, _standard in _OPERATORS.items():
    setattr(GraphArray, f"__{_name}__", STANDARD[_standard])
    setattr(GraphArray, f"__r{_name}__", _swapped(STANDARD[_standard]))
