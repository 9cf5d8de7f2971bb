"""The promise: one person may have several principals and one place several addresses, only ever by an explicit act
that is on record, without a guess, without orphaning a word, and reversibly.

Rules: D3.
"""

import asyncio
from dataclasses import replace

import pytest

from holdfast.inbox.access_sql import ask_pairing
from holdfast.inbox.address import Address, parse
from holdfast.inbox.identity import ChatMove, LinkRequest, Moved
from holdfast.inbox.identity_sql import (
    link_principals,
    linked_principals,
    list_links,
    move_address,
    move_chat,
    unlink_principal,
)
from holdfast.inbox.mailbox_sql import claim_mailbox, read_mail
from holdfast.inbox.message import Conflict, Duplicate
from holdfast.kernel.errors import AddressNotFound, AddressTaken, IdentityConflict, InvalidInput, InvalidName
from holdfast.kernel.ids import AgentName, ForgetId, OperationId, Principal
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.sessions.command_sql import run_command
from holdfast.sessions.history_sql import find_mailbox, list_entries, list_operations, list_sessions
from tests.inbox.test_access_sql import CODE, ask
from tests.memory.test_forget_sql import found_in
from tests.support.ports import verb_on
from tests.turns.test_approval_sql import told, waiting

TELEGRAM, DISCORD, SLACK = Principal("telegram:1"), Principal("discord:22222"), Principal("slack:T1.U3")


def linking(driver, principal, person):
    return LinkRequest(
        principal=Principal(principal), person=Principal(person), by="test", operation=OperationId(driver.id("op"))
    )


async def link(driver, principal, person):
    return await driver.db.write(link_principals(linking(driver, principal, person)))


async def unlink(driver, principal):
    return await driver.db.write(
        unlink_principal(Principal(principal), named="test", operation=OperationId(driver.id("op")))
    )


async def kin(driver, principal):
    return set(await driver.db.read(linked_principals(Principal(principal))))


async def spoken(driver):
    return [row[0] for row in await driver.rows("select principal from inbound order by message")]


# --- links -------------------------------------------------------------------------------------------


async def test_a_linked_principal_speaks_as_the_person_from_then_on(driver):
    await driver.talk("before", who=DISCORD)
    await link(driver, DISCORD, TELEGRAM)
    turn = await driver.talk("after", who=DISCORD)
    assert await spoken(driver) == [DISCORD, TELEGRAM]
    assert turn.principal == TELEGRAM
    entries = await driver.db.read(list_entries(turn.session))
    assert [one.entry.body.principal for one in entries if one.entry.kind == "user"] == [DISCORD, TELEGRAM]


async def test_all_accounts_of_a_person_are_linked_from_any_of_them(driver):
    await link(driver, DISCORD, TELEGRAM)
    await link(driver, SLACK, TELEGRAM)
    everybody = {TELEGRAM, DISCORD, SLACK}
    for who in everybody:
        assert await kin(driver, who) == everybody
    assert await kin(driver, "telegram:2") == {"telegram:2"}
    assert [(one.principal, one.person) for one in await driver.db.read(list_links())] == [
        (DISCORD, TELEGRAM),
        (SLACK, TELEGRAM),
    ]


async def test_a_person_may_have_a_name_of_its_own(driver):
    await link(driver, TELEGRAM, "ada")
    await link(driver, DISCORD, "ada")
    await driver.say("hello", who=TELEGRAM)
    await driver.say("hello", who=DISCORD)
    assert await spoken(driver) == ["ada", "ada"]


async def test_a_link_is_on_record_once_however_often_it_is_made(driver):
    request = linking(driver, DISCORD, TELEGRAM)
    first = await driver.db.write(link_principals(request))
    driver.clock.advance(1_000)
    assert await driver.db.write(link_principals(request)) == first
    assert await link(driver, DISCORD, TELEGRAM) == first
    (one,) = await driver.db.read(list_operations())
    assert (one.kind, one.outcome) == ("link", "done")
    assert (one.detail["principal"], one.detail["person"]) == (DISCORD, TELEGRAM)
    assert one.ended_at is not None


