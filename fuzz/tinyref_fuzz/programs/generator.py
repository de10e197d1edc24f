"""Generate a program from a tape: meaningful steps, each evaluated as it is added.

A step that the oracle refuses, because a float would round or a size does not fit, is left out. So
every program has exact values, and a cut or changed tape still gives a program.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence

from tinyref_fuzz.generate.tape import Tape
from tinyref_fuzz.programs.arithmetic import VIEWS
from tinyref_fuzz.programs.arrays import Array
from tinyref_fuzz.programs.draft import (
    FLOATS,
    LARGE_SHAPES,
    MAX_LARGE,
    SHAPES,
    Bounds,
    DraftFunction,
    DraftScope,
    has_history,
    is_alike,
    may_be_argument,
    may_cut,
)
from tinyref_fuzz.programs.operations import Operations
from tinyref_fuzz.programs.oracle import Environment
from tinyref_fuzz.programs.steps import ProgramStep, TensorProgram

# Smallest and largest number of steps to draw; a draw may add several steps or none.
STEPS = (5, 14)
# Number of programs at the start of a campaign that have more steps. Most easy faults are then
# found by the first program, in the same time.
OPENING = 6
OPENING_STEPS = (20, 28)
MAX_FUNCTIONS = 2
MAX_BODY = 5
MAX_CALLS = 5
MAX_READS = 6
# Percentage of programs whose data are too large for one kernel to read at once.
LARGE = 10
# Largest number of operations between a tensor with gradients and the loss.
MAX_WAY = 4


def opening_steps(number: int) -> tuple[int, int]:
    """Return the smallest and largest number of steps of program `number` of a campaign."""
    return OPENING_STEPS if number < OPENING else STEPS


def generate(tape: Tape, devices: int = 2, count: tuple[int, int] = STEPS) -> TensorProgram:
    """Return the program of a tape; `count` is the smallest and largest number of steps."""
    steps = Generator(tape, devices).program(count)
    return TensorProgram(tuple(steps), tuple(tape.choices))


class Generator(Operations):
    """Source of the steps of a program; a subclass draws another kind."""

    # The program as a whole

    def program(self, least_and_most: tuple[int, int]) -> list[ProgramStep]:
        """Return the steps of the program."""
        self._data()
        if self.tape.chance(LARGE):
            self._large()
        for _ in range(self.tape.between(*least_and_most)):
            self._grow(_WHOLE)
        for function in self.functions.values():
            while function.calls < 3 and self._call(function):
                pass
        if self.functions and self.state and self.tape.chance(60):
            self._use_state()
        self._read_all()
        return self.scope.steps

    def _large(self) -> None:
        """Add a long range in memory, and move some elements; later tensors may be as large."""
        self.most = MAX_LARGE
        shape = self.tape.pick(LARGE_SHAPES)
        number = self._make("arange", (), 0, math.prod(shape), self._device())
        number = number and self._make("reshape", (number,), shape)
        if number and self._try(ProgramStep("realize", (number,))):
            for _ in range(self.tape.between(1, 2)):
                self._assign_own(number)

    def _grow(self, makers: Makers) -> None:
        getattr(self, f"_{self.tape.pick(list(makers), list(makers.values()))}")()

    def _read_all(self) -> None:
        """Read tensors in some order, computed together or one by one."""
        live = list(self.arrays)
        chosen: list[int] = []
        while live and len(chosen) < MAX_READS:
            # The last ones first: they were computed from the others.
            chosen.append(live.pop(-1 - self.tape.below(len(live))))
        if self.tape.chance(40):
            self._try(ProgramStep("realize", tuple(chosen)))
        for number in chosen:
            self._try(ProgramStep("read", (number,)))

    def _use_state(self) -> None:
        """Call functions, and write, view, copy and drop their state in between."""
        for _ in range(self.tape.between(3, 5)):
            self._call(self.tape.pick(list(self.functions.values())))
            for _ in range(self.tape.below(4)):
                state = [n for n, array in self.arrays.items() if array.store.number in self.state]
                self.focus = self.tape.pick(state) if state else None
                self._grow(_BETWEEN)
        self.focus = None

    # Gradients

    def _differentiate(self) -> None:
        """Draw a chain of operations from a tensor with gradients, and the gradients at its end."""
        start = self._pick(lambda array: array.record.is_certain)
        if start is None and not self.scope.is_function:
            dtype = self.tape.pick(("float32", "float16"), (7, 1))
            start = self._data_of(dtype, self.tape.pick(SHAPES), self._device(), True)
        if start is None:
            return
        self.focus = start
        for _ in range(self.tape.between(1, MAX_WAY)):
            self._grow(_WAYS)
            last = max(self.arrays)
            if last != self.focus and has_history(self.arrays[last]):
                self.focus = last
        self._gradient()
        self.focus = None

    def _gradient(self) -> None:
        """Draw the gradients of a sum of floats, or of a weighted one."""
        loss = self._pick(has_history)
        if loss is None:
            return
        array = self.arrays[loss]
        weights: list[int] = []
        if self.tape.chance(60) and not array.is_symbolic:
            # The weight of each element, with the same shape and device.
            number = self._pick_or_data(array, array.shape)
            weights = [] if number is None else [number]
        if array.positions.ndim and not weights:
            total = self._make("sum", (loss,), tuple(range(array.positions.ndim)), False)
            if total is None:
                return
            loss = total
        behind = {id(record) for record in self.arrays[loss].record.history()}
        sources = [n for n, array in self.arrays.items() if id(array.record) in behind]
        if self.tape.chance(50):
            self._backward(loss, weights, sources)
        else:
            self._targets(loss, weights, sources)

    def _targets(self, loss: int, weights: Sequence[int], sources: Sequence[int]) -> None:
        """Draw `gradient` with respect to a few tensors that the loss depends on."""
        arrays = self.arrays
        targets = [n for n in sources if arrays[n].is_known and arrays[n].record.is_certain]
        chosen = [number for number in targets if self.tape.chance(60)][:3] or targets[:1]
        if chosen:
            results = tuple(self._new() for _ in chosen)
            op = "gradient_weighted" if weights else "gradient"
            self._try(ProgramStep(op, (loss, *weights, *chosen), results))

    def _backward(self, loss: int, weights: Sequence[int], sources: Sequence[int]) -> None:
        """Draw `backward`, perhaps repeated, and reads of the gradients in the leaves."""
        leaves = [number for number in sources if self.arrays[number].record.is_leaf]
        for number in leaves:
            if self.scope.is_function or self.tape.chance(20):
                self._try(ProgramStep("zero_grad", (number,)))
        for _ in range(self.tape.pick((1, 2, 3), (6, 2, 1))):
            self._try(ProgramStep("backward", (loss, *weights)))
        for number in leaves:
            if self.tape.chance(80):
                self._make("grad", (number,))
            if self.tape.chance(10):
                self._try(ProgramStep("zero_grad", (number,)))

    # Functions

    def _function(self) -> None:
        """Draw a captured function of one or two tensors, perhaps of a size, and a call of it."""
        if self.scope.is_function or len(self.functions) >= MAX_FUNCTIONS:
            return
        args = self._parameters()
        if not args:
            return
        first = self.arrays[args[0]]
        size: Bounds | None = None
        if first.sizes and may_cut(first.sizes[0]) and self.tape.chance(35):
            size = self._size(first.shape[0], self.tape.pick((1, 0), (3, 1)))
            bound = self._bind(size)
            args += [] if bound is None else [bound]
        step = self._body(args, size, frozenset(self._writable_state(args)))
        if step is None:
            return
        self._try(step)
        examples = tuple(self.arrays.get(number) for number in args)
        function = self.functions[step.target] = DraftFunction(step, examples, size)
        self._call(function)

    def _parameters(self) -> list[int]:
        """Pick the arguments of the first call, perhaps after drawing a weight."""
        first = self._pick(may_be_argument)
        if first is None:
            return []
        like = self.arrays[first]
        if like.dtype in FLOATS and self.tape.chance(50):
            self._data_of(like.dtype, like.shape, like.device, requires_grad=True)
        second = self._pick(may_be_argument) if self.tape.chance(40) else None
        if second is None or self.arrays[second].store.number == like.store.number:
            return [first]
        return [first, second]

    def _writable_state(self, args: Sequence[int]) -> set[int]:
        """Choose the state that the function may write: new, shared with another one, or none."""
        if self.state and self.tape.chance(60):
            return set(self.state)
        if self.tape.chance(30):
            return set()
        used = self._stores(args)
        number = self._pick(
            lambda array: (
                array.store.number not in used
                and self._may_write(array)
                and not (array.is_symbolic or array.store.whole.requires_grad)
            )
        )
        if number is not None and self.tape.chance(60):
            self._try(ProgramStep("realize", (number,)))
        return set() if number is None else {self.arrays[number].store.number}

    def _stores(self, numbers: Iterable[int]) -> set[int]:
        return {self.arrays[number].store.number for number in numbers if number in self.arrays}

    def _body(
        self, args: Sequence[int], size: Bounds | None, writable: frozenset[int]
    ) -> ProgramStep | None:
        """Return the function, drawn with the arguments of its first call."""
        outer, before = self.scope, set(self.arrays)
        parameters = tuple(self._new() for _ in args)

        def begin() -> Environment:
            outer.evaluate_again()
            return outer.environment.inside(parameters, args)

        self.scope = DraftScope(begin, is_function=True, writable=writable)
        if size is not None:
            self._part(parameters[0], 0, parameters[-1], size)
        self._grow_body()
        body, results = self.scope.steps, self._results(before)
        self.scope = outer
        outer.evaluate_again()
        if not results:
            return None
        target = self._new()
        return ProgramStep("function", parameters, (target,), (tuple(results),), tuple(body))

    def _grow_body(self) -> None:
        for _ in range(self.tape.between(1, MAX_BODY)):
            self._grow(_INSIDE)
        if self.tape.chance(40):
            self._differentiate()

    def _results(self, before: set[int]) -> list[int]:
        """Return the results of the function: the last tensors that it computed, except views."""
        computed = [
            target
            for step in self.scope.steps
            for target in step.targets
            if target in self.arrays and target not in before and step.op not in VIEWS
        ]
        self.undroppable |= {n for step in self.scope.steps for n in step.args if n in before}
        self.state |= self.scope.writable
        return computed[-self.tape.between(1, 2) :]

    def _call_some(self) -> None:
        if self.functions and not self.scope.is_function:
            function = self.tape.pick(list(self.functions.values()))
            if function.calls < MAX_CALLS:
                self._call(function)

    def _call(self, function: DraftFunction) -> bool:
        """Call a function with other tensors, in separate memory, and with another size."""
        args: list[int] = []
        for example in function.examples:
            arg = None
            if example is not None:
                arg = self._argument(example, args)
            elif function.size is not None:
                arg = self._bind(function.size)
            if arg is None:
                return False
            args.append(arg)
        function.calls += 1
        results = tuple(self._new() for _ in function.step.values[0])
        return self._try(ProgramStep("call", (function.step.target, *args), results))

    def _argument(self, example: Array, taken: Sequence[int]) -> int | None:
        stores = self._stores(taken) | self.state

        def fits(array: Array) -> bool:
            is_like = is_alike(example, array) and array.sizes == example.sizes
            return array.store.number not in stores and is_like and may_be_argument(array)

        number = self._window(example, stores) if self.tape.chance(25) else None
        if number is None and self.tape.chance(50):
            number = self._pick(fits)
        if number is None:
            number = self._data_of(example.dtype, example.shape, example.device)
        return number

    def _window(self, example: Array, taken: Container[int]) -> int | None:
        """Make an argument that is a part of a longer tensor, which is written before."""
        if example.is_symbolic or not example.positions.ndim:
            return None
        count, *rest = example.shape

        def fits(array: Array) -> bool:
            is_longer = array.shape > example.shape and array.shape[1:] == example.shape[1:]
            is_free = array.store.number not in taken and may_be_argument(array)
            return is_alike(example, array) and is_longer and is_free

        more = (2 * count, *rest)
        base = self._pick(fits) or self._data_of(example.dtype, more, example.device)
        if base is None:
            return None
        self._set_item(base, self.arrays[base], "setitem_number")
        low = self.tape.below(self.arrays[base].shape[0] - count + 1)
        bounds = ((low, low + count), *((0, size) for size in rest))
        return self._make("shrink", (base,), bounds)


# Kinds of steps, each a method of the generator, and their weights.
Makers = Mapping[str, int]


_WHOLE: Makers = {
    "source": 4, "view": 9, "unary": 5, "binary": 9, "where": 2, "reduce": 6,
    "combine": 3, "memory": 3, "write": 10, "realize": 3, "read": 2, "drop": 5, "symbolic": 2,
    "gradient": 3, "differentiate": 6, "function": 5, "call_some": 4,
}  # fmt: skip
# Steps through which gradients flow: mostly views.
_WAYS: Makers = {
    "view": 16, "unary": 5, "binary": 8, "where": 3, "reduce": 8, "combine": 8,
    "memory": 3, "write": 5,
}  # fmt: skip
_INSIDE: Makers = {
    "view": 9, "unary": 5, "binary": 9, "where": 2, "reduce": 6, "combine": 3,
    "memory": 3, "write": 10, "gradient": 3, "differentiate": 6,
}  # fmt: skip
_BETWEEN: Makers = {
    "write": 16, "view": 3, "memory": 4, "unary": 3, "binary": 3, "reduce": 2, "drop": 2,
    "realize": 1, "read": 3,
}  # fmt: skip
