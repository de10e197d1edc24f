"""Which library is judged and where: one text, such as "torch on cpu"."""

from __future__ import annotations

from dataclasses import dataclass

from tinyref.errors import UserError

_ON, _WITH = " on ", " with "
# The array-API module that each of the short names stands for.
ARRAY_MODULES = {"numpy": "numpy"}
_ARRAY_API = "array-api:"
_HOST, DEFAULT_PLACE = "cpu", "default"
# What is asked of a library that takes seconds for each case, unless a query says it.
SAMPLES = {"torch-compile": "tensor.*.float32.forward:0,tensor.*.float32.backward:0"}


@dataclass(frozen=True)
class SubjectName:
    """A library, the device of it by its own name, and the packages that register the device."""

    library: str
    place: str = _HOST
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = self.library in ("torch", "torch-compile", *ARRAY_MODULES)
        if not known and not (
            self.is_array_api and self.array_module.replace(".", "").isidentifier()
        ):
            raise UserError(
                f"subject: got {self.library!r}, accepted are torch, torch-compile, numpy and "
                "array-api:MODULE, such as array-api:array_api_strict"
            )
        for text in (self.place, *self.packages):
            if not text or any(letter.isspace() or letter == "," for letter in text):
                raise UserError(f"subject: got {text!r}, accepted are names without spaces")

    @property
    def is_array_api(self) -> bool:
        return self.library in ARRAY_MODULES or self.library.startswith(_ARRAY_API)

    @property
    def array_module(self) -> str:
        """The module with the functions of the array-API standard."""
        return ARRAY_MODULES.get(self.library, self.library.removeprefix(_ARRAY_API))

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


def default_place(library: str) -> str:
    """Where a library is judged unless it is said; another one may have no host at all."""
    return DEFAULT_PLACE if library.startswith(_ARRAY_API) else _HOST


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
