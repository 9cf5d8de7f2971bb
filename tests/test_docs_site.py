"""The site has every page once, and no link to what it does not have. `make docs` builds it and checks each link."""

from pathlib import Path

import pytest

from tools import docs_site as site

KNOWN = {page.as_posix() for page in site.pages()}
HERE = Path("docs/howto/x.md")


def targets(entries: list[object]) -> list[object]:
    found: list[object] = []
    for one in entries:
        for value in one.values() if isinstance(one, dict) else [one]:
            found += targets(value) if isinstance(value, list) else [value]
    return found


def test_each_page_stands_in_the_navigation_once():
    assert sorted(map(str, targets(site.navigation((site.ROOT / site.INDEX).read_text(encoding="utf-8"))))) == sorted(
        KNOWN
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("[a](encrypt.md#keys)", "[a](encrypt.md#keys)"),
        ("[a](../../ARCHITECTURE.md)", "[a](../../ARCHITECTURE.md)"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("[a](#here)", "[a](#here)"),
        ("![a](../console/x.png)", "![a](../console/x.png)"),
        ("[`conftest.py`](../../tests/conftest.py)", "`conftest.py`"),
        ("[the test](../../tests/conftest.py)", "the test (`tests/conftest.py`)"),
        ("[a](../decisions/)", "[a](../decisions/README.md)"),
        ("```\n[a](x.py)\n```", "```\n[a](x.py)\n```"),
    ],
)
def test_a_link_to_a_file_that_is_no_page_becomes_its_name(text, made):
    assert site.adapted(text, HERE, KNOWN) == made
