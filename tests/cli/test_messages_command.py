"""The promise: an operator finds a message by its chat, sender, words, own id, state or time, page by page.

Rules: R40.
"""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import asked, here, refused


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Four waiting messages of two agents."""
    data: Path = tmp_path_factory.mktemp("listed") / "data"
    for n, (agent, chat) in enumerate([("main", "ada"), ("main", "bob"), ("main", "ada"), ("moss", "ada")]):
        here("send", f"Where is order B-{n}?", "--agent", agent, "--chat", chat, "--id", f"own-{n}", "--data", data)
    return data


def texts(data, *more):
    return [one["text"] for one in asked("messages", "--data", data, *more)["messages"]]


def test_the_newest_message_comes_first_and_each_option_narrows_the_list(data):
    assert texts(data) == [f"Where is order B-{n}?" for n in (3, 2, 1, 0)]
    for more, numbers in (
        (("--agent", "moss"), [3]),
        (("--chat", "ada"), [3, 2, 0]),
        (("--sender", "bob"), [1]),
        (("--text", "ORDER b-2"), [2]),
        (("--own-id", "own-1"), [1]),
        (("--state", "waiting", "--agent", "main"), [2, 1, 0]),
        (("--state", "answered"), []),
        (("--since", "1h"), [3, 2, 1, 0]),
        (("--until", "1h"), []),
        (("--since", "2100-01-01"), []),
    ):
        assert texts(data, *more) == [f"Where is order B-{n}?" for n in numbers], more


def test_pages_lead_on_by_next(data):
    page = asked("messages", "--data", data, "--limit", "3")
    assert len(page["messages"]) == 3
    rest = asked("messages", "--data", data, "--limit", "3", "--before", page["next"])
    assert ([one["text"] for one in rest["messages"]], rest["next"]) == (["Where is order B-0?"], None)
    assert f"Earlier ones: --before {page['next']}" in here("messages", "--data", data, "--limit", "3").stdout


def test_a_row_says_when_where_who_and_what(data):
    told = here("messages", "--data", data, "--own-id", "own-1", "--utc").stdout
    assert [word in told for word in ("UTC, ", "main", "bob", "waiting", "Where is order B-1?")] == [True] * 5
    (one,) = asked("messages", "--data", data, "--own-id", "own-1")["messages"]
    assert isinstance(one["accepted_at"], int)
    assert (one["id"], one["session"]) == ("own-1", None)


def test_a_list_without_a_match_says_none_and_a_wrong_option_what_is_right(data, tmp_path):
    assert here("messages", "--data", data, "--text", "nowhere").stdout == "none\n"
    refused(here("messages", "--data", data, "--since", "yesterday"), "invalid_input")
    wrong = here("messages", "--data", data, "--state", "lost", "--json")
    assert (wrong.returncode, json.loads(wrong.stdout)["error"]["code"]) == (2, "invalid_usage")
    refused(here("messages", "--data", tmp_path / "nothing"), "store_path_invalid")
