"""A program as Python that calls Tensor: what runs, and what a reproducer prints.

Everything of a step that comes from a file is printed by `repr` or is a number: a program that
somebody else wrote runs these calls and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tinyref.device import Device
from tinyref.errors import TinyrefError, UserError
from tinyref_fuzz.programs.helpers import HELPERS_OF
from tinyref_fuzz.programs.steps import Program, Step, Value

# Each operation as an expression: {a} to {c} are what it reads, {v[0]!r} its first value.
EXPRESSIONS: Mapping[str, str] = {
    # views
    "reshape": "{a}.reshape({v[0]!r})",
    "permute": "{a}.permute({v[0]!r})",
    "expand": "{a}.expand({v[0]!r})",
    "shrink": "{a}.shrink({v[0]!r})",
    "flip": "{a}.flip({v[0]!r})",
    "bitcast": "{a}.bitcast({v[0]!r})",
    "detach": "{a}.detach()",
    "bitcast_fp8": "{a}.bitcast({v[0]!r})",
    # one element from one element of each
    "neg": "-{a}",
    "relu": "{a}.relu()",
    "square": "{a} * {a}",
    "not": "{a}.logical_not()",
    "cast": "{a}.cast({v[0]!r})",
    "add_number": "{a} + {v[0]!r}",
    "mul_number": "{a} * {v[0]!r}",
    "max_number": "{a}.maximum({v[0]!r})",
    "idiv_number": "{a}.idiv({v[0]!r})",
    "mod_number": "{a} % {v[0]!r}",
    "lt_number": "{a} < {v[0]!r}",
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "maximum": "{a}.maximum({b})",
    "minimum": "{a}.minimum({b})",
    "lt": "{a} < {b}",
    "ne": "{a} != {b}",
    "and": "{a} & {b}",
    "xor": "{a} ^ {b}",
    "where": "{a}.where({b}, {c})",
    # 8-bit floats, which are only stored
    "to_fp8": "{a}.cast({v[0]!r})",
    "from_fp8": "{a}.cast({v[0]!r})",
    # many elements
    "sum": "{a}.sum({v[0]!r}, keepdim={v[1]!r})",
    "max": "{a}.max({v[0]!r}, keepdim={v[1]!r})",
    "prod": "{a}.prod({v[0]!r}, keepdim={v[1]!r})",
    "sum_tenths": "({a} * 0.1).sum({v[0]!r}, keepdim={v[1]!r})",
    "cumsum": "{a}.cumsum({v[0]!r})",
    "matmul": "{a} @ {b}",
    "cat": "{a}.cat({b}, dim={v[0]!r})",
    "stack": "{a}.stack({b}, dim={v[0]!r})",
    "pad": "{a}.pad({v[0]!r})",
    "take": "{a}[{b}]",
    # gradients
    "grad": "{a}.grad",
    # memory
    "contiguous": "{a}.contiguous()",
    "clone": "{a}.clone()",
}
# Each operation that makes nothing.
STATEMENTS: Mapping[str, str] = {
    "assign": "{a}.assign({b})",
    "assign_number": "{a}.assign({v[0]!r})",
    "iadd": "{a} += {b}",
    "seed": "Tensor.manual_seed({v[0]!r})",
    "drop": "del {a}",
    "zero_grad": "{a}.grad = None",
    "read": "check({a})",
}
# Views as their own elements: they show memory of what they are of.
VIEWS = frozenset(
    {
        *("reshape", "permute", "expand", "shrink", "flip", "bitcast", "detach", "index", "part"),
        "bitcast_fp8",
    }
)
# What gives a list of tensors.
_LISTS = frozenset(
    {"gradient", "gradient_weighted", "call", "call_twice", "call_elsewhere", "reload"}
)
# What stays the tensor that it is: it is no tensor, a list of them, in a file, or one that others
# have too.
_KEPT = frozenset({"bind", "grad", "file", "save", *_LISTS})
# After which there is nothing to compute at once.
_COMPUTED = frozenset(
    {
        *("bind", "drop", "read", "seed", "realize", "zero_grad", "reload"),
        "realize_twice",
    }
)

# Numpy has no arrays of more.
MAX_AXES = 64


class Computing(Enum):
    """When a program computes what it builds."""

    LAZY = "when it is read: what one does"
    STORED = "when it is read, each result in memory of its own: nothing fuses"
    AT_ONCE = "each result before the next is built: nothing fuses, nothing waits"


@dataclass(frozen=True)
class Line:
    """One line of a script, and the number of the step that it is of."""

    text: str
    step: int = -1


@dataclass(frozen=True)
class Places:
    """The devices of a program: a step has the number of one."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, device: str) -> Places:
        """The device that is judged, another one of its kind, one that shares no memory with it."""
        base, _, number = device.rpartition(":")
        base, first = (base, int(number)) if number.isdigit() else (device, 0)
        other = "CPU" if Device.canonical(base) == "PYTHON" else "PYTHON"
        return cls((device, f"{base}:{first + 1}", other))

    def opened(self) -> Places:
        """Those that open here: not every device has a second one."""
        return Places(tuple(name for name in self.names if _opens(name)))

    def name(self, place: Value) -> str:
        """Raises `UserError` for a number that stands for none."""
        if not isinstance(place, int) or not 0 <= place < len(self.names):
            raise UserError(f"place: got {place!r}, accepted is 0 to {len(self.names) - 1}")
        return self.names[place]


