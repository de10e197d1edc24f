"""Programs as PTX, the assembly language of NVIDIA's virtual machine, for ptxas or the driver.

A program becomes the text of one kernel, node by node; `ptx_instructions` has the instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tinyref import config
from tinyref.dtype import AddressSpace, DType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.payloads import (
    checked_name,
    element_of,
    name_of_value,
    parameter_position,
    payload_of,
    runs_at_least_once,
    variable_position,
)
from tinyref.renderers.ptx_instructions import (
    INDENT,
    INSTRUCTIONS,
    WORD_BITS,
    Emitter,
    bits_word,
    braced,
    memory_word,
    type_word,
    width,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, SpecialArg, TileArg
from tinyref.uops.program import Program

KERNEL_PREFIX = "k_"
# The version of CUDA 13.0, the oldest accepted ptxas: it has every architecture from sm_75 on.
_VERSION = "9.0"
# The most bytes that one access moves, and the most registers.
MAX_ACCESS_BYTES = 16
_MAX_ACCESS_LANES = 4
_SHARED = AddressSpace.LOCAL
_SPECIAL_REGISTERS = {"group": "ctaid", "item": "tid"}


class PtxRenderer:
    """Renders programs as PTX for one architecture; raises `UserError` if it cannot.

    architecture: the compute capability, 75 for 7.5. Buffers are 64-bit parameters, in the order of
    the program's parameters; the 32-bit variables follow.
    """

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture

    def render(self, program: Program) -> str:
        return PtxFunction(program, self.architecture).text()

    def entry_name(self, program: Program) -> str:
        """Return the kernel's name in the text; the prefix avoids the names of instructions."""
        return KERNEL_PREFIX + checked_name(program.name, "a PTX")


