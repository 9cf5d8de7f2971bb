"""A recall that is started ahead is made once and kept within a limit, and a provider answers for its own failures
only. The recaller is tested alone, with providers that answer on command.

Rules: R10, R11, R12.
"""

import asyncio
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.kernel.errors import StoreUnavailable
from holdfast.kernel.ids import AgentName, Principal, Provider, SessionId
from holdfast.kernel.machine import AsyncTasks
from holdfast.kernel.retry import CircuitBreaker
from holdfast.memory import recaller as module
from holdfast.memory.delivery import CallerDirectory, NamingInputs
from holdfast.memory.lane import LaneKey
from holdfast.memory.provider import Capabilities
from holdfast.memory.recall import RecallKey, RecallPolicy, RecallQuery, Recollection
from holdfast.memory.recaller import Recaller, query_of
from holdfast.testing import ManualClock, SeededEntropy

FERN, SLOW = AgentName("fern"), Provider("slow")
POLICY = RecallPolicy(budget_ms=20)


class SlowProvider:
    """Answers the n-th question when it is told to."""

    capabilities = Capabilities(renderer="slow", prefetches=True)

    def __init__(self):
        self.asked = []
        self.gates = []

    async def recall(self, query):
        gate = asyncio.Event()
        self.asked.append(query.key.head_seq)
        self.gates.append(gate)
        await gate.wait()
        return [Recollection(provider=SLOW, text=f"for {query.key.head_seq}")]


class World:
    def __init__(self, kin=None):
        self.provider = SlowProvider()
        self.circuits: defaultdict[LaneKey, CircuitBreaker] = defaultdict(CircuitBreaker)
        providers = SimpleNamespace(
            of=lambda _agent: {SLOW: SimpleNamespace(provider=self.provider)}, recall_circuits=self.circuits
        )
        ports = AsyncTasks(), ManualClock(), SeededEntropy("x")
        self.recaller = Recaller(providers, *ports, kin)  # type: ignore[arg-type]

    async def ahead(self, *heads):
        for head in heads:
            self.recaller.prefetch(query(head), POLICY)
        for _ in range(5):
            await asyncio.sleep(0)

    async def answer(self):
        for gate in self.provider.gates:
            gate.set()
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def world():
    made = World()
    yield made
    made.recaller.close()


def query(head, *, group=False):
    key = RecallKey(session=SessionId("s"), epoch=1, head_seq=head, principal=Principal("ada"))
    naming = NamingInputs(agent=FERN, session=SessionId("s"), principal=Principal("ada"), address="")
    return RecallQuery(key=key, naming=naming, text="tea?", group=group)


async def test_what_is_asked_ahead_is_asked_once(world):
    await world.ahead(1, 1, 2)
    assert world.provider.asked == [1, 2]


async def test_no_more_is_kept_than_the_limit_and_the_oldest_goes_first(world, monkeypatch):
    monkeypatch.setattr(module, "PREFETCHED_MAX", 2)
    await world.ahead(1, 2, 3)
    await world.answer()
    found = [await world.recaller.recall(query(head), POLICY) for head in (1, 2, 3)]
    assert [[one.text for one in each.memories] for each in found] == [[], ["for 2"], ["for 3"]]


async def test_a_provider_whose_answer_came_ahead_is_not_said_to_be_missing(world):
    await world.ahead(1)
    await world.answer()
    found = await world.recaller.recall(query(1), POLICY)
    assert ([one.text for one in found.memories], found.skipped) == (["for 1"], ())
    other = await world.recaller.recall(query(2), POLICY)
    assert (other.memories, other.skipped) == ((), ("slow did not answer within 20 ms.",))


async def test_what_was_asked_ahead_for_one_person_is_not_shown_where_several_have_spoken_since(world):
    await world.ahead(1)
    await world.answer()
    assert (await world.recaller.recall(query(1, group=True), POLICY)).memories == ()


async def test_a_store_that_is_away_is_not_the_providers_failure():
    async def kin(_principal):
        raise StoreUnavailable("away")

    world = World(kin)
    found = await world.recaller.recall(query(1), POLICY)
    assert (found.skipped, world.provider.asked) == (("slow failed.",), [])
    assert world.circuits[LaneKey(FERN, SLOW)].failures == 0
    world.recaller.close()


class Links:
    """A store that is asked for the linked principals, and counts how often."""

    def __init__(self):
        self.linked: tuple[str, ...] = ("ada", "ada-phone")
        self.reads = 0

    async def read(self, _call):
        self.reads += 1
        return self.linked


async def test_links_are_read_again_after_each_change_of_them_and_for_each_agent():
    links = Links()
    world = World(links)
    seen = []

    async def recall(query):
        seen.append(query.kin)
        return []

    world.provider.recall = recall  # type: ignore[method-assign]

    async def kin(head, as_of, agent=FERN):
        asked = replace(query(head), naming=replace(query(head).naming, agent=agent))
        await world.recaller.recall(asked, POLICY, as_of=as_of)
        return seen[-1]

    assert (await kin(1, 7), await kin(2, 7), links.reads) == (("ada-phone",), ("ada-phone",), 1)
    links.linked = ("ada",)
    assert (await kin(3, 8), links.reads) == ((), 2)
    assert (await kin(4, 8, AgentName("moss")), links.reads) == ((), 3)  # its count says nothing about another agent
    assert (await kin(5, None), links.reads) == ((), 4)
    world.recaller.close()


async def test_the_links_of_a_limited_number_of_people_are_kept(monkeypatch):
    monkeypatch.setattr(module, "KIN_MAX", 2)
    links = Links()
    world = World(links)

    async def nothing(_query):
        return []

    world.provider.recall = nothing  # type: ignore[method-assign]
    for name in ("ada", "bob", "eve", "ada"):
        key = replace(query(1).key, principal=Principal(name))
        await world.recaller.recall(replace(query(1), key=key), POLICY, as_of=1)
    assert (links.reads, len(world.recaller._kin)) == (4, 2)
    world.recaller.close()


HERE, ANCESTOR = SessionId("s"), SessionId("ancestor")


@pytest.mark.parametrize(
    ("summary", "entries", "shown_from"),
    [
        (None, [(HERE, 1)], 0),
        ("what was said before", [(HERE, 0), (HERE, 3), (HERE, 4)], 3),
        ("what was said before", [], 5),
        ("what was said before", [(ANCESTOR, 2), (HERE, 3)], 0),
    ],
    ids=["whole", "after a summary", "only a summary", "a branch shows its own turns"],
)
def test_a_query_says_from_which_turn_on_the_context_shows_the_session(summary, entries, shown_from):
    turn: Any = SimpleNamespace(
        n=5,
        first_seq=4,
        session=HERE,
        epoch=1,
        principal=Principal("ada"),
        shared=False,
        where=CallerDirectory(),
    )
    claim: Any = SimpleNamespace(agent=FERN, address="agent:fern:http:dm:ada")
    context: Any = SimpleNamespace(
        summary=summary, entries=[SimpleNamespace(session=session, turn=n) for session, n in entries]
    )
    assert query_of(claim, turn, POLICY, [], context).shown_from == shown_from
