from __future__ import annotations

import itertools

import fake_catalogue
import pytest

from tinyref.errors import UserError
from tinyref_conformance.plan import PlannedRow, Shard, shard_of
from tinyref_spec.case import Profile


def rows(count: int) -> list[PlannedRow]:
    found = [
        fake_catalogue.row(f"isa.r{i}.int32", *[fake_catalogue.passes] * 4) for i in range(count)
    ]
    return [PlannedRow(row, tuple(row.cases(Profile.QUICK))) for row in found]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_row_is_in_exactly_one_shard(count: int) -> None:
    shards = [shard_of(rows(20), Shard(n + 1, count), {}) for n in range(count)]
    ids = [planned.id for planned in itertools.chain(*shards)]
    assert sorted(ids) == sorted(planned.id for planned in rows(20))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_timings_make_shards_equally_long() -> None:
    timings = {f"isa.r0.int32.special:{i}": 10.0 for i in range(4)}
    first, second = (shard_of(rows(9), Shard(n, 2), timings) for n in (1, 2))
    assert [planned.id for planned in first] == ["isa.r0.int32"]
    assert len(second) == 8


def test_shards_are_the_same_everywhere() -> None:
    again = [shard_of(rows(20), Shard(2, 3), {}) for _ in range(2)]
    assert [planned.id for planned in again[0]] == [planned.id for planned in again[1]]


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "-1/2", "1/0", "a/b", "1/2/3", "1.0/2"])
def test_a_bad_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="accepted is i/n"):
        Shard.parse(text)


def test_a_good_shard() -> None:
    assert Shard.parse("2/4") == Shard(2, 4)
    assert str(Shard(2, 4)) == "2/4"
