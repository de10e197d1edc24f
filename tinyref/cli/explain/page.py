"""The page of a program: one file, no network, works from file://."""

from __future__ import annotations

import base64
import hashlib
import linecache
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from tinyref import __version__
from tinyref.algebra.evaluate import value_of
from tinyref.algebra.symbolic import describe_shape
from tinyref.cli.explain.kernel_stages import Compiled, compiled_stages
from tinyref.cli.explain.picture import picture
from tinyref.cli.explain.recording import (
    Failure,
    KernelRecord,
    RealizeRecord,
    Recording,
    shorten,
)
from tinyref.config import Context
from tinyref.device import Device
from tinyref.engine.accounting import estimate
from tinyref.engine.report import watching
from tinyref.errors import TinyrefError
from tinyref.uops.node import UOp
from tinyref.uops.payload import SlotArg, ViewArg

# Kernels whose stages are shown, the slowest first: nobody reads a page of more.
MAX_KERNELS = 150
MAX_SOURCE = 600

# Sizes of a matrix product and of a vector that is read and written; smaller on interpreters.
_SIDE, _ELEMENTS = 512, 1 << 24
_SMALL_SIDE, _FEW_ELEMENTS = 32, 1 << 12
_REPEATS = 3

_PACKAGE = "tinyref.cli.explain"


@dataclass(frozen=True)
class KernelView:
    """A kernel on the page; `compiled` is None if there are too many kernels."""

    record: KernelRecord
    shapes: list[str]
    buffers: list[str]
    launch: str
    operations: str
    nbytes: str
    rate: str
    byte_rate: str
    limits: str
    share: float
    source: str
    lines: list[tuple[str, str]]
    picture: Markup
    compiled: Compiled | None

    @property
    def search(self) -> str:
        """Return the words that the filter searches."""
        words = [
            f"#{self.record.number}",
            self.record.name,
            self.record.device,
            *self.record.names,
            *self.shapes,
        ]
        return " ".join([*words, *self.buffers]).lower()


