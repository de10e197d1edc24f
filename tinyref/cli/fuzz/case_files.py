"""`tinyref fuzz replay|reduce|show|export|keep|corpus|harvest`: commands for cases on file."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyref.cli.options import (
    check_target,
    device_name,
    device_option,
    duration_option,
    flag,
    named,
    out_option,
    path,
    write_output,
)
from tinyref.errors import UserError

if TYPE_CHECKING:
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case import KernelCase, KernelVerdict

# Columns, if the width of the terminal is unknown.
_WIDTH = 100

_CASE = Annotated[Path, typer.Argument(parser=path, metavar="CASE", help="The file of a case.")]
_DEVICE = Annotated[
    str, device_option("The device to use (default: the one that the case was found on).")
]
_TIMEOUT = Annotated[float, duration_option("--timeout", "Stop after this time (default: 60s).")]
_SCRIPT_FILE = Annotated[Path | None, out_option("Write to this file (default: standard output).")]
_FOLDER = Annotated[
    Path | None,
    typer.Argument(
        parser=path,
        metavar="FOLDER",
        help="A folder of cases (default: those that come with tinyref).",
    ),
]


def replay(case: _CASE, device: _DEVICE = "", timeout: _TIMEOUT = 60.0) -> None:
    """Run a case again and show the first difference and its stage. Exit code 1: it fails.

    \b
    Examples:
      tinyref fuzz replay fuzz-CPU/cases/lower-4f1d2a90b3c7.json
      tinyref fuzz replay case.json -d PYTHON

    The case runs in a process of its own: one that crashes the device or does not end has failed.
    A device that is not installed, module:Class, is not taken from CASE: name it with --device.
    """
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case.files import load_record

    if _is_program_file(case):
        _replay_program(case, device, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "replay", case)
    loaded = record.case
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        _print_facts(("note", record.note))
        if verdict.pair is None or verdict.symptom is None:
            print(_agreement(verdict, name))
            return
        _print_difference(name, verdict)
        for line in _particulars(judge, loaded, verdict):
            print(f"  {line}")
    raise typer.Exit(1)


def reduce(
    case: _CASE,
    device: _DEVICE = "",
    out: Annotated[
        Path | None,
        out_option("Write to this file or folder (default: CASE with -reduced in its name)."),
    ] = None,
    budget: Annotated[
        float, duration_option("--budget", "Stop reducing after this time (default: 10s).")
    ] = 10.0,
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Make a failing case small, find the stage to blame, and write the smaller case.

    \b
    Example:
      tinyref fuzz reduce case.json --budget 1m -o small.json
    """
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case import CaseRecord
    from tinyref_spec.kernel_case.files import load_record, save_record

    if _is_program_file(case):
        _reduce_program(case, device, out, budget, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "reduce", case)
    loaded = record.case
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        _check_reducible(case, verdict, name)
        finding = judge.finding(loaded, verdict, budget)
    reduced = CaseRecord(finding.case, record.note, finding.verdict, finding.blame, name)
    written = save_record(out or _reduced_name(case), reduced, case.stem)
    print(f"{finding.nodes} nodes, {finding.opts} optimisations, in {finding.seconds:.1f} s")
    print(f"{finding.bucket}: {finding.blame}")
    if finding.problem:
        print(f"not reduced: {finding.problem}")
    _print_written(written, name)


def show(
    case: _CASE,
    device: _DEVICE = "",
    timeout: _TIMEOUT = 60.0,
    script: Annotated[bool, flag("--script", "Print only a program that shows the fault.")] = False,
) -> None:
    """Show a case: its kernel, its data, and its stages with the first difference.

    \b
    Examples:
      tinyref fuzz show fuzz-CPU/cases/lower-4f1d2a90b3c7.json
      tinyref fuzz show case.json --script

    The stages are left out for a case that agrees, crashes or does not end.
    """
    from tinyref_fuzz.findings.bucket import DEATHS
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_fuzz.findings.show import outline
    from tinyref_spec.kernel_case.files import load_record

    if _is_program_file(case):
        _show_program(case, device, script, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "show", case)
    if script:
        _print_script(record.case, case, name, timeout)
        return
    blame = ("blamed then", str(record.blame or ""))
    _print_facts(("note", record.note), ("found on", record.device), blame)
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


