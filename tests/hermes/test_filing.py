"""Two conversations that Hermes keeps apart are never filed as one, and a turn is filed under its own session."""

import pytest

from holdfast.hermes.filing import MAIN, OWNER, Unfilable, agent_of, apart, notes_of, place_of, principal_of, turn_of
from holdfast.inbox.address import parse
from holdfast.memory.notes import MemoryVerb

TELEGRAM = {"platform": "telegram", "chat_id": "42", "chat_type": "dm", "user_id": "42"}


def turn(**content):
    return turn_of({"kind": "turn", "session": "S", "user": "hi", "assistant": "ho", "w": "w", **content}, "w-1", ())


def test_a_turn_is_filed_under_the_session_that_hermes_passed():
    made = turn(about=TELEGRAM, parent="P")
    assert (made.session, made.parent, made.key) == ("S", "P", "w-1")
    assert [entry.text for entry in made.entries] == ["hi", "ho"]
    assert (made.agent, made.principal, made.place) == (MAIN, "telegram:42", "agent:main:telegram:dm:42")


def test_a_conversation_in_the_terminal_belongs_to_the_owner():
    made = turn(about={"platform": "cli"}, cwd="/home/ada/app")
    assert (made.principal, parse(made.place).channel, made.where.directory) == (OWNER, "terminal", "/home/ada/app")
    assert turn(about=TELEGRAM, cwd="/srv").where.directory == "", "the directory of a gateway is not the person's"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({**TELEGRAM, "chat_id": "a:b"}, {**TELEGRAM, "chat_id": "a", "thread_id": "b"}),
        ({**TELEGRAM, "chat_id": "a b"}, {**TELEGRAM, "chat_id": "a-b"}),
        ({**TELEGRAM, "thread_id": "7"}, TELEGRAM),
        ({**TELEGRAM, "thread_id": "7"}, {**TELEGRAM, "thread_id": "8"}),
        ({**TELEGRAM, "platform": "discord"}, TELEGRAM),
        ({**TELEGRAM, "chat_type": "group"}, TELEGRAM),
        ({**TELEGRAM, "chat_id": "x" * 600}, {**TELEGRAM, "chat_id": "x" * 601}),
    ],
)
def test_different_chats_have_different_places(one, other):
    assert place_of(one) != place_of(other)


def test_a_group_that_is_split_by_person_has_a_place_for_each():
    group = {**TELEGRAM, "chat_type": "group", "chat_id": "-100"}
    split = {**group, "gateway_session_key": "agent:main:telegram:group:-100:42"}
    assert place_of(split) == "agent:main:telegram:group:-100::42"
    assert place_of({**group, "gateway_session_key": "agent:main:telegram:group:-100"}) != place_of(split)


def test_accounts_of_two_platforms_are_two_people():
    assert principal_of(TELEGRAM) != principal_of({**TELEGRAM, "platform": "discord"})


@pytest.mark.parametrize("identity", ["coder", "my profile!", "con"])
def test_a_profile_is_an_agent(identity):
    made = turn(about={"agent_identity": identity})
    assert made.agent == agent_of({"agent_identity": identity}) != MAIN


def test_a_turn_without_a_session_is_not_lost():
    assert turn(session="").session == "hermes-w"
    assert turn(session="memory:x").session == "hermes-memory:x"


def test_a_session_of_another_agent_is_not_shared():
    assert apart(turn(about={"agent_identity": "coder"})).session == "S@coder"


def test_a_turn_without_words_is_kept_aside():
    with pytest.raises(Unfilable, match="no words"):
        turn(user="", assistant="")


def test_words_that_cannot_be_stored_are_made_storable():
    assert turn(user="a\ud800b").entries[0].text == "a?b"


def test_an_operation_on_notes_keeps_its_verb():
    content = {"kind": "note", "session": "S", "action": "replace", "target": "user", "text": "new", "old": "old"}
    (change,) = notes_of(content, "w-2", ()).changes
    assert (change.verb, change.text, change.old) == (MemoryVerb.REPLACE, "new", "old")
    (gone,) = notes_of({**content, "action": "remove", "old": ""}, "w-3", ()).changes
    assert (gone.text, gone.old) == ("", "new")
    with pytest.raises(Unfilable):
        notes_of({**content, "action": "explode"}, "w-4", ())
