"""Kernels: what they check before they run, what they keep, and symbolic launches."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elementwise_programs import elementwise, read, run_cases
from hosts import HOSTS, each_device

from tinyref.codegen.linearise import linearise
from tinyref.config import Context
from tinyref.contract import Backend, Compiler, Launchable, entry_point
from tinyref.device import Buffer, Device
from tinyref.dtype import DType, dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.optimise.opt import parse_opts
from tinyref.runtimes.cache import cache_key, default_cache
from tinyref.runtimes.host import cpu
from tinyref.runtimes.host.clang import toolchain
from tinyref.runtimes.kernel import (
    Kernel,
    Recent,
    compile_ast,
    compile_program,
    forget_kernels,
)
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.program import Parameter, Program
from tinyref_spec.kernel.programs import at, loop, program
from tinyref_spec.kernels.named import multiplied
from tinyref_spec.kernels.notation import kernel_of, load

FLOAT, INT = dtypes.float32, dtypes.int32


device = each_device(HOSTS)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget_kernels()
    yield
    forget_kernels()


def scale_first(size: int = 16) -> Program:
    """out[i] = in[i] * 2 + n for the first n elements."""
    count = build.variable("n", 0, size, INT)
    i = loop(count, 0)
    out, source = (build.define_global(slot, FLOAT, size) for slot in (0, 1))
    total = build.add(build.mul(build.load(at(source, i)), 2.0), build.cast(count, FLOAT))
    kernel = program("scale_first", build.store(at(out, i), total), build.close(i))
    return replace(kernel, variables=(count,))


def given(device: str, values: list[float], dtype: DType = FLOAT) -> Buffer:
    array = np.array(values, dtype.name)
    return Buffer(device, array.size, dtype).copy_in(memoryview(array))


def floats(buffer: Buffer) -> list[float]:
    result: list[float] = np.frombuffer(buffer.copy_out(), np.float32).tolist()
    return result


@pytest.mark.parametrize("count", [0, 1, 3, np.int64(16)])
def test_a_variable_is_given_at_launch(device: str, count: int) -> None:
    """Also with a buffer that is larger than what the kernel reaches."""
    kernel = compile_program(device, scale_first())
    out = given(device, [-1.0] * 20)
    assert kernel([out, given(device, list(range(16)))], {"n": count}) is None
    assert floats(out) == [2.0 * i + count for i in range(count)] + [-1.0] * (20 - count)


def test_a_kernel_is_compiled_once_and_knows_where_it_came_from(device: str) -> None:
    scaled = scale_first()
    kernel = compile_program(device, scaled)
    assert compile_program(device.lower(), scale_first()) is kernel
    assert kernel.program is scaled
    assert "scale_first" in kernel.source
    assert kernel.device == device
    assert repr(kernel) == f"Kernel('scale_first' on {device})"


def wrong_buffers(device: str) -> list[tuple[list[Any], str]]:
    good = given(device, [0.0] * 16)
    bytes_ = given(device, [0] * 200, dtypes.uint8)
    return [
        (["out", good], "buffer 0: got str, accepted is a Buffer"),
        ([good], "got 1 buffers, the kernel takes 2"),
        ([good, given(device, [0] * 16, INT)], "buffer 1: holds int32, accepted is float32"),
        ([given(device, [0.0] * 15), good], "buffer 0: has 15 elements, the kernel reaches 16"),
        ([good, Buffer("NPY", 16, FLOAT)], f"buffer 1: is on NPY, the kernel runs on {device}"),
        (
            [bytes_.view(3, 16, FLOAT), good],
            "buffer 0: starts 3 bytes in, accepted are multiples of 4",
        ),
    ]


@pytest.mark.parametrize("which", range(6))
def test_buffers_that_do_not_fit_are_refused(device: str, which: int) -> None:
    buffers, message = wrong_buffers(device)[which]
    with pytest.raises(UserError, match=f"scale_first: {message}"):
        compile_program(device, scale_first())(buffers, {"n": 1})


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ({}, "variable n has no value"),
        ({"n": 17}, "variable n is 17, accepted is 0 to 16"),
        ({"n": -1}, "variable n is -1, accepted is 0 to 16"),
        ({"n": 2.5}, "variable n is 2.5, accepted are integers"),
        ({"n": "2"}, "variable n is '2', accepted are integers"),
    ],
)
def test_values_of_variables_are_checked(
    device: str, bindings: dict[str, Any], message: str
) -> None:
    buffers = [given(device, [0.0] * 16)] * 2
    with pytest.raises(UserError, match=message):
        compile_program(device, scale_first())(buffers, bindings)


def test_a_launch_of_more_than_threads_is_refused(device: str) -> None:
    kernel = compile_program(device, scale_first())
    entry = entry_point(Device[device].renderer, kernel.program)
    launch = Device[device].load(entry, Device[device].compiler.compile(kernel.source))
    for grid, group in (((1, 2, 1), (1, 1, 1)), ((1, 1, 3), (1, 1, 1)), ((2, 1, 1), (2, 1, 1))):
        with pytest.raises(UserError, match="has launch indices for threads alone"):
            launch([], grid=grid, group=group)


def test_too_many_buffers_are_refused(device: str) -> None:
    limit = Device[device].capabilities.buffer_limit
    parameters = tuple(Parameter(slot, FLOAT, 1, True, False) for slot in range(limit + 1))
    with pytest.raises(UserError, match=f"takes {limit + 1} buffers: accepted are {limit}"):
        compile_program(device, Program("wide", (), parameters))


def test_other_threads_run_meanwhile(device: str) -> None:
    """Release the interpreter lock in a kernel, which counts long enough to show it."""
    i = loop(10_000_000, 0)
    address = at(build.define_global(0, INT, 1), 0)
    # A chain that no compiler folds: each step divides by what the last one left.
    step = build.add(build.mod(build.mul(build.load(address), 1103515245), 65537), i)
    kernel = compile_program(device, program("slow", i, build.store(address, step), build.close(i)))
    buffer = given(device, [1], INT)
    thread = threading.Thread(target=kernel, args=([buffer],))
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks >= 5


def square_sum() -> UOp:
    x = load(1, FLOAT, (4, 8))
    return kernel_of(multiplied(x, x, 1), 4, 1)


def test_optimisations_may_come_one_by_one(device: str) -> None:
    opts = parse_opts("UNROLL(1, 0)")
    plain = compile_ast(device, square_sum(), opts=())
    unrolled = compile_ast(device, square_sum(), opts=iter(opts))  # type: ignore[arg-type]
    assert unrolled.source != plain.source
    assert compile_ast(device, square_sum(), opts=list(opts)) is unrolled


@pytest.mark.parametrize("opts", ["UNROLL(0, 0)", [[1]], 3], ids=repr)
def test_what_is_no_optimisation_is_refused(device: str, opts: object) -> None:
    with pytest.raises(UserError, match=r"^optimisations: "):
        compile_ast(device, square_sum(), opts=opts)  # type: ignore[arg-type]


def test_a_kernel_ast_is_compiled_once_per_setting(device: str) -> None:
    first = compile_ast(device, square_sum())
    assert compile_ast(device, square_sum()) is first
    with Context(STRICT_FLOAT=0):
        assert isinstance(compile_ast(device, square_sum()), Kernel)
    assert compile_ast(device, square_sum()) is first


def test_the_longest_unused_kernels_are_forgotten() -> None:
    recent: Recent[str] = Recent(2)
    recent.put("a", "1")
    recent.put("b", "2")
    assert recent.get("a") == "1"
    recent.put("c", "3")
    assert [recent.get(key) for key in "abc"] == ["1", None, "3"]


class _Key:
    """Hashed and compared in Python, as programs are: threads are switched there."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.number == self.number


