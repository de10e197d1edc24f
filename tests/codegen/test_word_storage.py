"""8- and 16-bit memory as words: neighbours stay, wherever in a word a buffer begins."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tinyref.capabilities import Capabilities, problem_of
from tinyref.codegen.compile import compile_kernel
from tinyref.codegen.decompose import decompose, small_integers
from tinyref.codegen.decompose.small_integers import emulate_small_integers
from tinyref.codegen.linearise import linearise
from tinyref.codegen.narrow import narrow_index
from tinyref.contract import Backend
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.interpret import run_program
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.host.clang import ClangBackend
from tinyref.runtimes.kernel import BoundKernel, compile_ast, forget_kernels
from tinyref.runtimes.python import PythonBackend
from tinyref.uops import build
from tinyref.uops.node import UOp, toposort
from tinyref.uops.ops import ALU, Ops
from tinyref.uops.program import STORABLE_IN_WORDS, Parameter, Program, offset_name, word_count
from tinyref_spec.kernels.notation import load, shaped, store

WORDS = frozenset(STORABLE_IN_WORDS)
INTEGERS = tuple(dtype for dtype in STORABLE_IN_WORDS if dtype is not dtypes.bool)
HELD = frozenset({*INTEGERS, *dtypes.fp8s, dtypes.bfloat16})
OPS = frozenset(op.name for op in ALU) | {"LOAD", "STORE"}
EVERY = pytest.mark.parametrize("dtype", STORABLE_IN_WORDS, ids=lambda dtype: dtype.name)
# More than a word of each type, and no multiple of one.
SIZE = 13


def in_words(own: Capabilities) -> Capabilities:
    """Return a device with small types in registers, whose memory has only words."""
    return dataclasses.replace(own, stored_in_words=WORDS & own.dtypes, threads=1)


def without_small_types(own: Capabilities) -> Capabilities:
    """Return a device that also computes in 32 bits."""
    lacking = HELD & own.dtypes | {dtypes.bfloat16, *dtypes.fp8s}
    return dataclasses.replace(
        own,
        dtypes=own.dtypes - HELD,
        emulated=(own.emulated | lacking) - (own.dtypes - HELD),
        stored_in_words=WORDS,
        matrix_tiles=(),
    )


def changed(parent: type[Backend], change: Callable[[Capabilities], Capabilities]) -> type[Backend]:
    class Changed(parent):  # type: ignore[misc, valid-type]
        @property
        def capabilities(self) -> Capabilities:
            return change(super().capabilities)

    return Changed


DEVICES = {
    "python-words": (PythonBackend, in_words),
    "python-emulated": (PythonBackend, without_small_types),
    "gcc-emulated": (ClangBackend, without_small_types),
}


@pytest.fixture(autouse=True)
def _no_kernels_of_other_capabilities() -> Iterator[None]:
    forget_kernels()
    yield
    forget_kernels()


@pytest.fixture(params=sorted(DEVICES))
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    parent, change = DEVICES[request.param]
    if parent is ClangBackend and shutil.which("gcc") is None:
        pytest.skip("the compiler gcc is not installed")
    name = "PYTHON" if parent is PythonBackend else "CLANG"
    monkeypatch.setenv("TINYREF_CC", "gcc")
    backend = changed(parent, change)()
    assert problem_of(backend.capabilities) is None
    monkeypatch.setitem(Device._open, name, backend)
    return name


def numbers(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return drawn & 1 == 1 if dtype.is_bool else drawn.view(numpy_dtype(dtype))


def placed(device: str, dtype: DType, data: np.ndarray, skipped: int) -> tuple[Buffer, Buffer]:
    """Return a buffer of bytes 0xA5 around data that begin after `skipped` elements; the data."""
    base = Buffer(device, 64, dtypes.uint8).copy_in(memoryview(np.full(64, 0xA5, np.uint8)))
    part = base.view(skipped * dtype.itemsize, data.size, dtype)
    return base, part.copy_in(memoryview(data).cast("B"))


@pytest.mark.parametrize("size", [1, 4, 13])
def test_memory_that_is_larger_than_its_bytes_is_copied_into_a_view_and_from_one(
    device: str, size: int
) -> None:
    """Fail if an allocator gets the memory of whole words, and so copies all of it."""
    operands = np.arange(1, size + 1, dtype=np.uint8)
    whole = Buffer(device, size, dtypes.uint8).copy_in(memoryview(operands))
    base, part = placed(device, dtypes.uint8, np.zeros(size, np.uint8), 3)
    part.copy_from(whole)
    expected = np.full(64, 0xA5, np.uint8)
    expected[3 : 3 + size] = operands
    assert bytes(base.copy_out()) == expected.tobytes()
    again = Buffer(device, size, dtypes.uint8).copy_from(part)
    assert bytes(again.copy_out()) == operands.tobytes()


@pytest.mark.sampled(3)
@EVERY
@pytest.mark.parametrize("skipped", [1, 2, 3, 4])
def test_views_begin_anywhere_and_their_neighbours_stay(
    device: str, dtype: DType, skipped: int
) -> None:
    """Fail if the offset, the mask or the shift of any lane is wrong."""
    x = numbers(dtype, SIZE)
    ast = build.sink(store(0, load(1, dtype, shaped(SIZE)), shaped(SIZE)))
    base, out = placed(device, dtype, np.zeros(SIZE, x.dtype), skipped)
    _, operands = placed(device, dtype, x, 5 - skipped)
    compile_ast(device, ast)([out, operands])
    whole = np.full(64, 0xA5, np.uint8)
    first = skipped * dtype.itemsize
    whole[first : first + x.nbytes] = x.view(np.uint8)
    assert (np.frombuffer(base.copy_out(), np.uint8) == whole).all()


@EVERY
def test_a_repeated_launch_gets_buffers_that_begin_elsewhere(device: str, dtype: DType) -> None:
    x = numbers(dtype, SIZE)
    ast = build.sink(store(0, load(1, dtype, shaped(SIZE)), shaped(SIZE)))
    _, operands = placed(device, dtype, x, 1)
    _, first = placed(device, dtype, np.zeros(SIZE, x.dtype), 0)
    _, second = placed(device, dtype, np.zeros(SIZE, x.dtype), 3)
    bound = BoundKernel(compile_ast(device, ast), [first, operands], {})
    launch = bound.prepare()
    bound.rebind(0, second)
    launch()
    assert bytes(second.copy_out()) == x.tobytes()
    assert not any(first.copy_out())


@EVERY
def test_values_are_computed_and_stored_as_numpy_does(device: str, dtype: DType) -> None:
    x, y = numbers(dtype, SIZE, 1), numbers(dtype, SIZE, 2)
    op = np.bitwise_xor if dtype.is_bool else np.multiply
    value = build.binary(
        Ops.XOR if dtype.is_bool else Ops.MUL,
        *(load(slot, dtype, shaped(SIZE)) for slot in (1, 2)),
    )
    buffers = [placed(device, dtype, data, 0)[1] for data in (np.zeros_like(x), x, y)]
    compile_ast(device, build.sink(store(0, value, shaped(SIZE))))(buffers)
    assert bytes(buffers[0].copy_out()) == op(x, y).tobytes()


@EVERY
def test_gates_touch_nothing_and_give_the_alternative(device: str, dtype: DType) -> None:
    """Pad: outside, the load is off and returns 0."""
    x = numbers(dtype, SIZE, 3)
    padded = shaped(SIZE).pad(((2, 3),))
    ast = build.sink(store(0, load(1, dtype, padded), shaped(SIZE + 5)))
    _, out = placed(device, dtype, numbers(dtype, SIZE + 5, 4), 1)
    _, operands = placed(device, dtype, x, 0)
    compile_ast(device, ast)([out, operands])
    assert bytes(out.copy_out()) == np.pad(x, (2, 3)).tobytes()


@pytest.mark.sampled(3)
@EVERY
@pytest.mark.parametrize("opts", ["UPCAST(0,4)", "UPCAST(0,2)"])
def test_vectors_are_stored_lane_by_lane(device: str, dtype: DType, opts: str) -> None:
    x = numbers(dtype, 16, 5)
    ast = build.sink(store(0, load(1, dtype, shaped(16)), shaped(16)))
    base, out = placed(device, dtype, np.zeros(16, x.dtype), 1)
    _, operands = placed(device, dtype, x, 3)
    compile_ast(device, ast, parse_opts(opts))([out, operands])
    assert bytes(out.copy_out()) == x.tobytes()
    assert np.frombuffer(base.copy_out(), np.uint8)[0] == 0xA5


@pytest.mark.table
@EVERY
def test_memory_that_a_group_shares_is_in_words(dtype: DType) -> None:
    """Work-items write neighbours of one word, and read each other's after the barrier."""
    grid = Capabilities(frozenset(dtypes.all), OPS, has_grid=True, has_groups=True)
    capabilities = dataclasses.replace(grid, stored_in_words=WORDS, shared_bytes=1 << 10)
    item = build.special("item", 0, 8)
    shared = build.define_local("shared", dtype, 8)
    put = build.store(
        build.index(shared, item), build.load(build.index(build.define_global(1, dtype, 8), item))
    )
    filled = build.after(shared, build.barrier(put))
    took = build.load(build.index(filled, build.sub(build.const(dtypes.index, 7), item)))
    root = build.sink(build.store(build.index(build.define_global(0, dtype, 8), item), took))
    done = small_integers.store_in_words(root, WORDS)
    locals_ = [node.dtype for node in done.toposort() if node.op is Ops.DEFINE_LOCAL]
    assert [(memory.base, memory.size) for memory in locals_] == [
        (dtypes.uint32, 8 * dtype.itemsize // 4)
    ]
    from_pipeline = _linearised(root, dtype, capabilities)
    x, out = numbers(dtype, 8, 6), numbers(dtype, 8, 7)
    run_program(from_pipeline, [out, x])
    assert (out == x[::-1]).all()


def _linearised(root: UOp, dtype: DType, capabilities: Capabilities) -> Program:
    uops = linearise(narrow_index(decompose(root, capabilities), capabilities))
    variables = tuple(node for node in uops if node.op is Ops.DEFINE_VAR)
    parameters = (Parameter(0, dtype, 8, True, False), Parameter(1, dtype, 8, False, True))
    return Program("shared", uops, parameters, variables, (1, 1, 1), (8, 1, 1))


def test_the_words_that_elements_reach_into() -> None:
    assert [word_count(dtypes.int8, size, is_shifted=False) for size in (1, 4, 5)] == [1, 1, 2]
    assert [word_count(dtypes.int8, size, is_shifted=True) for size in (1, 2, 5, 6)] == [1, 2, 2, 3]
    assert [word_count(dtypes.int16, size, is_shifted=True) for size in (1, 2, 3)] == [1, 2, 2]


def test_a_program_says_where_its_buffers_begin() -> None:
    capabilities = Capabilities(frozenset(dtypes.all), OPS, stored_in_words=WORDS)
    ast = build.sink(store(0, load(1, dtypes.int8, shaped(5)), shaped(5)))
    program = compile_kernel(ast, capabilities)
    assert [(item.dtype, item.size) for item in program.parameters] == [(dtypes.int8, 5)] * 2
    assert [node.arg.name for node in program.variables] == [offset_name(0), offset_name(1)]
    stores = [node for node in program.uops if node.op is Ops.STORE]
    assert all(len(node.src) == 4 for node in stores)


def test_arrays_that_end_within_a_word_are_read_and_written_to_their_end() -> None:
    """Test only the interpreter: devices allocate whole words."""
    capabilities = Capabilities(frozenset(dtypes.all), OPS, stored_in_words=WORDS)
    doubled = build.add(load(1, dtypes.int8, shaped(5)), load(1, dtypes.int8, shaped(5)))
    out = np.full(5, 77, np.int8)
    program = compile_kernel(build.sink(store(0, doubled, shaped(5))), capabilities)
    run_program(program, [out, np.array([1, -2, 3, -4, 5], np.int8)])
    assert out.tolist() == [2, -4, 6, -8, 10]
    written = build.sink(store(0, build.const(dtypes.int8, 1), shaped(2)))
    run_program(compile_kernel(written, capabilities), [out])
    assert out.tolist() == [1, 1, 6, -8, 10]


def test_without_the_capability_memory_stays_as_it_is() -> None:
    capabilities = Capabilities(frozenset(dtypes.all), OPS)
    ast = build.sink(store(0, load(1, dtypes.int8, shaped(5)), shaped(5)))
    program = compile_kernel(ast, capabilities)
    assert not program.variables
    assert all(len(node.src) < 4 for node in program.uops if node.op is Ops.STORE)


def test_a_store_by_a_mask_changes_its_bits_alone_also_in_lanes_of_one_word() -> None:
    """Write the four bytes of one word by all work-items at once, on the interpreter."""
    item = build.special("item", 0, 4, dtypes.int32)
    out = build.define_global(0, dtypes.uint32, 1)
    shift = build.mul(build.cast(item, dtypes.uint32), 8)
    mask = build.binary(Ops.SHL, build.const(dtypes.uint32, 0xF), shift)
    zero = build.const(dtypes.int32, 0)
    # Bits outside of the mask are not written.
    value = build.const(dtypes.uint32, 0xFFFFFFFF)
    gate = build.less(item, 3)
    node = UOp(Ops.STORE, dtypes.void, (build.index(out, zero), value, gate, mask))
    program = Program(
        "masks",
        tuple(toposort((node,))),
        (Parameter(0, dtypes.uint32, 1, True, False),),
        (),
        (1, 1, 1),
        (4, 1, 1),
    )
    word = np.array([0x70707070], np.uint32)
    run_program(program, [word])
    assert word[0] == 0x707F7F7F


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stored_in_words": frozenset({dtypes.float32})}, "stored_in_words has float32"),
        ({"stored_in_words": frozenset({dtypes.int8})}, "stored_in_words has int8"),
        ({"emulated": frozenset({dtypes.int8})}, "emulated has int8 and stored_in_words has not"),
        ({"stored_in_words": [dtypes.bool]}, "stored_in_words is"),
    ],
)
def test_what_cannot_be_in_words_is_refused(change: dict[str, object], words: str) -> None:
    core = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
    problem = problem_of(dataclasses.replace(Capabilities(core, OPS), **change))  # type: ignore[arg-type]
    assert problem is not None
    assert problem.startswith(words)


