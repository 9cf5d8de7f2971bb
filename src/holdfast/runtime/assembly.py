"""Assembly: builds the components of one process around a store. The simulator passes its own ports."""

import platform
from collections.abc import Sequence
from functools import partial

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.channels.agent import AgentChannel
from holdfast.inbox.channel import Ranking
from holdfast.inbox.channel_status import ChannelStatus, ComponentKind
from holdfast.inbox.channels import ChannelConnection, ChannelRegistry, Channels, Receiver
from holdfast.inbox.component_states import ComponentStates
from holdfast.inbox.gateway import Gateway
from holdfast.inbox.router import InboundRouter
from holdfast.kernel.notifier import Notifier, Topic
from holdfast.memory.dispatcher import Dispatcher
from holdfast.memory.forgetter import Forgetter
from holdfast.memory.lane import DispatchPolicy
from holdfast.memory.notes_service import EditReader, NotesService
from holdfast.memory.provider import Providers
from holdfast.memory.recaller import Recaller
from holdfast.models.choose import expect_models
from holdfast.monitor.sampler import Sampler
from holdfast.outbox.drafter import Drafter
from holdfast.outbox.reply import SendPolicy
from holdfast.outbox.reply_sender import ReplySender
from holdfast.outbox.typing_indicator import TypingIndicator
from holdfast.runtime.runtime import Parts, Runtime
from holdfast.runtime.supervisor import Supervisor
from holdfast.sessions.compressor import Compressor
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.sessions.finisher import Finisher
from holdfast.store.membership import LEASE_MS, Member, PrunePolicy, Reaper
from holdfast.store.ports import Ports
from holdfast.tools.mcp.tools import McpTools
from holdfast.turns.agents import Agents
from holdfast.turns.context_cache import Briefing, ContextCache
from holdfast.turns.mailbox_processor import MailboxProcessor
from holdfast.turns.model_call import metered
from holdfast.turns.runner import TurnRunner
from holdfast.turns.tool_calls import Hint
from holdfast.turns.worker import TURNS_MAX, Worker

EXTRACTIONS_AT_ONCE = 2


def assemble(
    ports: Ports,
    agents: Agents,
    *,
    serve: bool = True,
    sole: bool = True,
    lease_ms: int = LEASE_MS,
    turns_max: int = TURNS_MAX,
    providers: Providers | None = None,
    notes: NotesService | None = None,
    dispatch_policy: DispatchPolicy | None = None,
    finish_policy: FinishPolicy | None = None,
    channels: Channels | None = None,
    send_policy: SendPolicy | None = None,
    prune_policy: PrunePolicy | None = None,
    receive: bool = False,
    attached: Sequence[McpTools] = (),
) -> Runtime:
    """Build a runtime. With `channels` it sends replies through them; with `receive` it also accepts their messages."""
    models = ComponentStates(ports.clock, ComponentKind.MODEL)
    memories = ComponentStates(ports.clock, ComponentKind.MEMORY)
    expect_models(models, agents)
    parts = _parts(ports, metered(agents, ports, models), providers or Providers(), notes)
    if channels is not None:
        channels.offer(AGENT_CHANNEL, lambda agent: AgentChannel(agent, parts.gateway, parts.agents))
    receivers = _receivers(parts, channels) if channels is not None and receive else ()
    supervisor = None
    if serve:
        dispatcher = Dispatcher(
            ports, providers=parts.providers, member=parts.member, policy=dispatch_policy, states=memories
        )
        senders = _senders(parts, channels, send_policy) if channels is not None else ()
        supervisor = Supervisor(
            parts.member,
            _worker(parts, turns_max, (channels or Channels()).command_hint),
            (
                parts.compressor,
                dispatcher,
                Finisher(
                    ports, agents=parts.agents, member=parts.member, policy=finish_policy, at_once=EXTRACTIONS_AT_ONCE
                ),
                EditReader(ports, parts.providers),
                Forgetter(ports, recaller=parts.recaller, briefing=parts.briefing),
                Reaper(ports, parts.member, lease_ms=lease_ms, prune=prune_policy),
                Sampler(ports, parts.member),
                *senders,
                *receivers,
            ),
            ports.notifier,
            ports.tasks,
            sole=sole,
        )
    return Runtime(
        parts,
        supervisor=supervisor,
        channel_registry=ChannelRegistry(channels, receivers),
        attached=attached,
        models=models,
        memories=memories,
    )


def _parts(ports: Ports, agents: Agents, providers: Providers, notes: NotesService | None) -> Parts:
    notes = notes or NotesService(ports.db, providers)
    notes.changed = partial(_announce_notes, ports.notifier)
    member = Member(ports, host=platform.node())
    contexts = ContextCache(ports.db)

    return Parts(
        ports=ports,
        agents=agents,
        member=member,
        contexts=contexts,
        compressor=Compressor(ports, contexts, agents=agents, member=member),
        providers=providers,
        notes=notes,
        briefing=Briefing(notes),
        recaller=Recaller(providers, ports.tasks, ports.clock, ports.entropy, ports.db),
        gateway=Gateway(ports, agents),
    )


def _announce_notes(notifier: Notifier) -> None:
    for topic in (Topic.DELIVERY, Topic.NOTES):
        notifier.wake(topic)


def _receivers(parts: Parts, channels: Channels) -> tuple[Receiver, ...]:
    """Create one receive loop per channel, each with its own inbound router."""
    ports, made = parts.ports, []
    for (agent, name), channel in channels.all():
        status = ChannelStatus(agent=agent, channel=name, since=ports.clock.now())
        connection = ChannelConnection(status=status, clock=ports.clock)
        router = InboundRouter(
            agent=agent,
            channel=name,
            agents=parts.agents,
            gateway=parts.gateway,
            ports=ports,
            connection=connection,
            ranks=channel if isinstance(channel, Ranking) else None,
        )
        made.append(Receiver(channel, router, connection, ports.tasks, ports.entropy))
    return tuple(made)


def _senders(
    parts: Parts, channels: Channels, policy: SendPolicy | None
) -> tuple[ReplySender, TypingIndicator, *tuple[Drafter, ...]]:
    """The reply sender, the typing indicator and, if a channel shows drafts, the drafter."""
    ports = parts.ports
    reply_sender = ReplySender(ports, channels=channels, agents=parts.agents, member=parts.member, policy=policy)
    typing_indicator = TypingIndicator(ports, channels=channels)
    if not any(channel.capabilities.drafts for _, channel in channels.all()):
        return reply_sender, typing_indicator
    return reply_sender, typing_indicator, Drafter(ports, channels=channels)


def _worker(parts: Parts, turns_max: int, hint: Hint) -> Worker:
    runner = TurnRunner(
        parts.ports,
        parts.contexts,
        agents=parts.agents,
        compressor=parts.compressor,
        recaller=parts.recaller,
        briefing=parts.briefing,
        hint=hint,
    )
    processor = MailboxProcessor(
        parts.ports, parts.contexts, agents=parts.agents, runner=runner, compressor=parts.compressor
    )
    return Worker(
        parts.ports,
        parts.contexts,
        processor=processor,
        member=parts.member,
        turns_max=turns_max,
        limit=parts.gateway.turn_limit,
    )
