"""Programs as LLVM IR text for a host: `void @name(ptr buffers, ptr variables)`.

`variables` are int32 values. The last one is the group that this call computes: the launch index,
or 0 for a program without one.

Floats are strict by construction: LLVM may neither contract nor reassociate, and every operation
rounds in its own type. Only if the flag STRICT_FLOAT is 0 may a product and a sum be one operation
(the fast-math flag `contract`); no other such flag is ever printed.

Nothing that LLVM calls undefined or poison can be reached. Shift counts are masked, conversions out
of range saturate, gated-off accesses are skipped by branches, and `nsw` is printed only if bounds
prove it. Buffers may overlap (an assignment in place), so none is `noalias`. Division by zero and
MIN/-1 trap on some hosts: the backends declare `division_traps`, and decomposition guards them.
"""

from __future__ import annotations

import functools
import struct
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tinyref import config
from tinyref.algebra.bounds import bounds, dtype_range
from tinyref.dtype import ConstType, DType, Kind, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.payloads import (
    element_of,
    entry_name,
    group_position,
    name_of_value,
    parameter_position,
    payload_of,
    runs_at_least_once,
    variable_position,
)
from tinyref.renderers.rare import Branch, with_branches
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg
from tinyref.uops.program import Program

_SCALARS: dict[DType, str] = {
    dtypes.bool: "i1",
    **{dtype: f"i{dtype.bits}" for dtype in dtypes.ints},
    dtypes.float32: "float",
    dtypes.float64: "double",
}
LLVM_DTYPES = frozenset(_SCALARS)

# The instruction of an op for bool, signed, unsigned and float; "" where the op has none.
_INSTRUCTIONS: dict[Ops, tuple[str, str, str, str]] = {
    Ops.ADD: ("", "add", "add", "fadd"),
    Ops.SUB: ("", "sub", "sub", "fsub"),
    Ops.MUL: ("", "mul", "mul", "fmul"),
    Ops.FDIV: ("", "", "", "fdiv"),
    Ops.IDIV: ("", "sdiv", "udiv", ""),
    Ops.MOD: ("", "srem", "urem", ""),
    Ops.AND: ("and", "and", "and", ""),
    Ops.OR: ("or", "or", "or", ""),
    Ops.XOR: ("xor", "xor", "xor", ""),
    Ops.SHL: ("", "shl", "shl", ""),
    Ops.SHR: ("", "ashr", "lshr", ""),
    Ops.CMPLT: ("icmp ult", "icmp slt", "icmp ult", "fcmp olt"),
    Ops.CMPNE: ("icmp ne", "icmp ne", "icmp ne", "fcmp une"),
}
_KINDS = (Kind.BOOL, Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT)

# Functions of the C library; the name for float32 ends in "f".
LIBRARY = {Ops.EXP2: "exp2", Ops.LOG2: "log2", Ops.SIN: "sin", Ops.POW: "pow"}
_LIBRARY_NAMES = frozenset(
    name + suffix for name in (*LIBRARY.values(), "trunc", "sqrt") for suffix in ("", "f")
)
_INTRINSICS = {Ops.SQRT: "sqrt", Ops.TRUNC: "trunc"}

# Operations on floats that may be contracted: a product and the sum that uses it.
_CONTRACTED = frozenset({Ops.ADD, Ops.SUB, Ops.MUL})

# The size of a cache line, and of the widest vector register of today's hosts.
_SCRATCH_ALIGNMENT = 64

LLVM_OPS = frozenset(op.name for op in ALU - {Ops.THREEFRY, Ops.MULACC}) | {"LOAD", "STORE"}


class LlvmRenderer:
    """Renders programs as LLVM IR; raises `UserError` for a node that it cannot print."""

    def render(self, program: Program) -> str:
        return LlvmFunction(program).text()


@functools.cache
def value_type(dtype: DType) -> str:
    """Return the LLVM type of a value in a register. Raises `UserError` if there is none."""
    scalar = _SCALARS.get(dtype.scalar)
    if scalar is None:
        accepted = ", ".join(sorted(known.name for known in _SCALARS))
        raise UserError(f"dtype: {dtype.name} has no LLVM type here: accepted are {accepted}")
    return scalar if dtype.lanes == 1 else f"<{dtype.lanes} x {scalar}>"


