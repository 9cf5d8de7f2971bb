"""The promise: Hermes' memory files come over once, entry by entry, and are not touched."""

import pytest

from holdfast.kernel.errors import InvalidInput
from holdfast.memory.files.hermes import import_hermes
from holdfast.memory.notes import Applied, Capacity, NotApplied, Target
from tests.memory.test_notes_plan import remove
from tests.providers.files.cabinet import FERN


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "hermes" / "memories"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("likes tea\n§\nhas\ntwo lines\n§\nlikes tea", encoding="utf-8")
    (folder / "USER.md").write_text("is Ada", encoding="utf-8")
    return folder.parent


async def imported(notes, home, **options):
    found = import_hermes(home, FERN, **options)
    return [(one.file, one.n, await notes.apply(one.batch)) for one in found]


async def test_every_entry_comes_over_with_its_provenance(cabinet, notes, home):
    assert await imported(notes, home) == [
        ("MEMORY.md", 1, Applied((1,))),
        ("MEMORY.md", 2, Applied((2,))),
        ("MEMORY.md", 3, Applied((1,), repeated=True)),
        ("USER.md", 1, Applied((3,))),
    ]
    assert await cabinet.entries() == ["likes tea", "has\ntwo lines"]
    assert await cabinet.entries(Target.USER) == ["is Ada"]
    assert {row[0] for row in await cabinet.operations()} == {"import"}


async def test_importing_again_changes_nothing_even_after_an_entry_was_removed_or_the_file_grew(cabinet, notes, home):
    await imported(notes, home)
    await cabinet.apply(remove("likes tea"))
    (home / "memories" / "MEMORY.md").write_text("likes tea\n§\nhas\ntwo lines\n§\nnew", encoding="utf-8")
    again = await imported(notes, home / "memories")
    assert [outcome.repeated for _, _, outcome in again] == [True, True, False, True]
    assert await cabinet.entries() == ["has\ntwo lines", "new"]


async def test_an_entry_that_does_not_fit_is_reported_and_the_others_come_over(cabinet, notes, home):
    (home / "memories" / "MEMORY.md").write_text(
        "fits\n§\n" + "x" * 60 + "\n§\n<|im_start|>\n§\nalso", encoding="utf-8"
    )
    small = Capacity(memory_chars=50)
    outcomes = [outcome for _, _, outcome in await imported(notes, home, capacity=small)]
    assert [one.code if isinstance(one, NotApplied) else "ok" for one in outcomes] == [
        *("ok", "over_capacity", "blocked", "ok", "ok")
    ]
    assert await cabinet.entries() == ["fits", "also"]
    later = [outcome for _, _, outcome in await imported(notes, home)]
    assert not isinstance(later[1], NotApplied)


@pytest.mark.parametrize("damage", ["missing", "not utf-8", "link", "folder"])
def test_files_that_cannot_be_read_are_refused_before_anything_is_imported(home, damage):
    path = home / "memories" / "USER.md"
    path.unlink()
    if damage == "missing":
        (home / "memories" / "MEMORY.md").unlink()
    elif damage == "not utf-8":
        path.write_bytes(b"\xff")
    elif damage == "link":
        path.symlink_to(home / "memories" / "MEMORY.md")
    else:
        path.mkdir()
    with pytest.raises(InvalidInput) as caught:
        import_hermes(home, FERN)
    assert "USER.md" in str(caught.value)


def test_hermes_files_are_only_read(home):
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    import_hermes(home, FERN)
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
