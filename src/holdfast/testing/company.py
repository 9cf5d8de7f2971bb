"""What the areas of a history add to its world: channels, policies, tools, operators and further people."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

import apsw

from holdfast.inbox.channel import Channel
from holdfast.inbox.channels import Channels
from holdfast.kernel.ids import AgentName
from holdfast.kernel.ports import Clock, Tasks
from holdfast.testing import agent_messages, stream_platform
from holdfast.testing.channel_areas import ChannelArea
from holdfast.testing.chats import ABLE, Chats
from holdfast.testing.crash import Reach, crashing
from holdfast.testing.drafting import DraftingChat, DraftServer, EditingEnd
from holdfast.testing.identities import IdentityLog, Linker, Mover
from holdfast.testing.operators import Decider, OperatorLog, Resender
from holdfast.testing.platform import Live, Platform
from holdfast.testing.retrying_client import RetryingClient
from holdfast.testing.rows import read_accepted, read_tables
from holdfast.testing.stream_platform import FakeStream, StreamPeople, StreamServer
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
        self.stream = StreamServer()
        self.drafts = DraftServer(chats.server)
        self._seed = seed
        self._chats = chats
        self._healed = healed
        self._observe = observe
        self._background: list[asyncio.Task[None]] = []
        self.has_agent_requests = ChannelArea.AGENTS in areas  # people say texts that make agents message each other

    @property
    def lacks(self) -> Mapping[str, frozenset[str]]:
        """The tools that each agent does not have."""
        return agent_messages.lacks(self._seed) if ChannelArea.AGENTS in self.areas else {}

    # --- parts of nodes

    @property
    def receives(self) -> bool:
        return ChannelArea.STREAM in self.areas

    @property
    def posted(self) -> tuple[str, ...]:
        """The channels whose replies are sent."""
        sim = ("sim",) if self._chats.enabled else ()
        stream = (stream_platform.CHANNEL,) if ChannelArea.STREAM in self.areas else ()
        return (*sim, *stream, *(("agent",) if sim or stream or ChannelArea.AGENTS in self.areas else ()))

    def channels(self, reach: Reach, *, node: str, clock: Clock, tasks: Tasks) -> Channels | None:
        """One node's channels; None if the history neither sends nor receives through channels."""
        if not self.posted:
            return None
        made: dict[tuple[AgentName, str], Channel] = {}
        for agent, chat in self._chats.clients().items():
            made[AgentName(agent), "sim"] = crashing(chat, reach)
            if ChannelArea.DRAFTS in self.areas:
                end = EditingEnd(self._seed, self.drafts, self._healed)
                made[AgentName(agent), "sim"] = DraftingChat(chat, end, self.drafts, reach, self._observe)
        if ChannelArea.STREAM in self.areas:
            able = ABLE[stream_platform.AGENT]
            stream = FakeStream(
                self._seed,
                self.stream,
                self._chats.server,
                able,
                self._healed,
                node=node,
                clock=clock,
                tasks=tasks,
                observe=self._observe,
            )
            made[stream_platform.AGENT, stream_platform.CHANNEL] = crashing(stream, reach)
        return Channels(made)

    def policies(self, made: dict[AgentName, AgentPolicy]) -> dict[AgentName, AgentPolicy]:
        if ChannelArea.STREAM in self.areas:
            access = AccessPolicy(door=Door.CLOSED, allow=frozenset(stream_platform.allowed()))
            made = {name: replace(policy, access=access) for name, policy in made.items()}
        if ChannelArea.AGENTS in self.areas:
            made = {
                name: replace(
                    policy,
                    hops_max=agent_messages.HOPS_MAX,
                    talks_to=agent_messages.talks_to(self._seed)[name],
                    turn=replace(policy.turn, unattended_max=agent_messages.UNATTENDED_MAX),
                )
                for name, policy in made.items()
            }
        return made

    def tools(self, made: Tools) -> Tools:
        return agent_messages.WritingTools(made, self._seed) if ChannelArea.AGENTS in self.areas else made

    def unfinished(self) -> str | None:
        """A draft that is still to be deleted, or a message that its platform will not send again, in no mailbox."""
        if ChannelArea.DRAFTS in self.areas and (found := self._observe().execute(STRAY).fetchall()):
            return f"the draft of reply {found[0][0]} is to be deleted"
        if ChannelArea.STREAM not in self.areas:
            return None
        accepted = read_accepted(self._observe())
        kept = {row["event_id"] for row in accepted if row["account"] == stream_platform.ACCOUNT}
        expected = self.stream.expected(accepted, read_tables(self._observe(), "watermark")["watermark"])
        return next((f"{one.say.event_id} was not taken" for one in expected if one.say.event_id not in kept), None)

    # --- tasks

    def begin(self, live: Live, platform: Platform) -> list[asyncio.Task[None]]:
        """Start the tasks of the areas, and return those that end by themselves."""
        says: list[Say] = agent_messages.agent_requests(self._seed) if self.has_agent_requests else []
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
        if ChannelArea.STREAM in self.areas:
            bounded.append(_start(StreamPeople(self._seed, self.stream).act(), "rooms"))
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
