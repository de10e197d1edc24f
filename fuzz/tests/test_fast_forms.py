"""Forms that were made fast: each has rows, a form of the generator, a fault that both find.

The table is that of docs/optimiser.md.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mutated import mutated

import tinyref
from tinyref.device import Device
from tinyref.errors import TinyrefError
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.policies import FORMS, POLICIES
from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.judge.judge import Judge
from tinyref_fuzz.mutants.catalogue import MUTANTS
from tinyref_spec.case import Case, Profile
from tinyref_spec.catalogue import all_rows
from tinyref_spec.device_under_test import DeviceUnderTest

PAGE = Path(str(tinyref.__file__)).parent.parent / "docs" / "optimiser.md"
HEADER = "| form | rows | generator | mutant |"
# So many kernels are drawn until one finds the fault.
MAX_KERNELS = 120


HOST = "tinyref_fuzz.judge.devices:Host"


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    form: str
    rows: str
    generator: str
    mutant: str


def lines() -> tuple[Line, ...]:
    text = PAGE.read_text()
    table = text[text.index(HEADER) :].split("\n\n")[0].splitlines()[2:]
    cells = ([cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table)
    return tuple(Line(*each) for each in cells)


LINES = lines()
each_line = pytest.mark.parametrize("line", LINES, ids=[line.form for line in LINES])


@functools.cache
def cases(query: str) -> tuple[Case, ...]:
    chosen = [row for row in all_rows() if fnmatch.fnmatch(row.id, query)]
    return tuple(case for row in chosen for case in row.cases(Profile.QUICK))


def device_of(line: Line) -> str:
    """Where the fault shows: faults of the optimiser on the simulated host."""
    device = MUTANTS[line.mutant].device
    return HOST if device in ("PYTHON", "CPU") else device


def failing(line: Line) -> Iterator[str]:
    for case in cases(line.rows):
        try:
            is_right = case.run(DeviceUnderTest(device_of(line))).passed
        except TinyrefError:
            is_right = False
        if not is_right:
            yield case.id


def test_the_table_has_all_that_is_fast() -> None:
    assert len(LINES) >= 17
    assert len({line.form for line in LINES}) == len(LINES)
    assert all(re.fullmatch(r"[a-z-]+", line.mutant) for line in LINES)


@pytest.mark.table
@each_line
def test_rows_generator_and_mutant_of_a_line_exist(line: Line) -> None:
    assert cases(line.rows)
    assert line.generator in FORMS
    assert line.mutant in MUTANTS


@pytest.mark.long
@pytest.mark.sampled(9)
@each_line
def test_the_rows_find_the_mutant(line: Line) -> None:
    assert not list(failing(line))
    with mutated(MUTANTS[line.mutant]):
        assert any(failing(line))


@pytest.mark.slow
@each_line
def test_the_form_of_the_generator_finds_the_mutant(line: Line) -> None:
    is_float = line.form == "functions in lanes"
    policy = replace(
        POLICIES["floats" if is_float else "plans"],
        forms={form: float(form == line.generator) for form in FORMS},
        in_place=0 if is_float else 12,
        depth=2,
        mixes={},
    )
    judge = Judge(device_of(line))
    capabilities = Device[judge.device].capabilities
    with mutated(MUTANTS[line.mutant]):
        assert any(
            not judge.verdict(generate(Tape(seed=seed), capabilities, policy)).agrees
            for seed in range(MAX_KERNELS)
        )
