"""Devices that lack things: for which decompositions are judged where a device lacks nothing."""

from __future__ import annotations

import functools
from dataclasses import replace

from tinyref.capabilities import CORE_DTYPES, CORE_OPS, Capabilities
from tinyref.codegen.decompose import SMALL_FLOATS, WIDE_INTEGERS
from tinyref.device import Device
from tinyref.dtype import DType, dtypes
from tinyref.uops.words import STORABLE_IN_WORDS
from tinyref_fuzz.generate.batches import Subject
from tinyref_spec.device_under_test import REFERENCE

_SMALL_INTEGERS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16)


# A name, and what such a device has.
Lack = tuple[str, Capabilities]
# Views and decompositions cost more than algebra; of a device what it lacks comes first.
TURNS = (Subject.ALGEBRA, Subject.VIEWS, Subject.ALGEBRA, Subject.OPERATIONS, Subject.LAWS)
TURNS_OF_LACKING = (
    *(Subject.OPERATIONS, Subject.ALGEBRA, Subject.OPERATIONS, Subject.VIEWS, Subject.LAWS),
)


@functools.cache
def lacks() -> tuple[Lack, ...]:
    """Devices by what they lack: all but the core, single types, ops, fast or safe division."""
    whole = replace(Device[REFERENCE].capabilities, matrix_tiles=())
    core = Capabilities(
        dtypes=CORE_DTYPES | set(_SMALL_INTEGERS),
        ops=CORE_OPS,
        emulated=frozenset((*SMALL_FLOATS, *WIDE_INTEGERS)),
        division_traps=True,
    )
    small = replace(_without(whole, *SMALL_FLOATS, *_SMALL_INTEGERS), division_traps=True)
    return (
        ("core", core),
        ("wide integers", _without(whole, *WIDE_INTEGERS)),
        ("small floats", _without(whole, *SMALL_FLOATS)),
        ("words", replace(small, stored_in_words=frozenset(STORABLE_IN_WORDS))),
        ("ops", replace(whole, ops=CORE_OPS)),
        ("fast division", replace(whole, slow_division=True, division_traps=True)),
        ("fast wide division", replace(_without(whole, *WIDE_INTEGERS), slow_division=True)),
    )


def _without(capabilities: Capabilities, *lacked: DType) -> Capabilities:
    """A device that holds these types in others."""
    return replace(
        capabilities,
        dtypes=capabilities.dtypes.difference(lacked),
        emulated=capabilities.emulated.union(lacked),
    )


def lacks_of(capabilities: Capabilities) -> tuple[Lack, ...]:
    """The device itself where it lacks anything, else those of `lacks`."""
    return (("the device", capabilities),) if _lacks_any(capabilities) else lacks()


def turn_of(lot: int, capabilities: Capabilities) -> tuple[Subject, Lack | None]:
    """What batch `lot` of a campaign is of, and the device that it is lowered for, if any."""
    turns = TURNS_OF_LACKING if _lacks_any(capabilities) else TURNS
    subject = turns[lot % len(turns)]
    if subject is not Subject.OPERATIONS:
        return subject, None
    lacking = lacks_of(capabilities)
    return subject, lacking[lot // len(turns) % len(lacking)]


def _lacks_any(capabilities: Capabilities) -> bool:
    whole = Device[REFERENCE].capabilities
    return (
        not whole.dtypes <= capabilities.dtypes
        or not whole.ops <= capabilities.ops
        or capabilities.slow_division
        or capabilities.division_traps
    )
