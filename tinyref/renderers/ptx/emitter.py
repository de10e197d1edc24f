"""The text of one kernel while it is made: lines, registers, constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tinyref.dtype import ConstType, DType
from tinyref.renderers.ptx.registers import REGISTERS, bits_word, literal, width

INDENT = "    "


class Emitter:
    """Lines of a kernel, and the registers that they use.

    entry: what is done once, before all else. lines: the rest. is_strict: every operation on floats
    rounds for itself. architecture: the compute capability, 75 for 7.5.
    """

    def __init__(self, architecture: int, is_strict: bool) -> None:
        self.architecture = architecture
        self.is_strict = is_strict
        self.entry: list[str] = []
        self.lines: list[str] = []
        self._registers: Counter[int] = Counter()
        self._constants: dict[tuple[int, str], str] = {}

    def fresh(self, bits: int) -> str:
        """A register of so many bits that nothing else has; 1 is a predicate."""
        self._registers[bits] += 1
        return f"{REGISTERS[bits][1]}{self._registers[bits]}"

    def line(self, text: str) -> None:
        self.lines.append(f"{INDENT}{text};")

    def emit(self, opcode: str, dtype: DType, *operands: str) -> str:
        """Adds an instruction, and gives the register of its result, of the scalar `dtype`."""
        return self.emit_bits(opcode, width(dtype), *operands)

    def emit_bits(self, opcode: str, bits: int, *operands: str) -> str:
        """The same for a result of so many bits."""
        result = self.fresh(bits)
        self.line(f"{opcode} {', '.join((result, *operands))}")
        return result

    def at_entry(self, opcode: str, bits: int, *operands: str) -> str:
        """The same before all else, where every block sees it."""
        result = self.fresh(bits)
        self.entry.append(f"{INDENT}{opcode} {', '.join((result, *operands))};")
        return result

    def constant(self, value: ConstType, dtype: DType) -> str:
        """The register of a constant; equal bits have one. Not every instruction takes a number."""
        bits, text = width(dtype), literal(value, dtype)
        # Where the bits are those of a float the number is written otherwise.
        key = bits, str(int(text, 0))
        if key not in self._constants:
            self._constants[key] = self.at_entry(f"mov.{bits_word(dtype)}", bits, text)
        return self._constants[key]

    def copy(self, register: str, value: str, dtype: DType) -> None:
        """Gives a register the value of another one."""
        self.line(f"mov.{bits_word(dtype)} {register}, {value}")

    def declarations(self) -> list[str]:
        """The directives that declare the registers."""
        return [
            f"{INDENT}.reg .{word} {name}<{self._registers[bits] + 1}>;"
            for bits, (word, name) in REGISTERS.items()
            if self._registers[bits]
        ]


def braced(registers: Sequence[str]) -> str:
    """Registers as one operand."""
    return "{" + ", ".join(registers) + "}"
