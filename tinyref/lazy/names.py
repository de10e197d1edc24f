"""Which function of the user a node of the tensor graph comes from: for schedules and messages.

A name is no part of a node: equal nodes are one object whoever made them, and keep the name of the
first who did.
"""

from __future__ import annotations

from tinyref.uops.node import UOp

_NAME = "the user's function"
_LINE = "the user's line"


def name_of(node: UOp) -> str:
    """The name of the function that made `node`; empty where that is not known."""
    found: str = node.facts.get(_NAME, "")
    return found


def give_name(node: UOp, name: str) -> None:
    """Names `node`, unless it has a name, or no sources: then it belongs to all who use it."""
    if name and may_be_named(node):
        node.facts.setdefault(_NAME, name)


def leave_unnamed(node: UOp) -> None:
    """From now on `node` has the name that it has, be it none."""
    node.facts.setdefault(_NAME, "")


def may_be_named(node: UOp) -> bool:
    """Whether `give_name` names it."""
    return bool(node.src) and _NAME not in node.facts


def line_of(node: UOp) -> str:
    """The file and line that called that function; empty where lines are not noted."""
    found: str = node.facts.get(_LINE, "")
    return found


def give_line(node: UOp, line: str) -> None:
    """Notes the line of a node that has a name."""
    if name_of(node):
        node.facts.setdefault(_LINE, line)


def keep_name(old: UOp, new: UOp) -> None:
    """Names `new`, which takes the place of `old`, like it."""
    if old is not new:
        give_name(new, name_of(old))
        if line := line_of(old):
            give_line(new, line)
