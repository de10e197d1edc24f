"""Rows and cases of the specification: the contract between the tables and the runner."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from tinyref.capabilities import Capabilities
from tinyref.dtype import DType
from tinyref.uops.tiles import TILES
from tinyref_spec.accuracy import Accuracy
from tinyref_spec.evidence import Evidence

if TYPE_CHECKING:
    from tinyref_spec.device_under_test import DeviceUnderTest


class Rung(IntEnum):
    """One step of the ladder that a new device climbs.

    Kernels up to `LOOP` use groups of one work-item, scalars and no optimisation (see `styles`).
    """

    OPEN = 0
    MEMORY = 1
    STORE = 2
    ONE_ALU = 3
    INDEX = 4
    ALU = 5
    CAST = 6
    GATE = 7
    VECTOR = 8
    LOOP = 9
    GROUP = 10
    OPTIMISED = 11
    MATMUL = 12
    TENSOR = 13
    AUTOGRAD = 14
    JIT = 15
    MODEL = 16

    @property
    def title(self) -> str:
        """Return the short name in reports."""
        return _RUNGS[self][0]

    @property
    def query(self) -> str:
        """Return the query for the cases of the rung."""
        return f"rung:{self.title}"

    @property
    def sentence(self) -> str:
        """Return what a device has shown if this rung holds."""
        return _RUNGS[self][1]


_RUNGS: dict[Rung, tuple[str, str]] = {
    Rung.OPEN: ("open", "The device opens and declares its capabilities."),
    Rung.MEMORY: ("allocate and copy", "Bytes copied to the device come back unchanged."),
    Rung.STORE: ("store a constant", "A work-item writes a constant to all of a small output."),
    Rung.ONE_ALU: ("one operation", "A work-item loads, adds and stores plain values."),
    Rung.INDEX: (
        "index",
        "Launch indices, or loops, reach each element once; strided, flipped and permuted views.",
    ),
    Rung.ALU: ("every operation", "Every primitive operation, on every dtype and special value."),
    Rung.CAST: ("casts", "Every pair of dtypes converts and reinterprets as specified."),
    Rung.GATE: ("gates", "Masked loads touch nothing and masked stores write nothing."),
    Rung.VECTOR: ("vectors", "Vector loads, stores and arithmetic of the declared widths."),
    Rung.LOOP: ("loops and reduces", "Loops, accumulators and reductions."),
    Rung.GROUP: ("groups and barriers", "Work-items share memory and meet at barriers."),
    Rung.OPTIMISED: ("optimised kernels", "No optimisation of a kernel changes its values."),
    Rung.MATMUL: ("matrix products", "Matrix products within bound, bias and variance."),
    Rung.TENSOR: ("tensor functions", "Every Tensor function, forward."),
    Rung.AUTOGRAD: ("gradients", "Every Tensor function, backward."),
    Rung.JIT: (
        "schedules and replay",
        "Many kernels in a row and replayed; symbolic sizes, several devices.",
    ),
    Rung.MODEL: (
        "models",
        "Layers, optimisers and small networks compute and learn as specified.",
    ),
}


class Profile(Enum):
    """The part of the tables that a run covers."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class CaseNeeds:
    """Features that a device must declare for a case to apply to it.

    features: "kernels" (it runs any). "grid", "groups". "grid:2x3x4" and "group:2x3x4" (at least
    these sizes). "items:N" (work-items of a launch, if there is a grid), "shared:N" (bytes of a
    group), "threads" (of a host, more than one), "scratch" (memory of a work-item, without groups).
    "loops" (no grid), "vectors:N", "tile:NAME" (one of `TILES`), "tile:own" (one that is not).
    "native:DTYPE" (computed and stored in that type), "images", "subnormals" (it keeps them),
    "strict floats" (it neither contracts nor reassociates), "second" (another device of its kind).
    """

    dtypes: frozenset[DType] = frozenset()
    features: frozenset[str] = frozenset()

    def unmet(self, capabilities: Capabilities) -> str | None:
        """Return the reason why the case does not apply to the device; None if it applies."""
        if self.features and not capabilities.ops:
            return "the device runs no kernels"
        missing = sorted(dtype.name for dtype in self.dtypes if not capabilities.supports(dtype))
        if missing:
            return f"the device does not declare the dtype {', '.join(missing)}"
        for feature in sorted(self.features):
            if not _has_feature(feature, capabilities):
                return f"the device does not declare {_in_words(feature)}"
        return None


_SIZES = {
    "grid": "a grid of {}",
    "group": "a group of {} work-items",
    "items": "a grid of {} work-items",
    "shared": "{} bytes of shared memory",
}


def is_size_of_launch(feature: str) -> bool:
    """Return True if a feature is the size of a launch."""
    name, _, size = feature.partition(":")
    return bool(size) and name in _SIZES


def _in_words(feature: str) -> str:
    name, _, size = feature.partition(":")
    if feature == "scratch":
        return "scratch memory of a work-item (shared_bytes above 0, and no has_groups)"
    if feature == "loops":
        return "kernels that loop over their elements (no has_grid)"
    return _SIZES[name].format(size) if is_size_of_launch(feature) else feature


