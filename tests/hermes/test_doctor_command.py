"""`holdfast hermes doctor` and `repair`: text, JSON, an HTML page, exit codes, and a clear message for bad input."""

import json
import os
import re
import sqlite3
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from typer.testing import CliRunner

from holdfast.cli.hermes import hermes_app
from tests.hermes.test_doctor import digests, healthy, lost_turn
from tests.hermes.test_doctor_repair import damage_page
from tests.support.hermes_home import HermesHome

QUIET = {"HERMES_HOME": "", "COLUMNS": "200"}


def run(*arguments, code=0):
    done = CliRunner().invoke(hermes_app, [*map(str, arguments)], env=QUIET)
    assert done.exit_code == code, done.output
    return done.output


def refused(code, *arguments):
    """The message of an error with this code; the command leaves with 1."""
    output = run(*arguments, "--json", code=1)
    error = json.loads(next(line for line in output.splitlines() if line.startswith("{")))["error"]
    assert error["code"] == code
    assert "Traceback" not in output
    return error["message"]


def stopped(folder, release="0.19.0"):
    home = healthy(folder, release)
    home.close()
    return folder


def test_a_healthy_home(tmp_path):
    before = digests(stopped(tmp_path))
    assert "Nothing is wrong." in run("doctor", tmp_path)
    view = json.loads(run("doctor", tmp_path, "--json"))
    assert (view["schema"], view["silent"], view["counts"]["error"]) == (22, True, 0)
    assert digests(tmp_path) == before


def test_a_damaged_home_with_evidence_meaning_and_repair(tmp_path):
    home, session = lost_turn(tmp_path)
    home.close()
    text = run("doctor", tmp_path, code=3)
    assert "ERROR turn_lost" in text
    assert "logs/agent.log:1 2026-02-02 02:39:00" in text
    found = json.loads(run("doctor", tmp_path, "--json", code=3))["findings"][0]
    assert (found["kind"], found["severity"], found["certainty"]) == ("turn_lost", "error", "certain")
    assert found["sessions"] == [session]
    assert found["evidence"]["log"]
    assert found["means"]
    assert found["repaired_by_command"] is True


def test_the_page_draws_the_lineage_and_loads_nothing(tmp_path):
    home = healthy(tmp_path / "home", "0.14.0")
    home.say("s2", "<script>alert(1)</script>", "no")
    home.session("<b>", parent_session_id="s2")
    home.end("s2", "compression")
    home.close()
    run("doctor", tmp_path / "home", "--html", tmp_path / "page.html", code=3)
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert not re.search(r"(src|href)\s*=|url\(|@import", page)
    drawing = re.search("<svg.*</svg>", page, re.DOTALL)
    assert drawing is not None
    texts = [one.text or "" for one in Xml.fromstring(drawing[0]).iter("{http://www.w3.org/2000/svg}text")]
    assert [text.split(" ")[0] for text in texts] == ["s1", "s2", "<b>"]


def test_repair_by_default_makes_a_copy_beside_the_home(tmp_path):
    home, _ = lost_turn(tmp_path / "home")
    home.close()
    before = digests(tmp_path / "home")
    dry = run("repair", tmp_path / "home", "--dry-run")
    assert "nothing was changed" in dry
    assert "A newer Hermes changes it" in " ".join(dry.split())
    assert not (tmp_path / "home-repaired").exists()
    assert "+ messages" in run("repair", tmp_path / "home")
    assert digests(tmp_path / "home") == before
    assert "Nothing is wrong." in run("doctor", tmp_path / "home-repaired")
    assert "exists already" in refused("invalid_input", "repair", tmp_path / "home")


def test_repair_in_place_asks_and_keeps_a_backup(tmp_path):
    home, _ = lost_turn(tmp_path)
    home.close()
    before = digests(tmp_path)
    run("repair", tmp_path, "--in-place", code=2)  # there is no terminal to confirm at
    assert digests(tmp_path) == before
    view = json.loads(run("repair", tmp_path, "--in-place", "--yes", "--json"))
    assert view["silent"] is True
    assert [path.name for path in Path(view["backup"]).iterdir()] == ["state.db"]
    assert "Nothing had to be changed." in run("repair", tmp_path, "--in-place", "--yes")


