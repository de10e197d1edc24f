"""C-like languages as C for this host: words by a header, arrays of a group, one entry a kernel."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinyref.errors import DeviceError
from tinyref.renderers.c_language import EMULATED, TILE_PREFIX

_FOLDER = Path(__file__).parent
# Every kernel is called as `void emulated_NAME(void **buffers, const int *variables)`.
ENTRY_PREFIX = "emulated_"


@dataclass(frozen=True)
class Dialect:
    """A C-like language: its words as C in `header`, by `TINYREF_ITEM` and what launch.h has else.

    kernel: the word before the function of a kernel. shared: that before an array of a group.
    vectors: what the names of vectors begin with, as `float` of `float4`, and the type of a lane.
    lanes: the names of the lanes, a letter each after `lane_prefix`.
    left_out: what the text says to its own compiler alone, besides its includes.
    cpp_words: a text with one of them is C++, which takes longer to compile than C: words of the
    language, or types of which only C++ has the operators.
    arguments: what the parameters with some attributes are. `[[buffer(3)]]` is that of the number.
    """

    name: str
    header: str
    kernel: str
    shared: str
    vectors: Mapping[str, str] = field(default_factory=dict)
    lanes: str = "0123456789abcdef"
    lane_prefix: str = "s"
    left_out: tuple[str, ...] = ()
    cpp_words: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def prelude(self) -> str:
        """What stands before the text of a kernel."""
        vectors = "".join(self._vector_types())
        words = f"#define {EMULATED}\n{text_of('launch.h')}{text_of('small_floats.h')}"
        return f"{words}{_tile_functions()}{self.header}{vectors}#line 1\n"

    def is_cpp(self, source: str) -> bool:
        """Whether a text is compiled as C++."""
        return any(re.search(rf"\b{word}\b", source) for word in self.cpp_words)

    def _vector_types(self) -> Iterator[str]:
        """Vectors are structures, which every compiler has, and no operator takes them."""
        for name, element in self.vectors.items():
            for width in (2, 4, 8, 16):
                if width <= len(self.lanes):
                    lanes = ", ".join(self.lane_prefix + lane for lane in self.lanes[:width])
                    kind = f"{name}{width}"
                    yield f"typedef struct {{ {element} {lanes}; }} {kind};\n"
                    yield f"#define make_{kind}(...) (({kind}){{__VA_ARGS__}})\n"

    @functools.cached_property
    def digest(self) -> str:
        """Tells apart what the same text means under other headers."""
        return hashlib.sha256(self.prelude.encode()).hexdigest()[:16]

    def as_c(self, source: str) -> str:
        """`source` as C of this host, with an entry for each kernel.

        Raises `DeviceError` where it has no kernel, or memory of a group that is no array.
        """
        # Its lines keep their numbers: barriers are named by them.
        source = re.sub(r"^[ \t]*#include.*$", "", source, flags=re.MULTILINE)
        for words in self.left_out:
            source = source.replace(words, "")
        # A vector in OpenCL C is written as a cast of its lanes.
        if self.vectors:
            source = re.sub(rf"\((({'|'.join(self.vectors)})(2|4|8|16))\)\(", r"make_\1(", source)
        entries = [self._entry(name, text) for name, text in self._kernels(source)]
        if not entries:
            raise DeviceError(self.name, f"the source has no function marked {self.kernel}", source)
        return "".join([self.prelude, self._with_arrays(source), "\n", *entries])

    def _kernels(self, source: str) -> list[tuple[str, str]]:
        """Name and parameters of each kernel."""
        parameters = r"(?:[^()]|\(\d+\))*"
        pattern = rf"\b{self.kernel}\b[^;{{}}]*?\b(\w+)\s*\(({parameters})\)\s*\{{"
        return re.findall(pattern, source)

    def _entry(self, name: str, parameters: str) -> str:
        """A launch gives addresses of buffers and values of variables, in the order of the text."""
        given = [text for text in parameters.split(",") if text.strip() not in ("", "void")]
        buffers = [text for text in given if "*" in text]
        variables = [text for text in given if "*" not in text]
        arguments = []
        for text in given:
            attribute, number = _attribute_of(text)
            if attribute in self.arguments:
                arguments.append(self.arguments[attribute])
            elif "*" in text:
                place = buffers.index(text) if number is None else number
                arguments.append(f"({text.partition('*')[0]}*)buffers[{place}]")
            else:
                place = variables.index(text) if number is None else number - len(buffers)
                arguments.append(f"variables[{place}]")
        return (
            f"TINYREF_LINKAGE void {ENTRY_PREFIX}{name}(void **buffers, const int *variables) {{\n"
            f"  {name}({', '.join(arguments)});\n}}\n"
        )

    def _with_arrays(self, source: str) -> str:
        """Arrays of a group as pointers to memory of the worker that runs the group."""
        words = rf"\b{self.shared}\b\s+(?:__align__\(\d+\)\s+)?"
        pattern = rf"{words}([\w ]+?)\s*\b(\w+)\s*\[([^\]]+)\][^;,=]*;"
        numbers = iter(range(source.count(self.shared)))

        def pointer(found: re.Match[str]) -> str:
            element, name, size = found.groups()
            memory = f"TINYREF_SHARED({next(numbers)}, sizeof({element}) * ({size}))"
            return f"{element} *{name} = ({element} *){memory};"

        changed = re.sub(pattern, pointer, source)
        left = re.search(rf"\b{self.shared}\b[^;*(){{}}]*;", changed)
        if left:
            raise DeviceError(
                self.name,
                f"{left[0]!r} is no memory that the emulator can share: accepted are "
                f"{self.shared} TYPE NAME[SIZE];",
                source,
            )
        return changed


def _attribute_of(parameter: str) -> tuple[str, int | None]:
    """The attribute of a parameter and its number; "" and None where there is none."""
    found = re.search(r"\[\[(\w+)(?:\((\d+)\))?\]\]", parameter)
    if not found:
        return "", None
    return found[1], int(found[2]) if found[2] else None


def text_of(file: str) -> str:
    """The text of a file of this folder."""
    return (_FOLDER / file).read_text(encoding="utf-8")


@functools.cache
def _tile_functions() -> str:
    """The functions of matrix tiles, numbered as in tiles.c."""
    names = re.findall(r"^TILE\((\w+)", text_of("tiles.c"), flags=re.MULTILINE)
    return "".join(
        f"#define {TILE_PREFIX}{name}(a, b, c) TINYREF_TILE({number}, a, b, c)\n"
        for number, name in enumerate(names)
    )


_OVERLOADS = text_of("overloads.h")
_WIDTHS = ("8", "16", "32", "64")

PLAIN = Dialect(
    "C",
    text_of("plain.h"),
    kernel="KERNEL",
    shared="SHARED",
    vectors={name: name for name in ("float", "double")}
    | {f"{sign}int{width}_t": f"{sign}int{width}_t" for sign in ("", "u") for width in _WIDTHS},
)
OPENCL = Dialect(
    "OpenCL C",
    text_of("opencl.h") + _OVERLOADS,
    kernel="__kernel",
    shared="__local",
    vectors={name: name for kind in ("char", "short", "int", "long") for name in (kind, f"u{kind}")}
    | {name: name for name in ("float", "double")},
)
CUDA = Dialect(
    "CUDA C++",
    text_of("cuda.h") + _OVERLOADS,
    kernel="__global__",
    shared="__shared__",
    vectors={
        "char": "signed char",
        "uchar": "unsigned char",
        "short": "short",
        "ushort": "unsigned short",
        "int": "int",
        "uint": "unsigned int",
        "longlong": "long long",
        "ulonglong": "unsigned long long",
        "float": "float",
        "double": "double",
    },
    lanes="xyzw",
    lane_prefix="",
    left_out=('extern "C"',),
)
# A work-item's place in the grid, of three numbers.
_PLACE_IN_GRID = ", ".join(
    f"TINYREF_ITEM->group_id[{number}] * TINYREF_ITEM->local_size[{number}] "
    f"+ TINYREF_ITEM->local_id[{number}]"
    for number in range(3)
)
METAL = Dialect(
    "MSL",
    text_of("operators.h") + text_of("metal.h"),
    kernel="kernel",
    shared="threadgroup",
    cpp_words=("kernel",),
    arguments={
        "threadgroup_position_in_grid": "metal::position(TINYREF_ITEM->group_id)",
        "thread_position_in_grid": f"metal::uint3{{{_PLACE_IN_GRID}}}",
        "thread_position_in_threadgroup": "metal::position(TINYREF_ITEM->local_id)",
    },
)
HIP = Dialect(
    "HIP C++",
    text_of("operators.h") + text_of("hip.h"),
    kernel="__global__",
    shared="__shared__",
    left_out=('extern "C"',),
    cpp_words=("_Float16",),
    vectors={
        "char_v": "signed char",
        "uchar_v": "unsigned char",
        "short_v": "short",
        "ushort_v": "unsigned short",
        "int_v": "int",
        "uint_v": "unsigned int",
        "longlong_v": "long long",
        "ulonglong_v": "unsigned long long",
        "half_v": "_Float16",
        "bfloat16_v": "bfloat16",
        "float_v": "float",
        "double_v": "double",
    },
)
