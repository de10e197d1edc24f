"""Cases are read back from files bit for bit; anything else in a file is refused."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from types import MappingProxyType

import ml_dtypes
import numpy as np
import pytest

from tinyref.dtype import dtypes, numpy_dtype
from tinyref.errors import UserError
from tinyref.formats.text import to_text
from tinyref.optimise.opt import parse_opts
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.equivalent import equivalents
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel import regressions
from tinyref_spec.kernel_case import (
    Blame,
    CaseRecord,
    KernelCase,
    KernelVerdict,
    Mode,
    Pair,
    Symptom,
    limits,
)
from tinyref_spec.kernel_case.buffers import buffer_from_json, buffer_to_json
from tinyref_spec.kernel_case.document import record_from_json, record_text, record_to_json
from tinyref_spec.kernel_case.files import load_record, save_record
from tinyref_spec.kernels.corpus import corpus_kernels
from tinyref_spec.kernels.named import elementwise, reduced_view
from tinyref_spec.kernels.notation import shaped


def doubled(dtype=dtypes.float32, size: int = 4) -> UOp:
    return elementwise(lambda x: build.add(x, x), (dtype,), size)


def small(**changes) -> KernelCase:
    """Return a case with something in each field."""
    ast = doubled()
    output = np.array([0x7FC00001, 0xFFC00000, 0x80000000, 1], "u4").view("f4")
    inputs = np.array([1.5, -0.0, np.inf, 1e-45], np.float32)
    members = {
        "choices": (3, 0, 2**32 - 1),
        "equivalent": equivalents(ast, Tape(seed=4), 2),
        "opts": (parse_opts("UPCAST(0, 4)"), (), parse_opts("LOCAL(0, 2) UPCAST(0, 0)")),
        "mode": Mode.EDGE,
        "bindings": MappingProxyType({"n": 3}),
    }
    return KernelCase(ast, (output, inputs), **(members | changes))


def same(actual: KernelCase, expected: KernelCase) -> None:
    assert actual.ast is expected.ast
    assert actual.choices == expected.choices
    assert actual.opts == expected.opts
    assert dict(actual.bindings) == dict(expected.bindings)
    assert actual.mode is expected.mode
    assert actual.equivalent == expected.equivalent
    assert [buffer.dtype for buffer in actual.buffers] == [
        buffer.dtype for buffer in expected.buffers
    ]
    for left, right in zip(actual.buffers, expected.buffers, strict=True):
        assert left.tobytes() == right.tobytes()


# --- there and back -----------------------------------------------------------------------------


def test_a_case_comes_back_with_every_field():
    case = small()
    assert len(case.equivalent.trail) == 2
    same(record_from_json(json.loads(record_text(CaseRecord(case)))).case, case)


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("size", [0, 1, 7, 256, 257, 1000])
def test_every_pattern_of_bits_of_every_type_comes_back(dtype, size):
    random = np.random.default_rng(size)
    if dtype.is_bool:
        content = random.integers(0, 2, size).astype(bool)
    else:
        words = random.integers(0, 2 ** (8 * dtype.itemsize), size, f"u{dtype.itemsize}")
        content = words.view(numpy_dtype(dtype))
    data = json.loads(json.dumps(buffer_to_json(content)))
    assert ("base64" in data) == (size > 256)
    buffer = buffer_from_json(data, "here")
    assert buffer.dtype == content.dtype
    assert buffer.tobytes() == content.tobytes()


def test_the_text_of_buffers():
    bits = np.array([0x7FC00001, 0xFF800001, 0x80000000, 0x3FC00000, 0x7F800000, 1], "u4")
    assert buffer_to_json(bits.view("f4")) == {
        "dtype": "float32",
        "size": 6,
        "values": ["bits:7fc00001", "bits:ff800001", "-0.0", "1.5", "inf", "1.401298464324817e-45"],
    }
    eighth = np.array([0x7F, 0xFF, 0x80, 0x7E], "u1").view(ml_dtypes.float8_e4m3fn)
    assert buffer_to_json(eighth)["values"] == ["bits:7f", "bits:ff", "-0.0", "448.0"]
    limits = np.array([-(2**63), 2**63 - 1])
    assert buffer_to_json(limits)["values"] == [-(2**63), 2**63 - 1]
    assert buffer_to_json(np.array([True, False]))["values"] == [True, False]
    assert buffer_to_json(np.arange(257, dtype=np.uint16))["base64"].startswith("AAABAAIA")


def test_verdict_blame_note_and_device_come_back(tmp_path):
    verdict = KernelVerdict(Pair.OPTIMISED, Symptom.RED_ZONE, "byte 3 of slot 1", 2, 7)
    blame = Blame("optimise", "PADTO", "a sum of 3")
    path = save_record(
        tmp_path / "it.json", CaseRecord(small(), "a pad too many", verdict, blame, "CPU")
    )
    record = load_record(path)
    assert (record.note, record.device, record.verdict) == ("a pad too many", "CPU", verdict)
    assert record.blame == blame
    same(record.case, small())
    agreed = load_record(
        save_record(tmp_path / "it.json", CaseRecord(small(), verdict=KernelVerdict(judged=2)))
    )
    assert agreed.verdict == KernelVerdict(judged=2)
    assert agreed.blame is None


# --- the text -----------------------------------------------------------------------------------


def test_the_text_is_stable_and_a_change_is_a_small_difference():
    lines = record_text(CaseRecord(small())).splitlines()
    assert lines == record_text(CaseRecord(small())).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.startswith(' "')] == sorted(
        line for line in lines if line.startswith(' "')
    )
    changed = small(opts=(parse_opts("UPCAST(0, 2)"), *small().opts[1:]))
    assert len(set(record_text(CaseRecord(changed)).splitlines()) - set(lines)) == 1


def test_a_file_is_written_atomically(tmp_path, monkeypatch):
    path = tmp_path / "it.json"
    save_record(path, CaseRecord(small(), "first"))
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.write", full)
    with pytest.raises(UserError, match=r"it\.json: .*No space left"):
        save_record(path, CaseRecord(small(), "second"))
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["it.json"]


def test_a_case_that_no_reader_would_accept_is_not_written(tmp_path):
    short = KernelCase(doubled(), (np.zeros(4, np.float32),))
    with pytest.raises(UserError, match="ast: kernel: slot 1 has no buffer, there are 1"):
        save_record(tmp_path / "it.json", CaseRecord(short))
    assert not list(tmp_path.iterdir())


# --- what is refused ----------------------------------------------------------------------------


def damaged(path: str, value: object) -> dict:
    """Return the JSON of `small` with the member at `path`, such as `buffers.0.size`, replaced."""
    data = json.loads(
        record_text(CaseRecord(small(), verdict=KernelVerdict(), blame=Blame("lower")))
    )
    parent = data
    *folders, last = path.split(".")
    for name in folders:
        parent = parent[int(name) if isinstance(parent, list) else name]
    parent[int(last) if isinstance(parent, list) else last] = value
    return data


HUGE = 10**30
FOUND = {"pair": "plain", "symptom": "value", "detail": "", "trial": 0, "judged": 0}
REFUSED = [
    ("schema", "x", "case, schema: expected 'tinyref.case', got 'x'"),
    ("version", 0, "case, version: expected 1 (a newer one needs a newer tinyref)"),
    ("extra", 1, "case: expected only the members ast, "),
    ("mode", "fast", "case, mode: expected one of exact, float, edge, got 'fast'"),
    ("note", 3, "note: expected a text of at most 20000 characters, got 3"),
    ("note", "\ud800", "note: expected a text, got half of a character"),
    ("device", "C\nPU", "device: expected a text of one line"),
    ("choices", [1, -1], "choices[1]: expected an integer from 0"),
    ("choices", [2**128], "choices[0]: expected an integer from 0 to 2**128 - 1"),
    ("bindings", {"n": "3"}, "bindings.n: expected an integer"),
    ("opts", ["UPCAST(0,4)"], "opts[0]: expected 'UPCAST(0, 4)', the same in normal form"),
    ("opts", [" ".join(["UPCAST(0, 4)"] * 65)], "opts[0]: expected at most 64 of them, got 65"),
    ("opts", [""] * 1025, "opts: expected at most 1024 entries, got 1025"),
    ("verdict.pair", "plain", "verdict: expected a pair and a symptom, or neither"),
    ("verdict", FOUND | {"pair": "PLAIN"}, "verdict.pair: expected one of plain, optimised, "),
    ("verdict", FOUND | {"symptom": "fire"}, "verdict.symptom: expected one of value, error, "),
    ("verdict", {}, "verdict: expected a member 'detail', got none"),
    ("buffers", [], "ast: kernel: slot 0 has no buffer, there are 0"),
    ("buffers.0.dtype", "float32x4", "buffers[0].dtype: expected one of bool, int8"),
    ("buffers.0.size", 5, "buffers[0].values: expected a list of `size` values"),
    ("buffers.0.size", HUGE, "buffers[0].size: expected a size of at most 16777216 bytes"),
    ("buffers.0.values.0", 1.5, "buffers[0].values[0]: expected the text of a value of float32"),
    ("buffers.0.values.0", "0.1", "buffers[0].values[0]: expected the text of a value of float32"),
    ("buffers.0.values.0", "1_0.0", "buffers[0].values[0]: expected the text of"),
    ("buffers.0.values.0", "bits:3f800000", "buffers[0].values[0]: expected the bits of a NaN"),
    ("buffers.1", {"dtype": "int32", "size": 4, "values": [0] * 4}, "slot 1 is float32*4@global"),
    ("buffers.1", {"dtype": "int8", "size": 1, "values": [128]}, "an integer of int8"),
    ("buffers.1", {"dtype": "bool", "size": 1, "base64": "Ag=="}, "expected the bytes 0 and 1"),
    ("buffers.1", {"dtype": "int8", "size": 2, "base64": "Ag=="}, "expected 2 bytes, got 1"),
    ("buffers.1", {"dtype": "int8", "size": 1, "base64": "A*"}, "base64: cannot be read"),
    ("buffers.1", {"dtype": "int8", "size": 1}, "buffers[1]: expected the members dtype, size"),
    ("ast", {}, "ast: expected a list"),
    ("ast", ["program"], "ast: expected a graph, got a sequence"),
    ("ast", ["%0 = EVAL void ()"], "ast: text line 1: expected the name of an op, got 'EVAL'"),
    ("ast", ["%0 = CONST int32 () 1"], "ast: kernel: expected a SINK, got CONST"),
    (
        "ast.1",
        f"%1 = VIEW int8 (%0) Shape{{shape=({HUGE},)}}",
        "shape[0]: expected an integer, got 1e+30",
    ),
    ("ast.1", f"%1 = VIEW void (%0) View{{shape=({'1, ' * 65})}}", "at most 64 axes, got 65"),
    ("ast.1", f"%1 = VIEW void (%0) View{'{}' * 33}", "expected at most 32 views, got 33"),
    ("ast", ["%0 = NOOP void ()"] * 20_002, "ast: expected at most 20001 entries, got 20002"),
    ("ast", ["%0 = NOOP void ()\n" * 5000] * 5, "ast: expected at most 20000 nodes, got"),
    ("equivalent.labels", [], "equivalent.kernels: expected the first kernel, and one for each"),
    ("equivalent.kernels", ["%0 = SINK void ()"], "expected the first kernel, and one for each"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_members_are_refused_with_their_path(path, value, message):
    with pytest.raises(UserError) as refused:
        record_from_json(damaged(path, value))
    assert message in str(refused.value)


def wide(extent: int, axes: int = 1) -> UOp:
    """Return a kernel that repeats one element `extent` times on each axis, and stores the sum."""
    repeated = shaped(*(1,) * axes).expand((extent,) * axes)
    return reduced_view(Ops.ADD, dtypes.int32, repeated, *range(axes))


def test_kernels_that_would_take_forever_are_refused():
    buffers = (np.zeros(1, np.int32), np.zeros(1, np.int32))
    record_to_json(CaseRecord(KernelCase(wide(1 << 20), buffers)))
    for extent, axes in ((1 << 25, 1), (1 << 40, 1), (1000, 9)):
        with pytest.raises(UserError, match="expected at most 16777216 elements"):
            record_to_json(CaseRecord(KernelCase(wide(extent, axes), buffers)))


def test_a_variable_needs_a_value_in_its_range():
    kernel = next(kernel for kernel in corpus_kernels().values() if kernel.bindings)
    name, value = next(iter(kernel.bindings.items()))
    data = record_to_json(
        CaseRecord(KernelCase(kernel.ast, kernel.buffers(), bindings=kernel.bindings))
    )
    assert record_from_json(data).case.bindings[name] == value
    for bindings, message in (({}, "has no value"), ({name: 10**9}, "accepted is")):
        with pytest.raises(UserError, match=message):
            record_from_json(data | {"bindings": bindings})


def test_a_size_of_many_factors_is_refused():
    """Check that a size n ** (2 ** 60), which has few nodes, is refused."""
    n = build.variable("n", 1, 2)
    size = n
    for _ in range(60):
        size = UOp(Ops.MUL, dtypes.index, (size, size))
    data = record_to_json(CaseRecord(KernelCase(doubled(), (np.zeros(4, np.float32),) * 2)))
    sizes = to_text(size).replace("%", "%1000").splitlines()
    last = sizes[-1].partition(" ")[0]
    moved = [line.replace("shape=(4,)", f"shape=({last},)") for line in data["ast"]]
    data["ast"] = [*sizes, *moved]
    with pytest.raises(UserError, match="a product has more than 16 factors"):
        record_from_json(data | {"bindings": {"n": 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b'{"schema": 1, "schema": 2}', "the member 'schema' is there twice"),
        (b'{"x": NaN}', "NaN is no JSON"),
        (b"1" * 5000, "is no JSON"),
        (b"[]", "case: expected an object"),
        (b"null", "case: expected an object"),
        (b" " * ((1 << 25) + 1), "expected at most 33554432 bytes, got more"),
    ],
    ids=range(9),
)
def test_files_that_are_no_cases_are_refused_with_their_path(tmp_path, text, message):
    path = tmp_path / "it.json"
    path.write_bytes(text)
    with pytest.raises(UserError) as refused:
        load_record(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


def test_a_missing_file_or_a_folder_is_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path, tmp_path / ("x" * 300), "a\0b"):
        with pytest.raises(UserError):
            load_record(path)


def all_members(data: object) -> list[tuple[object, object]]:
    """Return each list or object in `data` with each of its keys."""
    members, waiting = [], [data]
    while waiting:
        parent = waiting.pop()
        keys = parent.keys() if isinstance(parent, dict) else range(len(parent))
        for key in keys:
            members.append((parent, key))
            if isinstance(parent[key], dict | list):
                waiting.append(parent[key])
    return members


ODD = (
    None,
    True,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    2**64,
    10**40,
    1.5,
    "",
    "x",
    "nan",
    "0",
    [],
    {},
    [0],
    [[]],
    [None],
    {"": 0},
    {"node": 0},
    {"node": 10**9},
    {"float": "inf"},
    "int32",
    "ADD",
    "float32*4@global",
    "image.float32[4,4]",
    "float32x4",
    "void",
    "index",
    "\ud800",
)


def randomly_damaged(random: Random, text: str) -> object:
    """Return the JSON `text` with one to three values replaced, removed, doubled, or moved."""
    data = json.loads(text)
    for _ in range(random.randint(1, 3)):
        parent, key = random.choice(all_members(data))
        way = random.randrange(4)
        if way == 0:
            parent[key] = copy.deepcopy(random.choice(ODD))
        elif way == 1:
            del parent[key]
        elif way == 2 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        else:
            other, at = random.choice(all_members(data))
            parent[key] = copy.deepcopy(other[at])
    return data


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_damaged_cases_are_refused_or_read_and_nothing_else(seed):
    random = Random(seed)
    kernel = next(kernel for kernel in corpus_kernels().values() if kernel.bindings)
    symbolic = KernelCase(kernel.ast, kernel.buffers(), bindings=kernel.bindings)
    texts = [
        record_text(CaseRecord(small(), "note", KernelVerdict(), Blame("lower"))),
        record_text(CaseRecord(symbolic)),
    ]
    refused: list[UserError] = []
    for number in range(400):
        data = randomly_damaged(random, texts[number % 2])
        try:
            record_to_json(record_from_json(data))
        except UserError as error:
            refused.append(error)
    assert len(refused) > 250


# --- tapes --------------------------------------------------------------------------------------

# Prints a hash over the cases of 50 tapes, and over every fifth program. Each tape is replayed, and
# each case read back. Neither addresses nor hash seeds may change the result.
DIGEST = """
import hashlib, json
from tinyref.codegen.compile import compile_kernel
from tinyref.formats.text import to_text
from tinyref.device import Device
from tinyref_fuzz.generate.generate import generate
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import CaseRecord
from tinyref_spec.kernel_case.document import record_from_json, record_text

