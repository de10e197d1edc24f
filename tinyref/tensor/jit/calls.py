"""TinyJit: a function of tensors that runs as the list of kernels that it was seen to run."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload
from weakref import WeakSet

from tinyref import config
from tinyref.engine.capture import active_recorder
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.tensor.core import TensorCore
from tinyref.tensor.jit.arguments import (
    read_arguments,
)
from tinyref.tensor.jit.capture import Capture, Captured, captured_call
from tinyref.tensor.jit.results import Result
from tinyref.tensor.jit.saving import restored_capture, saved_capture
from tinyref.tensor.registry import graph_lock

VERSION = 1

P = ParamSpec("P")
R = TypeVar("R")


class TinyJit(Generic[P, R]):
    """Runs `fxn` plainly once, captures its kernels in the second call, then replays only those.

    As a decorator of a function or a method, or as a call: `step = TinyJit(step)`. Tensors and
    bound variables, in arguments and in lists, tuples and dicts in them, may change from call to
    call, but no shape, type or device; any other argument, like all else that Python decides, is
    part of the capture. Tensors that the function assigns to in place go on being updated. It
    returns tensors, numbers, texts and None in lists, tuples and dicts: the tensors have memory
    of their own and no gradients, all else is as it was captured.

    A call that fits no replay raises `UserError`; so do reading elements within the function,
    and replacing tensors instead of assigning to them. An argument that the function assigns to
    has the new elements after the call, as in a plain one, but shares no memory with another
    argument. Within another TinyJit's capture, and with the flag JIT=0, the function runs plainly.
    Threads take turns.

    prune: kernels that depend on no argument, and on nothing that the function assigns to, run
    once with the capture and are not replayed: what they read may not change any more.

    Examples:
        >>> from tinyref import TinyJit
        >>> double = TinyJit(lambda x: (x * 2).realize())
        >>> [double(Tensor([float(number)])).item() for number in range(4)]
        [0.0, 2.0, 4.0, 6.0]
    """

    def __init__(self, fxn: Callable[P, R], *, prune: bool = False) -> None:
        if not callable(fxn):
            raise UserTypeError(f"TinyJit: got a {type(fxn).__name__}, accepted is a function")
        self.fxn = fxn
        functools.update_wrapper(self, fxn)
        self.prune = bool(prune)
        self._program = _Program(_parameter_names(fxn), self.prune)
        self._methods: dict[int, tuple[weakref.ref[object], _Program]] = {}
        self._attribute = getattr(fxn, "__name__", "")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self._program.call(self.fxn, args, kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> TinyJit[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> JitMethod: ...
    def __get__(self, instance: object | None, owner: type) -> TinyJit[P, R] | JitMethod:
        """As a method: each instance has a capture of its own."""
        if instance is None:
            return self
        return JitMethod(self.fxn, instance, self._program_of(instance), self._attribute)

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __getstate__(self) -> dict[str, object]:
        return {"fxn": _reference_to(self), **self._state_to_save()}

    def _state_to_save(self) -> dict[str, object]:
        """All but the function."""
        program = self._program
        with program.lock:
            capture = program.capture
            return {
                "version": VERSION,
                "prune": self.prune,
                "names": list(program.names),
                "has_run": program.has_run,
                "captured": None if capture is None else saved_capture(capture),
            }

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy of the capture with state of its own; of methods, for a copy of the instance."""
        found = type(self).__new__(type(self))
        memo[id(self)] = found
        fxn = copy.deepcopy(self.fxn, memo)
        found.__setstate__({"fxn": fxn, **copy.deepcopy(self._state_to_save(), memo)})
        return found

    def __setstate__(self, state: object) -> None:
        """The TinyJit that was saved: it replays what was captured.

        Raises `UserError` for what is no such state, and where a device is not here.
        """
        if not isinstance(state, dict) or state.get("version") != VERSION:
            version = state.get("version") if isinstance(state, dict) else None
            raise UserError(f"TinyJit: the pickle is of version {version!r}, accepted is {VERSION}")
        if state.keys() != {"version", "fxn", "prune", "names", "has_run", "captured"}:
            raise UserError(f"TinyJit: the pickle has the entries {sorted(map(str, state))}")
        fxn = state["fxn"]
        self.fxn = fxn.function() if isinstance(fxn, _Decorated) else fxn
        functools.update_wrapper(self, self.fxn)
        self.prune = bool(state["prune"])
        self._methods = {}
        self._attribute = getattr(self.fxn, "__name__", "")
        self._program = _Program(state["names"], self.prune)
        self._program.has_run = bool(state["has_run"])
        if state["captured"] is not None:
            self._program.capture, self._program.holders = restored_capture(state["captured"])

    def _program_of(self, instance: object) -> _Program:
        with graph_lock:
            return self._found_program(instance)

    def _found_program(self, instance: object) -> _Program:
        identity = id(instance)
        found = self._methods.get(identity)
        if found is not None and found[0]() is instance:
            return found[1]

        def forget(reference: weakref.ref[object]) -> None:
            # Another instance may have its identity by now.
            if self._methods.get(identity, (None,))[0] is reference:
                self._methods.pop(identity, None)

        try:
            reference = weakref.ref(instance, forget)
        except TypeError:
            raise UserTypeError(
                f"TinyJit: a {type(instance).__name__} takes no weak references: "
                f"add '__weakref__' to its slots"
            ) from None
        program = _Program(_parameter_names(self.fxn)[1:], self.prune)
        self._methods[identity] = (reference, program)
        return program

    def reset(self) -> None:
        """Forgets the capture: the next call runs plainly, the one after captures again."""
        self._program.reset()

    @property
    def captured(self) -> Captured | None:
        """What was captured; None before the second call."""
        return self._program.captured


