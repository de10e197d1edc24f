"""Backends of vendors behind a guard: what a member raises or returns wrongly is named as theirs.

`Device[...]` puts each backend that is not of tinyref itself behind a `GuardedBackend`. Errors that
a member raises on purpose, `DeviceError` and `UserError`, pass.
"""

from __future__ import annotations

import dataclasses
import numbers
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tinyref.errors import BackendError, DeviceError, UserError, describe_error, printable

IsRight = Callable[[Any], bool]
_OWN_FILE = str(Path(__file__))
_TEXT = "str, of what UTF-8 has"


class Guard:
    """Asks members of one backend. Raises `BackendError` for what is the backend's fault."""

    def __init__(self, device: str, backend: type) -> None:
        self.device = device
        path = f"{backend.__module__}:{backend.__qualname__}"
        # One that is named by its path is named already.
        self._backend = "" if device.startswith(path) else f"{path}, "

    def ask(
        self,
        member: str,
        function: Callable[..., Any],
        *arguments: Any,
        accepted: str = "",
        is_right: IsRight = lambda found: True,
        kernel: str = "",
        source: str = "",
    ) -> Any:
        """What the member gives; `accepted` says what that must be, and `is_right` whether it is.

        kernel, source: of what the member is asked for, to be named in an error.
        """
        try:
            found = function(*arguments)
        except (DeviceError, UserError) as error:
            error.member = error.member or member
            raise
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # a vendor's code may raise anything
            words = f"raises {describe_error(error)}\n{_frames(error)}".rstrip()
            raise self._error(member, words, kernel, source) from error
        if not is_right(found):
            raise self._error(member, f"gives {_repr_of(found)}, accepted is {accepted}", kernel)
        return found

    def _error(self, member: str, words: str, kernel: str, source: str = "") -> BackendError:
        of = f" of {kernel}" if kernel else ""
        return BackendError(self.device, member, f"{self._backend}{member}{of}: {words}", source)


class Proxy:
    """Stands for an object of a vendor; attributes that it does not guard are the object's own."""

    _own = frozenset({"_guard", "_inner", "_kernel"})

    def __init__(self, guard: Guard, inner: Any, kernel: str = "") -> None:
        self._guard = guard
        self._inner = inner
        self._kernel = kernel

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what asks with isinstance means the object
        return type(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self if name in self._own else self._inner, name, value)


class GuardedBackend(Proxy):
    """A vendor's backend; `capabilities_class` is of what its capabilities must be."""

    _own = Proxy._own | {"_capabilities_class"}

    def __init__(self, device: str, inner: Any, capabilities_class: type) -> None:
        super().__init__(Guard(device, type(inner)), inner)
        self._capabilities_class = capabilities_class

    @property
    def capabilities(self) -> Any:
        return self._member("capabilities", "Capabilities", self._are_capabilities)

    def _are_capabilities(self, found: Any) -> bool:
        return isinstance(found, self._capabilities_class)

    @property
    def renderer(self) -> GuardedRenderer:
        return GuardedRenderer(self._guard, self._member("renderer", "a Renderer", _is_something))

    @property
    def compiler(self) -> GuardedCompiler:
        found = self._member("compiler", "a Compiler", _is_something)
        kind = GuardedBatchCompiler if hasattr(found, "compile_many") else GuardedCompiler
        return kind(self._guard, found)

    @property
    def allocator(self) -> GuardedAllocator:
        found = self._member("allocator", "an Allocator", _is_something)
        kind = GuardedTransferring if hasattr(found, "transfer") else GuardedAllocator
        return kind(self._guard, found)

    def load(self, entry: str, binary: bytes) -> Any:
        found = self._guard.ask(
            "load",
            self._inner.load,
            entry,
            binary,
            accepted="a kernel to call",
            is_right=callable,
            kernel=entry,
        )
        return self._guarded(found, entry)

    def interpret(self, program: Any) -> Any:
        found = self._guard.ask(
            "interpret",
            self._inner.interpret,
            program,
            accepted="a kernel to call, or None",
            is_right=lambda found: found is None or callable(found),
            kernel=program.name,
        )
        return None if found is None else self._guarded(found, program.name)

    def _guarded(self, found: Any, entry: str) -> GuardedKernel:
        kind = GuardedPreparable if hasattr(found, "prepare") else GuardedKernel
        return kind(self._guard, found, entry)

    def record(self, launches: Sequence[Any]) -> GuardedCommandList | None:
        # The vendor gets its own kernels, of which it knows more than a guard does.
        own = [dataclasses.replace(each, kernel=_unguarded(each.kernel)) for each in launches]
        found = self._guard.ask(
            "record",
            self._inner.record,
            own,
            accepted="a command list to call, or None",
            is_right=lambda found: found is None or callable(found),
        )
        return None if found is None else GuardedCommandList(self._guard, found)

    def synchronize(self) -> None:
        self._guard.ask("synchronize", self._inner.synchronize)

    def versions(self) -> dict[str, str]:
        found: dict[str, str] = self._guard.ask(
            "versions",
            self._inner.versions,
            accepted="a dict of texts",
            is_right=_are_texts,
        )
        return found

    def _member(self, name: str, accepted: str, is_right: IsRight) -> Any:
        return self._guard.ask(
            name, getattr, self._inner, name, accepted=accepted, is_right=is_right
        )


