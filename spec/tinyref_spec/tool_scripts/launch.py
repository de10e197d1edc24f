"""The script of one launch of a source text, for each language that a tool compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from tinyref import reproduce
from tinyref.errors import UserError
from tinyref.runtimes.reproducer import Wanted
from tinyref_spec.bits import Array
from tinyref_spec.literal_text import array_literal, c_array, c_type, is_unknown_to_numpy

# Lines of a host program, without the text of the kernel and its data.
MAX_HOST_LINES = 60
# Elements of a C array that is written out.
_LARGEST_C_ARRAY = 4096
_MOST_STEPS = 1 << 12
_PACKAGES = {
    "opencl": "pyopencl",
    "wgsl": "wgpu",
    "cuda": "cuda-bindings",
    "ptx": "cuda-bindings and ptxas",
    "hip": "ROCm and clang",
    "metal": "pyobjc-framework-Metal",
    "llvm": "llvmlite",
}
_PARTS = {"cuda": ("cuda_head", "cuda", "cuda_tail"), "ptx": ("cuda_head", "ptx", "cuda_tail")}
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
    """One launch of the kernel `entry` of a source text, and what it must give.

    about: the first comment. arrays: the contents of the buffers before, flat. wanted: elements of
    the array with the number `slot`. begins: the byte of its memory at which each array begins.
    options: of the compiler, of C the whole command; of LLVM those of the process. level: of LLVM.
    seen: a part of the name of the platform or adapter. has_offsets: OpenCL kernels take the byte
    at which a buffer begins after it, WGSL has the words of a launch as binding 0.
    """

    about: str
    source: str
    entry: str
    arrays: Sequence[Array]
    wanted: Sequence[Wanted]
    begins: Sequence[int] = ()
    grid: Extents = (1, 1, 1)
    group: Extents = (1, 1, 1)
    variables: Sequence[int] = ()
    options: Sequence[str] = ()
    level: int = 2
    seen: str = ""
    has_offsets: bool = True


def tool_script(language: str, launch: ToolLaunch) -> str:
    """Return the script. Raise `UserError` where the language cannot say what is wanted."""
    text = _c_text(launch) if language == "c" else _python_text(language, launch)
    return reproduce.without_local_folders(text)


def _template(name: str) -> Template:
    return Template((Path(__file__).parent / "hosts" / f"{name}.txt").read_text("utf-8"))


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")


# Python


def _python_text(language: str, launch: ToolLaunch) -> str:
    if language == "wgsl" and launch.has_offsets:
        launch = _with_words(launch)
    begins = launch.begins or [0] * len(launch.arrays)
    arrays = zip(begins, launch.arrays, strict=True)
    words = {
        "about": _one_line(launch.about),
        "package": _PACKAGES[language],
        "source": _text_literal(launch.source),
        "arrays": "".join(f"    ({at}, {array_literal(x, is_raw=True)}),\n" for at, x in arrays),
        "checks": "".join(f"    {_check(item)},\n" for item in launch.wanted),
        "entry": launch.entry,
        "grid": repr(launch.grid),
        "group": repr(launch.group),
        "variables": repr(list(launch.variables)),
        **_WORDS.get(language, _options)(launch),
    }
    names = ("head", *_PARTS.get(language, (language,)), "tail")
    text = "".join(_template(name).substitute(words) for name in names)
    if "zlib." in text:
        text = text.replace("import sys\n", "import base64\nimport sys\nimport zlib\n", 1)
    return text


def _with_words(launch: ToolLaunch) -> ToolLaunch:
    """Return the launch with its words as the array before the others: see `renderers.wgsl`."""
    begins = launch.begins or [0] * len(launch.arrays)
    words = np.array([0, *launch.variables, *begins], np.int64).astype(np.uint32)
    shifted = [_moved(item) for item in launch.wanted]
    parts = {"arrays": [words, *launch.arrays], "begins": [0, *begins], "wanted": shifted}
    return ToolLaunch(**{**vars(launch), **parts})


def _moved(item: Wanted) -> Wanted:
    return Wanted(**{**vars(item), "slot": item.slot + 1})


def _text_literal(text: str) -> str:
    is_plain = '"""' not in text and not text.endswith(("\\", '"'))
    return f'r"""{text}"""' if is_plain else repr(text)


def _check(item: Wanted) -> str:
    low, high = _interval(item)
    bounds = "None, None" if low is None or high is None else f"{_plain(low)}, {_plain(high)}"
    values = [array_literal(values, is_raw=True) for values in (item.values, *item.others)]
    count = len(item.places)
    is_first = list(item.places) == list(range(count))
    places = f"slice({count})" if is_first else repr(list(item.places))
    return f"({item.slot}, {places}, [{', '.join(values)}], {bounds})"


