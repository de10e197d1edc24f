"""How large a kernel from a file may be: checked before anything slow is done with it."""

from __future__ import annotations

import math
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
from tinyref_spec.kernel_case.members import read_text

MAX_BUFFERS = 256
MAX_NODES = 20_000
LONGEST_KERNEL = 100_000
# Sizes are polynomials of variables, and those may have more terms than nodes.
MAX_SIZE_NODES = 1000
MAX_VARIABLES = 4
MAX_AXES = 64
MAX_VIEWS = 32
# Elements of one node, and of all nodes together.
MAX_ELEMENTS = 1 << 24
MAX_WORK = 1 << 30


def read_kernel(value: object, where: str) -> UOp:
    """The graph in a text, which may break any rule of its dialect; `UserError` for other texts."""
    text = read_text(value, where, LONGEST_KERNEL)
    if text.count("DEFINE_VAR") > MAX_VARIABLES:
        raise UserError(f"{where}: expected at most {MAX_VARIABLES} variables")
    try:
        graph = from_text(text)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if not isinstance(graph, UOp):
        raise UserError(f"{where}: expected a graph, got a sequence")
    return graph


def check_graph(data: object, where: str) -> None:
    """Raises `UserError` for a graph in JSON of more nodes, axes or views than any case has.

    What else is wrong with it is left to the reader of graphs.
    """
    nodes = data.get("nodes") if isinstance(data, Mapping) else None
    if not isinstance(nodes, list):
        raise refuse(where, "a graph", data)
    if len(nodes) > MAX_NODES:
        raise UserError(f"{where}: expected at most {MAX_NODES} nodes, got {len(nodes)}")
    objects = [node for node in nodes if isinstance(node, Mapping)]
    of_sizes = sum(node.get("dtype") == "index" for node in objects)
    variables = sum(node.get("op") == "DEFINE_VAR" for node in objects)
    if of_sizes > MAX_SIZE_NODES or variables > MAX_VARIABLES:
        raise UserError(
            f"{where}: expected at most {MAX_VARIABLES} variables and {MAX_SIZE_NODES} nodes of "
            f"sizes, got {variables} and {of_sizes}"
        )
    for number, node in enumerate(objects):
        payload = node.get("payload")
        groups = payload.get("groups") if isinstance(payload, Mapping) else None
        if isinstance(groups, list):
            _check_groups(groups, f"{where}, nodes[{number}]")


def _check_groups(groups: Sequence[object], where: str) -> None:
    if len(groups) > MAX_VIEWS:
        raise UserError(f"{where}: expected at most {MAX_VIEWS} views, got {len(groups)}")
    for group in groups:
        members = group.values() if isinstance(group, Mapping) else ()
        for member in members:
            if isinstance(member, list) and len(member) > MAX_AXES:
                raise UserError(f"{where}: expected at most {MAX_AXES} axes, got {len(member)}")


def check_fits(ast: UOp, buffers: Sequence[Array], bindings: Mapping[str, int]) -> None:
    """Raises `UserError` where a kernel does not fit its buffers and variables.

    It may break any rule of its dialect, but the sizes of its views are known to be harmless then.
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
    """Raises `UserError` where a kernel, which breaks no rule, does more than any case should."""
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
    wanted = (numpy_dtype(node.dtype.base), node.dtype.size)
    if not 0 <= slot < len(buffers):
        raise UserError(f"kernel: slot {slot} has no buffer, there are {len(buffers)}")
    content = buffers[slot]
    if (content.dtype, content.size) != wanted:
        raise UserError(
            f"kernel: slot {slot} is {node.dtype.name}, its buffer holds {content.size} elements "
            f"of {content.dtype}"
        )
