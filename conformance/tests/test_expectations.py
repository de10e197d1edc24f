from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tinyref.errors import UserError
from tinyref_conformance.expectations import (
    Expectation,
    Expectations,
    Observed,
    Phase,
    Skip,
    updated_expectations,
)
from tinyref_conformance.expectations_file import load, write, write_update
from tinyref_conformance.queries import matches, unmatched_parts
from tinyref_conformance.statuses import Status

TODAY = datetime.date(2026, 1, 10)
GOOD = """
schema = 1
device = "FAKE"
[[expected]]
query = "isa.unary.exp2.*"
phase = "accuracy"
reason = "the table of the card has 20 bits"
link = "https://example.org/1"
expires = 2026-02-01
"""


def entry(query: str, phase: Phase = Phase.ACCURACY, expires: str = "") -> Expectation:
    date = datetime.date.fromisoformat(expires) if expires else None
    return Expectation(query, "known", "https://example.org/1", date, phase)


@pytest.mark.parametrize(
    ("query", "case_id", "gives"),
    [
        ("*", "isa.a", True),
        ("isa.a", "isa.a", True),
        ("isa.a", "isa.ab", False),
        ("isa.a", "isa.a.special:1", True),
        ("isa.a.special", "isa.a.special:1", True),
        ("isa.a.special:1", "isa.a.special:12", False),
        ("isa.a.special:*", "isa.a.special:12", True),
        ("isa.*.int8", "isa.a.int8", True),
        ("isa.*.int8", "isa.a.int8.special:1", True),
        ("isa.*.int8", "isa.a.int8x", False),
        ("isa.*.int8", "isa.a.int8.", True),
        ("isa.?.int8.special", "isa.a.int8.special:1", True),
        ("isa.?.int8.special:", "isa.a.int8.special:1", True),
        ("isa.?.int8.special:1", "isa.a.int8.special:12", False),
        ("*.int8", "isa.a.int8.special:1", True),
        ("b, isa.*.int8", "isa.a.int8.special:1", True),
        ("isa.+.int8", "isa.a.int8", False),
        ("", "isa.a", False),
        ("ISA.a", "isa.a", False),
    ],
)
def test_queries(query: str, case_id: str, gives: bool) -> None:
    assert matches(query, case_id) is gives


def test_a_file_reads_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "fake.toml"
    odd = Expectation("a", 'says "no"\\ \n\t\x7f\u2028\U0001f600', "http://x/", None, Phase.RUN)
    skips = (Skip("c", "hangs", "http://x/", datetime.date(2031, 1, 2)), Skip("d", "x", "http://y"))
    expectations = Expectations("FAKE", (entry("b", expires="2030-01-31"), odd), skips)
    write(expectations, path)
    assert load(path, "FAKE") == expectations


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("schema = 1", "schema = 2", "schema is 2"),
        ("schema = 1", "schema = 1\nmore = 2", "unknown key 'more'"),
        ('device = "FAKE"', 'device = "OTHER"', "is for device 'OTHER'"),
        ('reason = "the table of the card has 20 bits"', "", "reason is missing"),
        ("the table of the card has 20 bits", " ", "reason is missing or empty"),
        ('link = "https://example.org/1"', "", "link is missing"),
        ("https://example.org/1", "see chat", "use an https:// address"),
        ('"accuracy"', '"luck"', "use compile, run, accuracy"),
        ("2026-02-01", '"soon"', "use a date"),
        ("2026-02-01", "2026-02-01T00:00:00", "use a date"),
        ("expires", "expire", "unknown key 'expire'"),
        ("[[expected]]", "[expected]", r"\[\[expected\]\]"),
        ("[[expected]]", "[[skip]]", "entry 1 of \\[\\[skip\\]\\]: unknown key 'phase'"),
        ("schema = 1", "schema = 1\nskip = [1]", r"write entries as \[\[skip\]\]"),
        ("schema = 1", "schema = ", "not TOML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "fake.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError, match=says):
        load(path, "FAKE")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none\.toml"):
        load(tmp_path / "none.toml", "FAKE")


