"""`tinyref explain`: an expression or a program through every stage, from tensor to source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import device_option, flag, out_option

if TYPE_CHECKING:
    from tinyref.schedule import KernelItem
    from tinyref.tensor import Tensor

LARGEST_RESULT = 1 << 22


def explain(
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPRESSION|FILE.py", help="A tensor expression, or a program."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="What FILE.py is given.")
    ] = None,
    device: Annotated[str, device_option()] = "",
    verbose: Annotated[bool, flag("--verbose", "Show every stage of the kernel compiler.")] = False,
    out: Annotated[
        Path | None,
        out_option("Write a page to this file (default for a program: FILE.html)."),
    ] = None,
) -> None:
    """Show each stage on the way from tensors to kernels: of an expression, or of a program.

    \b
    Examples:
      tinyref explain "Tensor([1, 2, 3]).sum()"
      tinyref explain "(Tensor.ones(4, 4) @ Tensor.ones(4, 2)).relu()" -d PYTHON
      tinyref explain "Tensor.eye(4)[:, 1:3] * 2.5" -v
      tinyref explain train.py
      tinyref explain train.py -o page.html -- --epochs 1

    \b
    Allowed are Tensor and its methods, dtypes.NAME, operators, subscripts and literals. A DISK
    device is read, not written.
    The stages: the tensor graph, the kernels that the scheduler makes of it, and for each kernel
    its AST, its plan (the kinds of its axes, and the optimisations that gave them), the indexed
    kernel, the program, and the source that the device compiles.

    \b
    With --out the same goes to one page, with the time of each kernel, what each stage changed
    and the rules that fired in it. FILE.py is run as a program of its own, with all your rights,
    as python FILE.py would; the page shows all that it computes, in its own thread, and is
    written even where the program ends in an error (exit code 1 then).

    TINYREF_NOOPT=1 shows kernels without optimisations, TINYREF_BEAM=2 those that a search finds.
    """
    from tinyref.cli.expression import evaluate
    from tinyref.cli.options import opening_device
    from tinyref.config import Context
    from tinyref.errors import UserError
    from tinyref.runtimes.data_only import read_only_files

    name = opening_device(device)
    is_program = expression.endswith(".py")
    if out is not None or is_program:
        target = out if out is not None else Path(f"{Path(expression).stem}.html")
        _write_page(expression, arguments or [], name, target)
        return
    if arguments:
        raise UserError(f"explain: {arguments[0]}: an expression takes no arguments")
    with Context(DEVICE=name), read_only_files():
        tensor = evaluate(expression)
        _explain(tensor, verbose)


def _write_page(subject: str, arguments: list[str], device: str, out: Path) -> None:
    """Runs an expression or a program with a recorder, and writes the page of what it did."""
    from tinyref.cli.explain.page import page
    from tinyref.cli.explain.recording import Failure, Recording, run_expression, run_program
    from tinyref.cli.options import write_output
    from tinyref.errors import UserError

    target = _checked_target(subject, out)
    record = Recording()
    failure: Failure | None = None
    if subject.endswith(".py"):
        failure = run_program(_checked_program(subject), arguments, device, record)
    else:
        run_expression(subject, device, record)
    if failure is None and not record.realizes:
        raise UserError(
            f"explain: {subject} computed nothing: it must ask for elements, as by realize(), "
            "and not of constants alone"
        )
    write_output(target, page(subject, device, record, failure), "explain")
    kernels = _count(len(record.kernels), "kernel")
    print(f"wrote {out}: {_count(len(record.realizes), 'schedule')}, {kernels}")
    if failure is not None:
        print(f"tinyref: error: {subject} ended with {failure.line}", file=sys.stderr)
        raise typer.Exit(1)


def _checked_program(subject: str) -> Path:
    from tinyref.cli.options import is_too_long
    from tinyref.errors import UserError

    path = Path(subject)
    if is_too_long(subject) or not path.is_file():
        raise UserError(f"explain: {subject}: no such file")
    return path


def _checked_target(subject: str, out: Path) -> Path:
    """Return the absolute path of the page. Raise `UserError` before a program that may be long."""
    from tinyref.cli.options import check_target, is_too_long

    program = None if is_too_long(subject) else Path(subject)
    check_target(out, "explain: --out", program)
    # The program may change the folder.
    return out.absolute()


def _explain(tensor: Tensor, every_stage: bool) -> None:
    from tinyref.formats.text import to_text
    from tinyref.schedule import KernelItem, schedule

    _title(f"tensor graph: {tensor.dtype.name}{list(tensor.shape)} on {tensor.device}")
    print(to_text(tensor.node), end="")
    planned = schedule([(tensor.node, tensor.device)])
    kernels = planned.kernels
    copies = len(planned.items) - len(kernels)
    _title(f"schedule: {_count(len(kernels), 'kernel')}, {_count(copies, 'copy', 'copies')}")
    if not planned.items:
        print("nothing to run: the result is a constant or a view of memory that is there")
    number = 0
    for item in planned.items:
        if isinstance(item, KernelItem):
            number += 1
            _explain_kernel(item, number, every_stage)
        else:
            print(f"copy to {item.target.arg} from {item.source.arg}")
    _show_result(tensor)


def _explain_kernel(item: KernelItem, number: int, every_stage: bool) -> None:
    from tinyref.algebra.rewrite import listening
    from tinyref.codegen.compile import compile_kernel, plan_for
    from tinyref.device import Device
    from tinyref.engine.report import chosen_opts
    from tinyref.formats.text import to_text
    from tinyref.optimise.plan import print_plan
    from tinyref.runtimes.kernel import compile_ast

    stages: list[tuple[str, str]] = []
    capabilities = Device[item.device].capabilities
    opts = chosen_opts(item.device, item.ast)
    source = compile_ast(item.device, item.ast, opts).source
    with listening(stages=lambda name, before, after: stages.append((name, to_text(after)))):
        program = compile_kernel(item.ast, capabilities, opts=opts)
    names = {"ast": "AST", "narrow": "indexed kernel", "linearise": "program"}
    for stage, text in stages:
        if stage in names or every_stage:
            shown = names.get(stage, "indexed kernel")
            after = "" if stage == "ast" else f", after {stage}"
            _title(f"kernel {number}, {program.name}: {shown}{after}")
            print(text, end="")
        if stage == "ast":
            _title(f"kernel {number}, {program.name}: plan")
            print_plan(plan_for(item.ast, capabilities, opts), sys.stdout)
    if item.names:
        print(f"computes: {', '.join(item.names)}")
    if any(extent != 1 for extent in (*program.grid, *program.group)):
        print(f"launch: {_extents(program.grid)} groups of {_extents(program.group)}")
    _title(f"kernel {number}, {program.name}: source for {item.device}")
    print(source.rstrip("\n"))


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _extents(extents: tuple[object, ...]) -> str:
    return " x ".join(str(extent) for extent in extents)


def _show_result(tensor: Tensor) -> None:
    from tinyref.errors import UserError

    _title("result")
    count = tensor.numel()
    if not isinstance(count, int) or count > LARGEST_RESULT:
        raise UserError(
            f"explain: the result has {count} elements, shown are up to "
            f"{LARGEST_RESULT:,}: take a part of it or reduce it"
        )
    if not _keeps_values(tensor):
        tensor.realize()
        print(f"{tensor.device} runs nothing: there are no values")
        return
    # numpy shortens long arrays, and ml_dtypes teaches it the small floats.
    print(tensor.numpy())


def _keeps_values(tensor: Tensor) -> bool:
    from tinyref.device import Device

    places = (tensor.device,) if isinstance(tensor.device, str) else tensor.device
    return all(Device[place].capabilities.keeps_values for place in places)


def _title(text: str) -> None:
    print(f"\n== {text}")
