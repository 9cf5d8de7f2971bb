"""What a vendor streams becomes one answer, and what we send is what the journal holds: through the real clients."""

import json

import pytest

from holdfast.turns.journal import ToolCall
from holdfast.turns.model import ModelTask
from holdfast.turns.turn import Usage
from tests.support.model_asking import LOOK, answer_to, ask, call, model_at, request, said
from tests.support.model_vendor import (
    KEY,
    FakeVendor,
    chat,
    chat_calls,
    claude,
    delta,
    responses,
    streams,
)

WORDS = ("Grüße ", "aus ", "Köln 🦊")
STREAMS = {"openai": chat(*WORDS), "anthropic": claude(*WORDS), "ollama": chat(*WORDS)}


@pytest.mark.parametrize("kind", list(STREAMS))
async def test_the_pieces_add_up_to_the_answer_and_its_usage_is_counted(kind):
    heard: list[str] = []
    async with FakeVendor([streams(STREAMS[kind])]) as vendor, model_at(vendor, kind) as model:
        answer = await ask(model, heard=heard)
        assert (answer.text, answer.model) == ("".join(WORDS), model.name)
    assert "".join(heard) == answer.text
    assert len(heard) >= len(WORDS)
    assert answer.usage.tokens_out == 5
    assert answer.usage.tokens_in == (15 if kind == "anthropic" else 12), "cache reads are input too"


async def test_openai_itself_is_asked_through_the_responses_api_and_keeps_nothing():
    async with FakeVendor([streams(responses(*WORDS))]) as vendor:
        async with model_at(vendor, name="openai-responses:gpt-5.2") as model:
            answer = await ask(model)
        assert vendor.asked[0].path == "/v1/responses"
        assert vendor.asked[0].json["store"] is False
    assert (answer.text, answer.usage) == ("".join(WORDS), Usage(tokens_in=12, tokens_out=5))


async def test_a_character_that_is_split_over_two_chunks_arrives_whole():
    raw = b"".join(chat("a 🦊 b"))
    at = raw.index("🦊".encode()) + 2
    answer = await answer_to(streams([raw[:at], raw[at : at + 1], raw[at + 1 :]]))
    assert answer.text == "a 🦊 b"


async def test_tool_calls_arrive_in_pieces_and_are_put_together():
    calls = chat_calls(("c1", "look", ['{"wh', 'at": "ö', '"}']), ("c2", "look", ['{"what": "b"}']))
    answer = await answer_to(streams(calls), asked=request(tools=(LOOK,)))
    assert answer.calls == (
        ToolCall(id="c1", name="look", arguments='{"what": "ö"}'),
        ToolCall(id="c2", name="look", arguments='{"what": "b"}'),
    )


async def test_words_and_a_call_of_one_answer_are_both_kept():
    told = claude("Let me look.", reason="tool_use", call=("c1", "look", ['{"what"', ': "b"}']))
    answer = await answer_to(streams(told), kind="anthropic", asked=request(tools=(LOOK,)))
    assert answer.text == "Let me look."
    (made,) = answer.calls
    assert (made.id, made.name, json.loads(made.arguments)) == ("c1", "look", {"what": "b"})


async def test_a_call_without_arguments_has_an_empty_object():
    answer = await answer_to(streams(chat_calls(("c1", "look", [""]))), asked=request(tools=(LOOK,)))
    assert answer.calls[0].arguments == "{}"


async def test_missing_usage_counts_no_tokens_and_is_estimated_for_the_cost():
    answer = await answer_to(
        streams(chat("word " * 100, counts=None)), input_usd_per_million=1.0, output_usd_per_million=1.0
    )
    assert answer.usage == Usage()
    assert answer.cost_micros is not None
    assert answer.cost_micros >= 100


async def test_counts_that_do_not_add_up_cost_no_answer_and_are_priced_as_if_nothing_was_cached():
    odd = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    plain = await answer_to(streams(chat("well", counts={**odd, "prompt_tokens": 300})))
    answer = await answer_to(streams(chat("well", counts={**odd, "prompt_tokens_details": {"cached_tokens": 300}})))
    assert answer.text == "well"
    assert plain.cost_micros
    assert answer.cost_micros == plain.cost_micros


# --- what is sent ----------------------------------------------------------------------------------

TALK = (
    said("system", "You are Fern."),
    said("user", "Notes: the garden is wet.", data="notes"),
    said("user", "Summary of the earlier conversation: Byron is a cat.", data="summary"),
    said("user", "telegram:1: what is up?"),
    said("assistant", "Let me look.", calls=(call("c1", "look", '{"what": "sky"}'),)),
    said("tool", "blue", call="c1", name="look"),
    said("user", "What memory says: it was grey.", data="recall"),
    said("assistant", "The sky is blue."),
    said("user", "[not addressed to you] telegram:2: hm"),
    said("user", "and now?"),
)
LATER = (said("system", "What memory says: it rains."), said("assistant", "It rains."), said("user", "thanks"))