def export(
    case: _CASE,
    name: Annotated[
        str,
        named("--for", "TOOL", "opencl, cuda, ... (default: the language of the device)."),
    ] = "",
    device: _DEVICE = "",
    out: _SCRIPT_FILE = None,
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Print a script for the maintainers of a compiler that shows the fault without tinyref.

    \b
    Examples:
      tinyref fuzz export fuzz-OPENCL/cases/device-4f1d2a90b3c7.json
      tinyref fuzz export case.json --for cuda -o reproduce.py

    The script has the source of the kernel and calls the tool by its usual binding. Its exit code
    is 1 if the kernel is wrong, 0 if it is right, 2 if the script cannot run.
    """
    from tinyref_fuzz.findings.isolated import IsolatedJudge
    from tinyref_spec.kernel_case.files import load_record
    from tinyref_spec.tool_scripts.languages import device_for, language_for

    if _is_program_file(case):
        raise UserError(
            f"export: {case} is a tensor program of several kernels: accepted are cases of one "
            "kernel; tinyref fuzz show --script prints a program"
        )
    record = load_record(case)
    seen_on = device_of(device, record.device, "export", case)
    language = language_for(name, seen_on)
    with IsolatedJudge(device_for(language, seen_on), timeout) as judge:
        verdict = record.verdict or judge.verdict(record.case)
        if verdict.agrees:
            raise UserError(f"export: {case} does not fail on {seen_on}: there is no fault to show")
        text = judge.script(record.case, verdict, language)
    if out is None:
        print(text, end="")
    else:
        write_output(out, text, "out")


def _print_script(loaded: KernelCase, file: Path, name: str, timeout: float) -> None:
    """Print the script of a case. Raise `UserError` if it shows no fault."""
    from tinyref_fuzz.findings.isolated import IsolatedJudge

    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        if verdict.agrees:
            raise UserError(f"show: {file} does not fail on {name}: there is no fault to show")
        print(judge.script(loaded, verdict), end="")


def keep(
    case: _CASE,
    note: Annotated[str, named("--note", "TEXT", "A line about the bug that it found.")],
    name: Annotated[
        str, named("--name", "NAME", "Its name, in lower case (default: the name of the file).")
    ] = "",
    out: Annotated[
        Path | None,
        out_option("Write to this folder (default: the regressions of the spec suite)."),
    ] = None,
) -> None:
    """Keep a case or a tensor program as a regression; it must agree on the interpreter now.

    \b
    Example:
      tinyref fuzz keep case.json --note "Remainder of a negative divisor." --name negative-mod

    The spec suite runs cases on every device, as rows kernel.regression.NAME. `fuzz corpus check`
    runs cases and programs.
    """
    from tinyref_fuzz.corpus.keep import keep_program, keep_regression

    if _is_program_file(case):
        written = keep_program(case, name or case.stem, note, out)
        command = f"tinyref fuzz corpus check {shlex.quote(str(written.parent))}"
    else:
        written = keep_regression(case, name or case.stem, note, out)
        command = f"tinyref conform --query kernel.regression.{written.stem}"
    print(f"wrote {written}")
    print(f"run it: {command}")


_CORPUS_HELP = """Check folders of cases.

\b
Example:
  tinyref fuzz corpus check fuzz-CPU/cases
"""
corpus_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help=_CORPUS_HELP)


@corpus_app.callback(help=_CORPUS_HELP)
def _corpus() -> None:
    return


@corpus_app.command("check")
def check(
    folder: _FOLDER = None,
    device: Annotated[str, device_option()] = "",
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Load, verify and replay every case. Exit code 1: a file has a problem.

    \b
    Examples:
      tinyref fuzz corpus check
      tinyref fuzz corpus check fuzz-CPU/cases -d PYTHON

    Only files *.json are read. Without FOLDER these are the regressions and the harvested kernels
    that come with tinyref.
    """
    from tinyref_fuzz.corpus.folder import SHIPPED, files_of, problems_of

    name = device_name(device)
    folders = SHIPPED if folder is None else (folder,)
    problems = 0
    for checked in folders:
        for problem in problems_of(checked, name, timeout):
            problems += 1
            print(problem)
    files = sum(len(files_of(checked)) for checked in folders)
    print(f"{files} file{'' if files == 1 else 's'}, {problems} with a problem, on {name}")
    if problems:
        raise typer.Exit(1)


def harvest(
    program: Annotated[Path, typer.Argument(parser=path, metavar="FILE.py", help="A program.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENTS]", help="The arguments of the program."),
    ] = None,
    out: Annotated[
        Path | None, out_option("Write to this file or folder (default: FILE-kernels.json).")
    ] = None,
    device: Annotated[str, device_option()] = "",
    every_size: Annotated[
        bool, flag("--every-size", "Also keep kernels that differ only in sizes.")
    ] = False,
    max_nodes: Annotated[
        int,
        named(
            "--max-nodes",
            "N",
            "Leave out kernels with more nodes (default: 200).",
            min=1,
            show_default=False,
        ),
    ] = 200,
) -> None:
    """Run a program and write its kernels to a file, for `tinyref fuzz --harvested`.

    \b
    Example:
      tinyref fuzz harvest train.py -o kernels.json -- --epochs 1

    FILE.py runs as python FILE.py would, with all your rights. Kernels are kept without their
    data. Of kernels that differ only in sizes, the smallest is kept.
    """
    from tinyref_fuzz.generate.corpus.harvest import harvest as run_harvest

    target = out if out is not None else Path(f"{program.stem}-kernels.json")
    if target.is_dir():
        target /= f"{program.stem}-kernels.json"
    check_target(target, "harvest: --out", program)
    name = device_name(device)
    harvested = run_harvest(program, name, target, every_size, max_nodes, arguments or ())
    left_out = f"; {harvested.large} structures too large to judge" if harvested.large else ""
    print(f"wrote {target}: {len(harvested.kernels)} of {harvested.ran} kernels{left_out}")
    if harvested.failure:
        print(f"tinyref: error: {program} ended with {harvested.failure}", file=sys.stderr)
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
    """Yield the optimisations and the stage of a fault.

    The optimisations are left out if the process ended: to find them would end more processes.
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


def _reduced_name(file: Path) -> Path:
    return file.with_name(f"{file.stem}-reduced{file.suffix}")


def _print_facts(*facts: tuple[str, str]) -> None:
    for label, text in facts:
        if text:
            print(f"{label}: {text}")


def _print_difference(device: str, verdict: KernelVerdict) -> None:
    assert verdict.pair is not None, "it does not agree"
    assert verdict.symptom is not None, "it does not agree"
    print(f"{device}: between {verdict.pair.value}: {verdict.symptom.value}")
    print(textwrap.indent(verdict.detail, "  "))


def _print_written(file: Path, device: str) -> None:
    print(f"wrote {file}")
    print(f"again: tinyref fuzz replay {shlex.quote(str(file))} --device {device}")


# --- files of tensor programs ---------------------------------------------------------------------


def _is_program_file(file: Path) -> bool:
    """Return True for the file of a program. Raise `UserError` if it cannot be read."""
    from tinyref_fuzz.programs.record import is_program
    from tinyref_spec.kernel_case.files import read_json

    return is_program(read_json(file))


def _replay_program(file: Path, device: str, seconds: float) -> None:
    from tinyref_fuzz.programs.isolated import judge_isolated
    from tinyref_fuzz.programs.record import load_program

    record = load_program(file)
    name = device_of(device, record.device, "replay", file)
    judged = judge_isolated(record, name, seconds)
    _print_facts(("note", record.note))
    if judged.verdict is None or judged.verdict.agrees:
        print(f"{name}: all runs of the program agree, or it is one that tinyref refuses")
        return
    _print_difference(name, judged.verdict)
    print(f"  blame: {judged.blame}")
    raise typer.Exit(1)


def _reduce_program(
    file: Path, device: str, out: Path | None, seconds: float, timeout: float
) -> None:
    from tinyref_fuzz.programs.isolated import judge_isolated
    from tinyref_fuzz.programs.record import load_program, save_program

    record = load_program(file)
    name = device_of(device, record.device, "reduce", file)
    reduced = judge_isolated(record, name, timeout, seconds)
    if reduced.verdict is None:
        raise UserError(f"reduce: {file} does not fail on {name}: there is nothing to reduce")
    written = save_program(out or _reduced_name(file), reduced)
    print(f"{reduced.program.size} steps; {reduced.blame}")
    _print_written(written, name)


def _show_program(file: Path, device: str, is_script: bool, seconds: float) -> None:
    """Print a program as a script; without `is_script`, after the facts of its file."""
    from tinyref_fuzz.programs.isolated import IsolatedProgramJudge
    from tinyref_fuzz.programs.record import load_program
    from tinyref_spec.subjects.name import is_subject

    record = load_program(file)
    name = device_of(device, record.device, "show", file)
    # The script has the results of its reads; the device need not be present.
    with IsolatedProgramJudge(name if is_subject(name) else "PYTHON", seconds) as judge:
        script = judge.script(record.program, name)
    if not is_script:
        verdict = record.verdict.detail if record.verdict is not None else ""
        _print_facts(
            ("note", record.note),
            ("found on", record.device),
            ("verdict", verdict),
            ("blamed", str(record.blame or "")),
        )
        print()
    print(script, end="")


# --- the device of a file: a file may not choose what code runs -----------------------------------


def device_of(asked: str, named: str, command: str, case: Path) -> str:
    """Return the canonical name of the device of the option, or else of the file.

    Raises `UserError` for an unknown device, and for a device of a file that is not installed.
    """
    from tinyref_spec.subjects.name import is_subject

    if is_subject(asked or named):
        return _library_of(asked, named, command, case)
    return device_name(asked or _installed(named, command, case))


def _library_of(asked: str, named: str, command: str, case: Path) -> str:
    """Return the library of the option, or else of the file if it imports no other package."""
    from tinyref_spec.subjects.name import parse_subject

    name = parse_subject(asked or named)
    if not asked and (":" in name.library or name.packages):
        raise _refused(named, command, case)
    return str(name)


def _installed(named: str, command: str, case: Path) -> str:
    """Return the installed device that a file names: files come from anywhere."""
    from tinyref.device import Device

    head, colon, number = named.partition(":")
    is_numbered = number.isascii() and number.isdigit()
    if not colon or (is_numbered and head.upper() in Device.names()):
        return named
    raise _refused(named, command, case)


def _refused(named: str, command: str, case: Path) -> UserError:
    again = f"tinyref fuzz {command} {shlex.quote(str(case))} --device {shlex.quote(named)}"
    return UserError(
        f"device: {case} names {named!r}, which is not the name of an installed device: "
        f"a file may not choose what code runs; if you trust it: {again}"
    )
