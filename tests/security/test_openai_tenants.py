"""The promise: two tokens that ask the same question over OpenAI's routes ask two questions. Neither hears the other's
answer, goes on in the other's chat, or is told apart only by luck; what another agent answered does not exist."""

import asyncio

import pytest
import pytest_asyncio

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.kernel.ids import TokenId
from holdfast.turns.policy import AgentPolicy
from tests.support.fakes import happened, soon
from tests.support.live import GatedModel, code_of, serve

BODIES: dict[str, dict[str, object]] = {
    "/v1/responses": {"input": "hello", "model": "ada"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}], "model": "ada"},
}


class World:
    def __init__(self, live, model):
        self.live = live
        self.model = model

    async def token(self, n, *agents):
        """Headers with a token of its own."""
        token = AccessToken(id=TokenId(f"tok_{n}"), scopes=frozenset(Scope), agents=frozenset(agents))
        await self.live.runtime.db.write(add_token(token, hash_token(spell_token(n))))
        return {"Authorization": f"Bearer {spell_token(n)}"}

    async def post(self, path, headers, **more):
        return await self.live.client.post(path, headers=headers, json={**BODIES[path], **more})


@pytest_asyncio.fixture
async def world(tmp_path):
    model = GatedModel()
    listed = {name: AgentPolicy(memory={}) for name in ("ada", "bob", "cy")}
    async with serve(tmp_path / "data", model=model, listed=listed) as live:
        yield World(live, model)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "k1"}], ids=["by its body", "by its key"])
async def test_equal_questions_of_two_tokens_are_two(world, path, key):
    """Both wait for their answers at the same time, when a repeated question would be given the first one's."""
    feed, asked = world.live.runtime.events(), []
    for n in (1, 2):
        headers = {**await world.token(n, "ada"), **key}
        asked.append(asyncio.ensure_future(world.post(path, headers)))
        await happened(feed, "message.accepted")
    feed.close()
    world.model.gate.set()
    first, second = [(await soon(one)).json()["id"] for one in asked]
    assert first != second
    assert len(await world.live.runtime.sessions(agent="ada")) == 2, "each token has a chat of its own"


async def test_a_response_of_another_agent_is_neither_shown_nor_gone_on_from(world):
    world.model.gate.set()
    ada, bob = await world.token(1, "ada"), await world.token(2, "bob")
    made = (await world.post("/v1/responses", ada)).json()["id"]
    for response in (
        await world.live.client.get(f"/v1/responses/{made}", headers=bob),
        await world.post("/v1/responses", bob, model="bob", previous_response_id=made),
        await world.live.client.post(
            "/v1/responses", headers=bob, json={"input": "hello", "previous_response_id": made}
        ),
    ):
        assert (response.status_code, code_of(response)) == (404, "message_not_found")
    assert await world.live.runtime.sessions(agent="bob") == []


async def test_a_token_of_both_agents_goes_on_with_the_one_that_answered(world):
    world.model.gate.set()
    both = await world.token(1, "ada", "bob")
    made = (await world.post("/v1/responses", both)).json()["id"]
    wrong = await world.post("/v1/responses", both, model="bob", previous_response_id=made)
    assert (wrong.status_code, code_of(wrong)) == (400, "invalid_input")
    again = await world.live.client.post(
        "/v1/responses", headers=both, json={"input": "x", "previous_response_id": made}
    )
    assert again.json()["model"] == "ada"
    assert len(await world.live.runtime.sessions(agent="ada")) == 1


@pytest.mark.parametrize("path", BODIES)
async def test_without_a_model_a_token_asks_its_only_agent_and_one_of_several_has_to_choose(world, path):
    world.model.gate.set()
    one, both = await world.token(1, "bob"), await world.token(2, "bob", "cy")
    body = {name: value for name, value in BODIES[path].items() if name != "model"}
    answered = await world.live.client.post(path, headers=one, json=body)
    assert (answered.status_code, answered.json()["model"]) == (200, "bob")
    unclear = await world.live.client.post(path, headers=both, json=body)
    assert (unclear.status_code, code_of(unclear)) == (404, "agent_not_found")


@pytest.mark.parametrize("path", BODIES)
async def test_a_question_that_another_agent_is_being_asked_is_none_of_a_tokens_business(world, path):
    """The same words in the same chat wait for their answer there; asked again by their own token they are known."""
    feed, chat = world.live.runtime.events(), {"X-Holdfast-Chat": "shared"}
    ada, bob = await world.token(1, "ada"), await world.token(2, "bob")
    waiting = asyncio.ensure_future(world.post(path, {**ada, **chat}))
    await happened(feed, "message.accepted")
    feed.close()
    refused = [await world.post(path, {**bob, **chat}, model=model) for model in ("ada", "eve")]
    assert [(one.status_code, code_of(one)) for one in refused] == [(404, "agent_not_found")] * 2
    assert refused[0].text.replace("ada", "eve") == refused[1].text
    world.model.gate.set()
    await soon(waiting)


async def test_another_agent_is_no_model_of_a_token(world):
    bob = await world.token(1, "bob")
    listed = (await world.live.client.get("/v1/models", headers=bob)).json()["data"]
    assert [one["id"] for one in listed] == ["bob"]
    assert (await world.live.client.get("/v1/models/bob", headers=bob)).status_code == 200
    theirs, nowhere = [await world.live.client.get(f"/v1/models/{name}", headers=bob) for name in ("ada", "eve")]
    assert (theirs.status_code, code_of(theirs)) == (404, "agent_not_found")
    assert theirs.text.replace("ada", "eve") == nowhere.text
