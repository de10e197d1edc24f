"""TinyJit with prune: kernels that run once, with the capture alone."""

import numpy as np
from jit_calls import floats
from kernel_runs import count_kernels

from tinyref import Tensor, TinyJit, Variable


def test_pruned_kernels_run_with_the_capture_alone():
    weight = Tensor(floats(4, 4)).realize()
    plain = TinyJit(lambda x: (x @ (weight * 2 + 1).contiguous()).relu())
    pruned = TinyJit(lambda x: (x @ (weight * 2 + 1).contiguous()).relu(), prune=True)
    for i in range(5):
        x = floats(2, 4, seed=i)
        expected = np.maximum(x @ (floats(4, 4) * 2 + 1), 0)
        np.testing.assert_allclose(plain(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(pruned(Tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert plain.captured.kernels == pruned.captured.kernels + 1
    x = Tensor(floats(2, 4)).realize()
    assert count_kernels(pruned, x)[1] == pruned.captured.kernels == 1


def test_pruned_captures_replay_random_draws_assignments_and_results():
    count = Tensor([0]).realize()
    weight = Tensor([3.0]).realize()

    def step(x):
        count.assign(count + 1)
        scaled = (weight * 2).contiguous()
        drawn = Tensor.rand(2)
        return x + scaled, drawn, (weight + 1).contiguous()

    jitted = TinyJit(step, prune=True)
    Tensor.manual_seed(3)
    actual = [jitted(Tensor([float(i)])) for i in range(5)]
    Tensor.manual_seed(3)
    assert [drawn.tolist() for _, drawn, _ in actual] == [Tensor.rand(2).tolist() for _ in range(5)]
    assert [total.item() for total, _, _ in actual] == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert [same.item() for _, _, same in actual] == [4.0] * 5
    assert count.item() == 5


def test_pruned_captures_replay_what_depends_on_a_variable():
    length = Variable("length", 1, 4)
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    jitted = TinyJit(lambda n: x.shrink(((0, n),)).sum(), prune=True)
    assert [jitted(length.bind(n)).item() for n in (1, 2, 3, 4, 2)] == [1, 3, 6, 10, 3]
