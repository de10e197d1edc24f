"""Where tensors lie. Rows over several devices are those of the level `system`."""

from __future__ import annotations

import numpy as np

from tinyref_spec.tensor.forms import Form, Function, Input, Shape, movement_form


def _placement_form(expression: str, shape: Shape) -> Form:
    """A form of x upside down, so that there is something to compute, at another place."""
    return movement_form(expression, shape, np.flipud, torch="x.flip(0)")


def _in_place(expression: str, shape: Shape) -> Form:
    """The same of a tensor that is moved itself, through which no gradient flows."""
    return Form(expression, (Input("x", shape),), exact=np.flipud, torch="x.flip(0)")


FUNCTIONS = (
    Function(
        "to",
        "The same elements on the device of that name.",
        (_placement_form("x.flip(0).to(device)", (3, 4)), _in_place("x.flip(0).to_(device)", (5,))),
        covers=("to_",),
    ),
    Function(
        "shard",
        "The same elements, cut along an axis or whole, on each device of a list.",
        (
            _placement_form("x.shard((device,), 1).flip(0)", (3, 4)),
            _placement_form("x.flip(0).shard((device,), -2).T.T", (3, 4)),
            _placement_form("x.shard((device,)).flip(0)", (7,)),
            _in_place("x.flip(0).shard_((device,), 0).to(device)", (5,)),
        ),
        covers=("shard_",),
    ),
)
