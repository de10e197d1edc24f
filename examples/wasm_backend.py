"""A backend for WebAssembly: a renderer to text, and wasmtime, which runs the text on this host.

Install wasmtime first: `pip install wasmtime`. From the folder of this file,
`tinyref conform --device wasm_backend:Wasm` runs the suite on it. `wasm_backend:WasmUnoptimised` is
the same device without compiler optimisations. `python examples/wasm_backend.py` prints a sum.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import platform
import time
from collections.abc import Sequence
from typing import Any

from tinyref.backend import (
    CORE_OPS,
    Availability,
    Backend,
    Capabilities,
    ConstArg,
    DeviceError,
    DType,
    GepArg,
    Ops,
    Program,
    ReusingAllocator,
    UOp,
    dtypes,
    element_of,
    parameter_position,
    payload_of,
    variable_position,
)

PAGE = 65536
INTEGERS = {dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64}
INTEGERS |= {dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64}

CAPABILITIES = Capabilities(
    dtypes=frozenset({dtypes.bool, dtypes.float32, dtypes.float64, *INTEGERS}),
    emulated=frozenset({dtypes.float16, dtypes.bfloat16, dtypes.fp8e4m3, dtypes.fp8e5m2}),
    ops=CORE_OPS | {"NEG", "SUB", "FDIV", "RECIP", "SQRT", "TRUNC"},
    vector_lanes=(1, 4),
    shared_bytes=PAGE,  # the first page holds the local arrays of a kernel
    division_traps=True,
)

WORDS = {Ops.ADD: "add", Ops.SUB: "sub", Ops.MUL: "mul", Ops.FDIV: "div", Ops.CMPNE: "ne"}
WORDS |= {Ops.AND: "and", Ops.OR: "or", Ops.XOR: "xor", Ops.SHL: "shl"}
WORDS |= {Ops.NEG: "neg", Ops.SQRT: "sqrt", Ops.TRUNC: "trunc"}
SIGNED_WORDS = {Ops.IDIV: "div", Ops.MOD: "rem", Ops.SHR: "shr", Ops.CMPLT: "lt"}
# Vectors have no division of integers, and shift all lanes by one count.
LANE_BY_LANE = {Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR}


# A value is a list of expressions: one v128 for four lanes of up to 32 bits, else one a lane.
# Integers of 8 and 16 bits are extended to 32. A bool is 0 or 1; as a lane of a v128, 0 or -1.


def code(name: str, *operands: str) -> str:
    """Return an instruction with its operands."""
    return f"({' '.join((name, *operands))})"


def is_packed(dtype: DType) -> bool:
    """Return True if a value of type `dtype` is one v128."""
    return dtype.lanes == 4 and dtype.bits < 64


def shape(dtype: DType) -> str:
    """Return the prefix of instructions on `dtype`, such as `i32` or `f32x4`."""
    name = f"{'f' if dtype.is_float else 'i'}{64 if dtype.bits == 64 else 32}"
    return f"{name}x4" if is_packed(dtype) else name


def sign(dtype: DType) -> str:
    """Return the suffix of instructions that differ for signed and unsigned integers."""
    return "_u" if dtype.is_unsigned or dtype.is_bool else "_s"


def word(op: Ops, dtype: DType) -> str:
    """Return the instruction of an operation on `dtype`."""
    prefix = "v128" if is_packed(dtype) and op in {Ops.AND, Ops.OR, Ops.XOR} else shape(dtype)
    if op in WORDS:
        return f"{prefix}.{WORDS[op]}"
    return f"{prefix}.{SIGNED_WORDS[op]}{'' if dtype.is_float else sign(dtype)}"


def constant(value: float | int, dtype: DType) -> str:
    """Return a constant as a scalar."""
    if not dtype.is_float:
        return code(f"{shape(dtype)}.const", str(int(value)))
    is_finite = abs(value) < float("inf")
    return code(f"{shape(dtype)}.const", float(value).hex() if is_finite else str(float(value)))


def splat(value: float | int, dtype: DType) -> list[str]:
    """Return a constant of `dtype`, the same in each lane."""
    return from_lanes(dtype, [constant(value, dtype.scalar)] * dtype.lanes)


def from_lanes(dtype: DType, lanes: Sequence[str]) -> list[str]:
    """Return the value whose lanes are these scalars."""
    if not is_packed(dtype):
        return list(lanes)
    if dtype.is_bool:
        lanes = [code("i32.sub", "(i32.const 0)", lane) for lane in lanes]
    vector = code(f"{shape(dtype)}.splat", lanes[0])
    for number, lane in enumerate(lanes):
        if lane != lanes[0]:
            vector = code(f"{shape(dtype)}.replace_lane {number}", vector, lane)
    return [vector]


def to_lanes(dtype: DType, value: Sequence[str]) -> list[str]:
    """Return each lane of a value as a scalar."""
    if not is_packed(dtype):
        return list(value)
    lanes = [code(f"{shape(dtype)}.extract_lane {number}", value[0]) for number in range(4)]
    return [code("i32.and", "(i32.const 1)", lane) for lane in lanes] if dtype.is_bool else lanes


def wrap(dtype: DType, value: str) -> str:
    """Return an integer of 8 or 16 bits as its low bits, extended to 32; others as they are."""
    if not dtype.is_int or dtype.bits >= 32:
        return value
    if dtype.is_unsigned:
        return code(word(Ops.AND, dtype), value, *splat(dtype.scalar.maximum, dtype))
    if not is_packed(dtype):
        return code(f"i32.extend{dtype.bits}_s", value)
    count = constant(32 - dtype.bits, dtypes.int32)
    return code("i32x4.shr_s", code("i32x4.shl", value, count), count)


def scalar(op: Ops, dtype: DType, types: Sequence[DType], values: Sequence[str]) -> str:
    """Return an operation on scalars, not yet wrapped."""
    match op:
        case Ops.CAST | Ops.BITCAST if dtype.is_bool:
            return code(word(Ops.CMPNE, types[0]), values[0], constant(0, types[0]))
        case Ops.CAST:
            return cast_scalar(values[0], types[0], dtype)
        case Ops.BITCAST if shape(dtype) == shape(types[0]):
            return values[0]
        case Ops.BITCAST:
            return code(f"{shape(dtype)}.reinterpret_{shape(types[0])}", values[0])
        case Ops.WHERE:
            return code("select", values[1], values[2], values[0])
        case Ops.MAX:
            return code("select", values[1], values[0], code(word(Ops.CMPLT, dtype), *values))
        case Ops.NEG if not dtype.is_float:
            return code(word(Ops.SUB, dtype), constant(0, dtype), values[0])
        case Ops.RECIP:
            return code(word(Ops.FDIV, dtype), constant(1, dtype), values[0])
        case Ops.SHL | Ops.SHR if shape(dtype) != shape(types[1]):
            # Counts are small, so sign extension makes no difference.
            return code(word(op, dtype), values[0], cast_scalar(values[1], types[1], dtype))
        case _:
            return code(word(op, types[0]), *values)


def cast_scalar(value: str, source: DType, target: DType) -> str:
    """Return a scalar as another type: a float as the nearest one, or truncated."""
    old, new = shape(source), shape(target)
    if old == new:
        return value
    if source.is_float and target.is_float:
        return code("f64.promote_f32" if new == "f64" else "f32.demote_f64", value)
    if target.is_float:
        return code(f"{new}.convert_{old}{sign(source)}", value)
    if source.is_float:
        return code(f"{new}.trunc_sat_{old}{sign(target)}", value)
    return code("i32.wrap_i64" if new == "i32" else f"i64.extend_i32{sign(source)}", value)


def vector(op: Ops, dtype: DType, types: Sequence[DType], values: Sequence[str]) -> str:
    """Return an operation on values of one v128, not yet wrapped."""
    match op:
        case Ops.CAST | Ops.BITCAST if dtype.is_bool:
            return code(word(Ops.CMPNE, types[0]), values[0], *splat(0, types[0]))
        case Ops.CAST | Ops.BITCAST if types[0].is_bool:
            number = code("v128.and", values[0], *splat(1, dtypes.int32.vec(4)))
            return vector(op, dtype, [dtypes.int32.vec(4)], [number])
        case Ops.CAST if dtype.is_float != types[0].is_float:
            if dtype.is_float:
                return code(f"f32x4.convert_i32x4{sign(types[0])}", values[0])
            suffix = "_u" if dtype.scalar is dtypes.uint32 else "_s"
            return code(f"i32x4.trunc_sat_f32x4{suffix}", values[0])
        case Ops.CAST | Ops.BITCAST:
            return values[0]
        case Ops.WHERE:
            return code("v128.bitselect", values[1], values[2], values[0])
        case Ops.MAX:
            return code("f32x4.pmax" if dtype.is_float else f"i32x4.max{sign(dtype)}", *values)
        case Ops.RECIP:
            return code("f32x4.div", *splat(1, dtype), values[0])
        case _:
            return code(word(op, types[0]), *values)


def compute(
    op: Ops, dtype: DType, types: Sequence[DType], values: Sequence[list[str]]
) -> list[str]:
    """Return the value of an operation on values of these types."""
    if all(map(is_packed, (dtype, *types))) and op not in LANE_BY_LANE:
        return [wrap(dtype, vector(op, dtype, types, [value[0] for value in values]))]
    lanes = zip(*map(to_lanes, types, values), strict=True)
    scalars = [kind.scalar for kind in types]
    results = [scalar(op, dtype.scalar, scalars, lane) for lane in lanes]
    return from_lanes(dtype, [wrap(dtype.scalar, result) for result in results])


def load(dtype: DType, address: str) -> list[str]:
    """Return the value in memory at an address."""
    size = dtype.scalar.itemsize
    if not is_packed(dtype):
        narrow = f"{8 * size}{sign(dtype)}" if size < 4 else ""
        name = f"{shape(dtype)}.load{narrow}"
        value = [code(f"{name} offset={size * lane}", address) for lane in range(dtype.lanes)]
    elif size == 1:
        value = [code(f"i16x8.extend_low_i8x16{sign(dtype)}", code("v128.load32_zero", address))]
        value = [code(f"i32x4.extend_low_i16x8{sign(dtype)}", value[0])]
    else:
        value = [code("v128.load" if size == 4 else f"v128.load16x4{sign(dtype)}", address)]
    if not dtype.is_bool:
        return value
    # Any byte except 0 is true.
    return compute(Ops.CAST, dtype, [dtypes.uint32.vec(dtype.lanes)], [value])


def store(dtype: DType, address: str, value: list[str]) -> list[str]:
    """Return the instructions that write a value to an address."""
    size = dtype.scalar.itemsize
    if not is_packed(dtype):
        name = f"{shape(dtype)}.store{8 * size if size < 4 else ''}"
        return [code(f"{name} offset={size * lane}", address, x) for lane, x in enumerate(value)]
    if size == 4:
        return [code("v128.store", address, value[0])]
    if dtype.is_bool:
        value = compute(Ops.CAST, dtypes.uint8.vec(4), [dtype], [value])
    text = code(f"i16x8.narrow_i32x4{sign(dtype)}", value[0], value[0])
    if size == 1:
        text = code(f"i8x16.narrow_i16x8{sign(dtype)}", text, text)
    return [code(f"v128.store{32 * size}_lane 0", address, text)]


class WasmRenderer:
    """Renderer of programs as modules. The function takes addresses, then variables."""

    def render(self, program: Program) -> str:
        """Return the text of a module."""
        return Function(program).text()


class Function:
    """The text of one kernel while it is written."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._values: dict[UOp, list[str]] = {}
        self._names: dict[UOp, list[str]] = {}
        self._locals: list[str] = []
        self._lines: list[str] = []
        self._scratch = 0

    def text(self) -> str:
        """Return the module."""
        for node in self._program.uops:
            self._add(node)
        names = [f"$buffer{position}" for position in range(len(self._program.parameters))]
        names += [f"$variable{position}" for position in range(len(self._program.variables))]
        parameters = " ".join(f"(param {name} i32)" for name in names)
        head = f'(func (export "{self._program.name}") {parameters}'
        head = f'(module (import "host" "memory" (memory 1)) {head}'
        return "\n".join([head, *self._locals, *self._lines, "))"])

    def _add(self, node: UOp) -> None:
        """Write a node: declarations here, the others by their kind."""
        values = [self._values[source] for source in node.src]
        match node.op:
            case Ops.CONST:
                self._values[node] = splat(payload_of(node, ConstArg).value, node.dtype)
            case Ops.DEFINE_GLOBAL:
                position = parameter_position(self._program, node)
                self._values[node] = [code("local.get", f"$buffer{position}")]
            case Ops.DEFINE_VAR:
                text = code("local.get", f"$variable{variable_position(self._program, node)}")
                self._values[node] = [cast_scalar(text, dtypes.int32, node.dtype)]
            case Ops.DEFINE_LOCAL:
                self._values[node] = [constant(self._scratch, dtypes.int32)]
                self._scratch += -(-node.dtype.size * element_of(node).itemsize // 16) * 16
            case Ops.DEFINE_ACC:
                self._define(node, node.dtype, values[0])
            case Ops.UPDATE_ACC:
                self._values[node], self._names[node] = values[0], self._names[node.src[0]]
                self._assign(node, values[1])
            case Ops.INDEX | Ops.LOAD | Ops.STORE:
                self._access(node, values)
            case Ops.RANGE | Ops.END | Ops.IF | Ops.ENDIF:
                self._block(node, values)
            case Ops.VECTORIZE:
                self._define(node, node.dtype, from_lanes(node.dtype, [x[0] for x in values]))
            case Ops.GEP:
                lanes = to_lanes(node.src[0].dtype, values[0])
                taken = [lanes[number] for number in payload_of(node, GepArg).lanes]
                self._define(node, node.dtype, from_lanes(node.dtype, taken))
            case _:
                types = [source.dtype for source in node.src]
                self._define(node, node.dtype, compute(node.op, node.dtype, types, values))

    def _access(self, node: UOp, values: list[list[str]]) -> None:
        """Write an address, a load or a store; a gate is the last source."""
        address = values[0][0]
        if node.op is Ops.INDEX:
            element = cast_scalar(values[1][0], node.src[1].dtype, dtypes.int32)
            size = constant(element_of(node).itemsize, dtypes.int32)
            self._define(
                node, dtypes.int32, [code("i32.add", address, code("i32.mul", element, size))]
            )
            return
        gate = values[2][0] if len(values) == 3 else "(i32.const 1)"
        if node.op is Ops.STORE:
            self._lines += [
                f"(if {gate} (then",
                *store(node.src[1].dtype, address, values[1]),
                "))",
            ]
            return
        self._declare(node, node.dtype)
        self._lines.append(f"(if {gate} (then")
        self._assign(node, load(node.dtype, address))
        if len(values) == 3:
            self._lines.append(") (else")
            self._assign(node, values[1])
        self._lines.append("))")

    def _block(self, node: UOp, values: list[list[str]]) -> None:
        """Write the beginning or the end of a loop or a branch."""
        if node.op is Ops.IF:
            self._lines.append(f"(if {values[0][0]} (then")
            self._values[node] = []
        elif node.op is Ops.ENDIF:
            self._lines.append("))")
        elif node.op is Ops.RANGE:
            self._define(node, node.dtype, [constant(0, node.dtype)])
            (name,), (counter,) = self._names[node], self._values[node]
            is_over = code(f"{shape(node.dtype)}.ge_s", counter, values[0][0])
            self._lines.append(f"(block {name}end (loop {name}next (br_if {name}end {is_over})")
        else:
            (name,), kind = self._names[node.src[0]], node.src[0].dtype
            following = code(f"{shape(kind)}.add", values[0][0], constant(1, kind))
            self._lines.append(f"(local.set {name} {following}) (br {name}next)))")

    def _declare(self, node: UOp, dtype: DType) -> None:
        """Declare the locals of a node's value."""
        kind, count = ("v128", 1) if is_packed(dtype) else (shape(dtype), dtype.lanes)
        names = [f"$v{len(self._locals) + number}" for number in range(count)]
        self._locals += [f"(local {name} {kind})" for name in names]
        self._names[node] = names
        self._values[node] = [code("local.get", name) for name in names]

    def _assign(self, node: UOp, value: Sequence[str]) -> None:
        for name, text in zip(self._names[node], value, strict=True):
            self._lines.append(code("local.set", name, text))

    def _define(self, node: UOp, dtype: DType, value: Sequence[str]) -> None:
        self._declare(node, dtype)
        self._assign(node, value)


@functools.cache
def engine(level: str) -> Any:
    """Return the engine with this level of optimisation, one for a process."""
    import wasmtime

    config = wasmtime.Config()
    config.cranelift_opt_level = level
    return wasmtime.Engine(config)


class WasmCompiler:
    """Compiler from text to the machine code of this host."""

    def __init__(self, level: str) -> None:
        self._level = level
        version = importlib.metadata.version("wasmtime")
        self.key = f"wasmtime {version} {level} {platform.machine()}"

    def compile(self, source: str) -> bytes:
        """Return a serialised module. Raise `DeviceError` with the message of wasmtime."""
        import wasmtime

        try:
            return bytes(wasmtime.Module(engine(self._level), source).serialize())
        except wasmtime.WasmtimeError as error:
            raise DeviceError("WASM", str(error), source) from None


class LinearMemory:
    """The memory of a device: a handle is an address in it."""

    def __init__(self, level: str) -> None:
        import wasmtime

        self.store = wasmtime.Store(engine(level))
        self.store.set_limits(instances=2**31 - 1)
        limits = wasmtime.Limits(1, 2**32 // PAGE)
        self.memory = wasmtime.Memory(self.store, wasmtime.MemoryType(limits))
        self._gaps = [(PAGE, 2**32 - PAGE)]
        self._ends: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        """Return the start of the first gap that is large enough."""
        import wasmtime

        nbytes = -(-nbytes // 16) * 16
        for number, (start, end) in enumerate(self._gaps):
            if end - start < nbytes:
                continue
            missing = start + nbytes - self.memory.data_len(self.store)
            try:
                self.memory.grow(self.store, max(0, -(-missing // PAGE)))
            except wasmtime.WasmtimeError as error:
                raise DeviceError("WASM", str(error)) from None
            self._gaps[number] = (start + nbytes, end)
            self._ends[start] = start + nbytes
            return start
        raise DeviceError("WASM", f"the linear memory has no gap of {nbytes} bytes")

    def free(self, handle: int) -> None:
        gaps = sorted([*self._gaps, (handle, self._ends.pop(handle))])
        self._gaps = gaps[:1]
        for start, end in gaps[1:]:
            if start == self._gaps[-1][1]:
                start = self._gaps.pop()[0]
            self._gaps.append((start, end))

    def view(self, handle: int, offset: int, nbytes: int) -> int:
        return handle + offset

    def copy_in(self, handle: int, source: memoryview) -> None:
        ctypes.memmove(self._pointer(handle), source.tobytes(), source.nbytes)

    def copy_out(self, destination: memoryview, handle: int) -> None:
        destination.cast("B")[:] = ctypes.string_at(self._pointer(handle), destination.nbytes)

    def _pointer(self, handle: int) -> int:
        return ctypes.addressof(self.memory.data_ptr(self.store).contents) + handle


class WasmKernel:
    """An exported function of an instance of its module."""

    def __init__(self, memory: LinearMemory, level: str, entry: str, binary: bytes) -> None:
        import wasmtime

        self._store = memory.store
        try:
            module = wasmtime.Module.deserialize(engine(level), binary)
            instance = wasmtime.Instance(self._store, module, [memory.memory])
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise DeviceError("WASM", str(error)) from None
        self._function = instance.exports(self._store)[entry]

    def __call__(
        self,
        buffers: Sequence[int],
        grid: tuple[int, int, int] = (1, 1, 1),
        group: tuple[int, int, int] = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        import wasmtime

        start = time.perf_counter()
        try:
            self._function(self._store, *buffers, *variables)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            raise DeviceError("WASM", str(error)) from None
        return time.perf_counter() - start if wait else None


class Wasm(Backend):
    """The device: WebAssembly on this host."""

    contract = 1
    title = "WebAssembly through wasmtime"
    level = "speed"
    capabilities = CAPABILITIES
    renderer = WasmRenderer()
    compiler = property(lambda self: self._compiler)
    allocator = property(lambda self: self._allocator)

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._compiler = WasmCompiler(self.level)
        self._memory = LinearMemory(self.level)
        self._allocator = ReusingAllocator(
            self._memory, "WASM", max_kept_bytes=2**26, synchronize=self.synchronize
        )

    @classmethod
    def availability(cls) -> Availability:
        try:
            import wasmtime  # noqa: F401 - whether it loads
        except ImportError as error:
            return Availability(False, f"wasmtime does not import: pip install wasmtime ({error})")
        return Availability(True, f"wasmtime {importlib.metadata.version('wasmtime')}")

    def versions(self) -> dict[str, str]:
        return {"wasmtime": importlib.metadata.version("wasmtime"), "level": self.level}

    def load(self, entry: str, binary: bytes) -> WasmKernel:
        return WasmKernel(self._memory, self.level, entry, binary)

    def synchronize(self) -> None:
        """Do nothing, because a launch returns when it is complete."""


class WasmUnoptimised(Wasm):
    """The device without compiler optimisations."""

    title = "WebAssembly through wasmtime, not optimised"
    level = "none"


if __name__ == "__main__":
    from tinyref import Tensor

    x = Tensor([1, 2, 3, 4], device="wasm_backend:Wasm")
    print((x * x).sum().item())
