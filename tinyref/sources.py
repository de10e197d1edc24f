"""Hashes of source files, by which a result says of what code it is; and docstrings in them."""

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

# Of a larger file, such as a library that a package brings, size and time must do.
LARGEST_FILE = 4 << 20
# What decides how a backend computes; logs and caches that it may write beside do not.
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
# Hashed by themselves, and not all of their modules are loaded each time.
_OWN = frozenset({"tinyref", "tinyref_spec", "tinyref_fuzz", "tinyref_conformance", "__main__"})


def docstring(owner: Any) -> str:
    """Return its own docstring, read from its file where `python -OO` dropped it; else "".

    owner: a function, a class, or a partial application that was given a docstring.
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
    """A digest of the code that `cls` comes from, installed or not; empty where there is no file.

    That is every file of its package with one of `SUFFIXES` and, outside of the folders of
    installed packages, every module that this process has loaded from the folder where the package
    or the module lies.
    """
    file = _file_of(cls.__module__)
    if file is None:
        return ""
    found = {file}
    folder = file.parent
    for name in _packages_of(cls.__module__):
        init = _file_of(name)
        if init is not None:
            found |= set(_files_below(init.parent))
        folder = folder.parent
    if not _is_installed(file):
        found |= {path for path in _loaded_below(folder) if not _is_installed(path)}
    return _digest(found, folder)


@functools.cache
def package_hash(package: str) -> str:
    """A digest of the Python files of an imported package, as they are at the first call."""
    file = _file_of(package)
    return "" if file is None else _digest(file.parent.rglob("*.py"), file.parent)


def _file_of(module: str) -> Path | None:
    name = getattr(sys.modules.get(module), "__file__", None)
    return None if name is None else _resolved(name)


@functools.cache
def _resolved(path: str) -> Path:
    """Where a module is: of thousands that are loaded, each is looked up for every hash."""
    return Path(path).resolve()


def _packages_of(module: str) -> Iterator[str]:
    """The packages around a module, the innermost first; a package is around itself."""
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
