"""Optimisations as data: what is done to which axis of a plan, and the error of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tinyref.errors import UserError
from tinyref.uops.payload import AxisKind

MAX_UPCAST = 16
MAX_UNROLL = 32
# As the slot of a PACK: no buffer, but the values that a reduce computes and the outputs reuse.
REUSED = -1


class OptOp(Enum):
    """What an optimisation does, simple ones first; `OPTS` has what is declared of each."""

    __hash__ = object.__hash__

    UPCAST = "UPCAST"
    UNROLL = "UNROLL"
    LOCAL = "LOCAL"
    GROUP = "GROUP"
    GROUPTOP = "GROUPTOP"
    SWAP = "SWAP"
    PADTO = "PADTO"
    THREAD = "THREAD"
    PACK = "PACK"
    TC = "TC"
    NOLOCALS = "NOLOCALS"


class Argument(Enum):
    """What the `arg` of an optimisation is."""

    __hash__ = object.__hash__

    AMOUNT = "how many positions are cut off the axis"
    MULTIPLE = "what the size of the axis becomes a multiple of"
    AXIS = "the number of another axis"
    SLOT = "the slot of a buffer, or -1 for what reduces compute and the outputs reuse"
    TILE = "the number of a matrix tile of the device, -1 for any; `axis` is a choice of axes"
    NOTHING = "nothing, as `axis`"


@dataclass(frozen=True, slots=True)
class OptSpec:
    """What is declared of an optimisation; search, fuzzer, specification and pages derive from it.

    effect, refused: what it does to a plan and where it is not legal, in words. takes: what its
    `arg` is. kinds: of the axes that it is legal on. amounts: of an AMOUNT or MULTIPLE those that
    a search tries; 0 among them is the whole axis. max_amount: the largest that is legal.
    feature: what a device must declare, as the specification names it.
    """

    effect: str
    refused: str
    takes: Argument
    kinds: tuple[AxisKind, ...] = ()
    amounts: tuple[int, ...] = ()
    max_amount: int | None = None
    feature: str | None = None

    @property
    def has_axis(self) -> bool:
        """Whether `axis` is the number of an axis of the plan."""
        return self.takes not in (Argument.TILE, Argument.NOTHING)

    @property
    def may_be_whole(self) -> bool:
        """Whether the amount 0 stands for the whole axis."""
        return 0 in self.amounts


_GROUPS_REFUSED = (
    "no groups or shared memory; too much of it; several reduces over the axis; a kernel that "
    "reads what it writes; an active tile"
)

OPTS: dict[OptOp, OptSpec] = {
    OptOp.UPCAST: OptSpec(
        "cuts `arg` lanes off a global or local axis (0: all)",
        f"other kinds; no divisor; more than {MAX_UPCAST}; a lane of a tile",
        Argument.AMOUNT,
        (AxisKind.GLOBAL, AxisKind.LOCAL),
        (0, 2, 3, 4, 5, 7, 8, 16),
        MAX_UPCAST,
    ),
    OptOp.UNROLL: OptSpec(
        "cuts `arg` copies off a reduce or group_reduce axis (0: all)",
        f"other kinds, unrolled ones too; no divisor; more than {MAX_UNROLL}",
        Argument.AMOUNT,
        (AxisKind.REDUCE, AxisKind.GROUP_REDUCE),
        (0, 2, 4, 7, 8, 16),
        MAX_UNROLL,
    ),
    OptOp.LOCAL: OptSpec(
        "cuts `arg` work-items off a global axis",
        "no groups; other kinds; group too large",
        Argument.AMOUNT,
        (AxisKind.GLOBAL,),
        (2, 3, 4, 8, 13, 16, 29, 32, 64),
        feature="groups",
    ),
    OptOp.GROUP: OptSpec(
        "shares out the inner part of a reduce among `arg` work-items, neighbours, which meet in "
        "shared memory",
        _GROUPS_REFUSED,
        Argument.AMOUNT,
        (AxisKind.REDUCE,),
        (4, 8, 16, 32, 128),
        feature="groups",
    ),
    OptOp.GROUPTOP: OptSpec(
        "is GROUP of the outer part: the terms of a work-item are neighbours",
        _GROUPS_REFUSED,
        Argument.AMOUNT,
        (AxisKind.REDUCE,),
        (8, 13, 16, 28, 29, 32, 49, 64, 256),
        feature="groups",
    ),
    OptOp.SWAP: OptSpec(
        "exchanges the global axes `axis` and `arg`",
        "other kinds",
        Argument.AXIS,
        (AxisKind.GLOBAL,),
    ),
    OptOp.PADTO: OptSpec(
        "pads an axis to a multiple of `arg`, with masks: what is past the end reads 0 and writes "
        "nothing",
        "symbolic or unrolled axes; a reduce that is no sum, or whose terms are not 0 where loads "
        "give 0; more than four times the work in all; the inner part of a cut; a grid beyond the "
        "limits; nothing to pad",
        Argument.MULTIPLE,
        (AxisKind.GLOBAL, AxisKind.REDUCE),
        (2, 4, 8, 16, 32),
    ),
    OptOp.THREAD: OptSpec(
        "shares a global axis out among `arg` threads of the host",
        "fewer threads than that; a device with a grid; no divisor; a second time",
        Argument.AMOUNT,
        (AxisKind.GLOBAL,),
        (2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
        feature="threads",
    ),
    OptOp.PACK: OptSpec(
        "copies what the loads of slot `arg` touch inside the loop over `axis` to scratch memory "
        "first; of slot -1, computes there what a reduce goes over and the outputs along `axis` "
        "need again",
        "no scratch memory; elements that are used once; written buffers; not in a reduce; "
        "positions that the kernel computes; no value that is needed again; a padded axis",
        Argument.SLOT,
        (AxisKind.GLOBAL,),
        feature="scratch",
    ),
    OptOp.TC: OptSpec(
        "computes a sum of products on a matrix tile of the device. `arg`: the tile, -1 for the "
        "first that fits and rounds no input; `axis`: the choice of axes; level 0 takes plain "
        "loads alone, 1 any operands and other reduces, 2 pads; mode 1 uses the instruction, 2 "
        "only its shape, 3 computes it from local memory",
        "unless it comes first; no tile fits types or axes; an operand is in an image; the device "
        "only emulates a type of the tile; the tile rounds its inputs and floats are strict",
        Argument.TILE,
    ),
    OptOp.NOLOCALS: OptSpec(
        "runs a kernel without groups of work-items",
        "groups are used already",
        Argument.NOTHING,
        feature="groups",
    ),
}


class KernelOptError(UserError):
    """An optimisation that is not legal here: names it and the reason. The plan is unchanged."""


@dataclass(frozen=True, slots=True)
class Opt:
    """One optimisation of a plan: `op` on the axis at position `axis` of the plan's list of axes.

    arg: what its `Argument` says. `level` and `mode` are those of a tile, see `tile.TileLevel` and
    `tile.TileMode`. Raises `UserError` for an `op` that is no OptOp and for numbers that are no
    integers.
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

    @property
    def spec(self) -> OptSpec:
        """What is declared of its `op`."""
        return OPTS[self.op]

    def __str__(self) -> str:
        has_tile = self.spec.takes is Argument.TILE
        more = f", level {self.level}, mode {self.mode}" if has_tile else ""
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
_TILES = frozenset(op.name for op, spec in OPTS.items() if spec.takes is Argument.TILE)
_ACCEPTED = (frozenset(OptOp.__members__), _TILES)


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
