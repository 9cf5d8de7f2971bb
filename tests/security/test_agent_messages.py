"""No person uses an agent's tools through another agent. Agents message only the agents that the operator lists for
them, and a turn that another agent's message begins has only the tools that every agent of the chain has.
"""

import json
from contextlib import asynccontextmanager

from holdfast.api.auth.access_token import AccessToken, Binding, Scope, hash_token, spell_token
from holdfast.api.auth.access_token_sql import add_token
from holdfast.kernel.ids import AgentName, TokenId
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from holdfast.turns.policy import AgentPolicy, ApprovalPolicy
from tests.channels.test_agent import rest
from tests.support.fakes import ScriptedModel, calls, happened, last_said, says, soon
from tests.support.live import serve

MALLORY = {"Authorization": f"Bearer {spell_token(1)}"}
LIMITED = AccessToken(
    id=TokenId("t-mallory"),
    scopes=frozenset({Scope.SEND, Scope.READ}),
    agents=frozenset({"front"}),
    binding=Binding(sender="mallory"),
)
OPEN_THE_SAFE = "use open_safe {}"
NO_SAFE = "There is no tool 'open_safe'"


def obeys(request):
    """Do what the newest text says: `use TOOL ARGUMENTS`; afterwards tell what the tool said."""
    if request.messages[-1].role == "tool":
        return says(f"It said: {request.messages[-1].content}")(request)
    _, found, wish = last_said(request.messages).partition("use ")
    return (calls(wish.strip()) if found else says("Nothing to do."))(request)


def to_send(to, text):
    return f"use send_message {json.dumps({'to': to, 'text': text})}"


class Safe:
    """A safe, and how often somebody opened it."""

    def __init__(self):
        self.opened = 0

    async def open_safe(self) -> str:
        """Open the safe."""
        self.opened += 1
        return "the safe is open"


@asynccontextmanager
async def gateway(folder, agents, **policies):
    """`agents` maps each name to its tools; the token of mallory may talk to `front` alone."""
    models = {name: ScriptedModel(otherwise=obeys) for name in agents}
    listed = {}
    for name, tools in agents.items():
        box = ToolBox()
        for tool in tools:
            box.add(tool)
        policy = policies.get(name) or AgentPolicy(memory={})
        listed[AgentName(name)] = Agent(policy=policy, model=models[name], summariser=models[name], tools=box)
    async with serve(folder / "data", agents=Agents(None, listed)) as live:
        await live.runtime.db.write(add_token(LIMITED, hash_token(spell_token(1))))
        live.side = models
        yield live


def talking_to(*names, **more):
    return AgentPolicy(memory={}, talks_to=names, **more)


async def says_to_front(live, text, id_="1"):
    body = {"agent": "front", "chat": "mallory", "id": id_, "text": text}
    response = await live.client.post("/v1/messages", json=body, headers=MALLORY)
    assert response.status_code == 202, response.text
    reply = await soon(live.runtime.reply_to(response.json()["message"]))
    await soon(rest(live.runtime))
    return reply


def offered(model):
    """The names of the tools in each question to the model."""
    return [[spec.name for spec in request.tools] for request in model.asked]


def told_by_tools(model):
    return [one.content for one in model.requests[-1] if one.role == "tool"]


async def test_a_token_limited_to_one_agent_does_not_use_the_tools_of_another(tmp_path):
    safe = Safe()
    async with gateway(tmp_path, {"front": [], "vault": [safe.open_safe]}) as live:
        reply = await says_to_front(live, to_send("vault", OPEN_THE_SAFE))
        assert safe.opened == 0
        assert "There is no tool 'send_message'; there are: memory, recall, history." in reply
        assert not live.side["vault"].asked


async def test_an_agent_that_may_message_another_does_not_use_its_tools_either(tmp_path):
    safe, front = Safe(), talking_to("vault")
    async with gateway(tmp_path, {"front": [], "vault": [safe.open_safe]}, front=front) as live:
        assert "Sent to vault" in await says_to_front(live, to_send("vault", OPEN_THE_SAFE))
        vault = live.side["vault"]
        assert safe.opened == 0
        assert offered(vault)[0] == ["memory", "recall", "history"]
        assert NO_SAFE in told_by_tools(vault)[0]
        await live.runtime.ask("ada", OPEN_THE_SAFE, agent="vault")
        assert safe.opened == 1, "a person with access to the agent has its tools"
        assert "open_safe" in offered(vault)[-1]