def page(
    title: str,
    device: str,
    record: Recording,
    failure: Failure | None,
    is_measured: bool = True,
) -> str:
    """Return the page. Text of the program goes in as text, never as markup.

    is_measured: also measure the rates that the devices reach.
    """
    total = sum(kernel.seconds for kernel in record.kernels.values())
    ran = dict.fromkeys(kernel.device for kernel in record.kernels.values() if kernel.seconds)
    limits = {name: measured_limits(name) for name in ran} if is_measured else {}
    slowest = sorted(record.kernels.values(), key=lambda kernel: -kernel.seconds)
    compiled = set(map(id, slowest[:MAX_KERNELS]))
    kernels = [
        _view(
            kernel,
            total,
            limits.get(kernel.device),
            compiled_stages(kernel) if id(kernel) in compiled else None,
        )
        for kernel in record.kernels.values()
    ]
    script = _read("explain.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["seconds"] = seconds_text
    text = environment.from_string(_read("explain.html.j2")).render(
        title=title,
        device=device,
        version=__version__,
        failure=failure,
        realizes=list(record.realizes.values()),
        kernels=kernels,
        by_time=sorted(kernels, key=lambda kernel: -kernel.record.seconds),
        launches=sum(kernel.launches for kernel in record.kernels.values()),
        replays=sum(kernel.replays for kernel in record.kernels.values()),
        copies=sum(_copies(realize) for realize in record.realizes.values())
        + record.replayed_copies,
        total=total,
        css=Markup(_read("explain.css")),
        script=Markup(script),
        script_hash=Markup(f"sha256-{digest}"),
    )
    # A lone surrogate is no text that a file can hold.
    return text.encode("utf-8", errors="replace").decode("utf-8")


def seconds_text(seconds: float) -> str:
    """Return a time with three digits, in the unit that fits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return (
                f"{seconds / scale:.3g} {unit}" if seconds < 1000 * scale else f"{seconds:,.0f} s"
            )
    return "0" if not seconds else f"{seconds * 1e9:.0f} ns"


def rate_text(amount: float, unit: str = "FLOPS") -> str:
    """Return operations or bytes a second with three digits, in the multiple that fits."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if amount >= scale:
            return f"{amount / scale:.3g} {prefix}{unit}"
    return f"{amount / 1e3:.3g} k{unit}"


def _limits_text(limits: DeviceRates | None) -> str:
    """Return the rates of a matrix product and of a vector that is read and written."""
    if limits is None:
        return ""
    return f"{rate_text(limits.operations)}, {rate_text(limits.nbytes, 'B/s')}"


def _short_place(line: str) -> str:
    path, _, number = line.rpartition(":")
    return f"{Path(path).name}:{number}"


def _text_of(line: str) -> str:
    path, _, number = line.rpartition(":")
    return linecache.getline(path, int(number)).strip()


def _read(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("template", name).read_text(encoding="utf-8")


def _copies(realize: RealizeRecord) -> int:
    return sum(step.runs for step in realize.steps if step.kernel is None)


def _view(
    record: KernelRecord, total: float, limits: DeviceRates | None, compiled: Compiled | None
) -> KernelView:
    operations, nbytes = _work(record)
    done, moved = _rates(record) if record.seconds else (0.0, 0.0)
    rate = rate_text(done) if done else ""
    byte_rate = rate_text(moved, "B/s") if moved else ""
    return KernelView(
        record,
        _shapes(record.ast),
        _buffers(record),
        _launch(record),
        f"{operations:,}",
        f"{nbytes:,}",
        rate,
        byte_rate,
        _limits_text(limits),
        100 * record.seconds / total if total else 0.0,
        "" if record.kernel is None else shorten(record.kernel.source, MAX_SOURCE),
        [(_short_place(line), _text_of(line)) for line in record.lines],
        Markup("") if compiled is None else picture(record.ast),
        compiled,
    )


def _work(record: KernelRecord) -> tuple[int, int]:
    """Return operations and bytes of one launch; 0 if it never ran, so a size has no value."""
    amount = estimate(record.ast)
    try:
        return (
            value_of(amount.operations, record.bindings),
            value_of(amount.nbytes, record.bindings),
        )
    except TinyrefError:
        return 0, 0


def _shapes(ast: UOp) -> list[str]:
    views = [node.arg for node in ast.toposort() if isinstance(node.arg, ViewArg)]
    return list(dict.fromkeys(describe_shape(view.tracker.shape) for view in views))


def _buffers(record: KernelRecord) -> list[str]:
    """Return a text for each parameter: its type, its size, and if it is written or read."""
    if record.kernel is None:
        slots = [node for node in record.ast.toposort() if isinstance(node.arg, SlotArg)]
        return [
            f"{node.arg.slot}: {node.dtype.name}" for node in slots if isinstance(node.arg, SlotArg)
        ]
    texts = []
    for parameter in record.kernel.program.parameters:
        uses = [
            word
            for word, is_so in (("written", parameter.is_written), ("read", parameter.is_read))
            if is_so
        ]
        texts.append(
            f"{parameter.slot}: {parameter.dtype.name} x {parameter.size:,}, "
            f"{' and '.join(uses) or 'not touched'}"
        )
    return texts


def _launch(record: KernelRecord) -> str:
    if record.kernel is None:
        return "did not run"
    program = record.kernel.program
    try:
        grid = record.kernel.grid(record.bindings)
    except TinyrefError:
        return "did not run"
    sizes = [" x ".join(map(str, extents)) for extents in (grid, program.group)]
    return f"{sizes[0]} groups of {sizes[1]}"


# --- the rates that a device reaches, to compare with those of kernels ----------------------------


@dataclass(frozen=True)
class DeviceRates:
    """Operations and bytes of a second, of the fastest of a few runs of one kernel each."""

    operations: float
    nbytes: float


def measured_limits(device: str) -> DeviceRates | None:
    """Measure a float32 matrix product and a vector plus one; None if nothing runs."""
    try:
        capabilities = Device[device].capabilities
        if not capabilities.ops or not capabilities.keeps_values:
            return None
        return _measure(device, capabilities.is_interpreted)
    except TinyrefError:
        return None


def _measure(device: str, is_slow: bool) -> DeviceRates:
    from tinyref.tensor import Tensor

    side, elements = (_SMALL_SIDE, _FEW_ELEMENTS) if is_slow else (_SIDE, _ELEMENTS)
    matrix = Tensor.ones(side, side, device=device).contiguous().realize()
    vector = Tensor.ones(elements, device=device).contiguous().realize()
    record = Recording()
    # The flags are for the program; what is measured here is no part of it.
    with Context(DEBUG=0, PROFILE=""), watching(record):
        for repeat in range(_REPEATS):
            (matrix @ matrix + float(repeat)).realize()
            (vector + float(repeat + 1)).realize()
    timed = [_rates(kernel) for kernel in record.kernels.values() if kernel.seconds]
    operations, nbytes = zip(*timed or [(0.0, 0.0)], strict=True)
    return DeviceRates(max(operations), max(nbytes))


def _rates(record: KernelRecord) -> tuple[float, float]:
    """Return operations and bytes of a second of a kernel whose time is known."""
    operations, nbytes = _work(record)
    seconds = record.seconds / record.launches
    return operations / seconds, nbytes / seconds
