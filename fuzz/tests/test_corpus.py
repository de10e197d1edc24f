"""The corpus of kernels: diverse, valid, exact, and the same by every way to compute them."""

from __future__ import annotations

import numpy as np
import pytest

from tinyref.codegen.compile import compile_kernel
from tinyref.device import Device
from tinyref.interpret import run_program
from tinyref.interpret.evaluate import evaluate
from tinyref.uops.ops import Dialect
from tinyref.uops.payload import ViewArg
from tinyref.verify import verify
from tinyref.views.shape_tracker import tracker_of
from tinyref_fuzz.judge.judge import measured_outputs
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.family import CorpusKernel

KERNELS = tuple(corpus_kernels().values())
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


def evaluated(kernel: CorpusKernel) -> dict[int, np.ndarray]:
    return evaluate(kernel.ast, dict(enumerate(kernel.buffers())), kernel.bindings)


def test_there_are_enough_kernels_and_no_two_are_the_same():
    assert len(KERNELS) >= 60
    assert len({kernel.ast for kernel in KERNELS}) == len(KERNELS)


@each_kernel
def test_a_kernel_keeps_the_rules_and_each_variable_has_a_value(kernel):
    verify(Dialect.AST, kernel.ast)
    trackers = [tracker_of(node) for node in kernel.ast.toposort() if isinstance(node.arg, ViewArg)]
    for variable in {node.arg for tracker in trackers for node in tracker.variables()}:
        assert variable.minimum <= kernel.bindings[variable.name] <= variable.maximum


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
