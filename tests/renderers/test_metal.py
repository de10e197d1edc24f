"""Test MSL word for word, by the Metal Shading Language Specification; sections are of 4.0."""

from __future__ import annotations

import pytest

from tests.graphs.value_programs import stored, tile_of
from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.metal import METAL_OPS, MetalRenderer
from tinyref.uops import build
from tinyref.uops.node import toposort
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES
from tinyref_spec.kernel.programs import at

TYPES = frozenset(MetalRenderer.type_names)
RENDERER = MetalRenderer(Capabilities(TYPES, METAL_OPS, vector_lanes=(1, 2, 4)))
I32, BF16, F32 = dtypes.int32, dtypes.bfloat16, dtypes.float32


def groups() -> Program:
    """Return a program: each group of 4 reverses its elements and adds a variable."""
    group, item = (
        build.special("group", 1, build.const(I32, 3), I32),
        build.special("item", 0, build.const(I32, 4), I32),
    )
    shared, count = build.define_local("shared", F32, 4), build.variable("count", 0, 7, I32)
    position = build.add(build.mul(group, 4), item)
    fill = build.store(at(shared, item), build.load(at(build.define_global(1, F32, 12), position)))
    turned = build.add(
        build.load(at(shared, build.sub(3, item))), build.cast(build.add(count, 0), F32)
    )
    store = build.store(at(build.define_global(0, F32, 12), position), turned)
    before = toposort([fill])
    after = [node for node in toposort([store]) if node not in before]
    parameters = (Parameter(0, F32, 12, True, False), Parameter(1, F32, 12, False, True))
    nodes = (*before, build.barrier(), *after)
    return Program("rotate", nodes, parameters, (count,), (1, 3, 1), (4, 1, 1))


HEAD = """\
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
kernel void k_rotate(device float *data0 [[buffer(0)]], device float *data1 [[buffer(1)]], \
constant int &var_count [[buffer(2)]], uint3 group_id [[threadgroup_position_in_grid]], \
uint3 item_id [[thread_position_in_threadgroup]]) {
  threadgroup float local1[4];
"""
BARRIER = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"


def test_a_whole_kernel() -> None:
    # Arguments by number (5.2.1), positions in the grid (5.2.3.6), memory and barriers (6.9).
    text = RENDERER.render(groups())
    assert text.startswith(HEAD)
    assert f"  {BARRIER}\n" in text
    assert "  int item_0 = item_id.x;\n" in text
    assert "  int group_1 = group_id.y;\n" in text


def multiplied(dtype: DType) -> Program:
    """Return the product of a tile, added to 0."""
    product = tile_of(TILES[f"apple_m8n8k8_{dtype.name}_{dtype.name}"])
    a, b, c = product.src
    return stored(product.replace(src=(a, b, build.const(c.dtype, 0))))


def test_a_tile_is_a_product_of_matrices_of_a_simdgroup() -> None:
    # Section 6.7: simdgroup_bfloat8x8 and related types, d = a * b + c.
    text = RENDERER.render(multiplied(BF16))
    name = "tinyref_wmma_apple_m8n8k8_bfloat16_bfloat16"
    assert (
        f"""\
#ifndef TINYREF_EMULATED
bfloat2 {name}(bfloat2 a, bfloat2 b, bfloat2 c) {{
  simdgroup_bfloat8x8 a_matrix;
  a_matrix.thread_elements()[0] = a.x;
  a_matrix.thread_elements()[1] = a.y;
  simdgroup_bfloat8x8 b_matrix;
  b_matrix.thread_elements()[0] = b.x;
  b_matrix.thread_elements()[1] = b.y;
  simdgroup_bfloat8x8 c_matrix;
  c_matrix.thread_elements()[0] = c.x;
  c_matrix.thread_elements()[1] = c.y;
  simdgroup_multiply_accumulate(c_matrix, a_matrix, b_matrix, c_matrix);
  return bfloat2(c_matrix.thread_elements()[0], c_matrix.thread_elements()[1]);
}}
#endif
"""
        in text
    )
    assert f"bfloat2 v4 = {name}(v1, v2, v3);" in text


def test_contraction_is_allowed_where_floats_are_not_strict() -> None:
    with Context(STRICT_FLOAT=0):
        assert "#pragma" not in RENDERER.render(groups())


def test_an_encoder_has_a_number_for_each_argument() -> None:
    variables = tuple(build.variable(f"n{number}", 0, 7, I32) for number in range(31))
    parameters = (Parameter(0, I32, 4, True, False),)
    store = build.store(at(build.define_global(0, I32, 4), 0), variables[0])
    nodes = tuple(toposort([store]))
    text = RENDERER.render(Program("most", nodes, parameters, variables[:30]))
    assert "constant int &var_n29 [[buffer(30)]], uint3 group_id" in text
    with pytest.raises(
        UserError, match="most has 32 buffers and variables: accepted in MSL are 31"
    ):
        RENDERER.render(Program("most", nodes, parameters, variables))
