"""Test WGSL, word for word where a compiler could read it differently."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.graphs.value_programs import loaded, stored
from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.renderers.wgsl import WGSL_OPS, WgslRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind
from tinyref.uops.program import Parameter, Program
from tinyref_spec.kernel.programs import at

FLOAT, WORD, INT = dtypes.float32, dtypes.uint32, dtypes.int32
TYPES = frozenset(WgslRenderer.type_names)
RENDERER = WgslRenderer(Capabilities(TYPES, WGSL_OPS, vector_lanes=(1, 2, 4)))


def program(*stores: UOp, parameters: Sequence[Parameter], group: int = 1) -> Program:
    nodes = tuple(toposort(stores))
    variables = tuple(node for node in nodes if node.op is Ops.DEFINE_VAR)
    return Program("rotate", nodes, tuple(parameters), variables, (1, 1, 1), (group, 1, 1))


def test_a_whole_kernel() -> None:
    # A variable, two buffers, one of them unused, and a name that is a built-in's.
    count = build.variable("count", 0, 7, INT)
    text = RENDERER.render(
        program(
            build.store(at(build.define_global(0, INT, 8), count), count),
            parameters=[
                Parameter(0, INT, 8, True, False),
                Parameter(1, dtypes.int8, 8, False, False),
            ],
        )
    )
    assert text.splitlines() == [
        "@group(0) @binding(0) var<storage, read> launch_words: array<u32, 4>;",
        "@group(0) @binding(1) var<storage, read_write> data0: array<i32>;",
        "@group(0) @binding(2) var<storage, read_write> data1: array<u32>;",
        "@compute @workgroup_size(1, 1, 1)",
        "fn k_rotate(@builtin(workgroup_id) group_id: vec3<u32>, "
        "@builtin(local_invocation_id) item_id: vec3<u32>) {",
        "  let data0_at: i32 = i32(launch_words[2] / 4u);",
        "  let var_count: i32 = bitcast<i32>(launch_words[1]);",
        "  data0[data0_at + var_count] = var_count;",
        "}",
    ]


def test_strict_floats_are_opaque_and_relaxed_ones_are_not() -> None:
    subject = stored(build.add(build.mul(loaded(1, FLOAT), 2.0), loaded(2, FLOAT)))
    with Context(STRICT_FLOAT=1):
        text = RENDERER.render(subject)
    assert (
        "fn opaque_f32(x: f32) -> f32 "
        "{ return bitcast<f32>((bitcast<u32>(x) | launch_words[0])); }" in text
    )
    assert " = opaque_f32(v1 * opaque_f32(2.0f));" in text
    assert " = opaque_f32(v2 + v3);" in text
    with Context(STRICT_FLOAT=0):
        assert "opaque" not in RENDERER.render(subject)


def test_each_lane_is_shifted_by_a_literal() -> None:
    # naga accepts no lane of 64-bit constants as a count, because it cannot convert it.
    pair = dtypes.uint64.vec(2)
    words = build.load(at(build.define_global(1, dtypes.uint64, 2), 0), lanes=2)
    shifted = build.binary(Ops.SHL, words, build.const(pair, 55))
    out = at(build.define_global(0, dtypes.uint64, 2), 0)
    parameters = [Parameter(slot, dtypes.uint64, 2, slot == 0, slot == 1) for slot in (0, 1)]
    text = RENDERER.render(program(build.store(out, shifted), parameters=parameters))
    assert "vec2<u64>(v1[0] << 55u, v1[1] << 55u)" in text


def test_a_shift_of_two_constants_has_a_named_operand() -> None:
    # A lost bit of a constant expression is an error in WGSL.
    text = RENDERER.render(stored(build.binary(Ops.SHL, build.const(INT, 1), 31)))
    assert re.search(r"let (v\d): i32 = 1i;\n  let v\d: i32 = \1 << 31u;", text)


def test_an_unsigned_integer_is_subtracted_from_zero() -> None:
    # WGSL negates only signed integers.
    text = RENDERER.render(stored(build.unary(Ops.NEG, loaded(1, WORD))))
    assert "(0u - v1)" in text


def test_positions_are_of_32_bits() -> None:
    position = build.cast(loaded(1, INT), dtypes.int64)
    address = build.index(build.define_global(0, INT, 8), position)
    parameters = [Parameter(0, INT, 8, True, False), Parameter(1, INT, 64, False, True)]
    text = RENDERER.render(program(build.store(address, loaded(1, INT)), parameters=parameters))
    assert "  data0[data0_at + i32(v2)] = v1;" in text
    first = build.index(build.define_global(0, INT, 8), build.const(dtypes.int64, 4))
    text = RENDERER.render(program(build.store(first, loaded(1, INT)), parameters=parameters))
    assert "  data0[data0_at + 4i] = v1;" in text


def test_a_constant_of_64_bits_has_a_name_before_it_is_converted() -> None:
    for value in (63, -(2**63)):
        text = RENDERER.render(stored(build.cast(build.const(dtypes.int64, value), INT)))
        assert re.search(r"let (v\d): i64 = .*;\n  let v\d: i32 = i32\(\1\);", text)


def test_no_counter_of_a_loop_is_named_like_a_type() -> None:
    # The 32nd name of a kernel was i32, and hid the type from all later lines.
    count = build.counter(build.const(INT, 3), 0, AxisKind.LOOP, INT)
    out = build.define_global(0, INT, 3)
    nodes = (*toposort((build.store(at(out, count), count),)), build.close(count))
    parameters = (Parameter(0, INT, 3, True, False),)
    text = RENDERER.render(Program("counted", nodes, parameters))
    assert "for (var loop1: i32 = 0; loop1 < 3i; loop1++) {" in text
    assert not re.search(r"\b(i|u|f)\d+:", text)


def test_words_that_are_replaced_by_masks_are_atomic() -> None:
    # They are atomic in the declaration of the buffer, in loads and in stores.
    memory = build.define_global(0, WORD, 1)
    address = at(memory, 0)
    bits = build.both(build.load(address), 0xF)
    gate, mask = build.const(dtypes.bool, True), build.const(WORD, 0xF0)
    node = UOp(Ops.STORE, dtypes.void, (address, bits, gate, mask))
    text = RENDERER.render(program(node, parameters=[Parameter(0, WORD, 1, True, True)]))
    assert "data0: array<atomic<u32>>;" in text
    assert " = atomicLoad(&data0[data0_at + 0i]);" in text
    assert (
        "if (true) { atomicAnd(&data0[data0_at + 0i], ~240u); "
        "atomicOr(&data0[data0_at + 0i], v2); }" in text
    )


def test_shared_memory_stands_outside_of_the_kernel_and_barriers_order_both() -> None:
    shared = build.define_local("shared", FLOAT, 8)
    item = build.special("item", 0, 8, INT)
    put = build.store(at(shared, item), loaded(1, FLOAT))
    barrier = build.barrier()
    out = build.store(at(build.define_global(0, FLOAT, 8), item), build.load(at(shared, item)))
    nodes = (*toposort((put,)), barrier, *toposort((out,)))
    unique = tuple(dict.fromkeys(nodes))
    parameters = (Parameter(0, FLOAT, 8, True, False), Parameter(1, FLOAT, 64, False, True))
    text = RENDERER.render(Program("s", unique, parameters, (), (1, 1, 1), (8, 1, 1)))
    lines = text.splitlines()
    assert any(
        line.startswith("var<workgroup> local") and ": array<f32, 8>;" in line for line in lines
    )
    assert "  storageBarrier(); workgroupBarrier();" in lines
    assert "@compute @workgroup_size(8, 1, 1)" in lines
    assert "  let item_0: i32 = i32(item_id.x);" in lines


def test_a_buffer_in_words_needs_the_words_of_its_elements_and_one_more() -> None:
    # Elements of 8 bits may begin within a word.
    memory = build.define_global(0, WORD, 3)
    store = build.store(at(memory, 0), build.const(WORD, 1))
    for size, is_large in ((8, True), (3, False)):
        subject = program(store, parameters=[Parameter(0, dtypes.int8, size, True, False)])
        if is_large:
            assert "array<u32>" in RENDERER.render(subject)
            continue
        with pytest.raises(UserError, match="slot 0: has 12 bytes, its parameter 8"):
            RENDERER.render(subject)


def test_half_precision_is_enabled_where_it_is_used() -> None:
    half = dtypes.float16
    text = RENDERER.render(stored(build.add(loaded(1, half), loaded(2, half))))
    assert text.startswith("enable f16;\n")
    assert "opaque_f16(v1 + v2)" in text
