"""Element types of GGML, the quantised ones included, as arithmetic on the bytes of a tensor.

A quantised tensor is a row of blocks, each with its own scales; the layouts are those of ggml
(https://github.com/ggml-org/ggml, ggml-common.h). All steps but the last are exact in float32:
small integers and powers of two. The last ones round as ggml does: scale * integer - minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.lazy.storage import only_holds_data
from tinyref.nn.state.reading import section, tensor_of_bytes
from tinyref.tensor import Tensor
from tinyref.tensor.arguments import bound_sizes

PLAIN: dict[int, DType] = {
    0: dtypes.float32,
    1: dtypes.float16,
    24: dtypes.int8,
    25: dtypes.int16,
    26: dtypes.int32,
    27: dtypes.int64,
    28: dtypes.float64,
    30: dtypes.bfloat16,
}

REFUSED: dict[int, str] = {
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}


@dataclass(frozen=True)
class Quantised:
    """A type of blocks: `elements` of each are stored in `nbytes`.

    values: (blocks, nbytes) of uint8 to (blocks, elements) of float32.
    """

    name: str
    elements: int
    nbytes: int
    values: Callable[[Tensor], Tensor]


def ggml_data_to_tensor(t: Tensor, n: int, ggml_type: int) -> Tensor:
    """The first `n` elements that the bytes `t` hold, in the type of that number: one axis.

    Plain types keep their type, and are a view where `t` lies on DISK; quantised types give
    float32, computed on the default device where `t` lies on one that runs no kernels. Raises
    `UserError` for other types, for too few bytes, and where `n` is no whole number of blocks.

    Examples:
        >>> block = Tensor([0, 0, 128, 63], dtype=dtypes.uint8)  # the bytes of a float32, of type 0
        >>> nn.state.ggml_data_to_tensor(block, 1, 0).item()
        1.0
    """
    tensor = tensor_of_bytes(t, "ggml_data_to_tensor")
    needed = bytes_of(n, ggml_type)
    (have,) = bound_sizes(tensor.shape)
    if have < needed:
        raise UserError(f"ggml_data_to_tensor: {n} elements need {needed} bytes, there are {have}")
    if not n:
        return empty(tensor, (0,), ggml_type)
    if ggml_type in PLAIN:
        return section(tensor, 0, n, PLAIN[ggml_type])
    kind = QUANTISED[ggml_type]
    blocks = tensor[:needed]
    if only_holds_data(blocks.node):
        blocks = blocks.to(None)
    return kind.values(blocks.reshape(n // kind.elements, kind.nbytes)).reshape(n)


def empty(data: Tensor, shape: tuple[int, ...], ggml_type: int) -> Tensor:
    """No element of a type, where those in the bytes `data` would be."""
    is_moved = ggml_type not in PLAIN and only_holds_data(data.node)
    dtype = PLAIN.get(ggml_type, dtypes.float32)
    return Tensor.zeros(shape, dtype=dtype, device=None if is_moved else data.device)


def bytes_of(n: int, ggml_type: int) -> int:
    """The bytes of `n` elements of a type. Raises `UserError` for a type that is not accepted."""
    if type(n) is not int or n < 0:
        raise UserError(f"ggml_data_to_tensor: n is {n!r}, accepted are counts of 0 and more")
    if ggml_type in PLAIN:
        return n * PLAIN[ggml_type].itemsize
    kind = QUANTISED.get(ggml_type)
    if kind is None:
        name = REFUSED.get(ggml_type, "unknown")
        accepted = ", ".join(known.name for known in QUANTISED.values())
        raise UserError(
            f"ggml_data_to_tensor: type {ggml_type} ({name}) is not read: accepted are the plain "
            f"types and {accepted}"
        )
    if n % kind.elements:
        raise UserError(
            f"ggml_data_to_tensor: {n} elements are no whole blocks of {kind.elements} "
            f"({kind.name})"
        )
    return n // kind.elements * kind.nbytes


# --- parts of blocks ----------------------------------------------------------------------------


def _half(blocks: Tensor, begin: int) -> Tensor:
    """The float16 at a byte of each block, as float32: (blocks, 1)."""
    return blocks[:, begin : begin + 2].bitcast(dtypes.float16).cast(dtypes.float32)


def _bits(blocks: Tensor, begin: int, groups: int, width: int, count: int) -> Tensor:
    """Unsigned integers of `count` bits out of `groups` of `width` bytes from a byte on.

    (blocks, groups, 8 / count, width) of float32: first the lowest bits of all bytes of a group,
    then the next ones.
    """
    planes = 8 // count
    low = (1 << count) - 1
    device = blocks.device
    masks = [low << (count * plane) & 0xFF for plane in range(planes)]
    chosen = Tensor(masks, dtype=dtypes.uint8, device=device).reshape(1, 1, planes, 1)
    units = [2.0 ** -(count * plane) for plane in range(planes)]
    scale = Tensor(units, dtype=dtypes.float32, device=device).reshape(1, 1, planes, 1)
    field = blocks[:, begin : begin + groups * width].reshape(-1, groups, 1, width)
    return (field & chosen).cast(dtypes.float32) * scale


def _row(bits: Tensor, *shape: int) -> Tensor:
    """The integers of each block in another shape, in order."""
    return bits.reshape(bits.shape[0], *shape)


def _nibbles(blocks: Tensor, begin: int) -> Tensor:
    """32 integers of 4 bits: the lower halves of 16 bytes, then the upper halves."""
    return _row(_bits(blocks, begin, 1, 16, 4), 32)


def _fifth_bits(blocks: Tensor, begin: int) -> Tensor:
    """32 single bits, the first one lowest, each worth 16."""
    return _row(_bits(blocks, begin, 4, 1, 1), 32) * 16.0


def _packed_scales(blocks: Tensor, begin: int) -> tuple[Tensor, Tensor]:
    """Eight scales and eight minima of 6 bits in 12 bytes: (blocks, 8, 1) each.

    The low 6 bits of the first eight bytes are the first four of each; the last four bytes have
    the low halves of the other ones, whose upper two bits are on top of the first eight bytes.
    """
    pairs = _row(_bits(blocks, begin, 2, 4, 2), 2, 4, 4)
    first = pairs[:, :, 0] + pairs[:, :, 1] * 4.0 + pairs[:, :, 2] * 16.0
    second = _row(_bits(blocks, begin + 8, 1, 4, 4), 2, 4) + pairs[:, :, 3] * 16.0
    both = first.cat(second, dim=-1).unsqueeze(-1)
    return both[:, 0], both[:, 1]


# --- types --------------------------------------------------------------------------------------


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks, 2) - 8.0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks, 4) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks, 6) + _fifth_bits(blocks, 2) - 16.0)


def _q5_1(blocks: Tensor) -> Tensor:
    integers = _nibbles(blocks, 8) + _fifth_bits(blocks, 4)
    return _half(blocks, 0) * integers + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].bitcast(dtypes.int8).cast(dtypes.float32)


def _q2_k(blocks: Tensor) -> Tensor:
    """16 scales and minima of 4 bits, 256 integers of 2 bits, a scale and a minimum of them."""
    scales = _bits(blocks, 0, 1, 16, 4)
    integers = _row(_bits(blocks, 16, 2, 32, 2), 16, 16)
    scale = (_half(blocks, 80) * scales[:, 0, 0]).unsqueeze(-1)
    minimum = (_half(blocks, 82) * scales[:, 0, 1]).unsqueeze(-1)
    return scale * integers - minimum


def _q3_k(blocks: Tensor) -> Tensor:
    """256 upper bits (0 means less 4), 256 integers of 2 bits, 16 scales of 6 bits, a scale."""
    upper = _row(_bits(blocks, 0, 1, 32, 1), 256)
    integers = _row(_bits(blocks, 32, 2, 32, 2), 256) + upper * 4.0 - 4.0
    low = _row(_bits(blocks, 96, 1, 8, 4), 16)
    high = _row(_bits(blocks, 104, 1, 4, 2), 16)
    scales = _half(blocks, 108) * (low + high * 16.0 - 32.0)
    return scales.unsqueeze(-1) * _row(integers, 16, 16)


def _q4_k(blocks: Tensor) -> Tensor:
    """A scale, a minimum, eight packed scales and minima, 256 integers of 4 bits."""
    scales, minima = _packed_scales(blocks, 4)
    integers = _row(_bits(blocks, 16, 4, 32, 4), 8, 32)
    return _half(blocks, 0).unsqueeze(-1) * scales * integers - (
        _half(blocks, 2).unsqueeze(-1) * minima
    )


def _q5_k(blocks: Tensor) -> Tensor:
    """As Q4_K, with 256 fifth bits before the integers."""
    scales, minima = _packed_scales(blocks, 4)
    upper = _row(_bits(blocks, 16, 1, 32, 1), 8, 32)
    integers = _row(_bits(blocks, 48, 4, 32, 4), 8, 32) + upper * 16.0
    return _half(blocks, 0).unsqueeze(-1) * scales * integers - (
        _half(blocks, 2).unsqueeze(-1) * minima
    )


def _q6_k(blocks: Tensor) -> Tensor:
    """256 integers of 4 bits, their upper 2 bits, 16 signed scales, a scale."""
    low = _row(_bits(blocks, 0, 2, 64, 4), 256)
    high = _row(_bits(blocks, 128, 2, 32, 2), 256)
    integers = _row(low + high * 16.0 - 32.0, 16, 16)
    scales = blocks[:, 192:208].bitcast(dtypes.int8).cast(dtypes.float32)
    return (_half(blocks, 208) * scales).unsqueeze(-1) * integers


QUANTISED: dict[int, Quantised] = {
    2: Quantised("Q4_0", 32, 18, _q4_0),
    3: Quantised("Q4_1", 32, 20, _q4_1),
    6: Quantised("Q5_0", 32, 22, _q5_0),
    7: Quantised("Q5_1", 32, 24, _q5_1),
    8: Quantised("Q8_0", 32, 34, _q8_0),
    10: Quantised("Q2_K", 256, 84, _q2_k),
    11: Quantised("Q3_K", 256, 110, _q3_k),
    12: Quantised("Q4_K", 256, 144, _q4_k),
    13: Quantised("Q5_K", 256, 176, _q5_k),
    14: Quantised("Q6_K", 256, 210, _q6_k),
}
