"""docs/bring-up.md: each change that it shows breaks the rung, and prints what it says.

`--update-golden` writes what is printed now.
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
# What a reader needs no more of: of these lines a report has many, or they say where it is.
_LEFT_OUT = ("... and", "problem:", "report:", "not a conformance run", "not run:")
_TOTAL = re.compile(r"[\d,]+ cases? in ")
_LEFT_OUT_TOO = (
    "repair those",
    "reproducer of",
    "  tinyref conform --device MINE --profile quick --query",
)


@dataclass(frozen=True)
class Step:
    """A change of a file, the command that is run then, and what it prints."""

    rung: str
    file: str
    change: str
    command: str
    shown: str

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
        for found in _STEP.finditer(section):
            yield Step(rung, *found.groups())


def shortened(printed: str) -> str:
    """What the page shows of it; how many cases there are, and how long they take, says nothing."""
    lines = [
        line
        for line in printed.splitlines()
        if not line.startswith((*_LEFT_OUT, *_LEFT_OUT_TOO))
        and not line.endswith(" planned and not run")
    ]
    return "\n".join(line for line in lines if not _TOTAL.match(line)) + "\n"


def counted(text: str) -> str:
    """Without parts of a time."""
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
    # A line may be shown up to where it goes on.
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
        PAGE.write_text(page.replace(before + step.shown, before + printed))
    else:
        assert counted(printed) == counted(step.shown)