class GuardedRenderer(Proxy):
    """A vendor's renderer."""

    def render(self, program: Any) -> str:
        found: str = self._guard.ask(
            "renderer.render",
            lambda: self._inner.render(program),
            accepted=_TEXT,
            is_right=_is_writable_text,
            kernel=program.name,
        )
        return found

    def entry_name(self, program: Any) -> str:
        """The name of the program itself, where the vendor says nothing else."""
        if not hasattr(self._inner, "entry_name"):
            return str(program.name)
        found: str = self._guard.ask(
            "renderer.entry_name",
            lambda: self._inner.entry_name(program),
            accepted=_TEXT,
            is_right=_is_writable_text,
            kernel=program.name,
        )
        return found


class GuardedCompiler(Proxy):
    """A vendor's compiler."""

    @property
    def key(self) -> str:
        found: str = self._guard.ask(
            "compiler.key", lambda: self._inner.key, accepted=_TEXT, is_right=_is_writable_text
        )
        return found

    def compile(self, source: str) -> bytes:
        found: bytes = self._guard.ask(
            "compiler.compile",
            lambda: self._inner.compile(source),
            accepted="bytes",
            is_right=lambda found: isinstance(found, bytes),
            source=source,
        )
        return found


class GuardedBatchCompiler(GuardedCompiler):
    """One that takes many sources at once."""

    def compile_many(self, sources: Sequence[str]) -> Sequence[bytes | DeviceError]:
        found: Sequence[bytes | DeviceError] = self._guard.ask(
            "compiler.compile_many",
            lambda: self._inner.compile_many(sources),
            accepted=f"{len(sources)} results, each bytes or a DeviceError",
            is_right=lambda found: _are_compiled(found, len(sources)),
        )
        return found


class GuardedAllocator(Proxy):
    """A vendor's allocator."""

    def allocate(self, nbytes: int) -> Any:
        return self._handle("allocate", lambda: self._inner.allocate(nbytes))

    def view(self, handle: Any, offset: int, nbytes: int) -> Any:
        return self._handle("view", lambda: self._inner.view(handle, offset, nbytes))

    def free(self, handle: Any) -> None:
        self._guard.ask("allocator.free", lambda: self._inner.free(handle))

    def copy_in(self, handle: Any, source: memoryview) -> None:
        self._guard.ask("allocator.copy_in", lambda: self._inner.copy_in(handle, source))

    def copy_out(self, destination: memoryview, handle: Any) -> None:
        self._guard.ask("allocator.copy_out", lambda: self._inner.copy_out(destination, handle))

    def _handle(self, name: str, function: Callable[[], Any]) -> Any:
        accepted = "a handle, which is not None"
        return self._guard.ask(
            f"allocator.{name}", function, accepted=accepted, is_right=_is_something
        )


class GuardedTransferring(GuardedAllocator):
    """One that copies between devices itself."""

    def transfer(self, target: Any, source: Any, origin: Any) -> None:
        # The vendor gets its own allocator, of which it knows more than a guard does.
        own = _unguarded(origin)
        self._guard.ask("allocator.transfer", lambda: self._inner.transfer(target, source, own))


class GuardedKernel(Proxy):
    """A kernel that a vendor's backend has loaded."""

    def __call__(self, *arguments: Any, **named: Any) -> float | None:
        found: float | None = self._guard.ask(
            "launch",
            lambda: self._inner(*arguments, **named),
            accepted="seconds, or None",
            is_right=_are_seconds,
            kernel=self._kernel,
        )
        return found


class GuardedPreparable(GuardedKernel):
    """One that binds arguments itself."""

    def prepare(self, *arguments: Any) -> GuardedLaunch:
        found = self._guard.ask(
            "prepare",
            lambda: self._inner.prepare(*arguments),
            accepted="a launch to call",
            is_right=callable,
            kernel=self._kernel,
        )
        return GuardedLaunch(self._guard, found, self._kernel)


class GuardedLaunch(Proxy):
    """A vendor's launch with its arguments bound."""

    def __call__(self) -> None:
        self._ask("launch", self._inner)

    def rebind(self, place: int, handle: Any) -> None:
        self._ask("launch.rebind", lambda: self._inner.rebind(place, handle))

    def vary(self, grid: tuple[int, int, int], variables: Any) -> None:
        self._ask("launch.vary", lambda: self._inner.vary(grid, variables))

    def _ask(self, member: str, function: Callable[[], Any]) -> None:
        self._guard.ask(member, function, kernel=self._kernel)


class GuardedCommandList(Proxy):
    """A vendor's launches that are launched by one call."""

    def __call__(self) -> None:
        self._guard.ask("command list", self._inner)

    def rebind(self, launch: int, place: int, handle: Any) -> None:
        self._guard.ask("command list.rebind", self._inner.rebind, launch, place, handle)

    def vary(self, launch: int, grid: tuple[int, int, int], variables: Any) -> None:
        self._guard.ask("command list.vary", self._inner.vary, launch, grid, variables)


def _unguarded(found: Any) -> Any:
    return found._inner if issubclass(type(found), Proxy) else found


def _is_something(found: Any) -> bool:
    return found is not None


def _is_text(found: Any) -> bool:
    return isinstance(found, str)


def _is_writable_text(found: Any) -> bool:
    """Whether it is a text without halves of surrogate pairs, which no file takes."""
    if not _is_text(found):
        return False
    try:
        str.encode(found)
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(found: Any) -> bool:
    return isinstance(found, dict) and all(
        _is_text(key) and _is_text(value) for key, value in found.items()
    )


def _are_compiled(found: Any, count: int) -> bool:
    if not isinstance(found, Sequence) or len(found) != count:
        return False
    return all(isinstance(result, bytes | DeviceError) for result in found)


def _are_seconds(found: Any) -> bool:
    return found is None or (isinstance(found, numbers.Real) and not isinstance(found, bool))


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
