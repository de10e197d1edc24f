"""What the renderers read off a node or a program, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from tinyref.algebra.bounds import bounds
from tinyref.dtype import DType, ImageDType, PtrDType
from tinyref.errors import UserError
from tinyref.uops.node import UOp
from tinyref.uops.payload import SlotArg, SpecialArg
from tinyref.uops.program import WORD, Parameter, Program, slots_in_words, word_count

T = TypeVar("T")

# Compilers call these of their own accord: no kernel may stand in for them.
MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "memcmp"})
LONGEST_NAME = 255


def is_identifier(name: str) -> bool:
    """Whether `name` is one in C: letters, digits and _ of ASCII, no digit first."""
    return name.isascii() and name.isidentifier()


def entry_name(name: str, taken: Collection[str], language: str) -> str:
    """The name of a kernel's function, as it is.

    Raises `UserError` for one that `language` cannot have, or that is among the `taken`.
    """
    checked_name(name, language)
    # What begins with _ belongs to compilers and C libraries.
    if name.startswith("_") or name in taken or name in MEMORY_FUNCTIONS:
        raise UserError(
            f"program: {name!r} cannot be the name of {language} function: it has a meaning there"
        )
    return name


def checked_name(name: str, language: str) -> str:
    """A name that is an identifier of at most `LONGEST_NAME` characters; else `UserError`."""
    if not is_identifier(name) or len(name) > LONGEST_NAME:
        shown = name if len(name) <= LONGEST_NAME else f"{name[:20]}..."
        raise UserError(
            f"program: {shown!r} cannot be the name of {language} function: accepted are up to "
            f"{LONGEST_NAME} letters, digits and _ of ASCII, no digit first"
        )
    return name


def payload_of(node: UOp, kind: type[T]) -> T:
    """The payload of `node`. Raises `UserError` when it is not a `kind`."""
    if not isinstance(node.arg, kind):
        raise UserError(f"{node.op.name}: needs a payload {kind.__name__}, got {node.arg!r}")
    return node.arg


def element_of(node: UOp) -> DType:
    """The type of the elements that `node` points to. Raises `UserError` for no pointer."""
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
    if isinstance(node.dtype, ImageDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is an image: accepted are buffers")
    return node.dtype.base


def parameter_position(program: Program, node: UOp) -> int:
    """Where the buffer of the DEFINE_GLOBAL `node` stands among the arguments of a launch.

    Raises `UserError` unless the program has a parameter that is as large: a launch checks buffers
    against parameters alone.
    """
    slot = payload_of(node, SlotArg).slot
    known = [parameter.slot for parameter in program.parameters]
    if slot not in known:
        raise UserError(
            f"DEFINE_GLOBAL of slot {slot}: the program has parameters for slots {known}"
        )
    position = known.index(slot)
    _check_size(program, program.parameters[position], node)
    return position


def _check_size(program: Program, parameter: Parameter, node: UOp) -> None:
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
    needed = node.dtype.base.itemsize * node.dtype.size
    given = parameter.dtype.itemsize * parameter.size
    if parameter.slot in slots_in_words(program):
        given = WORD.itemsize * word_count(parameter.dtype, parameter.size, is_shifted=True)
    if given < needed:
        raise UserError(
            f"DEFINE_GLOBAL of slot {parameter.slot}: has {needed} bytes, its parameter {given}"
        )


def variable_position(program: Program, node: UOp) -> int:
    """Where `node` stands among the variables of a launch; raises `UserError` if it does not."""
    if node not in program.variables:
        raise UserError(f"DEFINE_VAR: the program does not list {node.arg} as a variable")
    return program.variables.index(node)


def group_position(program: Program, node: UOp) -> int:
    """Where the launch index of the SPECIAL `node` stands among the variables: after all others.

    Raises `UserError` for a launch index that a host has not: it calls a kernel once for every
    group of dimension 0, and a group is one work-item.
    """
    special = payload_of(node, SpecialArg)
    if special.scope != "group" or special.dim != 0:
        raise UserError(
            f"SPECIAL: a host has no {special.scope} index of dimension {special.dim}: "
            "accepted are groups of dimension 0"
        )
    return len(program.variables)


def runs_at_least_once(opened: UOp) -> bool:
    """Whether the loop of a RANGE certainly runs at least once."""
    return bounds(opened.src[0])[0] > 0


def name_of_value(names: Mapping[UOp, T], node: UOp) -> T:
    """What a source calls `node`. Raises `UserError` for a program that uses it too early."""
    name = names.get(node)
    if name is None:
        raise UserError(f"{node.op.name}: is used before it is computed, or gives no value")
    return name
