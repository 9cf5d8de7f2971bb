"""The promise: the files show what memory holds, whole or not at all, and what people write into them is kept."""

import stat
from dataclasses import replace

import pytest

from holdfast.kernel.ids import DeliveryId, Principal, Provider, SessionId
from holdfast.memory.delivery import Delivered, Erasure, Landing, NamingInputs, Op, Parcel, Refused, Unreachable
from holdfast.memory.notes import Target
from holdfast.providers.files.provider import EditResult, folder_name
from tests.memory.test_notes_plan import add, remove, swap
from tests.providers.files.cabinet import FERN, Cabinet, NoteStore, note

# --- showing what holds --------------------------------------------------------------------------------------


async def test_a_delivered_note_makes_the_file_show_all_of_memory(cabinet):
    await cabinet.apply(add("tea"), add("green tea\nin the morning"), add("Ada", Target.USER))
    assert await cabinet.deliver(1) == Delivered("MEMORY.md")
    assert cabinet.text() == "tea\n§\ngreen tea\nin the morning\n"
    assert await cabinet.deliver(3, target="user") == Delivered("USER.md")
    assert (cabinet.folder / "USER.md").read_text() == "Ada\n"


async def test_replaced_removed_and_added_entries_are_shown_in_their_order(cabinet):
    await cabinet.apply(add("a"), add("b"), add("c"))
    await cabinet.deliver()
    await cabinet.apply(swap("b", "B"), remove("a"), add("d"))
    await cabinet.deliver(6)
    assert cabinet.text() == "B\n§\nc\n§\nd\n"


