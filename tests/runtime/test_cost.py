"""What a serving runtime asks of its database, counted in statements and transactions on both engines.

An idle node sends at most one statement a second, whatever the number of its agents. A turn without tools is one
transaction that accepts, one that claims and opens, one for what was recalled, and one that ends. It reaches a provider
in two: one claims the lane and renders the words, one settles it. Time is virtual.

Rules: D31.
"""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import pytest

from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.runtime.assembly import assemble
from holdfast.runtime.plugins import Environment
from holdfast.runtime.tool_factory import make_memory
from holdfast.store.script import Call, many
from holdfast.testing import SeededEntropy
from holdfast.tools.toolbox import ToolBox
from holdfast.turns.agents import Agent, Agents
from tests.support.counting import CountedTasks, CountingDatabase, Time
from tests.support.fakes import ScriptedModel, policy
from tests.support.ports import make_ports

IDLE_S = 60
WARM_S = 20  # after the start, indexes and files are looked at once within this time
STATEMENTS_PER_DELIVERY = 11
STATEMENTS = {"accept_message": 4, "claim_work": 10, "take_step": 9, "end_turn": 16}  # at most
SESSION = """
insert into session (id, agent, principal, purpose, state, last_seq, committed_seq, turns, summaries, opened_at,
                     active_at)
values (:id, :agent, 'ada', 'conversation', 'open', 0, 0, 0, 0, :at, :at)"""
LANE = "insert into lane (agent, provider, place) values (:agent, :provider, 'p')"
ON_ITS_WAY = {"scheduled", "sending", "uncertain"}


class Node:
    """A runtime with the default memory, whose database counts."""

    def __init__(self, runtime, db, time, providers):
        self.runtime, self.db, self.time, self.providers = runtime, db, time, providers

    async def ask(self, *agents, chat="c"):
        asked = [asyncio.ensure_future(self.runtime.ask(chat, "good morning", agent=agent)) for agent in agents]
        while not all(one.done() for one in asked):
            await self.time.pass_by(0.05)
        await self.delivered()

    async def delivered(self):
        while any(one.state in ON_ITS_WAY for one in await self.runtime.deliveries(limit=1_000)):
            await self.time.pass_by(0.05)

    async def warm(self):
        """Until what follows a start is done."""
        for _ in range(60):
            with self.db.measured() as counted:
                await self.time.pass_by(WARM_S)
            if not any(counted.transactions[verb] for verb in ("read_memory", "list_delivered_parcels")):
                return
        raise AssertionError("it does not come to rest")


@asynccontextmanager
async def serving(database, clock, folder, agents):
    db, entropy, model = CountingDatabase(database), SeededEntropy("cost"), ScriptedModel()
    tasks = CountedTasks(db)
    one = Agent(policy=policy(), model=model, summariser=model, tools=ToolBox())
    environment = Environment(clock=clock, entropy=entropy, tasks=tasks, folder=folder)
    known, providers, notes = make_memory(db, Agents(None, dict.fromkeys(agents, one)), environment)
    ports = make_ports(db, clock=clock, entropy=entropy, tasks=tasks)
    runtime = assemble(ports, known, providers=providers, notes=notes, channels=Channels())
    time = Time(clock, db)
    await runtime.start()
    try:
        yield Node(runtime, db, time, providers)
    finally:
        await runtime.close()


def spoken_with(agents, now):
    """Each agent has an open session, and lanes without work."""
    yield from many(SESSION, [{"id": f"s {agent}", "agent": agent, "at": now} for agent in agents])
    yield from many(LANE, [{"agent": agent, "provider": name} for agent in agents for name in ("files", "local")])


@pytest.mark.parametrize("count", [1, 300])
async def test_an_idle_node_sends_at_most_one_statement_a_second(database, clock, tmp_path, count):
    agents = [AgentName(f"a{n}") for n in range(count)]
    async with serving(database, clock, tmp_path, agents) as node:
        await node.ask(agents[0])
        await database.write(Call("more", partial(spoken_with, agents[1:], clock.now())))
        for agent in agents:
            node.providers.of(agent)
        await node.warm()
        with node.db.measured() as counted:
            await node.time.pass_by(IDLE_S)
    assert counted.statement_count <= IDLE_S, counted


async def test_a_turn_without_tools_is_at_most_four_transactions(database, clock, tmp_path):
    agent = AgentName("main")
    async with serving(database, clock, tmp_path, [agent]) as node:
        for _ in range(2):
            await node.ask(agent)
        await node.warm()
        with node.db.measured() as counted:
            await node.ask(agent)
    beside = {"claim_lanes", "settle_lanes", "next_due", "read_upcoming", "renew_node", "list_deliveries"}
    turn = {verb: times for verb, times in counted.transactions.items() if verb not in beside}
    assert turn.pop("take_step", 0) <= 1
    assert turn == {"accept_message": 1, "claim_work": 1, "end_turn": 1}
    assert {verb: counted.statements[verb] for verb in STATEMENTS if counted.statements[verb] > STATEMENTS[verb]} == {}


async def test_a_turn_reaches_its_provider_in_two_transactions(database, clock, tmp_path):
    agent = AgentName("main")
    async with serving(database, clock, tmp_path, [agent]) as node:
        for _ in range(2):  # the first delivery of a process also looks for lanes that wait since an outage
            await node.ask(agent)
        await node.warm()
        with node.db.measured() as counted:
            await node.ask(agent)
    dispatched = counted.only("claim_lanes", "settle_lanes", "hurry_lanes", "list_lane_keys")
    assert dispatched.transactions == {"claim_lanes": 1, "settle_lanes": 1, "hurry_lanes": 0, "list_lane_keys": 0}
    assert dispatched.statement_count <= STATEMENTS_PER_DELIVERY, dispatched
    polled = counted.transactions["read_upcoming"] + counted.transactions["renew_node"]
    assert counted.transactions["next_due"] <= polled, "the dispatcher looks only if the poll finds a waiting lane"


async def test_a_fetched_reply_costs_the_reply_sender_nothing(database, clock, tmp_path):
    agent = AgentName("main")
    async with serving(database, clock, tmp_path, [agent]) as node:
        await node.ask(agent)
        with node.db.measured() as counted:
            await node.ask(agent)
    assert counted.only("next_reply_due", "claim_replies", "settle_reply", "find_destination").transaction_count == 0
