"""A kept case as JSON: the format, version 1, written and read back with every field checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tinyref import __version__
from tinyref.errors import UserError, VerifyError
from tinyref.formats.json_format import from_json as graph_from_json
from tinyref.formats.json_format import to_json as graph_to_json
from tinyref.formats.payload_fields import refuse
from tinyref.optimise.opt import Opt, opts_text, parse_opts
from tinyref.uops.node import UOp
from tinyref.uops.ops import Dialect
from tinyref.verify import verify
from tinyref_spec.kept.buffers import MAX_BYTES, Array, buffer_from_json, buffer_to_json
from tinyref_spec.kept.limits import check_fits, check_graph, check_work
from tinyref_spec.kept.stable_text import compact

Json = dict[str, object]

SCHEMA = "tinyref.case"
VERSION = 1
MODES = ("exact", "float", "edge")

# What a case of sense has little of; more is a mistake or an attack.
MAX_BUFFERS = 256
MAX_LISTS = 1024
LONGEST_LIST = 64
LONGEST_CHOICES = 1 << 20
LONGEST_TRAIL = 64
LONGEST_TEXT = 20_000
LONGEST_WORD = 200
LARGEST_NUMBER = 1 << 128


@dataclass(frozen=True)
class KeptVerdict:
    """What was found: between which pair, with which symptom, with which list of optimisations.

    pair and symptom: words of the fuzzer, both empty where all agreed. trial: the number of the
    list of optimisations, -1 without any. judged: how many programs were compared.
    """

    pair: str = ""
    symptom: str = ""
    detail: str = ""
    trial: int = -1
    judged: int = 0


@dataclass(frozen=True)
class KeptBlame:
    """What was to blame: a stage of the compiler, and inside of it a rule, pass or optimisation."""

    stage: str
    cause: str = ""
    detail: str = ""


@dataclass(frozen=True)
class KeptCase:
    """One kernel with all that it takes to run it again.

    buffers: flat arrays by slot, outputs too (what they hold before). opts: the lists of
    optimisations to run it with, besides none. trail: labels of transformations and the kernel
    after each, which compute what `origin` computes; no `origin`, no such kernels. mode: one of
    `MODES`. choices: the tape that gave the case, if one did. note: what it found.
    """

    ast: UOp
    buffers: tuple[Array, ...]
    opts: tuple[tuple[Opt, ...], ...] = ()
    bindings: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    mode: str = MODES[0]
    origin: UOp | None = None
    trail: tuple[tuple[str, UOp], ...] = ()
    choices: tuple[int, ...] = ()
    device: str = ""
    verdict: KeptVerdict | None = None
    blame: KeptBlame | None = None
    note: str = ""
    written_by: str = __version__


# --- writing ------------------------------------------------------------------------------------


def to_json(case: KeptCase) -> Json:
    """The case as a dict for `json.dumps`. Raises `UserError` for what no reader would accept."""
    data: Json = {
        "schema": SCHEMA,
        "version": VERSION,
        "tinyref": case.written_by,
        "note": _cut(case.note),
        "device": case.device,
        "verdict": None if case.verdict is None else _verdict(case.verdict),
        "blame": None if case.blame is None else _blame(case.blame),
        "choices": list(case.choices),
        **_content(case),
    }
    from_json(data)
    return data


def _content(case: KeptCase) -> Json:
    """What is run: of two cases with one content, one is enough."""
    equivalent: Json | None = None
    if case.origin is not None:
        kernels = (case.origin, *(ast for _, ast in case.trail))
        labels = [label for label, _ in case.trail]
        equivalent = {"labels": labels, "kernels": graph_to_json(kernels)}
    return {
        "mode": case.mode,
        "ast": graph_to_json(case.ast),
        "buffers": [buffer_to_json(content) for content in case.buffers],
        "bindings": dict(case.bindings),
        "opts": [opts_text(opts) for opts in case.opts],
        "equivalent": equivalent,
    }


def content_hash(case: KeptCase) -> str:
    """Twelve hexadecimal digits of SHA-256 over what is run: kernel, data, optimisations, mode."""
    return hashlib.sha256(compact(_content(case)).encode()).hexdigest()[:12]


def _verdict(verdict: KeptVerdict) -> Json:
    return {
        "pair": verdict.pair,
        "symptom": verdict.symptom,
        "detail": _cut(verdict.detail),
        "trial": verdict.trial,
        "judged": verdict.judged,
    }


def _blame(blame: KeptBlame) -> Json:
    return {"stage": blame.stage, "cause": blame.cause, "detail": _cut(blame.detail)}


def _cut(text: str) -> str:
    """A text that the reader accepts: not too long, and of characters that can be written."""
    kept = text.encode("utf-8", "replace").decode("utf-8")
    return kept if len(kept) <= LONGEST_TEXT else kept[: LONGEST_TEXT - 3] + "..."


# --- reading ------------------------------------------------------------------------------------

_MEMBERS = frozenset(
    {
        *("schema", "version", "tinyref", "note", "device", "verdict", "blame", "choices"),
        *("mode", "ast", "buffers", "bindings", "opts", "equivalent"),
    }
)


def from_json(data: object) -> KeptCase:
    """The case that `to_json` wrote.

    Raises `UserError` that says where `data` is wrong, what was expected and what was found.
    """
    top = _object(data, "case")
    if top.get("schema") != SCHEMA:
        raise refuse("case, schema", repr(SCHEMA), top.get("schema"))
    if type(top.get("version")) is not int or top["version"] != VERSION:
        raise refuse("case, version", f"{VERSION}", top.get("version"))
    _check_members(top, _MEMBERS, "case")
    if top["mode"] not in MODES:
        raise refuse("case, mode", f"one of {', '.join(MODES)}", top["mode"])
    buffers = _buffers(top["buffers"])
    bindings = _bindings(top["bindings"])
    origin, trail = _equivalent(top["equivalent"], buffers, bindings)
    return KeptCase(
        ast=_kernel(_graph(top["ast"], "ast"), buffers, bindings, "ast"),
        buffers=buffers,
        opts=_opts(top["opts"]),
        bindings=MappingProxyType(bindings),
        mode=str(top["mode"]),
        origin=origin,
        trail=trail,
        choices=_choices(top["choices"]),
        device=_word(top["device"], "device"),
        verdict=_read_verdict(top["verdict"]),
        blame=_read_blame(top["blame"]),
        note=_text(top["note"], "note"),
        written_by=_word(top["tinyref"], "tinyref"),
    )


def _object(value: object, where: str) -> Json:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise refuse(where, "an object", value)
    return dict(value)


def _check_members(value: Json, names: frozenset[str], where: str) -> None:
    for name in sorted(names - value.keys()):
        raise UserError(f"{where}: expected a member {name!r}, got none")
    for name in sorted(value.keys() - names):
        raise refuse(where, f"only the members {', '.join(sorted(names))}", name)


def _list(value: object, most: int, where: str) -> list[object]:
    if not isinstance(value, list):
        raise refuse(where, "a list", value)
    if len(value) > most:
        raise UserError(f"{where}: expected at most {most} entries, got {len(value)}")
    return value


def _text(value: object, where: str, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise refuse(where, f"a text of at most {longest} characters", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{where}: expected a text, got half of a character") from None
    return value


def _word(value: object, where: str) -> str:
    text = _text(value, where, LONGEST_WORD)
    if not text.isprintable():
        raise refuse(where, "a text of one line", value)
    return text


def _number(value: object, where: str, low: int = 0) -> int:
    if type(value) is not int or not low <= value < LARGEST_NUMBER:
        raise UserError(f"{where}: expected an integer from {low} to 2**128 - 1")
    return value


def _buffers(value: object) -> tuple[Array, ...]:
    buffers: list[Array] = []
    total = 0
    for slot, item in enumerate(_list(value, MAX_BUFFERS, "buffers")):
        buffers.append(buffer_from_json(item, f"buffers[{slot}]"))
        total += buffers[-1].nbytes
        if total > MAX_BYTES:
            raise UserError(f"buffers: expected at most {MAX_BYTES} bytes together, got more")
    return tuple(buffers)


def _bindings(value: object) -> dict[str, int]:
    items = _object(value, "bindings").items()
    if len(items) > MAX_BUFFERS:
        raise UserError(f"bindings: expected at most {MAX_BUFFERS}, got {len(items)}")
    found = {}
    for name, number in sorted(items):
        where = f"bindings.{_word(name, 'bindings')}"
        found[name] = _number(number, where, -LARGEST_NUMBER)
    return found


def _opts(value: object) -> tuple[tuple[Opt, ...], ...]:
    found = []
    for number, item in enumerate(_list(value, MAX_LISTS, "opts")):
        where = f"opts[{number}]"
        text = _text(item, where)
        try:
            opts = parse_opts(text)
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        if opts_text(opts) != text:
            raise UserError(f"{where}: expected {opts_text(opts)!r}, the same in normal form")
        if len(opts) > LONGEST_LIST:
            raise UserError(f"{where}: expected at most {LONGEST_LIST} of them, got {len(opts)}")
        found.append(opts)
    return tuple(found)


def _choices(value: object) -> tuple[int, ...]:
    items = _list(value, LONGEST_CHOICES, "choices")
    return tuple(_number(item, f"choices[{at}]") for at, item in enumerate(items))


def _graph(value: object, where: str) -> UOp | Sequence[UOp]:
    """The nodes of a graph or a sequence; nothing of it is too large to look at."""
    check_graph(value, where)
    try:
        found = graph_from_json(value)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if isinstance(found, UOp | tuple):
        return found
    raise UserError(f"{where}: expected a graph or a sequence, got a program")


def _kernel(
    ast: UOp | Sequence[UOp], buffers: tuple[Array, ...], bindings: dict[str, int], where: str
) -> UOp:
    """A kernel that keeps the rules of its dialect and fits the buffers and the variables."""
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
) -> tuple[UOp | None, tuple[tuple[str, UOp], ...]]:
    if value is None:
        return None, ()
    top = _object(value, "equivalent")
    _check_members(top, frozenset({"labels", "kernels"}), "equivalent")
    labels = [
        _word(label, f"equivalent.labels[{at}]")
        for at, label in enumerate(_list(top["labels"], LONGEST_TRAIL, "equivalent.labels"))
    ]
    where = "equivalent.kernels"
    kernels = _graph(top["kernels"], where)
    if isinstance(kernels, UOp) or len(kernels) != len(labels) + 1:
        raise UserError(f"{where}: expected the first kernel, and one for each of the labels")
    checked = [_kernel(ast, buffers, bindings, f"{where}[{at}]") for at, ast in enumerate(kernels)]
    return checked[0], tuple(zip(labels, checked[1:], strict=True))


def _read_verdict(value: object) -> KeptVerdict | None:
    if value is None:
        return None
    top = _object(value, "verdict")
    names = frozenset({"pair", "symptom", "detail", "trial", "judged"})
    _check_members(top, names, "verdict")
    return KeptVerdict(
        _word(top["pair"], "verdict.pair"),
        _word(top["symptom"], "verdict.symptom"),
        _text(top["detail"], "verdict.detail"),
        _number(top["trial"], "verdict.trial", -1),
        _number(top["judged"], "verdict.judged"),
    )


def _read_blame(value: object) -> KeptBlame | None:
    if value is None:
        return None
    top = _object(value, "blame")
    _check_members(top, frozenset({"stage", "cause", "detail"}), "blame")
    return KeptBlame(
        _word(top["stage"], "blame.stage"),
        _text(top["cause"], "blame.cause"),
        _text(top["detail"], "blame.detail"),
    )
