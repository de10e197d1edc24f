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
# The stages after which DUMP can print the IR, in order.
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
    """The effect of a flag on results when it is not at its default, in words for users."""

    NUMBERS = "changes numbers"
    CHECKS = "leaves out checks"
    NONE = "changes no result"
    OUTPUT = "changes what is printed or stored"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the closest of `names`, then all."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}accepted are {', '.join(known)}"


def dumped_stages(value: str) -> list[str]:
    """Return the stages that DUMP names, as `after:STAGE` or STAGE; `*` means every stage.

    Commas separate several. Raises `UserError` for the name of no stage.
    """
    parts = [part.strip() for part in value.split(",")]
    names = [part.removeprefix("after:") for part in parts if part]
    for name in names:
        if name not in (*DUMP_STAGES, "*"):
            raise UserLookupError(
                f"flag DUMP: no stage {name!r}: {nearest(name, (*DUMP_STAGES, '*'))}"
            )
    return names


# The orders in which emulated GPUs run the groups of a launch and the work-items of a group.
ORDERS = ("forward", "reverse", "both")


def work_item_order(text: str) -> str:
    """Return `text` if it names an order. Raises `UserError` otherwise."""
    if text not in ORDERS:
        raise UserLookupError(f"flag EMU_ORDER: got {text!r}: {nearest(text, ORDERS)}")
    return text


@dataclass(frozen=True)
class Flag:
    """One flag. Its default decides its type; `accepted` describes its values for an error.

    check: raises `UserError` for a text that the flag does not accept.
    """

    name: str
    default: FlagValue
    help: str
    minimum: int | None = None
    maximum: int | None = None
    check: Callable[[str], object] | None = None

    @functools.cached_property
    def variable(self) -> object:
        """Return its environment variable, encoded as the keys of `os.environ` are."""
        return os.environ.encodekey(f"{PREFIX}{self.name}")

    @property
    def effect(self) -> Effect:
        """Return its effect. A run with `NUMBERS` or `CHECKS` does not prove conformance."""
        return _EFFECTS.get(self.name, Effect.NONE)

    @property
    def accepted(self) -> str:
        """Return the values that the flag accepts, in words."""
        if isinstance(self.default, str):
            return "a text"
        if self.minimum is None:
            return "an integer"
        if self.maximum is None:
            return f"an integer from {self.minimum}"
        return f"an integer from {self.minimum} to {self.maximum}"

    def parse(self, value: object) -> FlagValue:
        """Convert `value` to this flag's type. Raises `UserError` if it is not accepted."""
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
        Flag("EXPLAIN", "", "a file for the page of this program, as tinyref explain writes it"),
        Flag("VERIFY", 2, "verify graphs: 0 none, 1 programs, 2 at every border", 0, 2),
        Flag("CHECK_BOUNDS", 0, "prove that every access of a kernel is inside its buffers", 0, 1),
        Flag("SHUFFLE_RULES", 0, "seed of another order of rewrite rules; read at start", 0),
        Flag("STRICT_FLOAT", 1, "round every float op to its dtype; contract nothing", 0, 1),
        Flag("TRANSCENDENTAL", 0, "1 decomposes EXP2, LOG2, SIN and POW on every device", 0, 1),
        Flag("NOOPT", 0, "compile kernels without optimisations", 0, 1),
        Flag(
            "BISECT",
            -1,
            "number of optional steps in the compile of a kernel; -1: all of them",
            -1,
        ),
        Flag(
            "WINO", 0, "use Winograd filtering for float conv2d by 3 x 3 kernels, no stride", 0, 1
        ),
        Flag("TC", 1, "matrix tiles: 0 none, 1 instructions, 2 their shape, 3 local memory", 0, 3),
        Flag("TC_LEVEL", 0, "for tiles: 0 plain loads, 1 any operands, 2 padded axes too", 0, 2),
        Flag("IMAGE", 0, "matmul and conv2d read images, on devices that declare them", 0, 1),
        Flag("RING", 1, "all-reduce in a ring: 0 never, 1 for large tensors, 2 always", 0, 2),
        Flag("BEAM", 0, "search optimisations by timing; width of the beam, 0: off", 0, 64),
        Flag(
            "BEAM_SECONDS",
            10,
            "limit for a candidate of the search to compile and run, in seconds",
            1,
        ),
        Flag("MEMORY_PLAN", 1, "intermediate results share memory if not used together", 0, 1),
        Flag("JIT", 1, "TinyJit replays; 0: runs functions normally, 2: single launches", 0, 2),
        Flag("CACHE", 1, "keep compiled programs on disk", 0, 1),
        Flag("CACHE_DIR", "", "folder of compiled programs; empty: the user's cache folder"),
        Flag("CPU_LEVEL", 1, "optimisation level of LLVM for CPU and GPU_EMU; 1: quick", 0, 3),
        Flag(
            "EMU_ORDER",
            "both",
            "order of work-items on emulated GPUs: forward, reverse, both",
            check=work_item_order,
        ),
        Flag("EMU_CHECK", 0, "emulated GPUs look for races and out-of-bounds accesses", 0, 1),
        Flag("THREADS", 0, "host threads that may share a launch; 0: one a core", 0, 1024),
        Flag(
            "MACHINE",
            1,
            "plan for the host that `bench --machine` measured; 0: a fixed one",
            0,
            1,
        ),
        Flag("CC", "", "C compiler of the CLANG device; empty: CC, gcc, clang or tcc"),
        Flag("SANITIZE", 1, "the PYTHON device checks bounds, races, uninitialised reads", 0, 1),
        Flag("POISON", 0, "byte to fill new device memory with; 0: do not fill", 0, 255),
        Flag(
            "OPEN_SECONDS", 60, "seconds that a process of a command may take to open a device", 1
        ),
        Flag("TRACEBACK", 0, "show Python tracebacks of errors in the command line", 0, 1),
    )
}

