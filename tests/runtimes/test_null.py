"""The NULL device schedules, lowers and counts; nothing runs, and values are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tinyref import GlobalCounters, Tensor, TinyJit, Variable, nn
from tinyref.cli.entry import run
from tinyref.config import Context
from tinyref.device import Buffer, memory
from tinyref.dtype import dtypes
from tinyref.errors import UserError
from tinyref.runtimes import kernel as kernels
from tinyref.runtimes.kernel import compile_ast
from tinyref_spec.kernels.named import copied
from tinyref_spec.kernels.notation import shaped

REFUSED = r"device: NULL runs nothing and keeps no values.*such as CPU"


def counted(build: Callable[[str], Tensor], device: str) -> tuple[int, int, int]:
    """Return the kernels, operations and bytes that compute the result of `build`."""
    GlobalCounters.reset()
    build(device).realize()
    return GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem


def test_counts_are_those_of_the_work_that_is_not_done() -> None:
    """(3, 4) @ (4, 5): 60 products and 60 terms of sums, 15 + 12 + 20 float32 in one kernel."""

    def product(device: str) -> Tensor:
        return Tensor.empty(3, 4, device=device) @ Tensor.empty(4, 5, device=device)

    assert counted(product, "NULL") == (1, 120, 188)
    assert counted(product, "PYTHON") == (1, 120, 188)


def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> bytes:
        raise AssertionError("something is compiled")

    monkeypatch.setattr(kernels, "recompile", fail)
    with Context(CACHE=0), pytest.raises(AssertionError, match="something is compiled"):
        compile_ast("CPU", copied(dtypes.float32, shaped(19)))
    kernel = compile_ast("NULL", copied(dtypes.float32, shaped(16)))
    assert kernel.name in kernel.source
    buffers = [Buffer("NULL", 16, dtypes.float32) for _ in range(2)]
    assert kernel(buffers, wait=True) is None
    with pytest.raises(UserError, match=r"buffer 1: has 2 elements"):
        kernel([buffers[0], Buffer("NULL", 2, dtypes.float32)])


def test_memory_is_counted_and_not_taken() -> None:
    before = memory.now.get("NULL", 0)
    huge = Tensor.empty(1 << 46, dtype="uint8", device="NULL")
    grown = (huge + 1).realize()
    assert memory.now["NULL"] - before == 2 << 46
    del grown, huge
    assert memory.now["NULL"] == before


def test_a_captured_function_is_replayed_and_counted() -> None:
    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * 2).contiguous().sum()

    size = Variable("size", 1, 8)
    for bound in (3, 5, 8, 2):
        x = Tensor.empty(8, device="NULL")[: size.bind(bound)]
        GlobalCounters.reset()
        step(x)
        assert GlobalCounters.kernel_count == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: x.sum().item(),
        lambda x: x.to("PYTHON").numpy(),
        lambda x: x.masked_select(x > 0),
        lambda x: x.shard(("NULL", "NULL:1"), axis=0).numpy(),
    ],
    ids=["numpy", "tolist", "item", "to", "masked_select", "several"],
)
def test_values_are_refused(ask: Callable[[Tensor], object]) -> None:
    with pytest.raises(UserError, match=REFUSED):
        ask(Tensor.empty(4, device="NULL") + 1)


def test_a_file_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "weights.safetensors"
    with pytest.raises(UserError, match=REFUSED):
        nn.state.safe_save({"x": Tensor.empty(4, device="NULL") + 1}, str(target))
    assert not target.exists()


def test_what_is_known_without_running_is_given() -> None:
    assert Tensor.full((2,), 3.0, device="NULL").numpy().tolist() == [3.0, 3.0]
    assert Tensor.empty(0, 2, device="NULL").numpy().shape == (0, 2)
    computed = (Tensor.empty(2, device="NULL") + 1).realize()
    assert "NULL" in repr(computed)


def test_what_is_copied_in_is_dropped() -> None:
    x = Tensor(np.arange(4, dtype=np.float32), device="CPU").to("NULL").realize()
    assert (x.device, x.shape) == ("NULL", (4,))
    loaded = nn.Linear(2, 2)
    state = {name: item.to("NULL") for name, item in nn.state.get_state_dict(loaded).items()}
    assert all(item.realize().device == "NULL" for item in state.values())


@pytest.mark.parametrize("command", ["conform", "fuzz"])
def test_commands_that_look_at_values_refuse_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([command, "--device", "NULL"]) == 2
    view = capsys.readouterr()
    assert view.out == ""
    assert "NULL runs nothing and keeps no values" in view.err
    assert list(tmp_path.iterdir()) == []


def test_explain_shows_all_but_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "(Tensor([1, 2, 3]) * 2.5).sum()", "--device", "NULL"]) == 0
    text = capsys.readouterr().out
    assert "== schedule: 1 kernel, 0 copies" in text
    assert "source for NULL" in text
    assert text.endswith("== result\nNULL runs nothing: there are no values\n")
