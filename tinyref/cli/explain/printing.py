"""The stages of an expression or of kernels, printed to the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tinyref.cli.explain.kernel_stages import Stage, StageLine, compiled_stages
from tinyref.cli.explain.recording import KernelRecord
from tinyref.cli.expression import evaluate
from tinyref.cli.terminal import print_styled
from tinyref.codegen.compile import STAGES, compile_kernel, plan_for
from tinyref.device import Device
from tinyref.engine.report import chosen_opts
from tinyref.errors import UserError
from tinyref.formats.text import to_text
from tinyref.optimise.plan import print_plan
from tinyref.runtimes.kernel import compile_ast
from tinyref.schedule import KernelItem, schedule
from tinyref.tensor import Tensor

LARGEST_RESULT = 1 << 22
PLAN, SOURCE = "plan", "source"
# The stages that are printed by default, with their titles.
TITLES = {"ast": "AST", "narrow": "indexed kernel", "linearise": "program"}
_STYLES = {"+": "green", "-": "red", "@": "dim", "": ""}


@dataclass(frozen=True)
class KernelChoice:
    """The part to print.

    kernel: the number of a kernel, or a glob of its name; empty for all.
    stages: names of stages; empty for the usual ones.
    verbose: print what each stage changed.
    """

    kernel: str
    stages: tuple[str, ...]
    verbose: bool

    @classmethod
    def parse(cls, kernel: str, stages: str, verbose: bool) -> KernelChoice:
        """Read the options of the command. Raise `UserError` for an unknown stage."""
        names = tuple(name.strip() for name in stages.split(",")) if stages else ()
        accepted = (*STAGES, PLAN, SOURCE)
        for name in names:
            if name not in accepted:
                raise UserError(f"stage: got {name!r}, accepted are {', '.join(accepted)}")
        return cls(kernel, names, verbose)

    @property
    def is_part(self) -> bool:
        """Return True if the user chose a part."""
        return bool(self.kernel or self.stages or self.verbose)

    def has(self, kernel: KernelRecord) -> bool:
        """Return True for a kernel to print."""
        if not self.kernel or self.kernel == str(kernel.number):
            return True
        return fnmatchcase(kernel.name, self.kernel)

    def has_stage(self, name: str) -> bool:
        """Return True for a stage to print."""
        if self.stages:
            return name in self.stages
        return self.verbose or name in (*TITLES, PLAN, SOURCE)


def explain_expression(text: str, choice: KernelChoice) -> None:
    """Print the graph, the schedule and the kernels of an expression, and its result."""
    tensor = evaluate(text)
    if not choice.stages and not choice.kernel:
        _title(f"tensor graph: {tensor.dtype.name}{list(tensor.shape)} on {tensor.device}")
        print(to_text(tensor.node), end="")
    planned = schedule([(tensor.node, tensor.device)])
    items = planned.items
    kernels = [item for item in items if isinstance(item, KernelItem)]
    copies = len(items) - len(kernels)
    _title(
        f"schedule: {count_text(len(kernels), 'kernel')}, {count_text(copies, 'copy', 'copies')}"
    )
    if not items:
        print("nothing to run: the result is a constant or a view of existing memory")
    records = 0
    for item in items:
        if isinstance(item, KernelItem):
            record = KernelRecord(records + 1, item.device, item.ast)
            record.names.update(dict.fromkeys(item.names))
            records += 1
            if choice.has(record):
                print_kernel(record, choice)
        else:
            print(f"copy to {item.target.arg} from {item.source.arg}")
    if not choice.stages and not choice.kernel:
        _show_result(tensor)


def print_kernel(record: KernelRecord, choice: KernelChoice) -> None:
    """Print the chosen stages of a kernel."""
    capabilities = Device[record.device].capabilities
    opts = chosen_opts(record.device, record.ast)
    source = compile_ast(record.device, record.ast, opts).source
    program = compile_kernel(record.ast, capabilities, opts=opts)
    head = f"kernel {record.number}, {record.name}"
    for stage in compiled_stages(record).stages:
        if choice.has_stage(stage.name):
            after = "" if stage.name == "ast" else f", after {stage.name}"
            _title(f"{head}: {TITLES.get(stage.name, 'indexed kernel')}{after}")
            _print_stage(stage, is_difference=choice.verbose and not choice.stages)
        if stage.name == "ast" and choice.has_stage(PLAN):
            _title(f"{head}: plan")
            print_plan(plan_for(record.ast, capabilities, opts), sys.stdout)
    if not choice.stages:
        if record.names:
            print(f"computes: {', '.join(record.names)}")
        if record.lines:
            print(f"from: {', '.join(record.lines)}")
        if any(extent != 1 for extent in (*program.grid, *program.group)):
            print(f"launch: {_extents(program.grid)} groups of {_extents(program.group)}")
    if choice.has_stage(SOURCE):
        _title(f"{head}: source for {record.device}")
        print(source.rstrip("\n"))


def _print_stage(stage: Stage, is_difference: bool) -> None:
    """Print the text of a stage, or the lines that it changed, with the rules that fired."""
    if not is_difference:
        print(stage.text, end="")
        return
    if stage.rules:
        fired = ", ".join(f"{rule.name} {rule.count}" for rule in stage.rules)
        print(f"{stage.sentence} Rules: {fired}.")
    else:
        print(stage.sentence)
    if stage.lines or stage.is_whole:
        _print_lines(stage.lines)
    else:
        print("nothing changed")


def _print_lines(lines: Iterable[StageLine]) -> None:
    for line in lines:
        print_styled(f"{line.mark or ' '} {line.text}", _STYLES[line.mark])


def count_text(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 copy", "2 copies"."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _extents(extents: tuple[object, ...]) -> str:
    return " x ".join(str(extent) for extent in extents)


def _show_result(tensor: Tensor) -> None:
    _title("result")
    count = tensor.numel()
    if not isinstance(count, int) or count > LARGEST_RESULT:
        raise UserError(
            f"explain: the result has {count} elements, accepted are up to "
            f"{LARGEST_RESULT:,}: take a part of it or reduce it"
        )
    if not _keeps_values(tensor):
        tensor.realize()
        print(f"{tensor.device} runs nothing: there are no values")
        return
    # numpy shortens long arrays, and prints small floats through ml_dtypes.
    print(tensor.numpy())


def _keeps_values(tensor: Tensor) -> bool:
    devices = (tensor.device,) if isinstance(tensor.device, str) else tensor.device
    return all(Device[device].capabilities.keeps_values for device in devices)


def _title(text: str) -> None:
    print_styled(f"\n== {text}", "bold")
