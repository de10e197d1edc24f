"""Programs as MSL, the Metal Shading Language: Apple's specification of that name, 3.1 and later.

A kernel takes its buffers as `device` pointers, then each variable as a reference to `constant`
memory, all by number; a command encoder has 31 of these (Metal feature set tables).

Floats are strict if compiled in safe mode. Only then `/` and `precise::sqrt` are correctly rounded
(section 8.4, table 8.1), and NaN and infinities are preserved (8.1). Safe mode contracts within a
statement (1.6.3), which the pragma turns off. No option preserves subnormal float32: an
implementation may flush them to zero (8.1). MSL has no float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tinyref import config
from tinyref.codegen.decompose import ELEMENTARY_OPS
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c_language import SHORT_SUFFIXES, SHORT_TYPE_NAMES, launch_table
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import MatrixTile, Operand

# Functions of the library are off by a few units; decompositions have the same bits everywhere.
METAL_OPS = C_STYLE_OPS - ELEMENTARY_OPS
# Entries of the table of buffers of a compute command encoder.
MAX_ARGUMENTS = 31
# Entries for buffers; the others are left for variables.
MAX_BUFFERS = 23

_STRICT = ("#pragma METAL fp math_mode(safe)", "#pragma METAL fp contract(off)")


class MetalRenderer(CStyleRenderer):
    """Renders programs as MSL."""

    language = "MSL"
    type_names: ClassVar[Mapping[DType, str]] = {
        **SHORT_TYPE_NAMES,
        dtypes.bfloat16: "bfloat",
    }
    suffixes = SHORT_SUFFIXES
    bool_literals = ("false", "true")
    functions: ClassVar[Mapping[Ops, str]] = {Ops.SQRT: "precise::sqrt", Ops.TRUNC: "trunc"}
    vector_infix = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV})
    kernel_keywords = "kernel void"
    global_space = "device "
    shared_space = "threadgroup "
    launch_indices = launch_table("group_id.{axis}", "item_id.{axis}")
    barrier_text = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"
    header = ("#include <metal_stdlib>", "using namespace metal;")

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"{self.type(dtype)}({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        return f"{vector}.{'xyzw'[number]}"

    def cast(self, value: str, source: DType, target: DType) -> str:
        """Convert between the two small floats by float32, which has all numbers of both."""
        if {source, target} == {dtypes.float16, dtypes.bfloat16}:
            value = f"(float){value}"
        return super().cast(value, source, target)

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        return f"as_type<{self.type(target)}>({value})"

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        if dtype.scalar.is_bool:
            return super().vector_load(name, memory, position, dtype)
        return self.assign(name, self._packed(memory, position, dtype))

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        return self.assign(self._packed(memory, position, dtype), value)

    def _packed(self, memory: str, position: str, dtype: DType) -> str:
        """Access neighbours in memory: packed vectors are aligned as their elements (2.2.3)."""
        space = self.shared_space if memory.startswith("local") else self.global_space
        return f"*({space}packed_{self.type(dtype)} *)({memory} + {position})"

    def tile_function(self, tile: MatrixTile, name: str) -> str:
        """Use the elements of the matrices that the thread holds (6.7)."""
        a, b, c = (self.type(tile.fragment(operand)) for operand in Operand)
        fragments = ((a, "a", tile.dtype_in), (b, "b", tile.dtype_in), (c, "c", tile.dtype_out))
        lines = [f"{c} {name}({a} a, {b} b, {c} c) {{"]
        for _, fragment, dtype in fragments:
            matrix = f"{fragment}_matrix"
            lines.append(f"  simdgroup_{self.type(dtype)}8x8 {matrix};")
            lines += [
                f"  {matrix}.thread_elements()[{number}] = {self.lane(fragment, number)};"
                for number in range(2)
            ]
        elements = ", ".join(f"c_matrix.thread_elements()[{number}]" for number in range(2))
        return "\n".join(
            [
                *lines,
                "  simdgroup_multiply_accumulate(c_matrix, a_matrix, b_matrix, c_matrix);",
                f"  return {c}({elements});",
                "}",
            ]
        )

    # The frame

    def prologue(self) -> list[str]:
        return [*self.header, *(_STRICT if config.integer("STRICT_FLOAT") else ())]

    def buffer_parameter(self, position: int, name: str, element: DType) -> str:
        return f"{super().buffer_parameter(position, name, element)} [[buffer({position})]]"

    def variable_parameter(self, position: int, name: str, dtype: DType) -> str:
        number = len(self.program.parameters) + position
        return f"constant {self.type(dtype)} &{name} [[buffer({number})]]"

    def function_head(self, entry: str, parameters: Sequence[str]) -> list[str]:
        """Raise `UserError` for more arguments than an encoder has numbers for."""
        if len(parameters) > MAX_ARGUMENTS:
            raise UserError(
                f"program: {self.program.name} has {len(parameters)} buffers and variables: "
                f"accepted in MSL are {MAX_ARGUMENTS}"
            )
        indices = (
            "uint3 group_id [[threadgroup_position_in_grid]]",
            "uint3 item_id [[thread_position_in_threadgroup]]",
        )
        return super().function_head(entry, [*parameters, *indices])
