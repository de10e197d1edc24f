"""Programs as OpenCL C 1.2 and later.

For each buffer a kernel takes its memory object and the byte at which the view begins (sub-buffers
begin only at some bytes: OpenCL 1.2, 5.2.1), for each image an image2d_t, then the variables. The
first lines describe the images, for the runtime that makes them.

Floats are strict: nothing is contracted. If `/` and `sqrt` of float32 may be off by a few units
(OpenCL 1.2, 7.4), they are computed as float64 and rounded again, which is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tinyref.capabilities import Capabilities
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.dtype import DType, ImageDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c_language import SHORT_SUFFIXES, SHORT_TYPE_NAMES, launch_table
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg

# Functions of drivers differ by a few units; decompositions have the same bits everywhere.
OPENCL_OPS = C_STYLE_OPS - ELEMENTARY_OPS

_DIVISIONS = frozenset({Ops.FDIV, Ops.RECIP, Ops.SQRT})
_IMAGE = "// image "


@dataclass(frozen=True)
class ImageParameter:
    """The image that a kernel takes in place of the buffer at `position`, read or written.

    texel: "float32" or "float16".
    """

    position: int
    is_written: bool
    texel: str
    height: int
    width: int

    @property
    def line(self) -> str:
        """Return the comment that describes it, at the top of a text."""
        access = "write" if self.is_written else "read"
        return f"{_IMAGE}{self.position} {access} {self.texel} {self.height} {self.width}"


def images_in(source: str) -> Iterator[ImageParameter]:
    """Return the images that the first lines of a text describe."""
    for line in source.splitlines():
        if not line.startswith(_IMAGE):
            return
        position, access, texel, height, width = line.removeprefix(_IMAGE).split()
        yield ImageParameter(int(position), access == "write", texel, int(height), int(width))


class OpenCLRenderer(CStyleRenderer):
    """Renders programs as OpenCL C.

    exact_division: the device rounds `/` and `sqrt` of float32 correctly, by the build options.
    """

    language = "OpenCL C"
    type_names: ClassVar[Mapping[DType, str]] = {
        **SHORT_TYPE_NAMES,
        dtypes.float64: "double",
    }
    suffixes: ClassVar[Mapping[DType, str]] = {**SHORT_SUFFIXES, dtypes.float64: ""}
    vector_infix = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV})
    kernel_keywords = "__kernel void"
    global_space = "__global "
    shared_space = "__local "
    launch_indices = launch_table("get_group_id({dim})", "get_local_id({dim})")
    barrier_text = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
    header = ("#pragma OPENCL FP_CONTRACT OFF",)

    def __init__(
        self, capabilities: Capabilities | None = None, exact_division: bool = True
    ) -> None:
        super().__init__(capabilities)
        self.exact_division = exact_division

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        return f"as_{self.type(target)}({value})"

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        statement = f"{name} = vload{dtype.lanes}(0, {memory} + {position});"
        if not dtype.scalar.is_bool:
            return statement
        # A comparison of vectors gives 0 or -1.
        kind = self.type(dtype)
        return f"{statement} {name} = as_{kind}({name} != ({kind})0) & ({kind})1;"

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        return f"vstore{dtype.lanes}({value}, 0, {memory} + {position});"

    def texel(self, image: str, row: str, column: str) -> str:
        return f"read_imagef({image}, (int2)({column}, {row}))"

    def store_texel(self, image: str, row: str, column: str, value: str) -> str:
        return f"write_imagef({image}, (int2)({column}, {row}), {value});"

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        if op in _DIVISIONS and self._is_inexact(dtype):
            return f"(float)((double){left} / (double){right})"
        return super().binary(op, left, right, dtype)

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        if op in _DIVISIONS and self._is_inexact(dtype):
            return f"(float){self.functions[op]}((double){operands[0]})"
        return super().call(op, operands, dtype)

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        if node.op in _DIVISIONS and self._is_inexact(node.dtype.scalar):
            return None
        return super().vector_operation(node, operands)

    def _is_inexact(self, dtype: DType) -> bool:
        return dtype is dtypes.float32 and not self.exact_division

    def buffer_parameter(self, position: int, name: str, element: DType) -> str:
        return f"__global uchar *base{position}, ulong start{position}"

    def bind_buffer(self, position: int, name: str, element: DType) -> None:
        kind = self.memory_type(element)
        self.declare(
            f"__global {kind} *{name} = (__global {kind} *)(base{position} + start{position});"
        )

    def image_parameter(self, position: int, name: str, image: ImageDType) -> str:
        parameter = self.program.parameters[position]
        if parameter.is_read and parameter.is_written:
            raise UserError(
                f"DEFINE_GLOBAL of slot {parameter.slot}: {image.name} is read and written by one "
                "kernel: accepted are images that are read or written (OpenCL C 1.2, 6.6)"
            )
        return f"{'__write_only' if parameter.is_written else '__read_only'} image2d_t {name}"

    def prologue(self) -> list[str]:
        half = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"
        needs_half = any(dtype.scalar is dtypes.float16 for dtype in self.types)
        return [*self._image_lines(), *self.header, *([half] if needs_half else [])]

    def _image_lines(self) -> list[str]:
        images = {
            node.arg.slot: node.dtype
            for node in self.program.uops
            if isinstance(node.dtype, ImageDType) and isinstance(node.arg, SlotArg)
        }
        return [
            ImageParameter(position, parameter.is_written, image.base.name, *image.shape).line
            for position, parameter in enumerate(self.program.parameters)
            if (image := images.get(parameter.slot)) is not None
        ]
