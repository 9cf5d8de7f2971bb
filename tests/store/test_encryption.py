"""The promise: of an encrypted data folder nothing can be read without the key, and with it nothing is missing."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from holdfast.cli.running import local_user
from holdfast.kernel.errors import EncryptionUnavailable
from holdfast.runtime.app import open_runtime
from holdfast.sessions.history_sql import list_sessions
from tests.support.encryption import CANARY, LIBRARY, code_of, filled, holders, holdfast, python, several

QUESTION = ("send", "--chat", "ada", "What is my cat called?", "--wait")

DIES = """
import asyncio, os, signal, sys
from pathlib import Path
import holdfast

async def talk():
    async with holdfast.open(sys.argv[1]) as runtime:
        for n in range(20):
            await runtime.ask("ada", f"This is number {n}.", id=str(n))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(talk())
"""

ENDS = """
import os, sys
from pathlib import Path
from holdfast.runtime.app import change_encryption
from holdfast.store.encryption.marker import KeySource

calls, wanted, before = 0, int(sys.argv[3]), sys.argv[4] == "before"
real = Path.replace

def replace(self, target):
    global calls
    calls += 1
    if before and calls == wanted:
        os._exit(9)
    done = real(self, target)
    if calls == wanted:
        os._exit(9)
    return done

Path.replace = replace
change_encryption(Path(sys.argv[1]), KeySource("file", sys.argv[2]))
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("plain") / "data")


@pytest.fixture
def folder(plain, tmp_path):
    return shutil.copytree(plain, tmp_path / "data")


