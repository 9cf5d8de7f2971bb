"""The index file loses nothing that was acknowledged, keeps nothing that was erased, and never blocks a turn: a
missing, damaged or foreign file leads to a defined state.

Rules: D30.
"""

import asyncio
import os
import shutil
import sys
from dataclasses import replace
from typing import Any

import apsw
import pytest

from holdfast.kernel.errors import ConfigInvalid, ProviderFailed
from holdfast.kernel.ids import DeliveryId, Principal
from holdfast.memory.delivery import Delivered, Landing, Outcome, Refused, Uncertain, Unreachable
from holdfast.providers.local import index_file, index_writer, make_local, postings
from holdfast.providers.local.index_writer import likeness
from holdfast.providers.local.postings import IndexScope, line_scopes
from holdfast.testing.provider_guest import Guest
from tests.support.local_provider import make_setup, open_local
from tests.support.old_local_index import turn_back

NAME = index_file.NAME


@pytest.fixture
async def guest(tmp_path):
    provider = open_local(tmp_path)
    yield Guest(provider)
    await provider.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "local"


def files_with(folder, *words):
    return [path.name for path in folder.iterdir() if any(word in path.read_bytes() for word in words)]


async def again(folder):
    """The provider after a restart."""
    return Guest(open_local(folder.parent))


# --- the file --------------------------------------------------------------------------------------


async def test_nothing_is_made_before_it_is_needed(guest, folder):
    assert await guest.recall("anything") == []
    assert await guest.provider.landed(guest.said("x")) is Landing.ABSENT
    assert not folder.exists()


async def test_what_was_delivered_is_there_after_a_restart(guest, folder):
    parcel = guest.said("my boat is called marzipan")
    await guest.keep(parcel)
    await guest.provider.close()
    later = await again(folder)
    assert await later.has_landed(parcel)
    await later.found_once("marzipan")
    assert not later.provider.needs_rebuild
    await later.provider.close()


