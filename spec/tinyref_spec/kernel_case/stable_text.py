"""JSON as text with small diffs: sorted, and a line for each part."""

from __future__ import annotations

import json

WIDTH = 100
# Longer items of a list have a line each.
LONGEST_FILLED = 24


def stable_text(data: object) -> str:
    """Return `data` as JSON in ASCII: keys sorted, short parts on one line, with a final newline.

    Lists of numbers and short texts fill their lines; longer members have lines of their own.
    """
    return _text(data, 0, 0) + "\n"


def compact(data: object) -> str:
    """Return `data` as JSON on one line, keys in order."""
    return json.dumps(data, sort_keys=True, allow_nan=False)


def _text(data: object, indent: int, used: int) -> str:
    """Return `data` as text that starts `used` characters after `indent`."""
    line = compact(data)
    if indent + used + len(line) < WIDTH or not isinstance(data, list | dict):
        return line
    inside = " " * (indent + 1)
    outside = " " * indent
    if isinstance(data, dict):
        members = [
            f"{inside}{json.dumps(key)}: {_text(data[key], indent + 1, len(json.dumps(key)) + 3)}"
            for key in sorted(data)
        ]
        return "{\n" + ",\n".join(members) + f"\n{outside}}}"
    if all(len(compact(item)) <= LONGEST_FILLED for item in data):
        return "[\n" + "\n".join(_fill_lines(data, inside)) + f"\n{outside}]"
    items = [inside + _text(item, indent + 1, 1) for item in data]
    return "[\n" + ",\n".join(items) + f"\n{outside}]"


def _fill_lines(items: list[object], start: str) -> list[str]:
    """Return lines of as many items as fit, the last one without a comma."""
    lines: list[str] = []
    line = start
    for number, item in enumerate(items):
        word = compact(item) + ("," if number < len(items) - 1 else "")
        gap = " " if line != start else ""
        if gap and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line, gap = start, ""
        line += gap + word
    return [*lines, line]