async def bodies_of(kind, told, *talks):
    async with FakeVendor([streams(told)]) as vendor, model_at(vendor, kind) as model:
        for talk in talks:
            await ask(model, request(*talk, tools=(LOOK,)))
        return [asked.json for asked in vendor.asked], vendor.asked


async def test_openai_is_sent_every_role_at_its_place():
    ((body,), (asked,)) = await bodies_of("openai", chat("ok"), TALK)
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    told = [(one["role"], one.get("content"), one.get("tool_call_id")) for one in body["messages"]]
    assert told == [
        ("system", "You are Fern.", None),
        ("user", "Notes: the garden is wet.", None),
        ("user", "Summary of the earlier conversation: Byron is a cat.", None),
        ("user", "telegram:1: what is up?", None),
        ("assistant", "Let me look.", None),
        ("tool", "blue", "c1"),
        ("user", "What memory says: it was grey.", None),
        ("assistant", "The sky is blue.", None),
        ("user", "[not addressed to you] telegram:2: hm", None),
        ("user", "and now?", None),
    ]
    (made,) = body["messages"][4]["tool_calls"]
    assert (made["id"], made["function"]["name"]) == ("c1", "look")
    assert json.loads(made["function"]["arguments"]) == {"what": "sky"}
    assert body["tools"][0]["function"]["name"] == "look"


async def test_anthropic_is_sent_every_role_at_its_place_and_told_what_to_cache():
    ((body,), (asked,)) = await bodies_of("anthropic", claude("ok"), TALK)
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    system = json.dumps(body["system"])
    assert "You are Fern." in system
    assert not any(words in system for words in ("Byron", "garden", "grey")), "people's words are no system text"
    assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    use = next(block for block in body["messages"][1]["content"] if block["type"] == "tool_use")
    assert (use["id"], use["name"], use["input"]) == ("c1", "look", {"what": "sky"})
    (result,) = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]
    assert result["tool_use_id"] == "c1"
    assert "cache_control" in json.dumps(body)


OLDER = "anthropic:claude-sonnet-5"  # takes no notices between messages; they are put into a person's words


@pytest.mark.parametrize(("kind", "told"), [("openai", chat("ok")), ("anthropic", claude("ok")), (OLDER, claude("ok"))])
async def test_a_conversation_that_grew_begins_with_the_same_bytes(kind, told):
    (before, after), _ = await bodies_of(kind, told, TALK, (*TALK, *LATER))
    assert stripped(after.get("system")) == stripped(before.get("system")), "later notices stay where they were said"
    old, new = (stripped(body["messages"]) for body in (before, after))
    assert new[: len(old) - 1] == old[:-1]
    assert new[len(old) - 1]["content"][: len(old[-1]["content"])] == old[-1]["content"]
    assert "it rains" in json.dumps(new)
    assert before["tools"] == after["tools"]


def stripped(value):
    """Without the marks of how far to cache, which are no part of what is cached."""
    if isinstance(value, dict):
        return {key: stripped(one) for key, one in value.items() if key != "cache_control"}
    return [stripped(one) for one in value] if isinstance(value, list) else value


async def test_a_summary_is_asked_for_with_the_conversation_as_data():
    async with FakeVendor([streams(chat("- a cat"))]) as vendor, model_at(vendor) as model:
        talk = (said("system", "Write one summary."), *TALK[2:6])
        answer = await ask(model, request(*talk, task=ModelTask.SUMMARY))
        task, data = vendor.asked[0].json["messages"]
    assert answer.text == "- a cat"
    assert (task["role"], data["role"]) == ("system", "user")
    lines = [json.loads(line) for line in data["content"].splitlines()[1:]]
    assert [line["role"] for line in lines] == ["summary", "user", "assistant", "tool"]
    assert lines[2]["calls"] == [{"name": "look", "arguments": '{"what": "sky"}'}]


async def test_settings_reach_the_vendor_and_nothing_is_retried_behind_our_back():
    async with FakeVendor([streams(chat("ok"))]) as vendor:
        async with model_at(vendor, max_output_tokens=77, temperature=0.5, name="openai:some-local") as model:
            await ask(model)
        body = vendor.asked[0].json
    assert (body.get("max_completion_tokens") or body.get("max_tokens"), body["temperature"]) == (77, 0.5)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


async def test_connections_are_kept_for_the_next_question_and_closed_with_the_model():
    async with FakeVendor([streams(chat("ok"))]) as vendor:
        async with model_at(vendor) as model:
            await ask(model)
            await ask(model)
            assert vendor.connections == 1
        await vendor.quiet.wait()


async def test_an_answer_that_is_given_up_closes_its_connection():
    unending = streams([delta({"content": "a"}), delta({"content": "b"})], end="hang")
    async with FakeVendor([unending]) as vendor, model_at(vendor) as model:
        stream = model.ask(request())
        await anext(stream)
        await stream.aclose()
        await vendor.quiet.wait()
