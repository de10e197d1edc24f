"""Test docs/bring-up.md: each change breaks its rung, and prints the text of the page.

`--update-golden` writes the present output to the page.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.written_backends import tinyref, write_package
from tinyref.runtimes.host.clang import COMPILERS

PAGE = Path(__file__).parents[2] / "docs" / "bring-up.md"
_STEP = re.compile(r"```diff\n(\S+)\n(.*?)```\n\n```console\n\$ tinyref (.*?)\n(.*?)```\n", re.S)
# Lines that the page omits: a report has many of them, or they say where it is.
_LEFT_OUT = ("... and", "problem:", "report:", "not a conformance run", "not run:")
_TOTAL = re.compile(r"[\d,]+ cases? in ")
_LEFT_OUT_TOO = (
    "repair those",
    "reproducer of",
    "  tinyref conform --device MINE --profile quick --query",
)


@dataclass(frozen=True)
class Step:
    """A change of a file, the next command, and its output."""

    rung: str
    file: str
    change: str
    command: str
    output: str

    @property
    def old(self) -> str:
        return self._lines("-")

    @property
    def new(self) -> str:
        return self._lines("+")

    def _lines(self, sign: str) -> str:
        return "".join(line[1:] for line in self.change.splitlines(True) if line[0] == sign)


def steps(page: str) -> Iterator[Step]:
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        rung = section.partition("\n")[0]
        for match in _STEP.finditer(section):
            yield Step(rung, *match.groups())


def shortened(printed: str) -> str:
    """Return the lines that the page shows, without numbers of cases and times."""
    lines = [
        line
        for line in printed.splitlines()
        if not line.startswith((*_LEFT_OUT, *_LEFT_OUT_TOO))
        and not line.endswith(" planned and not run")
    ]
    return "\n".join(line for line in lines if not _TOTAL.match(line)) + "\n"


def counted(text: str) -> str:
    """Replace percentages, which differ from run to run."""
    return re.sub(r"\d+%", "N", text)


STEPS = list(steps(PAGE.read_text()))


def test_each_rung_that_a_table_can_break_is_broken_once() -> None:
    assert [step.rung for step in STEPS] == [
        "open",
        "allocate and copy",
        "store a constant",
        "one operation",
        "index",
        "every operation",
        "casts",
        "gates",
        "vectors",
        "loops and reduces",
        "loops and reduces",
        "groups and barriers",
    ]


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", STEPS, ids=[f"{step.rung}-{step.file}" for step in STEPS])
def test_the_change_prints_what_the_page_shows(
    step: Step, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip(f"the tutorial needs one of {', '.join(COMPILERS)}")
    folder = tmp_path / "mine"
    write_package("MINE", "opencl", folder)
    broken = folder / step.file
    text = broken.read_text()
    # The page may cut a line short.
    old, new = step.old.rstrip("\n"), step.new.rstrip("\n")
    assert text.count(old) == 1
    broken.write_text(text.replace(old, new))
    run = tinyref(*shlex.split(step.command), path=folder)
    assert run.returncode == 1, run.stdout + run.stderr
    printed = shortened(run.stdout)
    assert f"first broken rung is '{step.rung}'" in printed
    if request.config.getoption("--update-golden"):
        page = PAGE.read_text()
        before = f"{step.change}```\n\n```console\n$ tinyref {step.command}\n"
        assert page.count(before) == 1
        PAGE.write_text(page.replace(before + step.output, before + printed))
    else:
        assert counted(printed) == counted(step.output)
