"""An attachment is stored once by its hash and is deleted with the last message that brought it. The read position of a
conversation only grows, so a channel that was away asks for the messages it missed and for no others (D2).
"""

import hashlib
from dataclasses import replace

import pytest

from holdfast.inbox.attachment_sql import (
    count_attachment_bytes,
    find_attachment,
    list_attachments,
    note_position,
    read_attachment,
    read_positions,
)
from holdfast.inbox.mailbox_sql import read_mail, release_claim
from holdfast.inbox.message import Accepted, Conflict, Duplicate, Enclosure, Limits, MailboxFull
from holdfast.kernel.ids import AgentName, ForgetId, Principal
from holdfast.memory.forget import ForgetRequest
from holdfast.memory.forget_sql import begin_forgetting
from holdfast.sessions.history_sql import trace_message
from holdfast.store.upkeep_sql import prune_messages
from tests.support.driver import SECRET


def enclosure(body=b"a picture", name="cat.png"):
    return Enclosure(hash=hashlib.sha256(body).hexdigest(), name=name, media_type="image/png", body=body)


async def bring(driver, *enclosures, who="ada", **options):
    arrival = replace(driver.arrival("look", who=who, **options), enclosures=enclosures)
    assert isinstance(await driver.accept(arrival), Accepted)
    return arrival.message


async def kept(driver):
    return [bytes(row[0]) for row in await driver.rows("select body from attachment order by body")]


async def test_what_came_with_a_message_is_found_by_it(driver):
    one, two = enclosure(), enclosure(b"another", "dog.png")
    message = await bring(driver, one, two)
    found = await driver.db.read(list_attachments(message))
    assert [(item.n, item.hash, item.name, item.media_type, item.size) for item in found] == [
        (0, one.hash, "cat.png", "image/png", 9),
        (1, two.hash, "dog.png", "image/png", 7),
    ]
    assert await driver.db.read(read_attachment(one.hash)) == b"a picture"
    assert await driver.db.read(read_attachment("0" * 64)) is None


async def test_bytes_are_found_where_an_agent_was_sent_them_under_the_newest_name(driver):
    one = enclosure()
    await bring(driver, one)
    driver.clock.advance(5)
    await bring(driver, replace(one, name="later.png"), chat="away")
    await bring(driver, enclosure(b"of another"), agent="moss")
    assert (await driver.db.read(find_attachment(one.hash))).name == "later.png"
    assert (await driver.db.read(find_attachment(one.hash, agent="fern"))).size == 9
    assert await driver.db.read(find_attachment(one.hash, agent="moss")) is None
    assert await driver.db.read(find_attachment("0" * 64)) is None
    assert await driver.db.read(count_attachment_bytes(AgentName("fern"))) == 9, "each once"
    assert await driver.db.read(count_attachment_bytes(AgentName("moss"))) == 10
    assert await driver.db.read(count_attachment_bytes(AgentName("nobody"))) == 0


async def test_a_trace_names_what_came_with_a_message(driver):
    message = await bring(driver, enclosure(), enclosure(b"another", "dog.png"))
    assert (await driver.db.read(trace_message(message))).enclosures == tuple(
        await driver.db.read(list_attachments(message))
    )
    assert (await driver.db.read(trace_message(await driver.say("nothing")))).enclosures == ()


async def test_the_same_bytes_are_kept_once_and_a_repeated_event_brings_nothing(driver):
    first = replace(driver.arrival("look", event="e1"), enclosures=(enclosure(),))
    await driver.accept(first)
    assert isinstance(await driver.accept(replace(first, message="msg_again")), Duplicate)
    await bring(driver, enclosure(name="copy.png"))
    assert await kept(driver) == [b"a picture"]
    assert len(await driver.rows("select 1 from enclosure")) == 2


async def test_bytes_go_with_the_last_message_that_brought_them(driver):
    await bring(driver, enclosure(), enclosure(b"mine alone"), who="ada")
    await bring(driver, enclosure(), who="bob", chat="away")
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), person=Principal("ada"))))
    assert await kept(driver) == [b"a picture"]
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f2"), person=Principal("bob"))))
    assert await kept(driver) == []
    assert await driver.rows("select 1 from enclosure") == []


