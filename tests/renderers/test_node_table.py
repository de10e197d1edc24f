"""Test the table of nodes in docs/backend.md against the op table and rendered text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import get_args

import pytest

from tinyref.algebra.op_table import OP_TABLE
from tinyref.capabilities import CORE_DTYPES, Capabilities
from tinyref.dtype import dtypes
from tinyref.renderers.opencl import OPENCL_OPS, OpenCLRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import ALU, Dialect, Ops
from tinyref.uops.payload import ConstArg, VarArg
from tinyref.uops.program import Program
from tinyref.verify import verify
from tinyref_spec.kernel import programs
from tinyref_spec.kernel.programs import at

PAGE = Path(__file__).parents[2] / "docs" / "backend.md"
BEGIN = "<!-- nodes: tests/renderers/test_node_table.py --update-golden -->\n"
END = "<!-- end -->\n"

FLOAT, INT, BOOL = dtypes.float32, dtypes.int32, dtypes.bool
DEVICE = Capabilities(
    dtypes=CORE_DTYPES | {dtypes.uint8},
    ops=OPENCL_OPS | {"EXP2", "LOG2", "SIN", "POW"},
    vector_lanes=(1, 4),
    has_grid=True,
    has_groups=True,
    shared_bytes=1024,
)
# Descriptions of the sources; those in brackets are optional.
SOURCES: Mapping[Ops, str] = {
    **dict.fromkeys(ALU, "x, y"),
    Ops.WHERE: "condition, y, z",
    Ops.MULACC: "x, y, z",
    **dict.fromkeys((Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN), "x"),
    **dict.fromkeys((Ops.TRUNC, Ops.CAST, Ops.BITCAST), "x"),
    Ops.THREEFRY: "counter, key",
    Ops.LOAD: "address [, alternative, gate]",
    Ops.STORE: "address, value [, gate [, mask]]",
    Ops.DEFINE_ACC: "start",
    Ops.UPDATE_ACC: "accumulator, value",
    Ops.RANGE: "extent",
    Ops.SPECIAL: "extent",
    Ops.INDEX: "memory, element; of an image: memory, row, column",
    Ops.VECTORIZE: "a scalar for each lane",
    Ops.GEP: "vector",
    Ops.WMMA: "fragments of A, B, C",
    Ops.IF: "condition",
    Ops.ENDIF: "its IF",
    Ops.END: "its RANGE",
}
# Inline expressions, and nodes without a line of C.
WITHOUT_LINES = {
    Ops.CONST: "1.5f",
    Ops.INDEX: "data1[2]",
    Ops.DEFINE_VAR: "int var_n",
    Ops.ENDIF: "}",
    Ops.END: "}",
}
WITHOUT_TEXT = {
    Ops.WMMA: "see `MatrixTile`",
    Ops.THREEFRY: "only where `ops` has it",
    Ops.MULACC: "only where `ops` has it",
}


def loaded(slot: int, dtype=FLOAT, lanes: int = 1) -> UOp:
    return build.load(at(build.define_global(slot, dtype, 64), 4 * slot), lanes=lanes)


def stored(*values: UOp) -> Program:
    """Return a program that writes the values."""
    stores = [
        build.store(at(build.define_global(100 + number, value.dtype.scalar, 64), 0), value)
        for number, value in enumerate(values)
    ]
    return programs.program("sample", *stores)


def arithmetic(op: Ops) -> Program:
    dtype = INT if op in (Ops.IDIV, Ops.MOD, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR) else FLOAT
    count = OP_TABLE[op].arity[0]
    if op is Ops.WHERE:
        return stored(UOp(op, FLOAT, (loaded(3, BOOL), loaded(1), loaded(2))))
    result = {Ops.CAST: INT, Ops.BITCAST: INT, Ops.CMPLT: BOOL, Ops.CMPNE: BOOL}.get(op, dtype)
    return stored(UOp(op, result, tuple(loaded(number + 1, dtype) for number in range(count))))


def gated() -> Program:
    gate = loaded(3, BOOL)
    address = at(build.define_global(1, FLOAT, 64), 2)
    value = build.load(address, gate, 1.5)
    out = at(build.define_global(0, FLOAT, 64), 0)
    return programs.program("gated", build.store(out, value, gate))


def plain() -> Program:
    """Return a program with a constant, a variable and lanes."""
    variable = UOp(Ops.DEFINE_VAR, INT, (), VarArg("n", 1, 9))
    vector = loaded(2, lanes=4)
    swapped = build.vectorize(*(build.gep(vector, lane) for lane in (1, 0, 3, 2)))
    value = build.load(at(build.define_global(1, FLOAT, 64), 2))
    subject = stored(swapped, build.add(value, 1.5), build.add(variable, 1))
    return dataclasses.replace(subject, variables=(variable,))


def loop() -> Program:
    iteration = programs.loop(8, 0)
    total = build.accumulator("total", build.const(FLOAT, 0.0))
    value = build.load(at(build.define_global(1, FLOAT, 64), iteration))
    new = build.update(total, build.add(total, value))
    out = build.store(at(build.define_global(0, FLOAT, 64), 0), new)
    return programs.program("loop", total, iteration, new, build.close(iteration), out)


def group() -> Program:
    """Return a program whose work-items exchange values; the first of a group writes."""
    item, shared = programs.item_index(8), build.define_local("shared", FLOAT, 8)
    put = build.store(at(shared, item), loaded(1))
    first = build.branch(build.less(item, 1))
    out = build.store(at(build.define_global(0, FLOAT, 64), programs.group_index(4)), loaded(2))
    return programs.program(
        "group",
        put,
        build.barrier(),
        first,
        out,
        UOp(Ops.ENDIF, dtypes.void, (first,)),
        grid=(4, 1, 1),
        group=(8, 1, 1),
    )


SAMPLES: dict[Ops, Program] = {
    **{op: arithmetic(op) for op in ALU if op not in WITHOUT_TEXT},
    **dict.fromkeys((Ops.LOAD, Ops.STORE), gated()),
    **dict.fromkeys((Ops.CONST, Ops.DEFINE_VAR, Ops.DEFINE_GLOBAL, Ops.INDEX), plain()),
    **dict.fromkeys((Ops.VECTORIZE, Ops.GEP), plain()),
    **dict.fromkeys((Ops.DEFINE_ACC, Ops.UPDATE_ACC, Ops.RANGE, Ops.END), loop()),
    **dict.fromkeys((Ops.DEFINE_LOCAL, Ops.SPECIAL, Ops.BARRIER, Ops.IF, Ops.ENDIF), group()),
}
OPS = [op for op in Ops if op in OP_TABLE and Dialect.PROGRAM in OP_TABLE[op].dialects]


def lines_of(op: Ops) -> list[str]:
    """Return the line that the last node of this op adds to the text of its sample."""
    sample = SAMPLES[op]
    index = max(index for index, node in enumerate(sample.uops) if node.op is op)
    texts = []
    for count in (index, index + 1):
        part = dataclasses.replace(sample, uops=sample.uops[:count])
        texts.append(OpenCLRenderer(DEVICE).render(part).splitlines())
    before, after = texts
    return [line.strip() for line in after if line not in before or line.strip() == "}"][:1]


def text_of(op: Ops) -> str:
    if op in WITHOUT_TEXT:
        return WITHOUT_TEXT[op]
    (text,) = [WITHOUT_LINES[op]] if op in WITHOUT_LINES else lines_of(op)
    return f"`{text}`".replace("|", "\\|")


def payload_of(op: Ops) -> str:
    kinds = get_args(OP_TABLE[op].payload) or (OP_TABLE[op].payload,)
    return " or ".join("none" if kind is NoneType else f"`{kind.__name__}`" for kind in kinds)


def table() -> str:
    rows = ["| node | sources | payload | what | in OpenCL C |", "|---|---|---|---|---|"]
    for op in OPS:
        sources = SOURCES.get(op, "-")
        sentence = OP_TABLE[op].sentence.replace("|", "\\|")
        rows.append(f"| `{op.name}` | {sources} | {payload_of(op)} | {sentence} | {text_of(op)} |")
    return "\n".join(rows) + "\n"


def fields_of(kind: type) -> list[str]:
    # A constant has slots of its own in addition to its value.
    if kind is ConstArg:
        return ["value"]
    return [field.name for field in dataclasses.fields(kind)]


def test_the_page_has_every_payload_with_its_fields() -> None:
    section = PAGE.read_text().partition("\nThe payload is ")[2].partition("\nThese functions ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    listed = {row[0].strip("| `"): re.findall(r"`(\w+)`", row[1]) for row in rows}
    kinds = {
        kind
        for op in OPS
        for kind in get_args(OP_TABLE[op].payload) or (OP_TABLE[op].payload,)
        if kind is not NoneType
    }
    assert listed == {kind.__name__: fields_of(kind) for kind in kinds}


def test_the_page_has_every_node_of_programs(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    actual, _, tail = rest.partition(END)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{head}{BEGIN}{table()}{END}{tail}")
        return
    assert actual == table(), "run this test with --update-golden"


@pytest.mark.parametrize("op", [op for op in OPS if op in SAMPLES], ids=lambda op: op.name)
def test_the_samples_are_programs(op: Ops) -> None:
    verify(Dialect.PROGRAM, SAMPLES[op].uops)
    text = OpenCLRenderer(DEVICE).render(SAMPLES[op])
    line = WITHOUT_LINES[op] if op in WITHOUT_LINES else lines_of(op)[0]
    assert line in text


def test_sources_are_as_many_as_the_op_table_says() -> None:
    for op in OPS:
        least = OP_TABLE[op].arity[0]
        names = SOURCES.get(op, "").split(";")[0].split("[")[0]
        count = len([name for name in names.split(",") if name.strip()])
        assert count == least or op is Ops.VECTORIZE, op
