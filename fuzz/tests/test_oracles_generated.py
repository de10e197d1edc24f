"""The oracle over generated kernels: no false report, few unknown elements, tight bounds."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from tinyref.device import Device
from tinyref.interpret.evaluate import evaluate
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.oracles import Oracle, oracle_for
from tinyref_spec.kernel_case import KernelCase, Mode

COUNT = 50
MODES = pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)


def case_of(mode: Mode, seed: int, device: str = "PYTHON", lists: int = 0) -> KernelCase:
    """The case of a seed, in turn of each policy, with data of one mode."""
    policies = [policy for policy in POLICIES.values() if not policy.mixes]
    modes = MappingProxyType({other: float(other is mode) for other in Mode})
    policy = replace(policies[seed % len(policies)], modes=modes, lists=(lists, lists))
    return generate(Tape(seed=seed), Device[device].capabilities, policy)


@pytest.fixture(scope="module")
def found() -> dict[Mode, list[tuple[KernelCase, Oracle]]]:
    """Cases of each mode, and what is expected of them."""
    cases = {mode: [case_of(mode, seed) for seed in range(COUNT)] for mode in Mode}
    return {mode: [(case, oracle_for(case)) for case in cases[mode]] for mode in Mode}


@pytest.mark.long
@MODES
def test_the_evaluator_gives_what_is_expected(found, mode):
    for seed, (case, oracle) in enumerate(found[mode]):
        values = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        assert oracle.slots == tuple(sorted(values))
        for slot, value in values.items():
            assert oracle.difference(slot, value) == "", (seed, slot)


def spoilt(value: np.ndarray, oracle: Oracle, slot: int) -> np.ndarray | None:
    """`value` with one known element off by 3 bounds, or by the least step; None without any."""
    allowed = oracle.allowed[slot]
    known = np.ones(value.shape, bool) if allowed.unknown is None else ~allowed.unknown
    numbers = np.flatnonzero(known & np.isfinite(value.astype(np.float64)))
    if not numbers.size:
        return None
    number = int(numbers[numbers.size // 2])
    wrong = value.copy()
    if value.dtype == np.bool_:
        wrong[number] = not value[number]
        return wrong
    with np.errstate(all="ignore"):
        low, high = (float(end[number]) for end in (allowed.low, allowed.high))
        step = np.ones((), value.dtype)
        if low != high:
            wrong[number] = np.array(high + 3 * (high - low)).astype(value.dtype)
        else:
            wrong[number] = value[number] + step if abs(low) < 64 else -value[number]
    return wrong if wrong[number] != value[number] else None


@MODES
def test_a_value_that_is_off_by_three_bounds_is_found(found, mode):
    tried = 0
    for seed, (case, oracle) in enumerate(found[mode]):
        values = evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings)
        for slot, value in values.items():
            wrong = spoilt(value, oracle, slot)
            if wrong is None:
                continue
            tried += 1
            assert oracle.difference(slot, wrong), (seed, slot)
    assert tried > 40


def test_values_rounded_to_fewer_bits_are_found(found):
    """Outputs of float32 as TF32 or bfloat16 would have them."""
    caught = tried = 0
    for case, oracle in found[Mode.FLOAT]:
        for slot, value in evaluate(case.ast, dict(enumerate(case.buffers)), case.bindings).items():
            if value.dtype != np.float32 or not value.size:
                continue
            short = (value.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
            written = value != case.buffers[slot]
            if (short != value)[written].any():
                tried += 1
                spoilt_value = np.where(written, short, value)
                caught += oracle.difference(slot, spoilt_value) != ""
    assert tried >= 5
    assert caught / tried > 0.9
