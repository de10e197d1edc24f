"""The instructions of PTX: registers and constants, arithmetic, conversions, packing and tiles.

References are to sections of NVIDIA's "Parallel Thread Execution ISA", here called the ISA.

Registers have a width but no type (`.b16`, `.b32`, `.b64`): they fit every instruction of their
size (ISA, "Operand Type Information"), so bits change their type without an instruction. There are
no 8-bit registers: 8-bit integers are stored in 16 bits, always extended by their sign or by zeros.
A bool is a predicate, and a byte in memory.

Floats round to nearest even by `.rn`. Without it ptxas may contract a product and a sum to one
operation (ISA, "add", "mul"), so `.rn` is omitted only if the flag STRICT_FLOAT is 0. `.ftz`,
`.approx` and `.sat` are never printed: subnormals are preserved, quotients and roots follow IEEE
754. Where the ISA leaves a choice, or differs from what one expects:

* `setp.ne` of floats is false with a NaN, `setp.neu` is true ("Comparison and Selection").
* `shl` and `shr` clamp counts to the width; a count is always 32 bits, unsigned.
* `div` and `rem` of integers truncate on every device so far, although the ISA leaves the sign of
  `rem` to the machine; by 0 they give any value and never trap.
* `neg` of a NaN gives any NaN, so a sign is flipped by `xor`.
* `max` of floats ignores a NaN if the other operand is a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tinyref.dtype import ConstType, DType, Kind, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.uops.ops import Ops
from tinyref.uops.tiles import GROUPS, InputRounding, MatrixTile

# For each width: the directive that declares registers, and the prefix of their names.
REGISTERS: Mapping[int, tuple[str, str]] = {
    1: ("pred", "%p"),
    16: ("b16", "%rs"),
    32: ("b32", "%r"),
    64: ("b64", "%rd"),
}
_FLOATS: Mapping[DType, str] = {
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
}
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
PTX_DTYPES = frozenset({dtypes.bool, *dtypes.ints, *_FLOATS})

INDENT = "    "
WORD_BITS = 32
# Bytes 0, 2, 4 and 6 of two registers that hold two values of 8 bits each.
_LOW_BYTES = "0x6420"

# For bools, integers and floats; "" if the op has no instruction. `{t}` stands for the type,
# `{b}` for its bits, `{rn}` for the rounding.
INSTRUCTIONS: Mapping[Ops, tuple[str, str, str]] = {
    Ops.ADD: ("", "add.{t}", "add{rn}.{t}"),
    Ops.SUB: ("", "sub.{t}", "sub{rn}.{t}"),
    Ops.MUL: ("", "mul.lo.{t}", "mul{rn}.{t}"),
    Ops.FDIV: ("", "", "div.rn.{t}"),
    Ops.RECIP: ("", "", "rcp.rn.{t}"),
    Ops.SQRT: ("", "", "sqrt.rn.{t}"),
    Ops.TRUNC: ("", "", "cvt.rzi.{t}.{t}"),
    Ops.IDIV: ("", "div.{t}", ""),
    Ops.MOD: ("", "rem.{t}", ""),
    Ops.MAX: ("or.pred", "max.{t}", "max.{t}"),
    Ops.AND: ("and.pred", "and.{b}", ""),
    Ops.OR: ("or.pred", "or.{b}", ""),
    Ops.XOR: ("xor.pred", "xor.{b}", ""),
    Ops.SHL: ("", "shl.{b}", ""),
    Ops.SHR: ("", "shr.{t}", ""),
    Ops.CMPLT: ("", "setp.lt.{t}", "setp.lt.{t}"),
    Ops.CMPNE: ("xor.pred", "setp.ne.{t}", "setp.neu.{t}"),
}
# Ops whose result may exceed 8 bits, or be any value, in the 16 bits of the register.
_LEAVES_EIGHT_BITS = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.IDIV, Ops.MOD, Ops.SHL})
# Ops of float16 and bfloat16 that use float32. The second rounding changes nothing: float32 has
# over twice their significant bits plus two (Figueroa, "When is double rounding innocuous?", 1995).
_WIDENED = frozenset({Ops.FDIV, Ops.RECIP, Ops.SQRT, Ops.TRUNC})
# `max` supports float16 from here on; `add`, `mul`, `setp` and similar support bfloat16.
_MAX_OF_FLOAT16 = 80
_ARITHMETIC_OF_BFLOAT16 = 90

# The first architecture that has a tile.
_SINCE = {
    **dict.fromkeys(GROUPS["NVIDIA_SM80"], 80),
    **dict.fromkeys(GROUPS["NVIDIA_SM75"], 75),
}


def width(dtype: DType) -> int:
    """Return the bits of the register for a scalar. Raises `UserError` for a type without one."""
    if dtype not in PTX_DTYPES:
        accepted = ", ".join(sorted(known.name for known in PTX_DTYPES))
        raise UserError(f"dtype: {dtype.name} has no PTX type here: accepted are {accepted}")
    return 1 if dtype.is_bool else max(dtype.bits, 16)


def type_word(dtype: DType) -> str:
    """Return the name of a scalar in an instruction: s32, u16 (also for uint8), f32, pred."""
    bits = width(dtype)
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    return "pred" if dtype.is_bool else f"{_sign_letter(dtype)}{bits}"


def bits_word(dtype: DType) -> str:
    """Return the name of a scalar in an instruction that only moves bits: b16, b32, b64, pred."""
    return REGISTERS[width(dtype)][0]


def memory_word(dtype: DType) -> str:
    """Return the name of an element in a load or store, which extends 8 bits to the register."""
    if dtype.itemsize > 1:
        return bits_word(dtype)
    return "s8" if dtype is dtypes.int8 else "u8"


def literal(value: ConstType, dtype: DType) -> str:
    """Return a constant as the number of its bits, which preserves NaN and -0.0."""
    if not dtype.is_float:
        return str(int(value) & ((1 << width(dtype)) - 1))
    bits = int.from_bytes(numpy_dtype(dtype).type(value).tobytes(), "little")
    return f"0x{bits:0{dtype.bits // 4}X}"


def braced(registers: Sequence[str]) -> str:
    """Join registers to one operand."""
    return "{" + ", ".join(registers) + "}"


def mma_instruction(tile: MatrixTile) -> str:
    """Return the instruction of a tile: A is row-major, B column-major, D has the type of C.

    ISA, "Warp-level Matrix Instructions", `mma`. Raises `UserError` for a type without a word.
    """
    m, n, k = tile.dims
    words = [
        "s8" if dtype is dtypes.int8 else type_word(dtype)
        for dtype in (tile.dtype_in, tile.dtype_out)
    ]
    factor = words[0] if tile.rounds_in is None else tile.rounds_in.value
    return f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{words[1]}.{factor}.{factor}.{words[1]}"


class Emitter:
    """The lines of a kernel in progress, and the registers that they use.

    entry: code at the start of the kernel.
    lines: the other code.
    is_strict: every float operation rounds separately.
    architecture: the compute capability, 75 for 7.5.

    Methods that compute take registers of scalars and return the register of the result.
    """

    def __init__(self, architecture: int, is_strict: bool) -> None:
        self.architecture = architecture
        self.is_strict = is_strict
        self.entry: list[str] = []
        self.lines: list[str] = []
        self._registers: Counter[int] = Counter()
        self._constants: dict[tuple[int, str], str] = {}

    def fresh(self, bits: int) -> str:
        """Return an unused register of this many bits; 1 means a predicate."""
        self._registers[bits] += 1
        return f"{REGISTERS[bits][1]}{self._registers[bits]}"

    def line(self, text: str) -> None:
        self.lines.append(f"{INDENT}{text};")

    def emit(self, opcode: str, dtype: DType, *operands: str) -> str:
        """Add an instruction and return the register of its result, of the scalar `dtype`."""
        return self.emit_bits(opcode, width(dtype), *operands)

    def emit_bits(self, opcode: str, bits: int, *operands: str) -> str:
        """Add an instruction with a result of this many bits."""
        result = self.fresh(bits)
        self.line(f"{opcode} {', '.join((result, *operands))}")
        return result

    def at_entry(self, opcode: str, bits: int, *operands: str) -> str:
        """Add an instruction to the start of the kernel, so that every block sees the result."""
        result = self.fresh(bits)
        self.entry.append(f"{INDENT}{opcode} {', '.join((result, *operands))};")
        return result

    def constant(self, value: ConstType, dtype: DType) -> str:
        """Return the register of a constant, because some instructions accept no number."""
        bits, text = width(dtype), literal(value, dtype)
        # The bits of a float are written in another form, but equal bits share one register.
        key = bits, str(int(text, 0))
        if key not in self._constants:
            self._constants[key] = self.at_entry(f"mov.{bits_word(dtype)}", bits, text)
        return self._constants[key]

    def copy(self, register: str, value: str, dtype: DType) -> None:
        """Copy the value of a register to another."""
        self.line(f"mov.{bits_word(dtype)} {register}, {value}")

    def declarations(self) -> list[str]:
        """Return the directives that declare the registers."""
        return [
            f"{INDENT}.reg .{word} {name}<{self._registers[bits] + 1}>;"
            for bits, (word, name) in REGISTERS.items()
            if self._registers[bits]
        ]

    # Arithmetic

    def operation(self, op: Ops, operand: DType, *values: str) -> str:
        """Apply one op to scalars of type `operand`; comparisons return a predicate."""
        compares = op in (Ops.CMPLT, Ops.CMPNE)
        if self._is_widened(op, operand):
            wide = [self.widened(value, operand) for value in values]
            result = self.operation(op, dtypes.float32, *wide)
            return result if compares else self.converted(result, dtypes.float32, operand)
        opcode = self._opcode(op, operand)
        result = self.emit(opcode, dtypes.bool if compares else operand, *values)
        return self.extended(result, operand) if op in _LEAVES_EIGHT_BITS else result

    def _opcode(self, op: Ops, operand: DType) -> str:
        """Return the instruction of `op` for `operand`. Raises `UserError` if there is none."""
        kind = 0 if operand.is_bool else 2 if operand.is_float else 1
        template = INSTRUCTIONS[op][kind]
        if not template:
            raise UserError(f"{op.name}: is not defined for {operand.name}")
        rounding = ".rn" if self.is_strict else ""
        return template.format(t=type_word(operand), b=bits_word(operand), rn=rounding)

    def _is_widened(self, op: Ops, operand: DType) -> bool:
        """Return True if `op` of 16-bit floats is computed in float32 and rounded back."""
        if operand not in _HALVES:
            return False
        if operand is dtypes.bfloat16 and self.architecture < _ARITHMETIC_OF_BFLOAT16:
            return True
        return op in _WIDENED or (op is Ops.MAX and self.architecture < _MAX_OF_FLOAT16)

    # Conversions (ISA, "Data Movement and Conversion Instructions", `cvt`). Floats become integers
    # by `.rzi`, which truncates and by default clamps values out of range. Integers become floats,
    # and floats narrower ones, by `.rn`.

    def converted(self, value: str, have: DType, want: DType) -> str:
        """Convert `value` to another scalar type and return its register."""
        if have is want:
            return value
        if want.is_bool:
            return self._is_not_zero(value, have)
        if have.is_bool:
            one, zero = (
                self.constant(float(bit) if want.is_float else bit, want) for bit in (1, 0)
            )
            return self.emit(f"selp.{bits_word(want)}", want, one, zero, value)
        if not have.is_float:
            return self._from_integer(value, have, want)
        if want.is_float:
            return self._between_floats(value, have, want)
        if have in _HALVES:
            value, have = self.widened(value, have), dtypes.float32
        # A conversion to 8 bits clamps to their range and extends the result to its register.
        opcode = f"cvt.rzi.{_sign_letter(want)}{want.bits}.{type_word(have)}"
        return self.emit(opcode, want, value)

    def reinterpreted(self, value: str, have: DType, want: DType) -> str:
        """Reinterpret the bits of `value` as another scalar type of the same size."""
        if have.is_bool and not want.is_bool:
            return self.emit("selp.b16", want, "1", "0", value)
        if want.is_bool and not have.is_bool:
            return self._is_not_zero(value, have)
        return self.resized(value, have, want)

    def resized(self, value: str, have: DType, want: DType) -> str:
        """Resize an integer or bits: to the low bits, or extended as `have` is."""
        source, target = width(have), width(want)
        if source != target:
            letter = _sign_letter(have) if target > source else "u"
            value = self.emit(f"cvt.{letter}{target}.{letter}{source}", want, value)
        return value if have is want else self.extended(value, want)

    def extended(self, value: str, dtype: DType) -> str:
        """Extend 8 bits of `value` to the 16 of its register; other types stay unchanged."""
        if dtype.bits != 8:
            return value
        letter = _sign_letter(dtype)
        return self.emit(f"cvt.{letter}16.{letter}8", dtype, value)

    def widened(self, value: str, have: DType) -> str:
        """Convert a 16-bit float to float32, exactly."""
        if have is dtypes.float16:
            return self.emit("cvt.f32.f16", dtypes.float32, value)
        # bfloat16 is the upper half of float32.
        zero = self.constant(0, dtypes.uint16)
        return self.emit("mov.b32", dtypes.float32, braced((zero, value)))

    def _is_not_zero(self, value: str, have: DType) -> str:
        """Test that a value is not zero; this is true for NaN."""
        if have is dtypes.bfloat16:
            value, have = self.widened(value, have), dtypes.float32
        compare = "neu" if have.is_float else "ne"
        zero = self.constant(0.0 if have.is_float else 0, have)
        return self.emit(f"setp.{compare}.{type_word(have)}", dtypes.bool, value, zero)

    def _from_integer(self, value: str, have: DType, want: DType) -> str:
        if not want.is_float:
            return self.resized(value, have, want)
        if want is dtypes.float16:
            # Integers that float32 rounds are larger than 65504, so the result is infinite anyway.
            wide = self.emit(f"cvt.rn.f32.{type_word(have)}", dtypes.float32, value)
            return self.emit("cvt.rn.f16.f32", want, wide)
        if self._is_narrowed_twice(want):
            return self._through_odd(value, have)
        return self.emit(f"cvt.rn.{type_word(want)}.{type_word(have)}", want, value)

    def _between_floats(self, value: str, have: DType, want: DType) -> str:
        if have in _HALVES:
            return self.converted(self.widened(value, have), dtypes.float32, want)
        if have is dtypes.float64 and self._is_narrowed_twice(want):
            return self._through_odd(value, have)
        rounding = ".rn" if want.bits < have.bits else ""
        return self.emit(f"cvt{rounding}.{type_word(want)}.{type_word(have)}", want, value)

    def _is_narrowed_twice(self, want: DType) -> bool:
        """Return True if only float32 can be converted to `want`."""
        return want is dtypes.bfloat16 and self.architecture < _ARITHMETIC_OF_BFLOAT16

    def _through_odd(self, value: str, have: DType) -> str:
        """Convert to bfloat16 through a float32 rounded to odd, so only one rounding counts.

        Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
        """
        source = type_word(have)
        wide = self.emit(f"cvt.rz.f32.{source}", dtypes.float32, value)
        back = self.emit(f"cvt{'' if have.is_float else '.rzi'}.{source}.f32", have, wide)
        compare = "neu" if have.is_float else "ne"
        is_inexact = self.emit(f"setp.{compare}.{source}", dtypes.bool, back, value)
        last = self.emit("selp.b32", dtypes.uint32, "1", "0", is_inexact)
        odd = self.emit("or.b32", dtypes.float32, wide, last)
        return self.emit("cvt.rn.bf16.f32", dtypes.bfloat16, odd)

    # 8- and 16-bit values in 32-bit registers, the first in the lowest bits: `mov` and `prmt`

    def packed(self, registers: Sequence[str], dtype: DType) -> list[str]:
        """Pack the values of `registers` into 32-bit registers."""
        pairs = [
            self.emit("mov.b32", dtypes.uint32, braced(registers[first : first + 2]))
            for first in range(0, len(registers), 2)
        ]
        if dtype.bits == 16:
            return pairs
        return [
            self.emit("prmt.b32", dtypes.uint32, *pairs[first : first + 2], _LOW_BYTES)
            for first in range(0, len(pairs), 2)
        ]

    def unpacked(self, registers: Sequence[str], dtype: DType) -> list[str]:
        """Unpack 32-bit registers to one register for each value."""
        values: list[str] = []
        for register in registers:
            pair = [self.fresh(16), self.fresh(16)]
            self.line(f"mov.b32 {braced(pair)}, {register}")
            for half in pair:
                values += [half] if dtype.bits == 16 else self._bytes(half, dtype)
        return values

    def _bytes(self, half: str, dtype: DType) -> list[str]:
        """Return the low and the high byte of 16 bits, each extended as `dtype` is."""
        low = self.extended(half, dtype)
        return [low, self.emit(f"shr.{type_word(dtype)}", dtype, half, "8")]

    # Matrix tiles. A fragment is passed in 32-bit registers. Each holds neighbours of the fragment,
    # the first one in its lowest bits: two of 16 bits or four of 8. float32 and int32 take a
    # register each, float64 one of 64 bits. `uops.tiles` defines the same order of lanes.

    def multiply(
        self, tile: MatrixTile, a: Sequence[str], b: Sequence[str], c: Sequence[str]
    ) -> Sequence[str]:
        """Return the registers of D = A * B + C. Raises `UserError` for a missing tile."""
        known = [name for name, since in _SINCE.items() if since <= self.architecture]
        if tile not in known:
            accepted = ", ".join(accepted_tile.name for accepted_tile in known)
            raise UserError(
                f"WMMA: sm_{self.architecture} has no {tile.name}: accepted are {accepted}"
            )
        if tile.rounds_in is InputRounding.TF32:
            a, b = (
                [self.emit("cvt.rna.tf32.f32", dtypes.float32, register) for register in operand]
                for operand in (a, b)
            )
        sums = tile.dtype_out
        operands = [
            braced(registers if dtype.bits >= WORD_BITS else self.packed(registers, dtype))
            for registers, dtype in ((a, tile.dtype_in), (b, tile.dtype_in), (c, sums))
        ]
        is_packed = sums.bits < WORD_BITS
        count = len(c) * sums.bits // WORD_BITS if is_packed else len(c)
        result = [self.fresh(WORD_BITS if is_packed else width(sums)) for _ in range(count)]
        self.line(f"{mma_instruction(tile)} {', '.join((braced(result), *operands))}")
        return self.unpacked(result, sums) if is_packed else result


def _sign_letter(dtype: DType) -> str:
    return "s" if dtype.kind is Kind.SIGNED else "u"
