"""Test flags: defaults, environment, contexts, refusals."""

from __future__ import annotations

import os
import threading

import pytest

from tinyref import config
from tinyref.config import Context
from tinyref.errors import UserError


def test_default_environment_context_in_this_order(monkeypatch):
    monkeypatch.delenv("TINYREF_DEBUG", raising=False)
    assert config.integer("DEBUG") == 0
    monkeypatch.setenv("TINYREF_DEBUG", "3")
    assert config.integer("DEBUG") == 3
    with Context(DEBUG=1):
        assert config.integer("DEBUG") == 1
        with Context(VERIFY=0):
            assert config.integer("DEBUG") == 1
    assert config.integer("DEBUG") == 3


def test_an_environment_that_is_replaced_is_read(monkeypatch):
    # The environment may be replaced by another kind of mapping.
    monkeypatch.setattr(os, "environ", {"TINYREF_DEBUG": "4"})
    assert config.get("DEBUG") == 4
    assert config.get("NOOPT") == 0


def test_a_context_ends_with_an_error_and_decorates():
    @Context(DEBUG=2)
    def level() -> int:
        return config.integer("DEBUG")

    with pytest.raises(ZeroDivisionError), Context(DEBUG=4):
        raise ZeroDivisionError
    assert config.integer("DEBUG") == 0
    assert level() == 2


def test_threads_do_not_see_each_others_contexts():
    seen: list[int] = []
    with Context(DEBUG=5):
        thread = threading.Thread(target=lambda: seen.append(config.integer("DEBUG")))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"DEBGU": 1}, "unknown flag 'DEBGU': did you mean DEBUG. accepted are DEVICE, DEBUG"),
        ({"DEBUG": 7}, "flag DEBUG: got 7, accepted is an integer from 0 to 6"),
        ({"DEBUG": "high"}, "flag DEBUG: got 'high', accepted is an integer from 0 to 6"),
        ({"BEAM_SECONDS": 0}, "flag BEAM_SECONDS: got 0, accepted is an integer from 1$"),
        ({"CC": 3}, "flag CC: got 3, accepted is a text"),
    ],
)
def test_bad_flags_are_refused(flags, message):
    with pytest.raises(UserError, match=message):
        Context(**flags)


def test_a_bad_environment_is_refused_when_read(monkeypatch):
    monkeypatch.setenv("TINYREF_DEBUG", "x")
    with pytest.raises(UserError, match="flag DEBUG: got 'x'"):
        config.integer("DEBUG")


def test_a_text_flag_is_not_an_integer():
    with pytest.raises(UserError, match="flag CC: is a text, not an integer"):
        config.integer("CC")


def test_describe_names_each_flag_and_its_origin(monkeypatch):
    monkeypatch.setenv("TINYREF_CACHE", "0")
    with Context(DEBUG=2):
        rows = {flag.name: (value, origin) for flag, value, origin in config.describe()}
    assert set(rows) == set(config.FLAGS)
    assert rows["DEBUG"] == (2, "context")
    assert rows["CACHE"] == (0, "environment")
    assert rows["VERIFY"] == (2, "default")


def test_the_flags_that_are_not_at_their_default(monkeypatch):
    monkeypatch.setenv("TINYREF_DEBUG", "0")
    before = config.changed_flags()
    assert "DEBUG" not in before
    with Context(NOOPT=1, CC="tcc"):
        assert config.changed_flags() == {**before, "NOOPT": 1, "CC": "tcc"}


def test_each_flag_says_what_it_changes():
    effects = {name: config.FLAGS[name].effect for name in config.FLAGS}
    for name in ("STRICT_FLOAT", "NOOPT", "TC", "WINO", "RING", "IMAGE", "BEAM"):
        assert effects[name] is config.Effect.NUMBERS
    for name in ("VERIFY", "SANITIZE", "JIT"):
        assert effects[name] is config.Effect.CHECKS
    for name in ("CC", "CHECK_BOUNDS", "CPU_LEVEL", "THREADS"):
        assert effects[name] is config.Effect.NONE
    assert effects["DEBUG"] is config.Effect.OUTPUT


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("TINYREF_DEBGU", "TINYREF_DEBGU is set, and there is no flag 'DEBGU': did you mean DEBUG"),
        ("TINYREF_STRICTFLOAT", "did you mean STRICT_FLOAT"),
        ("TINYREF_debug", "there is no flag 'debug': accepted are DEVICE, DEBUG"),
        ("TINYREF_", "there is no flag ''"),
    ],
)
def test_a_variable_that_is_no_flag_is_refused(variable, message, monkeypatch):
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(config, "_is_checked", False)
    with pytest.raises(UserError, match=message):
        config.integer("DEBUG")
    with pytest.raises(LookupError, match=message):
        config.check_environment()
    monkeypatch.delenv(variable)
    assert config.integer("DEBUG") == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("after:schedul", "no stage 'schedul': did you mean schedule"),
        ("lower,after:linearising", "no stage 'linearising': did you mean linearise"),
        ("after:", "no stage '': accepted are graph, schedule, ast"),
        ("after:nothing at all", "no stage 'nothing at all': accepted are graph, schedule, ast"),
    ],
)
def test_a_stage_that_does_not_exist_is_refused(value, message, monkeypatch):
    with pytest.raises(UserError, match=message):
        Context(DUMP=value)
    monkeypatch.setenv("TINYREF_DUMP", value)
    with pytest.raises(UserError, match=message):
        config.text("DUMP")


def test_stages_that_exist_are_accepted():
    from tinyref.codegen.compile import STAGES

    assert ("graph", "schedule", *STAGES) == config.DUMP_STAGES
    for value in ("", "*", "after:*", "lower", " after:lower , graph,"):
        with Context(DUMP=value):
            assert config.text("DUMP") == value
