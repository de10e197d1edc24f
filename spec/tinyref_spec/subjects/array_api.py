"""Libraries of the Python array API standard (data-apis.org/array-api, 2024.12).

The expressions of the tables are evaluated over `ArrayTensor`, which calls the function of the
standard for the same computation. It lacks functions that the standard would compose from others,
such as a softmax: a composition would judge this module and not the library.
"""

from __future__ import annotations

import copy
import functools
import importlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any

import ml_dtypes
import numpy as np

from tinyref.dtype import DType, dtype_from_name, dtypes, from_numpy_dtype
from tinyref_spec.bits import Array
from tinyref_spec.case import NotOfferedError
from tinyref_spec.reproducer import Question, Wording
from tinyref_spec.subjects.expressions import (
    ExpressionSubject,
    package_version,
    to_numpy,
    without_bfloat16,
)
from tinyref_spec.subjects.name import DEFAULT_DEVICE, SubjectName
from tinyref_spec.subjects.transcript import (
    MODULE,
    Named,
    RaisingCallError,
    WritingNamespace,
    WrittenArray,
)

# Methods of a Tensor that are a function of the standard with the same arguments.
SAME: Mapping[str, str] = {
    **{
        name: name
        for name in (
            "sqrt",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "exp",
            "log",
            "log2",
            "abs",
            "square",
            "round",
            "floor",
            "ceil",
            "trunc",
            "sign",
            "reciprocal",
            "copysign",
            "maximum",
            "minimum",
            "isnan",
            "isfinite",
            "bitwise_not",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "zeros_like",
            "ones_like",
            "full_like",
            "log10",
            "logaddexp",
        )
    },
    **{"add": "add", "sub": "subtract", "mul": "multiply", "pow": "pow", "dot": "matmul"},
    **{"eq": "equal", "ne": "not_equal", "lshift": "bitwise_left_shift"},
    "rshift": "bitwise_right_shift",
}
WIDE_SUMS = "integers are added up and multiplied in the default integer type of the standard"
INDEX_NOTE = "indices have the default index type of the standard"
# How a script reads the arrays of a module that `np.asarray` does not read.
_READ = {"ndonnx": "({actual}).unwrap_numpy()", "sparse": "({actual}).todense()"}
# The gradients that a script asks a subject for.
_GRADIENTS = re.compile(
    r"subject\.gradients_of\(lambda (?P<names>[^:]*): (?P<form>.*), \[(?P=names)\], g\)"
    r"\[(?P<index>\d+)\]"
)
Key = int | slice | EllipsisType | None


def _converting(name: str) -> Callable[[ArrayTensor], ArrayTensor]:
    """Return the method that casts to the type of this name."""
    return lambda self: self.cast(name)


def _reducing(function: str, note: str = "", **settings: Any) -> Callable[..., ArrayTensor]:
    """Return the method that is a function over an axis; settings: its further arguments."""

    def reduce(
        self: ArrayTensor, axis: Any = None, keepdim: Any = False, **given: Any
    ) -> ArrayTensor:
        named = {**settings, **given}
        return self._call(function, self, axis=axis, keepdims=keepdim, note=note, **named)

    return reduce


