"""Build the site of the documentation, with search, from docs/ and the pages at the top of the repository.

    make docs      writes build/docs, and fails for a link or an anchor that leads nowhere

Search needs a web server: `python -m http.server -d build/docs`. Nothing is loaded from elsewhere.

The pages are written for the repository, so that they read well there. They are copied as they are, under the same
relative paths, except that a link to a file that is no page becomes the name of the file. The navigation is the list of
docs/README.md: every page stands there, which tests/test_docs.py checks.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
DRAFT, SITE = ROOT / "build" / "docs-draft", ROOT / "build" / "docs"
TOP_PAGES = ("README.md", "ARCHITECTURE.md", "GLOSSARY.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
INDEX, DECISIONS = "docs/README.md", "docs/decisions/README.md"
PICTURES = (".png", ".svg", ".jpg")
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<target>[^)#]+)\)", re.MULTILINE)
SECTION = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
OPTIONS: Mapping[str, object] = {
    "site_name": "Holdfast",
    "use_directory_urls": False,
    "theme": {
        "name": "material",
        "font": False,  # nothing is loaded from elsewhere
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "black", "accent": "teal"},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "black", "accent": "teal"},
        ],
        "features": ["navigation.sections", "navigation.top", "navigation.indexes", "content.code.copy", "toc.follow"],
    },
    "plugins": ["search"],
    "validation": {"nav": {"omitted_files": "warn"}, "links": {"anchors": "warn", "unrecognized_links": "warn"}},
}
# Anchors are those that GitHub makes, for which the links are written.
EXTENSIONS = """\
markdown_extensions:
- attr_list
- tables
- sane_lists
- pymdownx.superfences
- toc:
    permalink: true
    slugify: !!python/object/apply:pymdownx.slugs.slugify
      kwds: {case: lower}
"""


def pages() -> list[Path]:
    """The pages of the site, relative to the repository."""
    return [Path(name) for name in TOP_PAGES] + sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))


def navigation(index: str) -> list[object]:
    """The list of docs/README.md: the pages by section."""
    found: list[object] = [{"Holdfast": "README.md"}]
    decisions = [{_title(ROOT / page): page.as_posix()} for page in pages() if page.match("docs/decisions/0*.md")]
    sections = list(SECTION.finditer(index))
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        text = index[section.end() : following.start() if following else None]
        entries: list[object] = []
        for one in ENTRY.finditer(text):
            place = _place(one["target"])
            entries.append({one["title"]: [place, *decisions] if place == DECISIONS else place})
        if entries:
            found.append({section["title"]: entries})
    rest = [{_title(ROOT / name): name} for name in TOP_PAGES if f"../{name}" not in index and name != "README.md"]
    return [*found, {"The project": [{"Documentation": INDEX}, *rest]}]


def _place(target: str) -> str:
    return Path(os.path.normpath(Path("docs") / target)).as_posix()


def _title(page: Path) -> str:
    return next(line[2:] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def adapted(text: str, page: Path, known: set[str]) -> str:
    """The page without links to files that the site does not have."""
    parts = FENCE.split(text)  # text, fence, code, fence, text, ...
    made, is_code = [], False
    for part in parts:
        if part in {"```", "~~~"}:
            is_code = not is_code
        made.append(part if is_code else LINK.sub(lambda found: _link(found, page, known), part))
    return "".join(made)


def _link(found: re.Match[str], page: Path, known: set[str]) -> str:
    target = found["target"]
    if not target or re.match(r"\w+:", target) or found["mark"]:
        return found[0]
    place = Path(os.path.normpath(page.parent / target)).as_posix()
    if place in known:
        return found[0]
    if f"{place}/README.md" in known:  # a folder
        return f"[{found['text']}]({target.rstrip('/')}/README.md{found['anchor'] or ''})"
    return found["text"] if found["text"].startswith("`") else f"{found['text']} (`{place}`)"


def draft() -> None:
    shutil.rmtree(DRAFT, ignore_errors=True)
    known = {page.as_posix() for page in pages()}
    for page in pages():
        made = DRAFT / "pages" / page
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(adapted((ROOT / page).read_text(encoding="utf-8"), page, known), encoding="utf-8")
    for picture in _pictures():
        made = DRAFT / "pages" / picture
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / picture, made)
    index = (ROOT / INDEX).read_text(encoding="utf-8")
    options = {**OPTIONS, "docs_dir": "pages", "site_dir": str(SITE), "nav": navigation(index)}
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in options.items()]
    (DRAFT / "mkdocs.yml").write_text("".join(lines) + EXTENSIONS, encoding="utf-8")


def _pictures() -> Iterator[Path]:
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.suffix in PICTURES:
            yield path.relative_to(ROOT)


def main() -> int:
    draft()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", "mkdocs.yml"]
    return subprocess.run(command, cwd=DRAFT, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
