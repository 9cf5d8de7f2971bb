"""Journals of old releases still open: what a release once wrote is read by every later one.

Each journal-<release>.json was written by that release (`python -m tools.golden`) and is never changed. `stored` is
the body as the store kept it, `reads` what it meant. When a body changes its shape, it gets an upcast in
turns/journal.py, and what it is read as from then on is told in MEANS_NOW below.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.turns.journal import BODIES, decode_body, encode_body
from tools import golden

FILES = sorted(golden.FOLDER.glob("journal-*.json"))
# (release, seq) -> what an entry whose body has changed its shape since is read as.
MEANS_NOW: dict[tuple[str, int], dict[str, Any]] = {
    ("0.1.0", 12): {
        "text": "Ada has a cat.",
        "session": "",
        "epoch": 0,
        "head_seq": 0,
        "principal": "",
        "sources": [],
    },
}

# kind -> fields that came later, with what they are in an entry from before.
GROWN: dict[str, dict[str, Any]] = {"user": {"name": ""}, "observed": {"name": ""}}


def entries() -> list[Any]:
    found = []
    for file in FILES:
        release = json.loads(file.read_text(encoding="utf-8"))
        name = release["release"]
        found += [pytest.param(name, one, id=f"{name}-{one['seq']}-{one['kind']}") for one in release["entries"]]
    return found


@pytest.mark.parametrize(("release", "entry"), entries())
def test_an_entry_of_an_old_release_is_read_as_it_was_meant(release, entry):
    body = decode_body(entry["kind"], entry["stored"].encode())
    assert body.kind == entry["kind"]
    meant = MEANS_NOW.get((release, entry["seq"]), entry["reads"])
    assert golden.fields(body) == {**GROWN.get(entry["kind"], {}), **meant}


@pytest.mark.parametrize(("release", "entry"), entries())
def test_an_old_entry_survives_being_written_again(release, entry):
    body = decode_body(entry["kind"], entry["stored"].encode())
    assert decode_body(body.kind, encode_body(body)) == body


@pytest.mark.parametrize(("release", "entry"), entries())
def test_an_entry_is_found_under_its_old_kind_when_it_was_blanked(release, entry):
    assert decode_body(entry["kind"], b"").kind == "forgotten"


def test_this_release_has_a_golden_journal_of_every_kind():
    file = golden.file_of(holdfast.__version__)
    assert file in FILES, "run python -m tools.golden"
    written = json.loads(file.read_text(encoding="utf-8"))
    assert {one["kind"] for one in written["entries"]} == set(BODIES)


def test_this_release_still_writes_what_its_golden_journal_says():
    """A change of the stored bytes within one release would be noticed by no other test."""
    written = json.loads(golden.file_of(holdfast.__version__).read_text(encoding="utf-8"))
    assert golden.journal() == written["entries"]


def test_a_golden_journal_is_never_written_twice(capsys):
    before = {file: file.read_bytes() for file in FILES}
    assert golden.main() == 1
    assert {file: Path(file).read_bytes() for file in FILES} == before
