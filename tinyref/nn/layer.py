"""What the layers have in common."""

from __future__ import annotations

import inspect

from tinyref.errors import UserTypeError
from tinyref.tensor import Tensor

_MISSING = object()


def check_input(x: object, name: str) -> None:
    """Raises `UserError` for what is no tensor."""
    if not isinstance(x, Tensor):
        raise UserTypeError(f"{name}: input is a {type(x).__name__}, accepted is a Tensor")


class Layer:
    """`repr` shows a call that makes a layer like it: an argument is the attribute of its name."""

    def __repr__(self) -> str:
        shown: list[str] = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            default, value = parameter.default, getattr(self, name, _MISSING)
            if isinstance(default, bool) and (value is None or isinstance(value, Tensor)):
                value = value is not None
            if value is _MISSING or value == default:
                continue
            is_required = default is inspect.Parameter.empty
            shown.append(f"{value!r}" if is_required else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