class ArrayTensor:
    """An array with the methods of a Tensor, as far as the standard has the function."""

    def __init__(self, library: ArraySubject, array: Any, note: str = "") -> None:
        self.library = library
        self.array = array
        self.note = note

    def __getattr__(self, name: str) -> Callable[..., ArrayTensor]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.library.own:
            return functools.partial(self.library.call_own, name, self)
        if name not in SAME:
            raise NotOfferedError(f"{self.library.module}: the array API has no {name}")
        return functools.partial(self._call, SAME[name], self)

    def _call(self, function: str, *arguments: Any, note: str = "", **named: Any) -> ArrayTensor:
        settings = {name: plain(value) for name, value in named.items()}
        result = self.library.function(function)(*map(plain, arguments), **settings)
        return type(self)(self.library, result, note)

    # Properties and values

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numpy(self) -> Array:
        return self.library.elements(self)

    def tolist(self) -> object:
        return self.numpy().tolist()

    def item(self) -> object:
        return self.numpy().item()

    def clone(self) -> ArrayTensor:
        return self._call("asarray", self, copy=True)

    def cast(self, dtype: DType | str) -> ArrayTensor:
        return self._call("astype", self, self.library.dtype(dtype))

    half = _converting("float16")
    float = _converting("float32")
    double = _converting("float64")
    long = _converting("int64")
    short = _converting("int16")
    int = _converting("int32")
    bool = _converting("bool")

    # Where the arguments differ

    def matmul(self, other: Any, reverse: Any = False) -> ArrayTensor:
        return self._call("matmul", *((other, self) if reverse else (self, other)))

    def div(self, other: Any, rounding_mode: str | None = None) -> ArrayTensor:
        if rounding_mode is not None:
            raise NotOfferedError(f"{self.library.module}: the array API divides without a mode")
        return self._call("divide", self, other)

    def where(self, x: Any, y: Any) -> ArrayTensor:
        return self._call("where", self, x, y)

    def clamp(self, min_: Any = None, max_: Any = None) -> ArrayTensor:
        return self._call("clip", self, min=min_, max=max_)

    clip = clamp

    def logical_not(self) -> ArrayTensor:
        if not self.library.has_type(self.array, dtypes.bool):
            raise NotOfferedError(f"{self.library.module}: its logical_not takes bools alone")
        return self._call("logical_not", self)

    def isinf(self, detect_positive: Any = True, detect_negative: Any = True) -> ArrayTensor:
        if not (detect_positive and detect_negative):
            raise NotOfferedError(f"{self.library.module}: its isinf takes both infinities")
        return self._call("isinf", self)

    # Reductions

    sum = _reducing("sum", WIDE_SUMS)
    prod = _reducing("prod", WIDE_SUMS)
    mean = _reducing("mean")
    any = _reducing("any")
    all = _reducing("all")
    var = _reducing("var", correction=1)
    std = _reducing("std", correction=1)
    argmax = _reducing("argmax", INDEX_NOTE)
    argmin = _reducing("argmin", INDEX_NOTE)

    def max(self, axis: Any = None, keepdim: Any = False) -> ArrayTensor:
        return self._extreme("max", axis, keepdim)

    def min(self, axis: Any = None, keepdim: Any = False) -> ArrayTensor:
        return self._extreme("min", axis, keepdim)

    def _extreme(self, name: str, axis: Any, keepdim: Any) -> ArrayTensor:
        if 0 in self.shape:
            raise NotOfferedError(f"{self.library.module}: the {name} of no elements is left open")
        return self._call(name, self, axis=axis, keepdims=keepdim)

    def cumsum(self, axis: Any = 0) -> ArrayTensor:
        return self._call("cumulative_sum", self, axis=axis, note=WIDE_SUMS)

    def cumprod(self, axis: Any) -> ArrayTensor:
        return self._call("cumulative_prod", self, axis=axis, note=WIDE_SUMS)

    def sort(self, dim: Any = -1, descending: Any = False) -> tuple[ArrayTensor, ArrayTensor]:
        return self._sorted("sort", dim, descending), self.argsort(dim, descending)

    def argsort(self, dim: Any = -1, descending: Any = False) -> ArrayTensor:
        return self._sorted("argsort", dim, descending, INDEX_NOTE)

    def _sorted(self, name: str, dim: Any, descending: Any, note: str = "") -> ArrayTensor:
        # Stable by default in the standard, and not everywhere.
        order = {"descending": True} if descending else {}
        return self._call(name, self, note=note, axis=dim, stable=True, **order)

    # Shapes

    def reshape(self, *shape: Any) -> ArrayTensor:
        return self._call("reshape", self, _tuple(shape))

    view = reshape

    def flatten(self, start: Any = 0, end: Any = -1) -> ArrayTensor:
        stop = end % max(self.ndim, 1) + 1
        joined = math.prod(self.shape[start:stop])
        return self.reshape((*self.shape[:start], joined, *self.shape[stop:]))

    def unflatten(self, dim: Any, sizes: tuple[Any, ...]) -> ArrayTensor:
        axis = dim % self.ndim
        return self.reshape((*self.shape[:axis], *sizes, *self.shape[axis + 1 :]))

    def permute(self, *axes: Any) -> ArrayTensor:
        return self._call("permute_dims", self, _tuple(axes))

    def transpose(self, first: Any = 1, second: Any = 0) -> ArrayTensor:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(*order)

    @property
    def T(self) -> ArrayTensor:  # noqa: N802
        return self.transpose()

    def expand(self, *shape: Any) -> ArrayTensor:
        return self._call("broadcast_to", self, _tuple(shape))

    def flip(self, axis: Any) -> ArrayTensor:
        return self._call("flip", self, axis=axis)

    def squeeze(self, dim: Any = None) -> ArrayTensor:
        if dim is None or self.shape[dim] != 1:
            raise NotOfferedError(f"{self.library.module}: its squeeze takes axes of size 1 alone")
        return self._call("squeeze", self, axis=dim)

    def unsqueeze(self, dim: Any) -> ArrayTensor:
        return self._call("expand_dims", self, axis=dim)

    def cat(self, *others: Any, dim: Any = 0) -> ArrayTensor:
        return self._call("concat", [self, *others], axis=dim)

    def stack(self, *others: Any, dim: Any = 0) -> ArrayTensor:
        return self._call("stack", [self, *others], axis=dim)

    def repeat(self, *times: Any) -> ArrayTensor:
        return self._call("tile", self, _tuple(times))

    def repeat_interleave(self, repeats: Any, dim: Any = None) -> ArrayTensor:
        return self._call("repeat", self, repeats, axis=dim)

    def roll(self, shift: Any, axis: Any = None) -> ArrayTensor:
        return self._call("roll", self, shift, axis=axis)

    def tril(self, diagonal: Any = 0) -> ArrayTensor:
        return self._call("tril", self, k=diagonal)

    def triu(self, diagonal: Any = 0) -> ArrayTensor:
        return self._call("triu", self, k=diagonal)

    def meshgrid(self, *others: Any, indexing: str = "ij") -> list[ArrayTensor]:
        arrays = map(plain, (self, *others))
        grids = self.library.function("meshgrid")(*arrays, indexing=indexing)
        return [type(self)(self.library, grid) for grid in grids]

    def __getitem__(self, key: Any) -> ArrayTensor:
        """Index by integers, slices, None and `...`, or by one mask."""
        if isinstance(key, ArrayTensor):
            if not self.library.has_type(key.array, dtypes.bool):
                raise NotOfferedError(f"{self.library.module}: the standard takes by a function")
            if not self.library.indexes_by_masks:
                raise NotOfferedError(f"{self.library.module}: says that it has no masks as index")
            return type(self)(self.library, self.array[key.array])
        parts = key if isinstance(key, tuple) else (key,)
        has_bool = any(isinstance(part, bool) for part in parts)
        is_basic = all(isinstance(part, int | slice | EllipsisType | None) for part in parts)
        if has_bool or not is_basic:
            raise NotOfferedError(
                f"{self.library.module}: the array API indexes by integers, slices, None and ..."
            )
        taken = sum(isinstance(part, int | slice) for part in parts)
        if taken < self.ndim and ... not in parts:
            parts = (*parts, ...)
        return type(self)(self.library, self.array[parts])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NotOfferedError(f"{self.library.module}: the array API need not write into arrays")