@pytest.fixture(scope="module")
def sealed(plain, tmp_path_factory):
    """A folder that holds the encrypted data folder and its key."""
    place = tmp_path_factory.mktemp("sealed")
    shutil.copytree(plain, place / "data")
    done = holdfast(place / "data", "encrypt", "--new-key", str(place / "key"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == ["agents/main/local/recall.db", "holdfast.log", "holdfast.db"]
    return place


@pytest.fixture
def encrypted(sealed, tmp_path):
    """A copy, whose marker names the copy of the key."""
    shutil.copytree(sealed, tmp_path, dirs_exist_ok=True)
    marker = tmp_path / "data" / "encryption.json"
    marker.write_text(marker.read_text().replace(str(sealed / "key"), str(tmp_path / "key")))
    return tmp_path / "data"


def test_no_word_is_readable_and_nothing_is_missing(encrypted):
    assert holders(encrypted) == []
    assert all(line.startswith(b"encrypted ") for line in (encrypted / "holdfast.log").read_bytes().splitlines())
    assert CANARY in holdfast(encrypted, *QUESTION).stdout
    assert holders(encrypted) == []
    log, audit = several(encrypted, ("log",), ("audit",))
    assert '"event": "runtime.opened"' in log.stdout
    assert "encrypted" not in log.stdout
    assert audit.returncode == 0


def test_another_library_makes_nothing_of_it(encrypted):
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        sqlite3.connect(encrypted / "holdfast.db").execute("select * from sqlite_schema")


async def test_without_ciphers_the_folder_is_not_opened(encrypted):
    """This process has the library that cannot encrypt."""
    with pytest.raises(EncryptionUnavailable, match="encrypted"):
        await open_runtime(encrypted)


def test_a_new_folder_is_encrypted_from_its_first_byte(tmp_path):
    assert holdfast(tmp_path / "new", "encrypt", "--new-key", str(tmp_path / "key")).returncode == 0
    holdfast(tmp_path / "new", "send", "--chat", "ada", f"My cat is called {CANARY}.", "--wait")
    assert CANARY in holdfast(tmp_path / "new", *QUESTION).stdout
    assert holders(tmp_path / "new") == []


def test_another_key_takes_the_place_of_the_first(encrypted, tmp_path):
    first = (tmp_path / "key").read_bytes()
    assert holdfast(encrypted, "rekey", "--new-key", str(tmp_path / "second")).returncode == 0
    (tmp_path / "key").unlink()
    answer, log = several(encrypted, QUESTION, ("log",))
    assert CANARY in answer.stdout
    assert '"event": "runtime.opened"' in log.stdout
    assert "damaged" not in log.stdout
    (tmp_path / "key").write_bytes(first)
    assert code_of(holdfast(encrypted, "sessions", "--json", HOLDFAST_KEY_FILE=str(tmp_path / "key"))) == (
        "encryption_key_wrong"
    )


def test_decrypted_it_is_as_before(encrypted, tmp_path):
    assert holdfast(encrypted, "decrypt").returncode == 0
    (tmp_path / "key").unlink()
    assert {"holdfast.db", "recall.db"} <= set(holders(encrypted))
    assert not (encrypted / "encryption.json").exists()
    assert CANARY in holdfast(encrypted, *QUESTION, PYTHONPATH="").stdout
    assert '"event": "runtime.opened"' in (encrypted / "holdfast.log").read_text(encoding="utf-8")


# --- the audit trail ---------------------------------------------------------------------------------


TRAIL = (("audit", "actions", "--verify"), ("audit", "actions", "--json"))


def verbs(verified, listed):
    """The acts on record, oldest first; the chain of digests is whole."""
    assert verified.returncode == 0, verified.stderr
    return [row["verb"] for row in json.loads(listed.stdout)["actions"][::-1]]


def test_every_change_of_the_key_is_on_record_with_who_made_it(encrypted, tmp_path):
    """Previously the commands left no row: a folder could be decrypted without a trace."""
    assert holdfast(encrypted, "rekey", "--new-key", str(tmp_path / "second")).returncode == 0
    assert holdfast(encrypted, "decrypt").returncode == 0
    verified, listed = several(encrypted, *TRAIL)
    assert verbs(verified, listed) == ["data.encrypted", "data.rekeyed", "data.decrypted"]
    rows = json.loads(listed.stdout)["actions"][::-1]
    assert [row["detail"] for row in rows] == [{"key": "file"}, {"key": "file"}, {}]
    assert {(row["actor"]["kind"], row["actor"]["id"], row["outcome"]) for row in rows} == {
        ("user", local_user().id, "done")
    }
    assert all(row["actor"]["origin"].startswith("command line, process ") and row["subject"] for row in rows)


def test_a_command_that_changes_nothing_leaves_no_row(encrypted, tmp_path):
    (tmp_path / "k3").write_text("short", encoding="ascii")
    again = ("encrypt", "--new-key", str(tmp_path / "k2"))
    encrypting, rekeying = several(encrypted, again, ("rekey", "--key-file", str(tmp_path / "k3")))
    assert encrypting.returncode != 0
    assert rekeying.returncode != 0
    assert verbs(*several(encrypted, *TRAIL)) == ["data.encrypted"]


def test_a_store_from_before_the_trail_is_encrypted_as_it_is(folder, tmp_path):
    with closing(sqlite3.connect(folder / "holdfast.db")) as db:
        db.execute("drop table action")
    assert holdfast(folder, "encrypt", "--new-key", str(tmp_path / "key")).returncode == 0
    assert holders(folder) == []


# --- without the right key ---------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False], ids=["with-its-database", "without"])
def test_without_the_key_nothing_is_opened_or_made(encrypted, tmp_path, is_there):
    (tmp_path / "key").unlink()
    if not is_there:
        (encrypted / "holdfast.db").unlink()
    before = sorted((path, path.read_bytes()) for path in encrypted.rglob("*") if path.is_file())
    assert code_of(holdfast(encrypted, "send", "--chat", "ada", "Hello?", "--json")) == "encryption_key_missing"
    assert sorted((path, path.read_bytes()) for path in encrypted.rglob("*") if path.is_file()) == before


def test_a_wrong_key_is_named_as_what_it_is(encrypted, tmp_path):
    (tmp_path / "key").write_text("0123456789abcdef" * 4, encoding="ascii")
    before = (encrypted / "holdfast.db").read_bytes()
    for refused in several(encrypted, (*QUESTION, "--json"), ("decrypt", "--json")):
        assert code_of(refused) == "encryption_key_wrong"
    assert (encrypted / "holdfast.db").read_bytes() == before


@pytest.mark.parametrize("key", ["short", "a" * 64, ""])
def test_what_is_no_key_encrypts_nothing(folder, tmp_path, key):
    (tmp_path / "key").write_text(key, encoding="ascii")
    done = holdfast(folder, "encrypt", "--key-file", str(tmp_path / "key"), "--json")
    assert code_of(done) == ("encryption_key_invalid" if key else "encryption_key_missing")
    assert not (folder / "encryption.json").exists()


def test_a_marker_that_others_may_write_is_refused(encrypted):
    (encrypted / "encryption.json").chmod(0o666)
    assert code_of(holdfast(encrypted, "sessions", "--json")) == "config_invalid"


def test_usage_that_makes_no_sense_is_refused(encrypted, plain, tmp_path):
    new = ("--new-key", str(tmp_path / "k2"))
    refused = several(plain, ("rekey", *new, "--json"), ("decrypt", "--json"), ("encrypt", "--json"))
    refused += several(encrypted, ("encrypt", *new, "--json"))
    assert [code_of(one) for one in refused] == ["invalid_input"] * 4


# --- where the key is kept ---------------------------------------------------------------------------

KEYRING = """
import keyring.backend

class Fixed(keyring.backend.KeyringBackend):
    priority = 1
    def get_password(self, service, name):
        return "abcdefghij0123456789" * 3 if (service, name) == ("holdfast", "bot") else None
    def set_password(self, service, name, password): ...
    def delete_password(self, service, name): ...
"""


def test_a_command_prints_the_key(folder, tmp_path):
    (tmp_path / "key").write_text("abcdefghij0123456789" * 3, encoding="ascii")
    assert holdfast(folder, "encrypt", "--key-command", f"cat {tmp_path / 'key'}").returncode == 0
    assert CANARY in holdfast(folder, *QUESTION).stdout
    (tmp_path / "key").unlink()
    assert code_of(holdfast(folder, "sessions", "--json")) == "encryption_key_missing"


def test_the_keyring_holds_the_key(folder, tmp_path):
    (tmp_path / "fixed_keyring.py").write_text(KEYRING, encoding="utf-8")
    path = {"PYTHONPATH": f"{LIBRARY}:{tmp_path}", "PYTHON_KEYRING_BACKEND": "fixed_keyring.Fixed"}
    assert code_of(holdfast(folder, "encrypt", "--keyring", "nobody", "--json", **path)) == "encryption_key_missing"
    assert holdfast(folder, "encrypt", "--keyring", "bot", **path).returncode == 0
    assert CANARY in holdfast(folder, *QUESTION, **path).stdout


# --- a process that ends halfway ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "when"),
    [(1, "after"), (2, "before"), (2, "after"), (3, "after"), (4, "before"), (4, "after"), (5, "before")],
    ids=["marker", "index-written", "index", "log", "store-written", "store", "all-but-the-marker"],
)
def test_a_change_that_was_cut_off_goes_on(folder, tmp_path, step, when):
    key = tmp_path / "key"
    key.write_text("abcdefghij0123456789" * 3, encoding="ascii")
    assert python(ENDS, folder, key, step, when).returncode == 9
    encrypt = ("encrypt", "--key-file", str(key))
    refused, encrypting, answer, log, *trail = several(
        folder, ("sessions", "--json"), encrypt, QUESTION, ("log",), *TRAIL
    )
    assert code_of(refused) == "encryption_unfinished"
    assert encrypting.returncode == 0
    assert holders(folder) == []
    assert CANARY in answer.stdout
    assert "damaged" not in log.stdout
    assert verbs(*trail) == ["data.encrypted"]


def test_another_change_than_the_one_that_was_begun_is_refused(folder, tmp_path):
    (tmp_path / "key").write_text("abcdefghij0123456789" * 3, encoding="ascii")
    assert python(ENDS, folder, tmp_path / "key", 2, "after").returncode == 9
    other = holdfast(folder, "encrypt", "--new-key", str(tmp_path / "other"), "--json")
    assert code_of(other) == "encryption_unfinished"


def test_what_was_acknowledged_before_a_kill_is_there_after_it(encrypted):
    """The log that is found at start is written again below the layer that encrypts."""
    assert python(DIES, encrypted).returncode == -9
    assert (encrypted / "holdfast.db-wal").stat().st_size > 0
    shown, audit = several(encrypted, ("sessions", "--json"), ("audit",))
    assert [one["turns"] for one in json.loads(shown.stdout)["sessions"]] == [21]
    assert holders(encrypted, "This is number") == []
    assert audit.returncode == 0


# --- others on the same folder -----------------------------------------------------------------------


async def test_a_folder_that_is_served_is_not_changed(folder, tmp_path):
    async with await open_runtime(folder):
        assert code_of(holdfast(folder, "encrypt", "--new-key", str(tmp_path / "key"), "--json")) == "store_owned"
    assert not (folder / "encryption.json").exists()


async def test_a_folder_that_somebody_reads_is_not_changed(folder, tmp_path):
    async with await open_runtime(folder, serve=False) as runtime:
        assert code_of(holdfast(folder, "encrypt", "--new-key", str(tmp_path / "key"), "--json")) == "store_owned"
        assert await runtime.db.read(list_sessions(limit=1))
    assert not (folder / "encryption.json").exists()


def test_the_version_says_which_library_is_in_use():
    code = "from holdfast.store.encryption.databases import library_in_use; print(library_in_use())"
    told = python(code).stdout
    assert "apsw-sqlite3mc" in told
    assert "can encrypt" in told
    assert python(code, PYTHONPATH="").stdout.endswith("cannot encrypt\n")
