"""The devices of tensors. Rows over several devices belong to the level `system`."""

from __future__ import annotations

import numpy as np

from tinyref_spec.tensor.forms import Form, Function, Input, Shape, movement_form


def _placement_form(expression: str, shape: Shape) -> Form:
    """Return a form of x upside down, so that something is computed, on another device."""
    return movement_form(expression, shape, np.flipud, torch="x.flip(0)")


def _in_place(expression: str, shape: Shape) -> Form:
    """Return the same form for a tensor that is itself moved; no gradient flows."""
    return Form(expression, (Input("x", shape),), exact=np.flipud, torch="x.flip(0)")


FUNCTIONS = (
    Function(
        "to",
        "The same elements on the named device.",
        (_placement_form("x.flip(0).to(device)", (3, 4)), _in_place("x.flip(0).to_(device)", (5,))),
        covers=("to_",),
    ),
    Function(
        "shard",
        "The same elements on each device of a list, cut along an axis or whole.",
        (
            _placement_form("x.shard((device,), 1).flip(0)", (3, 4)),
            _placement_form("x.flip(0).shard((device,), -2).T.T", (3, 4)),
            _placement_form("x.shard((device,)).flip(0)", (7,)),
            _in_place("x.flip(0).shard_((device,), 0).to(device)", (5,)),
        ),
        covers=("shard_",),
    ),
)
