"""The base of renderers for C-like languages: a language is a table and a few methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tinyref.dtype import DType, ImageDType, PtrDType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c_language import C_STYLE_OPS as C_STYLE_OPS
from tinyref.renderers.c_language import EMULATED, TILE_PREFIX, CStyleLanguage
from tinyref.renderers.c_language import FUNCTIONS as FUNCTIONS
from tinyref.renderers.c_language import INFIX as INFIX
from tinyref.renderers.payloads import (
    element_of,
    name_of_value,
    parameter_position,
    payload_of,
    variable_position,
)
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import ConstArg, GepArg, SlotArg, SpecialArg, TileArg
from tinyref.uops.program import Program


class CStyleRenderer(CStyleLanguage):
    """Renders programs in a C-like language. Subclass it, fill the table, override methods.

    A program is a list of nodes in a legal order. The base makes a statement of each node that
    computes something, such as `float v7 = v5 * v6;`, so every operation rounds and wraps in its
    own type. The parts that languages define differently are members of `CStyleLanguage`. They
    have the values of C, except `type_names` and `bitcast`, which each language defines:

    1. the **table**: class attributes, which are enough for most languages;
    2. **expressions**: methods that take operands as texts (names or literals, in parentheses if
       needed) and return the text of the result;
    3. **statements**: methods that return one line, with its `;`;
    4. the **frame**: methods that print the text around the body.

    A renderer is made with the capabilities of its device, and refuses (`UserError`) types, vector
    widths and ops that they do not declare. Without capabilities it accepts all scalar types of its
    table. The compiler has refused such programs before; this check is the last one.

    `render` works on a copy of the renderer, so threads may share one. Inside it, methods may use
    `self.program` and print more. `self.helpers[name] = text` is printed once before the kernel,
    `self.line(text)` is the next line of the body, `self.declare(text)` a line at its top.

    **Names.** `kernel_prefix` precedes kernel names: one named `rotate` is then not a built-in.
    `entry_name(program)` returns the name in the text, which `Backend.load` gets. Values are v1, v2
    ..., loop counters i3, accumulators acc4, shared memory local5, launch indices group_0 and
    item_0, buffers data0 by their slots, variables var_NAME.

    **The table**

    language: the name of the language in errors.
    type_names: the scalar types, at least those of `Capabilities.dtypes`.
    suffixes: of literals, by type; literals of a type without one are cast.
    bool_literals: false and true.
    infix, functions: operators between operands, functions of floats.
    half_functions: `functions` accept float16 and bfloat16; otherwise they go through float32.
    signed_wraps: signed integers wrap around; otherwise they are computed as unsigned ones.
    select_is_lazy: `select` evaluates only the chosen side, so a gated load uses it; otherwise a
    gated load is a branch.
    vector_infix: the operators that accept whole vectors of floats.
    has_launch_bounds: kernels declare the number of work-items of a group, as in CUDA C++.
    kernel_keywords: the words before a kernel.
    global_space, shared_space: the words before a pointer to device memory, and before a shared
    array of a group.
    launch_indices: the index of a group or of a work-item, by (scope, dimension), as
    `("group", 0): "get_group_id(0)"`; other indices are refused.
    barrier_text: the statement with which the work-items of a group wait for each other.
    header: the first lines of every text.

    Examples:
        >>> from tinyref.backend import CStyleRenderer
        >>> class Mine(CStyleRenderer):
        ...     def open_branch(self, condition):
        ...         return f"when ({condition}) {{"
        >>> Mine().open_branch("v1"), Mine().open_loop("int", "i", "8")
        ('when (v1) {', 'for (int i = 0; i < 8; i++) {')
    """

    def render(self, program: Program) -> str:
        """Return the source of one kernel. Raises `UserError` if the language lacks a node."""
        text = copy.copy(self)
        text.begin(program)
        for node in program.uops:
            text.print_node(node)
        return "\n".join([*text.source_lines(), ""])

    def begin(self, program: Program) -> None:
        super().begin(program)
        self._names: dict[UOp, str] = {}
        masked = (node for node in program.uops if node.op is Ops.STORE and len(node.src) == 4)
        self._atomic_memories = {_memory_of(node.src[0]) for node in masked}

    def _value(self, node: UOp) -> str:
        return name_of_value(self._names, node)

    def _values(self, node: UOp) -> list[str]:
        return [self._value(source) for source in node.src]

    def _lane(self, node: UOp, number: int) -> str:
        """Return one lane of `node`: of a scalar its value, of a constant a literal."""
        if node.op is Ops.CONST:
            # Some compilers, such as naga for WGSL, take no lane of a constant vector as constant.
            return self.literal(payload_of(node, ConstArg).value, node.dtype.scalar)
        name = self._value(node)
        return name if node.dtype.lanes == 1 else self.lane(name, number)

    def print_node(self, node: UOp) -> None:
        printer = self._printers.get(node.op)
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

    def _define_var(self, node: UOp) -> str:
        name = self._variable_name(node)
        self.bind_variable(variable_position(self.program, node), name, node.dtype)
        return name

    def _special(self, node: UOp) -> str:
        special = payload_of(node, SpecialArg)
        text = self.launch_index(special.scope, special.dim)
        name = f"{special.scope}_{special.dim}"
        if name in self._names.values():
            # The same index in another type.
            name = self.fresh(f"{name}_")
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
        indices = self._values(address)
        if isinstance(address.src[0].dtype, ImageDType):
            return self.assign(name, self.texel(indices[0], indices[1], indices[2]))
        if node.dtype.lanes == 1:
            return self.assign(name, self._read(address, node.dtype))
        return self.vector_load(name, indices[0], indices[1], node.dtype)

    def _store(self, node: UOp) -> None:
        address, value = node.src[0], self._value(node.src[1])
        dtype = node.src[1].dtype
        indices = self._values(address)
        if dtype.lanes > 1 and node.src[1].op is Ops.CONST:
            value = self.define(dtype, value)
        if isinstance(address.src[0].dtype, ImageDType):
            statement = self.store_texel(indices[0], indices[1], indices[2], value)
        elif dtype.lanes > 1:
            statement = self.vector_store(value, indices[0], indices[1], dtype)
        elif len(node.src) == 4:
            statement = self.masked_store(self._value(address), value, self._value(node.src[3]))
        else:
            statement = self.assign(self._value(address), self.write(value, dtype))
        is_gated = len(node.src) > 2
        self._guarded(self._value(node.src[2]) if is_gated else None, statement)

    def _guarded(self, gate: str | None, statement: str) -> None:
        """Return a statement that a closed gate skips."""
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

    def _tile(self, node: UOp) -> str:
        tile = payload_of(node, TileArg).tile
        name = f"{TILE_PREFIX}{tile.name}"
        self.helpers[name] = f"#ifndef {EMULATED}\n{self.tile_function(tile, name)}\n#endif"
        # A macro accepts no literal of several lanes: its commas would separate arguments.
        fragments = [
            self.define(source.dtype, self._value(source))
            if source.op is Ops.CONST
            else self._value(source)
            for source in node.src
        ]
        return self.define(node.dtype, f"{name}({', '.join(fragments)})")

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
        """Return the result of `node` for one lane of the operands."""
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
        if have.bits == 16:
            # The limits of an integer type may be out of its range.
            return self.saturating_cast(
                f"({self.cast(value, have, dtypes.float32)})", dtypes.float32, want
            )
        return self.saturating_cast(value, have, want)

    def _same_bits(self, value: str, have: DType, want: DType) -> str:
        if have.is_float or want.is_float:
            return self.bitcast(value, have, want)
        return self.cast(value, have, want)

    def _function(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        if dtype.bits > 16 or self.half_functions:
            return self.call(op, operands, dtype)
        wide = [self.cast(operand, dtype, dtypes.float32) for operand in operands]
        return self.cast(self.call(op, wide, dtypes.float32), dtypes.float32, dtype)

    _printers: ClassVar[Mapping[Ops, Callable[[CStyleRenderer, UOp], str | None]]] = {
        Ops.CONST: _constant,
        Ops.DEFINE_GLOBAL: _define_global,
        Ops.DEFINE_VAR: _define_var,
        Ops.SPECIAL: _special,
        Ops.DEFINE_LOCAL: _define_local,
        Ops.DEFINE_ACC: _define_acc,
        Ops.UPDATE_ACC: _update_acc,
        Ops.RANGE: _open_range,
        Ops.END: _close,
        Ops.IF: _open_if,
        Ops.ENDIF: _close,
        Ops.BARRIER: _barrier,
        Ops.INDEX: _index,
        Ops.LOAD: _load,
        Ops.STORE: _store,
        Ops.VECTORIZE: _vectorize,
        Ops.GEP: _gep,
        Ops.WMMA: _tile,
        **dict.fromkeys(ALU - {Ops.THREEFRY, Ops.MULACC}, _compute),
    }


def _memory_of(address: UOp) -> UOp:
    while address.op not in (Ops.DEFINE_GLOBAL, Ops.DEFINE_LOCAL) and address.src:
        address = address.src[0]
    return address
