"""What a language like C says its own way: the words and forms that `CStyleRenderer` prints."""

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
# The words of C and C++ for numbers, and those of languages that have a word for each type.
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

# Unsigned arithmetic wraps where signed arithmetic would be undefined.
WRAPPING = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})

# What functions of matrix tiles are called, before the name of the tile. An emulator defines
# EMULATED, and these functions itself: a device has an instruction for each.
TILE_PREFIX = "tinyref_wmma_"
EMULATED = "TINYREF_EMULATED"

C_STYLE_OPS = frozenset(op.name for op in ALU - {Ops.THREEFRY, Ops.MULACC}) | {"LOAD", "STORE"}


def launch_table(group: str, item: str) -> Mapping[tuple[str, int], str]:
    """Launch indices of three dimensions: {dim} is the number of one, {axis} its letter."""
    return {
        (scope, dim): text.format(dim=dim, axis="xyz"[dim])
        for scope, text in (("group", group), ("item", item))
        for dim in range(3)
    }


class CStyleLanguage:
    """The members that a language may change, with what C says; `CStyleRenderer` documents them."""

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
        # Vectors of other widths than those that are declared: the device has registers for them.
        self.fragments = frozenset(tile.fragment(operand) for tile in tiles for operand in Operand)

    def entry_name(self, program: Program) -> str:
        """What the kernel is called in the text. Raises `UserError` for what is no identifier."""
        return self.kernel_prefix + checked_name(program.name, f"a {self.language}")

    def begin(self, program: Program) -> None:
        """Begin the text of `program`: set the state that methods change while it is made."""
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

    # What methods of a language may use

    def line(self, text: str) -> None:
        """Adds a line to the body."""
        self._lines.append("  " * self._depth + text)

    def declare(self, text: str) -> None:
        """Adds a line at the top of the body, for what all of it sees."""
        self._declared.append(f"  {text}")

    def fresh(self, prefix: str) -> str:
        """A name that nothing else has."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def define(self, dtype: DType, text: str, prefix: str = "v") -> str:
        """Adds a value that is named, and gives its name."""
        name = self.fresh(prefix)
        self.line(self.declare_value(self.type(dtype), name, text))
        return name

    def type(self, dtype: DType) -> str:
        """The name of a type. Raises `UserError` for one that the device does not declare."""
        has_lanes = dtype.lanes in (1, *self.vector_lanes) or dtype in self.fragments
        if dtype.scalar not in self.accepted or not has_lanes:
            accepted = ", ".join(sorted(known.name for known in self.accepted))
            raise UserError(
                f"dtype: {dtype.name} has no {self.language} type here: accepted are {accepted}, "
                f"and vectors of {', '.join(map(str, self.vector_lanes))} lanes"
            )
        self.types.add(dtype)
        return self.type_names[dtype] if dtype.lanes == 1 else self.vector_type(dtype)

    def memory_type(self, dtype: DType) -> str:
        """The type of an element in memory: a bool takes a byte, of which any but 0 is true."""
        return self.type(dtypes.uint8 if dtype.is_bool else dtype.scalar)

    # Expressions

    def vector_type(self, dtype: DType) -> str:
        """The name of a vector; there are no vectors of bools in many a language."""
        scalar = dtypes.uint8 if dtype.scalar.is_bool else dtype.scalar
        return f"{self.type_names[scalar]}{dtype.lanes}"

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        """A vector of the given lanes."""
        return f"({self.type(dtype)})({', '.join(lanes)})"

    def lane(self, vector: str, number: int) -> str:
        """One lane of a vector that has a name."""
        return f"{vector}.s{number:x}"

    def literal(self, value: ConstType, dtype: DType) -> str:
        """A constant of exactly the type `dtype`; a vector has it in each lane."""
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
            # There are no negative literals: the digits of the least value alone do not fit.
            return f"({value + 1}{suffix} - 1{suffix})"
        return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"

    def decimal(self, number: float, dtype: DType) -> str:
        """The shortest decimal that reads back as the same finite float."""
        digits = repr(number) if dtype is dtypes.float64 else str(np.float32(number))
        if "." not in digits and "e" not in digits:
            digits += ".0"
        text = digits + self.suffixes[dtype]
        return f"({text})" if number < 0 else text

    def special_float(self, number: float, dtype: DType) -> str:
        """Negative zero, an infinity or NaN, by its bits."""
        is_single = dtype is dtypes.float32
        layout, bits = ("<f", dtypes.uint32) if is_single else ("<d", dtypes.uint64)
        pattern = int.from_bytes(struct.pack(layout, number), "little")
        return self.bitcast(f"{pattern:#x}{self.suffixes[bits]}", bits, dtype)

    def cast(self, value: str, source: DType, target: DType) -> str:
        """A conversion whose result `target` can hold, integers by their low bits."""
        return f"({self.type(target)}){value}"

    def saturating_cast(self, value: str, source: DType, target: DType) -> str:
        """A float as an integer: what is too large becomes the nearest one, NaN becomes 0."""
        low, high = int(target.minimum), int(target.maximum)
        least, limit = (self.decimal(float(end), source) for end in (low, high + 1))
        negative = self.less(value, self.decimal(0.0, source), source)
        outside = self.select(negative, self.literal(low, target), self.literal(0, target))
        inside = self.cast(value, source, target)
        below = self.select(self.less(least, value, source), inside, f"({outside})")
        # The greatest float below the limit is inside; only NaN is neither below it nor above.
        is_large = f"{value} >= {limit}"
        return self.select(is_large, self.literal(high, target), f"({below})")

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """The same bits as another type of the same size, of which at least one is a float."""
        raise UserError(f"BITCAST: {self.language} has none of {source.name} to {target.name}")

    def select(self, condition: str, chosen: str, other: str) -> str:
        """`chosen` where the condition holds, else `other`."""
        return f"{condition} ? {chosen} : {other}"

    def not_equal(self, left: str, right: str, dtype: DType) -> str:
        """True for NaN, whatever it is compared with."""
        return f"{left} {self.infix[Ops.CMPNE]} {right}"

    def less(self, left: str, right: str, dtype: DType) -> str:
        """False for NaN."""
        return f"{left} {self.infix[Ops.CMPLT]} {right}"

    def negate(self, value: str, dtype: DType) -> str:
        """The sign bit of a float turned; the negative of an integer, wrapped."""
        if dtype.is_float:
            return f"-{value}"
        return self.binary(Ops.SUB, self.literal(0, dtype), value, dtype)

    def binary(self, op: Ops, left: str, right: str, dtype: DType) -> str:
        """An operator of `infix` whose result has the type of its operands."""
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
        """A shift by as many bits as the low bits of `count` say; to the right with the sign."""
        masked = f"({count} & {dtype.bits - 1})"
        word = _word_type(dtype) if op is Ops.SHL else dtype
        if word is not dtype:
            left = self.cast(left, dtype, word)
        text = f"{left} {'<<' if op is Ops.SHL else '>>'} {masked}"
        return self.cast(f"({text})", word, dtype) if dtype is not word or dtype.bits < 32 else text

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        """A function of floats."""
        return f"{self.functions[op]}({', '.join(operands)})"

    def index(self, memory: str, position: str) -> str:
        """An element of a buffer or of an array, to be read or assigned to."""
        return f"{memory}[{position}]"

    def read(self, element: str, dtype: DType) -> str:
        """The value of an element of memory."""
        return f"{element} != 0" if dtype.is_bool else element

    def read_atomic(self, element: str) -> str:
        """The value of a word of one of the memories that `masked_store` writes: `self.atomic`."""
        return element

    def write(self, value: str, dtype: DType) -> str:
        """A value as an element of memory."""
        return value

    def texel(self, image: str, row: str, column: str) -> str:
        """Reads four float32 of an image. A language without images refuses them."""
        raise UserError(f"LOAD: {self.language} has no images here: accepted are buffers")

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        """An operation on whole vectors; None where it is done lane by lane."""
        if node.op not in self.vector_infix or not node.dtype.is_float:
            return None
        left, right = operands
        return f"{left} {self.infix[node.op]} {right}"

    def tile_function(self, tile: MatrixTile, name: str) -> str:
        """The definition of the function `name` of fragments A, B and C that gives that of D.

        A language without matrix tiles refuses them.
        """
        raise UserError(
            f"WMMA: {self.language} has no tile {tile.name} here: accepted are products and sums"
        )

    # Statements

    def declare_value(self, kind: str, name: str, text: str) -> str:
        """Names a value that does not change."""
        return f"{kind} {name} = {text};"

    def declare_variable(self, kind: str, name: str, text: str | None) -> str:
        """Names a value that is assigned to later, also without a first value."""
        return f"{kind} {name};" if text is None else f"{kind} {name} = {text};"

    def assign(self, target: str, value: str) -> str:
        """Gives a variable or an element of memory another value."""
        return f"{target} = {value};"

    def open_loop(self, kind: str, name: str, bound: str) -> str:
        """Begins a loop from 0 to `bound`, exclusive; `}` ends it."""
        return f"for ({kind} {name} = 0; {name} < {bound}; {name}++) {{"

    def open_branch(self, condition: str) -> str:
        """Begins what is done only where the condition holds; `}` ends it."""
        return f"if ({condition}) {{"

    def declare_local(self, kind: str, name: str, size: int) -> None:
        """Shared memory of a group, or scratch memory of a work-item where there are no groups."""
        self.declare(f"{self.shared_space}{kind} {name}[{size}];")

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        """Assigns neighbours in memory, of which only the elements are certainly aligned."""
        lanes = [
            self.read(self.index(memory, _plus(position, lane)), dtype.scalar)
            for lane in range(dtype.lanes)
        ]
        return self.assign(name, self.make_vector(dtype, lanes))

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        """Writes a vector with a name to neighbours in memory, aligned as elements are."""
        return " ".join(
            self.assign(
                self.index(memory, _plus(position, lane)),
                self.write(self.lane(value, lane), dtype.scalar),
            )
            for lane in range(dtype.lanes)
        )

    def masked_store(self, element: str, bits: str, mask: str) -> str:
        """Replaces the bits of `mask` in a word, with no other bit ever changed.

        Other work-items write those at the same time: two atomic operations, and then or, do it.
        """
        raise UserError(f"STORE: {self.language} here replaces no bits of a word by a mask")

    def store_texel(self, image: str, row: str, column: str, value: str) -> str:
        """Writes four float32 to an image. A language without images refuses them."""
        raise UserError(f"STORE: {self.language} has no images here: accepted are buffers")

    # The frame

    def prologue(self) -> list[str]:
        """The lines before helpers and kernel; `self.types` are the types that are used."""
        return list(self.header)

    def buffer_parameter(self, position: int, name: str, element: DType) -> str:
        """The parameter of a buffer; there is one for each, also for those that are not used."""
        return f"{self.global_space}{self.memory_type(element)} *{name}"

    def image_parameter(self, position: int, name: str, image: ImageDType) -> str:
        """The parameter of an image. A language without images refuses it."""
        raise UserError(
            f"DEFINE_GLOBAL: {image.name} is an image: accepted are buffers in {self.language}"
        )

    def variable_parameter(self, position: int, name: str, dtype: DType) -> str:
        """The parameter of a variable of 32 bits; they come after the buffers."""
        return f"{self.type(dtype)} {name}"

    def launch_index(self, scope: str, dimension: int) -> str:
        """The index of the "group" in the grid or of the work-"item" in its group."""
        text = self.launch_indices.get((scope, dimension))
        if text is None:
            known = ", ".join(f"{where} {number}" for where, number in self.launch_indices)
            raise UserError(
                f"SPECIAL: {self.language} here has no {scope} index of dimension {dimension}: "
                f"accepted are {known or 'none'}"
            )
        return text

    def function_head(self, entry: str, parameters: Sequence[str]) -> list[str]:
        """The lines that begin the kernel, the last one with its `{`."""
        words = [self.kernel_keywords, entry]
        if self.has_launch_bounds:
            words.insert(1, f"__launch_bounds__({math.prod(self.program.group)})")
        return [f"{' '.join(words)}({', '.join(parameters)}) {{"]

    def source_lines(self) -> list[str]:
        """All lines, once the body is made."""
        entry = self.entry_name(self.program)
        head = self.function_head(entry, self.parameters())
        helpers = [self.helpers[name] for name in sorted(self.helpers)]
        return [*self.prologue(), *helpers, *head, *self._declared, *self._lines, "}"]

    def parameters(self) -> list[str]:
        """Every buffer by slot, then every variable."""
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
        """Makes `name` known in the body, where that of the parameter is another or none."""

    def bind_variable(self, position: int, name: str, dtype: DType) -> None:
        """The same for a variable."""


def _word_type(dtype: DType) -> DType:
    """The unsigned type in which an integer type computes: C widens what is below 32 bits."""
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def _plus(position: str, lane: int) -> str:
    return f"{position} + {lane}" if lane else position
