"""What a program means, evaluated at once with numpy.

It shares nothing with the lazy graph, the schedule or the views of tinyref: a tensor is an array of
places in a flat store, a view other places in the same store, and a write changes the store. Floats
stay multiples of 1/256 so small that no sum of them rounds in any order; what would round is
refused with `InexactError`, so that results are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tinyref_fuzz.programs.arithmetic import (
    COMPUTE,
    MOVEMENTS,
    VIEWS,
    Elements,
    UndefinedError,
    check_exact,
    compute,
    key_of,
    part_key,
)
from tinyref_fuzz.programs.arrays import Array, Size, joined
from tinyref_fuzz.programs.reverse import GradientRecord, gradients, one_hot, slopes_of
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram
from tinyref_spec.oracles import threefry


@dataclass
class RandomStreams:
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


class Environment:
    """What the numbers of a program stand for, and what was read so far."""

    def __init__(self, outer: Environment | None = None) -> None:
        self.arrays: dict[int, Array] = dict(outer.arrays) if outer else {}
        self.sizes: dict[int, tuple[str, int]] = dict(outer.sizes) if outer else {}
        self.functions: dict[int, ProgramStep] = dict(outer.functions) if outer else {}
        self.streams: RandomStreams = outer.streams if outer else RandomStreams()
        self.reads: list[Elements] = outer.reads if outer else []
        self.is_function = outer is not None

    def run(self, step: ProgramStep) -> None:
        """One step. Raises `InexactError`, `UndefinedError`, and what numpy raises for neither.

        What it read and wrote before it raised stays read and written.
        """
        with np.errstate(all="ignore"):
            if step.op in COMPUTE:
                self._compute(step)
            elif step.op in VIEWS:
                self._view(step)
            else:
                _OTHERS[step.op](self, step)
        for number in step.targets:
            if number in self.arrays:
                store = self.arrays[number].store
                store.number = store.number or number

    def _compute(self, step: ProgramStep) -> None:
        sources = [self.arrays[number] for number in step.args]
        operands = [source.elements for source in sources]
        found = compute(step.op, operands, step.values)
        place = step.values[0] if step.op == "to" else sources[0].place
        made = GradientRecord(found.shape, found.dtype.name)
        if found.dtype.kind == "f":
            made = GradientRecord(
                found.shape,
                found.dtype.name,
                tuple(each.record for each in sources),
                slopes_of(step.op, operands, step.values),
            )
        sizes = _sizes_after(step, sources, found.shape)
        array = self.arrays[step.target] = Array.of(found, place, sizes, made)
        array.basis |= joined(source.basis for source in sources)

    def _view(self, step: ProgramStep) -> None:
        source = self.arrays[step.args[0]]
        local = np.arange(source.places.size).reshape(source.shape)
        # The number in the source of each element that the view has.
        if step.op == "part":
            name, size = self.sizes[step.args[1]]
            axis, form = step.values
            shown = local[part_key(step.values, size)]
            symbols: dict[str, Size] = {
                "head": name,
                "tail": f"{source.sizes[axis]} - {name}",
                "window": 1,
            }
            sizes = (*source.sizes[:axis], symbols[form], *source.sizes[axis + 1 :])
        else:
            shown = np.asarray(MOVEMENTS[step.op][1]([local], step.values))
            sizes = _sizes_after(step, [source], shown.shape)
        is_cut = step.op in ("detach", "bitcast")
        dtype = step.values[0] if step.op == "bitcast" else source.dtype
        made = GradientRecord(shown.shape, dtype)
        if not is_cut:
            made = GradientRecord(
                shown.shape, dtype, (source.record,), lambda: [one_hot(shown, local.size)]
            )
        repeats = step.op == "expand" and shown.size != local.size
        source.store.is_repeated |= repeats
        self.arrays[step.target] = Array(
            source.store,
            source.places.reshape(-1)[shown],
            dtype,
            source.place,
            sizes,
            made,
            is_repeated=repeats or source.is_repeated,
            is_detached=is_cut or source.is_detached,
            basis=source.basis,
        )

    # Sources of elements

    def do_data(self, step: ProgramStep) -> None:
        dtype, shape, elements, place, requires_grad = step.values
        made = GradientRecord(tuple(shape), dtype, is_marked=requires_grad)
        found = np.array(elements, dtype).reshape(shape)
        self.arrays[step.target] = Array.of(found, place, None, made)

    def do_full(self, step: ProgramStep) -> None:
        dtype, shape, number, place = step.values
        self.arrays[step.target] = Array.of(np.full(shape, number, dtype), place)

    def do_arange(self, step: ProgramStep) -> None:
        start, count, place = step.values
        self.arrays[step.target] = Array.of(np.arange(start, start + count, dtype="int32"), place)

    def do_randint(self, step: ProgramStep) -> None:
        shape, low, high, place = step.values
        words = self.streams.words(math.prod(shape), place)
        numbers = np.array([word % (high - low) + low for word in words], "int32")
        self.arrays[step.target] = Array.of(numbers.reshape(shape), place)

    def do_seed(self, step: ProgramStep) -> None:
        self.streams.seed = step.values[0]
        self.streams.drawn.clear()

    def do_bind(self, step: ProgramStep) -> None:
        name, _, _, value = step.values
        self.sizes[step.target] = (name, value)

    # Writes

    def do_assign(self, step: ProgramStep) -> None:
        """Raises `UndefinedError` where tinyref refuses it, or gradients would be lost.

        A symbolic size may fit only by the number that is bound now; a function would keep how it
        was computed.
        """
        array = self.arrays[step.args[0]]
        is_whole = step.op in ("assign", "iadd")
        places = array.places
        if step.op == "set_part":
            places = places[part_key(step.values, self.sizes[step.args[1]][1])]
        elif not is_whole:
            places = np.asarray(places[key_of(step.values[0])])
        value = self.arrays[step.args[-1]]
        if value.requires_grad and (self.is_function or step.op == "assign"):
            raise UndefinedError("a write of what has gradients")
        is_symbolic = value.is_symbolic or (is_whole and array.is_symbolic)
        is_alike = (value.sizes, value.shape) == (array.sizes, array.shape)
        if is_symbolic and not (is_whole and is_alike):
            raise UndefinedError("a write of a symbolic size to another")
        if step.op == "assign":
            array.write(places, value.elements, None, value.basis, keeps_leaf=True)
            return
        elements, made, basis = value.elements, value.record, value.basis
        if step.op == "iadd":
            operands = (array.elements, elements)
            elements = compute("add", operands, ())
            check_exact(elements)
            slopes = slopes_of("add", operands, ())
            made = GradientRecord(elements.shape, array.dtype, (array.record, made), slopes)
            basis = joined([basis, array.basis])
        array.write(places, elements, made, basis)

    do_iadd = do_setitem = do_set_part = do_assign

    def do_assign_number(self, step: ProgramStep) -> None:
        array = self.arrays[step.args[0]]
        array.write(array.places, np.array(step.values[0], array.dtype), keeps_leaf=True)

    def do_setitem_number(self, step: ProgramStep) -> None:
        array = self.arrays[step.args[0]]
        places = np.asarray(array.places[key_of(step.values[0])])
        array.write(places, np.array(step.values[1]))

    # What changes no element

    def do_realize(self, step: ProgramStep) -> None:
        if any(number not in self.arrays for number in step.args):
            raise UndefinedError("realize: a tensor that is gone")

    def do_read(self, step: ProgramStep) -> None:
        array = self.arrays[step.args[0]]
        self.reads.append(array.elements)

    def do_drop(self, step: ProgramStep) -> None:
        self.arrays.pop(step.args[0]).store.is_lost = True

    # Gradients

    def do_gradient(self, step: ProgramStep) -> None:
        loss, *targets = (self.arrays[number] for number in step.args)
        weights = [targets.pop(0)] if step.op == "gradient_weighted" else []
        if not all(target.is_known and target.record.is_certain for target in targets):
            raise UndefinedError("gradient: a target that may have no part in it")
        records = [target.record for target in targets]
        found = gradients(loss.record, self._weights(loss, *weights), records)
        for number, target, elements in zip(step.targets, targets, found, strict=True):
            if elements is None:
                raise UndefinedError("gradient: a target that is no part of the computation")
            # They have gradients too, of which the oracle knows nothing.
            blocked = GradientRecord(target.shape, target.dtype, (target.record, loss.record))
            self.arrays[number] = Array.of(elements, target.place, target.sizes, blocked)

    do_gradient_weighted = do_gradient

    def _weights(self, loss: Array, weights: Array | None = None) -> Elements:
        """What the elements of the loss count. Raises `UndefinedError` for what does not fit."""
        if loss.is_lost:
            raise UndefinedError("a gradient through elements that are overwritten by now")
        if not loss.dtype.startswith("float"):
            raise UndefinedError("a gradient of what is no float")
        if weights is None:
            if loss.sizes:
                raise UndefinedError("a gradient of several elements without weights")
            return np.ones(())
        if weights.sizes != loss.sizes or weights.place != loss.place:
            raise UndefinedError("weights of another shape, or elsewhere")
        found = weights.elements.astype(np.float64)
        check_exact(found, loss.dtype)
        return found

    def do_backward(self, step: ProgramStep) -> None:
        loss, *weights = (self.arrays[number] for number in step.args)
        if not loss.record.is_certain:
            raise UndefinedError("backward: nothing may require a gradient")
        stores = {array.store for array in self.arrays.values()}
        leaves = {id(record): store.base for store in stores for record in store.leaves}
        records = [record for record in loss.record.history() if record.is_leaf]
        found = gradients(loss.record, self._weights(loss, *weights), records)
        for record, elements in zip(records, found, strict=True):
            leaf = leaves.get(id(record))
            if leaf is None or elements is None:
                continue
            if leaf.has_open_grad:
                raise UndefinedError("backward: what was there depends on a replay")
            total = elements if leaf.grad is None else leaf.grad.elements + elements
            leaf.grad = Array.of(total, leaf.place)

    def do_grad(self, step: ProgramStep) -> None:
        leaf = self.arrays[step.args[0]]
        if leaf.grad is None or leaf.has_open_grad:
            raise UndefinedError("grad: there is none, or it depends on a replay")
        self.arrays[step.target] = leaf.grad

    def do_zero_grad(self, step: ProgramStep) -> None:
        leaf = self.arrays[step.args[0]]
        leaf.grad, leaf.has_open_grad = None, False

    # Functions

    def do_function(self, step: ProgramStep) -> None:
        self.functions[step.target] = step

    def inside(self, parameters: Sequence[int], args: Sequence[int]) -> Environment:
        """Return what a function sees: of its arguments the elements, but not their past."""
        inside = Environment(self)
        for parameter, number in zip(parameters, args, strict=True):
            if number in self.sizes:
                inside.sizes[parameter] = self.sizes[number]
            else:
                array = self.arrays[number]
                inside.arrays[parameter] = replace(
                    array, record=GradientRecord(array.shape, array.dtype)
                )
        for array in inside.arrays.values():
            array.has_open_grad = True
        return inside

    def do_call(self, step: ProgramStep) -> None:
        function = self.functions[step.args[0]]
        arrays = list(self.arrays.values())
        before = [(array.grad, array.has_open_grad) for array in arrays]
        inside = self.inside(function.args, step.args[1:])
        for each in function.body:
            inside.run(each)
        for array, (grad, has_open_grad) in zip(arrays, before, strict=True):
            # What a function leaves there depends on whether it is a replay.
            is_left = array.has_open_grad
            array.grad, array.has_open_grad = (grad, has_open_grad) if is_left else (None, True)
        for target, number in zip(step.targets, function.values[0], strict=True):
            result = inside.arrays[number]
            # Whether gradients go through depends on whether it is a replay.
            blocked = GradientRecord(result.shape, result.dtype, (result.record,))
            self.arrays[target] = Array.of(result.elements, result.place, result.sizes, blocked)


_OTHERS: Mapping[str, Callable[[Environment, ProgramStep], None]] = {
    name.removeprefix("do_"): function
    for name, function in vars(Environment).items()
    if name.startswith("do_")
}
OPERATIONS = frozenset({*COMPUTE, *_OTHERS, *VIEWS})


def _sizes_after(
    step: ProgramStep, sources: Sequence[Array], shape: tuple[int, ...]
) -> tuple[Size, ...]:
    """The sizes of a result: symbolic axes go only through what keeps them."""
    first = sources[-1] if step.op == "where" else sources[0]
    if not any(source.is_symbolic for source in sources):
        return shape
    if len({source.shape for source in sources if source.is_symbolic}) > 1:
        raise UndefinedError("one variable with two values")
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


def evaluate(program: TensorProgram) -> list[Elements]:
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
