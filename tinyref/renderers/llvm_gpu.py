"""Programs as LLVM IR of an emulated GPU: `void @name(ptr launch)` runs one group of work-items.

`launch` is a record of 64-bit words, `Field`, that the launcher fills and the function reads. For a
program without barriers, the function is a loop over the work-items, in either order. For a program
with barriers, each work-item is a coroutine (LLVM, "Coroutines in LLVM", switched-resume lowering)
that suspends while it waits for the others; `tinyref_run_items` starts and resumes them in turn.

The launcher provides shared memory: each array is followed by guard bytes, which must not change.
With `checked`, every access first calls `tinyref_touch`, which detects accesses out of bounds,
uninitialised shared memory and races. `@"name.info"` is a JSON text for the launcher: `Info`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum, auto
from typing import Any, ClassVar

from tinyref.dtype import TEXEL, DType, ImageDType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.renderers.llvm import LlvmFunction, LlvmRenderer, memory_type, value_type
from tinyref.renderers.payloads import (
    element_of,
    name_of_value,
    parameter_position,
    payload_of,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import LocalArg, SlotArg, SpecialArg, TileArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import InputRounding, MatrixTile, Operand

# Functions of the launcher that kernels call.
RUN_ITEMS = "tinyref_run_items"
TOUCH = "tinyref_touch"

# Shared arrays begin at multiples of this, the size of the widest vector.
ALIGNMENT = 128


class Field(IntEnum):
    """The words of a launch record; each _X is followed by its _Y and _Z."""

    BUFFERS = 0  # Address of the buffers' addresses, and of the variables: int32.
    VARIABLES = auto()
    SHARED = auto()  # Address of the shared memory of the group.
    GRID_X = auto()
    GRID_Y = auto()
    GRID_Z = auto()
    ITEMS_X = auto()
    ITEMS_Y = auto()
    ITEMS_Z = auto()
    GROUP_X = auto()
    GROUP_Y = auto()
    GROUP_Z = auto()
    IS_REVERSE = auto()  # 1: groups and work-items from the last to the first.
    ITEM = auto()  # The number of the work-item that runs, 0 and up.
    BARRIER = auto()  # The barrier at which it waits, from 1; 0: it is done. A tile: -1 and down.
    EPOCH = auto()  # Number of barriers that the group has passed.
    EXCHANGE = auto()  # Address of the memory in which work-items meet for a tile.
    FRAMES = auto()  # Address of the frames of the coroutines, and the bytes of each.
    FRAME_BYTES = auto()
    SHARED_BYTES = auto()  # Bytes of arrays and guards; POISON is their content before a group.
    POISON = auto()
    GUARDS = auto()  # Address of pairs of offsets into the shared memory, and their number.
    GUARD_COUNT = auto()
    MEMORIES = auto()  # Address of a record of three words for each memory: its cells of four
    # words, cells of an element, elements. The cells of shared memory, and their bytes:
    SHARED_CELLS = auto()
    SHARED_CELL_BYTES = auto()
    FAULT = auto()  # The first fault: its kind, then its location.
    FAULT_PLACE = auto()
    FAULT_POSITION = auto()
    FAULT_ITEM = auto()
    FAULT_OTHER = auto()
    SIZE = auto()


class FaultCode(IntEnum):
    """The values of the word FAULT; 0 means none."""

    BOUNDS = 1
    ALIGNMENT = auto()
    UNINITIALISED = auto()
    RACE = auto()
    DIVERGENCE = auto()
    GUARD = auto()


@dataclass(frozen=True)
class MemoryInfo:
    """A buffer or a shared array: elements of `itemsize` bytes; `offset` of a shared one."""

    name: str
    elements: int
    itemsize: int
    is_written: bool = True
    offset: int | None = None


@dataclass(frozen=True)
class Info:
    """Facts of a compiled program for its launcher; `memories` begins with the parameters.

    accesses: the checked loads and stores, as text; empty without checks.
    barriers, tiles: their numbers; if either is above 0, work-items are coroutines.
    exchange_bytes: memory behind the shared arrays for the operands of tiles.
    """

    memories: tuple[MemoryInfo, ...]
    accesses: tuple[str, ...]
    barriers: int
    tiles: int
    exchange_bytes: int

    @property
    def has_coroutines(self) -> bool:
        return self.barriers + self.tiles > 0

    @staticmethod
    def of(text: str) -> Info:
        """Read the facts that a compiled program contains."""
        data = json.loads(text)
        data["memories"] = tuple(MemoryInfo(**memory) for memory in data["memories"])
        return Info(**{**data, "accesses": tuple(data["accesses"])})


class LlvmGpuRenderer(LlvmRenderer):
    """Renders programs with groups, barriers and shared memory as LLVM IR for the host.

    llvm_version: the major version that will read the text. checked: check every access.
    """

    def __init__(self, llvm_version: int, checked: bool = False) -> None:
        self.llvm_version = llvm_version
        self.checked = checked

    def render(self, program: Program) -> str:
        return GpuFunction(program, self.llvm_version, self.checked).text()


def field(name: Field, register: str) -> str:
    """Return an instruction that sets `register` to the address of a word of `%launch`."""
    return f"  {register} = getelementptr i64, ptr %launch, i64 {int(name)}"


def read_field(name: Field, register: str, kind: str = "i64") -> list[str]:
    """Return instructions that set `register` to the value of a word of `%launch`."""
    return [field(name, f"{register}.at"), f"  {register} = load {kind}, ptr {register}.at"]


def guard_bytes(nbytes: int) -> int:
    """Return as many guard bytes as the array has: one that is too short by half is detected."""
    return max(ALIGNMENT, nbytes + -nbytes % ALIGNMENT)


class GpuFunction(LlvmFunction):
    """One group of work-items: the nodes are printed once, in a loop or as a coroutine."""

    # Checks are made where an address is computed.
    selects_addresses = False

    def __init__(self, program: Program, llvm_version: int, checked: bool) -> None:
        super().__init__(program)
        self.llvm_version = llvm_version
        self.checked = checked
        self.memories = [_parameter_info(program, slot) for slot in range(len(program.parameters))]
        self.memory_numbers: dict[UOp, int] = {}
        self.shared_bytes = 0
        self.accesses: list[str] = []
        self.barriers = 0
        self.tiles = 0
        self.exchange_bytes = 0
        self.groups: set[int] = set()

    def definition(self, entry: str) -> list[str]:
        is_waiting = self.barriers + self.tiles > 0
        function = self.coroutine(entry) if is_waiting else self.loop(entry)
        return [*self.information(entry), *function]

    def information(self, entry: str) -> list[str]:
        counts = (self.barriers, self.tiles, self.exchange_bytes)
        info = Info(tuple(self.memories), tuple(self.accesses), *counts)
        text = json.dumps(asdict(info)).encode()
        escaped = "".join(
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
            for byte in text
        )
        return [f'@"{entry}.info" = constant [{len(text) + 1} x i8] c"{escaped}\\00"']

    # The frame around the nodes

    def arguments(self) -> list[str]:
        """Return the instructions that read the launch record in the first block."""
        lines = [
            *read_field(Field.BUFFERS, "%buffers", "ptr"),
            *read_field(Field.VARIABLES, "%variables", "ptr"),
            *read_field(Field.SHARED, "%shared", "ptr"),
        ]
        for dim in sorted(self.groups):
            lines += read_field(Field(Field.GROUP_X + dim), f"%group{dim}.i64")
            lines.append(f"  %group{dim} = trunc i64 %group{dim}.i64 to i32")
        return lines

    def loop(self, entry: str) -> list[str]:
        """Print a loop over all work-items, from the first to the last or in reverse."""
        head = [
            f'define void @"{entry}"(ptr %launch) nounwind {{',
            "entry:",
            *self.allocations,
            *self.arguments(),
            *read_field(Field.IS_REVERSE, "%reverse.i64"),
            field(Field.ITEM, "%item.at"),
            "  %reverse = trunc i64 %reverse.i64 to i32",
            "  %twice = mul i32 %reverse, 2",
            "  %step = sub i32 1, %twice",
        ]
        for dim in range(3):
            head += read_field(Field(Field.ITEMS_X + dim), f"%items{dim}.i64")
            head += [
                f"  %items{dim} = trunc i64 %items{dim}.i64 to i32",
                f"  %last{dim} = sub i32 %items{dim}, 1",
                f"  %first{dim} = mul i32 %reverse, %last{dim}",
            ]
        head += [*self.entry, "  br label %loop2"]
        tail: list[str] = []
        before = "entry"
        for dim in (2, 1, 0):
            head += _loop_head(dim, before, inside="start" if dim == 0 else f"loop{dim - 1}")
            tail = [*_loop_tail(dim, after="done" if dim == 2 else f"next{dim + 1}"), *tail]
            before = f"loop{dim}"
        start = ["start:"]
        if self.checked:
            start += [*self.item_number(), "  store i64 %number, ptr %item.at"]
        return [*head, *start, *self.lines, "  br label %next0", *tail, "done:", "  ret void", "}"]

    def coroutine(self, entry: str) -> list[str]:
        """Print a work-item; without memory for its frame it only returns the size of one."""
        void = self.llvm_version >= 22
        end = "call void @llvm.coro.end" if void else "%ended = call i1 @llvm.coro.end"
        self.declarations |= {
            "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
            "declare ptr @llvm.coro.begin(token, ptr)",
            "declare i64 @llvm.coro.size.i64()",
            "declare i8 @llvm.coro.suspend(token, i1)",
            f"declare {'void' if void else 'i1'} @llvm.coro.end(ptr, i1, token)",
            f"declare void @{RUN_ITEMS}(ptr, ptr)",
        }
        items = ", ".join(f"i32 %item{dim}" for dim in range(3))
        return [
            f'define ptr @"{entry}.item"(ptr %launch, ptr %frame, {items}) '
            "presplitcoroutine nounwind {",
            "entry:",
            *self.allocations,
            field(Field.FRAME_BYTES, "%frame.at"),
            "  %coroutine = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)",
            "  %is.question = icmp eq ptr %frame, null",
            "  br i1 %is.question, label %question, label %begin",
            "question:",
            "  %frame.bytes = call i64 @llvm.coro.size.i64()",
            "  store i64 %frame.bytes, ptr %frame.at",
            "  ret ptr null",
            "begin:",
            "  %handle = call ptr @llvm.coro.begin(token %coroutine, ptr %frame)",
            *self.arguments(),
            field(Field.BARRIER, "%barrier.at"),
            *self.entry,
            "  br label %start",
            "start:",
            *self.lines,
            "  store i64 0, ptr %barrier.at",
            "  %last = call i8 @llvm.coro.suspend(token none, i1 true)",
            "  switch i8 %last, label %suspend [i8 0, label %over i8 1, label %cleanup]",
            "over:",
            "  unreachable",
            "cleanup:",
            "  br label %suspend",
            "suspend:",
            f"  {end}(ptr %handle, i1 false, token none)",
            "  ret ptr %handle",
            "}",
            f'define void @"{entry}"(ptr %launch) nounwind {{',
            f'  call void @{RUN_ITEMS}(ptr %launch, ptr @"{entry}.item")',
            "  ret void",
            "}",
        ]

    def item_number(self) -> list[str]:
        """Return instructions that compute %number, the number of the work-item in its group."""
        items = self.program.group
        return [
            f"  %number2 = mul i32 %item2, {items[1]}",
            "  %number1 = add i32 %number2, %item1",
            f"  %number0 = mul i32 %number1, {items[0]}",
            "  %number.i32 = add i32 %number0, %item0",
            "  %number = sext i32 %number.i32 to i64",
        ]

    # Nodes

    def barrier(self, node: UOp) -> None:
        self.barriers += 1
        self.wait(self.barriers)

    def wait(self, barrier: int) -> None:
        """Suspend until all work-items of the group have reached `barrier`."""
        self.lines.append(f"  store i64 {barrier}, ptr %barrier.at")
        answer = self.emit("call i8 @llvm.coro.suspend(token none, i1 false)", "resumed")
        label = f"{answer[1:]}.go"
        self.lines.append(
            f"  switch i8 {answer}, label %suspend [i8 0, label %{label} i8 1, label %cleanup]"
        )
        self.start_block(label)

    def launch_index(self, node: UOp) -> str:
        special = payload_of(node, SpecialArg)
        if special.scope == "group":
            self.groups.add(special.dim)
        name = f"%{special.scope}{special.dim}"
        if value_type(node.dtype) == "i32":
            return name
        return self.emit(f"sext i32 {name} to {value_type(node.dtype)}", special.scope)

    def global_memory(self, node: UOp) -> str:
        self.memory_numbers[node] = parameter_position(self.program, node)
        return self.define_global(node)

    def shared_memory(self, node: UOp) -> str:
        name = self.fresh("local")
        element = element_of(node)
        size = node.dtype.size if isinstance(node.dtype, PtrDType) else 0
        self.memory_numbers[node] = len(self.memories)
        label = payload_of(node, LocalArg).name
        self.memories.append(MemoryInfo(label, size, element.itemsize, True, self.shared_bytes))
        self.entry.append(f"  {name} = getelementptr i8, ptr %shared, i64 {self.shared_bytes}")
        whole = size * element.itemsize
        self.shared_bytes += whole + -whole % ALIGNMENT + guard_bytes(whole)
        return name

    def texel(self, node: UOp) -> str:
        """Return the address of an element, or of the texel in a row and column of an image."""
        if not isinstance(node.dtype, ImageDType):
            return self.index(node)
        kind = f"[{TEXEL} x {_texel_lane(node.dtype)}]"
        position = self.texel_number(node)
        return self.emit(f"getelementptr {kind}, ptr {self.value(node.src[0])}, i64 {position}")

    def texel_number(self, node: UOp) -> str:
        kind = node.dtype
        columns = kind.shape[1] if isinstance(kind, ImageDType) else 1
        row, column = (self.wide(source) for source in node.src[1:])
        return self.element_number(row, columns, column)

    def wide(self, node: UOp) -> str:
        """Return an index as i64."""
        if value_type(node.dtype) == "i64":
            return self.value(node)
        return self.emit(f"sext {self.typed(node)} to i64")

    def read(self, node: UOp) -> str:
        memory = node.src[0].dtype
        if not isinstance(memory, ImageDType) or memory.base is dtypes.float32:
            return super().read(node)
        halves = self.emit(f"load <{TEXEL} x half>, ptr {self.address(node)}, align 2")
        return self.emit(f"fpext <{TEXEL} x half> {halves} to {value_type(node.dtype)}")

    def write(self, node: UOp) -> None:
        memory = node.src[0].dtype
        if not isinstance(memory, ImageDType) or memory.base is dtypes.float32:
            super().write(node)
            return
        halves = self.emit(f"fptrunc {self.typed(node.src[1])} to <{TEXEL} x half>")
        self.lines.append(f"  store <{TEXEL} x half> {halves}, ptr {self.address(node)}, align 2")

    def matrix_tile(self, node: UOp) -> str:
        """Share A and B among the work-items; each computes the elements that it holds."""
        tile = payload_of(node, TileArg).tile
        if not self.tiles:
            self.entry += [*read_field(Field.EXCHANGE, "%exchange", "ptr"), *self.item_number()]
        thread = self.emit(f"urem i64 %number, {tile.threads}", "thread")
        subgroup = self.emit(f"udiv i64 %number, {tile.threads}", "subgroup")
        kind = memory_type(tile.dtype_in)
        sizes = [math.prod(tile.shape(operand)) for operand in (Operand.A, Operand.B)]
        subgroups = -(-math.prod(self.program.group) // tile.threads)
        needed = subgroups * sum(sizes) * tile.dtype_in.itemsize
        self.exchange_bytes = max(self.exchange_bytes, needed)
        offset = self.emit(f"mul i64 {subgroup}, {sum(sizes)}")
        a = self.emit(f"getelementptr {kind}, ptr %exchange, i64 {offset}")
        b = self.emit(f"getelementptr {kind}, ptr {a}, i64 {sizes[0]}")
        self.put_fragment(tile, Operand.A, node.src[0], thread, a)
        self.put_fragment(tile, Operand.B, node.src[1], thread, b)
        self.wait(-self.tiles - 1)
        result = self.product(tile, node.src[2], thread, (a, b))
        self.wait(-self.tiles - 2)
        self.tiles += 2
        return result

    def put_fragment(
        self, tile: MatrixTile, operand: Operand, value: UOp, thread: str, matrix: str
    ) -> None:
        kind = memory_type(tile.dtype_in)
        columns = tile.shape(operand)[1]
        for register in range(tile.layout(operand).registers):
            element = self.lane(value, register)
            if tile.rounds_in is InputRounding.TF32:
                element = self.tf32(element)
            row, column = self.coordinates(tile, operand, thread, register)
            number = self.element_number(row, columns, column)
            at = self.emit(f"getelementptr {kind}, ptr {matrix}, i64 {number}")
            self.lines.append(f"  store {kind} {element}, ptr {at}")

    def product(self, tile: MatrixTile, c: UOp, thread: str, matrices: tuple[str, str]) -> str:
        """Return a thread's fragment of A * B + C: k from 0 up, with each step rounded."""
        wide = value_type(tile.dtype_out)
        add, mul = ("fadd", "fmul") if tile.dtype_out.is_float else ("add", "mul")
        result = "poison"
        registers = tile.c.registers
        for register in range(registers):
            total = self.lane(c, register)
            row, column = self.coordinates(tile, Operand.C, thread, register)
            for k in range(tile.size("k")):
                left = self.wide_element(tile, matrices[0], row, tile.size("k"), str(k))
                right = self.wide_element(tile, matrices[1], str(k), tile.size("n"), column)
                term = self.emit(f"{mul} {wide} {left}, {right}")
                total = self.emit(f"{add} {wide} {total}, {term}")
            if registers == 1:
                return total
            kind = value_type(tile.dtype_out.vec(registers))
            result = self.emit(f"insertelement {kind} {result}, {wide} {total}, i32 {register}")
        return result

    def wide_element(
        self, tile: MatrixTile, matrix: str, row: str, columns: int, column: str
    ) -> str:
        """Return an element of A or B in the type of C."""
        narrow, wide = memory_type(tile.dtype_in), value_type(tile.dtype_out)
        number = self.element_number(row, columns, column)
        at = self.emit(f"getelementptr {narrow}, ptr {matrix}, i64 {number}")
        value = self.emit(f"load {narrow}, ptr {at}")
        if narrow == wide:
            return value
        opcode = "fpext" if tile.dtype_in.is_float else "sext"
        return self.emit(f"{opcode} {narrow} {value} to {wide}")

    def element_number(self, row: str, columns: int, column: str) -> str:
        return self.emit(f"add i64 {self.emit(f'mul i64 {row}, {columns}')}, {column}")

    def coordinates(
        self, tile: MatrixTile, operand: Operand, thread: str, register: int
    ) -> tuple[str, str]:
        """Return row and column of the element that `register` of `thread` holds."""
        layout = tile.layout(operand)
        coordinates = []
        for axis in operand.axes:
            total = str(layout.coordinate(axis, 0, register))
            for position, bit in enumerate(layout.thread_bits):
                if bit is None or bit.axis != axis:
                    continue
                shifted = self.emit(f"lshr i64 {thread}, {position}")
                part = self.emit(f"mul i64 {self.emit(f'and i64 {shifted}, 1')}, {bit.weight}")
                total = self.emit(f"add i64 {total}, {part}")
            coordinates.append(total)
        return coordinates[0], coordinates[1]

    def lane(self, value: UOp, register: int) -> str:
        if value.dtype.lanes == 1:
            return self.value(value)
        return self.emit(f"extractelement {self.typed(value)}, i32 {register}")

    def tf32(self, value: str) -> str:
        """Round float32 to 10 bits of mantissa, ties away from zero; NaN and inf stay."""
        bits = self.emit(f"bitcast float {value} to i32")
        up = self.emit(f"add i32 {bits}, {0x1000}")
        cut = self.emit(f"and i32 {up}, {-0x2000}")
        size = self.emit(f"and i32 {bits}, {0x7FFFFFFF}")
        finite = self.emit(f"icmp ult i32 {size}, {0x7F800000}")
        chosen = self.emit(f"select i1 {finite}, i32 {cut}, i32 {bits}")
        return self.emit(f"bitcast i32 {chosen} to float")

    def address(self, node: UOp) -> str:
        """Return the address of an access; with checks, a safe one if it is out of bounds."""
        if not self.checked:
            return super().address(node)
        index = node.src[0]
        memory = index.src[0]
        is_image = isinstance(index.dtype, ImageDType)
        dtype = node.src[1].dtype if node.op is Ops.STORE else node.dtype
        lanes = 1 if is_image else dtype.lanes
        position = self.texel_number(index) if is_image else self.wide(index.src[1])
        number = self.memory_numbers[memory]
        self.accesses.append(f"{self.memories[number].name} at {node_text(node)}")
        self.declarations.add(f"declare i64 @{TOUCH}(ptr, i64, i64, i64, i64, i64) nounwind")
        what = f"i64 {lanes}, i64 {int(node.op is Ops.STORE)}, i64 {len(self.accesses) - 1}"
        safe = self.emit(f"call i64 @{TOUCH}(ptr %launch, i64 {number}, i64 {position}, {what})")
        element = f"[{TEXEL} x {_texel_lane(index.dtype)}]" if is_image else ""
        element = element or memory_type(element_of(memory))
        pointer = name_of_value(self.names, memory)
        return self.emit(f"getelementptr {element}, ptr {pointer}, i64 {safe}", "at")

    printers: ClassVar[Mapping[Ops, Callable[[Any, UOp], str | None]]] = {
        **LlvmFunction.printers,
        Ops.SPECIAL: launch_index,
        Ops.DEFINE_GLOBAL: global_memory,
        Ops.DEFINE_LOCAL: shared_memory,
        Ops.BARRIER: barrier,
        Ops.WMMA: matrix_tile,
        Ops.INDEX: texel,
    }


