"""`holdfast doctor` finds each planted fault with its evidence, is silent about a healthy folder, and repairs a copy or
the folder itself; it only reads until it is asked to repair."""

import asyncio
import json
import shutil
from pathlib import Path

import apsw
import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli.commands import app
from holdfast.kernel import errors
from holdfast.repair.finding import FAULTS
from holdfast.runtime import doctor
from holdfast.store.sqlite.migrate import load_migrations
from holdfast.turns.policy import AgentPolicy
from tests.repair.plants import LASTING, PLANTS
from tests.support.encryption import filled as filled_plain
from tests.support.encryption import holdfast as encrypted_holdfast
from tests.support.live import until
from tests.support.processes import Up

STORE, INDEX = "holdfast.db", "agents/main/local/recall.db"


def silent(*_):
    pass


def run(*words):
    return CliRunner().invoke(
        app, [*map(str, words)], env={"HOLDFAST_DATA": None, "NO_COLOR": "1"}, prog_name="holdfast"
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled") / "data"

    async def talk():
        async with holdfast.open(folder, policy=AgentPolicy(memory={"local": {}})) as runtime:
            await runtime.ask("hello", "My cat is called Byron.", sender="ada")
            await until(lambda: change(folder, "select state from delivery") == [("delivered",)])

    asyncio.run(talk())
    return folder


@pytest.fixture
def folder(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "data")


def change(folder, sql, file=STORE):
    db = apsw.Connection(str(folder / file))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def damage_index(folder):
    """An index that lacks a row: it was out of the schema while the row came."""
    ((kind, name, table, page, sql),) = change(folder, "select * from sqlite_schema where name = 'inbound_event'")
    change(folder, "pragma writable_schema = on; delete from sqlite_schema where name = 'inbound_event'")
    change(folder, "update inbound set event_id = 'other'")
    db = apsw.Connection(str(folder / STORE))
    db.execute("pragma writable_schema = on")
    db.execute("insert into sqlite_schema values (?, ?, ?, ?, ?)", (kind, name, table, page, sql))
    db.close()


def damage_pages(folder):
    """Pages of the journal hold something else."""
    pages = change(folder, "select pageno from dbstat where name = 'entry' and pagetype = 'leaf'")
    with (folder / STORE).open("r+b") as opened:
        for (page,) in pages:
            opened.seek((page - 1) * 4096)
            opened.write(b"\xde\xad" * 2048)


def damage_store(folder):
    (folder / STORE).write_bytes(b"\xde\xad" * 65_536)


def damage_memory_index(folder):
    with (folder / INDEX).open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xde\xad" * 8192)


def leave_wal(folder):
    """The log of a process that was killed: kept while the last connection closes."""
    keeping = apsw.Connection(str(folder / STORE))
    keeping.execute(
        "pragma journal_mode = wal; update proof set at = 1; insert into withdrawal values ('x', 1)"
    ).fetchall()
    shutil.copyfile(folder / f"{STORE}-wal", folder / "wal")
    shutil.copyfile(folder / STORE, folder / "db")
    keeping.close()
    (folder / "wal").rename(folder / f"{STORE}-wal")
    (folder / "db").rename(folder / STORE)


def plant_rows(code):
    def planted(folder):
        for sql in PLANTS[code]:
            change(folder, sql.replace("bytea", "blob"))

    return planted


FILES = {
    "index_damaged": damage_index,
    "pages_damaged": damage_pages,
    "store_unreadable": damage_store,
    "memory_index_damaged": damage_memory_index,
    "wal_left": leave_wal,
}
ALL = {**FILES, **{code: plant_rows(code) for code in PLANTS}}
BY_HAND = LASTING | {"pages_damaged", "store_unreadable"}


def codes(found):
    return [one.fault.code for one in found.findings]


def bytes_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", ".lock"))
    }


def test_every_kind_of_fault_is_planted():
    assert set(ALL) == set(FAULTS)
    assert {code for code, fault in FAULTS.items() if not fault.is_repairable} == BY_HAND


