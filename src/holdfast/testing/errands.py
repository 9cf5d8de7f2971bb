"""Work beside the messages of a history, by its areas: operators and clients make requests, and an index is lost.

Each errand is a task of the world, outside every node. It waits for its time, asks any live node until it has an
answer, and returns. The history waits for all errands before it is healed.
"""

import asyncio
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.kernel.ids import AgentName
from holdfast.memory.notes import MemoryBatch, MemoryUndo, MemoryVerb, NoteChange, Target
from holdfast.runtime.runtime import Runtime
from holdfast.testing.areas import Area
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.client import Asked, Client
from holdfast.testing.deciding import decide
from holdfast.testing.providers import IDEMPOTENT
from holdfast.testing.questions import QUESTIONS, Question
from holdfast.testing.strangers_agent import link_people
from holdfast.testing.workload import HORIZON_MS

if TYPE_CHECKING:
    from holdfast.testing.world import World

QUESTIONS_MAX = 10
PAUSE_S_MAX = 0.8
NOTES = 3
PAUSES = 2
PAUSED_S_MAX = 4.0
LATE_LOOKS = 8
OPERATORS = 9_000  # the notes of an operator are numbered from here
GLANCE_S = 0.05
GLANCES_MAX = 400
UNDER_WAY = """
select 1 from delivery where agent = ? and provider = ? and state in ('sending', 'uncertain') limit 1"""
PAUSED = "select agent from agent_pause order by agent"
FAILED_ENDS = "select id from finalisation where step = 'failed' order by id"


def errands(world: "World") -> list[Coroutine[Any, Any, None]]:
    """The errands of the history's areas, not started."""
    made: list[Coroutine[Any, Any, None]] = []
    if world.backfilled is not None:
        made.append(_backfill(world))
    if Area.REBUILD in world.areas:
        made.append(_lose_index(world))
    if Area.PAUSES in world.areas:
        made.append(_pause_agents(world))
    if Area.REPAIRS in world.areas and Area.FORGETTING not in world.areas:
        made.append(decide(world))
    if Area.OPERATOR in world.areas:
        made += [_ask_questions(world), _keep_notes(world)]
    is_linked_elsewhere = Area.FORGETTING in world.areas or ChannelArea.LINKS in world.company.areas
    if Area.STRANGERS in world.areas and not is_linked_elsewhere:
        made.append(link_people(world))
    return made


def client_of(world: "World", what: str) -> tuple[Client, random.Random]:
    rng = random.Random(f"{world.seed}/{what}")
    return Client(rng, world.live, world.loop.note), rng


async def _backfill(world: "World") -> None:
    """An operator adds a provider, restarts every node and backfills the provider."""
    client, rng = client_of(world, "backfill")
    backfilled = world.backfilled
    assert backfilled is not None
    late = backfilled.late
    await asyncio.sleep(late.at_ms / 1_000)
    world.reconfigure()
    backfilled.configured_ms = world.now_ms()
    await asyncio.sleep(rng.random() * 2)
    for _ in range(1 if rng.random() < 0.6 else 2):
        await client.until_heard("backfill", lambda node: node.backfill(late.policy.provider, agent=late.agent))
    backfilled.ended_ms = world.now_ms()
    world.counts["backfill"] += 1


async def _lose_index(world: "World") -> None:
    """The index of one provider is lost. The dispatchers notice it; sometimes an operator is faster.

    In production an index belongs to one process, whose calls have ended before it is rebuilt. Here the nodes share the
    index, so it is lost only while no node has a call in progress.
    """
    client, rng = client_of(world, "rebuild")
    await asyncio.sleep(HORIZON_MS / 1_000 * (0.2 + rng.random()))
    lanes = sorted((lane for lane in world.memory.servers if lane.provider in IDEMPOTENT), key=str)
    if not lanes:
        return
    lane = rng.choice(lanes)
    for _ in range(GLANCES_MAX):
        if not world.observer().execute(UNDER_WAY, (lane.agent, lane.provider)).fetchall():
            break
        await asyncio.sleep(GLANCE_S)
    else:
        return
    world.memory.servers[lane].lose_index()
    world.counts["lost index"] += 1
    if rng.random() < 0.4:
        await client.until_heard("rebuild", lambda node: node.rebuild(lane.provider, agent=lane.agent))


