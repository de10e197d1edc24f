"""The corpus of kernels: diverse, valid, exact, and the same by every way to compute them."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import PtrDType, dtypes
from tinyref.errors import UserError, VerifyError
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge.judge import measured_outputs
from tinyref_spec.kernels.corpus import check, corpus_kernels
from tinyref_spec.kernels.family import TAGS, CorpusKernel
from tinyref_spec.kernels.notation import Sketch, below_diagonal, shaped, total

KERNELS = tuple(corpus_kernels().values())
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def evaluated(kernel: CorpusKernel) -> dict[int, np.ndarray]:
    return evaluate(kernel.ast, dict(enumerate(kernel.buffers())), kernel.bindings)


def test_there_are_enough_kernels_and_each_kind_is_there():
    assert len(KERNELS) >= 100
    assert {tag for kernel in KERNELS for tag in kernel.tags} == TAGS
    assert len({kernel.ast for kernel in KERNELS}) == len(KERNELS)


def test_every_type_of_integer_and_three_floats_are_stored():
    stored = {
        node.dtype.base.name
        for kernel in KERNELS
        for node in kernel.ast.toposort()
        if isinstance(node.dtype, PtrDType)
    }
    integers = {f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)}
    assert stored >= integers | {"bool", "float16", "bfloat16", "float32", "float64"}


def test_every_op_on_exact_values_is_there():
    ops = {node.op for kernel in KERNELS for node in kernel.ast.toposort()}
    inexact = {Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.FDIV, Ops.POW}
    arithmetic = {op for op in (*Ops,) if op.name in Device["PYTHON"].capabilities.ops}
    assert arithmetic - inexact - {Ops.TRUNC, Ops.THREEFRY} <= ops


@pytest.mark.sampled(5)
@each_kernel
def test_results_are_exact_and_depend_on_the_data(kernel):
    first = evaluated(kernel)
    again = evaluate(kernel.ast, dict(enumerate(kernel.buffers(1))), kernel.bindings)
    for values in first.values():
        if values.dtype.kind not in "biu":
            wide = values.astype(np.float64)
            assert np.array_equal(wide, np.trunc(wide))
    no_data = {"nothing", "sum-of-nothing", "count-up"}
    if kernel.name not in no_data:
        assert any(not np.array_equal(first[slot], again[slot]) for slot in first)


@pytest.mark.sampled(5)
@each_kernel
def test_evaluator_interpreter_and_cpu_agree(kernel):
    expected = evaluated(kernel)
    program = compile_kernel(kernel.ast, Device["PYTHON"].capabilities)
    arrays = [buffer.copy() for buffer in kernel.buffers()]
    run_program(program, arrays, kernel.bindings)
    on_cpu = measured_outputs("CPU", kernel.ast, kernel.buffers(), kernel.bindings)
    for slot, values in expected.items():
        np.testing.assert_array_equal(arrays[slot], values, "interpreter")
        np.testing.assert_array_equal(on_cpu[slot], values, "CPU")


# --- against literals ---------------------------------------------------------------------------


def test_the_diagonal_mask_is_what_it_says():
    _, is_valid = below_diagonal(4).numpy_indices()
    assert is_valid.astype(int).tolist() == [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
    ]


def test_counting_counts():
    assert evaluated(corpus_kernels()["count-up"])[0].tolist() == list(range(16))


def test_a_matrix_product_is_that_of_numpy():
    kernel = corpus_kernels()["matmul-int32-odd"]
    _, x, y = kernel.buffers()
    wanted = x.reshape(7, 13) @ y.reshape(13, 11)
    assert np.array_equal(evaluated(kernel)[0], wanted.ravel())


def test_a_convolution_is_that_of_numpy():
    kernel = corpus_kernels()["convolution-1d"]
    _, taps, x = kernel.buffers()
    windows = np.lib.stride_tricks.sliding_window_view(x, 5)
    assert np.array_equal(evaluated(kernel)[0], (windows * taps).sum(1, dtype=np.int32))


def test_a_gather_takes_rows():
    kernel = corpus_kernels()["gather-rows"]
    _, wanted, table = kernel.buffers()
    assert np.array_equal(evaluated(kernel)[0], table[wanted & 7])


def test_data_have_extremes_and_a_seed():
    _, x, _ = corpus_kernels()["multiply-add-int8"].buffers()
    assert {-128, -127, 0, 1, 126, 127} <= set(x.tolist())
    assert np.array_equal(x, corpus_kernels()["multiply-add-int8"].buffers()[1])
    assert not np.array_equal(x, corpus_kernels()["multiply-add-int8"].buffers(seed=1)[1])


# --- what the loader refuses --------------------------------------------------------------------


def kernel_of(name: str = "new", tags: tuple[str, ...] = ("sum",), **changes) -> CorpusKernel:
    sketch = Sketch()
    size = changes.pop("size", 4)
    sketch.store(total(build.cast(build.valid(shaped(size)), dtypes.int32), 0), 1)
    return CorpusKernel(name, frozenset(tags), build.sink(*sketch.stores), **changes)


def test_good_kernels_pass():
    check([kernel_of("one"), kernel_of("two")])


def test_bad_kernels_are_refused():
    variable = build.variable("n", 1, 8)
    with pytest.raises(UserError, match="two kernels have the name new"):
        check([kernel_of(), kernel_of()])
    with pytest.raises(UserError, match="tags"):
        check([kernel_of(tags=("colourful",))])
    with pytest.raises(UserError, match="tags"):
        check([kernel_of(tags=())])
    with pytest.raises(UserError, match="gives n no value"):
        check([kernel_of(size=variable)])
    with pytest.raises(UserError, match="gives n no value"):
        check([kernel_of(size=variable, bindings={"n": 9})])
    broken = CorpusKernel("broken", frozenset({"sum"}), build.sink(build.const(dtypes.bool, 1)))
    with pytest.raises(VerifyError, match=r"sink\.2"):
        check([broken])
