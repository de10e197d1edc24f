"""The corpus of kernels: diverse, valid, exact, and the same by every way to compute them."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.dtype import dtypes
from tinyref.errors import UserError, VerifyError
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops import build
from tinyref_fuzz.judge.judge import measured_outputs
from tinyref_spec.kernels.corpus import check, corpus_kernels
from tinyref_spec.kernels.family import TAGS, CorpusKernel
from tinyref_spec.kernels.notation import Sketch, shaped, total

KERNELS = tuple(corpus_kernels().values())
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def evaluated(kernel: CorpusKernel) -> dict[int, np.ndarray]:
    return evaluate(kernel.ast, dict(enumerate(kernel.buffers())), kernel.bindings)


def test_there_are_enough_kernels_and_each_kind_is_there():
    assert len(KERNELS) >= 100
    assert {tag for kernel in KERNELS for tag in kernel.tags} == TAGS
    assert len({kernel.ast for kernel in KERNELS}) == len(KERNELS)


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


# --- what the loader refuses --------------------------------------------------------------------


def kernel_of(name: str = "new", tags: tuple[str, ...] = ("sum",), **changes) -> CorpusKernel:
    sketch = Sketch()
    size = changes.pop("size", 4)
    sketch.store(total(build.cast(build.valid(shaped(size)), dtypes.int32), 0), 1)
    return CorpusKernel(name, frozenset(tags), build.sink(*sketch.stores), **changes)


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
