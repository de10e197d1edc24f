"""The device under test: runs kernels between red zones, on poisoned outputs."""

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

_MAX_KERNELS = 32
# Launches of a kernel that a script of a failure makes before the failing one.
_MAX_LAUNCHES = 4
# A device of another kind that exists on every machine.
REFERENCE = "PYTHON"


@dataclass(frozen=True)
class Optimised:
    """A kernel AST, and the optimisations of its plan, which replace those of heuristics."""

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
    """Return the buffer arguments of an AST or a program, by number."""
    if isinstance(kernel, Optimised):
        return slots_of(kernel.ast)
    nodes = kernel.uops if isinstance(kernel, Program) else tuple(kernel.toposort())
    written: set[UOp] = set()
    for node in nodes:
        if node.op is Ops.STORE:
            written.add(_buffer_of(node.src[0]))
    slots = {}
    for node in nodes:
        if node.op is Ops.DEFINE_GLOBAL and isinstance(node.arg, SlotArg):
            assert isinstance(node.dtype, PtrDType)
            slots[node.arg.slot] = Slot(
                node.arg.slot,
                node.dtype.base,
                node.dtype.size,
                node in written,
                isinstance(node.dtype, ImageDType),
            )
    return [slots[number] for number in sorted(slots)]


def _buffer_of(address: UOp) -> UOp:
    while address.op is not Ops.DEFINE_GLOBAL and address.src:
        address = address.src[0]
    return address


class _Loaded:
    """A kernel with its guarded buffers, ready for many launches."""

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
    """Return the buffers that begin unaligned for vectors: every one, or every other one.

    The length of the program decides which ones: inputs of some kernels, outputs of others. For the
    `unaligned_cases` of `checks` it is every one. Images begin where their device says.
    """
    first = (len(program.uops) + 1) % 2
    buffers = (slot.number for slot in slots if not slot.is_image)
    return frozenset(number for number in buffers if every or number % 2 == first)


Announce = Callable[[Callable[[], Failure]], None]


def _ignore(describe: Callable[[], Failure]) -> None:
    """Ignore the launch."""


class DeviceUnderTest:
    """One device by name, with the kernels of the rows that ran last.

    style: how much of the device the kernels of ASTs use; see `on_rung`. second: the second device
    of rows that take two, if not the next one of its kind. all_unaligned: every buffer of a kernel
    begins unaligned for vectors, not every other one. announce: called before each launch, and
    before anything is compiled for it, with a function that describes it for a report. language: of
    the scripts without tinyref; by default the language of the device, if it can express the
    launch. trace_seconds: time for finding the first node that differs in a kernel that fails.
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
        """Return this device with kernels that use only what the rungs up to `rung` have shown.

        A device with a style keeps it, and the alignment of its buffers.
        """
        if self.style is not None:
            return self
        device = copy.copy(self)
        device._launches = {}
        device.style = style_of(rung)
        device.all_unaligned = all_unaligned
        return device

    @property
    def backend(self) -> Backend:
        """Return the open backend. Raises `UserError` or `DeviceError` if it does not open."""
        return Device[self.name]

    @property
    def capabilities(self) -> Capabilities:
        """Return what the device declares."""
        return self.backend.capabilities

    @property
    def second(self) -> str:
        """Return the second device of rows that take two: the named one, or the next number."""
        if self._second is not None:
            return self._second
        name, _, number = self.name.rpartition(":")
        if name and number.isdigit():
            return f"{name}:{int(number) + 1}"
        return f"{self.name}:1"

    def several(self, count: int) -> tuple[str, ...]:
        """Return `count` devices: this one, the second, those of the next numbers, the reference's.

        Devices of the next numbers are used if they exist and no second one was named.
        """
        names = [self.name, self.second]
        further = DeviceUnderTest(self.second)
        while self._second is None and len(names) < count and _opens(further.second):
            names.append(further.second)
            further = DeviceUnderTest(further.second)
        others = (f"{REFERENCE}:{number}" for number in range(1, count + 2))
        return (*names, *(name for name in others if name not in names))[:count]

    @property
    def partners(self) -> tuple[str, ...]:
        """Return the devices to copy to and from: the second, if it exists, and the reference.

        If a second device was named, it alone.
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
        Raises `MemoryDamageError` for a write outside the outputs, and the errors of the device.
        """
        loaded = self._load(kernel)
        made = self._launches.setdefault(self._key(kernel), deque(maxlen=_MAX_LAUNCHES))
        made.append((inputs, bindings or {}))
        return loaded.launch(inputs, bindings or {}, poison)

    def run_kernel(self, kernel: Kernel, inputs: Inputs) -> list[Array]:
        """Run a kernel that is loaded already; see `run`."""
        loaded = _Loaded(self.name, kernel.program, kernel, self.all_unaligned)
        return loaded.launch(inputs, {}, POISONS[0])

    def launches(self, kernel: Runnable) -> Sequence[MadeLaunch]:
        """Return the last launches of a kernel in this case, oldest first."""
        return tuple(self._launches.get(self._key(kernel), ()))

    def source(self, kernel: Runnable) -> str:
        """Return the source text that the device compiled; empty if it was not rendered."""
        try:
            return self._load(kernel).kernel.source
        except TinyrefError as error:
            return getattr(error, "source", "")

    def forms(self, kernel: Runnable) -> tuple[str, ...]:
        """Return the forms of the kernel that reports use to group failures."""
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
        """Return the program that is rendered for a kernel. Raises as `compile_kernel`."""
        if isinstance(kernel, Program):
            return kernel
        capabilities = Device[self.name].capabilities
        if isinstance(kernel, Optimised):
            return compile_kernel(kernel.ast, capabilities, opts=kernel.opts)
        return styled_program(kernel, capabilities, self.style or Style.FULL)

    def unaligned_slots(self, kernel: Runnable, program: Program) -> frozenset[int]:
        """Return the buffers of a kernel and its `program` that begin unaligned for vectors."""
        return _unaligned_slots(slots_of(kernel), program, self.all_unaligned)

    def guarded(self, dtype: DType, size: int) -> GuardedBuffer:
        """Return device memory between red zones."""
        return GuardedBuffer(self.name, dtype, size)

    def _key(self, kernel: Runnable) -> _Key:
        return kernel, self.style or Style.FULL, self.all_unaligned

    def _load(self, kernel: Runnable) -> _Loaded:
        key = self._key(kernel)
        known = self._loaded.get(key)
        if known is not None:
            self._loaded.move_to_end(key)
            return known
        compiled = compile_for(self.name, kernel, self.style or Style.FULL)
        loaded = _Loaded(self.name, kernel, compiled, self.all_unaligned)
        self._loaded[key] = loaded
        while len(self._loaded) > _MAX_KERNELS:
            self._loaded.popitem(last=False)
        return loaded


def _opens(name: str) -> bool:
    try:
        return bool(Device[name].capabilities.ops)
    except TinyrefError:
        return False


def compile_for(device: str, kernel: Runnable, style: Style) -> Kernel:
    """Return the kernel of `kernel` on `device`; `style` is for an AST. Raises as `compile_ast`."""
    if isinstance(kernel, Program):
        return compile_program(device, kernel)
    if isinstance(kernel, Optimised):
        return compile_ast(device, kernel.ast, kernel.opts)
    if style is Style.FULL:
        return compile_ast(device, kernel)
    return compile_program(device, styled_program(kernel, Device[device].capabilities, style))
