"""What the areas of a history add to its world: channels, policies, tools, and who acts beside the people who talk."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import apsw

from holdfast.inbox.channel import Channel
from holdfast.inbox.channels import Channels
from holdfast.kernel.clock import Clock
from holdfast.kernel.ids import AgentName
from holdfast.kernel.tasks import Tasks
from holdfast.testing import letters, rooms
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.chats import ABLE, Chats
from holdfast.testing.crash import Reach, crashing
from holdfast.testing.drafting import DraftingChat, DraftServer, EditingEnd
from holdfast.testing.identities import IdentityLog, Linker, Mover
from holdfast.testing.operators import Decider, OperatorLog, Resender
from holdfast.testing.platform import Live, Platform
from holdfast.testing.retrying_client import RetryingClient
from holdfast.testing.rooms import FakeRoom, RoomPeople, RoomServer
from holdfast.testing.rows import read_accepted, read_tables
from holdfast.testing.workload import Say
from holdfast.turns.policy import AccessPolicy, AgentPolicy, Door
from holdfast.turns.tool import Tools

STRAY = """
select n from reply
 where draft = 'standing' and state in ('failed', 'uncertain') and length(body) = 0 limit 1"""


class Company:
    def __init__(
        self,
        seed: int | str,
        areas: frozenset[ChannelArea],
        chats: Chats,
        healed: Callable[[], bool],
        observe: Callable[[], apsw.Connection],
    ) -> None:
        self.areas = areas
        self.operators = OperatorLog()
        self.identities = IdentityLog()
        self.room = RoomServer()
        self.drafts = DraftServer(chats.server)
        self._seed = seed
        self._chats = chats
        self._healed = healed
        self._observe = observe
        self._background: list[asyncio.Task[None]] = []
        self.has_letters = ChannelArea.AGENTS in areas  # somebody says what has agents write to each other

    @property
    def lacks(self) -> Mapping[str, frozenset[str]]:
        """The tools that each agent does not have."""
        return letters.lacks(self._seed) if ChannelArea.AGENTS in self.areas else {}

    # --- what nodes are made of

    @property
    def receives(self) -> bool:
        return ChannelArea.ROOMS in self.areas

    @property
    def posted(self) -> tuple[str, ...]:
        """The channels whose replies somebody sends."""
        sim = ("sim",) if self._chats.enabled else ()
        room = (rooms.CHANNEL,) if ChannelArea.ROOMS in self.areas else ()
        return (*sim, *room, *(("agent",) if sim or room or ChannelArea.AGENTS in self.areas else ()))

    def channels(self, reach: Reach, *, node: str, clock: Clock, tasks: Tasks) -> Channels | None:
        """One node's channels; None where nothing is sent or received."""
        if not self.posted:
            return None
        made: dict[tuple[AgentName, str], Channel] = {}
        for agent, chat in self._chats.clients().items():
            made[AgentName(agent), "sim"] = crashing(chat, reach)
            if ChannelArea.DRAFTS in self.areas:
                end = EditingEnd(self._seed, self.drafts, self._healed)
                made[AgentName(agent), "sim"] = DraftingChat(chat, end, self.drafts, reach, self._observe)
        if ChannelArea.ROOMS in self.areas:
            able = ABLE[rooms.AGENT]
            room = FakeRoom(
                self._seed,
                self.room,
                self._chats.server,
                able,
                self._healed,
                node=node,
                clock=clock,
                tasks=tasks,
                observe=self._observe,
            )
            made[rooms.AGENT, rooms.CHANNEL] = crashing(room, reach)
        return Channels(made)

    def policies(self, made: dict[AgentName, AgentPolicy]) -> dict[AgentName, AgentPolicy]:
        if ChannelArea.ROOMS in self.areas:
            access = AccessPolicy(door=Door.CLOSED, allow=frozenset(rooms.allowed()))
            made = {name: replace(policy, access=access) for name, policy in made.items()}
        if ChannelArea.AGENTS in self.areas:
            made = {
                name: replace(
                    policy,
                    hops_max=letters.HOPS_MAX,
                    talks_to=letters.talks_to(self._seed)[name],
                    turn=replace(policy.turn, unattended_max=letters.UNATTENDED_MAX),
                )
                for name, policy in made.items()
            }
        return made

    def tools(self, made: Tools) -> Tools:
        return letters.WritingTools(made, self._seed) if ChannelArea.AGENTS in self.areas else made

    def unfinished(self) -> str | None:
        """A draft that is to be deleted with the words of its reply; what was said in a room and is in no mailbox."""
        if ChannelArea.DRAFTS in self.areas and (found := self._observe().execute(STRAY).fetchall()):
            return f"the draft of reply {found[0][0]} is to be deleted"
        if ChannelArea.ROOMS not in self.areas:
            return None
        accepted = read_accepted(self._observe())
        kept = {row["event_id"] for row in accepted if row["account"] == rooms.ACCOUNT}
        expected = self.room.expected(accepted, read_tables(self._observe(), "watermark")["watermark"])
        return next((f"{one.say.event_id} was not taken" for one in expected if one.say.event_id not in kept), None)

    # --- who acts

    def begin(self, live: Live, platform: Platform) -> list[asyncio.Task[None]]:
        """Begin everything that the areas do; the tasks that end by themselves."""
        says: list[Say] = letters.letters(self._seed) if self.has_letters else []
        if ChannelArea.RESEND in self.areas:
            client, server = self._client("resend", live), self._chats.server
            resender = Resender(self._seed, client, self._observe, server, self.operators)
            self._start_background(resender.act(), "resend")
        if ChannelArea.DECIDE in self.areas:
            decider = Decider(self._seed, self._client("decide", live), self._observe, self.operators)
            self._start_background(decider.act(), "decide")
        bounded: list[asyncio.Task[None]] = []
        if ChannelArea.LINKS in self.areas:
            bounded.append(_start(Linker(self._seed, self._client("links", live), self.identities).act(), "links"))
        if ChannelArea.MOVES in self.areas:
            mover = Mover(self._seed, self._client("moves", live), platform, self.identities)
            says += mover.says()
            bounded.append(_start(mover.act(), "move"))
        if ChannelArea.ROOMS in self.areas:
            bounded.append(_start(RoomPeople(self._seed, self.room).act(), "rooms"))
        return [*bounded, *(_start(platform.deliver(one), f"send {one.n}") for one in says)]

    def end(self) -> None:
        for task in self._background:
            task.cancel()

    def _client(self, name: str, live: Live) -> RetryingClient:
        return RetryingClient(f"{self._seed}/area/{name}/client", live)

    def _start_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._background.append(_start(work, name))


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, name=name)
