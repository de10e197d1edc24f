"""Test text: golden lines, identity after a round trip, errors with line and expectation."""

from __future__ import annotations

import contextlib

import pytest
import uop_graphs as graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.formats.text import from_text, node_text, program_from_text, program_to_text, to_text
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg, ShapeArg
from tinyref.uops.program import Program
from tinyref_spec.kernels.corpus import corpus_kernels

LAW = settings(max_examples=100)

ROW_SUM = """\
%0 = DEFINE_GLOBAL float32*4@global () Slot{slot=0}
%1 = VIEW float32*4@global (%0) View{shape=(4, 1) strides=(1, 0) offset=0 mask=none}
%2 = DEFINE_GLOBAL float32*12@global () Slot{slot=1}
%3 = VIEW float32*12@global (%2) View{shape=(4, 3) strides=(1, 4) offset=0 mask=none}
%4 = LOAD float32 (%3)
%5 = REDUCE float32 (%4) Reduce{op=ADD axes=(1,)}
%6 = CONST float32 () 2.0
%7 = MUL float32 (%5, %6)
%8 = STORE void (%1, %7)
%9 = SINK void (%8)
"""

DOUBLING = """\
kernel name="e_n"
program
%0 = DEFINE_GLOBAL int32*8@global () Slot{slot=0}
%1 = DEFINE_VAR int32 () Var{name="n" minimum=1 maximum=8}
%2 = RANGE int32 (%1) Range{number=0 kind=loop}
%3 = INDEX int32*8@global (%0, %2)
%4 = LOAD int32 (%3)
%5 = ADD int32 (%4, %4)
%6 = STORE void (%3, %5)
%7 = END void (%2)
parameter slot=0 dtype=int32 size=8 is_written=true is_read=true
launch variables=(%1,) grid=(1, 1, 1) group=(1, 1, 1)
"""


def test_a_graph_reads_as_it_always_did() -> None:
    assert to_text(graphs.row_sum()) == ROW_SUM
    assert from_text(ROW_SUM) is graphs.row_sum()


def test_a_program_reads_as_it_always_did() -> None:
    assert program_to_text(graphs.doubling()) == DOUBLING
    assert program_from_text(DOUBLING) == graphs.doubling()


def test_symbolic_sizes_are_nodes_of_their_own() -> None:
    buffer = UOp(Ops.CONST, dtypes.float32, (), ConstArg(1.0))
    shape = ShapeArg((build.add(build.mul(graphs.N, 2), 1), 3))
    node = UOp(Ops.RESHAPE, dtypes.float32, (buffer,), shape)
    text = to_text((node,))
    assert text.splitlines()[0] == "program"
    assert "$0 = " in text
    assert text.splitlines()[-1].startswith("%0 = RESHAPE float32 (")
    assert from_text(text) == (node,)


@pytest.mark.long
@LAW
@given(graphs.node_lists())
def test_a_graph_parses_back_to_the_identical_node(nodes: list[UOp]) -> None:
    assert from_text(to_text(nodes[-1])) is nodes[-1]


@pytest.mark.slow
@LAW
@given(graphs.node_lists())
def test_a_sequence_parses_back_to_the_identical_nodes(nodes: list[UOp]) -> None:
    # A node may occur twice in a program, as a barrier does.
    sequence = (*nodes, nodes[0])
    assert from_text(to_text(sequence)) == sequence
    assert from_text(to_text(sequence[::-1])) == sequence[::-1]


@pytest.mark.long
def test_the_programs_of_the_corpus_parse_back() -> None:
    capabilities = Device["PYTHON"].capabilities
    for kernel in corpus_kernels().values():
        program = compile_kernel(kernel.ast, capabilities)
        assert program_from_text(program_to_text(program)) == program, kernel.name


@pytest.mark.slow
@LAW
@given(graphs.programs())
def test_a_program_parses_back(program: Program) -> None:
    assert program_from_text(program_to_text(program)) == program


