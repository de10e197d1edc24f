"""Collect the tensors of a model by name, and load tensors into a model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

from tinyref.algebra.symbolic import describe_shape
from tinyref.dtype import DType
from tinyref.errors import UserError, UserLookupError, UserTypeError, printable
from tinyref.tensor import Tensor
from tinyref.tensor.assignment import read_first
from tinyref.tensor.movement import placed_like
from tinyref.uops.node import UOp

# The maximum number of names that an error or a warning lists.
MAX_NAMES = 5

NO_CONTAINERS = (type, ModuleType, FunctionType, MethodType, DType, UOp, Tensor)


def get_state_dict(obj: object, prefix: str = "", tensor_type: type = Tensor) -> dict[str, Any]:
    """Return every tensor in `obj` by its path of attributes, list indices and dict keys.

    A tensor with two paths has two entries. An object that contains itself is visited once.
    `tensor_type` is the class of the tensors. Raises `UserError` if two paths give the same name.

    Examples:
        >>> sorted(nn.state.get_state_dict(nn.Linear(2, 3)))
        ['bias', 'weight']
    """
    tensors: dict[str, Any] = {}
    start = prefix.strip(".")
    # Objects to visit, last first. An entry (None, id) means that the object with this id is done.
    waiting: list[tuple[str | None, Any]] = [(start, obj)]
    above: set[int] = set()
    while waiting:
        name, item = waiting.pop()
        if name is None:
            above.discard(item)
            continue
        if isinstance(item, tensor_type):
            if name in tensors:
                raise UserError(f"get_state_dict: two tensors have the name {name!r}")
            tensors[name] = item
            continue
        members = list(_members(item))
        if not members or id(item) in above:
            continue
        above.add(id(item))
        waiting.append((None, id(item)))
        waiting.extend(
            (f"{name}.{key}" if name else str(key), member) for key, member in reversed(members)
        )
    return tensors


def _members(item: object) -> Iterator[tuple[object, object]]:
    """Yield the members of `item` with their attribute, index or key; none for no container."""
    if isinstance(item, dict):
        yield from item.items()
    elif isinstance(item, tuple) and hasattr(item, "_fields"):
        yield from zip(item._fields, item, strict=True)
    elif isinstance(item, list | tuple):
        yield from enumerate(item)
    elif not isinstance(item, NO_CONTAINERS):
        yield from getattr(item, "__dict__", {}).items()
        for kind in type(item).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot not in ("__dict__", "__weakref__") and hasattr(item, slot):
                    yield slot, getattr(item, slot)


def get_parameters(obj: object) -> list[Tensor]:
    """Return the tensors in `obj`, each once, in the order of `get_state_dict`.

    Examples:
        >>> [tensor.shape for tensor in nn.state.get_parameters(nn.Linear(2, 3))]
        [(3, 2), (3,)]
    """
    return list({id(tensor): tensor for tensor in get_state_dict(obj).values()}.values())


def load_state_dict(
    model: object,
    state_dict: MutableMapping[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    consume: bool = False,
    realize: bool = True,
) -> list[Tensor]:
    """Copy elements from `state_dict` into the tensors of `model` by name. Return these tensors.

    Each tensor of the model keeps its device, its shards and its type, to which elements are cast.
    The elements are copied, so training the model does not change `state_dict`. A shape (1,) and a
    shape () fit each other.

    strict: every name must be on both sides. If False, names on one side only are ignored.
    verbose: if `strict` is False, list the ignored names on stderr.
    consume: remove the loaded tensors from `state_dict`.
    realize: copy now. If False, copy when an element is needed.
    Raises `UserError` for names and shapes that do not fit, before anything changes.

    Examples:
        >>> layer = nn.Linear(1, 1)
        >>> weights = {"weight": Tensor([[2.0]]), "bias": Tensor([1.0])}
        >>> _ = nn.state.load_state_dict(layer, weights, verbose=False)
        >>> layer(Tensor([[3.0]])).item()
        7.0
    """
    targets = get_state_dict(model)
    if not isinstance(state_dict, Mapping):
        raise UserTypeError(
            f"load_state_dict: the state is a {type(state_dict).__name__}, accepted is a dict of "
            f"Tensors by name"
        )
    for name, value in state_dict.items():
        if not isinstance(value, Tensor):
            raise UserTypeError(
                f"load_state_dict: {name!r} is a {type(value).__name__}, not a Tensor"
            )
    missing = [name for name in targets if name not in state_dict]
    unexpected = [name for name in state_dict if name not in targets]
    problems = []
    if missing:
        problems.append(f"not in the state: {_list_of_names(missing)}")
    if unexpected:
        problems.append(f"not in the model: {_list_of_names(unexpected)}")
    if problems and strict:
        raise UserLookupError(f"load_state_dict: {'; '.join(problems)}: accepted with strict=False")
    if problems and verbose:
        print(printable(f"load_state_dict: {'; '.join(problems)}"), file=sys.stderr)  # noqa: T201
    shared = [name for name in targets if name in state_dict]
    _check_shapes(shared, targets, state_dict)
    loaded = [_with_elements_of(targets[name], state_dict[name]) for name in shared]
    if realize and loaded:
        loaded[0].realize(*loaded[1:])
    if consume:
        for name in shared:
            del state_dict[name]
    return loaded


def _check_shapes(
    names: Iterable[str], targets: dict[str, Any], state: MutableMapping[str, Tensor]
) -> None:
    wrong = [
        f"{name} is {describe_shape(state[name].shape)}, "
        f"the model's {describe_shape(targets[name].shape)}"
        for name in names
        if state[name].shape != targets[name].shape
        and {state[name].shape, targets[name].shape} != {(), (1,)}
    ]
    if wrong:
        raise UserError(f"load_state_dict: shapes differ: {_list_of_names(wrong)}")


def _with_elements_of(target: Tensor, source: Tensor) -> Tensor:
    """Make `target` a copy of the elements of `source`, and return it."""
    # Move before casting: the device of the source may run no kernels.
    value = placed_like(source.detach().reshape(target.shape), target)
    return target.replace(read_first(value.cast(target.dtype)))


def _list_of_names(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
