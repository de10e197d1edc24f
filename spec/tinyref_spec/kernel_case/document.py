"""A case as JSON: the format, version 1, written and read back with every field checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from tinyref.errors import UserError, VerifyError
from tinyref.formats.payload_fields import refuse
from tinyref.formats.text import to_text
from tinyref.optimise.opt import Opt, opts_text, parse_opts
from tinyref.reproduce import without_local_folders
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.verify import verify
from tinyref_spec.kernel_case.buffers import MAX_BYTES, buffer_from_json, buffer_to_json
from tinyref_spec.kernel_case.case import (
    Array,
    Blame,
    CaseRecord,
    Equivalent,
    KernelCase,
    KernelVerdict,
    Mode,
    Pair,
    Symptom,
)
from tinyref_spec.kernel_case.limits import MAX_BUFFERS, check_fits, check_work, read_graph
from tinyref_spec.kernel_case.members import (
    LONGEST_TEXT,
    Json,
    read_bindings,
    read_list,
    read_number,
    read_object,
    read_text,
    read_version,
    read_word,
)
from tinyref_spec.kernel_case.stable_text import compact, stable_text

Member = TypeVar("Member", bound=Enum)

SCHEMA = "tinyref.case"
VERSION = 1

# Useful cases stay below these limits; more is a mistake or an attack.
MAX_LISTS = 1024
LONGEST_LIST = 64
LONGEST_CHOICES = 1 << 20
LONGEST_TRAIL = 64


# --- writing ------------------------------------------------------------------------------------


def record_to_json(record: CaseRecord) -> Json:
    """Return the record as a dict for `json.dumps`. Raises `UserError` if no reader accepts it."""
    data: Json = {
        "schema": SCHEMA,
        "version": VERSION,
        "tinyref": record.written_by,
        "note": _clip(record.note),
        "device": record.device,
        "verdict": None if record.verdict is None else verdict_to_json(record.verdict),
        "blame": None if record.blame is None else blame_to_json(record.blame),
        "choices": list(record.case.choices),
        **_content(record.case),
    }
    record_from_json(data)
    return data


def record_text(record: CaseRecord) -> str:
    """Return the text of a record's file: the same for the same record, on any machine."""
    return stable_text(record_to_json(record))


def _content(case: KernelCase) -> Json:
    """Return what is run; cases with equal content are duplicates."""
    equivalent: Json | None = None
    if case.equivalent is not None:
        kernels = (case.equivalent.origin, *(ast for _, ast in case.equivalent.trail))
        labels = list(case.equivalent.labels)
        equivalent = {"labels": labels, "kernels": to_text(kernels).splitlines()}
    return {
        "mode": _word_of(case.mode),
        "ast": to_text(case.ast).splitlines(),
        "buffers": [buffer_to_json(content) for content in case.buffers],
        "bindings": dict(case.bindings),
        "opts": [opts_text(opts) for opts in case.opts],
        "equivalent": equivalent,
    }


def content_hash(case: KernelCase) -> str:
    """Return twelve hexadecimal digits of SHA-256 of what is run: kernel, data, opts, mode."""
    return hashlib.sha256(compact(_content(case)).encode()).hexdigest()[:12]


def verdict_to_json(verdict: KernelVerdict) -> Json:
    """Return a verdict as JSON; pair and symptom are empty if all agree."""
    return {
        "pair": _word_of(verdict.pair),
        "symptom": _word_of(verdict.symptom),
        "detail": _clip(verdict.detail),
        "trial": verdict.trial,
        "judged": verdict.judged,
    }


def blame_to_json(blame: Blame) -> Json:
    """Return a blame as JSON."""
    return {
        "stage": blame.stage,
        "cause": _clip(blame.cause),
        "detail": _clip(blame.detail),
    }


def _word_of(member: Enum | None) -> str:
    return "" if member is None else member.name.lower()


def _clip(text: str) -> str:
    """Return a text that the reader accepts, and that names no folder of this machine."""
    written = without_local_folders(text).encode("utf-8", "replace").decode("utf-8")
    return written if len(written) <= LONGEST_TEXT else written[: LONGEST_TEXT - 3] + "..."


# --- reading ------------------------------------------------------------------------------------

_MEMBERS = (
    "schema",
    "version",
    "tinyref",
    "note",
    "device",
    "verdict",
    "blame",
    "choices",
    "mode",
    "ast",
    "buffers",
    "bindings",
    "opts",
    "equivalent",
)


def record_from_json(data: object) -> CaseRecord:
    """Return the record that `record_to_json` wrote.

    Raises `UserError` with the position of the error, what was expected and what was found.
    """
    read_version(read_object(data, "case"), SCHEMA, VERSION, "case")
    top = read_object(data, "case", _MEMBERS)
    return CaseRecord(
        case=_case(top),
        note=read_text(top["note"], "note"),
        verdict=None if top["verdict"] is None else verdict_from_json(top["verdict"]),
        blame=None if top["blame"] is None else blame_from_json(top["blame"]),
        device=read_word(top["device"], "device"),
        written_by=read_word(top["tinyref"], "tinyref"),
    )


