"""`tinyref fuzz replay|reduce|show|keep|corpus|harvest`: what one does with cases on file."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.fuzz import programs
from tinyref.cli.fuzz.file_device import device_of
from tinyref.cli.options import check_target, device_name, path
from tinyref.errors import UserError

if TYPE_CHECKING:
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case import KernelCase, KernelVerdict

# Where nobody knows how wide the terminal is.
_WIDTH = 100

_CASE = Annotated[Path, typer.Argument(parser=path, metavar="CASE", help="The file of a case.")]
_DEVICE = Annotated[
    str, typer.Option(help="The device; the one that the case was found on if empty.")
]
_TIMEOUT = Annotated[float, typer.Option(min=0.1, help="Seconds that judging it may take.")]
_FOLDER = Annotated[
    Path | None,
    typer.Argument(
        parser=path, metavar="FOLDER", help="A folder of cases; those that come with tinyref."
    ),
]


def replay(case: _CASE, device: _DEVICE = "", timeout: _TIMEOUT = 60.0) -> None:
    """Judge a case again: what differs, in which stage. Exit code 1 if anything does.

    A case that crashes the device, or does not end, is one that fails: it has a process of its own.
    A device that is not installed, module:Class, is not taken from CASE: name it with --device.

    \b
    Examples:
      tinyref fuzz replay fuzz-CPU/cases/lower-4f1d2a90b3c7.json
      tinyref fuzz replay case.json --device PYTHON
    """
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case.files import load_record

    if programs.is_program_file(case):
        programs.replay(case, device, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "replay", case)
    loaded = record.case
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        if record.note:
            print(f"note: {record.note}")
        if verdict.pair is None or verdict.symptom is None:
            print(_agreement(verdict, name))
            return
        print(f"{name}: between {verdict.pair.value}: {verdict.symptom.value}")
        print(textwrap.indent(verdict.detail, "  "))
        for line in _particulars(judge, loaded, verdict):
            print(f"  {line}")
    raise typer.Exit(1)


def reduce(
    case: _CASE,
    device: _DEVICE = "",
    out: Annotated[
        Path | None, typer.Option(parser=path, help="Write it to this file, or into this folder.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Stop after so long.")] = 10.0,
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Make a failing case small, name the stage to blame, and write what is left.

    The file goes beside CASE, with `-reduced` before its ending, unless --out is given.
    """
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case import CaseRecord
    from tinyref_spec.kernel_case.files import load_record, save_record

    if programs.is_program_file(case):
        programs.reduce(case, device, out, seconds, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "reduce", case)
    loaded = record.case
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        _check_reducible(case, verdict, name)
        found = judge.finding(loaded, verdict, seconds)
    target = out or case.with_name(f"{case.stem}-reduced{case.suffix}")
    reduced = CaseRecord(found.case, record.note, found.verdict, found.blame, name)
    written = save_record(target, reduced, case.stem)
    print(f"{found.nodes} nodes, {found.opts} optimisations, in {found.seconds:.1f} s")
    print(f"{found.bucket}: {found.blame}")
    if found.problem:
        print(f"not reduced: {found.problem}")
    print(f"wrote {written}")
    print(f"again: tinyref fuzz replay {shlex.quote(str(written))} --device {name}")


def show(
    case: _CASE,
    device: _DEVICE = "",
    timeout: _TIMEOUT = 60.0,
    script: Annotated[
        bool, typer.Option("--script", help="Print a program that shows the fault, nothing else.")
    ] = False,
) -> None:
    """Show a case: kernel, data, and its stages with the first difference.

    Of one that agrees, and of one that crashes or does not end, only what it is.
    """
    from tinyref_fuzz.findings.bucket import DEATHS
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_fuzz.findings.show import outline
    from tinyref_spec.kernel_case.files import load_record

    if programs.is_program_file(case):
        programs.show(case, device, script, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "show", case)
    if script:
        _print_script(record.case, case, name, timeout)
        return
    for label, text in (
        ("note", record.note),
        ("found on", record.device),
        ("blamed then", str(record.blame or "")),
    ):
        if text:
            print(f"{label}: {text}")
    loaded = record.case
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        if verdict.agrees:
            print(_agreement(verdict, name))
        if verdict.agrees or verdict.symptom in DEATHS:
            print(outline(loaded, verdict, width), end="")
            return
        print(judge.show(loaded, verdict, width), end="")


def _print_script(loaded: KernelCase, file: Path, name: str, timeout: float) -> None:
    """Raises `UserError` where there is no fault to show."""
    from tinyref_fuzz.findings.isolated import IsolatedJudge

    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        if verdict.agrees:
            raise UserError(f"show: {file} does not fail on {name}: there is no fault to show")
        print(judge.script(loaded, verdict), end="")


