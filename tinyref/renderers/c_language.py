"""The parts that each C-like language defines: words and forms that `CStyleRenderer` prints."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import ConstType, DType, ImageDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.payloads import (
    checked_name,
    is_identifier,
    payload_of,
    variable_position,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import VarArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import MatrixTile, Operand

INFIX = {
    Ops.ADD: "+",
    Ops.SUB: "-",
    Ops.MUL: "*",
    Ops.FDIV: "/",
    Ops.IDIV: "/",
    Ops.MOD: "%",
    Ops.AND: "&",
    Ops.OR: "|",
    Ops.XOR: "^",
    Ops.CMPLT: "<",
    Ops.CMPNE: "!=",
}
FUNCTIONS = {
    Ops.SQRT: "sqrt",
    Ops.TRUNC: "trunc",
    Ops.EXP2: "exp2",
    Ops.LOG2: "log2",
    Ops.SIN: "sin",
    Ops.POW: "pow",
}
# Number types of C and C++, and of languages with one word for each type.
C_TYPE_NAMES: Mapping[DType, str] = {
    dtypes.int8: "signed char",
    dtypes.uint8: "unsigned char",
    dtypes.int16: "short",
    dtypes.uint16: "unsigned short",
    dtypes.int32: "int",
    dtypes.uint32: "unsigned int",
    dtypes.int64: "long long",
    dtypes.uint64: "unsigned long long",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
SHORT_TYPE_NAMES: Mapping[DType, str] = {
    dtypes.bool: "bool",
    dtypes.int8: "char",
    dtypes.uint8: "uchar",
    dtypes.int16: "short",
    dtypes.uint16: "ushort",
    dtypes.int32: "int",
    dtypes.uint32: "uint",
    dtypes.int64: "long",
    dtypes.uint64: "ulong",
    dtypes.float16: "half",
    dtypes.float32: "float",
}
# The words that CUDA and HIP put before the number of lanes of a vector.
VECTOR_WORDS: Mapping[DType, str] = {
    **SHORT_TYPE_NAMES,
    dtypes.bool: "uchar",
    dtypes.int64: "longlong",
    dtypes.uint64: "ulonglong",
    dtypes.bfloat16: "bfloat16",
    dtypes.float64: "double",
}
SHORT_SUFFIXES: Mapping[DType, str] = {
    dtypes.int32: "",
    dtypes.uint32: "u",
    dtypes.int64: "l",
    dtypes.uint64: "ul",
    dtypes.float32: "f",
}

# Unsigned arithmetic wraps; signed overflow is undefined.
WRAPPING = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})

# The prefix of functions of matrix tiles, followed by the name of the tile. An emulator defines
# EMULATED and these functions; a real device has an instruction for each.
TILE_PREFIX = "tinyref_wmma_"
EMULATED = "TINYREF_EMULATED"

C_STYLE_OPS = frozenset(op.name for op in ALU - {Ops.THREEFRY, Ops.MULACC}) | {"LOAD", "STORE"}


def launch_table(group: str, item: str) -> Mapping[tuple[str, int], str]:
    """Return launch indices of three dimensions from texts with {dim} (number), {axis} (letter)."""
    return {
        (scope, dim): text.format(dim=dim, axis="xyz"[dim])
        for scope, text in (("group", group), ("item", item))
        for dim in range(3)
    }


class CStyleLanguage:
    """The members that a language overrides, mostly with C's values; see `CStyleRenderer`."""

    language: ClassVar[str] = "C"
    kernel_prefix: ClassVar[str] = "k_"
    type_names: ClassVar[Mapping[DType, str]] = {}
    suffixes: ClassVar[Mapping[DType, str]] = {
        dtypes.int32: "",
        dtypes.uint32: "u",
        dtypes.int64: "ll",
        dtypes.uint64: "ull",
        dtypes.float32: "f",
        dtypes.float64: "",
    }
    bool_literals: ClassVar[tuple[str, str]] = ("0", "1")
    infix: ClassVar[Mapping[Ops, str]] = INFIX
    functions: ClassVar[Mapping[Ops, str]] = FUNCTIONS
    half_functions: ClassVar[bool] = False
    signed_wraps: ClassVar[bool] = False
    select_is_lazy: ClassVar[bool] = True
    vector_infix: ClassVar[frozenset[Ops]] = frozenset()
    kernel_keywords: ClassVar[str] = "void"
    has_launch_bounds: ClassVar[bool] = False
    global_space: ClassVar[str] = ""
    shared_space: ClassVar[str] = ""
    launch_indices: ClassVar[Mapping[tuple[str, int], str]] = {}
    barrier_text: ClassVar[str] = ""
    header: ClassVar[tuple[str, ...]] = ()

    program: Program

    def __init__(self, capabilities: Capabilities | None = None) -> None:
        named = frozenset(self.type_names)
        self.accepted = named if capabilities is None else capabilities.dtypes & named
        self.vector_lanes = (1,) if capabilities is None else capabilities.vector_lanes
        self.ops = C_STYLE_OPS if capabilities is None else capabilities.ops
        tiles = () if capabilities is None else capabilities.matrix_tiles
        # Fragments may have other widths than the declared ones: the device has registers for them.
        self.fragments = frozenset(tile.fragment(operand) for tile in tiles for operand in Operand)
        if capabilities is not None:
            self._check_launch_indices(capabilities)

    def _check_launch_indices(self, capabilities: Capabilities) -> None:
        """Raise `UserError` if the language lacks an index of the declared launches."""
        if type(self).launch_index is not CStyleLanguage.launch_index:
            return
        for scope, field, limits in (
            ("group", "has_grid", capabilities.grid_limit),
            ("item", "has_groups", capabilities.group_limit),
        ):
            for dim in range(3):
                is_used = getattr(capabilities, field) and limits[dim] > 1
                if is_used and (scope, dim) not in self.launch_indices:
                    raise UserError(
                        f"capabilities.{field} is True: launch_indices of {type(self).__name__} "
                        f"has no entry for {(scope, dim)}"
                    )

    def entry_name(self, program: Program) -> str:
        """Return the kernel's name in the text. Raises `UserError` if it is no identifier."""
        return self.kernel_prefix + checked_name(program.name, f"a {self.language}")

    def begin(self, program: Program) -> None:
        """Begin the text of `program`: reset the state that methods change."""
        self.program = program
        self.types: set[DType] = set()
        self.helpers: dict[str, str] = {}
        self.atomic: set[str] = set()
        self._images: dict[int, str] = {}
        self._elements: dict[int, DType] = {}
        self._declared: list[str] = []
        self._lines: list[str] = []
        self._depth = 1
        self._counter = 0

    # For methods of a language

    def line(self, text: str) -> None:
        """Add a line to the body."""
        self._lines.append("  " * self._depth + text)

    def declare(self, text: str) -> None:
        """Add a line at the top of the body, visible in all of it."""
        self._declared.append(f"  {text}")

    def fresh(self, prefix: str) -> str:
        """Return a unique name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def define(self, dtype: DType, text: str, prefix: str = "v") -> str:
        """Add a named value and return its name."""
        name = self.fresh(prefix)
        self.line(self.declare_value(self.type(dtype), name, text))
        return name

    def type(self, dtype: DType) -> str:
        """Return the name of a type. Raises `UserError` if the device does not declare it."""
        has_lanes = dtype.lanes in (1, *self.vector_lanes) or dtype in self.fragments
        if dtype.scalar not in self.accepted or not has_lanes:
            accepted = ", ".join(sorted(known.name for known in self.accepted)) or "none"
            raise UserError(
                f"dtype: {dtype.name} has no {self.language} type here: accepted are {accepted}, "
                f"and vectors of {', '.join(map(str, self.vector_lanes))} lanes"
                f"{self._unnamed(dtype)}"
            )
        self.types.add(dtype)
        return self.type_names[dtype] if dtype.lanes == 1 else self.vector_type(dtype)

    def memory_type(self, dtype: DType) -> str:
        """Return the type of an element in memory: a bool is a byte; any value but 0 is true."""
        if not dtype.is_bool:
            return self.type(dtype.scalar)
        # Devices that do not compute in uint8 store bools as bytes too.
        if dtypes.uint8 not in self.type_names:
            raise UserError(f"dtype: a bool is a byte in memory{self._unnamed(dtypes.uint8)}")
        self.types.add(dtypes.uint8)
        return self.type_names[dtypes.uint8]

    def _unnamed(self, dtype: DType) -> str:
        if dtype.scalar in self.type_names:
            return ""
        return f": type_names of {type(self).__name__} has no entry for {dtype.scalar.name}"

    # Expressions

    def vector_type(self, dtype: DType) -> str:
        """Return the name of a vector; many languages have no vectors of bools."""
        scalar = dtypes.uint8 if dtype.scalar.is_bool else dtype.scalar
        return f"{self.type_names[scalar]}{dtype.lanes}"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        """Return a vector with these lanes."""
        return f"({self.type(dtype)})({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        """Return one lane of a named vector."""
        return f"{vector}.s{number:x}"

    def literal(self, value: ConstType, dtype: DType) -> str:
        """Return a constant of exactly the type `dtype`; a vector has it in each lane."""
        if dtype.lanes > 1:
            return self.make_vector(dtype, [self.literal(value, dtype.scalar)] * dtype.lanes)
        self.type(dtype)
        if dtype.is_bool:
            return self.bool_literals[bool(value)]
        if dtype.is_int:
            return self._integer_literal(int(value), dtype)
        if dtype not in self.suffixes:
            return f"({self.cast(self.literal(value, dtypes.float32), dtypes.float32, dtype)})"
        number = float(value)
        if math.isfinite(number) and (number or math.copysign(1, number) > 0):
            return self.decimal(number, dtype)
        return self.special_float(number, dtype)

    def _integer_literal(self, value: int, dtype: DType) -> str:
        suffix = self.suffixes.get(dtype)
        if suffix is None:
            return f"({self.cast(str(value), dtypes.int32, dtype)})"
        if value == dtype.minimum and value < 0:
            # A negative number is a negated literal, and the literal of the least one is too large.
            return f"({value + 1}{suffix} - 1{suffix})"
        return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"

    def decimal(self, number: float, dtype: DType) -> str:
        """Return the shortest decimal that reads back as the same finite float."""
        digits = repr(number) if dtype is dtypes.float64 else str(np.float32(number))
        if "." not in digits and "e" not in digits:
            digits += ".0"
        text = digits + self.suffixes[dtype]
        return f"({text})" if number < 0 else text

    def special_float(self, number: float, dtype: DType) -> str:
        """Return negative zero, an infinity or NaN, from its bits."""
        is_single = dtype is dtypes.float32
        layout, bits = ("<f", dtypes.uint32) if is_single else ("<d", dtypes.uint64)
        pattern = int.from_bytes(struct.pack(layout, number), "little")
        return self.bitcast(f"{pattern:#x}{self.suffixes[bits]}", bits, dtype)

    def cast(self, value: str, source: DType, target: DType) -> str:
        """Convert to a type that can hold the result; integers use their low bits."""
        return f"({self.type(target)}){value}"

    def saturating_cast(self, value: str, source: DType, target: DType) -> str:
        """Convert a float to an integer: clamp values out of range; NaN becomes 0."""
        low, high = int(target.minimum), int(target.maximum)
        least, limit = (self.decimal(float(end), source) for end in (low, high + 1))
        negative = self.less(value, self.decimal(0.0, source), source)
        outside = self.select(negative, self.literal(low, target), self.literal(0, target))
        inside = self.cast(value, source, target)
        below = self.select(self.less(least, value, source), inside, f"({outside})")
        # The largest float below the limit is inside; only NaN is neither below nor above it.
        is_large = f"{value} >= {limit}"
        return self.select(is_large, self.literal(high, target), f"({below})")

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Reinterpret the bits as another type of equal size; at least one is a float."""
        raise UserError(f"BITCAST: {self.language} has none of {source.name} to {target.name}")

    def select(self, condition: str, chosen: str, other: str) -> str:
        """Return `chosen` if the condition holds, else `other`."""
        return f"{condition} ? {chosen} : {other}"

    def not_equal(self, left: str, right: str, dtype: DType) -> str:
        """Compare; the result must be true if an operand is NaN."""
        return f"{left} {self.infix[Ops.CMPNE]} {right}"

    def less(self, left: str, right: str, dtype: DType) -> str:
        """Compare; the result must be false if an operand is NaN."""
        return f"{left} {self.infix[Ops.CMPLT]} {right}"

    def negate(self, value: str, dtype: DType) -> str:
        """Flip the sign bit of a float; negate an integer with wraparound."""
        if dtype.is_float:
            return f"-{value}"
        return self.binary(Ops.SUB, self.literal(0, dtype), value, dtype)

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        """Apply an operator of `infix` whose result has the type of its operands."""
        symbol = self.infix[op]
        if not dtype.is_int:
            return f"{left} {symbol} {right}"
        is_narrow = dtype.bits < 32
        word = _word_type(dtype)
        if op in WRAPPING and dtype is not word and not (self.signed_wraps and not is_narrow):
            left, right = self.cast(left, dtype, word), self.cast(right, dtype, word)
            return self.cast(f"({left} {symbol} {right})", word, dtype)
        text = f"{left} {symbol} {right}"
        return self.cast(f"({text})", dtypes.int32, dtype) if is_narrow else text

    def shift(self, op: Ops, left: str, count: str, dtype: DType) -> str:
        """Shift by the low bits of `count`; shifts to the right extend the sign."""
        masked = f"({count} & {dtype.bits - 1})"
        word = _word_type(dtype) if op is Ops.SHL else dtype
        if word is not dtype:
            left = self.cast(left, dtype, word)
        text = f"{left} {'<<' if op is Ops.SHL else '>>'} {masked}"
        return self.cast(f"({text})", word, dtype) if dtype is not word or dtype.bits < 32 else text

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        """Call a function of floats."""
        return f"{self.functions[op]}({', '.join(operands)})"

    def index(self, memory: str, position: str) -> str:
        """Return an element of a buffer or array, to read or to assign to."""
        return f"{memory}[{position}]"

    def read(self, element: str, dtype: DType) -> str:
        """Return the value of an element of memory."""
        return f"{element} != 0" if dtype.is_bool else element

    def read_atomic(self, element: str) -> str:
        """Return a word of a memory that `masked_store` writes, one of `self.atomic`."""
        return element

    def write(self, value: str, dtype: DType) -> str:
        """Convert a value to an element of memory."""
        return value

    def texel(self, image: str, row: str, column: str) -> str:
        """Read four float32 of an image. A language without images refuses this."""
        raise UserError(f"LOAD: {self.language} has no images here: accepted are buffers")

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        """Apply an operation to whole vectors; None to apply it lane by lane."""
        if node.op not in self.vector_infix or not node.dtype.is_float:
            return None
        left, right = operands
        return f"{left} {self.infix[node.op]} {right}"

    def tile_function(self, tile: MatrixTile, name: str) -> str:
        """Define the function `name`, which computes fragment D from fragments A, B and C.

        A language without matrix tiles refuses this.
        """
        raise UserError(
            f"WMMA: {self.language} has no tile {tile.name} here: accepted are products and sums"
        )

    # Statements

    def declare_value(self, kind: str, name: str, text: str) -> str:
        """Declare a value that does not change."""
        return f"{kind} {name} = {text};"

    def declare_variable(self, kind: str, name: str, text: str | None) -> str:
        """Declare a variable that is assigned to later, with or without a first value."""
        return f"{kind} {name};" if text is None else f"{kind} {name} = {text};"

    def assign(self, target: str, value: str) -> str:
        """Assign a value to a variable or an element of memory."""
        return f"{target} = {value};"

    def open_loop(self, kind: str, name: str, bound: str) -> str:
        """Begin a loop from 0 to `bound`, exclusive; `}` ends it."""
        return f"for ({kind} {name} = 0; {name} < {bound}; {name}++) {{"

    def open_branch(self, condition: str) -> str:
        """Begin a block that runs only if the condition holds; `}` ends it."""
        return f"if ({condition}) {{"

    def declare_local(self, kind: str, name: str, size: int) -> None:
        """Declare shared memory of a group, or scratch memory of a work-item without groups."""
        self.declare(f"{self.shared_space}{kind} {name}[{size}];")

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        """Load neighbours in memory; only the alignment of the elements is certain."""
        lanes = [
            self.read(self.index(memory, _plus(position, lane)), dtype.scalar)
            for lane in range(dtype.lanes)
        ]
        return self.assign(name, self.make_vector(dtype, lanes))

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        """Store a named vector to neighbours in memory, aligned as elements are."""
        return " ".join(
            self.assign(
                self.index(memory, _plus(position, lane)),
                self.write(self.lane(value, lane), dtype.scalar),
            )
            for lane in range(dtype.lanes)
        )

    def masked_store(self, element: str, bits: str, mask: str) -> str:
        """Replace the bits of `mask` in a word without ever changing other bits.

        Other work-items may write those bits at the same time, so use two atomics: and, then or.
        """
        raise UserError(f"STORE: {self.language} here replaces no bits of a word by a mask")

    def store_texel(self, image: str, row: str, column: str, value: str) -> str:
        """Write four float32 to an image. A language without images refuses this."""
        raise UserError(f"STORE: {self.language} has no images here: accepted are buffers")

    # The frame

    def prologue(self) -> list[str]:
        """Return the lines before helpers and kernel; `self.types` are the types in use."""
        return list(self.header)

    def buffer_parameter(self, position: int, name: str, element: DType) -> str:
        """Return the parameter of a buffer; unused buffers have one too."""
        return f"{self.global_space}{self.memory_type(element)} *{name}"

    def image_parameter(self, position: int, name: str, image: ImageDType) -> str:
        """Return the parameter of an image. A language without images refuses this."""
        raise UserError(
            f"DEFINE_GLOBAL: {image.name} is an image: accepted are buffers in {self.language}"
        )

    def variable_parameter(self, position: int, name: str, dtype: DType) -> str:
        """Return the parameter of a 32-bit variable; variables follow the buffers."""
        return f"{self.type(dtype)} {name}"

    def launch_index(self, scope: str, dimension: int) -> str:
        """Return the index of the "group" in the grid, or of the work-"item" in its group."""
        text = self.launch_indices.get((scope, dimension))
        if text is None:
            known = ", ".join(f"{where} {number}" for where, number in self.launch_indices)
            raise UserError(
                f"SPECIAL: {self.language} here has no {scope} index of dimension {dimension}: "
                f"accepted are {known or 'none'}"
            )
        return text

    def function_head(self, entry: str, parameters: Sequence[str]) -> list[str]:
        """Return the lines that begin the kernel, the last one with its `{`."""
        words = [self.kernel_keywords, entry]
        if self.has_launch_bounds:
            words.insert(1, f"__launch_bounds__({math.prod(self.program.group)})")
        return [f"{' '.join(words)}({', '.join(parameters)}) {{"]

    def source_lines(self) -> list[str]:
        """Return all lines, after the body is made."""
        entry = self.entry_name(self.program)
        head = self.function_head(entry, self.parameters())
        helpers = [self.helpers[name] for name in sorted(self.helpers)]
        return [*self.prologue(), *helpers, *head, *self._declared, *self._lines, "}"]

    def parameters(self) -> list[str]:
        """Return the parameter of every buffer by slot, then of every variable."""
        buffers = [
            self._images.get(parameter.slot)
            or self.buffer_parameter(
                position,
                f"data{parameter.slot}",
                self._elements.get(parameter.slot, parameter.dtype),
            )
            for position, parameter in enumerate(self.program.parameters)
        ]
        variables = [
            self.variable_parameter(position, self._variable_name(node), node.dtype)
            for position, node in enumerate(self.program.variables)
        ]
        return [*buffers, *variables]

    def _variable_name(self, node: UOp) -> str:
        spoken = payload_of(node, VarArg).name
        position = variable_position(self.program, node)
        return f"var_{spoken if is_identifier(spoken) else position}"

    def bind_buffer(self, position: int, name: str, element: DType) -> None:
        """Define `name` in the body if the parameter has another name, or none."""

    def bind_variable(self, position: int, name: str, dtype: DType) -> None:
        """Define the name of a variable in the same way."""


def _word_type(dtype: DType) -> DType:
    """Return the unsigned type of integer arithmetic: C widens integers below 32 bits."""
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def _plus(position: str, lane: int) -> str:
    return f"{position} + {lane}" if lane else position
