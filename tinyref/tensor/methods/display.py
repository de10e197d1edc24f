"""Tensors as text: the elements that are in memory, elided as numpy elides them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tinyref.arrays import Array, np
from tinyref.device import Device
from tinyref.dtype import dtypes, from_numpy_dtype, numpy_dtype
from tinyref.errors import TinyrefError
from tinyref.lazy import graph
from tinyref.lazy.buffers import buffer_of
from tinyref.lazy.folding import uniform_value
from tinyref.lazy.shape import shape_of
from tinyref.lazy.shards import layout_of, spans
from tinyref.tensor.literals import MAX_AXES
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

WIDTH = 100
# What is read to be shown of a tensor of many axes; with more there are no elements shown.
MAX_READ = 4096

Places = tuple[tuple[int, ...], ...]


def shown_elements(node: UOp) -> str:
    """The elements of what is in memory, or constant, as numpy shows them; else nothing.

    Nothing is computed and nothing allocated for it, and of a large tensor only the elements that
    are shown are read.
    """
    shape = shape_of(node)
    sizes = tuple(size for size in shape if isinstance(size, int))
    if len(sizes) < len(shape) or len(sizes) > MAX_AXES:
        return ""
    options = np.get_printoptions()
    is_elided = math.prod(sizes) > options["threshold"]
    edge = options["edgeitems"] if is_elided else max(sizes, default=0)
    places = tuple(_shown_places(size, edge) for size in sizes)
    if math.prod(map(len, places)) > max(MAX_READ, options["threshold"]):
        return ""
    try:
        found = _elements(node, places)
    except (TinyrefError, OSError):
        # What cannot be read, such as a file that is gone, cannot be shown.
        return ""
    return "" if found is None else _text(found, 0 if is_elided else math.prod(sizes) + 1)


def _shown_places(size: int, edge: int) -> tuple[int, ...]:
    """The first and the last of an axis, and one between them, which numpy shows as dots."""
    if size <= 2 * edge + 1:
        return tuple(range(size))
    return (*range(edge), edge, *range(size - edge, size))


def _elements(node: UOp, places: Places) -> Array | None:
    """The elements at `places` of each axis; None where they are not to be had."""
    if node.op is Ops.MULTI:
        return _of_parts(node, places)
    dtype = numpy_dtype(node.dtype)
    counts = tuple(map(len, places))
    value = uniform_value(node)
    if value is not None:
        return np.full(counts, value, dtype)
    if 0 in counts:
        return np.empty(counts, dtype)
    backing = graph.backing(node)
    buffer = None if backing is None else buffer_of(backing)
    if buffer is None or not (buffer if buffer.base is None else buffer.base).is_allocated:
        return None
    if not Device[buffer.device].capabilities.keeps_values:
        return None
    sizes = [size for size in shape_of(node) if isinstance(size, int)]
    flat = np.zeros((), np.int64)
    for size, chosen in zip(sizes, places, strict=True):
        flat = flat[..., None] * size + np.array(chosen, np.int64)
    parts = []
    for begin, count in _ranges_of(flat.ravel().tolist()):
        part = buffer.view(begin * node.dtype.itemsize, count, node.dtype)
        parts.append(np.frombuffer(part.copy_out(), dtype))
    return np.concatenate(parts).reshape(counts)


def _ranges_of(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Rising positions as ranges: begin and length."""
    found: list[tuple[int, int]] = []
    for _, group in itertools.groupby(enumerate(positions), lambda pair: pair[1] - pair[0]):
        run = [position for _, position in group]
        found.append((run[0], len(run)))
    return found


def _of_parts(node: UOp, places: Places) -> Array | None:
    layout = layout_of(node)
    if layout.axis is None:
        return _elements(node.src[0], places)
    found: list[Array] = []
    for part, (begin, end) in zip(node.src, spans(layout), strict=True):
        chosen = tuple(place - begin for place in places[layout.axis] if begin <= place < end)
        inside = (*places[: layout.axis], chosen, *places[layout.axis + 1 :])
        elements = _elements(part, inside)
        if elements is None:
            return None
        found.append(elements)
    return np.concatenate(found, axis=layout.axis)


def _text(elements: Array, threshold: int) -> str:
    if from_numpy_dtype(elements.dtype) in (dtypes.bfloat16, *dtypes.fp8s):
        elements = elements.astype(np.float32)
    return np.array2string(elements, max_line_width=WIDTH, separator=", ", threshold=threshold)


def as_html(header: str, elements: str) -> str:
    """The text of a tensor as HTML: the header above the elements."""
    import html

    lines = f"<div><code>{html.escape(header)}</code>"
    return f"{lines}<pre>{html.escape(elements)}</pre></div>" if elements else f"{lines}</div>"
