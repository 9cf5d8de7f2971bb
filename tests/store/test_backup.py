"""A backup made beside writers is one state of the data folder; a restore brings all of it back, or changes nothing."""

import asyncio
import io
import json
import shutil
import tarfile
from pathlib import Path

import apsw
import pytest

import holdfast
from holdfast.kernel import errors
from holdfast.kernel.machine import SystemClock
from holdfast.repair.restored_sql import settle_restored
from holdfast.runtime import backups
from holdfast.store.backup import copying
from holdfast.store.backup.contents import STAGING
from holdfast.store.backup.manifest import NAME, decode, encode
from holdfast.store.sqlite.owner import OwnerLock
from holdfast.turns.policy import AgentPolicy
from tests.support.live import until

STORE = "holdfast.db"
INDEX = "agents/main/local/recall.db"


def silent(*_):
    pass


async def talk(folder: Path, *texts: str):
    async with holdfast.open(folder, policy=AgentPolicy(memory={"local": {}})) as runtime:
        answers = [await runtime.ask("ada", text, id=text[:20]) for text in texts]
        await until(lambda: query(folder / STORE, "select distinct state from delivery") == [("delivered",)])
    return answers


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled") / "data"
    asyncio.run(talk(folder, "My cat is called Byron.", "x" * 100_000))
    (folder / "holdfast.toml").write_text("")
    (folder / "agents" / "main" / "SOUL.md").write_text("Be kind.")
    return folder


@pytest.fixture
def folder(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "data")


def restored(source: Path, folder: Path, **more):
    return backups.restore(source, folder, silent, moved=more.get("moved", False))


def query(file: Path, sql: str):
    db = apsw.Connection(str(file))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


@pytest.mark.parametrize("name", ["backup", "backup.tar", "backup.tar.gz", "backup.tgz"])
async def test_what_was_backed_up_is_back_after_a_restore(folder, tmp_path, name):
    made = backups.back_up(folder, tmp_path / name, silent)
    done = restored(tmp_path / name, tmp_path / "new")
    assert done.manifest == made
    paths = {one.path for one in made.files}
    assert paths == {STORE, INDEX, "holdfast.toml", "agents/main/SOUL.md"}
    assert {
        path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()
    } == {
        *paths,
        "holdfast.lock",
    }
    assert (tmp_path / "new" / "agents/main/SOUL.md").read_text() == "Be kind."
    assert "Byron" in (await talk(tmp_path / "new", "What is my cat called?"))[0]
    assert all(one.stat().st_mode & 0o077 == 0 for one in [tmp_path / name, *(tmp_path / "new").rglob("*")])


def test_the_copy_is_one_state_although_every_step_of_it_meets_a_write(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "PAGES_PER_STEP", 5)
    writer = apsw.Connection(str(folder / STORE))
    writer.execute("create table beside (n integer)")
    before = writer.execute("select count(*) from inbound").fetchall()
    steps = []

    def write(what, done, total):
        if what == f"copying {STORE}":
            steps.append(done / total)
            assert len(steps) < 1_000, "the copy begins again with every write"
            writer.execute("insert into beside values (1)")
            writer.execute("update inbound set reason = hex(randomblob(3000))")

    made = backups.back_up(folder, tmp_path / "backup", write)
    assert len(steps) > 20
    assert steps[-1] == 1
    assert made.tables["beside"] == 0
    assert writer.execute("select count(*) from beside").fetchall() == [(len(steps),)]
    assert query(tmp_path / "backup" / STORE, "select count(*) from inbound") == before
    assert query(tmp_path / "backup" / STORE, "pragma integrity_check") == [("ok",)]
    writer.close()


async def test_a_backup_beside_a_running_process_has_all_that_was_acknowledged_and_the_process_goes_on(tmp_path):
    folder = tmp_path / "data"
    async with holdfast.open(folder) as runtime:
        for n in range(5):
            await runtime.ask("ada", f"before {n}")
        made = await asyncio.to_thread(backups.back_up, folder, tmp_path / "backup", silent)
        await runtime.ask("ada", "after")
        assert made.tables["inbound"] == 5
        with pytest.raises(errors.FolderNotEmpty):
            restored(tmp_path / "backup", folder)
    restored(tmp_path / "backup", tmp_path / "new")
    assert query(tmp_path / "new" / STORE, "select count(*) from inbound where state = 'answered'") == [(5,)]


