"""Naming the nodes of the tensor graph after the functions of Tensor that users call."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from types import CodeType, FrameType

from tinyref.lazy.shape import give_line, give_name, may_be_named, name_of
from tinyref.uops.node import UOp

_PACKAGE = "tinyref.tensor."
_CORE = "tinyref.tensor.core"
_BACKWARD = "backward"
MAX_KNOWN = 10_000
# While gradients are computed: what the nodes are called that are made meanwhile.
_going_back: ContextVar[str] = ContextVar("tinyref_going_back", default="")


# Whether nodes also learn from which line they are: it takes time, and says little to most.
_noting_lines: ContextVar[bool] = ContextVar("tinyref_noting_lines", default=False)


@contextlib.contextmanager
def noting_lines() -> Iterator[None]:
    """Within the block fresh nodes keep the line of the program that called for them."""
    token = _noting_lines.set(True)
    try:
        yield
    finally:
        _noting_lines.reset(token)


def name_node(node: UOp) -> None:
    """Names a fresh node after the outermost function of this package that is being called."""
    if may_be_named(node):
        give_name(node, _going_back.get() or _outermost_function())
        if _noting_lines.get():
            give_line(node, _line_of_caller())


def _callers_frame() -> FrameType | None:
    """Return the frame that called `name_node`."""
    frame = inspect.currentframe()
    for _ in range(3):
        frame = None if frame is None else frame.f_back
    return frame


def _line_of_caller() -> str:
    """FILE:LINE of the innermost frame that is no part of tinyref."""
    frame: FrameType | None = _callers_frame()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "tinyref"


def go_back_through(node: UOp | None) -> None:
    """Until the next call, fresh nodes belong to the gradient of `node`; None ends that."""
    if node is None:
        _going_back.set("")
        return
    name = name_of(node)
    _going_back.set(name if name.startswith(_BACKWARD) else f"{_BACKWARD} {name}".rstrip())


# The name that a function of this package gives, None for any other function: by its code.
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
        name = ""  # Users call none of its functions.
    # Code that is made anew each time, as at a prompt, must not pile up here.
    if is_ours or len(_known) < MAX_KNOWN:
        _known[frame.f_code] = name
    return name


def _user_name(name: str) -> str:
    """A method of Python's as users know it: add for __add__, __radd__ and __iadd__."""
    if not (name.startswith("__") and name.endswith("__")):
        return "" if name.startswith(("_", "<")) else name
    name = name.strip("_")
    if name == "init":
        return "Tensor"
    return name[1:] if name[:1] in ("r", "i") and name[1:] in _OPERATORS else name


_ARITHMETIC = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"})
_OPERATORS = _ARITHMETIC | {"and", "or", "xor", "lshift", "rshift"}
