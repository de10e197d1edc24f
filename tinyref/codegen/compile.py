"""The kernel compiler: from a kernel AST to a program, stage by stage."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence

from tinyref import config
from tinyref.algebra.rewrite import Steps, listeners, listening, takes_step
from tinyref.algebra.shapes import is_one, output_shape, reduced_sizes
from tinyref.algebra.simplify import simplify
from tinyref.capabilities import Capabilities
from tinyref.codegen.accumulate import accumulate
from tinyref.codegen.decompose import decompose, stored_as
from tinyref.codegen.expand import expand
from tinyref.codegen.linearise import linearise
from tinyref.codegen.lower import lower
from tinyref.codegen.narrow import narrow_index
from tinyref.dtype import DType, ImageDType, PtrDType
from tinyref.errors import UserError
from tinyref.formats.text import dumping
from tinyref.garbage import collection_paused
from tinyref.optimise.choices import heuristic_plan, with_texels
from tinyref.optimise.fold_ranges import fold_ranges
from tinyref.optimise.opt import Opt, checked_opts
from tinyref.optimise.plan import Plan
from tinyref.uops.build import slot_of
from tinyref.uops.node import UOp, sint
from tinyref.uops.ops import Dialect, Ops
from tinyref.uops.payload import ConstArg, SlotArg, SpecialArg, VarArg
from tinyref.uops.program import Parameter, Program
from tinyref.verify import verify

# The names of the stages in DUMP and for listeners, in order.
STAGES = (
    "ast",
    "normal",
    "lower",
    "simplify",
    "expand",
    "accumulate",
    "decompose",
    "narrow",
    "linearise",
)


@collection_paused()
def compile_kernel(
    ast: UOp,
    capabilities: Capabilities,
    name: str | None = None,
    opts: Sequence[Opt] | None = None,
) -> Program:
    """Compile the kernel `ast` for a device with these capabilities.

    Equal arguments give equal programs. Active listeners get the result of each of `STAGES`. Raises
    `UserError` for what the device lacks, and `VerifyError` if a graph breaks a rule of its dialect
    (unless VERIFY is 0).

    Args:
        name: the entry point. By default, it is made of the sizes of the kernel.
        opts: the optimisations of the plan. By default, the heuristics choose them, or nothing does
            if the flag NOOPT is set. Image accesses need lanes, which are added only by default.
    """
    if not capabilities.ops:
        raise UserError("kernel: the device declares no ops: it holds data but runs no kernels")
    if name is None:
        name = kernel_name(ast)
    limit = config.integer("BISECT")
    if limit >= 0 and listeners().steps is None:
        return _bisected(limit, ast, capabilities, name, opts)
    pipeline = _Pipeline(name, ast)
    pipeline.stage("ast", ast, Dialect.AST)
    plan = plan_for(ast, capabilities, opts)
    pipeline.stage("normal", plan.normal_ast)
    root = pipeline.stage("lower", lower(plan))
    root = pipeline.stage("simplify", simplify(root))
    root = pipeline.stage("expand", expand(root, capabilities))
    # Accumulators come first, so that an emulated float is rounded at every step of a sum.
    root = pipeline.stage("accumulate", accumulate(root))
    root = pipeline.stage("decompose", decompose(root, capabilities))
    pipeline.check_bounds(root)
    grid, group = _launch(root)
    root = pipeline.stage("narrow", narrow_index(root, capabilities), Dialect.INDEXED)
    uops = linearise(root)
    pipeline.report("linearise", uops, Dialect.PROGRAM)
    return Program(
        name,
        uops,
        parameters_of(ast, uops, functools.partial(_held_as, capabilities=capabilities)),
        launch_order(node for node in uops if node.op is Ops.DEFINE_VAR),
        grid,
        group,
    )


def plan_for(ast: UOp, capabilities: Capabilities, opts: Sequence[Opt] | None = None) -> Plan:
    """Return the plan that `compile_kernel` follows; it raises the errors of `Plan.apply_all`."""
    plan = Plan.of(ast, capabilities)
    is_counted = listeners().steps is not None
    if opts is None:
        plan = with_texels(plan)
        chosen = plan if config.integer("NOOPT") else heuristic_plan(plan)
        if not is_counted:
            return chosen
        opts = chosen.opts[len(plan.opts) :]
    if is_counted:
        checked = checked_opts(opts)
        opts = tuple(itertools.takewhile(lambda opt: takes_step("opt", opt.op.value), checked))
    return plan.apply_all(opts)


def _bisected(
    limit: int,
    ast: UOp,
    capabilities: Capabilities,
    name: str,
    opts: Sequence[Opt] | None,
) -> Program:
    """Compile with `limit` optional steps; write a line to stderr that names the last of them."""
    steps = Steps(limit)
    with listening(steps=steps):
        program = compile_kernel(ast, capabilities, name, opts)
    last = f": {steps.taken[-1]}" if steps.taken else ""
    sys.stderr.write(f"bisect {name}: {len(steps.taken)} steps{last}\n")
    return program


class _Pipeline:
    """Actions between two stages: call the listeners, DUMP included, and verify the result."""

    def __init__(self, name: str, ast: UOp) -> None:
        self.name = name
        self.last = ast
        self.listeners = (*listeners().stages, *dumping(name))
        self.level = config.integer("VERIFY")

    def stage(self, stage: str, root: UOp, dialect: Dialect | None = None) -> UOp:
        """Report a graph and return it."""
        self.report(stage, root, dialect)
        self.last = root
        return root

    def report(self, stage: str, value: UOp | tuple[UOp, ...], dialect: Dialect | None) -> None:
        """Report a value, then verify it: a value that breaks a rule can be inspected."""
        for listener in self.listeners:
            listener(stage, self.last, value)
        least = 1 if dialect is Dialect.PROGRAM else 2
        if dialect is not None and self.level >= least:
            verify(dialect, value)

    def check_bounds(self, root: UOp) -> None:
        """Refuse accesses out of bounds, and report unproved ones, if CHECK_BOUNDS is set."""
        if config.integer("CHECK_BOUNDS"):
            # Few processes need this import, which is slow.
            from tinyref.verify.index_bounds import check_index_bounds

            for outcome, count in check_index_bounds(root).items():
                if count and not outcome.is_proved:
                    sys.stderr.write(f"bounds {self.name}: {count} accesses {outcome.value}\n")


def kernel_name(ast: UOp) -> str:
    """Return a C identifier made of the sizes: r_4_8_16 for 4 x 8 outputs of 16 terms each.

    The prefix is r for a kernel with a reduce, else e. For a symbolic size its variables are named.
    """
    sizes = [_size_text(size) for size in output_shape(ast) if not is_one(size)]
    reduces = [node for node in fold_ranges(ast).toposort() if node.op is Ops.REDUCE]
    inner = [_size_text(size) for node in reduces for size in reduced_sizes(node)]
    # There may be many reduces: the name has the sizes of four axes at most.
    return "_".join(["r" if reduces else "e", *sizes, *inner[:4]])


def _size_text(size: sint) -> str:
    if isinstance(size, int):
        return str(size)
    names = sorted(node.arg.name for node in size.toposort() if isinstance(node.arg, VarArg))
    return "".join(character for character in "".join(names) if character.isalnum()) or "s"


def _variable_name(node: UOp) -> str:
    return node.arg.name if isinstance(node.arg, VarArg) else ""


def _launch(root: UOp) -> tuple[tuple[sint, sint, sint], tuple[int, int, int]]:
    """Return the grid and the group, from the launch indices in the kernel."""
    grid: list[sint] = [1, 1, 1]
    group = [1, 1, 1]
    for node in root.toposort():
        if not isinstance(node.arg, SpecialArg):
            continue
        argument = node.src[0].arg
        extent: sint = int(argument.value) if isinstance(argument, ConstArg) else node.src[0]
        if node.arg.scope == "group":
            grid[node.arg.dim] = extent
        elif isinstance(extent, int):
            group[node.arg.dim] = extent
        else:
            raise UserError("kernel: the size of a group cannot be symbolic")
    return (grid[0], grid[1], grid[2]), (group[0], group[1], group[2])


def launch_order(variables: Iterable[UOp]) -> tuple[UOp, ...]:
    """Return the variables in the order in which a launch passes their values: by name."""
    return tuple(sorted(variables, key=_variable_name))


def parameters_of(
    ast: UOp, nodes: Sequence[UOp], held_as: Callable[[PtrDType], tuple[DType, int]]
) -> tuple[Parameter, ...]:
    """Return every buffer of the AST by slot, also one that the `nodes` of its program do not use.

    held_as: returns the type in which a device stores memory, and the number of it in an element.
    """
    written = {slot_of(node) for node in nodes if node.op is Ops.STORE}
    read = {slot_of(node) for node in nodes if node.op is Ops.LOAD}
    parameters = []
    for node in ast.toposort():
        if isinstance(node.arg, SlotArg) and isinstance(node.dtype, PtrDType):
            slot = node.arg.slot
            dtype, count = held_as(node.dtype)
            size = count * node.dtype.size
            parameters.append(Parameter(slot, dtype, size, slot in written, slot in read))
    return tuple(sorted(parameters, key=lambda parameter: parameter.slot))


def _held_as(memory: PtrDType, capabilities: Capabilities) -> tuple[DType, int]:
    """Return the type of a buffer, and the number of it in an element; images stay unchanged."""
    if isinstance(memory, ImageDType):
        return memory.base, 1
    return stored_as(memory.base, capabilities)
