"""The page about the incidents names tests that exist, in the files that it links to."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "incidents.md"


def test_every_test_that_the_page_names_is_in_a_file_that_it_links_to():
    text = PAGE.read_text(encoding="utf-8")
    files = [(PAGE.parent / target).resolve() for target in re.findall(r"\((\S+\.py)\)", text)]
    there = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) >= 20
    assert named - there == set()
