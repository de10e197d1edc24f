"""The files of a generated package, made of the templates in `templates/`."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import jinja2

from tinyref.cli.new_backend.languages import LANGUAGES, Language
from tinyref.config import nearest
from tinyref.contract import CONTRACT
from tinyref.device import Device
from tinyref.errors import UserError, UserLookupError

LONGEST_NAME = 24
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
# Each file of a package, PACKAGE for its name, and the template that it is made of.
_FILES = {
    "README.md": "README.md",
    "pyproject.toml": "pyproject.toml",
    ".gitignore": "gitignore",
    ".github/workflows/conformance.yml": "conformance.yml",
    "PACKAGE/__init__.py": "init.py",
    "PACKAGE/py.typed": "",
    "tests/test_conformance.py": "test_conformance.py",
}


def checked_name(name: str) -> str:
    """`name` as a device is called, in upper case.

    Raises `UserError` for what can be no name of a device and of a package, or is one already.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UserError(
            f"new-backend: {name!r} cannot be the name of a device and of its package: accepted "
            f"are up to {LONGEST_NAME} letters, digits and single _ between them, a letter first"
        )
    device, package = name.upper(), name.lower()
    if device in Device.names():
        raise UserError(
            f"new-backend: {device} is a device already: accepted are names that none of "
            f"{', '.join(Device.names())} has"
        )
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise UserError(f"new-backend: {package!r} is a word of Python: accepted are other names")
    if importlib.util.find_spec(package) is not None:
        raise UserError(
            f"new-backend: there is a module {package!r} that Python would import in its place: "
            "accepted are names that no installed module has"
        )
    return device


def language_called(name: str) -> Language:
    """The language of that name. Raises `UserError` for another one."""
    if name not in LANGUAGES:
        raise UserLookupError(f"new-backend: --language: got {name!r}: {nearest(name, LANGUAGES)}")
    return LANGUAGES[name]


def files_of(device: str, language: Language) -> dict[str, str]:
    """The text of each file of the package for `device`, by its path."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("tinyref.cli.new_backend"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    package = device.lower()
    values = {
        "device": device,
        "package": package,
        "prefix": "".join(part.capitalize() for part in package.split("_")),
        "language": language,
        "contract": CONTRACT,
    }
    files = {
        **_FILES,
        "PACKAGE/backend.py": language.backend,
        "PACKAGE/renderer.py": language.renderer,
        "PACKAGE/runtime.py": language.runtime,
        **({"expectations.toml": language.expectations} if language.expectations else {}),
    }
    return {
        path.replace("PACKAGE", package): (
            templates.get_template(f"{template}.jinja").render(values) if template else ""
        )
        for path, template in files.items()
    }


def write(files: Mapping[str, str], folder: Path) -> None:
    """Writes a package to a folder that is not there yet. Raises `UserError` where it is."""
    if folder.exists():
        raise UserError(f"new-backend: {folder} is there already: accepted is a new folder, --out")
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        # It was not there before: a part of a package would only refuse the next try.
        shutil.rmtree(folder, ignore_errors=True)
        raise UserError(f"new-backend: cannot write to {folder}: {error}") from error
