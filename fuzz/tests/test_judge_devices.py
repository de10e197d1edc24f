"""The judge reports faulty devices: one injected fault for each."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from judged import ELEMENTWISE, case_of, pair_and_symptom

from tinyref.algebra.semantics import apply
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError
from tinyref.interpret import Interpreter
from tinyref.runtimes.host.memory import address_of
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops import build
from tinyref.uops.ops import Ops
from tinyref_fuzz.judge import trial as judging
from tinyref_fuzz.judge.judge import judge
from tinyref_fuzz.reduce import reduce_case
from tinyref_spec.kernel_case import KernelCase, Pair, Symptom
from tinyref_spec.kernels.named import elementwise

# --- the device is wrong --------------------------------------------------------------------------


class Kernel(InterpretedKernel):
    """Kernel of a faulty device that can count its launches."""

    launches = 0


class Wrong(TextBackend):
    """Base of faulty devices: the interpreter, as a device."""

    kernel: type[InterpretedKernel] = Kernel

    def load(self, entry, binary):
        return self.kernel(self.name, super().load(entry, binary).program)


def floor_divide(dtype, operands, sources):
    return np.floor_divide(*operands)


class FloorDividing(Wrong):
    def load(self, entry, binary):
        kernel = super().load(entry, binary)
        kernel.interpreter = Interpreter(kernel.program, {Ops.IDIV: floor_divide})
        return kernel


class _Refusing(Kernel):
    def __call__(self, *args, **named):
        raise DeviceError("WRONG", "the power is off\nand so is the light")


class Refusing(Wrong):
    kernel = _Refusing


class Unloadable(TextBackend):
    def load(self, entry, binary):
        raise KeyError(entry)


class _Idle(Kernel):
    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        return 0.0


class Idle(Wrong):
    kernel = _Idle


class _Overrunning(Kernel):
    at = 0

    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        super().__call__(buffers, grid, group, variables, wait)
        first = buffers[0]
        address = address_of(first) + (self.at if self.at < 0 else first.size + self.at)
        ctypes.memset(address, 0, 1)
        return 0.0


class Overrunning(Wrong):
    kernel = _Overrunning


class _Underrunning(_Overrunning):
    at = -1


class Underrunning(Wrong):
    kernel = _Underrunning


class _Scribbling(Kernel):
    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        super().__call__(buffers, grid, group, variables, wait)
        buffers[1][-1] ^= 1
        return 0.0


class Scribbling(Wrong):
    kernel = _Scribbling


class _Tired(Kernel):
    """Kernel that restores the old output from the second launch on."""

    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        before = bytes(buffers[0])
        super().__call__(buffers, grid, group, variables, wait)
        self.launches += 1
        if self.launches > 1:
            buffers[0][:] = np.frombuffer(before, np.uint8)
        return 0.0


class Tired(Wrong):
    kernel = _Tired


class _FirstInputs(Kernel):
    """Kernel that reads in each launch what the last buffer held in the first one."""

    first = b""

    def __call__(self, buffers, *args, **named):
        now = bytes(buffers[-1])
        self.first = self.first or now
        buffers[-1][:] = np.frombuffer(self.first, np.uint8)
        super().__call__(buffers, *args, **named)
        buffers[-1][:] = np.frombuffer(now, np.uint8)
        return 0.0


class FirstInputs(Wrong):
    kernel = _FirstInputs


class NegativeZeroLost(Wrong):
    def load(self, entry, binary):
        kernel = super().load(entry, binary)

        def plus(dtype, operands, sources):
            result = apply(Ops.MUL, dtype, operands, sources)
            return np.where(result == 0, np.zeros_like(result), result)

        kernel.interpreter = Interpreter(kernel.program, {Ops.MUL: plus})
        return kernel


class _Unaligned(Kernel):
    """Kernel that writes only to buffers at multiples of 64 bytes."""

    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        if address_of(buffers[0]) % 64:
            return 0.0
        return super().__call__(buffers, grid, group, variables, wait)


class Unaligned(Wrong):
    kernel = _Unaligned


DEVICES = [
    (FloorDividing, "divide-remainder-int32", Symptom.VALUE),
    (Refusing, "multiply-add-int32", Symptom.ERROR),
    (Unloadable, "multiply-add-int32", Symptom.ERROR),
    (Idle, "multiply-add-int32", Symptom.VALUE),
    (Overrunning, "multiply-add-int32", Symptom.RED_ZONE),
    (Underrunning, "multiply-add-int32", Symptom.RED_ZONE),
    (Scribbling, "multiply-add-int32", Symptom.RED_ZONE),
    (Tired, "multiply-add-int32", Symptom.UNSTABLE),
    (Unaligned, "multiply-add-int32", Symptom.UNSTABLE),
    (FirstInputs, "multiply-add-int32", Symptom.UNSTABLE),
]


@pytest.mark.parametrize(("backend", "name", "symptom"), DEVICES)
def test_a_wrong_device(backend, name, symptom):
    assert pair_and_symptom(case_of(name), f"{__name__}:{backend.__name__}") == (
        Pair.DEVICE,
        symptom,
    )


def test_a_kernel_that_keeps_its_first_data_is_wrong_in_its_second_launch():
    device = f"{__name__}:FirstInputs"
    assert judge(ELEMENTWISE, device, thorough=False).agrees
    verdict = judge(ELEMENTWISE, device, thorough=True)
    assert verdict.detail.endswith(", in launch 2 of 3, the first has other data")
    reduced = reduce_case(ELEMENTWISE, verdict, device, 60.0)
    assert (reduced.verdict.symptom, reduced.nodes) == (Symptom.UNSTABLE, 2)


def test_a_fault_of_each_launch_is_reduced_to_one(monkeypatch):
    """Check that a fault of a single launch is not reported as one of repeated launches."""
    monkeypatch.setattr(judging, "THOROUGH_SHARE", 1)
    case, device = case_of("divide-remainder-int32"), f"{__name__}:FloorDividing"
    verdict = judge(case, device)
    assert verdict.symptom is Symptom.VALUE
    assert "launch" not in verdict.detail


def test_the_sign_of_a_zero_counts_between_interpreter_and_device():
    product = elementwise(build.mul, (dtypes.float32,) * 2, 4)
    data = np.array([0, 0, 1, 2], np.float32), np.array([1, -1, 1, 3], np.float32)
    case = KernelCase(product, (np.zeros(4, np.float32), *data))
    assert pair_and_symptom(case, "CPU") == (None, None)
    assert pair_and_symptom(case, f"{__name__}:NegativeZeroLost") == (Pair.DEVICE, Symptom.VALUE)


def test_errors_are_reported_by_their_first_line():
    verdict = judge(ELEMENTWISE, f"{__name__}:Refusing")
    assert verdict.detail == "launch: DeviceError: WRONG: the power is off"
    verdict = judge(ELEMENTWISE, f"{__name__}:Unloadable")
    first = verdict.detail.partition("\n")[0]
    assert first.startswith("loading: BackendError: ")
    assert "Unloadable: load of e_24_8: raises KeyError: " in first


def test_an_old_value_is_not_taken_for_a_result():
    # The buffer already holds the expected values, and the device writes nothing.
    case = case_of("multiply-add-int32")
    answer = judging.evaluate(case.ast, dict(enumerate(case.buffers)))[0]
    case = replace(case, buffers=(answer, *case.buffers[1:]))
    assert pair_and_symptom(case, f"{__name__}:Idle") == (Pair.DEVICE, Symptom.VALUE)
