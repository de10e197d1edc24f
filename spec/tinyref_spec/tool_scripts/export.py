"""The script of one case of the suite, in the words of a tool or of a library."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinyref.errors import TinyrefError, UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Failure, NotOfferedError
from tinyref_spec.device_under_test import REFERENCE, DeviceUnderTest
from tinyref_spec.subjects.name import SubjectName, default_place
from tinyref_spec.tool_scripts.languages import LANGUAGES, device_for, language_named, language_of


@dataclass(frozen=True)
class Exported:
    """The text of a script, and how the name of its file ends."""

    text: str
    suffix: str = ".py"


def export_case(
    case_id: str, name: str = "", device: str = "", place: str = "", packages: Sequence[str] = ()
) -> Exported:
    """Return the script of a case.

    name: a library or a language, by default the language of `device`. place, packages: of a
    library. Raise `UserError` for an unknown case or name, and where there is no such script.
    """
    case = catalogue.find(case_id)
    if name and (library := _library(name, place, packages)) is not None:
        return Exported(_library_script(case, library))
    language = language_named(name) if name else language_of(device)
    if not language:
        raise UserError(f"export: no tool compiles the kernels of {device}: name one by --for")
    text = _kernel_script(case, language, device_for(language, device))
    return Exported(text, LANGUAGES[language].suffix)


def _library(name: str, place: str, packages: Sequence[str]) -> SubjectName | None:
    try:
        return SubjectName(name, place or default_place(name), tuple(packages))
    except UserError:
        if place or packages:
            raise
        return None


def _library_script(case: Case, library: SubjectName) -> str:
    from tinyref_spec.subjects.catalogue import open_device

    if not case.row.startswith("tensor."):
        raise UserError(
            f"export: {case.id} asks no library: accepted are cases of the level tensor"
        )
    try:
        return _described(case, open_device(str(library))).script
    except NotOfferedError as error:
        raise UserError(f"export: {case.id} on {library}: {error}") from error


def _kernel_script(case: Case, language: str, name: str) -> str:
    device = DeviceUnderTest(name)
    device.language = language
    unmet = case.needs.unmet(device.capabilities)
    if unmet:
        raise UserError(f"export: {name} does not have what {case.id} needs: {unmet}")
    count = _launch_count(case)
    if count > 1:
        raise UserError(
            f"export: {case.id} launches {count} kernels: a script of {language} has one launch"
        )
    script = _described(case, device).tool_script
    if not script:
        raise UserError(
            f"export: {case.id} runs a Tensor function and not one kernel: accepted for {language} "
            "are cases of one kernel; for a library name that, such as torch"
        )
    return script


def _launch_count(case: Case) -> int:
    """Return the number of launches that a case makes on the interpreter."""
    device = DeviceUnderTest(REFERENCE)
    launches: list[object] = []
    device.announce = launches.append
    with contextlib.suppress(TinyrefError):
        case.run(device)
    return len(launches)


class _LaunchedError(BaseException):
    """Ends a case at its first launch, so that nothing is compiled or launched for a script."""

    def __init__(self, describe: Callable[[], Failure]) -> None:
        super().__init__()
        self.describe = describe


def _described(case: Case, device: Any) -> Failure:
    def stop(describe: Callable[[], Failure]) -> None:
        raise _LaunchedError(describe)

    device.announce = stop
    try:
        case.run(device)
    except _LaunchedError as launch:
        return launch.describe()
    raise UserError(f"export: {case.id} launches no kernel and asks for no tensor")
