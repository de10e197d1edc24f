"""Flags: declared once here, set by `TINYREF_<NAME>` in the environment or by `Context`."""

from __future__ import annotations

import contextlib
import difflib
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from tinyref.errors import UserLookupError, UserTypeError, argument_error

FlagValue = int | str
PREFIX = "TINYREF_"
# What DUMP can print the IR after, in order.
DUMP_STAGES = (
    "graph",
    "schedule",
    "ast",
    "normal",
    "lower",
    "simplify",
    "expand",
    "accumulate",
    "decompose",
    "narrow",
    "linearise",
)
T = TypeVar("T")


class Effect(Enum):
    """What a flag changes of results where it is not at its default, in words."""

    NUMBERS = "changes numbers"
    CHECKS = "leaves out checks"
    NONE = "changes no result"
    OUTPUT = "changes what is printed or kept"


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of an error for a name that is none of `names`: the one that is meant, and all."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}accepted are {', '.join(known)}"


def dumped_stages(value: str) -> list[str]:
    """The stages that DUMP names, as `after:STAGE` or STAGE among commas; `*` is all of them.

    Raises `UserError` for a name that no stage has.
    """
    parts = [part.strip() for part in value.split(",")]
    names = [part.removeprefix("after:") for part in parts if part]
    for name in names:
        if name not in (*DUMP_STAGES, "*"):
            raise UserLookupError(
                f"flag DUMP: no stage {name!r}: {nearest(name, (*DUMP_STAGES, '*'))}"
            )
    return names


# How emulated GPUs take the groups of a launch and the work-items of a group.
ORDERS = ("forward", "reverse", "both")


def work_item_order(text: str) -> str:
    """The order that `text` names. Raises `UserError` for another text."""
    if text not in ORDERS:
        raise UserLookupError(f"flag EMU_ORDER: got {text!r}: {nearest(text, ORDERS)}")
    return text


@dataclass(frozen=True)
class Flag:
    """One flag: its type is the type of its default; `accepted` says so in an error.

    check: raises `UserError` for a text that means nothing.
    """

    name: str
    default: FlagValue
    help: str
    minimum: int | None = None
    maximum: int | None = None
    check: Callable[[str], object] | None = None

    @functools.cached_property
    def variable(self) -> object:
        """Its variable of the environment, as `os.environ` keeps the names."""
        return os.environ.encodekey(f"{PREFIX}{self.name}")

    @property
    def effect(self) -> Effect:
        """With `NUMBERS` or `CHECKS`, a run does not show that a device conforms."""
        return _EFFECTS.get(self.name, Effect.NONE)

    @property
    def accepted(self) -> str:
        if isinstance(self.default, str):
            return "a text"
        if self.minimum is None:
            return "an integer"
        if self.maximum is None:
            return f"an integer from {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"

    def parse(self, value: object) -> FlagValue:
        """`value` as this flag's type. Raises `UserError` naming the flag and what it accepts."""
        if isinstance(self.default, str):
            if isinstance(value, str):
                if self.check is not None:
                    self.check(value)
                return value
            raise UserTypeError(f"flag {self.name}: got {value!r}, accepted is {self.accepted}")
        try:
            number = int(value) if isinstance(value, int | str) else None
        except ValueError:
            number = None
        low = number if self.minimum is None else self.minimum
        high = number if self.maximum is None else self.maximum
        if number is None or low is None or high is None or not low <= number <= high:
            raise argument_error(
                value, int | str, f"flag {self.name}: got {value!r}, accepted is {self.accepted}"
            )
        return number


