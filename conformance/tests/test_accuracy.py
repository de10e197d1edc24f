"""The table of accuracy: what it takes out of reports, and which reports make no table."""

from __future__ import annotations

import pytest

from tinyref.errors import UserError
from tinyref_conformance.accuracy import page


def report(device: str, query: str = "isa", **errors: tuple[float, float]) -> dict[str, object]:
    rules = {
        "exp2": "Within 3 ULP of it.",
        "neg": "Exact: the bits.",
        "log2": "Within 3 ULP of it.",
    }
    return {
        "certificate": {"device": device, "query": query, "device_versions": {"driver": "2.1"}},
        "rows": [
            {"id": f"isa.{op}", "error_rule": rules[op], "max_ulp": worst, "p99_ulp": most}
            for op, (worst, most) in errors.items()
        ],
    }


def test_a_line_a_row_and_a_column_a_device() -> None:
    text = page([report("ONE", exp2=(2.5, 1.0), neg=(0.0, 0.0)), report("TWO", exp2=(0.0, 0.0))])
    assert "| row | limit | ONE | TWO |" in text
    assert "| `isa.exp2` | 3 | 2.5 (1) | 0 (0) |" in text
    assert "| ONE | driver 2.1 |" in text
    assert "isa.neg" not in text  # exact everywhere, as it has to be


def test_reports_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(UserError, match="different queries"):
        page([report("ONE"), report("TWO", query="kernel")])
    with pytest.raises(UserError, match="one device"):
        page([report("ONE"), report("ONE")])
