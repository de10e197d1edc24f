"""A large case, and faults injected into the compiler or a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyref.algebra.semantics import apply
from tinyref.codegen import compile as compiler
from tinyref.config import integer
from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import DeviceError
from tinyref.interpret import Interpreter
from tinyref.optimise.opt import OptOp, parse_opts
from tinyref.runtimes.host.cpu import CpuBackend, LlvmCompiler
from tinyref.runtimes.python import InterpretedKernel, TextBackend
from tinyref.uops import build
from tinyref.uops.node import UOp, substitute
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.views.shape_tracker import ShapeTracker
from tinyref_fuzz.judge import runs
from tinyref_spec.kernel_case import KernelCase, Pair, Symptom
from tinyref_spec.kernels.notation import load, shaped, store, total

# --- a case with many features --------------------------------------------------------------------

ROWS, COLUMNS = 4, 6
LISTS = (
    "UPCAST(0, 2) UPCAST(1, 2) UNROLL(2, 2)",
    "GROUP(2, 2) UPCAST(0, 2)",
    "PADTO(0, 3) LOCAL(0, 3)",
)


def large_case(*lists: str) -> KernelCase:
    """Return a case of 22 nodes, with two outputs, three types, and views of several kinds."""
    contents = [np.full(ROWS, 90, np.float32), np.full(ROWS * COLUMNS, 90, np.int32)]

    def loaded(tracker: ShapeTracker, dtype=dtypes.int32) -> UOp:
        slot = len(contents)
        values = (np.arange(tracker.real_size()) * 7 + slot) % 5 - (slot % 2)
        contents.append(values.astype(numpy_dtype(dtype)))
        return load(slot, dtype, tracker)

    whole = shaped(ROWS, COLUMNS)
    padded = shaped(ROWS, COLUMNS - 2).pad(((0, 0), (1, 1)))
    repeated = shaped(1, COLUMNS).expand((ROWS, COLUMNS))
    x, y = loaded(whole.flip((1,))), loaded(padded)
    half = build.cast(build.add(loaded(whole, dtypes.float16), 1.0), dtypes.float32)
    count = build.mod(build.add(build.mul(x, y), loaded(repeated)), 3)
    larger = build.maximum(count, y)
    chosen = build.where(build.less(x, y), larger, build.mul(x, 3))
    terms = build.mul(build.cast(chosen, dtypes.float32), half)
    sums = build.add(total(terms, 1), 2.0)
    ast = build.sink(store(0, sums, (ROWS, 1)), store(1, chosen, whole))
    return KernelCase(ast, tuple(contents), opts=tuple(map(parse_opts, lists or LISTS)))


# --- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A fault, how it is injected, and the expected verdict."""

    name: str
    inject: Callable
    """Receives pytest's monkeypatch."""
    pair: Pair
    symptom: Symptom
    device: str = "PYTHON"
    opts: tuple[OptOp, ...] = ()
    lists: tuple[str, ...] = LISTS


Change = Callable[[UOp], UOp | None]


def in_stage(stage: str, change: Change) -> Callable:
    """Inject a fault into a stage of the compiler: replace nodes by the result of `change`."""

    def inject(monkeypatch) -> None:
        healthy = getattr(compiler, stage)
        monkeypatch.setattr(compiler, stage, lambda *args: changed(healthy(*args), change))

    return inject


def in_plans_with(op: OptOp, change: Change) -> Callable:
    """Inject a fault into the lowering of plans with this optimisation, which must be legal."""

    def inject(monkeypatch) -> None:
        healthy = compiler.lower

        def wrong(plan):
            root = healthy(plan)
            return changed(root, change) if any(opt.op is op for opt in plan.opts) else root

        monkeypatch.setattr(compiler, "lower", wrong)

    return inject


def changed(root: UOp, change: Change) -> UOp:
    new_nodes = {node: change(node) for node in root.toposort()}
    return substitute(root, {old: new for old, new in new_nodes.items() if new is not None})


def with_opts(error: Exception, *ops: OptOp) -> Callable:
    """Inject an error that needs all of these optimisations."""

    def inject(monkeypatch) -> None:
        healthy = runs.compile_kernel

        def wrong(ast, capabilities, opts=None):
            if opts and set(ops) <= {opt.op for opt in opts}:
                raise error
            return healthy(ast, capabilities, opts=opts)

        monkeypatch.setattr(runs, "compile_kernel", wrong)

    return inject


def nothing(monkeypatch) -> None:
    """Inject nothing: the device is already faulty."""


def is_data(node: UOp) -> bool:
    return node.dtype is not dtypes.index and node.dtype is not dtypes.void


def maximum_of_second(node: UOp) -> UOp | None:
    if node.op is Ops.MAX and is_data(node):
        return node.replace(src=(node.src[1], node.src[1]))
    return None