@functools.cache
def memory_type(dtype: DType) -> str:
    """Return the LLVM type of a value in memory: a bool is a byte there."""
    return value_type(dtypes.uint8.vec(dtype.lanes) if dtype.is_bool else dtype)


def literal(value: ConstType, dtype: DType) -> str:
    """Return a constant for LLVM: floats by their bits, which preserves NaN and -0.0."""
    if dtype.is_bool:
        scalar = "true" if value else "false"
    elif dtype.is_float:
        scalar = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    else:
        scalar = str(int(value))
    if dtype.lanes == 1:
        return scalar
    lane = f"{value_type(dtype.scalar)} {scalar}"
    return "<" + ", ".join([lane] * dtype.lanes) + ">"


def _suffix(dtype: DType) -> str:
    """Return a type's name in the name of an intrinsic: f32, v4f64, i8."""
    letter = "f" if dtype.is_float else "i"
    scalar = f"{letter}{dtype.bits}"
    return scalar if dtype.lanes == 1 else f"v{dtype.lanes}{scalar}"


def _cannot_wrap(node: UOp) -> bool:
    """Return True if index arithmetic on signed integers cannot overflow.

    LLVM widens such an index to 64 bits once, outside of the loop, not at every access.
    """
    if node.op not in _CONTRACTED or node.dtype.kind is not Kind.SIGNED:
        return False
    (low, high), (least, most) = bounds(node.src[0]), bounds(node.src[1])
    if node.op is Ops.ADD:
        results: tuple[int, ...] = (low + least, high + most)
    elif node.op is Ops.SUB:
        results = (low - most, high - least)
    else:
        results = (low * least, low * most, high * least, high * most)
    minimum, maximum = dtype_range(node.dtype)
    return minimum <= min(results) and max(results) <= maximum


def _constant_offset(position: UOp) -> int | None:
    """Return an address's offset from an earlier one, in bounds if that is; None if unknown.

    LLVM then need not analyse the index of each element of an unrolled loop.
    """
    if position.op is not Ops.ADD or not _cannot_wrap(position):
        return None
    first, offset = position.src[0], position.src[1].arg
    if not isinstance(offset, ConstArg) or position.dtype.lanes > 1:
        return None
    # An accumulator may have changed since the sum was computed.
    if first.op in (Ops.DEFINE_ACC, Ops.UPDATE_ACC):
        return None
    return int(offset.value) if offset.value >= 0 and bounds(first)[0] >= 0 else None