def test_the_manual_explains_every_code():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "repair-the-store.md").read_text(encoding="utf-8")
    assert [code for code in FAULTS if f"| `{code}` |" not in page] == []


def test_nothing_is_found_in_a_healthy_folder(folder):
    before = bytes_of(folder)
    found = doctor.examine(folder, silent)
    assert (codes(found), found.schema, found.served) == ([], len(load_migrations()), False)
    done = doctor.repair(folder, silent, keep=folder.with_name("kept"))
    assert (done.repaired, done.copy, folder.with_name("kept").exists()) == ({}, None, False)
    assert bytes_of(folder) == before


@pytest.mark.parametrize("code", ALL)
def test_a_planted_fault_is_found_without_a_change(folder, code):
    ALL[code](folder)
    before = bytes_of(folder)
    found = doctor.examine(folder, silent)
    assert codes(found) == [code]
    (finding,) = found.findings
    assert finding.evidence[0].subject
    assert bytes_of(folder) == before


@pytest.mark.parametrize("code", ALL)
def test_a_planted_fault_is_repaired_on_a_copy_and_the_folder_stays_as_it_was(folder, tmp_path, code):
    ALL[code](folder)
    before = bytes_of(folder)
    done = doctor.repair_copy(folder, tmp_path / "copy", silent)
    assert bytes_of(folder) == before
    left = {code} if code in BY_HAND else set()
    assert set(codes(done.after)) == left
    assert codes(doctor.examine(tmp_path / "copy", silent)) == sorted(left)
    again = doctor.repair(tmp_path / "copy", silent, keep=None)
    assert again.repaired == {}, "a second repair does nothing"


@pytest.mark.parametrize("code", sorted(set(ALL) - BY_HAND))
def test_a_planted_fault_is_repaired_in_place_and_what_was_there_is_kept(folder, tmp_path, code):
    ALL[code](folder)
    done = doctor.repair(folder, silent, keep=tmp_path / "kept")
    assert list(done.repaired) == [code]
    assert (codes(done.after), codes(doctor.examine(folder, silent))) == ([], [])
    assert (tmp_path / "kept" / STORE).exists()
    rows = change(folder, "select verb, detail from action where verb = 'store.repaired'")
    assert [json.loads(detail) for _, detail in rows] == [{code: done.repaired[code]}]


async def test_a_repaired_folder_goes_on(folder, tmp_path):
    for plant in (damage_index, damage_memory_index, plant_rows("claim_orphaned"), plant_rows("lane_asleep")):
        plant(folder)
    doctor.repair(folder, silent, keep=tmp_path / "kept")
    async with holdfast.open(folder, policy=AgentPolicy(memory={"local": {}})) as runtime:
        assert "Byron" in await runtime.ask("hello", "What is my cat called?", sender="ada")


def test_rows_of_a_store_with_damaged_pages_are_not_changed(folder, tmp_path):
    plant_rows("mailbox_miscounted")(folder)
    damage_pages(folder)
    done = doctor.repair(folder, silent, keep=tmp_path / "kept")
    assert (done.repaired, done.notes) == ({}, [doctor.NO_ROWS])
    assert change(folder, "select depth from mailbox") == [(3,)]


def test_a_store_of_an_older_schema_is_examined_and_not_migrated(folder):
    change(folder, "pragma user_version = 20")
    found = doctor.examine(folder, silent)
    assert (codes(found), found.schema) == ([], 20)
    assert "migrates" in found.notes[0]
    assert change(folder, "pragma user_version") == [(20,)]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda folder: change(folder, "pragma user_version = 900"), errors.StoreNewer),
        (lambda folder: change(folder, "pragma application_id = 7"), errors.StorePathInvalid),
        (lambda folder: (folder / STORE).unlink(), errors.StorePathInvalid),
    ],
)
def test_what_cannot_be_examined_is_refused_clearly(folder, tmp_path, spoil, error):
    spoil(folder)
    before = bytes_of(folder)
    for attempt in (
        lambda: doctor.examine(folder, silent),
        lambda: doctor.repair(folder, silent, keep=tmp_path / "kept"),
        lambda: doctor.repair_copy(folder, tmp_path / "copy", silent),
    ):
        with pytest.raises(error):
            attempt()
    assert bytes_of(folder) == before
    assert not (tmp_path / "copy").exists()