def seven_where_masked(node: UOp) -> UOp | None:
    if node.op is Ops.LOAD and len(node.src) == 3 and node.src[1].op is Ops.CONST:
        value = True if node.dtype.is_bool else 7.0 if node.dtype.is_float else 7
        return node.replace(src=(node.src[0], build.const(node.dtype, value), node.src[2]))
    return None


def forward_always(node: UOp) -> UOp | None:
    if node.op is Ops.CONST and node.dtype is dtypes.index and node.arg == ConstArg(-1):
        return build.const(dtypes.index, 1)
    return None


def lanes_backward(node: UOp) -> UOp | None:
    return node.replace(src=node.src[::-1]) if node.op is Ops.VECTORIZE and is_data(node) else None


def waits_for_no_barrier(node: UOp) -> UOp | None:
    if node.op is not Ops.AFTER or all(source.op is not Ops.BARRIER for source in node.src):
        return None
    sources: list[UOp] = []
    for source in node.src:
        sources += source.src if source.op is Ops.BARRIER else [source]
    return node.replace(src=tuple(sources))


def swapped_select(node: UOp) -> UOp | None:
    if node.op is Ops.WHERE and is_data(node):
        return node.replace(src=(node.src[0], node.src[2], node.src[1]))
    return None


class Wrong(TextBackend):
    """Base of faulty devices: the interpreter, as a device."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return InterpretedKernel(self.name, super().load(entry, binary).program)


class ModOffByOne(Wrong):
    """Device whose MOD is one too large."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        kernel.interpreter = Interpreter(kernel.program, {Ops.MOD: _mod_off_by_one})
        return kernel


def _mod_off_by_one(dtype, operands, sources):
    return apply(Ops.MOD, dtype, operands, sources) + np.ones((), numpy_dtype(dtype))


class NoTwoOutputs(Wrong):
    """Device that refuses kernels that write two buffers."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        kernel = super().load(entry, binary)
        if sum(parameter.is_written for parameter in kernel.program.parameters) > 1:
            raise DeviceError(self.name, "the second output does not fit")
        return kernel


class LastElementLost(Wrong):
    """Device that does not write the last element of the first buffer, if there are three."""

    def load(self, entry: str, binary: bytes) -> InterpretedKernel:
        return _Lossy(self.name, super().load(entry, binary).program)


class _Lossy(InterpretedKernel):
    def __call__(self, buffers, grid=(1, 1, 1), group=(1, 1, 1), variables=(), wait=False):
        size = self.program.parameters[0].dtype.itemsize
        last = buffers[0][-size:].copy()
        super().__call__(buffers, grid, group, variables, wait)
        if buffers[0].size >= 3 * size:
            buffers[0][-size:] = last
        return 0.0


_PLAIN = (Pair.PLAIN, Symptom.VALUE)
_DEVICE = (Pair.DEVICE, Symptom.VALUE)

FAULTS = (
    Fault("maximum", in_stage("simplify", maximum_of_second), *_PLAIN),
    Fault("mask", in_stage("lower", seven_where_masked), *_PLAIN),
    Fault("flip", in_stage("lower", forward_always), Pair.PLAIN, Symptom.ACCESS),
    Fault(
        "lanes",
        in_stage("expand", lanes_backward),
        Pair.OPTIMISED,
        Symptom.VALUE,
        opts=(OptOp.UPCAST,),
    ),
    Fault(
        "barrier",
        in_stage("accumulate", waits_for_no_barrier),
        Pair.OPTIMISED,
        Symptom.RACE,
        opts=(OptOp.GROUP,),
    ),
    Fault(
        "both",
        with_opts(KeyError("axis"), OptOp.UPCAST, OptOp.UNROLL),
        Pair.OPTIMISED,
        Symptom.ERROR,
        opts=(OptOp.UPCAST, OptOp.UNROLL),
        lists=("LOCAL(0, 2) UPCAST(1, 2) UNROLL(2, 2)",),
    ),
    Fault(
        "threads",
        in_plans_with(OptOp.THREAD, swapped_select),
        Pair.OPTIMISED,
        Symptom.VALUE,
        device="CPU",
        opts=(OptOp.THREAD,),
        lists=("UPCAST(1, 2) THREAD(0, 4) UNROLL(2, 2)",),
    ),
    Fault("mod", nothing, *_DEVICE, device="faults:ModOffByOne"),
    Fault("outputs", nothing, Pair.DEVICE, Symptom.ERROR, device="faults:NoTwoOutputs"),
    Fault("tail", nothing, *_DEVICE, device="faults:LastElementLost"),
)


class _WrongWhenHard(LlvmCompiler):
    def compile(self, source):
        return super().compile(
            source.replace("= xor i32", "= or i32") if integer("CPU_LEVEL") > 1 else source
        )


class WrongWhenHard(CpuBackend):
    """CPU device whose compiler is faulty at levels above the default."""

    def __init__(self, index=0):
        super().__init__(index)
        self._compiler = _WrongWhenHard(self.name)