class LlvmFunction:
    """The text of one function while its nodes are printed in order.

    allocations, entry: code of its first block, before the nodes. Subclasses for other machines
    have another frame around the nodes, and other `printers` for some of them.
    """

    # True if the address of a gated-off load may be computed.
    selects_addresses = True

    def __init__(self, program: Program) -> None:
        self.program = program
        # Constants in memory, by their text.
        self.constant_places: dict[str, str] = {}
        self.allocations: list[str] = []
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.names: dict[UOp, str] = {}
        # Pointers that are bases of several addresses, by scope: loops and conditions.
        self.pointers: ChainMap[tuple[UOp, UOp], str] = ChainMap()
        self.block = "start"
        self.counter = 0
        self.contracts = not config.integer("STRICT_FLOAT")

    def text(self) -> str:
        items = with_branches(self.program.uops)
        for item in items:
            if isinstance(item, Branch):
                self.print_branch(item)
            else:
                self.print_node(item)
        entry = entry_name(self.program.name, _LIBRARY_NAMES, "an LLVM")
        has_branches = any(isinstance(item, Branch) for item in items)
        likely = ['!0 = !{!"branch_weights", i32 100, i32 1}'] if has_branches else []
        return "\n".join([*self.definition(entry), *sorted(self.declarations), *likely, ""])

    def definition(self, entry: str) -> list[str]:
        """Return the function `entry` around the printed nodes."""
        return [
            f'define void @"{entry}"(ptr %buffers, ptr %variables) nounwind {{',
            "entry:",
            *self.allocations,
            *self.entry,
            "  br label %start",
            "start:",
            *self.lines,
            "  ret void",
            "}",
        ]

    # Small pieces

    def fresh(self, prefix: str = "v") -> str:
        self.counter += 1
        return f"%{prefix}{self.counter}"

    def emit(self, text: str, prefix: str = "v") -> str:
        """Add `%name = text` and return %name."""
        name = self.fresh(prefix)
        self.lines.append(f"  {name} = {text}")
        return name

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def value(self, node: UOp) -> str:
        """Return the operand for `node`; an accumulator is read where it is used."""
        name = name_of_value(self.names, node)
        if node.op is Ops.DEFINE_ACC or node.op is Ops.UPDATE_ACC:
            return self.emit(f"load {value_type(node.dtype)}, ptr {name}")
        return name

    def typed(self, node: UOp) -> str:
        return f"{value_type(node.dtype)} {self.value(node)}"

    def declare(self, result: str, name: str, arguments: list[str]) -> None:
        self.declarations.add(f"declare {result} @{name}({', '.join(arguments)}) nounwind")

    # Nodes

    def print_node(self, node: UOp) -> None:
        printer = self.printers.get(node.op)
        if printer is None:
            raise UserError(f"{node.op.name}: LLVM devices print no such node")
        name = printer(self, node)
        if name is not None:
            self.names[node] = name

    def print_branch(self, branch: Branch) -> None:
        """Print selects whose last operands are computed only if some lane takes them."""
        condition = branch.condition
        everywhere = self.value(condition)
        if condition.dtype.lanes > 1:
            lanes = f"i{condition.dtype.lanes}"
            bits = self.emit(f"bitcast {self.typed(condition)} to {lanes}")
            everywhere = self.emit(f"icmp eq {lanes} {bits}, -1")
        usual = {select: self.value(select.src[1]) for select in branch.selects}
        label, before = self.fresh("rare")[1:], self.block
        likely = ", !prof !0"
        self.lines.append(f"  br i1 {everywhere}, label %{label}.end, label %{label}.do{likely}")
        self.start_block(f"{label}.do")
        for node in (*branch.nodes, *branch.selects):
            self.print_node(node)
        after = self.block
        self.lines.append(f"  br label %{label}.end")
        self.start_block(f"{label}.end")
        for select in branch.selects:
            ways = f"[ {usual[select]}, %{before} ], [ {self.names[select]}, %{after} ]"
            self.names[select] = self.emit(f"phi {value_type(select.dtype)} {ways}")

    def constant(self, node: UOp) -> str:
        return literal(payload_of(node, ConstArg).value, node.dtype)

    def define_global(self, node: UOp) -> str:
        slot = payload_of(node, SlotArg).slot
        position = parameter_position(self.program, node)
        name = f"%data{slot}"
        self.entry += [
            f"  {name}.at = getelementptr ptr, ptr %buffers, i64 {position}",
            f"  {name} = load ptr, ptr {name}.at",
        ]
        return name

    def define_buffer(self, node: UOp) -> str:
        # Refuses images.
        element_of(node)
        return self.define_global(node)

    def define_var(self, node: UOp) -> str:
        name = self.fresh("var")
        position = variable_position(self.program, node)
        self.entry += [
            f"  {name}.at = getelementptr i32, ptr %variables, i64 {position}",
            f"  {name}.i32 = load i32, ptr {name}.at",
        ]
        cast = "sext i32" if node.dtype.bits > 32 else "bitcast i32"
        self.entry.append(f"  {name} = {cast} {name}.i32 to {value_type(node.dtype)}")
        return name

    def special(self, node: UOp) -> str:
        name = self.fresh("group")
        position = group_position(self.program, node)
        self.entry += [
            f"  {name}.at = getelementptr i32, ptr %variables, i64 {position}",
            f"  {name} = load i32, ptr {name}.at",
        ]
        if value_type(node.dtype) == "i32":
            return name
        self.entry.append(f"  {name}.wide = sext i32 {name} to {value_type(node.dtype)}")
        return f"{name}.wide"

    def define_local(self, node: UOp) -> str:
        name = self.fresh("local")
        size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
        kind = f"[{size} x {memory_type(element_of(node))}]"
        self.allocations.append(f"  {name} = alloca {kind}, align {_SCRATCH_ALIGNMENT}")
        return name

    def define_acc(self, node: UOp) -> str:
        name = self.fresh("acc")
        self.allocations.append(f"  {name} = alloca {value_type(node.dtype)}")
        self.lines.append(f"  store {self.typed(node.src[0])}, ptr {name}")
        return name

    def update_acc(self, node: UOp) -> str:
        name = name_of_value(self.names, node.src[0])
        self.lines.append(f"  store {self.typed(node.src[1])}, ptr {name}")
        return name

    def open_range(self, node: UOp) -> str:
        """Print the head of a loop; if a first iteration is certain, test only at the end."""
        name = self.fresh("i")
        kind = value_type(node.dtype)
        bound = self.value(node.src[0])
        label = name[1:]
        before = self.block
        self.pointers = self.pointers.new_child()
        if runs_at_least_once(node):
            self.lines.append(f"  br label %{label}.body")
            self.start_block(f"{label}.body")
            self.lines.append(
                f"  {name} = phi {kind} [ 0, %{before} ], [ {name}.next, %{label}.latch ]"
            )
            return name
        self.lines.append(f"  br label %{label}.head")
        self.start_block(f"{label}.head")
        self.lines += [
            f"  {name} = phi {kind} [ 0, %{before} ], [ {name}.next, %{label}.latch ]",
            f"  {name}.more = icmp slt {kind} {name}, {bound}",
            f"  br i1 {name}.more, label %{label}.body, label %{label}.exit",
        ]
        self.start_block(f"{label}.body")
        return name

    def close_range(self, node: UOp) -> None:
        opened = node.src[0]
        self.pointers = self.pointers.parents
        kind = value_type(opened.dtype)
        name = name_of_value(self.names, opened)
        label = name[1:]
        self.lines.append(f"  br label %{label}.latch")
        self.start_block(f"{label}.latch")
        # The counter is below its bound, so adding one does not overflow.
        self.lines.append(f"  {name}.next = add nuw nsw {kind} {name}, 1")
        if runs_at_least_once(opened):
            self.lines += [
                f"  {name}.more = icmp slt {kind} {name}.next, {self.value(opened.src[0])}",
                f"  br i1 {name}.more, label %{label}.body, label %{label}.exit",
            ]
        else:
            self.lines.append(f"  br label %{label}.head")
        self.start_block(f"{label}.exit")

    def open_if(self, node: UOp) -> str:
        label = self.fresh("if")[1:]
        self.pointers = self.pointers.new_child()
        condition = self.value(node.src[0])
        self.lines.append(f"  br i1 {condition}, label %{label}.then, label %{label}.end")
        self.start_block(f"{label}.then")
        return label

    def close_if(self, node: UOp) -> None:
        label = name_of_value(self.names, node.src[0])
        self.pointers = self.pointers.parents
        self.lines.append(f"  br label %{label}.end")
        self.start_block(f"{label}.end")

    def index(self, node: UOp) -> str:
        buffer, position = node.src
        element = memory_type(element_of(node))
        offset = _constant_offset(position)
        if offset is None:
            return self.pointer(element, buffer, position)
        first = self.pointer(element, buffer, position.src[0])
        kind = value_type(position.dtype)
        return self.emit(f"getelementptr inbounds {element}, ptr {first}, {kind} {offset}", "at")

    def pointer(self, element: str, buffer: UOp, position: UOp) -> str:
        """Return the address of an element; addresses at constant distances share a base."""
        key = (buffer, position)
        pointer = self.pointers.get(key)
        if pointer is None:
            operands = f"ptr {self.value(buffer)}, {self.typed(position)}"
            pointer = self.emit(f"getelementptr inbounds {element}, {operands}", "at")
            self.pointers[key] = pointer
        return pointer

    def load(self, node: UOp) -> str:
        if len(node.src) == 1:
            return self.read(node)
        alternative, gate = self.value(node.src[1]), self.value(node.src[2])
        if self.selects_addresses and node.src[1].op is Ops.CONST and not node.dtype.is_bool:
            fallback = self.place_of(node.src[1])
            at = self.emit(f"select i1 {gate}, ptr {self.address(node)}, ptr {fallback}", "at")
            return self.read_at(node, at)
        label = self.fresh("load")[1:]
        before = self.block
        self.lines.append(f"  br i1 {gate}, label %{label}.do, label %{label}.end")
        self.start_block(f"{label}.do")
        value = self.read(node)
        self.lines.append(f"  br label %{label}.end")
        self.start_block(f"{label}.end")
        kind = value_type(node.dtype)
        return self.emit(f"phi {kind} [ {value}, %{label}.do ], [ {alternative}, %{before} ]")

    def place_of(self, constant: UOp) -> str:
        """Return memory with a constant's value, which a gated-off load reads instead of branching.

        The loads of a window then have no branch between them.
        """
        text = self.typed(constant)
        if text not in self.constant_places:
            self.constant_places[text] = name = self.fresh("constant")
            self.allocations.append(f"  {name} = alloca {value_type(constant.dtype)}")
            self.entry.append(f"  store {text}, ptr {name}")
        return self.constant_places[text]

    def read(self, node: UOp) -> str:
        return self.read_at(node, self.address(node))

    def read_at(self, node: UOp, at: str) -> str:
        kind = memory_type(node.dtype)
        # Buffers may overlap at any element: only the alignment of an element is certain.
        align = node.dtype.scalar.itemsize
        value = self.emit(f"load {kind}, ptr {at}, align {align}")
        if node.dtype.is_bool:
            return self.emit(f"icmp ne {kind} {value}, zeroinitializer")
        return value

    def store(self, node: UOp) -> None:
        if len(node.src) == 2:
            self.write(node)
            return
        label = self.fresh("store")[1:]
        gate = self.value(node.src[2])
        self.lines.append(f"  br i1 {gate}, label %{label}.do, label %{label}.end")
        self.start_block(f"{label}.do")
        self.write(node)
        self.lines.append(f"  br label %{label}.end")
        self.start_block(f"{label}.end")

    def write(self, node: UOp) -> None:
        value = node.src[1]
        dtype = value.dtype
        kind = memory_type(dtype)
        text = self.value(value)
        if dtype.is_bool:
            text = self.emit(f"zext {value_type(dtype)} {text} to {kind}")
        align = dtype.scalar.itemsize
        self.lines.append(f"  store {kind} {text}, ptr {self.address(node)}, align {align}")

    def address(self, node: UOp) -> str:
        """Return the address of the first element of a LOAD or STORE that is executed."""
        return self.value(node.src[0])

    def vectorize(self, node: UOp) -> str:
        if len(node.src) > 1 and all(source is node.src[0] for source in node.src):
            return self.splat(node.src[0], len(node.src))
        kind = value_type(node.dtype)
        if node.dtype.is_bool:
            return self.emit(f"bitcast i{len(node.src)} {self.bits(node.src)} to {kind}")
        result = "poison"
        for lane, source in enumerate(node.src):
            result = self.emit(f"insertelement {kind} {result}, {self.typed(source)}, i32 {lane}")
        return result

    def bits(self, flags: Sequence[UOp]) -> str:
        """Return an integer of these bits: most flags are equal, and set many bits at once."""
        lanes: dict[UOp, int] = {}
        for lane, flag in enumerate(flags):
            lanes[flag] = lanes.get(flag, 0) | 1 << lane
        kind, result = f"i{len(flags)}", "0"
        for flag, mask in lanes.items():
            every = self.emit(f"sext i1 {self.value(flag)} to {kind}")
            some = self.emit(f"and {kind} {every}, {mask}")
            result = self.emit(f"or {kind} {result}, {some}")
        return result

    def splat(self, source: UOp, lanes: int) -> str:
        """Return a scalar in every lane, in the form that LLVM recognises as a broadcast."""
        kind = value_type(source.dtype.vec(lanes))
        first = self.emit(f"insertelement {kind} poison, {self.typed(source)}, i32 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.emit(f"shufflevector {kind} {first}, {kind} poison, {mask}")

    def gep(self, node: UOp) -> str:
        source = node.src[0]
        lanes = payload_of(node, GepArg).lanes
        if source.dtype.lanes == 1:
            return self.value(source) if len(lanes) == 1 else self.splat(source, len(lanes))
        if len(lanes) == 1:
            return self.emit(f"extractelement {self.typed(source)}, i32 {lanes[0]}")
        kind = value_type(source.dtype)
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            f"shufflevector {self.typed(source)}, {kind} poison, <{len(lanes)} x i32> <{mask}>"
        )

    # Arithmetic

    def instruction(self, node: UOp) -> str:
        """Print one instruction, chosen by op and kind of the operands."""
        left, right = node.src
        opcode = _INSTRUCTIONS[node.op][_KINDS.index(left.dtype.kind)]
        if not opcode:
            raise UserError(f"{node.op.name}: is not defined for {left.dtype.name}")
        if self.contracts and left.dtype.is_float and node.op in _CONTRACTED:
            opcode += " contract"
        elif _cannot_wrap(node):
            opcode += " nsw"
        return self.emit(f"{opcode} {self.typed(left)}, {self.value(right)}")

    def shift(self, node: UOp) -> str:
        left, count = node.src
        kind = value_type(left.dtype)
        # In LLVM a count of the width or more gives poison; any other value is acceptable.
        mask = literal(left.dtype.bits - 1, count.dtype)
        masked = self.emit(f"and {self.typed(count)}, {mask}")
        masked = self.resize(masked, count.dtype, left.dtype)
        opcode = _INSTRUCTIONS[node.op][_KINDS.index(left.dtype.kind)]
        return self.emit(f"{opcode} {kind} {self.value(left)}, {masked}")

    def resize(self, value: str, source: DType, target: DType) -> str:
        """Convert to an integer of another width; a signed source is sign-extended."""
        if source.bits == target.bits:
            return value
        widen = "sext" if source.kind is Kind.SIGNED else "zext"
        opcode = "trunc" if source.bits > target.bits else widen
        return self.emit(f"{opcode} {value_type(source)} {value} to {value_type(target)}")

    def maximum(self, node: UOp) -> str:
        left, right = node.src
        if left.dtype.is_bool:
            return self.emit(f"or {self.typed(left)}, {self.value(right)}")
        compare = _INSTRUCTIONS[Ops.CMPLT][_KINDS.index(left.dtype.kind)]
        first, second = self.value(left), self.value(right)
        kind = value_type(left.dtype)
        condition = self.emit(f"{compare} {kind} {first}, {second}")
        flags = value_type(dtypes.bool.vec(left.dtype.lanes))
        return self.emit(f"select {flags} {condition}, {kind} {second}, {kind} {first}")

    def negate(self, node: UOp) -> str:
        source = node.src[0]
        if source.dtype.is_float:
            return self.emit(f"fneg {self.typed(source)}")
        zero = literal(0, source.dtype)
        return self.emit(f"sub {value_type(source.dtype)} {zero}, {self.value(source)}")

    def reciprocal(self, node: UOp) -> str:
        one = literal(1.0, node.dtype)
        return self.emit(f"fdiv {value_type(node.dtype)} {one}, {self.value(node.src[0])}")

    def intrinsic(self, node: UOp) -> str:
        source = node.src[0]
        name = f"llvm.{_INTRINSICS[node.op]}.{_suffix(node.dtype)}"
        kind = value_type(node.dtype)
        self.declare(kind, name, [kind])
        return self.emit(f"call {kind} @{name}({self.typed(source)})")

    def library(self, node: UOp) -> str:
        """Call a function of the C library for every lane."""
        scalar = node.dtype.scalar
        kind = value_type(scalar)
        name = LIBRARY[node.op] + ("f" if scalar is dtypes.float32 else "")
        self.declare(kind, name, [kind] * len(node.src))
        sources = [self.value(source) for source in node.src]
        if node.dtype.lanes == 1:
            return self.call_library(name, kind, sources)
        vector = value_type(node.dtype)
        result = "poison"
        for lane in range(node.dtype.lanes):
            lanes = [self.emit(f"extractelement {vector} {text}, i32 {lane}") for text in sources]
            value = self.call_library(name, kind, lanes)
            result = self.emit(f"insertelement {vector} {result}, {kind} {value}, i32 {lane}")
        return result

    def call_library(self, name: str, kind: str, arguments: list[str]) -> str:
        joined = ", ".join(f"{kind} {argument}" for argument in arguments)
        # nobuiltin: LLVM must not fold the call, or replace it by one that rounds differently.
        return self.emit(f"call {kind} @{name}({joined}) nobuiltin")

    def where(self, node: UOp) -> str:
        condition, chosen, other = node.src
        return self.emit(
            f"select {self.typed(condition)}, {self.typed(chosen)}, {self.typed(other)}"
        )

    def cast(self, node: UOp) -> str:
        source = node.src[0]
        have, want = source.dtype, node.dtype
        if have.scalar is want.scalar:
            return self.value(source)
        if want.is_bool:
            compare = "fcmp une" if have.is_float else "icmp ne"
            return self.emit(f"{compare} {self.typed(source)}, zeroinitializer")
        if have.is_float and not want.is_float:
            return self.saturate(source, want)
        if not have.is_float and not want.is_float:
            return self.resize(self.value(source), have, want)
        if have.is_float:
            opcode = "fpext" if want.bits > have.bits else "fptrunc"
        else:
            opcode = "sitofp" if have.kind is Kind.SIGNED else "uitofp"
        return self.emit(f"{opcode} {self.typed(source)} to {value_type(want)}")

    def saturate(self, source: UOp, want: DType) -> str:
        """Convert a float to an integer: the plain instruction gives poison out of range."""
        if want.lanes > 1:
            return self.saturate_lanes(source, want)
        letter = "s" if want.kind is Kind.SIGNED else "u"
        name = f"llvm.fpto{letter}i.sat.{_suffix(want)}.{_suffix(source.dtype)}"
        kind = value_type(want)
        self.declare(kind, name, [value_type(source.dtype)])
        return self.emit(f"call {kind} @{name}({self.typed(source)})")

    def saturate_lanes(self, source: UOp, want: DType) -> str:
        """Convert vectors with selects: the intrinsic processes lanes one by one."""
        have, kind = source.dtype, value_type(want)
        floats, flags = value_type(have), value_type(dtypes.bool.vec(want.lanes))
        text = self.value(source)
        low, high = int(want.minimum), int(want.maximum)
        opcode = "fptosi" if want.kind is Kind.SIGNED else "fptoui"
        inside = self.emit(f"{opcode} {floats} {text} to {kind}")
        # Out of range this is poison, which a select may discard only after a freeze.
        result = self.emit(f"freeze {kind} {inside}")
        for condition, otherwise in (
            (f"olt {floats} {text}, {literal(float(high + 1), have)}", high),
            (f"oge {floats} {text}, {literal(float(low), have)}", low),
            (f"ord {floats} {text}, zeroinitializer", 0),
        ):
            flag = self.emit(f"fcmp {condition}")
            other = literal(otherwise, want)
            result = self.emit(f"select {flags} {flag}, {kind} {result}, {kind} {other}")
        return result

    def bitcast(self, node: UOp) -> str:
        source = node.src[0]
        have, want = source.dtype, node.dtype
        held, expected = memory_type(have), memory_type(want)
        value = self.value(source)
        if have.is_bool and not want.is_bool:
            value = self.emit(f"zext {value_type(have)} {value} to {held}")
        return value if held == expected else self.emit(f"bitcast {held} {value} to {expected}")

    printers: ClassVar[Mapping[Ops, Callable[[Any, UOp], str | None]]] = {
        Ops.CONST: constant,
        Ops.DEFINE_GLOBAL: define_buffer,
        Ops.DEFINE_VAR: define_var,
        Ops.SPECIAL: special,
        Ops.DEFINE_LOCAL: define_local,
        Ops.DEFINE_ACC: define_acc,
        Ops.UPDATE_ACC: update_acc,
        Ops.RANGE: open_range,
        Ops.END: close_range,
        Ops.IF: open_if,
        Ops.ENDIF: close_if,
        Ops.INDEX: index,
        Ops.LOAD: load,
        Ops.STORE: store,
        Ops.VECTORIZE: vectorize,
        Ops.GEP: gep,
        **dict.fromkeys(_INSTRUCTIONS, instruction),
        Ops.SHL: shift,
        Ops.SHR: shift,
        Ops.MAX: maximum,
        Ops.NEG: negate,
        Ops.RECIP: reciprocal,
        Ops.SQRT: intrinsic,
        Ops.TRUNC: intrinsic,
        Ops.EXP2: library,
        Ops.LOG2: library,
        Ops.SIN: library,
        Ops.POW: library,
        Ops.WHERE: where,
        Ops.CAST: cast,
        Ops.BITCAST: bitcast,
    }
