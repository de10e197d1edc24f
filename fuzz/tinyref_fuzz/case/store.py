"""Cases on file: what the generator, the reducer or a person found worth keeping.

The format is that of `tinyref_spec.kept`, described in docs/corpus.md; files of older versions are
migrated as they are read.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TypeVar

from tinyref.errors import UserError
from tinyref_fuzz.case.case import Blame, Case, Mode, Pair, Symptom, Verdict
from tinyref_fuzz.case.equivalent import Equivalent
from tinyref_fuzz.case.migrate import migrate
from tinyref_spec.kept import (
    KeptBlame,
    KeptCase,
    KeptVerdict,
    from_json,
    named,
    read_json,
    stable_text,
    to_json,
    write_text,
)

Json = dict[str, object]
Named = TypeVar("Named", bound=Enum)


def case_to_json(
    case: Case,
    note: str = "",
    verdict: Verdict | None = None,
    blame: Blame | None = None,
    device: str = "",
) -> Json:
    """The case, and what was found with it, as a dict for `json.dumps`.

    Raises `UserError` for a case that no reader would accept, such as one that is too large.
    """
    return to_json(_kept(case, note, verdict, blame, device))


def case_text(
    case: Case,
    note: str = "",
    verdict: Verdict | None = None,
    blame: Blame | None = None,
    device: str = "",
) -> str:
    """What `save_case` writes: the same text for the same case, on any machine."""
    return stable_text(case_to_json(case, note, verdict, blame, device))


def case_from_json(data: object) -> Case:
    """The case that `case_to_json` wrote, now or in an older version, from anywhere.

    Raises `UserError` that says where `data` is wrong, what was expected and what was found.
    """
    return as_case(kept_from_json(data))


def kept_from_json(data: object) -> KeptCase:
    """The case with all that was found with it; raises as `case_from_json`."""
    kept = from_json(migrate(data))
    # Also what is no part of the case must be known words.
    verdict_of(kept)
    return kept


def load_kept(path: str | Path) -> KeptCase:
    """The case in a file with all that was found with it. Raises `UserError` with the path."""
    data = read_json(path)
    try:
        return kept_from_json(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def load_case(path: str | Path) -> Case:
    """The case in a file of this or an older version. Raises `UserError` with the path."""
    return as_case(load_kept(path))


def save_case(
    path: str | Path,
    case: Case,
    note: str = "",
    verdict: Verdict | None = None,
    blame: Blame | None = None,
    device: str = "",
    stem: str = "case",
) -> Path:
    """Writes a case to the file `path`, or into the folder `path`, and gives the file's path.

    The file is there whole or not at all. In a folder its name is `stem-<hash of content>.json`,
    so that several may write there: the same case has the same name. Raises `UserError` where it
    cannot be written.
    """
    kept = _kept(case, note, verdict, blame, device)
    target = Path(path)
    if target.is_dir():
        target /= named(stem, kept)
    write_text(target, stable_text(to_json(kept)))
    return target


def save_kept(path: str | Path, kept: KeptCase) -> None:
    """Writes what `load_kept` gave; raises as `save_case`."""
    write_text(path, stable_text(to_json(kept)))


def as_case(kept: KeptCase) -> Case:
    """What is run of a kept case."""
    equivalent = None if kept.origin is None else Equivalent(kept.origin, kept.trail)
    return Case(
        kept.ast,
        kept.buffers,
        kept.choices,
        equivalent,
        kept.opts,
        kept.bindings,
        Mode[kept.mode.upper()],
    )


def verdict_of(kept: KeptCase) -> Verdict | None:
    """The verdict that was kept with a case. Raises `UserError` for a pair that is none."""
    found = kept.verdict
    if found is None:
        return None
    if bool(found.pair) != bool(found.symptom):
        raise UserError("verdict: expected a pair and a symptom, or neither")
    pair = _member(Pair, found.pair, "verdict.pair")
    symptom = _member(Symptom, found.symptom, "verdict.symptom")
    return Verdict(pair, symptom, found.detail, found.trial, found.judged)


def blame_of(kept: KeptCase) -> Blame | None:
    """The blame that was kept with a case."""
    found = kept.blame
    return None if found is None else Blame(found.stage, found.cause, found.detail)


def _member(names: type[Named], word: str, where: str) -> Named | None:
    if not word:
        return None
    known = {member.name.lower(): member for member in names}
    if word not in known:
        raise UserError(f"{where}: expected one of {', '.join(known)}, got {word!r}")
    return known[word]


def _kept(
    case: Case, note: str, verdict: Verdict | None, blame: Blame | None, device: str
) -> KeptCase:
    return KeptCase(
        ast=case.ast,
        buffers=case.buffers,
        opts=case.opts,
        bindings=case.bindings,
        mode=case.mode.name.lower(),
        origin=None if case.equivalent is None else case.equivalent.origin,
        trail=() if case.equivalent is None else case.equivalent.trail,
        choices=case.choices,
        device=device,
        verdict=None if verdict is None else _kept_verdict(verdict),
        blame=None if blame is None else KeptBlame(blame.stage, blame.cause, blame.detail),
        note=note,
    )


def _kept_verdict(verdict: Verdict) -> KeptVerdict:
    return KeptVerdict(
        verdict.pair.name.lower() if verdict.pair else "",
        verdict.symptom.name.lower() if verdict.symptom else "",
        verdict.detail,
        verdict.trial,
        verdict.judged,
    )
