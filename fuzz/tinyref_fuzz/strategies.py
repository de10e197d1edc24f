"""Strategies of hypothesis that draw from the fuzzer's generators, for your own property tests.

Each choice of a generator is a draw of hypothesis, and 0 is the simplest choice. So a failure
shrinks to a small kernel, and is replayed from the database of hypothesis. The `choices` of an
example build it again without hypothesis: `Tape(choices=...)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st

from tinyref.capabilities import Capabilities
from tinyref.device import Device
from tinyref.formats.text import to_text
from tinyref.uops.node import UOp
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.optimisations import random_opts
from tinyref_fuzz.generate.policies import POLICIES, Policy
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.generate.views import draw_view
from tinyref_fuzz.programs import generator
from tinyref_fuzz.programs.steps import TensorProgram
from tinyref_spec.kernel_case import KernelCase, Opts

T = TypeVar("T")

# A weighted choice is drawn as one of this many parts of the sum of weights.
_PARTS = 1 << 16
MAX_AXES = 4
SIZES = (1, 2, 3, 4, 5, 0)


def kernels(
    device: str | Capabilities = "PYTHON", policy: str | Policy = "all"
) -> st.SearchStrategy[KernelCase]:
    """Draw valid kernel ASTs, with data that define their results, and lists of optimisations.

    Args:
        device: A name, or the capabilities of a device. Only its types, and lists that are legal
            for it, are drawn. The device opens when the first kernel is drawn.
        policy: The weights of the kernels, or a name of `tinyref_fuzz.generate.policies.POLICIES`.

    `KernelCase.ast` is the kernel, `buffers` its data by slot, `bindings` the values of its
    variables, and `opts` lists of optimisations.
    """
    weights = POLICIES[policy] if isinstance(policy, str) else policy
    return _of_tape(lambda tape: _noted(generate(tape, _capabilities(device), weights)))


def programs(devices: int = 1) -> st.SearchStrategy[TensorProgram]:
    """Draw programs of Tensor functions, assignments, replays and reads, on this many devices.

    `tinyref_fuzz.programs.oracle.evaluate` returns the expected results of their reads.
    """
    return _of_tape(lambda tape: generator.generate(tape, devices))


def opt_lists(
    kernel: KernelCase | UOp, device: str | Capabilities = "PYTHON", most: int = 5
) -> st.SearchStrategy[Opts]:
    """Draw lists of up to `most` optimisations, perhaps none, that are legal for a kernel."""
    ast = kernel.ast if isinstance(kernel, KernelCase) else kernel

    def drawn(tape: Tape) -> Opts:
        return random_opts(ast, _capabilities(device), tape, tape.below(most + 1)).opts

    return _of_tape(drawn)


def views(shape: tuple[int, ...] | None = None, moves: int = 4) -> st.SearchStrategy[ShapeTracker]:
    """Draw views of a buffer that have `shape`, or any shape of up to four axes.

    Up to `moves` movements permute, flip, pad, cut, repeat and reshape the buffer.
    """

    def drawn(tape: Tape) -> ShapeTracker:
        if shape is not None:
            return draw_view(tape, shape, moves)
        return draw_view(tape, tuple(map(tape.pick, [SIZES] * tape.below(MAX_AXES + 1))), moves)

    return _of_tape(drawn)


class _DrawnTape(Tape):
    """Tape whose choices are draws of hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(choices=())
        self._draw = draw

    def _number(self, bound: int) -> int:
        return self._draw(_below(bound))

    @property
    def _fraction(self) -> Callable[[], float]:
        return lambda: self._draw(_below(_PARTS)) / _PARTS


@functools.cache
def _below(bound: int) -> st.SearchStrategy[int]:
    return st.integers(0, bound - 1)


def _of_tape(generator: Callable[[Tape], T]) -> st.SearchStrategy[T]:
    @st.composite
    def drawn(draw: st.DrawFn) -> T:
        return generator(_DrawnTape(draw))

    return drawn()


def _capabilities(device: str | Capabilities) -> Capabilities:
    return Device[device].capabilities if isinstance(device, str) else device


class _KernelText:
    """The text of a kernel, which is only printed for the example that fails."""

    def __init__(self, ast: UOp) -> None:
        self._ast = ast

    def __repr__(self) -> str:
        return f"the kernel:\n{to_text(self._ast)}"


def _noted(case: KernelCase) -> KernelCase:
    note(_KernelText(case.ast))
    return case
