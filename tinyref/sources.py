"""Hashes of source files, which tell a result's code, and docstrings read from source files."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# For a larger file, such as a library in a package, the hash uses size and time instead.
LARGEST_FILE = 4 << 20
# Files that decide how a backend computes; logs and caches in the same folders do not.
_PYTHON = {".py", ".pyx", ".pxd"}
_BINARIES = {".so", ".pyd", ".dylib", ".dll", ".spv", ".bc", ".bin", ".bit"}
_C = {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".inc", ".in"}
_KERNELS = {".cu", ".cuh", ".cl", ".clh", ".hip", ".metal", ".wgsl", ".glsl", ".comp", ".hlsl"}
_OTHER_LANGUAGES = {".ptx", ".ll", ".s", ".asm", ".mlir", ".rs", ".v", ".sv"}
_SETTINGS = {".toml", ".json", ".yaml", ".yml", ".ini", ".cfg"}
_TEMPLATES = {".jinja", ".j2", ".tmpl", ".template"}
SUFFIXES = frozenset(
    _PYTHON | _BINARIES | _C | _KERNELS | _OTHER_LANGUAGES | _SETTINGS | _TEMPLATES
)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# These have hashes of their own, and not all of their modules are loaded every time.
_OWN = frozenset({"tinyref", "tinyref_spec", "tinyref_fuzz", "tinyref_conformance", "__main__"})


def docstring(owner: Any) -> str:
    """Return the docstring of `owner`, from its file if `python -OO` dropped it; else "".

    owner: a function, a class, or a partial application with its own docstring.
    """
    words = vars(owner).get("__doc__") if isinstance(owner, functools.partial) else owner.__doc__
    if words is None and sys.flags.optimize > 1:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError, SyntaxError):
            return ""
        statement = tree.body[0]
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return ""
        return ast.get_docstring(statement) or ""
    return inspect.cleandoc(words or "")


def source_hash(cls: type) -> str:
    """Return a digest of the code of `cls`, installed or not; empty if there is no file.

    It covers every file of its package with one of `SUFFIXES`. If the package is not installed, it
    also covers every module that this process loaded from the folder of the package or module.
    """
    file = _file_of(cls.__module__)
    if file is None:
        return ""
    files = {file}
    folder = file.parent
    for name in _packages_of(cls.__module__):
        init = _file_of(name)
        if init is not None:
            files |= set(_files_below(init.parent))
        folder = folder.parent
    if not _is_installed(file):
        files |= {path for path in _loaded_below(folder) if not _is_installed(path)}
    return _digest(files, folder)


@functools.cache
def package_hash(package: str) -> str:
    """Return a digest of the Python files of an imported package, as they are at the first call."""
    file = _file_of(package)
    return "" if file is None else _digest(file.parent.rglob("*.py"), file.parent)


def _file_of(module: str) -> Path | None:
    name = getattr(sys.modules.get(module), "__file__", None)
    return None if name is None else _resolved(name)


@functools.cache
def _resolved(path: str) -> Path:
    """Resolve the path of a module; cached, as every hash asks for thousands of modules."""
    return Path(path).resolve()


def _packages_of(module: str) -> Iterator[str]:
    """Yield the packages that contain a module, innermost first; a package contains itself."""
    name = module if hasattr(sys.modules[module], "__path__") else module.rpartition(".")[0]
    while name:
        yield name
        name = name.rpartition(".")[0]


def _files_below(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in SUFFIXES and not hidden and path.is_file():
            yield path


def _loaded_below(folder: Path) -> Iterator[Path]:
    for name in list(sys.modules):
        file = None if name.partition(".")[0] in _OWN else _file_of(name)
        if file is not None and file.is_relative_to(folder):
            yield file


def _is_installed(file: Path) -> bool:
    standard = _resolved(sysconfig.get_path("stdlib"))
    return bool(_INSTALLED & set(file.parts)) or file.is_relative_to(standard)


def _digest(files: Iterable[Path], folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode(errors="replace"))
        try:
            state = path.stat()
            if state.st_size > LARGEST_FILE:
                content = f"{state.st_size} {state.st_mtime_ns}".encode()
            else:
                content = path.read_bytes()
        except OSError:
            content = b"cannot be read"
        digest.update(hashlib.blake2b(content).digest())
    return digest.hexdigest()
