"""Computing, reading, assigning, and what a tensor says of itself."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from refusals import check_refusal

from tinyref import Context, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from tinyref.device import Buffer, memory
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


def test_a_large_constant_takes_its_own_bytes_only() -> None:
    assert Tensor.full((3,), 0.1, dtype=dtypes.bfloat16).numpy().tolist() == [0.10009765625] * 3
    tracemalloc.start()
    Tensor.full((1 << 22,), 1.0, dtype=dtypes.float16).numpy()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * (2 << 22)


# How tensors are shown


def counted(size: int) -> str:
    """Return the elements of `arange(size)` of int32 as numpy prints them."""
    return np.array2string(np.arange(size, dtype=np.int32), separator=", ", max_line_width=100)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Tensor([1.0, 2.5]), "<Tensor (2,) float32 on CPU, in memory: [1. , 2.5]>"),
        (
            lambda: Tensor([[1, 2], [3, 4]]),
            "<Tensor (2, 2) int32 on CPU, in memory:\n[[1, 2],\n [3, 4]]>",
        ),
        (lambda: Tensor([3]).reshape(()), "<Tensor () int32 on CPU, in memory: 3>"),
        (lambda: Tensor(2.0), "<Tensor () float32 on CPU, constant: 2.>"),
        (lambda: Tensor.zeros(2), "<Tensor (2,) float32 on CPU, constant: [0., 0.]>"),
        (
            lambda: Tensor([1.0, 0.5], dtype="bfloat16"),
            "<Tensor (2,) bfloat16 on CPU, in memory: [1. , 0.5]>",
        ),
        (
            lambda: Tensor([1.0], requires_grad=True),
            "<Tensor (1,) float32 on CPU, in memory, requires grad: [1.]>",
        ),
        (
            lambda: Tensor([1, 2, 3]).shard(("CPU:0", "CPU:1"), 0).realize(),
            "<Tensor (3,) int32 on (CPU, CPU:1), axis 0 in (2, 1), in memory: [1, 2, 3]>",
        ),
        (
            lambda: Tensor([1, 2]).to(("CPU:0", "CPU:1")).realize(),
            "<Tensor (2,) int32 on (CPU, CPU:1), in memory: [1, 2]>",
        ),
        (lambda: Tensor([1]) + 1, "<Tensor (1,) int32 on CPU, not computed yet (ADD)>"),
        (lambda: Tensor.empty(2**50), f"<Tensor ({2**50},) float32 on CPU, in memory>"),
    ],
)
def test_repr(make: object, text: str) -> None:
    assert repr(make()) == text  # type: ignore[operator]


def test_large_tensors_are_elided_as_by_numpy() -> None:
    array = np.arange(5000, dtype=np.int32).reshape(50, 100)
    expected = np.array2string(array, separator=", ", max_line_width=100)
    assert "..." in expected
    plain = Tensor(array)
    assert repr(plain) == f"<Tensor (50, 100) int32 on CPU, in memory:\n{expected}>"
    cut = plain.shard(("CPU:0", "CPU:1", "CPU:2"), 1).realize()
    assert repr(cut).partition("memory:\n")[2] == f"{expected}>"
    assert repr(Tensor(np.arange(7, dtype=np.int32))).endswith(f"{counted(7)}>")
    assert repr(Tensor(np.arange(1001, dtype=np.int32))).endswith(f"{counted(1001)}>")
    with np.printoptions(threshold=5, edgeitems=1):
        assert repr(Tensor([1, 2, 3, 4, 5, 6])).endswith("[1, ..., 6]>")


def test_of_a_large_tensor_only_what_is_shown_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = Tensor(np.zeros((1000, 1000), np.float32))
    read: list[int] = []
    copy_out = Buffer.copy_out
    monkeypatch.setattr(
        Buffer, "copy_out", lambda self: (read.append(self.nbytes), copy_out(self))[1]
    )
    repr(tensor)
    assert 0 < sum(read) <= 7 * 7 * 4


def test_nothing_is_computed_and_nothing_allocated_to_be_shown() -> None:
    lazy = [Tensor([1, 2]) * 3, Tensor.rand(4), Tensor.empty(3, 5), Tensor.arange(4)]
    kernels, now = GlobalCounters.kernel_count, dict(memory.now)
    for tensor in lazy:
        assert "Tensor (" in repr(tensor) + str(tensor) + tensor._repr_html_()
    assert (GlobalCounters.kernel_count, memory.now) == (kernels, now)


def test_a_file_is_read_in_part_and_may_be_gone(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(200)) * 1000)
    tensor = Tensor(path)
    assert repr(tensor).endswith("[  0,   1,   2, ..., 197, 198, 199]>")
    assert repr(tensor[3:6]).endswith(": [3, 4, 5]>")
    gone = Tensor(path)
    path.write_bytes(b"")
    assert "uint8" in repr(gone)


def test_a_capture_shows_no_elements() -> None:
    seen: list[str] = []

    def show(x: Tensor) -> Tensor:
        seen.append(repr(x))
        return (x + 1).realize()

    jitted = TinyJit(show)
    for number in range(3):
        jitted(Tensor([number]))
    assert "[0]" in seen[0]
    assert "[" not in seen[1]


def test_a_symbolic_tensor_shows_no_elements() -> None:
    size = Variable("n", 1, 4).bind(2)
    assert "[0, 1" not in repr(Tensor([0, 1, 2, 3])[:size].realize())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lambda: f"{Tensor(3.14159):.3f}", "3.142"),
        (lambda: f"{Tensor([[2]]):d}", "2"),
        (lambda: f"{Tensor([1.5]) * 2:.1f}", "3.0"),
        (lambda: f"{Tensor([255]):#x}", "0xff"),
        (lambda: f"{Tensor(True):d}", "1"),
        (lambda: "%.2f" % Tensor(0.5), "0.50"),  # noqa: UP031  the older way works too
        (lambda: f"{Tensor([1, 2])}", "<Tensor (2,) int32 on CPU, in memory: [1, 2]>"),
    ],
)
def test_format(text: object, expected: str) -> None:
    assert text() == expected  # type: ignore[operator]


def test_what_is_no_number_has_no_format() -> None:
    with pytest.raises(TypeError, match=r"format: '\.3f'.*\(2,\)"):
        f"{Tensor([1.0, 2.0]):.3f}"
    with pytest.raises(ValueError, match="Unknown format code"):
        f"{Tensor(1.0):d}"


def test_html(tmp_path: Path) -> None:
    assert Tensor([1, 2])._repr_html_() == (
        "<div><code>Tensor (2,) int32 on CPU, in memory</code><pre>[1, 2]</pre></div>"
    )
    assert (Tensor([1, 2]) + 1)._repr_html_() == (
        "<div><code>Tensor (2,) int32 on CPU, not computed yet (ADD)</code></div>"
    )
    path = tmp_path / "<b>"
    path.write_bytes(b"x")
    assert "&lt;b&gt;" in Tensor(path)._repr_html_()
