"""Computing, reading, assigning, and what a tensor says of itself."""

import gc
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Context, GlobalCounters, Tensor, Variable, dtypes
from tinyref.errors import UserError
from tinyref.tensor.core import registry


def kernels() -> int:
    return GlobalCounters.kernel_count


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    before = kernels()
    tensor = (Tensor([1.0, 2.0]) + 1).relu()
    assert "not computed yet" in repr(tensor)
    assert tensor.shape == (2,)
    assert kernels() == before
    assert tensor.realize() is tensor
    assert kernels() == before + 1
    assert "in memory" in repr(tensor)


@pytest.mark.parametrize("name", ["realize", "schedule"])
def test_what_is_computed_together_are_tensors(name: str) -> None:
    call = getattr(Tensor([1.0]) + 1, name)
    check_refusal([f"{name}: got a list, accepted are Tensors"], lambda: call([Tensor([2.0])]))


def test_what_is_realised_is_not_computed_again() -> None:
    shared = Tensor([1.0, 2.0]).exp2()
    user = shared * 3
    shared.realize()
    before = kernels()
    assert user.tolist() == [6.0, 12.0]
    assert kernels() == before + 1
    assert shared.tolist() == [2.0, 4.0]
    assert kernels() == before + 1


def test_reading_what_is_computed_asks_nothing_of_the_engine(monkeypatch) -> None:
    tensor = Tensor([1.0, 2.0]).realize()
    monkeypatch.delattr("tinyref.engine.realize")
    assert tensor.reshape(2, 1).tolist() == [[1.0], [2.0]]
    assert Tensor.ones(2).realize().tolist() == [1.0, 1.0]


def test_realising_several_at_once() -> None:
    first, second = Tensor([1.0]) + 1, Tensor([2.0]) * 4
    first.realize(second)
    before = kernels()
    assert (first.item(), second.item()) == (2.0, 8.0)
    assert kernels() == before


def test_statistics_can_be_left_alone() -> None:
    before = kernels()
    tensor = (Tensor([1.0]) + 1).realize(do_update_stats=False)
    assert kernels() == before
    assert tensor.item() == 2.0


