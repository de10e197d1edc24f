"""Declared features, tested both ways: declared ones work, others are refused.

Without these rows, a device could leave a feature out of its declaration, and the skipped cases
would hide how it behaves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from tinyref.dtype import dtypes
from tinyref.errors import DeviceError, TinyrefError, UserError
from tinyref.uops.tiles import TILES
from tinyref_spec.case import CaseNeeds, Measurement, Row, Rung
from tinyref_spec.checks import Check, make_row
from tinyref_spec.device_under_test import DeviceUnderTest
from tinyref_spec.kernel import images, programs, tiles
from tinyref_spec.measure import refusal

Form = Callable[[str, DeviceUnderTest], Measurement]

# The tile of the dtype that every device has.
PROBED = TILES["apple_m8n8k8_float32_float32"]

# feature, as `CaseNeeds` spells it -> its rung, its op, and a program that uses it.
FEATURES: dict[str, tuple[Rung, str, Form]] = {
    "grid": (Rung.INDEX, "SPECIAL", functools.partial(programs.grid, (4, 1, 1))),
    "groups": (Rung.GROUP, "SPECIAL", functools.partial(programs.items, (4, 1, 1))),
    "shared:16": (Rung.GROUP, "BARRIER", functools.partial(programs.reverse, 4)),
    **{
        f"vectors:{lanes}": (
            Rung.VECTOR,
            "VECTORIZE",
            functools.partial(programs.vector_add, dtypes.float32, lanes),
        )
        for lanes in (2, 4, 8, 16)
    },
    "images": (Rung.VECTOR, "INDEX", images.texel),
    f"tile:{PROBED.name}": (
        Rung.MATMUL,
        "WMMA",
        functools.partial(tiles.multiply, PROBED, tiles.FORMS["product"]),
    ),
}


def _both_ways(feature: str, form: Form, case_id: str, device: DeviceUnderTest) -> Measurement:
    """Check that the program is right, or is refused if `feature` is not declared."""
    is_declared = CaseNeeds(features=frozenset({feature})).unmet(device.capabilities) is None
    if is_declared:
        return form(case_id, device)
    try:
        accepted = form(case_id, device)
    except TinyrefError as error:
        return refusal(None, error, (UserError, DeviceError))
    return refusal(accepted.message or "the right result", None, (UserError, DeviceError))


def _checks(feature: str, form: Form) -> list[Check]:
    return [Check("both_ways", functools.partial(_both_ways, feature, form))]


def rows() -> Iterator[Row]:
    """Yield one row for each feature."""
    for feature, (rung, op, form) in FEATURES.items():
        yield make_row(
            f"kernel.program.capability.{feature.replace(':', '')}",
            f"A program that uses {feature} works if that is declared, else it is refused.",
            clauses=("device.capability",),
            rung=rung,
            op=op,
            dtype="float32" if feature.startswith(("vectors", "images", "tile")) else "int32",
            uses=(dtypes.int32, dtypes.float32),
            checks=functools.partial(_checks, feature, form),
        )
