"""Assembly: the parts of one process around a store. The simulator assembles the same parts with its own ports."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.channels.agent import CHANNEL as AGENT_CHANNEL
from holdfast.channels.agent import AgentChannel
from holdfast.inbox.channel import Ranking
from holdfast.inbox.channels import Channels
from holdfast.inbox.gateway import Gateway
from holdfast.inbox.receiver import Exchange, Line, Receiver
from holdfast.inbox.router import Reception
from holdfast.kernel.clock import Clock
from holdfast.kernel.entropy import Entropy
from holdfast.kernel.notifier import Bell
from holdfast.kernel.notifier_port import Topic
from holdfast.kernel.tasks import Tasks
from holdfast.memory.dispatcher import Courier
from holdfast.memory.edit_reader import EditReader
from holdfast.memory.forgetter import Forgetter
from holdfast.memory.lane import CourierPolicy
from holdfast.memory.notes_service import Briefing, NotesService
from holdfast.memory.providers import Providers
from holdfast.memory.recall_breaker import RecallBreaker
from holdfast.memory.recaller import Recaller
from holdfast.memory.reindex import refill
from holdfast.outbox.drafter import Drafter
from holdfast.outbox.reply import PostmanPolicy
from holdfast.outbox.reply_sender import Postman
from holdfast.outbox.typing_indicator import Presence
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.supervisor import Supervisor
from holdfast.sessions.compressor import Compressor
from holdfast.sessions.finalisation import FinishPolicy
from holdfast.sessions.finisher import Finisher
from holdfast.store.membership import LEASE_MS, Lookout, Member, PrunePolicy, Reaper
from holdfast.store.sql_store import SqlStore
from holdfast.turns.agents import Agents
from holdfast.turns.mailbox_processor import Attendant
from holdfast.turns.runner import TurnRunner
from holdfast.turns.spend_recorder import Till, metered
from holdfast.turns.tool import Attached
from holdfast.turns.tool_calls import Hint, no_hint
from holdfast.turns.worker import TURNS_MAX, Worker

EXTRACTIONS_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the loops of a process share."""

    store: SqlStore
    agents: Agents
    clock: Clock
    entropy: Entropy
    tasks: Tasks
    bell: Bell
    member: Member
    compressor: Compressor
    providers: Providers
    keeper: NotesService
    briefing: Briefing
    recaller: Recaller
    gateway: Gateway


def assemble(
    store: SqlStore,
    agents: Agents,
    *,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    serve: bool = True,
    sole: bool = True,
    lease_ms: int = LEASE_MS,
    turns_max: int = TURNS_MAX,
    providers: Providers | None = None,
    keeper: NotesService | None = None,
    courier_policy: CourierPolicy | None = None,
    finish_policy: FinishPolicy | None = None,
    channels: Channels | None = None,
    postman_policy: PostmanPolicy | None = None,
    prune_policy: PrunePolicy | None = None,
    receive: bool = False,
    attached: Sequence[Attached] = (),
) -> Runtime:
    """With `channels`, replies are sent through them; with `receive`, they also take messages in."""
    parts = _parts(store, metered(agents, Till(store, clock, entropy)), clock, entropy, tasks, providers, keeper)
    hint = channels.command_hint if channels is not None else no_hint
    if channels is not None:
        channels.offer(AGENT_CHANNEL, lambda agent: AgentChannel(agent, parts.gateway, parts.agents))
    receivers = _receivers(parts, channels) if channels is not None and receive else ()
    supervisor = None
    if serve:
        supervisor = _supervisor(
            parts,
            sole=sole,
            lease_ms=lease_ms,
            turns_max=turns_max,
            courier_policy=courier_policy,
            finish_policy=finish_policy,
            prune_policy=prune_policy,
            posts=_posts(parts, channels, postman_policy) if channels is not None else (),
            receivers=receivers,
            hint=hint,
        )
    return _runtime(parts, supervisor, Exchange(channels, receivers), attached)


def _parts(  # noqa: PLR0917 - what every part is made of
    store: SqlStore,
    agents: Agents,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    providers: Providers | None,
    keeper: NotesService | None,
) -> Parts:
    bell = Bell()
    providers = providers or Providers()
    keeper = keeper or NotesService(store, store, providers)
    keeper.changed = partial(bell.wake, Topic.DELIVERY)
    member = Member(store, clock, entropy, host=platform.node())
    return Parts(
        store=store,
        agents=agents,
        clock=clock,
        entropy=entropy,
        tasks=tasks,
        bell=bell,
        member=member,
        compressor=Compressor(
            store=store, agents=agents, member=member, notifier=bell, clock=clock, entropy=entropy, tasks=tasks
        ),
        providers=providers,
        keeper=keeper,
        briefing=Briefing(keeper),
        recaller=Recaller(providers, tasks, RecallBreaker(providers.recall_circuits, clock, entropy), store.kin),
        gateway=Gateway(store, agents, bell, clock, entropy),
    )


