"""The script of one launch of a source text, for each language that a tool compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from tinyref import reproduce
from tinyref.errors import UserError
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec.bits import Array, to_bits
from tinyref_spec.literal_text import array_literal, c_array, c_type, is_unknown_to_numpy

# Lines of a script without the text of the kernel and its data.
MAX_HOST_LINES = 60
# Elements of the longest C array.
_LARGEST_C_ARRAY = 4096
_MOST_STEPS = 1 << 12


@dataclass(frozen=True)
class _Tool:
    """Requirements of the Python script of a language."""

    install: str
    imports: str
    parts: tuple[str, ...]
    """The files of `hosts` between head and tail."""


_CUDA_IMPORTS = "import ctypes; from cuda.bindings import driver, nvrtc"
_TOOLS = {
    "opencl": _Tool("numpy and pyopencl", "import pyopencl as cl", ("opencl",)),
    "wgsl": _Tool("numpy and wgpu", "import wgpu", ("wgsl",)),
    "cuda": _Tool("numpy and cuda-bindings", _CUDA_IMPORTS, ("cuda_head", "cuda", "cuda_tail")),
    "ptx": _Tool(
        "numpy, cuda-bindings and ptxas", _CUDA_IMPORTS, ("cuda_head", "ptx", "cuda_tail")
    ),
    "hip": _Tool("numpy, ROCm and clang", "import ctypes", ("hip",)),
    "metal": _Tool("numpy and pyobjc-framework-Metal", "import Metal", ("metal",)),
    "llvm": _Tool("numpy and llvmlite", "import ctypes, llvmlite.binding as llvm", ("llvm",)),
}
# The passes of the device CPU at level 1, and at all other levels.
_CHEAP_PASSES = """\
passes = llvm.create_new_function_pass_manager()
passes.add_sroa_pass()
passes.add_simplify_cfg_pass()
passes.add_instruction_combine_pass()
for function in module.functions:
    if not function.is_declaration:
        passes.run(function, builder)"""
_ALL_PASSES = "builder.getModulePassManager().run(module, builder)"

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class ToolLaunch:
    """One launch of a kernel as source text, with its data and the expected elements."""

    about: str
    """The first comment of the script."""
    source: str
    entry: str
    """The name of the kernel in the source."""
    arrays: Sequence[Array]
    """The flat contents of the buffers before the launch."""
    expected: Sequence[Wanted]
    """The expected elements; `slot` is the number of the array."""
    begins: Sequence[int]
    """The byte of its memory at which each array begins."""
    grid: Extents = (1, 1, 1)
    group: Extents = (1, 1, 1)
    variables: Sequence[int] = ()
    options: Sequence[str] = ()
    """Options of the compiler; for C the whole command; for LLVM the options of the process."""
    level: int = 2
    """The optimisation level of LLVM."""
    seen: str = ""
    """A part of the name of the OpenCL platform or of the WebGPU adapter."""


def tool_script(language: str, launch: ToolLaunch) -> str:
    """Return the script. Raise `UserError` if the language cannot express what is expected."""
    text = _c_text(launch) if language == "c" else _python_text(language, launch)
    return reproduce.without_local_folders(text)


def _template(name: str) -> Template:
    return Template((Path(__file__).parent / "hosts" / f"{name}.txt").read_text("utf-8"))


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")


# Python


def _python_text(language: str, launch: ToolLaunch) -> str:
    tool = _TOOLS[language]
    arrays = zip(launch.begins, launch.arrays, strict=True)
    words = {
        "about": _one_line(launch.about),
        "install": tool.install,
        "imports": tool.imports,
        "source": _text_literal(launch.source),
        "arrays": "".join(f"    ({at}, {_raw_literal(x)}),\n" for at, x in arrays),
        "checks": "".join(f"    {_check(item)},\n" for item in launch.expected),
        "entry": launch.entry,
        "grid": repr(launch.grid),
        "group": repr(launch.group),
        "counts": ", ".join(map(str, launch.grid)),
        "sizes": ", ".join(map(str, launch.group)),
        "variables": repr(list(launch.variables)),
        "options": repr(list(launch.options)),
        "seen": repr(launch.seen),
        "level": str(launch.level),
        "passes": _CHEAP_PASSES if launch.level == 1 else _ALL_PASSES,
    }
    names = ("head", *tool.parts, "tail")
    text = "".join(_template(name).substitute(words) for name in names)
    needs_zlib = "zlib." in text
    return text.replace("import subprocess", "import base64, zlib, subprocess", needs_zlib)


def _text_literal(text: str) -> str:
    is_plain = '"""' not in text and not text.endswith(("\\", '"'))
    return f'r"""{text}"""' if is_plain else repr(text)


