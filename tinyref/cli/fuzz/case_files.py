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

from tinyref.cli.options import check_target, device_name, path, write_output
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

    if _is_program_file(case):
        _reduce_program(case, device, out, seconds, timeout)
        return
    record = load_record(case)
    name = device_of(device, record.device, "reduce", case)
    loaded = record.case
    with IsolatedJudge(name, timeout) as judge:
        verdict = judge.verdict(loaded)
        _check_reducible(case, verdict, name)
        found = judge.finding(loaded, verdict, seconds)
    reduced = CaseRecord(found.case, record.note, found.verdict, found.blame, name)
    written = save_record(out or _reduced_name(case), reduced, case.stem)
    print(f"{found.nodes} nodes, {found.opts} optimisations, in {found.seconds:.1f} s")
    print(f"{found.bucket}: {found.blame}")
    if found.problem:
        print(f"not reduced: {found.problem}")
    _print_written(written, name)


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
        typer.Option("--for", help="opencl, cuda, ...; the language of the device if empty."),
    ] = "",
    device: _DEVICE = "",
    out: Annotated[
        Path | None, typer.Option(parser=path, help="A file; standard output if not given.")
    ] = None,
    timeout: _TIMEOUT = 60.0,
) -> None:
    """Print a script for the maintainers of a compiler: it shows the fault without tinyref.

    It has the text of the kernel and calls the tool by its usual binding. Exit code of the script:
    1 while the kernel is wrong, 0 when it is right, 2 where it cannot run.

    \b
    Examples:
      tinyref fuzz export fuzz-OPENCL/cases/device-4f1d2a90b3c7.json
      tinyref fuzz export case.json --for cuda --out reproduce.py
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
    from tinyref_fuzz.corpus.keep import keep_program, keep_regression

    if _is_program_file(case):
        written = keep_program(case, name or case.stem, note, folder)
        command = f"tinyref fuzz corpus check {shlex.quote(str(written.parent))}"
    else:
        written = keep_regression(case, name or case.stem, note, folder)
        command = f"tinyref conform --query kernel.regression.{written.stem}"
    print(f"wrote {written}")
    print(f"run it: {command}")


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
    found = judge_isolated(record, name, seconds)
    _print_facts(("note", record.note))
    if found.verdict is None or found.verdict.agrees:
        print(f"{name}: all runs of the program agree, or it is one that tinyref refuses")
        return
    _print_difference(name, found.verdict)
    print(f"  blame: {found.blame}")
    raise typer.Exit(1)


def _reduce_program(
    file: Path, device: str, out: Path | None, seconds: float, timeout: float
) -> None:
    from tinyref_fuzz.programs.isolated import judge_isolated
    from tinyref_fuzz.programs.record import load_program, save_program

    record = load_program(file)
    name = device_of(device, record.device, "reduce", file)
    found = judge_isolated(record, name, timeout, seconds)
    if found.verdict is None:
        raise UserError(f"reduce: {file} does not fail on {name}: there is nothing to reduce")
    written = save_program(out or _reduced_name(file), found)
    print(f"{found.program.size} steps; {found.blame}")
    _print_written(written, name)


def _show_program(file: Path, device: str, is_script: bool, seconds: float) -> None:
    """Print it as a script; without `is_script` with what is known of it before."""
    from tinyref_fuzz.programs.isolated import IsolatedProgramJudge
    from tinyref_fuzz.programs.record import load_program
    from tinyref_spec.subjects.name import is_subject

    record = load_program(file)
    name = device_of(device, record.device, "show", file)
    # What its reads give is computed, of any size; the device itself need not be here.
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


# --- the device of a file, which may not choose what code runs ------------------------------------


def device_of(asked: str, named: str, command: str, case: Path) -> str:
    """The canonical name of what was asked for, else of the one that the file names.

    Raises `UserError` where it is unknown, and for one of a file that is not installed.
    """
    from tinyref_spec.subjects.name import is_subject

    if is_subject(asked or named):
        return _library_of(asked, named, command, case)
    return device_name(asked or _installed(named, command, case))


def _library_of(asked: str, named: str, command: str, case: Path) -> str:
    """The library that was asked for, else of the file: only one that imports nothing else."""
    from tinyref_spec.subjects.name import parse_subject

    name = parse_subject(asked or named)
    if not asked and (":" in name.library or name.packages):
        raise _refused(named, command, case)
    return str(name)


def _installed(named: str, command: str, case: Path) -> str:
    """The installed device that a file names; files come from anywhere, and may not import."""
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