def keep(
    case: _CASE,
    note: Annotated[str, typer.Option(help="A line on the bug that it found.")],
    name: Annotated[
        str, typer.Option(help="What to call it, in lower case; the file's name if empty.")
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Option(parser=path, help="Where to; the regressions of the spec suite if not given."),
    ] = None,
) -> None:
    """Keep a case or a tensor program as a regression; it must agree on the interpreter by now.

    The spec suite runs cases on every device, as rows kernel.regression.NAME; `fuzz corpus check`
    runs both.
    """
    from tinyref_fuzz.corpus.keep import keep_regression

    if programs.is_program_file(case):
        programs.keep(case, name or case.stem, note, folder)
        return
    written = keep_regression(case, name or case.stem, note, folder)
    print(f"wrote {written}")
    print(f"run it: tinyref conform --query kernel.regression.{written.stem}")


_CORPUS_HELP = """Check folders of cases, or bring old files up to date.

\b
Without FOLDER these are the regressions and the harvested kernels that come with tinyref.
Other files than *.json are not looked at.
"""
corpus_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=_CORPUS_HELP)


@corpus_app.callback(help=_CORPUS_HELP)
def _corpus() -> None:
    return


@corpus_app.command("check")
def check(
    folder: _FOLDER = None,
    device: Annotated[str, typer.Option(help="The device; the default one if empty.")] = "",
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Load, verify and replay every case. Exit code 1 if any file has a problem."""
    from tinyref_fuzz.corpus.folder import SHIPPED, files_of, problems_of

    name = device_name(device)
    folders = SHIPPED if folder is None else (folder,)
    problems = 0
    for each in folders:
        for problem in problems_of(each, name, timeout):
            problems += 1
            print(problem)
    files = sum(len(files_of(each)) for each in folders)
    print(f"{files} file{'' if files == 1 else 's'}, {problems} with a problem, on {name}")
    if problems:
        raise typer.Exit(1)


def harvest(
    program: Annotated[Path, typer.Argument(parser=path, metavar="FILE.py", help="A program.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENTS]", help="What FILE.py is given.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(parser=path, help="A file, or a folder; FILE-kernels.json if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="The device; the default one if empty.")] = "",
    every_size: Annotated[
        bool, typer.Option("--every-size", help="Keep kernels that differ in sizes alone, too.")
    ] = False,
    max_nodes: Annotated[
        int,
        typer.Option(
            "--max-nodes",
            "--most-nodes",
            min=1,
            help="Leave out kernels of more nodes.",
            show_default=False,
        ),
    ] = 200,
) -> None:
    """Take the kernels out of a program: it is run, and what it computes is written to a file.

    FILE.py is run as a program of its own, with all your rights, as python FILE.py would. Kernels
    are kept without their data, and of those that differ in sizes alone the smallest one.
    """
    from tinyref_fuzz.generate.corpus.harvest import harvest as run_harvest

    target = out if out is not None else Path(f"{program.stem}-kernels.json")
    if target.is_dir():
        target /= f"{program.stem}-kernels.json"
    check_target(target, "harvest: --out", program)
    name = device_name(device)
    found = run_harvest(program, name, target, every_size, max_nodes, arguments or ())
    left_out = f"; {found.large} structures too large to judge" if found.large else ""
    print(f"wrote {target}: {len(found.kernels)} of {found.ran} kernels{left_out}")
    if found.failure:
        print(f"tinyref: error: {program} ended with {found.failure}", file=sys.stderr)
        raise typer.Exit(1)


def _check_reducible(case: Path, verdict: KernelVerdict, device: str) -> None:
    from tinyref_fuzz.findings.isolated import HOPELESS

    if verdict.agrees:
        raise UserError(f"reduce: {case} does not fail on {device}: there is nothing to reduce")
    if verdict.symptom in HOPELESS:
        first = verdict.detail.partition("\n")[0]
        raise UserError(
            f"reduce: {case} on {device}: {first}: to try parts of it would take too long"
        )


def _agreement(verdict: KernelVerdict, device: str) -> str:
    programs = f"{verdict.judged} optimised program{'' if verdict.judged == 1 else 's'}"
    return f"{device}: all agree ({programs} judged)"


def _particulars(judge: IsolatedJudge, case: KernelCase, verdict: KernelVerdict) -> Iterator[str]:
    """The optimisations and the stage of a fault; of a process that ended nobody knows the former.

    To try more of such a case would end another process.
    """
    from tinyref.optimise.opt import opts_text
    from tinyref_fuzz.findings.bucket import DEATHS
    from tinyref_fuzz.findings.isolated import blame_of_death

    explained = None if verdict.symptom in DEATHS else judge.explain(case, verdict)
    if explained is None:
        yield f"stage: {blame_of_death(case, verdict, judge.device)}"
        return
    opts, blame = explained
    yield f"with {opts_text(opts)}" if opts else "without optimisations"
    yield f"stage: {blame}"
