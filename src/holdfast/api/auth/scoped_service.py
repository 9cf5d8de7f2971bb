"""The service as seen by a token that names agents: data of any other agent does not exist.

Rule 1: a method that is not listed here is refused (`ScopeRequired`), so a new method is closed by default.
Rule 2: data of another agent and data that does not exist get the same answer.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from holdfast.api.auth.access_token import AccessToken
from holdfast.api.routes.approvals import AgentScopedApprovals
from holdfast.api.routes.replies import AgentScopedReplies
from holdfast.inbox.access import PairingView
from holdfast.inbox.access_control import AccessControl
from holdfast.inbox.address import agent_name, check_part, parse
from holdfast.inbox.channel_status import ChannelStatus, ToolServerStatus
from holdfast.inbox.mailbox import MailboxView
from holdfast.inbox.message import BY_HUMAN, AcceptOutcome, Origin
from holdfast.inbox.message_trace import EnclosureView, MessageTrace
from holdfast.kernel.errors import (
    AgentNotFound,
    ForgetNotFound,
    InvalidInput,
    MessageNotFound,
    ScopeRequired,
    SessionNotFound,
)
from holdfast.kernel.ids import AgentName, ForgetId, MessageId, Principal, SessionId
from holdfast.kernel.notifier import Feed
from holdfast.memory.delivery import DeliveryView
from holdfast.memory.forget import ForgetKind, Forgetting
from holdfast.memory.recall import RecallOutcome
from holdfast.runtime.runtime import Runtime
from holdfast.runtime.views import Delta, Health, Prompt
from holdfast.sessions.compression import Operation, Summary
from holdfast.sessions.session import ChatLine, Session, no_place_after
from holdfast.turns.context import Context
from holdfast.turns.journal import EntryView
from holdfast.turns.spend import SpendTotal

PAGE = 1_000


class AgentScopedAccess:
    """Implements the part of `AccessControl` that concerns single agents: their pairing requests and the decisions."""

    def __init__(self, access: AccessControl, token: AccessToken) -> None:
        self._inner = access
        self._token = token

    def __getattr__(self, name: str) -> NoReturn:
        refuse(name)

    async def pairs(self, *, agent: str | None = None) -> Sequence[PairingView]:
        found = [one for name in self._wanted(agent) for one in await self._inner.pairs(agent=name)]
        return sorted(found, key=lambda one: (-one.asked_at, one.code))

    async def pair(self, code: str, *, admit: bool = True, by: str = "operator") -> PairingView:
        return await self._inner.pair(code, admit=admit, by=by, agents=self._token.agents)

    async def unpair(self, principal: str, *, agent: str | None = None, by: str = "operator") -> Sequence[str]:
        """Without an agent, for each of the token's agents."""
        who = check_part("principal", principal)
        return [gone for name in self._wanted(agent) for gone in await self._inner.unpair(who, agent=name, by=by)]

    def _wanted(self, agent: str | None) -> Sequence[str]:
        """The agents that a request concerns. Raises `InvalidName` for an invalid name, as `AccessControl` does."""
        if agent is None:
            return sorted(self._token.agents)
        return [one for one in [agent_name(agent)] if self._token.sees(one)]