def test_comments_and_blank_lines_are_skipped() -> None:
    text = (
        '\n# a buffer\n  %7 = BUFFER int8 () Buffer{device="A#1" size=3 number=0}  # "quoted"\n\n'
    )
    node = from_text(text)
    assert isinstance(node, UOp)
    assert repr(node.arg) == "BufferArg(device='A#1', size=3, number=0)"


@pytest.mark.parametrize("value", [*graphs.FLOATS, 0, 1, -(1 << 63), (1 << 64) - 1, True, False])
def test_constants_keep_type_and_bits(value: float) -> None:
    node = UOp(Ops.CONST, dtypes.float64, (), ConstArg(value))
    assert from_text(to_text(node)) is node


def test_an_empty_sequence() -> None:
    assert from_text(to_text(())) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "text: expected a node or the line `program`, got no line"),
        ("hello", "text line 1: expected a node"),
        ("\n%0 = ADD", "text line 2: expected `%0 = OP dtype"),
        ("%0 = PLUS int32 ()", "text line 1: expected the name of an op, got 'PLUS'"),
        ("%0 = SINK int33 ()", "text line 1: expected the name of a dtype, got 'int33'"),
        ("%0 = SINK int32x3 ()", "expected the name of a dtype"),
        ("%0 = SINK void (%0)", "expected the name of an earlier line, such as %0, got '%0'"),
        ("%0 = SINK void (%1,)", "expected the name of an earlier line"),
        ("%0 = SINK void ()\n%0 = SINK void ()", "text line 2: expected a new name, %0 is taken"),
        ("%0 = SINK void ()\nprogram", "text line 2: expected a node"),
        ("%0 = CONST int32 () 123456789012345678901", "integer below 2**64"),
        ("%0 = CONST int32 () four", "expected a payload"),
        ("%0 = CONST float32 () nan:1", "expected a payload"),
        ("%0 = CONST int32 () ;", "expected a payload"),
        ("%0 = FLIP int32 () Flip", "expected a payload"),
        ("%0 = FLIP int32 () Flop{axes=(1,)}", "expected a payload, one of Const, Var"),
        ("%0 = FLIP int32 () Flip{axis=(1,)}", "expected the members axes, got 'axis'"),
        ("%0 = FLIP int32 () Flip{axes=(1,) axes=(1,)}", "expected one member axes"),
        ("%0 = FLIP int32 () Flip{axes=3}", "axes: expected a list"),
        ("%0 = FLIP int32 () Flip{axes=(1.0,)}", "axes[0]: expected an integer, got 1.0"),
        ("%0 = FLIP int32 () Flip{axes=(true,)}", "axes[0]: expected an integer, got True"),
        ("%0 = FLIP int32 () Flip{axes=(1}", "expected `,` or `)`, got '}'"),
        ("%0 = FLIP int32 () Flip{axes=(1,)", "expected `}`, got 'the end of the line'"),
        ("%0 = FLIP int32 () Flip{axes=", "expected a value, got 'the end of the line'"),
        ("%0 = FLIP int32 () Flip{axes=((((((((((1))))))))))}", "expected a value"),
        ("%0 = FLIP int32 () Flip{axes=()} {axes=()}", "expected one group of members, got 2"),
        ("%0 = FLIP int32 () {axes=()}", "expected a payload `Tag{member=value}`"),
        ('%0 = COPY int32 () Copy{device="\\q"}', "expected a text in double quotes"),
        ("%0 = COPY int32 () Copy{device=3}", "device: expected a text, got 3"),
        ("%0 = REDUCE int32 () Reduce{op=FOO axes=()}", "op: expected the name of an op"),
        ("%0 = RANGE int32 () Range{number=0 kind=spiral}", "expected one of global, local"),
        (
            "%0 = VIEW int32 () View{shape=(3,) strides=(1, 1) offset=0 mask=none}",
            "text line 1: view: 1 sizes against 2 strides",
        ),
        (
            "%0 = VIEW int32 () View{shape=(-3,) strides=(1,) offset=0 mask=none}",
            "text line 1: view: axis 0 has size -3",
        ),
        (
            "%0 = VIEW int32 () View{shape=(3,) strides=(1,) offset=0 mask=((0, 4),)}",
            "text line 1: view: mask ((0, 4),) is not inside shape (3,)",
        ),
        (
            "%0 = VIEW int32 () View{shape=(3,) strides=(1,) offset=0 mask=none} "
            "{shape=(3,) strides=(2,) offset=0 mask=none}",
            "view 1 reaches elements 0 to 4 of the 3",
        ),
        (
            "%0 = CONST int32 () 1\n%1 = RESHAPE int32 (%0) Shape{shape=(%0,)}\n"
            "%2 = VIEW int32 () View{shape=(%0,) strides=(1,) offset=0 mask=none}",
            "text line 3: view shape: a symbolic size has dtype index, got int32",
        ),
    ],
)
def test_errors_name_the_line_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        from_text(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kernel name="e_n"', "", "text line 2: expected a line `kernel name=...`, got 'program'"),
        ("program\n", "", "text line 2: expected the line `program`"),
        ("launch variables", "lunch variables", "expected a line `launch variables=... grid="),
        ("slot=0 dtype", "slot=a dtype", "text line 11: expected an integer, got 'a'"),
        ("is_read=true", "is_read=1", "text line 11: expected true or false, got 1"),
        ("is_read=true", "", "expected the members slot, dtype"),
        ("variables=(%1,)", "variables=(1,)", "expected variables as a list of nodes"),
        ("grid=(1, 1, 1)", "grid=(1, 1)", "text line 12: expected 3 times a size"),
        ("group=(1, 1, 1)", "group=(1, 1, %1)", "expected an integer, got"),
        ("group=(1, 1, 1)\n", "group=(1, 1, 1)\nmore\n", "text line 13: expected a node"),
    ],
)
def test_program_errors_name_the_line(old: str, new: str, message: str) -> None:
    assert old in DOUBLING
    with pytest.raises(UserError) as caught:
        program_from_text(DOUBLING.replace(old, new))
    assert message in str(caught.value)


