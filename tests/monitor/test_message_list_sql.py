"""The promise: any message can be found by what a person knows of it, newest first, page by page, at a bounded cost.

Rules: R40.
"""

import pytest

from holdfast.inbox.accept_sql import accept_message
from holdfast.inbox.message import Limits
from holdfast.kernel.ids import MessageId
from holdfast.kernel.ports import make_id
from holdfast.monitor import message_list_sql
from holdfast.monitor.message_list import MessageFilter
from holdfast.monitor.message_list_sql import list_messages, read_listed
from holdfast.monitor.message_outcome_sql import read_outcomes
from holdfast.monitor.trace_sql import FOUND_MAX, find_messages, near_messages
from tests.monitor.stories import Story, answered_with_an_uncertain_reply, approved, parked_at_one_provider
from tests.support.driver import SECRET, retain


async def texts(driver, *, limit=50, before="", **wanted):
    page = await driver.db.read(list_messages(MessageFilter(**wanted), before=before, limit=limit))
    return [one.text for one in page.messages]


async def test_messages_are_listed_newest_first_with_where_they_stand(driver):
    await driver.talk("my cat is called Byron", who="ada", event="e1")
    driver.clock.advance(1_000)
    await driver.say("hello\nthere " + "x" * 300, chat="den", who="bob")
    newest, oldest = (await driver.db.read(list_messages(MessageFilter()))).messages
    assert (oldest.agent, oldest.chat, oldest.sender, oldest.event_id) == ("fern", "home", "ada", "e1")
    assert (oldest.state, oldest.turn, oldest.text) == ("answered", 1, "my cat is called Byron")
    assert (newest.state, newest.session, newest.accepted_at) == ("waiting", None, oldest.accepted_at + 1_000)
    assert newest.text.startswith("hello there xxx")
    assert len(newest.text) == 160


async def test_each_filter_finds_its_messages(driver):
    await driver.talk("my cat is called Byron", who="ada", event="own 17")
    await driver.say("Mein Kater heißt Groß", chat="den", who="bob")
    await driver.say("hello", agent="moss", who="ada")
    assert await texts(driver, agent="moss") == ["hello"]
    assert await texts(driver, chat="den") == ["Mein Kater heißt Groß"]
    assert await texts(driver, sender="ada") == ["hello", "my cat is called Byron"]
    assert await texts(driver, state="waiting") == ["hello", "Mein Kater heißt Groß"]
    assert await texts(driver, state="answered") == ["my cat is called Byron"]
    assert await texts(driver, text="KATER HEISST gross") == ["Mein Kater heißt Groß"]
    assert await texts(driver, own_id="own") == ["my cat is called Byron"]
    assert await texts(driver, sender="ada", text="cat") == ["my cat is called Byron"]
    assert await texts(driver, sender="bob", text="cat") == []


async def at(driver, now, text):
    arrival = driver.arrival(text)
    driver.clock.jump_to(now)
    message = MessageId(make_id("msg", now, len(text)))
    made = type(arrival)(**{**{name: getattr(arrival, name) for name in arrival.__slots__}, "message": message})
    await driver.db.write(accept_message(made, Limits(), SECRET))


async def test_times_bound_a_list_also_where_another_clock_made_the_ids(driver):
    start = driver.clock.now()
    for minute in range(6):
        await at(driver, start + minute * 60_000, f"minute {minute}")
    assert await texts(driver, since=start + 4 * 60_000) == ["minute 5", "minute 4"]
    assert await texts(driver, until=start + 60_000) == ["minute 1", "minute 0"]
    assert await texts(driver, since=start + 60_000, until=start + 2 * 60_000) == ["minute 2", "minute 1"]


@pytest.mark.parametrize("chunk", [1, 3, 200])
async def test_pages_go_on_where_the_last_one_ended(driver, monkeypatch, chunk):
    monkeypatch.setattr(message_list_sql, "CHUNK_MIN", chunk)
    monkeypatch.setattr(message_list_sql, "CHUNK_MAX", chunk)
    for n in range(10):
        await driver.say(f"{'even' if n % 2 == 0 else 'odd'} {n}")
    found, before = [], ""
    while True:
        page = await driver.db.read(list_messages(MessageFilter(text="even"), before=before, limit=2))
        found += [one.text for one in page.messages]
        if page.next is None:
            break
        before = page.next
    assert found == ["even 8", "even 6", "even 4", "even 2", "even 0"]


