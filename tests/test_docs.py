"""The documentation is true: examples run and print what it says, links lead somewhere, the reference is the code's.

A block marked ```text right after another one is what that one prints; `…` stands for text that differs each time.
Python blocks always run; shell blocks where `<!-- run -->` stands above them. Those of a page run in order, in one
folder.

Rules: D40.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support.patience import HANGS_S
from tests.support.warm import WarmServer
from tools import reference

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = sorted([*ROOT.glob("*.md"), *PAGES, *(ROOT / "changes").glob("*.md")])
BLOCK = re.compile(r"(?P<run><!-- run -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
# A file that a page or a comment names, from the root, src/holdfast, tests or its own folder: `turns/runner.py`.
NAMED_FILE = re.compile(r"(?<![\w./*>-])(?:[a-z_]+/)+(?!__)\w+\.(?:py|sql|toml)(?![\w/])")
SOURCES = sorted(path for name in ("src", "tests", "tools", "bench") for path in (ROOT / name).rglob("*.py"))
KILLED = "os._exit(9)"  # an example that ends itself, as kill -9 would


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# --- examples ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    kind: str
    text: str
    prints: str | None


def examples(text: str) -> Iterator[Example]:
    blocks = list(BLOCK.finditer(text))
    for block, following in zip_longest(blocks, blocks[1:]):
        if block["kind"] == "python" or (block["kind"] == "sh" and block["run"]):
            told = following and following["kind"] == "text" and not text[block.end() : following.start()].strip()
            yield Example(block["kind"], block["text"], following["text"] if following and told else None)


@cache
def strict_python() -> WarmServer:
    """For programs that a warning ends."""
    modules = ["holdfast.providers.local", "holdfast.runtime.library"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    return WarmServer(modules, options=["-W", "error"], variables=variables)


def run(example: Example, folder: Path) -> str:
    """What the example prints. It must end well, unless it kills itself."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env = {**clean, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", "COLUMNS": "200"}
    if example.kind == "python":
        done = strict_python().run(["-c", example.text], env, folder)
    else:
        command = ["sh", "-e", "-c", example.text]
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=HANGS_S, check=False
        )
    assert done.returncode == (9 if KILLED in example.text else 0), done.stderr
    assert done.stderr == ""
    return done.stdout


def matches(printed: str, told: str) -> bool:
    """Line by line, spaces counted once; a line of `…` alone stands for any number of lines."""
    pattern = ""
    for line in told.strip().splitlines():
        pieces = [" ".join(piece.split()) for piece in line.split("…")]
        pattern += "(?:.*\n)*" if pieces == ["", ""] else ".*".join(map(re.escape, pieces)) + "\n"
    lines = [" ".join(line.split()) for line in printed.strip().splitlines()]
    return re.fullmatch(pattern, "\n".join(lines) + "\n") is not None


@pytest.mark.parametrize("page", [page for page in PAGES if list(examples(read(page)))], ids=name_of)
def test_the_examples_of_a_page_run_and_print_what_it_says(page, tmp_path):
    for example in examples(read(page)):
        printed = run(example, tmp_path)
        assert example.prints is None or matches(printed, example.prints), printed


def test_the_example_of_the_readme_runs_in_ten_lines_and_knows_the_cat(tmp_path):
    (example,) = [one for one in examples(read(ROOT / "README.md")) if one.kind == "python"]
    assert len([line for line in example.text.splitlines() if line.strip()]) <= 10
    first, second = run(example, tmp_path).splitlines()
    assert "Byron" in first
    assert first == second, "the same id gets the same answer"


@pytest.mark.parametrize(
    ("printed", "told", "same"),
    [
        ("a b\n", "a b", True),
        ("a   b\n", "a b", True),
        ("a b\n", "a c", False),
        ("a 12 b\n", "a … b", True),
        ("ses_12x\n", "ses_…", True),
        ("a\nb\nc\n", "a\n…\nc", True),
        ("a\nc\n", "a\n…\nc", True),
        ("a\nb\n", "a", False),
        ("a.b\n", "axb", False),
    ],
)
def test_what_is_told_is_compared_with_what_is_printed(printed, told, same):
    assert matches(printed, told) is same


# --- reference ---------------------------------------------------------------------------------------------------


made_pages = cache(reference.pages)


def test_the_reference_is_up_to_date():
    stale = [file for file, text in made_pages().items() if not file.exists() or read(file) != text]
    assert [name_of(file) for file in stale] == [], "run tools/reference.py"


def test_every_page_of_the_reference_is_written_by_the_tool_or_checked_cell_by_cell():
    checked = {reference.DOCS / "reference" / "who-may.md"}  # tests/security/test_who_may.py
    assert {page for page in PAGES if page.parent.name == "reference"} <= set(made_pages()) | checked


def test_the_indexes_lead_to_every_page():
    indexes = [ROOT / "docs" / "README.md", ROOT / "docs" / "decisions" / "README.md"]
    targets = {(index.parent / target).resolve() for index in indexes for target in LINK.findall(read(index))}
    assert [name_of(page) for page in PAGES if page not in targets and page != indexes[0]] == []


# --- links and words ---------------------------------------------------------------------------------------------


@cache
def anchors(path: Path) -> set[str]:
    """The names that headings get, as GitHub makes them."""
    titles = [match["title"] for match in HEADING.finditer(BLOCK.sub("", read(path)))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_every_relative_link_leads_somewhere(path):
    broken = []
    for target in LINK.findall(BLOCK.sub("", read(path))):
        file, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        found = (path.parent / file).resolve() if file else path
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert broken == []


# The glossary's word for what others call otherwise.
SYNONYMS = {
    r"dead[- ]letter\w*": "parked",
    r"(message|mail|the) queue\b": "mailbox",
    r"(?<!\.)inbox(es)?\b(?!/)": "mailbox",
    r"compaction|compacted": "compression",
    r"message log|event log": "journal",
    r"conversation id": "session",
}


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_the_words_are_those_of_the_glossary(path):
    text = read(path)
    found = [(match[0], word) for synonym, word in SYNONYMS.items() for match in re.finditer(rf"(?i)\b{synonym}", text)]
    assert found == []


def test_every_word_of_the_glossary_is_told_once_and_in_order():
    words = re.findall(r"^\| \*\*(\w+)\*\* \|", read(ROOT / "GLOSSARY.md"), re.MULTILINE)
    assert words == sorted(set(words))


def test_every_file_that_a_page_or_a_comment_names_exists():
    """A module that moves takes its name along: a reader looks where the page or the comment points."""
    kept = [path for path in TEXTS if path.name != "CHANGELOG.md" and path.parent.name not in {"changes", "decisions"}]
    named = {
        f"{name_of(path)}: {found}"
        for path in [*kept, *SOURCES]
        for found in NAMED_FILE.findall(read(path))
        if not any(
            (folder / found.removeprefix("checkout/")).exists()
            for folder in (ROOT, ROOT / "src" / "holdfast", ROOT / "tests", path.parent)
        )
    }
    assert named == set()
