"""Matrix tiles as functions of CUDA C++: `mma.sync` on fragments packed into 32-bit registers.

A fragment is a vector whose lanes are the elements that a thread holds, in the order in which the
PTX ISA numbers them (a0, a1 ...): two 16-bit or four 8-bit elements, lowest first, are one register
("Warp-level matrix multiply-accumulate", the fragments of mma.m16n8k16 and its kin). So the bytes
of a vector are its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinyref.dtype import DType, dtypes
from tinyref.uops.tiles import MatrixTile, Operand

# The types of the PTX ISA, and the letter of a register in the constraints of inline assembly.
_PTX_TYPES = {
    dtypes.float16: "f16",
    dtypes.bfloat16: "bf16",
    dtypes.float32: "f32",
    dtypes.float64: "f64",
    dtypes.int8: "s8",
    dtypes.int32: "s32",
}
_REGISTERS = {dtypes.float32: ("float", "f"), dtypes.float64: ("double", "d")}
_WORD = ("unsigned int", "r")


def mma_instruction(tile: MatrixTile) -> str:
    """The instruction of a tile: A is row-major, B column-major, D of the type of C.

    Raises KeyError for a type that no instruction has.
    """
    m, n, k = tile.dims
    factor = _PTX_TYPES[tile.dtype_in] if tile.rounds_in is None else tile.rounds_in.value
    total = _PTX_TYPES[tile.dtype_out]
    return f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{total}.{factor}.{factor}.{total}"


def tile_function(tile: MatrixTile, name: str, type_of: Callable[[DType], str]) -> str:
    """The function of a tile; `type_of` gives the names of the types of fragments."""
    result = type_of(tile.fragment(Operand.C))
    parameters = ", ".join(
        f"{type_of(tile.fragment(operand))} {operand.value.lower()}" for operand in Operand
    )
    a, b = (_count(tile, operand) for operand in (Operand.A, Operand.B))
    c = _count(tile, Operand.C)
    kind, letter = _register(tile, Operand.C)
    texts = [_numbered(start, count) for start, count in ((c, a), (c + a, b), (0, c))]
    lines = [
        f"__device__ __forceinline__ {result} {name}({parameters}) {{",
        *_inputs(tile, Operand.A),
        *_inputs(tile, Operand.B),
        f"  {kind} *rc = ({kind} *)&c;",
        f'  asm volatile("{mma_instruction(tile)} {texts[2]}, {", ".join(texts)};"',
        f"    : {_operands(letter, 'rc', c, '+')}",
        f"    : {_operands(_register(tile, Operand.A)[1], 'ra', a)}, "
        f"{_operands(_register(tile, Operand.B)[1], 'rb', b)});",
        "  return c;",
        "}",
    ]
    return "\n".join(lines)


def _inputs(tile: MatrixTile, operand: Operand) -> Iterator[str]:
    """The registers of A or B; those of a tile that rounds its inputs are rounded first."""
    name = operand.value.lower()
    kind, _ = _register(tile, operand)
    if tile.rounds_in is None:
        yield f"  const {kind} *r{name} = (const {kind} *)&{name};"
        return
    count = _count(tile, operand)
    yield f"  {kind} r{name}[{count}];"
    for place in range(count):
        convert = f"cvt.rna.{tile.rounds_in.value}.f32 %0, %1;"
        element = f"((const float *)&{name})[{place}]"
        yield f'  asm("{convert}" : "=r"(r{name}[{place}]) : "f"({element}));'


def _register(tile: MatrixTile, operand: Operand) -> tuple[str, str]:
    """The type of a register of a fragment in C++, and its letter; rounded floats are bits."""
    if tile.rounds_in is not None and operand is not Operand.C:
        return _WORD
    return _REGISTERS.get(tile.dtype(operand), _WORD)


def _count(tile: MatrixTile, operand: Operand) -> int:
    """How many registers a fragment takes."""
    return tile.fragment(operand).itemsize // max(tile.dtype(operand).itemsize, 4)


def _numbered(start: int, count: int) -> str:
    """The operands of an instruction, a register each: "{%0, %1}"."""
    return f"{{{', '.join(f'%{number}' for number in range(start, start + count))}}}"


def _operands(letter: str, name: str, count: int, access: str = "") -> str:
    """The constraints of registers: `"r"(ra[0]), "r"(ra[1])`."""
    return ", ".join(f'"{access}{letter}"({name}[{place}])' for place in range(count))