def _raw_literal(values: Array) -> str:
    return array_literal(values, is_raw=True)


def _check(item: Wanted) -> str:
    low, high = bounds_of(item)
    if is_unknown_to_numpy(item.values):
        has_nan = not np.array_equal(item.values, item.values)
        if has_nan or low is not None:
            raise UserError(
                f"export: a script without tinyref has no NaN and no bounds of {item.values.dtype}"
                ": accepted are types of numpy, and exact numbers"
            )
    bounds = "None, None"
    if low is not None and high is not None:
        bounds = f"{_raw_literal(low)}, {_raw_literal(high)}"
    values = ", ".join(map(_raw_literal, (item.values, *item.others)))
    count = len(item.indices)
    is_first = list(item.indices) == list(range(count))
    elements = f"slice({count})" if is_first else repr(list(item.indices))
    return f"({item.slot}, {elements}, [{values}], {bounds})"


def bounds_of(item: Wanted) -> tuple[Array, Array] | tuple[None, None]:
    """Return the lowest and the highest right values, or twice None if only `values` are right."""
    if item.bounds is None and not item.ulps:
        return None, None
    if item.bounds is not None:
        return item.bounds
    low = high = item.values
    with np.errstate(all="ignore"):
        for _ in range(min(int(item.ulps), _MOST_STEPS)):
            low = np.nextafter(low, low.dtype.type(-np.inf))
            high = np.nextafter(high, high.dtype.type(np.inf))
    return low, high


# C


def _c_text(launch: ToolLaunch) -> str:
    if max((array.size for array in launch.arrays), default=0) > _LARGEST_C_ARRAY:
        raise UserError(f"export: a file of C has arrays of at most {_LARGEST_C_ARRAY} elements")
    arrays, poisons, pointers = [], [], []
    for number, (at, array) in enumerate(zip(launch.begins, launch.arrays, strict=True)):
        name, lead = f"array{number}", at // array.itemsize
        pointers.append(f"memory{number} + {lead}")
        arrays.append(f"static {c_type(array)} memory{number}[{array.size + lead}];")
        arrays.append(f"#define {name} (memory{number} + {lead})")
        bits = np.frombuffer(array.tobytes(), np.uint8)
        if bits.size and (bits == bits[0]).all():
            poisons.append(f"  memset({name}, {bits[0]:#x}, {bits.size});")
        else:
            data = array if np.array_equal(array, array) else to_bits(array)  # bits of a NaN
            arrays.append(f"static const {c_type(data)} data{number}[] = {c_array(data)};")
            poisons.append(f"  memcpy({name}, data{number}, sizeof data{number});")
    checks = [
        line for number, item in enumerate(launch.expected) for line in _c_check(number, item)
    ]
    words = {
        "about": _one_line(launch.about),
        "command": " ".join(launch.options),
        "source": launch.source.strip(),
        "arrays": "\n".join(arrays),
        "poisons": "\n".join(poisons),
        "pointers": ", ".join(pointers) or "0",
        "entry": launch.entry,
        "groups": str(launch.grid[0]),
        "variables": ", ".join(map(str, [*launch.variables, "group"])),
        "checks": "\n".join(checks),
    }
    return _template("c").substitute(words)


def _c_check(number: int, item: Wanted) -> list[str]:
    values = item.values
    for other in item.others:
        if not ((other == values) | ((other != other) & (values != values))).all():
            raise UserError("export: a file of C has one right value for each element")
    low, high = bounds_of(item)
    if low is None or high is None:
        # Zeros of both signs are between two zeros.
        low = high = values if item.others or values.dtype.kind != "f" else values * np.nan
    kinds = {"values": values, "low": low, "high": high}
    lines = [f"  static const int elements{number}[] = {c_array(np.array(item.indices))};"]
    lines += [
        f"  static const {c_type(array)} {name}{number}[] = {c_array(array)};"
        for name, array in kinds.items()
    ]
    parts = ", ".join(f"{name}{number}" for name in ("elements", *kinds))
    return [*lines, f"  CHECK({item.slot}, {len(item.indices)}, {c_type(values)}, {parts})"]
