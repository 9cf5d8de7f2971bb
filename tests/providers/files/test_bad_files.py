"""The promise: a memory file that cannot be used is a clear state; memory and the file keep what they have."""

import errno
import os

import pytest

from holdfast.kernel.errors import ConfigInvalid, ProviderFailed
from holdfast.kernel.ids import AgentName, Provider
from holdfast.kernel.machine import AsyncTasks, SystemClock, SystemEntropy
from holdfast.memory.delivery import Delivered, Landing, Refused, Unreachable
from holdfast.memory.files.disk import FILE_BYTES_MAX
from holdfast.memory.notes import Capacity, Target
from holdfast.memory.provider import ProviderSetup
from holdfast.providers.files import make_files
from tests.memory.test_notes_plan import add
from tests.providers.files.cabinet import Cabinet, note


async def test_a_symlinked_file_is_refused_and_what_it_points_to_is_not_touched(cabinet, tmp_path):
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text("not yours\n")
    cabinet.folder.mkdir()
    cabinet.file.symlink_to(elsewhere)
    await cabinet.apply(add("a"))
    assert await cabinet.deliver() == Refused("MEMORY.md is a symbolic link; put a plain file there")
    assert elsewhere.read_text() == "not yours\n"
    assert cabinet.file.is_symlink()
    assert await cabinet.entries() == ["a"]
    assert await cabinet.provider.healthy() == "MEMORY.md is a symbolic link; put a plain file there"
    assert await cabinet.provider.landed(note(1)) is Landing.POSSIBLE


async def test_a_dangling_link_is_refused_too(cabinet, tmp_path):
    cabinet.folder.mkdir()
    cabinet.file.symlink_to(tmp_path / "nowhere")
    assert isinstance(await cabinet.deliver(), Refused)
    assert not (tmp_path / "nowhere").exists()


async def test_a_link_found_only_when_the_file_is_opened_is_refused_by_the_system(cabinet, monkeypatch, tmp_path):
    """The look before opening saw a plain file; somebody has put a link there since."""
    cabinet.folder.mkdir()
    (tmp_path / "elsewhere.md").write_text("not yours\n")
    cabinet.file.symlink_to(tmp_path / "elsewhere.md")
    monkeypatch.setattr(cabinet.provider._disk, "_refuse_link", lambda path: None)
    assert await cabinet.deliver() == Refused("MEMORY.md is a symbolic link; put a plain file there")


@pytest.mark.parametrize("part", ["users", "users/ada"])
async def test_a_folder_that_is_a_link_leads_nowhere(tmp_path, notes, part):
    cabinet = Cabinet(tmp_path, notes, per_user=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    link = cabinet.folder / part
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    await cabinet.apply(add("a", Target.USER), subject="ada")
    outcome = await cabinet.deliver(1, target="user", subject="ada")
    assert outcome == Refused(f"{part} is a symbolic link; put a plain file there")
    assert list(outside.iterdir()) == []


async def test_a_folder_in_the_place_of_a_file_is_refused(cabinet):
    cabinet.file.mkdir(parents=True)
    await cabinet.apply(add("a"))
    assert await cabinet.deliver() == Refused("MEMORY.md is a folder; put a plain file there")
    assert cabinet.file.is_dir()


async def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting_for_it(cabinet):
    cabinet.folder.mkdir()
    os.mkfifo(cabinet.file)
    await cabinet.apply(add("a"))
    assert await cabinet.deliver() == Refused("MEMORY.md is not a regular file")


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES], ids=errno.errorcode.get)
async def test_a_file_that_cannot_be_read_is_never_taken_for_an_empty_one(cabinet, monkeypatch, code):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.edit("a\n§\nby hand\n")
    await cabinet.apply(add("b"))
    real = os.open

    def failing(path, flags, *rest, **options):
        if str(path).endswith("/MEMORY.md"):
            raise OSError(code, os.strerror(code))
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        why = f"MEMORY.md cannot be read ({errno.errorcode[code]}); nothing was changed"
        assert await cabinet.deliver(2) == Unreachable(why)
        (noticed,) = await cabinet.notice()
        assert noticed.fault == why
        assert await cabinet.provider.healthy() == why
    assert cabinet.text() == "a\n§\nby hand\n"
    assert await cabinet.entries() == ["a", "b"]
    assert await cabinet.deliver(2) == Delivered("MEMORY.md")
    assert cabinet.text() == "a\n§\nby hand\n§\nb\n"


@pytest.mark.parametrize("name", [".MEMORY.md.state", ".MEMORY.md.previous"])
async def test_what_is_kept_beside_the_file_is_not_taken_for_missing_either(cabinet, monkeypatch, name):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(add("b"))
    await cabinet.deliver(2)
    cabinet.edit("b\n")
    real = os.open

    def failing(path, flags, *rest, **options):
        if str(path).endswith(name):
            raise OSError(errno.EIO, "I/O error")
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        assert isinstance(await cabinet.deliver(2), Unreachable)
    assert cabinet.text() == "b\n"


async def test_a_full_disk_leaves_the_file_as_it_was_and_is_tried_again(cabinet, monkeypatch):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(add("b"))

    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        outcome = await cabinet.deliver(2)
    assert isinstance(outcome, Unreachable)
    assert "no space is left on the disk, ENOSPC" in outcome.reason
    assert cabinet.text() == "a\n"
    assert await cabinet.deliver(2) == Delivered("MEMORY.md")
    assert cabinet.text() == "a\n§\nb\n"


