"""Test the rows `op.*` and `model.*`: checked before they are timed; named by variant."""

from __future__ import annotations

import dataclasses
import functools

import pytest

pytest.importorskip("torch", reason="torch, the peer of these rows, is not installed")

from tinyref.cli.bench import Measured, speed, works
from tinyref.cli.bench.works import MODELS, SMALL_MODELS, WORKS, Layers, Work
from tinyref.config import Context
from tinyref.errors import UserError
from tinyref.nn.optim import Adam

BY_NAME = {work.name: work for work in WORKS}
# Matmuls differ only in their sizes, and this check has other sizes.
CHECKED = [work for work in WORKS if work.name not in ("op.matmul.2048", "op.matmul.4096")]


@pytest.mark.parametrize("work", CHECKED, ids=lambda work: work.name)
def test_every_operation_agrees_with_torch_on_a_gpu(work: Work) -> None:
    peer = speed.peer_of("GPU_EMU")
    for variant in speed._variants(work, is_gpu=True):
        with Context(DEVICE="GPU_EMU", STRICT_FLOAT=variant.strict):
            assert not speed._problem(work, variant, "GPU_EMU", peer)


@pytest.mark.long
@pytest.mark.parametrize("layers", SMALL_MODELS, ids=lambda layers: layers.name)
def test_every_network_learns_as_in_torch_on_a_gpu(layers: Layers) -> None:
    with Context(DEVICE="GPU_EMU"):
        assert not speed._model_problem(layers, "GPU_EMU", speed.peer_of("GPU_EMU"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ours": lambda x: x.softmax(0)}, "off the result of torch"),
        ({"ours": lambda x: x.sum()}, "its shape is (), that of torch (7, 33)"),
    ],
)
def test_a_wrong_operation_has_no_time(change: dict[str, object], words: str) -> None:
    wrong = dataclasses.replace(BY_NAME["op.softmax"], **change)  # type: ignore[arg-type]
    assert wrong.host is not None
    result = speed.measure_work(wrong, wrong.host, speed.Variant(""), "CPU", 1)
    assert not result.values
    assert result.missing.startswith("it is wrong: ")
    assert words in result.missing


@pytest.mark.long
def test_a_network_that_learns_otherwise_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(works, "Adam", functools.partial(Adam, lr=0.01))
    result = speed.measure_model(MODELS[0], SMALL_MODELS[0], speed.Variant(""), "CPU", 1)
    assert result.missing.startswith("it is wrong: the loss of step 1 is ")


def test_a_measured_row_has_a_time_of_torch() -> None:
    (row,) = [row for row in speed.speed_rows("CPU") if row.name == "op.matmul.thin"]
    (result,) = row.run(2)
    assert result.peer_name.startswith("torch ")
    assert len(result.values) == len(result.peer_values) == 2
    assert all(0 < value < 1e4 for value in (*result.values, *result.peer_values))


def test_inputs_lie_in_the_span_of_their_work() -> None:
    (sines,) = BY_NAME["op.sin"].inputs(((1000,),), "float32")
    assert sines.dtype == "float32"
    assert -3 <= sines.min() < -2.9
    assert 2.9 < sines.max() <= 3


def test_rows_of_processors_and_of_gpus() -> None:
    host = [row.name for row in speed.speed_rows("CPU")]
    gpu = [row.name for row in speed.speed_rows("CUDA:1")]
    assert {"op.matmul.512", "op.matmul.512.threads", "op.sort", "model.mlp"} <= set(host)
    assert {"op.matmul.8192", "op.matmul.8192.float16", "op.conv.7x7.contracted"} <= set(gpu)
    assert {"op.launches", "model.convnet"} <= set(host) & set(gpu)
    assert not {"op.matmul.512", "op.matmul.512.threads", "op.softmax.float16"} & set(gpu)
    assert host[-1] == gpu[-1] == "op.mean"


def test_a_gpu_that_torch_does_not_reach_is_said() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("torch reaches a GPU of CUDA here")
    with pytest.raises(UserError, match=r"does not reach the hardware of CUDA"):
        speed.peer_of("CUDA")


def test_the_mean_is_geometric_and_of_one_kind_of_row() -> None:
    def row(name: str, ours: float, theirs: float) -> Measured:
        return Measured(name, "ms", [ours], "torch", [theirs])

    done = [row("a", 2, 1), row("b", 8, 1), row("a.threads", 3, 1), Measured("c", "", missing="x")]
    done.append(row("a.threads.contracted", 5, 1))
    means = {row_mean.name: row_mean for row_mean in speed._mean(done, 1)}
    assert means["op.mean"].values == [pytest.approx(4)]
    assert means["op.mean"].note == "2 rows, the slowest 8"
    assert means["op.mean.threads"].values == [pytest.approx(3)]
    assert means["op.mean.threads.contracted"].values == [pytest.approx(5)]
    assert list(means) == ["op.mean", "op.mean.threads", "op.mean.threads.contracted"]
