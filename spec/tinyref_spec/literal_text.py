"""Arrays as Python and C source text, with the same bits."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np

from tinyref.dtype import from_numpy_dtype
from tinyref.runtimes.red_zones import POISONS
from tinyref_spec.bits import Array, to_bits

# Elements of the longest list; longer arrays are packed.
_LONGEST_LIST = 32
# Characters of the longest decimal number; longer ones are hexadecimal.
_LONGEST_DECIMAL = 8
_ZEROS = re.compile(r"\.?0+p")
_C_TYPES = {"bool": "uint8_t", "float16": "_Float16", "float32": "float", "float64": "double"}


def array_literal(values: Array, is_raw: bool = False) -> str:
    """Return a Python expression for the flat array with the same bits.

    The expression needs `np`, and for a long array `base64` and `zlib`. For a type that numpy lacks
    it also needs tinyref; with `is_raw` it gives the bits as unsigned integers instead.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if is_unknown_to_numpy(flat):
        text = array_literal(to_bits(flat))
        name = from_numpy_dtype(flat.dtype).name
        return text if is_raw else f"{text}.view(numpy_dtype(dtypes.{name}))"
    name = f"np.{'bool_' if flat.dtype == np.bool_ else flat.dtype.name}"
    bits = to_bits(flat)
    is_uniform = flat.size > 0 and bool((bits == bits[0]).all())
    if is_uniform and set(flat[:1].tobytes()) == {POISONS[0]}:
        return f"np.full({flat.nbytes}, {POISONS[0]:#x}, np.uint8).view({name})"
    if flat.size > _LONGEST_LIST and not is_uniform:
        return f"np.frombuffer({packed(flat.tobytes())}, {name})"
    # The text of a NaN does not have its bits.
    reread = np.array(
        [number if number == number else np.nan for number in flat.tolist()], flat.dtype
    )
    if not np.array_equal(to_bits(reread), bits):
        return f"{array_literal(bits)}.view({name})"
    if is_uniform and flat.size > 1:
        return f"np.full({flat.size}, {_python_list(flat[:1])}, {name})"
    return f"np.array({_python_list(flat)}, {name})"


def is_unknown_to_numpy(values: Array) -> bool:
    """Return True for bfloat16 and the floats of 8 bits."""
    return values.dtype.isbuiltin != 1


def packed(data: bytes) -> str:
    """Return a Python expression for bytes; it needs `base64` and `zlib`."""
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    return f"zlib.decompress(base64.b85decode({text!r}))"


def _python_list(flat: Array) -> str:
    if flat.dtype.kind != "f":
        return str(flat.tolist())
    decimals = [str(item) for item in flat]
    numbers = np.array([float(text) for text in decimals], flat.dtype)
    is_short = max(map(len, decimals), default=0) <= _LONGEST_DECIMAL
    if is_short and np.isfinite(flat).all() and np.array_equal(to_bits(numbers), to_bits(flat)):
        return f"[{', '.join(decimals)}]"
    return f'[float.fromhex(x) for x in "{" ".join(map(hex_float, flat.tolist()))}".split()]'


def hex_float(number: float) -> str:
    """Return a float in the notation of C, without zeros at its end."""
    return _ZEROS.sub("p", number.hex())


# C


def c_type(values: Array) -> str:
    """Return the C type of the elements."""
    name = from_numpy_dtype(values.dtype).name
    return _C_TYPES.get(name, f"{name}_t")


def c_array(values: Array) -> str:
    """Return the initialiser of a C array; every NaN becomes the NAN of the C library."""
    return f"{{{', '.join(map(_c_number, np.ravel(values).tolist()))}}}"


def _c_number(number: float) -> str:
    if isinstance(number, float):
        if number != number:
            return "NAN"
        if np.isinf(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        return hex_float(number)
    return str(int(number)) if abs(number) < 2**31 else f"{number & (2**64 - 1):#x}ull"