def test_constants_need_no_kernel() -> None:
    before = kernels()
    assert (Tensor.ones(2, 2) + 1).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert Tensor(3).item() == 3
    assert Tensor.zeros(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
    assert kernels() == before
    assert "constant" in repr(Tensor(3))


def test_reading_views() -> None:
    tensor = Tensor(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert tensor.T.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tensor.flip(0)[:, 1:].numpy().flags["C_CONTIGUOUS"]
    assert tensor[1, 2].item() == 5
    tensor.T.realize()
    assert tensor.T.contiguous().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_data_is_a_memoryview() -> None:
    view = Tensor([[1.5, 2.5]]).data()
    assert (view.format, view.shape, view.tolist()) == ("f", (1, 2), [[1.5, 2.5]])
    assert Tensor([True]).data().format == "?"
    assert Tensor(7, dtype="uint64").data()[()] == 7
    with pytest.raises(UserError, match="bfloat16"):
        Tensor([1.0], dtype="bfloat16").data()


def test_numpy_types_of_small_floats() -> None:
    assert Tensor([1.5]).cast("bfloat16").numpy().dtype == ml_dtypes.bfloat16
    assert Tensor([1.5]).cast("fp8e4m3").tolist() == [1.5]
    assert Tensor([1.5]).cast("fp8e5m2").numpy().dtype == ml_dtypes.float8_e5m2


def test_numpy_takes_a_tensor_for_an_array() -> None:
    tensor = Tensor([[1, 2], [3, 4]])
    assert np.array(tensor).tolist() == [[1, 2], [3, 4]]
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(UserError, match="copy"):
        np.array(tensor, copy=False)


def test_item_truth_and_length() -> None:
    assert Tensor([[4.5]]).item() == 4.5
    assert isinstance(Tensor([4]).item(), int)
    assert isinstance(Tensor([True]).item(), bool)
    assert bool(Tensor([2])) is True
    assert not Tensor(0.0)
    assert float(Tensor([2])) == 2.0
    assert int(Tensor(2.9)) == 2
    assert len(Tensor([[1], [2]])) == 2
    assert "requires grad" in repr(Tensor([1.0], requires_grad=True))
    assert "(2,)" in repr(Tensor([1, 2]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Tensor([1, 2]).item(), ["item", "(2,)", "one"]),
        (lambda: bool(Tensor([1, 2])), ["(2,)", "truth"]),
        (lambda: bool(Tensor([])), ["(0,)", "truth"]),
        (lambda: len(Tensor(1)), ["len"]),
        (lambda: Tensor([1]).assign(Tensor([1.0])), ["assign", "float32", "int32", "cast"]),
        (lambda: Tensor([1]).assign(Tensor([1, 2])), ["assign", "(2,)", "(1,)"]),
        (lambda: Tensor([1, 2]).assign(Tensor([[1, 2]])), ["assign", "(1, 2)", "(2,)"]),
        (lambda: Tensor([1]).assign(Tensor([1], device="PYTHON")), ["assign", "PYTHON", "CPU"]),
        (lambda: Tensor([1]).replace(Tensor([1, 2])), ["replace", "(2,)", "(1,)"]),
        (lambda: Tensor([1]).replace([1]), ["replace", "list"]),
        (lambda: Tensor([1]).__iadd__(0.5), ["+=", "float32", "int32"]),
        (lambda: Tensor([1]).__iadd__(Tensor([1, 2])), ["+=", "(2,)", "(1,)"]),
        (lambda: Tensor([1.0], requires_grad=True).__imul__(2), ["*=", "leaf", "no_grad"]),
        (lambda: Tensor([1]).realize(None), ["realize", "NoneType", "Tensor"]),
        (lambda: Tensor([1], device=3), ["device", "3", "'CPU'"]),
        (lambda: Tensor([1]).to([]), ["devices", "none"]),
        (lambda: Tensor([1]).to({"CPU"}), ["device", "{'CPU'}", "'CPU'"]),
        (lambda: Tensor(1.0).reshape((1,) * 65).tolist(), ["numpy", "65 axes", "64"]),
        (lambda: Variable(None, 1, 2), ["None", "identifier"]),
        (lambda: Variable("2n", 1, 2), ["'2n'", "identifier"]),
        (lambda: Variable("n", 3, 2), ["n", "3", "2"]),
        (lambda: Variable("n", -1, 2), ["n", "-1"]),
        (lambda: Variable("n", 1, 2).bind(3), ["n", "3"]),
        (lambda: Tensor.zeros(2**60).numpy(), ["numpy", str(2**60), "memory"]),
        (lambda: Tensor([1.0]).clamp("a"), ["clamp: min_", "str"]),
        (lambda: Tensor([1.0]).var(correction=1.5), ["var: correction", "1.5"]),
        (lambda: Tensor([1.0]).layernorm(eps="a"), ["layernorm: eps", "str"]),
        (
            lambda: Tensor([[1.0]]).nll_loss(Tensor([0]), ignore_index="a"),
            ["nll_loss: ignore_index", "'a'"],
        ),
    ],
)
def test_errors_name_the_argument(make: Callable[..., object], words: list[str]) -> None:
    check_refusal(words, make)


# Assignment


def test_assignment_writes_in_place() -> None:
    tensor = Tensor([1.0, 2.0]).realize()
    buffer = tensor.node
    tensor.assign(tensor + 1).realize()
    assert tensor.tolist() == [2.0, 3.0]
    assert tensor.node is buffer
    tensor.assign([7.0, 8.0])
    assert tensor.tolist() == [7.0, 8.0]
    tensor.assign(0)
    assert tensor.tolist() == [0.0, 0.0]


def test_what_was_computed_before_an_assignment_keeps_its_elements() -> None:
    tensor = Tensor([1.0, 2.0])
    doubled, view = tensor * 2, tensor.flip(0)
    tensor.assign(tensor + 10)
    later = tensor * 2
    tensor.realize()
    assert tensor.tolist() == [11.0, 12.0]
    assert doubled.tolist() == [2.0, 4.0]
    assert view.tolist() == [12.0, 11.0]
    assert later.tolist() == [22.0, 24.0]


def test_assigning_twice_and_reading_between() -> None:
    tensor = Tensor([1.0])
    tensor.assign(tensor + 1)
    between = tensor * 10
    tensor.assign(tensor * 3)
    assert tensor.tolist() == [6.0]
    assert between.tolist() == [20.0]


def test_the_same_expression_before_and_after_an_assignment() -> None:
    tensor = Tensor([1.0])
    first = (tensor + 5).realize()
    tensor.assign(tensor * 4).realize()
    second = tensor + 5
    assert (first.item(), second.item()) == (6.0, 9.0)


def test_a_transposed_assignment() -> None:
    tensor = Tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor.assign(tensor.T.contiguous())
    assert tensor.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_operators_in_place() -> None:
    tensor = Tensor([8, 12])
    tensor += 1
    tensor -= 3
    tensor *= 2
    assert tensor.tolist() == [12, 20]
    tensor //= 3
    tensor %= 4
    assert tensor.tolist() == [0, 2]
    tensor |= 5
    tensor ^= 1
    tensor &= 6
    tensor <<= 2
    tensor >>= 1
    assert tensor.tolist() == [8, 12]
    floats = Tensor([[2.0]])
    floats **= 2
    floats /= 8
    floats @= Tensor([[4.0]])
    assert floats.tolist() == [[2.0]]


def test_a_clone_has_elements_of_its_own_and_detach_is_a_view() -> None:
    tensor = Tensor([1.0, 2.0])
    clone, detached, same = tensor.clone(), tensor.detach(), Tensor(tensor)
    tensor += 1
    clone *= 10
    assert tensor.tolist() == [2.0, 3.0]
    assert clone.tolist() == [10.0, 20.0]
    assert detached.tolist() == [2.0, 3.0]
    assert same.tolist() == [1.0, 2.0]


def test_replace_and_to_in_place() -> None:
    tensor = Tensor([1.0])
    tensor.replace(Tensor([2.0, 3.0]), allow_shape_mismatch=True)
    assert tensor.tolist() == [2.0, 3.0]
    assert tensor.to_("PYTHON").device == "PYTHON"
    assert tensor.to_("PYTHON").tolist() == [2.0, 3.0]


@pytest.mark.long
def test_tensors_are_freed() -> None:
    gc.collect()
    before, used = len(registry.live()), GlobalCounters.mem_used
    tensor = Tensor(np.zeros(1000, np.float32), requires_grad=True)
    (tensor * 2 + 1).sum().backward()
    assert GlobalCounters.mem_used > used
    del tensor
    gc.collect()
    assert len(registry.live()) == before
    assert GlobalCounters.mem_used == used


def test_a_realised_loop_keeps_no_history() -> None:
    state = Tensor([1.0])
    counts = set()
    for _ in range(5):
        state = (state * 0.5 + 1).realize()
        counts.add(len(registry.live()))
    assert len(counts) <= 2
    assert state.item() == pytest.approx(1.96875)


def test_symbolic_sizes() -> None:
    size = Variable("n", 1, 8)
    assert repr(size) == "Variable('n', 1, 8)"
    source = Tensor(np.arange(8, dtype=np.float32))
    for value in (3, 5):
        part = source.shrink(((0, size.bind(value)),))
        assert (part * 2).sum().item() == value * (value - 1)
        assert part.mean().item() == (value - 1) / 2
        assert part.reshape(1, -1).flatten().max().item() == value - 1
        assert part.nbytes() == 4 * value
        assert (part.unsqueeze(1) @ Tensor.ones(1, 2)).shape[1] == 2
        assert (part + 1).tolist() == [float(number) for number in range(1, value + 1)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_an_interrupted_assignment_runs_once(monkeypatch, error) -> None:
    from tinyref.engine import runner

    count = Tensor(np.zeros(2, np.float32)).realize()
    count += 1
    total = count.contiguous().sum()
    working = runner._run_kernel

    def run_kernel(kernel, buffers, bindings):
        if kernel.name.startswith("r_"):
            raise error
        return working(kernel, buffers, bindings)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_run_kernel", run_kernel)
        with pytest.raises(error):
            total.item()
    assert count.tolist() == [1.0, 1.0]
    assert total.item() == 2.0


@pytest.mark.slow
def test_threads_compute_tensors_of_their_own_and_shared_ones() -> None:
    """Guards that two threads do not rewrite each other's graphs at once."""
    shared = Tensor(np.arange(10, dtype=np.float32)).realize()
    lazy = [shared + step for step in range(20)]

    def work(number: int) -> list[float]:
        count = Tensor(np.zeros(3, np.float32)).realize()
        before = count + number
        found = []
        for step in range(20):
            count += 1
            found.append((before * step + shared[:3]).sum().item() - (3 * number * step + 3))
            found.append(lazy[step].numpy()[3] - (3 + step))
        return found + (count - 20).tolist()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            differences = list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert differences == [[0.0] * 43] * 4


def test_other_devices_give_the_same() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found = Tensor(x, device="PYTHON").softmax()
    assert found.device == "PYTHON"
    # A device may sum in any order: 4 roundings, 1 of the division, and 3 ULP of EXP2 above and
    # below the line, in units of 2**-24, on either side.
    bound = 2 * (4 + 1 + 2 * 6) * 2.0**-24
    np.testing.assert_allclose(found.numpy(), Tensor(x).softmax().numpy(), rtol=bound, atol=0)
    integers = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    assert (Tensor(integers, device="PYTHON").sum(1).numpy() == [-18, -2, 14]).all()
    assert (Tensor(integers).sum(1).numpy() == [-18, -2, 14]).all()


def test_the_default_device_is_a_flag() -> None:
    with Context(DEVICE="PYTHON"):
        assert Tensor([1]).device == "PYTHON"
    assert Tensor([1]).device == "CPU"


@pytest.mark.long
def test_importing_is_quick_and_loads_no_compiler() -> None:
    code = (
        "import sys, tinyref; assert 'numpy' not in sys.modules\n"
        "from tinyref import Tensor, dtypes, Device, Context, GlobalCounters, Variable\n"
        "t = Tensor(1.0) + 1\n"
        "assert 'llvmlite' not in sys.modules\n"
        "assert set(tinyref.__all__) <= set(dir(tinyref))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(ImportError):
        from tinyref import nothing  # type: ignore[attr-defined]  # noqa: F401


def test_a_large_constant_takes_its_own_bytes_only() -> None:
    assert Tensor.full((3,), 0.1, dtype=dtypes.bfloat16).numpy().tolist() == [0.10009765625] * 3
    tracemalloc.start()
    Tensor.full((1 << 22,), 1.0, dtype=dtypes.float16).numpy()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * (2 << 22)


def test_an_infinite_constant_reads_back() -> None:
    assert Tensor.full((1,), -math.inf, dtype=dtypes.float16).tolist() == [-math.inf]


@pytest.mark.parametrize("write", ["w[1:3] += 2", "w[1:3] = w[0:2] * 2 + w[2:]", "w[1:] = w[:-1]"])
def test_assigning_what_reads_other_elements_of_the_same_memory(write):
    w, wanted = Tensor([1.0, 2.0, 3.0, 4.0]).realize(), np.array([1.0, 2.0, 3.0, 4.0])
    for _ in range(2):
        exec(write, {"w": wanted})
        exec(write, {"w": w})
        w.realize()
    np.testing.assert_array_equal(w.numpy(), wanted)


UNCHANGED: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sum(()),
    lambda x: x.prod(()),
    lambda x: x.max(()),
    lambda x: x[0, 0].repeat(()),
    lambda x: x.roll(2, 0),
    lambda x: x.roll(0, 0),
    lambda x: x**1,
    lambda x: x.interpolate((1,)),
    lambda x: x.int().round().float(),
]


UNCHANGED_VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.reshape(2, 1),
    lambda x: x.view(2, 1),
    lambda x: x.flatten(0, 0),
    lambda x: x.unflatten(0, (2,)),
    lambda x: x.squeeze(0),
    lambda x: x[:, 0].squeeze(),
    lambda x: x.expand(2, 1),
]


@pytest.mark.parametrize("function", UNCHANGED)
def test_a_result_is_a_tensor_of_its_own(function: Callable[[Tensor], Tensor]) -> None:
    """Also where the function has nothing to do."""
    x = Tensor([[1.0], [2.0]])
    result = function(x)
    before = result.tolist()
    x += 10
    assert result.tolist() == before
    result += 100
    assert x.tolist() == [[11.0], [12.0]]


@pytest.mark.parametrize("name", ["abs", "sign", "floor", "ceil", "trunc", "round", "any"])
def test_a_result_of_integers_is_a_tensor_of_its_own(name: str) -> None:
    x = Tensor([0, 1], dtype=dtypes.bool if name in ("sign", "any") else dtypes.uint8)
    result = x.any(()) if name == "any" else getattr(x, name)()
    x |= True
    assert result.tolist() == [0, 1]


def test_a_gradient_goes_through_a_result_of_the_same_elements() -> None:
    x = Tensor([3.0], requires_grad=True)
    ((x.reshape(1) * x.sum(())) ** 1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("function", UNCHANGED_VIEWS)
def test_a_view_is_another_tensor_of_the_same_elements(
    function: Callable[[Tensor], Tensor],
) -> None:
    """Also where the function has nothing to do."""
    x = Tensor([[1.0], [2.0]])
    result = function(x)
    assert result is not x
    x += 10
    assert result.flatten().tolist() == [11.0, 12.0]
    result += 100
    assert x.tolist() == [[111.0], [112.0]]