@pytest.mark.parametrize(
    ("status", "phase", "expected", "gives"),
    [
        (Status.FAIL, "accuracy", entry("isa.a"), Status.EXPECTED_FAIL),
        (Status.CRASH, "run", entry("isa.a", Phase.RUN), Status.EXPECTED_FAIL),
        (Status.TIMEOUT, "run", entry("isa.a", Phase.RUN), Status.EXPECTED_FAIL),
        (Status.FAIL, "compile", entry("isa.a"), Status.FAIL),
        (Status.FAIL, "accuracy", entry("isa.b"), Status.FAIL),
        (Status.FAIL, "accuracy", entry("isa.a", expires="2026-01-10"), Status.FAIL),
        (Status.FAIL, "accuracy", entry("isa.a", expires="2026-01-11"), Status.EXPECTED_FAIL),
        (Status.PASS, "", entry("isa.a"), Status.UNEXPECTED_PASS),
        (Status.UNSUPPORTED, "", entry("isa.a"), Status.UNEXPECTED_PASS),
        (Status.PASS, "", entry("isa.a", expires="2026-01-10"), Status.PASS),
        (Status.PASS, "", entry("isa.b"), Status.PASS),
        (Status.SKIP, "", entry("isa.a"), Status.SKIP),
        (Status.SUPPRESSED, "", entry("isa.a"), Status.SUPPRESSED),
    ],
)
def test_expectations_are_strict_both_ways(
    status: Status, phase: str, expected: Expectation, gives: Status
) -> None:
    final, _ = Expectations("FAKE", (expected,)).final("isa.a.special:0", status, phase, TODAY)
    assert final is gives


def test_the_message_says_why_an_expectation_does_not_help() -> None:
    wrong = Expectations("FAKE", (entry("isa.a"),))
    assert wrong.final("isa.a", Status.FAIL, "run", TODAY)[1] == (
        "expected to fail in phase accuracy, not in run"
    )
    expired = Expectations("FAKE", (entry("isa.a", expires="2026-01-01"),))
    assert "expired on 2026-01-01" in expired.final("isa.a", Status.FAIL, "accuracy", TODAY)[1]


def test_queries_that_name_nothing_are_found() -> None:
    expectations = Expectations(
        "FAKE", (entry("isa.a"), entry("isa.gone, isa.a")), (Skip("b.*", "x", "http://x"),)
    )
    assert expectations.unmatched(["isa.a.x"]) == ["isa.gone", "b.*"]
    assert unmatched_parts("isa.a, ,*.y", ["isa.a.x", "isa.b.y:0"]) == [""]


def test_a_skip_names_its_reason_until_it_expires() -> None:
    skip = Skip("isa.*.int8", "it hangs", "https://example.org/3", datetime.date(2026, 1, 11))
    expectations = Expectations("FAKE", (), (skip,))
    said = "on the list of skips: it hangs (https://example.org/3)"
    assert expectations.skipped("isa.a.int8.special:0", TODAY) == said
    assert expectations.skipped("isa.a.int16.special:0", TODAY) is None
    assert expectations.skipped("isa.a.int8", datetime.date(2026, 1, 11)) is None


def seen(case_id: str, status: Status, phase: str = "") -> Observed:
    return Observed(case_id, case_id.rpartition(".")[0], status, phase)