class AgentScopedService:
    """Implements the part of `Runtime` that a token for some agents may use."""

    def __init__(self, service: Runtime, token: AccessToken) -> None:
        self._inner = service
        self._token = token
        self.approvals = AgentScopedApprovals(service.approvals, token)
        self.replies = AgentScopedReplies(service.replies, token)
        self.access = AgentScopedAccess(service.access, token)

    def __getattr__(self, name: str) -> NoReturn:
        refuse(name)

    def agents(self) -> Sequence[str]:
        return sorted(self._token.agents)

    @property
    def default_agent(self) -> str:
        """The service's default agent, or the token's only agent if the token does not see the default one."""
        usual = self._inner.default_agent
        only = next(iter(self._token.agents))
        return only if len(self._token.agents) == 1 and not self._token.sees(usual) else usual

    def _whom(self, agent: str | None) -> str:
        """Raises `AgentNotFound`."""
        whom = self.default_agent if agent is None else agent
        check_agent(self._token, whom)
        return whom

    async def health(self) -> Health:
        return await self._inner.health()

    def channels(self) -> Sequence[ChannelStatus]:
        return [one for one in self._inner.channels() if self._token.sees(one.agent)]

    def tool_servers(self) -> Sequence[ToolServerStatus]:
        return [one for one in self._inner.tool_servers() if self._token.sees(one.agent)]

    def new_message(self) -> MessageId:
        return self._inner.new_message()

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
        request: str = "",
    ) -> AcceptOutcome:
        whom = self._whom(agent)
        with hiding_other_agents(whom):
            return await self._inner.accept(
                chat,
                text,
                agent=whom,
                sender=sender,
                id=id,
                channel=channel,
                message=message,
                origin=origin,
                request=request,
            )

    async def unanswered(
        self, chat: str, request: str, *, agent: str | None = None, channel: str = "http"
    ) -> MessageId | None:
        return await self._inner.unanswered(chat, request, agent=self._whom(agent), channel=channel)

    def listen(self, *, message: str | None = None, mailbox: str | None = None) -> Feed:
        """Ids cannot be guessed; a caller that has one was allowed to see it."""
        if message is None and mailbox is None:
            refuse("events")
        return self._inner.listen(message=message, mailbox=mailbox)

    def follow(self, message: MessageId, feed: Feed) -> AsyncIterator[Delta]:
        return self._inner.follow(message, feed)

    async def trace(self, message: MessageId) -> MessageTrace:
        return self._own(await self._inner.trace(message))

    async def message(self, message: MessageId) -> MessageTrace:
        return self._own(await self._inner.message(message))

    def _own(self, found: MessageTrace) -> MessageTrace:
        if not self._token.sees(found.agent):
            raise MessageNotFound(f"no message {found.message!r} was accepted here", message=found.message)
        return found

    async def sessions(
        self,
        *,
        agent: str | None = None,
        chat: str | None = None,
        channel: str = "http",
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Session]:
        """Sessions of the token's agents, newest first."""
        await self._check_place(after)
        if agent is not None or chat is not None:
            wanted = [name for name in [self.default_agent if agent is None else agent] if self._token.sees(name)]
        else:
            wanted = sorted(self._token.agents)
        found: list[Session] = []
        for name in wanted:
            found += await self._inner.sessions(agent=name, chat=chat, channel=channel, after=after, limit=limit)
        found.sort(key=lambda one: (one.opened_at, one.id), reverse=True)
        return found[:limit]

    async def _check_place(self, after: str) -> None:
        """Raises `SessionNotFound` for another agent's session, as for a session that does not exist."""
        if after:
            try:
                await self.session(SessionId(after))
            except SessionNotFound:
                raise no_place_after(after) from None

    async def history(self, session: SessionId, *, after: int = 0, limit: int = 200) -> Sequence[EntryView]:
        await self.session(session)
        return await self._inner.history(session, after=after, limit=limit)

    async def context(self, session: SessionId) -> Context:
        await self.session(session)
        return await self._inner.context(session)

    async def prompt(self, session: SessionId) -> Prompt:
        found = await self.session(session)
        with hiding_other_agents(found.agent):
            return await self._inner.prompt(session)

    async def begin_compression(self, session: SessionId) -> Operation:
        found = await self.session(session)
        with hiding_other_agents(found.agent):
            return await self._inner.begin_compression(session)

    async def recall(
        self, text: str, *, agent: str | None = None, chat: str = "", sender: str | None = None, channel: str = "http"
    ) -> RecallOutcome:
        whom = self._whom(agent)
        with hiding_other_agents(whom):
            return await self._inner.recall(text, agent=whom, chat=chat, sender=sender, channel=channel)

    async def deliveries(
        self, *, provider: str | None = None, state: str | None = None, after: int = 0, limit: int = 100
    ) -> Sequence[DeliveryView]:
        """Deliveries of the token's agents, from as many pages as it takes to find `limit`."""
        found: list[DeliveryView] = []
        while len(found) < limit:
            page = await self._inner.deliveries(provider=provider, state=state, after=after, limit=PAGE)
            found += [one for one in page if self._token.sees(one.agent)]
            if len(page) < PAGE:
                break
            after = page[-1].n
        return found[:limit]

    async def forget(
        self, *, session: str | None = None, person: str | None = None, agent: str | None = None, id: str | None = None
    ) -> Forgetting:
        if session is not None:
            await self.session(SessionId(session))
        if agent is not None:
            check_agent(self._token, agent)
        elif person is not None:
            raise ScopeRequired("this token is for some agents only: say which of them is to forget, with `agent`")
        return await self._inner.forget(session=session, person=person, agent=agent, id=id)

    async def forget_status(self, id: str) -> Forgetting:
        found = await self._inner.forget_status(id)
        agent = found.agent
        if agent is None and found.kind is ForgetKind.SESSION:
            agent = (await self._inner.session(SessionId(found.subject))).agent
        if agent is None or not self._token.sees(agent):
            raise ForgetNotFound(f"nothing was asked to be forgotten under {id!r}", forget=ForgetId(id))
        return found

    async def mailbox(self, address: str) -> MailboxView | None:
        check_agent(self._token, parse(address).agent)
        return await self._inner.mailbox(address)

    async def conversation(self, address: str, *, before: int, limit: int) -> Sequence[ChatLine]:
        check_agent(self._token, parse(address).agent)
        return await self._inner.conversation(address, before=before, limit=limit)

    async def linked(self, principal: Principal) -> Sequence[Principal]:
        """Used to check for whom a caller may speak; links belong to no agent and are not shown."""
        return await self._inner.linked(principal)

    async def session(self, session: SessionId) -> Session:
        found = await self._inner.session(session)
        if not self._token.sees(found.agent):
            raise SessionNotFound(f"there is no session {session}", session=session)
        return found

    async def find_attachment(self, hash: str, *, agent: str | None = None) -> EnclosureView | None:
        """The attachment under the name that it has for the first of the token's agents that received it."""
        for name in sorted(self._token.agents if agent is None else self._token.agents & {agent}):
            found = await self._inner.find_attachment(hash, agent=name)
            if found is not None:
                return found
        return None

    async def read_attachment(self, hash: str) -> bytes | None:
        return None if await self.find_attachment(hash) is None else await self._inner.read_attachment(hash)

    async def snapshot(self, session: SessionId, n: int) -> tuple[Summary, Sequence[EntryView]]:
        await self.session(session)
        return await self._inner.snapshot(session, n)

    async def spend(self, *, days: int = 1, agent: AgentName | None = None) -> Sequence[SpendTotal]:
        found = await self._inner.spend(days=days, agent=agent)
        return [one for one in found if self._token.sees(one.agent)]

    async def operations(
        self, *, session: SessionId | None = None, after: str = "", limit: int = 1_000
    ) -> Sequence[Operation]:
        if session is None:
            raise InvalidInput("this token is for some agents only: say whose operations, with `session`")
        await self.session(session)
        return await self._inner.operations(session=session, after=after, limit=limit)


def check_agent(token: AccessToken, agent: str) -> None:
    """Raises `AgentNotFound`."""
    if not token.sees(agent):
        known = ", ".join(sorted(token.agents))
        raise AgentNotFound(f"this token knows no agent {agent[:80]!r}; it is for {known}")


@contextmanager
def hiding_other_agents(agent: str) -> Iterator[None]:
    """Reword `AgentNotFound` for an agent that the token names but that is not configured: other agents stay hidden."""
    try:
        yield
    except AgentNotFound as error:
        raise AgentNotFound(f"there is no agent {agent[:80]!r} any more") from error


def refuse(what: str) -> NoReturn:
    raise ScopeRequired(f"this needs a token for all agents, not for some of them ({what})")
