"""Report words and sentences that are not plain English; fail where there is one.

    python ci/english.py

`[tool.tinyref.english]` in pyproject.toml lists the folders, files and pages to check.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from inspect import cleandoc
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["tinyref"]["english"]
LONGEST, LONG, LONG_SHARE = 30, 25, 0.05
WORDS = re.compile(rf"\b({'|'.join(SETTINGS['words'])})\b", re.IGNORECASE)
# First words to avoid: of classes and functions, of functions; decorators of rules are exempt.
NO_NOUN = rf"({'|'.join(SETTINGS['no_nouns'])})\b"
NO_VERB = rf"{NO_NOUN}|`|({'|'.join(SETTINGS['no_verbs'])}|[A-Z][a-z]*[a-rt-z]s)\b"
RULE = re.compile(rf"(\w+\.)?({'|'.join(SETTINGS['rules'])})\(")
# Blocks of code, doctests with what they print, indented code, examples of a help, tables,
# headings, HTML.
CODE_BLOCKS = r"```(?s:.*?)```|^ *>>>(?:.+\n?)+|(?<=\n\n)(?: {4}.*\n)+|^Examples?:\n(?:.+\n?)+"
NO_PROSE = re.compile(rf"{CODE_BLOCKS}|^\s*(?:\||#|<|---).*$", re.MULTILINE)
BREAK = re.compile(r"(?<=[.!?])\s+(?=[\W\dA-Z]|\w+:)|\n\s*\n|\n\s*(?=[-*] |\d+\. |`?\w+`?: )|\Z")
CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
Problems = Iterator[tuple[int, str]]


def check_text(text: str, line: int, *, is_page: bool = False) -> Problems:
    """Yield the sentences that are too long or have a word to avoid; `text` begins at `line`."""
    text = NO_PROSE.sub(lambda block: "\f" + "\n" * block[0].count("\n"), text)
    begin = 0
    lengths: list[int] = []
    for gap in BREAK.finditer(text):
        start = line + text.count("\n", 0, begin)
        sentence = " ".join(text[begin : gap.end()].split())
        begin = gap.end()
        words = CODE.sub("x", sentence)
        length = len(re.findall(r"\S*\w\S*", words))
        lengths.append(length)
        if length > LONGEST:
            yield start, f"{length} words, accepted are {LONGEST}: {sentence}"
        for word in WORDS.findall(words):
            yield start, f'"{word}" is a word to avoid: {sentence}'
    if is_page and sum(length > LONG for length in lengths) > LONG_SHARE * len(lengths):
        yield line, f"over 5 % of the {len(lengths)} sentences have over {LONG} words"


def check_source(source: str) -> Problems:
    """Yield the problems of a Python file; comments on neighbouring lines are one text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [(*token.start, token.string) for token in tokens if token.type == tokenize.COMMENT]
    for _, group in groupby(enumerate(comments), lambda item: item[1][0] - item[0]):
        lines, _, texts = zip(*(comment for _, comment in group), strict=True)
        yield from check_text("\n".join(text.lstrip("#: ") for text in texts), lines[0])
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if name in SETTINGS["names"]:
                yield node.lineno, f"{name} does not say what the variable holds"
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from check_text(cleandoc(text), node.lineno)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                text = ast.get_docstring(node) or ""
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                is_free = isinstance(node, ast.ClassDef) or RULE.match(decorators)
                if re.match(NO_NOUN if is_free else NO_VERB, text):
                    yield node.lineno, f"{node.name} does not begin with a verb: {text}"


def main() -> int:
    """Print the problems of all files; the exit code is 1 if there is one."""
    problems: list[str] = []
    for path in SETTINGS["paths"]:
        pattern = path if path.endswith((".py", ".md")) else f"{path}/**/*.py"
        files = sorted(ROOT.glob(pattern))
        if not files:
            raise SystemExit(f"pyproject.toml: {path} of [tool.tinyref.english] has no files")
        for file in files:
            text = file.read_text(encoding="utf-8")
            is_page = file.suffix == ".md"
            checked = check_text(text, 1, is_page=True) if is_page else check_source(text)
            name = file.relative_to(ROOT)
            problems += [f"{name}:{line}: {problem}\n" for line, problem in sorted(checked)]
    sys.stdout.writelines(problems)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