def test_a_store_that_another_process_has_locked_is_named(folder, monkeypatch):
    monkeypatch.setattr(doctor, "BUSY_TIMEOUT_MS", 1)
    holder = apsw.Connection(str(folder / STORE))
    holder.execute("pragma locking_mode = exclusive; begin exclusive; commit").fetchall()
    with pytest.raises(errors.StoreUnavailable, match="held the database"):
        doctor.examine(folder, silent)
    holder.close()


async def test_a_served_folder_is_examined_and_repaired_as_a_copy_only(tmp_path):
    data = tmp_path / "data"
    up = await Up.start(data)
    async with up.client() as client:
        said = await client.post("/v1/messages", json={"chat": "ada", "id": "1", "text": "hello"})
        assert said.status_code == 202
        looked = await asyncio.to_thread(run, "doctor", "--data", data, "--json")
        assert (looked.exit_code, json.loads(looked.stdout)["served"]) == (0, True), looked.stdout
        change(data, "update mailbox set depth = depth + 5")
        refused = await asyncio.to_thread(run, "doctor", "--repair", "--yes", "--data", data, "--json")
        assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (1, "store_owned")
        copied = await asyncio.to_thread(run, "doctor", "--copy", tmp_path / "copy", "--data", data, "--json")
        view = json.loads(copied.stdout)
        assert "mailbox_miscounted" in view["repaired"]
        assert "mailbox_miscounted" not in [one["code"] for one in view["after"]["findings"]]
    await up.kill()
    killed = await asyncio.to_thread(run, "doctor", "--data", data, "--json")
    assert killed.exit_code == 1
    assert "wal_left" in [one["code"] for one in json.loads(killed.stdout)["findings"]]


def test_the_command_prints_evidence_meaning_and_repair_and_asks_before_it_changes(folder, tmp_path):
    assert run("doctor", "--data", folder).exit_code == 0
    plant_rows("lane_blocked")(folder)
    looked = run("doctor", "--data", folder)
    assert looked.exit_code == 1
    for words in ("error: A delivery blocks its lane (lane_blocked, 1)", "mem:planted:1", "means:", "repair:"):
        assert words in looked.stdout
    asked = run("doctor", "--repair", "--data", folder, "--json")
    assert (asked.exit_code, json.loads(asked.stdout)["error"]["code"]) == (2, "confirmation_required")
    done = run("doctor", "--repair", "--yes", "--keep", tmp_path / "kept", "--data", folder)
    assert (done.exit_code, "nothing is wrong" in done.stdout) == (0, True), done.output
    assert "Repaired: 1 lane_blocked." in done.stdout
    there = run("doctor", "--copy", tmp_path / "kept", "--data", folder, "--json")
    assert (there.exit_code, json.loads(there.stdout)["error"]["code"]) == (1, "invalid_input")


def test_an_encrypted_folder_is_examined_and_repaired_with_its_key(tmp_path):
    data = filled_plain(tmp_path / "data")
    change(data, PLANTS["mailbox_miscounted"][0])
    assert encrypted_holdfast(data, "encrypt", "--new-key", str(tmp_path / "key")).returncode == 0
    found = encrypted_holdfast(data, "doctor", "--json")
    assert [one["code"] for one in json.loads(found.stdout)["findings"]] == ["mailbox_miscounted"]
    done = encrypted_holdfast(data, "doctor", "--copy", str(tmp_path / "copy"), "--json")
    assert json.loads(done.stdout)["after"]["healthy"], done.stderr
    with pytest.raises(apsw.NotADBError):
        change(tmp_path / "copy", "select count(*) from mailbox")
