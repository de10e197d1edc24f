"""Guards around vendors' backends: an error or a wrong result names the member at fault.

`Device[...]` puts every backend outside tinyref behind a guard. `DeviceError` and `UserError`,
which a member raises on purpose, pass.
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
    """The description of one member of a vendor's object: what it must return.

    label: its name in an error.
    accepted: what it must return, in words, or a function of the arguments that returns this.
    is_right: checks what it returns.
    members: the members of what it returns, which is guarded too.
    names: "kernel" or "source" if errors name the first argument as one.
    is_value: it is read, not called.
    is_optional: a vendor may leave it out.
    unguards: it gets the vendor's own objects as arguments, without their guards.
    """

    label: str
    accepted: str | Callable[..., str] = ""
    is_right: IsRight = lambda value, *arguments: True
    members: Mapping[str, Member] | None = None
    names: str = ""
    is_value: bool = False
    is_optional: bool = False
    unguards: bool = False


class Guard:
    """Calls members of one backend. Raises `BackendError` for what is the backend's fault."""

    def __init__(self, device: str, backend: type) -> None:
        self.device = device
        path = f"{backend.__module__}:{backend.__qualname__}"
        # A device that is named by its path needs no second mention.
        self._backend = "" if device.startswith(path) else f"{path}, "

    def ask(
        self,
        member: Member,
        function: Callable[..., Any],
        kernel: str,
        *arguments: Any,
        **named: Any,
    ) -> Any:
        """Call a member with these arguments; kernel: its name in an error."""
        own = [_unguarded(value) for value in arguments] if member.unguards else arguments
        try:
            result = function(*own, **named)
        except (DeviceError, UserError) as error:
            error.member = error.member or member.label
            raise
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # a vendor's code may raise anything
            words = f"raises {describe_error(error)}\n{_frames(error)}".rstrip()
            source = arguments[0] if member.names == "source" else ""
            raise self._error(member, words, kernel, source) from error
        if member.is_right(result, *arguments):
            return result
        accepted = (
            member.accepted if isinstance(member.accepted, str) else member.accepted(*arguments)
        )
        raise self._error(member, f"gives {_repr_of(result)}, accepted is {accepted}", kernel)

    def _error(self, member: Member, words: str, kernel: str, source: str = "") -> BackendError:
        of = f" of {kernel}" if kernel else ""
        text = f"{self._backend}{member.label}{of}: {words}"
        return BackendError(self.device, member.label, text, source)


class Guarded:
    """Wraps an object of a vendor; attributes other than its `members` are the object's own.

    kernel: the name in an error of the kernel that the object belongs to.
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
    def __class__(self) -> type:  # isinstance shall see the object's own class
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
        # From now on the attribute exists: replays read it often. It does not refer to this
        # object, so that everything that a launch holds is freed with the launch.
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
        result = self._guard.ask(member, function, kernel, *arguments, **named)
        if member.members is None or result is None:
            return result
        guarded = self._guarded.get(member.label)
        if guarded is None or guarded._inner is not result or guarded._kernel != kernel:
            guarded = Guarded(self._guard, result, member.members, kernel)
            if member.is_value:
                self._guarded[member.label] = guarded
        return guarded


def guarded_backend(device: str, inner: Any, capabilities_class: type) -> Any:
    """Return a vendor's backend behind a guard; its capabilities must be `capabilities_class`."""

    def are_capabilities(value: Any) -> bool:
        return isinstance(value, capabilities_class)

    members = {
        **_BACKEND,
        "capabilities": Member("capabilities", "Capabilities", are_capabilities, is_value=True),
    }
    return Guarded(Guard(device, type(inner)), inner, members)


def _call(inner: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """Look a method up and call it: if it is missing, that is the vendor's error too."""
    return getattr(inner, name)(*arguments, **named)


def _unguarded(value: Any) -> Any:
    """Return the vendor's own object, or launches of its own kernels."""
    if issubclass(type(value), Guarded):
        return value._inner
    if isinstance(value, Sequence):
        return [replace(launch, kernel=_unguarded(launch.kernel)) for launch in value]
    return value


def _is_something(value: Any, *_: Any) -> bool:
    return value is not None


def _is_callable(value: Any, *_: Any) -> bool:
    return callable(value)


def _is_callable_or_none(value: Any, *_: Any) -> bool:
    return value is None or callable(value)


def _is_bytes(value: Any, *_: Any) -> bool:
    return isinstance(value, bytes)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_writable_text(value: Any, *_: Any) -> bool:
    """Return True for a text without lone surrogates, which no file accepts."""
    if not _is_text(value):
        return False
    try:
        str.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(value: Any, *_: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_text(key) and _is_text(value) for key, value in value.items()
    )


def _are_compiled(value: Any, sources: Sequence[str]) -> bool:
    if not isinstance(value, Sequence) or len(value) != len(sources):
        return False
    return all(isinstance(result, bytes | DeviceError) for result in value)


def _are_seconds(value: Any, *_: Any) -> bool:
    return value is None or (isinstance(value, numbers.Real) and not isinstance(value, bool))


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


def _repr_of(value: Any) -> str:
    """Return the start of a value's repr, even if that raises."""
    try:
        return printable(repr(value))[:100]
    except Exception:
        return f"something of type {type(value).__name__}"


def _frames(error: BaseException) -> str:
    """Return the vendor's own part of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != _OWN_FILE]
    return printable("".join(traceback.format_list(own)))
