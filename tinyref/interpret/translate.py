"""Translation of a program to a tree of steps: done once, run for every chunk of every launch.

Each node has a register, which is an index into a list of values. A step reads the registers of
its sources and writes its own. Register 0 holds the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref.algebra.op_table import Kernel
from tinyref.algebra.semantics import kernel_for
from tinyref.dtype import AddressSpace, DType, ImageDType, PtrDType, numpy_dtype
from tinyref.errors import UserError
from tinyref.formats.text import node_text
from tinyref.interpret import loops
from tinyref.interpret.lanes import Fault, SanitizerError
from tinyref.interpret.loops import MACHINE, Block, Step
from tinyref.interpret.wmma import wmma
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import (
    ConstArg,
    GepArg,
    LocalArg,
    SlotArg,
    TileArg,
)

Array = npt.NDArray[Any]
# Replaces the semantics of one op: result type, operands, their types.
Override = Callable[[DType, Sequence[Array], Sequence[DType]], Array]


class MemoryPlan:
    """A memory of a program: its slot or name, its type and size.

    is_written: True if a STORE writes it. is_atomic: True if a STORE writes only some bits of it.
    """

    def __init__(self, node: UOp, is_written: bool, is_atomic: bool) -> None:
        if not isinstance(node.dtype, PtrDType):
            raise UserError(f"interpreter: {node_text(node)} does not point to memory")
        self.is_local = node.dtype.space is not AddressSpace.GLOBAL
        self.dtype = node.dtype.base
        self.size = node.dtype.size
        self.texels = node.dtype.shape if isinstance(node.dtype, ImageDType) else None
        self.is_written = is_written
        self.is_atomic = is_atomic
        self.slot = node.arg.slot if isinstance(node.arg, SlotArg) else -1
        self.name = node.arg.name if isinstance(node.arg, LocalArg) else f"slot {self.slot}"


class Translation:
    """The steps of a program, with the values that a run must provide.

    `initial` is the list of values at the start, which has the constants. `variables` and
    `specials` have the registers of values that a launch sets.
    """

    def __init__(
        self, uops: Sequence[UOp], overrides: Mapping[Ops, Override] | None = None
    ) -> None:
        self.overrides = overrides or {}
        self.initial: list[Any] = [None]
        self.registers: dict[UOp, int] = {}
        self.variables: list[tuple[int, UOp]] = []
        self.specials: list[tuple[int, UOp]] = []
        self.memories: list[MemoryPlan] = []
        self.memory_of: dict[UOp, int] = {}
        ops = {node.op for node in uops}
        self.has_barriers = Ops.BARRIER in ops
        self.has_tiles = Ops.WMMA in ops
        stores = [node for node in uops if node.op is Ops.STORE]
        self._written = {_buffer_of(store.src[0]) for store in stores}
        self._atomic = {_buffer_of(store.src[0]) for store in stores if len(store.src) == 4}
        # True while iterations of a loop may run as lanes: until they depend on memory.
        self.may_widen = not self._atomic
        self._blocks = [Block(None)]
        # For each local memory the loops around all of its accesses, and for each loop the memories
        # that only its iterations use.
        self._loops_around: dict[int, list[UOp]] = {}
        self._scratch: dict[UOp, list[int]] = {}
        for node in uops:
            self._blocks[-1].nodes.append(node)
            self._translate(node)
        if len(self._blocks) > 1:
            raise UserError(f"interpreter: {self._blocks[-1].opener} is never closed")
        self.steps = [step for _, step in self._blocks[0].steps]
        for number, loops_around in self._loops_around.items():
            if loops_around:
                self._scratch[loops_around[-1]].append(number)

    def _translate(self, node: UOp) -> None:
        if node.op in ALU:
            self._emit(node, self._alu(node))
            return
        arm = _ARMS.get(node.op)
        if arm is None:
            raise UserError(f"interpreter: {node.op.name} does not belong in a program")
        arm(self, node)

    def _emit(self, node: UOp, step: Step) -> None:
        self._blocks[-1].steps.append((node, step))

    def _new(self, node: UOp, initial: Any = None) -> int:
        register = len(self.initial)
        self.initial.append(initial)
        self.registers[node] = register
        return register

    def _register(self, node: UOp) -> int:
        register = self.registers.get(node)
        if register is None:
            raise UserError(f"interpreter: {node_text(node)} is used before it is computed")
        return register

    # Constants, launch values, memories

    def _const(self, node: UOp) -> None:
        if not isinstance(node.arg, ConstArg):
            raise UserError("interpreter: a CONST without a value")
        self._new(node, _constant(node.arg.value, node.dtype))

    def _variable(self, node: UOp) -> None:
        self.variables.append((self._new(node), node))

    def _special(self, node: UOp) -> None:
        self.specials.append((self._new(node), node))

    def _memory(self, node: UOp) -> None:
        self.memory_of[node] = len(self.memories)
        self.memories.append(MemoryPlan(node, node in self._written, node in self._atomic))

    def _memory_behind(self, address: UOp) -> int:
        buffer = _buffer_of(address)
        number = self.memory_of.get(buffer)
        if number is None:
            raise UserError(f"interpreter: {node_text(buffer)} is used before it is computed")
        return number

    def _accessed(self, address: UOp) -> int:
        """Return the memory of an address; for a local one, record the loops around its use."""
        number = self._memory_behind(address)
        if not self.memories[number].is_local:
            return number
        openers = [block.opener for block in self._blocks]
        here = [opener for opener in openers if opener is not None and opener.op is Ops.RANGE]
        before = self._loops_around.get(number, here)
        common = [loop for loop, other in zip(here, before, strict=False) if loop is other]
        self._loops_around[number] = common
        return number

    def _index(self, node: UOp) -> None:
        # An address is a memory, which is known now, and a position, which is computed later.
        if not isinstance(node.dtype, ImageDType):
            self.registers[node] = self._register(node.src[1])
            return
        if len(node.src) != 3:
            raise UserError(f"interpreter: {node_text(node)} of an image needs row and column")
        row, column = (self._register(source) for source in node.src[1:])
        out = self._new(node)

        def step(values: list[Any]) -> None:
            values[out] = values[row], values[column]

        self._emit(node, step)

    # Arithmetic

    def _kernel(self, node: UOp) -> Kernel:
        sources = tuple(source.dtype.scalar for source in node.src)
        override = self.overrides.get(node.op)
        if override is None:
            return kernel_for(node.op, node.dtype.scalar, sources)
        dtype = node.dtype.scalar
        return lambda *operands: override(dtype, [np.asarray(x) for x in operands], sources)

    def _alu(self, node: UOp) -> Step:
        kernel = self._kernel(node)
        registers = [self._register(source) for source in node.src]
        out = self._new(node)
        if len(registers) == 1:
            return _unary(kernel, out, registers[0])
        if len(registers) == 2:
            return _binary(kernel, out, registers[0], registers[1])
        return _ternary(kernel, out, *registers)

    def _vectorize(self, node: UOp) -> None:
        registers = [self._register(source) for source in node.src]
        out = self._new(node)

        def step(values: list[Any]) -> None:
            lanes = np.broadcast_arrays(*[values[register] for register in registers])
            values[out] = np.stack(lanes, axis=-1)

        self._emit(node, step)

    def _gep(self, node: UOp) -> None:
        if not isinstance(node.arg, GepArg):
            raise UserError("interpreter: a GEP without lanes")
        source = self._register(node.src[0])
        out = self._new(node)
        lanes = list(node.arg.lanes)
        chosen: Any = lanes[0] if len(lanes) == 1 else lanes
        is_scalar = node.src[0].dtype.lanes == 1

        def step(values: list[Any]) -> None:
            vector = values[source]
            # The last axis of a scalar is work-items, not the lanes of a vector.
            values[out] = (np.asarray(vector)[..., None] if is_scalar else vector)[..., chosen]

        self._emit(node, step)

    def _wmma(self, node: UOp) -> None:
        if not isinstance(node.arg, TileArg):
            raise UserError("interpreter: a WMMA without a tile")
        tile = node.arg.tile
        left, right, start = (self._register(source) for source in node.src)
        out = self._new(node)

        def step(values: list[Any]) -> None:
            fragments = values[left], values[right], values[start]
            values[out] = wmma(values[MACHINE], node, tile, *fragments)

        self._emit(node, step)

    # Memory

    def _load(self, node: UOp) -> None:
        memory_id = self._accessed(node.src[0])
        width = node.dtype.lanes
        position = self._register(node.src[0])
        zero = _constant(0, node.dtype)
        alternative = gate = None
        if len(node.src) == 3:
            alternative = self._register(node.src[1])
            gate = self._register(node.src[2])
        out = self._new(node)

        def step(values: list[Any]) -> None:
            machine = values[MACHINE]
            other = zero if alternative is None else values[alternative]
            enabled = None if gate is None else values[gate]
            values[out] = machine.memories[memory_id].load(
                machine, node, values[position], enabled, other, width
            )

        self._emit(node, step)

    def _store(self, node: UOp) -> None:
        memory_id = self._accessed(node.src[0])
        width = node.src[1].dtype.lanes
        position = self._register(node.src[0])
        value = self._register(node.src[1])
        gate = self._register(node.src[2]) if len(node.src) > 2 else None
        mask = self._register(node.src[3]) if len(node.src) == 4 else None

        def step(values: list[Any]) -> None:
            machine = values[MACHINE]
            enabled = None if gate is None else values[gate]
            bits = None if mask is None else values[mask]
            machine.memories[memory_id].store(
                machine, node, values[position], values[value], enabled, width, bits
            )

        self._emit(node, step)

    def _define_acc(self, node: UOp) -> None:
        start = self._register(node.src[0])
        out = self._new(node)

        def step(values: list[Any]) -> None:
            values[out] = values[start]

        self._emit(node, step)

    def _update_acc(self, node: UOp) -> None:
        accumulator = self._register(node.src[0])
        value = self._register(node.src[1])
        self.registers[node] = accumulator
        is_vector = node.dtype.lanes > 1

        def step(values: list[Any]) -> None:
            new = values[value]
            old = values[accumulator]
            if old is None:
                raise SanitizerError(
                    Fault.UNINITIALISED, node_text(node), "the accumulator has no start value"
                )
            mask = values[MACHINE].mask
            if mask is not None:
                new = np.where(mask[..., None] if is_vector else mask, new, old)
            values[accumulator] = new

        self._emit(node, step)

    # Blocks

    def _open(self, node: UOp) -> None:
        self._register(node.src[0])
        if node.op is Ops.RANGE:
            self._new(node)
        self._blocks.append(Block(node))

    def _close(self, node: UOp) -> None:
        block = self._blocks.pop()
        opener = block.opener
        if opener is None or opener is not node.src[0]:
            raise UserError(f"interpreter: {node.op.name} closes {node.src[0]}, not {opener}")
        self._blocks[-1].nodes += block.nodes
        if opener.op is Ops.IF:
            body = [step for _, step in block.steps]
            self._emit(opener, loops.branch(self._register(opener.src[0]), body))
        else:
            self._emit(opener, self._loop(opener, block))

    def _loop(self, opener: UOp, block: Block) -> Step:
        head = self._register(opener), self._register(opener.src[0]), numpy_dtype(opener.dtype)
        body = [step for _, step in block.steps]
        scratch = self._scratch.setdefault(opener, [])
        step = loops.one_by_one(*head, body, scratch)
        if loops.is_independent(block):
            return loops.nested(loops.all_at_once(*head, body, scratch, step))
        folds = loops.folds_of(block)
        if folds is None:
            return loops.nested(step)
        left_out = {node for fold in folds for node in (fold.combined, fold.update)}
        rest = [inner for node, inner in block.steps if node not in left_out]
        bound_folds = [self._bound_fold(fold) for fold in folds]
        return loops.nested(loops.folded(*head, rest, bound_folds, step))

    def _bound_fold(self, fold: loops.Fold) -> loops.BoundFold:
        op, dtype = fold.combined.op, fold.combined.dtype
        return loops.BoundFold(
            self._register(fold.update),
            self._register(fold.value),
            self._kernel(fold.combined),
            None if op in self.overrides else loops.in_order(op, dtype),
            dtype,
            fold.is_flipped,
        )

    def _barrier(self, node: UOp) -> None:
        self._emit(node, lambda values: values[MACHINE].barrier(node))


def _constant(value: Any, dtype: DType) -> Array:
    """Return a constant; a vector has it in every lane."""
    shape = () if dtype.lanes == 1 else (dtype.lanes,)
    return np.full(shape, value, numpy_dtype(dtype))


def _buffer_of(address: UOp) -> UOp:
    while address.op is Ops.INDEX:
        address = address.src[0]
    return address


def _unary(kernel: Kernel, out: int, x: int) -> Step:
    def step(values: list[Any]) -> None:
        values[out] = kernel(values[x])

    return step


def _binary(kernel: Kernel, out: int, x: int, y: int) -> Step:
    def step(values: list[Any]) -> None:
        values[out] = kernel(values[x], values[y])

    return step


def _ternary(kernel: Kernel, out: int, x: int, y: int, z: int) -> Step:
    def step(values: list[Any]) -> None:
        values[out] = kernel(values[x], values[y], values[z])

    return step


_ARMS: dict[Ops, Callable[[Translation, UOp], None]] = {
    Ops.CONST: Translation._const,
    Ops.DEFINE_VAR: Translation._variable,
    Ops.SPECIAL: Translation._special,
    Ops.DEFINE_GLOBAL: Translation._memory,
    Ops.DEFINE_LOCAL: Translation._memory,
    Ops.INDEX: Translation._index,
    Ops.LOAD: Translation._load,
    Ops.STORE: Translation._store,
    Ops.DEFINE_ACC: Translation._define_acc,
    Ops.UPDATE_ACC: Translation._update_acc,
    Ops.VECTORIZE: Translation._vectorize,
    Ops.GEP: Translation._gep,
    Ops.WMMA: Translation._wmma,
    Ops.RANGE: Translation._open,
    Ops.IF: Translation._open,
    Ops.END: Translation._close,
    Ops.ENDIF: Translation._close,
    Ops.BARRIER: Translation._barrier,
}
