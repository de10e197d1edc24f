"""TinyJit: a function of tensors that runs as the list of kernels that it was seen to run."""

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
    """Run `fxn` plainly once, capture its kernels in the second call, then replay only those.

    As a decorator of a function or a method, or as a call: `step = TinyJit(step)`. Tensors and
    bound variables, in arguments and in lists, tuples and dicts in them, may change from call to
    call, but no shape, type or device; any other argument, like all else that Python decides, is
    part of the capture. Tensors that the function assigns to in place go on being updated. It
    returns tensors, numbers, texts and None in lists, tuples and dicts: the tensors have memory
    of their own and no gradients, all else is as it was captured.

    A call that fits no replay raises `UserError`; so do reading elements within the function,
    and replacing tensors instead of assigning to them. An argument that the function assigns to
    has the new elements after the call, as in a plain one, but shares no memory with another
    argument, and has no views. Within another TinyJit's capture, and with the flag JIT=0, the
    function runs plainly. Threads take turns.

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
        functools.update_wrapper(self, fxn)
        self.fxn = fxn
        self.prune = bool(prune)
        self._names = _parameter_names(fxn)
        # For a method: those of each instance, by its identity. Each knows its instance.
        self._methods: dict[int, TinyJit[..., R]] = {}
        self._instance: weakref.ref[object] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the capture: the next call runs plainly, the one after captures again."""
        self._has_run = False
        self._capture: Capture | None = None

    @property
    def captured(self) -> Captured | None:
        """What was captured; None before the second call."""
        return None if self._capture is None else self._capture.describe()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not config.integer("JIT") or active_recorder() is not None:
            return self.fxn(*args, **kwargs)
        if self._instance is None:
            return cast(R, self._call(self.fxn, args, kwargs))
        instance, *rest = cast(tuple[Any, ...], args)
        if self._instance() is not instance:
            # A deep copy of a method is this one, bound to a copy of the instance.
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
        # Another thread may capture it first.
        with graph_lock:
            if self._capture is None:
                self._capture, returned = capture_call(fxn, arguments, args, kwargs, self.prune)
                return returned
            return self._capture.replay(arguments)

    def __get__(self, instance: object | None, owner: type) -> TinyJit[..., R]:
        """Return a method: each instance has a capture of its own."""
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
                        f"TinyJit: a {type(instance).__name__} takes no weak references: "
                        f"add '__weakref__' to its slots"
                    ) from None
                self._methods[number] = jit
            return cast(TinyJit[..., R], MethodType(self._methods[number], instance))

    def __set_name__(self, owner: type, name: str) -> None:
        # By this name pickles and copies find a method.
        self.__name__ = name

    def __getstate__(self) -> dict[str, object]:
        names = ("prune", "_names", "_has_run", "_capture")
        saved = {name: getattr(self, name) for name in names}
        return {"version": VERSION, "fxn": _saved_function(self), **saved}

    def __setstate__(self, state: object) -> None:
        """Become the TinyJit that was saved: it replays what was captured.

        Raises `UserError` for another version and for a state that lacks a member.
        """
        version = state.get("version") if isinstance(state, dict) else None
        if version != VERSION or not isinstance(state, dict):
            raise UserError(f"TinyJit: the pickle is of version {version!r}, accepted is {VERSION}")
        members = {"fxn", "prune", "_names", "_has_run", "_capture"}
        if missing := sorted(members - state.keys()):
            raise UserError(f"TinyJit: the pickle is damaged: it has no {', '.join(missing)}")
        fxn = state["fxn"]
        TinyJit.__init__(
            self, _function_named(*fxn) or _not_saved if isinstance(fxn, tuple) else fxn
        )
        vars(self).update({name: state[name] for name in members - {"fxn"}})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy of the capture with state of its own, and of an object that is called."""
        twin = type(self)(copy.deepcopy(self.fxn, memo), prune=self.prune)
        memo[id(self)] = twin
        twin._has_run, twin._capture = self._has_run, copy.deepcopy(self._capture, memo)
        return twin


def _saved_function(jit: TinyJit[..., Any]) -> object:
    """Return what a pickle can hold of the function: module and name, or an object that is called.

    Raises `UserStateError` for a function of no module of which nothing was captured.
    """
    fxn: Any = jit.fxn
    if not isinstance(fxn, FunctionType):
        return fxn
    name = fxn.__module__, fxn.__qualname__
    if _function_named(*name) is fxn:
        return name
    if jit.captured is None:
        raise UserStateError(
            f"TinyJit: {fxn.__qualname__} is no function of a module, which is all that a pickle "
            f"can hold of a function, and nothing was captured yet: call it twice, or define it in "
            f"a module"
        )
    return _not_saved


def _function_named(module: str, name: str) -> Callable[..., Any] | None:
    """Return the function of a module, or the one that a TinyJit of this name was made of."""
    try:
        value = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return cast(Callable[..., Any], value.fxn if isinstance(value, TinyJit) else value)


def _not_saved(*args: object, **kwargs: object) -> NoReturn:
    """Stand for a function that no module has by its name, as one within another or a lambda."""
    raise UserStateError(
        "TinyJit: the function itself is not part of the pickle, as pickles hold only functions of "
        "modules: calls that fit the capture are replayed, others need a new TinyJit"
    )


def _parameter_names(fxn: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fxn).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]