_EFFECTS: dict[str, Effect] = {
    # They change how a result rounds, or the order in which its terms are summed.
    **dict.fromkeys(("STRICT_FLOAT", "TRANSCENDENTAL", "WINO", "RING"), Effect.NUMBERS),
    # They give a device other kernels than the rows of the specification ask for.
    **dict.fromkeys(("NOOPT", "BISECT", "TC", "TC_LEVEL", "IMAGE", "BEAM"), Effect.NUMBERS),
    **dict.fromkeys(("VERIFY", "JIT", "SANITIZE", "EMU_ORDER"), Effect.CHECKS),
    **dict.fromkeys(
        ("DEBUG", "DUMP", "PROFILE", "EXPLAIN", "TRACEBACK", "CACHE", "CACHE_DIR"), Effect.OUTPUT
    ),
    "OPEN_SECONDS": Effect.OUTPUT,
}


class Setting(Generic[T]):
    """A value that `with` blocks set. Blocks nest, and each thread has its own.

    get: returns the value of the innermost block. set: replaces it until that block ends.
    """

    def __init__(self, name: str, default: T) -> None:
        self._value: ContextVar[T] = ContextVar(name, default=default)
        self._outer: ContextVar[tuple[T, ...]] = ContextVar(f"{name}_outer", default=())
        # Every op reads it, so no call of ours is in between.
        self.get: Callable[[], T] = self._value.get
        self.set: Callable[[T], object] = self._value.set

    def enter(self, value: T) -> None:
        """Begin a block."""
        self._outer.set((*self._outer.get(), self._value.get()))
        self._value.set(value)

    def leave(self) -> None:
        """End the innermost block."""
        *outer, last = self._outer.get()
        self._outer.set(tuple(outer))
        self._value.set(last)


class Switch:
    """True or False for the whole process; a block can set another value, as with `Setting`.

    enter: begins a block with a value. leave: ends it.
    """

    def __init__(self, name: str, default: bool) -> None:
        self._everywhere = default
        self._within: Setting[bool | None] = Setting(name, None)
        self.enter: Callable[[bool], None] = self._within.enter
        self.leave = self._within.leave

    def get(self) -> bool:
        """Return the value of the innermost block, or of the process outside of blocks."""
        within = self._within.get()
        return self._everywhere if within is None else within

    def set(self, value: bool) -> None:
        """Set the value for the process or, inside a block, until that block ends."""
        if self._within.get() is None:
            self._everywhere = value
        else:
            self._within.set(value)


_overrides: Setting[dict[str, FlagValue] | None] = Setting("tinyref_flags", None)


def _flag(name: str) -> Flag:
    flag = FLAGS.get(name)
    if flag is None:
        raise UserLookupError(f"flag: unknown flag {name!r}: {nearest(name, FLAGS)}")
    return flag


_is_checked = False


def check_environment() -> None:
    """Check every environment variable that begins with the prefix of flags.

    Raises `UserError` if it names no flag, or if the flag does not accept its value.
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
    """Return the value of a flag: of the innermost `Context`, the environment, or its default."""
    global _is_checked  # noqa: PLW0603  the environment of a process is read once
    flag = FLAGS.get(name) or _flag(name)
    if not _is_checked:
        check_environment()
        _is_checked = True
    overrides = _overrides.get()
    if overrides is not None and name in overrides:
        return overrides[name]
    # Most flags are not set. `os.environ` would raise and catch an exception for each, which takes
    # as long as the rest of this function.
    variables = getattr(os.environ, "_data", None)
    if variables is not None and flag.variable not in variables:
        return flag.default
    text = os.environ.get(f"TINYREF_{name}")
    return flag.default if text is None else flag.parse(text)


def integer(name: str) -> int:
    """Return the value of an integer flag."""
    value = get(name)
    if not isinstance(value, int):
        raise UserTypeError(f"flag {name}: is {_flag(name).accepted}, not an integer")
    return value


def text(name: str) -> str:
    """Return the value of a text flag."""
    return str(get(name))


class Context(contextlib.ContextDecorator):
    """A `with` block or decorator in which flags have other values: `with Context(DEBUG=2): ...`.

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
    """Yield every flag, its current value, and its origin: default, environment or context."""
    overrides = _overrides.get() or {}
    for name, flag in FLAGS.items():
        in_environment = f"TINYREF_{name}" in os.environ
        origin = "context" if name in overrides else "environment" if in_environment else "default"
        yield flag, get(name), origin


def changed_flags() -> dict[str, FlagValue]:
    """Return the flags whose current value is not their default, with that value."""
    return {flag.name: value for flag, value, _ in describe() if value != flag.default}
