"""Where tinyref is not as the public surface has it, each with the reason.

SIGNATURES: other parameters or defaults. Extra keyword-only parameters are listed too.
NO_VALUES, NO_GRADIENT, NO_REFUSAL: names without a row of that sort.
"""

from __future__ import annotations

# "where.name" -> why the parameters differ.
_NAMED = "the keywords that **kwargs stands for are named: device, dtype, requires_grad"
SIGNATURES: dict[str, str] = {
    "Tensor.arange": _NAMED,
    "Tensor.empty": _NAMED,
    "Tensor.full": _NAMED,
}

_PROPERTY = "a property: it takes no argument, and its value is part of every row"
_PLACEMENT = "it moves or shares memory: rows of the level `system`"

# "where.name" -> why no form of a Function gives its values.
NO_VALUES: dict[str, str] = {}

# Name of a Function on floats -> why it has no gradient.
NO_GRADIENT: dict[str, str] = {}

# "where.name" -> why there is no call of it that is refused.
NO_REFUSAL: dict[str, str] = {}
