"""Optimisations as data: operation, axis and argument, and the error of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tinyref.errors import UserError
from tinyref.uops.payload import AxisKind

MAX_UPCAST = 16
MAX_UNROLL = 32
# As the slot of a PACK: the values that a reduce computes and the outputs reuse.
REUSED = -1


class OptOp(Enum):
    """The kind of an optimisation, simple ones first; `OPTS` declares each one."""

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
    SCATTER = "SCATTER"


class Argument(Enum):
    """The meaning of the `arg` of an optimisation."""

    __hash__ = object.__hash__

    AMOUNT = "the number of positions that are split off the axis"
    MULTIPLE = "the size of the axis becomes a multiple of this"
    AXIS = "the number of another axis"
    SLOT = "the slot of a buffer, or -1 for values of reduces that the outputs reuse"
    TILE = "the number of a matrix tile of the device, -1 for any; `axis` is a choice of axes"
    NOTHING = "nothing, as `axis`"


class Condition(Enum):
    """A condition under which an optimisation is legal, in words; `moves.CHECKS` checks it."""

    __hash__ = object.__hash__

    # Conditions of the device and the plan.
    GROUPS = "a device with groups, which NOLOCALS has not switched off"
    SHARED_MEMORY = "a device with shared memory"
    THREADS = "a device of host threads without a grid, and no THREAD yet"
    SCRATCH = "a device with scratch memory of a single work-item"
    LOOPS = "a device whose kernels are loops"
    TILES = "a device with matrix tiles and groups"
    FIRST = "no other optimisation before it"
    NO_ITEMS = "no work-items yet"
    # Conditions of the axis.
    KIND = "axes of this kind"
    NO_LANE = "no lane of a matrix tile"
    KNOWN_EXTENT = "no symbolic extent"
    OUTER_PART = "not the inner part of a cut"
    SINGLE_REDUCE = "only one reduce loops over the axis"
    NO_TILE = "no active matrix tile"
    NOT_IN_PLACE = "a kernel that does not read the buffers that it writes"
    # Conditions of the argument.
    MOST = "at most this many"
    DIVISOR = "a divisor of the extent, from 2"
    OTHER_AXIS = "another axis of the same kind"
    THREAD_COUNT = "no more than the device has threads"
    MULTIPLE = "a multiple from 2 that the extent is not already"
    WORK = "at most four times the work in all"
    GRID = "a grid within the limits of the device"
    INDEX_SIZE = "no index that needs int64 if the device lacks it"
    NEW_SLOT = "a slot that is not packed already"
    SINGLE_LOAD = "at most one load of the slot that repeats elements along the axis"
    READ_ONLY = "a buffer that the kernel does not write"
    USED_AGAIN = "elements (slot -1: a value) that are needed again along the axis"
    PLAIN_POSITIONS = "no positions that the kernel computes"
    IN_REDUCE = "a load in a reduce of known extents"
    TILE_NUMBERS = "a tile of the device, levels 0 to 2, modes 1 to 3"
    TILE_FITS = (
        "a tile that fits types and axes, holds each element once, and rounds no input if "
        "floats are strict"
    )
    ONE_OUTPUT = (
        "a kernel that stores one reduce and nothing else, where an index that is loaded for each "
        "term gives the only output of the term"
    )
    # A condition of the result, for every optimisation.
    LIMITS = "lanes, work-items and shared memory within the limits"


@dataclass(frozen=True, slots=True)
class OptSpec:
    """The only declaration of an optimisation.

    The checks of a plan, the search, the fuzzer, the specification and pages derive from it.

    effect: what it does to a plan, in words.
    takes: the meaning of its `arg`.
    axis_conditions, argument_conditions: its conditions, in the order of the checks; the former do
    not look at the argument.
    kinds: the kinds of axes on which it is legal.
    amounts: the values of an AMOUNT or MULTIPLE that a search tries; 0 means the whole axis.
    max_amount: the largest legal amount.
    feature: what a device must declare, as the specification names it.
    """

    effect: str
    takes: Argument
    axis_conditions: tuple[Condition, ...]
    argument_conditions: tuple[Condition, ...] = ()
    kinds: tuple[AxisKind, ...] = ()
    amounts: tuple[int, ...] = ()
    max_amount: int | None = None
    feature: str | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return all conditions, in the order of the checks."""
        return (*self.axis_conditions, *self.argument_conditions, Condition.LIMITS)

    @property
    def accepts(self) -> str:
        """Return the conditions under which it is legal, in words."""
        return "; ".join(map(self._words, self.conditions[:-1]))

    def _words(self, condition: Condition) -> str:
        if condition is Condition.KIND:
            return f"{' and '.join(kind.value for kind in self.kinds)} axes"
        if condition is Condition.MOST:
            return f"at most {self.max_amount}"
        return str(condition.value)

    @property
    def has_axis(self) -> bool:
        """Return True if `axis` is the number of an axis of the plan."""
        return self.takes not in (Argument.TILE, Argument.NOTHING)

    @property
    def may_be_whole(self) -> bool:
        """Return True if the amount 0 means the whole axis."""
        return 0 in self.amounts


