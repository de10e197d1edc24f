"""`tinyref explain`: an expression or a program through every stage, from tensor to source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import device_option, flag, named, out_option

if TYPE_CHECKING:
    from tinyref.cli.explain.printing import KernelChoice
    from tinyref.cli.explain.recording import Failure, Recording


def explain(
    subject: Annotated[
        str,
        typer.Argument(metavar="EXPRESSION|FILE.py", help="A tensor expression, or a program."),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="The arguments of the program."),
    ] = None,
    device: Annotated[str, device_option()] = "",
    kernel: Annotated[
        str, named("--kernel", "KERNEL", "Only this kernel: its number, or a glob of its name.")
    ] = "",
    stage: Annotated[
        str, named("--stage", "NAME", "Only these stages, such as lower,source; commas join.")
    ] = "",
    verbose: Annotated[
        bool, flag("--verbose", "Show what every stage of the kernel compiler changed.")
    ] = False,
    out: Annotated[
        Path | None,
        out_option("Write a page to this file (default for a program: FILE.html)."),
    ] = None,
) -> None:
    """Show every stage from tensors to kernels, of an expression or of a program.

    \b
    Examples:
      tinyref explain "Tensor([1, 2, 3]).sum()"
      tinyref explain "(Tensor.ones(4, 4) @ Tensor.ones(4, 2)).relu()" -d PYTHON
      tinyref explain "Tensor.eye(4)[:, 1:3] * 2.5" -v
      tinyref explain "Tensor([1, 2, 3]).sum()" --stage lower,source
      tinyref explain train.py
      tinyref explain train.py --kernel 3
      tinyref explain train.py -o page.html -- --epochs 1

    \b
    An expression has Tensor and its methods, dtypes.NAME, operators, subscripts and literals.
    A DISK device is read, not written.
    The stages are the tensor graph and the kernels of its schedule. Those of a kernel are its AST,
    its plan, the indexed kernel, the program, and the source that the device compiles.

    \b
    A program gets a page, with the time of each kernel, what each stage changed and the rules that
    fired. FILE.py runs as python FILE.py would, with all your rights. The page is also written if
    the program ends in an error; the exit code is 1 then. With --kernel, --stage or -v its kernels
    are printed instead. TINYREF_EXPLAIN=page.html python FILE.py writes the page too.

    TINYREF_NOOPT=1 shows kernels without optimisations, TINYREF_BEAM=2 those that a search finds.
    """
    from tinyref.cli.explain.printing import KernelChoice, count_text, explain_expression
    from tinyref.cli.options import check_target, opening_device
    from tinyref.config import Context
    from tinyref.errors import UserError
    from tinyref.runtimes.data_only import read_only_files

    choice = KernelChoice.parse(kernel, stage, verbose)
    name = opening_device(device)
    is_program = subject.endswith(".py")
    if arguments and not is_program:
        raise UserError(f"explain: {arguments[0]}: an expression takes no arguments")
    if out is None and not is_program:
        with Context(DEVICE=name), read_only_files():
            explain_expression(subject, choice)
        return
    if out is not None and choice.is_part:
        raise UserError("explain: --kernel, --stage and -v print: leave out --out, a page has all")
    if is_program:
        _check_program(subject)
    out = out or Path(f"{Path(subject).stem}.html")
    # The program may change the folder.
    target = out.absolute()
    if not choice.is_part:
        check_target(out, "explain: --out", Path(subject) if is_program else None)
    record, failure = _record(subject, arguments or [], name)
    if choice.is_part:
        _print_kernels(subject, record, choice)
    else:
        _write_page(subject, name, record, failure, target)
        kernels = count_text(len(record.kernels), "kernel")
        print(f"wrote {out}: {count_text(len(record.realizes), 'schedule')}, {kernels}")
    if failure is not None:
        print(f"tinyref: error: {subject} ended with {failure.line}", file=sys.stderr)
        raise typer.Exit(1)


def _record(subject: str, arguments: list[str], device: str) -> tuple[Recording, Failure | None]:
    """Run an expression or a program with a recorder. Raise `UserError` if it computed nothing."""
    from tinyref.cli.explain.recording import Recording, run_expression, run_program
    from tinyref.errors import UserError

    record = Recording()
    failure: Failure | None = None
    if subject.endswith(".py"):
        failure = run_program(Path(subject), arguments, device, record)
    else:
        run_expression(subject, device, record)
    if failure is None and not record.realizes:
        raise UserError(
            f"explain: {subject} computed nothing: accepted are programs and expressions that "
            "compute elements, for example by realize(), other than constants"
        )
    return record, failure


def _write_page(
    subject: str, device: str, record: Recording, failure: Failure | None, target: Path
) -> None:
    from tinyref.cli.explain.page import page
    from tinyref.cli.options import write_output

    write_output(target, page(subject, device, record, failure), "explain")


def _print_kernels(subject: str, record: Recording, choice: KernelChoice) -> None:
    """Print the chosen kernels of a program. Raise `UserError` if there is none."""
    from tinyref.cli.explain.printing import print_kernel
    from tinyref.errors import UserError

    kernels = [kernel for kernel in record.kernels.values() if choice.has(kernel)]
    if not kernels:
        raise UserError(
            f"explain: {subject} has no kernel {choice.kernel}: accepted are 1 to "
            f"{len(record.kernels)}, and globs of names"
        )
    for kernel in kernels:
        print_kernel(kernel, choice)


def _check_program(subject: str) -> None:
    from tinyref.cli.options import is_too_long
    from tinyref.errors import UserError

    if is_too_long(subject) or not Path(subject).is_file():
        raise UserError(f"explain: {subject}: no such file")
