"""The one node of every dialect: frozen, hash-consed, so equal nodes are the same object."""

from __future__ import annotations

import functools
import hashlib
import weakref
from collections.abc import Callable, Container, Hashable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeVar

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.uops.ops import Ops
from tinyref.uops.payload import Payload, RangeArg, VarArg

T = TypeVar("T")
N = TypeVar("N", bound=Hashable)


class _NodeEntry(weakref.ref["UOp"]):
    """Weak reference to a node, with the key of the node in `_entries`."""

    __slots__ = ("key",)

    key: tuple[Any, ...]


# The nodes that are alive, by their members. A WeakValueDictionary does the same, but a look-up
# here is a single call, and most nodes are looked up often.
_entries: dict[tuple[Any, ...], _NodeEntry] = {}


def _forget(entry: _NodeEntry, entries: dict[tuple[Any, ...], _NodeEntry] = _entries) -> None:
    """Remove the entry of a node that has been freed; its key may have a newer entry by now.

    A lock is not needed, because a dictionary removes a key in one step. A fork would have to renew
    a lock, and a finaliser might wait for it. A newer entry is rare and is put back at once.
    """
    removed = entries.pop(entry.key, entry)
    if removed is not entry:
        entries.setdefault(entry.key, removed)


def _intern(key: tuple[Any, ...], node: UOp) -> UOp:
    """Return the one node of `key`: another thread may have built it in the meantime."""
    entry = _NodeEntry(node, _forget)
    entry.key = key
    while True:
        # A dictionary looks and inserts in one step.
        first = _entries.setdefault(key, entry)
        if first is entry:
            return node
        existing = first()
        if existing is not None:
            return existing
        # The earlier node has been freed, but its entry is still there.
        _forget(first)


def forget_facts() -> None:
    """Empty `facts` of every node that is alive, so that all layers compute their facts again."""
    for entry in list(_entries.values()):
        node = entry()
        if node is not None and node.facts:
            node.facts.clear()


class UOp:
    """`(op, dtype, src, arg)`: an operation, its result type, its sources and its typed payload.

    Nodes are immutable and interned: building an equal node returns the existing one, so `is` and
    the identity hash are structural equality. A layer stores what it derives from a node in `facts`
    (see `node_fact`).
    """

    __slots__ = ("__weakref__", "arg", "dtype", "facts", "op", "src")

    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Payload
    facts: dict[object, Any]

    def __new__(
        cls,
        op: Ops,
        dtype: DType = dtypes.void,
        src: tuple[UOp, ...] = (),
        arg: Payload = None,
    ) -> UOp:
        key = (op, dtype, src, arg)
        entry = _entries.get(key)
        if entry is not None:
            existing = entry()
            if existing is not None:
                return existing
        node = object.__new__(cls)
        node.op = op
        node.dtype = dtype
        node.src = src
        node.arg = arg
        node.facts = {}
        return _intern(key, node)

    def __repr__(self) -> str:
        size = _size_text(self)
        if size is not None:
            return size
        arg = "" if self.arg is None else f", {self.arg}"
        return f"UOp({self.op.name}, {self.dtype.name}, {len(self.src)} sources{arg})"

    def __reduce__(self) -> tuple[type[UOp], tuple[Ops, DType, tuple[UOp, ...], Payload]]:
        if self.op is not Ops.CONST and _size_text(self) is None:
            # A deep graph overflows pickle's stack, and a pickle from outside can run code.
            raise TypeError("UOp: nodes do not pickle; save them with tinyref.formats.text")
        return UOp, (self.op, self.dtype, self.src, self.arg)

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: object) -> UOp:
        return self

    def replace(
        self,
        *,
        dtype: DType | None = None,
        src: tuple[UOp, ...] | None = None,
        arg: Payload = None,
    ) -> UOp:
        """Return the same node with some members changed; an `arg` of None keeps the payload."""
        return UOp(
            self.op,
            self.dtype if dtype is None else dtype,
            self.src if src is None else src,
            self.arg if arg is None else arg,
        )

    def with_sources(self, src: tuple[UOp, ...]) -> UOp:
        """Return the same node over other sources; a VIEW takes the type of its memory."""
        if src == self.src:
            return self
        dtype = src[0].dtype if self.op is Ops.VIEW else self.dtype
        return UOp(self.op, dtype, src, self.arg)

    def toposort(self) -> list[UOp]:
        """Return every node reachable from this one, sources before users, each once."""
        below = self.facts.get(toposort)
        if below is None:
            below = sources_first(self)[:-1]
            # The list leaves out the node itself, which would otherwise keep itself alive.
            self.facts[toposort] = below
        return [*below, self]

    def __bool__(self) -> bool:
        raise TypeError("UOp: a node has no truth value; compare with `is` or read its range")

    # Arithmetic of sizes. Equal sizes in normal form are the same node, however they were computed.

    def __add__(self, other: sint) -> sint:
        return _arithmetic("+", self, other)

    def __radd__(self, other: sint) -> sint:
        return _arithmetic("+", other, self)

    def __sub__(self, other: sint) -> sint:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: sint) -> sint:
        return _arithmetic("-", other, self)

    def __mul__(self, other: sint) -> sint:
        return _arithmetic("*", self, other)

    def __rmul__(self, other: sint) -> sint:
        return _arithmetic("*", other, self)

    def __neg__(self) -> sint:
        return _arithmetic("*", self, -1)

    def __floordiv__(self, other: sint) -> sint:
        return _arithmetic("//", self, other)

    def __rfloordiv__(self, other: sint) -> sint:
        return _arithmetic("//", other, self)

    def __mod__(self, other: sint) -> sint:
        return _arithmetic("%", self, other)

    def __rmod__(self, other: sint) -> sint:
        return _arithmetic("%", other, self)


