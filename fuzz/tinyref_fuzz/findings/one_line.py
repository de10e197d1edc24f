"""Print a kernel, its data and its fault in a line each, for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from tinyref.algebra.shapes import positions_of
from tinyref.algebra.symbolic import describe, describe_shape
from tinyref.dtype import PtrDType
from tinyref.reproduce import without_local_folders
from tinyref.uops.build import sink, slot_of
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ReduceArg, VarArg, ViewArg
from tinyref.views.shape_tracker import tracker_of
from tinyref.views.view import View
from tinyref_fuzz.judge.guard import WrittenElements
from tinyref_spec.kernel_case import Array, Blame, KernelCase, KernelVerdict, Pair, Symptom

_STRUCTURE = frozenset({Ops.SINK, Ops.STORE, Ops.DEFINE_GLOBAL, Ops.VIEW})
_LONGEST = 2000
_MAX_ELEMENTS = 12
_INDENT = 8


def kernel_line(ast: UOp) -> str:
    """Print a kernel as assignments: `b0(4,) = ADD(b1(4,), CONST 2)`; shared values have names."""
    uses: dict[UOp, int] = {}
    for node in ast.toposort():
        for source in node.src:
            uses[source] = uses.get(source, 0) + 1
    texts: dict[UOp, str] = {}
    parts: list[str] = []
    for node in ast.toposort():
        if node.op in _STRUCTURE:
            continue
        text = _text(node, texts)
        if uses.get(node, 0) > 1 and node.op is not Ops.CONST:
            parts.append(f"v{len(parts)} = {text}")
            text = f"v{len(parts) - 1}"
        texts[node] = text
    for store in ast.src:
        parts.append(f"{_access(store)} = {texts[store.src[1]]}")
    return "; ".join(parts)


def failing_kernel_line(ast: UOp, verdict: KernelVerdict) -> str:
    """Return the whole kernel, or only the output that differs if the line is too long."""
    line = kernel_line(ast)
    named = re.match(r"output b(\d+): ", verdict.detail)
    if len(line) <= _LONGEST or named is None:
        return line
    stores = [store for store in ast.src if slot_of(store) == int(named[1])]
    more = len(ast.src) - len(stores)
    return f"{kernel_line(sink(*stores))}; and {more} other outputs" if stores else line


def _text(node: UOp, texts: dict[UOp, str]) -> str:
    sources = ", ".join(texts[source] for source in node.src if source in texts)
    if isinstance(node.arg, ConstArg):
        return f"{node.dtype.name} {node.arg.value}"
    if isinstance(node.arg, VarArg):
        return node.arg.name
    if node.op is Ops.LOAD:
        coordinates = ", ".join(texts[position] for position in positions_of(node.src[0]))
        return f"{_access(node)}[{coordinates}]" if coordinates else _access(node)
    if isinstance(node.arg, ViewArg):
        return f"{node.op.name}{_view(node)}" + (f"[{sources}]" if sources else "")
    if isinstance(node.arg, ReduceArg):
        axes = ", ".join(map(str, node.arg.axes))
        return f"REDUCE-{node.arg.op.name}({sources}, axes {axes})"
    kind = f" {node.dtype.name}" if node.op in (Ops.CAST, Ops.BITCAST) else ""
    return f"{node.op.name}{kind}({sources})"


def _access(access: UOp) -> str:
    """Print the buffer of a LOAD or STORE, its type, and the view."""
    view = access.src[0]
    memory = view.src[0].dtype
    base = memory.base.name if isinstance(memory, PtrDType) else memory.name
    return f"b{slot_of(access)}:{base}{_view(view)}"


def _view(node: UOp) -> str:
    assert isinstance(node.arg, ViewArg)
    return " of ".join(_one_view(view) for view in reversed(tracker_of(node).views))


def _one_view(view: View) -> str:
    text = describe_shape(view.shape)
    if view.is_contiguous:
        return text
    more = [f"strides {describe_shape(view.strides)}"]
    if not isinstance(view.offset, int) or view.offset:
        more.append(f"offset {describe(view.offset)}")
    if view.mask is not None:
        bounds = ", ".join(f"{describe(low)}:{describe(high)}" for low, high in view.mask)
        more.append(f"mask {bounds}")
    return f"{text}{{{', '.join(more)}}}"


def clip(text: str, longest: int) -> str:
    """Return the beginning of a text that is too long."""
    return text if len(text) <= longest else text[: longest - 4] + " ..."


def wrapped(label: str, text: str, width: int) -> list[str]:
    """Return a labelled text in lines of at most `width` characters; nothing is cut."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=label.ljust(_INDENT),
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
    )


def data_line(case: KernelCase) -> str:
    """Return the values of the variables, and the contents of the buffers that are inputs."""
    outputs = WrittenElements.of(case.ast, case.buffers, case.bindings).poisoned
    names = [f"{name} = {value}" for name, value in sorted(case.bindings.items())]
    buffers = [
        f"b{slot} = {elements_text(contents)}"
        for slot, contents in enumerate(case.buffers)
        if slot not in outputs
    ]
    return clip("; ".join([*names, *buffers]) or "none", _LONGEST)


def elements_text(buffer: Array | Sequence[object]) -> str:
    """Print the first elements of a buffer."""
    numbers = ", ".join(str(element) for element in list(buffer[:_MAX_ELEMENTS]))
    return f"[{numbers}{', ...' if len(buffer) > _MAX_ELEMENTS else ''}] ({len(buffer)})"


def fault_line(verdict: KernelVerdict, blame: Blame | None = None) -> str:
    """Return pair and symptom of a verdict, the difference, and the first wrong stage."""
    if verdict.pair is None or verdict.symptom is None:
        return "all values agree"
    detail = without_local_folders(verdict.detail.partition("\n")[0])
    sentence = f"{verdict.pair.name} {verdict.symptom.name}: {detail}"
    return clip(f"{sentence}{_first_wrong(verdict, blame)}", _LONGEST)


def _first_wrong(verdict: KernelVerdict, blame: Blame | None) -> str:
    stage = "" if blame is None else blame.stage
    if stage and stage != "device":
        return f"; the first wrong stage is {blame}"
    if verdict.pair is Pair.DEVICE and verdict.symptom is Symptom.VALUE:
        return "; all stages of the reference agree, the device differs"
    return ""