FLAGS: dict[str, Flag] = {
    flag.name: flag
    for flag in (
        Flag("DEVICE", "CPU", "the default device, by the name that `tinyref devices` shows"),
        Flag(
            "DEBUG",
            0,
            "1 kernels, 2 timings, 3 plans and ASTs, 4 source, 5 programs, 6 rewrites",
            0,
            6,
        ),
        Flag(
            "DUMP",
            "",
            "print IR that parses back: after:STAGE, or after:* for every stage",
            check=dumped_stages,
        ),
        Flag(
            "PROFILE", "", "a file for a trace of schedules, compiles, copies, kernels (Perfetto)"
        ),
        Flag("VERIFY", 1, "verify graphs at every border between dialects", 0, 1),
        Flag("CHECK_BOUNDS", 0, "prove that what a kernel touches lies within its buffers", 0, 1),
        Flag("SHUFFLE_RULES", 0, "a seed: try rewrite rules in another order; read at start", 0),
        Flag("STRICT_FLOAT", 1, "every float op rounds to its dtype, nothing is contracted", 0, 1),
        Flag("TRANSCENDENTAL", 0, "1 decomposes EXP2, LOG2, SIN and POW on every device", 0, 1),
        Flag("NOOPT", 0, "compile kernels plainly: no optimisation is applied", 0, 1),
        Flag(
            "BISECT",
            -1,
            "take only this many optional steps in the compile of each kernel; -1 is all",
            -1,
        ),
        Flag(
            "WINO", 0, "conv2d of floats by 3 x 3 kernels without strides: Winograd filtering", 0, 1
        ),
        Flag("TC", 1, "matrix tiles: 0 none, 1 instructions, 2 their shape, 3 local memory", 0, 3),
        Flag("TC_LEVEL", 0, "for tiles: 0 plain loads, 1 any operands, 2 padded axes too", 0, 2),
        Flag("IMAGE", 0, "matmul and conv2d read images, on devices that declare them", 0, 1),
        Flag("RING", 1, "all-reduce in a ring: 0 never, 1 for large tensors, 2 always", 0, 2),
        Flag("BEAM", 0, "search optimisations by timing, keeping so many plans; 0: none", 0, 64),
        Flag("BEAM_SECONDS", 10, "seconds that a candidate may take to compile and run", 1),
        Flag("MEMORY_PLAN", 1, "intermediate results share memory when not in use together", 0, 1),
        Flag("JIT", 1, "TinyJit replays; 0 runs its functions plainly, 2 launches singly", 0, 2),
        Flag("CACHE", 1, "keep compiled programs on disk", 0, 1),
        Flag("CACHE_DIR", "", "where compiled programs are kept; empty is the user's cache folder"),
        Flag("CPU_LEVEL", 1, "how hard LLVM optimises for CPU and GPU_EMU: 1 is quick", 0, 3),
        Flag(
            "EMU_ORDER",
            "both",
            "work-items of emulated GPUs: forward, reverse, or both",
            check=work_item_order,
        ),
        Flag("EMU_CHECK", 0, "emulated GPUs look for races and out-of-bounds accesses", 0, 1),
        Flag("THREADS", 0, "host threads that may share a launch; 0 is as many as cores", 0, 1024),
        Flag(
            "MACHINE",
            1,
            "plans for the host as `bench --machine` measured it; 0: a fixed one",
            0,
            1,
        ),
        Flag("CC", "", "the C compiler of the CLANG device; empty takes CC, gcc, clang or tcc"),
        Flag("SANITIZE", 1, "the PYTHON device checks bounds, races, uninitialised reads", 0, 1),
        Flag("POISON", 0, "the byte that new memory of a device holds; 0: what is there", 0, 255),
        Flag("OPEN_SECONDS", 60, "seconds in which a command's process must open a device", 1),
        Flag("TRACEBACK", 0, "show Python tracebacks of errors in the command line", 0, 1),
    )
}

_EFFECTS: dict[str, Effect] = {
    # How a result rounds, or in what order its terms are summed.
    **dict.fromkeys(("STRICT_FLOAT", "TRANSCENDENTAL", "WINO", "RING"), Effect.NUMBERS),
    # Which kernels a device is given: others than those that the tables mean.
    **dict.fromkeys(("NOOPT", "BISECT", "TC", "TC_LEVEL", "IMAGE", "BEAM"), Effect.NUMBERS),
    **dict.fromkeys(("VERIFY", "JIT", "SANITIZE", "EMU_ORDER"), Effect.CHECKS),
    **dict.fromkeys(("DEBUG", "DUMP", "PROFILE", "TRACEBACK", "CACHE", "CACHE_DIR"), Effect.OUTPUT),
    "OPEN_SECONDS": Effect.OUTPUT,
}


