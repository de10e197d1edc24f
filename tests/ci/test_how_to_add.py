"""CONTRIBUTING says where something new is written: a sample of some, in these places alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from adding import MAX_PLACES, ROOT, Sample, copied, is_place, places, run
from samples_of_algebra import DTYPE, OP, RULE

SAMPLES = (OP, RULE, DTYPE)
OTHERS = ("An Opt", "A device", "A library to judge", "A row")


@pytest.mark.parametrize("title", [*OTHERS, *(sample.title for sample in SAMPLES)])
def test_each_list_is_short_and_names_what_is_there(title: str) -> None:
    listed = places(title)
    assert 0 < len(listed) <= MAX_PLACES
    for place in listed:
        assert any(ROOT.glob(re.sub(r"\b[A-Z]{2,}\b", "*", place))), place


@pytest.mark.long
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.title)
def test_a_sample_works_that_is_written_in_the_places_of_its_list_alone(
    sample: Sample, tmp_path: Path
) -> None:
    listed = places(sample.title)
    for place in listed:
        assert any(is_place(path, place) for path in sample.places), place
    for path in sample.places:
        assert any(is_place(path, place) for place in listed), path
    done = run(copied(tmp_path, sample), sample.script)
    assert done.returncode == 0, done.stderr
