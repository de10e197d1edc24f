"""Where tensors lie. Rows over several devices are those of the level `system`."""

from __future__ import annotations

from tinyref_spec.bits import Array
from tinyref_spec.tensor.forms import Form, Function, Input, Refusals, Shape, moved


def _still(expression: str, shape: Shape) -> Form:
    """A form that leaves every element as it is."""
    return moved(expression, shape, _same, torch="x")


def _in_place(expression: str, shape: Shape) -> Form:
    """The same of a tensor that is moved itself, through which no gradient flows."""
    return Form(expression, (Input("x", shape),), exact=_same, torch="x")


def _same(x: Array) -> Array:
    return x


FUNCTIONS = (
    Function(
        "to",
        "The same elements on the device of that name.",
        (_still("x.to(device)", (3, 4)), _in_place("(x + 0).to_(device)", (5,))),
        covers=("to_",),
    ),
    Function(
        "shard",
        "The same elements, cut along an axis or whole, on each device of a list.",
        (
            _still("x.shard((device,), 1)", (3, 4)),
            _still("x.shard((device,), -2).T.T", (3, 4)),
            _still("x.shard((device,))", ()),
            _in_place("(x + 0).shard_((device,), 0).to(device)", (5,)),
        ),
        covers=("shard_",),
    ),
)
REFUSED: Refusals = {
    "to": ("x.to('NOSUCH')", "x.to(3)", "x.to(())", "x.to(('NOSUCH', 'CPU'))"),
    "to_": ("x.to_('NOSUCH')", "x.to_(3)"),
    "shard": (
        "x.shard('CPU', 0)",
        "x.shard((), 0)",
        "x.shard(('NOSUCH',), 0)",
        "x.shard((x.device, x.device), 0)",
        "x.shard((x.device,), 2)",
        "x.shard((x.device,), -3)",
        "x.shard((x.device,), 'rows')",
        "x.shard((x.device,), 0) + x",
    ),
    "shard_": ("x.shard_('CPU', 0)", "x.shard_((x.device,), 2)"),
}
