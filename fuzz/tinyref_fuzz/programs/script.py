"""Print a program as Python code that calls Tensor: for execution, and for a reproducer.

Every value of a file is printed by `repr` or is a number, so that an untrusted program only runs
these calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyref.device import Device
from tinyref.errors import TinyrefError, UserError
from tinyref_fuzz.programs.arithmetic import COMPUTE, MOVEMENTS
from tinyref_fuzz.programs.steps import FUNCTION, ProgramStep, TensorProgram, Value

# Each operation as a statement or an expression, as in `COMPUTE`. {all} are all operands, {rest}
# and {targets} the last ones, and {part} is the contents of brackets.
TEMPLATES: Mapping[str, str] = {
    **{op: text for op, (text, _) in {**COMPUTE, **MOVEMENTS}.items()},
    # sources
    "data": "Tensor(np.array({elements!r}, {v[0]!r}).reshape({v[1]!r}), device={device!r}{marked})",
    "full": "Tensor.full({v[1]!r}, {v[2]!r}, dtype={v[0]!r}, device={device!r})",
    "arange": "Tensor.arange({v[0]!r}, {v[0]!r} + {v[1]!r}, device={device!r})",
    "randint": "Tensor.randint({v[0]!r}, low={v[1]!r}, high={v[2]!r}, device={device!r})",
    "bind": "Variable({v[0]!r}, {v[1]!r}, {v[2]!r}).bind({v[3]!r})",
    "part": "{a}[{part}]",
    # gradients
    "grad": "{a}.grad",
    "gradient": "{a}.gradient({rest})",
    "gradient_weighted": "{a}.gradient({targets}, gradient={b})",
    "call": "{a}({rest})",
    # statements without a result
    "assign": "{a}.assign({b})",
    "assign_number": "{a}.assign({v[0]!r})",
    "iadd": "{a} += {b}",
    "setitem": "{a}[{key}] = {b}",
    "setitem_number": "{a}[{key}] = {v[1]!r}",
    "set_part": "{a}[{part}] = {c}",
    "realize": "Tensor.realize({all})",
    "backward": "{a}.backward({rest})",
    "seed": "Tensor.manual_seed({v[0]!r})",
    "drop": "del {a}",
    "zero_grad": "{a}.grad = None",
    "read": "check({a})",
}
OPERATIONS = frozenset({*TEMPLATES, FUNCTION})
# Position of the device in the values of an operation.
_DEVICE_AT = {"data": 3, "full": 3, "arange": 2, "randint": 3, "to": 0}
# Operations that return a list of tensors.
_LISTS = frozenset({"gradient", "gradient_weighted", "call"})
# Operations after which there is nothing to compute at once.
_COMPUTED = frozenset({"bind", "drop", "read", "seed", "realize", "zero_grad"})

# Largest number of axes of a numpy array.
MAX_AXES = 64


@dataclass(frozen=True)
class ScriptLine:
    """One line of a script, and the number of its step."""

    text: str
    step: int = -1


@dataclass(frozen=True)
class ProgramDevices:
    """The devices of a program; a step has the number of one."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, device: str) -> ProgramDevices:
        """Return the judged device, another one of its kind, and one with separate memory."""
        base, _, number = device.rpartition(":")
        base, first = (base, int(number)) if number.isdigit() else (device, 0)
        other = "CPU" if Device.canonical(base) == "PYTHON" else "PYTHON"
        return cls((device, f"{base}:{first + 1}", other))

    def opened(self) -> ProgramDevices:
        """Return the devices that open here: not every device has a second one."""
        return ProgramDevices(tuple(name for name in self.names if _opens(name)))

    def name(self, number: Value) -> str:
        """Return the name of a device. Raises `UserError` for a number without one."""
        if not isinstance(number, int) or not 0 <= number < len(self.names):
            raise UserError(f"device: got {number!r}, accepted is 0 to {len(self.names) - 1}")
        return self.names[number]


def _opens(name: str) -> bool:
    try:
        Device[name]
    except TinyrefError:
        return False
    return True