def _no_arithmetic(sign: str, left: object, right: object) -> sint:
    raise UserError(f"size {sign}: arithmetic of sizes needs tinyref.algebra: import it first")


def _no_text(node: UOp) -> str | None:
    return None


# The algebra of sizes is a room above. It sets here what the operators of a node do, and how a size
# over symbolic variables prints (None for any other node).
_arithmetic: Callable[[str, object, object], sint] = _no_arithmetic
_size_text: Callable[[UOp], str | None] = _no_text


def use_algebra(
    arithmetic: Callable[[str, object, object], sint], size_text: Callable[[UOp], str | None]
) -> None:
    """Use `arithmetic(sign, left, right)` to compute + - * // and % of sizes.

    `size_text(node)` returns the text of a node that is a size, and None for any other.
    """
    global _arithmetic, _size_text  # noqa: PLW0603 - set once, as the algebra is imported
    _arithmetic = arithmetic
    _size_text = size_text


# A size or position: a number, or an `index` expression over symbolic variables.
sint = int | UOp


def toposort(roots: Iterable[N], needs: Callable[[N], Iterable[N]] = attrgetter("src")) -> list[N]:
    """Return every node reachable from `roots`, sources before users, each once.

    `needs` returns what must come before a node: by default its sources. It is called once for each
    node, users before sources. No recursion, so a graph may have any depth.
    """
    order: list[N] = []
    seen: set[N] = set()
    begun: list[N] = []
    # None marks the end of what the last begun node needs.
    stack: list[N | None] = []
    for root in roots:
        stack.append(root)
        while stack:
            node = stack.pop()
            if node is None:
                order.append(begun.pop())
            elif node not in seen:
                seen.add(node)
                needed = tuple(needs(node))
                if needed:
                    begun.append(node)
                    stack.append(None)
                    stack += reversed(needed)
                else:
                    order.append(node)
    return order


def sources_first(root: UOp, known: Container[UOp] = (), fact: object = None) -> list[UOp]:
    """Return what `toposort` returns for one root, without a call for each node.

    The walk does not enter the sources of nodes that are in `known` or have this `fact`.
    """
    order: list[UOp] = []
    seen: set[UOp] = set()
    begun: list[UOp] = []
    stack: list[UOp | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            order.append(begun.pop())
        elif node not in seen:
            seen.add(node)
            src = node.src
            if src and node not in known and fact not in node.facts:
                begun.append(node)
                stack.append(None)
                stack += src[::-1]
            else:
                order.append(node)
    return order


# A function of a node and its new sources that returns the replacement of the node. None keeps the
# node, with its new sources.
Change = Callable[[UOp, tuple[UOp, ...]], UOp | None]


def rebuild(root: UOp, change: Change, done: dict[UOp, UOp] | None = None) -> UOp:
    """Return `root` with every node replaced by the result of `change`, sources first.

    `done` maps some nodes to their replacements. These nodes are not passed to `change`, nor is
    what only they need; all other nodes are added. The walk does not enter replacements. Graphs may
    have any depth.
    """
    if done is None:
        done = {}
        order = root.toposort()
    else:
        order = sources_first(root, known=done)
    for node in order:
        if node not in done:
            src = tuple([done[source] for source in node.src])
            new = change(node, src)
            if new is None:
                new = node if src == node.src else node.with_sources(src)
            done[node] = new
    return done[root]


def substitute(root: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """Replace every node of `root` that is a key of `mapping`; values are not searched."""
    return rebuild(root, lambda node, src: None, dict(mapping))


class node_fact(Generic[T]):
    """Decorator of a function of one node: computes it once and stores the result with the node.

    The function may call itself on the sources of the node. These are computed first, without deep
    recursion, so graphs may have any depth.
    """

    def __init__(self, function: Callable[[UOp], T]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, node: UOp) -> T:
        facts = node.facts
        if self in facts:
            known: T = facts[self]
            return known
        for source in node.src:
            if self not in source.facts:
                if source.src:
                    self._fill(node)
                    break
                source.facts[self] = self.function(source)
        else:
            facts[self] = self.function(node)
        result: T = facts[self]
        return result

    def _fill(self, root: UOp) -> None:
        for node in sources_first(root, fact=self):
            if self not in node.facts:
                node.facts[self] = self.function(node)


# --- a total order -----------------------------------------------------------------------------

# Counters come first, by number. Launch indices, variables by name and other nodes follow, and
# constants are last.
_RANKS = {Ops.RANGE: 0, Ops.SPECIAL: 1, Ops.DEFINE_VAR: 2, Ops.CONST: 9}
_RANK_OF_OTHERS = 5

OrderKey = tuple[int, str, bytes]


@node_fact
def order_key(node: UOp) -> OrderKey:
    """Return the key that orders nodes in normal forms; it does not depend on when they were built.

    In order: counters, launch indices, variables, expressions, constants.
    """
    digest = hashlib.blake2b(f"{node.op.name} {node.dtype.name} {node.arg!r}".encode())
    for source in node.src:
        digest.update(order_key(source)[2])
    label = ""
    if isinstance(node.arg, RangeArg):
        label = f"{node.arg.number:09}"
    elif isinstance(node.arg, VarArg):
        label = node.arg.name
    return _RANKS.get(node.op, _RANK_OF_OTHERS), label, digest.digest()[:12]