async def test_a_commit_is_synced_before_it_is_acknowledged(guest):
    await guest.keep(guest.said("x"))
    db = guest.provider._writer
    assert (db.pragma("synchronous"), db.pragma("journal_mode"), db.pragma("secure_delete")) == (3, "wal", 1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
async def test_only_the_owner_can_read_it(guest, folder):
    await guest.keep(guest.said("x"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes[NAME] == modes[f"{NAME}-wal"] == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_an_engine_that_can_corrupt_is_refused(guest, monkeypatch):
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.50.0")
    (outcome,) = await guest.carry(guest.said("x"))
    assert isinstance(outcome, Unreachable)
    assert "3.50.0" in outcome.reason
    assert "3.50.0" in await guest.provider.healthy()


# --- not ours --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("create table theirs (x)", "another program"),
        (
            f"pragma application_id={index_file.APPLICATION_ID}; pragma user_version=99; create table t (x)",
            "newer Holdfast",
        ),
    ],
)
async def test_a_file_of_somebody_else_is_refused_and_keeps_its_bytes(guest, folder, damage, says):
    folder.mkdir()
    theirs = apsw.Connection(str(folder / NAME))
    theirs.execute(damage)
    theirs.close()
    before = (folder / NAME).read_bytes()
    (outcome,) = await guest.carry(guest.said("x"))
    assert isinstance(outcome, Unreachable)
    assert says in outcome.reason
    assert says in await guest.provider.healthy()
    assert await guest.provider.landed(guest.said("x")) is Landing.POSSIBLE
    with pytest.raises(ProviderFailed, match=says):
        await guest.recall("x")
    assert (folder / NAME).read_bytes() == before


# --- damaged or missing ----------------------------------------------------------------------------


async def test_a_file_that_is_no_database_is_set_aside(guest, folder):
    folder.mkdir()
    (folder / NAME).write_bytes(b"not a database at all, but quite long" * 100)
    with pytest.raises(ProviderFailed):
        await guest.recall("x")
    assert (folder / NAME).exists(), "a question moves nothing"
    await guest.keep(guest.said("marzipan"))
    assert guest.provider.needs_rebuild
    assert [path.name for path in folder.glob("*.damaged-*")] == [f"{NAME}.damaged-1700000000000"]
    await guest.found_once("marzipan")


async def test_an_index_damaged_in_the_middle_is_set_aside_and_filled_again(guest, folder):
    parcels = [guest.said(f"the boat number {n} is called marzipan{n}", turn=n) for n in range(1, 200)]
    await guest.keep(*parcels)
    await guest.provider.close()
    size = (folder / NAME).stat().st_size
    with (folder / NAME).open("r+b") as opened:
        opened.seek(8_192)
        opened.write(b"\xa5" * (size - 8_192))
    later = await again(folder)
    with pytest.raises(ProviderFailed):
        await later.recall("marzipan7")
    new = replace(later.said("my cat is called quince", turn=999), id=DeliveryId("dlv_new"))
    await later.keep(new)
    assert later.provider.needs_rebuild
    assert await later.provider.rebuild(stream([*parcels, new])) == 200
    assert not later.provider.needs_rebuild
    await later.found_once("marzipan7")
    await later.found_once("quince")
    await later.provider.close()


async def test_an_index_whose_whole_folder_was_lost_says_so_until_it_is_filled_again(guest, folder):
    parcel = guest.said("my boat is called marzipan")
    await guest.keep(parcel)
    await guest.provider.rebuild(stream([parcel]))
    await guest.provider.close()
    shutil.rmtree(folder)
    later = await again(folder)
    assert await later.provider.healthy() is None
    assert later.provider.needs_rebuild
    await later.provider.rebuild(stream([parcel]))
    await later.found_once("marzipan")
    assert not later.provider.needs_rebuild


async def test_an_index_that_was_deleted_says_so_until_it_is_filled_again(guest, folder):
    parcel = guest.said("my boat is called marzipan")
    await guest.keep(parcel)
    for path in folder.iterdir():
        path.unlink()
    await guest.keep(guest.said("my cat is called quince", turn=2))
    assert guest.provider.needs_rebuild, "it was noticed while the file was open"
    await guest.provider.close()
    later = await again(folder)
    assert await later.provider.healthy() is None
    assert later.provider.needs_rebuild, "and after a restart"
    await later.provider.rebuild(stream([parcel]))
    await later.found_once("marzipan")
    await later.provider.close()


@pytest.mark.parametrize("first", ["a question", "a delivery"])
@pytest.mark.parametrize("version", [1, 3, 4])
async def test_an_index_of_an_earlier_release_is_migrated_when_it_is_opened(guest, folder, first, version):
    parcels = [guest.said(f"my boat is called marzipan{n}", turn=n + 1) for n in range(20)]
    for parcel in parcels:
        await guest.keep(parcel)
    before = await guest.recall("what is my boat called?")
    assert await guest.provider.rebuild(stream(parcels)) == len(parcels)
    await guest.provider.close()
    turn_back(folder, version)
    later = await again(folder)
    if first == "a delivery":
        await later.keep(later.said("my cat is called quince", turn=30))
    assert [one.ref for one in await later.recall("what is my boat called?")][:3] == [one.ref for one in before][:3]
    assert await later.provider.healthy() is None
    assert not later.provider.needs_rebuild
    assert await later.has_landed(parcels[0])
    await later.provider.close()
    check_postings(folder)


async def test_notes_of_an_earlier_release_are_filled_in_again_with_whom_they_belong_to(guest, folder):
    """That release kept every note of the model as one for all; the journal knows whose each is."""
    noted = guest.noted("add", "ada likes marzipan")
    await guest.keep(guest.said("my cat is called quince"), noted)
    await guest.provider.close()
    turn_back(folder, 2)
    later = await again(folder)
    assert await later.recall("who likes marzipan?") == []
    assert await later.recall("quince") != []
    assert await later.provider.healthy() is None
    assert later.provider.needs_rebuild
    assert noted.note is not None
    await later.provider.rebuild(stream([replace(noted, note=replace(noted.note, holder="ben"))]))
    assert await later.recall("who likes marzipan?") == []
    await later.provider.close()


async def test_an_upgrade_that_is_broken_off_leaves_the_old_index(guest, folder, monkeypatch):
    await guest.keep(guest.said("marzipan"))
    await guest.provider.close()
    turn_back(folder, 1)
    monkeypatch.setattr(index_file, "_TO_4", index_file._TO_4.replace("drop table words_3", "drop table nothing"))
    broken = await again(folder)
    assert await broken.provider.healthy() is not None
    await broken.provider.close()
    monkeypatch.undo()
    later = await again(folder)
    await later.found_once("marzipan")
    await later.provider.close()


async def test_an_index_of_an_unknown_older_release_is_made_again(guest, folder, monkeypatch):
    await guest.keep(guest.said("marzipan"))
    await guest.provider.close()
    monkeypatch.setattr(index_file, "VERSION", index_file.VERSION + 1)
    later = await again(folder)
    assert await later.recall("marzipan") == []
    assert await later.provider.healthy() is None
    assert later.provider.needs_rebuild
    await later.provider.close()


async def test_a_rebuild_that_is_broken_off_leaves_the_index_as_it_was(guest, folder):
    parcel, lost = guest.said("marzipan"), guest.said("quince", turn=2)
    await guest.keep(parcel)

    async def torn():
        yield lost
        raise RuntimeError("the journal went away")

    with pytest.raises(RuntimeError):
        await guest.provider.rebuild(torn())
    await guest.found_once("marzipan")
    for path in folder.iterdir():
        path.unlink()
    await guest.keep(lost)
    with pytest.raises(RuntimeError):
        await guest.provider.rebuild(torn())
    await guest.provider.close()
    later = await again(folder)
    await later.provider.healthy()
    assert later.provider.needs_rebuild, "what was lost before is lost still"
    await later.found_once("quince")
    await later.provider.close()


async def test_a_rebuild_in_another_process_blocks_writes_too(guest, folder, monkeypatch):
    """Two providers over one folder stand for two processes."""
    monkeypatch.setattr(index_file, "BUSY_TIMEOUT_MS", 1)
    said, other = guest.said("marzipan"), await again(folder)
    await guest.keep(said)

    async def journal():
        held.extend(await other.carry(guest.undone(said, 1)))
        yield said

    held: list[Outcome] = []
    assert await guest.provider.rebuild(journal()) == 1
    assert {type(one) for one in held} == {Unreachable}
    await other.keep(guest.undone(said, 1))
    assert await guest.times("marzipan") == 0
    await other.provider.close()


async def test_a_rebuild_that_is_cancelled_lets_go_of_the_index(guest):
    reached = asyncio.Event()

    async def endless():
        reached.set()
        await asyncio.Event().wait()
        yield

    filling = asyncio.ensure_future(guest.provider.rebuild(endless()))
    await reached.wait()
    filling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await filling
    await guest.keep(guest.said("marzipan"))
    await guest.found_once("marzipan")


async def test_a_rebuild_brings_nothing_back_that_was_erased(guest):
    gone = guest.said("marzipan")
    await guest.keep(gone, guest.forgotten(gone, session="ses_ada"))
    await guest.provider.rebuild(stream([gone]))
    assert await guest.times("marzipan") == 0


async def test_a_rebuild_brings_nothing_back_that_is_undone_or_replaced_meanwhile(guest):
    """What is delivered while the index is filled would come before what it is about, so it is held back."""
    said, note = guest.said("my boat is called marzipan"), guest.noted("add", "likes quince")
    await guest.keep(said, note)
    undone, replaced = guest.undone(said, 1), guest.noted("replace", "likes medlar", old="likes quince")

    async def journal():
        held.extend(await guest.carry(undone, replaced))
        for parcel in (said, note):
            yield parcel

    held: list[Outcome] = []
    await guest.provider.rebuild(journal())
    assert {type(one) for one in held} == {Unreachable}
    await guest.keep(undone, replaced)
    assert [await guest.times(word) for word in ("marzipan", "quince", "medlar")] == [0, 0, 1]


async def stream(parcels):
    for parcel in parcels:
        yield parcel


# --- erasing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("waiting", [1, 1_000], ids=["with postings", "without postings"])
async def test_no_byte_of_what_was_erased_is_left_in_any_file(guest, folder, monkeypatch, waiting):
    monkeypatch.setattr(index_writer, "FRESH_MAX", waiting)
    others = [guest.said(f"about other things {n}", place=guest.at("ses_other"), turn=n) for n in range(1, 100)]
    secret = guest.said("Zyzzogeton hides in the Quixotry", place=guest.at("ses_gone"))
    await guest.keep(*others[:50], secret, *others[50:])
    assert await guest.times("Zyzzogeton") == 1, "an open reader is no obstacle"
    damaged = folder / f"{NAME}.damaged-1"
    damaged.write_bytes(b"Zyzzogeton")
    traces = (b"Zyzzogeton", b"zyzzogeton", b"uixotr")
    assert len(files_with(folder, *traces)) >= 2
    await guest.keep(guest.forgotten(secret, session="ses_gone"))
    assert files_with(folder, *traces) == []
    assert not damaged.exists()
    assert await guest.times("things") == 20
    check_postings(folder)


async def test_an_erased_person_leaves_no_name_either(guest, folder):
    ada = Principal("ada_lovelace")
    unit = guest.said("marzipan", place=guest.at("ses_1", ada))
    await guest.keep(unit, guest.said("quince", place=guest.at("ses_2")))
    await guest.keep(guest.forgotten(unit, principal=ada))
    assert files_with(folder, b"ada_lovelace", b"marzipan") == []


async def test_an_erased_text_leaves_no_posting_and_no_scope(guest, folder, monkeypatch):
    monkeypatch.setattr(index_writer, "FRESH_MAX", 1)
    others = [guest.said("quince", place=guest.at(f"ses_{n}", Principal(f"p{n}"), f"check:dm:{n}")) for n in range(50)]
    place = guest.at("ses_gone", Principal("cyrill"), "check:dm:cyrill")
    gone = guest.said("marzipan", place=place)
    await guest.keep(*others[:25], gone, *others[25:])
    word = postings.stem_hash("marzipan").to_bytes(4, "big")
    traces = (word, b"ses_gone", b"cyrill")
    assert all(files_with(folder, trace) for trace in traces)
    check_postings(folder)
    await guest.keep(guest.forgotten(gone, session="ses_gone"))
    assert files_with(folder, *traces) == []
    check_postings(folder)


async def test_lines_that_are_undone_or_erased_leave_the_postings_of_all_others(guest, folder, monkeypatch):
    monkeypatch.setattr(index_writer, "FRESH_MAX", 50)
    club = [guest.at("ses_club", Principal(name), "check:group:club") for name in ("ada", "ben")]
    said = [
        guest.said(f"word{n % 7} word{n % 11} word{n}", place=place, turn=n)
        for n in range(1, 400)
        for place in (*club, guest.at(f"ses_{n % 5}"))
    ]
    await guest.keep(*said)
    check_postings(folder)
    await guest.keep(*(guest.undone(unit, unit.turns[0].n) for unit in said[::3]))
    check_postings(folder)
    await guest.keep(guest.forgotten(principal=Principal("ben")))
    await guest.keep(guest.said("word1", turn=500))
    check_postings(folder)
    db = apsw.Connection(str(folder / NAME))
    assert db.execute("select count(*) from scope where name = 'ben'").fetchall() == [(0,)]
    db.close()


def check_postings(folder):
    """Each line is in the postings of its stems and scopes or waits for them, and no other line is in any."""
    db = apsw.Connection(str(folder / NAME))
    assert db.pragma("integrity_check") == "ok"
    numbers = {IndexScope(*row[1:]): row[0] for row in db.execute("select id, agent, kind, name from scope")}
    expected, lines = set(), dict.fromkeys(numbers, 0)
    columns = "id, kind, agent, session, address, in_group, principal, stems"
    for row in db.execute(f"select {columns} from line where id not in (select id from fresh)"):
        names = ("kind", "agent", "session", "address", "in_group", "principal")
        scopes = line_scopes(**dict(zip(names, row[1:7], strict=True)))
        for name in (*scopes.own, *scopes.wholes):
            lines[name] += 1
        expected |= {
            (postings.token(numbers[name], postings.stem_hash(stem)), row[0])
            for name in scopes.own
            for stem in row[7].split()
        }
        for whole in scopes.wholes:
            assert scopes.part is not None
            pair = (numbers[whole], numbers[scopes.part])
            assert db.execute("select 1 from scope_part where whole = ? and part = ?", pair).fetchall()
    found = [
        (token, line) for token, ids in db.execute("select token, ids from posting") for line in postings.lines_of(ids)
    ]
    assert len(found) == len(set(found))
    assert set(found) == expected
    told: list[Any] = db.execute("select likeness, stems, asks, speaker from line").fetchall()
    assert [row[0] for row in told] == [likeness(*row[1:]) for row in told]
    assert db.execute("pragma index_info(line_likeness)").fetchall()
    kept = {IndexScope(*row[:3]): row[3] for row in db.execute("select agent, kind, name, lines from scope")}
    assert kept == lines
    db.close()


async def test_an_erased_person_is_gone_from_the_turns_of_others(guest):
    ben = guest.at("ses_group", Principal("ben"), "check:group:club")
    unit = guest.said("medlar", "quince", place=ben)
    line = replace(unit.turns[1].lines[0], speaker="ada")
    unit = replace(unit, turns=(unit.turns[0], replace(unit.turns[1], lines=(line,))))
    await guest.keep(unit, guest.forgotten(principal=Principal("ada")))
    assert await guest.times("quince", ben, group=True) == 0
    assert await guest.times("medlar", ben, group=True) == 1


async def test_what_was_erased_does_not_come_back_with_a_late_copy(guest):
    gone, sparing = guest.said("marzipan"), guest.said("quince", place=guest.at("ses_2"))
    await guest.keep(gone, sparing, guest.forgotten(gone, session="ses_ada"))
    (outcome,) = await guest.carry(gone)
    assert isinstance(outcome, Refused)
    assert "erased" in outcome.reason
    assert await guest.times("marzipan") == 0
    assert await guest.has_landed(sparing)


async def test_an_erasure_waits_for_readers_of_the_log(guest, folder):
    gone = guest.said("marzipan")
    await guest.keep(gone)
    other = apsw.Connection(str(folder / NAME))
    other.execute("begin; select count(*) from line")
    guest.provider._writer.execute("pragma busy_timeout=1")
    erasure = guest.forgotten(gone, session="ses_ada")
    (outcome,) = await guest.carry(erasure)
    assert isinstance(outcome, Unreachable)
    other.close(True)
    await guest.keep(erasure)
    assert files_with(folder, b"marzipan") == []


# --- faults ----------------------------------------------------------------------------------------


async def test_a_commit_that_fails_is_uncertain_and_then_known(guest, monkeypatch):
    await guest.keep(guest.said("first"))
    real = guest.provider._writer

    class Failing:
        def execute(self, sql, *values):
            if sql == "commit":
                raise apsw.IOError("the disk said no")
            return real.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(real, name)

    guest.provider._writer = Failing()
    parcel = guest.said("marzipan", turn=2)
    (outcome,) = await guest.carry(parcel)
    assert isinstance(outcome, Uncertain)
    assert await guest.provider.landed(parcel) is Landing.ABSENT
    await guest.keep(parcel)
    await guest.found_once("marzipan")


async def test_a_full_disk_is_no_reason_to_park(guest):
    await guest.keep(guest.said("first"))
    db = guest.provider._writer
    db.execute(f"pragma max_page_count={db.pragma('page_count')}")
    (outcome,) = await guest.carry(guest.said("word " * 30_000, turn=2))
    assert isinstance(outcome, Unreachable)
    await guest.keep(guest.said("marzipan", turn=3))


async def test_a_folder_that_cannot_be_made_is_a_sentence(guest, folder):
    folder.write_text("in the way", encoding="utf-8")
    (outcome,) = await guest.carry(guest.said("x"))
    assert isinstance(outcome, Unreachable)
    assert "File exists" in outcome.reason or os.name == "nt"
    assert "cannot be opened" in await guest.provider.healthy()


async def test_behind_a_refused_parcel_nothing_of_its_lane_is_taken(guest):
    bad = guest.said("x", place=guest.at("ses_1", Principal("half \ud800")))
    behind, beside = guest.said("y", place=guest.at("ses_1")), guest.said("z", place=guest.at("ses_2"))
    outcomes = await guest.carry(bad, behind, beside)
    assert [type(one) for one in outcomes] == [Refused, Unreachable, Delivered]
    assert not await guest.has_landed(behind)


async def test_a_call_is_one_transaction(guest, monkeypatch):
    await guest.keep(guest.said("first"))
    from holdfast.providers.local import provider as module
    from holdfast.providers.local.index_writer import apply as real

    def failing(db, parcel):
        if parcel.id == DeliveryId("the last"):
            raise apsw.IOError("the disk said no")
        return real(db, parcel)

    monkeypatch.setattr(module, "apply", failing)
    one = guest.said("quince", turn=2)
    last = replace(guest.said("nougat", turn=3), id=DeliveryId("the last"))
    assert [type(outcome) for outcome in await guest.carry(one, last)] == [Unreachable, Unreachable]
    assert not await guest.has_landed(one)


# --- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"limits": 3}, "local.limits is not a setting; did you mean limit?"),
        ({"limit": 0}, "local.limit is 0"),
        ({"every_turns": "often"}, "local.every_turns is 'often'"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, says):
    with pytest.raises(ConfigInvalid, match=says):
        make_local(make_setup(tmp_path, **settings))


def test_the_factory_touches_no_disk(tmp_path):
    configured = make_local(make_setup(tmp_path, every_turns=3))
    assert configured.every_turns == 3
    assert list(tmp_path.iterdir()) == []
