"""Naming the nodes of the tensor graph after the functions of Tensor that users call."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from types import CodeType, FrameType

from tinyref import config
from tinyref.lazy.shape import give_line, give_name, may_be_named, name_of
from tinyref.uops.node import UOp

_PACKAGE = "tinyref.tensor."
_CORE = "tinyref.tensor.core"
_BACKWARD = "backward"
MAX_KNOWN = 10_000
# The name of nodes that are built while gradients are computed; else empty.
_going_back: ContextVar[str] = ContextVar("tinyref_going_back", default="")


# True if fresh nodes also store a line of the user's program, as for a trace: it takes time.
_noting_lines: ContextVar[bool] = ContextVar("tinyref_noting_lines", default=False)


@contextlib.contextmanager
def noting_lines() -> Iterator[None]:
    """Store with each node built in the block the line of the user's program that built it."""
    token = _noting_lines.set(True)
    try:
        yield
    finally:
        _noting_lines.reset(token)


def name_node(node: UOp) -> None:
    """Name a fresh node after the outermost running function of this package."""
    if may_be_named(node):
        give_name(node, _going_back.get() or _outermost_function())
        if _noting_lines.get() or config.text("PROFILE"):
            give_line(node, _line_of_caller())


def _callers_frame() -> FrameType | None:
    """Return the frame that called `name_node`."""
    frame = inspect.currentframe()
    for _ in range(3):
        frame = None if frame is None else frame.f_back
    return frame


def _line_of_caller() -> str:
    """Return FILE:LINE of the innermost frame outside of tinyref."""
    frame: FrameType | None = _callers_frame()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "tinyref"


def go_back_through(node: UOp | None) -> None:
    """Name fresh nodes as part of the gradient of `node` until the next call; None ends that."""
    if node is None:
        _going_back.set("")
        return
    name = name_of(node)
    _going_back.set(name if name.startswith(_BACKWARD) else f"{_BACKWARD} {name}".rstrip())


# The name for nodes by the code of the calling function; None for functions outside the package.
_known: dict[CodeType, str | None] = {}


def _outermost_function() -> str:
    frame: FrameType | None = _callers_frame()
    outermost = ""
    while frame is not None:
        code = frame.f_code
        name = _known[code] if code in _known else _learn(frame)
        if name is None:
            break
        outermost = name
        frame = frame.f_back
    return outermost


def _learn(frame: FrameType) -> str | None:
    module = frame.f_globals.get("__name__", "")
    is_ours = module.startswith(_PACKAGE)
    name = _user_name(frame.f_code.co_name) if is_ours else None
    if module == _CORE:
        name = ""  # Users call no function of this module.
    # Code that is compiled again each time, as at a prompt, must not fill the memory.
    if is_ours or len(_known) < MAX_KNOWN:
        _known[frame.f_code] = name
    return name


def _user_name(name: str) -> str:
    """Return the public name of a method: add for __add__, __radd__ and __iadd__."""
    if not (name.startswith("__") and name.endswith("__")):
        return "" if name.startswith(("_", "<")) else name
    name = name.strip("_")
    if name == "init":
        return "Tensor"
    return name[1:] if name[:1] in ("r", "i") and name[1:] in _OPERATORS else name


_ARITHMETIC = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"})
_OPERATORS = _ARITHMETIC | {"and", "or", "xor", "lshift", "rshift"}
