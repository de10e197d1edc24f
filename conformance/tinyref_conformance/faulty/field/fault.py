"""A field fault: a fault of a real stack, from a public report, as a faulty device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tinyref_conformance.faulty.device import FaultyDevice

# The model of a fault: a device that this package opens by its name.
field_device = functools.partial(FaultyDevice, module=__package__ or "")


class FaultKind(Enum):
    """The part of a stack that a fault breaks."""

    SYNCHRONISATION = "barriers and shared memory"
    GROUP = "sizes of groups and grids"
    SUBGROUP = "subgroups and lanes"
    VECTOR = "vectors"
    REDUCE = "reduces"
    TILE = "matrix tiles"
    FLOAT = "float arithmetic"
    FUNCTION = "elementary functions"
    SPECIAL = "NaN, infinities, zeros and subnormals"
    INTEGER = "integer arithmetic"
    CAST = "casts and small types"
    BOOL = "comparisons and selections"
    INDEX = "indices, gates and addresses"
    LOOP = "loops and branches"
    ORDER = "order of loads and stores in a kernel"
    SCHEDULE = "order of launches and copies"
    MEMORY = "allocation and reuse of memory"
    COPY = "copies"
    STATE = "caches and state between launches"
    LIMIT = "limits"
    IMAGE = "images"


@dataclass(frozen=True)
class DirectProgram:
    """A program that shows the fault without the suite.

    values: takes the name of a device and returns numbers that it computed.
    expected: what a healthy device gives, as literals. NaN equals NaN.
    """

    values: Callable[[str], Sequence[float]]
    expected: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class FieldFault:
    """One fault from a public report.

    device: the model of the fault; its sentence says what happened.
    stack: the product with the fault, with its vendor, such as "Metal compiler, Apple".
    kind: what it breaks.
    link: the address of the report.
    program: shows that a value changes.
    """

    device: FaultyDevice
    stack: str
    kind: FaultKind
    link: str
    program: DirectProgram

    @property
    def name(self) -> str:
        """Return the name of the model's class."""
        return self.device.name
