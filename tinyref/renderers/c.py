"""Programs as C source for a host: `void name(void **buffers, const int *variables)`.

The last of the `variables` is the group that this call computes: the launch index, 0 for a program
without one.

Plain C99 (and `_Float16` where the device declares it), read alike by gcc, clang and tcc; vectors,
where it declares them, are those of gcc and clang (`vector_size`; a bool is a byte there). Every
node is a statement of its own whose type is the type of the node, so each operation rounds and
wraps there. Nothing that C leaves undefined can be reached: integer arithmetic is done unsigned,
shift counts are masked, conversions out of range saturate, special floats are made of their bits.
Division by zero and MIN/-1 trap: the backends declare `division_traps`, decomposition guards them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np

from tinyref.dtype import ConstType, DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c_types import (
    C_DTYPES,
    C_NAMES,
    C_WORDS,
    integer_literal,
    signed_like,
    type_name,
    typedef,
    unsigned_like,
    word_type,
)
from tinyref.renderers.payloads import (
    element_of,
    entry_name,
    group_position,
    is_identifier,
    name_of_value,
    parameter_position,
    payload_of,
    variable_position,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, VarArg
from tinyref.uops.program import Program

C_OPS = frozenset(op.name for op in ALU - {Ops.THREEFRY, Ops.MULACC}) | {"LOAD", "STORE"}

_INFIX = {
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
# Unsigned arithmetic wraps where signed arithmetic would be undefined.
_WRAPPING = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})
_FUNCTIONS = {
    Ops.SQRT: "sqrt",
    Ops.TRUNC: "trunc",
    Ops.EXP2: "exp2",
    Ops.LOG2: "log2",
    Ops.SIN: "sin",
    Ops.POW: "pow",
}

# A cache line, and the widest vector register of today's hosts.
_SCRATCH_ALIGNMENT = 64


class CRenderer:
    """Prints programs as C; `accepted` and `vector_lanes` are what the compiler has.

    Raises `UserError` for a node that it cannot print.
    """

    def __init__(
        self,
        accepted: frozenset[DType] = C_DTYPES,
        vector_lanes: tuple[int, ...] = (1,),
    ) -> None:
        self.accepted = accepted
        self.vector_lanes = vector_lanes

    def render(self, program: Program) -> str:
        return _Source(program, self.accepted, self.vector_lanes).text()


class _Source:
    """The text of one function while its nodes are printed in order."""

    def __init__(
        self, program: Program, accepted: frozenset[DType], vector_lanes: tuple[int, ...]
    ) -> None:
        self.program = program
        self.accepted = accepted
        self.vector_lanes = vector_lanes
        self.types: set[DType] = set()
        self.helpers: dict[str, str] = {}
        self.hoisted: list[str] = []
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.depth = 1
        self.counter = 0

    def text(self) -> str:
        for node in self.program.uops:
            self.print_node(node)
        names = map(type_name, C_DTYPES | self.types)
        taken = {*C_WORDS, *names, *_FUNCTIONS.values(), *self.helpers}
        entry = entry_name(self.program.name, taken, "a C")
        ordered = sorted(self.types, key=lambda dtype: (dtype.lanes, dtype.scalar.priority))
        lines = list(map(typedef, ordered))
        lines += [self.helpers[name] for name in sorted(self.helpers)]
        lines += [f"void {entry}(void **buffers, const int *variables) {{"]
        lines += [*self.hoisted, *self.lines, "}", ""]
        return "\n".join(lines)

    # Small pieces

    def type(self, dtype: DType) -> str:
        """The C name of a type. Raises `UserError` for a type that the compiler lacks."""
        has_lanes = dtype.lanes == 1 or dtype.lanes in self.vector_lanes
        if dtype.scalar not in self.accepted & C_DTYPES or not has_lanes:
            accepted = ", ".join(sorted(known.name for known in self.accepted))
            raise UserError(f"dtype: {dtype.name} has no C type here: accepted are {accepted}")
        self.types.add(dtype)
        return type_name(dtype)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def declare(self, text: str) -> None:
        """Adds a declaration that the whole function sees, also one that stands in a block."""
        if self.depth == 1:
            self.line(text)
        else:
            self.hoisted.append(f"  {text}")

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def define(self, dtype: DType, text: str, prefix: str = "v") -> str:
        """Adds `type name = text;` and returns the name."""
        name = self.fresh(prefix)
        self.line(f"{self.type(dtype)} {name} = {text};")
        return name

    def value(self, node: UOp) -> str:
        return name_of_value(self.names, node)

    def values(self, node: UOp) -> list[str]:
        return [self.value(source) for source in node.src]

    def lane(self, node: UOp, number: int) -> str:
        """One lane of `node`; a scalar is the same in every lane."""
        if node.op is Ops.CONST:
            return self.literal(payload_of(node, ConstArg).value, node.dtype.scalar)
        name = name_of_value(self.names, node)
        return name if node.dtype.lanes == 1 else f"{name}[{number}]"

    def literal(self, value: ConstType, dtype: DType) -> str:
        name = self.type(dtype)
        if dtype.lanes > 1:
            lane = self.literal(value, dtype.scalar)
            return f"(({name}){{{', '.join([lane] * dtype.lanes)}}})"
        if dtype.is_bool:
            return "1" if value else "0"
        if dtype.is_int:
            return integer_literal(int(value), dtype)
        number = float(value)
        if dtype is dtypes.float16:
            return f"(({name}){self.literal(number, dtypes.float32)})"
        if math.isfinite(number) and (number or math.copysign(1, number) > 0):
            return self.decimal(number, dtype)
        layout, bits = ("<f", dtypes.uint32) if dtype is dtypes.float32 else ("<d", dtypes.uint64)
        pattern = int.from_bytes(struct.pack(layout, number), "little")
        suffix = "u" if bits is dtypes.uint32 else "ull"
        return f"{self.bitcast_helper(bits, dtype)}({pattern:#x}{suffix})"

    def decimal(self, number: float, dtype: DType) -> str:
        """The shortest decimal that reads back as the same float."""
        digits = str(np.float32(number)) if dtype is dtypes.float32 else repr(number)
        if "." not in digits and "e" not in digits:
            digits += ".0"
        suffixed = digits + ("f" if dtype is dtypes.float32 else "")
        return f"({suffixed})" if number < 0 else suffixed

    # Helpers: small functions printed before the kernel, where it uses them

    def bitcast_helper(self, source: DType, target: DType) -> str:
        have, want = self.type(source), self.type(target)
        name = f"{want}_of_{have}_bits"
        self.helpers[name] = (
            f"static inline {want} {name}({have} from) {{\n"
            f"  union {{ {have} from; {want} to; }} bits;\n"
            f"  bits.from = from;\n"
            f"  return bits.to;\n"
            f"}}"
        )
        return name

    def saturate_helper(self, source: DType, target: DType) -> str:
        """Float to integer: plain C leaves everything out of range undefined."""
        have, want = self.type(source), self.type(target)
        name = f"{want}_of_{have}"
        low, high = int(target.minimum), int(target.maximum)
        self.helpers[name] = (
            f"static inline {want} {name}({have} from) {{\n"
            f"  if (from >= {self.decimal(float(high + 1), source)}) "
            f"return {integer_literal(high, target)};\n"
            f"  if (from > {self.decimal(float(low), source)}) return ({want})from;\n"
            f"  return from < {self.decimal(0.0, source)} ? {integer_literal(low, target)} : 0;\n"
            f"}}"
        )
        return name

    def library(self, function: str, dtype: DType, arity: int) -> str:
        """The name of a function of the C library, declared."""
        kind = C_NAMES[dtype]
        name = function + ("f" if dtype is dtypes.float32 else "")
        self.helpers[name] = f"{kind} {name}({', '.join([kind] * arity)});"
        return name

    # Nodes

    def print_node(self, node: UOp) -> None:
        printer = _PRINTERS.get(node.op)
        if printer is None:
            raise UserError(f"{node.op.name}: C devices print no such node")
        name = printer(self, node)
        if name is not None:
            self.names[node] = name

    def constant(self, node: UOp) -> str:
        return self.literal(payload_of(node, ConstArg).value, node.dtype)

    def define_global(self, node: UOp) -> str:
        slot = payload_of(node, SlotArg).slot
        position = parameter_position(self.program, node)
        name = f"data{slot}"
        self.declare(f"{self.memory_type(element_of(node))} *{name} = buffers[{position}];")
        return name

    def memory_type(self, dtype: DType) -> str:
        """A bool takes a byte in memory, of which any value but 0 is true."""
        return self.type(dtypes.uint8 if dtype.is_bool else dtype.scalar)

    def define_var(self, node: UOp) -> str:
        position = variable_position(self.program, node)
        spoken = payload_of(node, VarArg).name
        name = f"var_{spoken if is_identifier(spoken) else position}"
        self.declare(f"{self.type(node.dtype)} {name} = variables[{position}];")
        return name

    def special(self, node: UOp) -> str:
        position = group_position(self.program, node)
        name = self.fresh("group")
        self.declare(f"{self.type(node.dtype)} {name} = variables[{position}];")
        return name

    def define_local(self, node: UOp) -> str:
        """Scratch memory of this call; the attribute is one that gcc, clang and tcc know."""
        name = self.fresh("local")
        size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
        kind = self.memory_type(element_of(node))
        self.declare(f"{kind} {name}[{size}] __attribute__((aligned({_SCRATCH_ALIGNMENT})));")
        return name

    def define_acc(self, node: UOp) -> str:
        return self.define(node.dtype, self.value(node.src[0]), "acc")

    def update_acc(self, node: UOp) -> str:
        accumulator, value = self.values(node)
        self.line(f"{accumulator} = {value};")
        return accumulator

    def open_range(self, node: UOp) -> str:
        name = self.fresh("i")
        bound = self.value(node.src[0])
        self.line(f"for ({self.type(node.dtype)} {name} = 0; {name} < {bound}; {name}++) {{")
        self.depth += 1
        return name

    def open_if(self, node: UOp) -> None:
        self.line(f"if ({self.value(node.src[0])}) {{")
        self.depth += 1

    def close(self, node: UOp) -> None:
        self.depth -= 1
        self.line("}")

    def index(self, node: UOp) -> str:
        buffer, position = self.values(node)
        return f"{buffer}[{position}]"

    def load(self, node: UOp) -> str:
        if node.dtype.lanes > 1:
            return self.load_lanes(node)
        text = self.value(node.src[0]) + (" != 0" if node.dtype.is_bool else "")
        if len(node.src) == 3:
            alternative, gate = self.value(node.src[1]), self.value(node.src[2])
            text = f"{gate} ? {text} : {alternative}"
        return self.define(node.dtype, text)

    def load_lanes(self, node: UOp) -> str:
        """Neighbours in memory, of which only the elements are certainly aligned."""
        name = self.fresh("v")
        kind = self.type(node.dtype)
        gated = len(node.src) == 3
        self.line(f"{kind} {name}{f' = {self.value(node.src[1])}' if gated else ''};")
        gate = f"if ({self.value(node.src[2])}) " if gated else ""
        self.line(f"{gate}__builtin_memcpy(&{name}, &{self.value(node.src[0])}, sizeof {name});")
        if node.dtype.is_bool:
            self.line(f"{name} = {self.flags(f'{name} != ({kind}){{0}}', node.dtype)};")
        return name

    def store(self, node: UOp) -> None:
        address, value = self.value(node.src[0]), self.value(node.src[1])
        dtype = node.src[1].dtype
        gate = f"if ({self.value(node.src[2])}) " if len(node.src) == 3 else ""
        if dtype.lanes == 1:
            self.line(f"{gate}{address} = {value};")
            return
        if node.src[1].op is Ops.CONST:
            value = self.define(dtype, value)
        self.line(f"{gate}__builtin_memcpy(&{address}, &{value}, sizeof {value});")

    def gep(self, node: UOp) -> str:
        source = node.src[0]
        lanes = payload_of(node, GepArg).lanes
        self.type(node.dtype)
        if source.dtype.lanes == 1 and len(lanes) == 1:
            return self.value(source)
        return self.join(node.dtype, [self.lane(source, lane) for lane in lanes])

    def vectorize(self, node: UOp) -> str:
        return self.join(node.dtype, self.values(node))

    def join(self, dtype: DType, lanes: list[str]) -> str:
        text = lanes[0] if dtype.lanes == 1 else f"{{{', '.join(lanes)}}}"
        return self.define(dtype, text)

    # Arithmetic: what one lane computes, and vectors as a whole where C has an operator for them

    def compute(self, node: UOp) -> str:
        one = _ONE_LANE[node.op]
        if node.dtype.lanes == 1:
            return self.define(node.dtype, one(self, node, self.values(node)))
        all_lanes = _ALL_LANES.get(node.op)
        if all_lanes is not None and _has_vector_operators(node):
            text = all_lanes(self, node, self.values(node))
            if text is not None:
                return self.define(node.dtype, text)
        lanes = range(node.dtype.lanes)
        return self.join(
            node.dtype,
            [one(self, node, [self.lane(source, lane) for source in node.src]) for lane in lanes],
        )

    def infix(self, node: UOp, operands: list[str]) -> str:
        left, right = operands
        dtype = node.src[0].dtype.scalar
        symbol = _INFIX[node.op]
        if node.op in _WRAPPING and dtype.is_int:
            word = self.type(word_type(dtype))
            left, right = f"({word}){left}", f"({word}){right}"
        text = f"{left} {symbol} {right}"
        if node.dtype.is_int:
            text = f"({self.type(node.dtype.scalar)})({text})"
        return text

    def shift(self, node: UOp, operands: list[str]) -> str:
        left, count = operands
        dtype = node.dtype.scalar
        masked = f"({count} & {dtype.bits - 1})"
        if node.op is Ops.SHL:
            text = f"({self.type(word_type(dtype))}){left} << {masked}"
        else:
            text = f"{left} >> {masked}"
        return f"({self.type(dtype)})({text})"

    def maximum(self, node: UOp, operands: list[str]) -> str:
        left, right = operands
        return f"{left} < {right} ? {right} : {left}"

    def negate(self, node: UOp, operands: list[str]) -> str:
        if node.dtype.is_float:
            return f"-{operands[0]}"
        dtype = node.dtype.scalar
        return f"({self.type(dtype)})(0 - ({self.type(word_type(dtype))}){operands[0]})"

    def reciprocal(self, node: UOp, operands: list[str]) -> str:
        return f"{self.literal(1.0, node.dtype.scalar)} / {operands[0]}"

    def call(self, node: UOp, operands: list[str]) -> str:
        """A function of the C library; float16 goes through float32."""
        dtype = node.dtype.scalar
        wide = dtypes.float32 if dtype is dtypes.float16 else dtype
        text = f"{self.library(_FUNCTIONS[node.op], wide, len(node.src))}({', '.join(operands)})"
        return text if wide is dtype else f"({self.type(dtype)}){text}"

    def where(self, node: UOp, operands: list[str]) -> str:
        condition, chosen, other = operands
        return f"{condition} ? {chosen} : {other}"

    def cast(self, node: UOp, operands: list[str]) -> str:
        value = operands[0]
        have, want = node.src[0].dtype.scalar, node.dtype.scalar
        if want.is_bool:
            return f"{value} != 0"
        if have.is_float and want.is_int:
            # The limits of an integer type may be out of float16's range.
            wide = dtypes.float32 if have is dtypes.float16 else have
            return f"{self.saturate_helper(wide, want)}({value})"
        return f"({self.type(want)}){value}"

    def bitcast(self, node: UOp, operands: list[str]) -> str:
        value = operands[0]
        have, want = node.src[0].dtype.scalar, node.dtype.scalar
        if want.is_bool:
            return f"{value} != 0"
        if have.is_bool or (have.is_int and want.is_int):
            return f"({self.type(want)}){value}"
        return f"{self.bitcast_helper(have, want)}({value})"

    def flags(self, mask: str, dtype: DType) -> str:
        """A vector of bools, 0 or 1, from the mask of a comparison, whose lanes are 0 or -1."""
        return f"__builtin_convertvector({mask}, {self.type(dtype)}) & 1"

    def choose(self, mask: str, chosen: str, other: str, dtype: DType) -> str:
        """By a mask of 0 or -1 in lanes as wide as those of `dtype`: C has no ?: for vectors."""
        word = self.type(signed_like(dtype))
        text = f"(({mask}) & ({word}){chosen}) | (~({mask}) & ({word}){other})"
        return f"({self.type(dtype)})({text})"

    def infix_lanes(self, node: UOp, operands: list[str]) -> str:
        left, right = operands
        text = f"{left} {_INFIX[node.op]} {right}"
        if node.op in (Ops.CMPLT, Ops.CMPNE):
            return self.flags(text, node.dtype)
        if node.op in _WRAPPING and node.dtype.is_int:
            word = self.type(unsigned_like(node.dtype))
            text = f"({word}){left} {_INFIX[node.op]} ({word}){right}"
            return f"({self.type(node.dtype)})({text})"
        return text

    def shift_lanes(self, node: UOp, operands: list[str]) -> str:
        left, count = operands
        # The count has the type of what it shifts; to the left that is unsigned.
        dtype = unsigned_like(node.dtype) if node.op is Ops.SHL else node.dtype
        kind = self.type(dtype)
        mask = self.literal(node.dtype.bits - 1, node.src[1].dtype)
        count = f"__builtin_convertvector({count} & {mask}, {kind})"
        symbol = "<<" if node.op is Ops.SHL else ">>"
        return f"({self.type(node.dtype)})(({kind}){left} {symbol} {count})"

    def maximum_lanes(self, node: UOp, operands: list[str]) -> str:
        left, right = operands
        return self.choose(f"{left} < {right}", right, left, node.dtype)

    def negate_lanes(self, node: UOp, operands: list[str]) -> str:
        if node.dtype.is_float:
            return f"-{operands[0]}"
        return f"({self.type(node.dtype)})(-({self.type(unsigned_like(node.dtype))}){operands[0]})"

    def reciprocal_lanes(self, node: UOp, operands: list[str]) -> str:
        return f"{self.literal(1.0, node.dtype)} / {operands[0]}"

    def where_lanes(self, node: UOp, operands: list[str]) -> str | None:
        condition, chosen, other = operands
        if node.src[0].dtype.lanes == 1:
            return f"{condition} ? {chosen} : {other}"
        mask = f"-__builtin_convertvector({condition}, {self.type(signed_like(node.dtype))})"
        return self.choose(mask, chosen, other, node.dtype)

    def cast_lanes(self, node: UOp, operands: list[str]) -> str | None:
        have, want = node.src[0].dtype, node.dtype
        if want.is_bool:
            return self.flags(f"{operands[0]} != {self.literal(0, have)}", want)
        if have.is_float and want.is_int:
            return None
        return f"__builtin_convertvector({operands[0]}, {self.type(want)})"

    def bitcast_lanes(self, node: UOp, operands: list[str]) -> str:
        have, want = node.src[0].dtype, node.dtype
        if want.is_bool:
            return self.flags(f"{operands[0]} != {self.literal(0, have)}", want)
        return f"({self.type(want)}){operands[0]}"


def _has_vector_operators(node: UOp) -> bool:
    """float16 is left to single lanes: not every compiler rounds each operation of a vector."""
    return all(part.dtype.scalar is not dtypes.float16 for part in (node, *node.src))


# What one lane computes, given its operands.
_ONE_LANE: dict[Ops, Callable[[_Source, UOp, list[str]], str]] = {
    **dict.fromkeys(_INFIX, _Source.infix),
    **dict.fromkeys(_FUNCTIONS, _Source.call),
    Ops.SHL: _Source.shift,
    Ops.SHR: _Source.shift,
    Ops.MAX: _Source.maximum,
    Ops.NEG: _Source.negate,
    Ops.RECIP: _Source.reciprocal,
    Ops.WHERE: _Source.where,
    Ops.CAST: _Source.cast,
    Ops.BITCAST: _Source.bitcast,
}

# The same for all lanes at once; None for types that have no operator.
_ALL_LANES: dict[Ops, Callable[[_Source, UOp, list[str]], str | None]] = {
    **dict.fromkeys(_INFIX, _Source.infix_lanes),
    Ops.SHL: _Source.shift_lanes,
    Ops.SHR: _Source.shift_lanes,
    Ops.MAX: _Source.maximum_lanes,
    Ops.NEG: _Source.negate_lanes,
    Ops.RECIP: _Source.reciprocal_lanes,
    Ops.WHERE: _Source.where_lanes,
    Ops.CAST: _Source.cast_lanes,
    Ops.BITCAST: _Source.bitcast_lanes,
}

_PRINTERS: dict[Ops, Callable[[_Source, UOp], str | None]] = {
    Ops.CONST: _Source.constant,
    Ops.DEFINE_GLOBAL: _Source.define_global,
    Ops.DEFINE_VAR: _Source.define_var,
    Ops.SPECIAL: _Source.special,
    Ops.DEFINE_LOCAL: _Source.define_local,
    Ops.DEFINE_ACC: _Source.define_acc,
    Ops.UPDATE_ACC: _Source.update_acc,
    Ops.RANGE: _Source.open_range,
    Ops.END: _Source.close,
    Ops.IF: _Source.open_if,
    Ops.ENDIF: _Source.close,
    Ops.INDEX: _Source.index,
    Ops.LOAD: _Source.load,
    Ops.STORE: _Source.store,
    Ops.VECTORIZE: _Source.vectorize,
    Ops.GEP: _Source.gep,
    **dict.fromkeys(_ONE_LANE, _Source.compute),
}