class Setting(Generic[T]):
    """A value that blocks set: they nest, and each thread is in blocks of its own.

    get: the value of the innermost block. set: another one, to the end of that block.
    """

    def __init__(self, name: str, default: T) -> None:
        self._value: ContextVar[T] = ContextVar(name, default=default)
        self._outer: ContextVar[tuple[T, ...]] = ContextVar(f"{name}_outer", default=())
        # Asked for with every op: no call stands between.
        self.get: Callable[[], T] = self._value.get
        self.set: Callable[[T], object] = self._value.set

    def enter(self, value: T) -> None:
        """A block begins."""
        self._outer.set((*self._outer.get(), self._value.get()))
        self._value.set(value)

    def leave(self) -> None:
        """The innermost block ends."""
        *outer, last = self._outer.get()
        self._outer.set(tuple(outer))
        self._value.set(last)


class Switch:
    """True or False, for the process and, in blocks that nest as those of `Setting`, for a block.

    enter, leave: a block begins, with a value, and ends.
    """

    def __init__(self, name: str, default: bool) -> None:
        self._everywhere = default
        self._within: Setting[bool | None] = Setting(name, None)
        self.enter: Callable[[bool], None] = self._within.enter
        self.leave = self._within.leave

    def get(self) -> bool:
        """Return the value of the innermost block; outside of blocks the one of the process."""
        within = self._within.get()
        return self._everywhere if within is None else within

    def set(self, value: bool) -> None:
        """Give another value: to the process, or within a block to the end of that block."""
        if self._within.get() is None:
            self._everywhere = value
        else:
            self._within.set(value)


_overrides: Setting[dict[str, FlagValue] | None] = Setting("tinyref_flags", None)


def _flag(name: str) -> Flag:
    found = FLAGS.get(name)
    if found is None:
        raise UserLookupError(f"flag: unknown flag {name!r}: {nearest(name, FLAGS)}")
    return found


_is_checked = False


def check_environment() -> None:
    """Raises `UserError` for a variable of the environment that is named as a flag and is none.

    And for a flag with a value that it does not accept.
    """
    for variable in sorted(os.environ):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in FLAGS:
            raise UserLookupError(
                f"flag: {variable} is set, and there is no flag {name!r}: {nearest(name, FLAGS)}"
            )
        if name != variable:
            FLAGS[name].parse(os.environ[variable])


def get(name: str) -> FlagValue:
    """The value of flag `name` now: of the innermost `Context`, else environment, else default."""
    global _is_checked  # noqa: PLW0603  the environment of a process is read once
    flag = _flag(name)
    if not _is_checked:
        check_environment()
        _is_checked = True
    overrides = _overrides.get()
    if overrides is not None and name in overrides:
        return overrides[name]
    # Most are not set. The mapping says so with exceptions, which take as long as all of the rest.
    variables = getattr(os.environ, "_data", None)
    if variables is not None and flag.variable not in variables:
        return flag.default
    text = os.environ.get(f"TINYREF_{name}")
    return flag.default if text is None else flag.parse(text)


def integer(name: str) -> int:
    """The value of an integer flag."""
    value = get(name)
    if not isinstance(value, int):
        raise UserTypeError(f"flag {name}: is {_flag(name).accepted}, not an integer")
    return value


def text(name: str) -> str:
    """The value of a text flag."""
    return str(get(name))


class Context(contextlib.ContextDecorator):
    """Sets flags within a `with` block or a decorated function: `with Context(DEBUG=2): ...`.

    Raises `UserError` for an unknown flag or a value it does not accept.

    Examples:
        >>> from tinyref import Context
        >>> with Context(NOOPT=1):  # kernels without optimisations
        ...     Tensor([1, 2]).sum().item()
        3
    """

    def __init__(self, **flags: FlagValue) -> None:
        self.flags = {name: _flag(name).parse(value) for name, value in flags.items()}

    def __enter__(self) -> Context:
        _overrides.enter({**(_overrides.get() or {}), **self.flags})
        return self

    def __exit__(self, *exc: object) -> None:
        _overrides.leave()


def describe() -> Iterator[tuple[Flag, FlagValue, str]]:
    """Every flag with its value now and where that comes from: default, environment, context."""
    overrides = _overrides.get() or {}
    for name, flag in FLAGS.items():
        in_environment = f"TINYREF_{name}" in os.environ
        origin = "context" if name in overrides else "environment" if in_environment else "default"
        yield flag, get(name), origin


def changed_flags() -> dict[str, FlagValue]:
    """The flags whose value now is not their default, with that value."""
    return {flag.name: value for flag, value, _ in describe() if value != flag.default}