class JitMethod:
    """A captured function bound to one instance."""

    def __init__(
        self, fxn: Callable[..., Any], instance: object, program: _Program, name: str
    ) -> None:
        self.fxn = fxn
        self.instance = instance
        self._program = program
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._program.call(functools.partial(self.fxn, self.instance), args, kwargs)

    def reset(self) -> None:
        """As `TinyJit.reset`, for this instance."""
        self._program.reset()

    @property
    def captured(self) -> Captured | None:
        """As `TinyJit.captured`, for this instance."""
        return self._program.captured

    def __reduce__(self) -> tuple[object, tuple[object, str]]:
        # A capture belongs to its instance: another instance has its own.
        return getattr, (self.instance, self._name)


@dataclass(frozen=True)
class _Decorated:
    """Stands for the function that a TinyJit of its name in a module was made of."""

    module: str
    name: str

    def function(self) -> Callable[..., Any]:
        """The function. Raises `UserError` where the module has none of that name."""
        try:
            found = operator.attrgetter(self.name)(importlib.import_module(self.module))
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"TinyJit: the pickle names a function that is gone: {error}"
            ) from error
        if not isinstance(found, TinyJit):
            raise UserError(f"TinyJit: {self.module}.{self.name} is no TinyJit any more")
        fxn: Callable[..., Any] = found.fxn
        return fxn


def _not_saved(*args: object, **kwargs: object) -> NoReturn:
    """Stands for a function that no pickle can name, as one within another or a lambda."""
    raise UserStateError(
        "TinyJit: the function itself is not part of the pickle, as pickles hold only functions of "
        "modules: calls that fit the capture are replayed, others need a new TinyJit"
    )


def _reference_to(jitted: TinyJit[..., Any]) -> object:
    """What a pickle can hold of the function."""
    fxn: Any = jitted.fxn
    if not isinstance(fxn, FunctionType):
        return fxn
    try:
        found = operator.attrgetter(fxn.__qualname__)(sys.modules[fxn.__module__])
    except (KeyError, AttributeError):
        found = None
    if found is fxn:
        return fxn
    if isinstance(found, TinyJit) and found.fxn is fxn:
        return _Decorated(fxn.__module__, fxn.__qualname__)
    if jitted.captured is None:
        raise UserStateError(
            f"TinyJit: {fxn.__qualname__} is no function of a module, which is all that a pickle "
            f"can hold of a function, and nothing was captured yet: call it twice, or define it in "
            f"a module"
        )
    return _not_saved


def _parameter_names(fxn: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fxn).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


class _Program:
    """The calls of one function: plainly first, then captured, then replayed."""

    def __init__(self, names: Sequence[str], prune: bool) -> None:
        self.names = names
        self._prune = prune
        self._runner: int | None = None
        self.renew_lock()
        self.reset()
        _programs.add(self)

    def renew_lock(self) -> None:
        """For a forked child: a thread that held it is not there to release it."""
        self.lock = threading.RLock()
        if self._runner != threading.get_ident():
            self._runner = None

    def reset(self) -> None:
        self.has_run = False
        self.capture: Capture | None = None
        # Of a capture from a pickle: the tensors that it keeps.
        self.holders: list[TensorCore] = []

    @property
    def captured(self) -> Captured | None:
        return None if self.capture is None else self.capture.describe()

    def call(
        self, fxn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        if not config.integer("JIT") or active_recorder() is not None:
            return fxn(*args, **kwargs)
        with self.lock:
            if self._runner is not None:
                return fxn(*args, **kwargs)
            self._runner = threading.get_ident()
            try:
                return self._call(fxn, args, kwargs)
            finally:
                self._runner = None

    def _call(
        self, fxn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        arguments = read_arguments(self.names, args, kwargs)
        if self.capture is not None:
            return self.capture.replay(arguments)
        if not self.has_run:
            result = Result(fxn(*args, **kwargs), arguments.tensors)
            result.settle()
            self.has_run = True
            return result.build(arguments.tensors)
        given = arguments.tensors
        self.capture, result = captured_call(fxn, arguments, args, kwargs, self._prune)
        return result.build(given)


_programs: WeakSet[_Program] = WeakSet()


def _in_child() -> None:
    for program in _programs:
        program.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
