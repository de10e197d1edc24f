"""What `tinyref fuzz replay|reduce|show|keep` do with the file of a tensor program."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path

import typer

from tinyref.cli.fuzz.file_device import device_of
from tinyref.errors import UserError


def is_program_file(file: Path) -> bool:
    """Whether the file holds a program. Raises `UserError` for one that cannot be read."""
    from tinyref_fuzz.programs.record import is_program
    from tinyref_spec.kernel_case.files import read_json

    return is_program(read_json(file))


def replay(file: Path, device: str, seconds: float) -> None:
    """Judges it again; exit code 1 if anything differs."""
    from tinyref_fuzz.programs.isolated import judge_isolated
    from tinyref_fuzz.programs.record import load_program

    record = load_program(file)
    name = device_of(device, record.device, "replay", file)
    found = judge_isolated(record, name, seconds)
    if record.note:
        print(f"note: {record.note}")
    verdict = found.verdict
    if verdict is None or verdict.pair is None or verdict.symptom is None:
        print(f"{name}: all runs of the program agree, or it is one that tinyref refuses")
        return
    print(f"{name}: between {verdict.pair.value}: {verdict.symptom.value}")
    print(textwrap.indent(verdict.detail, "  "))
    print(f"  blame: {found.blame}")
    raise typer.Exit(1)


def reduce(file: Path, device: str, out: Path | None, seconds: float, timeout: float) -> None:
    """Makes it small, blames a stage, and writes what is left."""
    from tinyref_fuzz.programs.isolated import judge_isolated
    from tinyref_fuzz.programs.record import load_program, save_program

    record = load_program(file)
    name = device_of(device, record.device, "reduce", file)
    found = judge_isolated(record, name, timeout, seconds)
    if found.verdict is None:
        raise UserError(f"reduce: {file} does not fail on {name}: there is nothing to reduce")
    written = save_program(out or file.with_name(f"{file.stem}-reduced{file.suffix}"), found)
    print(f"{found.program.size} steps; {found.blame}")
    print(f"wrote {written}")
    print(f"again: tinyref fuzz replay {shlex.quote(str(written))} --device {name}")


def show(file: Path, device: str, is_script: bool, seconds: float) -> None:
    """Prints it as a script; without `is_script` with what is known of it before."""
    from tinyref_fuzz.programs.isolated import IsolatedProgramJudge
    from tinyref_fuzz.programs.record import load_program

    record = load_program(file)
    name = device_of(device, record.device, "show", file)
    # What its reads give is computed, of any size; the device itself need not be here.
    with IsolatedProgramJudge("PYTHON", seconds) as judge:
        script = judge.script(record.program, name)
    if not is_script:
        said = record.verdict.detail if record.verdict is not None else ""
        for label, text in (
            ("note", record.note),
            ("found on", record.device),
            ("verdict", said),
            ("blamed", str(record.blame or "")),
        ):
            if text:
                print(f"{label}: {text}")
        print()
    print(script, end="")


def keep(file: Path, name: str, note: str, folder: Path | None) -> None:
    """Keeps it as a regression."""
    from tinyref_fuzz.corpus.keep import keep_program

    written = keep_program(file, name, note, folder)
    print(f"wrote {written}")
    print(f"run it: tinyref fuzz corpus check {shlex.quote(str(written.parent))}")