# --- bad input


def test_a_folder_that_is_not_a_home(tmp_path):
    assert "not a home of Hermes" in refused("hermes_home_invalid", "doctor", tmp_path)
    assert "is not a folder" in refused("hermes_home_invalid", "doctor", tmp_path / "nowhere")
    sqlite3.connect(tmp_path / "state.db").execute("create table other (x)").connection.close()
    assert "not a database of Hermes" in refused("hermes_home_invalid", "doctor", tmp_path)


@pytest.mark.parametrize("statement", ["drop table messages", "alter table sessions drop column parent_session_id"])
def test_a_database_that_lacks_a_part_of_the_schema(statement, tmp_path):
    home = HermesHome(tmp_path, search=False)
    home.db.execute(statement)
    home.close()
    before = digests(tmp_path)
    for command in ("doctor", "repair"):
        assert "not a database of Hermes" in refused("hermes_home_invalid", command, tmp_path)
    assert digests(tmp_path) == before


def test_a_home_without_database(tmp_path):
    (tmp_path / "config.yaml").write_text("model: x\n")
    for command in ("doctor", "repair"):
        assert "does not exist" in refused("hermes_database_missing", command, tmp_path)


@pytest.mark.parametrize("schema", [9, 23, 400])
def test_a_schema_that_is_not_known(schema, tmp_path):
    home = HermesHome(tmp_path)
    home.db.execute("update schema_version set version = ?", (schema,))
    home.close()
    before = digests(tmp_path)
    assert f"schema {schema}" in refused("hermes_schema_unknown", "doctor", tmp_path)
    refused("hermes_schema_unknown", "repair", tmp_path, "--in-place", "--yes")
    assert digests(tmp_path) == before


@pytest.mark.parametrize("table", ["sessions", "messages"])
def test_a_damaged_page_of_a_table(table, tmp_path):
    stopped(tmp_path)
    damage_page(tmp_path / "state.db", table)
    before = digests(tmp_path)
    for command in ("doctor", "repair"):
        assert "damaged" in refused("hermes_database_corrupt", command, tmp_path)
    assert digests(tmp_path) == before


def test_a_file_that_is_no_database(tmp_path):
    stopped(tmp_path)
    (tmp_path / "state.db").write_bytes(b"not a database at all, but long enough to be read as one" * 40)
    refused("hermes_database_corrupt", "doctor", tmp_path)


def test_a_missing_index_entry_is_found_and_rebuilt(tmp_path):
    home = HermesHome(tmp_path / "home")
    home.session("s1", title="one")
    home.say("s1", "hello", "hi")
    home.db.execute("pragma writable_schema = on")
    home.db.execute(
        "update sqlite_master set sql = replace(sql, 'sessions(title)', 'sessions(id)') where name like 'idx_s%'"
    )
    home.close()
    assert "integrity" in run("doctor", tmp_path / "home", code=3)


def test_a_home_that_cannot_be_written_is_examined_and_not_repaired_in_place(tmp_path, monkeypatch):
    home, _ = lost_turn(tmp_path)
    home.close()
    monkeypatch.setattr("holdfast.hermes.doctor.repair.os.access", lambda _, mode, **__: mode != os.W_OK)
    run("doctor", tmp_path, code=3)
    assert "cannot be written" in refused("hermes_home_read_only", "repair", tmp_path, "--in-place", "--yes")


def test_a_log_that_cannot_be_read(tmp_path):
    assert "cannot be read" in refused("invalid_input", "doctor", "--log", tmp_path / "none.log")


def test_in_place_and_to_exclude_each_other(tmp_path):
    run("repair", stopped(tmp_path), "--in-place", "--yes", "--to", tmp_path / "x", code=2)
