"""TinyJit: a function of tensors that replays the kernels of an earlier call."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import operator
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Generic, NoReturn, ParamSpec, Self, TypeVar, cast

from tinyref import config
from tinyref.engine.capture import active_recorder
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.tensor.jit.arguments import Arguments
from tinyref.tensor.jit.capture import Capture, Captured, capture_call
from tinyref.tensor.jit.results import Results
from tinyref.tensor.registry import graph_lock

VERSION = 1

P = ParamSpec("P")
R = TypeVar("R")


class TinyJit(Generic[P, R]):
    """A function that runs plainly once, is captured in its second call, and then replayed.

    Use it as a decorator of a function or method, or as a call: `step = TinyJit(step)`. Arguments
    are tensors and bound variables, also in lists, tuples and dicts. Their values may change from
    call to call, their shapes, types and devices may not. Any other argument, and every decision
    of Python, is part of the capture. A replay updates tensors that the function assigns to in
    place. The function returns tensors, numbers, texts and None, also in lists, tuples and dicts.
    Each returned tensor has memory of its own and no gradient; all else is as captured.

    A call that does not fit the capture raises `UserError`. So do reading elements within the
    function, and replacing a tensor instead of assigning to it. If the function assigns to an
    argument, it has the new elements after the call. Such an argument may have no views and may
    share no memory with another argument. With the flag JIT=0, and within the capture of another
    TinyJit, the function runs plainly. Threads take turns.

    With `prune`, kernels that depend on no argument, and on nothing that the function assigns to,
    run only in the capture. The tensors that they read must not change afterwards.

    Examples:
        >>> from tinyref import TinyJit
        >>> double = TinyJit(lambda x: (x * 2).realize())
        >>> [double(Tensor([float(number)])).item() for number in range(4)]
        [0.0, 2.0, 4.0, 6.0]
    """

    def __init__(self, fxn: Callable[P, R], *, prune: bool = False) -> None:
        if not callable(fxn):
            raise UserTypeError(f"TinyJit: fxn is a {type(fxn).__name__}: accepted is a function")
        functools.update_wrapper(self, fxn)
        self.fxn = fxn
        self.prune = bool(prune)
        self._names = _parameter_names(fxn)
        # For a method: the TinyJit of each instance, by the instance's id.
        self._methods: dict[int, TinyJit[..., R]] = {}
        self._instance: weakref.ref[object] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the capture: the next call runs plainly, the one after captures again."""
        self._has_run = False
        self._capture: Capture | None = None

    @property
    def captured(self) -> Captured | None:
        """Return a description of the capture; None before the second call."""
        return None if self._capture is None else self._capture.describe()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not config.integer("JIT") or active_recorder() is not None:
            return self.fxn(*args, **kwargs)
        if self._instance is None:
            return cast(R, self._call(self.fxn, args, kwargs))
        instance, *rest = cast(tuple[Any, ...], args)
        if self._instance() is not instance:
            # A deep copy of a bound method holds this TinyJit and a copy of the instance.
            return cast(R, getattr(instance, self.__name__)(*rest, **kwargs))
        fxn: Callable[..., object] = self.fxn
        return cast(R, self._call(functools.partial(fxn, instance), rest, kwargs))

    def _call(self, fxn: Callable[..., object], args: Any, kwargs: Any) -> object:
        arguments = Arguments.of(self._names, args, kwargs)
        if self._capture is None and not self._has_run:
            results = Results(fxn(*args, **kwargs), arguments.tensors)
            results.compute()
            self._has_run = True
            return results.build(arguments.tensors)
        # Another thread may capture the function first.
        with graph_lock:
            if self._capture is None:
                self._capture, returned = capture_call(fxn, arguments, args, kwargs, self.prune)
                return returned
            return self._capture.replay(arguments)

    def __get__(self, instance: object | None, owner: type) -> TinyJit[..., R]:
        """Return the method of an instance. Each instance has a capture of its own."""
        if instance is None:
            return self
        number = id(instance)
        with graph_lock:
            if number not in self._methods:
                jit: TinyJit[..., R] = TinyJit(self.fxn, prune=self.prune)
                jit.__name__, jit._names = self.__name__, self._names[1:]
                try:
                    jit._instance = weakref.ref(instance, lambda _: self._methods.pop(number, None))
                except TypeError:
                    raise UserTypeError(
                        f"TinyJit: a {type(instance).__name__} cannot be weakly referenced: "
                        f"add '__weakref__' to its __slots__"
                    ) from None
                self._methods[number] = jit
            return cast(TinyJit[..., R], MethodType(self._methods[number], instance))

    def __set_name__(self, owner: type, name: str) -> None:
        # Pickles and copies look a method up by this name.
        self.__name__ = name

    def __getstate__(self) -> dict[str, object]:
        names = ("prune", "_names", "_has_run", "_capture")
        saved = {name: getattr(self, name) for name in names}
        return {"version": VERSION, "fxn": _saved_function(self), **saved}

    def __setstate__(self, state: object) -> None:
        """Restore a saved TinyJit with its capture.

        Raises `UserError` for another version and for a state that lacks a member.
        """
        version = state.get("version") if isinstance(state, dict) else None
        if version != VERSION or not isinstance(state, dict):
            raise UserError(f"TinyJit: the pickle has version {version!r}, accepted is {VERSION}")
        members = {"fxn", "prune", "_names", "_has_run", "_capture"}
        if missing := sorted(members - state.keys()):
            raise UserError(f"TinyJit: the pickle is damaged: it has no {', '.join(missing)}")
        fxn = state["fxn"]
        TinyJit.__init__(
            self, _function_named(*fxn) or _not_saved if isinstance(fxn, tuple) else fxn
        )
        vars(self).update({name: state[name] for name in members - {"fxn"}})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy with a copy of the capture, its state and the callable object."""
        twin = type(self)(copy.deepcopy(self.fxn, memo), prune=self.prune)
        memo[id(self)] = twin
        twin._has_run, twin._capture = self._has_run, copy.deepcopy(self._capture, memo)
        return twin


def _saved_function(jit: TinyJit[..., Any]) -> object:
    """Return a form of the function for a pickle: module and name, or a callable object.

    Raises `UserStateError` if no module has the function by its name and it was not captured.
    """
    fxn: Any = jit.fxn
    if not isinstance(fxn, FunctionType):
        return fxn
    name = fxn.__module__, fxn.__qualname__
    if _function_named(*name) is fxn:
        return name
    if jit.captured is None:
        raise UserStateError(
            f"TinyJit: cannot be saved: {fxn.__qualname__} is not a function of a module and was "
            f"not captured yet: call it twice to save its capture, or define it in a module"
        )
    return _not_saved


def _function_named(module: str, name: str) -> Callable[..., Any] | None:
    """Return the function of this name in a module; for a TinyJit, the function inside."""
    try:
        value = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return cast(Callable[..., Any], value.fxn if isinstance(value, TinyJit) else value)


def _not_saved(*args: object, **kwargs: object) -> NoReturn:
    """Replace a function that a pickle cannot hold, such as a lambda or a nested function."""
    raise UserStateError(
        "TinyJit: the pickle does not hold the function itself, as no module has it by its name: "
        "calls that fit the capture are replayed, other calls need a new TinyJit"
    )


def _parameter_names(fxn: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fxn).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]
