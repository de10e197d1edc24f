"""Read and write collections of kernels: what a program computed, without its data.

The format is `tinyref.kernels`, described in docs/fuzzing.md. A collection may come from an
untrusted source: nothing in it is executed, sizes are limited, and every kernel is verified.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tinyref import __version__
from tinyref.algebra.shapes import kernel_shape
from tinyref.dtype import PtrDType, numpy_dtype
from tinyref.errors import UserError, VerifyError
from tinyref.formats.text import to_text
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ConstArg, SlotArg, ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import tracker_of
from tinyref_spec.kernel_case.buffers import MAX_BYTES
from tinyref_spec.kernel_case.files import read_json
from tinyref_spec.kernel_case.limits import (
    MAX_VARIABLES,
    check_fits,
    check_work,
    read_graph,
)
from tinyref_spec.kernel_case.members import (
    Json,
    read_bindings,
    read_list,
    read_object,
    read_version,
    read_word,
)
from tinyref_spec.kernels.family import CorpusKernel

SCHEMA = "tinyref.kernels"
VERSION = 1
MAX_KERNELS = 10_000
MAX_COMPUTED = 10_000
SHIPPED = Path(__file__).parent / "data"
_MEMBERS = ("schema", "version", "tinyref", "source", "kernels")


@dataclass(frozen=True)
class Harvested:
    """Kernel that a program computed, the values it was for, and its symbolic sizes at that run."""

    ast: UOp
    bindings: Mapping[str, int]
    computes: tuple[str, ...] = ()


# --- writing ------------------------------------------------------------------------------------


def kernels_to_json(source: str, kernels: Iterable[Harvested]) -> Json:
    """Return a collection as a dict for `json.dumps`; `source` names the program.

    Raises `UserError` for a kernel that no reader would accept.
    """
    data: Json = {
        "schema": SCHEMA,
        "version": VERSION,
        "tinyref": __version__,
        "source": source,
        "kernels": [
            {
                "computes": list(kernel.computes),
                "bindings": dict(kernel.bindings),
                "ast": to_text(kernel.ast).splitlines(),
            }
            for kernel in kernels
        ],
    }
    kernels_from_json(data)
    return data


# --- reading ------------------------------------------------------------------------------------


def is_collection(data: object) -> bool:
    """Return True if this JSON declares itself a collection of kernels."""
    return isinstance(data, Mapping) and data.get("schema") == SCHEMA


@functools.cache
def load_harvested() -> tuple[CorpusKernel, ...]:
    """Return the kernels of the model level that the fuzzer ships, in a fixed order.

    `tinyref_fuzz.generate.corpus.models` wrote them. Many compute inexact floats: draw their data
    in the mode `FLOAT`.
    """
    return load_collection(SHIPPED / "models.json")


def load_collection(path: str | Path) -> tuple[CorpusKernel, ...]:
    """Return the kernels of a file. Raises `UserError` with the path for a bad one."""
    return _kernels_in(path, read_json(path))


def collection_text(path: str | Path) -> str:
    """Return the text of a collection in a canonical form. Raises `UserError` for a bad one."""
    data = read_json(path)
    _kernels_in(path, data)
    return json.dumps(data, sort_keys=True)


def _kernels_in(path: str | Path, data: object) -> tuple[CorpusKernel, ...]:
    try:
        return kernels_from_json(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def kernels_from_json(data: object) -> tuple[CorpusKernel, ...]:
    """Return the kernels that `kernels_to_json` wrote; a name is the source and a hash.

    Raises `UserError` with the position of the error in `data`, what was expected and what was
    there.
    """
    read_version(read_object(data, "kernels"), SCHEMA, VERSION, "kernels")
    top = read_object(data, "kernels", _MEMBERS)
    source = read_word(top["source"], "source")
    read_word(top["tinyref"], "tinyref")
    items = read_list(top["kernels"], MAX_KERNELS, "kernels")
    kernels = [_kernel(item, source, f"kernels[{at}]") for at, item in enumerate(items)]
    if len({kernel.name for kernel in kernels}) != len(kernels):
        raise UserError("kernels: expected each kernel once, got one twice")
    return tuple(kernels)


def _kernel(value: object, source: str, where: str) -> CorpusKernel:
    top = read_object(value, where, ("ast", "bindings", "computes"))
    for at, name in enumerate(read_list(top["computes"], MAX_COMPUTED, f"{where}.computes")):
        read_word(name, f"{where}.computes[{at}]")
    bindings = read_bindings(top["bindings"], MAX_VARIABLES, f"{where}.bindings")
    ast = read_graph(top["ast"], f"{where}.ast")
    if not isinstance(ast, UOp):
        raise UserError(f"{where}.ast: expected a graph, got a sequence")
    try:
        check(ast, bindings)
    except (UserError, VerifyError) as error:
        raise UserError(f"{where}.ast: {error}") from None
    digest = hashlib.sha256(to_text(ast).encode()).hexdigest()[:8]
    return CorpusKernel(f"{source}-{digest}", ast, MappingProxyType(bindings))


def check(ast: UOp, bindings: Mapping[str, int]) -> None:
    """Raise `UserError` or `VerifyError` for a kernel that breaks a rule or is too large."""
    sizes: dict[int, PtrDType] = {}
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType):
            sizes[node.arg.slot] = node.dtype
    if sorted(sizes) != list(range(len(sizes))):
        raise UserError(f"kernel: expected the slots from 0 on, got {sorted(sizes)}")
    if sum(memory.size * memory.base.itemsize for memory in sizes.values()) > MAX_BYTES:
        raise UserError(f"kernel: expected buffers of at most {MAX_BYTES} bytes together")
    buffers = [np.zeros(sizes[slot].size, numpy_dtype(sizes[slot].base)) for slot in sorted(sizes)]
    check_fits(ast, buffers, bindings)
    verify(Dialect.AST, ast)
    check_work(ast, bindings)


def structure_of(ast: UOp) -> str:
    """Return a hash that is equal for kernels that differ only in sizes.

    Sizes count as 0, 1 or more; strides and offsets as negative, 0, 1 or more; masks as present or
    absent; and constants as 0, 1 or other.
    """
    numbers: dict[UOp, int] = {}
    digest = hashlib.sha256()
    for node in ast.toposort():
        numbers[node] = len(numbers)
        arg: object = node.arg
        if isinstance(arg, ViewArg):
            arg = [
                (
                    [_kind(size) for size in view.shape],
                    [_kind(stride) for stride in view.strides],
                    _kind(view.offset),
                    view.mask is not None,
                )
                for view in tracker_of(arg).views
            ]
        if isinstance(arg, ConstArg):
            arg = arg.value if arg.value in (0, 1) else "c"
        dtype = node.dtype.base if isinstance(node.dtype, PtrDType) else node.dtype
        sources = [numbers[source] for source in node.src]
        digest.update(f"{node.op.name} {dtype.name} {sources} {arg}\n".encode())
    return digest.hexdigest()


def _kind(number: object) -> object:
    return max(-1, min(2, number)) if isinstance(number, int) else "n"


def work_of(ast: UOp) -> int:
    """Return the largest number of elements of one value, ignoring symbolic sizes."""
    valued = [node for node in ast.toposort() if node.op not in _WITHOUT_ELEMENTS]
    shapes = [[size for size in kernel_shape(node) if isinstance(size, int)] for node in valued]
    return max((math.prod(shape) for shape in shapes), default=0)


_WITHOUT_ELEMENTS = (Ops.SINK, Ops.STORE, Ops.DEFINE_GLOBAL, Ops.DEFINE_VAR)
