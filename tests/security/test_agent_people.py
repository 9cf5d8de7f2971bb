"""An agent speaks for many people. A question that it asks another agent for one of them is recalled, noted and shown
in that conversation alone, on the way there and on the way back, by every provider.
"""

import json
from contextlib import asynccontextmanager

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.message import Arrival
from holdfast.kernel.ids import AgentName, Principal
from holdfast.memory.recall import RecallPolicy
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.turns.policy import AgentPolicy
from tests.channels.test_agent import rest
from tests.support.fakes import ScriptedModel, calls, last_said, says, soon
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer
from tests.support.memory_runtimes import settled

CANARY = "Byron"
ASKED = "what is the canary called"
TOOLS = ["recall", "history", "memory"]


def obeys(request):
    """Do what the newest text says, `use TOOL` or each `run: TOOL`; afterwards repeat what it says before that."""
    newest = last_said(request.messages)
    said, used, wish = newest.partition("use ")
    wishes = [wish] if used else newest.split("run: ")[1:]
    done = sum(one.role == "tool" for one in request.messages[_newest_at(request) :])
    return (calls(wishes[done].strip()) if done < len(wishes) else says(said.split("run: ")[0] or "done"))(request)


def _newest_at(request):
    return max(n for n, one in enumerate(request.messages) if one.role == "user" and not one.data)


def asking(text):
    return f"use send_message {json.dumps({'to': 'helper', 'text': text})}"


EVERY_TOOL = (
    f'{ASKED} run: recall {{"query": "canary"}} run: history {{"query": "canary"}} run: memory {{"action": "read"}}'
)
NOTING = f'my canary is called {CANARY} run: memory {{"action": "add", "content": "The canary is called {CANARY}."}}'


@asynccontextmanager
async def two_agents(folder, sharing):
    model = ScriptedModel(otherwise=obeys)
    async with FakeHindsight() as hindsight, HonchoServer() as honcho:
        memory = {"local": {}, "files": {}, "hindsight": {"url": hindsight.url}, "honcho": {"url": honcho.url}}
        recall = RecallPolicy(shares_all=sharing == "agent", private_in_groups=True, budget_ms=10_000)
        front = AgentPolicy(memory=memory, talks_to=("helper",), recall=recall)
        helper = AgentPolicy(memory=memory, recall=recall)
        agents = make_agents(model=model, listed={"front": front, "helper": helper})
        async with await open_runtime(folder, agents=agents) as runtime:
            yield runtime, model


async def says_to_front(runtime, who, text):
    await soon(runtime.ask(who, text, agent="front", sender=who))
    await soon(rest(runtime))
    await settled(runtime)


def heard(model, since):
    """Everything that the model was shown since then."""
    return "\n".join(one.content for request in model.requests[since:] for one in request)


def called(model, since):
    """The tools whose results the model was shown."""
    return {one.name for request in model.requests[since:] for one in request if one.role == "tool"}


@pytest.mark.parametrize("sharing", ["person", "agent"])
async def test_an_agents_question_for_one_person_is_shown_to_no_other_there_or_on_the_way_back(tmp_path, sharing):
    async with two_agents(tmp_path, sharing) as (runtime, model):
        await says_to_front(runtime, "ada", asking(NOTING))
        assert CANARY in heard(model, 0)
        since = len(model.requests)
        if sharing == "person":
            await says_to_front(runtime, "bob", asking(EVERY_TOOL))
        else:  # bob's own turn is shown everything then, and must not pass it on itself
            other = Address(agent=AgentName("helper"), channel="agent", type="dm", chat="agent:front:http:dm:bob")
            await says_by_front(runtime, other, EVERY_TOOL)
        shown = heard(model, since)
        assert ASKED in shown
        assert [spec for spec in TOOLS if spec in called(model, since)] == TOOLS
        assert CANARY not in shown


async def says_by_front(runtime, address, text):
    message = runtime.gateway.new_message()
    arrival = Arrival(
        address=address,
        account="agent:front",
        event_id="e1",
        principal=Principal("agent:front"),
        text=text,
        human=False,
        hop=1,
        chain=(AgentName("front"),),
        message=message,
    )
    await runtime.gateway.accept(arrival)
    await soon(runtime.reply_to(message))


async def test_the_conversation_itself_finds_it_again(tmp_path):
    async with two_agents(tmp_path, "person") as (runtime, model):
        await says_to_front(runtime, "ada", asking(NOTING))
        since = len(model.requests)
        await says_to_front(runtime, "ada", asking('run: recall {"query": "canary"}'))
        assert CANARY in heard(model, since)
