"""The practice model is deterministic and honest, and good enough that demos and tests mean something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.practice import PracticeModel
from holdfast.turns.context import ModelMessage, summary_request
from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelAnswer, ModelRequest, ModelTask, TextDelta, ToolSpec
from tests.support.journals import exchange, line, summary

CLOCK = ToolSpec(name="clock", description="The time.", parameters={})
messages = st.lists(
    st.builds(
        ModelMessage,
        role=st.sampled_from(["system", "user", "assistant", "tool"]),
        content=st.text(max_size=60) | st.sampled_from(["my cat is called Byron", "use clock {}", "what?"]),
    ),
    max_size=8,
).map(tuple)


def user(text: str) -> ModelMessage:
    return ModelMessage(role="user", content=text)


async def ask(*said: ModelMessage, tools: tuple[ToolSpec, ...] = (), task: ModelTask = ModelTask.REPLY) -> ModelAnswer:
    events = [event async for event in PracticeModel().ask(ModelRequest(task=task, messages=said, tools=tools))]
    *deltas, answer = events
    assert isinstance(answer, ModelAnswer)
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == answer.text
    return answer


@given(messages, st.sampled_from(ModelTask))
async def test_the_same_request_gets_the_same_answer_and_always_one_that_can_be_used(said, task):
    first = await ask(*said, tools=(CLOCK,), task=task)
    assert first == await ask(*said, tools=(CLOCK,), task=task)
    assert first.text.strip() or first.calls


async def test_it_remembers_what_it_is_told():
    assert (await ask(user("My cat is called Byron."))).text == "Noted: My cat is called Byron."
    known = (user("my cat is called Byron"), user("my dog is called Rex"))
    assert "Byron" in (await ask(*known, user("what is my cat called?"))).text
    assert "Rex" in (await ask(*known, user("what is my dog called?"))).text


async def test_the_newest_of_two_contradicting_facts_counts():
    said = (user("my cat is called Byron"), user("my cat is called Keats"), user("what is my cat called?"))
    assert "Keats" in (await ask(*said)).text


async def test_it_answers_from_a_summary_and_from_recall():
    for known in ("Summary of the earlier conversation:\n- my cat is called Byron", "You know: my cat is called Byron"):
        answer = await ask(ModelMessage(role="system", content=known), user("what is my cat called?"))
        assert "Byron" in answer.text


async def test_what_it_does_not_know_it_says():
    answer = await ask(user("my cat is called Byron"), user("where does the president live?"))
    assert answer.text == "I do not know that; nothing in our conversation says so."


async def test_it_says_that_it_is_a_stand_in():
    assert "practice model" in (await ask(user("good morning"))).text


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("use clock", "{}"),
        ("use clock {}", "{}"),
        ('USE clock {"zone": "UTC"}\n', '{"zone": "UTC"}'),
        ("use clock{}", "{}"),
        ("ada: use clock", "{}"),
        ("Ada (telegram:1): use clock {}", "{}"),
    ],
)
async def test_it_calls_a_tool_when_asked_to(text, arguments):
    answer = await ask(user(text), tools=(CLOCK,))
    assert answer.text == ""
    assert answer.calls == (ToolCall(id="call_1", name="clock", arguments=arguments),)


async def test_it_answers_with_what_the_tool_said():
    said = (user("use clock"), ModelMessage(role="assistant", content=""))
    result = ModelMessage(role="tool", name="clock", content="noon", call="call_1")
    assert (await ask(*said, result, tools=(CLOCK,))).text == "The tool clock answered: noon"


async def test_what_a_tool_looked_up_is_answered_and_not_looked_up_again():
    said = (user("use clock"), ModelMessage(role="assistant", content=""))
    result = ModelMessage(role="tool", name="clock", content="see below", call="call_1")
    data = ModelMessage(role="user", content="<recalled-memory>noon</recalled-memory>", data="recall")
    answer = await ask(*said, result, data, tools=(CLOCK,))
    assert (answer.calls, "noon" in answer.text) == ((), True)


async def test_a_tool_it_does_not_have_is_not_called():
    assert (await ask(user("use hammer"), tools=(CLOCK,))).text == "There is no tool hammer; I have: clock."


async def test_a_summary_keeps_every_fact_through_six_compressions():
    facts = [f"my pet number {n} is called Pet{n}" for n in range(6)]
    text = ""
    for fact in facts:
        request = summary_request(summary(text) if text else None, line(*exchange(1, fact, "noted")))
        text = (await ask(*request, task=ModelTask.SUMMARY)).text
    assert text.splitlines() == [f"- {fact}" for fact in facts]
    shown = ModelMessage(role="system", content=text)
    assert "Pet3" in (await ask(shown, user("what is my pet number 3 called?"))).text


async def test_a_summary_says_each_fact_once():
    said = line(*exchange(1, "my cat is called Byron"), *exchange(2, "my cat is called Byron"))
    assert (await ask(*summary_request(None, said), task=ModelTask.SUMMARY)).text == "- my cat is called Byron"


async def test_it_reports_what_a_request_cost():
    small, large = await ask(user("hello")), await ask(user("hello" * 100))
    assert 0 < small.usage.tokens_in < large.usage.tokens_in
    assert small.usage.tokens_out > 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "my" + " " * 256_000 + "y",
        "use x" + " " * 256_000 + "y",
        "my " * 85_000,
        "use x " + "{" * 256_000,
        ". " * 128_000,
    ],
    ids=["my", "use", "my my", "use {", ". ."],
)
async def test_the_largest_message_is_answered_in_no_time(text):
    """The model runs on the event loop: a slow answer to one person would stop everybody's turns."""
    assert (await ask(user(text), tools=(CLOCK,))).text
