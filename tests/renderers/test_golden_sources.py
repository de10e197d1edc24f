"""Test the rendered source of a few programs, word for word, and refusals of renderers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import llvmlite.binding as llvm
import pytest

from tests.graphs.value_programs import loaded, stored
from tinyref.capabilities import Capabilities
from tinyref.config import Context
from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.renderers.c import C_DTYPES, C_OPS, CRenderer
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.renderers.llvm_gpu import LlvmGpuRenderer
from tinyref.renderers.opencl import OpenCLRenderer
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import Ops
from tinyref.uops.payload import AxisKind, LocalArg, SlotArg, SpecialArg
from tinyref.uops.program import Parameter, Program

INT = dtypes.int32
RENDERERS = {"ll": LlvmRenderer(), "c": CRenderer()}


def c_renderer(lanes: tuple[int, ...] = (1,), accepted: frozenset[DType] = C_DTYPES) -> CRenderer:
    return CRenderer(Capabilities(accepted, C_OPS, vector_lanes=lanes))


def number(value: int) -> UOp:
    return build.const(INT, value)


def loop(bound: UOp | int, order: int = 0) -> UOp:
    return build.counter(bound, order, AxisKind.LOOP, INT)


def program(name: str, nodes: list[UOp], *parameters: Parameter) -> Program:
    variables = tuple(node for node in nodes if node.op is Ops.DEFINE_VAR)
    return Program(name, tuple(nodes), parameters, variables)


def closed(*stores: UOp) -> list[UOp]:
    """Return the nodes of the stores, with their loops closed at the end, inner ones first."""
    nodes = toposort(stores)
    loops = [node for node in nodes if node.op is Ops.RANGE]
    return nodes + [build.close(node) for node in reversed(loops)]


def out(dtype: DType, size: int) -> Parameter:
    return Parameter(0, dtype, size, True, False)


def given(slot: int, dtype: DType, size: int) -> Parameter:
    return Parameter(slot, dtype, size, False, True)


def gated_copy() -> Program:
    """Return a symbolic loop that copies elements within bounds, and stores under a mask."""
    count = build.variable("count", 1, 64, INT)
    i = loop(count)
    inside = build.less(i, 40)
    mask = build.load(build.index(build.define_global(2, dtypes.bool, 64), i))
    value = build.load(build.index(build.define_global(1, dtypes.float32, 40), i), inside, -0.0)
    target = build.index(build.define_global(0, dtypes.float32, 64), i)
    nodes = closed(build.store(target, value, mask))
    parameters = (out(dtypes.float32, 64), given(1, dtypes.float32, 40), given(2, dtypes.bool, 64))
    return program("gated_copy", nodes, *parameters)


def row_maximum() -> Program:
    """Return a reduce: an accumulator around an inner loop."""
    i, j = loop(number(4)), loop(number(8), 1)
    memory = build.define_global(1, dtypes.float32, 32)
    start = build.const(dtypes.float32, float("-inf"))
    accumulator = build.accumulator("acc", start)
    value = build.load(build.index(memory, build.add(build.mul(i, 8), j)))
    update = build.update(accumulator, build.maximum(accumulator, value))
    store = build.store(build.index(build.define_global(0, dtypes.float32, 4), i), update)
    end = build.close(j)
    head = [number(4), i, start, accumulator]
    body = [node for node in toposort([update]) if node not in head]
    tail = [node for node in toposort([store]) if node not in (*head, *body, store)]
    nodes = [*head, *body, end, *tail, store, build.close(i)]
    return program("row_maximum", nodes, out(dtypes.float32, 4), given(1, dtypes.float32, 32))


def conversions() -> Program:
    """Return casts, shifts and constants that a language could get wrong."""
    i = loop(number(16))
    x = build.load(build.index(build.define_global(1, dtypes.float64, 16), i))
    whole = build.cast(x, dtypes.int8)
    shifted = build.binary(Ops.SHR, build.binary(Ops.SHL, whole, whole), 3)
    bits = build.bitcast(build.cast(shifted, dtypes.float32), dtypes.uint32)
    chosen = build.where(build.not_equal(x, x), build.const(dtypes.uint32, 2**32 - 1), bits)
    root = build.unary(Ops.SQRT, build.binary(Ops.POW, x, float("nan")))
    first = build.store(build.index(build.define_global(0, dtypes.uint32, 16), i), chosen)
    second = build.store(build.index(build.define_global(2, dtypes.float64, 16), i), root)
    flag = build.store(
        build.index(build.define_global(3, dtypes.bool, 16), i),
        build.both(build.cast(x, dtypes.bool), build.less(build.const(INT, -(2**31)), i)),
    )
    parameters = (
        out(dtypes.uint32, 16),
        given(1, dtypes.float64, 16),
        Parameter(2, dtypes.float64, 16, True, False),
        Parameter(3, dtypes.bool, 16, True, False),
    )
    return program("conversions", closed(first, second, flag), *parameters)


def branch() -> Program:
    """Return an IF around a store."""
    n = build.variable("n", 0, 9, INT)
    condition = build.less(n, 5)
    opened = build.branch(condition)
    memory = build.define_global(0, INT, 1)
    store = build.store(build.index(memory, number(0)), n)
    body = [node for node in toposort([store]) if node is not n]
    nodes = [*toposort([opened]), *body, build.close(opened)]
    return program("branch", nodes, out(INT, 1))


def vectors() -> Program:
    """Return a program on four lanes: loads, a shuffle, a library call, a store."""
    i = loop(number(4))
    position = build.mul(i, 4)
    x = build.load(build.index(build.define_global(1, dtypes.float32, 16), position), lanes=4)
    doubled = build.add(build.gep(x, 3, 2, 1, 0), build.const(x.dtype, 2.0))
    sines = build.unary(Ops.SIN, build.maximum(x, doubled))
    value = build.vectorize(*(build.gep(sines, lane) for lane in (1, 1, 0, 2)))
    store = build.store(build.index(build.define_global(0, dtypes.float32, 16), position), value)
    return program("vectors", closed(store), out(dtypes.float32, 16), given(1, dtypes.float32, 16))


def panel() -> Program:
    """Return a program in which each group reverses four elements in scratch memory."""
    group = build.special("group", 0, number(3), INT)
    scratch = build.define_local("panel", dtypes.float32, 4)
    source, target = (build.define_global(slot, dtypes.float32, 12) for slot in (1, 0))
    i, j = loop(number(4)), loop(number(4), 1)
    first = build.mul(group, 4)
    value = build.load(build.index(source, build.add(first, i)))
    fill = build.store(build.index(scratch, i), value)
    turned = build.load(build.index(scratch, build.sub(3, j)))
    store = build.store(build.index(target, build.add(first, j)), turned)
    before = [target, source, scratch, *toposort([first, number(3)])]
    filling = [node for node in toposort([fill]) if node not in before]
    writing = [node for node in toposort([store]) if node not in (*before, *filling)]
    ends = [build.close(counter) for counter in (i, j)]
    nodes = [*before, *filling, ends[0], *writing, ends[1]]
    parameters = (out(dtypes.float32, 12), given(1, dtypes.float32, 12))
    return Program("panel", tuple(nodes), parameters, grid=(3, 1, 1))


@pytest.mark.parametrize("language", sorted(RENDERERS))
@pytest.mark.parametrize(
    "make", [gated_copy, row_maximum, conversions, branch, panel], ids=lambda make: make.__name__
)
def test_source(
    golden: Callable[[str, str], None], make: Callable[[], Program], language: str
) -> None:
    golden(f"{make.__name__}.{language}", RENDERERS[language].render(make()))


def test_vector_source(golden: Callable[[str, str], None]) -> None:
    golden("vectors.ll", LlvmRenderer().render(vectors()))
    golden("vectors.c", c_renderer((1, 4)).render(vectors()))


@pytest.mark.parametrize(
    "make",
    [gated_copy, row_maximum, conversions, branch, panel, vectors],
    ids=lambda make: make.__name__,
)
def test_opencl_source(golden: Callable[[str, str], None], make: Callable[[], Program]) -> None:
    lanes = Capabilities(frozenset(OpenCLRenderer.type_names), C_OPS, vector_lanes=(1, 4))
    golden(f"{make.__name__}.cl", OpenCLRenderer(lanes).render(make()))


def meeting() -> Program:
    """Return a program: four work-items reverse four elements in shared memory."""
    i = build.special("item", 0, number(4), INT)
    shared = build.define_local("shared", INT, 4)
    source, target = (build.define_global(slot, INT, 4) for slot in (1, 0))
    fill = build.store(build.index(shared, i), build.load(build.index(source, i)))
    turned = build.load(build.index(shared, build.sub(3, i)))
    store = build.store(build.index(target, i), turned)
    before = toposort([fill])
    after = [node for node in toposort([store]) if node not in before]
    nodes = (*before, build.barrier(fill), *after)
    return Program("meeting", nodes, (out(INT, 4), given(1, INT, 4)), group=(4, 1, 1))


@pytest.mark.parametrize("make", [panel, meeting], ids=lambda make: make.__name__)
def test_gpu_source(golden: Callable[[str, str], None], make: Callable[[], Program]) -> None:
    golden(f"{make.__name__}.gpu.ll", LlvmGpuRenderer(22).render(make()))


def test_c_refuses_vectors() -> None:
    for lanes in ((1,), (1, 2, 8)):
        with pytest.raises(UserError, match=r"float32x4 has no C type here: accepted are bool, "):
            c_renderer(lanes).render(vectors())


@pytest.mark.parametrize("language", sorted(RENDERERS))
def test_a_node_of_another_machine_is_refused(language: str) -> None:
    memory = build.define_global(0, INT, 4)
    for scope, dim in (("item", 0), ("group", 1)):
        index = UOp(Ops.SPECIAL, INT, (number(4),), SpecialArg(scope, dim))
        nodes = closed(build.store(build.index(memory, index), number(1)))
        problem = f"SPECIAL: .* has no {scope} index of dimension {dim}: accepted are group"
        with pytest.raises(UserError, match=problem):
            RENDERERS[language].render(program("grouped", nodes, out(INT, 4)))
    barrier = build.barrier()
    with pytest.raises(UserError, match=r"BARRIER: .* print no such node"):
        RENDERERS[language].render(program("grouped", [barrier], out(INT, 4)))


@pytest.mark.parametrize("language", sorted(RENDERERS))
def test_a_type_without_a_name_is_refused(language: str) -> None:
    small = stored(build.const(dtypes.bfloat16, 1.0))
    with pytest.raises(UserError, match=r"bfloat16 has no .* type here: accepted are bool, "):
        RENDERERS[language].render(small)


def test_c_refuses_what_its_compiler_lacks() -> None:
    half = stored(build.const(dtypes.float16, 1.5))
    assert "data0[0] = ((_Float16)1.5f);" in CRenderer().render(half)
    with pytest.raises(UserError, match="float16 has no C type here"):
        c_renderer(accepted=C_DTYPES - {dtypes.float16}).render(half)


def test_a_variable_that_c_cannot_name_has_its_number() -> None:
    size = build.variable("batch size", 1, 4, INT)
    assert "int var_0 = variables[0];" in CRenderer().render(stored(size))


@pytest.mark.parametrize("language", sorted(RENDERERS))
def test_a_program_that_does_not_hold_together_is_refused(language: str) -> None:
    render = RENDERERS[language].render
    memory = build.define_global(1, INT, 4)
    nodes = closed(build.store(build.index(memory, number(3)), number(1)))
    with pytest.raises(UserError, match=r"slot 1: the program has parameters for slots \[0\]"):
        render(program("k", nodes, out(INT, 4)))
    with pytest.raises(UserError, match="slot 1: has 16 bytes, its parameter 12"):
        render(program("k", nodes, Parameter(1, INT, 3, True, False)))
    rest = [node for node in nodes if node.op is not Ops.INDEX]
    with pytest.raises(UserError, match="INDEX: is used before it is computed"):
        render(program("k", rest, Parameter(1, INT, 4, True, False)))
    size = build.variable("n", 1, 4, INT)
    with pytest.raises(UserError, match=r"does not list .*n.* as a variable"):
        render(Program("k", (size,), ()))


def named(name: str) -> Program:
    value = build.unary(Ops.EXP2, build.const(dtypes.float32, 1.0))
    return replace(stored(value), name=name)


# LLVM aborts the whole process on a function without a name.
@pytest.mark.table
@pytest.mark.parametrize(
    "name", ["", "1a", "a b", 'a"b', "no name", "llvm.sqrt.f32", "caf\u00e9", "x" * 256]
)
@pytest.mark.parametrize("language", sorted(RENDERERS))
def test_names_that_no_function_can_have(language: str, name: str) -> None:
    quoted = re.escape(repr(name) if len(name) < 256 else "'xxxxxxxxxxxxxxxxxxxx...'")
    with pytest.raises(UserError, match=rf"{quoted} cannot be the name of an? (C|LLVM) function"):
        RENDERERS[language].render(named(name))


# Keywords of OpenCL C, CUDA C and WGSL as well: the prefix makes all of them harmless.
@pytest.mark.table
@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        *(
            (name, False)
            for name in ("int", "_Bool", "float32x4", "main", "rotate", "__global", "fn")
        ),
        ("memcpy", True),
        ("exp2f", True),
    ],
)
def test_words_of_a_language_are_names(name: str, is_refused: bool) -> None:
    # Except functions that compilers of LLVM IR call on their own: LLVM IR has no prefix.
    renderer = CRenderer()
    assert renderer.entry_name(named(name)) == f"k_{name}"
    head = f"void k_{name}(void **buffers, const int *variables) {{"
    assert head in renderer.render(named(name))
    if is_refused:
        with pytest.raises(UserError, match=r"cannot be the name of an LLVM function"):
            LlvmRenderer().render(named(name))


@pytest.mark.parametrize("flag", [0, 1])
def test_only_what_the_flag_allows_may_be_contracted(flag: int) -> None:
    x, whole = loaded(1, dtypes.float32), loaded(2, INT)
    value = build.sub(build.add(build.mul(x, x), 1.0), build.binary(Ops.FDIV, x, 3.0))
    with Context(STRICT_FLOAT=flag):
        text = LlvmRenderer().render(stored(value))
        integers = LlvmRenderer().render(stored(build.add(whole, 1)))
    expected = "float" if flag else "contract float"
    for line in ("fmul", "fadd", "fsub"):
        assert f" = {line} {expected} " in text
    assert " = fdiv float " in text
    assert " = add i32 " in integers
    for fast in ("fast", "reassoc", "nnan", "ninf", "nsz", "arcp", "afn"):
        assert f" {fast} " not in text


def test_a_loop_that_may_not_run_tests_first() -> None:
    for least, label in ((0, ".head:"), (1, ".body:")):
        size = build.variable("n", least, 4, INT)
        i = loop(size)
        memory = build.define_global(0, INT, 4)
        nodes = closed(build.store(build.index(memory, i), i))
        subject = Program("k", tuple(nodes), (out(INT, 4),), (size,))
        text = LlvmRenderer().render(subject)
        assert (".head:" in text) == (label == ".head:")
        assert ".body:" in text


@pytest.mark.parametrize("language", sorted(RENDERERS))
def test_a_node_without_its_payload_is_refused(language: str) -> None:
    pointer = build.define_global(0, INT, 1).dtype
    nodes = [UOp(Ops.DEFINE_GLOBAL, pointer, (), LocalArg("not a slot"))]
    with pytest.raises(UserError, match="DEFINE_GLOBAL: needs a payload SlotArg"):
        RENDERERS[language].render(program("bad", nodes))
    memory = UOp(Ops.DEFINE_GLOBAL, INT, (), SlotArg(0))
    nodes = [memory, build.index(memory, number(0))]
    with pytest.raises(UserError, match="int32 is not a pointer"):
        RENDERERS[language].render(program("bad", nodes, out(INT, 1)))


def test_declarations_of_a_block_are_seen_after_it() -> None:
    first, second = loop(4, 0), loop(4, 1)
    shift = build.variable("shift", 0, 9, INT)
    shared, result = build.define_local("shared", INT, 4), build.define_global(0, INT, 4)
    put = build.store(build.index(shared, first), build.add(first, shift))
    again = build.add(build.load(build.index(shared, second)), shift)
    get = build.store(build.index(result, second), again)
    ends = [build.close(node) for node in (first, second)]
    # All definitions are in the first loop, although the second one uses them too.
    before = dict.fromkeys(toposort([first]) + toposort([put]) + toposort([result]))
    after = [node for node in toposort([get]) if node not in before]
    subject = program("blocks", [*before, ends[0], *after, ends[1]], out(INT, 4))
    lines = [line.strip() for line in CRenderer().render(subject).splitlines()]
    start = lines.index("void k_blocks(void **buffers, const int *variables) {")
    assert sorted(lines[start + 1 : start + 4]) == [
        "int *data0 = buffers[0];",
        "int local2[4] __attribute__((aligned(64)));",
        "int var_shift = variables[0];",
    ]
    assert lines[start + 4] == "for (int i1 = 0; i1 < 4; i1++) {"


def test_a_pointer_is_shared_within_its_loop_or_condition_alone() -> None:
    size, more = build.variable("n", 0, 9, INT), build.variable("m", 0, 9, INT)
    result = build.define_global(0, INT, 20)
    inner = loop(size)
    opened = build.branch(build.less(more, 5))
    writes = [
        build.store(build.index(result, build.add(more, distance)), number(distance))
        for distance in (1, 2, 3)
    ]
    parts: list[UOp] = []
    for write, before, after in zip(
        writes,
        ([inner], [opened], []),
        ([build.close(inner)], [build.close(opened)], []),
        strict=True,
    ):
        known = {*parts, *before}
        parts += [node for node in toposort([*before]) if node not in parts]
        parts += [node for node in toposort([write]) if node not in known and node not in parts]
        parts += after
    text = LlvmRenderer().render(program("k", parts, out(INT, 20)))
    # The loop may not run and the condition may not hold, so each has its own pointer.
    assert text.count(" = getelementptr inbounds") == 3 + 3
    llvm.parse_assembly(text).verify()
