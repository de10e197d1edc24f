"""Libraries that the rows of the level `tensor` judge instead of tinyref.

protocol: what a library must do for a row. name: which library, where and how it is imported.
torch_library, array_api: the libraries. catalogue: the rows, and the device that stands for one.
The files NAME.toml are the expectations for a library: what it defines otherwise, with reasons.
"""

from __future__ import annotations

from typing import Any

from tinyref.errors import DeviceError, describe_error


def opened(text: str) -> Any:
    """The library of a name such as "torch on cpu".

    Raises `UserError` for another text, and `DeviceError` where it cannot be imported or does not
    know the device.
    """
    from tinyref_spec.subjects.name import parse_subject

    name = parse_subject(text)
    try:
        if name.library == "torch":
            from tinyref_spec.subjects.torch_library import TorchSubject

            return TorchSubject(name)
        if name.library == "torch-compile":
            from tinyref_spec.subjects.torch_library import CompiledTorchSubject

            return CompiledTorchSubject(name)
        from tinyref_spec.subjects.array_api import ArraySubject, NumpySubject

        return (NumpySubject if name.library == "numpy" else ArraySubject)(name)
    except Exception as error:  # of a library, or of a package that registers a device
        raise DeviceError(text, f"does not open: {describe_error(error)}") from error
