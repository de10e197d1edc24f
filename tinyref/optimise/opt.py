"""Optimisations as data: what is done to which axis of a plan, and the error of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tinyref.errors import UserError


class OptOp(Enum):
    """What an optimisation does; the plan has the conditions of each."""

    __hash__ = object.__hash__

    TC = "TC"
    UPCAST = "UPCAST"
    UNROLL = "UNROLL"
    LOCAL = "LOCAL"
    GROUP = "GROUP"
    GROUPTOP = "GROUPTOP"
    NOLOCALS = "NOLOCALS"
    SWAP = "SWAP"
    PADTO = "PADTO"
    THREAD = "THREAD"
    PACK = "PACK"


class KernelOptError(UserError):
    """An optimisation that is not legal here: names it and the reason. The plan is unchanged."""


@dataclass(frozen=True, slots=True)
class Opt:
    """One optimisation of a plan: `op` on the axis at position `axis` of the plan's list of axes.

    arg, by op: the amount to split off (UPCAST, UNROLL, LOCAL, GROUP, GROUPTOP, THREAD; 0 is the
    whole axis for UPCAST and UNROLL), the multiple (PADTO), the other axis (SWAP), the slot of the
    buffer (PACK), the number of the tile among those of the device, -1 for any (TC). NOLOCALS has
    neither axis nor arg. TC has its choice among the possible axes as `axis`; `level` and `mode`
    are its own, see `tile.TileLevel` and `tile.TileMode`. Raises `UserError` for an `op` that is no
    OptOp and for numbers that are no integers.
    """

    op: OptOp
    axis: int = 0
    arg: int = 0
    level: int = 0
    mode: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.op, OptOp):
            raise UserError(f"Opt: op is {self.op!r}, accepted are members of OptOp")
        for name in ("axis", "arg", "level", "mode"):
            value = getattr(self, name)
            # True would be another optimisation in the text, and the same one as a key.
            if not isinstance(value, int) or isinstance(value, bool):
                raise UserError(f"Opt: {name} is {value!r}, accepted are integers")

    def __str__(self) -> str:
        more = f", level {self.level}, mode {self.mode}" if self.op is OptOp.TC else ""
        return f"{self.op.value}({self.axis}, {self.arg}{more})"


def checked_opts(opts: Iterable[Opt]) -> tuple[Opt, ...]:
    """`opts` as a tuple. Raises `UserError` for what is no sequence of Opts, such as their text."""
    if not isinstance(opts, Iterable):
        raise UserError(f"optimisations: {opts!r}, accepted are a sequence of Opts, or None")
    found = tuple(opts)
    for opt in found:
        if not isinstance(opt, Opt):
            raise UserError(f"optimisations: {opt!r} is no Opt; `parse_opts` reads their text")
    return found


_NUMBER = r"\s*(-?\d{1,18})\s*"
_OPT = re.compile(
    rf"\s*([A-Z]+)\({_NUMBER},{_NUMBER}(?:,\s*level{_NUMBER},\s*mode{_NUMBER})?\)\s*", re.ASCII
)

# Level and mode are those of a tile.
_ACCEPTED = (frozenset(OptOp.__members__), frozenset({OptOp.TC.value}))


def parse_opts(text: str) -> tuple[Opt, ...]:
    """The optimisations in a text such as "UPCAST(0, 4) LOCAL(1, 16)"; "" is none.

    Raises `UserError` for anything else.
    """
    found: list[Opt] = []
    text = text.strip()
    position = 0
    while position < len(text):
        match = _OPT.match(text, position)
        if match is None or match[1] not in _ACCEPTED[match[4] is not None]:
            raise UserError(
                f"optimisations: cannot read {text[position : position + 40]!r}: accepted are "
                f"OP(axis, arg) with OP one of {', '.join(OptOp.__members__)}, and "
                "TC(axis, arg, level L, mode M)"
            )
        numbers = [int(number) for number in match.groups()[1:] if number is not None]
        found.append(Opt(OptOp[match[1]], *numbers))
        position = match.end()
    return tuple(found)


def opts_text(opts: tuple[Opt, ...]) -> str:
    """The text that `parse_opts` reads back."""
    return " ".join(map(str, opts))
