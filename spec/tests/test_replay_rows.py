"""The rows of replay, memory and symbolic sizes see launches and plans that are wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from tinyref.engine import capture, runner
from tinyref.schedule.memory import Arena, Lifetime, plan_arena
from tinyref_spec.case import Case, Measurement
from tinyref_spec.catalogue import find
from tinyref_spec.device_under_test import DeviceUnderTest


def run(case: Case, device: str) -> Measurement:
    return case.run(DeviceUnderTest(device))


@pytest.mark.parametrize(
    ("device", "case"),
    [
        ("StalePointers", "system.jit.float32.inputs"),
        ("StalePointers", "system.memory.float32.replay"),
        ("StaleVariables", "system.symbolic.float32.forms.replay"),
        ("StaleVariables", "system.symbolic.float32.cache.replay"),
        ("StaleListVariables", "system.jit.float32.in_flight.sizes"),
        ("SingleUpdate", "system.jit.float32.in_flight"),
        ("UnorderedList", "system.jit.float32.in_flight"),
        ("UnorderedList", "system.memory.float32.replay"),
        ("HastyList", "system.jit.float32.in_flight"),
        ("LateArguments", "system.jit.float32.in_flight"),
        ("LateArguments", "system.jit.float32.in_flight.sizes"),
    ],
)
def test_launches_that_are_repeated_wrongly_are_seen(device: str, case: str) -> None:
    assert not run(find(case), f"tinyref_conformance.faulty:{device}").passed


def overlapping(lifetimes: Sequence[Lifetime], alignment: int) -> Arena:
    """A planner that thinks a buffer free one item before its last use."""
    early = [dataclasses.replace(life, last=max(life.first, life.last - 1)) for life in lifetimes]
    return plan_arena(early, alignment)


@pytest.mark.parametrize("case", ["system.memory.float32.plan", "system.memory.float32.replay"])
def test_a_plan_that_overlaps_is_seen(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "plan_arena", overlapping)
    monkeypatch.setattr(capture, "plan_arena", overlapping)
    # The interpreter loads all that a kernel reads before it stores; a processor does not.
    assert not run(find(case), "CPU").passed
