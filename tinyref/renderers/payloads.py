"""Checked access to the data that renderers need of a node or a program."""

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

# Compilers call these functions implicitly, so no kernel may have their names.
MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset", "memcmp"})
LONGEST_NAME = 255


def is_identifier(name: str) -> bool:
    """Return True for a C identifier: ASCII letters, digits and _, no digit first."""
    return name.isascii() and name.isidentifier()


def entry_name(name: str, taken: Collection[str], language: str) -> str:
    """Return the name of a kernel's function, unchanged.

    Raises `UserError` if `language` does not allow it or it is among the `taken` names.
    """
    checked_name(name, language)
    # Names that begin with _ belong to compilers and C libraries.
    if name.startswith("_") or name in taken or name in MEMORY_FUNCTIONS:
        raise UserError(
            f"program: {name!r} cannot be the name of {language} function: it has a meaning there"
        )
    return name


def checked_name(name: str, language: str) -> str:
    """Return an identifier of at most `LONGEST_NAME` characters. Raises `UserError` otherwise."""
    if not is_identifier(name) or len(name) > LONGEST_NAME:
        text = name if len(name) <= LONGEST_NAME else f"{name[:20]}..."
        raise UserError(
            f"program: {text!r} cannot be the name of {language} function: accepted are up to "
            f"{LONGEST_NAME} letters, digits and _ of ASCII, no digit first"
        )
    return name


def payload_of(node: UOp, kind: type[T]) -> T:
    """Return the payload of `node`. Raises `UserError` if it is not a `kind`."""
    if not isinstance(node.arg, kind):
        raise UserError(f"{node.op.name}: needs a payload {kind.__name__}, got {node.arg!r}")
    return node.arg


def element_of(node: UOp) -> DType:
    """Return the type of the elements that `node` points to. Raises `UserError` for no pointer."""
    if not isinstance(node.dtype, PtrDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is not a pointer")
    if isinstance(node.dtype, ImageDType):
        raise UserError(f"{node.op.name}: {node.dtype.name} is an image: accepted are buffers")
    return node.dtype.base


def parameter_position(program: Program, node: UOp) -> int:
    """Return the position of a DEFINE_GLOBAL's buffer among the arguments of a launch.

    Raises `UserError` unless the program has a parameter as large: a launch checks buffers only
    against parameters.
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
    available = parameter.dtype.itemsize * parameter.size
    if parameter.slot in slots_in_words(program):
        available = WORD.itemsize * word_count(parameter.dtype, parameter.size, is_shifted=True)
    if available < needed:
        raise UserError(
            f"DEFINE_GLOBAL of slot {parameter.slot}: has {needed} bytes, its parameter {available}"
        )


def variable_position(program: Program, node: UOp) -> int:
    """Return the position of `node` among a launch's variables. Raises `UserError` if missing."""
    if node not in program.variables:
        raise UserError(f"DEFINE_VAR: the program does not list {node.arg} as a variable")
    return program.variables.index(node)


def group_position(program: Program, node: UOp) -> int:
    """Return the position of a SPECIAL's launch index among the variables: after all others.

    Raises `UserError` for a launch index that a host lacks: it calls a kernel once for every group
    of dimension 0, and a group is one work-item.
    """
    special = payload_of(node, SpecialArg)
    if special.scope != "group" or special.dim != 0:
        raise UserError(
            f"SPECIAL: a host has no {special.scope} index of dimension {special.dim}: "
            "accepted are groups of dimension 0"
        )
    return len(program.variables)


def runs_at_least_once(opened: UOp) -> bool:
    """Return True if the loop of a RANGE certainly runs at least once."""
    return bounds(opened.src[0])[0] > 0


def name_of_value(names: Mapping[UOp, T], node: UOp) -> T:
    """Return the name of `node` in a source. Raises `UserError` if a program uses it too early."""
    name = names.get(node)
    if name is None:
        raise UserError(f"{node.op.name}: is used before it is computed, or gives no value")
    return name
