"""TinyJit: a function of tensors that runs as the list of kernels that it was seen to run."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload

from tinyref import config
from tinyref.engine.capture import active_recorder
from tinyref.errors import UserError, UserStateError, UserTypeError
from tinyref.tensor.jit.arguments import Arguments, Results
from tinyref.tensor.jit.capture import Capture, Captured, capture_call
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
        self._calls = _Calls(_parameter_names(fxn), self.prune)
        self._methods: dict[int, tuple[weakref.ref[object], _Calls]] = {}
        self._attribute = getattr(fxn, "__name__", "")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self._calls.call(self.fxn, args, kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> TinyJit[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> JitMethod: ...
    def __get__(self, instance: object | None, owner: type) -> TinyJit[P, R] | JitMethod:
        """Return a method: each instance has a capture of its own."""
        return self if instance is None else JitMethod(self, instance)

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def _calls_of(self, instance: object) -> _Calls:
        identity = id(instance)

        def forget(reference: weakref.ref[object]) -> None:
            # Another instance may have its identity by now.
            if self._methods.get(identity, (None,))[0] is reference:
                self._methods.pop(identity, None)

        with graph_lock:
            entry = self._methods.get(identity)
            if entry is None or entry[0]() is not instance:
                try:
                    reference = weakref.ref(instance, forget)
                except TypeError:
                    raise UserTypeError(
                        f"TinyJit: a {type(instance).__name__} takes no weak references: "
                        f"add '__weakref__' to its slots"
                    ) from None
                calls = _Calls(_parameter_names(self.fxn)[1:], self.prune)
                entry = self._methods[identity] = (reference, calls)
            return entry[1]

    def reset(self) -> None:
        """Forget the capture: the next call runs plainly, the one after captures again."""
        self._calls.reset()

    @property
    def captured(self) -> Captured | None:
        """What was captured; None before the second call."""
        return self._calls.captured

    def __getstate__(self) -> dict[str, object]:
        return {
            "version": VERSION,
            "fxn": _saved_function(self),
            "prune": self.prune,
            "calls": self._calls.__dict__,
        }

    def __setstate__(self, state: object) -> None:
        """Become the TinyJit that was saved: it replays what was captured.

        Raises `UserError` for another version.
        """
        version = state.get("version") if isinstance(state, dict) else None
        if version != VERSION or not isinstance(state, dict):
            raise UserError(f"TinyJit: the pickle is of version {version!r}, accepted is {VERSION}")
        if state.keys() != {"version", "fxn", "prune", "calls"}:
            raise UserError(f"TinyJit: the pickle has the entries {sorted(map(str, state))}")
        fxn = state["fxn"]
        TinyJit.__init__(
            self, _function_named(*fxn) if isinstance(fxn, tuple) else fxn, prune=state["prune"]
        )
        self._calls.__dict__.update(state["calls"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy of the capture with state of its own, and of an object that is called."""
        twin = type(self)(copy.deepcopy(self.fxn, memo), prune=self.prune)
        memo[id(self)] = twin
        twin._calls.__dict__.update(copy.deepcopy(self._calls.__dict__, memo))
        return twin


class JitMethod:
    """A captured function bound to one instance."""

    def __init__(self, jit: TinyJit[..., Any], instance: object) -> None:
        self.fxn = jit.fxn
        self.instance = instance
        self._name = jit._attribute
        self._calls = jit._calls_of(instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.call(functools.partial(self.fxn, self.instance), args, kwargs)

    def reset(self) -> None:
        """Forget the capture for this instance, as `TinyJit.reset` does."""
        self._calls.reset()

    @property
    def captured(self) -> Captured | None:
        """What was captured for this instance, as `TinyJit.captured`."""
        return self._calls.captured

    def __reduce__(self) -> tuple[object, tuple[object, str]]:
        # A capture belongs to its instance: another instance has its own.
        return getattr, (self.instance, self._name)


def _saved_function(jit: TinyJit[..., Any]) -> object:
    """Return what a pickle can hold of the function: module and name, or an object that is called.

    Raises `UserStateError` for a function of no module of which nothing was captured.
    """
    fxn: Any = jit.fxn
    if not isinstance(fxn, FunctionType):
        return fxn
    try:
        if _function_named(fxn.__module__, fxn.__qualname__) is fxn:
            return fxn.__module__, fxn.__qualname__
    except UserError:
        pass
    if jit.captured is None:
        raise UserStateError(
            f"TinyJit: {fxn.__qualname__} is no function of a module, which is all that a pickle "
            f"can hold of a function, and nothing was captured yet: call it twice, or define it in "
            f"a module"
        )
    return _not_saved


def _function_named(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module, or the one that a TinyJit of this name was made of.

    Raises `UserError` where the module has none of that name.
    """
    try:
        value = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise UserError(f"TinyJit: the pickle names a function that is gone: {error}") from error
    return cast(Callable[..., Any], value.fxn if isinstance(value, TinyJit) else value)


def _not_saved(*args: object, **kwargs: object) -> NoReturn:
    """Stand for a function that no pickle can name, as one within another or a lambda."""
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


class _Calls:
    """The calls of one function: plainly first, then captured, then replayed."""

    def __init__(self, names: Sequence[str], prune: bool) -> None:
        self.names = names
        self._prune = prune
        self.reset()

    def reset(self) -> None:
        self.has_run = False
        self.capture: Capture | None = None

    @property
    def captured(self) -> Captured | None:
        return None if self.capture is None else self.capture.describe()

    def call(
        self, fxn: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        if not config.integer("JIT") or active_recorder() is not None:
            return fxn(*args, **kwargs)
        arguments = Arguments.of(self.names, args, kwargs)
        if self.capture is None and not self.has_run:
            results = Results(fxn(*args, **kwargs), arguments.tensors)
            results.compute((), None)
            self.has_run = True
            return results.build(arguments.tensors)
        # Another thread may capture it first.
        with graph_lock:
            if self.capture is None:
                self.capture, returned = capture_call(fxn, arguments, args, kwargs, self._prune)
                return returned
            return self.capture.replay(arguments)
