"""`holdfast backup` and `restore` as an operator runs them: beside a process that serves, with clear refusals."""

import asyncio
import io
import json

from typer.testing import CliRunner

from holdfast.cli.commands import app
from holdfast.cli.progress import Progress
from tests.support.encryption import CANARY, code_of, filled, holders, holdfast
from tests.support.processes import Up


def run(*words):
    return CliRunner().invoke(
        app, [*map(str, words)], env={"HOLDFAST_DATA": None, "NO_COLOR": "1"}, prog_name="holdfast"
    )


async def test_a_folder_is_backed_up_while_it_is_served_and_its_copy_answers(tmp_path):
    data, backups = tmp_path / "data", tmp_path / "backups"
    backups.mkdir()
    up = await Up.start(data)
    async with up.client() as client:
        for n in range(3):
            said = await client.post("/v1/messages", json={"chat": "ada", "id": str(n), "text": f"number {n}"})
            assert said.status_code == 202
        done = await asyncio.to_thread(run, "backup", backups, "--data", data, "--json")
        assert done.exit_code == 0, done.output
        assert (await client.post("/v1/messages", json={"chat": "ada", "id": "9", "text": "after"})).status_code == 202
    assert await up.stop() == 0
    made = json.loads(done.stdout)
    (place,) = backups.iterdir()
    assert (made["backup"], made["tables"]["inbound"], made["encrypted"]) == (str(place), 3, False)
    restored = await asyncio.to_thread(run, "restore", place, "--data", tmp_path / "new", "--json")
    view = json.loads(restored.stdout)
    assert (view["restored"], view["digest"]) == (True, made["digest"])
    again = await Up.start(tmp_path / "new")
    async with again.client() as client:
        repeated = await client.post("/v1/messages", json={"chat": "ada", "id": "1", "text": "number 1"})
        assert repeated.status_code == 200, repeated.text
    assert await again.stop() == 0


def test_an_encrypted_folder_is_encrypted_in_its_backup_and_nothing_is_restored_without_the_key(tmp_path):
    data = filled(tmp_path / "data")
    key = data / "key"  # in the data folder itself, where it should not be
    assert holdfast(data, "encrypt", "--new-key", str(key)).returncode == 0
    done = holdfast(data, "backup", str(tmp_path / "backup"), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["encrypted"], made["left_out"]) == (True, ["key"])
    assert holders(tmp_path / "backup") == []
    assert holders(tmp_path / "backup", key.read_text().strip()) == []
    key.rename(tmp_path / "key")
    new = tmp_path / "new"
    assert code_of(holdfast(new, "restore", str(tmp_path / "backup"), "--json")) == "encryption_key_missing"
    assert not (new / "holdfast.db").exists()
    with_key = {"HOLDFAST_KEY_FILE": str(tmp_path / "key")}
    restored = holdfast(new, "restore", str(tmp_path / "backup"), **with_key)
    assert restored.returncode == 0, restored.stderr
    assert holders(new) == []
    asked = holdfast(new, "send", "--chat", "ada", "What is my cat called?", "--wait", **with_key)
    assert CANARY in asked.stdout


def test_a_refusal_names_its_reason_and_postgresql_its_own_tools(tmp_path):
    nothing = run("backup", tmp_path / "b", "--data", tmp_path / "none", "--json")
    assert (nothing.exit_code, json.loads(nothing.stdout)["error"]["code"]) == (1, "store_path_invalid")
    missing = run("restore", tmp_path / "b", "--data", tmp_path / "none", "--json")
    assert (missing.exit_code, json.loads(missing.stdout)["error"]["code"]) == (1, "backup_invalid")
    looked = run("doctor", "--data", tmp_path / "none")
    assert (looked.exit_code, "Nothing is here yet" in looked.stderr) == (1, True)
    assert not (tmp_path / "none").exists()
    for words in (("backup", tmp_path / "b"), ("restore", tmp_path / "b")):
        done = run(*words, "--data", "postgresql://user@host/database")
        assert (done.exit_code, "pg_dump" in done.stderr) == (1, True)


def test_what_takes_long_says_which_part_it_is_at_and_how_far():
    shown = Progress("backup", stream=io.StringIO(), clock=lambda: 0.0)
    shown.part("copying it", 5, 10)
    assert shown.line() == "copying it: 5 of 10 (50 %), 0 ms"
    shown.part("checking it", 0, 1)
    assert shown.line() == "checking it: at work, 0 ms"