class PtxFunction(Emitter):
    """The text of one kernel while its nodes are printed in order.

    values: the registers of each node, one for each lane; for memory and addresses, the register
    of the address. All registers belong to the whole kernel. Constants and launch indices are set
    at its entry, so every block has them.
    """

    def __init__(self, program: Program, architecture: int) -> None:
        super().__init__(architecture, bool(config.integer("STRICT_FLOAT")))
        self.program = program
        self.values: dict[UOp, Sequence[str]] = {}
        self.shared: list[str] = []
        self._labels: dict[UOp, str] = {}

    def text(self) -> str:
        entry = PtxRenderer(self.architecture).entry_name(self.program)
        for node in self.program.uops:
            self.print_node(node)
        head = [
            f".version {_VERSION}",
            f".target sm_{self.architecture}",
            ".address_size 64",
            "",
            f".visible .entry {entry}(",
            ",\n".join(self.parameters()),
            ")",
            f".maxntid {', '.join(map(str, self.program.group))}",
        ]
        body = (*self.declarations(), *self.shared, *self.entry, *self.lines, f"{INDENT}ret;")
        return "\n".join([*head, "{", *body, "}", ""])

    def parameters(self) -> list[str]:
        """Return the parameter of every buffer by slot, then of every variable."""
        slots = (parameter.slot for parameter in self.program.parameters)
        positions = range(len(self.program.variables))
        return [
            *(f"{INDENT}.param .u64 data{slot}" for slot in slots),
            *(f"{INDENT}.param .s32 variable{position}" for position in positions),
        ]

    def print_node(self, node: UOp) -> None:
        printer = self.printers.get(node.op)
        if printer is None:
            raise UserError(f"{node.op.name}: PTX devices print no such node")
        values = printer(self, node)
        if values is not None:
            self.values[node] = values

    def registers(self, node: UOp) -> Sequence[str]:
        """Return the registers of a value, one for each lane."""
        return name_of_value(self.values, node)

    def register(self, node: UOp) -> str:
        """Return the register of a scalar, or of an address."""
        return self.registers(node)[0]

    def fixed(self, node: UOp) -> Sequence[str]:
        """Return registers with the current value of `node`: an accumulator's change later."""
        current = self.registers(node)
        if node.op not in (Ops.DEFINE_ACC, Ops.UPDATE_ACC):
            return current
        dtype = node.dtype.scalar
        return [self.emit(f"mov.{bits_word(dtype)}", dtype, register) for register in current]

    # Definitions

    def constant_node(self, node: UOp) -> Sequence[str]:
        value = payload_of(node, ConstArg).value
        return [self.constant(value, node.dtype.scalar)] * node.dtype.lanes

    def define_global(self, node: UOp) -> Sequence[str]:
        # Refuses images.
        element_of(node)
        parameter_position(self.program, node)
        slot = payload_of(node, SlotArg).slot
        generic = self.at_entry("ld.param.u64", 64, f"[data{slot}]")
        return [self.at_entry("cvta.to.global.u64", 64, generic)]

    def define_var(self, node: UOp) -> Sequence[str]:
        position = variable_position(self.program, node)
        value = self.at_entry("ld.param.s32", 32, f"[variable{position}]")
        return [self._from_32_bits(value, "s", node.dtype)]

    def special(self, node: UOp) -> Sequence[str]:
        special = payload_of(node, SpecialArg)
        name = f"%{_SPECIAL_REGISTERS[special.scope]}.{'xyz'[special.dim]}"
        return [self._from_32_bits(self.at_entry("mov.u32", 32, name), "u", node.dtype)]

    def _from_32_bits(self, value: str, letter: str, dtype: DType) -> str:
        if width(dtype) == 32:
            return value
        return self.at_entry(f"cvt.{letter}64.{letter}32", 64, value)

    def define_local(self, node: UOp) -> Sequence[str]:
        name = f"local{len(self.shared)}"
        size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
        size *= element_of(node).itemsize
        self.shared.append(f"{INDENT}.shared .align {MAX_ACCESS_BYTES} .b8 {name}[{max(size, 1)}];")
        return [self.at_entry("mov.u32", 32, name)]

    # Accumulators, loops, branches

    def define_acc(self, node: UOp) -> Sequence[str]:
        registers = [self.fresh(width(node.dtype.scalar)) for _ in range(node.dtype.lanes)]
        self._assign(registers, node.src[0])
        return registers

    def update_acc(self, node: UOp) -> Sequence[str]:
        registers = self.registers(node.src[0])
        self._assign(registers, node.src[1])
        return registers

    def _assign(self, targets: Sequence[str], value: UOp) -> None:
        for target, source in zip(targets, self.registers(value), strict=True):
            self.copy(target, source, value.dtype.scalar)

    def _label(self, node: UOp, prefix: str) -> str:
        self._labels[node] = f"{prefix}{len(self._labels) + 1}"
        return self._labels[node]

    def open_range(self, node: UOp) -> Sequence[str]:
        """Print the head of a loop. It tests at its end, and at its head if it may run no times."""
        label = self._label(node, "loop")
        counter = self.fresh(width(node.dtype))
        self.copy(counter, "0", node.dtype)
        if not runs_at_least_once(node):
            self._branch(f"end_{label}", "ge", counter, node)
        self.lines.append(f"{label}:")
        return [counter]

    def close_range(self, node: UOp) -> None:
        opened = node.src[0]
        counter, label = self.register(opened), self._labels[opened]
        self.line(f"add.{type_word(opened.dtype)} {counter}, {counter}, 1")
        self._branch(label, "lt", counter, opened)
        if not runs_at_least_once(opened):
            self.lines.append(f"end_{label}:")

    def _branch(self, label: str, compare: str, counter: str, opened: UOp) -> None:
        """Branch to `label` if the comparison of a loop's counter with its extent is true."""
        word, extent = type_word(opened.dtype), self.register(opened.src[0])
        more = self.emit(f"setp.{compare}.{word}", dtypes.bool, counter, extent)
        self.line(f"@{more} bra {label}")

    def open_if(self, node: UOp) -> None:
        self.line(f"@!{self.register(node.src[0])} bra {self._label(node, 'end_if')}")

    def close_if(self, node: UOp) -> None:
        self.lines.append(f"{self._labels[node.src[0]]}:")

    def barrier(self, node: UOp) -> None:
        self.line("bar.sync 0")

    # Memory

    def index(self, node: UOp) -> Sequence[str]:
        memory, position = node.src
        base, index = self.register(memory), self.register(position)
        size = element_of(node).itemsize
        if isinstance(memory.dtype, PtrDType) and memory.dtype.space is _SHARED:
            # Addresses in shared memory have 32 bits.
            low = self.resized(index, position.dtype, dtypes.int32)
            return [self.emit_bits("mad.lo.s32", 32, low, str(size), base)]
        opcode = "mad.wide.s32" if width(position.dtype) == 32 else "mad.lo.s64"
        return [self.emit_bits(opcode, 64, index, str(size), base)]

    def load(self, node: UOp) -> Sequence[str]:
        """Load a value; a closed gate skips the load, and registers hold the alternative."""
        address, *gated = node.src
        held = _held(node.dtype.scalar)
        word, count = _words(held, node.dtype.lanes)
        registers = [self.fresh(width(word)) for _ in range(count)]
        if gated:
            for register, value in zip(registers, self._as_words(gated[0], word), strict=True):
                self.copy(register, value, word)
        self._access("ld", address, word, registers, gated[1:])
        lanes = registers if word is held else self.unpacked(registers, held)
        return [self.reinterpreted(lane, held, node.dtype.scalar) for lane in lanes]

    def store(self, node: UOp) -> None:
        address, value, *gate = node.src
        if len(gate) > 1:
            raise UserError("STORE: PTX devices write whole elements, not the bits of a mask")
        word, _ = _words(_held(value.dtype.scalar), value.dtype.lanes)
        self._access("st", address, word, self._as_words(value, word), gate)

    def _as_words(self, value: UOp, word: DType) -> Sequence[str]:
        """Return the registers that move `value` between memory and registers."""
        dtype = value.dtype.scalar
        held = _held(dtype)
        lanes = [self.reinterpreted(lane, dtype, held) for lane in self.registers(value)]
        return lanes if word is held else self.packed(lanes, held)

    def _access(
        self, name: str, address: UOp, word: DType, registers: Sequence[str], gate: Sequence[UOp]
    ) -> None:
        """Load to, or store, registers of type `word`, as many at once as possible.

        The address of an access must be a multiple of its bytes. Vectors satisfy this, because
        views and shared memory begin at multiples of the largest access.
        """
        guard = f"@{self.register(gate[0])} " if gate else ""
        is_shared = isinstance(address.dtype, PtrDType) and address.dtype.space is _SHARED
        count = min(len(registers), _MAX_ACCESS_LANES, MAX_ACCESS_BYTES // word.itemsize)
        vector = f".v{count}" if count > 1 else ""
        opcode = f"{name}.{'shared' if is_shared else 'global'}{vector}.{memory_word(word)}"
        for first in range(0, len(registers), count):
            moved = registers[first : first + count]
            operand = braced(moved) if count > 1 else moved[0]
            offset = f"+{first * word.itemsize}" if first else ""
            location = f"[{self.register(address)}{offset}]"
            ordered = (operand, location) if name == "ld" else (location, operand)
            self.line(f"{guard}{opcode} {', '.join(ordered)}")

    # Lanes

    def vectorize(self, node: UOp) -> Sequence[str]:
        return [self.fixed(source)[0] for source in node.src]

    def gep(self, node: UOp) -> Sequence[str]:
        values = self.fixed(node.src[0])
        lanes = payload_of(node, GepArg).lanes
        # A scalar has the same value in every lane.
        return [values[lane if len(values) > 1 else 0] for lane in lanes]

    def matrix_tile(self, node: UOp) -> Sequence[str]:
        a, b, c = (self.registers(source) for source in node.src)
        return self.multiply(payload_of(node, TileArg).tile, a, b, c)

    # Arithmetic

    def arithmetic(self, node: UOp) -> Sequence[str]:
        operand = node.src[0].dtype.scalar
        lanes = zip(*map(self.registers, node.src), strict=True)
        return [self.operation(node.op, operand, *values) for values in lanes]

    def less(self, node: UOp) -> Sequence[str]:
        if not node.src[0].dtype.is_bool:
            return self.arithmetic(node)
        lanes = zip(*map(self.registers, node.src), strict=True)
        # False is less than true.
        return [
            self.emit("and.pred", dtypes.bool, self.emit("not.pred", dtypes.bool, left), right)
            for left, right in lanes
        ]

    def shift(self, node: UOp) -> Sequence[str]:
        value, count = node.src
        counts = [
            self.resized(register, count.dtype.scalar, dtypes.uint32)
            for register in self.registers(count)
        ]
        dtype = value.dtype.scalar
        lanes = zip(self.registers(value), counts, strict=True)
        return [self.operation(node.op, dtype, *values) for values in lanes]

    def negate(self, node: UOp) -> Sequence[str]:
        dtype = node.dtype.scalar
        values = self.registers(node.src[0])
        if dtype.is_float:
            sign = self.constant(-0.0, dtype)
            return [self.emit(f"xor.{bits_word(dtype)}", dtype, value, sign) for value in values]
        word = f"s{width(dtype)}"
        negated = [self.emit(f"neg.{word}", dtype, value) for value in values]
        return [self.extended(value, dtype) for value in negated]

    def where(self, node: UOp) -> Sequence[str]:
        lanes = zip(*map(self.registers, node.src), strict=True)
        return [self.choice(node.dtype.scalar, *values) for values in lanes]

    def choice(self, dtype: DType, condition: str, chosen: str, other: str) -> str:
        if not dtype.is_bool:
            return self.emit(f"selp.{bits_word(dtype)}", dtype, chosen, other, condition)
        # No instruction selects predicates.
        result = self.emit("mov.pred", dtype, other)
        self.line(f"@{condition} mov.pred {result}, {chosen}")
        return result

    def cast(self, node: UOp) -> Sequence[str]:
        return self._each_lane(node, self.converted)

    def bitcast(self, node: UOp) -> Sequence[str]:
        return self._each_lane(node, self.reinterpreted)

    def _each_lane(self, node: UOp, convert: Callable[[str, DType, DType], str]) -> Sequence[str]:
        have, want = node.src[0].dtype.scalar, node.dtype.scalar
        return [convert(value, have, want) for value in self.fixed(node.src[0])]

    printers: ClassVar[Mapping[Ops, Callable[[PtxFunction, UOp], Sequence[str] | None]]] = {
        Ops.CONST: constant_node,
        Ops.DEFINE_GLOBAL: define_global,
        Ops.DEFINE_VAR: define_var,
        Ops.DEFINE_LOCAL: define_local,
        Ops.DEFINE_ACC: define_acc,
        Ops.UPDATE_ACC: update_acc,
        Ops.SPECIAL: special,
        Ops.RANGE: open_range,
        Ops.END: close_range,
        Ops.IF: open_if,
        Ops.ENDIF: close_if,
        Ops.BARRIER: barrier,
        Ops.INDEX: index,
        Ops.LOAD: load,
        Ops.STORE: store,
        Ops.VECTORIZE: vectorize,
        Ops.GEP: gep,
        Ops.WMMA: matrix_tile,
        **dict.fromkeys(INSTRUCTIONS, arithmetic),
        Ops.CMPLT: less,
        Ops.SHL: shift,
        Ops.SHR: shift,
        Ops.NEG: negate,
        Ops.WHERE: where,
        Ops.CAST: cast,
        Ops.BITCAST: bitcast,
    }


def _held(dtype: DType) -> DType:
    """Return the type of an element in memory: a bool is a byte; any value but 0 is true."""
    return dtypes.uint8 if dtype.is_bool else dtype


def _words(held: DType, lanes: int) -> tuple[DType, int]:
    """Return the type and number of registers that move a vector: elements, or wider words."""
    if lanes <= _MAX_ACCESS_LANES or held.bits >= WORD_BITS:
        return held, lanes
    return dtypes.uint32, lanes * held.bits // WORD_BITS
