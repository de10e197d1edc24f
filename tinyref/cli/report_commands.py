"""`tinyref conform diff|export|merge|verify|matrix|faulty|compile`: commands around reports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import (
    device_name,
    device_option,
    jobs_option,
    json_option,
    named,
    out_option,
    path,
    query_option,
    write_output,
)
from tinyref.errors import UserError
from tinyref.folders import file_name

if TYPE_CHECKING:
    from tinyref_conformance.compare import Comparison
    from tinyref_conformance.matrix import Matrix

# The formats of `diff` and `matrix`.
COMPARISONS = ("text", "markdown", "html")
_FORM = Annotated[str, named("--format", "NAME", "The format: text, markdown or html.")]
_OUT = Annotated[Path | None, out_option("Write to this file (default: standard output).")]
_JSON = Annotated[Path | None, json_option()]


def check_format(form: str, accepted: Sequence[str]) -> None:
    """Raise `UserError` for an unknown format."""
    if form not in accepted:
        raise UserError(f"format: got {form!r}, accepted are {', '.join(accepted)}")


def report_folder(device: str, second: str, query: str, shard: str = "") -> Path:
    """Return the default folder of the reports of a run.

    The run of a part has a folder of its own, so that it does not overwrite the whole report.
    """
    name = f"{device}-with-{second}" if second else device
    folder = Path(f"conformance-{file_name(name)}")
    if shard:
        folder = folder / f"shard-{file_name(shard)}"
    return folder if query == "*" else folder / "query"


def diff(
    before: Annotated[Path, typer.Argument(parser=path, help="The report.json to compare with.")],
    after: Annotated[Path, typer.Argument(parser=path, help="The newer report.json.")],
    form: _FORM = "text",
    out: _OUT = None,
    json: _JSON = None,
) -> None:
    """Compare two reports: fixes, regressions, accuracy, new and missing cases.

    \b
    Examples:
      tinyref conform diff before.json after.json
      tinyref conform diff before.json after.json --format html -o changes.html

    Exit code 1: a case that was as expected no longer is.
    """
    from tinyref_conformance import report as reports
    from tinyref_conformance.compare import compare

    check_format(form, COMPARISONS)
    comparison = compare(reports.load(before), reports.load(after))
    _write_comparison(comparison, form, out, json)
    raise typer.Exit(1 if comparison.is_worse else 0)


def export(
    case: Annotated[str, typer.Argument(metavar="CASE", help="The id of a case.")],
    name: Annotated[
        str,
        named(
            "--for",
            "TOOL",
            "torch, numpy, array-api:MODULE, opencl, cuda, ptx, hip, metal, wgsl, llvm or c "
            "(default: the language of the device).",
        ),
    ] = "",
    device: Annotated[str, device_option()] = "",
    on: Annotated[
        str, named("--on", "NAME", "For a library: the device, by the library's name for it.")
    ] = "",
    imports: Annotated[
        list[str] | None,
        named("--import", "PACKAGE", "For a library: a package that registers the device."),
    ] = None,
    out: _OUT = None,
) -> None:
    """Print a script of a case for the maintainers of a library or compiler, without tinyref.

    \b
    Examples:
      tinyref conform export isa.binary.mod.int32.special:3 --for opencl
      tinyref conform export tensor.relu.float32.0 --for torch -o relu.py

    The script has the inputs, the source of the kernel or the call, and the expected values. Its
    exit code is 1 if the tool is wrong, 0 if it is right, 2 if the script cannot run.
    """
    from tinyref_spec.tool_scripts.export import export_case

    # By default `--for` takes any device of the language.
    device = device_name(device or None) if device or not name else ""
    text = export_case(case, name, device, on, imports or ())
    if out is None:
        print(text, end="")
    else:
        write_output(out, text, "out")


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(parser=path, help="The report.json, or its folder, of each shard."),
    ],
    out: Annotated[
        Path | None,
        out_option("Write the reports to this folder (default: ./conformance-DEVICE)."),
    ] = None,
) -> None:
    """Join the reports of all shards of a run: of one build, device, compiler and flags.

    \b
    Example:
      tinyref conform merge report/1 report/2 report/3 -o report

    A shard that is missing, edited, given twice or of another run is refused. The exit code counts
    the whole run.
    """
    from tinyref_conformance import merge as merging
    from tinyref_conformance.reports import HTML_NAME
    from tinyref_conformance.reports.terminal import summary

    report = merging.merge(merging.load_shards(files))
    facts = report.certificate
    folder = out or report_folder(facts["device"], facts.get("second", ""), facts["query"])
    merging.write(report, folder)
    for line in summary(report):
        print(line)
    for problem in report.problems:
        print(f"problem: {problem}")
    print(f"report: {folder / HTML_NAME}")
    raise typer.Exit(report.exit_code)


def verify(
    file: Annotated[Path, typer.Argument(parser=path, help="The report.json.")],
) -> None:
    """Check that a report has not been edited: compute its hash again.

    \b
    Example:
      tinyref conform verify conformance-CPU/report.json

    Exit code 1: it was edited. A hash is no signature: it shows accidental changes, not who wrote
    the file.
    """
    from tinyref_conformance import report as reports

    try:
        report = reports.load_unedited(file)
    except reports.EditedError as error:
        print(error)
        raise typer.Exit(1) from None
    print(f"{file} is as it was written: {report.certificate[reports.HASH]}")
    print(report.verdict)


def matrix(
    files: Annotated[
        list[Path], typer.Argument(parser=path, help="The report.json of each device.")
    ],
    form: _FORM = "text",
    out: _OUT = None,
    json: _JSON = None,
) -> None:
    """Show the ladders of several devices side by side.

    \b
    Example:
      tinyref conform matrix cpu/report.json mine/report.json --format html -o matrix.html
    """
    from tinyref_conformance import report as reports
    from tinyref_conformance.matrix import Matrix

    check_format(form, COMPARISONS)
    _write_comparison(Matrix([reports.load(file) for file in files]), form, out, json)


def _write_comparison(
    comparison: Comparison | Matrix, form: str, out: Path | None, json: Path | None
) -> None:
    """Print a comparison in a format, or write it to files."""
    if json is not None:
        write_output(json, comparison.json(), "json")
    page = comparison.page()
    text = {"text": page.text, "markdown": page.markdown, "html": page.html}[form]
    if out is not None:
        write_output(out, text(), "out")
    elif json is None:
        print(text(), end="")


def faulty(
    out: Annotated[
        Path | None, out_option("Keep the reports of each device under this folder.")
    ] = None,
    query: Annotated[str, query_option("Only this faulty device, by its class name.")] = "",
) -> None:
    """Run the suite on deliberately broken devices: it must catch each, on the right rung.

    \b
    Examples:
      tinyref conform faulty
      tinyref conform faulty -q FloorDivision -o broken

    Each device runs the part of the quick profile in which its fault can show. So does the healthy
    device that it is made from, which must pass. Exit code 1: a fault was not caught.
    """
    from tinyref_conformance.faulty.score import score

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    results = score(out, query, say=say)
    print(results.text(), end="")
    raise typer.Exit(0 if results.is_perfect else 1)


def compile_kernels(
    device: Annotated[str, device_option("The backend; its device need not be present.")],
    arch: Annotated[str, named("--arch", "NAME", "The architecture, such as sm_90.")],
    query: Annotated[str, query_option("Only the kernels of these cases.")] = "*",
    sample: Annotated[
        int,
        named(
            "--sample",
            "N",
            "Compile this many kernels, those of the most telling cases first (default: all).",
            min=0,
            show_default=False,
        ),
    ] = 0,
    out: Annotated[
        Path | None,
        out_option("Write the kernels that do not compile to this folder."),
    ] = None,
    jobs: Annotated[
        int, jobs_option("Number of kernels to compile at a time (default: 2).", least=1)
    ] = 2,
) -> None:
    """Compile the kernels of the quick suite for an architecture, without such a device.

    \b
    Example:
      tinyref conform compile -d CUDA --arch sm_90 --sample 100

    These are the kernels that cases compile before they read a value, for the features of the
    architecture. Exit code 1: one does not compile. Nothing is run.
    """
    from tinyref.device import Device
    from tinyref_conformance.compile_check import compile_suite

    target = Device.backend_class(device_name(device)).compile_target(arch)
    result = compile_suite(target, query, sample, jobs)
    print(result.text(), end="")
    if out is not None:
        result.write(out)
    raise typer.Exit(1 if result.refused else 0)