async def test_a_search_that_finds_nothing_stops_and_says_how_far_it_looked(driver, monkeypatch):
    monkeypatch.setattr(message_list_sql, "CHUNK_MIN", 2)
    monkeypatch.setattr(message_list_sql, "SCANNED_MAX", 4)
    monkeypatch.setattr(message_list_sql, "CHUNK_MAX", 2)
    times = []
    for n in range(10):
        times.append(driver.clock.now())
        await driver.say(f"{n}")
        driver.clock.advance(1_000)
    page = await driver.db.read(list_messages(MessageFilter(text="nowhere")))
    assert page.messages == []
    assert page.searched_back_to == times[6]
    assert page.next is not None
    again = await driver.db.read(list_messages(MessageFilter(text="nowhere"), before=page.next))
    assert again.searched_back_to == times[2]


async def test_any_id_leads_to_its_message(driver):
    driver.policies = (retain(),)
    message = await driver.say("hello", event="my own id")
    claim = await driver.claim()
    turn = await driver.open(claim)
    await driver.answer(claim, turn)
    for wanted in (message, message[:-1], "my own id", "rep_000005", f"{turn.session}:1", f"mem:{turn.session}:1"):
        assert await driver.db.read(find_messages(wanted)) == [message], wanted
    for wanted in ("msg_x", "rep_000099", f"{turn.session}:2", "mem:nowhere:1", "a:b:c", "", "nothing"):
        assert await driver.db.read(find_messages(wanted)) == [], wanted


async def test_an_ambiguous_beginning_finds_all_of_them_and_a_wrong_id_its_neighbours(driver):
    messages = [await driver.say(text) for text in "abc"]
    assert await driver.db.read(find_messages("msg_0000")) == messages
    assert await driver.db.read(near_messages("msg_000004x")) == [messages[0], *messages[1:]]


async def test_an_own_id_that_very_many_chats_used_is_found_by_its_chat(driver):
    messages = [await driver.say("hello", chat=f"chat{n}", event="1") for n in range(FOUND_MAX + 5)]
    assert len(await driver.db.read(find_messages("1"))) == FOUND_MAX
    assert await driver.db.read(find_messages("1", chat="chat0")) == messages[:1]
    assert await driver.db.read(find_messages("1", agent="fern", chat="chat1")) == messages[1:2]
    assert await driver.db.read(find_messages("1", agent="moss")) == []


async def test_one_own_id_in_two_chats_finds_both_the_newest_first(driver):
    first = await driver.say("hello", chat="home", event="1")
    second = await driver.say("hello", chat="den", event="1")
    assert await driver.db.read(find_messages("1")) == [second, first]


async def test_ids_that_others_made_lead_to_the_message(driver):
    for told in (answered_with_an_uncertain_reply, parked_at_one_provider):
        story = Story(driver)
        message = await told(story)
        ids = {"answered_with_an_uncertain_reply": ("881",), "parked_at_one_provider": ("row 7", "req_12")}
        for wanted in ids[told.__name__]:
            assert await driver.db.read(find_messages(wanted)) == [message], wanted
    story = Story(driver)
    message = await approved(story)
    assert await driver.db.read(find_messages("call_1")) == [message]
    assert await driver.db.read(find_messages("row 8")) == []


async def test_a_session_leads_to_its_messages_and_its_turns_to_theirs(driver):
    await driver.talk("one")
    await driver.talk("two")
    second, first = (await driver.db.read(list_messages(MessageFilter()))).messages
    found = await driver.db.read(find_messages(first.session))
    assert found == [second.message, first.message]
    assert await driver.db.read(find_messages(f"{first.session}/1")) == [first.message]
    listed = await driver.db.read(read_listed([*found, MessageId("msg_unknown")]))
    assert [one.text for one in listed] == ["two", "one"]


async def test_a_mistyped_own_id_finds_its_neighbours(driver):
    messages = [await driver.say("hello", event=event) for event in ("order 17", "order 19")]
    assert await driver.db.read(near_messages("order 18")) == messages


async def test_a_page_of_messages_is_told_with_its_replies_and_the_ends_of_its_turns(driver):
    turn = await driver.talk("one", channel="telegram")
    driver.clock.advance(1_000)
    waiting = await driver.say("two")
    found = await driver.db.read(read_outcomes([turn.messages[0], waiting, "msg_0"]))
    assert {one: (told.reply, told.closed_at) for one, told in found.items()} == {
        turn.messages[0]: ("pending", driver.clock.now() - 1_000),
        waiting: (None, None),
    }
    assert await driver.db.read(read_outcomes([])) == {}
