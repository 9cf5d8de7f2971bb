"""The promise: one function says whom a note belongs to and who may be shown it, and no name can pass for another."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inbox.address import PART_CHARS_MAX, sender_of_chat
from holdfast.kernel.ids import AgentName, Instant, Principal
from holdfast.memory.notes import AgentNotes, MemoryEntry, Target
from holdfast.memory.visibility import (
    Audience,
    chat_scope,
    holder_of,
    is_group,
    person_of,
    person_scope,
    scope_of,
    scope_of_turns,
    session_scope,
    shown_notes,
)

FERN = AgentName("fern")
ADA, BOB = Principal("ada"), Principal("bob")
DM, HTTP = "agent:fern:telegram:dm:1", "agent:fern:http:chat:team"
GROUP, OTHER = "agent:fern:telegram:group:-100", "agent:fern:telegram:group:-200"
NAMES = st.text(min_size=1, max_size=PART_CHARS_MAX) | st.sampled_from(
    ["ada", "person:ada", "chat:x", "person:chat:x", "session:s", "person:person:chat:x", f"chat:{GROUP}", "chat:" * 90]
)


def audience(principal=ADA, address=DM, **more):
    return Audience(agent=FERN, principal=principal, address=address, is_group=is_group(address), **more)


@pytest.mark.parametrize(
    ("address", "principal", "scope"),
    [
        (DM, "ada", "ada"),
        ("", "ada", "ada"),  # a writer without a mailbox
        (HTTP, "ada", "ada"),
        (GROUP, "ada", f"chat:{GROUP}"),
        (f"{GROUP}:7", "ada", f"chat:{GROUP}:7"),  # a thread may have fewer readers than its group
        (f"{GROUP}::ada", "ada", f"chat:{GROUP}"),  # sessions per user: everybody reads there
        (DM, "agent:rose", f"chat:{DM}"),  # another agent speaks for somebody
        ("", "agent:rose", "session:s"),
    ],
)
def test_where_a_note_belongs(address, principal, scope):
    assert scope_of(address, principal, session="s") == scope
    speaking = replace(audience(Principal(principal), address), session="s")
    assert speaking.own == scope
    assert speaking.may_see(scope)


@pytest.mark.parametrize(
    ("turns", "scope"),
    [
        ([(DM, "ada"), (DM, "ada")], "ada"),
        ([(DM, "ada"), (HTTP, "ada")], "ada"),
        ([(GROUP, "ada"), (GROUP, "bob")], f"chat:{GROUP}"),
        ([(HTTP, "ada"), (HTTP, "bob")], f"chat:{HTTP}"),  # two people in one chat
        ([(DM, "ada"), (GROUP, "ada")], "session:s"),  # resumed elsewhere: neither may see the other part
        ([(GROUP, "ada"), (OTHER, "ada")], "session:s"),
        ([("", "ada"), ("", "bob")], "session:s"),
        ([("", "ada"), (HTTP, "bob")], "session:s"),
    ],
)
def test_what_is_made_of_several_turns_belongs_to_all_who_heard_them(turns, scope):
    assert scope_of_turns(turns, "s") == scope


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        (audience(), {"", "ada", f"chat:{DM}"}),
        (audience(kin=(Principal("phone"),)), {"", "ada", "phone", f"chat:{DM}"}),
        (audience(BOB), {"", "bob", f"chat:{DM}"}),
        (audience(address=GROUP), {"", f"chat:{GROUP}"}),
        (audience(address=GROUP, kin=(Principal("phone"),)), {"", f"chat:{GROUP}"}),
        (audience(address=GROUP, private_in_groups=True), {"", f"chat:{GROUP}", "ada"}),
        (audience(Principal("agent:rose")), {"", f"chat:{DM}"}),
        (audience(Principal(""), ""), {"", "session:"}),
        (audience(session="s"), {"", "ada", f"chat:{DM}", "session:s"}),
    ],
)
def test_who_sees_what(reader, seen):
    assert set(reader.scopes) == seen
    assert all(reader.may_see(scope) for scope in seen)
    assert not reader.may_see("carol")


@given(NAMES, NAMES)
def test_no_principal_spells_the_scope_of_another_or_of_a_chat(one, other):
    assert (person_scope(one) == person_scope(other)) == (one == other)
    assert person_scope(one) not in {chat_scope(other), session_scope(other), ""}
    assert (chat_scope(one) == chat_scope(other)) == (one == other)
    assert len(person_scope(one)) <= PART_CHARS_MAX
    assert person_of(chat_scope(one)) is None
    assert person_of(session_scope(one)) is None


@given(NAMES)
def test_a_persons_scope_names_the_person(name):
    assert len(name) > 390 or person_of(person_scope(name)) == name


@pytest.mark.parametrize(
    ("subject", "by", "principal", "holder"),
    [
        ("", "user", "", ""),
        ("", "edit", "", ""),
        ("", "import", "ada", ""),
        ("", "model", "ada", "ada"),
        ("", "extraction", "ada", "ada"),
        ("", "model", "chat:x", "person:chat:x"),
        ("", "model", "", ""),  # written through the library, for which the operator answers
        ("bob", "model", "ada", "bob"),
    ],
)
def test_a_note_of_an_earlier_release_is_its_speakers(subject, by, principal, holder):
    assert holder_of(subject, by, principal) == holder


def notes(subject, *texts, by="model", principal=""):
    entries = tuple(
        MemoryEntry(seq=n, target=Target.USER, text=text, at=Instant(1), by=by, principal=Principal(principal), place=n)
        for n, text in enumerate(texts, 1)
    )
    return AgentNotes(agent=FERN, subject=subject, entries=entries, head=len(entries))


def test_only_what_the_audience_may_see_is_shown_and_an_equal_text_once():
    memories = [
        notes("", "all", "same", by="user"),
        notes("ada", "same", "hers"),
        notes("bob", "his"),
        notes(f"chat:{GROUP}", "theirs"),
    ]
    shown = shown_notes(audience(), memories)
    assert [entry.text for entry in shown.own.entries] == ["same", "hers"]
    assert [one.entry.text for one in shown.others] == ["all"]
    assert shown.others[0].is_shared
    twice = shown_notes(audience(kin=(Principal("phone"),)), [notes("", "same", by="user"), notes("phone", "same")])
    assert [one.scope for one in twice.others] == [""], "the same words of two scopes are shown once"
    old = shown_notes(audience(), [notes("", "old", principal="ada"), notes("", "not hers", principal="bob")])
    assert [(one.entry.text, one.scope, one.is_shared) for one in old.others] == [("old", "ada", False)]


@given(NAMES, NAMES)
def test_a_chat_without_a_sender_is_a_person_of_its_own_and_no_account_of_a_platform(one, other):
    assert (sender_of_chat(one) == sender_of_chat(other)) == (one == other)
    assert ":" not in sender_of_chat(one)
    assert len(sender_of_chat(one)) <= PART_CHARS_MAX


@pytest.mark.parametrize(
    ("principal", "address", "sees_all"),
    [("ada", DM, True), ("ada", GROUP, False), ("agent:moss", DM, False)],
    ids=["a person in private", "a group", "another agent"],
)
def test_an_agent_that_shares_its_memory_shows_all_of_it_to_persons_in_private_only(principal, address, sees_all):
    reader = audience(Principal(principal), address, shares_all=True)
    assert reader.may_see(person_scope(BOB)) is sees_all
    assert not replace(reader, shares_all=False).may_see(person_scope(BOB))