async def test_a_file_that_is_not_utf8_is_refused_and_kept_byte_for_byte(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    raw = "café".encode("latin-1")
    cabinet.file.write_bytes(raw)
    assert await cabinet.deliver() == Refused("MEMORY.md is not UTF-8 (byte 3); save it as UTF-8")
    assert cabinet.file.read_bytes() == raw
    assert await cabinet.entries() == ["a"]
    cabinet.file.write_text("a\n§\ncafé\n", encoding="utf-8")
    assert await cabinet.deliver() == Delivered("MEMORY.md")
    assert await cabinet.entries() == ["a", "café"]


async def test_a_file_that_is_absurdly_large_is_refused_unread(cabinet):
    cabinet.folder.mkdir()
    with cabinet.file.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    assert await cabinet.deliver() == Refused(f"MEMORY.md has more than {FILE_BYTES_MAX} bytes")


# --- edits that cannot be kept -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "code"),
    [("a\n§\n" + "x" * 60 + "\n", "over_capacity"), ("a\n§\n\u202eevil\n", "blocked"), ("<|im_start|>\n", "blocked")],
)
async def test_an_edit_that_cannot_be_kept_is_left_alone_and_copied_once(tmp_path, notes, edit, code):
    cabinet = Cabinet(tmp_path, notes, chars=50)
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.edit(edit)
    await cabinet.apply(add("b"))
    for _ in range(3):
        outcome = await cabinet.deliver(2)
        assert isinstance(outcome, Refused)
        assert outcome.reason.startswith(f"the edit of MEMORY.md cannot be stored ({code}: ")
        assert "xxx" not in outcome.reason
        assert cabinet.text() == edit
    assert cabinet.beside() == ["MEMORY.md", "MEMORY.md.edited.1"]
    assert (cabinet.folder / "MEMORY.md.edited.1").read_text() == edit
    assert await cabinet.entries() == ["a", "b"]
    (noticed,) = await cabinet.notice()
    assert noticed.fault == outcome.reason
    assert await cabinet.provider.healthy() == "MEMORY.md holds an edit that cannot be stored; correct it"


async def test_an_edit_made_to_fit_is_kept_and_the_file_catches_up(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, chars=50)
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    cabinet.edit("a\n§\n" + "x" * 60)
    await cabinet.apply(add("b"))
    assert isinstance(await cabinet.deliver(2), Refused)
    cabinet.edit("a\n§\nshorter\n")
    assert isinstance(await cabinet.deliver(2), Delivered)
    assert cabinet.text() == "a\n§\nshorter\n§\nb\n"
    assert await cabinet.provider.healthy() is None


async def test_another_edit_that_does_not_fit_gets_a_copy_of_its_own(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, chars=50)
    for letter in "xy":
        cabinet.edit(letter * 60)
        await cabinet.deliver()
    assert cabinet.beside() == ["MEMORY.md", "MEMORY.md.edited.1", "MEMORY.md.edited.2"]


async def test_parcels_behind_one_that_was_not_taken_wait(cabinet):
    cabinet.file.mkdir(parents=True)
    await cabinet.apply(add("a"), add("b", Target.USER))
    outcomes = await cabinet.provider.deliver([note(1), note(2, target="user")])
    assert [type(outcome) for outcome in outcomes] == [Refused, Unreachable]


async def test_a_folder_that_another_process_holds_is_waited_for_and_then_left(cabinet):
    other = cabinet.open()
    await other._take_lock()
    waits: list[float] = []

    class Patient(AsyncTasks):
        async def sleep(self, delay_ms: float) -> None:
            waits.append(delay_ms)

    provider = cabinet.open()
    provider._tasks = Patient()
    (outcome,) = await provider.deliver([note(1)])
    assert outcome == Unreachable("another process is using the memory files")
    assert len(waits) == 50
    other._lock.release()
    assert isinstance(await cabinet.deliver(), Delivered)


async def test_a_soul_that_cannot_be_read_is_said_to_be_so(cabinet):
    (cabinet.folder / "SOUL.md").mkdir(parents=True)
    with pytest.raises(ProviderFailed, match=r"SOUL\.md is a folder"):
        await cabinet.provider.soul()
    (cabinet.folder / "SOUL.md").rmdir()
    (cabinet.folder / "SOUL.md").write_bytes(b"\xff")
    with pytest.raises(ProviderFailed, match="not UTF-8"):
        await cabinet.provider.soul()


# --- settings ------------------------------------------------------------------------------------------------


def setup(tmp_path, **settings):
    return ProviderSetup(
        name=Provider("files"),
        agent=AgentName("fern"),
        settings=settings,
        folder=tmp_path / "files",
        environment={},
        clock=SystemClock(),
        entropy=SystemEntropy(),
        tasks=AsyncTasks(),
    )


def test_the_factory_makes_a_provider_for_memory_only_and_touches_no_file(tmp_path):
    configured = make_files(setup(tmp_path, per_user=True, memory_chars=500))
    provider = configured.provider
    policy = configured.policy(Provider("files"))
    assert (policy.turns, policy.memory) == (False, True)
    assert provider.capacity == Capacity(memory_chars=500)  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"per_usr": True}, "files.per_usr is not a setting; did you mean per_user?"),
        ({"per_user": "yes"}, "files.per_user is 'yes': Expected `bool`, got `str`"),
        ({"memory_chars": 5}, "files.memory_chars is 5: Expected `int` >= 100"),
    ],
)
def test_a_setting_that_cannot_be_right_is_named_with_its_value(tmp_path, settings, sentence):
    with pytest.raises(ConfigInvalid) as caught:
        make_files(setup(tmp_path, **settings))
    assert str(caught.value) == sentence
