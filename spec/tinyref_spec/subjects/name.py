"""Names of a library and its device in one text, such as "torch on cpu"."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass

from tinyref.errors import UserError

_ON, _WITH = " on ", " with "
_ARRAY_API = "array-api:"
_HOST, DEFAULT_DEVICE = "cpu", "default"


@dataclass(frozen=True)
class Library:
    """A library with a short name."""

    title: str
    """One line about it."""
    module: str
    """Its module, its package, and the name of its file of documented differences."""
    subject: str
    """Its class, relative to this package."""

    @property
    def version(self) -> str:
        """Return the installed version, without an import; empty if it is not installed."""
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
# The default query of a library that takes seconds for each case.
SAMPLES = {"torch-compile": "tensor.*.float32.forward:0,tensor.*.float32.backward:0"}


@dataclass(frozen=True)
class SubjectName:
    """A library, its own name of a device, and the packages that register the device."""

    library: str
    device: str = _HOST
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        is_module = self.is_array_api and _is_dotted(self.array_module)
        if self.library not in LIBRARIES and not is_module and not self.is_class:
            raise UserError(
                f"subject: got {self.library!r}, accepted are {', '.join(LIBRARIES)}, "
                "array-api:MODULE, such as array-api:array_api_strict, and PACKAGE:CLASS of a "
                "subject of your own"
            )
        for text in (self.device, *self.packages):
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
        """Return the module with the functions of the array-API standard."""
        return self.library.removeprefix(_ARRAY_API)

    @property
    def differences(self) -> str:
        """Return the name of the file of documented differences."""
        known = LIBRARIES.get(self.library)
        return known.module if known else self.array_module

    def __str__(self) -> str:
        packages = f"{_WITH}{','.join(self.packages)}" if self.packages else ""
        return f"{self.library}{_ON}{self.device}{packages}"

    @property
    def imports(self) -> tuple[str, ...]:
        """Return the statements that register the device."""
        return tuple(f"import {package}" for package in self.packages)

    def install(self, *packages: str) -> str:
        """Return what pip installs for the library, which is in these packages."""
        return " ".join((*packages, *self.packages))

    @property
    def options(self) -> list[str]:
        """Return the options of `tinyref conform` that select it."""
        words = ["--subject", self.library, "--on", self.device]
        for package in self.packages:
            words += ["--import", package]
        return words


def _is_dotted(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def default_device(library: str) -> str:
    """Return the device of a library without `--on`: not every library has a host device."""
    return _HOST if library in LIBRARIES else DEFAULT_DEVICE


def is_subject(device: str) -> bool:
    """Return True if a device name is a library's; no name of a backend has a space."""
    return _ON in device


def parse_subject(text: str) -> SubjectName:
    """Parse the text of a name. Raises `UserError` for another text."""
    library, on, rest = text.partition(_ON)
    device, _, packages = rest.partition(_WITH)
    if not on:
        raise UserError(f"subject: got {text!r}, accepted is LIBRARY on DEVICE, as torch on cpu")
    return SubjectName(library, device, tuple(packages.split(",")) if packages else ())
