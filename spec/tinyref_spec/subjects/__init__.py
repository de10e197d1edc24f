"""Libraries that the rows of the level `tensor` judge instead of tinyref.

protocol: the interface of a library for rows. name: the library, its device and its imports.
expressions: their base class. torch_library, array_api, numpy_like, jax_library, mlx_library,
tinygrad_library, onnx_library, onnx_graph: the libraries. catalogue: the rows, and the device that
represents a library. The files NAME.toml are expectations: documented differences, with reasons.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tinyref.errors import DeviceError, describe_error

if TYPE_CHECKING:
    from tinyref_spec.subjects.name import SubjectName


def open_subject(text: str) -> Any:
    """Open the library of a name such as "torch on cpu".

    Raises `UserError` for another text, and `DeviceError` if the library cannot be imported or
    does not know the device.

    Examples:
        >>> from tinyref_spec.subjects import open_subject
        >>> open_subject("numpy on cpu").library
        'numpy'
    """
    from tinyref_spec.subjects.name import parse_subject

    name = parse_subject(text)
    try:
        return _class_of(name)(name)
    except Exception as error:  # of a library, or of a package that registers a device
        raise DeviceError(text, f"does not open: {describe_error(error)}") from error


def _class_of(name: SubjectName) -> Any:
    from tinyref_spec.subjects.name import LIBRARIES

    if name.library in LIBRARIES:
        path = f"{__name__}.{LIBRARIES[name.library].subject}"
    else:
        path = name.library if name.is_class else f"{__name__}.array_api:ArraySubject"
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)
