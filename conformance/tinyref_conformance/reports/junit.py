"""JUnit XML, which CI systems show: a suite for each rung, a test case for each case."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tinyref_conformance.records import headline
from tinyref_conformance.report import NOT_A_RUN, CaseResult, Report, RowResult
from tinyref_conformance.statuses import Status

_SKIPPED = frozenset({Status.SKIP, Status.SUPPRESSED, Status.EXPECTED_FAIL, Status.NOT_RUN})
_ERRORS = frozenset({Status.CRASH, Status.TIMEOUT, Status.MISSING})
# Characters that XML 1.0 cannot hold, even if escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Return the XML text."""
    name = f"tinyref conform {report.certificate['device']}"
    if not report.is_conformance_run:
        name += f" ({NOT_A_RUN})"
    root = ElementTree.Element("testsuites", name=_clean(name))
    rows = {row.id: row for row in report.rows}
    by_rung: dict[str, list[CaseResult]] = {}
    for case in report.cases:
        by_rung.setdefault(rows[case.row].rung.title, []).append(case)
    for title, cases in by_rung.items():
        _add_suite(root, title, cases, rows, _properties(report))
    if report.problems:
        suite = ElementTree.SubElement(
            root, "testsuite", name="the run", tests="1", failures="1", errors="0", skipped="0"
        )
        element = ElementTree.SubElement(suite, "testcase", classname="run", name="problems")
        _add_text(element, "failure", report.problems[0], "\n".join(report.problems))
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _properties(report: Report) -> dict[str, str]:
    """Return facts of the run for each suite: JUnit has no properties of a whole file."""
    facts = report.certificate
    properties = {name: str(facts[name]) for name in ("device", "profile", "suite_hash", "tinyref")}
    properties |= {f"version {name}": value for name, value in facts["device_versions"].items()}
    properties |= report.settings
    if not report.is_conformance_run:
        properties[NOT_A_RUN] = "; ".join(report.reductions)
    return properties


def _add_suite(
    root: ElementTree.Element,
    title: str,
    cases: list[CaseResult],
    rows: dict[str, RowResult],
    properties: dict[str, str],
) -> None:
    failures = [c for c in cases if c.status.is_failure and c.status not in _ERRORS]
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=title,
        tests=str(len(cases)),
        failures=str(len(failures)),
        errors=str(sum(case.status in _ERRORS for case in cases)),
        skipped=str(sum(case.status in _SKIPPED for case in cases)),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    listed = ElementTree.SubElement(suite, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(listed, "property", name=_clean(name), value=_clean(value))
    for case in cases:
        _add_case(suite, case, rows[case.row])


def _add_case(suite: ElementTree.Element, case: CaseResult, row: RowResult) -> None:
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_clean(row.id),
        name=_clean(case.id),
        time=f"{case.seconds:.6f}",
    )
    text = f"{case.status.value}: {case.message}"
    if case.status in _ERRORS:
        _add_text(element, "error", text, _body(case, row))
    elif case.status.is_failure:
        _add_text(element, "failure", text, _body(case, row))
    elif case.status in _SKIPPED:
        _add_text(element, "skipped", text, "")


def _body(case: CaseResult, row: RowResult) -> str:
    clauses = "; ".join(
        f"{label}: {sentence}"
        for label, sentence in zip(row.clauses, row.clause_sentences, strict=True)
    )
    lines = [case.message, row.sentence, clauses, case.repro]
    return "\n".join(line for line in lines if line)


def _add_text(parent: ElementTree.Element, tag: str, message: str, body: str) -> None:
    element = ElementTree.SubElement(parent, tag, message=_clean(headline(message)))
    if body:
        element.text = _clean(body)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
