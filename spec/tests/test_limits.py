"""A device that declares more than it can is found out, and one that can do less is not judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from run_rows import failed

from tinyref.interpret import Access, Hooks, Interpreter
from tinyref.runtimes.host.memory import HostHandle
from tinyref.runtimes.python import InterpretedKernel, TextBackend


class Hooked(TextBackend):
    """The interpreter without its sanitizer and with hooks."""

    hooks = Hooks()

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        run = Interpreter(kernel.program, None, self.hooks).run

        def unchecked(arrays: Any, bindings: Any, grid: Any, group: Any, sanitize: bool) -> None:
            run(arrays, bindings, grid, group, False)

        kernel.interpreter.run = unchecked  # type: ignore[method-assign,assignment]
        return kernel


class ShortGrid(Hooked):
    """Launches 40,000 groups at most along y."""

    hooks = Hooks(grid=lambda grid: (grid[0], min(grid[1], 40_000), grid[2]))


def _half(access: Access) -> Access:
    if access.memory.startswith("slot"):
        return access
    return dataclasses.replace(access, gate=access.index < access.size // 2)


class LittleMemory(Hooked):
    """Has half of the shared memory that it declares."""

    hooks = Hooks(store=_half)


class _ShortVariables(InterpretedKernel):
    def __call__(
        self,
        buffers: Sequence[HostHandle],
        grid: Any = (1, 1, 1),
        group: Any = (1, 1, 1),
        variables: Sequence[int] = (),
        wait: bool = False,
    ) -> float | None:
        short = [int(np.int64(value).astype(np.int16)) for value in variables]
        return super().__call__(buffers, grid, group, short, wait)


class ShortVariables(Hooked):
    """Passes the low 16 bits of a variable."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        return _ShortVariables(kernel.device, kernel.program)


LIMITS = "kernel.program.limit,kernel.variable,kernel.offset"


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("ShortGrid", {"kernel.program.limit.grid.y"}),
        ("LittleMemory", {"kernel.program.limit.shared.all"}),
        (
            "ShortVariables",
            {f"kernel.variable.int32.value:{n}" for n in (65_537, 2**31 - 1, -(2**31))},
        ),
    ],
)
def test_a_limit_that_is_not_reached_is_named(name: str, cases: set[str]) -> None:
    assert set(failed(LIMITS, f"{__name__}:{name}")) == cases
