"""Backends of vendors behind a guard: what a member raises or returns wrongly is named as theirs.

`Device[...]` puts each backend that is not of tinyref itself behind a guard. Errors that a member
raises on purpose, `DeviceError` and `UserError`, pass.
"""

from __future__ import annotations

import functools
import numbers
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyref.errors import BackendError, DeviceError, UserError, describe_error, printable

IsRight = Callable[..., bool]
_OWN_FILE = str(Path(__file__))
_TEXT = "str, of what UTF-8 has"


@dataclass(frozen=True)
class Member:
    """One member of a vendor's object: what it must give, and what an error says of it.

    label: its name in an error. accepted: what it must give, in words, or a function of the
    arguments that says so. is_right: tells if what it gives is that. members: those of what it
    gives, which is guarded too. names: "kernel" or "source" if the first argument is one, to be
    named in an error. is_value: it is read, not called. is_optional: a vendor may leave it out.
    unguards: the vendor gets its own objects as arguments: it knows more of them than a guard does.
    """

    label: str
    accepted: str | Callable[..., str] = ""
    is_right: IsRight = lambda found, *arguments: True
    members: Mapping[str, Member] | None = None
    names: str = ""
    is_value: bool = False
    is_optional: bool = False
    unguards: bool = False


class Guard:
    """Asks members of one backend. Raises `BackendError` for what is the backend's fault."""

    def __init__(self, device: str, backend: type) -> None:
        self.device = device
        path = f"{backend.__module__}:{backend.__qualname__}"
        # One that is named by its path is named already.
        self._backend = "" if device.startswith(path) else f"{path}, "

    def ask(
        self,
        member: Member,
        function: Callable[..., Any],
        kernel: str,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        """Return what the member gives for these arguments; kernel: named in an error."""
        own = [_unguarded(each) for each in arguments] if member.unguards else arguments
        try:
            found = function(*own, **named)
        except (DeviceError, UserError) as error:
            error.member = error.member or member.label
            raise
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # a vendor's code may raise anything
            words = f"raises {describe_error(error)}\n{_frames(error)}".rstrip()
            source = arguments[0] if member.names == "source" else ""
            raise self._error(member, words, kernel, source) from error
        if member.is_right(found, *arguments):
            return found
        accepted = (
            member.accepted if isinstance(member.accepted, str) else member.accepted(*arguments)
        )
        raise self._error(member, f"gives {_repr_of(found)}, accepted is {accepted}", kernel)

    def _error(self, member: Member, words: str, kernel: str, source: str = "") -> BackendError:
        of = f" of {kernel}" if kernel else ""
        text = f"{self._backend}{member.label}{of}: {words}"
        return BackendError(self.device, member.label, text, source)


class Guarded:
    """Stands for an object of a vendor; attributes other than its `members` are the object's own.

    kernel: the one that the object is of, to be named in an error.
    """

    _own = frozenset({"_guard", "_guarded", "_inner", "_members", "_kernel"})

    def __init__(
        self, guard: Guard, inner: Any, members: Mapping[str, Member], kernel: str = ""
    ) -> None:
        self._guard = guard
        self._inner = inner
        self._members = members
        self._kernel = kernel
        self._guarded: dict[str, Guarded] = {}

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what asks with isinstance means the object
        return type(self._inner)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self if name in self._own else self._inner, name, value)

    def __getattr__(self, name: str) -> Any:
        member = self._members.get(name)
        if member is None or (member.is_optional and not hasattr(self._inner, name)):
            return getattr(self._inner, name)
        if member.is_value:
            return self._ask(member, lambda: getattr(self._inner, name))
        function = functools.partial(_call, self._inner, name)
        if member.members is not None or member.names:
            return functools.partial(self._ask, member, function)
        method = functools.partial(self._guard.ask, member, function, self._kernel)
        # The next reading finds it without this function: replays ask often. It does not hold on
        # to the guard, so that what a launch holds is freed with the launch.
        vars(self)[name] = method
        return method

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._ask(self._members["__call__"], self._inner, *arguments, **named)

    def _ask(
        self, member: Member, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        kernel = self._kernel
        if member.names == "kernel":
            kernel = getattr(arguments[0], "name", arguments[0])
        found = self._guard.ask(member, function, kernel, *arguments, **named)
        if member.members is None or found is None:
            return found
        guarded = self._guarded.get(member.label)
        if guarded is None or guarded._inner is not found or guarded._kernel != kernel:
            guarded = Guarded(self._guard, found, member.members, kernel)
            if member.is_value:
                self._guarded[member.label] = guarded
        return guarded


def guarded_backend(device: str, inner: Any, capabilities_class: type) -> Any:
    """Return a vendor's backend behind a guard; its capabilities must be `capabilities_class`."""

    def are_capabilities(found: Any) -> bool:
        return isinstance(found, capabilities_class)

    members = {
        **_BACKEND,
        "capabilities": Member("capabilities", "Capabilities", are_capabilities, is_value=True),
    }
    return Guarded(Guard(device, type(inner)), inner, members)


def _call(inner: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """Call a method that is looked up here: to lack it is the vendor's error too."""
    return getattr(inner, name)(*arguments, **named)


def _unguarded(found: Any) -> Any:
    """Return the vendor's own object, or launches of its own kernels."""
    if issubclass(type(found), Guarded):
        return found._inner
    if isinstance(found, Sequence):
        return [replace(launch, kernel=_unguarded(launch.kernel)) for launch in found]
    return found


def _is_something(found: Any, *_: Any) -> bool:
    return found is not None


def _is_callable(found: Any, *_: Any) -> bool:
    return callable(found)


def _is_callable_or_none(found: Any, *_: Any) -> bool:
    return found is None or callable(found)


def _is_bytes(found: Any, *_: Any) -> bool:
    return isinstance(found, bytes)


def _is_text(found: Any) -> bool:
    return isinstance(found, str)


def _is_writable_text(found: Any, *_: Any) -> bool:
    """Whether it is a text without halves of surrogate pairs, which no file takes."""
    if not _is_text(found):
        return False
    try:
        str.encode(found)
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(found: Any, *_: Any) -> bool:
    return isinstance(found, dict) and all(
        _is_text(key) and _is_text(value) for key, value in found.items()
    )


def _are_compiled(found: Any, sources: Sequence[str]) -> bool:
    if not isinstance(found, Sequence) or len(found) != len(sources):
        return False
    return all(isinstance(result, bytes | DeviceError) for result in found)


def _are_seconds(found: Any, *_: Any) -> bool:
    return found is None or (isinstance(found, numbers.Real) and not isinstance(found, bool))


_HANDLE = "a handle, which is not None"
_PREPARED = {
    "__call__": Member("launch"),
    "rebind": Member("launch.rebind"),
    "vary": Member("launch.vary"),
}
_KERNEL = {
    "__call__": Member("launch", "seconds, or None", _are_seconds),
    "prepare": Member("prepare", "a launch to call", _is_callable, _PREPARED, is_optional=True),
}
_COMMANDS = {
    "__call__": Member("command list"),
    "rebind": Member("command list.rebind"),
    "vary": Member("command list.vary"),
}
_RENDERER = {
    "render": Member("renderer.render", _TEXT, _is_writable_text, names="kernel"),
    "entry_name": Member(
        "renderer.entry_name", _TEXT, _is_writable_text, names="kernel", is_optional=True
    ),
}
_COMPILER = {
    "key": Member("compiler.key", _TEXT, _is_writable_text, is_value=True),
    "compile": Member("compiler.compile", "bytes", _is_bytes, names="source"),
    "compile_many": Member(
        "compiler.compile_many",
        lambda sources: f"{len(sources)} results, each bytes or a DeviceError",
        _are_compiled,
        is_optional=True,
    ),
}
_ALLOCATOR = {
    "allocate": Member("allocator.allocate", _HANDLE, _is_something),
    "view": Member("allocator.view", _HANDLE, _is_something),
    "free": Member("allocator.free"),
    "copy_in": Member("allocator.copy_in"),
    "copy_out": Member("allocator.copy_out"),
    "transfer": Member("allocator.transfer", is_optional=True, unguards=True),
}
_BACKEND = {
    "renderer": Member("renderer", "a Renderer", _is_something, _RENDERER, is_value=True),
    "compiler": Member("compiler", "a Compiler", _is_something, _COMPILER, is_value=True),
    "allocator": Member("allocator", "an Allocator", _is_something, _ALLOCATOR, is_value=True),
    "load": Member("load", "a kernel to call", _is_callable, _KERNEL, names="kernel"),
    "interpret": Member(
        "interpret", "a kernel to call, or None", _is_callable_or_none, _KERNEL, names="kernel"
    ),
    "record": Member(
        "record", "a command list to call, or None", _is_callable_or_none, _COMMANDS, unguards=True
    ),
    "synchronize": Member("synchronize"),
    "versions": Member("versions", "a dict of texts", _are_texts),
}


def _repr_of(found: Any) -> str:
    """A value of a vendor, which may fail to show itself."""
    try:
        return printable(repr(found))[:100]
    except Exception:
        return f"something of type {type(found).__name__}"


def _frames(error: BaseException) -> str:
    """The vendor's own part of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != _OWN_FILE]
    return printable("".join(traceback.format_list(own)))
