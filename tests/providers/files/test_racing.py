"""No version of a memory file is lost, at any moment of an edit and of a crash.

The disk of these tests does something just before, or dies at, any step of a write.
"""

import os
from contextlib import suppress

import pytest

from holdfast.kernel.ids import AgentName
from holdfast.memory.files.disk import Disk
from tests.memory.test_notes_plan import add, swap
from tests.providers.files.cabinet import Cabinet

CALLS = ("open", "replace", "link", "fsync", "lstat")
STEPS_MAX = 80


class Meddled(Disk):
    """Somebody acts once, right before the rename that puts a new version in place."""

    def __init__(self, root, act):
        super().__init__(root)
        self.act = act

    def _swap(self, new, path):
        act, self.act = self.act, None
        if act is not None:
            act()
        super()._swap(new, path)


class Seen(Meddled):
    """Somebody acts once, between reading the file and the last look at it."""

    def _swap(self, new, path):
        Disk._swap(self, new, path)

    def _write_new(self, path, data):
        new = super()._write_new(path, data)
        if path.name == "MEMORY.md" and self.act is not None:
            act, self.act = self.act, None
            act()
        return new


async def prepared(cabinet):
    await cabinet.apply(add("a"))
    await cabinet.deliver()
    await cabinet.apply(add("by the agent"))


BOTH = ["a", "by hand", "by the agent"]


async def test_an_edit_between_reading_and_renaming_is_seen_and_kept(cabinet):
    await prepared(cabinet)
    cabinet.open(Seen(cabinet.folder, lambda: cabinet.edit("a\n§\nby hand\n")))
    await cabinet.deliver(2)
    assert sorted(await cabinet.entries()) == BOTH
    assert sorted(cabinet.text().strip().split("\n§\n")) == BOTH


async def test_a_file_written_in_place_at_the_last_instant_is_found_in_the_version_it_was_written_to(cabinet):
    await prepared(cabinet)
    cabinet.open(Meddled(cabinet.folder, lambda: cabinet.file.write_text("a\n§\nby hand\n")))
    await cabinet.deliver(2)
    assert sorted(await cabinet.entries()) == BOTH
    assert sorted(cabinet.text().strip().split("\n§\n")) == BOTH


async def test_an_editor_that_still_holds_the_old_version_open_is_heard(cabinet):
    await prepared(cabinet)
    with cabinet.file.open("a") as editor:
        await cabinet.deliver(2)
        editor.write("§\nby hand\n")
    assert [one.fault for one in await cabinet.notice()] == [None]
    assert sorted(await cabinet.entries()) == BOTH
    assert await cabinet.notice() == ()
    assert sorted(cabinet.text().strip().split("\n§\n")) == BOTH


async def test_a_late_edit_that_cannot_be_kept_is_copied_aside_and_blocks_nothing(tmp_path, notes):
    cabinet = Cabinet(tmp_path, notes, chars=50)
    await prepared(cabinet)
    with cabinet.file.open("a") as editor:
        await cabinet.deliver(2)
        editor.write("§\n" + "x" * 60)
    (noticed,) = await cabinet.notice()
    assert noticed.fault is not None
    assert noticed.fault.startswith("the edit of MEMORY.md cannot be stored (over_capacity")
    assert "x" * 60 in (cabinet.folder / "MEMORY.md.edited.1").read_text()
    assert await cabinet.notice() == ()
    assert cabinet.text() == "a\n§\nby the agent\n"


async def test_a_file_that_appears_while_the_first_one_is_written_is_not_overwritten(cabinet):
    await cabinet.apply(add("by the agent"))
    cabinet.open(Seen(cabinet.folder, lambda: cabinet.edit("by hand\n")))
    await cabinet.deliver()
    assert sorted(await cabinet.entries()) == ["by hand", "by the agent"]
    assert cabinet.text() == "by hand\n§\nby the agent\n"


async def test_an_editor_that_never_stops_is_reported_and_not_overwritten(cabinet):
    await prepared(cabinet)

    class Restless(Disk):
        count = 0

        def _write_new(self, path, data):
            new = super()._write_new(path, data)
            if path.name == "MEMORY.md":
                Restless.count += 1
                cabinet.edit(f"a\n§\ndraft {Restless.count}\n")
            return new

    cabinet.open(Restless(cabinet.folder))
    outcome = await cabinet.deliver(2)
    assert outcome.reason == "MEMORY.md changes faster than it can be read"
    assert cabinet.text() == f"a\n§\ndraft {Restless.count}\n"
    cabinet.open()
    await cabinet.deliver(2)
    assert sorted(await cabinet.entries()) == ["a", "by the agent", f"draft {Restless.count}"]


class Died(BaseException):
    """What a killed process would feel: no handler of ours may see it."""


class Deadly:
    """The system calls of the disk; the process dies before the call number `at`, counted over all of them."""

    def __init__(self, at):
        self.at = at

    def guarded(self, call):
        def wrapper(*args, **options):
            if self.at == 0:
                raise Died
            self.at -= 1
            return call(*args, **options)

        return wrapper


@pytest.mark.parametrize("hand", [None, "edited a\n§\nb\n§\nby hand\n"])
async def test_a_process_that_dies_anywhere_loses_and_invents_nothing(tmp_path, notes, monkeypatch, hand):
    """After every death: the same end as without it, and no operation without a request."""
    ends = set()
    for at in range(STEPS_MAX):
        cabinet = Cabinet(tmp_path / str(at), notes, agent=AgentName(f"agent-{at}"))
        await cabinet.apply(add("a"), add("b"))
        await cabinet.deliver()
        await cabinet.apply(swap("b", "B"), add("c"))
        if hand is not None:
            cabinet.edit(hand)
        deadly = Deadly(at)
        with monkeypatch.context() as patched, suppress(Died):
            for name in CALLS:
                patched.setattr(os, name, deadly.guarded(getattr(os, name)))
            await cabinet.deliver(4)
        cabinet.open()  # the next process
        await cabinet.apply(swap("c", "C"))
        await cabinet.deliver(5)
        await cabinet.deliver(5)
        ends.add((cabinet.text(), tuple(sorted(await cabinet.operations()))))
        if deadly.at > 0:
            break
    assert 10 < at < STEPS_MAX - 1
    assert len(ends) == 1, ends
