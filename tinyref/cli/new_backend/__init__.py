"""`tinyref new-backend`: write a package that passes the suite, to be changed part by part.

Its files are made from the templates in `templates/`, in one of several languages.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tinyref.cli.options import named, out_option
from tinyref.config import nearest
from tinyref.errors import UserError, UserLookupError


def new_backend(
    name: Annotated[str, typer.Argument(help="The name of the device, such as MINE.")],
    language: Annotated[
        str,
        named("--language", "NAME", "The language of its kernels: c, opencl, cuda, llvm, wgsl."),
    ] = "opencl",
    out: Annotated[
        Path | None, out_option("Write to this new folder (default: ./NAME in lower case).")
    ] = None,
) -> None:
    """Write a package for a device of your own, which passes the suite from the start.

    \b
    Examples:
      tinyref new-backend MINE --language opencl
      cd mine && python -m pip install -e . && tinyref conform -d MINE

    The package renders kernels, compiles them and runs them on a GPU that is emulated on this host,
    with groups, barriers, shared memory and memory of its own. Its README lists what to replace, in
    order; docs/bring-up.md explains each rung.
    """
    device, chosen = checked_name(name), language_called(language)
    files = files_of(device, chosen)
    folder = out or Path(device.lower())
    write(files, folder)
    print(f"{folder}: a backend for {device}, in {chosen.title}. It needs {chosen.needs}.")
    for file in sorted(files):
        print(f"  {file}")
    print(f"\nNext:\n  cd {folder}\n  python -m pip install -e .")
    print(f"  tinyref conform --device {device}{chosen.conform_options}")


# --- languages ------------------------------------------------------------------------------------

_C_COMPILER = "a C compiler: tcc, gcc or clang (tcc is the quickest)"
_INSTALL_TCC = ("sudo apt-get install -y tcc libc6-dev",)


@dataclass(frozen=True)
class Edit:
    """A part to replace: its file, and its replacement."""

    where: str
    what: str


_STEPS_OF_WEBGPU = (
    Edit("backend.py", "`availability` and `capabilities`: your adapter, and what it has"),
    Edit("renderer.py", "the table: how your language says what WGSL says"),
    Edit("runtime.py", "methods of the allocator and the kernel: your memory, your launches"),
)


@dataclass(frozen=True)
class Language:
    """A language, with the differences between the packages that render it.

    title: its name in texts.
    needs: programs that must be installed.
    install: the commands that install them on a runner of CI.
    emulator: the code that makes its device on the host; empty if it runs elsewhere.
    imports: the names of `tinyref.backend` that `emulator` needs.
    is_c_like: True if its renderer is a table.
    requires: the dependencies of the package.
    backend, renderer, runtime: the names of the templates.
    expectations: the template of the failures that the first driver causes; empty for none.
    """

    name: str
    title: str
    needs: str
    install: tuple[str, ...]
    renderer: str
    emulator: str = ""
    imports: str = ""
    is_c_like: bool = False
    requires: tuple[str, ...] = ()
    backend: str = "backend.py"
    runtime: str = "runtime.py"
    expectations: str = ""

    @property
    def conform_options(self) -> str:
        """Return the options of `tinyref conform` after the device."""
        return " --expectations expectations.toml" if self.expectations else ""

    @property
    def steps(self) -> tuple[Edit, ...]:
        """Return the parts to replace, in order."""
        if not self.emulator:
            return _STEPS_OF_WEBGPU
        table = "the table" if self.is_c_like else "the printers of nodes"
        return (
            Edit("renderer.py", f"{table}: how your language says what {self.title} says"),
            Edit("runtime.py", "`open_driver` and its calls: your compiler, memory, launches"),
            Edit("backend.py", "`CAPABILITIES`: what the device has, a few entries at a time"),
        )


def _c_like(name: str, title: str, dialect: str) -> Language:
    return Language(
        name,
        title,
        needs=_C_COMPILER,
        install=_INSTALL_TCC,
        renderer=f"renderer_{name}.py",
        emulator=f"CEmulator(device, {dialect})",
        imports=f"{dialect}, CEmulator, EmulatedDriver, EmulatedMemory",
        is_c_like=True,
    )


LANGUAGES = {
    language.name: language
    for language in (
        _c_like("c", "C", "PLAIN_C"),
        _c_like("opencl", "OpenCL C", "OPENCL_C"),
        _c_like("cuda", "CUDA C++", "CUDA_C"),
        Language(
            "llvm",
            "LLVM IR",
            needs="nothing but tinyref",
            install=(),
            renderer="renderer_llvm.py",
            emulator="LlvmEmulator(device)",
            imports="EmulatedDriver, EmulatedMemory, LlvmEmulator",
        ),
        Language(
            "wgsl",
            "WGSL",
            needs="the package wgpu and a driver of Vulkan (mesa-vulkan-drivers has lavapipe, "
            "which computes on the host)",
            install=("sudo apt-get install -y mesa-vulkan-drivers",),
            renderer="renderer_wgsl.py",
            backend="backend_wgsl.py",
            runtime="runtime_wgsl.py",
            expectations="expectations_wgsl.toml",
            requires=("wgpu",),
        ),
    )
}

# --- the files ------------------------------------------------------------------------------------

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
    """Return the name of the device, in upper case.

    Raises `UserError` for a name that no device or package can have, or that is taken.
    """
    from tinyref.device import Device

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
    """Return the language of that name. Raise `UserError` if there is none."""
    if name not in LANGUAGES:
        raise UserLookupError(f"new-backend: --language: got {name!r}: {nearest(name, LANGUAGES)}")
    return LANGUAGES[name]


def files_of(device: str, language: Language) -> dict[str, str]:
    """Return the text of each file of the package for `device`, by its path."""
    import jinja2

    from tinyref.contract import CONTRACT

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
    """Write a package to a new folder. Raise `UserError` if the folder exists."""
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
