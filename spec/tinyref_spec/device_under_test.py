"""The device that is being checked: kernels run between red zones, on poisoned outputs."""

from __future__ import annotations

import copy
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinyref.capabilities import Capabilities
from tinyref.codegen.compile import compile_kernel
from tinyref.contract import Backend
from tinyref.device import Device
from tinyref.dtype import DType, ImageDType, PtrDType, numpy_dtype
from tinyref.errors import TinyrefError, UserError
from tinyref.optimise.opt import Opt
from tinyref.runtimes.kernel import Kernel, compile_ast, compile_program
from tinyref.runtimes.red_zones import POISONS, GuardedBuffer
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import SlotArg
from tinyref.uops.program import Program
from tinyref_spec.bits import Array
from tinyref_spec.case import Failure, Rung
from tinyref_spec.evidence import forms_of
from tinyref_spec.styles import Style, style_of, styled_program

_KEPT_KERNELS = 32
# Launches of a kernel that a script of a failure makes before the failing one.
_KEPT_LAUNCHES = 4
# The device of another kind that is everywhere.
REFERENCE = "PYTHON"


@dataclass(frozen=True)
class Optimised:
    """A kernel AST and the optimisations that its plan gets, instead of those of heuristics."""

    ast: UOp
    opts: tuple[Opt, ...]


Runnable = UOp | Program | Optimised
Inputs = Sequence[Array | None]
MadeLaunch = tuple[Inputs, Mapping[str, int]]
_Key = tuple[Runnable, Style, bool]


@dataclass(frozen=True)
class Slot:
    """A buffer argument of a kernel."""

    number: int
    dtype: DType
    size: int
    is_written: bool
    is_image: bool = False


def slots_of(kernel: Runnable) -> list[Slot]:
    """The buffer arguments of an AST or a program, by number."""
    if isinstance(kernel, Optimised):
        return slots_of(kernel.ast)
    nodes = kernel.uops if isinstance(kernel, Program) else tuple(kernel.toposort())
    written: set[UOp] = set()
    for node in nodes:
        if node.op is Ops.STORE:
            written.add(_buffer_of(node.src[0]))
    found = {}
    for node in nodes:
        if node.op is Ops.DEFINE_GLOBAL and isinstance(node.arg, SlotArg):
            assert isinstance(node.dtype, PtrDType)
            found[node.arg.slot] = Slot(
                node.arg.slot,
                node.dtype.base,
                node.dtype.size,
                node in written,
                isinstance(node.dtype, ImageDType),
            )
    return [found[number] for number in sorted(found)]


def _buffer_of(address: UOp) -> UOp:
    while address.op is not Ops.DEFINE_GLOBAL and address.src:
        address = address.src[0]
    return address


class _Loaded:
    """A kernel with its guarded buffers, ready to launch again and again."""

    def __init__(
        self, device: str, source: Runnable, kernel: Kernel, all_unaligned: bool = False
    ) -> None:
        self.kernel = kernel
        self.slots = slots_of(source)
        unaligned = _unaligned_slots(self.slots, kernel.program, all_unaligned)
        self.buffers = {
            slot.number: GuardedBuffer(device, slot.dtype, slot.size, slot.number in unaligned)
            for slot in self.slots
        }
        self.offsets = {
            slot.number: self.buffers[slot.number].middle.start
            for slot in self.slots
            if slot.is_written
        }
        off_words = [number for number, offset in self.offsets.items() if offset % 4]
        self.forms = forms_of(kernel.program, unaligned, off_words)

    def launch(self, inputs: Inputs, bindings: Mapping[str, int], poison: int) -> list[Array]:
        for slot in self.slots:
            data = inputs[slot.number]
            self.buffers[slot.number].fill(poison if data is None else _check_data(data, slot))
        taken = [self.buffers[item.slot].view for item in self.kernel.program.parameters]
        self.kernel(taken, bindings)
        results = []
        for slot in self.slots:
            if slot.is_written:
                results.append(self.buffers[slot.number].read())
            else:
                self.buffers[slot.number].check_unchanged()
        return results

    def outputs(self) -> list[Array]:
        """Return what the written slots hold now."""
        return [self.buffers[slot.number].read() for slot in self.slots if slot.is_written]


