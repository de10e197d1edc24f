"""Evaluate a program eagerly with numpy.

The oracle shares nothing with tinyref's lazy graph, schedule and views. A tensor is an array of
positions in a flat store, a view is other positions in the same store, and a write changes the
store. Floats are multiples of 1/256, and so small that no sum rounds in any order. If a result
would round, `InexactError` is raised, so that results are compared exactly.
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
    """The state of the random streams: the seed, and the number of draws on each device."""

    seed: int | None = None
    drawn: dict[int, int] = field(default_factory=dict)

    def words(self, count: int, device: int) -> list[int]:
        """Return the next words of 64 bits."""
        if self.seed is None:
            raise UndefinedError("a draw without a seed")
        first = self.drawn.get(device, 0)
        self.drawn[device] = first + count
        seed = self.seed
        return [threefry(first + number, seed) for number in range(count)]


class Environment:
    """The values of a program's numbers, and what was read so far."""

    def __init__(self, outer: Environment | None = None) -> None:
        self.arrays: dict[int, Array] = dict(outer.arrays) if outer else {}
        self.sizes: dict[int, tuple[str, int]] = dict(outer.sizes) if outer else {}
        self.functions: dict[int, ProgramStep] = dict(outer.functions) if outer else {}
        self.streams: RandomStreams = outer.streams if outer else RandomStreams()
        self.reads: list[Elements] = outer.reads if outer else []
        self.is_function = outer is not None

    def run(self, step: ProgramStep) -> None:
        """Run one step. Raises `InexactError`, `UndefinedError`, or an error of numpy.

        Reads and writes before an error stay.
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
        result = compute(step.op, operands, step.values)
        device = step.values[0] if step.op == "to" else sources[0].device
        record = GradientRecord(result.shape, result.dtype.name)
        if result.dtype.kind == "f":
            record = GradientRecord(
                result.shape,
                result.dtype.name,
                tuple(source.record for source in sources),
                slopes_of(step.op, operands, step.values),
            )
        sizes = _sizes_after(step, sources, result.shape)
        array = self.arrays[step.target] = Array.of(result, device, sizes, record)
        array.basis |= joined(source.basis for source in sources)

    def _view(self, step: ProgramStep) -> None:
        source = self.arrays[step.args[0]]
        local = np.arange(source.positions.size).reshape(source.shape)
        # For each element of the view, its number in the source.
        if step.op == "part":
            name, size = self.sizes[step.args[1]]
            axis, form = step.values
            numbers = local[part_key(step.values, size)]
            symbols: dict[str, Size] = {
                "head": name,
                "tail": f"{source.sizes[axis]} - {name}",
                "window": 1,
            }
            sizes = (*source.sizes[:axis], symbols[form], *source.sizes[axis + 1 :])
        else:
            numbers = np.asarray(MOVEMENTS[step.op][1]([local], step.values))
            sizes = _sizes_after(step, [source], numbers.shape)
        is_cut = step.op in ("detach", "bitcast")
        dtype = step.values[0] if step.op == "bitcast" else source.dtype
        record = GradientRecord(numbers.shape, dtype)
        if not is_cut:
            record = GradientRecord(
                numbers.shape, dtype, (source.record,), lambda: [one_hot(numbers, local.size)]
            )
        repeats = step.op == "expand" and numbers.size != local.size
        source.store.is_repeated |= repeats
        self.arrays[step.target] = Array(
            source.store,
            source.positions.reshape(-1)[numbers],
            dtype,
            source.device,
            sizes,
            record,
            is_repeated=repeats or source.is_repeated,
            is_detached=is_cut or source.is_detached,
            basis=source.basis,
        )

    # Sources of elements

    def do_data(self, step: ProgramStep) -> None:
        dtype, shape, elements, device, requires_grad = step.values
        record = GradientRecord(tuple(shape), dtype, is_marked=requires_grad)
        array = np.array(elements, dtype).reshape(shape)
        self.arrays[step.target] = Array.of(array, device, None, record)

    def do_full(self, step: ProgramStep) -> None:
        dtype, shape, number, device = step.values
        self.arrays[step.target] = Array.of(np.full(shape, number, dtype), device)

    def do_arange(self, step: ProgramStep) -> None:
        start, count, device = step.values
        self.arrays[step.target] = Array.of(np.arange(start, start + count, dtype="int32"), device)

    def do_randint(self, step: ProgramStep) -> None:
        shape, low, high, device = step.values
        words = self.streams.words(math.prod(shape), device)
        numbers = np.array([word % (high - low) + low for word in words], "int32")
        self.arrays[step.target] = Array.of(numbers.reshape(shape), device)

    def do_seed(self, step: ProgramStep) -> None:
        self.streams.seed = step.values[0]
        self.streams.drawn.clear()

    def do_bind(self, step: ProgramStep) -> None:
        name, _, _, value = step.values
        self.sizes[step.target] = (name, value)

    # Writes

    def do_assign(self, step: ProgramStep) -> None:
        """Write elements. Raises `UndefinedError` if tinyref refuses, or gradients would be lost.

        A symbolic size may fit only its current value; a function would record how it was computed.
        """
        array = self.arrays[step.args[0]]
        is_whole = step.op in ("assign", "iadd")
        positions = array.positions
        if step.op == "set_part":
            positions = positions[part_key(step.values, self.sizes[step.args[1]][1])]
        elif not is_whole:
            positions = np.asarray(positions[key_of(step.values[0])])
        value = self.arrays[step.args[-1]]
        if value.requires_grad and (self.is_function or step.op == "assign"):
            raise UndefinedError("a write of a value with gradients")
        is_symbolic = value.is_symbolic or (is_whole and array.is_symbolic)
        is_alike = (value.sizes, value.shape) == (array.sizes, array.shape)
        if is_symbolic and not (is_whole and is_alike):
            raise UndefinedError("a write of a symbolic size to another")
        if step.op == "assign":
            array.write(positions, value.elements, None, value.basis, keeps_leaf=True)
            return
        elements, record, basis = value.elements, value.record, value.basis
        if step.op == "iadd":
            operands = (array.elements, elements)
            elements = compute("add", operands, ())
            check_exact(elements)
            slopes = slopes_of("add", operands, ())
            record = GradientRecord(elements.shape, array.dtype, (array.record, record), slopes)
            basis = joined([basis, array.basis])
        array.write(positions, elements, record, basis)

    do_iadd = do_setitem = do_set_part = do_assign

    def do_assign_number(self, step: ProgramStep) -> None:
        array = self.arrays[step.args[0]]
        array.write(array.positions, np.array(step.values[0], array.dtype), keeps_leaf=True)

    def do_setitem_number(self, step: ProgramStep) -> None:
        array = self.arrays[step.args[0]]
        positions = np.asarray(array.positions[key_of(step.values[0])])
        array.write(positions, np.array(step.values[1]))

    # Steps that change no element

    def do_realize(self, step: ProgramStep) -> None:
        if any(number not in self.arrays for number in step.args):
            raise UndefinedError("realize: a tensor that was dropped")

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
            raise UndefinedError("gradient: a target on which the loss may not depend")
        records = [target.record for target in targets]
        results = gradients(loss.record, self._weights(loss, *weights), records)
        for number, target, elements in zip(step.targets, targets, results, strict=True):
            if elements is None:
                raise UndefinedError("gradient: a target on which the loss does not depend")
            # The results have gradients too, which the oracle does not know.
            blocked = GradientRecord(target.shape, target.dtype, (target.record, loss.record))
            self.arrays[number] = Array.of(elements, target.device, target.sizes, blocked)

    do_gradient_weighted = do_gradient

    def _weights(self, loss: Array, weights: Array | None = None) -> Elements:
        """Return the weights of the loss's elements. Raises `UndefinedError` if they do not fit."""
        if loss.is_lost:
            raise UndefinedError("a gradient through elements that have been overwritten")
        if not loss.dtype.startswith("float"):
            raise UndefinedError("a gradient of a tensor that is not a float")
        if weights is None:
            if loss.sizes:
                raise UndefinedError("a gradient of several elements without weights")
            return np.ones(())
        if weights.sizes != loss.sizes or weights.device != loss.device:
            raise UndefinedError("weights of another shape, or on another device")
        elements = weights.elements.astype(np.float64)
        check_exact(elements, loss.dtype)
        return elements

    def do_backward(self, step: ProgramStep) -> None:
        loss, *weights = (self.arrays[number] for number in step.args)
        if not loss.record.is_certain:
            raise UndefinedError("backward: perhaps nothing requires a gradient")
        stores = {array.store for array in self.arrays.values()}
        leaves = {id(record): store.base for store in stores for record in store.leaves}
        records = [record for record in loss.record.history() if record.is_leaf]
        results = gradients(loss.record, self._weights(loss, *weights), records)
        for record, elements in zip(records, results, strict=True):
            leaf = leaves.get(id(record))
            if leaf is None or elements is None:
                continue
            if leaf.has_open_grad:
                raise UndefinedError("backward: the earlier gradient depends on a replay")
            total = elements if leaf.grad is None else leaf.grad.elements + elements
            leaf.grad = Array.of(total, leaf.device)

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
        """Return the environment of a function: the elements of its arguments, not their past."""
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
        for inner_step in function.body:
            inside.run(inner_step)
        for array, (grad, has_open_grad) in zip(arrays, before, strict=True):
            # The gradients that a function leaves depend on whether it is a replay.
            is_left = array.has_open_grad
            array.grad, array.has_open_grad = (grad, has_open_grad) if is_left else (None, True)
        for target, number in zip(step.targets, function.values[0], strict=True):
            result = inside.arrays[number]
            # Whether gradients flow through depends on whether it is a replay.
            blocked = GradientRecord(result.shape, result.dtype, (result.record,))
            self.arrays[target] = Array.of(result.elements, result.device, result.sizes, blocked)


_OTHERS: Mapping[str, Callable[[Environment, ProgramStep], None]] = {
    name.removeprefix("do_"): function
    for name, function in vars(Environment).items()
    if name.startswith("do_")
}
OPERATIONS = frozenset({*COMPUTE, *_OTHERS, *VIEWS})


def _sizes_after(
    step: ProgramStep, sources: Sequence[Array], shape: tuple[int, ...]
) -> tuple[Size, ...]:
    """Return the sizes of a result: symbolic axes survive only operations that keep them."""
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
            remaining = [1 if axis in axes else size for axis, size in enumerate(first.sizes)]
            return tuple(size for axis, size in enumerate(remaining) if keeps or axis not in axes)
        case "reshape":
            # A reshape names the current sizes.
            return shape
    if first.shape != shape:
        raise UndefinedError(f"{step.op} of a symbolic size")
    return first.sizes


def evaluate(program: TensorProgram) -> list[Elements]:
    """Return the results of a program's reads, in order.

    Raises `InexactError` if a float rounds, and `UndefinedError` if a step does not fit.
    """
    environment = Environment()
    for step in program.steps:
        try:
            environment.run(step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise UndefinedError(f"{step.op}: {type(error).__name__}: {error}") from error
    return environment.reads
