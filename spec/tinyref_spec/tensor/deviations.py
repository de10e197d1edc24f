"""Deviations of tinyref from the public surface, each with its reason.

SIGNATURES: other parameters or defaults, also extra keyword-only parameters.
NO_VALUES, NO_GRADIENT, NO_REFUSAL: names without a row of that kind.
"""

from __future__ import annotations

# "where.name" -> why the parameters differ.
_NAMED = "the keywords that **kwargs stands for are named: device, dtype, requires_grad"
_SHIFT = "`reverse` is for a number on the left, as for `bitwise_and`"
SIGNATURES: dict[str, str] = {
    "Tensor.arange": _NAMED,
    "Tensor.empty": _NAMED,
    "Tensor.full": _NAMED,
    "Tensor.lshift": _SHIFT,
    "Tensor.rshift": _SHIFT,
    "Tensor.roll": "without dims the elements are laid end to end, as in torch",
    "Tensor.gelu": "`approximate` of torch; the default is the form with tanh, as in the surface",
    "Tensor.scaled_dot_product_attention": "`enable_gqa` of torch",
    "Tensor.binary_crossentropy_logits": "`pos_weight` of torch",
}

_PROPERTY = "a property: it takes no argument, and its value is part of every row"
_PLACEMENT = "it moves or shares memory: rows of the level `system`"

# "where.name" -> why no form of a Function gives its values.
NO_VALUES: dict[str, str] = {
    **dict.fromkeys(
        ("Tensor.empty", "Tensor.empty_like"), "its elements are whatever the memory holds"
    ),
    "Tensor.no_grad": "a block of statements: the tests of gradients",
}

# Name of a Function on floats -> why it has no gradient.
_NUMBERS = "made from no tensor"
NO_GRADIENT: dict[str, str] = {
    **dict.fromkeys(("arange", "linspace", "eye", "full", "zeros", "ones"), _NUMBERS),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like"), "only the shape and type are read"),
    **dict.fromkeys(("rand", "randn", "rand_like", "randn_like", "normal", "uniform"), _NUMBERS),
    **dict.fromkeys(("scaled_uniform", "glorot_uniform"), _NUMBERS),
    **dict.fromkeys(("kaiming_uniform", "kaiming_normal"), _NUMBERS),
    **dict.fromkeys(("tolist", "numpy", "data", "item"), "values leave the graph"),
    "detach": "that is its purpose",
    "assign": "no gradient flows through an assignment",
    "replace": "the tensor takes over the record of another: nothing is computed",
    "backward": "gradients that are added up have none; `gradient` gives those",
}

# "where.name" -> why no call of it is refused.
_NO_ARGUMENT = "it takes no argument, and accepts every tensor"
NO_REFUSAL: dict[str, str] = {
    **dict.fromkeys(
        (
            "Tensor.bool",
            "Tensor.clone",
            "Tensor.contiguous",
            "Tensor.contiguous_backward",
            "Tensor.data",
            "Tensor.detach",
            "Tensor.element_size",
            "Tensor.float",
            "Tensor.half",
            "Tensor.int",
            "Tensor.is_floating_point",
            "Tensor.isfinite",
            "Tensor.logical_not",
            "Tensor.nbytes",
            "Tensor.no_grad",
            "Tensor.numel",
            "Tensor.numpy",
            "Tensor.realize",
            "Tensor.tolist",
            "Tensor.bfloat16",
            "Tensor.double",
            "Tensor.long",
            "Tensor.short",
        ),
        _NO_ARGUMENT,
    ),
    **dict.fromkeys(
        ("Tensor.device", "Tensor.dtype", "Tensor.ndim", "Tensor.requires_grad", "Tensor.shape"),
        _PROPERTY,
    ),
}
