"""A program that talks to OpenAI talks to an agent by changing its base address: the vendor's own client, unchanged,
over a real socket. What it sends is durable like everything else, and a request that it repeats is not said twice."""

import asyncio
from collections import Counter

import openai
import pytest

from tests.support.fakes import soon
from tests.support.live import TOKEN, GatedModel, serve


def client_of(server, *, key=TOKEN, **options):
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, http_client=http, max_retries=0, **options)


def user(text):
    return {"role": "user", "content": text}


async def texts(server, chat, **more):
    found = await server.runtime.sessions(chat=chat, channel="openai", **more)
    entries = await server.runtime.history(found[0].id)
    return [one.entry.text for one in entries if one.entry.kind == "user"]


async def test_a_completion_is_the_reply_of_the_agent(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        made = await client.chat.completions.create(
            model="main", messages=[user("My cat is called Byron.")], user="ada"
        )
        assert made.choices[0].finish_reason == "stop"
        assert "Byron" in made.choices[0].message.content
        assert made.object == "chat.completion"
        assert made.usage.total_tokens == made.usage.prompt_tokens + made.usage.completion_tokens > 0
        assert await texts(server, "ada") == ["My cat is called Byron."]


async def test_history_is_kept_here_so_only_the_last_message_is_taken(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        await client.chat.completions.create(model="main", messages=[user("one")], user="ada")
        said = [
            {"role": "system", "content": "be brief"},
            user("one"),
            {"role": "assistant", "content": "?"},
            user("two"),
        ]
        await client.chat.completions.create(model="main", messages=said, user="ada")
        assert await texts(server, "ada") == ["one", "two"]


async def test_pieces_add_up_to_the_reply(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        stream = await client.chat.completions.create(
            model="main",
            messages=[user("hello there")],
            user="ada",
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        message = chunks[0].id.removeprefix("chatcmpl-")
        trace = await server.runtime.trace(message)
        assert trace.reply is not None
        assert text == trace.reply.text
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage.total_tokens > 0


async def test_a_header_names_the_chat_before_the_user_does(tmp_path):
    async with serve(tmp_path) as server, client_of(server, default_headers={"X-Holdfast-Chat": "home"}) as client:
        await client.chat.completions.create(model="main", messages=[user("hi")], user="ada")
        assert await texts(server, "home") == ["hi"]


async def test_users_do_not_hear_each_other(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        await client.chat.completions.create(model="main", messages=[user("The canary is yellow.")], user="ada")
        made = await client.chat.completions.create(model="main", messages=[user("What is yellow?")], user="ben")
        assert "canary" not in made.choices[0].message.content


async def test_a_request_that_is_repeated_before_its_answer_is_one_message(tmp_path):
    model = GatedModel()
    async with serve(tmp_path, model=model) as server, client_of(server) as client:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(client.chat.completions.create(model="main", messages=[user("yes")], user="ada"))
            await soon(model.asked.wait())
            again = group.create_task(client.chat.completions.create(model="main", messages=[user("yes")], user="ada"))
            feed = server.runtime.events()
            await feed.next_within(200)
            model.gate.set()
        assert first.result().id == again.result().id
        after = await client.chat.completions.create(model="main", messages=[user("yes")], user="ada")
        assert after.id != first.result().id
        assert await texts(server, "ada") == ["yes", "yes"]


ASK = {
    "completions in a named chat": lambda client: client.chat.completions.create(
        model="main", messages=[user("yes")], user="ada"
    ),
    "completions": lambda client: client.chat.completions.create(model="main", messages=[user("yes")]),
    "responses in a named chat": lambda client: client.responses.create(model="main", input="yes", user="ada"),
    "responses": lambda client: client.responses.create(model="main", input="yes"),
}


@pytest.mark.parametrize("how", ASK)
async def test_equal_requests_at_the_same_time_are_one_message(tmp_path, monkeypatch, how):
    model, all_there = GatedModel(), asyncio.Event()
    heard: Counter[str | None] = Counter()
    async with serve(tmp_path, model=model) as server, client_of(server) as client:
        notifier = server.runtime.ports.notifier
        subscribe = notifier.subscribe

        def subscribing(*, message=None, **more):
            heard[message] += 1
            if heard[message] == 8:
                all_there.set()
            return subscribe(message=message, **more)

        monkeypatch.setattr(notifier, "subscribe", subscribing)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ASK[how](client)) for _ in range(8)]
            await soon(all_there.wait())
            model.gate.set()
        assert len({one.result().id for one in asked}) == 1
        after = await ASK[how](client)
        assert after.id != asked[0].result().id


async def test_each_response_without_a_chat_begins_one_of_its_own(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        made = [(await client.responses.create(model="main", input="yes")).id for _ in range(6)]
        chats = [(await server.runtime.trace(one.removeprefix("resp_"))).chat for one in made]
        assert len(set(chats)) == 6
        assert all(chat.startswith("response-") for chat in chats)


async def test_no_id_and_no_name_of_a_chat_is_made_of_what_was_asked(tmp_path):
    """Two stores that are asked the same have nothing in common but the words."""
    names: list[set[str]] = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        async with serve(tmp_path / folder) as server, client_of(server) as client:
            first = await client.responses.create(model="main", input="My cat is called Byron.")
            second = await client.chat.completions.create(model="main", messages=[user("Byron")], user="ada")
            traces = [
                await server.runtime.trace(one.id.removeprefix("resp_").removeprefix("chatcmpl-"))
                for one in (first, second)
            ]
            names.append({traces[0].chat, traces[0].event_id, traces[1].event_id})
    assert not names[0] & names[1]


async def test_an_idempotency_key_holds_for_a_response_without_a_chat(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        key = {"Idempotency-Key": "k1"}
        first = await client.responses.create(model="main", input="a", extra_headers=key)
        assert (await client.responses.create(model="main", input="a", extra_headers=key)).id == first.id
        with pytest.raises(openai.ConflictError) as refused:
            await client.responses.create(model="main", input="b", extra_headers=key)
        assert refused.value.code == "idempotency_conflict"
        other = await client.responses.create(model="main", input="a", extra_headers={"Idempotency-Key": "k2"})
        assert other.id != first.id


async def test_an_idempotency_key_holds_for_ever(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        key = {"Idempotency-Key": "k1"}
        first = await client.chat.completions.create(model="main", messages=[user("a")], user="ada", extra_headers=key)
        again = await client.chat.completions.create(model="main", messages=[user("a")], user="ada", extra_headers=key)
        assert first.id == again.id
        with pytest.raises(openai.ConflictError) as refused:
            await client.chat.completions.create(model="main", messages=[user("b")], user="ada", extra_headers=key)
        assert refused.value.code == "idempotency_conflict"


async def test_a_response_goes_on_from_the_one_before(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        first = await client.responses.create(model="main", input="My cat is called Byron.")
        assert first.status == "completed"
        assert "Byron" in first.output_text
        second = await client.responses.create(
            model="main", input=[user("What is my cat called?")], previous_response_id=first.id
        )
        assert second.previous_response_id == first.id
        chats = {(await server.runtime.trace(one.id.removeprefix("resp_"))).chat for one in (first, second)}
        assert len(chats) == 1
        found = await client.responses.retrieve(first.id)
        assert found.output_text == first.output_text


async def test_a_response_arrives_in_events_that_the_client_adds_up(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        async with client.responses.stream(model="main", input="hello there") as stream:
            deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            final = await stream.get_final_response()
        assert "".join(deltas) == final.output_text != ""


async def test_agents_are_models(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        assert [one.id async for one in client.models.list()] == list(server.runtime.agents())
        assert (await client.models.retrieve("main")).id == "main"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([{"role": "assistant", "content": "hi"}], "must have the role user"),
        ([], "the body is not acceptable"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}], "'image_url'"),
        ([{"role": "user", "content": ""}], "no visible character"),
    ],
)
async def test_what_cannot_be_answered_is_a_bad_request_that_says_why(tmp_path, messages, said):
    async with serve(tmp_path) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match=said):
            await client.chat.completions.create(model="main", messages=messages)


async def test_a_wrong_key_and_an_unknown_response_are_errors_that_the_client_knows(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="main", input="hi", previous_response_id="resp_nothing")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("chatcmpl-1")
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").models.list()


async def test_more_than_one_answer_is_refused_and_nothing_is_said_twice(tmp_path):
    async with serve(tmp_path) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="main", messages=[user("hello")], n=2, user="ada")
        assert caught.value.code == "unsupported_parameter"
        assert await server.runtime.sessions() == []
        made = await client.chat.completions.create(model="main", messages=[user("hello")], n=1, user="ada")
        assert len(made.choices) == 1