def _has_feature(feature: str, capabilities: Capabilities) -> bool:
    name, _, number = feature.partition(":")
    if name == "vectors":
        return int(number) in capabilities.vector_lanes
    if name == "native":
        native = capabilities.dtypes - capabilities.stored_in_words
        return number in {dtype.name for dtype in native}
    if name == "tile":
        return _has_tile(number, capabilities)
    if number and name in ("grid", "group"):
        return _fits_launch(name, tuple(map(int, number.split("x"))), capabilities)
    if name == "items":
        return not capabilities.has_grid or math.prod(capabilities.grid_limit) >= int(number)
    if name == "shared":
        return capabilities.has_groups and capabilities.shared_bytes >= int(number)
    declared = {
        "kernels": bool(capabilities.ops),
        "grid": capabilities.has_grid,
        "loops": not capabilities.has_grid,
        "images": capabilities.images,
        "groups": capabilities.has_groups,
        "threads": capabilities.threads > 1,
        "scratch": capabilities.shared_bytes > 0 and not capabilities.has_groups,
        "subnormals": capabilities.keeps_subnormals,
        "strict floats": capabilities.rounds_each_operation,
        "second": not capabilities.is_single,
    }
    return declared[name]


def _fits_launch(name: str, extents: tuple[int, ...], capabilities: Capabilities) -> bool:
    if name == "grid":
        limits, is_declared, most = capabilities.grid_limit, capabilities.has_grid, math.inf
    else:
        limits, is_declared = capabilities.group_limit, capabilities.has_groups
        most = capabilities.group_size_limit
    pairs = zip(extents, limits, strict=True)
    return is_declared and math.prod(extents) <= most and all(e <= limit for e, limit in pairs)


def _has_tile(name: str, capabilities: Capabilities) -> bool:
    if name != "own":
        return TILES[name] in capabilities.matrix_tiles
    known = frozenset(TILES.values())
    return any(tile not in known for tile in capabilities.matrix_tiles)


@dataclass
class Values:
    """A buffer in a report: the first values and their bits, as text."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: list[str]
    bits: list[str]


@dataclass
class Failure:
    """The details of a failed case.

    index: position of the first mismatch in the flattened output, -1 if there is none. script: a
    self-contained reproducer of under 40 lines. tool_script: one of Python or C without tinyref, if
    there is one. difference: the first node of the kernel with a wrong value on the device, as a
    sentence, if it was searched for.
    """

    inputs: list[Values] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    expected_bits: list[str] = field(default_factory=list)
    actual: list[str] = field(default_factory=list)
    actual_bits: list[str] = field(default_factory=list)
    index: int = -1
    source: str = ""
    ir: str = ""
    script: str = ""
    tool_script: str = ""
    difference: str = ""


@dataclass
class Measurement:
    """The result of one case.

    compared: number of compared values; a passed case with 0 is a failure of the suite.
    max_ulp, p99_ulp: distance from the correctly rounded result, if it is measured.
    observed: the behaviour that the device chose, if the rule leaves a choice.
    evidence, accuracy: counts for diagnosis and for charts.
    fault: the condition of kind `FAULT` that the measurement detected; empty if values differ.
    """

    passed: bool
    message: str = ""
    compared: int = 0
    max_ulp: float | None = None
    p99_ulp: float | None = None
    worst_input: str = ""
    details: Failure | None = None
    observed: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    accuracy: Accuracy = field(default_factory=Accuracy)
    fault: str = ""


class NotOfferedError(Exception):
    """A library lacks what a case needs; the message says what."""


@dataclass(frozen=True)
class Case:
    """One check, named by its id; `run` judges it and returns what it measured.

    depends_on: ids of cases, or of whole rows, without which the case says nothing.
    expects_refusal: the case needs something undeclared, and passes if the device refuses it with a
    clear error; `run` itself catches that error and judges it.

    Errors that `run` raises (DeviceError, internal bugs) count as failures.
    """

    id: str
    row: str
    level: str
    rung: Rung
    op: str
    dtype: str
    clauses: tuple[str, ...]
    needs: CaseNeeds
    depends_on: tuple[str, ...]
    run: Callable[[DeviceUnderTest], Measurement] = field(compare=False)
    expects_refusal: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the tables: an operation or form in one dtype, and the cases that check it.

    make_cases: builds the cases of a profile; data is made only when a case runs.
    specials: the literal special cases as (inputs, result) text, for the pages. advice: where to
    look if a case fails, by the name of a condition; "" is for any other.
    """

    id: str
    sentence: str
    clauses: tuple[str, ...]
    rung: Rung
    level: str
    op: str
    dtype: str
    error_rule: str
    needs: CaseNeeds
    make_cases: Callable[[Profile], Sequence[Case]] = field(compare=False, repr=False)
    specials: tuple[tuple[str, str], ...] = ()
    advice: Mapping[str, str] = field(default_factory=dict, compare=False)

    def cases(self, profile: Profile) -> Sequence[Case]:
        """Return the cases of this row in `profile`; they are built once."""
        if profile not in self._cases:
            self._cases[profile] = self.make_cases(profile)
        return self._cases[profile]

    @functools.cached_property
    def _cases(self) -> dict[Profile, Sequence[Case]]:
        return {}