def _with_operator(name: str, swapped: bool) -> Callable[..., ArrayTensor]:
    def apply(self: ArrayTensor, *others: Any) -> ArrayTensor:
        operands = [plain(self), *map(plain, others)]
        result = self.library.operate(name, operands[::-1] if swapped else operands)
        return type(self)(self.library, result)

    return apply


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_SWAPPED = (*_ARITHMETIC, "and", "or", "xor", "lshift", "rshift")
for _name in (*_SWAPPED, "neg", "invert", "lt", "gt", "le", "ge", "eq", "ne"):
    setattr(ArrayTensor, f"__{_name}__", _with_operator(_name, swapped=False))
for _name in _SWAPPED:
    setattr(ArrayTensor, f"__r{_name}__", _with_operator(_name, swapped=True))


# Types of Python's numbers; numpy's are wider.
_DEFAULTS = {dtypes.int64: dtypes.int32, dtypes.float64: dtypes.float32}


def _type_of_number(value: object) -> DType:
    own = from_numpy_dtype(np.asarray(value).dtype)
    return _DEFAULTS.get(own, own)


class _Maker:
    """`Tensor` of the expressions: makes arrays from numbers."""

    def __init__(self, library: ArraySubject) -> None:
        self.library = library

    def __call__(self, data: Any, device: Any = None, dtype: Any = None) -> ArrayTensor:
        """Return an array with its own type, or numbers with the type that Tensors have."""
        if isinstance(data, bytes):
            raise NotOfferedError(f"{self.library.module}: the array API reads no bytes")
        elements = np.asarray(data)
        is_array = isinstance(data, np.ndarray)
        own = from_numpy_dtype(elements.dtype) if is_array else _type_of_number(elements)
        named = own if dtype is None else dtype
        return self._make("asarray", without_bfloat16(elements.copy()), dtype=named)

    def _make(
        self, function: str, *arguments: Any, dtype: Any = dtypes.float32, device: Any = None
    ) -> ArrayTensor:
        where = {} if self.library.device is None else {"device": self.library.device}
        made = self.library.function(function)(*arguments, dtype=self.library.dtype(dtype), **where)
        return self.library.tensor_class(self.library, made)

    def zeros(self, *shape: Any, **named: Any) -> ArrayTensor:
        return self._make("zeros", _tuple(shape), **named)

    def ones(self, *shape: Any, **named: Any) -> ArrayTensor:
        return self._make("ones", _tuple(shape), **named)

    def full(self, shape: Any, value: Any, dtype: Any = None, **named: Any) -> ArrayTensor:
        return self._make("full", shape, value, dtype=dtype or _type_of_number(value), **named)

    def eye(self, *sizes: Any, **named: Any) -> ArrayTensor:
        return self._make("eye", *sizes, **named)

    def arange(self, *ends: Any, dtype: Any = dtypes.int32, **named: Any) -> ArrayTensor:
        return self._make("arange", *ends, dtype=dtype, **named)

    def linspace(self, start: Any, stop: Any, steps: Any, **named: Any) -> ArrayTensor:
        return self._make("linspace", start, stop, steps, **named)

    def __getattr__(self, name: str) -> Any:
        """Return a function of the library that takes tensors, such as `einsum`."""
        if name not in self.library.own:
            raise NotOfferedError(f"{self.library.module}: the array API has no {name}")
        return functools.partial(self.library.call_own, name)