def _parameter_info(program: Program, position: int) -> MemoryInfo:
    """Describe a parameter; its elements are those that kernels count, such as texels."""
    parameter = program.parameters[position]
    is_image = any(
        node.op is Ops.DEFINE_GLOBAL
        and isinstance(node.dtype, ImageDType)
        and payload_of(node, SlotArg).slot == parameter.slot
        for node in program.uops
    )
    lanes = TEXEL if is_image else 1
    name, itemsize = f"data{parameter.slot}", lanes * parameter.dtype.itemsize
    return MemoryInfo(name, parameter.size // lanes, itemsize, parameter.is_written)


def _texel_lane(memory: DType) -> str:
    base = memory.base if isinstance(memory, PtrDType) else memory
    if base is dtypes.float32:
        return "float"
    if base is dtypes.float16:
        return "half"
    raise UserError(f"image: has texels of {base.name}: accepted are float32 and float16")


def _loop_head(dim: int, before: str, inside: str) -> list[str]:
    count = f"%count{dim}"
    return [
        f"loop{dim}:",
        f"  {count} = phi i32 [ 0, %{before} ], [ {count}.next, %next{dim} ]",
        f"  %walked{dim} = mul i32 {count}, %step",
        f"  %item{dim} = add i32 %first{dim}, %walked{dim}",
        f"  br label %{inside}",
    ]


def _loop_tail(dim: int, after: str) -> list[str]:
    count = f"%count{dim}"
    return [
        f"next{dim}:",
        f"  {count}.next = add nuw nsw i32 {count}, 1",
        f"  %more{dim} = icmp slt i32 {count}.next, %items{dim}",
        f"  br i1 %more{dim}, label %loop{dim}, label %{after}",
    ]