async def test_the_person_itself_has_no_link_to_take_back(driver):
    await link(driver, DISCORD, TELEGRAM)
    await link(driver, SLACK, TELEGRAM)
    assert await unlink(driver, TELEGRAM) is None
    for who in (TELEGRAM, DISCORD, SLACK):
        assert await kin(driver, who) == {TELEGRAM, DISCORD, SLACK}
    await unlink(driver, DISCORD)
    assert await kin(driver, TELEGRAM) == await kin(driver, SLACK) == {TELEGRAM, SLACK}


async def test_taking_a_link_back_ends_it_and_is_on_record(driver):
    await link(driver, DISCORD, TELEGRAM)
    gone = await unlink(driver, DISCORD)
    assert gone is not None
    assert (gone.principal, gone.person) == (DISCORD, TELEGRAM)
    assert await unlink(driver, DISCORD) is None
    await driver.say("hello", who=DISCORD)
    assert await spoken(driver) == [DISCORD]
    assert await kin(driver, DISCORD) == {DISCORD}
    assert list(await driver.db.read(list_links())) == []
    assert [one.kind for one in await driver.db.read(list_operations())] == ["link", "unlink"]


async def test_a_request_that_is_heard_again_after_it_was_taken_back_changes_nothing(driver, clock):
    """A process may be paused with a request for days while another one executes it."""
    request = linking(driver, DISCORD, TELEGRAM)
    made = await driver.db.write(link_principals(request))
    ended = OperationId(driver.id("op"))
    gone = await driver.db.write(unlink_principal(Principal(DISCORD), named="test", operation=ended))
    clock.advance(1_000)
    assert await driver.db.write(link_principals(request)) == made
    assert await kin(driver, DISCORD) == {DISCORD}, "the first request was over"
    again = await link(driver, DISCORD, TELEGRAM)
    assert await driver.db.write(unlink_principal(Principal(DISCORD), named="test", operation=ended)) == gone
    assert await kin(driver, DISCORD) == {DISCORD, TELEGRAM}, "the second link was not the one to take back"
    assert (made.at, gone.at, again.at) == (made.at, made.at, made.at + 1_000)


async def test_a_request_that_changed_nothing_changes_nothing_when_it_is_heard_again(driver):
    nothing = OperationId(driver.id("op"))
    assert await driver.db.write(unlink_principal(Principal(DISCORD), named="test", operation=nothing)) is None
    await link(driver, DISCORD, TELEGRAM)
    request = linking(driver, DISCORD, TELEGRAM)
    made = await driver.db.write(link_principals(request))
    assert await driver.db.write(unlink_principal(Principal(DISCORD), named="test", operation=nothing)) is None
    assert await kin(driver, DISCORD) == {DISCORD, TELEGRAM}
    await unlink(driver, DISCORD)
    assert await driver.db.write(link_principals(request)) == made
    assert await kin(driver, DISCORD) == {DISCORD}
    assert [one.kind for one in await driver.db.read(list_operations())] == ["link", "unlink"]


@pytest.mark.parametrize(
    ("principal", "person", "why"),
    [
        (DISCORD, SLACK, "linked to telegram:1 already"),  # two persons at once
        (TELEGRAM, DISCORD, "itself linked to telegram:1"),  # a cycle
        (SLACK, DISCORD, "link slack:T1.U3 to telegram:1 instead"),  # a chain
        (TELEGRAM, SLACK, "discord:22222 is linked to telegram:1"),  # a merge that would carry others along
    ],
)
async def test_an_ambiguous_link_is_refused_and_changes_nothing(driver, principal, person, why):
    await link(driver, DISCORD, TELEGRAM)
    with pytest.raises(IdentityConflict, match=why):
        await link(driver, principal, person)
    assert [(one.principal, one.person) for one in await driver.db.read(list_links())] == [(DISCORD, TELEGRAM)]
    assert await kin(driver, SLACK) == {SLACK}


async def test_a_principal_cannot_be_linked_to_itself(driver):
    with pytest.raises(IdentityConflict):
        linking(driver, DISCORD, DISCORD)


@pytest.mark.parametrize("ends", [("", TELEGRAM), (DISCORD, ""), (DISCORD, "tele\0gram")])
async def test_both_ends_of_a_link_have_a_name(driver, ends):
    with pytest.raises(InvalidName):
        linking(driver, *ends)