class ArraySubject(ExpressionSubject):
    """A module with the functions of the standard, on one of its devices."""

    tensor_class: type[ArrayTensor] = ArrayTensor
    # Types outside of the standard: a library may refuse any function of them.
    optional_types = frozenset({dtypes.float16, dtypes.bfloat16})
    no_gradients = "the array API has no gradients"
    # Functions of the library that are not in the standard, over its arrays, by the method.
    own: Mapping[str, Callable[..., Any]] = {}
    # Of those, the functions whose result has another integer type, with the reason.
    own_notes: Mapping[str, str] = {}
    # The compiler of a compiled form, as scripts call it.
    script_compiler = ""

    def __init__(self, name: SubjectName) -> None:
        super().__init__(name)
        self.module = self.module_of(name)
        self.namespace: Any = self._namespace()
        self.device = self._device()
        self.tensor(np.zeros(1, np.float32)).numpy()

    def module_of(self, name: SubjectName) -> str:
        """Return the name of the module that has the functions."""
        return name.array_module

    def _namespace(self) -> Any:
        """Return the object that has the functions of the standard by name."""
        return importlib.import_module(self.module)

    @property
    def library(self) -> str:
        return self.module

    def _device(self) -> Any:
        """Return the device of this name; the text itself, for the library to refuse, if none."""
        if self.device_name == DEFAULT_DEVICE:
            return None
        known = self.namespace.__array_namespace_info__().devices()
        return next(
            (device for device in known if str(device) == self.device_name), self.device_name
        )

    @functools.cached_property
    def dtypes(self) -> frozenset[DType]:
        """Return the types that the module declares, and others of its names that keep elements."""
        declared = set(self._info("dtypes", device=self.device))
        return frozenset(
            dtype for dtype in dtypes.all if dtype.name in declared or self._keeps(dtype)
        )

    @property
    def indexes_by_masks(self) -> bool:
        """Return False if the module says that it has no boolean indexing."""
        return bool(self._info("capabilities").get("boolean indexing", True))

    def _info(self, name: str, **arguments: Any) -> Mapping[str, Any]:
        """Return a part of the module's namespace info; empty if it has none."""
        try:
            inspect = self.namespace.__array_namespace_info__()
            part: Mapping[str, Any] = getattr(inspect, name)(**arguments)
        except (AttributeError, TypeError):
            return {}
        return part

    def versions(self) -> dict[str, str]:
        """Return the versions of the module's package and of the package that has its arrays."""
        array = self.array(np.zeros(1, np.float32))
        modules = (self.module, type(array).__module__)
        packages = [name.partition(".")[0] for name in modules]
        return {name: package_version(name) for name in dict.fromkeys(packages)}

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the standard. Raises `NotOfferedError` if the module lacks it."""
        function: Callable[..., Any] | None = getattr(self.namespace, name, None)
        if function is None:
            raise NotOfferedError(f"{self.module}: has no {name} of the array API")
        return function

    def operate(self, name: str, arguments: Sequence[Any]) -> Any:
        """Return the value of an operator of Python."""
        return getattr(operator, f"__{name}__")(*arguments)

    def call_own(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Return the result of a function of `own`, wrapped."""
        settings = {key: plain(value) for key, value in named.items()}
        return self._wrapped(self.own[name](*map(plain, arguments), **settings), name)

    def _wrapped(self, result: Any, name: str) -> Any:
        """Return a tensor for an array, and a list or tuple of them for a list or tuple."""
        if isinstance(result, list | tuple):
            return type(result)(self._wrapped(item, name) for item in result)
        return self.tensor_class(self, result, self.own_notes.get(name, ""))

    def dtype(self, dtype: DType | str) -> Any:
        """Return the module's type. Raises `NotOfferedError` if it has none of that name."""
        name = dtype_from_name(dtype).name if isinstance(dtype, str) else dtype.name
        if name == "bool" and not hasattr(self.namespace, name):
            # The name in numpy before the standard.
            name = "bool_"
        return self.function(name)

    def has_type(self, array: Any, dtype: DType) -> bool:
        """Return True if an array has this type."""
        try:
            return bool(array.dtype == self.dtype(dtype))
        except NotOfferedError:
            return False

    @property
    def names(self) -> Mapping[str, Any]:
        return {"Tensor": self.maker}

    @property
    def wording(self) -> Wording:
        where = f", device={self.script_device}" if self.script_device else ""
        imports = (*self.name.imports, *self.script_imports)
        return Wording(
            (*imports, f"{MODULE}.zeros(1{where})") if where else imports,
            f"{MODULE}.asarray({{array}}, dtype={MODULE}.{{name}}{where})",
            _READ.get(self.module, "np.asarray({actual})"),
            widen=f"{MODULE}.asarray({{actual}}, dtype={MODULE}.float32)",
            translate=self._translate,
            bool_name="bool" if hasattr(self.namespace, "bool") else "bool_",
            package=self.name.install(self.module.partition(".")[0]),
            otherwise=super().wording,
        )

    @property
    def script_imports(self) -> tuple[str, ...]:
        """Return the first statements of a script that calls only the module."""
        return (f"import {self.module} as {MODULE}",)

    @property
    def script_device(self) -> str:
        """Return an expression of the device in such a script; empty for the default device."""
        return "" if self.device is None else repr(self.device_name)

    def written_own(self) -> Mapping[str, Callable[..., Any]]:
        """Return `own` for a script: functions whose calls are recorded."""
        return self.own

    def gradient_text(self, names: str, result: WrittenArray, weights: Any) -> str:
        """Return a list of the gradients of a written result that are weighed by `g`.

        names: the inputs of the gradients. weights: the type of `g`.
        """
        raise NotOfferedError(f"{self.library}: {self.no_gradients}")

    def _translate(self, expression: str, question: Question) -> str:
        """Return the calls that an expression of the rows makes, up to one that raises.

        Return an empty text if an expression does more than calls, such as an assignment.
        """
        gradients = _GRADIENTS.fullmatch(expression)
        names, index = ", ".join(question.values), ""
        try:
            result = self._write(gradients["form"] if gradients else expression, question)
        except RaisingCallError as error:
            return str(error)
        except NotOfferedError:
            raise
        except Exception:  # arrays that are not of the module, such as those of numpy's setitem
            return ""
        text = result.text
        if gradients:
            weights = self.array(question.values["g"]).dtype
            text = self.gradient_text(gradients["names"], result, weights)
            index = f"[{gradients['index']}]"
        if self.script_compiler:
            text = f"{self.script_compiler}(lambda {names}: {text})({names})"
        return text + index

    def _write(self, expression: str, question: Question) -> WrittenArray:
        """Return the value of an expression of the rows and the calls that make it."""
        writer = copy.copy(self)
        writer.namespace = WritingNamespace(self.namespace)
        writer.own = self.written_own()
        writer.device = self.device and Named(self.device, self.script_device)
        tensors = {name: self.tensor(array) for name, array in question.values.items()}
        for name, tensor in tensors.items():
            tensor.library = writer
            tensor.array = WrittenArray(tensor.array, name)
        known = {"Tensor": writer.maker, "dtypes": dtypes, "np": np}
        names = {**tensors, "dtype": question.dtype, "device": self.device_name}
        with np.errstate(all="ignore"):
            result = eval(expression, known, names).array
        if not isinstance(result, WrittenArray):
            raise TypeError(f"{type(result).__name__} has no text")
        return result

    @property
    def maker(self) -> _Maker:
        """Return `Tensor` of the expressions."""
        return _Maker(self)

    def array(self, values: Array) -> Any:
        where = {} if self.device is None else {"device": self.device}
        named = self.dtype(from_numpy_dtype(values.dtype))
        return self.function("asarray")(without_bfloat16(values.copy()), dtype=named, **where)

    def to_numpy(self, array: Any) -> Array:
        if self.has_type(array, dtypes.bfloat16):
            # numpy reads it neither by DLPack nor by the buffers of Python.
            wide = self.function("asarray")(array, dtype=self.dtype(dtypes.float32))
            return np.asarray(to_numpy(wide).astype(ml_dtypes.bfloat16))
        return to_numpy(array)

    def wrap(self, array: Any) -> ArrayTensor:
        return self.tensor_class(self, array)

    def unwrap(self, tensor: Any) -> Any:
        if not isinstance(tensor, ArrayTensor):
            raise NotOfferedError(f"{self.module}: the expression gives no array there")
        return tensor.array


def plain(value: Any) -> Any:
    """Return the array of a tensor, also in a list; return anything else unchanged."""
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value.array if isinstance(value, ArrayTensor) else value


def _tuple(sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return sizes or axes that are separate arguments or one tuple."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else sizes
