"""A mutant in this process, for as long as a block: the code of the functions that it edits."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from tinyref.algebra.rewrite import Rule
from tinyref.runtimes.kernel import forget_kernels
from tinyref_fuzz.judge.caches import forget
from tinyref_fuzz.mutants.mutant import Mutant


@contextlib.contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The functions of its module do what the edit says, and afterwards what they did before.

    Fails where the edit changes anything but functions, or none.
    """
    module = importlib.import_module(mutant.module)
    source = inspect.getsource(module)
    before = codes_of(compile(source, "module", "exec", dont_inherit=True))
    edited = compile(mutant.edit(source)[0], "module", "exec", dont_inherit=True)
    changed = {
        name: code for name, code in codes_of(edited).items() if is_other(before[name], code)
    }
    assert changed, f"{mutant.name} changes no function"
    functions = {name: function_named(module, name) for name in changed}
    kept = {name: function.__code__ for name, function in functions.items()}
    try:
        for name, function in functions.items():
            function.__code__ = changed[name]
        forget_all()
        yield
    finally:
        for name, function in functions.items():
            function.__code__ = kept[name]
        forget_all()


def forget_all() -> None:
    """Nodes keep facts of themselves for as long as they live, caches keep nodes alive."""
    forget()
    forget_kernels()
    gc.collect()


def codes_of(code: CodeType, prefix: str = "") -> dict[str, CodeType]:
    """The functions of a module and of its classes, by their qualified names."""
    found: dict[str, CodeType] = {}
    for each in code.co_consts:
        if isinstance(each, CodeType) and "<" not in each.co_name:
            name = f"{prefix}{each.co_name}"
            found[name] = each
            if not each.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
                found.update(codes_of(each, f"{name}."))
    return found


def is_other(first: CodeType, second: CodeType) -> bool:
    is_class = not first.co_flags & inspect.CO_OPTIMIZED
    return not is_class and (first.co_code, first.co_names, constants(first)) != (
        *(second.co_code, second.co_names),
        constants(second),
    )


def constants(code: CodeType) -> list[object]:
    return [
        (each.co_code, each.co_names, constants(each)) if isinstance(each, CodeType) else each
        for each in code.co_consts
    ]


def function_named(module: ModuleType, name: str) -> FunctionType:
    found: object = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "__func__", found)
    found = found.function if isinstance(found, Rule) else found
    unwrapped = inspect.unwrap(found)  # type: ignore[arg-type]
    assert isinstance(unwrapped, FunctionType), f"{name} is no function"
    return unwrapped