def _runtime(
    parts: Parts,
    supervisor: Supervisor | None,
    exchange: Exchange,
    attached: Sequence[Attached],
) -> Runtime:
    return Runtime(
        store=parts.store,
        reader=parts.store,
        agents=parts.agents,
        member=parts.member,
        gateway=parts.gateway,
        compressor=parts.compressor,
        supervisor=supervisor,
        exchange=exchange,
        providers=parts.providers,
        recaller=parts.recaller,
        keeper=parts.keeper,
        briefing=parts.briefing,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        attached=attached,
    )


def _supervisor(
    parts: Parts,
    *,
    sole: bool,
    lease_ms: int,
    turns_max: int,
    courier_policy: CourierPolicy | None,
    finish_policy: FinishPolicy | None,
    prune_policy: PrunePolicy | None,
    posts: tuple[Postman, Presence, *tuple[Drafter, ...]] | tuple[()],
    receivers: Sequence[Receiver],
    hint: Hint,
) -> Supervisor:
    courier = Courier(
        store=parts.store,
        providers=parts.providers,
        member=parts.member,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        policy=courier_policy,
        refill=lambda key: refill(parts.store, parts.providers, key, courier_policy),
    )
    others = (
        parts.compressor,
        courier,
        *(_finisher(parts, finish_policy) for _ in range(EXTRACTIONS_AT_ONCE)),
        EditReader(parts.store, parts.providers, parts.tasks, parts.entropy),
        _forgetter(parts),
        Reaper(
            parts.store, parts.member, parts.bell, parts.tasks, parts.entropy, lease_ms=lease_ms, prune=prune_policy
        ),
        Lookout(parts.store, parts.bell, parts.tasks, parts.entropy),
        *posts,
        *receivers,
    )
    return Supervisor(
        parts.member,
        _worker(parts, turns_max, hint),
        others,
        parts.bell,
        parts.tasks,
        sole=sole,
        courier=courier,
        postman=posts[0] if posts else None,
    )


def _receivers(parts: Parts, channels: Channels) -> tuple[Receiver, ...]:
    """A loop for each channel, with the way in that is its own."""
    made = []
    for (agent, name), channel in channels.all():
        line = Line(agent=agent, channel=name, clock=parts.clock, since=parts.clock.now())
        intake = Reception(
            agent=agent,
            channel=name,
            agents=parts.agents,
            gateway=parts.gateway,
            store=parts.store,
            reader=parts.store,
            notifier=parts.bell,
            clock=parts.clock,
            entropy=parts.entropy,
            line=line,
            ranks=channel if isinstance(channel, Ranking) else None,
        )
        made.append(Receiver(channel, intake, line, parts.tasks, parts.entropy))
    return tuple(made)


def _posts(
    parts: Parts, channels: Channels, policy: PostmanPolicy | None
) -> tuple[Postman, Presence, *tuple[Drafter, ...]]:
    """Who sends replies, and who shows that one is being made; drafts are shown only where an operator wants them."""
    postman = Postman(
        store=parts.store,
        channels=channels,
        agents=parts.agents,
        member=parts.member,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        policy=policy,
    )
    presence = Presence(
        channels=channels,
        reader=parts.store,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
    )
    if not any(channel.capabilities.drafts for _, channel in channels.all()):
        return postman, presence
    drafter = Drafter(
        store=parts.store,
        reader=parts.store,
        channels=channels,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
    )
    return postman, presence, drafter


def _finisher(parts: Parts, policy: FinishPolicy | None) -> Finisher:
    return Finisher(
        store=parts.store,
        reader=parts.store,
        agents=parts.agents,
        member=parts.member,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        policy=policy,
    )


def _forgetter(parts: Parts) -> Forgetter:
    return Forgetter(
        store=parts.store,
        reader=parts.store,
        recaller=parts.recaller,
        briefing=parts.briefing,
        notifier=parts.bell,
        tasks=parts.tasks,
        entropy=parts.entropy,
    )


def _worker(parts: Parts, turns_max: int, hint: Hint) -> Worker:
    runner = TurnRunner(
        store=parts.store,
        agents=parts.agents,
        compressor=parts.compressor,
        recaller=parts.recaller,
        briefing=parts.briefing,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        hint=hint,
    )
    attendant = Attendant(
        store=parts.store,
        agents=parts.agents,
        runner=runner,
        compressor=parts.compressor,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
    )
    return Worker(
        store=parts.store,
        reader=parts.store,
        attendant=attendant,
        member=parts.member,
        notifier=parts.bell,
        clock=parts.clock,
        entropy=parts.entropy,
        tasks=parts.tasks,
        turns_max=turns_max,
        crowds=lambda: parts.gateway.crowds,
    )
