"""Programs as C source for a host: `void name(void **buffers, const int *variables)`.

Plain C99 (and `_Float16` where the device declares it), read alike by gcc, clang and tcc. Every
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

from tinyref.dtype import ConstType, DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.payloads import (
    computed,
    element_of,
    entry_name,
    is_identifier,
    parameter_position,
    payload_of,
    variable_position,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, SlotArg, VarArg
from tinyref.uops.program import Program

_TYPES: dict[DType, str] = {
    dtypes.bool: "_Bool",
    dtypes.int8: "signed char",
    dtypes.uint8: "unsigned char",
    dtypes.int16: "short",
    dtypes.uint16: "unsigned short",
    dtypes.int32: "int",
    dtypes.uint32: "unsigned int",
    dtypes.int64: "long long",
    dtypes.uint64: "unsigned long long",
    dtypes.float16: "_Float16",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
C_DTYPES = frozenset(_TYPES)
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

# The words of C99 and of what came after (those with a _ first are refused anyway).
_WORDS = frozenset(
    {
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double"),
        *("else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long"),
        *("register", "restrict", "return", "short", "signed", "sizeof", "static", "struct"),
        *("switch", "typedef", "union", "unsigned", "void", "volatile", "while", "bool"),
        *("true", "false", "nullptr", "alignas", "alignof", "constexpr", "static_assert"),
        *("thread_local", "typeof", "typeof_unqual", "asm", "main"),
    }
)


class CRenderer:
    """Prints programs as C; `accepted` are the types that the compiler has.

    Raises `UserError` for a node that it cannot print.
    """

    def __init__(self, accepted: frozenset[DType] = C_DTYPES) -> None:
        self.accepted = accepted

    def render(self, program: Program) -> str:
        return _Source(program, self.accepted).text()


def _word(dtype: DType) -> DType:
    """The unsigned type in which an integer type computes: C widens what is below 32 bits."""
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def _integer_literal(value: int, dtype: DType) -> str:
    if dtype.bits < 32:
        return f"(({dtype.name}){value})"
    suffix = ("u" if dtype.is_unsigned else "") + ("ll" if dtype.bits == 64 else "")
    if value == dtype.minimum and value < 0:
        # C has no negative literals: the digits of MIN alone do not fit the type.
        return f"({value + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


class _Source:
    """The text of one function while its nodes are printed in order."""

    def __init__(self, program: Program, accepted: frozenset[DType]) -> None:
        self.program = program
        self.accepted = accepted
        self.types: set[DType] = set()
        self.helpers: dict[str, str] = {}
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.depth = 1
        self.counter = 0

    def text(self) -> str:
        for node in self.program.uops:
            self.print_node(node)
        taken = {*_WORDS, *map(_name, C_DTYPES), *_FUNCTIONS.values(), *self.helpers}
        entry = entry_name(self.program.name, taken, "a C")
        ordered = sorted(self.types, key=lambda dtype: dtype.priority)
        lines = [f"typedef {_TYPES[dtype]} {_name(dtype)};" for dtype in ordered]
        lines += [self.helpers[name] for name in sorted(self.helpers)]
        lines += [f"void {entry}(void **buffers, const int *variables) {{"]
        lines += [*self.lines, "}", ""]
        return "\n".join(lines)

    # Small pieces

    def type(self, dtype: DType) -> str:
        """The C name of a scalar type. Raises `UserError` for a type that the compiler lacks."""
        if dtype not in self.accepted or dtype not in _TYPES:
            accepted = ", ".join(sorted(known.name for known in self.accepted))
            raise UserError(f"dtype: {dtype.name} has no C type here: accepted are {accepted}")
        self.types.add(dtype)
        return _name(dtype)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def define(self, dtype: DType, text: str, prefix: str = "v") -> str:
        """Adds `type name = text;` and returns the name."""
        name = self.fresh(prefix)
        self.line(f"{self.type(dtype)} {name} = {text};")
        return name

    def value(self, node: UOp) -> str:
        if node.op is Ops.CONST:
            return self.literal(payload_of(node, ConstArg).value, node.dtype)
        return computed(self.names, node)

    def values(self, node: UOp) -> list[str]:
        return [self.value(source) for source in node.src]

    def literal(self, value: ConstType, dtype: DType) -> str:
        name = self.type(dtype)
        if dtype.is_bool:
            return "1" if value else "0"
        if dtype.is_int:
            return _integer_literal(int(value), dtype)
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
            f"return {_integer_literal(high, target)};\n"
            f"  if (from > {self.decimal(float(low), source)}) return ({want})from;\n"
            f"  return from < {self.decimal(0.0, source)} ? {_integer_literal(low, target)} : 0;\n"
            f"}}"
        )
        return name

    def library(self, function: str, dtype: DType, arity: int) -> str:
        """The name of a function of the C library, declared."""
        kind = _TYPES[dtype]
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

    def define_global(self, node: UOp) -> str:
        slot = payload_of(node, SlotArg).slot
        position = parameter_position(self.program, node)
        name = f"data{slot}"
        self.line(f"{self.memory_type(element_of(node))} *{name} = buffers[{position}];")
        return name

    def memory_type(self, dtype: DType) -> str:
        """A bool takes a byte in memory, of which any value but 0 is true."""
        return self.type(dtypes.uint8 if dtype.is_bool else dtype)

    def define_var(self, node: UOp) -> str:
        position = variable_position(self.program, node)
        spoken = payload_of(node, VarArg).name
        name = f"var_{spoken if is_identifier(spoken) else position}"
        self.line(f"{self.type(node.dtype)} {name} = variables[{position}];")
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
        text = self.value(node.src[0]) + (" != 0" if node.dtype.is_bool else "")
        if len(node.src) == 3:
            alternative, gate = self.value(node.src[1]), self.value(node.src[2])
            text = f"{gate} ? {text} : {alternative}"
        return self.define(node.dtype, text)

    def gep(self, node: UOp) -> str:
        """There are no vectors: of a scalar its one lane may be taken."""
        self.type(node.dtype)
        return self.value(node.src[0])

    def store(self, node: UOp) -> None:
        address, value = self.value(node.src[0]), self.value(node.src[1])
        gate = f"if ({self.value(node.src[2])}) " if len(node.src) == 3 else ""
        self.line(f"{gate}{address} = {value};")

    # Arithmetic

    def infix(self, node: UOp) -> str:
        left, right = self.values(node)
        dtype = node.src[0].dtype
        symbol = _INFIX[node.op]
        if node.op in _WRAPPING and dtype.is_int:
            word = self.type(_word(dtype))
            left, right = f"({word}){left}", f"({word}){right}"
        text = f"{left} {symbol} {right}"
        if node.dtype.is_int:
            text = f"({self.type(node.dtype)})({text})"
        return self.define(node.dtype, text)

    def shift(self, node: UOp) -> str:
        left, count = self.values(node)
        dtype = node.dtype
        masked = f"({count} & {dtype.bits - 1})"
        if node.op is Ops.SHL:
            text = f"({self.type(_word(dtype))}){left} << {masked}"
        else:
            text = f"{left} >> {masked}"
        return self.define(dtype, f"({self.type(dtype)})({text})")

    def maximum(self, node: UOp) -> str:
        left, right = self.values(node)
        return self.define(node.dtype, f"{left} < {right} ? {right} : {left}")

    def negate(self, node: UOp) -> str:
        value = self.value(node.src[0])
        if node.dtype.is_float:
            return self.define(node.dtype, f"-{value}")
        word = self.type(_word(node.dtype))
        return self.define(node.dtype, f"({self.type(node.dtype)})(0 - ({word}){value})")

    def reciprocal(self, node: UOp) -> str:
        one = self.literal(1.0, node.dtype)
        return self.define(node.dtype, f"{one} / {self.value(node.src[0])}")

    def call(self, node: UOp) -> str:
        """A function of the C library; float16 goes through float32."""
        wide = dtypes.float32 if node.dtype is dtypes.float16 else node.dtype
        name = self.library(_FUNCTIONS[node.op], wide, len(node.src))
        text = f"{name}({', '.join(self.values(node))})"
        if wide is not node.dtype:
            text = f"({self.type(node.dtype)}){text}"
        return self.define(node.dtype, text)

    def where(self, node: UOp) -> str:
        condition, chosen, other = self.values(node)
        return self.define(node.dtype, f"{condition} ? {chosen} : {other}")

    def cast(self, node: UOp) -> str:
        value = self.value(node.src[0])
        have, want = node.src[0].dtype, node.dtype
        if want.is_bool:
            return self.define(want, f"{value} != 0")
        if have.is_float and want.is_int:
            # The limits of an integer type may be out of float16's range.
            wide = dtypes.float32 if have is dtypes.float16 else have
            return self.define(want, f"{self.saturate_helper(wide, want)}({value})")
        return self.define(want, f"({self.type(want)}){value}")

    def bitcast(self, node: UOp) -> str:
        value = self.value(node.src[0])
        have, want = node.src[0].dtype, node.dtype
        if want.is_bool:
            return self.define(want, f"{value} != 0")
        if have.is_bool or (have.is_int and want.is_int):
            return self.define(want, f"({self.type(want)}){value}")
        return self.define(want, f"{self.bitcast_helper(have, want)}({value})")


def _name(dtype: DType) -> str:
    """What the source calls a type; `bool` is a word of newer C."""
    return "boolean" if dtype.is_bool else dtype.name


_PRINTERS: dict[Ops, Callable[[_Source, UOp], str | None]] = {
    Ops.CONST: lambda source, node: None,
    Ops.DEFINE_GLOBAL: _Source.define_global,
    Ops.DEFINE_VAR: _Source.define_var,
    Ops.DEFINE_ACC: _Source.define_acc,
    Ops.UPDATE_ACC: _Source.update_acc,
    Ops.RANGE: _Source.open_range,
    Ops.END: _Source.close,
    Ops.IF: _Source.open_if,
    Ops.ENDIF: _Source.close,
    Ops.INDEX: _Source.index,
    Ops.LOAD: _Source.load,
    Ops.STORE: _Source.store,
    Ops.GEP: _Source.gep,
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
