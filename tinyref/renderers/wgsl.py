"""Programs as WGSL, the shading language of WebGPU: https://www.w3.org/TR/WGSL/

Buffers are bindings 1, 2 ... of group 0, in the order of the program's parameters. Binding 0 is an
array of words: first 0, then the variables, then the byte at which each buffer begins in its
binding. It is in storage, not in a uniform. A driver may specialise a kernel for the values of its
uniforms, as lavapipe does for loop bounds. It would then know the 0 next to them.

WGSL lets a compiler assume that no float is infinite or NaN, reassociate and contract (section
15.7), and no option forbids it. But no compiler knows the first word: only the launcher knows that
it is 0. With strict floats, every constant and every float result therefore passes `bits | 0`. The
compiler then knows nothing about the value and must perform each operation. Infinite and NaN
constants are errors in WGSL; they are made from their bits in the same way, so they are not
constants.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tinyref import config
from tinyref.dtype import ConstType, DType, dtypes
from tinyref.renderers.c_language import launch_table
from tinyref.renderers.c_style import C_STYLE_OPS, FUNCTIONS, INFIX, CStyleRenderer
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program

# The array of a launch's words; a runtime reads its length in the text.
LAUNCH_WORDS = "launch_words"

# WGSL does not round division, roots and functions correctly (section 15.7.4), so they are
# decomposed into ops that are.
WGSL_OPS = C_STYLE_OPS - {"FDIV", "RECIP", "SQRT", "EXP2", "LOG2", "SIN", "POW"}

_INTEGER = re.compile(r"\(?(-?\d+)l?[iu]\)?")

_LONG = re.compile(r"(\d+)li(.*)")
_CONSTANT = (*"0123456789", "(-")

# The conversion of a float to a word, or words, and back.
_BITS = {
    dtypes.float32: ("bitcast<u32>(x)", "bitcast<f32>({})", "{}"),
    dtypes.float64: ("bitcast<u64>(x)", "bitcast<f64>({})", "u64({})"),
    dtypes.float16: ("pack2x16float(vec2<f32>(f32(x)))", "f16(unpack2x16float({}).x)", "{}"),
}


class WgslRenderer(CStyleRenderer):
    """Renders programs as WGSL, with the 64-bit types and f16 if the device declares them."""

    language = "WGSL"
    type_names: ClassVar[Mapping[DType, str]] = {
        dtypes.bool: "bool",
        dtypes.int32: "i32",
        dtypes.uint32: "u32",
        dtypes.int64: "i64",
        dtypes.uint64: "u64",
        dtypes.float16: "f16",
        dtypes.float32: "f32",
        dtypes.float64: "f64",
    }
    suffixes: ClassVar[Mapping[DType, str]] = {
        dtypes.int32: "i",
        dtypes.uint32: "u",
        dtypes.int64: "li",
        dtypes.uint64: "lu",
        dtypes.float16: "h",
        dtypes.float32: "f",
        dtypes.float64: "lf",
    }
    bool_literals = ("false", "true")
    infix: ClassVar[Mapping[Ops, str]] = INFIX
    functions: ClassVar[Mapping[Ops, str]] = {Ops.TRUNC: FUNCTIONS[Ops.TRUNC]}
    half_functions = True
    signed_wraps = True
    select_is_lazy = False
    launch_indices = launch_table("i32(group_id.{axis})", "i32(item_id.{axis})")
    barrier_text = "storageBarrier(); workgroupBarrier();"

    def begin(self, program: Program) -> None:
        super().begin(program)
        self.is_strict = bool(config.integer("STRICT_FLOAT"))
        self._module: list[str] = []
        addresses = (node for node in program.uops if node.op is Ops.INDEX)
        self.has_long_positions = any(node.src[1].dtype.bits > 32 for node in addresses)

    def fresh(self, prefix: str) -> str:
        """Return an unused name; a loop counter cannot begin with `i`, since `i32` is a type."""
        return super().fresh("loop" if prefix == "i" else prefix)

    # Types and literals

    def memory_type(self, dtype: DType) -> str:
        return self.type(dtype.scalar)

    def vector_type(self, dtype: DType) -> str:
        return f"vec{dtype.lanes}<{self.type_names[dtype.scalar]}>"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"{self.type(dtype)}({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        return f"{vector}[{number}]"

    def literal(self, value: ConstType, dtype: DType) -> str:
        text = super().literal(value, dtype)
        is_plain = dtype.lanes == 1 and dtype.is_float and math.isfinite(float(value))
        return self.opaque(text, dtype) if is_plain else text

    def special_float(self, number: float, dtype: DType) -> str:
        """Make a float from its bits and the word that no compiler knows: literals are errors."""
        if dtype is dtypes.float16:
            return self.cast(self.special_float(number, dtypes.float32), dtypes.float32, dtype)
        layout = "<d" if dtype is dtypes.float64 else "<f"
        pattern = int.from_bytes(struct.pack(layout, number), "little")
        _, back, word = _BITS[dtype]
        suffix = self.suffixes[dtypes.uint64 if dtype is dtypes.float64 else dtypes.uint32]
        return back.format(f"({pattern:#x}{suffix} | {word.format(self.word(0))})")

    def opaque(self, value: str, dtype: DType) -> str:
        """Hide `value` from the compiler if floats are strict."""
        if not self.is_strict or not dtype.is_float:
            return value
        name = self.type_names[dtype]
        there, back, word = _BITS[dtype]
        body = back.format(f"({there} | {word.format(self.word(0))})")
        self.helpers[f"opaque_{name}"] = (
            f"fn opaque_{name}(x: {name}) -> {name} {{ return {body}; }}"
        )
        return f"opaque_{name}({value})"

    def word(self, number: int) -> str:
        """Return one of the words of a launch, as u32."""
        return f"{LAUNCH_WORDS}[{number}]"

    # Expressions

    def cast(self, value: str, source: DType, target: DType) -> str:
        """Convert exactly, also 64-bit types, which are not in WGSL and differ by compiler."""
        if source.bits == 64 and value.startswith(_CONSTANT):
            # Not every compiler converts a constant, but a named value is not one.
            value = self.define(source, value)
        if source is dtypes.float64 and target is dtypes.float16:
            return self.cast(self._odd_single(value), dtypes.float32, target)
        is_wider = source.is_int and target.is_int and target.bits > source.bits
        if is_wider and source.is_unsigned != target.is_unsigned:
            # Extend by the sign of the source first; not every compiler does this.
            wide = dtypes.uint64 if source.is_unsigned else dtypes.int64
            value = f"{self.type(wide)}({value})"
        text = f"{self.type(target)}({value})"
        return self.opaque(text, target)

    def _odd_single(self, value: str) -> str:
        """Convert float64 to a float32 rounded to odd, which rounds to f16 as the float64 would.

        Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
        """
        self.opaque("", dtypes.float32)
        single, double = (self.type_names[dtype] for dtype in (dtypes.float32, dtypes.float64))
        self.helpers["odd_single"] = (
            f"fn odd_single(x: {double}) -> {single} {{\n"
            f"  let near = {single}(x);\n"
            f"  let back = {double}(near);\n"
            f"  let bits = bitcast<u32>(near);\n"
            f"  let is_exact = back == x || !(x == x);\n"
            f"  let cut = select(bits, bits - 1u, abs(back) > abs(x));\n"
            f"  return bitcast<{single}>(select(cut | 1u, bits, is_exact));\n"
            f"}}"
        )
        return f"odd_single({value})"

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Reinterpret the bits, and hide the result: a compiler could know the bits."""
        return self.opaque(f"bitcast<{self.type(target)}>({value})", target)

    def select(self, condition: str, chosen: str, other: str) -> str:
        return f"select({other}, {chosen}, {condition})"

    def not_equal(self, left: str, right: str, dtype: DType) -> str:
        """Negate `==`: a compiler that assumes no NaN makes `!=` false for a NaN."""
        return f"!({left} == {right})" if dtype.is_float else f"{left} != {right}"

    def less(self, left: str, right: str, dtype: DType) -> str:
        """Hide an int64 constant: lavapipe compares it wrongly (docs/found.md#lavapipe-2)."""
        if dtype is dtypes.int64:
            left, right = (
                f"({operand} + i64({self.word(0)}))" if operand.startswith(_CONSTANT) else operand
                for operand in (left, right)
            )
        return f"(!{left} && {right})" if dtype.is_bool else f"{left} < {right}"

    def negate(self, value: str, dtype: DType) -> str:
        if dtype.is_unsigned:
            # WGSL negates no unsigned integer.
            return f"({self.binary(Ops.SUB, self.literal(0, dtype), value, dtype)})"
        return self.opaque(f"(-{value})", dtype)

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        symbol = self.infix[op]
        if op is Ops.SUB and dtype.is_float:
            # The difference of operands known to be equal would be 0, even for infinities.
            symbol, right = "+", self.negate(right, dtype)
        if dtype.is_bool and op is Ops.XOR:
            symbol = "!="
        return self.opaque(f"{left} {symbol} {right}", dtype)

    def shift(self, op: Ops, left: str, count: str, dtype: DType) -> str:
        """Shift by a u32; a constant count is written as one: some compilers do not convert it."""
        known = _INTEGER.fullmatch(count)
        masked = f"(u32({count}) & {dtype.bits - 1}u)"
        if known:
            masked = f"{int(known.group(1)) & (dtype.bits - 1)}u"
            if left.startswith(_CONSTANT):
                # Of two constants a lost bit is an error, but a named value is not one.
                left = self.define(dtype, left)
        return f"{left} {'<<' if op is Ops.SHL else '>>'} {masked}"

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        return self.opaque(super().call(op, operands, dtype), dtype)

    def index(self, memory: str, position: str) -> str:
        """Index by an i32: no binding has more elements, and WGSL accepts no 64-bit index."""
        at = position
        if self.has_long_positions:
            # A constant, perhaps plus the number of a lane, is written as an i32.
            known = _LONG.match(position)
            at = f"{known.group(1)}i{known.group(2)}" if known else f"i32({position})"
        return f"{memory}[{memory}_at + {at}]" if memory.startswith("data") else f"{memory}[{at}]"

    def read(self, element: str, dtype: DType) -> str:
        return element

    def read_atomic(self, element: str) -> str:
        return f"atomicLoad(&{element})"

    # Statements

    def declare_value(self, kind: str, name: str, text: str) -> str:
        return f"let {name}: {kind} = {text};"

    def declare_variable(self, kind: str, name: str, text: str | None) -> str:
        return f"var {name}: {kind};" if text is None else f"var {name}: {kind} = {text};"

    def open_loop(self, kind: str, name: str, bound: str) -> str:
        return f"for (var {name}: {kind} = 0; {name} < {bound}; {name}++) {{"

    def masked_store(self, element: str, bits: str, mask: str) -> str:
        return f"atomicAnd(&{element}, ~{mask}); atomicOr(&{element}, {bits});"

    def declare_local(self, kind: str, name: str, size: int) -> None:
        kind = f"atomic<{kind}>" if name in self.atomic else kind
        self._module.append(f"var<workgroup> {name}: array<{kind}, {max(size, 1)}>;")

    # The frame

    def bind_buffer(self, position: int, name: str, element: DType) -> None:
        number = 1 + len(self.program.variables) + position
        self.declare(f"let {name}_at: i32 = i32({self.word(number)} / {element.itemsize}u);")

    def bind_variable(self, position: int, name: str, dtype: DType) -> None:
        value = f"bitcast<i32>({self.word(1 + position)})"
        self.declare(self.declare_value(self.type(dtype), name, value))

    def buffer_parameter(self, position: int, name: str, element: DType) -> str:
        # An unused buffer may have a type that memory cannot have.
        kind = self.memory_type(element) if element in self.accepted - {dtypes.bool} else "u32"
        if name in self.atomic:
            kind = f"atomic<{kind}>"
        return f"@group(0) @binding({position + 1}) var<storage, read_write> {name}: array<{kind}>;"

    def variable_parameter(self, position: int, name: str, dtype: DType) -> str:
        return ""

    def prologue(self) -> list[str]:
        uses_half = any(dtype.scalar is dtypes.float16 for dtype in self.types)
        return ["enable f16;"] if uses_half else []

    def function_head(self, entry: str, parameters: Sequence[str]) -> list[str]:
        numbers = 1 + len(self.program.variables) + len(self.program.parameters)
        x, y, z = self.program.group
        return [
            f"@group(0) @binding(0) var<storage, read> {LAUNCH_WORDS}: array<u32, {numbers}>;",
            *filter(None, parameters),
            *self._module,
            f"@compute @workgroup_size({x}, {y}, {z})",
            f"fn {entry}(@builtin(workgroup_id) group_id: vec3<u32>, "
            "@builtin(local_invocation_id) item_id: vec3<u32>) {",
        ]