def _opens(name: str) -> bool:
    try:
        Device[name]
    except TinyrefError:
        return False
    return True


def name_of(number: int) -> str:
    """The variable of the script that stands for what has this number.

    Raises `UserError` for what is no number: whatever else a name has, would run.
    """
    if type(number) is not int:
        raise UserError(f"step: expected the number of a tensor, got {str(number)[:80]!r}")
    return f"t{number}"


def script_lines(
    program: Program,
    places: Places,
    computing: Computing = Computing.LAZY,
) -> list[Line]:
    """The lines of the calls, with a `check` of each tensor that is read.

    Raises `UserError` for a step that no table has, or whose arguments or values are not those of
    its operation.
    """
    printer = _Printer(places, computing)
    found: list[Line] = []
    for number, step in enumerate(program.steps):
        try:
            found += [Line(text, number) for text in printer.lines(step)]
        except TinyrefError as error:
            raise UserError(f"step {number}: {error}".replace(": step: ", ": ", 1)) from None
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"step {number}: {step.op!r} has other arguments or values than it takes: {error}"
            ) from None
    return found


class _Printer:
    def __init__(self, places: Places, computing: Computing) -> None:
        self.places = places
        self.computing = computing

    def lines(self, step: Step) -> Iterator[str]:
        """A step as lines, with what `computing` adds."""
        if step.op == "function":
            yield from self._function(step)
            return
        text = self._text(step)
        stores = self.computing is Computing.STORED and step.op not in VIEWS | _KEPT
        if len(step.targets) == 1 and stores:
            text = f"({text}).contiguous()"
        if step.targets:
            comma = "," if step.op in _LISTS else ""
            text = f"{', '.join(map(name_of, step.targets))}{comma} = {text}"
        yield text
        if self.computing is Computing.AT_ONCE:
            changed = step.targets or step.args[:1]
            if step.op not in _COMPUTED:
                yield f"Tensor.realize({', '.join(map(name_of, changed))})"

    def _function(self, step: Step) -> Iterator[str]:
        parameters = ", ".join(map(name_of, step.args))
        yield "@TinyJit"
        yield f"def {name_of(step.target)}({parameters}):"
        for each in step.body:
            for text in self.lines(each):
                yield f"    {text}"
        results = ", ".join(f"{name_of(number)}" for number in step.values[0])
        yield f"    return ({results},)"

    def _text(self, step: Step) -> str:
        names = [name_of(number) for number in step.args]
        found = EXPRESSIONS.get(step.op) or STATEMENTS.get(step.op)
        if found is not None:
            given = dict(zip("abc", names, strict=False))
            return found.format(**given, v=step.values)
        if step.op not in _OTHERS:
            raise UserError(f"step: unknown operation {step.op!r}")
        return _OTHERS[step.op](self.places, names, step)


def _data(places: Places, names: Sequence[str], step: Step) -> str:
    dtype, shape, elements, place, requires_grad = step.values
    more = ", requires_grad=True" if requires_grad else ""
    array = f"np.array({list(elements)!r}, {dtype!r}).reshape({shape!r})"
    return f"Tensor({array}, device={places.name(place)!r}{more})"


def _full(places: Places, names: Sequence[str], step: Step) -> str:
    dtype, shape, number, place = step.values
    return f"Tensor.full({shape!r}, {number!r}, dtype={dtype!r}, device={places.name(place)!r})"


def _arange(places: Places, names: Sequence[str], step: Step) -> str:
    start, count, place = step.values
    return f"Tensor.arange({start!r}, {start + count!r}, device={places.name(place)!r})"


def _rand(places: Places, names: Sequence[str], step: Step) -> str:
    shape, place = step.values
    # Of a fraction of 24 bits the first eight: an integer, so that nothing rounds.
    return f"(Tensor.rand({shape!r}, device={places.name(place)!r}) * 256).cast('int32')"


def _randint(places: Places, names: Sequence[str], step: Step) -> str:
    shape, low, high, place = step.values
    bounds = f"low={low!r}, high={high!r}"
    return f"Tensor.randint({shape!r}, {bounds}, device={places.name(place)!r})"