async def test_removing_the_last_entry_leaves_an_empty_file(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(remove("a"))
    await cabinet.deliver(2)
    assert cabinet.text() == ""
    assert await cabinet.notice() == ()


async def test_files_are_private_and_nothing_else_is_left_in_sight(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(add("b"))
    await cabinet.deliver(2)
    assert cabinet.beside() == ["MEMORY.md"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in cabinet.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(cabinet.folder.stat().st_mode) == 0o700


async def test_delivering_again_writes_nothing_again(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    before = {path.name: path.stat().st_mtime_ns for path in cabinet.folder.iterdir()}
    assert await cabinet.deliver() == Delivered("MEMORY.md")
    assert {path.name: path.stat().st_mtime_ns for path in cabinet.folder.iterdir()} == before


async def test_notes_of_one_lane_are_carried_together(cabinet):
    await cabinet.apply(add("a"), add("b"), add("Ada", Target.USER))
    outcomes = await cabinet.provider.deliver([note(1), note(2), note(3, target="user")])
    assert outcomes == [Delivered("MEMORY.md"), Delivered("MEMORY.md"), Delivered("USER.md")]


async def test_a_removed_file_is_written_again_and_removes_nothing(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    await cabinet.apply(swap("b", "B"))
    await cabinet.deliver(3)
    for _ in range(2):
        cabinet.file.unlink()
        assert await cabinet.notice() == ()
        assert cabinet.text() == "a\n§\nB\n"
    assert len(await cabinet.operations()) == 3


async def test_landed_says_whether_the_file_shows_the_operation(cabinet):
    await cabinet.apply(add("a"))
    assert await cabinet.provider.landed(note(1)) is Landing.ABSENT
    await cabinet.deliver()
    assert await cabinet.provider.landed(note(1)) is Landing.LANDED
    assert await cabinet.provider.landed(note(2)) is Landing.ABSENT
    cabinet.edit("something else\n")
    assert await cabinet.provider.landed(note(1)) is Landing.ABSENT


async def test_turns_are_refused_and_an_unattached_provider_waits(cabinet):
    (outcome,) = await cabinet.provider.deliver([note(1, op=Op.RETAIN)])
    assert isinstance(outcome, Refused)
    provider = cabinet.open()
    provider._projection = None
    (outcome,) = await provider.deliver([note(1)])
    assert isinstance(outcome, Unreachable)


# --- per user ----------------------------------------------------------------------------------------------


async def test_people_are_kept_apart_where_that_is_configured(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, per_user=True)
    await cabinet.apply(add("likes tea", Target.USER), subject="ada")
    await cabinet.apply(add("likes beer", Target.USER), subject="Ada")
    await cabinet.apply(add("is a bot"))
    await cabinet.deliver(1, target="user", subject="ada")
    await cabinet.deliver(1, target="user", subject="Ada")
    await cabinet.deliver(1)
    assert (cabinet.folder / "users" / "ada" / "USER.md").read_text() == "likes tea\n"
    assert (cabinet.folder / "users" / folder_name("Ada") / "USER.md").read_text() == "likes beer\n"
    assert cabinet.text() == "is a bot\n"
    cabinet.edit("likes milk\n", cabinet.folder / "users" / "ada" / "USER.md")
    assert await cabinet.notice("ada", "Ada") == (EditResult("users/ada/USER.md"),)
    assert await cabinet.entries(Target.USER, "ada") == ["likes milk"]
    assert await cabinet.entries(Target.USER, "Ada") == ["likes beer"]


async def test_without_that_a_persons_notes_are_in_no_file(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, per_user=False)
    await cabinet.apply(add("likes tea", Target.USER), subject="ada")
    assert isinstance(await cabinet.deliver(1, target="user", subject="ada"), Delivered)
    assert await cabinet.notice("ada") == ()
    assert not list(cabinet.folder.rglob("*.md"))


async def test_a_chat_and_a_person_of_one_name_have_folders_of_their_own(cabinet):
    for subject in ("club", "chat:club", "person:chat:club", "session:club"):
        await cabinet.apply(add(f"of {subject}"), subject=subject)
        assert isinstance(await cabinet.deliver(1, subject=subject), Delivered)
    found = {path.relative_to(cabinet.folder).as_posix(): path.read_text() for path in cabinet.folder.rglob("*.md")}
    assert found == {
        "users/club/MEMORY.md": "of club\n",
        "chats/club/MEMORY.md": "of chat:club\n",
        f"users/{folder_name('person:chat:club')}/MEMORY.md": "of person:chat:club\n",
    }


@pytest.mark.parametrize(
    "subject", ["..", ".", "a/b", "../x", "CON", "con", "nul", "x" * 500, "a\\b", "~", "-", "ß", "a."]
)
def test_a_folder_name_is_safe_on_every_file_system(subject):
    name = folder_name(subject)
    assert len(name) <= 80
    assert not set(name) & set('./\\:*?"<>| ')
    assert name.split(".")[0] not in {"con", "nul"}
    assert name == name.lower()


def test_no_two_people_share_a_folder():
    people = ["ada", "Ada", "ADA", "a:b", "a-b", "a b", "a/b", "ada~", "con", "..", ".", "é", "e"]
    assert len({folder_name(person) for person in people}) == len(people)


# --- edits by hand -------------------------------------------------------------------------------------------


async def test_an_edit_becomes_operations_and_is_not_overwritten(cabinet):
    await cabinet.apply(add("a"), add("b"), add("c"))
    await cabinet.deliver()
    cabinet.edit("a\n§\nB, corrected\n§\nnew\n")
    assert await cabinet.notice() == (EditResult("MEMORY.md"),)
    assert await cabinet.entries() == ["a", "B, corrected", "new"]
    assert (await cabinet.operations())[3:] == [
        ("edit", "replace", "b", "B, corrected"),
        ("edit", "replace", "c", "new"),
    ]
    assert cabinet.text() == "a\n§\nB, corrected\n§\nnew\n"
    assert await cabinet.notice() == ()


async def test_text_appended_by_hand_is_part_of_the_entry_it_was_appended_to(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.file.write_text("a\nand more, without a separator\n")
    await cabinet.notice()
    assert await cabinet.entries() == ["a\nand more, without a separator"]
    assert (await cabinet.operations())[-1] == ("edit", "replace", "a", "a\nand more, without a separator")


async def test_an_edit_is_kept_before_the_next_note_is_written(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.edit("a\n§\nby hand\n")
    await cabinet.apply(add("by the agent"))
    await cabinet.deliver(2)
    assert cabinet.text() == "a\n§\nby hand\n§\nby the agent\n"
    assert sorted(await cabinet.entries()) == ["a", "by hand", "by the agent"]


async def test_a_note_that_the_person_never_saw_is_not_taken_for_removed(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(add("by the agent"))  # not delivered yet
    cabinet.edit("")
    await cabinet.notice()
    await cabinet.notice()
    assert await cabinet.entries() == ["by the agent"]
    assert cabinet.text() == "by the agent\n"


async def test_where_both_changed_one_entry_the_persons_words_hold_and_history_keeps_the_agents(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    await cabinet.apply(swap("a", "agent's a"))
    cabinet.edit("person's a\n§\nb\n")
    await cabinet.deliver(3)
    assert cabinet.text() == "person's a\n§\nb\n"
    assert (await cabinet.operations())[-1] == ("edit", "replace", "agent's a", "person's a")


async def test_an_entry_that_the_agent_rewrote_survives_the_removal_of_its_former_words(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    await cabinet.apply(swap("a", "rewritten"))
    cabinet.edit("b\n")
    await cabinet.deliver(3)
    assert await cabinet.entries() == ["rewritten", "b"]


async def test_the_order_in_a_file_is_the_persons(cabinet):
    await cabinet.apply(add("a"), add("b"), add("c"))
    await cabinet.deliver()
    cabinet.edit("c\n§\na\n§\nb\n")
    assert await cabinet.notice() == ()
    assert len(await cabinet.operations()) == 3
    await cabinet.apply(swap("a", "A"), add("d"))
    await cabinet.deliver(5)
    assert cabinet.text() == "c\n§\nA\n§\nb\n§\nd\n"


async def test_putting_an_older_version_back_is_an_edit_too(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    old = cabinet.text()
    await cabinet.apply(swap("a", "b"))
    await cabinet.deliver(2)
    for _ in range(2):
        cabinet.edit(old)
        await cabinet.notice()
        assert await cabinet.entries() == ["a"]
        await cabinet.apply(swap("a", "b"))
        await cabinet.deliver(9)
        assert cabinet.text() == "b\n"


async def test_windows_line_ends_and_a_byte_order_mark_are_no_edit_of_the_words(cabinet):
    await cabinet.apply(add("a\nsecond line"), add("b"))
    await cabinet.deliver()
    cabinet.file.write_bytes(b"\xef\xbb\xbfa\r\nsecond line\r\n\xc2\xa7\r\nb\r\n")
    await cabinet.notice()
    assert len(await cabinet.operations()) == 2
    assert cabinet.text() == "a\nsecond line\n§\nb\n"


async def test_an_emptied_file_is_believed_at_the_second_look(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    cabinet.file.write_text("")
    (noticed,) = await cabinet.notice()
    assert noticed.fault == "MEMORY.md is empty: an editor may be about to write it"
    assert isinstance(await cabinet.deliver(), Delivered)
    assert await cabinet.entries() == []
    assert [row[:2] for row in await cabinet.operations()][2:] == [("edit", "remove")] * 2


async def test_an_editor_that_empties_the_file_before_it_writes_removes_nothing(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    cabinet.file.write_text("")
    await cabinet.notice()
    cabinet.file.write_text("a\n§\nb, edited\n")
    await cabinet.notice()
    assert (await cabinet.operations())[2:] == [("edit", "replace", "b", "b, edited")]


async def test_a_file_that_was_there_first_is_taken_over_whole(cabinet):
    cabinet.edit("mine\n§\nalso mine\n")
    await cabinet.apply(add("agent's"))
    await cabinet.deliver()
    assert cabinet.text() == "mine\n§\nalso mine\n§\nagent's\n"
    assert sorted(await cabinet.entries()) == ["agent's", "also mine", "mine"]


async def test_without_its_state_a_file_adds_and_removes_nothing(cabinet):
    await cabinet.apply(add("a"), add("b"))
    await cabinet.deliver()
    (cabinet.folder / ".MEMORY.md.state").write_text("{nonsense")
    cabinet.edit("a\n§\nc\n")
    cabinet.open()
    await cabinet.notice()
    assert await cabinet.entries() == ["a", "b", "c"]


async def test_an_edit_that_is_read_twice_is_applied_once(cabinet):
    """Another process reads the same edit after the first has applied it and died."""
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.edit("a\n§\nby hand\n")

    class Dying(NoteStore):
        async def apply(self, batch):
            await super().apply(batch)
            raise ConnectionError("died after the commit")

    cabinet.open(notes=Dying(cabinet.notes.db))
    with pytest.raises(ConnectionError):
        await cabinet.deliver()
    cabinet.open()
    await cabinet.apply(remove("by hand"))
    await cabinet.deliver(3)
    assert await cabinet.entries() == ["a"]
    assert cabinet.text() == "a\n"


async def test_idle_files_are_only_looked_at(cabinet, monkeypatch):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.notice()
    monkeypatch.setattr(cabinet.provider._disk, "read", None)
    monkeypatch.setattr(cabinet.notes, "db", None)
    assert await cabinet.notice() == ()


# --- erasing and SOUL.md -----------------------------------------------------------------------------------


def erasure(principal: str | None) -> Parcel:
    return Parcel(
        id=DeliveryId("files:erase"),
        op=Op.ERASE,
        provider=Provider("files"),
        place="erase",
        naming=NamingInputs(agent=FERN, session=SessionId(""), principal=Principal("ada")),
        erasure=Erasure(agent=FERN, principal=Principal(principal) if principal else None),
    )


async def test_erasing_a_person_leaves_none_of_the_words_in_the_folder(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, per_user=True)
    await cabinet.apply(add("secret of ada", Target.USER), subject="ada")
    await cabinet.deliver(1, target="user", subject="ada")
    await cabinet.apply(add("other"), add("secret of ada too"))
    await cabinet.deliver()
    await cabinet.apply(remove("secret of ada too"))  # the store erases before its providers do
    await cabinet.apply(remove("secret", Target.USER), subject="ada")
    assert await cabinet.provider.deliver([erasure("ada")]) == [Delivered("erased")]
    held = b"".join(path.read_bytes() for path in cabinet.folder.rglob("*") if path.is_file())
    assert b"secret" not in held
    assert cabinet.text() == "other\n"
    assert await cabinet.notice("ada") == ()
    assert await cabinet.provider.deliver([erasure(None)]) == [Delivered("the files hold no turns of a session")]


async def test_erasing_a_person_takes_the_copies_of_refused_edits_along(tmp_path, notes):
    """A refused edit is copied beside its file; that copy may hold the words, in their folder and in the others'."""
    cabinet = Cabinet(tmp_path, notes)
    club = "chat:agent:fern:telegram:group:club"
    folders = {
        subject: cabinet.folder / kind for subject, kind in (("ada", "users/ada"), ("bob", "users/bob"), ("", "."))
    }
    folders[club] = cabinet.folder / "chats" / folder_name(club.removeprefix("chat:"))
    for subject, folder in folders.items():
        await cabinet.apply(add("kept", Target.USER), subject=subject)
        await cabinet.deliver(1, target="user", subject=subject)
        cabinet.edit("secret of ada \u200b\n", folder / "USER.md")
        assert [one.fault is None for one in await cabinet.notice(subject)] == [False]
        assert (folder / "USER.md.edited.1").exists()
        cabinet.edit("kept\n", folder / "USER.md")
        await cabinet.notice(subject)
    wish = erasure("ada")
    assert wish.erasure is not None
    wish = replace(wish, erasure=replace(wish.erasure, scopes=("ada", club)))
    assert await cabinet.provider.deliver([wish]) == [Delivered("erased")]
    left = {path.relative_to(cabinet.folder).as_posix() for path in cabinet.folder.rglob("*.edited.*")}
    assert left == {"users/bob/USER.md.edited.1"}, "another person's folder is left alone"
    assert not (folders["ada"] / "USER.md").exists()
    assert (folders[club] / "USER.md").read_text() == "kept\n"


async def test_soul_is_read_and_never_written(cabinet):
    assert await cabinet.provider.soul() is None
    cabinet.edit("You are kind.\n", cabinet.folder / "SOUL.md")
    before = (cabinet.folder / "SOUL.md").stat()
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    assert await cabinet.provider.soul() == "You are kind.\n"
    assert (cabinet.folder / "SOUL.md").stat().st_mtime_ns == before.st_mtime_ns
