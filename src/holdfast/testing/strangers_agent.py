"""The agent that strangers share: the real tools, providers that search like the local provider, and an operator who
links accounts meanwhile. At rest every person queries the memory once more."""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import apsw

from holdfast.inbox.identity_sql import linked_principals
from holdfast.kernel.ids import AgentName, Instant, Principal, Provider, SessionId
from holdfast.memory.delivery import Parcel
from holdfast.memory.notes_service import NotesService
from holdfast.memory.notes_sql import read_shown_notes
from holdfast.memory.provider import Providers
from holdfast.memory.recall import RecallQuery, Recollection
from holdfast.memory.visibility import Audience
from holdfast.providers.local import index_file
from holdfast.providers.local.index_writer import apply, delete_lines, index_many_fresh
from holdfast.providers.local.search import IndexSearch
from holdfast.runtime.plugins import Environment
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.tool_factory import with_memory, with_tools
from holdfast.store.ports import Ports
from holdfast.testing.identities import Linker
from holdfast.testing.retrying_client import AnswerHeard, RetryingClient
from holdfast.testing.servers import Server
from holdfast.testing.strangers import PEOPLE, PLACES, WISHES
from holdfast.testing.workload import FILLER, Chat
from holdfast.turns.agents import Agents
from holdfast.turns.policy import AgentPolicy

if TYPE_CHECKING:
    from holdfast.testing.world import World

AGENT = AgentName("fern")
CONTEXT_TOKENS = (700, 1_100)
LINKED_SHARE = 0.5  # of these histories


def strangers_policies(seed: int | str, made: Mapping[AgentName, AgentPolicy]) -> dict[AgentName, AgentPolicy]:
    """The policies, with larger limits for notes and recollections and with the tools of these histories."""
    rng = random.Random(f"{seed}/strangers/policy")
    before = made[AGENT]
    window = replace(before.thresholds, context_tokens=rng.choice(CONTEXT_TOKENS))
    return {**made, AGENT: replace(before, thresholds=window, tools=WISHES, talks_to=())}


def equipped(agents: Agents, ports: Ports, providers: Providers) -> tuple[Agents, NotesService]:
    """The agents with their real tools, as in a configured process."""
    notes = NotesService(ports.db, providers)
    providers.attach(notes)
    environment = Environment(clock=ports.clock, entropy=ports.entropy, tasks=ports.tasks)
    listed = {name: agent for name, agent in agents.listed.items() if name == AGENT}
    made = with_tools(with_memory(Agents(None, listed), providers, notes), ports.db, providers, environment)
    return Agents(agents.default, {**agents.listed, **made.listed}), notes


class LocalServer(Server):
    """A server that keeps parcels in the index of the local provider and searches like it."""

    def __init__(self, idempotent: bool, now_ms: Callable[[], Instant]) -> None:
        super().__init__(idempotent)
        self._now_ms = now_ms
        self._db = apsw.Connection(":memory:")
        index_file._make(self._db, needs_rebuild=False)

    def take(self, parcels: Sequence[Parcel]) -> None:
        super().take(parcels)
        for parcel in parcels:
            apply(self._db, parcel)
        index_many_fresh(self._db)

    def erase(self, deliveries: Collection[str], place: str, speaker: str) -> None:
        super().erase(deliveries, place, speaker)
        for delivery in deliveries:
            delete_lines(self._db, "delivery = ?", (delivery,))

    def found(self, query: RecallQuery, provider: Provider) -> list[Recollection]:
        return IndexSearch(self._db, query, self._now_ms()).best(provider, query.limit)


# --- links and queries -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """A result of a query outside any turn, at rest."""

    what: str
    sender: str
    chat: Chat | None  # None: a query outside all chats
    at_s: float
    text: str


async def link_people(world: "World") -> None:
    """An operator links and unlinks accounts of these people."""
    if random.Random(f"{world.seed}/strangers/links").random() < LINKED_SHARE:
        client = RetryingClient(f"{world.seed}/strangers/client", world.live)
        await Linker(f"{world.seed}/strangers", client, world.company.identities).act()


async def look_around(world: "World") -> list[Look]:
    """Every person queries the memory, and the notes of each of their chats."""
    client = RetryingClient(f"{world.seed}/strangers/look", world.live)
    seen: list[Look] = []
    for person in PEOPLE:
        seen += await _recalled(client, person)
    for chat, people in PLACES.items():
        for person in people:
            seen += await _notes(client, chat, person)
    return seen


async def _recalled(client: RetryingClient, person: str) -> list[Look]:
    async def ask(node: Runtime) -> list[str]:
        found = await node.recall(FILLER[:40], agent=AGENT, sender=person)
        return [memory.text for memory in found.memories]

    heard: AnswerHeard[list[str]] = await client.until_heard("look", ask)
    texts = heard.answer if isinstance(heard.answer, list) else []
    return [Look("recall", person, None, _now_s(), text) for text in texts]


async def _notes(client: RetryingClient, chat: Chat, person: str) -> list[Look]:
    async def ask(node: Runtime) -> list[str]:
        kin = await node.db.read(linked_principals(Principal(person)))
        audience = Audience(
            agent=AGENT,
            principal=Principal(person),
            address=str(chat.address),
            session=SessionId(""),
            is_group=chat.type != "dm",
            kin=tuple(one for one in kin if one != person),
        )
        shown = await node.db.read(read_shown_notes(audience))
        return [*(entry.text for entry in shown.own.entries), *(one.entry.text for one in shown.others)]

    heard: AnswerHeard[list[str]] = await client.until_heard("look", ask)
    texts = heard.answer if isinstance(heard.answer, list) else []
    return [Look("notes", person, chat, _now_s(), text) for text in texts]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
