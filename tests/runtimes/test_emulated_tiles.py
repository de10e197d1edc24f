"""Matrix tiles of texts on the host: how they round, and what no warp can do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import DeviceError
from tinyref.runtimes.emulated.c_emulator import CUDA, CEmulator
from tinyref.runtimes.host.memory import address_of
from tinyref.uops.tiles import TILES, MatrixTile, Operand

Array = npt.NDArray[np.generic]
C_NAMES = {
    dtypes.float16: "unsigned short",
    dtypes.bfloat16: "unsigned short",
    dtypes.float32: "float",
    dtypes.float64: "double",
    dtypes.int8: "signed char",
    dtypes.int32: "int",
}
TILE = TILES["nvidia_m16n8k16_float16_float32"]


def text(tile: MatrixTile, product: str = "") -> str:
    """Return a kernel whose lanes load consecutive fragments and store their part of D."""
    kinds = [(C_NAMES[tile.dtype(item)], tile.layout(item).registers) for item in Operand]
    fragments = "".join(
        f"typedef struct {{ {kind} lanes[{count}]; }} fragment_{name};\n"
        for (kind, count), name in zip(kinds, "abc", strict=True)
    )
    product = product or f"tinyref_wmma_{tile.name}(a[at], b[at], c[at])"
    return f"""{fragments}
extern "C" __global__ void k_tile(fragment_c *d, fragment_a *a, fragment_b *b, fragment_c *c) {{
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  fragment_c result = c[at];
  result = {product};
  d[at] = result;
}}
"""


def fragments(tile: MatrixTile, operand: Operand, matrices: Array) -> Array:
    """Return the lanes' elements of each matrix, by [subgroup, lane, register]."""
    layout = tile.layout(operand)
    held = [
        matrices[:, *tile.element(operand, lane, register)]
        for lane in range(tile.threads)
        for register in range(layout.registers)
    ]
    return np.ascontiguousarray(np.stack(held, axis=1))


def run(tile: MatrixTile, operands: list[Array], source: str, items: int) -> Array:
    emulator = CEmulator("EMU", CUDA)
    kernel = emulator.load("k_tile", emulator.compile(source))
    out = np.zeros_like(operands[2])
    pieces = [out, *operands]
    sizes = [item.nbytes for item in pieces]
    kernel([address_of(item) for item in pieces], [], (1, 1, 1), (items, 1, 1), sizes)
    return out


def one_product(
    name: str, a: float, b: float, c: float, more: tuple[float, float] = (0, 0)
) -> float:
    """Element 0, 0 of D, where A and B are zero except for the first two k."""
    tile = TILES[name]
    matrices = [np.zeros((1, *tile.shape(item)), numpy_dtype(tile.dtype(item))) for item in Operand]
    matrices[0][0, 0, :2] = (a, more[0])
    matrices[1][0, :2, 0] = (b, more[1])
    matrices[2][0, 0, 0] = c
    operands = [fragments(tile, *item) for item in zip(Operand, matrices, strict=True)]
    return float(run(tile, operands, text(tile), tile.threads)[0, 0])