def test_an_update_adds_narrows_keeps_and_drops() -> None:
    old = Expectations(
        "FAKE", (entry("still"), entry("half"), entry("fixed"), entry("elsewhere"), entry("above"))
    )
    observed = [
        seen("still.x:0", Status.FAIL, "accuracy"),
        seen("half.x:0", Status.FAIL, "accuracy"),
        seen("half.x:1", Status.PASS),
        seen("fixed.x:0", Status.PASS),
        seen("above.x:0", Status.SUPPRESSED),
        seen("new.x:0", Status.FAIL, "accuracy"),
        seen("new.x:1", Status.PASS),
        seen("whole.x:0", Status.CRASH, "run"),
        seen("whole.x:1", Status.TIMEOUT, "run"),
    ]
    found = updated_expectations(
        old, observed, "a new reason", "https://example.org/2"
    ).expectations
    assert [(each.query, each.phase.value, each.reason) for each in found.entries] == [
        ("still", "accuracy", "known"),
        ("half.x:0", "accuracy", "known"),
        ("elsewhere", "accuracy", "known"),
        ("above", "accuracy", "known"),
        ("new.x:0", "accuracy", "a new reason"),
        ("whole", "run", "a new reason"),
    ]
    for case in observed:
        final, _ = found.final(case.case_id, case.status, case.phase, TODAY)
        assert not final.is_failure


COMMENTED = """# The card of the second lab.
schema = 1
device = "FAKE"   # as the lab calls it

# Hangs since the driver of May.
[[skip]]
query = "isa.hangs"
reason = "hangs"
link = "https://example.org/9"

# --- open tickets ---

# still broken
[[expected]]
query = "still"   # all of it
phase = "accuracy"
reason = "known"
link = "https://example.org/1"

# was fixed by the vendor
[[expected]]
query = "fixed"
phase = "accuracy"
reason = "known"
link = "https://example.org/1"

# half of it
[[expected]]
query = 'half' # see the ticket
phase = "accuracy"
reason = "known"
link = "https://example.org/1"

# the end
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_comments_survive_an_update(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "fake.toml"
    path.write_bytes(COMMENTED.replace("\n", ending).encode())
    observed = [
        seen("still.x:0", Status.FAIL, "accuracy"),
        seen("fixed.x:0", Status.PASS),
        seen("half.x:0", Status.FAIL, "accuracy"),
        seen("half.x:1", Status.PASS),
        seen("half.x:2", Status.FAIL, "accuracy"),
        seen("isa.hangs.x:0", Status.NOT_RUN),
        seen("new.x:0", Status.CRASH, "run"),
    ]
    old = load(path, "FAKE")
    update = updated_expectations(old, observed, "new", "https://example.org/2")
    write_update(update, path)
    assert load(path, "FAKE") == update.expectations
    head, _, tail = COMMENTED.partition("# was fixed")
    tail = tail[tail.index("# half") :]
    expected = head + tail.replace("query = 'half' #", 'query = "half.x:0" #')
    place = expected.index("\n\n# the end")
    added = '\n\n[[expected]]\nquery = "half.x:2"\nphase = "accuracy"\nreason = "known"\n'
    added += 'link = "https://example.org/1"'
    expected = expected[:place] + added + expected[place:]
    expected += '\n[[expected]]\nquery = "new"\nphase = "run"\nreason = "new"\n'
    expected += 'link = "https://example.org/2"\n'
    assert path.read_bytes().decode() == expected.replace("\n", ending)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        'expected = [{query = "a", phase = "run", reason = "x", link = "http://x"}]\n',
        '[[expected]]\nquery = "a"\nphase = "run"\nreason = """\n[[expected]]\n"""\n'
        'link = "http://x"\n',
        '[["expected"]]\nquery = """a"""\nphase = "run"\nreason = "x"\nlink = "http://x"\n',
    ],
)
def test_a_file_that_cannot_be_updated_in_place_is_kept_beside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fake.toml"
    whole = f'schema = 1\ndevice = "FAKE"\n{text}# the end\n'
    path.write_text(whole)
    observed = [seen("a.x:0", Status.CRASH, "run"), seen("a.x:1", Status.PASS)]
    update = updated_expectations(load(path, "FAKE"), observed, "new", "https://example.org/2")
    write_update(update, path)
    assert load(path, "FAKE") == update.expectations
    assert (tmp_path / "fake.previous.toml").read_text() == whole
