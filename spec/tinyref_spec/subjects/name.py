"""Which library is judged and where: one text, such as "torch on cpu"."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.errors import UserError

_ON, _WITH = " on ", " with "
_ARRAY_API = "array-api:"
_HOST, DEFAULT_PLACE = "cpu", "default"


@dataclass(frozen=True)
class Library:
    """A library with a short name.

    title: one line about it. module: its module, its package, and the name of its file of
    documented differences. subject: the class that asks it, after the folder of this file.
    """

    title: str
    module: str
    subject: str

    @property
    def version(self) -> str:
        """The installed version, empty if the library is not installed; nothing is imported."""
        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:
            return ""


LIBRARIES: Mapping[str, Library] = {
    "torch": Library("PyTorch, eager", "torch", "torch_library:TorchSubject"),
    "torch-compile": Library(
        "PyTorch by torch.compile", "torch", "torch_library:CompiledTorchSubject"
    ),
    "numpy": Library("numpy", "numpy", "numpy_like:NumpySubject"),
    "jax": Library("JAX, op by op", "jax", "jax_library:JaxSubject"),
    "jax-jit": Library("JAX by jax.jit", "jax", "jax_library:CompiledJaxSubject"),
    "mlx": Library("MLX, op by op", "mlx", "mlx_library:MlxSubject"),
    "mlx-compile": Library("MLX by mx.compile", "mlx", "mlx_library:CompiledMlxSubject"),
    "tinygrad": Library("tinygrad", "tinygrad", "tinygrad_library:TinygradSubject"),
    "onnxruntime": Library("graphs of ONNX", "onnxruntime", "onnx_library:OnnxSubject"),
}
# What is asked of a library that takes seconds for each case, unless a query says it.
SAMPLES = {"torch-compile": "tensor.*.float32.forward:0,tensor.*.float32.backward:0"}


@dataclass(frozen=True)
class SubjectName:
    """A library, the device of it by its own name, and the packages that register the device."""

    library: str
    place: str = _HOST
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        is_module = self.is_array_api and _is_dotted(self.array_module)
        if self.library not in LIBRARIES and not is_module and not self.is_class:
            raise UserError(
                f"subject: got {self.library!r}, accepted are {', '.join(LIBRARIES)}, "
                "array-api:MODULE, such as array-api:array_api_strict, and PACKAGE:CLASS of a "
                "subject of your own"
            )
        for text in (self.place, *self.packages):
            if not text or any(letter.isspace() or letter == "," for letter in text):
                raise UserError(f"subject: got {text!r}, accepted are names without spaces")

    @property
    def is_array_api(self) -> bool:
        """Return True if a module has the functions of the array-API standard."""
        return self.library == "numpy" or self.library.startswith(_ARRAY_API)

    @property
    def is_class(self) -> bool:
        """Return True for PACKAGE:CLASS, a subject of another package."""
        module, _, name = self.library.partition(":")
        return not self.is_array_api and _is_dotted(module) and name.isidentifier()

    @property
    def array_module(self) -> str:
        """The module with the functions of the array-API standard."""
        return self.library.removeprefix(_ARRAY_API)

    @property
    def differences(self) -> str:
        """The name of the file of what the library documents to be different."""
        known = LIBRARIES.get(self.library)
        return known.module if known else self.array_module

    def __str__(self) -> str:
        packages = f"{_WITH}{','.join(self.packages)}" if self.packages else ""
        return f"{self.library}{_ON}{self.place}{packages}"

    @property
    def options(self) -> list[str]:
        """The options of `tinyref conform` that name it."""
        found = ["--subject", self.library, "--on", self.place]
        for package in self.packages:
            found += ["--import", package]
        return found


def _is_dotted(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def default_place(library: str) -> str:
    """Where a library is judged unless it is said; another one may have no host at all."""
    return _HOST if library in LIBRARIES else DEFAULT_PLACE


def is_subject(device: str) -> bool:
    """Whether the name of a device is that of a library; no name of a backend has a space."""
    return _ON in device


def parse_subject(text: str) -> SubjectName:
    """The name again. Raises `UserError` for a text that is none."""
    library, on, rest = text.partition(_ON)
    place, _, packages = rest.partition(_WITH)
    if not on:
        raise UserError(f"subject: got {text!r}, accepted is LIBRARY on DEVICE, as torch on cpu")
    return SubjectName(library, place, tuple(packages.split(",")) if packages else ())
