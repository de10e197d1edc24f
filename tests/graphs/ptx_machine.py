"""PTX run by numpy, by the words of the ISA: what no GPU is needed to find wrong in a renderer.

A launch is an array for each register, with a place for each work-item of the grid. All that are at
the first line of those where any is go on together, which is the order of a GPU's warps as well.
Accesses out of bounds, misaligned ones and barriers that a part of a group reaches are errors.
It has what `PtxRenderer` prints, and shares nothing with that.
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
    """Integers truncate; by 0 all bits are set, as good a value as any."""
    if a.dtype.kind not in "iu":
        return a / b
    divisor = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, ~np.zeros_like(a), (a - np.fmod(a, divisor)) // divisor)


def _shifted_left(a: Array, count: Array) -> Array:
    width = 8 * a.itemsize
    return np.where(count >= width, 0, a << np.minimum(count, width - 1).astype(a.dtype))


def _shifted_right(a: Array, count: Array) -> Array:
    """A count beyond the width is the width: zeros, or the sign."""
    width = 8 * a.itemsize
    beyond = a >> a.dtype.type(width - 1) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(count >= width, beyond, a >> np.minimum(count, width - 1).astype(a.dtype))


def _differ(a: Array, b: Array) -> Array:
    """Ordered: false where one is a NaN."""
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
    """`cvt`: `words` are those after it, rounding first, the type of the source last."""
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
        found = np.where(inside, whole, 0).astype(target)
        found[whole >= float(limits.max) + (target.itemsize < 8)] = limits.max
        found[whole < limits.min] = limits.min
        return found
    if words[-2] in FLOATS:
        assert words[0] == "rn"
        rounded = [round_float(int(each), from_numpy_dtype(target)) for each in values]
        return np.array(rounded, np.float64).astype(target)
    return values.astype(target)


def multiply_tiles(words: list[str], given: list[Array]) -> Array:
    """`mma` of the registers of all warps: (registers, warps, 32) of A, B and C, and of D.

    ISA, "Matrix Fragments for mma": a lane is 4 * group + place. A register of A or B holds `width`
    neighbours along k; four lanes hold four of these. Products and sums round one by one, on top
    of C, as `MatrixTile` has it; the ISA leaves the order open.
    """
    m, n, k = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", words[3]).groups())
    group, place = np.divmod(np.arange(32), 4)
    wide = TYPES[words[-1]]
    width = max(1, 4 // TYPES[words[-2]].itemsize)
    warps = given[0].shape[1]
    a, b, c = (np.zeros((warps, *shape), wide) for shape in ((m, k), (k, n), (m, n)))
    for number, registers in enumerate(given[0]):
        row, column = (number & 1, number >> 1) if m == 16 else (0, number)
        for inner, values in enumerate(_parts(registers, words[-2])):
            a[:, group + 8 * row, place * width + 4 * width * column + inner] = values
    for number, registers in enumerate(given[1]):
        for inner, values in enumerate(_parts(registers, words[-2])):
            b[:, place * width + 4 * width * number + inner, group] = values
    pair = 2 if words[-1] == "f16" else 1
    places = [
        (group + 8 * (each >> 1), 2 * place + (each & 1)) for each in range(len(given[2]) * pair)
    ]
    for number, registers in enumerate(given[2]):
        for inner, values in enumerate(_parts(registers, words[-1])):
            c[(slice(None), *places[number * pair + inner])] = values
    for step in range(k):
        c = c + a[:, :, step, None] * b[:, None, step]
    lanes = np.stack([c[(slice(None), *each)] for each in places], -1)
    return np.moveaxis(lanes.view(f"u{max(4, lanes.itemsize)}"), -1, 0)


def _parts(registers: Array, word: str) -> Array:
    """The elements that registers hold, the one in the lowest bits first."""
    if word == "tf32":
        assert not (registers & 0x1FFF).any(), "tf32 has 10 bits after the point"
    return np.moveaxis(registers[..., None].view(TYPES[word]), -1, 0)


def _towards_zero(values: Array) -> Array:
    """Numbers as float32, those that it does not hold as the next one nearer to zero."""
    with np.errstate(all="ignore"):
        found = values.astype(np.float32)
        # Python compares integers with floats exactly, numpy rounds those of 64 bits. Beyond them
        # there is the one float32 that is 2 ** 64 or 2 ** 63.
        pairs = zip(found.tolist(), values.tolist(), strict=True)
        is_too_far = [abs(rounded) > abs(value) for rounded, value in pairs]
        return np.where(is_too_far, np.nextafter(found, np.float32(0)), found)


class Machine:
    """A kernel, parsed. Memory of buffers is arrays of bytes."""

    def __init__(self, text: str) -> None:
        head, _, body = text.partition("{\n")
        self.parameters = re.findall(r"\.param \.\w+ (\w+)", head)
        self.shared, self.shared_bytes = dict[str, int](), 0
        self.labels = dict[str, int]()
        self.lines: list[tuple[str, str, list[str]]] = []
        for line in map(str.strip, body.rpartition("}")[0].splitlines()):
            if found := re.match(r"\.shared \.align 16 \.b8 (\w+)\[(\d+)\]", line):
                self.shared[found[1]] = self.shared_bytes
                self.shared_bytes += -(-int(found[2]) // 16) * 16
            elif line.endswith(":"):
                self.labels[line[:-1]] = len(self.lines)
            elif not line.startswith("."):
                found = re.fullmatch(r"(?:@(!?%p\d+) )?([\w.]+) ?(.*);", line)
                operands = re.findall(r"\{[^}]*\}|[^ ,][^,]*", found[3])
                self.lines.append((found[1] or "", found[2], operands))

    def run(
        self,
        buffers: Sequence[Array],
        grid: Sequence[int],
        group: Sequence[int],
        variables: Sequence[int],
    ) -> None:
        counts = (*reversed(grid), *reversed(group))
        places = np.indices(counts).reshape(6, -1).astype(np.uint32)
        names = [f"%{word}.{axis}" for word in ("ctaid", "tid") for axis in "zyx"]
        self.special = dict(zip(names, places, strict=True))
        self.threads = places.shape[1]
        self.group_of = np.arange(self.threads) // int(np.prod(group))
        self.memory = np.full((self.group_of[-1] + 1, self.shared_bytes), 0xA5, np.uint8)
        self.buffers = buffers
        # An address has the number of its buffer, and lies as the memory of the host does.
        self.starts = [(n + 1 << _FAR) + each.ctypes.data % 16 for n, each in enumerate(buffers)]
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
        """What the work-items that are on have in a register, or a number, as a type."""
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
        """Integers of fewer bits are extended, by their sign if they have one."""
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
            chosen = [int(operands[3], 0) >> 4 * place & 15 for place in range(4)]
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
            given = [self.read(operand, kind) for operand in operands[1:]]
            if name in ("shl", "shr"):
                given[1] = self.read(operands[2], "u32")
            found = COMPUTE[words[1] if name == "setp" else name](*given)
            self.write(operands[0], found if name == "setp" else found.astype(given[0].dtype))

    def multiply(self, words: list[str], operands: list[str]) -> None:
        """A tile of each warp, whose work-items are all there."""
        assert np.bincount(self.group_of, self.on).max() % 32 == 0, "a part of a warp is at a tile"
        assert self.on.all()
        names = [text.strip("{}").split(", ") for text in operands]
        given = [np.stack([self.registers[each] for each in group]) for group in names[1:]]
        warps = [each.reshape(len(each), -1, 32) for each in given]
        found = multiply_tiles(words, warps)
        for register, values in zip(names[0], found, strict=True):
            self.write(register, values.reshape(-1))

    def move_halves(self, target: str, source: str) -> None:
        """Two halves to a register of 32 bits, or back; the first one is the low one."""
        if source.startswith("{"):
            low, high = (self.read(each, "b16") for each in source.strip("{}").split(", "))
            self.write(target, low | high.astype(np.uint32) << np.uint32(16))
            return
        whole = self.read(source, "b32")
        for place, each in enumerate(target.strip("{}").split(", ")):
            self.write(each, (whole >> np.uint32(16 * place)).astype(np.uint16))

    def access(self, name: str, space: str, kind: str, operands: list[str]) -> None:
        """A load or a store of neighbours; registers first, then the address."""
        registers = operands[0].strip("{}").split(", ")
        base, _, offset = operands[1].strip("[]").partition("+")
        size = TYPES[kind].itemsize
        addresses = self.read(base, "b64" if space == "global" else "b32").astype(np.int64)
        addresses += int(offset or 0)
        assert not (addresses % (size * len(registers))).any(), "an access is misaligned"
        for number, register in enumerate(registers):
            places = addresses + number * size
            if name == "ld":
                found = self.each_byte(space, places, size, None)
                self.write(register, found.reshape(-1).view(TYPES[kind]))
            else:
                values = self.read(register, kind).view(np.uint8).reshape(-1, size)
                self.each_byte(space, places, size, values)

    def each_byte(self, space: str, places: Array, size: int, values: Array | None) -> Array:
        found = np.zeros((len(places), size), np.uint8)
        groups = self.group_of[self.on]
        for number in np.unique(places >> _FAR):
            here = places >> _FAR == number
            cells: tuple[Array, ...]
            if space == "global":
                memory, start = self.buffers[number - 1], self.starts[number - 1]
                cells = ((places[here] - start)[:, None] + np.arange(size),)
            else:
                memory = self.memory
                cells = (groups[here][:, None], places[here][:, None] + np.arange(size))
            assert cells[-1].min() >= 0, "an access is out of bounds"
            if values is None:
                found[here] = memory[cells]
            else:
                memory[cells] = values[here]
        return found


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
    """Gives the text as it is."""

    key = "ptx machine"

    def compile(self, source: str) -> bytes:
        return source.encode()


class PtxMachine(Backend):
    """A device that runs what the renderer prints for one architecture."""

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
    """One that has conversions of bfloat16 and nothing else of it."""

    architecture = 80


class PtxMachine75(PtxMachine):
    """One to which bfloat16 is 16 bits."""

    architecture = 75