_CUT = (Condition.KIND, Condition.NO_LANE, Condition.KNOWN_EXTENT)
_GROUPED = (
    Condition.GROUPS,
    Condition.SHARED_MEMORY,
    *_CUT,
    Condition.SINGLE_REDUCE,
    Condition.NO_TILE,
    Condition.NOT_IN_PLACE,
)

OPTS: dict[OptOp, OptSpec] = {
    OptOp.UPCAST: OptSpec(
        effect="splits `arg` lanes off a global or local axis (0: all)",
        takes=Argument.AMOUNT,
        axis_conditions=_CUT,
        argument_conditions=(Condition.MOST, Condition.DIVISOR),
        kinds=(AxisKind.GLOBAL, AxisKind.LOCAL),
        amounts=(0, 2, 3, 4, 5, 7, 8, 16),
        max_amount=MAX_UPCAST,
    ),
    OptOp.UNROLL: OptSpec(
        effect="splits `arg` copies off a reduce or group_reduce axis (0: all)",
        takes=Argument.AMOUNT,
        axis_conditions=_CUT,
        argument_conditions=(Condition.MOST, Condition.DIVISOR),
        kinds=(AxisKind.REDUCE, AxisKind.GROUP_REDUCE),
        amounts=(0, 2, 4, 7, 8, 16),
        max_amount=MAX_UNROLL,
    ),
    OptOp.LOCAL: OptSpec(
        effect="splits `arg` work-items off a global axis",
        takes=Argument.AMOUNT,
        axis_conditions=(Condition.GROUPS, *_CUT),
        argument_conditions=(Condition.DIVISOR,),
        kinds=(AxisKind.GLOBAL,),
        amounts=(2, 3, 4, 8, 13, 16, 29, 32, 64),
        feature="groups",
    ),
    OptOp.GROUP: OptSpec(
        effect="distributes the inner part of a reduce over `arg` neighbouring work-items, which "
        "combine their results in shared memory",
        takes=Argument.AMOUNT,
        axis_conditions=_GROUPED,
        argument_conditions=(Condition.DIVISOR,),
        kinds=(AxisKind.REDUCE,),
        amounts=(4, 8, 16, 32, 128),
        feature="groups",
    ),
    OptOp.GROUPTOP: OptSpec(
        effect="is GROUP for the outer part of a reduce: a work-item has neighbouring terms",
        takes=Argument.AMOUNT,
        axis_conditions=_GROUPED,
        argument_conditions=(Condition.DIVISOR,),
        kinds=(AxisKind.REDUCE,),
        amounts=(8, 13, 16, 28, 29, 32, 49, 64, 256),
        feature="groups",
    ),
    OptOp.SWAP: OptSpec(
        effect="exchanges the global axes `axis` and `arg`",
        takes=Argument.AXIS,
        axis_conditions=(Condition.KIND,),
        argument_conditions=(Condition.OTHER_AXIS,),
        kinds=(AxisKind.GLOBAL,),
    ),
    OptOp.PADTO: OptSpec(
        effect="pads an axis to a multiple of `arg`, with masks: positions past the end read 0, "
        "write nothing, and are no terms of a reduce",
        takes=Argument.MULTIPLE,
        axis_conditions=(*_CUT, Condition.OUTER_PART),
        argument_conditions=(
            Condition.MULTIPLE,
            Condition.WORK,
            Condition.GRID,
            Condition.INDEX_SIZE,
        ),
        kinds=(AxisKind.GLOBAL, AxisKind.REDUCE),
        amounts=(2, 4, 8, 16, 32),
    ),
    OptOp.THREAD: OptSpec(
        effect="distributes a global axis over `arg` threads of the host",
        takes=Argument.AMOUNT,
        axis_conditions=(Condition.THREADS, *_CUT),
        argument_conditions=(Condition.THREAD_COUNT, Condition.DIVISOR),
        kinds=(AxisKind.GLOBAL,),
        amounts=(2, 3, 4, 6, 8, 12, 16, 24, 32, 64),
        feature="threads",
    ),
    OptOp.PACK: OptSpec(
        effect="first copies the elements of slot `arg` that are read again and again along "
        "`axis` to scratch memory; for slot -1, first computes there the values of a reduce that "
        "the outputs need again along `axis`",
        takes=Argument.SLOT,
        axis_conditions=(Condition.SCRATCH, Condition.KIND),
        argument_conditions=(
            Condition.NEW_SLOT,
            Condition.SINGLE_LOAD,
            Condition.READ_ONLY,
            Condition.USED_AGAIN,
            Condition.PLAIN_POSITIONS,
            Condition.IN_REDUCE,
        ),
        kinds=(AxisKind.GLOBAL,),
        feature="scratch",
    ),
    OptOp.TC: OptSpec(
        effect="computes a sum of products on a matrix tile of the device. `arg`: the tile, -1 for "
        "the first that fits and rounds no input; `axis`: the choice of axes; level 0 accepts only "
        "plain loads, 1 any operands and other reduces, 2 pads; mode 1 uses the instruction, 2 "
        "only its shape, 3 computes it from shared memory",
        takes=Argument.TILE,
        axis_conditions=(Condition.TILES, Condition.FIRST),
        argument_conditions=(Condition.TILE_NUMBERS, Condition.TILE_FITS),
    ),
    OptOp.NOLOCALS: OptSpec(
        effect="runs a kernel without groups of work-items",
        takes=Argument.NOTHING,
        axis_conditions=(Condition.GROUPS, Condition.NO_ITEMS),
        feature="groups",
    ),
    OptOp.SCATTER: OptSpec(
        effect="sets all outputs of a reduce to its identity, then loops over the terms, and "
        "combines each with the output that an index gives",
        takes=Argument.NOTHING,
        axis_conditions=(
            Condition.LOOPS,
            Condition.FIRST,
            Condition.NOT_IN_PLACE,
            Condition.ONE_OUTPUT,
        ),
        feature="loops",
    ),
}


