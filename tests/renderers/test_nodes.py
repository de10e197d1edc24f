"""Test the text of every op and type that each language declares, alone and in lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.graphs.value_programs import loaded, stored
from tinyref.algebra.op_table import OP_TABLE
from tinyref.capabilities import Capabilities
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c import C_DTYPES, C_OPS, CRenderer
from tinyref.renderers.cuda import CUDA_OPS, CudaRenderer
from tinyref.renderers.hip import HipRenderer
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.renderers.metal import METAL_OPS, MetalRenderer
from tinyref.renderers.opencl import OPENCL_OPS, OpenCLRenderer
from tinyref.renderers.ptx import PtxRenderer
from tinyref.renderers.wgsl import WGSL_OPS, WgslRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import BINARY, UNARY, Ops
from tinyref.uops.program import Program

# One type of each width, signed or unsigned.
TYPES = {
    1: (
        dtypes.bool,
        dtypes.uint8,
        dtypes.int16,
        dtypes.int64,
        dtypes.float16,
        dtypes.float32,
    ),
    4: (dtypes.bool, dtypes.uint8, dtypes.int64, dtypes.float32),
}


def with_lanes(types: frozenset[DType], ops: frozenset[str]) -> Capabilities:
    return Capabilities(types, ops, vector_lanes=tuple(TYPES))


RENDERERS: dict[str, Callable[[Program], str]] = {
    "c": CRenderer(with_lanes(C_DTYPES, C_OPS)).render,
    "cl": OpenCLRenderer(with_lanes(frozenset(OpenCLRenderer.type_names), OPENCL_OPS)).render,
    "cu": CudaRenderer(with_lanes(frozenset(CudaRenderer.type_names), CUDA_OPS)).render,
    "hip": HipRenderer(with_lanes(frozenset(HipRenderer.type_names), CUDA_OPS)).render,
    "metal": MetalRenderer(with_lanes(frozenset(MetalRenderer.type_names), METAL_OPS)).render,
    "wgsl": WgslRenderer(with_lanes(frozenset(WgslRenderer.type_names), WGSL_OPS)).render,
    "ll": LlvmRenderer().render,
    "ptx": PtxRenderer(90).render,
}


def nodes(lanes: int) -> Iterator[tuple[str, UOp]]:
    """Yield each op of each type that the op table accepts, with its name."""
    for dtype in TYPES[lanes]:
        first, second = (loaded(slot, dtype, lanes) for slot in (1, 2))
        yield f"LOAD {dtype.name}", first
        condition = loaded(3, dtypes.bool, lanes)
        for op in sorted(UNARY | BINARY, key=lambda op: op.name):
            for result in (dtype, dtypes.bool):
                sources = (first, second)[: OP_TABLE[op].arity[0]]
                node = UOp(op, result.vec(lanes), sources)
                if OP_TABLE[op].check(node) is None:
                    yield f"{op.name} {dtype.name}", node
                    break
        yield f"WHERE {dtype.name}", build.where(condition, first, second)
        for other in TYPES[lanes]:
            for op in (Ops.CAST, Ops.BITCAST):
                node = UOp(op, other.vec(lanes), (first,))
                if other is not dtype and OP_TABLE[op].check(node) is None:
                    yield f"{op.name} {dtype.name} to {other.name}", node


# The beginnings of declarations, and the words of loads and stores.
DECLARES = (
    "}",
    "{",
    ")",
    "void",
    "#",
    "extern",
    "kernel",
    "define",
    "declare",
    "entry",
    ".",
    "ret",
    "target",
    "source",
    "attributes",
    "!",
    "//",
    "const",
    "__kernel",
    "__device__",
    "using",
    "@group",
    "fn ",
    "var<",
    "@compute",
    "enable",
    "br ",
    "start:",
)
ACCESSES = (
    "data",
    "buffers",
    "getelementptr",
    " load ",
    "store ",
    "ld.",
    "cvta",
    "mad.wide",
    "st.",
    "mov.b",
)


def text_of(render: Callable[[Program], str], name: str, value: UOp) -> str:
    """Return the lines that compute the value; for a load, accesses to memory as well."""
    try:
        lines = [line.strip() for line in render(stored(value)).splitlines()]
    except UserError as error:
        return f"{name}: refused, {str(error).partition(': accepted')[0]}"
    body = [line for line in lines if line and not line.startswith(DECLARES)]
    if value.op is not Ops.LOAD:
        body = [line for line in body if not any(word in line for word in ACCESSES)]
    return "\n    ".join([f"{name}:", *body])


@pytest.mark.table
@pytest.mark.parametrize("language", RENDERERS)
def test_every_node(language: str, golden: Callable[[str, str], None]) -> None:
    lines = [
        text_of(RENDERERS[language], f"{name} x{lanes}", node)
        for lanes in TYPES
        for name, node in nodes(lanes)
    ]
    golden(f"every_node.{language}", "\n".join(lines) + "\n")
