"""Who is shown a note: every source of notes, every reader, every way on which a note could reach them.

One runtime with all four providers, through the vendors' own clients; the practice model extracts and calls tools.
"""

import re
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import cast

import pytest

from holdfast.inbox.address import Address
from holdfast.inbox.identity import LinkRequest
from holdfast.inbox.identity_sql import link_principals, linked_principals, unlink_principal
from holdfast.inbox.message import Accepted, Arrival
from holdfast.kernel.ids import AgentName, OperationId, Principal, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.machine import AsyncTasks
from holdfast.memory.delivery import NamingInputs, PerSession
from holdfast.memory.notes import MemoryBatch, MemoryVerb, NoteChange, Target
from holdfast.memory.provider import Capabilities, Configured, Provider, Providers
from holdfast.memory.recall import RecallKey, RecallPolicy, RecallQuery, Recollection
from holdfast.memory.recaller import Recaller
from holdfast.memory.visibility import is_group
from holdfast.models.practice import PracticeModel
from holdfast.providers.files.provider import folder_name
from holdfast.runtime.app import make_agents, open_runtime
from holdfast.runtime.runtime import Runtime
from holdfast.sessions.command_rights import Rank
from holdfast.testing import ManualClock, SeededEntropy
from holdfast.turns.policy import AgentPolicy
from tests.support.hindsight_fake import FakeHindsight
from tests.support.honcho_server import HonchoServer
from tests.support.memory_runtimes import finished, settled

MAIN = AgentName("main")
TOOL_IN_PRIVATE, EXTRACTED_IN_PRIVATE = "quince", "Marzipan"
TOOL_IN_GROUP, EXTRACTED_IN_GROUP = "walnut", "Otto"
SHARED = "teapot"
PRIVATE = {TOOL_IN_PRIVATE, EXTRACTED_IN_PRIVATE}
OF_GROUP = {TOOL_IN_GROUP, EXTRACTED_IN_GROUP}
ALL = PRIVATE | OF_GROUP | {SHARED}


@dataclass(frozen=True)
class Reader:
    who: str
    address: Address
    seen: frozenset[str]

    @classmethod
    def at(cls, who: str, type: str, chat: str, *seen: str) -> "Reader":
        return cls(who, Address(agent=MAIN, channel="telegram", type=type, chat=chat), frozenset(seen) | {SHARED})

    @property
    def is_group(self) -> bool:
        return is_group(str(self.address))


ADA_DM = Reader.at("ada", "dm", "ada", *PRIVATE)
CLUB = Reader.at("ada", "group", "club", *OF_GROUP)
READERS = [
    Reader.at("ada", "dm", "ada-2", *PRIVATE),
    Reader.at("phone", "dm", "phone", *PRIVATE),
    Reader.at("bob", "dm", "bob"),
    CLUB,
    Reader.at("bob", "group", "club", *OF_GROUP),
    Reader.at("ada", "group", "other"),
    Reader.at("bob", "group", "other"),
]


