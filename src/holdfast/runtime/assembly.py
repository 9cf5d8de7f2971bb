"""Assembly: the parts of one process around a store. The simulator assembles the same parts with its own ports."""

import platform
from collections.abc import Sequence
from functools import partial

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.channels.agent import AgentChannel
from holdfast.inbox.channel import Ranking
from holdfast.inbox.channels import Channels
from holdfast.inbox.gateway import Gateway
from holdfast.inbox.receiver import ChannelConnection, ChannelRegistry, Receiver
from holdfast.inbox.router import InboundRouter
from holdfast.kernel.loop import Loop
from holdfast.kernel.notifier import Topic
from holdfast.memory.dispatcher import Dispatcher
from holdfast.memory.edit_reader import EditReader
from holdfast.memory.forgetter import Forgetter
from holdfast.memory.lane import DispatchPolicy
from holdfast.memory.notes_service import Briefing, NotesService
from holdfast.memory.providers import Providers
from holdfast.memory.recall_breaker import RecallBreaker
from holdfast.memory.recaller import Recaller
from holdfast.memory.reindex import refill
from holdfast.outbox.drafter import Drafter
from holdfast.outbox.reply import SendPolicy
from holdfast.outbox.reply_sender import ReplySender
from holdfast.outbox.typing_indicator import TypingIndicator
from holdfast.runtime.change_poller import ChangePoller
from holdfast.runtime.parts import Parts
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.supervisor import Supervisor
from holdfast.sessions.compressor import Compressor
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.sessions.finisher import Finisher
from holdfast.store.membership import LEASE_MS, Member, PrunePolicy, Reaper
from holdfast.store.ports import Ports
from holdfast.turns.agents import Agents
from holdfast.turns.context_cache import ContextCache
from holdfast.turns.mailbox_processor import MailboxProcessor
from holdfast.turns.runner import TurnRunner
from holdfast.turns.spend_recorder import metered
from holdfast.turns.tool import Attached
from holdfast.turns.tool_calls import Hint, no_hint
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
    keeper: NotesService | None = None,
    courier_policy: DispatchPolicy | None = None,
    finish_policy: FinishPolicy | None = None,
    channels: Channels | None = None,
    postman_policy: SendPolicy | None = None,
    prune_policy: PrunePolicy | None = None,
    receive: bool = False,
    attached: Sequence[Attached] = (),
) -> Runtime:
    """With `channels`, replies are sent through them; with `receive`, they also take messages in."""
    parts = _parts(ports, metered(agents, ports), providers or Providers(), keeper)
    if channels is not None:
        channels.offer(AGENT_CHANNEL, lambda agent: AgentChannel(agent, parts.gateway, parts.agents))
    receivers = _receivers(parts, channels) if channels is not None and receive else ()
    supervisor = None
    if serve:
        courier = Dispatcher(
            ports,
            providers=parts.providers,
            member=parts.member,
            policy=courier_policy,
            refill=lambda key: refill(ports.db, parts.providers, key, courier_policy),
        )
        posts = _posts(parts, channels, postman_policy) if channels is not None else ()
        reaper = Reaper(ports, parts.member, lease_ms=lease_ms, prune=prune_policy)
        supervisor = Supervisor(
            parts.member,
            _worker(parts, turns_max, channels.command_hint if channels is not None else no_hint),
            (
                parts.compressor,
                courier,
                *_upkeep(parts, finish_policy),
                reaper,
                ChangePoller(ports),
                *posts,
                *receivers,
            ),
            ports.notifier,
            ports.tasks,
            sole=sole,
            courier=courier,
            postman=posts[0] if posts else None,
        )
    return Runtime(
        parts, supervisor=supervisor, channel_registry=ChannelRegistry(channels, receivers), attached=attached
    )


def _parts(ports: Ports, agents: Agents, providers: Providers, keeper: NotesService | None) -> Parts:
    keeper = keeper or NotesService(ports.db, providers)
    keeper.changed = partial(ports.notifier.wake, Topic.DELIVERY)
    member = Member(ports, host=platform.node())
    contexts = ContextCache(ports.db)
    breaker = RecallBreaker(providers.recall_circuits, ports.clock, ports.entropy)

    return Parts(
        ports=ports,
        agents=agents,
        member=member,
        contexts=contexts,
        compressor=Compressor(ports, contexts, agents=agents, member=member),
        providers=providers,
        keeper=keeper,
        briefing=Briefing(keeper),
        recaller=Recaller(providers, ports.tasks, breaker, ports.db),
        gateway=Gateway(ports, agents),
    )


def _upkeep(parts: Parts, policy: FinishPolicy | None) -> tuple[Loop, ...]:
    """The loops that end epochs, read edited memory files and see forgetting through."""
    ports = parts.ports
    return (
        *(Finisher(ports, agents=parts.agents, member=parts.member, policy=policy) for _ in range(EXTRACTIONS_AT_ONCE)),
        EditReader(ports, parts.providers),
        Forgetter(ports, recaller=parts.recaller, briefing=parts.briefing),
    )


def _receivers(parts: Parts, channels: Channels) -> tuple[Receiver, ...]:
    """A loop for each channel, with the way in that is its own."""
    ports, made = parts.ports, []
    for (agent, name), channel in channels.all():
        connection = ChannelConnection(agent=agent, channel=name, clock=ports.clock, since=ports.clock.now())
        intake = InboundRouter(
            agent=agent,
            channel=name,
            agents=parts.agents,
            gateway=parts.gateway,
            ports=ports,
            connection=connection,
            ranks=channel if isinstance(channel, Ranking) else None,
        )
        made.append(Receiver(channel, intake, connection, ports.tasks, ports.entropy))
    return tuple(made)


def _posts(
    parts: Parts, channels: Channels, policy: SendPolicy | None
) -> tuple[ReplySender, TypingIndicator, *tuple[Drafter, ...]]:
    """The reply sender, the typing indicator and, where an operator wants drafts, the drafter."""
    ports = parts.ports
    postman = ReplySender(ports, channels=channels, agents=parts.agents, member=parts.member, policy=policy)
    presence = TypingIndicator(ports, channels=channels)
    if not any(channel.capabilities.drafts for _, channel in channels.all()):
        return postman, presence
    return postman, presence, Drafter(ports, channels=channels)


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
    attendant = MailboxProcessor(
        parts.ports, parts.contexts, agents=parts.agents, runner=runner, compressor=parts.compressor
    )
    return Worker(
        parts.ports,
        processor=attendant,
        member=parts.member,
        turns_max=turns_max,
        crowds=lambda: parts.gateway.crowds,
    )
