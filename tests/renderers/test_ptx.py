"""Test PTX: rounding, memory, loops, tiles, the frame of a kernel; `test_words` has single nodes.

The literals come from "Parallel Thread Execution ISA": "Floating-Point", "Data Movement and
Conversion" and "Warp-level Matrix Instructions".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from tests.graphs.value_programs import applied, gated, loaded, stored, tile_by_lanes
from tinyref.codegen.decompose.check import check_program
from tinyref.config import Context
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.ptx import MAX_ACCESS_BYTES, PtxRenderer
from tinyref.runtimes.cuda_compilers import capabilities_of
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.payload import SpecialArg, VarArg
from tinyref.uops.program import Program
from tinyref.uops.tiles import GROUPS, TILES
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at

BOOL, INT, FLOAT = dtypes.bool, dtypes.int32, dtypes.float32
I8, U8, I64 = dtypes.int8, dtypes.uint8, dtypes.int64
F16, BF16, F64 = dtypes.float16, dtypes.bfloat16, dtypes.float64


def body(program: Program, architecture: int = 90) -> list[str]:
    """Return the lines of a kernel that compute, without declarations."""
    text = PtxRenderer(architecture).render(program)
    lines = (line.strip().removesuffix(";") for line in text.partition("{\n")[2].splitlines())
    return [line for line in lines if line and not line.startswith((".", "}", "ret"))]


def test_bfloat16_is_widened_as_the_upper_half() -> None:
    lines = body(stored(applied(Ops.SQRT, BF16)))
    (zero,) = [line.split()[1] for line in lines if line == "mov.b16 %rs2, 0"]
    assert f"mov.b32 %r2, {{{zero} %rs1}}" in lines


@pytest.mark.table
@pytest.mark.parametrize(("flag", "rounding"), [(1, ".rn"), (0, "")])
def test_only_what_the_flag_allows_may_be_contracted(flag: int, rounding: str) -> None:
    x = loaded(1, FLOAT)
    value = build.binary(Ops.FDIV, build.sub(build.add(build.mul(x, x), 1.0), x), 3.0)
    with Context(STRICT_FLOAT=flag):
        text = PtxRenderer(90).render(stored(value))
    words = re.findall(r"(?:mul|add|sub|div)\S*\.f32", text)
    assert words == [*(f"{word}{rounding}.f32" for word in ("mul", "add", "sub")), "div.rn.f32"]
    for loose in ("fma", "mad.f32", "mad.rn", ".ftz", ".approx", ".full", ".sat"):
        assert loose not in text


# Memory


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "word"),
    [(I8, "s8"), (U8, "u8"), (BF16, "b16"), (INT, "b32"), (F64, "b64")],
    ids=str,
)
def test_a_gate_is_the_guard_of_the_instruction(dtype: DType, word: str) -> None:
    # The register holds the alternative first: no branch, and no access if the gate is off.
    lines = body(gated(dtype))
    (load,) = [number for number, line in enumerate(lines) if line.startswith("@%p1 ld.")]
    register = re.fullmatch(rf"@%p1 ld\.global\.{word} (%\w+), \[%rd\d+\]", lines[load])[1]
    assert re.fullmatch(rf"mov\.b\d\d {register}, %\w+", lines[load - 1])
    assert re.fullmatch(rf"@%p1 st\.global\.{word} \[%rd\d+\], {register}", lines[-1])


def test_a_gated_bool_is_a_byte_until_it_is_loaded() -> None:
    # The alternative, true, is a byte before and a predicate after the load.
    lines = body(gated(BOOL))
    (load,) = [number for number, line in enumerate(lines) if re.match(r"@%p\d ld", line)]
    register = lines[load].split()[2].strip(",")
    (byte,) = re.fullmatch(r"selp\.b16 (%rs\d), 1, 0, %p1", lines[load - 2]).groups()
    assert "mov.pred %p1, 1" in lines
    assert lines[load - 1] == f"mov.b16 {register}, {byte}"
    assert re.match(rf"setp\.ne\.u16 %p3, {register}, %rs", lines[load + 1])


@pytest.mark.table
@pytest.mark.parametrize(
    ("dtype", "accesses"),
    [(F16, ["v4.b32"]), (I8, ["v2.b32"]), (FLOAT, ["v4.b32", "v4.b32"]), (F64, 4 * ["v2.b64"])],
    ids=str,
)
def test_eight_lanes_are_moved_by_16_bytes_at_most(dtype: DType, accesses: list[str]) -> None:
    # Each word of 32 bits holds two elements of 16 bits or four of 8.
    lines = body(stored(loaded(1, dtype, lanes=8)))
    for word in ("ld.global.", "st.global."):
        opcodes = [line.split()[0] for line in lines if line.startswith(word)]
        assert opcodes == [f"{word}{access}" for access in accesses]


def test_the_widest_access_is_as_wide_as_views_are_aligned() -> None:
    assert MAX_ACCESS_BYTES == capabilities_of((7, 5)).view_alignment == 16


def test_addresses() -> None:
    # Global addresses have 64 bits for any index; shared addresses have 32.
    shared = build.define_local("shared", F64, 6)
    near, far = loaded(1, INT), loaded(2, I64)
    out = build.define_global(0, F64, 64)
    stores = [
        build.store(build.index(memory, position), build.const(F64, 1.0))
        for memory in (shared, out)
        for position in (near, far)
    ]
    program = programs.program("k", *stores)
    lines = body(program)
    words = [line.split()[0] for line in lines if line.startswith(("mad", "cvt.u32"))]
    # Two for the loads.
    assert sorted(words) == sorted(
        ["mad.wide.s32"] * 3 + ["mad.lo.s64", "mad.lo.s32", "mad.lo.s32", "cvt.u32.u64"]
    )
    assert "    .shared .align 16 .b8 local0[48];" in PtxRenderer(90).render(program).splitlines()
    assert sum(line.startswith("st.shared.b64") for line in lines) == 2


# Loops, accumulators


def swapped(count: int) -> Program:
    """Return a program with a vector accumulator whose lanes swap in a loop."""
    start = build.vectorize(build.const(INT, 1), build.const(INT, 2))
    pair = build.accumulator("pair", start)
    iteration = programs.loop(count, 0)
    turned = build.vectorize(build.gep(pair, 1), build.gep(pair, 0))
    new = build.update(pair, turned)
    out = build.store(at(build.define_global(0, INT, 2), 0), new)
    return programs.program("swapped", pair, iteration, new, build.close(iteration), out)


def test_lanes_of_an_accumulator_are_copied_before_it_changes() -> None:
    # Otherwise the second lane would receive the new value of the first.
    lines = body(swapped(3))
    loop = lines[lines.index("loop1:") + 1 : lines.index("@%p1 bra loop1")]
    moves = [line.removeprefix("mov.b32 ").split(", ") for line in loop if line.startswith("mov")]
    values = {"first": 1, "second": 2}
    targets = [target for target, _ in moves[-2:]]
    registers = dict(zip(targets, values.values(), strict=True))
    for target, source in moves:
        registers[target] = registers[source]
    assert [registers[target] for target in targets] == [2, 1]


@pytest.mark.table
@pytest.mark.parametrize(("extent", "tests"), [(8, 1), (None, 2)])
def test_a_loop_that_may_not_run_is_tested_first(extent: int | None, tests: int) -> None:
    bound = extent or UOp(Ops.DEFINE_VAR, INT, (), VarArg("n", 0, 9))
    iteration = programs.loop(bound, 0)
    out = build.store(build.index(build.define_global(0, INT, 64), iteration), iteration)
    program = programs.program("k", iteration, out, build.close(iteration))
    variables = tuple(node for node in program.uops if node.op is Ops.DEFINE_VAR)
    lines = body(dataclasses.replace(program, variables=variables))
    assert sum(line.startswith("setp.") for line in lines) == tests
    assert lines[-1 - (tests == 2)].endswith(" bra loop1")
    if tests == 2:
        before = lines[lines.index("loop1:") - 2 : lines.index("loop1:")]
        assert before[0].startswith("setp.ge.s32")
        assert before[1] == "@%p1 bra end_loop1"
        assert lines[-1] == "end_loop1:"


MET = ("st.shared", "bar.sync 0", "ld.shared", "st.global")


def test_a_barrier_is_between_the_writes_and_reads_of_a_group() -> None:
    # No machine of the tests runs the items of a group separately, so only the text shows this.
    item, shared = build.special("item", 0, 8, INT), build.define_local("shared", INT, 8)
    put = build.store(build.index(shared, item), item)
    took = build.load(build.index(shared, item))
    out = build.store(build.index(build.define_global(0, INT, 8), item), took)
    lines = body(programs.program("k", put, build.barrier(put), took, out, group=(8, 1, 1)))
    positions = [lines.index(next(line for line in lines if line.startswith(word))) for word in MET]
    assert positions == sorted(positions)


# Matrix tiles: the instruction, and the numbers of registers of D, A, B and C.
MMA = {
    "nvidia_m16n8k16_float16_float32": ("m16n8k16", "f32.f16.f16.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k16_float16_float16": ("m16n8k16", "f16.f16.f16.f16", (2, 4, 2, 2)),
    "nvidia_m16n8k16_bfloat16_float32": ("m16n8k16", "f32.bf16.bf16.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k8_tf32_float32": ("m16n8k8", "f32.tf32.tf32.f32", (4, 4, 2, 4)),
    "nvidia_m16n8k4_tf32_float32": ("m16n8k4", "f32.tf32.tf32.f32", (4, 2, 1, 4)),
    "nvidia_m8n8k4_float64_float64": ("m8n8k4", "f64.f64.f64.f64", (2, 1, 1, 2)),
    "nvidia_m16n8k32_int8_int32": ("m16n8k32", "s32.s8.s8.s32", (4, 4, 2, 4)),
    "nvidia_m16n8k16_int8_int32": ("m16n8k16", "s32.s8.s8.s32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_bfloat16_float32": ("m16n8k8", "f32.bf16.bf16.f32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_float16_float32": ("m16n8k8", "f32.f16.f16.f32", (4, 2, 1, 4)),
    "nvidia_m16n8k8_float16_float16": ("m16n8k8", "f16.f16.f16.f16", (2, 2, 1, 2)),
    "nvidia_m8n8k16_int8_int32": ("m8n8k16", "s32.s8.s8.s32", (2, 1, 1, 2)),
}


def test_every_tile_of_nvidia_is_in_the_table() -> None:
    assert set(MMA) == {tile.name for tile in GROUPS["NVIDIA_SM80"]}


@pytest.mark.table
@pytest.mark.parametrize("name", MMA)
def test_tiles(name: str) -> None:
    shape, types, counts = MMA[name]
    lines = body(tile_by_lanes(TILES[name]))
    (line,) = [line for line in lines if line.startswith("mma")]
    opcode, _, operands = line.partition(" ")
    assert opcode == f"mma.sync.aligned.{shape}.row.col.{types}"
    fragments = re.findall(r"\{([^}]*)\}", operands)
    assert tuple(len(registers.split(",")) for registers in fragments) == counts
    rounded = [line for line in lines if line.startswith("cvt.rna.tf32.f32")]
    assert len(rounded) == (sum(counts[1:3]) if "tf32" in types else 0)


# Frame


@pytest.mark.table
@pytest.mark.parametrize("architecture", [75, 80, 100, 121])
def test_the_head_names_the_architecture(architecture: int) -> None:
    text = PtxRenderer(architecture).render(stored(applied(Ops.ADD, INT)))
    head = [".version 9.0", f".target sm_{architecture}", ".address_size 64"]
    assert text.splitlines()[:3] == head


def test_parameters_are_all_buffers_then_all_variables() -> None:
    variable = UOp(Ops.DEFINE_VAR, I64, (), VarArg("n", 0, 9))
    item = UOp(Ops.SPECIAL, I64, (build.const(I64, 8),), SpecialArg("item", 2))
    out = build.define_global(3, I64, 64)
    program = programs.program(
        "add", build.store(build.index(out, item), variable), group=(8, 2, 1)
    )
    text = PtxRenderer(90).render(dataclasses.replace(program, variables=(variable,)))
    assert ".visible .entry k_add(\n    .param .u64 data3,\n    .param .s32 variable0\n)\n" in text
    assert ".maxntid 8, 2, 1\n{" in text
    assert PtxRenderer(90).entry_name(program) == "k_add"
    lines = [line.strip() for line in text.splitlines()]
    assert "mov.u32 %r2, %tid.z;" in lines or "mov.u32 %r1, %tid.z;" in lines
    assert any(line.startswith("cvt.u64.u32") for line in lines)
    assert any(line.startswith("cvt.s64.s32") for line in lines)


@pytest.mark.table
@pytest.mark.parametrize(("dtype", "words"), [(INT, []), (I64, ["cvt.s64.s32", "cvt.u64.u32"])])
def test_what_a_launch_gives_is_widened_where_it_is_taken_as_64_bits(
    dtype: DType, words: list[str]
) -> None:
    variable = UOp(Ops.DEFINE_VAR, dtype, (), VarArg("n", 0, 9))
    item = UOp(Ops.SPECIAL, dtype, (build.const(dtype, 8),), SpecialArg("item", 0))
    store = build.store(build.index(build.define_global(0, dtype, 64), item), variable)
    program = programs.program("k", store, group=(8, 1, 1))
    lines = body(dataclasses.replace(program, variables=(variable,)))
    assert sorted(line.split()[0] for line in lines if line.startswith("cvt.")) == words


def test_golden_text(golden: Callable[[str, str], None]) -> None:
    golden("gated.ptx", PtxRenderer(90).render(gated(F16, lanes=4)))
    golden(
        "tile.ptx", PtxRenderer(90).render(tile_by_lanes(TILES["nvidia_m16n8k16_float16_float32"]))
    )


# Refusals


def test_what_is_not_declared_is_refused_before_it_is_printed() -> None:
    half = stored(applied(Ops.ADD, BF16))
    check_program(half, capabilities_of((9, 0)))
    with pytest.raises(UserError, match="bfloat16: the device has no bfloat16"):
        check_program(half, capabilities_of((7, 5)))
    tile = tile_by_lanes(TILES["nvidia_m8n8k4_float64_float64"])
    check_program(tile, capabilities_of((8, 0)))
    with pytest.raises(UserError, match="no matrix tile nvidia_m8n8k4_float64_float64"):
        check_program(tile, capabilities_of((7, 5)))
    with pytest.raises(UserError, match="sm_75 has no nvidia_m8n8k4_float64_float64: accepted"):
        PtxRenderer(75).render(tile)


def test_what_has_no_instruction_is_refused() -> None:
    for op in (Ops.SIN, Ops.EXP2, Ops.LOG2, Ops.POW, Ops.THREEFRY, Ops.MULACC):
        assert op.name not in capabilities_of((9, 0)).ops
    with pytest.raises(UserError, match="SIN: PTX devices print no such node"):
        PtxRenderer(90).render(stored(applied(Ops.SIN, FLOAT)))
    with pytest.raises(UserError, match="AND: is not defined for float32"):
        PtxRenderer(90).render(stored(applied(Ops.AND, FLOAT)))
    with pytest.raises(UserError, match=r"fp8e4m3 has no PTX type here: accepted are bfloat16, "):
        PtxRenderer(90).render(stored(loaded(1, dtypes.fp8e4m3)))


def test_bits_of_a_mask_are_not_written() -> None:
    word, gate = build.const(dtypes.uint32, 1), build.const(BOOL, True)
    address = at(build.define_global(0, dtypes.uint32, 4), 0)
    masked = UOp(Ops.STORE, dtypes.void, (address, word, gate, word))
    with pytest.raises(UserError, match="PTX devices write whole elements, not the bits of a mas"):
        PtxRenderer(90).render(programs.program("masked", masked))


def test_every_declared_op_is_printed() -> None:
    declared = capabilities_of((9, 0)).ops
    names = {op.name for op in ALU} - {"SIN", "EXP2", "LOG2", "POW", "THREEFRY", "MULACC"}
    assert declared == names | {"LOAD", "STORE"}
