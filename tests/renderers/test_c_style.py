"""Test the base of C-like languages: a program in each, refusals, changes of a language."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from tinyref.capabilities import CORE_DTYPES, Capabilities
from tinyref.contract import NamingRenderer, entry_point
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.renderers.c_language import CStyleLanguage
from tinyref.renderers.c_style import C_STYLE_OPS, CStyleRenderer
from tinyref.renderers.cuda import CudaRenderer
from tinyref.renderers.hip import HipRenderer
from tinyref.renderers.metal import MetalRenderer
from tinyref.renderers.opencl import OpenCLRenderer
from tinyref.renderers.wgsl import WgslRenderer
from tinyref.runtimes.python import TextRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, TileArg
from tinyref.uops.program import Parameter, Program
from tinyref.uops.tiles import TILES, Operand

INT, FLOAT = dtypes.int32, dtypes.float32


def number(value: int) -> UOp:
    return build.const(INT, value)


def reversed_groups() -> Program:
    """Return a program: each group of 4 reverses its elements, and the first only stores."""
    group, item = (
        build.special("group", 1, number(3), INT),
        build.special("item", 0, number(4), INT),
    )
    shared = build.define_local("shared", FLOAT, 4)
    out, data = build.define_global(0, FLOAT, 12), build.define_global(1, FLOAT, 12)
    position = build.add(build.mul(group, 4), item)
    value = build.load(build.index(data, position))
    put = build.store(build.index(shared, item), value)
    turned = build.load(build.index(shared, build.sub(3, item)))
    infinite = build.where(build.less(turned, float("inf")), turned, float("nan"))
    store = build.store(build.index(out, position), build.mul(infinite, 0.1), build.less(0, group))
    before = toposort([put])
    after = [node for node in toposort([store]) if node not in before]
    nodes = (*before, build.barrier(), *after)
    parameters = (Parameter(0, FLOAT, 12, True, False), Parameter(1, FLOAT, 12, False, True))
    return Program("rotate", nodes, parameters, grid=(1, 3, 1), group=(4, 1, 1))


LANGUAGES: dict[str, type[CStyleRenderer]] = {
    "cl": OpenCLRenderer,
    "cu": CudaRenderer,
    "metal": MetalRenderer,
    "hip": HipRenderer,
    "wgsl": WgslRenderer,
}


@pytest.mark.table
@pytest.mark.parametrize("suffix", LANGUAGES)
def test_a_program_of_groups(golden: Callable[[str, str], None], suffix: str) -> None:
    # Shared memory, a barrier, launch indices, a gate, special floats; its name is a built-in's.
    golden(f"groups.{suffix}", LANGUAGES[suffix]().render(reversed_groups()))


def test_an_index_of_two_types_has_two_names() -> None:
    out = build.define_global(0, dtypes.int64, 4)
    wide = build.special("group", 0, build.const(dtypes.int64, 4), dtypes.int64)
    narrow = build.special("group", 0, number(4), INT)
    store = build.store(build.index(out, narrow), wide)
    text = OpenCLRenderer().render(
        Program("k", toposort([store]), (Parameter(0, dtypes.int64, 4, True, False),))
    )
    declared = sorted(line.strip() for line in text.splitlines() if "get_group_id" in line)
    assert len(declared) == 2
    assert len({line.split()[1] for line in declared}) == 2


def test_a_language_without_tiles_refuses_them() -> None:
    tile = TILES["apple_m8n8k8_float32_float32"]
    a, b, c = (build.const(tile.fragment(operand), 0) for operand in Operand)
    product = UOp(Ops.WMMA, c.dtype, (a, b, c), TileArg(tile))
    lanes = Capabilities(CORE_DTYPES, C_STYLE_OPS, vector_lanes=(1, 2))
    with pytest.raises(UserError, match=r"OpenCL C has no tile apple_m8n8k8_float32_float32 here"):
        OpenCLRenderer(lanes).render(Program("k", (a, product), ()))


def test_undeclared_types_and_ops_are_refused() -> None:
    subject = reversed_groups()
    allowed = Capabilities(frozenset({dtypes.bool, INT, dtypes.uint32, FLOAT}), C_STYLE_OPS)
    assert "k_rotate" in OpenCLRenderer(allowed).render(subject)
    with pytest.raises(UserError, match=r"float32 has no OpenCL C type here: accepted are bool, i"):
        OpenCLRenderer(replace(allowed, dtypes=frozenset({dtypes.bool, INT}))).render(subject)
    with pytest.raises(UserError, match=r"WHERE: is not declared: accepted are ADD, AND, "):
        OpenCLRenderer(replace(allowed, ops=C_STYLE_OPS - {"WHERE"})).render(subject)


class Bare(CStyleRenderer):
    """A language that names three types and nothing else."""

    type_names: ClassVar = {dtypes.uint8: "byte", dtypes.uint32: "word", FLOAT: "real"}


def test_a_language_names_the_member_that_it_lacks() -> None:
    declared = Capabilities(CORE_DTYPES, C_STYLE_OPS)
    bare = Bare(declared)
    bare.begin(Program("k", (), ()))
    # A bool is a byte in memory, whether or not the device computes in bytes.
    assert bare.memory_type(dtypes.bool) == "byte"
    with pytest.raises(UserError, match="lanes: type_names of Bare has no entry for int32"):
        bare.type(INT)
    with pytest.raises(UserError, match=r"has_grid is True: launch_indices of Bare .*'group', 0"):
        Bare(replace(declared, has_grid=True))


def test_a_renderer_says_what_its_kernels_are_called() -> None:
    subject = reversed_groups()
    assert isinstance(CudaRenderer(), NamingRenderer)
    assert entry_point(CudaRenderer(), subject) == "k_rotate"
    # A renderer without this method prints the name of the program.
    assert entry_point(TextRenderer(), subject) == "rotate"


def test_a_renderer_may_be_shared(golden: Callable[[str, str], None]) -> None:
    # No text keeps declarations that another text needed.
    renderer = OpenCLRenderer()
    empty = Program("empty", (), ())
    before = renderer.render(empty)
    assert "float" not in before
    assert renderer.render(reversed_groups()) == OpenCLRenderer().render(reversed_groups())
    assert renderer.render(empty) == before


def test_the_page_lists_what_a_language_may_change() -> None:
    page = (Path(__file__).parents[2] / "docs" / "backend.md").read_text()
    section = page.partition("| members | names |\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[2] for line in section.splitlines() if line.startswith("| ")]
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in vars(CStyleLanguage) if not name.startswith("_")}


def methods_of_the_page() -> str:
    """Return the table of the methods, from the text of the class."""
    tree = ast.parse(inspect.getsource(CStyleLanguage))
    rows = ["| method | what |", "|---|---|"]
    for node in tree.body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
        signature = f"{node.name}({arguments}) -> {ast.unparse(node.returns or ast.Constant(None))}"
        sentence = (ast.get_docstring(node) or "").partition("\n")[0]
        rows.append(f"| `{signature}` | {sentence} |".replace(" | None", " \\| None"))
    return "\n".join(rows) + "\n"


def test_the_page_has_the_methods_with_their_parameters(request: pytest.FixtureRequest) -> None:
    path = Path(__file__).parents[2] / "docs" / "backend.md"
    begin, end = "test_c_style.py --update-golden -->\n", "<!-- end of methods -->\n"
    head, _, rest = path.read_text().partition(begin)
    actual, _, tail = rest.partition(end)
    if request.config.getoption("--update-golden"):
        path.write_text(f"{head}{begin}{methods_of_the_page()}{end}{tail}")
        return
    assert actual == methods_of_the_page(), "run this test with --update-golden"
    assert "`open_loop(kind: str, name: str, bound: str) -> str`" in actual


class Pascal(CStyleRenderer):
    """A language as unlike C as the base allows: other declarations, loops and choices."""

    language = "Pascal"
    type_names = {
        dtypes.bool: "boolean",
        INT: "longint",
        dtypes.uint32: "cardinal",
        FLOAT: "single",
    }
    suffixes = {INT: "", dtypes.uint32: "", FLOAT: ""}
    bool_literals = ("false", "true")
    signed_wraps = True
    select_is_lazy = False

    def declare_value(self, kind: str, name: str, text: str) -> str:
        return f"const {name}: {kind} = {text};"

    def declare_variable(self, kind: str, name: str, text: str | None) -> str:
        return f"var {name}: {kind};" if text is None else f"var {name}: {kind} = {text};"

    def assign(self, target: str, value: str) -> str:
        return f"{target} := {value};"

    def open_loop(self, kind: str, name: str, bound: str) -> str:
        return f"for {name} := 0 to {bound} - 1 do {{"

    def open_branch(self, condition: str) -> str:
        return f"if {condition} then {{"

    def select(self, condition: str, chosen: str, other: str) -> str:
        return f"ifthen({condition}, {chosen}, {other})"


def test_every_statement_is_a_method() -> None:
    data, out = build.define_global(1, INT, 8), build.define_global(0, INT, 1)
    total = build.accumulator("total", number(7))
    i = build.counter(number(8), 0, AxisKind.LOOP, INT)
    gate = build.less(i, 5)
    value = build.load(build.index(data, i), gate, -1)
    largest = build.binary(Ops.MAX, total, value)
    update = build.update(total, largest)
    store = build.store(build.index(out, number(0)), update)
    head = toposort([total, data, out])
    body = [node for node in toposort([update]) if node not in head]
    index = build.index(out, number(0))
    nodes = [*head, *body, build.close(i), number(0), index, store]
    parameters = (Parameter(0, INT, 1, True, False), Parameter(1, INT, 8, False, True))
    text = Pascal().render(Program("largest", tuple(dict.fromkeys(nodes)), parameters))
    assert text == (
        "void k_largest(longint *data0, longint *data1) {\n"
        "  var acc1: longint = 7;\n"
        "  for i2 := 0 to 8 - 1 do {\n"
        "    const v3: boolean = i2 < 5;\n"
        "    var v4: longint = (-1);\n"
        "    if v3 then { v4 := data1[i2]; }\n"
        "    const v5: longint = ifthen(acc1 < v4, v4, acc1);\n"
        "    acc1 := v5;\n"
        "  }\n"
        "  data0[0] := acc1;\n"
        "}\n"
    )
