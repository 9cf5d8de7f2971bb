"""Programs that talk over HTTP come to rest like agents do (D12). A message with a robot's token, or with a hop count,
is not a human's; after too many turns without a human it is kept and not answered.
"""

import json

import httpx
import pytest
from typer.testing import CliRunner
from websockets.asyncio.client import connect

from holdfast.api.auth.access_token import AccessToken, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.cli.commands import app
from holdfast.kernel.ids import TokenId
from holdfast.turns.policy import AgentPolicy, TurnPolicy
from tests.support.fakes import ScriptedModel, soon
from tests.support.live import code_of, serve

SECRET = spell_token(3)
HUMAN, ROBOT = False, True


async def known(live, *, robot):
    """A client with a token of its own, held by a program or a person."""
    token = AccessToken(id=TokenId("tok_3"), scopes=frozenset({Scope.SEND, Scope.READ}), robot=robot)
    await live.runtime.db.write(add_token(token, hash_token(SECRET)))
    return {"Authorization": f"Bearer {SECRET}"}


def serving(folder, model=None, *, unattended_max=0, hops_max=8):
    policy = AgentPolicy(turn=TurnPolicy(unattended_max=unattended_max), hops_max=hops_max, memory={})
    return serve(folder / "data", model=model or ScriptedModel(), policy=policy)


async def over_http(live, headers, *, id="1", text="hello", hop=None):
    """The last event that a message gets."""
    more = {"Accept": "text/event-stream", **({} if hop is None else {"X-Holdfast-Hop": str(hop)})}
    body = {"chat": "c", "id": id, "text": text}
    answer = await live.client.post("/v1/messages", json=body, headers={**headers, **more})
    return json.loads(answer.text.strip().rpartition("data: ")[2])


async def over_websocket(live, headers, *, hop=None):
    async with connect(live.url.replace("http", "ws") + "/v1/ws", proxy=None, additional_headers=headers) as socket:
        told = {"type": "send", "chat": "c", "id": "1", "text": "hello", **({} if hop is None else {"hop": hop})}
        await socket.send(json.dumps(told))
        while (frame := json.loads(await socket.recv()))["type"] != "reply":
            pass
        return frame


async def over_openai(live, headers, *, hop=None):
    body = {"model": "main", "user": "c", "messages": [{"role": "user", "content": "hello"}]}
    more = {} if hop is None else {"X-Holdfast-Hop": str(hop)}
    return await live.client.post("/v1/chat/completions", json=body, headers={**headers, **more})


DOORS = pytest.mark.parametrize("door", [over_http, over_websocket, over_openai])


@DOORS
@pytest.mark.parametrize(("robot", "hop"), [(ROBOT, None), (HUMAN, 1)])
async def test_a_programs_message_belongs_to_no_person_on_any_channel(tmp_path, door, robot, hop):
    model = ScriptedModel()
    async with serving(tmp_path, model) as live:
        told = await soon(door(live, await known(live, robot=robot), hop=hop))
        assert isinstance(told, httpx.Response) or (told["state"], told["hop"]) == ("held", (hop or 0) + 1)
    assert model.requests == []


@DOORS
async def test_what_a_person_says_is_answered_whichever_way_it_comes(tmp_path, door):
    model = ScriptedModel()
    async with serving(tmp_path, model) as live:
        await soon(door(live, await known(live, robot=HUMAN), hop=0))
    assert len(model.requests) == 1


async def test_a_robot_is_answered_until_too_many_turns_had_no_human_and_again_after_one(tmp_path):
    async with serving(tmp_path, unattended_max=2) as live:
        robot = await known(live, robot=ROBOT)
        states = [(await over_http(live, robot, id=f"{n}"))["state"] for n in range(3)]
        assert states == ["answered", "answered", "held"]
        assert (await over_http(live, {}, id="a person"))["state"] == "answered"
        assert (await over_http(live, robot, id="3"))["state"] == "answered"


async def test_a_robot_that_asks_for_another_try_is_held_like_one_that_speaks(tmp_path):
    model = ScriptedModel()
    async with serving(tmp_path, model, unattended_max=1) as live:
        robot = await known(live, robot=ROBOT)
        assert (await over_http(live, robot, id="1"))["state"] == "answered"
        assert (await over_http(live, robot, id="2", text="/retry"))["state"] == "held"
        assert len(model.requests) == 1
        assert (await over_http(live, robot, id="3", text="/new"))["state"] == "command"  # it takes no turn
        assert (await over_http(live, {}, id="a person"))["state"] == "answered"


async def test_a_circle_of_agents_ends_and_a_count_that_is_none_is_refused(tmp_path):
    async with serving(tmp_path, hops_max=2) as live:
        robot, body = await known(live, robot=ROBOT), {"chat": "c", "id": "1", "text": "x"}
        for hop, code in (("3", "too_many_hops"), ("once", "invalid_input"), ("-1", "invalid_input")):
            answer = await live.client.post("/v1/messages", json=body, headers={**robot, "X-Holdfast-Hop": hop})
            assert (answer.status_code, code_of(answer)) == (400, code)
        assert await live.runtime.sessions() == []


def test_the_command_makes_a_robots_token_and_lists_it_as_one(tmp_path):
    def run(*arguments):
        done = CliRunner().invoke(app, ["token", *arguments, "--data", str(tmp_path), "--json"])
        return json.loads(done.stdout)

    made = run("new", "--scope", "send", "--relay", "--robot")
    run("new", "--scope", "send", "--relay")
    assert made["robot"] is True
    assert [one["robot"] for one in run("list")["tokens"]] == [True, False]
