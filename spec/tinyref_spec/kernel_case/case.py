"""A case, the verdict of a judge on it, the blame, and the record that a file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyref import __version__
from tinyref.optimise.opt import Opt
from tinyref.uops.node import UOp

Array = npt.NDArray[np.generic]
Opts = tuple[Opt, ...]


class Mode(Enum):
    """The kind of data of a case, which decides when two results agree."""

    __hash__ = object.__hash__

    EXACT = "integers so small that no operation rounds: every result is exact"
    FLOAT = "floats of moderate size: results lie within a bound that is derived for the kernel"
    EDGE = "NaN, infinities, subnormals, limits of integers: exact if a value is specified"


@dataclass(frozen=True)
class Equivalent:
    """A kernel that computes the same as `origin`.

    `trail` has the label of each transformation and the kernel after it, in order.
    """

    origin: UOp
    trail: tuple[tuple[str, UOp], ...]

    @property
    def ast(self) -> UOp:
        """Return the kernel after the last transformation."""
        return self.trail[-1][1] if self.trail else self.origin

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the transformations."""
        return tuple(label for label, _ in self.trail)


@dataclass(frozen=True)
class KernelCase:
    """One kernel, its optimisations, and its data.

    buffers: contents by slot; for written ones, what they hold before. choices: the tape that gave
    the case, empty for other cases. equivalent: a kernel that computes the same by construction.
    opts: the lists of optimisations to judge; the kernel without any is always judged. bindings: a
    value for each variable.
    """

    ast: UOp
    buffers: tuple[Array, ...]
    choices: tuple[int, ...] = ()
    equivalent: Equivalent | None = None
    opts: tuple[Opts, ...] = ()
    bindings: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    mode: Mode = Mode.EXACT


class Pair(Enum):
    """The two values of a kernel between which the first difference is."""

    __hash__ = object.__hash__

    PLAIN = "the evaluator and the plain program"
    OPTIMISED = "the plain and the optimised program"
    DEVICE = "the interpreter and the device"
    EQUIVALENT = "the kernel and an equivalent one"


class Symptom(Enum):
    """The kind of a fault."""

    __hash__ = object.__hash__

    VALUE = "another value"
    ERROR = "an error where none is due"
    ACCESS = "an access outside of a buffer, or of what nobody wrote"
    RACE = "a race, or a barrier that not all work-items reach"
    RED_ZONE = "bytes changed next to a buffer, or one that is only read"
    UNSTABLE = "another value in a second run"
    CRASH = "the process died"
    HANG = "no end in sight"
    MEMORY = "too much memory"


@dataclass(frozen=True)
class KernelVerdict:
    """The result of a case; `pair` and `symptom` are None if all agree.

    detail: what differs, or the error's message. trial: the number of the list in `Case.opts` that
    shows the fault; -1 without optimisations. judged: the number of optimised programs compared.
    """

    pair: Pair | None = None
    symptom: Symptom | None = None
    detail: str = ""
    trial: int = -1
    judged: int = 0

    @property
    def agrees(self) -> bool:
        return self.pair is None


@dataclass(frozen=True)
class Blame:
    """The part that is to blame for a verdict.

    stage: a stage of the compiler, or `device`. cause: the rule, optimisation, pass or
    transformation in the stage, or empty. detail: what was seen before and after it.
    """

    stage: str
    cause: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.stage}: {self.cause}" if self.cause else self.stage


@dataclass(frozen=True)
class CaseRecord:
    """A case with what was found with it.

    note: a sentence on that. device: the device with the fault. written_by: the version of tinyref.
    """

    case: KernelCase
    note: str = ""
    verdict: KernelVerdict | None = None
    blame: Blame | None = None
    device: str = ""
    written_by: str = __version__