# --- what is refused ------------------------------------------------------------------------------------


def spoil_file(backup: Path, name: str, change):
    path = backup / name
    data = path.read_bytes()
    path.write_bytes(change(data))


def remake(backup: Path, **changes):
    found = decode((backup / NAME).read_bytes(), "it")
    values = {name: getattr(found, name) for name in found.__struct_fields__} | changes
    (backup / NAME).write_bytes(encode(type(found)(**values).sealed()))


def renamed_store(backup: Path):
    """A valid manifest whose store lies outside of the folder."""
    found = decode((backup / NAME).read_bytes(), "it")
    moved = [type(one)(f"../{one.path}", one.size, one.sha256) for one in found.files]
    remake(backup, files=tuple(moved))


SPOILT = {
    "a byte of the store was changed": lambda b: spoil_file(b, STORE, lambda d: d[:-9] + bytes([d[-9] ^ 1]) + d[-8:]),
    "the store was cut": lambda b: spoil_file(b, STORE, lambda d: d[:-4096]),
    "a file was added to": lambda b: spoil_file(b, "holdfast.toml", lambda d: d + b"#"),
    "a file is missing": lambda b: (b / "agents/main/SOUL.md").unlink(),
    "the manifest was changed": lambda b: spoil_file(b, NAME, lambda d: d.replace(b'"made_at": 1', b'"made_at": 2')),
    "the manifest is no JSON": lambda b: (b / NAME).write_text("{"),
    "the manifest is missing": lambda b: (b / NAME).unlink(),
    "a path leads out of the folder": renamed_store,
    "the rows are others than the manifest says": lambda b: remake(b, tables={"inbound": 1}),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_backup_that_is_not_whole_is_refused_and_nothing_is_placed(folder, tmp_path, spoil):
    backups.back_up(folder, tmp_path / "backup", silent)
    spoil(tmp_path / "backup")
    for attempt in (
        lambda: restored(tmp_path / "backup", tmp_path / "new"),
        lambda: backups.verify(tmp_path / "backup", silent),
    ):
        with pytest.raises(errors.BackupInvalid):
            attempt()
    assert not (tmp_path / "new" / STORE).exists()
    assert not (tmp_path / STORE).exists()
    assert not (tmp_path / "new" / STAGING).exists()


def test_a_store_that_was_damaged_before_its_digest_was_made_is_refused(folder, tmp_path):
    backups.back_up(folder, tmp_path / "backup", silent)
    spoil_file(tmp_path / "backup", STORE, lambda d: d[: 40 * 4096] + b"\xde\xad" * 4096 + d[42 * 4096 :])
    found = decode((tmp_path / "backup" / NAME).read_bytes(), "it")
    again = copying._hashed(tmp_path / "backup", STORE)
    remake(tmp_path / "backup", files=tuple(again if one.path == STORE else one for one in found.files))
    with pytest.raises(errors.BackupInvalid, match="damaged"):
        restored(tmp_path / "backup", tmp_path / "new")


def cut(archive: Path):
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])


def with_link(archive: Path):
    link = tarfile.TarInfo("agents/main/SOUL.md")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    rewritten(archive, lambda one: link if one.name == link.name else one)


def with_stranger(archive: Path):
    rewritten(archive, lambda one: one, extra="../stranger")


def rewritten(archive: Path, change, extra: str = ""):
    made = io.BytesIO()
    with tarfile.open(archive) as old, tarfile.open(fileobj=made, mode="w") as new:
        for one in old.getmembers():
            changed = change(one)
            new.addfile(changed, old.extractfile(one) if changed.isreg() else None)
        if extra:
            new.addfile(tarfile.TarInfo(extra), io.BytesIO())
    archive.write_bytes(made.getvalue())


