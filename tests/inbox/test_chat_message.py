"""Every platform event becomes an address that no other chat shares, spelt as Hermes spells it wherever that spelling
is unambiguous.
"""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.inbox.address import parse
from holdfast.inbox.chat_message import (
    Attachment,
    ChatMessage,
    MessageChange,
    hash_of,
    is_answered,
    place_of,
    plain_name,
    principal_of,
    text_of,
)
from holdfast.kernel.errors import InvalidName
from holdfast.kernel.ids import AgentName
from holdfast.sessions.command import parse_command
from holdfast.turns.policy import GroupPolicy, Sharing

MAIN = AgentName("main")
SHARED, PER_USER = Sharing.SHARED, Sharing.PER_USER
HERMES = GroupPolicy(groups=PER_USER, threads=SHARED)  # what Hermes does unless told otherwise


def wrote(chat, chat_type="dm", thread=None, sender="u1"):
    return ChatMessage(account="bot", event_id="m1", chat=chat, chat_type=chat_type, thread=thread, sender=sender)


def key(said, policy=HERMES, channel="telegram"):
    return str(place_of(MAIN, channel, said, policy))


def hermes_key(said, channel="telegram", *, group_per_user=True, thread_per_user=False):
    """Hermes' build_session_key, as its gateway has it; nothing is escaped there."""
    if said.chat_type == "dm":
        return ":".join(["agent:main", channel, "dm", said.chat, *([said.thread] if said.thread else [])])
    isolate = group_per_user and not (said.thread and not thread_per_user)
    parts = [said.chat, *([said.thread] if said.thread else []), *([said.sender] if isolate else [])]
    return ":".join(["agent:main", channel, said.chat_type, *parts])


@pytest.mark.parametrize(
    ("said", "policy", "expected", "as_hermes"),
    [
        (wrote("7"), HERMES, "agent:main:telegram:dm:7", True),
        (wrote("7", thread="5"), HERMES, "agent:main:telegram:dm:7:5", True),
        (wrote("-100", "group", "5"), HERMES, "agent:main:telegram:group:-100:5", True),
        (wrote("-100", "channel"), GroupPolicy(), "agent:main:telegram:channel:-100", False),
        (wrote("-100", "group"), GroupPolicy(), "agent:main:telegram:group:-100", False),
        (wrote("-100", "group", "5"), GroupPolicy(threads=PER_USER), "agent:main:telegram:group:-100:5:u1", False),
        # Hermes writes a user without a thread where a thread would stand, and never escapes: two places, one key.
        (wrote("-100", "group"), HERMES, "agent:main:telegram:group:-100::u1", False),
        (wrote("a:b"), HERMES, "agent:main:telegram:dm:a%3Ab", False),
    ],
)
def test_a_place_is_spelt_as_hermes_spells_it_where_that_is_sound(said, policy, expected, as_hermes):
    assert key(said, policy) == expected
    assert (hermes_key(said) == expected) == as_hermes


def test_the_rules_of_hermes_that_can_be_chosen_are_the_same():
    for group_per_user in (True, False):
        for thread_per_user in (True, False):
            policy = GroupPolicy(
                groups=PER_USER if group_per_user else SHARED,
                threads=PER_USER if group_per_user and thread_per_user else SHARED,
            )
            for said in (wrote("c"), wrote("c", thread="t"), wrote("c", "group", "t"), wrote("c", "channel", "t")):
                theirs = hermes_key(said, group_per_user=group_per_user, thread_per_user=thread_per_user)
                assert key(said, policy) == theirs


def test_where_hermes_takes_two_places_for_one_they_stay_two():
    user, thread = wrote("-100", "group", sender="5"), wrote("-100", "group", thread="5")
    assert hermes_key(user) == hermes_key(thread)
    assert key(user) != key(thread)
    assert hermes_key(wrote("a:b")) == hermes_key(wrote("a", thread="b"))
    assert key(wrote("a:b")) != key(wrote("a", thread="b"))


letters = st.one_of(st.sampled_from(":%-a1"), st.characters(exclude_categories=["Cs", "Cc"]))
ids = st.text(letters, min_size=1, max_size=8)
saids = st.builds(
    wrote, chat=ids, chat_type=st.sampled_from(["dm", "group", "channel"]), thread=st.none() | ids, sender=ids
)
policies = st.builds(GroupPolicy, groups=st.sampled_from(Sharing), threads=st.sampled_from(Sharing))


