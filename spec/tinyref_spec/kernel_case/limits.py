"""Limits on a kernel from a file, checked before anything slow is done with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tinyref.algebra.evaluate import value_of
from tinyref.algebra.shapes import kernel_shape
from tinyref.dtype import PtrDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.formats.payload_fields import refuse, toposort_with_payloads
from tinyref.formats.text import from_text
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg, VarArg, ViewArg
from tinyref_spec.kernel_case.case import Array
from tinyref_spec.kernel_case.members import read_list, read_text

MAX_BUFFERS = 256
MAX_NODES = 20_000
LONGEST_LINE = 100_000
# Sizes are polynomials of variables, which may have more terms than nodes.
MAX_SIZE_NODES = 1000
MAX_VARIABLES = 4
MAX_AXES = 64
MAX_VIEWS = 32
# Elements of one node, and of all nodes together.
MAX_ELEMENTS = 1 << 24
MAX_WORK = 1 << 30


def read_graph(value: object, where: str) -> UOp | tuple[UOp, ...]:
    """Return the graph or sequence in a list of lines, which may break rules of its dialect.

    Raises `UserError` for other lines, and for more nodes, axes or views than a case may have.
    """
    items = read_list(value, MAX_NODES + 1, where)
    texts = [read_text(item, f"{where}[{at}]", LONGEST_LINE) for at, item in enumerate(items)]
    lines = "\n".join(texts).splitlines()
    if len(lines) > MAX_NODES + 1:
        raise UserError(f"{where}: expected at most {MAX_NODES} nodes, got {len(lines)}")
    variables = sum("DEFINE_VAR" in line for line in lines)
    of_sizes = sum(" index " in line for line in lines)
    if of_sizes > MAX_SIZE_NODES or variables > MAX_VARIABLES:
        raise UserError(
            f"{where}: expected at most {MAX_VARIABLES} variables and {MAX_SIZE_NODES} nodes of "
            f"sizes, got {variables} and {of_sizes}"
        )
    for at, line in enumerate(lines):
        _check_payload(line, f"{where}[{at}]")
    try:
        return from_text("\n".join(lines))
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _check_payload(line: str, where: str) -> None:
    """Raise `UserError` for a payload of too many views or axes, before it is built."""
    payload = line.partition("{")[2]
    views = 1 + payload.count("{")
    if views > MAX_VIEWS:
        raise UserError(f"{where}: expected at most {MAX_VIEWS} views, got {views}")
    axes = max(len(part.rstrip(", ").split(",")) for part in re.split("[()]", payload))
    if axes > MAX_AXES:
        raise UserError(f"{where}: expected at most {MAX_AXES} axes, got {axes}")


def check_fits(ast: UOp, buffers: Sequence[Array], bindings: Mapping[str, int]) -> None:
    """Raise `UserError` if a kernel does not fit its buffers and variables.

    It may still break rules of its dialect, but the sizes of its views are then harmless.
    """
    if ast.op is not Ops.SINK:
        raise refuse("kernel", "a SINK", ast)
    for node in toposort_with_payloads((ast,)):
        if isinstance(node.arg, VarArg):
            value_of(node, bindings)
        if isinstance(node.arg, SlotArg):
            _check_buffer(node, node.arg.slot, buffers)
        if isinstance(node.arg, ViewArg):
            _elements(node.arg.tracker.shape, bindings)


def check_work(ast: UOp, bindings: Mapping[str, int]) -> None:
    """Raise `UserError` if a valid kernel does more work than a case may do."""
    work = 0
    for node in ast.toposort():
        if node.op not in _WITHOUT_SHAPE:
            work += _elements(kernel_shape(node), bindings)
        if work > MAX_WORK:
            raise UserError(f"kernel: expected at most {MAX_WORK} operations, got more")


_WITHOUT_SHAPE = frozenset({Ops.SINK, Ops.STORE, Ops.DEFINE_GLOBAL, Ops.DEFINE_VAR})


def _elements(shape: Sequence[sint], bindings: Mapping[str, int]) -> int:
    elements = math.prod(value_of(size, bindings) for size in shape)
    if elements > MAX_ELEMENTS:
        raise UserError(f"kernel: expected at most {MAX_ELEMENTS} elements of a value, got more")
    return max(1, elements)


def _check_buffer(node: UOp, slot: int, buffers: Sequence[Array]) -> None:
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"kernel: expected a buffer in slot {slot}, got {node.dtype.name}")
    expected = (numpy_dtype(node.dtype.base), node.dtype.size)
    if not 0 <= slot < len(buffers):
        raise UserError(f"kernel: slot {slot} has no buffer, there are {len(buffers)}")
    content = buffers[slot]
    if (content.dtype, content.size) != expected:
        raise UserError(
            f"kernel: slot {slot} is {node.dtype.name}, its buffer holds {content.size} elements "
            f"of {content.dtype}"
        )