def test_node_text_names_the_ops_of_the_sources() -> None:
    total = graphs.row_sum().src[0].src[1]
    assert node_text(total) == "MUL float32 (REDUCE, CONST)"
    assert node_text(total.src[0]) == "REDUCE float32 (LOAD) Reduce{op=ADD axes=(1,)}"


def test_a_deep_graph_needs_no_deep_stack() -> None:
    node = build.const(dtypes.int32, 1)
    for _ in range(5000):
        node = UOp(Ops.NEG, dtypes.int32, (node,))
    assert from_text(to_text(node)) is node


def test_sizes_cannot_blow_up() -> None:
    """Check that squaring a size repeatedly is refused, instead of filling the memory."""
    for start in (graphs.N, build.add(graphs.N, graphs.M), build.const(dtypes.index, 3)):
        size = start
        for _ in range(70):
            size = UOp(Ops.MUL, dtypes.index, (size, size))
        text = to_text(size)
        last = text.splitlines()[-1].partition(" ")[0]
        text += f"%999 = VALID bool () View{{shape=({last},) strides=(1,) offset=0 mask=none}}\n"
        with pytest.raises(UserError, match="size"):
            from_text(text)


TEXT = to_text(graphs.row_sum())
ODD = '%$0123456789(){}=, aA"\n'


@pytest.mark.slow
@settings(LAW, max_examples=150)
@given(st.integers(0, len(TEXT)), st.integers(0, 5), st.text(ODD, max_size=4))
def test_a_random_change_is_refused_or_read(begin: int, length: int, inserted: str) -> None:
    # No changed text raises any error other than UserError.
    with contextlib.suppress(UserError):
        from_text(TEXT[:begin] + inserted + TEXT[begin + length :])
