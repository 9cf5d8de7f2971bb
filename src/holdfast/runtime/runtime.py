"""The runtime: one open store and, where this process owns it, the loops that work on it.

The runtime is the library's interface: it accepts messages, streams replies and reads their history. Every value it
returns is durable; its memory holds only caches.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Unpack, cast

from holdfast.audit.action import Act
from holdfast.audit.action_sql import record_action
from holdfast.audit.actor import acting
from holdfast.inbox.access import PLATFORMS
from holdfast.inbox.access_control import AccessControl
from holdfast.inbox.address import Address, check_part, sender_of_chat
from holdfast.inbox.channel_status import ComponentKind, ComponentStatus, ToolServerStatus
from holdfast.inbox.channels import ChannelRegistry
from holdfast.inbox.component_states import ComponentStates
from holdfast.inbox.gateway import Gateway, locate
from holdfast.inbox.mailbox import MessageTrace
from holdfast.inbox.message import BY_HUMAN, UNFINISHED, AcceptOutcome, Arrival, Origin, accepted_message
from holdfast.kernel import log
from holdfast.kernel.errors import AgentNotFound, HoldfastError, InvalidInput, OperationBusy
from holdfast.kernel.ids import AgentName, DeliveryId, ForgetId, MessageId, Principal, ReplyId, SessionId
from holdfast.kernel.ids import Provider as ProviderName
from holdfast.kernel.notifier import Feed, Topic
from holdfast.memory.delivery import NOWHERE, OPEN, CallerDirectory, DeliveryPolicy, DeliveryView, Outcome
from holdfast.memory.forget import ForgetRequest, Forgetting
from holdfast.memory.forget_sql import begin_forgetting, read_forgetting
from holdfast.memory.forgetter import scrub_forgotten
from holdfast.memory.lane import LaneKey
from holdfast.memory.notes import MemoryBatch, MemoryOutcome, stream_of
from holdfast.memory.notes_service import NotesService
from holdfast.memory.notes_view import NoteForReview, Revoked
from holdfast.memory.provider import Providers
from holdfast.memory.recall import RecallKey, RecallOutcome, choose, frame, make_query
from holdfast.memory.recaller import Recaller
from holdfast.memory.reindex import backfill, check_indexed, rebuild
from holdfast.memory.replay_sql import replay_delivery
from holdfast.memory.visibility import Audience, ShownNotes, is_group
from holdfast.models.choose import expect_models
from holdfast.outbox.reply import PostedReply
from holdfast.outbox.reply_sql import read_reply, resend_reply
from holdfast.runtime.health import HealthCheck
from holdfast.runtime.supervisor import Supervisor, TemporaryLease
from holdfast.runtime.views import Delta, Health, Prompt, SendOptions
from holdfast.sessions.compression import Busy, Operation
from holdfast.sessions.compressor import Compressor
from holdfast.sessions.finalisation import Finalisation, parse_origin
from holdfast.sessions.finalisation_sql import retry_finalisation
from holdfast.sessions.history_sql import (
    find_unanswered,
    list_deliveries,
    list_entries,
    list_sessions,
    read_session,
    trace_message,
)
from holdfast.sessions.session import Session
from holdfast.store.membership import Member
from holdfast.store.ports import Ports
from holdfast.tools.mcp.tools import McpTools
from holdfast.turns.activity import context_parts
from holdfast.turns.agents import Agents
from holdfast.turns.approvals import Approvals
from holdfast.turns.context import Context, is_named, render
from holdfast.turns.context_cache import Briefing, ContextCache, audience_of
from holdfast.turns.journal import EntryView
from holdfast.turns.model_call import metered
from holdfast.turns.pauses import Pauses
from holdfast.turns.policy import AgentPolicy
from holdfast.turns.record_sql import record_turn, undo_recorded
from holdfast.turns.turn import Recorded, TurnEvent, TurnRecord

if TYPE_CHECKING:
    from holdfast.repair.repairs import Repairs
    from holdfast.runtime.equipment import Equipment

LOOK_EVERY_MS = 1_000
UNSETTLED = frozenset(state.value for state in OPEN)
ENDINGS = frozenset(one.value for one in (TurnEvent.ANSWERED, TurnEvent.FAILED, TurnEvent.INTERRUPTED))
CHAT_TYPE = "dm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The components of one process that its loops and the runtime share."""

    ports: Ports
    agents: Agents
    member: Member
    contexts: ContextCache
    compressor: Compressor
    providers: Providers
    notes: NotesService
    briefing: Briefing
    recaller: Recaller
    gateway: Gateway


