"""The promise: `holdfast trace` finds a message by any id, tells all of it with times, and helps where an id is wrong.

Rules: R40.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import POSIX, asked, environment, here, refused
from tests.support.patience import HANGS_S


@pytest.fixture(scope="module")
def talked(tmp_path_factory) -> Path:
    """Two chats in which somebody used the id 42, and one more message."""
    data: Path = tmp_path_factory.mktemp("traced") / "data"
    for chat in ("ada", "bob"):
        here("send", f"My cat is called {chat}'s Byron.", "--chat", chat, "--id", "42", "--wait", "--data", data)
    here("send", "And my dog?", "--chat", "ada", "--id", "43", "--wait", "--data", data)
    return data


@pytest.fixture(scope="module")
def first(talked):
    return asked("trace", "42", "--chat", "ada", "--data", talked)


def test_any_id_leads_to_the_same_message(talked, first):
    message, session = first["message"], first["session"]
    ids = [message, message[:-1], f"{session}/1", f"{session}:1", first["reply"]["id"], first["deliveries"][0]["id"]]
    for wanted in ids:
        assert asked("trace", wanted, "--data", talked)["message"] == message, wanted


def test_the_timeline_is_told_with_times_and_the_words_of_the_reply(talked, first):
    told = here("trace", first["message"], "--data", talked, "--utc").stdout
    assert told.startswith(f"{first['message']}  answered\naccepted  2")
    for line in (
        r"accepted +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ s ago",
        r"from +ada, own id 42",
        r"turn +ses_\w+/1",
        r"Answered, and the reply can be fetched\. 1 of 1 memory providers have it\.",
        r"\d\d:\d\d:\d\d\.\d{3}  \+0 ms +accepted and durable",
        r" +turn 1 answered and committed",
        r" +local: delivered, \d+ ms",
        r"Noted: My cat is called ada's Byron\.",
    ):
        assert re.search(rf"(?m)^.*{line}", told), line


def test_json_has_the_message_the_verdict_and_the_steps_in_milliseconds(first):
    assert (first["state"], first["reply"]["state"], first["needs_you"]) == ("answered", "delivered", False)
    assert first["verdict"].startswith("Answered")
    kinds = [step["kind"] for step in first["steps"]]
    assert kinds[0] == "message"
    assert {"turn", "model", "reply", "delivery"} <= set(kinds)
    accepted = first["steps"][0]
    assert accepted["at"] == first["accepted_at"]
    assert all(step["duration_ms"] == step["until"] - step["at"] for step in first["steps"] if step["until"])


def test_an_id_of_several_messages_lists_them(talked):
    done = here("trace", "42", "--data", talked)
    assert (done.returncode, done.stderr.startswith("error[ambiguous_id]: '42' stands for 2 messages")) == (1, True)
    assert re.search(r"bob +bob +42 +answered", done.stdout)
    assert re.search(r"ada +ada +42 +answered", done.stdout)
    listed = here("trace", "42", "--data", talked, "--json")
    found = json.loads(listed.stdout)
    assert (found["error"]["code"], [one["chat"] for one in found["candidates"]]) == ("ambiguous_id", ["bob", "ada"])
    session = here("trace", asked("trace", "43", "--data", talked)["session"], "--data", talked)
    assert (session.returncode, session.stdout.count("msg_")) == (1, 2)


def test_a_wrong_id_names_the_nearest_ones_and_how_to_search(talked, first):
    for wanted, near in ((first["message"][:-1] + "!", first["message"]), ("41", "own id 42 of ada")):
        done = here("trace", wanted, "--data", talked)
        refused(done, "message_not_found")
        assert near in done.stderr
        assert "holdfast messages --text" in done.stderr
    refused(here("trace", "x" * 513, "--data", talked), "invalid_name")


def test_no_line_is_wider_than_a_terminal_of_40_columns(talked, first):
    done = here("trace", first["message"], "--data", talked, COLUMNS="40")
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert first["message"] in done.stdout


@pytest.mark.skipif(not POSIX, reason="a shell")
def test_a_closed_pipe_ends_it_quietly(talked, first):
    command = f'"{sys.executable}" -m holdfast trace {first["message"]} --data "{talked}" | head -1'
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, env=environment(), check=False, timeout=HANGS_S
    )
    assert (done.stdout, done.stderr) == (f"{first['message']}  answered\n", "")


def test_a_session_is_shown_by_the_beginning_of_its_id_and_a_wrong_one_names_the_nearest(talked, first):
    session = first["session"]
    whole = here("show", session, "--data", talked).stdout
    assert here("show", session[:-1], "--data", talked).stdout == whole
    assert here("context", session[:-1], "--data", talked).returncode == 0
    done = here("show", f"{session[:-1]}!", "--data", talked)
    refused(done, "session_not_found")
    assert session in done.stderr
    several = here("show", "ses_", "--data", talked)
    refused(several, "ambiguous_id")
    assert session in several.stderr