async def test_the_tool_names_whom_the_agent_can_reach_and_refuses_everybody_else(tmp_path):
    async with gateway(tmp_path, {"front": [], "vault": [], "helper": []}, front=talking_to("helper")) as live:
        reply = await says_to_front(live, to_send("vault", "hello"))
        assert "Nothing was sent: you may not message 'vault'; you can reach helper." in reply
        assert not live.side["vault"].asked
        (spec,) = [one for one in live.side["front"].asked[0].tools if one.name == "send_message"]
        assert "You can reach: helper." in spec.description


async def test_no_detour_over_a_third_agent_gives_more_tools_or_reaches_more_agents(tmp_path):
    safe = Safe()
    agents = {"front": [], "middle": [safe.open_safe], "vault": [safe.open_safe]}
    policies = {"front": talking_to("middle"), "middle": talking_to("vault", "front")}
    async with gateway(tmp_path, agents, **policies) as live:
        await says_to_front(live, to_send("middle", to_send("vault", OPEN_THE_SAFE)))
        assert not live.side["vault"].asked, "front itself may not message vault"
        assert (
            "Nothing was sent: you may not message 'vault'; you can reach front."
            in told_by_tools(live.side["middle"])[0]
        )
    policies["front"] = talking_to("middle", "vault")
    async with gateway(tmp_path / "again", agents, **policies) as live:
        await says_to_front(live, to_send("middle", to_send("vault", OPEN_THE_SAFE)))
        assert NO_SAFE in told_by_tools(live.side["vault"])[0], "middle has the tool, front has not"
        assert safe.opened == 0


async def test_an_answer_begins_a_turn_with_no_more_tools_than_its_sender_has(tmp_path):
    """What an agent answers may be somebody else's words; the next message of the person has every tool again."""
    safe = Safe()
    agents = {"front": [safe.open_safe], "helper": []}
    async with gateway(tmp_path, agents, front=talking_to("helper")) as live:
        live.side["helper"].otherwise = says(OPEN_THE_SAFE)
        await says_to_front(live, to_send("helper", "hello"))
        front = live.side["front"]
        assert NO_SAFE in told_by_tools(front)[-1]
        assert safe.opened == 0
        await says_to_front(live, OPEN_THE_SAFE, id_="2")
        assert safe.opened == 1


async def test_a_retry_of_what_an_agent_began_has_the_same_tools(tmp_path):
    safe = Safe()
    async with gateway(tmp_path, {"front": [safe.open_safe], "helper": []}, front=talking_to("helper")) as live:
        live.side["helper"].otherwise = says(OPEN_THE_SAFE)
        await says_to_front(live, to_send("helper", "hello"))
        asked = len(live.side["front"].asked)
        await says_to_front(live, "/retry", id_="2")
        assert len(live.side["front"].asked) > asked
        assert NO_SAFE in told_by_tools(live.side["front"])[-1]
        assert safe.opened == 0


async def test_a_tool_of_the_same_name_is_not_the_same_tool(tmp_path):
    own, theirs = Safe(), Safe()
    agents = {"front": [own.open_safe], "vault": [theirs.open_safe]}
    async with gateway(tmp_path, agents, front=talking_to("vault")) as live:
        await says_to_front(live, to_send("vault", OPEN_THE_SAFE))
        assert (own.opened, theirs.opened) == (0, 0)


async def test_a_tool_that_both_agents_have_is_used_and_asks_for_every_approval_that_either_needs(tmp_path):
    safe, shared = Safe(), {}
    agents = {"front": [safe.open_safe], "vault": [safe.open_safe]}
    async with gateway(tmp_path, agents, front=talking_to("vault")) as live:
        await says_to_front(live, to_send("vault", OPEN_THE_SAFE))
        assert safe.opened == 1
    shared["front"] = talking_to("vault", approval=ApprovalPolicy(tools=frozenset({"open_safe"})))
    async with gateway(tmp_path / "guarded", agents, **shared) as live:
        feed = live.runtime.events()
        body = {"agent": "front", "chat": "mallory", "id": "1", "text": to_send("vault", OPEN_THE_SAFE)}
        await live.client.post("/v1/messages", json=body, headers=MALLORY)
        await happened(feed, "turn.asked")
        feed.close()
        (waiting,) = await live.runtime.approvals.list()
        assert (waiting.agent, waiting.tool, safe.opened) == ("vault", "open_safe", 1)
