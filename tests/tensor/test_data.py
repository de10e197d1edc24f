"""Computing, reading, assigning, and what a tensor says of itself."""

import gc
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Context, GlobalCounters, Tensor, dtypes
from tinyref.errors import UserError


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


def test_tensors_are_freed() -> None:
    gc.collect()
    used = GlobalCounters.mem_used
    tensor = Tensor(np.zeros(1000, np.float32), requires_grad=True)
    (tensor * 2 + 1).sum().backward()
    assert GlobalCounters.mem_used > used
    del tensor
    gc.collect()
    assert GlobalCounters.mem_used == used


def test_a_realised_loop_keeps_no_history() -> None:
    state, used = Tensor([1.0]), set()
    for _ in range(5):
        state = (state * 0.5 + 1).realize()
        used.add(GlobalCounters.mem_used)
    assert len(used) <= 2
    assert state.item() == pytest.approx(1.96875)


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