def _check_data(data: Array, slot: Slot) -> Array:
    flat = np.ascontiguousarray(data).reshape(-1)
    if flat.dtype != numpy_dtype(slot.dtype) or flat.size != slot.size:
        raise UserError(
            f"slot {slot.number}: takes {slot.size} {slot.dtype.name}, "
            f"got {flat.size} {flat.dtype.name}"
        )
    return flat


def _unaligned_slots(slots: Sequence[Slot], program: Program, every: bool) -> frozenset[int]:
    """The buffers that begin at an element that vectors are not aligned by: every, or each second.

    Which of two is by the length of the program: inputs of some kernels, outputs of others. In
    cases of `unaligned_cases` of `checks` it is every one. Images begin where their device says.
    """
    first = (len(program.uops) + 1) % 2
    found = (slot.number for slot in slots if not slot.is_image)
    return frozenset(number for number in found if every or number % 2 == first)


Announce = Callable[[Callable[[], Failure]], None]


def _ignore(describe: Callable[[], Failure]) -> None:
    """Nobody wants to know."""


class DeviceUnderTest:
    """One device by name; keeps the kernels of the rows that ran last.

    style: how much of the device the kernels of ASTs use; see `on_rung`. second: the other device
    of rows that take two, if not the next of its kind. all_unaligned: every buffer of a kernel
    begins at an element that vectors are not aligned by, and not every other one. announce: called
    with each launch before it is made, and before anything is compiled for it, by a function that
    says what a report would show. language: of the scripts without tinyref that are asked for; by
    default that of the device, where it can say the launch. trace_seconds: how long the first node
    that differs is looked for where a kernel fails.
    """

    announce: Announce = staticmethod(_ignore)
    language = ""
    all_unaligned = False
    trace_seconds = 0.0

    def __init__(self, name: str, style: Style | None = None, second: str | None = None) -> None:
        self.name = name
        self.style = style
        self._second = second
        self._loaded: OrderedDict[_Key, _Loaded] = OrderedDict()
        self._launches: dict[_Key, deque[MadeLaunch]] = {}

    def on_rung(self, rung: Rung, all_unaligned: bool = False) -> DeviceUnderTest:
        """This device, whose kernels use what the rungs up to `rung` have shown.

        A device that has a style keeps it, and how its buffers begin.
        """
        if self.style is not None:
            return self
        found = copy.copy(self)
        found._launches = {}
        found.style = style_of(rung)
        found.all_unaligned = all_unaligned
        return found

    @property
    def backend(self) -> Backend:
        """The open backend. Raises `UserError` or `DeviceError` when it does not open."""
        return Device[self.name]

    @property
    def capabilities(self) -> Capabilities:
        """What the device declares."""
        return self.backend.capabilities

    @property
    def second(self) -> str:
        """The other device of rows that take two: the one that was named, or the next number."""
        if self._second is not None:
            return self._second
        name, _, number = self.name.rpartition(":")
        if name and number.isdigit():
            return f"{name}:{int(number) + 1}"
        return f"{self.name}:1"

    def several(self, count: int) -> tuple[str, ...]:
        """So many devices: this one, the second, those of the next numbers, the reference's.

        The next numbers as far as there are such, and not where the second was named.
        """
        found = [self.name, self.second]
        further = DeviceUnderTest(self.second)
        while self._second is None and len(found) < count and _opens(further.second):
            found.append(further.second)
            further = DeviceUnderTest(further.second)
        others = (f"{REFERENCE}:{number}" for number in range(1, count + 2))
        return (*found, *(name for name in others if name not in found))[:count]

    @property
    def partners(self) -> tuple[str, ...]:
        """The devices to copy to and from: the second, where there is one, and the reference's.

        The second alone where it was named.
        """
        if self._second is not None:
            return (self._second,)
        next_ones = () if self.capabilities.is_single else (self.second,)
        is_reference = self.name.partition(":")[0] == REFERENCE
        return next_ones if is_reference else (*next_ones, REFERENCE)

    def run(
        self,
        kernel: Runnable,
        inputs: Inputs,
        bindings: Mapping[str, int] | None = None,
        poison: int = POISONS[0],
    ) -> list[Array]:
        """Run a kernel and return the contents of the written slots, flat, in their order.

        inputs: one array per slot (flat size and dtype of the slot), None for a poisoned output.
        Raises `MemoryDamageError` for a write outside the outputs, else as the device raises.
        """
        loaded = self._load(kernel)
        made = self._launches.setdefault(self._key(kernel), deque(maxlen=_KEPT_LAUNCHES))
        made.append((inputs, bindings or {}))
        return loaded.launch(inputs, bindings or {}, poison)

    def run_kernel(self, kernel: Kernel, inputs: Inputs) -> list[Array]:
        """Runs a kernel that is loaded already; as `run`."""
        loaded = _Loaded(self.name, kernel.program, kernel, self.all_unaligned)
        return loaded.launch(inputs, {}, POISONS[0])

    def launches(self, kernel: Runnable) -> Sequence[MadeLaunch]:
        """Return the last launches of a kernel in this case, oldest first."""
        return tuple(self._launches.get(self._key(kernel), ()))

    def source(self, kernel: Runnable) -> str:
        """The source text that the device compiled; empty when it did not come that far."""
        try:
            return self._load(kernel).kernel.source
        except TinyrefError as error:
            return getattr(error, "source", "")

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        """The forms of the kernel, of those by which reports tell failures apart."""
        return self._load(kernel).forms

    def offsets(self, kernel: Runnable) -> Mapping[int, int]:
        """Return the byte offsets of the written slots of a launched kernel in their memory."""
        loaded = self._loaded.get(self._key(kernel))
        return {} if loaded is None else loaded.offsets

    def outputs(self, kernel: Runnable) -> list[Array] | None:
        """Return what the written slots of a launched kernel hold now; None if it is forgotten."""
        loaded = self._loaded.get(self._key(kernel))
        return None if loaded is None else loaded.outputs()

    def program(self, kernel: Runnable) -> Program:
        """The program that is rendered for a kernel. Errors as of `compile_kernel`."""
        if isinstance(kernel, Program):
            return kernel
        capabilities = Device[self.name].capabilities
        if isinstance(kernel, Optimised):
            return compile_kernel(kernel.ast, capabilities, opts=kernel.opts)
        return styled_program(kernel, capabilities, self.style or Style.FULL)

    def unaligned_slots(self, kernel: Runnable, program: Program) -> frozenset[int]:
        """The buffers that begin where no vector is aligned; `program` is that of `kernel`."""
        return _unaligned_slots(slots_of(kernel), program, self.all_unaligned)

    def guarded(self, dtype: DType, size: int) -> GuardedBuffer:
        """Device memory between red zones."""
        return GuardedBuffer(self.name, dtype, size)

    def _key(self, kernel: Runnable) -> _Key:
        return kernel, self.style or Style.FULL, self.all_unaligned

    def _load(self, kernel: Runnable) -> _Loaded:
        key = self._key(kernel)
        found = self._loaded.get(key)
        if found is not None:
            self._loaded.move_to_end(key)
            return found
        compiled = compile_for(self.name, kernel, self.style or Style.FULL)
        loaded = _Loaded(self.name, kernel, compiled, self.all_unaligned)
        self._loaded[key] = loaded
        while len(self._loaded) > _KEPT_KERNELS:
            self._loaded.popitem(last=False)
        return loaded


def _opens(name: str) -> bool:
    try:
        return bool(Device[name].capabilities.ops)
    except TinyrefError:
        return False


def compile_for(device: str, kernel: Runnable, style: Style) -> Kernel:
    """The kernel of `kernel` on `device`; `style` counts for an AST. Errors as of `compile_ast`."""
    if isinstance(kernel, Program):
        return compile_program(device, kernel)
    if isinstance(kernel, Optimised):
        return compile_ast(device, kernel.ast, kernel.opts)
    if style is Style.FULL:
        return compile_ast(device, kernel)
    return compile_program(device, styled_program(kernel, Device[device].capabilities, style))
