"""A device that flushes, contracts or reassociates may do what it declares, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tinyref.algebra.semantics import apply
from tinyref.dtype import dtypes
from tinyref.interpret import Interpreter
from tinyref.renderers.llvm import LlvmRenderer
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.program import Program
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge, judge
from tinyref_spec.kernel_case import KernelCase, Mode, Pair, Symptom
from tinyref_spec.kernels.named import elementwise

SMALLEST = np.finfo(np.float32).tiny


def flushed(dtype, values):
    """Flush subnormals of float32 to a zero of the same sign."""
    if dtype.scalar is not dtypes.float32:
        return values
    with np.errstate(all="ignore"):
        return np.where(np.abs(values) < SMALLEST, np.copysign(np.float32(0), values), values)


def semantics_of(op: Ops):
    def flushing(dtype, operands, sources):
        pairs = zip(sources, operands, strict=True)
        operands = [flushed(source, operand) for source, operand in pairs]
        return flushed(dtype, apply(op, dtype, operands, sources))

    return flushing


class Flushing(TextBackend):
    """Device that flushes subnormals, and declares it."""

    @property
    def capabilities(self):
        return replace(super().capabilities, keeps_subnormals=False)

    def load(self, entry, binary):
        kernel = InterpretedKernel(self.name, super().load(entry, binary).program)
        wrong = {op: semantics_of(op) for op in (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV)}
        kernel.interpreter = Interpreter(kernel.program, wrong)
        return kernel


class SecretlyFlushing(Flushing):
    """Device that flushes subnormals, and does not declare it."""

    @property
    def capabilities(self):
        return replace(super().capabilities, keeps_subnormals=True)


class FlushingTooMuch(Flushing):
    """Device that flushes everything below one."""

    def load(self, entry, binary):
        kernel = super().load(entry, binary)

        def wrong(dtype, operands, sources):
            result = apply(Ops.MUL, dtype, operands, sources)
            return np.where(np.abs(result) < 1, np.zeros_like(result), result)

        kernel.interpreter = Interpreter(kernel.program, {Ops.MUL: wrong})
        return kernel


def halved(*values: float, mode: Mode = Mode.EDGE) -> KernelCase:
    """Return the kernel that halves these values."""
    ast = elementwise(lambda x: build.mul(x, 0.5), (dtypes.float32,), len(values))
    return KernelCase(ast, (np.zeros(len(values), np.float32), np.float32(values)), mode=mode)


def pair_and_symptom(case: KernelCase, device: str, module: str = __name__):
    verdict = judge(case, f"{module}:{device}", thorough=True)
    return verdict.pair, verdict.symptom


def test_a_device_may_flush_what_it_declares_to_flush():
    case = halved(SMALLEST, 1.0, -1e-44, 3.0)
    assert pair_and_symptom(case, "Flushing") == (None, None)
    assert pair_and_symptom(case, "SecretlyFlushing") == (Pair.DEVICE, Symptom.VALUE)


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_a_device_may_not_flush_anything_else(mode):
    assert pair_and_symptom(halved(1.0, 3.0, mode=mode), "FlushingTooMuch") == (
        Pair.DEVICE,
        Symptom.VALUE,
    )
    assert pair_and_symptom(halved(2.0, 6.0, mode=mode), "FlushingTooMuch") == (None, None)


def test_the_compiler_may_not_flush(monkeypatch):
    """Check that the interpreter may not do what the device may."""
    case = halved(SMALLEST, 1.0)
    healthy = Interpreter.run

    def run(self, buffers, *args, **named):
        healthy(self, buffers, *args, **named)
        buffers[0][:] = flushed(dtypes.float32, buffers[0])

    monkeypatch.setattr(Interpreter, "run", run)
    assert pair_and_symptom(case, "Flushing") == (Pair.PLAIN, Symptom.VALUE)


# --- contraction and reassociation ----------------------------------------------------------------


TINY = 2.0**-13


def case_of(build_node: Callable[..., UOp], *columns: float) -> KernelCase:
    ast = elementwise(build_node, (dtypes.float32,) * len(columns), 1)
    values = (np.zeros(1, np.float32), *(np.float32([column]) for column in columns))
    return KernelCase(ast, values, mode=Mode.FLOAT)


DOT = case_of(lambda x, y, z: build.add(build.mul(x, y), z), 1 + TINY, 1 - TINY, -1.0)
LOST = case_of(lambda x, y: build.sub(build.add(x, y), y), TINY, 2.0**20)
PLAIN = case_of(build.add, 1.0, 2.0)


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
def test_a_device_may_do_what_it_declares(case: KernelCase, device: str, is_right: bool) -> None:
    expected = (None, None) if is_right else (Pair.DEVICE, Symptom.VALUE)
    assert pair_and_symptom(case, device, "relaxed_devices") == expected


def test_one_operation_rounds_right_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Judge("relaxed_devices:ReassociatingCpu")
    assert judged.verdict(PLAIN, thorough=True).agrees
    text = LlvmRenderer.render

    def wrong(self: LlvmRenderer, program: Program) -> str:
        return text(self, program).replace("= fadd ", "= fsub ")

    monkeypatch.setattr(LlvmRenderer, "render", wrong)
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