ROUNDING = [
    # A product of 11 bits by 11 bits fits float32, and not float16: 1.0009765625 squared.
    ("nvidia_m16n8k8_float16_float32", (1 + 2**-10, 1 + 2**-10, 0), 1 + 2**-9 + 2**-20),
    ("nvidia_m16n8k8_float16_float16", (1 + 2**-10, 1 + 2**-10, 0), 1 + 2**-9),
    # Ties of sums go to even: 2048 + 1 and 2050 + 1 in float16, 256 + 1 and 258 + 1 in bfloat16.
    ("rdna3_m16n16k16_float16_float16", (1, 1, 2048), 2048),
    ("rdna3_m16n16k16_float16_float16", (1, 1, 2050), 2052),
    ("apple_m8n8k8_bfloat16_bfloat16", (1, 1, 256), 256),
    ("apple_m8n8k8_bfloat16_bfloat16", (1, 1, 258), 260),
    # The sum is made on top of C, k from 0 up: 2048 + 1 + 1 loses both ones, 1 + 1 + 2048 none.
    ("apple_m8n8k8_float16_float16", (1, 1, 2048, (1, 1)), 2048),
    ("apple_m8n8k8_float16_float16", (1, 1, 1, (2048, 1)), 2050),
    # TF32 has 10 bits of fraction, and ties go away from zero.
    ("nvidia_m16n8k8_tf32_float32", (1 + 2**-11, 1, 0), 1 + 2**-10),
    ("nvidia_m16n8k8_tf32_float32", (-1 - 2**-11, 1, 0), -1 - 2**-10),
    ("nvidia_m16n8k8_tf32_float32", (1 + 2**-12, 1, 0), 1),
    ("nvidia_m16n8k4_tf32_float32", (1, 1 + 2**-11, 0), 1 + 2**-10),
    ("apple_m8n8k8_float32_float32", (1 + 2**-12, 1, 0), 1 + 2**-12),
    ("nvidia_m8n8k4_float64_float64", (1 + 2**-40, 1, 0), 1 + 2**-40),
    ("nvidia_m16n8k32_int8_int32", (-128, -128, 2**31 - 1), -(2**31) + 2**14 - 1),
]


@pytest.mark.usefixtures("c_compiler")
@pytest.mark.parametrize(("name", "operands", "want"), ROUNDING)
def test_products_and_sums_round_in_the_type_of_c(
    name: str, operands: tuple[float, float, float], want: float
) -> None:
    assert one_product(name, *operands) == want


WRONG = {
    "half of the warp": "threadIdx.x & 1 ? {call} : c[at]",
    "another place in the text": "threadIdx.x & 1 ? {call} :\n {call}",
    "fragments of another tile": "tinyref_wmma_nvidia_m16n8k8_float16_float32(a[at], b[at], c[at])",
}


@pytest.mark.usefixtures("c_compiler")
@pytest.mark.parametrize("what", WRONG)
def test_what_no_warp_can_do_is_an_error(what: str) -> None:
    call = f"tinyref_wmma_{TILE.name}(a[at], b[at], c[at])"
    source = text(TILE, WRONG[what].format(call=call))
    words = "no whole matrices" if "fragments" in what else "not all work-items of a warp arrive"
    with pytest.raises(DeviceError, match=f"k_tile: group .*{words}"):
        run(TILE, zeros(TILE, 32), source, 32)


@pytest.mark.usefixtures("c_compiler")
@pytest.mark.parametrize("items", [1, 31, 48])
def test_a_group_is_a_whole_number_of_warps(items: int) -> None:
    with pytest.raises(DeviceError, match="not all work-items of a warp arrive"):
        run(TILE, zeros(TILE, 64), text(TILE), items)


@pytest.mark.usefixtures("c_compiler")
def test_warps_need_not_agree() -> None:
    """Multiply nothing in the second warp, and twice in the first."""
    call = f"tinyref_wmma_{TILE.name}(a[at], b[at], result)"
    twice = f"c[at];\n  if (threadIdx.x < 32) {{\n  result = {call};\n  result = {call};\n  }}"
    source = text(TILE, twice)
    operands = [np.ones_like(item) for item in zeros(TILE, 64)]
    operands[:2] = [np.full(item.shape, np.float16(1)) for item in operands[:2]]
    actual = run(TILE, operands, source, 64).reshape(2, -1)
    assert set(actual[0]) == {33.0}
    assert set(actual[1]) == {1.0}


@pytest.mark.usefixtures("c_compiler")
def test_lanes_that_hold_one_element_must_agree() -> None:
    tile = TILES["rdna3_m16n16k16_float16_float32"]
    operands = zeros(tile, 32)
    run(tile, operands, text(tile), 32)
    operands[0][20 * 16] = 1
    with pytest.raises(DeviceError, match="differ in an element that several hold"):
        run(tile, operands, text(tile), 32)


def zeros(tile: MatrixTile, items: int) -> list[Array]:
    return [
        np.zeros(items * tile.layout(item).registers, numpy_dtype(tile.dtype(item)))
        for item in Operand
    ]
