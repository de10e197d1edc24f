"""A device that contracts or reassociates is judged by what that allows, and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinyref.dtype import dtypes
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge, judge
from tinyref_spec.kernel_case import Case, Mode, Pair, Symptom
from tinyref_spec.kernels.named import elementwise

TINY = 2.0**-13


def case_of(build_node: Callable[..., UOp], *columns: float) -> Case:
    ast = elementwise(build_node, (dtypes.float32,) * len(columns), 1)
    values = (np.zeros(1, np.float32), *(np.float32([column]) for column in columns))
    return Case(ast, values, mode=Mode.FLOAT)


DOT = case_of(lambda x, y, z: build.add(build.mul(x, y), z), 1 + TINY, 1 - TINY, -1.0)
LOST = case_of(lambda x, y: build.sub(build.add(x, y), y), TINY, 2.0**20)
PLAIN = case_of(build.add, 1.0, 2.0)


def found(case: Case, device: str) -> tuple[Pair | None, Symptom | None]:
    verdict = judge(case, f"relaxed_devices:{device}", thorough=True)
    return verdict.pair, verdict.symptom


@pytest.mark.parametrize(
    ("case", "device", "is_right"),
    [
        (DOT, "ContractingCpu", True),
        (DOT, "ReassociatingCpu", True),
        (DOT, "SecretlyContractingCpu", False),
        (LOST, "ReassociatingCpu", True),
        (LOST, "SecretlyReassociatingCpu", False),
    ],
)
def test_a_device_may_do_what_it_declares(case: Case, device: str, is_right: bool) -> None:
    expected = (None, None) if is_right else (Pair.DEVICE, Symptom.VALUE)
    assert found(case, device) == expected


def test_one_operation_rounds_right_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Judge("relaxed_devices:ReassociatingCpu")
    assert judged.verdict(PLAIN, thorough=True).agrees
    text = type(judged.backend.renderer).render

    def wrong(self: object, program: object) -> str:
        return text(self, program).replace("= fadd ", "= fsub ")  # type: ignore[arg-type]

    monkeypatch.setattr(type(judged.backend.renderer), "render", wrong)
    other = case_of(build.add, 1.0, 4.0)
    assert judged.verdict(other, thorough=True).pair is Pair.DEVICE


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize("first", range(0, 64, 4))
@pytest.mark.parametrize("device", ["ContractingCpu", "ReassociatingCpu"])
def test_generated_kernels_are_not_reported(device: str, first: int) -> None:
    judged = Judge(f"relaxed_devices:{device}")
    for seed in range(first, first + 4):
        policy = POLICIES["floats"]
        verdict = judged.verdict(generate(Tape(seed=seed), judged.capabilities, policy))
        assert verdict.agrees, (seed, verdict)