def test_small_integers_in_memory_are_never_left_to_their_emulation() -> None:
    memory = build.define_global(0, dtypes.int8, 1)
    root = build.sink(build.store(build.index(memory, build.const(dtypes.index, 0)), _one()))
    with pytest.raises(UserError, match="STORE of void: this type is only emulated here"):
        emulate_small_integers(root, frozenset(INTEGERS))


def _one() -> UOp:
    return build.const(dtypes.int8, 1)


@pytest.mark.table
@pytest.mark.parametrize("opts", ["", "UPCAST(0,4)"])
@pytest.mark.parametrize(
    ("have", "want"), [(dtypes.int16, dtypes.float16), (dtypes.float16, dtypes.uint16)]
)
def test_the_bits_of_a_float16_are_moved_as_bits(have: DType, want: DType, opts: str) -> None:
    """Copy a NaN, which a float register might change."""
    grid = Capabilities(frozenset(dtypes.all), OPS, vector_lanes=(1, 2, 4))
    capabilities = without_small_types(grid)
    assert dtypes.float16 in capabilities.dtypes
    value = build.bitcast(load(1, have, shaped(8)), want)
    program = compile_kernel(
        build.sink(store(0, value, shaped(8))), capabilities, opts=parse_opts(opts)
    )
    assert not any(node.dtype.scalar.is_float for node in program.uops)
    x = np.arange(0x7C01, 0x7C09, dtype=np.uint16).view(numpy_dtype(have))
    out = np.zeros(8, numpy_dtype(want))
    run_program(program, [out, x])
    assert out.tobytes() == x.tobytes()