def name_of(number: int) -> str:
    """Return the script's variable for this number."""
    return f"t{number}"


def _names(numbers: Sequence[int]) -> str:
    return ", ".join(map(name_of, numbers))


def script_lines(
    program: TensorProgram, devices: ProgramDevices, at_once: bool = False
) -> list[ScriptLine]:
    """Return the lines of the calls, with a `check` of each tensor that is read.

    With `at_once` each result is computed before the next is built: nothing fuses or waits. Raises
    `UserError` for an unknown operation, or for wrong arguments or values of one.
    """
    printer = _Printer(devices, at_once)
    lines: list[ScriptLine] = []
    for number, step in enumerate(program.steps):
        try:
            lines += [ScriptLine(text, number) for text in printer.lines(step)]
        except TinyrefError as error:
            raise UserError(f"step {number}: {error}".replace(": step: ", ": ", 1)) from None
        except (LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"step {number}: {step.op!r} has wrong arguments or values: {error}"
            ) from None

    return lines


class _Printer:
    def __init__(self, devices: ProgramDevices, at_once: bool) -> None:
        self.devices = devices
        self.at_once = at_once

    def lines(self, step: ProgramStep) -> Iterator[str]:
        """Yield a step as lines, followed by a line that computes it if `at_once` is set."""
        if step.op == FUNCTION:
            yield "@TinyJit"
            yield f"def {name_of(step.target)}({_names(step.args)}):"
            for inner in step.body:
                for text in self.lines(inner):
                    yield f"    {text}"
            yield f"    return ({_names(step.values[0])},)"
            return
        text = self._text(step)
        if step.targets:
            comma = "," if step.op in _LISTS else ""
            text = f"{_names(step.targets)}{comma} = {text}"
        yield text
        if self.at_once and step.op not in _COMPUTED:
            changed = step.targets or step.args[:1]
            yield f"Tensor.realize({_names(changed)})"

    def _text(self, step: ProgramStep) -> str:
        template = TEMPLATES.get(step.op)
        if template is None:
            raise UserError(f"step: unknown operation {step.op!r}")
        words = {
            **dict(zip("abc", map(name_of, step.args), strict=False)),
            "all": _names(step.args),
            "rest": _names(step.args[1:]),
            "targets": _names(step.args[2:]),
            **self._values(step),
        }
        return template.format(**words, v=step.values)

    def _values(self, step: ProgramStep) -> dict[str, Value]:
        """Return the fields of templates other than operands and values."""
        words: dict[str, Value] = {}
        if step.op in _DEVICE_AT:
            words["device"] = self.devices.name(step.values[_DEVICE_AT[step.op]])
        words["devices"] = self.devices.names
        match step.op:
            case "data":
                _, _, elements, _, requires_grad = step.values
                words["elements"] = list(elements)
                words["marked"] = ", requires_grad=True" if requires_grad else ""
            case "index" | "setitem" | "setitem_number":
                words["key"] = key_text(step.values[0])
            case "part" | "set_part":
                words["part"] = part_text(step.values, name_of(step.args[1]))
        return words


def key_text(key: Value) -> str:
    """Print a key of numbers, slices (three numbers or None) and lists, as in brackets."""
    return ", ".join(_item_text(item) for item in key)


def _item_text(item: Value) -> str:
    if not isinstance(item, tuple):
        return repr(item)
    if item[0] == "places":
        return repr(list(item[1]))
    start, stop, step = ("" if part is None else repr(part) for part in item)
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def part_text(values: Sequence[Value], size: str) -> str:
    """Print the part of an axis that a bound size cuts off: head, tail, or one element."""
    axis, form = values
    text = {"head": f":{size}", "tail": f"{size} - 1 :", "window": f"{size} - 1 : {size}"}.get(form)
    if not isinstance(axis, int) or not 0 <= axis < MAX_AXES or text is None:
        raise UserError(
            f"part: axis {axis!r}, form {form!r}: accepted are an axis below {MAX_AXES}, and head, "
            "tail and window"
        )
    return ", ".join([":"] * axis + [text])