async def test_when_one_agent_forgets_a_person_another_agent_keeps_what_they_brought(driver):
    await bring(driver, enclosure(b"for fern"))
    await bring(driver, enclosure(b"for moss"), agent="moss", chat="den")
    request = ForgetRequest(id=ForgetId("f1"), person=Principal("ada"), agent=AgentName("fern"))
    await driver.db.write(begin_forgetting(request))
    assert await kept(driver) == [b"for moss"]


async def test_deleting_a_session_deletes_what_came_with_its_messages(driver):
    await bring(driver, enclosure())
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(release_claim(claim))
    await bring(driver, enclosure(b"elsewhere"), chat="away")
    await driver.delete()
    assert await kept(driver) == [b"elsewhere"]


async def test_what_came_with_a_message_is_pruned_with_it(driver):
    await bring(driver, enclosure())
    claim = await driver.claim()
    await driver.answer(claim, await driver.open(claim))
    await bring(driver, enclosure(b"still waiting"), chat="away")
    driver.clock.advance(10)
    assert await driver.db.write(prune_messages(older_than_ms=5, limit=10, secret=SECRET)) == 1
    assert await kept(driver) == [b"still waiting"]


async def test_what_came_with_a_message_that_is_answered_and_not_old_is_kept(driver):
    for n, chat in enumerate(("old", "young")):
        await bring(driver, enclosure(b"of both"), enclosure(f"of {chat}".encode()), chat=chat)
        claim = await driver.claim(chat)
        await driver.answer(claim, await driver.open(claim))
        driver.clock.advance(10 * (1 - n))
    assert await driver.db.write(prune_messages(older_than_ms=5, limit=10, secret=SECRET)) == 1
    assert await kept(driver) == [b"of both", b"of young"]
    assert [one.name for one in await driver.db.read(list_attachments((await left(driver))[0]))] == [
        "cat.png",
        "cat.png",
    ]


async def test_pruning_takes_everything_that_came_with_each_message(driver):
    for n in range(2):
        await bring(driver, *(enclosure(f"{n} {m}".encode()) for m in range(3)), chat=f"c{n}")
        claim = await driver.claim(f"c{n}")
        await driver.answer(claim, await driver.open(claim))
    driver.clock.advance(10)
    assert await driver.db.write(prune_messages(older_than_ms=5, limit=2, secret=SECRET)) == 2
    assert await kept(driver) == []
    assert await driver.rows("select 1 from enclosure") == []


async def left(driver):
    return [row[0] for row in await driver.rows("select message from inbound")]


async def test_a_conversation_is_read_up_to_the_newest_event_that_was_dealt_with(driver):
    for position in (5, 9, 7):
        await driver.accept(
            replace(driver.arrival(f"at {position}", event=str(position), account="bot"), position=position)
        )
    await driver.db.write(note_position("bot", "away", 3, "3"))
    await driver.db.write(note_position("bot", "away", 2, "2"))
    await driver.db.write(note_position("another", "home", 90, "90"))
    assert await driver.db.read(read_positions("bot")) == {"home": (9, "9"), "away": (3, "3")}
    assert await driver.db.read(read_positions("nobody")) == {}


@pytest.mark.parametrize("kind", ["duplicate", "conflict", "refused"])
async def test_an_event_that_is_not_taken_was_read_all_the_same(driver, kind):
    await driver.accept(driver.arrival("hello", event="e1", account="bot"))
    text = "other" if kind == "conflict" else "hello"
    event = "e2" if kind == "refused" else "e1"
    limits = Limits(mailbox_depth_max=1) if kind == "refused" else Limits()
    arrival = replace(driver.arrival(text, event=event, account="bot", refuse_durably=True), position=4)
    assert isinstance(await driver.accept(arrival, limits), Duplicate | Conflict | MailboxFull)
    assert await driver.db.read(read_positions("bot")) == {"home": (4, event)}


async def test_a_platforms_name_goes_with_its_owner(driver):
    arrival = replace(driver.arrival("hi", who="ada"), sender_name="Ada Lovelace")
    await driver.accept(arrival)
    claim = await driver.claim()
    assert (await driver.db.read(read_mail(claim, limit=1))).waiting[0].name == "Ada Lovelace"
    await driver.answer(claim, await driver.open(claim))
    await driver.db.write(begin_forgetting(ForgetRequest(id=ForgetId("f1"), person=Principal("ada"))))
    assert await driver.rows("select sender_name from inbound") == [(None,)]
    assert not [row for row in await driver.rows("select body from entry") if b"Lovelace" in bytes(row[0])]
