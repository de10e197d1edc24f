"""Test that no terminal receives foreign text without escapes."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.conftest import RunTinyref
from tinyref.cli.entry import run
from tinyref.cli.terminal import PlainStream, plain_streams

ATTACK = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x00\x7f\ud800"


def is_plain(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text)


def test_a_plain_stream_writes_escapes() -> None:
    out = io.StringIO()
    stream = PlainStream(out)
    print(f"a{ATTACK}b\tc", file=stream)
    stream.writelines(["ü→\n", "\x08"])
    assert out.getvalue() == (
        "a\\x1b[2J\\x1b]0;title\\x07\\x9b31m\\r\\x00\\x7f\\ud800b\tc\nü→\n\\x08"
    )
    assert stream.closed is False


def test_progress_and_colours_are_ours() -> None:
    out = io.StringIO()
    print("half", end="\r", file=PlainStream(out))
    assert out.getvalue() == "half\r"
    console = Console(file=PlainStream(out), force_terminal=True, color_system="standard")
    console.print("[red]red[/]")
    assert "\x1b[31mred" in out.getvalue()


def test_streams_are_plain_within_a_command_and_as_before_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sys.stdout, sys.stderr
    with contextlib.suppress(KeyboardInterrupt), plain_streams():
        sys.stdout.write(f"out{ATTACK}")
        sys.stderr.write(f"err{ATTACK}")
        raise KeyboardInterrupt
    assert (sys.stdout, sys.stderr) == before
    streams = capsys.readouterr()
    assert streams.out.startswith("out\\x1b[2J")
    assert streams.err.startswith("err\\x1b[2J")
    assert is_plain(streams.out + streams.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["devices", f"no{ATTACK}"],
        ["conform", "--device", f"no{ATTACK}"],
        ["conform", "--query", f"no{ATTACK}"],
        ["conform", "diff", f"no{ATTACK[:-6]}", "b"],
        ["spec", "show", f"no{ATTACK}"],
        ["spec", "list", "-q", f"no{ATTACK}"],
        ["explain", f"Tensor([1]) + 'no{ATTACK}'"],
        ["fuzz", "replay", f"no{ATTACK[:-6]}"],
        ["bench", "--query", f"no{ATTACK}"],
        ["conform", f"--no{ATTACK}"],
        [f"no{ATTACK}"],
        ["conform", "--jobs", f"no{ATTACK}"],
    ],
)
def test_the_output_of_a_command_is_plain(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) != 0
    streams = capsys.readouterr()
    assert is_plain(streams.out + streams.err)


BACKEND = """
from tinyref.contract import Availability
from tinyref.runtimes.python import TextBackend

ATTACK = "\\x1b[2J\\x9b31m\\r\\x07"


class Hostile(TextBackend):
    title = f"a card{ATTACK}"

    @classmethod
    def availability(cls):
        return Availability(False, f"no driver{ATTACK}")
"""


@pytest.mark.long
def test_the_words_of_a_backend_are_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_tinyref: RunTinyref
) -> None:
    (tmp_path / "hostile_card.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(tmp_path)
    conform = ["conform", "--out", str(tmp_path / "out"), "--query", "isa.binary.add.int8"]
    for command in (["devices"], [*conform, "--device"]):
        done = run_tinyref(*command, "hostile_card:Hostile")
        output = done.out + done.err
        assert "\\x1b[2J" in output
        assert is_plain(output), output