class Runtime:
    def __init__(
        self,
        parts: Parts,
        *,
        supervisor: Supervisor | None,
        channel_registry: ChannelRegistry,
        attached: Sequence[McpTools] = (),
        models: ComponentStates | None = None,
        memories: ComponentStates | None = None,
    ) -> None:
        self.ports = ports = parts.ports
        self.db = ports.db
        self.clock = ports.clock
        self.entropy = ports.entropy
        self.tasks = ports.tasks
        self.gateway = parts.gateway
        self.channel_registry = channel_registry
        self.approvals = Approvals(ports)
        self.equipment: Equipment | None = None  # for the agents of a later configuration
        self.access = AccessControl(ports, self._platforms)
        self.pauses = Pauses(ports, parts.agents)
        self._notifier = ports.notifier
        self._attached = list(attached)
        self._agents = parts.agents
        self._contexts = parts.contexts
        self._member = parts.member
        self._compressor = parts.compressor
        self._supervisor = supervisor
        self._providers = parts.providers
        self._recaller = parts.recaller
        self._notes = parts.notes
        self._briefing = parts.briefing
        self._temporary_lease = TemporaryLease(ports, parts.member)
        self._models = models or ComponentStates(ports.clock, ComponentKind.MODEL)
        self._memories = memories or ComponentStates(ports.clock, ComponentKind.MEMORY)
        self._health = HealthCheck(ports, parts.member, serves=supervisor is not None)

    # --- lifecycle

    async def start(self) -> "Runtime":
        if self._supervisor is not None:
            try:
                for one in self._attached:
                    await one.start()
                await self._supervisor.start()
            except BaseException:
                for one in self._attached:  # leave no MCP program running
                    await one.close()
                raise
        log.info("runtime.opened", serving=self._supervisor is not None)
        return self

    async def close(self) -> None:
        """Close every component. The store is closed even if closing another component fails."""
        try:
            await self._end()
        finally:
            await self.db.close()
        log.info("runtime.closed")

    async def _end(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop()
            for one in self._attached:
                await one.close()
        if self._temporary_lease.is_open:
            self._compressor.cut_off()
            await self._temporary_lease.end()
        await self.channel_registry.close()
        self._recaller.close()
        await self._providers.close()
        await self._agents.close()

    @property
    def serving(self) -> Agents:
        """The agents with their models and tools."""
        return self._agents

    async def adopt(self, agents: Agents) -> None:
        """Answer with these agents from now on. Raises `ConfigInvalid`, and changes nothing then.

        A turn that runs ends with the settings that it began with. Agents that exist keep their memory providers and
        MCP servers.
        """
        if self.equipment is None:
            raise InvalidInput("this runtime has no providers and tools for other agents")
        equipped, servers = self.equipment.equip(agents, self._agents)
        for one in servers:
            self._attached.append(one)
            await one.start()
        expect_models(self._models, equipped)
        self._agents.take_over(metered(equipped, self.ports, self._models))

    async def __aenter__(self) -> "Runtime":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- messages

    async def accept(
        self,
        chat: str,
        text: str,
        *,
        agent: str | None = None,
        sender: str | None = None,
        id: str | None = None,
        channel: str = "http",
        message: MessageId | None = None,
        origin: Origin = BY_HUMAN,
        directory: Path | str | None = None,
        trusted: bool = False,
        request: str = "",
    ) -> AcceptOutcome:
        """Make one message durable and return the outcome. `message` is an id from `gateway.new_message`.

        `directory` is where the message was written. A `trusted` message is exempt from the chat's rate limit.
        `request` is stored until the message is answered, so that `unanswered` recognises a repeated request.

        Without a `sender` the chat is the sender: two chats are two people unless they are linked.
        """
        arrival = Arrival(
            address=self._address(agent, channel, chat),
            event_id=id if id is not None else self.ports.new_id("ext"),
            principal=Principal(sender if sender is not None else sender_of_chat(chat)),
            text=text,
            human=origin.human,
            hop=origin.hop,
            where=NOWHERE if directory is None else locate(directory),
            trusted=trusted,
            token=origin.token,
            request=request,
            rank=origin.rank,
            message=message or MessageId(""),
        )
        return await self.gateway.accept(arrival)

    async def send(self, chat: str, text: str, **how: Unpack[SendOptions]) -> MessageId:
        """Make one message durable and return its id. Repeating the same `id` returns the same message.

        The program that holds the runtime is trusted, so a chat's rate limit does not apply. A program that forwards
        strangers' messages passes `trusted=False`.
        """
        how.setdefault("trusted", True)
        return accepted_message(await self.accept(chat, text, **how))

    async def ask(self, chat: str, text: str, **how: Unpack[SendOptions]) -> str:
        """Send a message and wait for its reply."""
        how.setdefault("trusted", True)
        wanted = self.gateway.new_message()
        with closing(self._notifier.subscribe(message=wanted, deltas=False)) as feed:  # open before the message exists
            message = accepted_message(await self.accept(chat, text, message=wanted, **how))
            if message == wanted and (reply := await _reply_in(feed)) is not None:
                return reply
        return await self.reply_to(message)

    async def reply_to(self, message: MessageId) -> str:
        """Wait until the reply to a message is durable, and return it."""
        with closing(self._notifier.subscribe(message=message, deltas=False)) as feed:
            while not (trace := await self.db.read(trace_message(message))).is_over:
                if (reply := await _reply_in(feed)) is not None:
                    return reply
        return trace.reply.text if trace.reply else ""

    async def remembered(self, message: MessageId, *, within_ms: int) -> bool:
        """Wait until every memory provider has settled the turn of a message; False after the given time."""
        try:
            with closing(self._notifier.subscribe(name="delivery.settled")) as feed:
                async with asyncio.timeout(within_ms / 1000):
                    while any(one.state in UNSETTLED for one in (await self.trace(message)).deliveries):
                        await feed.next_within(LOOK_EVERY_MS)
        except TimeoutError:
            return False
        return True

    async def outcome(self, message: MessageId) -> MessageTrace:
        """Wait until a message has ended or awaits a human, and return its trace."""
        with closing(self._notifier.subscribe(message=message, deltas=False)) as feed:
            while not (trace := await self.db.read(trace_message(message))).is_over and trace.awaiting is None:
                await feed.next_within(LOOK_EVERY_MS)
        return trace

    async def stream(self, chat: str, text: str, **how: Unpack[SendOptions]) -> AsyncGenerator[Delta]:
        """Send a message and yield its reply while it is generated; the pieces add up to the durable reply."""
        how.setdefault("trusted", True)
        wanted = self.gateway.new_message()
        feed = self._notifier.subscribe(message=wanted)
        try:
            outcome = await self.accept(chat, text, message=wanted, **how)
            message = accepted_message(outcome)
            if message != wanted:  # a repeated message keeps its earlier id
                feed.close()
                feed = self._notifier.subscribe(message=message)
                trace = await self.db.read(trace_message(message))
                if trace.state not in UNFINISHED:
                    yield Delta(trace.reply.text if trace.reply else "")
                    return
            async for delta in self.follow(message, feed):
                yield delta
        finally:
            feed.close()

    async def follow(self, message: MessageId, feed: Feed) -> AsyncIterator[Delta]:
        """Yield the reply to a message while it is generated. A feed opened before the message misses no piece."""
        heard = ""
        while True:
            event = await feed.next_within(LOOK_EVERY_MS)
            if event is not None and message in event.messages and event.name == "turn.delta":
                heard += event.text
                yield Delta(event.text)
                continue
            if event is not None and message in event.messages and event.name in {"turn.restarted", "turn.called"}:
                if heard:
                    heard = ""
                    yield Delta("", restarted=True)
                continue
            if event is not None and (message not in event.messages or feed.has_more):
                continue  # the pieces that wait in the feed come before the outcome
            trace = await self.db.read(trace_message(message))
            if trace.state not in UNFINISHED:
                final = trace.reply.text if trace.reply else ""
                if final != heard:
                    yield Delta(final, restarted=bool(heard))
                return
            if trace.awaiting is not None and trace.awaiting.text != heard:
                yield Delta(trace.awaiting.text, restarted=bool(heard))  # a question for the human who reads the stream
                heard = trace.awaiting.text

    async def record_turn(self, record: TurnRecord) -> Recorded:
        """Record a complete turn of a program that runs its own conversation (D8)."""
        recorded = await self.db.write(record_turn(record))
        if record.policies and not recorded.repeated:
            self._notifier.wake(Topic.DELIVERY)
        return recorded

    async def undo_recorded(self, session: SessionId, turns: Sequence[int], *, by: str) -> int:
        """Undo the last turns of a recorded session; their number. Delivered words are retracted where possible."""
        undone = await self.db.write(undo_recorded(session, turns, by=by))
        self._notifier.wake(Topic.DELIVERY)
        return undone

    async def record_and_read(self, record: TurnRecord) -> tuple[Recorded, Context]:
        """Record a complete turn, and return the context of its session after it: one transaction for both."""
        known = self._contexts.get(record.session)
        recorded = await self.db.write(record_turn(record, reads=True, known=known))
        context = cast("Context", recorded.context)
        self._contexts.keep(context)
        return recorded, context

    # --- history

    async def trace(self, message: MessageId) -> MessageTrace:
        return self.explained(await self.db.read(trace_message(message)))

    def explained(self, found: MessageTrace) -> MessageTrace:
        """The trace with what each provider's receipts prove."""
        return replace(found, deliveries=tuple(self._providers.explained(found.deliveries)))

    async def sessions(
        self,
        *,
        agent: str | None = None,
        chat: str | None = None,
        channel: str = "http",
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Session]:
        """List sessions, newest first; `after` is the last session of the previous page."""
        address = None if chat is None else str(self._address(agent, channel, chat))
        return await self.db.read(list_sessions(agent=agent, address=address, after=after, limit=limit))

    async def history(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        return await self.db.read(list_entries(session, after=after, limit=limit))

    async def context(self, session: SessionId) -> Context:
        return await self._contexts.read(session)

    async def prompt(self, session: SessionId) -> Prompt:
        """The messages a model would receive if a turn started now: instructions, notes and committed entries."""
        context = await self._contexts.read(session)
        policy = self._agents.policy(context.agent)
        found = await self.db.read(read_session(session))
        audience = audience_of(policy, context, found.principal, context.address)
        brief = await self._briefing.read(policy, context, audience)
        settled = replace(context, entries=context.committed, open_turn=None)
        specs = self._agents.get(context.agent).tools.specs(context.agent)
        tools = sum(one.tokens for one in specs)
        parts = context_parts(settled, instructions=brief.instructions, notes=brief.notes, tools=tools)
        return Prompt(
            messages=render(settled, brief.instructions, brief.notes, named=is_named(context, context.address)),
            covers_through=settled.covers_through,
            tokens=(used := round(settled.used_tokens(brief.text))),
            parts={name: round(used * tokens / sum(parts.values())) for name, tokens in parts.items()},
            thresholds=policy.thresholds,
        )

    # --- memory

    async def recall(
        self,
        text: str,
        *,
        agent: str | None = None,
        chat: str = "",
        sender: str | None = None,
        channel: str = "http",
        directory: Path | str | None = None,
    ) -> RecallOutcome:
        """Search the agent's memory, as the sender would in that chat.

        Without a sender the chat is the sender. Without both, the search covers only memories that everyone may see.
        """
        who = Principal(sender if sender is not None else sender_of_chat(chat))
        name = self.named(agent)
        policy = self._agents.policy(name).recall
        address = str(self._address(name, channel, chat)) if chat else ""
        key = RecallKey(session=SessionId(""), epoch=0, head_seq=0, principal=who)
        query = make_query(key, text, policy, agent=name, address=address, where=locate(directory))
        found = await self._recaller.recall(query, policy)
        return replace(found, memories=choose(found.memories, policy))

    async def recall_at(
        self, text: str, *, agent: AgentName, address: str, sender: Principal, where: CallerDirectory, budget_ms: int
    ) -> tuple[RecallOutcome, str]:
        """Search the agent's memory as a turn at that address would; the memories, and their text for a model."""
        policy = replace(self._agents.policy(agent).recall, budget_ms=budget_ms)
        key = RecallKey(session=SessionId(""), epoch=0, head_seq=0, principal=sender)
        query = make_query(key, text, policy, agent=agent, address=address, where=where, group=is_group(address))
        found = await self._recaller.recall(query, policy)
        chosen = replace(found, memories=choose(found.memories, policy))
        return chosen, frame(chosen, policy)

    async def notes_at(self, *, agent: AgentName, address: str, sender: Principal) -> ShownNotes:
        """The notes that a turn at that address would be shown."""
        group = is_group(address)
        return await self._notes.shown(Audience(agent=agent, principal=sender, address=address, is_group=group))

    def policies(self, agent: str) -> tuple[DeliveryPolicy, ...]:
        """The agent's deliveries to its providers, for `record_turn`."""
        return self._providers.policies(AgentName(agent))

    async def deliveries(
        self, *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[DeliveryView]:
        """List deliveries, newest first."""
        found = await self.db.read(list_deliveries(provider=provider, state=state, after=after, limit=limit))
        return self._providers.explained(found)

    async def replay(self, delivery: DeliveryId) -> str:
        """Put a parked delivery back on its lane as a late one, and return its new state."""
        state = await self.db.write(replay_delivery(delivery, by=acting()))
        self._notifier.wake(Topic.DELIVERY)
        return state

    async def forget(
        self, *, session: str | None = None, person: str | None = None, agent: str | None = None, id: str | None = None
    ) -> Forgetting:
        """Forget a session or a person: content is blanked on return; done when every receipt has arrived (D25).

        Without an agent, all agents forget the person. Repeating an `id` returns the request's present state.
        """
        request = ForgetRequest(
            id=ForgetId(id if id is not None else self.ports.new_id("forget")),
            agent=AgentName(agent) if agent is not None else None,
            session=SessionId(session) if session is not None else None,
            person=Principal(person) if person is not None else None,
        )
        found = await self.db.write(begin_forgetting(request, by=acting()))
        self._contexts.clear()
        self._recaller.close()  # prefetched recalls and briefings may quote the forgotten content
        self._briefing.clear()
        log.info("forget.requested", forget=found.id, kind=found.kind.value, parts=len(found.parts), **found.blanked)
        for topic in (Topic.DELIVERY, Topic.FORGET, Topic.MAIL):
            self._notifier.wake(topic)
        return found if self._supervisor is not None else await self._scrub(found)

    async def _scrub(self, found: Forgetting) -> Forgetting:
        """Scrub here, because no loop of this process does. After a failure the serving process scrubs later."""
        try:
            await scrub_forgotten(self.db)
        except HoldfastError as error:
            log.warning("forget.pending", forget=found.id, code=error.code, why=str(error))
        return await self.db.read(read_forgetting(found.id))

    async def forget_status(self, id: str) -> Forgetting:
        """The state of a forget request. Raises `ForgetNotFound`."""
        return await self.db.read(read_forgetting(ForgetId(check_part("forget id", id))))

    async def apply_memory(self, batch: MemoryBatch) -> MemoryOutcome:
        """Apply all changes of the batch or none; a `MemoryUndo` reverses one operation, at most once.

        The agent's providers receive the change too.
        """
        self._agents.get(batch.agent)
        return await self._notes.apply(batch)

    async def move_memory(self, batch: MemoryBatch, to: str) -> MemoryOutcome:
        """Move the note of the batch's one change to another scope; an empty scope shares the note with everyone."""
        self._agents.get(batch.agent)
        return await self._notes.move(batch, to)

    async def review_notes(self, agent: str | None = None) -> Sequence[NoteForReview]:
        """The notes written in a group or from a stranger's messages, newest first."""
        name = self.named(agent)
        return await self._notes.for_review(name, self._agents.policy(name).access)

    async def revoke_notes(self, agent: str | None = None, *, author: str = "", chat: str = "") -> Revoked:
        """Remove the notes written from an author's messages, or in a chat. Raises `InvalidInput`."""
        name, origin = self.named(agent), self.ports.new_id("revoke")
        access = self._agents.policy(name).access
        return await self._notes.revoke(name, access, author=author, chat=chat, by="user", origin=origin)

    async def backfill(self, provider: str, *, agent: str | None = None) -> int:
        """Queue the turns that predate a provider's configuration; returns the number of queued units."""
        made = await backfill(self.db, self._providers, LaneKey(self.named(agent), ProviderName(provider)))
        self._notifier.wake(Topic.DELIVERY)
        return made

    async def rebuild(self, provider: str = "local", *, agent: str | None = None) -> int:
        """Rebuild a provider's own index from the journal; returns the number of parcels."""
        key = LaneKey(self.named(agent), ProviderName(provider))
        check_indexed(self._providers, key)
        await self.db.write(record_action(Act.PROVIDER_REBUILT, provider, agent=key.agent, by=acting()))
        return await rebuild(self.db, self._providers, key)

    async def migrate_memory(self, agent: str | None = None, subject: str = "") -> dict[str, dict[str, Outcome]]:
        """Import each memory file into each provider that supports it, at most once; returns every outcome."""
        name = self.named(agent)
        await self.db.write(record_action(Act.PROVIDER_MIGRATED, stream_of(name, subject), agent=name, by=acting()))
        return await self._notes.migrate(name, subject)

    def named(self, agent: str | None) -> AgentName:
        """The agent of that name, or the default agent. Raises `AgentNotFound` and `InvalidName`."""
        name = self._agents.first if agent is None else AgentName(agent)
        self._agents.get(name)
        return name

    def _address(self, agent: str | None, channel: str, chat: str) -> Address:
        """The address of a chat with an agent, which need not exist. Raises `InvalidName`."""
        name = self._agents.first if agent is None else AgentName(agent)
        return Address(agent=name, channel=channel, type=CHAT_TYPE, chat=chat)

    def agents(self) -> Sequence[str]:
        """The configured agents; `main` if any name is an agent."""
        return sorted(self._agents.listed) or ["main"]

    def policy(self, agent: str) -> AgentPolicy | None:
        """The settings of an agent; None for one that is not configured any more."""
        try:
            return self._agents.policy(agent)
        except AgentNotFound:
            return None

    @property
    def default_agent(self) -> str:
        """The agent for messages that name no agent: `main` if it exists, else the first configured one."""
        return self._agents.first

    def policy_of(self, agent: str) -> AgentPolicy | None:
        """The configuration of an agent; None for one that is not configured any more."""
        try:
            return self._agents.policy(agent)
        except HoldfastError:
            return None

    def model_of(self, agent: str) -> str:
        """The name of an agent's model; empty for an agent that is not configured any more."""
        return "" if self.policy_of(agent) is None else self._agents.get(agent).model.name

    def is_repeatable(self, agent: str, tool: str) -> bool:
        """Whether a second call of a tool does no harm, as its author said. An unknown tool may do harm."""
        return self.policy_of(agent) is not None and self._agents.get(agent).tools.is_idempotent(tool)

    def tool_servers(self) -> Sequence[ToolServerStatus]:
        """The status of every MCP server of this process."""
        return [status for one in self._attached for status in one.standings()]

    def watch_tool_servers(self, hear: Callable[[], None]) -> None:
        """Call `hear` after every status change. `hear` must return quickly and must not raise."""
        for one in self._attached:
            one.watch(hear)

    def models(self) -> Sequence[ComponentStatus]:
        """The state of each agent's models, as their latest requests showed it."""
        return self._models.statuses()

    def memories(self) -> Sequence[ComponentStatus]:
        """The state of each agent's memory providers, as the latest deliveries of this process showed it."""
        return self._memories.statuses()

    def watch_components(self, hear: Callable[[], None]) -> None:
        """Call `hear` after every change of a model or memory provider. It must return quickly and must not raise."""
        self._models.hear = self._memories.hear = hear

    def components(self) -> Sequence[ComponentStatus]:
        """The state of everything that agents of this process depend on."""
        channels = [one.component for one in self.channel_registry.statuses()]
        return [*channels, *(one.component for one in self.tool_servers()), *self.models(), *self.memories()]

    def _platforms(self) -> frozenset[str]:
        """The known platforms and the configured ones."""
        named = (name for agent in self._agents.listed.values() for name in agent.policy.channels)
        return PLATFORMS.union(named, (one.channel for one in self.channel_registry.statuses()))

    def events(self) -> Feed:
        """Every event of this process from now on."""
        return self._notifier.subscribe()

    async def unanswered(
        self, chat: str, request: str, *, agent: str | None = None, channel: str = "http"
    ) -> MessageId | None:
        """The newest unfinished message of the same request, in the chat or, without a chat, in any."""
        address = str(self._address(agent, channel, chat)) if chat else ""
        return await self.db.read(find_unanswered(address, request))

    # --- operations

    async def health(self) -> Health:
        """Healthy only after a recent real write (R41), and while this process serves if it should."""
        return await self._health.check()

    async def resend(self, reply: ReplyId) -> PostedReply:
        """Send an uncertain or failed reply again. Raises `ReplyNotFound` and `InvalidInput`."""
        state = await self.db.write(resend_reply(reply, by=acting()))
        log.info("reply.resent", reply=reply, state=state)
        self._notifier.wake(Topic.REPLY)
        return await self.db.read(read_reply(reply))

    @cached_property
    def repairs(self) -> "Repairs":
        from holdfast.repair.repairs import Repairs  # noqa: PLC0415 - few commands repair anything

        return Repairs(self.ports)

    async def retry_extraction(self, id: str) -> Finalisation:
        """Retry an extraction that failed. Raises `FinalisationNotFound` and `InvalidInput`."""
        session, epoch = parse_origin(id)
        found = await self.db.write(retry_finalisation(session, epoch, by=acting()))
        if found.ended:
            raise InvalidInput(f"{found.origin} is {found.step.value}; only a failed one can be taken up again")
        log.info("finish.repeated", session=session, epoch=epoch, step=found.step.value)
        self._notifier.wake(Topic.FINISH)
        return found

    async def begin_compression(self, session: SessionId) -> Operation:
        """Start compressing a session concurrently with its mailbox; raises `OperationBusy` while another one runs."""
        found = await self.db.read(read_session(session))
        self._agents.get(found.agent)  # a removed agent raises before the operation starts
        if self._supervisor is None:
            await self._temporary_lease.begin()
        begun = await self._compressor.begin(session, found.agent)
        if isinstance(begun, Busy):
            raise OperationBusy(f"operation {begun.operation} is compressing {session}", operation=begun.operation)
        return begun


async def _reply_in(feed: Feed) -> str | None:
    """The reply that a turn of this process publishes once it is durable.

    None if the message ends in another way, or if the next event takes long: another process may answer.
    """
    while (event := await feed.next_within(LOOK_EVERY_MS)) is not None:
        if event.name in ENDINGS:
            return event.text
        if not event.name.startswith(("turn.", "message.accepted")):
            return None
    return None