def _plain(values: Array) -> str:
    return array_literal(values, is_raw=True)


def _interval(item: Wanted) -> tuple[Array | None, Array | None]:
    """Return the least and the largest right values; None where there is no interval."""
    if item.bounds is None and not item.ulps:
        return None, None
    if is_unknown_to_numpy(item.values):
        raise UserError(
            f"export: a script without tinyref has no bounds of {item.values.dtype}: "
            "accepted are types of numpy, and exact values"
        )
    if item.bounds is not None:
        return item.bounds
    low = high = item.values
    with np.errstate(all="ignore"):
        for _ in range(min(int(item.ulps), _MOST_STEPS)):
            low = np.nextafter(low, low.dtype.type(-np.inf))
            high = np.nextafter(high, high.dtype.type(np.inf))
    return low, high


def _options(launch: ToolLaunch) -> dict[str, str]:
    return {"options": repr(list(launch.options))}


def _bytes_options(launch: ToolLaunch) -> dict[str, str]:
    return {"options": ", ".join(repr(option.encode()) for option in launch.options)}


def _opencl_words(launch: ToolLaunch) -> dict[str, str]:
    begins = launch.begins or [0] * len(launch.arrays)
    offsets = [f", np.uint64({at})" if launch.has_offsets else "" for at in begins]
    arguments = [f"buffers[{number}]{text}" for number, text in enumerate(offsets)]
    arguments += [f"np.int32({value})" for value in launch.variables]
    items = tuple(count * size for count, size in zip(launch.grid, launch.group, strict=True))
    return {
        **_options(launch),
        "seen": repr(launch.seen),
        "arguments": ", ".join(arguments),
        "items": repr(items),
    }


def _wgsl_words(launch: ToolLaunch) -> dict[str, str]:
    kinds = ["storage"] * len(launch.arrays)
    if launch.has_offsets:
        kinds[0] = "read-only-storage"
    return {"seen": repr(launch.seen), "kinds": repr(kinds)}


def _llvm_words(launch: ToolLaunch) -> dict[str, str]:
    set_options = [f'llvm.set_option("", {option!r})' for option in launch.options]
    passes = _CHEAP_PASSES if launch.level == 1 else _ALL_PASSES
    return {
        "level": str(launch.level),
        "groups": str(launch.grid[0]),
        "passes": "\n".join([*set_options, passes]),
    }


_WORDS: Mapping[str, Callable[[ToolLaunch], dict[str, str]]] = {
    "opencl": _opencl_words,
    "wgsl": _wgsl_words,
    "cuda": _bytes_options,
    "llvm": _llvm_words,
}


# C


def _c_text(launch: ToolLaunch) -> str:
    if max((array.size for array in launch.arrays), default=0) > _LARGEST_C_ARRAY:
        raise UserError(f"export: a file of C has arrays of at most {_LARGEST_C_ARRAY} elements")
    begins = launch.begins or [0] * len(launch.arrays)
    arrays, poisons, pointers = [], [], []
    for number, (at, array) in enumerate(zip(begins, launch.arrays, strict=True)):
        name, lead = f"array{number}", at // array.itemsize
        pointers.append(f"memory{number} + {lead}")
        arrays.append(f"static {c_type(array)} memory{number}[{array.size + lead}];")
        arrays.append(f"#define {name} (memory{number} + {lead})")
        bits = np.frombuffer(array.tobytes(), np.uint8)
        if bits.size and (bits == bits[0]).all():
            poisons.append(f"  memset({name}, {bits[0]:#x}, {bits.size});")
        else:
            arrays.append(f"static const {c_type(array)} data{number}[] = {c_array(array)};")
            poisons.append(f"  memcpy({name}, data{number}, sizeof data{number});")
    checks = [line for number, item in enumerate(launch.wanted) for line in _c_check(number, item)]
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
    low, high = _interval(item)
    if low is None or high is None:
        # Zeros of both signs are between two zeros.
        low = high = values if item.others or values.dtype.kind != "f" else values * np.nan
    kinds = {"values": values, "low": low, "high": high}
    lines = [f"  static const int places{number}[] = {c_array(np.array(item.places))};"]
    lines += [
        f"  static const {c_type(array)} {name}{number}[] = {c_array(array)};"
        for name, array in kinds.items()
    ]
    parts = ", ".join(f"{name}{number}" for name in ("places", *kinds))
    return [*lines, f"  CHECK({item.slot}, {len(item.places)}, {c_type(values)}, {parts})"]