def _case(top: Json) -> KernelCase:
    mode = _member(Mode, top["mode"], "case, mode")
    buffers = _buffers(top["buffers"])
    bindings = read_bindings(top["bindings"], MAX_BUFFERS, "bindings")
    return KernelCase(
        ast=_kernel(read_graph(top["ast"], "ast"), buffers, bindings, "ast"),
        buffers=buffers,
        choices=_choices(top["choices"]),
        equivalent=_equivalent(top["equivalent"], buffers, bindings),
        opts=_opts(top["opts"]),
        bindings=MappingProxyType(bindings),
        mode=mode,
    )


def verdict_from_json(value: object) -> KernelVerdict:
    """Return the verdict that `verdict_to_json` wrote. Raises `UserError` for other data."""
    top = read_object(value, "verdict", ("pair", "symptom", "detail", "trial", "judged"))
    if bool(top["pair"]) != bool(top["symptom"]):
        raise UserError("verdict: expected a pair and a symptom, or neither")
    agrees = top["pair"] == top["symptom"] == ""
    return KernelVerdict(
        None if agrees else _member(Pair, top["pair"], "verdict.pair"),
        None if agrees else _member(Symptom, top["symptom"], "verdict.symptom"),
        read_text(top["detail"], "verdict.detail"),
        read_number(top["trial"], "verdict.trial", -1),
        read_number(top["judged"], "verdict.judged"),
    )


def blame_from_json(value: object) -> Blame:
    """Return the blame that `blame_to_json` wrote. Raises `UserError` for other data."""
    top = read_object(value, "blame", ("stage", "cause", "detail"))
    return Blame(
        read_word(top["stage"], "blame.stage"),
        read_text(top["cause"], "blame.cause"),
        read_text(top["detail"], "blame.detail"),
    )


def _member(kind: type[Member], word: object, where: str) -> Member:
    for member in kind:
        if word == _word_of(member):
            return member
    raise refuse(where, f"one of {', '.join(map(_word_of, kind))}", word)


def _buffers(value: object) -> tuple[Array, ...]:
    buffers: list[Array] = []
    total = 0
    for slot, item in enumerate(read_list(value, MAX_BUFFERS, "buffers")):
        buffers.append(buffer_from_json(item, f"buffers[{slot}]"))
        total += buffers[-1].nbytes
        if total > MAX_BYTES:
            raise UserError(f"buffers: expected at most {MAX_BYTES} bytes together, got more")
    return tuple(buffers)


def _opts(value: object) -> tuple[tuple[Opt, ...], ...]:
    lists = []
    for number, item in enumerate(read_list(value, MAX_LISTS, "opts")):
        where = f"opts[{number}]"
        text = read_text(item, where)
        try:
            opts = parse_opts(text)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if opts_text(opts) != text:
            raise UserError(f"{where}: expected {opts_text(opts)!r}, the same in normal form")
        if len(opts) > LONGEST_LIST:
            raise UserError(f"{where}: expected at most {LONGEST_LIST} of them, got {len(opts)}")
        lists.append(opts)
    return tuple(lists)


def _choices(value: object) -> tuple[int, ...]:
    items = read_list(value, LONGEST_CHOICES, "choices")
    return tuple(read_number(item, f"choices[{at}]") for at, item in enumerate(items))


def _kernel(
    ast: UOp | Sequence[UOp], buffers: tuple[Array, ...], bindings: dict[str, int], where: str
) -> UOp:
    """Return a kernel that is valid in its dialect and fits the buffers and the variables."""
    if not isinstance(ast, UOp):
        raise UserError(f"{where}: expected a graph, got a sequence")
    try:
        check_fits(ast, buffers, bindings)
        verify(Dialect.AST, ast)
        check_work(ast, bindings)
    except (UserError, VerifyError) as error:
        raise UserError(f"{where}: {error}") from None
    return ast


def _equivalent(
    value: object, buffers: tuple[Array, ...], bindings: dict[str, int]
) -> Equivalent | None:
    if value is None:
        return None
    top = read_object(value, "equivalent", ("labels", "kernels"))
    labels = [
        read_word(label, f"equivalent.labels[{at}]")
        for at, label in enumerate(read_list(top["labels"], LONGEST_TRAIL, "equivalent.labels"))
    ]
    where = "equivalent.kernels"
    kernels = read_graph(top["kernels"], where)
    if isinstance(kernels, UOp) or len(kernels) != len(labels) + 1:
        raise UserError(f"{where}: expected the first kernel, and one for each of the labels")
    checked = [_kernel(ast, buffers, bindings, f"{where}[{at}]") for at, ast in enumerate(kernels)]
    return Equivalent(checked[0], tuple(zip(labels, checked[1:], strict=True)))
