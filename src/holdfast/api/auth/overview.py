"""The overview: what an access token's agents have in all of their chats. A bound token has no overview (viewer.py).

For a token that names agents, data of any other agent does not exist. Other agents do not use up the limit of a list.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from holdfast.api.auth.access_token import AccessToken
from holdfast.inbox.access import PairingView
from holdfast.inbox.address import agent_name, check_part
from holdfast.inbox.channel_status import ChannelStatus, ToolServerStatus
from holdfast.kernel.errors import ReplyNotFound
from holdfast.kernel.ids import AgentName, ReplyId
from holdfast.memory.delivery import DeliveryView
from holdfast.outbox.reply import PostedReply
from holdfast.outbox.reply_sql import list_replies, read_reply
from holdfast.runtime.runtime import Runtime
from holdfast.turns.spend_sql import SpendTotal, sum_spend_by_model

PAGE = 1_000
T = TypeVar("T")


class Overview:
    def __init__(self, runtime: Runtime, token: AccessToken) -> None:
        self._runtime = runtime
        self._token = token
        self._by = f"token:{token.id}"

    def channels(self) -> Sequence[ChannelStatus]:
        return [one for one in self._runtime.channel_registry.statuses() if self._token.sees(one.agent)]

    def tool_servers(self) -> Sequence[ToolServerStatus]:
        return [one for one in self._runtime.tool_servers() if self._token.sees(one.agent)]

    async def spend(self, *, days: int, agent: AgentName | None) -> Sequence[SpendTotal]:
        found = await self._runtime.db.read(sum_spend_by_model(days=days, agent=agent))
        return [one for one in found if self._token.sees(one.agent)]

    async def deliveries(self, *, after: int, limit: int, **wanted: str | None) -> Sequence[DeliveryView]:
        async def read(after: int, limit: int) -> Sequence[DeliveryView]:
            return await self._runtime.deliveries(**wanted, after=after, limit=limit)

        def seen(page: Sequence[DeliveryView]) -> Sequence[DeliveryView]:
            return [one for one in page if self._token.sees(one.agent)]

        if not self._token.agents:
            return await read(after, limit)
        return await filled(read, seen, lambda one: one.n, after=after, limit=limit)

    async def replies(
        self, *, agent: str | None, after: int, limit: int, **wanted: str | None
    ) -> Sequence[PostedReply]:
        async def read(name: str | None) -> Sequence[PostedReply]:
            return await self._runtime.db.read(list_replies(**wanted, agent=name, after=after, limit=limit))

        return (await per_agent(self._token, agent, read, order=lambda one: -one.n))[:limit]

    async def resend(self, reply: ReplyId) -> PostedReply:
        """Raises `ReplyNotFound`."""
        if not self._token.sees((await self._runtime.db.read(read_reply(reply))).agent):
            raise ReplyNotFound(f"there is no reply {reply[:80]!r}", reply=reply[:80])
        return await self._runtime.resend(reply)

    async def pairs(self, *, agent: str | None) -> Sequence[PairingView]:
        async def read(name: str | None) -> Sequence[PairingView]:
            return await self._runtime.access.pairs(agent=name)

        return await per_agent(self._token, agent, read, order=lambda one: (-one.asked_at, one.code))

    async def pair(self, code: str, *, admit: bool) -> PairingView:
        return await self._runtime.access.pair(code, admit=admit, by=self._by, agents=self._token.agents)

    async def unpair(self, principal: str, *, agent: str | None) -> Sequence[str]:
        """Revoke the decision about a principal; without an agent, for each of the token's agents."""
        who, where = check_part("principal", principal), None if agent is None else agent_name(agent)

        async def revoke(name: str | None) -> Sequence[str]:
            return await self._runtime.access.unpair(who, agent=name, by=self._by)

        return await per_agent(self._token, where, revoke, order=str)


async def per_agent(
    token: AccessToken,
    agent: str | None,
    read: Callable[[str | None], Awaitable[Sequence[T]]],
    *,
    order: Callable[[T], Any],
    reverse: bool = False,
) -> Sequence[T]:
    """What an agent has, or each of the token's agents, in one list."""
    if not token.agents:
        return await read(agent)
    wanted = sorted(token.agents if agent is None else token.agents & {agent})
    return sorted([one for name in wanted for one in await read(name)], key=order, reverse=reverse)


async def filled(
    read: Callable[[Any, int], Awaitable[Sequence[T]]],
    keep: Callable[[Sequence[T]], Sequence[T]],
    place: Callable[[T], object],
    *,
    after: object,
    limit: int,
) -> Sequence[T]:
    """A page of what `keep` keeps, from as many pages as it takes to find `limit`."""
    found: list[T] = []
    while len(found) < limit:
        page = await read(after, PAGE)
        found += keep(page)
        if len(page) < PAGE:
            break
        after = place(page[-1])
    return found[:limit]
