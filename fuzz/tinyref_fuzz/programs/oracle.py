"""What a program means, evaluated at once with numpy.

It shares nothing with the lazy graph, the schedule or the views of tinyref: a tensor is an array of
places in a flat store, a view other places in the same store, and a write changes the store. Floats
stay multiples of 1/256 so small that no sum of them rounds in any order; what would round is
refused with `InexactError`, so that results are compared exactly. One operation rounds, a sum of
tenths: its result has a bound, and goes on through views and copies alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyref_fuzz.programs.steps import Program, Step, Value
from tinyref_spec.oracles import threefry

Elements = npt.NDArray[Any]
Size = int | str
# Multiples of the one below the other take 24 bits, the significand of float32 (IEEE 754).
GRAIN = 256.0
LIMIT = 2.0**15
# Half a unit in the last place of float32 at 1, and a bound for what is exactly zero.
UNIT = 2.0**-24
TINY = 2.0**-126
# What gives the same elements elsewhere.
COPIES = frozenset({"contiguous", "clone", "to", "disk"})
# The types in which sums are taken, where it is not the type itself.
SUMS = {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}


class InexactError(Exception):
    """A float that rounds, or may do so in another order: the oracle has no exact value."""


class UndefinedError(Exception):
    """A step that does not fit what it reads."""


@dataclass(eq=False)
class Store:
    """Elements that several tensors may show.

    is_written: since it was made. is_repeated: one is shown several times. is_lost: a tensor that
    showed them is gone. requires_grad: gradients flow to them.
    """

    elements: Elements
    is_written: bool = False
    is_repeated: bool = False
    is_lost: bool = False
    requires_grad: bool = False


@dataclass(eq=False)
class Record:
    """How an array was computed: what gradients read.

    back: of its gradient those of the sources; None where the oracle has no rule.
    """

    sources: tuple[Array, ...] = ()
    back: Callable[[Elements], Sequence[Elements | None]] | None = None

    @property
    def requires_grad(self) -> bool:
        return any(source.requires_grad for source in self.sources)


@dataclass(eq=False)
class Array:
    """A tensor: `places` of a store. sizes: of the axes, a text where one is symbolic.

    requires_grad: computed from what was made so. is_repeated: shows an element several times.
    bound: how far from these elements others may be.
    """

    store: Store
    places: Elements
    dtype: str
    place: int
    sizes: tuple[Size, ...]
    record: Record | None = None
    is_repeated: bool = False
    requires_grad: bool = False
    bound: float = 0.0

    @classmethod
    def of(
        cls,
        elements: Elements,
        place: int,
        sizes: tuple[Size, ...] | None = None,
        record: Record | None = None,
        bound: float = 0.0,
    ) -> Array:
        """An array with elements of its own. Raises `InexactError` where they need a bound."""
        if not bound:
            check_exact(elements)
        places = np.arange(elements.size).reshape(elements.shape)
        store = Store(np.array(elements).reshape(-1))
        name = elements.dtype.name
        array = cls(store, places, name, place, elements.shape if sizes is None else sizes, record)
        array.bound = bound
        array.requires_grad = record is not None and record.requires_grad
        store.requires_grad = array.requires_grad
        return array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.places.shape

    @property
    def is_symbolic(self) -> bool:
        return any(isinstance(size, str) for size in self.sizes)

    @property
    def elements(self) -> Elements:
        """A copy of what it shows now."""
        return self.store.elements[self.places].view(self.dtype)

    @property
    def is_writable(self) -> bool:
        """Whether tinyref writes to it: not where gradients flow, or an element is seen twice."""
        is_repeated = self.is_repeated or (self.store.is_repeated and self.store.is_lost)
        return not (is_repeated or self.store.requires_grad or self.bound)

    def write(self, elements: Elements) -> None:
        """Gives what it shows other elements. Raises `UndefinedError` where nothing may."""
        if not self.is_writable:
            raise UndefinedError("a write to what is repeated, or has gradients")
        wide = np.broadcast_to(elements, self.shape).astype(self.dtype)
        self.store.elements[self.places] = wide.view(self.store.elements.dtype)
        self.store.is_written = True


def check_exact(elements: Elements) -> None:
    """Raises `InexactError` for a float that is no small multiple of 1/256."""
    if elements.dtype.kind == "f" and elements.size:
        scaled = elements.astype(np.float64) * GRAIN
        if not np.all(np.abs(scaled) <= LIMIT * GRAIN) or np.any(scaled != np.trunc(scaled)):
            raise InexactError("a float that is no multiple of 1/256, or too large")


def check_sum(terms: Elements, axes: tuple[int, ...]) -> None:
    """Raises `InexactError` where a sum of `terms` rounds in some order."""
    check_exact(terms)
    if terms.dtype.kind == "f" and terms.size:
        check_exact(np.asarray(np.abs(terms.astype(np.float64)).sum(axis=axes)))


# --- movement: of elements and of places alike ---------------------------------------------------


def key_of(key: Value) -> tuple[Any, ...]:
    """The key of numpy that a step names."""
    found: list[Any] = []
    for item in key:
        if not isinstance(item, tuple):
            found.append(item)
        elif item[0] == "places":
            found.append(list(item[1]))
        else:
            found.append(slice(*item))
    return tuple(found)


def part_key(values: Sequence[Value], size: int) -> tuple[slice, ...]:
    """The key of numpy for the part that a size, bound to this number, cuts off."""
    axis, form = values
    ends = {"head": (0, size), "tail": (size - 1, None), "window": (size - 1, size)}[form]
    return (*[slice(None)] * axis, slice(*ends))


MOVEMENTS = frozenset(
    {"reshape", "permute", "expand", "shrink", "flip", "index", "detach", "bitcast"}
)


def move(op: str, x: Elements, values: Sequence[Value]) -> Elements:
    """The elements, or places, that a view shows."""
    match op:
        case "reshape":
            return x.reshape(values[0])
        case "permute":
            return x.transpose(values[0])
        case "expand":
            return np.broadcast_to(x, values[0])
        case "shrink":
            return x[tuple(slice(low, high) for low, high in values[0])]
        case "flip":
            return np.asarray(np.flip(x, values[0]))
        case "index":
            return np.asarray(x[key_of(values[0])])
        case "detach" | "bitcast":
            return x
    raise UndefinedError(op)


# --- arithmetic ----------------------------------------------------------------------------------


def _cast(x: Elements, name: str) -> Elements:
    target = np.dtype(name)
    if target == x.dtype:
        raise UndefinedError("a cast that casts nothing: it gives the tensor itself")
    if x.dtype.kind == "f" and target.kind in "iu" and x.size:
        # What is out of range has no specified value.
        limits = np.iinfo(target)
        if x.min() <= limits.min - 1 or x.max() >= limits.max + 1:
            raise InexactError("a float outside of the integers")
    return x.astype(target)


def _truncated(x: Elements, by: int) -> Elements:
    """The quotient rounded towards zero, by Python's integers."""
    found = [abs(v) // abs(by) * (1 if (v < 0) == (by < 0) else -1) for v in x.reshape(-1).tolist()]
    limits = np.iinfo(x.dtype)
    if any(not limits.min <= each <= limits.max for each in found):
        raise InexactError("the smallest integer by -1, which has no specified value")
    return np.array(found, x.dtype).reshape(x.shape)


def _summed(x: Elements, values: Sequence[Value]) -> Elements:
    check_sum(x, values[0])
    wide = SUMS.get(x.dtype.name, x.dtype.name)
    return np.asarray(x.astype(wide).sum(axis=values[0], keepdims=values[1], dtype=wide))


def _product(x: Elements, values: Sequence[Value]) -> Elements:
    wide = SUMS.get(x.dtype.name, x.dtype.name)
    if x.dtype.kind == "f":
        # Of the largest part of the factors, so that no order of them rounds.
        check_exact(np.asarray(np.maximum(np.abs(x.astype(np.float64)), 1).prod(axis=values[0])))
        if np.any(x != np.trunc(x)):
            raise InexactError("a product of fractions")
    return np.asarray(x.astype(wide).prod(axis=values[0], keepdims=values[1], dtype=wide))


def _scanned(x: Elements, axis: int) -> Elements:
    check_sum(x, (axis,))
    wide = SUMS.get(x.dtype.name, x.dtype.name)
    return x.astype(wide).cumsum(axis=axis, dtype=wide)


def _multiplied(x: Elements, y: Elements) -> Elements:
    """A product of matrices, in the type of its factors."""
    return _summed(x[..., :, :, None] * y[..., None, :, :], ((-2,), False)).astype(x.dtype)


Operands = Sequence[Elements]
COMPUTE: Mapping[str, Callable[[Operands, Sequence[Value]], Elements]] = {
    "neg": lambda x, v: -x[0],
    "relu": lambda x, v: np.maximum(x[0], 0),
    "square": lambda x, v: x[0] * x[0],
    "not": lambda x, v: np.logical_not(x[0]),
    "cast": lambda x, v: _cast(x[0], v[0]),
    "add_number": lambda x, v: x[0] + x[0].dtype.type(v[0]),
    "mul_number": lambda x, v: x[0] * x[0].dtype.type(v[0]),
    "max_number": lambda x, v: np.maximum(x[0], x[0].dtype.type(v[0])),
    "idiv_number": lambda x, v: _truncated(x[0], v[0]),
    "mod_number": lambda x, v: np.remainder(x[0], x[0].dtype.type(v[0])),
    "lt_number": lambda x, v: x[0] < x[0].dtype.type(v[0]),
    "add": lambda x, v: x[0] + x[1],
    "sub": lambda x, v: x[0] - x[1],
    "mul": lambda x, v: x[0] * x[1],
    "maximum": lambda x, v: np.maximum(x[0], x[1]),
    "minimum": lambda x, v: np.minimum(x[0], x[1]),
    "lt": lambda x, v: x[0] < x[1],
    "ne": lambda x, v: x[0] != x[1],
    "and": lambda x, v: x[0] & x[1],
    "xor": lambda x, v: x[0] ^ x[1],
    "where": lambda x, v: np.where(x[0], x[1], x[2]),
    "sum": lambda x, v: _summed(x[0], v),
    "max": lambda x, v: np.asarray(x[0].max(axis=v[0], keepdims=v[1])),
    "prod": lambda x, v: _product(x[0], v),
    "cumsum": lambda x, v: _scanned(x[0], v[0]),
    "matmul": lambda x, v: _multiplied(x[0], x[1]),
    "cat": lambda x, v: np.concatenate(x, axis=v[0]),
    "stack": lambda x, v: np.stack(x, axis=v[0]),
    "pad": lambda x, v: np.pad(x[0], v[0]),
    "take": lambda x, v: x[0][x[1]],
    "contiguous": lambda x, v: x[0],
    "clone": lambda x, v: x[0],
    "to": lambda x, v: x[0],
    "disk": lambda x, v: x[0],
}


# --- gradients -----------------------------------------------------------------------------------


def _kept(g: Elements, values: Sequence[Value], shape: tuple[int, ...]) -> Elements:
    """The gradient of a reduce, spread over what it reduced."""
    axes, keeps = values
    return np.broadcast_to(g if keeps else np.expand_dims(g, axes), shape)


def _cut(g: Elements, pairs: Sequence[tuple[int, int]]) -> Elements:
    sizes = g.shape
    ends = zip(pairs, sizes, strict=True)
    return g[tuple(slice(before, size - after) for (before, after), size in ends)]


Back = Callable[[Elements, Operands, Sequence[Value]], Sequence[Elements | None]]
BACK: Mapping[str, Back] = {
    "neg": lambda g, x, v: (-g,),
    "relu": lambda g, x, v: (g * (x[0] > 0),),
    "square": lambda g, x, v: (2 * g * x[0],),
    "add_number": lambda g, x, v: (g,),
    "mul_number": lambda g, x, v: (g * g.dtype.type(v[0]),),
    "add": lambda g, x, v: (g, g),
    "sub": lambda g, x, v: (g, -g),
    "mul": lambda g, x, v: (g * x[1], g * x[0]),
    "where": lambda g, x, v: (None, np.where(x[0], g, 0), np.where(x[0], 0, g)),
    "sum": lambda g, x, v: (_kept(g, v, x[0].shape),),
    "matmul": lambda g, x, v: (_multiplied(g, x[1].swapaxes(-1, -2)),
                               _multiplied(x[0].swapaxes(-1, -2), g)),
    "cat": lambda g, x, v: tuple(np.split(g, [x[0].shape[v[0]]], axis=v[0])),
    "stack": lambda g, x, v: tuple(g.take(place, axis=v[0]) for place in range(2)),
    "pad": lambda g, x, v: (_cut(g, v[0]),),
    "contiguous": lambda g, x, v: (g,),
    "clone": lambda g, x, v: (g,),
    "to": lambda g, x, v: (g,),
}  # fmt: skip


def _record(step: Step, sources: Sequence[Array], operands: Operands) -> Record:
    back = BACK.get(step.op)
    if back is None:
        return Record(tuple(sources))

    def parts(g: Elements) -> list[Elements | None]:
        found = back(g, operands, step.values)
        return [
            None if part is None else _unspread(part, operand.shape)
            for part, operand in zip(found, operands, strict=True)
        ]

    return Record(tuple(sources), parts)


def _unspread(g: Elements, shape: tuple[int, ...]) -> Elements:
    """The gradient of an operand that was broadcast: the sum over all places that it went to."""
    if g.shape == shape:
        return g
    more = g.ndim - len(shape)
    spread = [axis for axis, size in enumerate(shape, more) if size == 1 and g.shape[axis] != 1]
    axes = (*range(more), *spread)
    check_sum(g, axes)
    return np.asarray(g.sum(axis=axes, keepdims=True)).reshape(shape)


def _gradients(loss: Array, targets: Sequence[Array]) -> list[Elements]:
    """d(loss)/d(target) for each. Raises `UndefinedError` for one that it does not depend on."""
    history = _history(loss)
    if any(array.store.is_written for array in history):
        raise UndefinedError("gradient: what was written has other elements by now")
    found: dict[int, Elements] = {id(loss): np.ones(loss.shape, loss.dtype)}
    for array in reversed(history):
        gradient = found.get(id(array))
        if gradient is None or array.record is None:
            continue
        if array.record.back is None:
            raise UndefinedError("gradient: the oracle has no rule for an operation")
        parts = array.record.back(gradient)
        for source, part in zip(array.record.sources, parts, strict=True):
            if part is not None:
                total = part if id(source) not in found else found[id(source)] + part
                check_exact(total)
                found[id(source)] = total.astype(source.dtype)
    if any(id(target) not in found for target in targets):
        raise UndefinedError("gradient: a target that is no part of the computation")
    return [found[id(target)] for target in targets]


def _history(last: Array) -> list[Array]:
    """All that `last` is computed from, sources first."""
    done: dict[int, Array] = {}

    def visit(array: Array) -> None:
        if id(array) in done:
            return
        for source in array.record.sources if array.record else ():
            visit(source)
        done[id(array)] = array

    visit(last)
    return list(done.values())


# --- steps ---------------------------------------------------------------------------------------


@dataclass
class Streams:
    """The numbers that were drawn: the seed, and how many on each device."""

    seed: int | None = None
    drawn: dict[int, int] = field(default_factory=dict)

    def words(self, count: int, place: int) -> list[int]:
        """The next words of 64 bits."""
        if self.seed is None:
            raise UndefinedError("a draw without a seed")
        first = self.drawn.get(place, 0)
        self.drawn[place] = first + count
        seed = self.seed
        return [threefry(first + number, seed) for number in range(count)]


@dataclass(frozen=True, eq=False)
class Read:
    """What a read must give: each element within `bound` of these."""

    elements: Elements
    bound: float = 0.0


class Environment:
    """What the numbers of a program stand for, and what was read so far."""

    def __init__(self, outer: Environment | None = None) -> None:
        self.arrays: dict[int, Array] = dict(outer.arrays) if outer else {}
        self.sizes: dict[int, tuple[str, int]] = dict(outer.sizes) if outer else {}
        self.functions: dict[int, Step] = dict(outer.functions) if outer else {}
        self.streams: Streams = outer.streams if outer else Streams()
        self.reads: list[Read] = outer.reads if outer else []

    def run(self, step: Step) -> None:
        """One step. Raises `InexactError`, `UndefinedError`, and what numpy raises for neither.

        What it read and wrote before it raised stays read and written.
        """
        with np.errstate(all="ignore"):
            special = _SPECIAL.get(step.op)
            if special is not None:
                special(self, step)
            elif step.op in COMPUTE:
                self._compute(step)
            else:
                self._view(step)

    def _compute(self, step: Step) -> None:
        sources = [self.arrays[number] for number in step.args]
        bound = max(source.bound for source in sources)
        if bound and step.op not in COPIES:
            raise UndefinedError("arithmetic on what has a bound")
        operands = [source.elements for source in sources]
        found = COMPUTE[step.op](operands, step.values)
        place = step.values[0] if step.op in ("to", "disk") else sources[0].place
        record = None
        if found.dtype.kind == "f" and any(each.dtype.kind == "f" for each in operands):
            record = _record(step, sources, operands)
        sizes = _sizes_after(step, sources, found.shape)
        self.arrays[step.target] = Array.of(np.asarray(found), place, sizes, record, bound)

    def _sum_tenths(self, step: Step) -> None:
        """The sum of tenths, each rounded to float32, in float64: other orders round elsewhere."""
        array = self.arrays[step.args[0]]
        if array.dtype != "float32" or array.bound or array.is_symbolic:
            raise UndefinedError("a sum of tenths of what is no exact float32")
        axes, keeps = step.values
        terms = (array.elements * np.float32(0.1)).astype(np.float64)
        found = np.asarray(terms.sum(axis=axes, keepdims=keeps))
        size = np.abs(terms).sum(axis=axes).max(initial=0.0)
        # Higham, "Accuracy and Stability of Numerical Algorithms", 2002, 4.2; one more for storing.
        bound = (terms.size + 1) * UNIT * float(size)
        elements = found.astype(np.float32)
        blocked = Record((array,)) if array.requires_grad else Record()
        made = Array.of(elements, array.place, None, blocked, bound or TINY)
        self.arrays[step.target] = made

    def _view(self, step: Step) -> None:
        source = self.arrays[step.args[0]]
        local = np.arange(source.places.size).reshape(source.shape)
        shown = np.asarray(move(step.op, local, step.values))
        self._show(step, source, shown, _sizes_after(step, [source], shown.shape))

    def _part(self, step: Step) -> None:
        source, (name, size) = self.arrays[step.args[0]], self.sizes[step.args[1]]
        axis, form = step.values
        local = np.arange(source.places.size).reshape(source.shape)
        whole = source.sizes[axis]
        symbols: dict[str, Size] = {"head": name, "tail": f"{whole} - {name}", "window": 1}
        sizes = (*source.sizes[:axis], symbols[form], *source.sizes[axis + 1 :])
        self._show(step, source, local[part_key(step.values, size)], sizes)

    def _show(self, step: Step, source: Array, shown: Elements, sizes: tuple[Size, ...]) -> None:
        """shown: which elements of the source the view has, by their number there."""
        shape, count = source.shape, source.places.size

        def back(g: Elements) -> Sequence[Elements]:
            total = np.zeros(count, g.dtype)
            np.add.at(total, shown.reshape(-1), g.reshape(-1))
            return (total.reshape(shape),)

        record = None if step.op in ("detach", "bitcast") else Record((source,), back)
        dtype = step.values[0] if step.op == "bitcast" else source.dtype
        places = source.places.reshape(-1)[shown]
        repeats = step.op == "expand" and shown.size != count
        source.store.is_repeated |= repeats
        self.arrays[step.target] = Array(
            *(source.store, places, dtype, source.place, sizes, record),
            is_repeated=repeats or source.is_repeated,
            requires_grad=record is not None and source.requires_grad,
            bound=source.bound,
        )

    # Sources of elements

    def _data(self, step: Step) -> None:
        dtype, shape, elements, place, requires_grad = step.values
        array = Array.of(np.array(elements, dtype).reshape(shape), place)
        array.requires_grad = array.store.requires_grad = requires_grad
        self.arrays[step.target] = array

    def _full(self, step: Step) -> None:
        dtype, shape, number, place = step.values
        self.arrays[step.target] = Array.of(np.full(shape, number, dtype), place)

    def _arange(self, step: Step) -> None:
        start, count, place = step.values
        self.arrays[step.target] = Array.of(np.arange(start, start + count, dtype="int32"), place)

    def _rand(self, step: Step) -> None:
        shape, place = step.values
        words = self.streams.words(math.prod(shape), place)
        # Of a fraction of 24 bits the first eight.
        found = [(word & 0xFFFFFFFF) >> 24 for word in words]
        self.arrays[step.target] = Array.of(np.array(found, "int32").reshape(shape), place)

    def _randint(self, step: Step) -> None:
        shape, low, high, place = step.values
        words = self.streams.words(math.prod(shape), place)
        found = [word % (high - low) + low for word in words]
        self.arrays[step.target] = Array.of(np.array(found, "int32").reshape(shape), place)

    def _seed(self, step: Step) -> None:
        self.streams.seed = step.values[0]
        self.streams.drawn.clear()

    def _bind(self, step: Step) -> None:
        name, _, _, value = step.values
        self.sizes[step.target] = (name, value)

    # Writes

    def _value(self, number: int, target: Array | None = None) -> Elements:
        """What is written, to all of `target` or to fixed places.

        Raises `UndefinedError` where gradients would be lost, or where a symbolic size fits only
        by the number that is bound now.
        """
        value = self.arrays[number]
        if value.requires_grad or value.bound:
            raise UndefinedError("a write of what has gradients or a bound")
        is_symbolic = value.is_symbolic or (target is not None and target.is_symbolic)
        if is_symbolic and (target is None or value.sizes != target.sizes):
            raise UndefinedError("a write of a symbolic size to another")
        return value.elements

    def _assign(self, step: Step) -> None:
        array = self.arrays[step.args[0]]
        array.write(self._value(step.args[1], array))

    def _assign_number(self, step: Step) -> None:
        array = self.arrays[step.args[0]]
        array.write(np.array(step.values[0], array.dtype))

    def _iadd(self, step: Step) -> None:
        array = self.arrays[step.args[0]]
        total = array.elements + self._value(step.args[1], array)
        check_exact(total)
        array.write(total)

    def _setitem(self, step: Step) -> None:
        self._write_at(step, key_of(step.values[0]), self._value(step.args[1]))

    def _setitem_number(self, step: Step) -> None:
        self._write_at(step, key_of(step.values[0]), np.array(step.values[1]))

    def _set_part(self, step: Step) -> None:
        key = part_key(step.values, self.sizes[step.args[1]][1])
        self._write_at(step, key, self._value(step.args[2]))

    def _write_at(self, step: Step, key: tuple[Any, ...], elements: Elements) -> None:
        array = self.arrays[step.args[0]]
        places = array.places[key]
        if array.is_repeated:
            raise UndefinedError("a write to what is repeated")
        target = Array(array.store, np.asarray(places), array.dtype, array.place, places.shape)
        target.write(elements)

    # What changes no element

    def _realize(self, step: Step) -> None:
        if any(number not in self.arrays for number in step.args):
            raise UndefinedError("realize: a tensor that is gone")

    def _read(self, step: Step) -> None:
        array = self.arrays[step.args[0]]
        self.reads.append(Read(array.elements, array.bound))

    def _drop(self, step: Step) -> None:
        self.arrays.pop(step.args[0]).store.is_lost = True

    def _gradient(self, step: Step) -> None:
        loss, *targets = (self.arrays[number] for number in step.args)
        for number, target, found in zip(
            step.targets, targets, _gradients(loss, targets), strict=True
        ):
            # They have gradients too: nothing writes to them.
            blocked = Record((target,))
            made = Array.of(np.asarray(found), target.place, target.sizes, blocked)
            self.arrays[number] = made

    # Functions

    def _function(self, step: Step) -> None:
        self.functions[step.target] = step

    def _call(self, step: Step) -> None:
        function = self.functions[step.args[0]]
        inside = Environment(self)
        for parameter, number in zip(function.args, step.args[1:], strict=True):
            if number in self.sizes:
                inside.sizes[parameter] = self.sizes[number]
            else:
                inside.arrays[parameter] = replace(self.arrays[number], record=None)
        for each in function.body:
            inside.run(each)
        for target, number in zip(step.targets, function.values[0], strict=True):
            result = inside.arrays[number]
            # Whether gradients go through depends on whether it is a replay.
            blocked = Record() if result.dtype.startswith("float") else None
            given = (result.elements, result.place, result.sizes)
            made = Array.of(*given, blocked, result.bound)
            self.arrays[target] = made


_SPECIAL: Mapping[str, Callable[[Environment, Step], None]] = {
    name: getattr(Environment, f"_{name}")
    for name in (
        *("data", "full", "arange", "rand", "randint", "seed", "bind", "part", "sum_tenths"),
        *("assign", "assign_number", "iadd", "setitem", "setitem_number", "set_part"),
        *("realize", "read", "drop", "gradient", "function", "call"),
    )
}
OPERATIONS = frozenset({*COMPUTE, *_SPECIAL, *MOVEMENTS})


def _sizes_after(step: Step, sources: Sequence[Array], shape: tuple[int, ...]) -> tuple[Size, ...]:
    """The sizes of a result: symbolic axes go only through what keeps them."""
    first = sources[-1] if step.op == "where" else sources[0]
    if not any(source.is_symbolic for source in sources):
        return shape
    match step.op:
        case "permute":
            return tuple(first.sizes[axis] for axis in step.values[0])
        case "sum" | "max" | "prod":
            axes, keeps = step.values
            kept = [1 if axis in axes else size for axis, size in enumerate(first.sizes)]
            return tuple(size for axis, size in enumerate(kept) if keeps or axis not in axes)
        case "reshape":
            # It names the sizes that are there now.
            return shape
    if first.shape != shape:
        raise UndefinedError(f"{step.op} of a symbolic size")
    return first.sizes


def evaluate(program: Program) -> list[Read]:
    """What the reads of a program give, in order.

    Raises `InexactError` where a float rounds, `UndefinedError` where a step does not fit.
    """
    environment = Environment()
    for step in program.steps:
        try:
            environment.run(step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise UndefinedError(f"{step.op}: {type(error).__name__}: {error}") from error
    return environment.reads
