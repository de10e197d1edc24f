"""The base of every renderer whose language is like C: a language is a table and a few methods."""

from __future__ import annotations

import copy
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.dtype import ConstType, DType, ImageDType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.payloads import (
    checked_name,
    element_of,
    is_identifier,
    name_of_value,
    parameter_position,
    payload_of,
    variable_position,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, SpecialArg, VarArg
from tinyref.uops.program import Program

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
# Unsigned arithmetic wraps where signed arithmetic would be undefined.
_WRAPPING = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})

C_STYLE_OPS = frozenset(op.name for op in ALU - {Ops.THREEFRY, Ops.MULACC}) | {"LOAD", "STORE"}


class CStyleRenderer:
    """Prints programs in a language that is like C. Subclass it, fill the table, override methods.

    A program is a list of nodes in a legal order. The base walks it and makes a statement of each
    node that computes something, `float v7 = v5 * v6;`, so that every operation rounds and wraps
    in its own type. What a language spells its own way is a member of this class:

    1. the **table**, class attributes that most languages only have to fill in;
    2. **expressions**, methods that are given operands as texts (names or literals, in parentheses
       where they need them) and give the text of the result;
    3. **statements**, methods that give one line, with its `;`;
    4. the **frame**, methods that print what stands around the body.

    A renderer is made with the capabilities of its device, and refuses (`UserError`) what they do
    not declare: types, widths of vectors, ops. Without capabilities it takes all scalar types of
    its table. Nothing is refused here that the compiler would not have refused before; this is the
    last line.

    `render` works on a copy of the renderer, so threads may share one. While a text is made,
    methods may use `self.program`, and put beside the kernel what it needs:
    `self.helpers[name] = text` is printed once before the kernel, `self.line(text)` is a line of
    the body at the place that is printed now, `self.declare(text)` a line at its top.

    **Names.** Kernels get `kernel_prefix`: one named `rotate` is no built-in. `entry_name(program)`
    says what the kernel is called in the text, and `Backend.load` gets it. Values are v1, v2 ...,
    loop counters i3, accumulators acc4, memory of a group local5, launch indices group_0 and
    item_0, buffers data0 by their slots, variables var_NAME.

    **The table**

    language: what errors call the language.
    type_names: the scalar types, those of `Capabilities.dtypes` at least.
    suffixes: of literals, by type; a type without one has its literals cast.
    bool_literals: false and true.
    infix, functions: operators between operands, functions of floats.
    half_functions: whether `functions` take float16; else they go through float32.
    signed_wraps: whether signed integers wrap around; else they are computed as unsigned ones.
    select_is_lazy: whether `select` evaluates only the side that it chooses, so that a gated load
    is one; else it is a branch.
    vector_infix: the operators that take whole vectors of floats.
    kernel_keywords, global_space, shared_space: what stands before a kernel, a pointer to device
    memory, an array of a group's shared memory.
    launch_indices: the index of a group or of a work-item, by (scope, dimension), as
    `("group", 0): "get_group_id(0)"`; what is not in it is refused.
    barrier_text: the statement with which the work-items of a group wait for each other.
    header: lines that every text begins with.
    """

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

    def entry_name(self, program: Program) -> str:
        """What the kernel is called in the text. Raises `UserError` for what is no identifier."""
        return self.kernel_prefix + checked_name(program.name, f"a {self.language}")

    def render(self, program: Program) -> str:
        """The source of one kernel. Raises `UserError` for a node that the language cannot say."""
        text = copy.copy(self)
        text._begin(program)
        for node in program.uops:
            text._print_node(node)
        return "\n".join([*text.source_lines(), ""])

    def _begin(self, program: Program) -> None:
        self.program = program
        self.types: set[DType] = set()
        self.helpers: dict[str, str] = {}
        self._images: dict[int, str] = {}
        self._declared: list[str] = []
        self._lines: list[str] = []
        self._names: dict[UOp, str] = {}
        self._depth = 1
        self._counter = 0
        self._elements: dict[int, DType] = {}
        masked = (node for node in program.uops if node.op is Ops.STORE and len(node.src) == 4)
        self._atomic_memories = {_memory_of(node.src[0]) for node in masked}
        self.atomic: set[str] = set()

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
        has_lanes = dtype.lanes == 1 or dtype.lanes in self.vector_lanes
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
        if op in _WRAPPING and dtype is not word and not (self.signed_wraps and not is_narrow):
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
        return [f"{self.kernel_keywords} {entry}({', '.join(parameters)}) {{"]

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

    # The walk

    def _value(self, node: UOp) -> str:
        return name_of_value(self._names, node)

    def _values(self, node: UOp) -> list[str]:
        return [self._value(source) for source in node.src]

    def _lane(self, node: UOp, number: int) -> str:
        """One lane of `node`; a scalar is the same in every lane."""
        if node.op is Ops.CONST:
            return self.literal(payload_of(node, ConstArg).value, node.dtype.scalar)
        name = self._value(node)
        return name if node.dtype.lanes == 1 else self.lane(name, number)

    def _print_node(self, node: UOp) -> None:
        printer = _PRINTERS.get(node.op)
        if printer is None:
            raise UserError(f"{node.op.name}: {self.language} devices print no such node")
        if node.op in ALU and node.op.name not in self.ops:
            accepted = ", ".join(sorted(self.ops))
            raise UserError(f"{node.op.name}: is not declared: accepted are {accepted}")
        name = printer(self, node)
        if name is not None:
            self._names[node] = name

    def _constant(self, node: UOp) -> str:
        return self.literal(payload_of(node, ConstArg).value, node.dtype)

    def _define_global(self, node: UOp) -> str:
        slot, position = payload_of(node, SlotArg).slot, parameter_position(self.program, node)
        name = f"data{slot}"
        if node in self._atomic_memories:
            self.atomic.add(name)
        if isinstance(node.dtype, ImageDType):
            self._images[slot] = self.image_parameter(position, name, node.dtype)
        else:
            self._elements[slot] = element_of(node)
            self.bind_buffer(position, name, element_of(node))
        return name

    def bind_buffer(self, position: int, name: str, element: DType) -> None:
        """Makes `name` known in the body, where that of the parameter is another or none."""

    def _define_var(self, node: UOp) -> str:
        name = self._variable_name(node)
        self.bind_variable(variable_position(self.program, node), name, node.dtype)
        return name

    def bind_variable(self, position: int, name: str, dtype: DType) -> None:
        """The same for a variable."""

    def _special(self, node: UOp) -> str:
        special = payload_of(node, SpecialArg)
        text = self.launch_index(special.scope, special.dim)
        name = f"{special.scope}_{special.dim}"
        self.declare(self.declare_value(self.type(node.dtype), name, text))
        return name

    def _define_local(self, node: UOp) -> str:
        name = self.fresh("local")
        if node in self._atomic_memories:
            self.atomic.add(name)
        size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
        self.declare_local(self.memory_type(element_of(node)), name, size)
        return name

    def _define_acc(self, node: UOp) -> str:
        name = self.fresh("acc")
        self.line(self.declare_variable(self.type(node.dtype), name, self._value(node.src[0])))
        return name

    def _update_acc(self, node: UOp) -> str:
        accumulator, value = self._values(node)
        self.line(self.assign(accumulator, value))
        return accumulator

    def _open_range(self, node: UOp) -> str:
        name = self.fresh("i")
        self.line(self.open_loop(self.type(node.dtype), name, self._value(node.src[0])))
        self._depth += 1
        return name

    def _open_if(self, node: UOp) -> None:
        self.line(self.open_branch(self._value(node.src[0])))
        self._depth += 1

    def _close(self, node: UOp) -> None:
        self._depth -= 1
        self.line("}")

    def _barrier(self, node: UOp) -> None:
        if not self.barrier_text:
            raise UserError(f"BARRIER: {self.language} devices print no such node")
        self.line(self.barrier_text)

    def _index(self, node: UOp) -> str:
        if isinstance(node.src[0].dtype, ImageDType):
            return ""
        memory, position = self._values(node)
        return self.index(memory, position)

    def _load(self, node: UOp) -> str:
        name = self.fresh("v")
        address, *gated = node.src
        if not gated and node.dtype.lanes == 1:
            text = self._read(address, node.dtype)
            self.line(self.declare_value(self.type(node.dtype), name, text))
            return name
        alternative, gate = map(self._value, gated) if gated else (None, None)
        if node.dtype.lanes == 1 and self.select_is_lazy and gate and alternative:
            text = self.select(gate, self._read(address, node.dtype), alternative)
            self.line(self.declare_value(self.type(node.dtype), name, text))
            return name
        self.line(self.declare_variable(self.type(node.dtype), name, alternative))
        self._guarded(gate, self._load_statement(node, name))
        return name

    def _read(self, address: UOp, dtype: DType) -> str:
        if _memory_of(address) in self._atomic_memories:
            return self.read_atomic(self._value(address))
        return self.read(self._value(address), dtype)

    def _load_statement(self, node: UOp, name: str) -> str:
        address = node.src[0]
        place = self._values(address)
        if isinstance(address.src[0].dtype, ImageDType):
            return self.assign(name, self.texel(place[0], place[1], place[2]))
        if node.dtype.lanes == 1:
            return self.assign(name, self._read(address, node.dtype))
        return self.vector_load(name, place[0], place[1], node.dtype)

    def _store(self, node: UOp) -> None:
        address, value = node.src[0], self._value(node.src[1])
        dtype = node.src[1].dtype
        place = self._values(address)
        if dtype.lanes > 1 and node.src[1].op is Ops.CONST:
            value = self.define(dtype, value)
        if isinstance(address.src[0].dtype, ImageDType):
            statement = self.store_texel(place[0], place[1], place[2], value)
        elif dtype.lanes > 1:
            statement = self.vector_store(value, place[0], place[1], dtype)
        elif len(node.src) == 4:
            statement = self.masked_store(self._value(address), value, self._value(node.src[3]))
        else:
            statement = self.assign(self._value(address), self.write(value, dtype))
        is_gated = len(node.src) > 2
        self._guarded(self._value(node.src[2]) if is_gated else None, statement)

    def _guarded(self, gate: str | None, statement: str) -> None:
        """A statement that a closed gate skips."""
        if gate is None:
            self.line(statement)
        else:
            self.line(f"{self.open_branch(gate)} {statement} }}")

    def _gep(self, node: UOp) -> str:
        source = node.src[0]
        lanes = payload_of(node, GepArg).lanes
        if node.dtype.lanes > 1:
            return self._join(node.dtype, [self._lane(source, lane) for lane in lanes])
        text = self._lane(source, lanes[0])
        return text if source.dtype.lanes == 1 else self.define(node.dtype, text)

    def _vectorize(self, node: UOp) -> str:
        return self._join(node.dtype, self._values(node))

    def _join(self, dtype: DType, lanes: Sequence[str]) -> str:
        return self.define(dtype, lanes[0] if dtype.lanes == 1 else self.make_vector(dtype, lanes))

    def _compute(self, node: UOp) -> str:
        if node.dtype.lanes == 1:
            return self.define(node.dtype, self._one_lane(node, self._values(node)))
        text = self.vector_operation(node, self._values(node))
        if text is not None:
            return self.define(node.dtype, text)
        lanes = [
            self._one_lane(node, [self._lane(source, lane) for source in node.src])
            for lane in range(node.dtype.lanes)
        ]
        return self._join(node.dtype, lanes)

    def _one_lane(self, node: UOp, operands: Sequence[str]) -> str:
        """What one lane of `node` computes of the operands."""
        have, want = node.src[0].dtype.scalar, node.dtype.scalar
        first, last = operands[0], operands[-1]
        match node.op:
            case Ops.CMPNE:
                return self.not_equal(first, last, have)
            case Ops.CMPLT:
                return self.less(first, last, have)
            case Ops.WHERE:
                return self.select(*operands)
            case Ops.MAX:
                return self.select(self.less(first, last, want), last, first)
            case Ops.NEG:
                return self.negate(first, want)
            case Ops.RECIP:
                return self.binary(Ops.FDIV, self.literal(1.0, want), first, want)
            case Ops.SHL | Ops.SHR:
                return self.shift(node.op, first, last, want)
            case Ops.CAST:
                return self._convert(first, have, want)
            case Ops.BITCAST:
                return self._same_bits(first, have, want)
        if node.op in self.functions:
            return self._function(node.op, operands, want)
        return self.binary(node.op, first, last, want)

    def _convert(self, value: str, have: DType, want: DType) -> str:
        if want.is_bool:
            return self.not_equal(value, self.literal(0, have), have)
        if not (have.is_float and want.is_int):
            return self.cast(value, have, want)
        if have is dtypes.float16:
            # The limits of an integer type may be out of its range.
            return self.saturating_cast(
                f"({self.cast(value, have, dtypes.float32)})", dtypes.float32, want
            )
        return self.saturating_cast(value, have, want)

    def _same_bits(self, value: str, have: DType, want: DType) -> str:
        if want.is_bool:
            return self.not_equal(value, self.literal(0, have), have)
        if have.is_float or want.is_float:
            return self.bitcast(value, have, want)
        return self.cast(value, have, want)

    def _function(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        if dtype is not dtypes.float16 or self.half_functions:
            return self.call(op, operands, dtype)
        wide = [self.cast(operand, dtype, dtypes.float32) for operand in operands]
        return self.cast(self.call(op, wide, dtypes.float32), dtypes.float32, dtype)


def _word_type(dtype: DType) -> DType:
    """The unsigned type in which an integer type computes: C widens what is below 32 bits."""
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def _memory_of(address: UOp) -> UOp:
    while address.op not in (Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL) and address.src:
        address = address.src[0]
    return address


def _plus(position: str, lane: int) -> str:
    return f"{position} + {lane}" if lane else position


_PRINTERS: dict[Ops, Callable[[CStyleRenderer, UOp], str | None]] = {
    Ops.CONST: CStyleRenderer._constant,
    Ops.DEFINE_GLOBAL: CStyleRenderer._define_global,
    Ops.DEFINE_VAR: CStyleRenderer._define_var,
    Ops.SPECIAL: CStyleRenderer._special,
    Ops.DEFINE_LOCAL: CStyleRenderer._define_local,
    Ops.DEFINE_ACC: CStyleRenderer._define_acc,
    Ops.UPDATE_ACC: CStyleRenderer._update_acc,
    Ops.RANGE: CStyleRenderer._open_range,
    Ops.END: CStyleRenderer._close,
    Ops.IF: CStyleRenderer._open_if,
    Ops.ENDIF: CStyleRenderer._close,
    Ops.BARRIER: CStyleRenderer._barrier,
    Ops.INDEX: CStyleRenderer._index,
    Ops.LOAD: CStyleRenderer._load,
    Ops.STORE: CStyleRenderer._store,
    Ops.VECTORIZE: CStyleRenderer._vectorize,
    Ops.GEP: CStyleRenderer._gep,
    **dict.fromkeys(ALU - {Ops.THREEFRY, Ops.MULACC}, CStyleRenderer._compute),
}