@pytest.mark.long
def test_threads_may_share_the_kernels_that_are_kept() -> None:
    stored: Recent[int] = Recent(1)
    errors: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 10_000):
                stored.put(_Key(number % 3), number)
                stored.get(_Key(number % 3))
        except KeyError as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    # An entry that one thread finds, another may forget before it is marked as used.
    assert not errors


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_product_and_sum_are_fused(level: int) -> None:
    random = np.random.default_rng(6)
    x, y, z = (random.standard_normal(4096).astype(np.float32) for _ in range(3))
    z[:] = -(x * y)
    with Context(CPU_LEVEL=level):
        (got,) = run_cases(
            [(lambda a, b, c: build.add(build.mul(a, b), c), [(x, FLOAT), (y, FLOAT), (z, FLOAT)])],
            "CPU",
        )
    assert not got.any()


def test_contraction_is_by_flag(device: str) -> None:
    """(1 + e)(1 - e) - 1 is -e * e with one rounding, and 0 if the product rounds to 1 first."""
    x = (1 + 2.0**-13, 1 - 2.0**-13, -1.0)
    program = elementwise([(lambda a, b, c: build.add(build.mul(a, b), c), [FLOAT] * 3)], 4, device)
    inputs = [given(device, [value] * 4) for value in x]
    results: dict[int, set[float]] = {0: set(), 1: set()}
    # Twice each: a kernel that is kept for one value of the flag is not one for the other.
    for strict in (1, 0, 1, 0):
        with Context(STRICT_FLOAT=strict):
            out = given(device, [7.0] * 4)
            compile_program(device, program)([out, *inputs])
            results[strict].update(floats(out))
    assert results[1] == {0.0}
    has_fma = cpu.llvm.get_host_cpu_features().get("fma", False)
    is_contracted = has_fma and (device == "CPU" or toolchain().name != "tcc")
    assert results[0] == {-(2.0**-26) if is_contracted else 0.0}


