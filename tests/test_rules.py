"""Every rule that the code, its tests or the documents cite is defined in docs/design.md, and a test cites every rule
that is defined there. Invariants (I1, I2, ...) are defined in ARCHITECTURE.md.

Citations are read in comments, docstrings and documents only, because other strings may look like one.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "docs" / "design.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql"), *(ROOT / "bench").rglob("*.py")])
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DEFINED = re.compile(r"^- \*\*(?P<id>[DR]\d+|Control \d+)\*\* ", re.MULTILINE)
INVARIANT = re.compile(r"(?:^- |\. )(?P<id>I\d+) (?=[A-Z])", re.MULTILINE)
CITED = re.compile(r"(?<![\w.-])(?:(?P<rule>[DRI]\d{1,2})|[Cc]ontrol (?P<control>\d+))(?![\w-])")
CITED_AFTER_HASH = re.compile(rf"#.*{CITED.pattern}")


@cache
def prose(path: Path) -> str:
    """What a file says to its reader: a document whole, of a program its comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    if not CITED.search(text):
        return ""  # most files; parsing them takes seconds, and reading their tokens much longer
    if path.suffix == ".py":
        return "\n".join([*docstrings(text), *(comments(text) if CITED_AFTER_HASH.search(text) else ())])
    if path.suffix == ".sql":
        return "\n".join(re.findall(r"--.*", text))
    return text


def docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def comments(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def cited(text: str) -> set[str]:
    return {found["rule"] or f"Control {found['control']}" for found in CITED.finditer(text)}


def defined() -> list[str]:
    return [found["id"] for found in DEFINED.finditer(DESIGN.read_text(encoding="utf-8"))]


def invariants() -> list[str]:
    return [found["id"] for found in INVARIANT.finditer(ARCHITECTURE.read_text(encoding="utf-8"))]


def test_a_rule_is_defined_once():
    ids = [*defined(), *invariants()]
    assert len(ids) > 100
    assert sorted(ids) == sorted(set(ids))


def test_every_rule_that_is_cited_is_defined():
    known = {*defined(), *invariants()}
    unknown = {
        f"{path.relative_to(ROOT).as_posix()}: {', '.join(sorted(missing))}"
        for path in [*SOURCES, *TESTS, *DOCUMENTS]
        if (missing := cited(prose(path)) - known)
    }
    assert not unknown, "\n".join(sorted(unknown))


def test_a_test_cites_every_rule():
    named = {id_ for path in TESTS if path != Path(__file__) for id_ in cited(prose(path))}
    assert not [id_ for id_ in defined() if id_ not in named]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Rule 2 of D9 and R38.", {"D9", "R38"}),
        ("security control 6", {"Control 6"}),
        ("Rules: control 8, control 10.", {"Control 8", "Control 10"}),
        ("I16 holds", {"I16"}),
        ("U+D83D, 3D2, R2-D2, version 1.D3, remote control", set()),
    ],
)
def test_a_citation_is_told_from_what_looks_like_one(text, ids):
    assert cited(text) == ids