def _to(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}.to({places.name(step.values[0])!r})"


def _disk(places: Places, names: Sequence[str], step: Step) -> str:
    file = f'f"DISK:{{folder}}/{name_of(step.target)}"'
    return f"{names[0]}.to({file}).to({places.name(step.values[0])!r})"


def _index(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}[{key_text(step.values[0])}]"


def _setitem(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}[{key_text(step.values[0])}] = {names[1]}"


def _setitem_number(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}[{key_text(step.values[0])}] = {step.values[1]!r}"


def _part(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}[{part_text(step.values, names[1])}]"


def _set_part(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}[{part_text(step.values, names[1])}] = {names[2]}"


def _bind(places: Places, names: Sequence[str], step: Step) -> str:
    name, low, high, value = step.values
    return f"Variable({name!r}, {low!r}, {high!r}).bind({value!r})"


def _realize(places: Places, names: Sequence[str], step: Step) -> str:
    return f"Tensor.realize({', '.join(names)})"


def _gradient(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}.gradient({', '.join(names[1:])})"


def _gradient_weighted(places: Places, names: Sequence[str], step: Step) -> str:
    loss, weights, *targets = names
    return f"{loss}.gradient({', '.join(targets)}, gradient={weights})"


def _backward(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}.backward({', '.join(names[1:])})"


def _has_grad(places: Places, names: Sequence[str], step: Step) -> str:
    return f"Tensor([{names[0]}.grad is not None], device={places.name(step.values[0])!r})"


def _call(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{names[0]}({', '.join(names[1:])})"


# Files, pickles, threads


def _file(places: Places, names: Sequence[str], step: Step) -> str:
    dtype, shape, elements, before, after = step.values
    array = f"np.array({list(elements)!r}, {dtype!r}).reshape({shape!r})"
    return f"in_file({name_of(step.target)!r}, {array}, {before!r}, {after!r})"


def _save(places: Places, names: Sequence[str], step: Step) -> str:
    return f'{names[0]}.to(f"DISK:{{folder}}/{name_of(step.target)}")'


def _file_bytes(places: Places, names: Sequence[str], step: Step) -> str:
    place, before = step.values
    return f"from_file({names[0]}, {names[0]!r}, {before!r}, {places.name(place)!r})"


def _pickled(places: Places, names: Sequence[str], step: Step) -> str:
    return f"{HELPERS_OF[step.op]}({', '.join(names)})"


def _call_twice(places: Places, names: Sequence[str], step: Step) -> str:
    function, *given = names
    half = len(given) // 2
    works = [f"lambda: {function}({', '.join(g)})" for g in (given[:half], given[half:])]
    return f"sum(together({', '.join(works)}), ())"


def _realize_twice(places: Places, names: Sequence[str], step: Step) -> str:
    return f"together({', '.join(f'lambda: {name}.realize()' for name in names)})"


_OTHERS = {
    "file": _file,
    "save": _save,
    "file_bytes": _file_bytes,
    "reload": _pickled,
    "call_elsewhere": _pickled,
    "call_twice": _call_twice,
    "realize_twice": _realize_twice,
    "data": _data,
    "full": _full,
    "arange": _arange,
    "rand": _rand,
    "randint": _randint,
    "to": _to,
    "disk": _disk,
    "index": _index,
    "setitem": _setitem,
    "setitem_number": _setitem_number,
    "part": _part,
    "set_part": _set_part,
    "bind": _bind,
    "realize": _realize,
    "gradient": _gradient,
    "gradient_weighted": _gradient_weighted,
    "backward": _backward,
    "has_grad": _has_grad,
    "call": _call,
}
OPERATIONS = frozenset({*EXPRESSIONS, *STATEMENTS, *_OTHERS, "function"})


def key_text(key: Value) -> str:
    """A key of numbers, slices (three numbers or None) and lists of places, as in brackets."""
    return ", ".join(_item_text(item) for item in key)


def _item_text(item: Value) -> str:
    if not isinstance(item, tuple):
        return repr(item)
    if item[0] == "places":
        return repr(list(item[1]))
    start, stop, step = ("" if part is None else repr(part) for part in item)
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def part_text(values: Sequence[Value], size: str) -> str:
    """The part of one axis that a bound size cuts off: its head, what follows, or one place."""
    axis, form = values
    text = {"head": f":{size}", "tail": f"{size} - 1 :", "window": f"{size} - 1 : {size}"}.get(form)
    if not isinstance(axis, int) or not 0 <= axis < MAX_AXES or text is None:
        raise UserError(
            f"part: axis {axis!r}, form {form!r}: accepted are an axis below {MAX_AXES}, and head, "
            "tail and window"
        )
    return ", ".join([":"] * axis + [text])
