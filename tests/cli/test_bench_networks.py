"""Test the rows `net.*`: networks agree with torch, in values and training, or have no time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="torch, the peer of these rows, is not installed")

from tinyref.cli.bench import libraries
from tinyref.cli.bench.networks import NETWORKS, SMALL_NETWORKS, Network, Ops, Parameters
from tinyref.cli.bench.speed import ON_HOST, peer_of
from tinyref.cli.bench.works import AnyTensor

KINDS = {network.name.split(".")[1]: network for network in NETWORKS}


@pytest.mark.long
@pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_agrees_with_torch(kind: str, trains: bool) -> None:
    network = replace(KINDS[kind], trains=trains)
    assert not libraries.problem_of(network, peer_of("CPU"))


def test_every_network_has_a_small_one_of_its_kind() -> None:
    for network in NETWORKS:
        kind = network.name.split(".")[1]
        assert any(
            small.name == f"net.{kind}" and small.trains == network.trains
            for small in SMALL_NETWORKS
        )


def test_a_wrong_network_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(inputs: Sequence[AnyTensor], weights: Parameters, ops: Ops) -> AnyTensor:
        result = inputs[0].sum(1, keepdim=True) * weights(3)
        return result + 0.001 if type(ops) is Ops else result

    network = Network("net.wrong", ((2, 3),), wrong)
    monkeypatch.setattr(libraries, "SMALL_NETWORKS", (network,))
    (result,) = libraries._measure(network, ON_HOST[0], 1)
    assert not result.values
    assert result.missing == "it is wrong: it is 0.001 off the result of torch"


def test_a_measured_network_has_the_time_of_its_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(libraries, "_tinygrad_text", lambda network, repeats: "tinygrad 3 ms")
    network = next(small for small in SMALL_NETWORKS if not small.trains)
    (result,) = libraries._measure(network, ON_HOST[0], 2)
    assert len(result.values) == len(result.peer_values) == 2
    first, tinygrad = result.note.split("; ")
    assert 0 < float(first.removeprefix("first call ").removesuffix(" s")) < 60
    assert tinygrad == "tinygrad 3 ms"


def test_tinygrad_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_ends() -> None:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(libraries, "Tinygrad", libraries.Tinyref)
    monkeypatch.setattr(libraries, "call_of", lambda network, library: never_ends)
    monkeypatch.setattr(libraries, "TINYGRAD_SECONDS", 0.1)
    helpers = SimpleNamespace(Context=lambda **flags: nullcontext())
    monkeypatch.setitem(sys.modules, "tinygrad.helpers", helpers)
    assert libraries._tinygrad_text(NETWORKS[0], 1) == "tinygrad cut off after 0.1 s"
