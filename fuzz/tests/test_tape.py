"""The choice tape: one seed, one case; a record replays."""

from __future__ import annotations

import pytest

from tinyref.errors import UserError
from tinyref_fuzz.generate.tape import Tape


def draws(tape: Tape) -> list[object]:
    return [tape.below(10), tape.between(-2, 2), tape.pick("abc"), tape.chance(50), tape.below(1)]


def test_a_seed_gives_the_same_choices_on_any_machine():
    assert draws(Tape(seed=7)) == [5, -1, "b", True, 0]
    assert draws(Tape(seed=8)) != draws(Tape(seed=7))


def test_a_record_replays():
    first = Tape(seed=3)
    values = draws(first)
    assert draws(Tape(choices=first.choices)) == values


def test_a_cut_or_edited_tape_still_builds():
    assert draws(Tape(choices=[])) == [0, -2, "a", False, 0]
    assert draws(Tape(choices=[13, 7, 4, 99, 5])) == [3, 0, "b", True, 0]


def test_bad_tapes_are_refused():
    with pytest.raises(UserError, match="a seed or a list"):
        Tape()
    with pytest.raises(UserError, match="a seed or a list"):
        Tape(seed=1, choices=[1])
    with pytest.raises(UserError, match="below 0"):
        Tape(seed=1).below(0)


def test_weights_sway_a_draw_and_not_a_replay():
    tape = Tape(seed=2)
    found = [tape.pick("abc", (0, 1, 9)) for _ in range(200)]
    assert "a" not in found
    assert 5 < found.count("b") < 40
    again = Tape(choices=tape.choices)
    assert [again.pick("abc") for _ in range(200)] == found
    assert {Tape(seed=seed).pick("ab", (0, 0)) for seed in range(20)} == {"a", "b"}
    with pytest.raises(UserError, match="2 weights for 3 items"):
        Tape(seed=1).pick("abc", (1, 2))