class KernelOptError(UserError):
    """The error for an illegal optimisation: it names the reason. The plan is unchanged.

    condition: the violated condition; None if the plan has no such axis.
    """

    def __init__(self, message: str, condition: Condition | None = None) -> None:
        super().__init__(message)
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Opt:
    """One optimisation of a plan: `op` on the axis at position `axis` of the plan's list of axes.

    `arg` has the meaning of its `Argument`. `level` and `mode` are for tiles, see `tile.TileLevel`
    and `tile.TileMode`. Raises `UserError` for an `op` that is no OptOp and for numbers that are
    no integers.
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
            # True would be a different optimisation in text, and the same one as a key.
            if not isinstance(value, int) or isinstance(value, bool):
                raise UserError(f"Opt: {name} is {value!r}, accepted are integers")

    @property
    def spec(self) -> OptSpec:
        """Return the declaration of its `op`."""
        return OPTS[self.op]

    def __str__(self) -> str:
        has_tile = self.spec.takes is Argument.TILE
        more = f", level {self.level}, mode {self.mode}" if has_tile else ""
        return f"{self.op.value}({self.axis}, {self.arg}{more})"


def checked_opts(opts: Iterable[Opt]) -> tuple[Opt, ...]:
    """Return `opts` as a tuple. Raises `UserError` if they are no Opts, for example a text."""
    if not isinstance(opts, Iterable):
        raise UserError(f"optimisations: {opts!r}, accepted are a sequence of Opts, or None")
    result = tuple(opts)
    for opt in result:
        if not isinstance(opt, Opt):
            raise UserError(f"optimisations: {opt!r} is no Opt; `parse_opts` reads their text")
    return result


_NUMBER = r"\s*(-?\d{1,18})\s*"
_OPT = re.compile(
    rf"\s*([A-Z]+)\({_NUMBER},{_NUMBER}(?:,\s*level{_NUMBER},\s*mode{_NUMBER})?\)\s*", re.ASCII
)

# Only tiles have a level and a mode.
_TILES = frozenset(op.name for op, spec in OPTS.items() if spec.takes is Argument.TILE)
_ACCEPTED = (frozenset(OptOp.__members__), _TILES)


def parse_opts(text: str) -> tuple[Opt, ...]:
    """Return the optimisations in a text such as "UPCAST(0, 4) LOCAL(1, 16)"; "" is none.

    Raises `UserError` for anything else.
    """
    opts: list[Opt] = []
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
        opts.append(Opt(OptOp[match[1]], *numbers))
        position = match.end()
    return tuple(opts)


def opts_text(opts: tuple[Opt, ...]) -> str:
    """Return the text that `parse_opts` reads back."""
    return " ".join(map(str, opts))