async def test_of_two_links_that_contradict_each_other_one_is_refused(driver):
    requests = [linking(driver, DISCORD, TELEGRAM), linking(driver, TELEGRAM, DISCORD)]
    outcomes = await asyncio.gather(*map(verb_on(driver.db, link_principals), requests), return_exceptions=True)
    assert [isinstance(one, IdentityConflict) for one in outcomes].count(True) == 1
    assert len(await driver.db.read(list_links())) == 1


async def test_a_message_that_comes_again_after_a_link_is_known(driver):
    await driver.say("hello", who=DISCORD, event="e1")
    await link(driver, DISCORD, TELEGRAM)
    assert isinstance(await driver.accept(driver.arrival("hello", who=DISCORD, event="e1")), Duplicate)
    assert isinstance(await driver.accept(driver.arrival("hello", who=TELEGRAM, event="e1")), Conflict)


async def test_a_person_resumes_what_any_of_their_principals_began(driver):
    await driver.talk("the boat is red", chat="phone", who=TELEGRAM)
    await driver.command("/title boats", chat="phone", who=TELEGRAM)
    await driver.talk("hi", chat="desk", who=DISCORD)
    refused = await driver.command("/resume boats", chat="desk", who=DISCORD)
    assert not refused.switched
    await link(driver, DISCORD, TELEGRAM)
    done = await driver.command("/resume boats", chat="desk", who=TELEGRAM)
    assert done.switched
    assert await driver.texts(done.session) == ["the boat is red", "re: the boat is red"]


async def test_what_was_begun_before_the_link_is_found_by_the_other_principals_too(driver):
    await driver.talk("the boat is red", chat="phone", who=TELEGRAM)
    await driver.command("/title boats", chat="phone", who=TELEGRAM)
    await link(driver, TELEGRAM, DISCORD)
    message = await driver.say("/resume boats", chat="desk", who=DISCORD)
    claim = await driver.claim("desk")
    done = await driver.db.write(run_command(claim, driver.command_run(message, "/resume boats", who=DISCORD)))
    assert done.switched


async def test_a_stranger_finds_nothing_of_a_linked_person(driver):
    await driver.talk("marmalade", chat="phone", who=TELEGRAM)
    await driver.command("/title boats", chat="phone", who=TELEGRAM)
    await link(driver, DISCORD, TELEGRAM)
    for wanted in ("boats", (await driver.db.read(list_sessions()))[0].id):
        done = await driver.command(f"/resume {wanted}", chat="theirs", who="telegram:2")
        assert not done.switched
        assert "marmalade" not in done.text
    await unlink(driver, DISCORD)
    done = await driver.command("/resume boats", chat="desk", who=DISCORD)
    assert not done.switched, "a link that was taken back shows nothing any more"


async def test_forgetting_a_person_covers_everybody_they_are(driver):
    await driver.talk("marmalade one", chat="phone", who=TELEGRAM)
    await driver.talk("marmalade two", chat="desk", who=DISCORD)
    await driver.talk("thyme stays", chat="garden", who=SLACK)
    await link(driver, DISCORD, TELEGRAM)
    await driver.talk("marmalade three", chat="desk", who=DISCORD)
    found = await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("forget_1"), person=DISCORD)))
    assert found.blanked["messages"] == 3
    assert await found_in(driver, "marmalade") == []
    assert await found_in(driver, "thyme") != []


@pytest.mark.parametrize("approvers", [(), ("ada",)], ids=["whoever asked", "somebody named"])
async def test_a_person_approves_with_any_of_their_accounts_and_no_other_person_does(driver, approvers):
    await waiting(driver, approvers=approvers)
    assert (await told(driver, "/approve K7M2QX", who=DISCORD)).startswith("Only")
    await link(driver, DISCORD, "ada")
    assert (await told(driver, "/approve K7M2QX", who=TELEGRAM)).startswith("Only")
    assert (await told(driver, "/approve K7M2QX", who=DISCORD)).startswith("Approved")


# --- addresses ---------------------------------------------------------------------------------------


def place(chat, *, type="group", thread=None, user=None, agent="fern", channel="telegram"):
    return Address(agent=AgentName(agent), channel=channel, type=type, chat=chat, thread=thread, user=user)


