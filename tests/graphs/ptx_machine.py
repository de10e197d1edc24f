"""PTX interpreter in numpy, written from the ISA: it finds renderer faults without a GPU.

Each register is an array with an element for each work-item of the grid. The work-items at the
earliest line step together, as the threads of a GPU's warp do. Accesses out of bounds, misaligned
accesses and barriers that only a part of a group reaches are errors. The machine has the
instructions that `PtxRenderer` prints, and shares no code with it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.contract import Availability, Backend
from tinyref.dtype import from_numpy_dtype, narrow_float64, round_float
from tinyref.renderers.ptx import PtxRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of

Array = Any
TYPES = {
    "pred": np.dtype(bool),
    **{f"{letter}{bits}": np.dtype(f"{name}{bits}") for bits in (8, 16, 32, 64)
       for letter, name in (("s", "int"), ("u", "uint"), ("b", "uint"))},
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype("float32"),
}  # fmt: skip
FLOATS = ("f16", "bf16", "f32", "f64")
_FAR = 40


def _quotient(a: Array, b: Array) -> Array:
    """Truncate quotients of integers; set all bits if the divisor is 0, as any value is allowed."""
    if a.dtype.kind not in "iu":
        return a / b
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, ~np.zeros_like(a), (a - np.fmod(a, divisor)) // divisor)


def _shifted_left(a: Array, count: Array) -> Array:
    width = 8 * a.itemsize
    return np.where(count >= width, 0, a << np.minimum(count, width - 1).astype(a.dtype))


def _shifted_right(a: Array, count: Array) -> Array:
    """Clamp the count to the width, so that only zeros, or only the sign, remain."""
    width = 8 * a.itemsize
    beyond = a >> a.dtype.type(width - 1) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(count >= width, beyond, a >> np.minimum(count, width - 1).astype(a.dtype))


def _differ(a: Array, b: Array) -> Array:
    """Return True if the operands are ordered and differ; false if one is a NaN."""
    return (a != b) & (a == a) & (b == b)


COMPUTE: dict[str, Callable[..., Array]] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _quotient, "max": np.fmax},
    "rem": lambda a, b: np.fmod(a, np.where(b == 0, 1, b).astype(b.dtype)),
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.logical_not},
    **{"neg": np.negative, "sqrt": np.sqrt, "rcp": lambda a: a.dtype.type(1) / a},
    **{"shl": _shifted_left, "shr": _shifted_right},
    **{"lt": np.less, "ge": np.greater_equal, "ne": _differ, "neu": np.not_equal},
}


def convert(values: Array, words: list[str]) -> Array:
    """Run `cvt`: `words` follow it, the rounding first, the type of the source last."""
    if words[:2] == ["rna", "tf32"]:
        bits = values.view(np.uint32)
        return np.where(
            np.isfinite(values), bits + np.uint32(1 << 12) & np.uint32(0xFFFFE000), bits
        )
    target, source = TYPES[words[-2]], words[-1]
    if words[0] == "rz":
        return _towards_zero(values)
    if source in FLOATS and words[-2] in FLOATS:
        assert ("rn" in words) == (target.itemsize < values.itemsize)
        if "rzi" in words:
            return np.trunc(values)
        return narrow_float64(values.astype(np.float64), from_numpy_dtype(target))
    if source in FLOATS:
        assert words[0] == "rzi"
        whole, limits = np.trunc(values.astype(np.float64)), np.iinfo(target)
        inside = (whole >= limits.min) & (whole < float(limits.max) + (target.itemsize < 8))
        result = np.where(inside, whole, 0).astype(target)
        result[whole >= float(limits.max) + (target.itemsize < 8)] = limits.max
        result[whole < limits.min] = limits.min
        return result
    if words[-2] in FLOATS:
        assert words[0] == "rn"
        rounded = [round_float(int(value), from_numpy_dtype(target)) for value in values]
        return np.array(rounded, np.float64).astype(target)
    return values.astype(target)


def multiply_tiles(words: list[str], operands: list[Array]) -> Array:
    """Run `mma` on the registers of all warps: (registers, warps, 32) of A, B and C, and of D.

    ISA, "Matrix Fragments for mma": a lane is 4 * group + quad. A register of A or B holds `width`
    neighbours along k; four lanes hold four of these. Products and sums round one by one, on top
    of C, as in `MatrixTile`; the ISA leaves the order open.
    """
    m, n, k = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", words[3]).groups())
    group, quad = np.divmod(np.arange(32), 4)
    wide = TYPES[words[-1]]
    width = max(1, 4 // TYPES[words[-2]].itemsize)
    warps = operands[0].shape[1]
    a, b, c = (np.zeros((warps, *shape), wide) for shape in ((m, k), (k, n), (m, n)))
    for number, registers in enumerate(operands[0]):
        row, column = (number & 1, number >> 1) if m == 16 else (0, number)
        for inner, values in enumerate(_parts(registers, words[-2])):
            a[:, group + 8 * row, quad * width + 4 * width * column + inner] = values
    for number, registers in enumerate(operands[1]):
        for inner, values in enumerate(_parts(registers, words[-2])):
            b[:, quad * width + 4 * width * number + inner, group] = values
    pair = 2 if words[-1] == "f16" else 1
    cells = [
        (group + 8 * (number >> 1), 2 * quad + (number & 1))
        for number in range(len(operands[2]) * pair)
    ]
    for number, registers in enumerate(operands[2]):
        for inner, values in enumerate(_parts(registers, words[-1])):
            c[(slice(None), *cells[number * pair + inner])] = values
    for step in range(k):
        c = c + a[:, :, step, None] * b[:, None, step]
    lanes = np.stack([c[(slice(None), *cell)] for cell in cells], -1)
    return np.moveaxis(lanes.view(f"u{max(4, lanes.itemsize)}"), -1, 0)


def _parts(registers: Array, word: str) -> Array:
    """Return the elements that registers hold, from the lowest bits."""
    if word == "tf32":
        assert not (registers & 0x1FFF).any(), "tf32 has 10 bits after the point"
    return np.moveaxis(registers[..., None].view(TYPES[word]), -1, 0)


def _towards_zero(values: Array) -> Array:
    """Round numbers to float32, towards zero."""
    with np.errstate(all="ignore"):
        nearest = values.astype(np.float32)
        # Python compares integers with floats exactly; numpy rounds integers of 64 bits. Beyond
        # them only one float32 occurs: 2 ** 64 or 2 ** 63.
        pairs = zip(nearest.tolist(), values.tolist(), strict=True)
        is_too_far = [abs(rounded) > abs(value) for rounded, value in pairs]
        return np.where(is_too_far, np.nextafter(nearest, np.float32(0)), nearest)


class Machine:
    """A parsed kernel and its state; memory of buffers is arrays of bytes."""

    def __init__(self, text: str) -> None:
        head, _, body = text.partition("{\n")
        self.parameters = re.findall(r"\.param \.\w+ (\w+)", head)
        self.shared, self.shared_bytes = dict[str, int](), 0
        self.labels = dict[str, int]()
        self.lines: list[tuple[str, str, list[str]]] = []
        for line in map(str.strip, body.rpartition("}")[0].splitlines()):
            if match := re.match(r"\.shared \.align 16 \.b8 (\w+)\[(\d+)\]", line):
                self.shared[match[1]] = self.shared_bytes
                self.shared_bytes += -(-int(match[2]) // 16) * 16
            elif line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif not line.startswith("."):
                match = re.fullmatch(r"(?:@(!?%p\d+) )?([\w.]+) ?(.*);", line)
                operands = re.findall(r"\{[^}]*\}|[^ ,][^,]*", match[3])
                self.lines.append((match[1] or "", match[2], operands))

    def run(
        self,
        buffers: Sequence[Array],
        grid: Sequence[int],
        group: Sequence[int],
        variables: Sequence[int],
    ) -> None:
        counts = (*reversed(grid), *reversed(group))
        positions = np.indices(counts).reshape(6, -1).astype(np.uint32)
        names = [f"%{word}.{axis}" for word in ("ctaid", "tid") for axis in "zyx"]
        self.special = dict(zip(names, positions, strict=True))
        self.threads = positions.shape[1]
        self.group_of = np.arange(self.threads) // int(np.prod(group))
        self.memory = np.full((self.group_of[-1] + 1, self.shared_bytes), 0xA5, np.uint8)
        self.buffers = buffers
        # An address holds the number of its buffer, and is aligned as the memory of the host.
        self.starts = [(n + 1 << _FAR) + x.ctypes.data % 16 for n, x in enumerate(buffers)]
        values = (*self.starts, *variables)
        self.arguments = dict(zip(self.parameters, values, strict=True))
        self.registers = dict[str, Array]()
        counters = np.zeros(self.threads, np.int64)
        while (first := counters.min()) < len(self.lines):
            self.on = counters == first
            guard, opcode, operands = self.lines[first]
            counters[self.on] += 1
            if guard:
                self.on &= self.registers[guard.lstrip("!")] != guard.startswith("!")
            if opcode == "bra":
                counters[self.on] = self.labels[operands[0]]
            elif opcode == "bar.sync":
                met = np.bincount(self.group_of, self.on)
                assert set(met) <= {0, int(np.prod(group))}, "a part of a group is at a barrier"
            elif opcode == "ret":
                counters[self.on] = len(self.lines)
            elif self.on.any():
                self.step(opcode.split("."), operands)

    def read(self, operand: str, word: str) -> Array:
        """Return a register of the active work-items, or a number, as a type."""
        kind, count = TYPES[word], int(self.on.sum())
        if operand in self.special:
            return self.special[operand][self.on].astype(kind)
        if not operand.startswith("%"):
            number = (
                self.shared.get(operand, 0) or int(operand, 0)
                if operand not in self.shared
                else self.shared[operand]
            )
            return np.full(count, number, f"u{kind.itemsize}").view(kind)
        bits = self.registers[operand][self.on]
        return bits if word == "pred" else bits.astype(f"u{kind.itemsize}").view(kind)

    def write(self, register: str, values: Array) -> None:
        """Write a register; extend narrower integers, by their sign if they have one."""
        width = {"%p": "?", "%rs": "u2", "%r": "u4", "%rd": "u8"}[register.rstrip("0123456789")]
        kind = np.dtype(width)
        if register not in self.registers:
            self.registers[register] = np.zeros(self.threads, kind)
        if width != "?":
            bits = values.astype(f"i{kind.itemsize}") if values.dtype.kind == "i" else values
            values = bits.view(f"u{bits.itemsize}").astype(kind)
        self.registers[register][self.on] = values

    def step(self, words: list[str], operands: list[str]) -> None:
        name, kind = words[0], words[-1]
        if name in ("ld", "st") and words[1] != "param":
            self.access(name, words[1], kind, operands if name == "ld" else operands[::-1])
        elif name == "ld":
            value = self.arguments[operands[1].strip("[]")]
            self.write(operands[0], np.full(int(self.on.sum()), value).astype(TYPES[kind]))
        elif name == "mov" and "{" in "".join(operands):
            self.move_halves(*operands)
        elif name in ("mov", "cvta"):
            self.write(operands[0], self.read(operands[1], kind))
        elif name == "cvt":
            self.write(operands[0], convert(self.read(operands[1], kind), words[1:]))
        elif name == "mma":
            self.multiply(words, operands)
        elif name == "prmt":
            low, high = (
                self.read(operand, "b32")[:, None].view(np.uint8) for operand in operands[1:3]
            )
            chosen = [int(operands[3], 0) >> 4 * nibble & 15 for nibble in range(4)]
            both = np.concatenate([low, high], 1)[:, chosen]
            self.write(operands[0], np.ascontiguousarray(both).view(np.uint32)[:, 0])
        elif name == "selp":
            condition = self.read(operands[3], "pred")
            chosen, other = (self.read(operand, kind) for operand in operands[1:3])
            self.write(operands[0], np.where(condition, chosen, other))
        elif name == "mad":
            factors = [self.read(operand, kind) for operand in operands[1:3]]
            wide = "s64" if words[1] == "wide" else kind
            product = factors[0].astype(TYPES[wide]) * factors[1].astype(TYPES[wide])
            self.write(operands[0], product + self.read(operands[3], wide))
        else:
            assert name != "mul" or kind in FLOATS or words[1] == "lo"
            inputs = [self.read(operand, kind) for operand in operands[1:]]
            if name in ("shl", "shr"):
                inputs[1] = self.read(operands[2], "u32")
            result = COMPUTE[words[1] if name == "setp" else name](*inputs)
            self.write(operands[0], result if name == "setp" else result.astype(inputs[0].dtype))

    def multiply(self, words: list[str], operands: list[str]) -> None:
        """Multiply a tile in each warp; all work-items of a warp must be active."""
        assert np.bincount(self.group_of, self.on).max() % 32 == 0, "a part of a warp is at a tile"
        assert self.on.all()
        names = [text.strip("{}").split(", ") for text in operands]
        arrays = [np.stack([self.registers[name] for name in group]) for group in names[1:]]
        warps = [array.reshape(len(array), -1, 32) for array in arrays]
        results = multiply_tiles(words, warps)
        for register, values in zip(names[0], results, strict=True):
            self.write(register, values.reshape(-1))

    def move_halves(self, target: str, source: str) -> None:
        """Pack two halves into a register of 32 bits, or unpack them; the first is the low one."""
        if source.startswith("{"):
            low, high = (self.read(half, "b16") for half in source.strip("{}").split(", "))
            self.write(target, low | high.astype(np.uint32) << np.uint32(16))
            return
        whole = self.read(source, "b32")
        for number, half in enumerate(target.strip("{}").split(", ")):
            self.write(half, (whole >> np.uint32(16 * number)).astype(np.uint16))

    def access(self, name: str, space: str, kind: str, operands: list[str]) -> None:
        """Load or store neighbours; registers come first, then the address."""
        registers = operands[0].strip("{}").split(", ")
        base, _, offset = operands[1].strip("[]").partition("+")
        size = TYPES[kind].itemsize
        addresses = self.read(base, "b64" if space == "global" else "b32").astype(np.int64)
        addresses += int(offset or 0)
        assert not (addresses % (size * len(registers))).any(), "an access is misaligned"
        for number, register in enumerate(registers):
            locations = addresses + number * size
            if name == "ld":
                loaded = self.each_byte(space, locations, size, None)
                self.write(register, loaded.reshape(-1).view(TYPES[kind]))
            else:
                values = self.read(register, kind).view(np.uint8).reshape(-1, size)
                self.each_byte(space, locations, size, values)

    def each_byte(self, space: str, locations: Array, size: int, values: Array | None) -> Array:
        result = np.zeros((len(locations), size), np.uint8)
        groups = self.group_of[self.on]
        for number in np.unique(locations >> _FAR):
            here = locations >> _FAR == number
            cells: tuple[Array, ...]
            if space == "global":
                memory, start = self.buffers[number - 1], self.starts[number - 1]
                cells = ((locations[here] - start)[:, None] + np.arange(size),)
            else:
                memory = self.memory
                cells = (groups[here][:, None], locations[here][:, None] + np.arange(size))
            assert cells[-1].min() >= 0, "an access is out of bounds"
            if values is None:
                result[here] = memory[cells]
            else:
                memory[cells] = values[here]
        return result


class _Memory:
    def allocate(self, nbytes: int) -> Array:
        whole = np.zeros(nbytes + 16, np.uint8)
        return whole[-whole.ctypes.data % 16 :][:nbytes]

    def free(self, handle: Array) -> None:
        pass

    def view(self, handle: Array, offset: int, nbytes: int) -> Array:
        return handle[offset : offset + nbytes]

    def copy_in(self, handle: Array, source: memoryview) -> None:
        handle[: source.nbytes] = np.frombuffer(source, np.uint8)

    def copy_out(self, destination: memoryview, handle: Array) -> None:
        np.frombuffer(destination, np.uint8)[:] = handle[: destination.nbytes]


class _Compiler:
    """Compiler that returns the text unchanged."""

    key = "ptx machine"

    def compile(self, source: str) -> bytes:
        return source.encode()


class PtxMachine(Backend):
    """Device that runs what the renderer prints for one architecture."""

    architecture = 90
    survives_fork = True

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    @functools.cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return replace(capabilities_of(divmod(self.architecture, 10)), is_interpreted=True)

    renderer = property(lambda self: PtxRenderer(self.architecture))  # type: ignore[assignment]
    compiler = property(lambda self: _Compiler())  # type: ignore[assignment]
    allocator = property(lambda self: _Memory())  # type: ignore[assignment]

    def load(self, entry: str, binary: bytes) -> Callable[..., float]:  # type: ignore[override]
        machine = Machine(binary.decode())

        def launch(buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False) -> float:  # type: ignore[no-untyped-def]
            with np.errstate(all="ignore"):
                machine.run(buffers, grid, group, variables)
            return 1e-6

        return launch


class PtxMachine80(PtxMachine):
    """Device with conversions of bfloat16 and no other operation on it."""

    architecture = 80


class PtxMachine75(PtxMachine):
    """Device that treats bfloat16 as 16 bits."""

    architecture = 75