@pytest.mark.parametrize("spoil", [cut, with_link, with_stranger, lambda archive: archive.write_bytes(b"")])
def test_an_archive_that_is_not_whole_is_refused(folder, tmp_path, spoil):
    backups.back_up(folder, tmp_path / "backup.tar", silent)
    spoil(tmp_path / "backup.tar")
    with pytest.raises(errors.BackupInvalid):
        restored(tmp_path / "backup.tar", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "new") == ["backup.tar", "data"]
    assert not (tmp_path / "new" / STORE).exists()


def test_a_backup_of_a_newer_release_is_refused(folder, tmp_path):
    query(folder / STORE, "pragma user_version = 900")
    assert backups.back_up(folder, tmp_path / "backup", silent).schema == 900
    with pytest.raises(errors.StoreNewer):
        restored(tmp_path / "backup", tmp_path / "new")
    remake(tmp_path / "backup", format=2)
    with pytest.raises(errors.BackupNewer):
        restored(tmp_path / "backup", tmp_path / "new")


def test_a_folder_with_anything_in_it_is_not_restored_into(folder, tmp_path):
    backups.back_up(folder, tmp_path / "backup", silent)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "holidays.txt").write_text("mine")
    with pytest.raises(errors.FolderNotEmpty, match=r"holidays\.txt"):
        restored(tmp_path / "backup", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["holidays.txt"]


def test_a_folder_that_a_process_holds_is_not_restored_into(folder, tmp_path):
    backups.back_up(folder, tmp_path / "backup", silent)
    (tmp_path / "new").mkdir()
    lock = OwnerLock(tmp_path / "new")
    lock.acquire()
    with pytest.raises(errors.StoreOwned):
        restored(tmp_path / "backup", tmp_path / "new")
    lock.release()
    restored(tmp_path / "backup", tmp_path / "new")


def test_a_target_that_exists_or_lies_in_the_data_folder_is_refused(folder, tmp_path):
    (tmp_path / "there").write_text("mine")
    for target in (tmp_path / "there", folder / "backup"):
        with pytest.raises(errors.InvalidInput):
            backups.back_up(folder, target, silent)
    assert (tmp_path / "there").read_text() == "mine"
    with pytest.raises(errors.StorePathInvalid):
        backups.back_up(tmp_path / "nowhere", tmp_path / "backup", silent)


@pytest.mark.parametrize("name", ["backup", "backup.tar"])
def test_two_processes_that_make_the_same_backup_do_not_mix_theirs(folder, tmp_path, name):
    target = tmp_path / name

    def other(what, _done, _total):
        if what == f"checking {STORE}" and not target.exists():
            kept = target.with_name("kept")
            kept.mkdir()
            (kept / "mine").write_text("mine")
            kept.rename(target) if name == "backup" else (kept / "mine").rename(target)

    with pytest.raises(errors.InvalidInput, match="another process"):
        backups.back_up(folder, target, other)
    assert ((target / "mine") if name == "backup" else target).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_a_damaged_store_gets_no_backup_and_a_damaged_index_is_left_out(folder, tmp_path):
    (folder / INDEX).write_bytes(b"\xde\xad" * 8192)
    made = backups.back_up(folder, tmp_path / "first", silent)
    assert (INDEX in {one.path for one in made.files}, made.left_out) == (False, (INDEX,))
    spoil_file(folder, STORE, lambda d: d[: 40 * 4096] + b"\xde\xad" * 4096 + d[42 * 4096 :])
    with pytest.raises(errors.StoreCorrupt):
        backups.back_up(folder, tmp_path / "second", silent)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "first"]


# --- interrupted ----------------------------------------------------------------------------------------


class Died(BaseException):
    pass


@pytest.mark.parametrize("wanted", range(1, 5))
def test_a_restore_that_dies_while_it_places_files_leaves_no_store_and_is_repeated(
    folder, tmp_path, monkeypatch, wanted
):
    backups.back_up(folder, tmp_path / "backup", silent)
    calls = 0
    with monkeypatch.context() as patch:
        for name in ("replace", "hardlink_to"):
            real = getattr(Path, name)

            def die(self, target, real=real):
                nonlocal calls
                calls += 1
                if calls == wanted:
                    raise Died
                return real(self, target)

            patch.setattr(Path, name, die)
        with pytest.raises(Died):
            restored(tmp_path / "backup", tmp_path / "new")
    assert not (tmp_path / "new" / STORE).exists()
    restored(tmp_path / "backup", tmp_path / "new")
    assert query(tmp_path / "new" / STORE, "select count(*) from inbound") == [(2,)]
    assert not (tmp_path / "new" / STAGING).exists()