class Watched(PracticeModel):
    """The practice model, with everything that it was shown. In groups it is told the speaker before a command."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    async def ask(self, request):
        self.shown.append("\n".join(message.content for message in request.messages))
        spoken = [
            replace(one, content=re.sub(r"^(ada|bob|phone): use", "use", one.content)) for one in request.messages
        ]
        async for event in super().ask(replace(request, messages=tuple(spoken))):
            yield event


@dataclass
class World:
    runtime: Runtime
    model: Watched
    folder: Path

    async def say(self, reader: Reader, text: str) -> str:
        event = self.runtime.ports.new_id("event")
        arrival = Arrival(
            address=reader.address,
            event_id=event,
            principal=Principal(reader.who),
            text=text,
            account="bot",
            rank=Rank.ADMIN,
        )
        outcome = await self.runtime.gateway.accept(arrival)
        assert isinstance(outcome, Accepted), outcome
        return await self.runtime.reply_to(outcome.message)

    async def fill(self) -> None:
        note = 'use memory {"action": "add", "target": "%s", "content": "The word is %s."}'
        for reader, told, fact in ((ADA_DM, TOOL_IN_PRIVATE, "boat is called Marzipan"), (CLUB, TOOL_IN_GROUP, "")):
            await self.say(reader, note % ("user", told))
            await self.say(reader, f"My {fact or 'piano is called Otto'}.")
            await self.say(reader, "/new")
        change = NoteChange(verb=MemoryVerb.ADD, target=Target.MEMORY, text=f"The word is {SHARED}.")
        await self.runtime.apply_memory(MemoryBatch(agent=MAIN, subject="", origin="o", changes=(change,), by="user"))
        await finished(self.runtime)
        await settled(self.runtime)

    async def link(self) -> None:
        link = LinkRequest(
            principal=Principal("phone"),
            person=Principal("ada"),
            by="t",
            operation=OperationId(self.runtime.ports.new_id("op")),
        )
        await self.runtime.db.write(link_principals(link))

    async def unlink(self) -> None:
        await self.runtime.db.write(
            unlink_principal(Principal("phone"), named="t", operation=OperationId(self.runtime.ports.new_id("op")))
        )


@pytest.fixture
async def world(tmp_path):
    async with FakeHindsight() as hindsight, HonchoServer() as honcho:
        policy = AgentPolicy(
            memory={"local": {}, "files": {}, "hindsight": {"url": hindsight.url}, "honcho": {"url": honcho.url}},
            recall=RecallPolicy(budget_ms=30_000, limit=50),
        )
        model = Watched()
        async with await open_runtime(tmp_path, agents=make_agents(model=model, policy=policy)) as runtime:
            made = World(runtime, model, tmp_path / "agents" / "main")
            await made.link()
            await made.fill()
            yield made


def words_in(text: str) -> set[str]:
    return {word for word in ALL if word in text}


async def test_every_note_is_shown_where_it_belongs_and_nowhere_else(world):
    for reader in READERS:
        del world.model.shown[:]
        heard = await world.say(reader, "What is the word, and what is it called?")
        instructions = world.model.shown[-1].split("<recalled-memory>")[0]
        assert words_in(instructions) == reader.seen, reader
        hidden = ALL - reader.seen
        if reader.who == "bob":  # she herself may also be shown what was said where she spoke
            assert not words_in(world.model.shown[-1]) & hidden, reader
            assert not words_in(heard) & hidden, reader
        assert await _listed(world, reader) == reader.seen, reader
        for tool in ('use recall {"query": "the word is called"}', "use history {}"):
            if reader.who == "bob":
                assert not words_in(await world.say(reader, tool)) & hidden, (reader, tool)


async def _listed(world, reader):
    """What the memory tool shows."""
    return words_in(await world.say(reader, "use memory {}") + await world.say(reader, 'use memory {"target": "user"}'))


def asking(reader: Reader, *kin: Principal) -> RecallQuery:
    who, session = Principal(reader.who), SessionId("q")
    return RecallQuery(
        key=RecallKey(session=session, epoch=1, head_seq=0, principal=who),
        naming=NamingInputs(agent=MAIN, session=session, principal=who, address=str(reader.address)),
        text="the word is called",
        group=reader.is_group,
        kin=kin,
        limit=50,
    )


async def test_no_provider_recalls_a_note_where_it_does_not_belong(world):
    for name, reader in product(("local", "hindsight", "honcho"), READERS):
        provider = world.runtime._providers.of(MAIN)[name].provider
        query = asking(reader, *await world.runtime.db.read(linked_principals(Principal(reader.who))))
        found = await provider.recall(query)
        notes = {word for one in found if one.scope is not None for word in words_in(one.text)}
        assert notes == reader.seen, (name, reader)
        if reader.who == "bob":
            assert not {word for one in found for word in words_in(one.text)} - reader.seen
        if reader.is_group:
            allowed = await provider.recall(replace(query, private_in_groups=True))
            extra = PRIVATE if reader.who == "ada" else set()
            assert {
                word for one in allowed if one.scope is not None for word in words_in(one.text)
            } == reader.seen | extra


async def test_each_has_files_of_their_own(world):
    found = {
        str(path.parent.relative_to(world.folder)): words_in(
            "".join(one.read_text() for one in path.parent.glob("*.md"))
        )
        for path in world.folder.glob("**/[MU]*.md")
    }
    club = folder_name(str(CLUB.address))
    assert found == {".": {SHARED}, "users/ada": PRIVATE, f"chats/{club}": OF_GROUP}


async def test_accounts_that_are_unlinked_part_again_at_once(world):
    phone = READERS[1]
    await world.say(phone, "hello")
    assert words_in(world.model.shown[-1]) >= PRIVATE
    await world.unlink()
    await world.say(phone, "hello again")
    instructions = world.model.shown[-1].split("<recalled-memory>")[0].split("hello")[0]
    assert words_in(instructions) == {SHARED}
    assert await _listed(world, phone) == {SHARED}
    assert words_in(await world.say(READERS[0], "use memory {}")) | words_in(
        await world.say(READERS[0], 'use memory {"target": "user"}')
    ) == PRIVATE | {SHARED}


class Leaky:
    """A provider that returns the notes of everyone."""

    capabilities = Capabilities(renderer="leaky/1")

    async def recall(self, query):
        scopes = ("", "ada", "bob", f"chat:{CLUB.address}", None)
        return [Recollection(provider=ProviderName("leaky"), text=f"of {scope}", scope=scope) for scope in scopes]


@pytest.mark.parametrize(
    ("reader", "seen"),
    [(ADA_DM, ["of ", "of ada", "of None"]), (CLUB, ["of ", f"of chat:{CLUB.address}", "of None"])],
)
async def test_what_a_provider_lets_through_is_held_against_the_rule_again(reader, seen):
    leaky = Configured(cast("Provider", Leaky()), PerSession())
    ports = AsyncTasks(), ManualClock(), SeededEntropy("leaky")
    recaller = Recaller(Providers(lambda _agent: {ProviderName("leaky"): leaky}), *ports)
    found = await recaller.recall(asking(reader), RecallPolicy())
    assert [one.text for one in found.memories] == seen
