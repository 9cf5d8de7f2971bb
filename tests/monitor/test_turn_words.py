"""The words of a turn are found beside the steps that they belong to, on each engine, however long the session is."""

from holdfast.kernel.ids import Instant, MessageId
from holdfast.monitor.timeline import timeline
from holdfast.monitor.timeline_step import TimelineStep
from holdfast.monitor.trace_sql import read_trace
from holdfast.monitor.turn_words import PAYLOAD_CHARS_MAX, TurnWords, payloads
from holdfast.monitor.turn_words_sql import read_words
from holdfast.turns.journal import AssistantSaid, Entry, ToolCall, ToolReturned
from tests.monitor.stories import STORIES, Story


async def told(driver, name):
    message = await STORIES[name](Story(driver))
    steps = timeline(await driver.db.read(read_trace(message))).steps
    words = await driver.db.read(read_words(message))
    found = payloads(steps, words)
    return words, {steps[n].what: [(one.title, one.text) for one in some] for n, some in found.items()}


async def test_an_answer_stands_at_the_step_of_its_model(driver):
    words, found = await told(driver, "answered_over_http")
    assert words.message == "Where is order B-1077?"
    assert found == {"claude-sonnet-5 answered": [("what it said", "It left yesterday.")]}


async def test_a_call_and_its_arguments_stand_at_their_steps(driver):
    _, found = await told(driver, "approved")
    asked = next(some for what, some in found.items() if what.endswith("called tools"))
    assert asked == [("it asked for lookup_order", '{"order": "B-1077"}')]


async def test_forgotten_words_are_gone_and_an_unknown_message_has_none(driver):
    words, found = await told(driver, "forgotten")
    assert (words.message, found) == ("", {})
    assert await driver.db.read(read_words(MessageId("msg_0"))) == TurnWords(message="")


async def test_entries_of_other_turns_are_not_read(driver):
    for text in ("one", "two", "three"):
        turn = await driver.talk(text)
    found = await driver.db.read(read_words(turn.messages[0]))
    assert found.message == "three"
    assert len({entry.turn for entry in found.entries}) == 1


def test_equal_tools_are_told_apart_by_their_order_and_long_results_are_cut():
    calls = tuple(ToolCall(id=f"c{n}", name="look", arguments=f'{{"n": {n}}}') for n in (1, 2))
    long = "x" * (PAYLOAD_CHARS_MAX + 7)
    bodies: tuple[AssistantSaid | ToolReturned, ...] = (
        AssistantSaid(text="", calls=calls),
        ToolReturned(call="c1", name="look", text="first"),
        ToolReturned(call="c2", name="look", text=long),
    )
    entries = [Entry(seq=n, turn=1, body=body, tokens=0, at=Instant(n)) for n, body in enumerate(bodies)]
    steps = [TimelineStep(at=Instant(n), kind="tool", what="look", name="look") for n in (1, 2)]
    found = payloads(steps, TurnWords(message="", entries=entries))
    assert [(one.title, one.text) for one in found[0]] == [("arguments", '{"n": 1}'), ("what it returned", "first")]
    assert (found[1][1].cut, len(found[1][1].text)) == (7, PAYLOAD_CHARS_MAX)