def test_a_store_that_somebody_makes_meanwhile_is_not_replaced(folder, tmp_path):
    backups.back_up(folder, tmp_path / "backup", silent)
    new = tmp_path / "new"

    def make(what, _done, _total):
        if what == "checking the store":
            (new / STORE).write_bytes(b"mine")

    with pytest.raises(errors.FolderNotEmpty):
        backups.restore(tmp_path / "backup", new, make, moved=False)
    assert (new / STORE).read_bytes() == b"mine"


# --- what was under way ---------------------------------------------------------------------------------

OPEN = """
insert into reply (id, mailbox, message, agent, channel, address, state, due_at, at, body) values
  ('rep_1', 'mbx', 'msg', 'main', 'telegram', 'agent:main:telegram:dm:1', 'pending', 1, 1, x'6869'),
  ('rep_2', 'mbx', 'msg', 'main', 'telegram', 'agent:main:telegram:dm:2', 'attempting', 1, 1, x'6869'),
  ('rep_3', 'mbx', 'msg', 'main', 'agent', 'agent:main:agent:dm:fern', 'pending', 1, 1, x'6869');
update delivery set state = 'scheduled', settled_at = null, receipt = null where n = 1;
update delivery set state = 'sending', settled_at = null, receipt = null where n = 2;
update lane set due_at = 1;
"""
STATES = "select id, state from reply where id like 'rep_%' and length(id) = 5 order by id"


def test_what_was_open_in_the_backup_is_in_doubt_after_a_restore(folder, tmp_path):
    query(folder / STORE, OPEN)
    backups.back_up(folder, tmp_path / "backup", silent)
    done = restored(tmp_path / "backup", tmp_path / "new")
    new = tmp_path / "new" / STORE
    assert query(new, STATES) == [("rep_1", "uncertain"), ("rep_2", "uncertain"), ("rep_3", "pending")]
    assert query(new, "select distinct state from delivery") == [("uncertain",)]
    assert (done.settled.replies, done.settled.deliveries) == (2, 2)
    ((subject, detail),) = query(new, "select subject, detail from action where verb = 'data.restored'")
    assert (subject, json.loads(detail)["replies"]) == ("backup", 2)
    assert query(folder / STORE, STATES)[0] == ("rep_1", "pending")


def test_a_store_that_only_moved_goes_on_as_if_nothing_had_happened(folder, tmp_path):
    query(folder / STORE, OPEN)
    backups.back_up(folder, tmp_path / "backup", silent)
    restored(tmp_path / "backup", tmp_path / "new", moved=True)
    assert query(tmp_path / "new" / STORE, STATES)[0] == ("rep_1", "pending")
    assert query(tmp_path / "new" / STORE, "select state from delivery order by n") == [("scheduled",), ("sending",)]


async def test_a_provider_that_has_a_delivery_in_doubt_is_not_sent_it_again(folder, tmp_path):
    """The index of the backup has both turns, one of which the store does not know to be delivered."""
    query(folder / STORE, OPEN)
    backups.back_up(folder, tmp_path / "backup", silent)
    restored(tmp_path / "backup", tmp_path / "new")
    async with holdfast.open(tmp_path / "new", policy=AgentPolicy(memory={"local": {}})) as runtime:
        await runtime.ask("ada", "What is my cat called?")
        await until(lambda: query(tmp_path / "new" / STORE, "select distinct state from delivery") == [("delivered",)])
    lines = query(tmp_path / "new" / INDEX, "select count(*) from unit")
    assert lines == query(tmp_path / "new" / STORE, "select count(*) from delivery")


async def test_settling_a_restored_store_changes_only_what_was_open(db):
    done = await db.write(settle_restored("backup", made_at=1, moved=False))
    assert (done.replies, done.deliveries, done.messages) == (0, 0, 0)
    assert SystemClock().now() > 0
