"""The three kinds of error that tinyref raises on purpose; anything else is an internal bug.

A `UserError` also belongs to the class that Python raises in the same situation, so callers may
catch the usual classes. It is a `ValueError`; four subclasses add a more specific class.
"""

from __future__ import annotations

import re
import traceback
from types import UnionType
from typing import Any

# Control characters except tab and newline, and lone surrogates, which no file accepts.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LAST_FRAMES = 3


class TinyrefError(Exception):
    """Base of every deliberate error, so that the command line can print it on one line.

    Its text is safe for a terminal, whatever foreign names and messages it contains.
    fault: the kind of wrong behaviour, such as "race", if it is known.
    member: the member of a vendor's backend that raised it, such as "launch", or empty.
    """

    fault = ""
    member = ""

    def __str__(self) -> str:
        return printable(super().__str__())


class UserError(TinyrefError, ValueError):
    """A wrong request of the caller: names the argument, the value and what is accepted."""


class UserTypeError(UserError, TypeError):
    """An argument, or an element of it, has a type that the function does not accept."""


class UserIndexError(UserError, IndexError):
    """An index or an axis that does not exist."""


class UserLookupError(UserError, LookupError):
    """A name that nothing has, for example of a device, a dtype or a flag."""


class UserStateError(UserError, RuntimeError):
    """A correct call at the wrong time: too early, too late, or inside another call."""


def argument_error(value: object, accepted: type | UnionType, message: str) -> UserError:
    """Return the error for an argument: a type error if its type is not accepted."""
    return UserError(message) if isinstance(value, accepted) else UserTypeError(message)


class VerifyError(TinyrefError):
    """A graph breaks a labelled rule of its dialect.

    rule: the label of the rule (`ast.store.2`).
    where: the node as text.
    expected, got: the facts.
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
    """A compiler, driver or device failed. It carries the device's message and the source text."""

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
    """A member of a vendor's backend raised an unexpected error or returned an unusable value."""

    def __init__(self, device: str, member: str, message: str, source: str = "") -> None:
        self.member = member
        super().__init__(device, message, source)

    def __reduce__(self) -> tuple[Any, ...]:
        return BackendError, (self.device, self.member, self.message, self.source)


def vendors_error(error: BaseException | None) -> BackendError | None:
    """Return the error of a vendor's backend that caused this one, if there is one."""
    while error is not None and not isinstance(error, BackendError):
        error = error.__cause__
    return error


def printable(text: str) -> str:
    """Return `text` with every character escaped that a terminal or a file cannot take."""
    return _UNPRINTABLE.sub(lambda match: ascii(match.group())[1:-1], text)


def printable_json(text: str) -> str:
    """Escape `text` as `printable` does, but so that JSON reads the original characters back."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def describe_error(error: BaseException) -> str:
    """Return the class and the message of any error, even if its `str()` raises."""
    try:
        words = str(error)
    except Exception as second:
        words = f"(its str() raises {type(second).__name__})"
    return printable(f"{type(error).__name__}: {words}")


def words_of(error: BaseException) -> str:
    """Return the message of an error, to quote in another one; unplanned ones with their class."""
    if isinstance(error, TinyrefError):
        return str(error)
    return describe_error(error).removesuffix(": ")


def explain_error(error: BaseException) -> str:
    """Return the message of an error, with its last frames if it is empty or unplanned."""
    if isinstance(error, TinyrefError) and str(error).strip():
        return printable(str(error))
    frames = "".join(traceback.format_tb(error.__traceback__)[-_LAST_FRAMES:])
    return printable(f"{describe_error(error)}\n{frames}".rstrip())


def is_misnamed(error: BaseException) -> bool:
    """Return True if a device did not open because no backend has its name."""
    is_missing = isinstance(error.__cause__, ImportError | AttributeError)
    return isinstance(error, UserError) or (isinstance(error, DeviceError) and is_missing)
