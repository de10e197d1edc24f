"""The types in which kernels of a Tensor function compute, besides the types of its forms."""

from __future__ import annotations

from collections.abc import Mapping

from tinyref.dtype import DType, dtypes, from_numpy_dtype, sum_dtype
from tinyref_spec.bits import bits_dtype
from tinyref_spec.tensor import random
from tinyref_spec.tensor.forms import Form, Function

# Random numbers come from counters of 64 bits, a word at a time; integers are compared as
# floats.
_FURTHER: Mapping[str, tuple[DType, ...]] = {
    **{function.name: (dtypes.uint32, dtypes.uint64) for function in random.FUNCTIONS},
    "allclose": (dtypes.float32,),
    "isclose": (dtypes.float32,),
}
# The integers as wide as the elements of a type, for functions that read the bits of floats.
_INTEGERS: Mapping[DType, DType] = {dtypes.float64: dtypes.int64}
_READING_BITS = frozenset(
    {"argsort", "fmod", "mod", "sort", "std", "std_mean", "topk", "var", "var_mean"}
)
# Functions that choose floats by index use their bits, except for float64.
_CHOOSING = frozenset(
    {
        "gather",
        "getitem",
        "interpolate",
        "interpolate_nearest",
        "masked_select",
        "scatter",
        "setitem",
        "sort",
        "topk",
    }
)


def dtypes_needed(function: Function, dtype: DType) -> set[DType]:
    """Return the types that a device must have for the rows of `function` on `dtype`.

    Indices and sizes are int32; narrow types are summed in wider ones, in gradients of all kinds.
    """
    needed = {dtypes.bool, dtypes.int32, *_FURTHER.get(function.name, ())}
    if dtype.is_float or any(form.is_wide for form in function.forms):
        needed.add(sum_dtype(dtype))
    if function.name in _READING_BITS and dtype in _INTEGERS:
        needed.add(_INTEGERS[dtype])
    if function.name in _CHOOSING and dtype.is_float and dtype is not dtypes.float64:
        needed.add(from_numpy_dtype(bits_dtype(dtype)))
    return needed.union(*(_of_form(form, dtype) for form in function.forms))


def _of_form(form: Form, dtype: DType) -> set[DType]:
    needed = {dtype, form.output(dtype), form.compute_dtype(dtype)}
    return needed | {item.dtype for item in form.inputs if item.dtype is not None}
