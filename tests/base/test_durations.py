"""Test that all options read times in one way, and that printed times can be read."""

from __future__ import annotations

import pytest

from tinyref.durations import duration_text, parse_duration
from tinyref.errors import UserError


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("0.5s", 0.5)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "m", "-5m", "0m", "5 m", "1d", "inf", "infs", "nan", "1e3s", "1.5.1h", "٣s"]
)
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"accepted are 90s, 5m, 1\.5h, at least 0\.1s"):
        parse_duration(text)


def test_zero_is_accepted_if_allowed() -> None:
    assert parse_duration("0s", shortest=0.0) == 0.0
    with pytest.raises(UserError, match=r"got '-1s', accepted are 90s, 5m, 1\.5h$"):
        parse_duration("-1s", shortest=0.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0s"), (60.0, "1m"), (90.0, "90s"), (7200.0, "2h"), (0.25, "0.25s")]
)
def test_a_text_is_read_back(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
    assert parse_duration(text, shortest=0.0) == seconds