total = hashlib.sha256()
for seed in range(50):
    case = generate(Tape(seed=seed), Device["PYTHON"].capabilities)
    text = record_text(CaseRecord(case))
    again = generate(Tape(choices=case.choices), Device["PYTHON"].capabilities)
    assert record_text(CaseRecord(again)) == text, seed
    assert record_text(record_from_json(json.loads(text))) == text, seed
    total.update(text.encode())
    if seed % 5 == 0:
        total.update(to_text(compile_kernel(case.ast, Device["PYTHON"].capabilities).uops).encode())
print(total.hexdigest())
"""


@pytest.mark.long
def test_a_tape_gives_the_same_bytes_in_every_process():
    digests = []
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", DIGEST]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        digests.append(done.stdout)
    assert len(digests[0].strip()) == 64
    assert digests[0] == digests[1]


def test_the_page_has_each_member_of_a_file():
    page = (Path(__file__).parents[2] / "docs" / "fuzzing.md").read_text()
    table = page.partition("### The format of a case")[2].partition("###")[0]
    path = regressions.FOLDER / "padto-bits-of-negative-zero.json"
    for member in json.loads(path.read_text()):
        assert f"`{member}`" in table
    assert f"{limits.MAX_NODES:,} nodes" in table
    assert limits.MAX_ELEMENTS == 1 << 24
