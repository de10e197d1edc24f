"""A mutant switched on late: the code of one function is replaced, in a process that imported it.

That is the same as an edit at import where nothing has run yet that the edit changes. Python's
function objects keep their identity, so that whoever holds one calls the edited code.
"""

from __future__ import annotations

import builtins
import gc
import sys
from collections.abc import Container, Iterator
from types import CodeType, FunctionType
from typing import Any

from tinyref_fuzz.mutants.blocks import Block, find_block
from tinyref_fuzz.mutants.mechanical import MechanicalMutant, source_of
from tinyref_fuzz.mutants.mutant import PROBE, Reached, probed, switch_on


def can_be_late(mutant: MechanicalMutant, has_run: Container[int]) -> bool:
    """Whether a process in which these blocks have run shows all that the mutant does.

    What an inner function or lambda does is fixed as its outer function runs.
    """
    if mutant.module not in sys.modules:
        return True
    block = find_block(mutant, source_of(mutant.module))
    if block is None or block.number in has_run:
        return False
    return not (block.is_nested and block.entry in has_run)


def plant_late(mutant: MechanicalMutant) -> Reached | None:
    """Plants it, where `can_be_late`; None where the function is not to be found."""
    if mutant.module not in sys.modules:
        return switch_on(mutant)
    source = source_of(mutant.module)
    block = find_block(mutant, source)
    path = sys.modules[mutant.module].__file__
    if block is None or path is None:
        return None
    reached = Reached()
    setattr(builtins, PROBE, reached)
    edited, line = mutant.edit(source)
    code = compile(probed(edited, line), path, "exec", dont_inherit=True)
    new = {each.co_firstlineno: each for each in _codes(code) if each.co_qualname == block.function}
    found = [each for each in _all_objects() if _is_of(each, path, block)]
    for each in found:
        replacement = new.get(each.__code__.co_firstlineno)
        if replacement is None or len(replacement.co_freevars) != len(each.__code__.co_freevars):
            return None
    for each in found:
        each.__code__ = new[each.__code__.co_firstlineno]
    return reached if found else None


def _all_objects() -> list[Any]:
    """All that the collector knows, also what is frozen, as pytest's collected tests are."""
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    found = gc.get_objects()
    if is_frozen:
        gc.freeze()
    return found


def _is_of(value: object, path: str, block: Block) -> bool:
    if type(value) is not FunctionType:
        return False
    code = value.__code__
    return code.co_filename == path and code.co_qualname == block.function


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
