"""Test the promises of the LLVM renderer on integers and calls, word for word.

The literals come from the LLVM Language Reference Manual: "Binary Operations", "Conversion
Operations", "call Instruction".
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.graphs.value_programs import loaded, stored
from tinyref.device import Buffer
from tinyref.dtype import DType, dtypes
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.renderers.llvm_gpu import LlvmGpuRenderer
from tinyref.runtimes.kernel import compile_program
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import VarArg
from tinyref_spec.kernel.programs import at

I32, U32, I64, F32 = dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.float32


def text_of(value: UOp) -> str:
    return LlvmRenderer().render(stored(value))


def counter(extent: int) -> UOp:
    """Return a number from 0 to `extent` - 1."""
    return UOp(Ops.MOD, U32, (loaded(1, U32), build.const(U32, extent)))


def small(extent: int) -> UOp:
    return build.cast(counter(extent), I32)


# Promises to LLVM: results that stay in the type for all operands within their ranges.
RANGES = [
    ("sum", build.add(small(1000), small(1000)), "add nsw i32"),
    ("wrapping sum", build.add(loaded(1, I32), small(1000)), "add i32"),
    ("difference", UOp(Ops.SUB, I32, (small(1000), small(1000))), "sub nsw i32"),
    ("product", build.mul(small(1000), small(1000)), "mul nsw i32"),
    # The difference of these operands stays in the type; their product does not.
    ("wrapping product", build.mul(small(1 << 20), small(1 << 20)), "mul i32"),
    ("square", build.mul(small(1 << 15), small(1 << 15)), "mul nsw i32"),
    ("unsigned sum", build.add(counter(1000), counter(1000)), "add i32"),
]


@pytest.mark.table
@pytest.mark.parametrize(("value", "words"), [r[1:] for r in RANGES], ids=[r[0] for r in RANGES])
def test_only_arithmetic_that_stays_in_its_type_is_marked_nsw(value: UOp, words: str) -> None:
    instructions = re.findall(r"= ((?:add|sub|mul)(?: nsw)? \w+)", text_of(value))
    assert instructions == [words]


@pytest.mark.table
@pytest.mark.parametrize(("dtype", "words"), [(I32, "bitcast"), (I64, "sext")], ids=str)
def test_a_variable_has_32_bits_that_are_widened(dtype: DType, words: str) -> None:
    variable = UOp(Ops.DEFINE_VAR, dtype, (), VarArg("n", 1, 9))
    text = text_of(variable)
    kind = f"i{dtype.bits}"
    assert f"  %var2 = {words} i32 %var2.i32 to {kind}\n" in text
    assert f"store {kind} %var2, ptr" in text


@pytest.mark.table
@pytest.mark.parametrize(
    ("position", "words"),
    [
        (build.add(small(50), 3), "ptr %at5, i32 3"),
        # A position that may be negative is no neighbour, and a sum that may wrap has no bounds.
        (build.add(small(50), -3), "ptr %data2, i32 %v7"),
        (build.add(build.cast(loaded(1, U32), I32), 3), "ptr %data2, i32 %v7"),
    ],
    ids=["three on", "three back", "anywhere"],
)
def test_a_neighbour_is_addressed_from_the_first(position: UOp, words: str) -> None:
    # So LLVM need not analyse the index of each element of an unrolled loop.
    memory = build.define_global(2, F32, 64)
    first, second = (build.load(build.index(memory, at)) for at in (small(50), position))
    text = text_of(build.add(first, second))
    addresses = re.findall(r"getelementptr inbounds float, (ptr %\w+, i32 %?\w+)", text)
    assert words in addresses
    assert addresses.count("ptr %data2, i32 %v4") == 1


@pytest.mark.table
@pytest.mark.parametrize(
    ("renderer", "dtype", "alternative", "is_branch"),
    [
        (LlvmRenderer(), F32, build.const(F32, 2.0), False),
        # Only constants are in memory from the start; a bool has another width there.
        (LlvmRenderer(), F32, loaded(2, F32), True),
        (LlvmRenderer(), dtypes.bool, build.const(dtypes.bool, True), True),
        # Addresses are checked here: an unused one may be out of bounds.
        (LlvmGpuRenderer(22), F32, build.const(F32, 2.0), True),
    ],
)
def test_a_load_that_is_held_off_reads_a_constant_or_nothing(
    renderer: LlvmRenderer, dtype: DType, alternative: UOp, is_branch: bool
) -> None:
    data, gate = build.define_global(1, dtype, 64), loaded(3, I32)
    first, second = (
        build.load(at(data, 0), build.less(gate, limit), alternative) for limit in (5, 6)
    )
    text = renderer.render(stored(build.maximum(first, second)))
    assert text.count(".do:") == 2 * is_branch
    assert len(re.findall(r"select i1 %\w+, ptr", text)) == 2 * (not is_branch)
    # Both read the one constant.
    assert text.count("store float 0x4000000000000000") == (not is_branch)
    llvm.parse_assembly(text).verify()


@pytest.mark.table
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_equal_flags_of_a_vector_are_set_at_once(lanes: int) -> None:
    # To insert each flag takes longer than the product that the edge of an image masks.
    edge, inner = (build.less(loaded(slot, I32), 5) for slot in (1, 2))
    flags = build.vectorize(edge, *[inner] * (lanes - 2), edge)
    program = stored(build.where(flags, build.const(I32.vec(lanes), 7), 9))
    assert LlvmRenderer().render(program).count(f" to i{lanes}\n") == 2
    buffers = [
        Buffer("CPU", 64, I32).copy_in(np.full(64, value, I32.name).data) for value in (0, 4, 6)
    ]
    compile_program("CPU", program)(buffers)
    stored_lanes = np.frombuffer(buffers[0].copy_out(), I32.name)[:lanes]
    assert list(stored_lanes) == [7, *[9] * (lanes - 2), 7]