def test_memory_is_read_again_after_it_has_changed(device: str) -> None:
    """data[0] is read, raised by 5, read again, set to what it was, and read once more."""
    data, out = build.define_global(0, INT, 1), build.define_global(1, INT, 3)

    def at(memory: UOp, position: int = 0) -> UOp:
        return build.index(memory, build.const(INT, position))

    first = build.load(at(data))
    raised = build.store(at(build.after(data, first)), build.add(first, 5))
    second = build.load(at(build.after(data, raised)))
    reset = build.store(at(build.after(data, second)), first)
    third = build.load(at(build.after(data, reset)))
    stores = [
        build.store(at(out, position), x) for position, x in enumerate((first, second, third))
    ]
    parameters = (Parameter(0, INT, 1, True, True), Parameter(1, INT, 3, True, False))
    program = Program("repeats", linearise(build.sink(*stores)), parameters)
    buffers = [given(device, [7], INT), given(device, [0, 0, 0], INT)]
    compile_program(device, program)(buffers)
    assert [read(buffer).tolist() for buffer in buffers] == [[7], [7, 12, 7]]


def test_llvm_says_what_it_does_not_like() -> None:
    with pytest.raises(DeviceError, match="CPU: LLVM refused the source") as caught:
        Device["CPU"].compiler.compile("define void @f() { nonsense }")
    assert "nonsense" in caught.value.source


def test_a_missing_symbol_is_an_error_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "declare void @no_such_function()\n"
    source += "define void @f(ptr %a, ptr %b) { call void @no_such_function()\nret void }"
    with pytest.raises(DeviceError, match="no function no_such_function"):
        Device["CPU"].compiler.compile(source)
    monkeypatch.setattr(cpu.LlvmCompiler, "_check_symbols", lambda *arguments: None)
    binary = Device["CPU"].compiler.compile(source)
    with pytest.raises(DeviceError, match="cannot link f"):
        Device["CPU"].load("f", binary)


def test_a_missing_entry_is_an_error(device: str) -> None:
    kernel = compile_program(device, scale_first())
    binary = Device[device].compiler.compile(kernel.source)
    with pytest.raises(DeviceError, match="other_name"):
        Device[device].load("other_name", binary)


@pytest.mark.parametrize(
    "error", [None, ValueError("bad magic"), DeviceError("X", "torn"), MemoryError()]
)
def test_whatever_a_cached_binary_raises_it_is_compiled_again_once(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Compile it once more after any error; None is the error of the device itself."""
    program = scale_first(29)
    backend = type(Device[device])
    loaded, compiled = [], []
    load, build = backend.load, type(Device[device].compiler).compile

    def fragile(self: Backend, entry: str, binary: bytes) -> Launchable:
        loaded.append(binary)
        if binary == b"stale" and error is not None:
            raise error
        return load(self, entry, binary)

    def counted(self: Compiler, source: str) -> bytes:
        compiled.append(source)
        return build(self, source)

    with Context(CACHE_DIR=str(tmp_path)):
        kernel = compile_program(device, program)
        default_cache().put(cache_key(Device[device], kernel.source), b"stale")
        monkeypatch.setattr(backend, "load", fragile)
        monkeypatch.setattr(type(Device[device].compiler), "compile", counted)
        for _ in range(2):
            forget_kernels()
            compile_program(device, program)
        default_cache().close()
    # The second time it is fetched, whole.
    assert len(loaded) == 3
    assert loaded[0] == b"stale"
    assert loaded[1] == loaded[2]
    assert len(compiled) == 1


def test_kernels_outlive_the_linker_that_loaded_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "KERNELS_PER_LINKER", 1)
    programs = [scale_first(size) for size in (16, 17, 18, 19)]
    kernels = [compile_program("CPU", program) for program in programs]
    for size, kernel in zip((16, 17, 18, 19), kernels, strict=True):
        out = given("CPU", [0.0] * size)
        kernel([out, given("CPU", [1.0] * size)], {"n": size})
        assert floats(out) == [2.0 + size] * size
