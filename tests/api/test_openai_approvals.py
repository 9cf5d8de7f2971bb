"""A request to the OpenAI-compatible API never waits for a human: the answer is the approval question, and the request
that decides it is answered with the result. No other client receives that result.
"""

import pytest

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.api.openai import asking
from holdfast.api.streams.frames import HumanAsked, follow_message
from holdfast.kernel.ids import TokenId
from holdfast.turns.approval import Decision
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.api.test_openai_client import client_of, user
from tests.support.fakes import Gate, ScriptedModel, calls, says, soon, stands_at
from tests.support.live import serve

GUARDED = AgentPolicy(approval=ApprovalPolicy(tools=frozenset({"memory"})), memory={})
WISH = 'memory {"action": "read"}'
QUESTION = 'main wants to use `memory`: `{"action": "read"}`\n'


def serving(folder, *moves):
    return serve(folder, model=ScriptedModel(*(moves or (calls(WISH), says("all done")))), policy=GUARDED)


async def asks(client, text, who="ada", **more):
    made = await soon(client.chat.completions.create(model="main", messages=[user(text)], user=who, **more))
    assert made.choices[0].finish_reason == "stop"
    return made.choices[0].message.content


async def streamed(client, text):
    stream = await client.chat.completions.create(model="main", messages=[user(text)], user="ada", stream=True)
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices[0].finish_reason == "stop"
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


async def waiting(server):
    (found,) = await server.runtime.approvals.list()
    return found.id


async def test_the_question_is_the_answer_and_the_decision_is_answered_with_the_outcome(tmp_path):
    async with serving(tmp_path, calls(WISH), calls(WISH), says("all done")) as server, client_of(server) as client:
        question = await asks(client, "look")
        assert question.startswith(QUESTION)
        assert await asks(client, "yes, do it") == question, "whatever else is said stands behind it"
        second = await asks(client, f"/approve {await waiting(server)}")
        assert (second.startswith(QUESTION), second != question) == (True, True)
        last = f"/deny {await waiting(server)}"
        assert await asks(client, last) == "all done"
        assert await asks(client, last) == "all done", "a request that is repeated gets the same answer"


async def test_in_pieces_it_is_the_same(tmp_path):
    async with (
        serving(tmp_path, calls(WISH, text="let me look"), says("all done")) as server,
        client_of(server) as client,
    ):
        question = await soon(streamed(client, "look"))
        assert question.endswith(f"or /deny {await waiting(server)}.")
        assert await soon(streamed(client, f"/approve {await waiting(server)}")) == "all done"


async def test_a_response_is_the_question_first_and_the_outcome_when_it_is_asked_for_again(tmp_path):
    async with serving(tmp_path) as server, client_of(server) as client:
        first = await soon(client.responses.create(model="main", input="look"))
        assert (first.status, first.output_text.startswith(QUESTION)) == ("completed", True)
        text = f"/approve {await waiting(server)}"
        second = await soon(client.responses.create(model="main", input=text, previous_response_id=first.id))
        assert second.output_text == "all done"
        assert (await client.responses.retrieve(first.id)).output_text == "all done"


async def test_a_response_in_events_ends_with_the_question(tmp_path):
    async with serving(tmp_path) as server, client_of(server) as client:
        async with client.responses.stream(model="main", input="look") as stream:
            final = await soon(stream.get_final_response())
        assert final.output_text.startswith(QUESTION)
        assert await waiting(server) in final.output_text


@pytest.mark.parametrize("chat", ["ada", "other"], ids=["the same chat", "another chat"])
async def test_no_other_caller_decides_or_learns_the_result(tmp_path, chat):
    async with serving(tmp_path) as server, client_of(server, key=spell_token(1)) as client:
        relay = AccessToken(id=TokenId("t-1"), scopes=frozenset({Scope.SEND}), binding=Binding(relay=True))
        await server.runtime.db.write(add_token(relay, hash_token(spell_token(1))))
        await asks(client, "look")
        approval = await waiting(server)
        there = {"X-Holdfast-Chat": chat}
        heard = await asks(client, f"/approve {approval}", who="mallory", extra_headers=there)
        assert heard == (
            "Only the person who asked for the call or an operator may give /approve here, where several people talk. "
            "Nothing was changed."
            if chat == "ada"
            else f"There is no approval {approval!r} in this chat. Nothing waits for an approval here."
        )
        assert await waiting(server) == approval
        assert await asks(client, f"/approve {approval}") == "all done"
        late = await asks(client, f"/approve {approval}", who="mallory", extra_headers=there)
        assert "all done" not in late


@pytest.fixture
def hasty(monkeypatch):
    """Somebody decides as soon as the question is known, before the request has said it."""
    gate = Gate()

    async def following(viewer, message, feed):
        async for frame in follow_message(viewer, message, feed):
            if isinstance(frame, HumanAsked):
                await viewer.decide(frame.approval, Decision.APPROVED, reason="", digest="")
                await gate.arrival()
            yield frame

    monkeypatch.setattr(asking, "follow_message", following)
    return gate


async def test_a_response_whose_question_is_decided_while_it_is_told_is_complete_all_the_same(tmp_path, hasty):
    moves = (calls(WISH), stands_at(hasty, says("all done")))
    async with serving(tmp_path, *moves) as server, client_of(server) as client:
        final = await soon(client.responses.create(model="main", input="look"))
        assert (final.status, final.output_text.startswith(QUESTION)) == ("completed", True)
        hasty.open()


async def test_in_events_too(tmp_path, hasty):
    moves = (calls(WISH), stands_at(hasty, says("all done")))
    async with serving(tmp_path, *moves) as server, client_of(server) as client:
        async with client.responses.stream(model="main", input="look") as stream:
            final = await soon(stream.get_final_response())
        assert (final.status, final.output_text.startswith(QUESTION)) == ("completed", True)
        hasty.open()