async def _pause_agents(world: "World") -> None:
    """An operator pauses agents for a while, through any node.

    A request may be repeated, and the first one of two may be carried out last, after the agent was resumed. So the
    operator looks again: senders give up at a chat that takes nothing for minutes.
    """
    client, rng = client_of(world, "pauses")
    for _ in range(PAUSES):
        agent = rng.choice(sorted(world.policies))
        await asyncio.sleep(rng.random() * HORIZON_MS / 1_000 / PAUSES)
        await client.until_heard("pause", lambda node, agent=agent: node.pauses.pause(agent))  # type: ignore[misc]
        world.counts["pause"] += 1
        await asyncio.sleep(rng.random() * PAUSED_S_MAX)
        await client.until_heard("pauses", lambda node: node.pauses.list())
        await client.until_heard("resume", lambda node, agent=agent: node.pauses.resume(agent))  # type: ignore[misc]
    for _ in range(LATE_LOOKS):
        await asyncio.sleep(PAUSED_S_MAX)
        await resume_agents(world)


async def resume_agents(world: "World") -> None:
    """Resume what stayed paused, because no node answered or because a pause was late."""
    client, _ = client_of(world, "resume")
    for (agent,) in world.observer().execute(PAUSED).fetchall():
        await client.until_heard("resume", lambda node, agent=agent: node.pauses.resume(str(agent)))  # type: ignore[misc]


async def speak_again(world: "World") -> None:
    """A process maintains only the indexes of agents that it has served, so each agent is asked something."""
    client, _ = client_of(world, "again")
    for lane in sorted((lane for lane, server in world.memory.servers.items() if server.lost), key=str):
        await client.until_heard("recall", lambda node, agent=lane.agent: node.recall("well?", agent=agent))  # type: ignore[misc]


async def _ask_questions(world: "World") -> None:
    """An operator sends various queries at any time; the answer may be a named error."""
    client, rng = client_of(world, "questions")
    for name in rng.sample(list(QUESTIONS), QUESTIONS_MAX):
        await asyncio.sleep(rng.random() * PAUSE_S_MAX)
        answer = await client.once(name, _asked(world, QUESTIONS[name], rng.random()))
        if name in {"audit", "doctor"} and isinstance(answer, str):
            world.surprises.append(answer)
        world.counts["question"] += 1


def _asked(world: "World", question: Question, chance: float) -> Asked[object]:
    async def ask(node: Runtime) -> object:
        return await question(node, world.observer(), chance)

    return ask


async def _keep_notes(world: "World") -> None:
    """An operator changes an agent's notes, reverts some changes, and retries failed extractions."""
    client, rng = client_of(world, "notes")
    agent = AgentName(rng.choice(sorted(world.policies)))
    for n in range(NOTES):
        await asyncio.sleep(rng.random() * PAUSE_S_MAX * 2)
        change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=f"note {OPERATORS + n}")
        batch = MemoryBatch(agent=agent, subject="", origin=f"operator:{n}", changes=(change,), by="user")
        for _ in range(1 if rng.random() < 0.7 else 2):
            await client.until_heard("note", lambda node, batch=batch: node.apply_memory(batch))  # type: ignore[misc]
    undo = MemoryUndo(agent=agent, subject="", seq=1 + rng.randrange(NOTES))
    await client.until_heard("undo note", lambda node: node.apply_memory(undo))
    for (id_,) in world.observer().execute(FAILED_ENDS).fetchall():
        await client.until_heard("retry end", lambda node, id_=id_: node.retry_extraction(str(id_)))  # type: ignore[misc]
