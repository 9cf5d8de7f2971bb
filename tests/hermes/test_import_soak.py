"""The promise: a large history is imported in bounded memory, and one that was killed again and again is whole."""

import json
import resource
import subprocess
import sys

import pytest

from tests.support.hermes_home import HermesChat, HermesHome

MESSAGES = 100_000
SESSIONS = 200
MEMORY_MAX_KB = 400_000


def build(folder):
    """A home with 100,000 messages in 200 sessions, of which every tenth was compressed."""
    home = HermesHome(folder, search=False)
    home.db.execute("begin")
    for n in range(SESSIONS):
        chat = HermesChat(chat=str(n))
        home.session(f"s{n}", chat, title=f"Session {n}")
        for turn in range(MESSAGES // SESSIONS // 2):
            said = f"turn {turn} of session {n}: " + "words that people write to an agent all day " * 4
            row = ("insert into messages (session_id, role, content, timestamp) values (?, ?, ?, ?)",)
            home.db.execute(*row, (f"s{n}", "user", said, home._tick()))
            home.db.execute(*row, (f"s{n}", "assistant", f"re: {said}", home._tick()))
        home.route(chat, f"s{n}", mirror=False)
    home.db.execute("commit")
    for n in range(0, SESSIONS, 10):
        home.compact_in_place(f"s{n}", "what was said", head=2, tail=20)
    home.close()


def import_command(folder, data):
    command = [sys.executable, "-m", "holdfast", "hermes", "import", str(folder), "--data", str(data), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    out, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_messages_are_imported_whole_also_if_the_import_is_killed(tmp_path, record_property):
    home = tmp_path / "home"
    build(home)
    whole = finished(import_command(home, tmp_path / "whole"))
    used_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert sum(one["rows"] for one in whole["sessions"]) == whole["rows"] > MESSAGES
    assert used_kb < MEMORY_MAX_KB
    for lines in (1, 3, 2, 4):
        process = import_command(home, tmp_path / "killed")
        assert process.stderr is not None
        for _ in range(lines):
            process.stderr.readline()
        process.kill()
        process.communicate()
    resumed = finished(import_command(home, tmp_path / "killed"))
    assert resumed["digest"] == whole["digest"]
    assert {one["state"] for one in resumed["sessions"]} <= {"there already", "resumed", "imported"}
    again = finished(import_command(home, tmp_path / "killed"))
    assert {one["state"] for one in again["sessions"]} == {"there already"}
    record_property("figures", f"{whole['rows']} rows, at most {used_kb // 1024} MiB, digest {whole['digest']}")
