"""The three kinds of error that tinyref raises on purpose; anything else is an internal bug.

A `UserError` is also of the class that Python itself raises there, so that programs which catch the
usual classes work: a `ValueError`, and one of the four below where another class says more.
"""

from __future__ import annotations

import re
import traceback
from types import UnionType
from typing import Any

# Control characters but for tabs and newlines, and halves of surrogate pairs, which no file takes.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LAST_FRAMES = 3


class TinyrefError(Exception):
    """Base of every deliberate error, so that the command line can print it on one line.

    Its text is one that a terminal can take, whatever names and messages of others are in it.
    fault: the kind of wrong behaviour, such as "race", where the error knows it. member: of the
    vendor's backend that raised it, such as "launch"; empty where none did.
    """

    fault = ""
    member = ""

    def __str__(self) -> str:
        return printable(super().__str__())


class UserError(TinyrefError, ValueError):
    """The caller asked for the impossible: names the argument, the value and what is accepted."""


class UserTypeError(UserError, TypeError):
    """An argument or its elements are of a type that the function does not accept."""


class UserIndexError(UserError, IndexError):
    """An index or an axis that does not exist."""


class UserLookupError(UserError, LookupError):
    """A name that nothing has: of a device, a dtype, a flag."""


class UserStateError(UserError, RuntimeError):
    """The call is right and comes at the wrong time: too early, too late, or within another."""


def argument_error(value: object, accepted: type | UnionType, message: str) -> UserError:
    """The error for an argument: for a wrong value, or for one that is not of an accepted type."""
    return UserError(message) if isinstance(value, accepted) else UserTypeError(message)


class VerifyError(TinyrefError):
    """A graph breaks a labelled rule of its dialect.

    `rule` is the label (`ast.store.2`), `where` the node as text, `expected` and `got` the facts.
    """

    def __init__(self, rule: str, where: str, expected: str, got: str) -> None:
        self.rule = rule
        self.where = where
        self.expected = expected
        self.got = got
        super().__init__(f"{rule}: expected {expected}, got {got}, at {where}")

    def __reduce__(self) -> tuple[type[VerifyError], tuple[str, str, str, str]]:
        return VerifyError, (self.rule, self.where, self.expected, self.got)


class DeviceError(TinyrefError):
    """A compiler, driver or device failed: carries the device's own words and the source text."""

    def __init__(self, device: str, message: str, source: str = "") -> None:
        self.device = device
        self.message = message
        self.source = source
        super().__init__(f"{device}: {message}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.device, self.message, self.source)


class OrderError(DeviceError):
    """The order in which work-items run changes what they store."""

    fault = "race"


class BackendError(DeviceError):
    """A member of a vendor's backend raised what it should not, or gave what no caller can use."""

    def __init__(self, device: str, member: str, message: str, source: str = "") -> None:
        self.member = member
        super().__init__(device, message, source)

    def __reduce__(self) -> tuple[Any, ...]:
        return BackendError, (self.device, self.member, self.message, self.source)


def vendors_error(error: BaseException | None) -> BackendError | None:
    """The error of a vendor's backend that is behind another one, if there is one."""
    while error is not None and not isinstance(error, BackendError):
        error = error.__cause__
    return error


def printable(text: str) -> str:
    """`text` as a terminal and a file can take it: what they cannot is written as an escape."""
    return _UNPRINTABLE.sub(lambda found: ascii(found.group())[1:-1], text)


def printable_json(text: str) -> str:
    """The same of a text that may hold JSON, which reads the escapes as what they stand for."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def describe_error(error: BaseException) -> str:
    """The class of any error and its words, which may be those that it fails to find."""
    try:
        words = str(error)
    except Exception as second:
        words = f"(its str() raises {type(second).__name__})"
    return printable(f"{type(error).__name__}: {words}")


def words_of(error: BaseException) -> str:
    """What an error says, in a message of another one: its class too, if nobody raised it here."""
    if isinstance(error, TinyrefError):
        return str(error)
    return describe_error(error).removesuffix(": ")


def explain_error(error: BaseException) -> str:
    """The error in words; one without, or that nobody raised on purpose, with its last frames."""
    if isinstance(error, TinyrefError) and str(error).strip():
        return printable(str(error))
    frames = "".join(traceback.format_tb(error.__traceback__)[-_LAST_FRAMES:])
    return printable(f"{describe_error(error)}\n{frames}".rstrip())


def is_misnamed(error: BaseException) -> bool:
    """Whether a device did not open because no backend is found by its name."""
    is_missing = isinstance(error.__cause__, ImportError | AttributeError)
    return isinstance(error, UserError) or (isinstance(error, DeviceError) and is_missing)
