"""Print lines and tokens of Python of each room, and fail where one is over its budget.

    python ci/size.py

A budget of `[tool.tinyref.size]` in pyproject.toml has the lines and the tokens that a folder may
have. A file counts for the budget with the longest name that it is in. Comments and docstrings are
lines but no tokens. Pages of docs do not count, nor do the scripts that they link as evidence.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = "docs/found"
_BEGINS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER, *_BEGINS}

Budgets = dict[str, tuple[int, int]]


def count_tokens(source: str) -> int:
    """Return the number of tokens of code; a string that begins a statement is a docstring."""
    count, is_begin = 0, True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _NO_CODE:
            is_begin = is_begin or token.type in _BEGINS
            continue
        count += not (token.type == tokenize.STRING and is_begin)
        is_begin = False
    return count


def room_of(file: str, rooms: Budgets) -> str:
    """Return the longest name of a room that `file` is in; "." has what no other one has."""
    inside = [room for room in rooms if room == "." or file.startswith(f"{room}/")]
    return max(inside, key=len)


def sizes(files: dict[str, str], rooms: Budgets) -> dict[str, tuple[int, int]]:
    """Return lines and tokens of each room, given the sources of all files by name."""
    lines, tokens = Counter[str](), Counter[str]()
    for file, source in files.items():
        room = room_of(file, rooms)
        lines[room] += source.count("\n")
        tokens[room] += count_tokens(source)
    return {room: (lines[room], tokens[room]) for room in rooms}


def report(found: dict[str, tuple[int, int]], budgets: Budgets) -> tuple[str, bool]:
    """Return the table, and whether every room is within its budget."""
    text, is_within = [], True
    for room, (lines, tokens) in found.items():
        most_lines, most_tokens = budgets[room]
        is_over = lines > most_lines or tokens > most_tokens
        is_within = is_within and not is_over
        sums = f"{lines:8,} lines of {most_lines:8,} {tokens:10,} tokens of {most_tokens:10,}"
        text.append(f"{room:20} {sums}{'   OVER ITS BUDGET' if is_over else ''}")
    return "\n".join(text) + "\n", is_within


def main() -> int:
    """Print the table; the exit code is 1 where a budget is exceeded."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budgets: Budgets = {
        room: (size["lines"], size["tokens"])
        for room, size in settings["tool"]["tinyref"]["size"].items()
    }
    listed = subprocess.run(
        ["git", "ls-files", "*.py", f":!{EVIDENCE}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    files = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    text, is_within = report(sizes(files, budgets), budgets)
    sys.stdout.write(text)
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