def whose(said, policy):
    """Everything that should tell two places apart."""
    sharing = policy.threads if said.thread is not None else policy.groups
    return (
        said.chat_type,
        said.chat,
        said.thread,
        said.sender if said.chat_type != "dm" and sharing is PER_USER else None,
    )


@given(saids, saids, policies)
def test_two_events_share_a_place_if_and_only_if_they_should(one, other, policy):
    assert (key(one, policy) == key(other, policy)) == (whose(one, policy) == whose(other, policy))


@given(saids, policies)
def test_a_place_can_be_read_back_and_is_the_agents_own(said, policy):
    place = place_of(MAIN, "telegram", said, policy)
    assert parse(str(place)) == place
    assert (place.agent, place.channel, place.chat, place.thread) == (MAIN, "telegram", said.chat, said.thread)


@given(saids, ids, policies)
def test_in_a_shared_group_it_does_not_matter_who_speaks(said, sender, policy):
    assume(said.chat_type == "dm" or (policy.threads if said.thread is not None else policy.groups) is SHARED)
    assert key(said, policy) == key(replace(said, sender=sender), policy)


def test_an_event_of_a_platform_has_the_facts_that_a_place_is_made_of():
    message = ChatMessage(account="telegram:1", event_id="9", chat="7", sender="42")
    assert str(place_of(MAIN, "telegram", message, GroupPolicy())) == "agent:main:telegram:dm:7"
    assert principal_of("telegram", message.sender) == "telegram:42"


@given(st.sampled_from(["telegram", "a", "a.b"]), ids, st.sampled_from(["telegram", "a", "a.b"]), ids)
def test_no_two_senders_share_a_principal(channel, sender, other, another):
    alike = principal_of(channel, sender) == principal_of(other, another)
    assert alike == ((channel, sender) == (other, another))


@pytest.mark.parametrize(("channel", "sender"), [("a:b", "1"), ("../x", "1"), ("telegram", ""), ("telegram", "a\n")])
def test_a_principal_is_never_made_of_nonsense(channel, sender):
    with pytest.raises(InvalidName):
        principal_of(channel, sender)


@pytest.mark.parametrize(
    ("kind", "addressed", "mention_only", "answered"),
    [
        ("dm", False, True, True),
        ("group", True, True, True),
        ("group", False, True, False),
        ("group", False, False, True),
        ("channel", False, True, False),
    ],
)
def test_what_is_said_to_the_agent_is_answered(kind, addressed, mention_only, answered):
    policy = GroupPolicy(mention_only=mention_only)
    assert is_answered(wrote("c", kind), policy, addressed=addressed) is answered


# --- words -------------------------------------------------------------------------------------------

PHOTO = Attachment(name="cat.jpg", media_type="image/jpeg", size=3, body=b"cat")
LARGE = Attachment(name="film.mov", media_type="video/quicktime", size=99_000_000)


def test_what_is_attached_is_named_with_its_size_and_hash():
    assert text_of("new", "look", attachments=[PHOTO, LARGE]) == (
        "look\n"
        f"[attached: cat.jpg, image/jpeg, 3 bytes, sha256 {hash_of(b'cat')[:16]}]\n"
        "[attached, not kept: film.mov, video/quicktime, 99000000 bytes]"
    )
    assert "without a name, unknown type, 3 bytes" in text_of(
        "new", "", attachments=[replace(PHOTO, name="", media_type="")]
    )
    assert text_of("new", "", attachments=[LARGE]).startswith("[attached, not kept: film.mov")


def test_an_event_without_words_and_attachments_is_nothing_to_read():
    assert text_of("new", "") == ""
    assert text_of("new", " \n") == ""


@pytest.mark.parametrize("change", [MessageChange.EDITED, MessageChange.DELETED])
def test_an_edit_or_a_deletion_is_never_a_command(change):
    said = text_of(change.value, "/new", of="m17")
    assert "m17" in said
    assert parse_command(said) is None


def test_a_deletion_does_not_repeat_what_was_deleted():
    assert "secret" not in text_of(MessageChange.DELETED.value, "secret", of="m17", attachments=[PHOTO])


@given(st.text(max_size=300))
def test_a_name_from_outside_stays_on_its_line_and_in_its_brackets(name):
    shown = plain_name(name)
    assert len(shown) <= 120
    assert not set("[]\n\r\u2028\u202e") & set(shown)
    assert shown.encode().decode() == shown