async def move(driver, old, new):
    return await driver.db.write(move_address(old, new, named="test", operation=OperationId(driver.id("op"))))


async def arrive(driver, address, text, *, who="telegram:1"):
    """One message at an address, as a platform sends it."""
    arrival = driver.arrival(text, chat=address.chat, who=who, channel=address.channel)
    moved = replace(arrival, address=address, conversation=f"{address.chat}/{address.thread}/{address.user}")
    return await driver.accept(moved)


async def box(driver, address):
    found = await driver.db.read(find_mailbox(str(address)))
    return found and found.mailbox


async def test_a_moved_address_leads_to_the_same_mailbox_and_the_old_one_still_does(driver):
    await arrive(driver, place("-1"), "hello")
    old = await box(driver, place("-1"))
    assert await move(driver, place("-1"), place("-1001")) == Moved(aliases=(str(place("-1001")),))
    assert await box(driver, place("-1001")) == await box(driver, place("-1")) == old
    await arrive(driver, place("-1001"), "and on")
    claim = await driver.db.write(claim_mailbox(driver.node))
    assert claim.address == str(place("-1")), "names at providers come from the first address"
    mail = await driver.db.read(read_mail(claim, limit=10))
    assert [item.text for item in mail.waiting] == ["hello", "and on"]


async def test_a_move_is_on_record_once_however_often_it_is_made(driver):
    await arrive(driver, place("-1"), "hello")
    await move(driver, place("-1"), place("-1001"))
    assert await move(driver, place("-1"), place("-1001")) == Moved()
    (one,) = await driver.db.read(list_operations())
    assert (one.kind, one.detail) == ("move", {"from": str(place("-1")), "to": str(place("-1001"))})


async def test_an_address_with_a_history_is_never_taken_over(driver):
    await arrive(driver, place("-1"), "hello")
    await arrive(driver, place("-1001"), "mail of its own")
    before = await box(driver, place("-1001"))
    with pytest.raises(AddressTaken):
        await move(driver, place("-1"), place("-1001"))
    assert await box(driver, place("-1001")) == before
    assert list(await driver.db.read(list_operations())) == []


async def test_an_address_that_only_waits_for_a_stranger_is_free(driver):
    await arrive(driver, place("-1"), "hello")
    await driver.db.write(ask_pairing(ask(driver)))
    theirs = parse((await driver.rows("select address from pairing"))[0][0])
    orphan = await box(driver, theirs)
    await move(driver, place("-1"), theirs)
    assert await box(driver, theirs) == await box(driver, place("-1")) != orphan
    assert await driver.rows("select id from mailbox where id = :id", id=orphan) == []
    assert [row[0] for row in await driver.rows("select mailbox from reply")] == [await box(driver, place("-1"))]


async def test_what_cannot_be_moved_is_said(driver):
    await arrive(driver, place("-1"), "hello")
    with pytest.raises(AddressNotFound):
        await move(driver, place("-2"), place("-3"))
    with pytest.raises(InvalidInput):
        await move(driver, place("-1"), place("-1"))
    with pytest.raises(InvalidInput):
        await move(driver, place("-1"), place("-1", agent="moss"))


def migration(driver, old="-1", new="-1001"):
    return ChatMove(
        agent=AgentName("fern"),
        channel="telegram",
        old_chat=old,
        new_type="group",
        new_chat=new,
        by="telegram itself",
        operation=OperationId(driver.id("op")),
    )


async def test_a_migrated_chat_takes_its_threads_and_users_with_it(driver):
    shapes = [{}, {"thread": "5"}, {"thread": "5", "user": "9"}, {"user": "9"}]
    for shape in shapes:
        await arrive(driver, place("-1", **shape), "hello")
    bystanders = [place("-10"), place("-1", channel="discord"), place("-1", agent="moss"), place("x", thread="-1")]
    for other in bystanders:
        await arrive(driver, other, "not me")
    moved = await driver.db.write(move_chat(migration(driver)))
    assert set(moved.aliases) == {str(place("-1001", **shape)) for shape in shapes}
    for shape in shapes:
        assert await box(driver, place("-1001", **shape)) == await box(driver, place("-1", **shape)) is not None
    (total,) = (await driver.rows("select count(*) from address"))[0]
    assert total == 2 * len(shapes) + len(bystanders)
    assert await driver.db.write(move_chat(migration(driver))) == Moved()
    assert [one.kind for one in await driver.db.read(list_operations())] == ["move"]


