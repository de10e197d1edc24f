"""Export a case of the suite as a script that calls a tool or a library, without tinyref."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from tinyref.errors import TinyrefError, UserError
from tinyref_spec import catalogue
from tinyref_spec.case import Case, Failure, NotOfferedError
from tinyref_spec.device_under_test import REFERENCE, DeviceUnderTest
from tinyref_spec.subjects.name import SubjectName, default_device
from tinyref_spec.tool_scripts.languages import device_for, language_for


def export_case(
    case_id: str, name: str = "", device: str = "", place: str = "", packages: Sequence[str] = ()
) -> str:
    """Return the script of a case.

    Args:
        case_id: The id of the case.
        name: A library or a language; by default the language of `device`.
        device: The device whose kernels the script has, if it has the language.
        place: The device of the library, by its own name.
        packages: Packages that register a device with the library.

    Raise `UserError` for an unknown case or name, and if the case has no such script.
    """
    case = catalogue.find(case_id)
    if name and (library := _library(name, place, packages)) is not None:
        return _library_script(case, library)
    language = language_for(name, device)
    return _kernel_script(case, language, device_for(language, device))


def _library(name: str, device: str, packages: Sequence[str]) -> SubjectName | None:
    try:
        return SubjectName(name, device or default_device(name), tuple(packages))
    except UserError:
        if device or packages:
            raise
        return None


def _library_script(case: Case, library: SubjectName) -> str:
    from tinyref_spec.subjects.catalogue import open_device

    if not case.row.startswith("tensor."):
        raise UserError(
            f"export: {case.id} asks no library: accepted are cases of the level tensor"
        )
    try:
        script = describe_first(case, open_device(str(library))).script
    except NotOfferedError as error:
        raise UserError(f"export: {case.id} on {library}: {error}") from error
    if not script or needs_tinyref(script):
        raise UserError(f"export: {case.id} does more on {library} than a script can call")
    return script


def needs_tinyref(script: str) -> bool:
    """Return True if a script imports a package of tinyref."""
    return re.search(r"(import|from) tinyref", script) is not None


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
    script = describe_first(case, device).tool_script
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
    """Raised at the first launch of a case, so that a script needs no compiler and no launch."""

    def __init__(self, describe: Callable[[], Failure]) -> None:
        super().__init__()
        self.describe = describe


def describe_first(case: Case, device: Any) -> Failure:
    """Return the description of the first launch of a case, or of its first question."""

    def stop(describe: Callable[[], Failure]) -> None:
        raise _LaunchedError(describe)

    device.announce = stop
    try:
        case.run(device)
    except _LaunchedError as launch:
        return launch.describe()
    raise UserError(f"export: {case.id} launches no kernel and asks for no tensor")
