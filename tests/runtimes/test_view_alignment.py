"""Kernels take views at multiples of the declared alignment, and everybody gives them such ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyref import Tensor, TinyJit
from tinyref.capabilities import Capabilities
from tinyref.device import Buffer
from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, UserError
from tinyref.runtimes.host.memory import HostAllocator, HostHandle, address_of
from tinyref.runtimes.kernel import compile_ast
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops import build
from tinyref_fuzz.judge.judge import judge
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel_case import KernelCase
from tinyref_spec.kernels.named import elementwise

ALIGNMENT = 512


class AlignedAllocator(HostAllocator):
    """Allocations begin at multiples of `ALIGNMENT`, so that addresses tell offsets."""

    def allocate(self, nbytes: int) -> HostHandle:
        memory = super().allocate(nbytes + ALIGNMENT)
        start = -address_of(memory) % ALIGNMENT
        return memory[start : start + nbytes]


class AlignedKernel(InterpretedKernel):
    """Reads and writes from the last aligned address before a view on."""

    seen: list[int] = []

    def __call__(self, buffers: Sequence[HostHandle], *others: Any, **named: Any) -> float | None:
        offsets = [address_of(handle) % ALIGNMENT for handle in buffers]
        self.seen.extend(offsets)
        if any(offsets):
            raise DeviceError(self.device, f"a view begins {max(offsets)} bytes too far")
        return super().__call__(buffers, *others, **named)


class AlignedBackend(TextBackend):
    """Declares what it needs."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._allocator = AlignedAllocator(self.name)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return replace(super().capabilities, view_alignment=ALIGNMENT)

    def load(self, entry: str, binary: bytes) -> AlignedKernel:
        return AlignedKernel(self.name, super().load(entry, binary).program)


@pytest.fixture
def device() -> str:
    AlignedKernel.seen.clear()
    return f"{__name__}:AlignedBackend"


def doubled(length: int) -> Any:
    return elementwise(lambda x: build.add(x, x), (dtypes.float32,), length)


def test_a_launch_on_other_views_is_refused(device: str) -> None:
    kernel = compile_ast(device, doubled(4))
    out, whole = Buffer(device, 4, dtypes.float32), Buffer(device, 256, dtypes.float32)
    whole.copy_in(np.arange(256, dtype=np.float32).data)
    kernel([out, whole.view(ALIGNMENT, 4, dtypes.float32)])
    assert np.frombuffer(out.copy_out(), np.float32).tolist() == [256, 258, 260, 262]
    for offset in (4, ALIGNMENT // 2):
        with pytest.raises(UserError, match=rf"starts {offset} bytes in, accepted are .* of 512"):
            kernel([out, whole.view(offset, 4, dtypes.float32)])


def test_temporaries_of_a_schedule_and_of_a_replay_are_aligned(device: str) -> None:
    def chain(x: Tensor) -> Tensor:
        return ((x + 1).contiguous() * 2).contiguous().sum().realize()

    captured = TinyJit(chain)
    for number in range(4):
        assert captured(Tensor([float(number), 1, 2], device=device)).item() == 2 * number + 12
    assert len(AlignedKernel.seen) > 8
    assert set(AlignedKernel.seen) == {0}


def test_red_zones_and_the_fuzzer_give_aligned_views(device: str) -> None:
    tested = DeviceUnderTest(device)
    (actual,) = tested.run(doubled(4), [None, np.float32([1, 2, 3, 4])])
    assert actual.tolist() == [2, 4, 6, 8]
    case = KernelCase(doubled(5), (np.zeros(5, np.float32), np.arange(5, dtype=np.float32)))
    assert judge(case, device, thorough=True).agrees
    assert set(AlignedKernel.seen) == {0}