async def test_what_waits_is_answered_at_the_new_address_of_a_migrated_chat(driver):
    await arrive(driver, place("-1"), "hello")
    await driver.db.write(
        ask_pairing(ask(driver, CODE, who="telegram:-1"))
    )  # a notice to the old address, not sent yet
    await driver.write("update reply set address = :address", address=str(place("-1")))
    await driver.db.write(move_chat(migration(driver)))
    claim = await driver.db.write(claim_mailbox(driver.node))
    turn = await driver.open(claim)
    await driver.answer(claim, turn)
    sent = await driver.rows("select distinct address from reply")
    assert sent == [(str(place("-1001")),)]


async def test_a_reply_that_was_sent_stays_at_the_address_where_it_is(driver):
    await arrive(driver, place("-1"), "hello")
    claim = await driver.db.write(claim_mailbox(driver.node))
    await driver.answer(claim, await driver.open(claim))
    await driver.write("update reply set state = 'delivered'")
    await driver.db.write(move_chat(migration(driver)))
    assert await driver.rows("select address from reply") == [(str(place("-1")),)]


def test_a_move_of_a_chat_without_a_name_is_refused_before_anything_is_asked():
    with pytest.raises(InvalidName):
        ChatMove(
            agent=AgentName("fern"),
            channel="telegram",
            old_chat="",
            new_type="group",
            new_chat="-1",
            by="telegram itself",
            operation=OperationId("op_1"),
        )


async def test_a_message_of_the_old_chat_that_arrives_after_the_move_is_answered_at_the_new_address(driver):
    """A process that was cut off fetches it later than another one heard of the move."""
    await arrive(driver, place("-1"), "hello")
    await driver.db.write(move_chat(migration(driver)))
    await arrive(driver, place("-1"), "late")
    addresses = "select distinct address from inbound"
    assert await driver.rows(addresses) == [(str(place("-1001")),)]
    await driver.db.write(move_chat(migration(driver, old="-1001", new="-2")))
    await driver.db.write(move_chat(migration(driver)))  # reported again
    await arrive(driver, place("-1"), "later")
    await arrive(driver, place("-1001"), "later still")
    assert await driver.rows(addresses) == [(str(place("-2")),)]
    await driver.db.write(move_chat(migration(driver, old="-2", new="-1001")))  # and back
    for chat in ("-1", "-2", "-1001"):
        await arrive(driver, place(chat), f"now at {chat}")
    assert await driver.rows(addresses) == [(str(place("-1001")),)]


async def test_a_part_of_a_chat_that_was_used_already_stays_and_is_named(driver):
    await arrive(driver, place("-1"), "hello")
    await arrive(driver, place("-1", thread="5"), "hello")
    await arrive(driver, place("-1001", thread="5"), "too early")
    moved = await driver.db.write(move_chat(migration(driver)))
    assert moved.aliases == (str(place("-1001")),)
    assert moved.refused == (str(place("-1001", thread="5")),)


async def test_the_name_of_a_chat_is_no_pattern(driver):
    await arrive(driver, place("a_b%c"), "hello")
    await arrive(driver, place("axb%25c"), "not me")
    await arrive(driver, place("A_B%C"), "nor me")
    moved = await driver.db.write(move_chat(migration(driver, old="a_b%c", new="new")))
    assert moved.aliases == (str(place("new")),)


async def test_mail_that_arrives_during_a_move_is_in_the_mailbox_that_its_address_leads_to(driver):
    await arrive(driver, place("-1"), "hello")
    await driver.db.write(ask_pairing(ask(driver)))
    theirs = parse((await driver.rows("select address from pairing"))[0][0])
    outcomes = await asyncio.gather(
        move(driver, place("-1"), theirs), *(arrive(driver, theirs, f"m{n}") for n in range(3)), return_exceptions=True
    )
    assert all(not isinstance(one, Exception) or isinstance(one, AddressTaken) for one in outcomes)
    homes = await driver.rows(
        """select inbound.message from inbound join address on address.address = inbound.address
            where address.mailbox_id <> inbound.mailbox"""
    )
    assert homes == []
