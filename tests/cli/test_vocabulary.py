"""Test that the options of all commands share one vocabulary, and each help has an example."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from tinyref.cli.app import app
from tinyref.cli.entry import run

ROOT = Path(__file__).resolve().parents[2]
# The letters and the names of the values: the same in every command.
LETTERS = {"--device": "-d", "--query": "-q", "--jobs": "-j", "--out": "-o", "--verbose": "-v"}
VALUES = {
    "--device": "NAME",
    "--query": "QUERY",
    "--jobs": "N",
    "--out": "PATH",
    "--json": "[FILE]",
    "--budget": "TIME",
    "--timeout": "TIME",
    "--memory-limit": "SIZE",
}
# All other options. Before you add one, check that none above has its meaning.
OTHERS = """
    --arch --case-list --cluster --compiled-every --corpus --count --durations --every-size
    --examine --expectations --fail-fast --first --for --format --further --harvested --help
    --import --install --install-completion --keep-going --kernel --kernels --language
    --last-failed --link --list --machine --max-nodes --name --note --on --policy --profile
    --programs --provider --python --reason --repeats --rerun-failures --restart --resume
    --runner --sample --script --second --seed --seeds --sequence --shard --shards
    --show-completion --stage --subject --sweep --table --thorough --timings
    --update-expectations --version
"""
# Spellings that must not occur in a help, page, script or test.
OLD = r"--(report|output|folder|html|only|row|family|seconds|every-stage|most-nodes)(?![\w-])"
TEXTS = ("*.md", "*.py", "*.toml", "*.jinja", "*.j2", "*.yml", ".ci/run", "ci/Dockerfile")


def commands_of(command: Any, words: tuple[str, ...] = ("tinyref",)) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands_of(below, (*words, name))


spec = importlib.util.spec_from_file_location("english", ROOT / "ci" / "english.py")
assert spec is not None
assert spec.loader is not None
english = importlib.util.module_from_spec(spec)
spec.loader.exec_module(english)
COMMANDS = dict(commands_of(typer.main.get_command(app)))


def problems_of(name: str, command: Any) -> Iterator[str]:
    """Yield the words of a command that are not in the vocabulary."""
    options = [param for param in command.params if param.param_type_name == "option"]
    for option in options:
        long = max(option.opts, key=len)
        letters = [word for word in option.opts if word != long]
        accepted = [LETTERS[long]] if long in LETTERS else []
        if letters != accepted and long != "--help":
            yield f"{long} has the letters {letters}, accepted are {accepted}"
        if long not in (*LETTERS, *VALUES, *OTHERS.split()):
            yield f"{long} is a new name"
        if VALUES.get(long, option.metavar) != option.metavar:
            yield f"{long} takes {option.metavar}, accepted is {VALUES[long]}"
        if not (option.help or "").endswith(".") and not option.hidden:
            yield f"{long} has a help without an end"
        if not option.is_flag and option.metavar is None and "completion" not in long:
            yield f"{long} does not name its value"
    example = re.compile(rf"^ *{re.escape(name)} .*\S|^ *{re.escape(name)}$", re.MULTILINE)
    if not example.search(command.help or ""):
        yield "its help has no example"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_keeps_the_vocabulary(name: str) -> None:
    assert list(problems_of(name, COMMANDS[name])) == []


def english_problems(command: Any) -> list[str]:
    """Return the problems of the help texts of a command, as ci/english.py finds them."""
    options = [param for param in command.params if param.param_type_name == "option"]
    texts = [command.help or "", *(option.help or "" for option in options)]
    # Lines after a mark of click stay unchanged: examples and tables.
    texts = [re.sub(r"\x08\n(?:.+\n?)+", "", text) for text in texts]
    return [problem for text in texts for _, problem in english.check_text(text, 1)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_is_plain_english(name: str) -> None:
    assert english_problems(COMMANDS[name]) == []


def test_a_help_that_is_hard_to_read_is_found() -> None:
    command = COMMANDS["tinyref devices"]
    hard = typer.main.get_command(app).__class__(name="hard", help="End after so many seconds.")
    assert english_problems(command) == []
    assert english_problems(hard) == ['"so many" is a word to avoid: End after so many seconds.']


def test_the_vocabulary_refuses_others() -> None:
    broken = typer.Typer(rich_markup_mode=None, add_completion=False)

    @broken.command("broken")
    def command(
        report: Annotated[str, typer.Option(help="Write here.")] = "",
        out: Annotated[str, typer.Option("--out", "-f", metavar="PATH", help="Here.")] = "",
        budget: Annotated[float, typer.Option(metavar="SECONDS", help="End then.")] = 1.0,
    ) -> None:
        """Do it."""

    assert list(problems_of("tinyref broken", typer.main.get_command(broken))) == [
        "--report is a new name",
        "--report does not name its value",
        "--out has the letters ['-f'], accepted are ['-o']",
        "--budget takes SECONDS, accepted is TIME",
        "its help has no example",
    ]


def test_no_text_has_an_old_spelling() -> None:
    words = ["git", "grep", "-nP", "-e", OLD, "--", *TEXTS, f":!{Path(__file__).relative_to(ROOT)}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        pytest.skip("this is no checkout of git")
    assert done.stdout == ""


@pytest.mark.parametrize("words", [["--json"], ["--json", "-"], ["--json=-"]])
def test_json_without_a_file_is_printed(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", *words]) == 0
    assert capsys.readouterr().out.startswith("[\n {")


def test_json_with_a_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--json", f"{tmp_path}/a.json"], [f"--json={tmp_path}/a.json"]):
        assert run(["config", *words]) == 0
        assert capsys.readouterr().out == ""
        assert (tmp_path / "a.json").read_text().startswith("[\n {")
        (tmp_path / "a.json").unlink()


def test_json_takes_no_name_of_a_device_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devices", "--json", "PYTHON"]) == 0
    assert '"name": "PYTHON"' in capsys.readouterr().out
    assert run(["spec", "show", "--json", "isa.binary.mod.int32"]) == 0
    assert '"id": "isa.binary.mod.int32"' in capsys.readouterr().out
