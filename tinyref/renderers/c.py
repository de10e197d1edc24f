"""Programs as C source for a host: `void k_name(void **buffers, const int *variables)`.

The last of the `variables` is the group that this call computes: the launch index, or 0 for a
program without one.

The text is C99 (with `_Float16` if the device declares it) and means the same to gcc, clang and
tcc. Vectors, if declared, are those of gcc and clang (`vector_size`; a bool is a byte there). Every
node is a separate statement with the type of the node, so each operation rounds and wraps there. No
undefined behaviour can be reached: integer arithmetic is unsigned, shift counts are masked,
conversions out of range saturate, special floats are made from their bits. Division by zero and
MIN/-1 trap: the backends declare `division_traps`, and decomposition guards them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tinyref.dtype import DType, dtypes
from tinyref.renderers.c_language import C_TYPE_NAMES
from tinyref.renderers.c_style import C_STYLE_OPS, INFIX, CStyleRenderer
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops

C_OPS = C_STYLE_OPS

# The size of a cache line, and of the widest vector register of today's hosts.
_SCRATCH_ALIGNMENT = 64


class CRenderer(CStyleRenderer):
    """Renders programs as C for the compilers of this host."""

    type_names: ClassVar[Mapping[DType, str]] = {
        **C_TYPE_NAMES,
        dtypes.bool: "_Bool",
        dtypes.float16: "_Float16",
    }
    launch_indices = {("group", 0): "variables[{last}]"}

    def vector_type(self, dtype: DType) -> str:
        """Return the name of a typedef before the kernel."""
        return dtype.name

    def make_vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"(({self.type(dtype)}){{{', '.join(lanes)}}})"

    def lane(self, vector: str, number: int) -> str:
        return f"{vector}[{number}]"

    def bitcast(self, value: str, source: DType, target: DType) -> str:
        """Use a union, which C99 allows (6.5.2.3, note 82 of its technical corrigendum 3)."""
        have, want = self.type(source), self.type(target)
        name = f"{target.name}_of_{source.name}_bits"
        self.helpers[name] = (
            f"static inline {want} {name}({have} from) {{\n"
            f"  union {{ {have} from; {want} to; }} bits;\n"
            f"  bits.from = from;\n"
            f"  return bits.to;\n"
            f"}}"
        )
        return f"{name}({value})"

    def call(self, op: Ops, operands: Sequence[str], dtype: DType) -> str:
        """Declare and call a function of the C library."""
        kind = self.type_names[dtype]
        name = self.functions[op] + ("f" if dtype is dtypes.float32 else "")
        self.helpers[name] = f"{kind} {name}({', '.join([kind] * len(operands))});"
        return f"{name}({', '.join(operands)})"

    def declare_local(self, kind: str, name: str, size: int) -> None:
        """Declare scratch memory of this call, with an attribute that gcc, clang and tcc know."""
        self.declare(f"{kind} {name}[{size}] __attribute__((aligned({_SCRATCH_ALIGNMENT})));")

    def vector_load(self, name: str, memory: str, position: str, dtype: DType) -> str:
        statement = f"__builtin_memcpy(&{name}, &{memory}[{position}], sizeof {name});"
        if not dtype.scalar.is_bool:
            return statement
        normalised = self._flags(f"{name} != {self.literal(0, dtype)}", dtype)
        return f"{statement} {self.assign(name, normalised)}"

    def vector_store(self, value: str, memory: str, position: str, dtype: DType) -> str:
        return f"__builtin_memcpy(&{memory}[{position}], &{value}, sizeof {value});"

    def read_atomic(self, element: str) -> str:
        return f"__atomic_load_n(&{element}, __ATOMIC_RELAXED)"

    def masked_store(self, element: str, bits: str, mask: str) -> str:
        """Use the built-in of gcc and clang; tcc has none."""
        return (
            f"__atomic_fetch_and(&{element}, ~{mask}, __ATOMIC_RELAXED); "
            f"__atomic_fetch_or(&{element}, {bits}, __ATOMIC_RELAXED);"
        )

    def prologue(self) -> list[str]:
        vectors = [dtype for dtype in self.types if dtype.lanes > 1]
        ordered = sorted(vectors, key=lambda dtype: (dtype.lanes, dtype.scalar.priority))
        return [self._typedef(dtype) for dtype in ordered]

    def _typedef(self, dtype: DType) -> str:
        element = self.type_names[dtypes.uint8 if dtype.scalar.is_bool else dtype.scalar]
        size = dtype.lanes * dtype.scalar.itemsize
        return f"typedef {element} {dtype.name} __attribute__((vector_size({size})));"

    def function_head(self, entry: str, parameters: Sequence[str]) -> list[str]:
        return [f"void {entry}(void **buffers, const int *variables) {{"]

    def bind_buffer(self, position: int, name: str, element: DType) -> None:
        self.declare(f"{self.memory_type(element)} *{name} = buffers[{position}];")

    def bind_variable(self, position: int, name: str, dtype: DType) -> None:
        self.declare(self.declare_value(self.type(dtype), name, f"variables[{position}]"))

    def launch_index(self, scope: str, dimension: int) -> str:
        """Pass the group that this call computes after the other variables."""
        return super().launch_index(scope, dimension).format(last=len(self.program.variables))

    # Whole vectors, if C has an operator for them

    def vector_operation(self, node: UOp, operands: Sequence[str]) -> str | None:
        """Compute float16 lane by lane: some compilers do not round each vector operation."""
        operation = self._whole_vectors.get(node.op)
        parts = (node, *node.src)
        if operation is None or any(part.dtype.scalar is dtypes.float16 for part in parts):
            return None
        return operation(self, node, operands)

    def _flags(self, mask: str, dtype: DType) -> str:
        """Make a vector of bools, 0 or 1, from the mask of a comparison, with lanes 0 or -1."""
        return f"__builtin_convertvector({mask}, {self.type(dtype)}) & 1"

    def _choose(self, mask: str, chosen: str, other: str, dtype: DType) -> str:
        """Select with a mask of 0 or -1 in lanes as wide as `dtype`: C has no ?: for vectors."""
        word = self.type(_signed_like(dtype))
        text = f"(({mask}) & ({word}){chosen}) | (~({mask}) & ({word}){other})"
        return f"({self.type(dtype)})({text})"

    def _infix_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        left, right = operands
        text = f"{left} {INFIX[node.op]} {right}"
        if node.op in (Ops.CMPLT, Ops.CMPNE):
            return self._flags(text, node.dtype)
        if node.op in (Ops.ADD, Ops.SUB, Ops.MUL) and node.dtype.is_int:
            word = self.type(_unsigned_like(node.dtype))
            text = f"({word}){left} {INFIX[node.op]} ({word}){right}"
            return f"({self.type(node.dtype)})({text})"
        return text

    def _shift_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        left, count = operands
        # The count has the type of the shifted value; for shifts to the left that is unsigned.
        dtype = _unsigned_like(node.dtype) if node.op is Ops.SHL else node.dtype
        kind = self.type(dtype)
        mask = self.literal(node.dtype.bits - 1, node.src[1].dtype)
        count = f"__builtin_convertvector({count} & {mask}, {kind})"
        symbol = "<<" if node.op is Ops.SHL else ">>"
        return f"({self.type(node.dtype)})(({kind}){left} {symbol} {count})"

    def _maximum_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        left, right = operands
        return self._choose(f"{left} < {right}", right, left, node.dtype)

    def _negate_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        if node.dtype.is_float:
            return f"-{operands[0]}"
        return f"({self.type(node.dtype)})(-({self.type(_unsigned_like(node.dtype))}){operands[0]})"

    def _reciprocal_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        return f"{self.literal(1.0, node.dtype)} / {operands[0]}"

    def _where_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        condition, chosen, other = operands
        mask = f"-__builtin_convertvector({condition}, {self.type(_signed_like(node.dtype))})"
        return self._choose(mask, chosen, other, node.dtype)

    def _cast_lanes(self, node: UOp, operands: Sequence[str]) -> str | None:
        have, want = node.src[0].dtype, node.dtype
        if want.scalar.is_bool:
            return self._flags(f"{operands[0]} != {self.literal(0, have)}", want)
        if have.is_float and want.is_int:
            return None
        return f"__builtin_convertvector({operands[0]}, {self.type(want)})"

    def _bitcast_lanes(self, node: UOp, operands: Sequence[str]) -> str:
        return f"({self.type(node.dtype)}){operands[0]}"

    _whole_vectors: ClassVar[
        Mapping[Ops, Callable[[CRenderer, UOp, Sequence[str]], str | None]]
    ] = {
        **dict.fromkeys(INFIX, _infix_lanes),
        Ops.SHL: _shift_lanes,
        Ops.SHR: _shift_lanes,
        Ops.MAX: _maximum_lanes,
        Ops.NEG: _negate_lanes,
        Ops.RECIP: _reciprocal_lanes,
        Ops.WHERE: _where_lanes,
        Ops.CAST: _cast_lanes,
        Ops.BITCAST: _bitcast_lanes,
    }


C_DTYPES = frozenset(CRenderer.type_names)


def _unsigned_like(dtype: DType) -> DType:
    """Return the vector of unsigned integers of the same shape and width."""
    return _integers(dtype, dtypes.unsigned_ints)


def _signed_like(dtype: DType) -> DType:
    """Return the vector of signed integers of the same shape, the type of a comparison."""
    return _integers(dtype, dtypes.signed_ints)


def _integers(dtype: DType, among: Sequence[DType]) -> DType:
    (match,) = [one for one in among if one.itemsize == dtype.scalar.itemsize]
    return match.vec(dtype.lanes)
