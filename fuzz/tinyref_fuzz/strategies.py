"""Strategies of hypothesis that draw what the fuzzer draws, for property tests of your own.

Each choice of the generators is a draw of hypothesis, and 0 stands for what is simplest: what fails
shrinks to a small kernel, and is replayed from the database of hypothesis. `choices` of what was
drawn build it again without hypothesis: `Tape(choices=...)`.
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

# A weighted choice is drawn as one of so many parts of the sum of all weights.
_PARTS = 1 << 16
MAX_AXES = 4
SIZES = (1, 2, 3, 4, 5, 0)


def kernels(
    device: str | Capabilities = "PYTHON", policy: str | Policy = "all"
) -> st.SearchStrategy[KernelCase]:
    """Kernel ASTs that are valid, with data on which they are defined and lists of optimisations.

    device: a name, which is opened when the first kernel is drawn, or what a device declares: only
    its types are drawn, and only lists that are legal for it. policy: which kernels are drawn how
    often; a name of `tinyref_fuzz.generate.policies.POLICIES`. `Case.ast` is the kernel,
    `Case.buffers` its data by slot, `Case.bindings` the values of its variables, `Case.opts` lists
    of optimisations.
    """
    weights = POLICIES[policy] if isinstance(policy, str) else policy
    return _of_tape(lambda tape: _noted(generate(tape, _capabilities(device), weights)))


def programs(devices: int = 1) -> st.SearchStrategy[TensorProgram]:
    """Programs of Tensor functions, assignments, replayed functions and reads, on so many devices.

    `tinyref_fuzz.programs.oracle.evaluate` says what their reads give.
    """
    return _of_tape(lambda tape: generator.generate(tape, devices))


def opt_lists(
    kernel: KernelCase | UOp, device: str | Capabilities = "PYTHON", most: int = 5
) -> st.SearchStrategy[Opts]:
    """Lists of up to `most` optimisations that are legal for a kernel on a device, one after the
    other; the empty list is among them.
    """
    ast = kernel.ast if isinstance(kernel, KernelCase) else kernel

    def drawn(tape: Tape) -> Opts:
        return random_opts(ast, _capabilities(device), tape, tape.below(most + 1)).opts

    return _of_tape(drawn)


def views(shape: tuple[int, ...] | None = None, moves: int = 4) -> st.SearchStrategy[ShapeTracker]:
    """Views of a buffer that have `shape`, any of up to four axes if it is not given, after up to
    `moves` movements: permuted, flipped, padded, cut out, repeated, reshaped.
    """

    def drawn(tape: Tape) -> ShapeTracker:
        if shape is not None:
            return draw_view(tape, shape, moves)
        return draw_view(tape, tuple(map(tape.pick, [SIZES] * tape.below(MAX_AXES + 1))), moves)

    return _of_tape(drawn)


class _DrawnTape(Tape):
    """A tape of which each choice is a draw of hypothesis."""

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


class _Text:
    """The text of a kernel, made where it is shown: of the example that fails, in the end."""

    def __init__(self, ast: UOp) -> None:
        self._ast = ast

    def __repr__(self) -> str:
        return f"the kernel:\n{to_text(self._ast)}"


def _noted(case: KernelCase) -> KernelCase:
    note(_Text(case.ast))
    return case
