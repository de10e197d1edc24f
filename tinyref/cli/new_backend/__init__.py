"""The command `tinyref new-backend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyref.cli.options import path


def new_backend(
    name: Annotated[str, typer.Argument(help="What the device is called, such as MINE.")],
    language: Annotated[
        str, typer.Option(help="The language of its kernels: c, opencl, cuda, llvm, wgsl.")
    ] = "opencl",
    out: Annotated[
        Path | None, typer.Option(parser=path, help="The folder to write: ./NAME in lower case.")
    ] = None,
) -> None:
    """Write a package for a device of your own, which conforms as it is written.

    \b
    Examples:
      tinyref new-backend MINE --language opencl
      cd mine && python -m pip install -e . && tinyref conform --device MINE

    The package prints kernels, compiles them and runs them on a GPU that is made of this host, with
    groups, barriers, shared memory and memory of its own. Its README says what to replace in which
    order; docs/bring-up.md goes with you from rung to rung.
    """
    from tinyref.cli.new_backend.package import checked_name, files_of, language_called, write

    device, chosen = checked_name(name), language_called(language)
    files = files_of(device, chosen)
    folder = out or Path(device.lower())
    write(files, folder)
    print(f"{folder}: a backend for {device}, in {chosen.title}. It needs {chosen.needs}.")
    for each in sorted(files):
        print(f"  {each}")
    print(f"\nNext:\n  cd {folder}\n  python -m pip install -e .")
    print(f"  tinyref conform --device {device}{chosen.conform_options}")
