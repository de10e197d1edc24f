"""Plans as people see them: a colour for each kind, and none where none is wanted."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from kernel_cases import GRID

from tinyref.dtype import dtypes
from tinyref.optimise.opt import parse_opts
from tinyref.optimise.plan import KIND_ORDER, STYLES, Plan, print_plan
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_spec.kernels.named import reduction

GROUPS = replace(GRID, shared_bytes=1 << 16)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def kernel() -> UOp:
    return reduction(Ops.ADD, dtypes.int32, (6, 16), 1)


def plan(text: str = "UPCAST(0, 2) GROUP(1, 4)") -> Plan:
    return Plan.of(kernel(), GROUPS).apply_all(parse_opts(text))


def shown(plan: Plan, stream: io.StringIO, indent: str = "") -> str:
    print_plan(plan, stream, indent)
    return stream.getvalue()


def test_a_file_has_no_colours() -> None:
    assert shown(plan(), io.StringIO(), "  ") == (
        "  plan  global 3, group_reduce 4, reduce 4, upcast 2\n  opts  UPCAST(0, 2) GROUP(1, 4)\n"
    )
    assert shown(plan(""), io.StringIO()) == "plan  global 6, reduce 16\n"


def test_a_terminal_has_one_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = shown(plan(), Terminal())
    colours = re.findall(r"\x1b\[(\d+)m(\w+) \d+\x1b\[0m", text)
    assert [kind for _, kind in colours] == ["global", "group_reduce", "reduce", "upcast"]
    assert len({colour for colour, _ in colours}) == 4
    assert STYLES.keys() == set(KIND_ORDER)
    assert len(set(STYLES.values())) == len(KIND_ORDER)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_unwanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(name, value)
    assert shown(plan(), Terminal()) == shown(plan(), io.StringIO())
