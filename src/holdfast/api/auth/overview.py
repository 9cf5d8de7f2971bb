"""The overview: what an access token's agents have in all of their chats. A bound token has no overview (viewer.py).

For a token that names agents, data of any other agent does not exist. Other agents do not use up the limit of a list.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from holdfast.api.auth.access_token import AccessToken, Scope
from holdfast.api.shapes.repair import RepairReport, RepairWish, check_wish, done_view, filter_of, plan_view
from holdfast.inbox.access import PairingView
from holdfast.inbox.address import agent_name, check_part
from holdfast.inbox.channel_status import ChannelStatus, ComponentStatus, ToolServerStatus
from holdfast.kernel.errors import ReplyNotFound
from holdfast.kernel.ids import AgentName, Instant, ReplyId
from holdfast.memory.delivery import DeliveryView
from holdfast.monitor import sample
from holdfast.monitor.component_needs import component_needs
from holdfast.monitor.message_list import MessageFilter, MessagePage
from holdfast.monitor.message_list_sql import list_messages
from holdfast.monitor.sample import Sample, SampleSpan, added_up
from holdfast.monitor.sample_sql import list_samples
from holdfast.monitor.status import StoreStatus
from holdfast.monitor.status_sql import read_status
from holdfast.monitor.status_view import of_agents, with_needs, without_people
from holdfast.outbox.reply import PostedReply
from holdfast.outbox.reply_sql import list_replies, read_reply
from holdfast.repair.plan import RepairSubject, RepairVerb
from holdfast.runtime.runtime import Runtime
from holdfast.turns.agent_pause import AgentPause, PauseChange
from holdfast.turns.spend_sql import SpendTotal, sum_spend_by_model

PAGE = 1_000
T = TypeVar("T")
OfAgent = TypeVar("OfAgent", ChannelStatus, ToolServerStatus, ComponentStatus, SpendTotal, DeliveryView, AgentPause)


class Overview:
    def __init__(self, runtime: Runtime, token: AccessToken) -> None:
        self._runtime = runtime
        self._token = token
        self._by = f"token:{token.id}"

    def _seen(self, found: Sequence[OfAgent]) -> Sequence[OfAgent]:
        return [one for one in found if self._token.sees(one.agent)]

    def channels(self) -> Sequence[ChannelStatus]:
        return self._seen(self._runtime.channel_registry.statuses())

    def tool_servers(self) -> Sequence[ToolServerStatus]:
        return self._seen(self._runtime.tool_servers())

    @property
    def now(self) -> Instant:
        return self._runtime.clock.now()

    async def status(self) -> StoreStatus:
        """Without the scope `read`, nothing in it names people."""
        found = with_needs(await self._runtime.db.read(read_status()), component_needs(self._runtime.components()))
        if self._token.agents:
            found = of_agents(found, self._token.sees)
        return found if self._token.may(Scope.READ) else without_people(found)

    def components(self) -> Sequence[ComponentStatus]:
        """Without the scope `read`, no reason: a platform chooses its words."""
        found = self._seen(self._runtime.components())
        return found if self._token.may(Scope.READ) else [replace(one, reason="") for one in found]

    async def messages(self, wanted: MessageFilter, *, before: str, limit: int) -> MessagePage:
        """A token that does not find other tokens' messages by id does not list them either."""
        token = "" if self._token.finds_all else self._token.id
        wanted = replace(wanted, agents=self._token.agents, token=token)
        return await self._runtime.db.read(list_messages(wanted, before=before, limit=limit))

    async def samples(self, span: SampleSpan, since: Instant) -> Sequence[Sample]:
        """The sum of all processes, oldest first."""
        found = added_up(await self._runtime.db.read(list_samples(span, since)))
        return [sample.of_agents(one, self._token.sees) for _, one in sorted(found.items())]

    async def spend(self, *, days: int, agent: AgentName | None) -> Sequence[SpendTotal]:
        return self._seen(await self._runtime.db.read(sum_spend_by_model(days=days, agent=agent)))

    async def deliveries(
        self, *, provider: str | None, state: str | None, after: int, limit: int
    ) -> Sequence[DeliveryView]:
        read = partial(self._runtime.deliveries, provider=provider, state=state)
        return await filled(read, self._seen, lambda one: one.n, after=after, limit=limit)

    async def replies(
        self, *, agent: str | None, after: int, limit: int, **wanted: str | None
    ) -> Sequence[PostedReply]:
        def read(agent: str | None) -> Awaitable[Sequence[PostedReply]]:
            return self._runtime.db.read(list_replies(**wanted, agent=agent, after=after, limit=limit))

        return (await per_agent(self._token, agent, read, order=lambda one: -one.n))[:limit]

    async def resend(self, reply: ReplyId) -> PostedReply:
        """Raises `ReplyNotFound`."""
        if not self._token.sees((await self._runtime.db.read(read_reply(reply))).agent):
            raise ReplyNotFound(f"there is no reply {reply[:80]!r}", reply=reply[:80])
        return await self._runtime.resend(reply)

    async def repair(self, verb: RepairVerb, subject: RepairSubject, wish: RepairWish) -> RepairReport:
        """The plan of a repair, carried out unless it is a dry run. Raises `InvalidInput` and `AgentNotFound`."""
        check_wish(wish)
        if wish.agent:
            self._token.check_agent(wish.agent)
        repairs = self._runtime.repairs
        plan = await repairs.plan(verb, subject, filter_of(wish, self._token.agents), limit=wish.limit)
        return plan_view(plan) if wish.dry_run else done_view(plan, await repairs.carry_out(plan))

    async def pauses(self) -> Sequence[AgentPause]:
        return self._seen(await self._runtime.pauses.list())

    async def pause(self, agent: str) -> PauseChange:
        """Raises `AgentNotFound`."""
        self._token.check_agent(agent)
        return await self._runtime.pauses.pause(agent)

    async def resume(self, agent: str) -> PauseChange:
        """Raises `AgentNotFound`."""
        self._token.check_agent(agent)
        return await self._runtime.pauses.resume(agent)

    async def pairs(self, *, agent: str | None) -> Sequence[PairingView]:
        pairs = self._runtime.access.pairs
        return await per_agent(self._token, agent, pairs, order=lambda one: (-one.asked_at, one.code))

    async def pair(self, code: str, *, admit: bool) -> PairingView:
        return await self._runtime.access.pair(code, admit=admit, by=self._by, agents=self._token.agents)

    async def unpair(self, principal: str, *, agent: str | None) -> Sequence[str]:
        """Revoke the decision about a principal; without an agent, for each of the token's agents."""
        who, where = check_part("principal", principal), None if agent is None else agent_name(agent)
        return await per_agent(self._token, where, partial(self._runtime.access.unpair, who, by=self._by), order=str)


async def per_agent(
    token: AccessToken,
    agent: str | None,
    read: Callable[..., Awaitable[Sequence[T]]],
    *,
    order: Callable[[T], Any],
    reverse: bool = False,
) -> Sequence[T]:
    """What `read` finds for an agent, or for each of the token's agents, in one list."""
    if not token.agents:
        return await read(agent=agent)
    wanted = sorted(token.agents if agent is None else token.agents & {agent})
    return sorted([one for name in wanted for one in await read(agent=name)], key=order, reverse=reverse)


async def filled(
    read: Callable[..., Awaitable[Sequence[T]]],
    keep: Callable[[Sequence[T]], Sequence[T]],
    place: Callable[[T], object],
    *,
    after: object,
    limit: int,
) -> Sequence[T]:
    """A page of what `keep` keeps, from as many pages as it takes to find `limit`."""
    found: list[T] = []
    size = limit
    while True:
        page = await read(after=after, limit=size)
        found += keep(page)
        if len(found) >= limit or len(page) < size:
            return found[:limit]
        after, size = place(page[-1]), PAGE
