"""The judged device: what it declares, and which programs of a case are judged on it."""

from __future__ import annotations

import functools

from tinyref import config
from tinyref.codegen.compile import plan_for
from tinyref.device import Device
from tinyref.runtimes.python import TextBackend
from tinyref_fuzz.generate.candidates import THREADS
from tinyref_fuzz.judge.oracles import Arithmetic
from tinyref_spec.kernel_case import KernelCase, Opts

ALL_LEVELS = (0, 1, 2, 3)


class JudgedDevice:
    """Device as all judging on it sees it.

    `capabilities` compile the programs, and are the same on a machine with other cores. Raises
    `UserError` for an unknown device, and `DeviceError` for one that does not work here.
    """

    def __init__(self, device: str) -> None:
        self.device = Device.canonical(device)
        self.backend = Device[self.device]
        with config.Context(THREADS=THREADS):
            self.capabilities = self.backend.capabilities
        # What the device may do with floats, while the interpreter runs its programs strictly.
        self.arithmetic = Arithmetic.of(self.capabilities)
        # True if the device is the interpreter: a program runs there once, parsed from its text.
        self.is_reference = (
            isinstance(self.backend, TextBackend)
            and getattr(type(self.backend), "load", None) is TextBackend.load
        )

    @functools.cached_property
    def has_levels(self) -> bool:
        """Return True if LLVM compiles for the device, differently at each of its levels."""
        with config.Context(CPU_LEVEL=ALL_LEVELS[-1]):
            hardest = self.backend.compiler.key
        with config.Context(CPU_LEVEL=ALL_LEVELS[0]):
            return self.backend.compiler.key != hardest
        raise AssertionError("unreachable")

    def trials(self, case: KernelCase) -> tuple[Opts, ...]:
        """Return the lists of optimisations to judge: the case's, else the heuristics' choice.

        `Verdict.trial` is an index into this tuple.
        """
        if case.opts:
            return case.opts
        with config.Context(THREADS=THREADS):
            chosen = plan_for(case.ast, self.capabilities).opts
        return (chosen,) if chosen else ()
